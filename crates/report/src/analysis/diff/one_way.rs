//! Call paths of a line that changed in one direction.

use crate::analysis::branches::{Branch, Criterion};

/// Branches whose paths all have more, or all have less, as far as it matters.
pub(super) struct OneWay {
    /// What each path has more.
    pub deltas: Vec<i64>,
    /// Less than this is nothing.
    pub least: u64,
}

/// Call paths that have more, or less, together.
pub(super) struct Changed {
    pub paths: Vec<usize>,
    /// The caller that tells them from the others of the line, by its place among the callers.
    pub caller: Option<usize>,
}

impl OneWay {
    /// What these paths have more, and what they have less.
    fn sums(&self, paths: &[usize]) -> [u64; 2] {
        let deltas = paths.iter().filter_map(|at| self.deltas.get(*at));
        deltas.fold([0, 0], |[more, less]: [u64; 2], delta| match delta {
            0.. => [more.saturating_add(delta.unsigned_abs()), less],
            _ => [more, less.saturating_add(delta.unsigned_abs())],
        })
    }

    /// Whether some of these paths have more and others less, so that the sum hides it.
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
