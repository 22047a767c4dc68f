//! Which callers of a line lose the blocks that they have from it, and which do not.

use std::collections::BTreeMap;

use mallow_profile::StackId;
use rustc_hash::FxHashSet;

use super::sites::LeakSite;
use crate::analysis::stacks::branches::{Branch, Branches, Criterion};
use crate::analysis::stacks::callers::Callers;

/// Most callers that are named one by one; of more, the line is what they have in common.
const MOST: usize = 3;
/// Callers that lose nothing tell apart if they have this percentage of the allocations of the losing ones.
const OTHERS_PERCENT: u64 = 50;

/// Call paths of a line that lose blocks, and that all go through one caller of it.
pub(in crate::analysis) struct LosingPaths {
    pub stacks: FxHashSet<StackId>,
    /// Index of the caller, from the line outwards; None: all paths of the line.
    pub caller: Option<usize>,
    allocated: u64,
}

/// Finds the losing paths of a line. `requests` are all stacks of the line with their allocations, `lost` those with
/// lost blocks.
pub(in crate::analysis) fn losing_paths(
    requests: &BTreeMap<StackId, u64>,
    lost: &[(StackId, LeakSite)],
    callers: &mut Callers<'_, '_>,
) -> Vec<LosingPaths> {
    if requests.len() < 2 {
        return Vec::new();
    }
    let losing: FxHashSet<StackId> = lost.iter().filter(|(_, site)| site.live > 0).map(|(stack, _)| *stack).collect();
    let of_paths: Vec<Vec<u64>> = requests.keys().map(|stack| callers.of(*stack)).collect();
    // Stacks that read the same are one: sites of several processes are counted at one of them.
    let are_losing: FxHashSet<&[u64]> =
        requests.keys().zip(&of_paths).filter(|(stack, _)| losing.contains(stack)).map(|(_, path)| &path[..]).collect();
    let paths = requests.iter().zip(&of_paths);
    let paths: Vec<(StackId, u64, bool)> =
        paths.map(|((stack, allocated), path)| (*stack, *allocated, are_losing.contains(&path[..]))).collect();
    Branches::of(0, of_paths.iter().map(|callers| &callers[..])).find(&mut Losing { paths: &paths })
}

struct Losing<'a> {
    /// Stacks, the number of allocations of each, and whether a block of it is lost.
    paths: &'a [(StackId, u64, bool)],
}

impl Criterion for Losing<'_> {
    type Found = LosingPaths;

    fn find(&mut self, branch: &Branch) -> Option<LosingPaths> {
        let of = || branch.paths.iter().filter_map(|at| self.paths.get(*at));
        let loses = of().any(|(.., loses)| *loses);
        loses.then(|| LosingPaths {
            stacks: of().map(|(stack, ..)| *stack).collect(),
            caller: branch.caller,
            allocated: of().fold(0, |sum: u64, (_, allocated, _)| sum.saturating_add(*allocated)),
        })
    }

    fn has_parts(&self, _: &Branch, found: bool) -> bool {
        found
    }

    fn is_named_whole(&mut self, whole: &LosingPaths, inner: &[LosingPaths]) -> bool {
        let losing = inner.iter().fold(0u64, |sum, part| sum.saturating_add(part.allocated));
        let others = whole.allocated.saturating_sub(losing);
        inner.is_empty()
            || inner.len() > MOST
            || u128::from(others) * 100 < u128::from(losing) * u128::from(OTHERS_PERCENT)
    }
}
