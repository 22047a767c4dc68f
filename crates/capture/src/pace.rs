//! How often mallow looks at what it can only poll: a look costs the target's machine processor time, and may hold
//! locks of the target.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// The share of a processor that looks take which find nothing: one in so many.
const SHARE: u32 = 100;
/// The share of a processor that looks take which find something: one in so many, as more may follow at once.
const SHARE_OF_FINDS: u32 = 10;
/// The longest time between two looks, whatever the last one cost.
const MOST: Duration = Duration::from_secs(5);

/// A look that has begun, in the thread that ends it.
#[derive(Debug)]
pub(crate) struct Look {
    /// Processor time of the thread when the look began.
    began: Duration,
}

/// When the next look is due.
#[derive(Debug)]
pub(crate) struct Pace {
    least: Duration,
    /// When the next look is due; None: at once.
    next: Option<Instant>,
}

impl Pace {
    /// `least` is the time between two looks at least.
    pub fn new(least: Duration) -> Self {
        Self { least, next: None }
    }

    /// A look, if one is due.
    pub fn begin(&self) -> Option<Look> {
        let is_due = self.next.is_none_or(|next| Instant::now() >= next);
        is_due.then(|| Look { began: cpu_time() })
    }

    /// Ends a look: the processor time that it took says when the next one is due, sooner where it `has_found`
    /// something.
    pub fn end(&mut self, look: Look, has_found: bool) {
        let cost = cpu_time().saturating_sub(look.began);
        self.next = Some(Instant::now() + self.pause(cost, has_found));
    }

    fn pause(&self, cost: Duration, has_found: bool) -> Duration {
        let share = if has_found { SHARE_OF_FINDS } else { SHARE };
        self.least.max(cost.saturating_mul(share).min(MOST))
    }
}

/// Processor time of this thread: on a busy machine a look takes longer, and costs no more.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_costly_look_puts_the_next_one_off() {
        let pace = Pace::new(Duration::from_millis(100));
        let pause = |cost, has_found| pace.pause(Duration::from_millis(cost), has_found).as_millis();
        assert_eq!((pause(0, false), pause(5, false), pause(200, false)), (100, 500, 5000));
        assert_eq!((pause(0, true), pause(5, true), pause(200, true)), (100, 100, 2000));
    }

    #[test]
    fn the_first_look_is_due_at_once_and_the_next_one_later() {
        let mut pace = Pace::new(Duration::from_secs(3600));
        let look = pace.begin().unwrap();
        pace.end(look, true);
        assert!(pace.begin().is_none());
    }
}
