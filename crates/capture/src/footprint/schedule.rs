//! When the memory of a process is read: at each new maximum of its RSS, and where it changed since. Reading takes the
//! lock that the process's mmap takes, so readings have a budget: a hundredth of the process's time. A maximum that
//! stays is worth more: what is not read then is never read.

use std::time::Duration;

use super::reading::HIGHER;

/// A new maximum, or a change, is one part in so many of RSS.
const STEP: u64 = 20;
/// RSS stands if it stays within one part in so many of itself for [`STANDS_FOR`].
const STANDS_WITHIN: u64 = 50;
const STANDS_FOR: Duration = Duration::from_millis(15);
/// A reading is of what RSS stands at if it stood for so long before it.
const SETTLED_FOR: Duration = Duration::from_millis(100);
/// After so long without a look, as on a machine with more work than processors, there may be no second one in time:
/// what is well above the highest is read at the first.
const SELDOM: Duration = Duration::from_millis(100);
/// Well above the highest that was read: by this part of it.
const WELL_ABOVE: u64 = 4;
/// Maxima are read so often on average, and so many at once: the first tenths of a second are all that many programs
/// have.
const BETWEEN_MAXIMA: Duration = Duration::from_millis(100);
const MAXIMA_AT_ONCE: u32 = 5;
/// Shortest time from a reading to one of a maximum that stands, and is not well above that.
const BETWEEN_STEPS: Duration = Duration::from_millis(100);
/// From one reading to the next that is not of a maximum: of RSS that changed, and of pages that were copied.
const BETWEEN_CHANGES: Duration = Duration::from_secs(1);
const BETWEEN_COPIES: Duration = Duration::from_millis(200);
/// The last reading is no older than this, and than this part of the process's age: blocks come and go, with RSS as it
/// is.
const BETWEEN_ANY: Duration = Duration::from_secs(10);
const AGED: u32 = 10;
/// Share of the process's time that readings may take, and what a process that began with exec has from its start on:
/// one that lives for a second has a reading or two at any RSS up to some hundred megabytes.
const SHARE: u32 = 100;
const CREDIT: Duration = Duration::from_millis(5);
/// [`SHARE`] and [`CREDIT`] where a maximum stands. Each reading well above the one before is as expensive as the
/// growth since, so that all of these together take no more than five times what the last one takes; this bounds that.
const STANDING_SHARE: u32 = 10;
const STANDING_CREDIT: Duration = Duration::from_millis(50);
/// What a reading is expected to take as long as none was made: at the least, and for each mebibyte.
const EXPECTED: Duration = Duration::from_micros(300);
const EXPECTED_A_MEBIBYTE: Duration = Duration::from_micros(16);

/// Why a process is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// RSS is a twentieth above the highest that was read, or nothing was read yet.
    Highest,
    /// RSS or the copied pages differ from the last reading's, or that is old, or was made while RSS grew.
    Change,
}

/// What a look at a process found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    pub rss: u64,
    /// Bytes of pages that the process got since it began, where it shares pages with a parent or a child; 0 elsewhere.
    pub copied: u64,
}

/// When to read one process. Times are since any moment before its start.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    began: Duration,
    credit: Duration,
    standing_credit: Duration,
    spent: Duration,
    /// When the last reading was made, what its look had found, and how much processor time it took.
    last: Option<(Duration, Look, Duration)>,
    highest: u64,
    readings: u32,
    /// When a look was taken last.
    looked: Duration,
    /// Since when RSS stands, and at how many bytes.
    stands: (Duration, u64),
    /// Since when the process copies no more pages, and how many bytes it had copied.
    copies: (Duration, u64),
    /// The last reading was made while RSS grew: what it found may have been of a moment.
    was_passing: bool,
}

