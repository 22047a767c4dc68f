//! The most live bytes of the last second.

use mallow_profile::RecentLive;
use std::collections::VecDeque;

/// How many milliseconds back live bytes are known.
const RECENT_MS: u64 = 1000;

/// The most live bytes of the last second, event by event: a look every 20 ms misses what a program frees between two
/// of them, as in the last millisecond before its exit.
#[derive(Clone, Debug, Default)]
pub struct RecentHigh {
    /// Millisecond of the last event; `high` is the most that was live in it.
    ms: u64,
    high: u64,
    /// Earlier milliseconds with their highs, each higher than those after it.
    before: VecDeque<RecentLive>,
}

impl RecentHigh {
    /// An event comes at `ms`; until then, so many bytes were live.
    #[inline]
    pub fn event(&mut self, ms: u64, live_bytes: impl FnOnce() -> u64) {
        if ms > self.ms {
            self.turn(ms, live_bytes());
        }
    }

    /// So many bytes are live since the last event.
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

    /// The most that was live in the second before `ms`, and when it was that much last. `live_bytes` are live now:
    /// nothing has happened since the last event.
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
