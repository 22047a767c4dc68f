//! Memory pools for the blocks of some places: what they would release, and whose freed blocks left the holes.

use mallow_profile::{Footprint, ProcessId, Profile};
use rustc_hash::FxHashMap;

use super::geometry::PAGE;
use super::large::chunks_at_most;
use super::sweep::{Found, Sweep};
use super::territory::Territory;
use crate::analysis::stacks::functions::{Functions, Named};

/// Most places that get memory pools: nobody makes more.
const POOLS: usize = 12;
/// One part in so many of RSS is the least that a remedy is worth, and [`LEAST`] bytes.
const LEAST_SHARE: u64 = 100;
const LEAST: u64 = 16 * PAGE;
/// Blocks that places freed themselves are few if they are below one part in so many of the places' holes.
pub const LITTLE: u64 = 10;

#[derive(Clone, Copy)]
pub struct Pinning {
    pub named: Option<Named>,
    /// Share of the holes, in bytes.
    pub holes: u64,
}

/// Places that may get memory pools, those that pin most first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pools {
    pub places: Vec<u32>,
    /// After the first place, the first two and so on: the free bytes in pages that nobody else pins.
    pub together: Vec<u64>,
    /// By place, most bytes that chunks of the blocks which it freed itself took. A pool of its blocks has the holes
    /// that these leave.
    pub own_freed: Vec<u64>,
}

/// Least bytes that a remedy must release to be worth it.
pub fn least_worth(footprint: &Footprint) -> u64 {
    LEAST.max(footprint.totals.rss / LEAST_SHARE)
}

impl Pools {
    /// Chooses among places that pin holes, by passes over the territories. Places whose holes other places' blocks
    /// left come first: if they release anything, the others are left out.
    pub fn of(
        profile: &Profile,
        process: ProcessId,
        functions: &Functions<'_>,
        entries: &[Pinning],
        sweep: &Sweep<'_>,
        all: &[Territory],
        least: u64,
    ) -> Self {
        let holes = |place: u32| entries.get(place as usize).map_or(0, |entry| entry.holes);
        let mut order: Vec<u32> = (0..entries.len() as u32).filter(|&place| holes(place) > 0).collect();
        order.sort_by_key(|&place| std::cmp::Reverse(holes(place)));
        order.truncate(POOLS);
        if order.iter().map(|&place| holes(place)).sum::<u64>() < least {
            return Self::default();
        }
        let freed = own_freed(profile, process, functions, entries, &order);
        let both = || order.iter().copied().zip(freed.iter().copied());
        let of = |chosen: (Vec<u32>, Vec<u64>)| {
            let together = together(&chosen.0, entries.len(), sweep, all);
            Self { places: chosen.0, together, own_freed: chosen.1 }
        };
        let of_others = of(both().filter(|&(place, freed)| freed <= holes(place) / LITTLE).unzip());
        if of_others.together.last().is_some_and(|&most| most >= least) { of_others } else { of(both().unzip()) }
    }
}

fn own_freed(
    profile: &Profile,
    process: ProcessId,
    functions: &Functions<'_>,
    entries: &[Pinning],
    order: &[u32],
) -> Vec<u64> {
    let key = |place: u32| entries.get(place as usize).and_then(|entry| entry.named).map(|named| named.key());
    let at: FxHashMap<_, usize> = order.iter().enumerate().map(|(at, &place)| (key(place), at)).collect();
    let mut freed = vec![0u64; order.len()];
    for site in profile.sites.iter().filter(|site| site.process == process && site.counts.frees > 0) {
        let named = functions.named(site.stack).map(|named| named.key());
        if let Some(sum) = at.get(&named).and_then(|&at| freed.get_mut(at)) {
            *sum = sum.saturating_add(chunks_at_most(site.counts.frees, site.counts.freed_bytes));
        }
    }
    freed
}

/// Bytes that would be free without the first place, the first two and so on.
fn together(places: &[u32], count: usize, sweep: &Sweep<'_>, all: &[Territory]) -> Vec<u64> {
    let mut rank = vec![usize::MAX; count];
    for (at, &place) in places.iter().enumerate() {
        if let Some(rank) = rank.get_mut(place as usize) {
            *rank = at;
        }
    }
    let mut together = vec![0u64; places.len()];
    for territory in all.iter().filter(|_| !places.is_empty()) {
        sweep.territory(territory, &mut |found| {
            let Found::Unit { resident, used, cached, pins, .. } = found else { return };
            let last = pins.iter().map(|&(place, _)| rank.get(place as usize).copied().unwrap_or(usize::MAX)).max();
            if let Some(sum) = last.and_then(|last| together.get_mut(last)) {
                *sum += resident - used - cached;
            }
        });
    }
    let mut sum = 0;
    for one in &mut together {
        sum += *one;
        *one = sum;
    }
    together
}
