//! Containers that stand for a good part of all allocations, where nothing more special is to be said.

use std::collections::BTreeMap;

use super::super::functions::FunctionId;
use super::call_paths::CallPaths;
use super::containers::Container;
use super::worth::{Whole, at_least, large_bytes};
use super::{Evidence, Finding, Savings};

/// The smallest share of all allocations, in percent, from which on a container is named.
const PERCENT: u64 = 20;

/// From this share that is live at once on, in percent, what is allocated is stored.
const STORED_PERCENT: u64 = 50;

/// From this share of the allocations on, in percent, a size that is right from the start is the remedy.
const GROWN_PERCENT: u64 = 25;

/// `found` are the insights so far, each with its path.
pub(super) fn find(paths: &CallPaths, whole: &Whole, found: &[(usize, Finding)]) -> Vec<(usize, Finding)> {
    let mut claimed: BTreeMap<usize, u64> = BTreeMap::new();
    for (path, finding) in found {
        let sum = claimed.entry(paths.root_of(*path)).or_default();
        *sum = sum.saturating_add(finding.saves.allocations);
    }
    let mut groups: BTreeMap<(FunctionId, Container), Vec<usize>> = BTreeMap::new();
    for root in paths.roots() {
        let path = paths.get(root);
        if let Some(container) = path.container {
            groups.entry((path.step.function, container)).or_default().push(root);
        }
    }
    let popular = groups.into_iter().filter_map(|((_, container), roots)| {
        let sum = |of: &dyn Fn(usize) -> u64| roots.iter().fold(0u64, |sum, &root| sum.saturating_add(of(root)));
        let allocations = sum(&|root| paths.get(root).counts.allocations);
        let claimed = sum(&|root| claimed.get(&root).copied().unwrap_or(0));
        if !at_least(allocations, PERCENT, whole.counts.allocations) || at_least(claimed, 50, allocations) {
            return None;
        }
        let largest = *roots.iter().max_by_key(|&&root| paths.get(root).counts.allocations)?;
        let path = paths.get(largest);
        let allocated_bytes = sum(&|root| paths.get(root).counts.allocated_bytes);
        let large = sum(&|root| large_bytes(&paths.get(root).counts));
        // What is live together at the peak, or at the end, cannot be one that is kept and cleared.
        let live = sum(&|root| paths.get(root).counts.peak.max(paths.get(root).counts.live));
        // And one is gone before the next comes only where most are.
        let alternating = sum(&|root| paths.get(root).patterns.alternating);
        // A step is an allocation, and no block more.
        let steps = sum(&|root| paths.get(root).patterns.growth_steps).min(allocations);
        let copied_bytes = sum(&|root| paths.get(root).patterns.copied_bytes);
        let begun = allocations - steps;
        let is_stored = at_least(live, STORED_PERCENT, begun);
        let is_short_lived = !is_stored && at_least(alternating, 50, begun);
        // One that is there before, or is kept, grows no more.
        let all = Savings { allocations, large_bytes: large, copied_bytes, ..Savings::default() };
        let (remedy, saves) = if is_short_lived {
            let remedy = if steps > 0 { container.remedy() } else { container.remedy_without_growth() };
            (remedy.to_owned(), all)
        } else if container.grows() && at_least(steps, GROWN_PERCENT, allocations) {
            (container.remedy_of_growth(), Savings { allocations: steps, copied_bytes, ..Savings::default() })
        } else if is_stored {
            (container.remedy_of_stored(steps > 0)?.to_owned(), all)
        } else {
            (container.remedy_of_many(steps > 0)?.to_owned(), all)
        };
        let finding = Finding {
            evidence: Evidence::PopularContainer { container: container.name(), allocations, allocated_bytes },
            remedy,
            saves,
            step: path.step,
            through: path.through,
            sites: sum(&|root| paths.get(root).sites),
            largest: path.largest,
        };
        whole.matters(&saves, allocated_bytes).then_some((largest, finding))
    });
    popular.collect()
}
