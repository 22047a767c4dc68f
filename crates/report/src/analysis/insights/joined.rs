//! Containers that grow at several calls of one function: a vector that begins at one `push_back` and moves into a
//! larger block at the next one is a single container, of which no call alone shows how often it is made.

use std::collections::BTreeMap;

use super::call_paths::{CallPath, CallPaths};
use super::containers::Container;
use super::growth::begin_here;
use crate::analysis::stacks::functions::FunctionId;

/// Calls of one function whose containers go from one to the other.
pub(super) struct Joined {
    pub roots: Vec<usize>,
    /// Number of the root with the most allocations.
    pub largest: usize,
    /// Sum of the roots, at the place of the largest.
    pub sum: CallPath,
}

/// One element for each function and container where some call enlarges what began at others.
pub(super) fn find(paths: &CallPaths) -> Vec<Joined> {
    let mut groups: BTreeMap<(FunctionId, Container), Vec<usize>> = BTreeMap::new();
    for root in paths.roots() {
        let path = paths.get(root);
        if let Some(container) = path.container.filter(|container| container.grows())
            && path.patterns.growth_steps.saturating_add(path.patterns.grown_buffers) > 0
        {
            groups.entry((path.step.function, container)).or_default().push(root);
        }
    }
    groups.into_values().filter_map(|roots| joined(paths, roots)).collect()
}

fn joined(paths: &CallPaths, roots: Vec<usize>) -> Option<Joined> {
    let takes_over = |&&root: &&usize| !begin_here(paths.get(root));
    let mut steps_of_others = 0u64;
    for &root in roots.iter().filter(takes_over) {
        steps_of_others = steps_of_others.saturating_add(paths.get(root).patterns.growth_steps);
    }
    if roots.len() < 2 || steps_of_others == 0 {
        return None;
    }
    let largest = *roots.iter().max_by_key(|&&root| paths.get(root).counts.allocations)?;
    let mut sum = paths.get(largest).clone();
    for path in roots.iter().filter(|&&root| root != largest).map(|&root| paths.get(root)) {
        sum.counts += path.counts;
        sum.patterns += path.patterns;
        sum.sites = sum.sites.saturating_add(path.sites);
    }
    begin_with_room(paths, &roots, &mut sum);
    // A block that moves on to another call was the last one of its own call, and is none that was gone before the next
    // one. How many did is not known, but each did so in a step there.
    sum.patterns.alternating = sum.patterns.alternating.saturating_sub(steps_of_others);
    Some(Joined { roots, largest, sum })
}

/// Takes the first blocks of containers off the steps of their growth. Where a container is given room and something of
/// half the size is freed next, that looks like a step; but each that grew began with a block that was none.
fn begin_with_room(paths: &CallPaths, roots: &[usize], sum: &mut CallPath) {
    let patterns = &mut sum.patterns;
    let begun = sum.counts.allocations.saturating_sub(patterns.growth_steps);
    let mut too_many = patterns.grown_buffers.saturating_sub(begun);
    for path in roots.iter().map(|&root| paths.get(root)).filter(|path| path.reserves) {
        let own = too_many.min(path.patterns.growth_steps);
        too_many -= own;
        patterns.growth_steps = patterns.growth_steps.saturating_sub(own);
        patterns.copied_bytes = patterns.copied_bytes.saturating_sub(own.saturating_mul(path.patterns.smallest / 2));
    }
}
