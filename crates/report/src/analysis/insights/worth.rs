//! What habits cost, and from what on they are worth a word.
//!
//! Costs are estimates, so that habits of different kinds can be ranked: what an allocation and its free cost with the C
//! library's allocator, copying from cache and memory, and a free that has to go to another thread's arena. A program is
//! compared with itself alone, so their proportions matter and not the machine.

use mallow_profile::{Counts, Profile};

use super::Savings;

/// Nanoseconds of an allocation and its free.
const ALLOCATION: f64 = 20.0;
/// Nanoseconds of a copied byte.
const COPIED_BYTE: f64 = 0.1;
/// Nanoseconds that a free by another thread costs more, before anybody waits for a lock.
const FREED_BY_OTHER: f64 = 40.0;

/// The smallest share of the whole that is reported.
const SHARE: f64 = 0.01;
/// And from what on savings are not small in themselves; one of them suffices.
const ALLOCATIONS: u64 = 10_000;
const COPIED_BYTES: u64 = 10 << 20;
const PEAK_BYTES: u64 = 1 << 20;
/// Fewer allocations than [`ALLOCATIONS`] matter where they are of so many bytes, which have to be cleared or fetched.
const LARGE_ALLOCATIONS: u64 = 500;
const LARGE_BYTES: u64 = 10 << 20;

/// The program as a whole.
pub(crate) struct Whole {
    /// Sums over all sites.
    pub counts: Counts,
    cost: f64,
}

impl Whole {
    /// Costs a pass over the sites.
    pub fn of(profile: &Profile) -> Self {
        let patterns = || profile.sites.iter().map(|site| *site.patterns);
        let all = Savings {
            allocations: profile.totals.allocations,
            copied_bytes: patterns().fold(0, |sum, p| sum.saturating_add(p.copied_bytes)),
            freed_by_others: patterns().fold(0, |sum, p| sum.saturating_add(p.freed_by_others)),
            peak_bytes: 0,
        };
        Self { counts: profile.totals, cost: cost(&all) }
    }

    /// The share of the program's cost of allocating, or of its peak, whichever is larger; at most 1.
    pub fn share(&self, saves: &Savings) -> f64 {
        let cost = part(cost(saves), self.cost);
        cost.max(part(saves.peak_bytes as f64, self.counts.peak_bytes as f64))
    }

    /// Is it worth a word? `bytes` is what is allocated there.
    pub fn matters(&self, saves: &Savings, bytes: u64) -> bool {
        let large = saves.allocations >= ALLOCATIONS
            || saves.copied_bytes >= COPIED_BYTES
            || saves.freed_by_others >= ALLOCATIONS
            || saves.peak_bytes >= PEAK_BYTES
            || saves.allocations >= LARGE_ALLOCATIONS && bytes >= LARGE_BYTES;
        large && self.share(saves) >= SHARE
    }
}

fn cost(s: &Savings) -> f64 {
    s.allocations as f64 * ALLOCATION + s.copied_bytes as f64 * COPIED_BYTE + s.freed_by_others as f64 * FREED_BY_OTHER
}

fn part(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).min(1.0) } else { 0.0 }
}

/// True if `part` is at least so many hundredths of `whole`.
pub(crate) fn at_least(part: u64, percent: u64, whole: u64) -> bool {
    u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}
