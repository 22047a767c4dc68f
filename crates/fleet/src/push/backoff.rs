//! When to try again.

use std::time::Duration;

/// The first wait, and the longest.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// A store that asks for more gets this.
const LONGEST_ASKED: Duration = Duration::from_secs(600);
/// Largest deviation of an interval from its length, as a part of it.
const JITTER: f64 = 0.1;

#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// How long to wait after a failure: twice as long each time, and a half of it by chance, so that a fleet does not
    /// come back at once. `asked`: the wait for which the store asks. `chance`: from 0 to 1.
    pub fn wait(&mut self, asked: Option<Duration>, chance: f64) -> Duration {
        let doubled = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let own = doubled.mul_f64(0.5 + chance.clamp(0.0, 1.0) / 2.0);
        own.max(asked.unwrap_or_default().min(LONGEST_ASKED))
    }
}

/// An interval, a tenth longer or shorter by chance. `chance`: from 0 to 1.
pub fn spread(every: Duration, chance: f64) -> Duration {
    every.mul_f64(1.0 + JITTER * (2.0 * chance.clamp(0.0, 1.0) - 1.0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Backoff, spread};

    #[test]
    fn waits_double_up_to_a_minute_and_heed_the_store() {
        let mut backoff = Backoff::default();
        let waits: Vec<f64> = (0..8).map(|_| backoff.wait(None, 1.0).as_secs_f64()).collect();
        assert_eq!(waits, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]);
        backoff.reset();
        assert_eq!(backoff.wait(None, 0.0), Duration::from_millis(500));
        assert_eq!(backoff.wait(Some(Duration::from_secs(30)), 1.0), Duration::from_secs(30));
        assert_eq!(backoff.wait(Some(Duration::from_secs(99_999)), 1.0), Duration::from_secs(600));
        (0..100).for_each(|_| assert!(backoff.wait(None, 1.0) <= Duration::from_secs(60)));
    }

    #[test]
    fn a_fleet_is_spread() {
        let every = Duration::from_secs(10);
        assert_eq!(spread(every, 0.0).as_millis(), 9000);
        assert_eq!(spread(every, 1.0).as_millis(), 11_000);
    }
}
