//! How alike two sides' numbers are.

use mallow_profile::Counts;

/// What the numbers count, beside the functions.
pub(super) const NUMBERS: f32 = 0.25;

/// What is compared of numbers: those that both profiles tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    pub allocations: bool,
    pub bytes: bool,
    pub leaked: bool,
}

/// How near numbers are, from 0 to 1. Small ones are equal by chance.
pub(super) fn numbers(was: &Counts, is: &Counts, told: Comparison) -> f32 {
    let near = |a: u64, b: u64| a.min(b) as f64 / a.max(b).max(1) as f64;
    let all = [
        (told.allocations, near(was.allocations, is.allocations)),
        (told.bytes, near(was.allocated_bytes, is.allocated_bytes)),
        (told.leaked, near(was.leaked_bytes, is.leaked_bytes)),
    ];
    // What neither has tells nothing.
    let mut known: Vec<f64> = all.iter().filter(|(told, near)| *told && *near > 0.0).map(|(_, near)| *near).collect();
    if told.allocations && !known.is_empty() {
        let larger = was.allocations.max(is.allocations) as f64;
        let sure = (larger + 1.0) / (larger + 4.0);
        known.iter_mut().for_each(|near| *near *= sure);
    }
    if known.is_empty() { 0.0 } else { (known.iter().sum::<f64>() / known.len() as f64) as f32 }
}
