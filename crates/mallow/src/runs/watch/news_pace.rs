//! How often a watch without a live view looks for news.

use std::time::{Duration, Instant};

use mallow_capture::pace::cpu_time;

/// Shortest time between two looks.
const LEAST: Duration = Duration::from_secs(2);
/// The share of a processor that it takes, as a divisor.
const SHARE: u32 = 50;
/// Longest time between two looks, whatever they cost: the last one says what was live while the program ran.
const MOST: Duration = Duration::from_secs(10);

pub struct NewsPace {
    next: Instant,
}

impl Default for NewsPace {
    fn default() -> Self {
        Self { next: Instant::now() + LEAST }
    }
}

impl NewsPace {
    pub fn is_due(&self) -> bool {
        Instant::now() >= self.next
    }

    /// Looks; what that costs says when the next look is due. On a busy machine it takes longer, and costs no more.
    pub fn time(&mut self, look: impl FnOnce()) {
        let began = cpu_time();
        look();
        self.next = Instant::now() + pause(cpu_time().saturating_sub(began));
    }
}

fn pause(cost: Duration) -> Duration {
    cost.saturating_mul(SHARE).clamp(LEAST, MOST)
}

#[cfg(test)]
mod tests {
    use super::{Duration, pause};

    #[test]
    fn a_costly_look_puts_the_next_one_off_and_not_for_ever() {
        let seconds = [0, 100, 3000].map(|cost| pause(Duration::from_millis(cost)).as_secs());
        assert_eq!(seconds, [2, 5, 10]);
    }
}
