//! Live bytes at the moments at which RSS was looked at.
//!
//! The replay is behind the reader: a look comes while events before it still wait in rings. So each look says how far each ring was
//! written, as a reading of the memory does, and has its live bytes once the replay has come there.

use super::ring::Ring;
use super::window::is_past;
use mallow_profile::RecentLive;
use std::collections::VecDeque;

/// Rounds that a look waits for words that never come.
const PATIENCE: u32 = 4;
/// How far back the most live bytes are known, in milliseconds.
const RECENT_MS: u64 = 1000;

/// RSS at a moment, as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Milliseconds since the recording began.
    pub ms: u64,
    /// RSS.
    pub rss: u64,
    /// The highest so far.
    pub peak: u64,
}

#[derive(Debug)]
struct Waiting {
    /// How far each ring was written.
    heads: Vec<u64>,
    /// The reading that begins here; None: a look without one.
    reading: Option<u64>,
    /// What was seen; None: the reading goes on.
    seen: Option<Seen>,
    /// Live bytes; None: the replay is not there yet.
    live_bytes: Option<u64>,
    rounds: u32,
}

/// Looks at a process that wait for the replay, by time.
#[derive(Debug, Default)]
pub struct Looks {
    waiting: VecDeque<Waiting>,
}

impl Looks {
    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Somebody looked when rings were written so far.
    pub fn add(&mut self, heads: &[u64], seen: Seen) {
        self.push(heads, None, Some(seen));
    }

    /// A reading begins when rings are written so far: the first or the next attempt.
    pub fn reading_begins(&mut self, number: u64, heads: &[u64]) {
        self.push(heads, Some(number), None);
    }

    /// What that reading saw. False: its begin is not known.
    pub fn reading_saw(&mut self, number: u64, seen: Seen) -> bool {
        let own = self.waiting.iter_mut().rev().find(|look| look.reading == Some(number));
        own.map(|look| look.seen = Some(seen)).is_some()
    }

    fn push(&mut self, heads: &[u64], reading: Option<u64>, seen: Option<Seen>) {
        // One reader makes all of them, one after the other: a reading without an end has failed.
        self.waiting.retain(|look| look.seen.is_some());
        self.waiting.push_back(Waiting { heads: heads.to_vec(), reading, seen, live_bytes: None, rounds: 0 });
    }

    /// A round is over.
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

    /// So many bytes are live now: what was seen, with the live bytes of that moment, of looks that the replay has come to. `is_last`: more
    /// does not come.
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

/// The most live bytes of the last second, event by event: a look every 20 ms misses what a program frees between two of them, as in the
/// last millisecond before its exit.
#[derive(Clone, Debug, Default)]
pub struct RecentHigh {
    /// The millisecond of the last event, and the most that was live in it.
    ms: u64,
    high: u64,
    /// Earlier ones with their highs, each higher than those after it.
    before: VecDeque<RecentLive>,
}

impl RecentHigh {
    /// An event comes at this time. Until then, so many bytes were live.
    #[inline]
    pub fn event(&mut self, ms: u64, live_bytes: impl FnOnce() -> u64) {
        if ms > self.ms {
            self.turn(ms, live_bytes());
        }
    }

    /// More is live since that event.
    #[inline]
    pub fn rise(&mut self, live_bytes: u64) {
        self.high = self.high.max(live_bytes);
    }

    fn turn(&mut self, ms: u64, live_bytes: u64) {
        while self.before.back().is_some_and(|last| last.bytes <= self.high) {
            self.before.pop_back();
        }
        self.before.push_back(RecentLive { ms: self.ms, bytes: self.high });
        while self.before.front().is_some_and(|first| first.ms.saturating_add(RECENT_MS) < ms) {
            self.before.pop_front();
        }
        (self.ms, self.high) = (ms, live_bytes);
    }

    /// The most that was live in the second before this time, and when it was that much last. Nothing has happened since the last event.
    pub fn at(&self, ms: u64, live_bytes: u64) -> RecentLive {
        let is_recent = |of: u64| of.saturating_add(RECENT_MS) >= ms;
        let now = RecentLive { ms, bytes: live_bytes };
        let last = RecentLive { ms: self.ms.min(ms), bytes: self.high };
        let all = self.before.iter().copied().chain([last]).filter(|one| is_recent(one.ms)).chain([now]);
        all.max_by_key(|one| (one.bytes, one.ms)).unwrap_or(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that are live after each event.
    fn high(events: &[(u64, u64)], at: u64) -> (u64, u64) {
        let (mut recent, mut live) = (RecentHigh::default(), 0);
        for &(ms, after) in events {
            recent.event(ms, || live);
            recent.rise(after);
            live = after;
        }
        let RecentLive { ms, bytes } = recent.at(at, live);
        (ms, bytes)
    }

    #[test]
    fn what_was_live_until_an_event_was_live_at_its_time() {
        assert_eq!(high(&[], 9), (9, 0));
        assert_eq!(high(&[(5, 100)], 9), (9, 100));
        assert_eq!(high(&[(5, 100), (5, 700), (5, 10)], 9), (5, 700));
        // Held for long, and freed in the last second.
        assert_eq!(high(&[(5, 100), (5000, 30)], 5400), (5000, 100));
        assert_eq!(high(&[(5, 100), (5000, 30)], 6001), (6001, 30));
        // The higher one is older.
        let falls = [(1000, 100), (1400, 80), (1900, 60), (2000, 70), (2100, 5)];
        assert_eq!(high(&falls, 2100), (1400, 100));
        assert_eq!(high(&falls, 2400), (1400, 100));
        assert_eq!(high(&falls, 2401), (1900, 80));
        assert_eq!(high(&falls, 2901), (2100, 70));
        assert_eq!(high(&falls, 3200), (3200, 5));
    }
}