impl Schedule {
    /// The schedule of a process that was found at `now`. One that began with fork has no credit: many live for
    /// milliseconds.
    pub fn new(now: Duration, forked: bool) -> Self {
        let credit = |credit| if forked { Duration::ZERO } else { credit };
        Self {
            began: now,
            credit: credit(CREDIT),
            standing_credit: credit(STANDING_CREDIT),
            spent: Duration::ZERO,
            last: None,
            highest: 0,
            readings: 0,
            looked: now,
            stands: (now, 0),
            copies: (now, 0),
            was_passing: false,
        }
    }

    /// Why the process is to be read now, when a look found this; None: it is not. To be called at each look.
    pub fn due(&mut self, now: Duration, look: Look) -> Option<Reason> {
        let rss = look.rss;
        let unseen = now.saturating_sub(self.looked);
        self.looked = now;
        if rss.abs_diff(self.stands.1) > self.stands.1 / STANDS_WITHIN {
            self.stands = (now, rss);
        }
        if look.copied.abs_diff(self.copies.1) > rss / STANDS_WITHIN {
            self.copies = (now, look.copied);
        }
        let age = now.saturating_sub(self.began);
        let budget = age / SHARE + self.credit;
        let after = self.spent.saturating_add(self.expected(rss));
        let Some((at, last, _)) = self.last else {
            return (rss > 0 && after <= budget).then_some(Reason::Highest);
        };
        let since = now.saturating_sub(at);
        if rss > self.highest.saturating_add(self.highest / STEP) {
            let earned = self.readings.saturating_sub(MAXIMA_AT_ONCE);
            let is_seldom = age >= BETWEEN_MAXIMA * earned;
            let is_in_budget = is_seldom && after <= budget;
            return (is_in_budget || self.is_worth_more(now, rss, [unseen, since], after)).then_some(Reason::Highest);
        }
        // Where what was read on the way there is left behind, the reading that stands for the maximum would be one of
        // later, when its blocks may be gone.
        let is_left_behind = self.was_passing && rss > self.highest.saturating_add(self.highest / HIGHER);
        if is_left_behind && self.is_worth_more(now, rss, [unseen, since], after) {
            return Some(Reason::Highest);
        }
        // The other half is for maxima.
        let is_affordable = after <= budget / 2;
        let has_changed = rss.abs_diff(last.rss) > last.rss / STEP && since >= BETWEEN_CHANGES;
        let copied = look.copied.saturating_sub(last.copied);
        // What it stands at was read on the way there: what grew may have been freed since, with RSS as it is.
        let has_settled = self.was_passing && self.stands_for(now) >= STANDS_FOR && since >= BETWEEN_STEPS;
        let is_old = since >= BETWEEN_ANY.max(age / AGED);
        let has_copied = copied > rss / STEP && since >= BETWEEN_COPIES;
        // Where it copies no more for now, that is worth as much as a maximum that stands.
        let pauses = now.saturating_sub(self.copies.0) >= STANDS_FOR;
        let is_worth_more = has_copied && pauses && after <= age / STANDING_SHARE;
        (is_affordable && (has_changed || has_copied || has_settled || is_old) || is_worth_more)
            .then_some(Reason::Change)
    }

    /// Whether a maximum that the budget has nothing left for is to be read, so long after the look and the reading
    /// before this one.
    fn is_worth_more(&self, now: Duration, rss: u64, [unseen, since]: [Duration; 2], after: Duration) -> bool {
        let age = now.saturating_sub(self.began);
        let is_well_above = rss > self.highest.saturating_add(self.highest / WELL_ABOVE);
        let is_standing = self.stands_for(now) >= STANDS_FOR || is_well_above && unseen >= SELDOM;
        let share = if is_well_above { STANDING_SHARE } else { SHARE };
        is_standing && (is_well_above || since >= BETWEEN_STEPS) && after <= age / share + self.standing_credit
    }

    fn stands_for(&self, now: Duration) -> Duration {
        now.saturating_sub(self.stands.0)
    }

    /// Notes a reading that took so much of a processor's time.
    pub fn read(&mut self, now: Duration, look: Look, took: Duration) {
        self.spent = self.spent.saturating_add(took);
        self.was_passing = self.stands_for(now) < SETTLED_FOR;
        self.last = Some((now, look, took));
        self.highest = self.highest.max(look.rss);
        self.readings = self.readings.saturating_add(1);
    }

