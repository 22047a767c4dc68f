//! A profile of what a benchmark's operations allocate, for a file.

use std::collections::hash_map::Entry;

use mallow_profile::{Profile, Quantities, Quantity, Site, StackId};
use rustc_hash::FxHashMap;

use super::Part;
use super::seen::Seen;
use super::sites::{growth, in_benchmark, lines_of_benchmark};
use super::stacks::{Counts, FrameKey, stack_of, stacks};

/// Operations that a run has more than another one.
pub struct SavedOperations<'a> {
    pub few: &'a Profile,
    /// What comes before the operations of both runs: only what grows with operations is saved. None: all that the
    /// other run has more.
    pub before: Option<&'a Profile>,
    /// Operations of `few`.
    pub few_operations: u64,
    /// Operations that the run with many has more.
    pub more: u64,
    /// Operations whose allocations are saved.
    pub per: u64,
    /// Its source shows what is in no figure of the benchmark, which is not saved. None: all of it is.
    pub timed: Option<&'a dyn Seen>,
}

impl SavedOperations<'_> {
    /// Leaves these operations in the profile of the run with many.
    pub fn leave_in(&self, many: &mut Profile) {
        let few = stacks(self.few, None);
        let before = self.before.map(|before| stacks(before, None));
        let mut keys = FxHashMap::default();
        merge(&mut many.sites);
        let mut sites = std::mem::take(&mut many.sites);
        let mut totals = mallow_profile::Counts::default();
        for site in &mut sites {
            let stack = stack_of(many, site.stack, &mut keys);
            let of = |run: &FxHashMap<Vec<FrameKey>, Counts>| run.get(&stack).copied().unwrap_or_default();
            let counts = Counts::of(&site.counts);
            let more = match &before {
                _ if !in_benchmark(&stack) || self.is_untimed(&stack) => Counts::default(),
                None => counts.less(of(&few)),
                Some(before) => {
                    let before = of(before);
                    growth((of(&few).less(before), counts.less(before)), self.few_operations, self.more)
                }
            };
            site.counts = mallow_profile::Counts {
                allocations: self.scaled(more.allocations),
                allocated_bytes: self.scaled(more.bytes),
                ..mallow_profile::Counts::default()
            };
            totals += site.counts;
        }
        sites.retain(|site| site.counts.allocations > 0);
        many.processes.iter_mut().for_each(|process| process.totals = mallow_profile::Counts::default());
        for site in &sites {
            if let Some(process) = many.processes.get_mut(site.process.0 as usize) {
                process.totals += site.counts;
            }
        }
        (many.sites, many.totals) = (sites, totals);
        if let Some(origin) = &mut many.origin {
            origin.quantities = Quantities::of(&[Quantity::Allocations, Quantity::AllocatedBytes]);
            origin.sampled_bytes = None;
        }
    }

    fn scaled(&self, n: u64) -> u64 {
        (n as f64 * self.per as f64 / self.more.max(1) as f64).round() as u64
    }

    fn is_untimed(&self, stack: &[FrameKey]) -> bool {
        let shown = |seen: &dyn Seen| {
            let mut parts = lines_of_benchmark(stack, seen).map(|place| seen.part(place));
            parts.find(|part| !part.is_operation()) == Some(Part::Untimed)
        };
        self.timed.is_some_and(shown)
    }
}

/// Leaves one site of each process and stack: a profile may have one for each size of blocks.
fn merge(sites: &mut Vec<Site>) {
    let mut at: FxHashMap<(u32, StackId), usize> = FxHashMap::default();
    let mut merged: Vec<Site> = Vec::new();
    for site in sites.drain(..) {
        match at.entry((site.process.0, site.stack)) {
            Entry::Occupied(known) => {
                if let Some(known) = merged.get_mut(*known.get()) {
                    known.counts += site.counts;
                }
            }
            Entry::Vacant(new) => {
                new.insert(merged.len());
                merged.push(site);
            }
        }
    }
    *sites = merged;
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Known, profile};
    use super::*;

    #[test]
    fn what_the_timer_does_not_see_is_not_saved() {
        let stack = |benchmark: &'static str| [(1, "own.F"), (2, benchmark), (90, "testing.(*B).runN")];
        let (timed, untimed) = (stack("own.Benchmark"), stack("own.Untimed"));
        let run = |n: u64| profile(&[(&timed, n, 16 * n), (&untimed, 8 * n, 8 * n)]);
        for (timed, allocations) in [(Some(&Known as &dyn Seen), 20), (None, 180)] {
            let (few, mut saved) = (run(10), run(30));
            SavedOperations { few: &few, before: None, few_operations: 10, more: 20, per: 20, timed }
                .leave_in(&mut saved);
            assert_eq!((saved.totals.allocations, saved.check()), (allocations, Ok(())));
        }
    }

    /// A pool that was empty in the run with many alone, and 4 allocations that the collector took to it.
    #[test]
    fn what_does_not_grow_with_operations_is_not_saved() {
        let stack = |name: &'static str| [(name.len() as u64, name), (90, "testing.(*B).runN")];
        let stacks = ["own.Each", "own.Fill", "own.SetUp"].map(stack);
        let run = |counts: [u64; 3]| profile(&[0, 1, 2].map(|n| (&stacks[n][..], counts[n], 16 * counts[n])));
        let (before, few, many) = (run([1, 5000, 300]), run([11, 5000, 600]), run([101, 10_000, 604]));
        for (before, allocations) in [(Some(&before), 90), (None, 90 + 5000 + 4)] {
            let mut saved = many.clone();
            SavedOperations { few: &few, before, few_operations: 10, more: 90, per: 90, timed: None }
                .leave_in(&mut saved);
            assert_eq!(saved.totals.allocations, allocations);
        }
    }
}
