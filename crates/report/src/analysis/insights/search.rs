//! Looks for habits, each at the innermost place where it is to be seen.

use super::super::functions::Functions;
use super::ways::Ways;
use super::worth::{Whole, at_least};
use super::{Evidence, Finding, Savings};
use super::{growth, lifetimes};

/// Small blocks that are freed together are told from this share of all allocations on, in percent, over all places: an
/// arena is a larger change than others.
const TOGETHER_PERCENT: u64 = 5;
/// The smallest share of a place that counts among several, in percent.
const PLACE_PERCENT: u64 = 1;

/// A habit, its savings and its remedy.
type Habit = (Evidence, Savings, String);

/// What is found along the ways, with the number of the way. No two findings tell of the same allocations, but for slack,
/// which is about something else.
pub(super) fn search(ways: &Ways, functions: &Functions<'_>, whole: &Whole) -> Vec<(usize, Finding)> {
    let mut search =
        Search { ways, functions, whole, found: Vec::new(), together: Vec::new(), handed_over: Vec::new() };
    for root in ways.roots() {
        search.walk(root, &mut |search, number| search.of_allocations(number));
        search.walk(root, &mut |search, number| search.of_memory(number));
    }
    search.merge();
    search.found
}

struct Search<'a> {
    ways: &'a Ways,
    functions: &'a Functions<'a>,
    whole: &'a Whole,
    found: Vec<(usize, Finding)>,
    /// Ways whose blocks are freed together, and those whose blocks other threads free: what may have one remedy is one
    /// insight.
    together: Vec<(usize, Evidence, Savings)>,
    handed_over: Vec<(usize, Evidence, Savings)>,
}

impl Search<'_> {
    /// Looks at a way and, where there is nothing to be seen, further out.
    fn walk(&mut self, root: usize, look: &mut dyn FnMut(&mut Self, usize) -> bool) {
        let mut open = vec![root];
        while let Some(number) = open.pop() {
            if !look(self, number) {
                open.extend(&self.ways.get(number).outer);
            }
        }
    }

    /// True if there is something.
    fn of_allocations(&mut self, number: usize) -> bool {
        let way = self.ways.get(number);
        if way.patterns.smallest != way.patterns.largest && self.ways.is_wrapper(number) {
            return false;
        }
        let through = way.through.filter(|_| way.inner.is_none()).and_then(|id| self.functions.known_name(id));
        if let Some(habit) = growth::growth(way).or_else(|| lifetimes::temporary(way, through)) {
            return self.take(number, habit);
        }
        if !at_least(way.counts.allocations, PLACE_PERCENT, self.whole.counts.allocations) {
            return false;
        }
        if let Some((evidence, saves)) = lifetimes::handed_over(way) {
            self.handed_over.push((number, evidence, saves));
            return true;
        }
        if let Some((evidence, saves)) = lifetimes::together(way) {
            self.together.push((number, evidence, saves));
            return true;
        }
        false
    }

    fn of_memory(&mut self, number: usize) -> bool {
        if self.ways.is_wrapper(number) {
            return false;
        }
        match growth::slack(self.ways.get(number), self.whole.counts.peak_bytes) {
            Some(habit) => self.take(number, habit),
            None => false,
        }
    }

    /// True if it is worth a word.
    fn take(&mut self, number: usize, (evidence, saves, remedy): Habit) -> bool {
        let way = self.ways.get(number);
        if !self.whole.matters(&saves, way.counts.allocated_bytes) {
            return false;
        }
        let through = match way.inner {
            Some(inner) => Some(self.ways.get(inner).step.function),
            None => way.through,
        };
        let finding = Finding {
            evidence,
            remedy,
            saves,
            step: way.step,
            through: through.filter(|&id| self.functions.known_name(id).is_some()),
            sites: way.sites,
            largest: way.largest,
        };
        self.found.push((number, finding));
        true
    }

    /// One insight for all blocks that are freed together, whose runs may be the same, and one for all that go to other
    /// threads, perhaps as parts of one thing. Its place is that with the most allocations.
    fn merge(&mut self) {
        if let Some((number, evidence, saves)) = lifetimes::merged(std::mem::take(&mut self.together))
            && at_least(saves.allocations, TOGETHER_PERCENT, self.whole.counts.allocations)
        {
            let remedy = "Take them from an arena or a pool that is given back as a whole.";
            self.take(number, (evidence, saves, remedy.to_owned()));
        }
        if let Some((number, evidence, saves)) = lifetimes::merged(std::mem::take(&mut self.handed_over)) {
            let remedy = "Such frees contend for the allocator: hand used blocks back for reuse, or hand over fewer, \
                          larger ones.";
            self.take(number, (evidence, saves, remedy.to_owned()));
        }
    }
}
