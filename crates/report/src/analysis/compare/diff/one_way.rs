//! Call paths of a line that changed in one direction.

use crate::analysis::stacks::branches::{Branch, Criterion};

/// Finds branches whose paths all have more, or all have less. A sum below `least` does not count.
pub(super) struct OneWay {
    /// By path, `after` - `before`.
    pub deltas: Vec<i64>,
    pub least: u64,
}

/// Call paths that have more, or less, together.
pub(super) struct Changed {
    pub paths: Vec<usize>,
    /// Index, from the line outwards, of the caller that tells these paths from the others; None: all paths of the
    /// line.
    pub caller: Option<usize>,
}

impl OneWay {
    /// What the growing paths have more, and what the others have less.
    fn sums(&self, paths: &[usize]) -> [u64; 2] {
        let deltas = paths.iter().filter_map(|at| self.deltas.get(*at));
        deltas.fold([0, 0], |[more, less]: [u64; 2], delta| match delta {
            0.. => [more.saturating_add(delta.unsigned_abs()), less],
            _ => [more, less.saturating_add(delta.unsigned_abs())],
        })
    }

    pub fn goes_both_ways(&self, paths: &[usize]) -> bool {
        self.sums(paths).into_iter().all(|sum| sum >= self.least)
    }
}

impl Criterion for OneWay {
    type Found = Changed;

    fn find(&mut self, branch: &Branch) -> Option<Changed> {
        let sums = self.sums(&branch.paths);
        let is_one_way = sums[0].min(sums[1]) < self.least && sums[0].abs_diff(sums[1]) >= self.least;
        is_one_way.then(|| Changed { paths: branch.paths.clone(), caller: branch.caller })
    }

    fn has_parts(&self, branch: &Branch, _: bool) -> bool {
        self.goes_both_ways(&branch.paths)
    }

    fn is_named_whole(&mut self, _: &Changed, _: &[Changed]) -> bool {
        true
    }
}
