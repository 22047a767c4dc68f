//! How precise a sample's values are, as numeric labels: one key for each of the values, which comes eight times with
//! one number each. Readers that do not know it show these labels as they show any other, and add up the values as
//! before.
//!
//! Each number is one more than what it stands for, because `go tool pprof` drops labels of 0 where it writes a
//! profile.

use mallow_profile::{Precision, Precisions};

use super::messages::Label;

/// The keys, in the order of [`Precisions::each_mut`].
pub const KEYS: [&str; 4] =
    ["mallow.alloc_objects", "mallow.alloc_space", "mallow.inuse_objects", "mallow.inuse_space"];

/// Units of a byte, and of a block: counts have fractions.
const UNITS: [f64; 4] = [1000.0, 1.0, 1000.0, 1.0];
/// Units of a missed allocation, and of a share.
const FINE: f64 = 1e6;
const SHARE: f64 = 1e9;
const NUMBERS: usize = 8;

/// The labels of one sample. Keys are numbers of their strings.
pub fn write(precisions: &Precisions, keys: &[i64; 4], into: &mut Vec<Label>) {
    let mut precisions = *precisions;
    for ((precision, &key), unit) in precisions.each_mut().into_iter().zip(keys).zip(UNITS) {
        if precision.value > 0.0 {
            let numbers = encoded(precision, unit).into_iter();
            into.extend(numbers.map(|num| Label { key, num, ..Label::default() }));
        }
    }
}

fn encoded(of: &Precision, unit: f64) -> [i64; NUMBERS] {
    let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
    let weight = ratio(of.third, of.variance);
    let share = ratio(of.common, of.third);
    let numbers = [
        of.value,
        of.samples,
        of.seen,
        of.missed * FINE,
        of.variance.sqrt() * unit,
        weight * unit,
        share * SHARE,
        of.heaviest * unit,
    ];
    // A cast stops at the largest number; beyond 2^62 nothing is added to it.
    numbers.map(|number| (number.round() as i64).clamp(0, 1 << 62) + 1)
}

/// None where the numbers are no precision that Mallow wrote.
fn decoded(numbers: &[i64], unit: f64) -> Option<Precision> {
    let &[value, samples, seen, missed, deviation, weight, share, heaviest] = numbers else { return None };
    if numbers.iter().any(|&number| number < 1) {
        return None;
    }
    let of = |number: i64| (number - 1) as f64;
    let variance = (of(deviation) / unit).powi(2);
    let third = variance * of(weight) / unit;
    Some(Precision {
        value: of(value),
        samples: of(samples),
        seen: of(seen),
        missed: of(missed) / FINE,
        variance,
        third,
        common: third * (of(share) / SHARE).min(1.0),
        heaviest: of(heaviest) / unit,
    })
}

/// The labels of a sample, as they come.
#[derive(Default)]
pub struct Reader {
    numbers: [Vec<i64>; 4],
}

impl Reader {
    pub fn add(&mut self, key: usize, number: i64) {
        // A damaged file may have any number of them.
        if self.numbers[key].len() <= NUMBERS {
            self.numbers[key].push(number);
        }
    }

    /// The precisions that the sample's labels say, after which the next sample's labels are expected; None without
    /// labels.
    pub fn take(&mut self) -> Option<Precisions> {
        if self.numbers.iter().all(Vec::is_empty) {
            return None;
        }
        let mut precisions = Precisions::default();
        for ((into, numbers), unit) in precisions.each_mut().into_iter().zip(&mut self.numbers).zip(UNITS) {
            *into = decoded(numbers, unit).unwrap_or_default();
            numbers.clear();
        }
        Some(precisions)
    }
}

#[cfg(test)]
mod tests {
    use mallow_profile::{Precision, Precisions};

    use super::{Reader, UNITS, decoded, encoded, write};

    const BYTES: Precision = Precision {
        value: 5_242_880.0,
        samples: 12.0,
        seen: 12_000.0,
        missed: 5000.25,
        variance: 3.2e12,
        third: 1.7e18,
        common: 1.69e18,
        heaviest: 524_288.0,
    };

    #[test]
    fn what_is_written_is_read_again() {
        let blocks = Precision { value: 7.0, variance: 0.4, third: 0.5, common: 0.05, heaviest: 1.2, ..BYTES };
        let written = Precisions { live_bytes: BYTES, allocations: blocks, ..Precisions::default() };
        let mut labels = Vec::new();
        write(&written, &[4, 5, 6, 7], &mut labels);
        assert_eq!(labels.len(), 16, "nothing of values that are 0");
        assert!(labels.iter().all(|label| label.num >= 1));
        let mut reader = Reader::default();
        labels.iter().for_each(|label| reader.add(label.key as usize - 4, label.num));
        let mut read = reader.take().expect("labels");
        assert_eq!(reader.take(), None, "each sample has its own");
        let mut written = written;
        for (read, written) in read.each_mut().into_iter().zip(written.each_mut()) {
            let near = |a: f64, b: f64| (a - b).abs() <= 2e-3 * b.abs();
            assert!(near(read.variance, written.variance) && near(read.third, written.third), "{read:?} {written:?}");
            assert!(near(read.common, written.common) && near(read.heaviest, written.heaviest), "{read:?} {written:?}");
            assert!(near(read.missed, written.missed), "{read:?} {written:?}");
            assert_eq!([read.value, read.samples, read.seen], [written.value, written.samples, written.seen]);
        }
    }

    #[test]
    fn what_is_no_such_label_says_nothing() {
        let good = encoded(&BYTES, UNITS[1]);
        assert!(decoded(&good, 1.0).is_some());
        assert_eq!(decoded(&good[1..], 1.0), None);
        let mut zero = good;
        zero[3] = 0;
        assert_eq!(decoded(&zero, 1.0), None);
        let hostile = decoded(&[i64::MAX; 8], 1.0).expect("numbers");
        assert!([hostile.variance, hostile.third, hostile.common].iter().all(|number| number.is_finite()));
        let mut reader = Reader::default();
        (0..1000).for_each(|number| reader.add(2, number));
        assert!(reader.numbers[2].len() < 20);
        assert_eq!(reader.take(), Some(Precisions::default()));
        let huge = Precision { value: f64::INFINITY, variance: f64::MAX, third: f64::MAX, ..BYTES };
        assert!(encoded(&huge, 1000.0).iter().all(|&number| number >= 1));
    }
}
