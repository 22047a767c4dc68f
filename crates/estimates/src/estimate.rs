//! Sums over all allocations from those that were picked.

use std::ops::AddAssign;

use mallow_profile::{Precision, Sample};
use serde::Serialize;

use super::limits::Spread;

/// Least samples that an interval needs, counted in samples of the largest weight that an allocation may have.
pub const LEAST_SAMPLES: f64 = 7.5;
/// [`LEAST_SAMPLES`] as a whole number, for readers: samples that an estimate of small blocks needs.
pub const NEEDED_SAMPLES: u64 = 8;
/// Allocations expected to have been missed below which everything is known.
const KNOWN: f64 = 0.005;
/// Most samples that are expected, 39 times in 40, where none is found: `-ln 0.025`.
const UNSEEN: f64 = 3.688_879_454_113_936;

/// A number estimated from samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Estimate {
    /// The estimate. Over many runs its mean is the truth.
    pub value: f64,
    /// Lower end of the 95 % interval; null: there are not enough samples to tell. Equal to `value`: all was seen.
    pub low: Option<f64>,
    /// Upper end of the 95 % interval; null where `low` is.
    pub high: Option<f64>,
    /// Samples behind the estimate.
    pub samples: u64,
}

impl Estimate {
    /// Lower and upper limit; None where there are not enough samples.
    pub fn interval(&self) -> Option<(f64, f64)> {
        self.low.zip(self.high)
    }

    /// The sum of numbers that were sampled each by itself, as those of several processes are. The distances from the
    /// value to a limit add up as deviations do. Without limits where one of them has none.
    pub fn sum<'e>(all: impl IntoIterator<Item = &'e Self>) -> Self {
        let (mut sum, mut below, mut above) = (Self::default(), Some(0.0), Some(0.0));
        let add = |squares: &mut Option<f64>, distance: Option<f64>| {
            *squares = squares.zip(distance).map(|(sum, distance): (f64, f64)| sum + distance * distance);
        };
        for one in all {
            sum.value += one.value;
            sum.samples += one.samples;
            add(&mut below, one.low.map(|low| one.value - low));
            add(&mut above, one.high.map(|high| high - one.value));
        }
        sum.low = below.map(|squares| sum.value - squares.sqrt());
        sum.high = above.map(|squares| sum.value + squares.sqrt());
        sum
    }

    /// `draw` is a uniform number in [0, 1), as for [`Sum::estimate`].
    pub fn of(precision: &Precision, draw: f64) -> Self {
        let Precision { value, samples, seen, missed, variance, heaviest, .. } = *precision;
        let with = |low, high| Self { value, low, high, samples: samples as u64 };
        if missed < KNOWN {
            return with(Some(value), Some(value));
        }
        let least_variance = LEAST_SAMPLES * heaviest * heaviest;
        if samples < 1.0 || !has_spread(precision) || variance < least_variance {
            return with(None, None);
        }
        let (low, high) = spread(precision, least_variance, seen, draw).limits();
        with(Some(low), Some(high))
    }

    /// The change between two sums of different runs, or hosts.
    ///
    /// The limits are those of both sums, put together as deviations of independent numbers are: by the root of their
    /// squares, each in its direction (Zou and Donner's method of variance estimates recovery). A sum without samples
    /// has limits here too: one that nothing was picked of is below `-ln 0.025` of the largest weight 39 times in 40.
    pub fn of_change(before: &Precision, after: &Precision, draw: f64) -> Self {
        let value = after.value - before.value;
        let with = |low, high| Self { value, low, high, samples: (before.samples + after.samples) as u64 };
        if before.missed < KNOWN && after.missed < KNOWN && before.samples + after.samples > 0.0 {
            return with(Some(value), Some(value));
        }
        let heaviest = before.heaviest.max(after.heaviest);
        let variance = before.variance + after.variance;
        let enough = variance >= LEAST_SAMPLES * heaviest * heaviest;
        if !enough || ![before, after].iter().any(|of| has_spread(of)) {
            return with(None, None);
        }
        let limits = |of: &Precision| match has_spread(of) {
            true => spread(of, f64::NEG_INFINITY, of.seen, draw).limits(),
            false if of.samples < 1.0 => (of.value, of.value + UNSEEN * heaviest),
            false => (of.value, of.value),
        };
        let ((was_low, was_high), (is_low, is_high)) = (limits(before), limits(after));
        let below = (after.value - is_low).hypot(was_high - before.value);
        let above = (is_high - after.value).hypot(before.value - was_low);
        with(Some(value - below), Some(value + above))
    }

    /// Whether the estimate of a change includes zero, so that it may be chance.
    pub fn may_be_zero(&self) -> bool {
        self.interval().is_some_and(|(low, high)| low < high && low <= 0.0 && high >= 0.0)
    }

    pub fn enough(&self) -> bool {
        self.interval().is_some()
    }
}

/// Whether a sum's precision describes a distribution. Files may say anything.
fn has_spread(of: &Precision) -> bool {
    let Precision { value, samples, seen, variance, third, common, .. } = *of;
    let finite = [value, samples, seen].iter().all(|number| number.is_finite());
    let positive =
        [variance, third, common].iter().all(|number| *number > 0.0 && number.is_finite()) && common <= third;
    // As many picks of one size would have the same distribution.
    let (weight, missed) = (third / variance, common / third);
    let picks = variance / (weight * weight * missed);
    finite && positive && picks > 1e-6 && picks < 1e18 && value.abs() / weight < 1e18
}

