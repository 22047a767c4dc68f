//! How precise sums over samples are: what an interval needs to know of them. It adds up over sites, processes and
//! hosts.

use std::ops::AddAssign;

use crate::counts::Counts;
use crate::quantities::Quantity;

/// What the samples of one sum say about its distribution. Precisions of two sums add up to that of their sum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Precision {
    /// The sum itself, as [`Counts`] have it. A number with another value is not the one that this is known of.
    pub value: f64,
    /// Number of samples in the sum.
    pub samples: f64,
    /// Unweighted values of the samples: the truth is not below.
    pub seen: f64,
    /// Number of allocations that no sample picked, estimated.
    pub missed: f64,
    /// Sum of `w² (1 - p)` over samples, where `w` is a sample's weighted value and `p` how likely it was to be picked.
    pub variance: f64,
    /// Sum of `w³ (1 - p)` over samples, with `w` and `p` of `variance`.
    pub third: f64,
    /// Sum of `w³ (1 - p)²` over samples, with `w` and `p` of `variance`.
    pub common: f64,
    /// The largest weighted value that an allocation may have that was not picked.
    pub heaviest: f64,
}

impl Precision {
    /// The precision of a number that was counted, not estimated.
    pub fn exact(number: u64) -> Self {
        Self { value: number as f64, seen: number as f64, ..Self::default() }
    }

    /// Whether this precision is known of `number`: the two values are equal. A number that was read from another
    /// tool's file, scaled by one, or added up with numbers of which nothing is known, has another value.
    pub fn is_of(&self, number: u64) -> bool {
        (self.value - number as f64).abs() < 0.5 + 1e-12 * self.value
    }
}

impl AddAssign for Precision {
    fn add_assign(&mut self, other: Self) {
        self.value += other.value;
        self.samples += other.samples;
        self.seen += other.seen;
        self.missed += other.missed;
        self.variance += other.variance;
        self.third += other.third;
        self.common += other.common;
        self.heaviest = self.heaviest.max(other.heaviest);
    }
}

/// The precision of each count that samples estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Precisions {
    /// Precision of the number of allocations.
    pub allocations: Precision,
    /// Precision of the bytes that were allocated.
    pub allocated_bytes: Precision,
    /// Precision of the number of live blocks.
    pub live: Precision,
    /// Precision of the bytes that are live.
    pub live_bytes: Precision,
}

impl Precisions {
    /// The quantities, in the order of [`Precisions::each_mut`].
    pub const QUANTITIES: [Quantity; 4] =
        [Quantity::Allocations, Quantity::AllocatedBytes, Quantity::Live, Quantity::LiveBytes];

    /// Precisions of counts that were counted, not estimated.
    pub fn exact(counts: &Counts) -> Self {
        Self {
            allocations: Precision::exact(counts.allocations),
            allocated_bytes: Precision::exact(counts.allocated_bytes),
            live: Precision::exact(counts.live),
            live_bytes: Precision::exact(counts.live_bytes),
        }
    }

    /// The four precisions, in the order of [`Precisions::QUANTITIES`].
    pub fn each_mut(&mut self) -> [&mut Precision; 4] {
        [&mut self.allocations, &mut self.allocated_bytes, &mut self.live, &mut self.live_bytes]
    }

    /// The one of a quantity, if samples have it.
    pub fn of(&self, quantity: Quantity) -> Option<&Precision> {
        match quantity {
            Quantity::Allocations => Some(&self.allocations),
            Quantity::AllocatedBytes => Some(&self.allocated_bytes),
            Quantity::Live => Some(&self.live),
            Quantity::LiveBytes => Some(&self.live_bytes),
            _ => None,
        }
    }
}

impl AddAssign for Precisions {
    fn add_assign(&mut self, mut other: Self) {
        for (sum, one) in self.each_mut().into_iter().zip(other.each_mut()) {
            *sum += *one;
        }
    }
}

/// Adds what is known of one site to another that becomes the same.
pub fn add_precisions(into: &mut Option<Box<Precisions>>, other: Option<&Precisions>) {
    if let Some(other) = other {
        **into.get_or_insert_default() += *other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_of_a_number_is_not_known_of_another() {
        let mut sum = Precision::exact(1000);
        assert!(sum.is_of(1000) && !sum.is_of(1001) && !sum.is_of(500) && !sum.is_of(0));
        sum += Precision { value: 1e15, heaviest: 7.0, ..Precision::default() };
        sum += Precision { heaviest: 5.0, variance: 2.0, ..Precision::default() };
        assert!(sum.is_of(1_000_000_000_001_000) && !sum.is_of(1_000_000_000_101_000));
        assert_eq!((sum.heaviest, sum.variance, sum.seen), (7.0, 2.0, 1000.0));
    }

    #[test]
    fn each_quantity_is_added_to_itself() {
        let counts = Counts { allocations: 1, allocated_bytes: 2, live: 3, live_bytes: 4, ..Counts::default() };
        let mut sum = Some(Box::new(Precisions::exact(&counts)));
        add_precisions(&mut sum, Some(&Precisions::exact(&counts)));
        add_precisions(&mut sum, None);
        let sum = sum.expect("a sum");
        let values = Precisions::QUANTITIES.map(|quantity| sum.of(quantity).map(|precision| precision.value));
        assert_eq!(values, [2.0, 4.0, 6.0, 8.0].map(Some));
        assert_eq!(sum.of(Quantity::Peak), None);
    }
}