    /// Processor time that a reading is expected to take.
    fn expected(&self, rss: u64) -> Duration {
        let whole = |rss: u64| EXPECTED + EXPECTED_A_MEBIBYTE * u32::try_from(rss >> 20).unwrap_or(u32::MAX);
        match self.last {
            // What more there is takes as long as it does anywhere.
            Some((_, last, took)) => took.saturating_add(whole(rss).saturating_sub(whole(last.rss))),
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

    fn of(rss: u64) -> Look {
        Look { rss, copied: 0 }
    }

    #[test]
    fn maxima_are_read_ten_times_a_second_and_changes_once() {
        let mut schedule = Schedule::new(ms(0), false);
        assert_eq!(schedule.due(ms(0), of(0)), None);
        assert_eq!(schedule.due(ms(1), of(100 * MIB)), Some(Reason::Highest));
        schedule.read(ms(1), of(100 * MIB), ms(1));
        assert_eq!(schedule.due(ms(5000), of(105 * MIB)), None);
        assert_eq!(schedule.due(ms(101), of(106 * MIB)), Some(Reason::Highest));
        assert_eq!(schedule.due(ms(900), of(90 * MIB)), None);
        assert_eq!(schedule.due(ms(1001), of(90 * MIB)), Some(Reason::Change));
        schedule.read(ms(1001), of(90 * MIB), ms(1));
        assert_eq!(schedule.due(ms(9000), of(92 * MIB)), None);
        assert_eq!(schedule.due(ms(9000), of(106 * MIB)), Some(Reason::Highest));
        let (mut schedule, mut rss) = (Schedule::new(ms(0), false), MIB);
        let read_until = |schedule: &mut Schedule, rss: &mut u64, until: std::ops::Range<u64>| {
            let mut count = 0;
            for now in until {
                *rss += *rss / 10;
                if schedule.due(ms(now), of(*rss)).is_some() {
                    schedule.read(ms(now), of(*rss), Duration::from_micros(10));
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

    /// Less than a twentieth above, and more than what makes another reading the highest.
    #[test]
    fn what_stands_above_a_reading_on_the_way_is_read_whatever_the_budget() {
        let mut schedule = Schedule::new(ms(0), false);
        assert_eq!(schedule.due(ms(96), of(100 * MIB)), Some(Reason::Highest));
        // As slow as on a busy machine: nothing is left.
        schedule.read(ms(96), of(100 * MIB), ms(12));
        let read = (97..900).find(|&now| schedule.due(ms(now), of(103 * MIB)).is_some());
        assert!(read.is_some_and(|at| (150..250).contains(&at)), "{read:?}");
        // A reading of what stood is not left behind.
        let mut schedule = Schedule::new(ms(0), false);
        for now in 1..200 {
            let _ = schedule.due(ms(now), of(100 * MIB));
        }
        schedule.read(ms(200), of(100 * MIB), ms(12));
        assert_eq!((201..900).find(|&now| schedule.due(ms(now), of(103 * MIB)).is_some()), None);
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
                if schedule.due(ms(now), of(rss)).is_some() {
                    let took = EXPECTED_A_MEBIBYTE * (rss >> 20) as u32;
                    schedule.read(ms(now), of(rss), took);
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
        schedule.read(ms(100), of(MIB), ms(50));
        for now in (120..=9000).step_by(20) {
            let rss = if now == 9000 { 100 * MIB } else { MIB };
            assert_eq!(schedule.due(ms(now), of(rss)), None, "{now}");
        }
        assert_eq!(schedule.due(ms(10_000), of(110 * MIB)), Some(Reason::Highest));
    }

    /// A budget that is used up has what a maximum needs that stays for three looks.
    #[test]
    fn a_plateau_is_read_whatever_was_spent() {
        for spent in [5, 20, 40] {
            let mut schedule = Schedule::new(ms(0), false);
            schedule.read(ms(1), of(2 * MIB), ms(spent));
            schedule.read(ms(40), of(20 * MIB), ms(1));
            assert_eq!(schedule.due(ms(60), of(110 * MIB)), None, "it grows");
            assert_eq!(schedule.due(ms(80), of(157 * MIB)), None, "it grows");
            assert_eq!(schedule.due(ms(100), of(157 * MIB)), Some(Reason::Highest), "{spent}");
            schedule.read(ms(100), of(157 * MIB), ms(3));
            // And no more often than that.
            for now in (120..300).step_by(20) {
                assert_eq!(schedule.due(ms(now), of(157 * MIB)), None);
            }
        }
    }

    /// On a machine with more work than processors, looks are rare: a plateau may have ended by the second one.
    #[test]
    fn a_plateau_is_read_at_the_first_look_where_looks_are_rare() {
        for (first, at, reason) in [(40, 260, Some(Reason::Highest)), (200, 260, None)] {
            let mut schedule = Schedule::new(ms(0), false);
            schedule.read(ms(1), of(2 * MIB), ms(5));
            assert_eq!(schedule.due(ms(first), of(2 * MIB)), None);
            assert_eq!(schedule.due(ms(at), of(67 * MIB)), reason, "{first} {at}");
        }
    }

    /// What was read on the way up is read again where RSS stands, once, and then when that reading has aged.
    #[test]
    fn what_stands_is_read_where_it_stands() {
        let mut schedule = Schedule::new(ms(0), false);
        let mut read = Vec::new();
        for now in (20..400_000).step_by(20) {
            let rss = (now * MIB).min(101 * MIB);
            if let Some(reason) = schedule.due(ms(now), of(rss)) {
                schedule.read(ms(now), of(rss), Duration::from_micros(100));
                read.push((now, reason));
            }
        }
        let at = |reason| read.iter().filter(|one| one.1 == reason).map(|one| one.0).collect::<Vec<_>>();
        assert_eq!(at(Reason::Highest), [20, 40, 60, 80, 100]);
        assert_eq!(at(Reason::Change)[..4], [200, 10_200, 20_200, 30_200]);
        assert_eq!(at(Reason::Change).len(), 24, "{read:?}");
    }

    /// A staircase of 6 % a step, each of which stands, takes a hundredth and what it has as credit.
    #[test]
    fn small_steps_have_the_usual_budget() {
        let (mut schedule, mut spent, mut rss) = (Schedule::new(ms(0), false), ms(0), 100 * MIB);
        for now in (0..20_000).step_by(20) {
            rss += if now % 100 == 0 { rss / 16 } else { 0 };
            rss = rss.min(8 << 30);
            if schedule.due(ms(now), of(rss)).is_some() {
                let took = EXPECTED_A_MEBIBYTE * (rss >> 20) as u32;
                schedule.read(ms(now), of(rss), took);
                spent += took;
            }
            assert!(spent <= ms(now) / 10 + STANDING_CREDIT, "{now} {spent:?}");
        }
        assert!(schedule.highest > rss / 20 * 15, "{} {rss}", schedule.highest);
    }

    #[test]
    fn copies_of_shared_pages_are_a_change() {
        let mut schedule = Schedule::new(ms(0), true);
        let look = |copied| Look { rss: 100 * MIB, copied };
        schedule.read(ms(1000), look(3 * MIB), ms(1));
        assert_eq!(schedule.due(ms(1500), look(8 * MIB)), None);
        assert_eq!(schedule.due(ms(1100), look(9 * MIB)), None);
        assert_eq!(schedule.due(ms(1200), look(9 * MIB)), Some(Reason::Change));
        // The usual budget is used up: it is read once it copies no more.
        schedule.read(ms(1200), look(9 * MIB), ms(20));
        assert_eq!(schedule.due(ms(1380), look(20 * MIB)), None);
        assert_eq!(schedule.due(ms(1400), look(50 * MIB)), None);
        assert_eq!(schedule.due(ms(1420), look(51 * MIB)), Some(Reason::Change));
    }
}