/// The distribution of a sum that [`has_spread`].
fn spread(of: &Precision, least_variance: f64, floor: f64, draw: f64) -> Spread {
    let Precision { value, variance, third, common, .. } = *of;
    let (weight, missed, draw) = (third / variance, common / third, draw.clamp(0.0, 1.0));
    Spread { value, variance, weight, missed, least_variance, floor, draw }
}

/// The probability that an allocation of `size` bytes is picked with a mean distance of `period` bytes.
pub fn picked(size: u64, period: u64) -> f64 {
    -(-(size as f64) / period.max(1) as f64).exp_m1()
}

/// Sums over weighted samples that describe the distribution of their total. Two of these add up. `w` is a value
/// divided by the probability `p` that the sample is picked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    pub samples: u64,
    /// Sum of `w`.
    pub value: f64,
    /// Sum of `w²`.
    pub squares: f64,
    /// Sum of `w³`.
    cubes: f64,
    /// Sum of `w² (1 - p)`.
    pub variance: f64,
    /// Sum of `w³ (1 - p)`; with `common` it gives the third central moment.
    third: f64,
    /// Sum of `w³ (1 - p)²`: what the total and its estimated variance have in common.
    common: f64,
}

impl Moments {
    /// `p` is the probability, above 0, that the sample was picked.
    pub fn of(value: f64, p: f64) -> Self {
        let (w, missed) = (value / p, 1.0 - p);
        let (square, cube) = (w * w, w * w * w);
        let (variance, third) = (square * missed, cube * missed);
        Self { samples: 1, value: w, squares: square, cubes: cube, variance, third, common: third * missed }
    }

    /// Limits of the expected sum if blocks come as Poisson's distribution has them, where limits are shown from this
    /// sum of squares on. There must be samples.
    pub fn arrivals(&self, least_squares: f64, draw: f64) -> (f64, f64) {
        let Self { value, squares, cubes, .. } = *self;
        let (weight, draw) = (cubes / squares, draw.clamp(0.0, 1.0));
        Spread { value, variance: squares, weight, missed: 1.0, least_variance: least_squares, floor: 0.0, draw }
            .limits()
    }
}

impl AddAssign for Moments {
    fn add_assign(&mut self, other: Self) {
        self.samples += other.samples;
        self.value += other.value;
        self.squares += other.squares;
        self.cubes += other.cubes;
        self.variance += other.variance;
        self.third += other.third;
        self.common += other.common;
    }
}

/// Samples summed up to estimate a total over all allocations. Two of these add up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    moments: Moments,
    /// Sum of the values, unweighted.
    seen: f64,
    /// Sum of `(1 - p) / p`: the expected number of allocations that were missed.
    missed: f64,
    /// The largest weighted value of an allocation that may have been missed.
    heaviest: f64,
}

impl Sum {
    /// Adds a sample with a value of its own, 0 or above. `heaviest` is the largest weighted value of an allocation
    /// that may have been missed.
    pub fn add(&mut self, sample: &Sample, value: f64, heaviest: f64) {
        let p = picked(sample.size, sample.period);
        if p > 0.0 {
            self.moments += Moments::of(value, p);
            self.seen += value;
            self.missed += (1.0 - p) / p;
            self.heaviest = self.heaviest.max(heaviest);
        }
    }

    /// Adds a sample to a sum of bytes.
    pub fn add_bytes(&mut self, sample: &Sample) {
        self.add(sample, sample.size as f64, sample.period as f64);
    }

    /// Adds a sample to a number of allocations. Small ones that were never picked may be any number: the interval
    /// counts those that are at least as large as the smallest sample.
    pub fn add_count(&mut self, sample: &Sample) {
        self.add(sample, 1.0, 1.0 / picked(sample.size, sample.period));
    }

    /// Raises the largest weighted value of an allocation that may have been missed.
    pub fn may_miss(&mut self, heaviest: f64) {
        self.heaviest = self.heaviest.max(heaviest);
    }

    pub fn samples(&self) -> u64 {
        self.moments.samples
    }

    /// The estimate without its interval, which is cheap.
    pub fn value(&self) -> f64 {
        self.moments.value
    }

    /// The estimate with its interval. `draw` is a uniform number in [0, 1), drawn once
    /// and independent of the samples (randomized test).
    pub fn estimate(&self, draw: f64) -> Estimate {
        let estimate = Estimate::of(&self.with_value(self.moments.value), draw);
        // An exact sum of no samples is nothing that was seen.
        if self.moments.samples == 0 { Estimate { low: None, high: None, ..estimate } } else { estimate }
    }

    /// The precision that a profile keeps with `number`, the rounded estimate.
    pub fn precision(&self, number: u64) -> Precision {
        self.with_value(number as f64)
    }

    fn with_value(&self, value: f64) -> Precision {
        let Moments { samples, variance, third, common, .. } = self.moments;
        let Self { seen, missed, heaviest, .. } = *self;
        Precision { value, samples: samples as f64, seen, missed, variance, third, common, heaviest }
    }
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.moments += other.moments;
        self.seen += other.seen;
        self.missed += other.missed;
        self.heaviest = self.heaviest.max(other.heaviest);
    }
}
