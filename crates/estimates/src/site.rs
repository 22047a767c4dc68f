//! What is kept of one site of one process: live samples whole, the others as sums.

use std::ops::AddAssign;

use mallow_profile::{Release, Sample, SampleKey};
use rustc_hash::FxHashMap;

use super::estimate::{Moments, Sum, picked};
use super::lives::{CLOCKS, Clock, Deaths};

/// A site of one process: live samples, sums over all, and deaths by clock.
#[derive(Clone, Debug, Default)]
pub struct Site {
    pub live: FxHashMap<SampleKey, Sample>,
    pub sums: SiteSums,
    /// Indexed as the ledger's clocks.
    pub deaths: [Deaths; CLOCKS],
    /// Uniform number in [0, 1) of the randomized tests, independent of the number of samples.
    pub draw: f64,
}

/// Sums over all samples that a site ever had.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SiteSums {
    pub allocations: Sum,
    pub allocated_bytes: Sum,
    pub freed_bytes: Sum,
    /// Bytes of blocks that another thread freed.
    pub freed_by_others: Sum,
    /// Bytes times seconds of freed blocks.
    pub byte_seconds: Sum,
}

impl AddAssign for SiteSums {
    fn add_assign(&mut self, other: Self) {
        self.allocations += other.allocations;
        self.allocated_bytes += other.allocated_bytes;
        self.freed_bytes += other.freed_bytes;
        self.freed_by_others += other.freed_by_others;
        self.byte_seconds += other.byte_seconds;
    }
}

/// The weight of a sample in a sum of bytes.
pub fn weight(sample: &Sample) -> Moments {
    Moments::of(sample.size as f64, picked(sample.size, sample.period))
}

/// Seconds since `since_ns` for which the sample was live until `until_ns`.
pub fn seconds(sample: &Sample, since_ns: u64, until_ns: u64) -> f64 {
    until_ns.saturating_sub(sample.at_ns.max(since_ns)) as f64 * 1e-9
}

impl Site {
    /// The first sample gives the draw; it is not added.
    pub fn new(first: &Sample) -> Self {
        // The clock's last digits and the address are as good as drawn.
        let mut word = first.at_ns ^ first.address.rotate_left(32) ^ u64::from(first.thread) << 48;
        for _ in 0..2 {
            word = (word ^ word >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
        }
        Self { draw: ((word >> 11) as f64 + 0.5) / (1u64 << 53) as f64, ..Self::default() }
    }

    /// Adds a sample. One that was allocated before `since_ns` is live, and not among the sums.
    pub fn allocate(&mut self, key: SampleKey, sample: Sample, since_ns: u64) {
        if sample.at_ns >= since_ns {
            self.sums.allocations.add_count(&sample);
            self.sums.allocated_bytes.add_bytes(&sample);
        }
        self.live.insert(key, sample);
    }

    /// Takes out a live sample. `known` says whether an event reported how it ended.
    pub fn free(&mut self, sample: &Sample, release: &Release, known: bool, since_ns: u64, clocks: &[Clock; CLOCKS]) {
        let seconds = seconds(sample, since_ns, release.at_ns);
        self.sums.byte_seconds.add(sample, sample.size as f64 * seconds, 0.0);
        self.sums.freed_bytes.add_bytes(sample);
        if known && release.thread != sample.thread {
            self.sums.freed_by_others.add_bytes(sample);
        }
        for (clock, deaths) in clocks.iter().zip(&mut self.deaths) {
            deaths.add(clock.bucket(sample.at_ns), clock.bucket(release.at_ns), weight(sample));
        }
    }
}
