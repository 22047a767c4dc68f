//! Sums over all allocations from those that were picked.

use std::ops::AddAssign;

use mallow_profile::Sample;
use serde::Serialize;

use super::limits::Spread;

/// The samples that an interval needs at the least, in samples of the largest weight that an allocation may have.
const LEAST_SAMPLES: f64 = 7.5;
/// Everything is known where fewer allocations than this are expected to have been missed.
const KNOWN: f64 = 0.005;

/// A number that samples tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate. Over many runs its mean is the truth.
    pub value: f64,
    /// Between this and `high` the truth lies 95 times in a hundred. None: there are not enough samples to tell. Equal to
    /// `value`: all of it was seen.
    pub low: Option<f64>,
    /// See `low`.
    pub high: Option<f64>,
    /// The samples that it was made of.
    pub samples: u64,
}

impl Estimate {
    /// Both limits; None where there are not enough samples.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// Whether there are enough samples for an interval.
    pub fn enough(&self) -> bool {
        self.interval().is_some()
    }
}

/// How likely an allocation of so many bytes is to be picked.
pub fn picked(size: u64, period: u64) -> f64 {
    -(-(size as f64) / period.max(1) as f64).exp_m1()
}

/// What is kept of samples to estimate a sum over all allocations. Two of these add up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    samples: u64,
    /// Of the values, as they were seen.
    seen: f64,
    /// Of the weighted values.
    value: f64,
    /// Of `w² (1 - p)`.
    variance: f64,
    /// Of `w³ (1 - p)`; with `common` it tells the third central moment.
    third: f64,
    /// Of `w³ (1 - p)²`: what the sum and its estimated variance have in common.
    common: f64,
    /// Of `(1 - p) / p`: how many were missed.
    missed: f64,
    /// The largest weight that an allocation may have that is not here.
    heaviest: f64,
}

impl Sum {
    /// One more sample with a value of its own. `heaviest` is the largest weighted value that one byte can have: what an
    /// allocation may have that was not picked.
    pub fn add(&mut self, sample: &Sample, value: f64, heaviest: f64) {
        let p = picked(sample.size, sample.period);
        if p <= 0.0 {
            return;
        }
        let (w, missed) = (value / p, 1.0 - p);
        self.samples += 1;
        self.seen += value;
        self.value += w;
        self.variance += w * w * missed;
        self.third += w * w * w * missed;
        self.common += w * w * w * missed * missed;
        self.missed += missed / p;
        self.heaviest = self.heaviest.max(heaviest);
    }

    /// One more sample of a sum of bytes.
    pub fn add_bytes(&mut self, sample: &Sample) {
        self.add(sample, sample.size as f64, sample.period as f64);
    }

    /// One more sample of a number of allocations. Small ones that were never picked may be any number: the interval counts
    /// those that are at least as large as the smallest sample.
    pub fn add_count(&mut self, sample: &Sample) {
        self.add(sample, 1.0, 1.0 / picked(sample.size, sample.period));
    }

    /// How many samples there are.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The estimate alone: cheap.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// The estimate with its interval. `lot` is a number from 0 to 1 that was drawn once, and not from the samples.
    pub fn estimate(&self, lot: f64) -> Estimate {
        let Self { samples, value, .. } = *self;
        let with = |low, high| Estimate { value, low, high, samples };
        if samples > 0 && self.missed < KNOWN {
            return with(Some(value), Some(value));
        }
        let least_variance = LEAST_SAMPLES * self.heaviest * self.heaviest;
        if samples == 0 || self.variance < least_variance {
            return with(None, None);
        }
        let (low, high) = Spread {
            value,
            variance: self.variance,
            weight: self.third / self.variance,
            missed: self.common / self.third,
            least_variance,
            floor: self.seen,
            lot: lot.clamp(0.0, 1.0),
        }
        .limits();
        with(Some(low), Some(high))
    }
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.samples += other.samples;
        self.seen += other.seen;
        self.value += other.value;
        self.variance += other.variance;
        self.third += other.third;
        self.common += other.common;
        self.missed += other.missed;
        self.heaviest = self.heaviest.max(other.heaviest);
    }
}
