//! When the sampled blocks of a site were born and when they died, in a memory that does not grow.
//!
//! Time is cut into at most [`BUCKETS`] buckets. When they are full, two become one; where they are as wide as they may
//! be, the older half is forgotten instead. Several such clocks run at the same time, so that a leak that began an hour
//! ago is seen as well as one that took weeks. A block that died is kept as its two buckets; one that died in the
//! bucket that it was born in, or in the next one, is not kept at all: it shows nothing of growth, and most blocks are
//! like this.

use rustc_hash::FxHashMap;

use super::estimate::Moments;

/// Buckets of a clock. Between half of them and all are in use.
pub const BUCKETS: u32 = 24;
/// Nanoseconds of a bucket of a clock that has just begun.
pub const FIRST_WIDTH_NS: u64 = 1_000_000_000;
/// The widest bucket of each clock: half a minute looks back 6 to 13 minutes, a quarter of an hour 3 to 6 hours.
const WIDEST_NS: [u64; CLOCKS] = [32 << 30, 1024 << 30, u64::MAX];
pub const CLOCKS: usize = 3;

/// A division of time into buckets. Bucket 0 is everything before the clock began.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin_ns: u64,
    width_ns: u64,
    widest_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketStep {
    /// Each two become one.
    Merge,
    /// The older half becomes bucket 0.
    Slide,
}

impl BucketStep {
    fn bucket(self, bucket: u32) -> u32 {
        match self {
            Self::Merge => bucket.div_ceil(2),
            Self::Slide => bucket.saturating_sub(BUCKETS / 2),
        }
    }
}

impl Clock {
    /// All clocks, beginning at `origin_ns`.
    pub fn all(origin_ns: u64) -> [Self; CLOCKS] {
        WIDEST_NS.map(|widest_ns| Self { origin_ns, width_ns: FIRST_WIDTH_NS, widest_ns })
    }

    /// Number of the bucket that a time is in.
    pub fn bucket(&self, at_ns: u64) -> u32 {
        match at_ns.checked_sub(self.origin_ns) {
            Some(passed) => (passed / self.width_ns).min(u64::from(BUCKETS) - 1) as u32 + 1,
            None => 0,
        }
    }

    /// Number of buckets that are over.
    pub fn over(&self, now_ns: u64) -> u32 {
        (now_ns.saturating_sub(self.origin_ns) / self.width_ns).min(BUCKETS.into()) as u32
    }

    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// Makes room where the buckets are full, and returns what must be done to all that is kept by bucket. Call it
    /// until it returns None.
    pub fn step(&mut self, now_ns: u64) -> Option<BucketStep> {
        let span = self.width_ns.saturating_mul(BUCKETS.into());
        if now_ns.saturating_sub(self.origin_ns) < span {
            return None;
        }
        if self.width_ns < self.widest_ns {
            self.width_ns = self.width_ns.saturating_mul(2);
            return Some(BucketStep::Merge);
        }
        // However long nobody looked: everything is as old as it can be after two slides.
        let behind = (now_ns - self.origin_ns - span) / (span / 2);
        self.origin_ns += span / 2 * behind.saturating_sub(1).max(1);
        Some(BucketStep::Slide)
    }
}

/// Blocks that died, by the buckets of their birth and their death.
#[derive(Clone, Debug, Default)]
pub struct Deaths {
    cells: FxHashMap<(u32, u32), Moments>,
}

impl Deaths {
    pub fn add(&mut self, born: u32, died: u32, block: Moments) {
        if died >= born + 2 {
            *self.cells.entry((born, died)).or_default() += block;
        }
    }

    pub fn merge(&mut self, other: &Self) {
        for (&(born, died), &block) in &other.cells {
            self.add(born, died, block);
        }
    }

    /// Applies a step of the clock.
    pub fn step(&mut self, step: BucketStep) {
        for ((born, died), block) in std::mem::take(&mut self.cells) {
            let died = step.bucket(died);
            if died > 0 {
                self.add(step.bucket(born), died, block);
            }
        }
    }

    /// Births, deaths and blocks of all pairs of buckets.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32, Moments)> + '_ {
        self.cells.iter().map(|(&(born, died), &block)| (born, died, block))
    }
}

/// Number of samples of all sites, by bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traffic {
    samples: [u64; BUCKETS as usize + 1],
}

impl Traffic {
    pub fn add(&mut self, bucket: u32) {
        self.samples[bucket.min(BUCKETS) as usize] += 1;
    }

    pub fn take(&mut self, bucket: u32, samples: u64) {
        let of = &mut self.samples[bucket.min(BUCKETS) as usize];
        *of = of.saturating_sub(samples);
    }

    /// Samples in the buckets from `from` on and before `to`.
    pub fn between(&self, from: u32, to: u32) -> f64 {
        self.samples.iter().take(to as usize).skip(from as usize).sum::<u64>() as f64
    }

    /// Applies a step of the clock.
    pub fn step(&mut self, step: BucketStep) {
        let mut after = Self::default();
        for (bucket, samples) in (0..).zip(self.samples) {
            after.samples[step.bucket(bucket).min(BUCKETS) as usize] += samples;
        }
        *self = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn buckets_merge_and_then_slide() {
        let [mut clock, ..] = Clock::all(100 * SECOND);
        assert_eq!((clock.bucket(99 * SECOND), clock.bucket(100 * SECOND), clock.bucket(102 * SECOND)), (0, 1, 3));
        assert_eq!((clock.over(100 * SECOND), clock.over(103 * SECOND)), (0, 3));
        assert_eq!(clock.step(123 * SECOND), None);
        assert_eq!(clock.step(124 * SECOND), Some(BucketStep::Merge));
        assert_eq!(clock.step(124 * SECOND), None);
        assert_eq!(clock.over(124 * SECOND), 12);
        let mut steps = 0;
        let mut now = 124 * SECOND;
        while clock.width_ns < clock.widest_ns {
            now += SECOND;
            steps += u32::from(clock.step(now) == Some(BucketStep::Merge));
        }
        assert_eq!(steps, 5);
        let before = clock.origin_ns;
        assert_eq!(clock.step(before + 24 * clock.width_ns), Some(BucketStep::Slide));
        assert_eq!(clock.origin_ns, before + 12 * clock.width_ns);
        // A week later, in a few steps.
        let later = before + 7 * 24 * 3600 * SECOND;
        let slides = std::iter::from_fn(|| clock.step(later)).count();
        assert!(slides < 4, "{slides}");
        assert!((12..24).contains(&clock.over(later)));
    }

    #[test]
    fn what_died_young_is_not_kept_and_the_rest_stays_bounded() {
        let mut deaths = Deaths::default();
        let block = Moments::of(100.0, 0.5);
        for born in 0..=BUCKETS {
            for died in born..=BUCKETS {
                deaths.add(born, died, block);
            }
        }
        let all = deaths.iter().map(|(_, _, m)| m.samples).sum::<u64>();
        assert_eq!(all, 23 * 24 / 2);
        deaths.step(BucketStep::Merge);
        assert!(deaths.iter().all(|(born, died, _)| died >= born + 2 && died <= BUCKETS / 2));
        deaths.step(BucketStep::Slide);
        assert_eq!(deaths.iter().count(), 0, "all of it is older than the window");
    }
}
