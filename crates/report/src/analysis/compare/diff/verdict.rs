//! The answer of a comparison, in what one line has room for.

use super::report::{DiffTotal, Verdict};
use crate::analysis::numbers::Measure;

/// Most places that are named, if together they are more than half of what changed. Otherwise the largest is.
const NAMED: usize = 3;
/// A measure that changed by less than one part in so many is no answer if another changed by more than one in
/// [`MUCH`], and the command line asked for none.
const LITTLE: u64 = 1000;
/// One part in so many is a change that may replace one below [`LITTLE`].
const MUCH: u64 = 100;

/// The measure that answers what changed: the one that is compared, unless it changed little or not at all, another one
/// did change, and the choice is free.
pub(super) fn measure(by: Measure, totals: &[DiffTotal], free: bool) -> Measure {
    let more_than = |total: &DiffTotal, part: u64| {
        // What may be chance is no answer.
        let by_chance = total.estimate.is_some_and(|estimate| estimate.may_be_zero());
        let changed = if by_chance { 0 } else { total.moved.max(total.change.unsigned_abs()) };
        changed > 0 && u128::from(changed) * u128::from(part) >= u128::from(total.before.max(total.after))
    };
    let changed = |total: &&DiffTotal| total.moved > 0 || total.change != 0;
    if !free || totals.iter().any(|total| total.by == by && more_than(total, LITTLE)) {
        return by;
    }
    let much = totals.iter().find(|total| total.change != 0 && more_than(total, MUCH));
    let compared = || totals.iter().find(|total| total.by == by).filter(changed);
    much.or_else(compared).or_else(|| totals.iter().find(changed)).map_or(by, |total| total.by)
}

impl Verdict {
    /// Names the places that explain a total, by the measure of that total.
    pub(super) fn of(total: &DiffTotal) -> Self {
        let mut sum = 0u64;
        let half = total.largest.iter().take(NAMED).position(|place| {
            sum = sum.saturating_add(place.change.unsigned_abs());
            sum > total.moved / 2
        });
        let named = half.map_or(1, |at| at + 1).min(total.largest.len());
        let places: Vec<_> = total.largest[..named].to_vec();
        let sum = places.iter().fold(0u64, |sum, place| sum.saturating_add(place.change.unsigned_abs()));
        Self {
            by: total.by,
            before: total.before,
            after: total.after,
            change: total.change,
            estimate: total.estimate,
            share: if total.moved > 0 { sum as f64 / total.moved as f64 } else { 0.0 },
            one_way: total.change.unsigned_abs() == total.moved,
            places_in_all: total.places,
            places,
        }
    }
}
