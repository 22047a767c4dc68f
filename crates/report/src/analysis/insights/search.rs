//! Looks for habits, each at the innermost place where it is to be seen.

use std::collections::BTreeSet;

use super::call_paths::{CallPath, CallPaths};
use super::interpreted::Interpreted;
use super::language::language;
use super::worth::{Whole, at_least, large_bytes};
use super::{Evidence, Finding, Savings};
use super::{growth, joined, lifetimes};
use crate::analysis::stacks::functions::Functions;

/// Percentage of all allocations, over all places, from which on small blocks that are freed together are reported: an
/// arena is a larger change than others.
const TOGETHER_PERCENT: u64 = 5;
/// Smallest percentage of a place that counts among several.
const PLACE_PERCENT: u64 = 1;

/// A habit, its savings and its remedy.
type Habit = (Evidence, Savings, String);

/// Findings along the call paths, each with the number of its path. No two are about the same allocations, but for
/// slack.
pub(super) fn search(
    paths: &CallPaths,
    functions: &Functions<'_>,
    whole: &Whole,
    interpreted: &Interpreted<'_>,
) -> Vec<(usize, Finding)> {
    let (together, handed_over) = Default::default();
    let mut search = Search { paths, functions, whole, interpreted, found: Vec::new(), together, handed_over };
    let joined = search.of_joined();
    for root in paths.roots() {
        if !joined.contains(&root) {
            search.walk(root, &mut |search, number| search.of_allocations(number));
        }
        search.walk(root, &mut |search, number| search.of_memory(number));
    }
    search.merge();
    search.found
}

struct Search<'a> {
    paths: &'a CallPaths,
    functions: &'a Functions<'a>,
    whole: &'a Whole,
    interpreted: &'a Interpreted<'a>,
    found: Vec<(usize, Finding)>,
    /// Call paths whose blocks are freed together, and those whose blocks other threads free; each is one insight,
    /// because they may have one remedy.
    together: Vec<(usize, Evidence, Savings)>,
    handed_over: Vec<(usize, Evidence, Savings)>,
}

impl Search<'_> {
    /// Looks at a path and, where `look` finds nothing, further out.
    fn walk(&mut self, root: usize, look: &mut dyn FnMut(&mut Self, usize) -> bool) {
        let mut open = vec![root];
        while let Some(number) = open.pop() {
            // Nor is what an interpreter allocates the habit of a function that calls it.
            let is_over = self.interpreted.is(&self.paths.get(number).step);
            if !is_over && !look(self, number) {
                open.extend(&self.paths.get(number).outer);
            }
        }
    }

    /// Finds containers that grow at several calls of a function; returns the roots of these calls.
    fn of_joined(&mut self) -> BTreeSet<usize> {
        let mut roots = BTreeSet::new();
        for joined in joined::find(self.paths) {
            let path = &joined.sum;
            if self.interpreted.is(&path.step) || joined.roots.iter().any(|&root| self.paths.is_wrapper(root)) {
                continue;
            }
            let through = path.through.and_then(|id| self.functions.known_name(id));
            let language = language(self.functions, &path.step, through);
            if let Some(habit) = growth::growth(path, language)
                && self.take_path(joined.largest, path, habit)
            {
                roots.extend(joined.roots);
            }
        }
        roots
    }

    /// Looks for habits of allocation; true if there is one.
    fn of_allocations(&mut self, number: usize) -> bool {
        let path = self.paths.get(number);
        if path.patterns.smallest != path.patterns.largest && self.paths.is_wrapper(number) {
            return false;
        }
        let through = path.through.filter(|_| path.inner.is_none()).and_then(|id| self.functions.known_name(id));
        let language = language(self.functions, &path.step, through);
        if let Some(habit) = growth::growth(path, language).or_else(|| lifetimes::temporary(path, through, language)) {
            return self.take(number, habit);
        }
        if !at_least(path.counts.allocations, PLACE_PERCENT, self.whole.counts.allocations) {
            return false;
        }
        if let Some((evidence, saves)) = lifetimes::handed_over(path) {
            self.handed_over.push((number, evidence, saves));
            return true;
        }
        if let Some((evidence, saves)) = lifetimes::together(path, self.whole.in_glibc) {
            self.together.push((number, evidence, saves));
            return true;
        }
        false
    }

    fn of_memory(&mut self, number: usize) -> bool {
        if self.paths.is_wrapper(number) {
            return false;
        }
        let path = self.paths.get(number);
        let language = language(self.functions, &path.step, None);
        match growth::slack(path, self.whole.counts.peak_bytes, language) {
            Some(habit) => self.take(number, habit),
            None => false,
        }
    }

    /// True if the habit is worth an insight.
    fn take(&mut self, number: usize, habit: Habit) -> bool {
        self.take_path(number, self.paths.get(number), habit)
    }

    /// `path` is the one of this number, or the sum of several of which it is the largest. True if the habit is worth
    /// an insight.
    fn take_path(&mut self, number: usize, path: &CallPath, (evidence, mut saves, remedy): Habit) -> bool {
        if saves.allocations > 0 {
            saves.large_bytes = large_bytes(&path.counts);
        }
        if !self.whole.matters(&saves, path.counts.allocated_bytes) {
            return false;
        }
        let through = match path.inner {
            Some(inner) => Some(self.paths.get(inner).step.function),
            None => path.through,
        };
        let is_of_memory = matches!(evidence, Evidence::KeptSlack { .. } | Evidence::GrowingAtPeak { .. });
        let finding = Finding {
            largest: if is_of_memory { path.most_slack } else { path.largest },
            evidence,
            remedy,
            saves,
            step: path.step,
            through: through.filter(|&id| self.functions.known_name(id).is_some()),
            sites: path.sites,
        };
        self.found.push((number, finding));
        true
    }

    /// Adds one insight for all blocks that are freed together, whose runs may be the same, and one for all that go to
    /// other threads, perhaps as parts of one thing. Both are at the path with the most allocations.
    fn merge(&mut self) {
        if let Some((number, evidence, saves)) = lifetimes::merged(std::mem::take(&mut self.together))
            && at_least(saves.allocations, TOGETHER_PERCENT, self.whole.counts.allocations)
        {
            let remedy = "If they end together, take them from an arena or a pool that is given back as a whole.";
            self.take(number, (evidence, saves, remedy.to_owned()));
        }
        if let Some((number, evidence, saves)) = lifetimes::merged(std::mem::take(&mut self.handed_over)) {
            let remedy = "Such frees may contend for the allocator: hand used blocks back for reuse, or hand over fewer, \
                          larger ones.";
            self.take(number, (evidence, saves, remedy.to_owned()));
        }
    }
}
