//! Live bytes at the moments at which RSS was looked at.
//!
//! The replay is behind the reader: a look comes while events before it still wait in rings. So each look says how far
//! each ring was written, as a reading of the memory does, and has its live bytes once the replay has come there.

use super::ring::{Ring, is_past};
use std::collections::VecDeque;

/// Rounds that a look waits for words that never come.
const PATIENCE: u32 = 4;

/// RSS at a moment, as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Milliseconds since the recording began.
    pub ms: u64,
    pub rss: u64,
    /// Highest RSS so far.
    pub peak: u64,
}

#[derive(Debug)]
struct Waiting {
    /// How far each ring was written, by its number: words since the ring began.
    heads: Vec<u64>,
    /// Number of the reading that begins here; None: the look is without one.
    reading: Option<u64>,
    /// None: the reading goes on.
    seen: Option<Seen>,
    /// None: the replay is not there yet.
    live_bytes: Option<u64>,
    rounds: u32,
}

/// Looks at a process that wait for the replay, by time.
#[derive(Debug, Default)]
pub struct Looks {
    waiting: VecDeque<Waiting>,
}

impl Looks {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a look that was made while rings were written so far.
    pub fn add(&mut self, heads: &[u64], seen: Seen) {
        self.push(heads, None, Some(seen));
    }

    /// Adds the begin of a reading, or of its next attempt, while rings are written so far.
    pub fn reading_begins(&mut self, number: u64, heads: &[u64]) {
        self.push(heads, Some(number), None);
    }

    /// Takes what the reading of this number saw. False: its begin is not known.
    pub fn reading_saw(&mut self, number: u64, seen: Seen) -> bool {
        let own = self.waiting.iter_mut().rev().find(|look| look.reading == Some(number));
        own.map(|look| look.seen = Some(seen)).is_some()
    }

    fn push(&mut self, heads: &[u64], reading: Option<u64>, seen: Option<Seen>) {
        // One reader makes all of them, one after the other: a reading without an end has failed.
        self.waiting.retain(|look| look.seen.is_some());
        self.waiting.push_back(Waiting { heads: heads.to_vec(), reading, seen, live_bytes: None, rounds: 0 });
    }

    pub fn age(&mut self) {
        self.waiting.iter_mut().for_each(|look| look.rounds += 1);
    }

    /// How many waiting words of a ring come before the next look; None: no look is ahead.
    pub fn words_to_next(&self, ring: &Ring) -> Option<usize> {
        let ahead = self.waiting.iter().filter(|look| look.live_bytes.is_none());
        let head = |look: &Waiting| look.heads.get(ring.number as usize).copied().unwrap_or_default();
        let next = ahead.filter_map(|look| ring.words_to(head(look))).filter(|&words| words > 0).min()?;
        Some(ring.whole_records(next))
    }

    /// Takes out what was seen in looks that the replay has come to, with the bytes that were live then; `live_bytes`
    /// are live now. `is_last`: more does not come.
    pub fn settle(&mut self, rings: &[Ring], live_bytes: u64, is_last: bool) -> Vec<(Seen, u64)> {
        for look in self.waiting.iter_mut().filter(|look| look.live_bytes.is_none()) {
            if is_last || look.rounds > PATIENCE || is_past(&look.heads, rings) {
                look.live_bytes = Some(live_bytes);
            }
        }
        let mut settled = Vec::new();
        while let Some(look) = self.waiting.front() {
            match (look.seen, look.live_bytes) {
                (Some(seen), Some(live_bytes)) => settled.push((seen, live_bytes)),
                (None, _) if is_last => {}
                _ => break,
            }
            self.waiting.pop_front();
        }
        settled
    }
}
