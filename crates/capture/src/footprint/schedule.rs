//! When the memory of a process is read: at each new maximum of its RSS, and where it changed since. Reading takes the lock that the
//! process's mmap takes, so all readings together may take a hundredth of the process's time.

use std::time::Duration;

/// A new maximum, or a change, is so much: the RSS divided by this.
const STEP: u64 = 20;
/// Maxima are read so often on average, and so many at once: the first tenths of a second are all that many programs have.
const BETWEEN_MAXIMA: Duration = Duration::from_millis(100);
const MAXIMA_AT_ONCE: u32 = 5;
/// From one reading to the next that is not of a maximum.
const BETWEEN_CHANGES: Duration = Duration::from_secs(1);
/// Share of the process's time that readings may take, and what a process that began with exec has from its start on: one that lives
/// for a second has a reading or two at any RSS up to some hundred megabytes.
const SHARE: u32 = 100;
const CREDIT: Duration = Duration::from_millis(5);
/// What a reading is expected to take as long as none was made: at the least, and for each mebibyte.
const EXPECTED: Duration = Duration::from_micros(300);
const EXPECTED_A_MEBIBYTE: Duration = Duration::from_micros(16);

/// Why a process is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its RSS is a twentieth above the highest that was read.
    Highest,
    /// Its RSS is another one than when it was read last.
    Change,
}

/// Of one process. Times are since any moment before its start.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    began: Duration,
    credit: Duration,
    spent: Duration,
    /// When it was read last, its RSS then, and how long that took.
    last: Option<(Duration, u64, Duration)>,
    highest: u64,
    readings: u32,
}

impl Schedule {
    /// Of a process that was found at this time. One that began with fork has no credit: many of them live for milliseconds.
    pub fn new(now: Duration, forked: bool) -> Self {
        let credit = if forked { Duration::ZERO } else { CREDIT };
        Self { began: now, credit, spent: Duration::ZERO, last: None, highest: 0, readings: 0 }
    }

    /// Whether it is to be read now, with this RSS.
    pub fn due(&self, now: Duration, rss: u64) -> Option<Reason> {
        let budget = now.saturating_sub(self.began) / SHARE + self.credit;
        let after = self.spent.saturating_add(self.expected(rss));
        let Some((at, last, _)) = self.last else {
            return (rss > 0 && after <= budget).then_some(Reason::Highest);
        };
        let since = now.saturating_sub(at);
        if rss > self.highest.saturating_add(self.highest / STEP) {
            let earned = self.readings.saturating_sub(MAXIMA_AT_ONCE);
            let is_seldom = now.saturating_sub(self.began) >= BETWEEN_MAXIMA * earned;
            return (is_seldom && after <= budget).then_some(Reason::Highest);
        }
        // The other half is for maxima.
        let is_change = rss.abs_diff(last) > last / STEP;
        (is_change && since >= BETWEEN_CHANGES && after <= budget / 2).then_some(Reason::Change)
    }

    /// It was read, which took so long.
    pub fn read(&mut self, now: Duration, rss: u64, took: Duration) {
        self.spent = self.spent.saturating_add(took);
        self.last = Some((now, rss, took));
        self.highest = self.highest.max(rss);
        self.readings = self.readings.saturating_add(1);
    }

    /// How long a reading may take.
    fn expected(&self, rss: u64) -> Duration {
        let whole = |rss: u64| EXPECTED + EXPECTED_A_MEBIBYTE * u32::try_from(rss >> 20).unwrap_or(u32::MAX);
        match self.last {
            // What more there is takes as long as it does anywhere.
            Some((_, last, took)) => took.saturating_add(whole(rss).saturating_sub(whole(last))),
            None => whole(rss),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn maxima_are_read_ten_times_a_second_and_changes_once() {
        let mut schedule = Schedule::new(ms(0), false);
        assert_eq!(schedule.due(ms(0), 0), None);
        assert_eq!(schedule.due(ms(1), 100 * MIB), Some(Reason::Highest));
        schedule.read(ms(1), 100 * MIB, ms(1));
        assert_eq!(schedule.due(ms(5000), 105 * MIB), None);
        assert_eq!(schedule.due(ms(101), 106 * MIB), Some(Reason::Highest));
        assert_eq!(schedule.due(ms(900), 90 * MIB), None);
        assert_eq!(schedule.due(ms(1001), 90 * MIB), Some(Reason::Change));
        schedule.read(ms(1001), 90 * MIB, ms(1));
        assert_eq!(schedule.due(ms(9000), 92 * MIB), None);
        assert_eq!(schedule.due(ms(9000), 106 * MIB), Some(Reason::Highest));
        let (mut schedule, mut rss) = (Schedule::new(ms(0), false), MIB);
        let read_until = |schedule: &mut Schedule, rss: &mut u64, until: std::ops::Range<u64>| {
            let mut count = 0;
            for now in until {
                *rss += *rss / 10;
                if schedule.due(ms(now), *rss).is_some() {
                    schedule.read(ms(now), *rss, Duration::from_micros(10));
                    count += 1;
                }
                *rss = (*rss).min(schedule.highest);
                *rss += *rss / 10;
            }
            count
        };
        assert_eq!(read_until(&mut schedule, &mut rss, 0..20), 6);
        assert_eq!(read_until(&mut schedule, &mut rss, 20..1020), 10);
    }

    #[test]
    fn all_readings_take_a_hundredth() {
        for (forked, credit) in [(false, ms(5)), (true, ms(0))] {
            let mut schedule = Schedule::new(ms(1000), forked);
            let (mut spent, mut rss) = (ms(0), 1 << 28);
            for now in 1000..61_000 {
                rss += rss / 500;
                rss = rss.min(4 << 30);
                let rss = rss - now % 7 * (rss / 20);
                if schedule.due(ms(now), rss).is_some() {
                    let took = EXPECTED_A_MEBIBYTE * (rss >> 20) as u32;
                    schedule.read(ms(now), rss, took);
                    spent += took;
                    assert!(spent <= (ms(now) - ms(1000)) / 100 + credit, "{now} {spent:?}");
                }
            }
            assert!(spent > ms(60_000) / 400, "{spent:?}");
        }
    }

    /// It takes what it takes: a reading that was slow makes the next one wait.
    #[test]
    fn a_slow_reading_is_paid_for() {
        let mut schedule = Schedule::new(ms(0), false);
        schedule.read(ms(100), MIB, ms(50));
        assert_eq!(schedule.due(ms(9000), 100 * MIB), None);
        assert_eq!(schedule.due(ms(10_000), 100 * MIB), Some(Reason::Highest));
    }
}
