//! How alike two sides' numbers are.

use mallow_profile::Counts;

/// Weight of the numbers in a pair's score.
pub(super) const NUMBERS: f32 = 0.25;

/// The numbers that are compared: those that both profiles have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison {
    pub allocations: bool,
    pub bytes: bool,
    pub live: bool,
}

/// How near numbers are, from 0 to 1; less where they are small, because those are equal by chance.
pub(super) fn numbers(was: &Counts, is: &Counts, comparison: Comparison) -> f32 {
    let near = |a: u64, b: u64| a.min(b) as f64 / a.max(b).max(1) as f64;
    let all = [
        (comparison.allocations, near(was.allocations, is.allocations)),
        (comparison.bytes, near(was.allocated_bytes, is.allocated_bytes)),
        (comparison.live, near(was.live_bytes, is.live_bytes)),
    ];
    // A number that neither has shows nothing.
    let mut known: Vec<f64> =
        all.iter().filter(|(compared, near)| *compared && *near > 0.0).map(|(_, near)| *near).collect();
    if comparison.allocations && !known.is_empty() {
        let larger = was.allocations.max(is.allocations) as f64;
        let sure = (larger + 1.0) / (larger + 4.0);
        known.iter_mut().for_each(|near| *near *= sure);
    }
    if known.is_empty() { 0.0 } else { (known.iter().sum::<f64>() / known.len() as f64) as f32 }
}
