//! Containers that stand for a good part of all allocations, where nothing more special is to be said.

use std::collections::BTreeMap;

use super::call_paths::CallPaths;
use super::containers::Container;
use super::growth::{growth_steps, is_worth_reserving};
use super::library_call::LibraryCall;
use super::worth::{Whole, at_least, large_bytes};
use super::{Evidence, Finding, Savings};
use crate::analysis::stacks::functions::{FunctionId, Functions};

/// Smallest percentage of all allocations that a container is named for.
const PERCENT: u64 = 20;

/// Percentage live at once from which on allocated memory is not gone before the next comes.
const LIVE_PERCENT: u64 = 50;

/// Percentage of the allocations from which on growth makes a size that is right from the start the remedy.
const GROWN_PERCENT: u64 = 25;

/// Percentage of a function's calls from which on all are said to do what these do.
const MOSTLY_PERCENT: u64 = 80;

/// `found` are the insights so far, each with the number of its path.
pub(super) fn find(
    paths: &CallPaths,
    functions: &Functions<'_>,
    whole: &Whole,
    found: &[(usize, Finding)],
) -> Vec<(usize, Finding)> {
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
        let steps = sum(&|root| growth_steps(paths.get(root)));
        let copied_bytes = sum(&|root| match growth_steps(paths.get(root)) {
            0 => 0,
            _ => paths.get(root).patterns.copied_bytes,
        });
        // Other calls of the function have blocks of their final size.
        let is_growth = is_worth_reserving(steps, copied_bytes, allocations, allocated_bytes);
        let (steps, copied_bytes) = if is_growth { (steps, copied_bytes) } else { (0, 0) };
        // What most of them do: the calls of one function may do different things.
        let (call, through) = call(paths, functions, &roots, largest);
        let begun = allocations - steps;
        // Of half that is stored and half that is not, neither remedy is that of all.
        let is_stored = at_least(live, MOSTLY_PERCENT, begun);
        let is_short_lived = !at_least(live, LIVE_PERCENT, begun) && at_least(alternating, 50, begun);
        // One that is there before, or is kept, grows no more.
        let all = Savings { allocations, large_bytes: large, copied_bytes, ..Savings::default() };
        let (remedy, saves) = if is_short_lived {
            let remedy =
                if steps > 0 { container.remedy().to_owned() } else { container.remedy_without_growth(call, through) };
            (remedy, all)
        } else if container.grows() && at_least(steps, GROWN_PERCENT, allocations) {
            (container.remedy_of_growth(), Savings { allocations: steps, copied_bytes, ..Savings::default() })
        } else if is_stored {
            (container.remedy_of_stored(steps > 0)?.to_owned(), all)
        } else {
            (container.remedy_of_many(steps > 0, call, through)?, all)
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

/// The effect of a function's calls for a container, and the name of what the largest of them calls.
/// [`LibraryCall::Unknown`] where they do different things.
fn call<'a>(
    paths: &CallPaths,
    functions: &'a Functions<'_>,
    roots: &[usize],
    largest: usize,
) -> (LibraryCall, Option<&'a str>) {
    let path = paths.get(largest);
    let of = |wanted: &dyn Fn(usize) -> bool| {
        let roots = roots.iter().filter(|&&root| wanted(root));
        roots.fold(0u64, |sum, &root| sum.saturating_add(paths.get(root).counts.allocations))
    };
    let is_same = |root: usize| paths.get(root).call == path.call;
    let through = path.through.and_then(|through| functions.known_name(through));
    if at_least(of(&is_same), MOSTLY_PERCENT, of(&|_| true)) {
        (path.call, through)
    } else {
        (LibraryCall::Unknown, None)
    }
}
