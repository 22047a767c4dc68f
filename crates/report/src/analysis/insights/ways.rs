//! Ways from the program to the allocator: a tree whose roots are the calls that ask for memory, and whose branches are
//! those that lead there.
//!
//! Habits belong to a place in the source, and nobody knows which function of a way that is: the innermost of the
//! program's own may be a wrapper that all others go through. So a habit is looked for at the root of each tree, and
//! where it is not to be seen there, further out.

use mallow_profile::{Counts, FrameId, Patterns, Profile, Site, StackId, StringId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::super::functions::{FunctionId, Functions, Step};
use super::super::interest::Interest;
use super::containers::{Container, Containers};

/// Functions of the program's own on a way, at the most.
const DEPTH: usize = 5;
/// Ways with less than one in so many of the program's allocations and bytes are not followed further out.
const SHARE: u64 = 200;

/// A way, by its outermost function.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    /// That function.
    pub step: Step,
    /// The way further in; None for a root.
    pub inner: Option<usize>,
    /// The ways further out, of one whose habits matter.
    pub outer: Vec<usize>,
    /// What the innermost function called of the language's own library.
    pub through: Option<FunctionId>,
    /// What kind of thing of that library the memory is for.
    pub container: Option<Container>,
    /// Sums over its sites.
    pub counts: Counts,
    /// What they do.
    pub patterns: Patterns,
    /// How many stacks.
    pub sites: u64,
    /// The stack with the most allocations.
    pub largest: StackId,
    most: u64,
}

/// All ways.
pub(crate) struct Ways {
    ways: Vec<Way>,
}

/// What ways have in common that are one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    inner: Option<usize>,
    function: FunctionId,
    file: Option<StringId>,
    line: u32,
    /// Where no line is known, calls are told apart by their addresses.
    frame: Option<FrameId>,
    through: Option<FunctionId>,
    container: Option<Container>,
}

/// A stack, and how far out it was followed.
struct Walker {
    stack: StackId,
    counts: Counts,
    patterns: Patterns,
    /// Index of a step of the stack: the next one to look at.
    next: usize,
    way: Option<usize>,
}

impl Ways {
    /// Costs a walk over the innermost functions of each stack.
    pub fn new(profile: &Profile, functions: &Functions<'_>, containers: &mut Containers<'_>) -> Self {
        let mut walkers = walkers(profile);
        let mut ways = Self { ways: Vec::new() };
        let mut known: FxHashMap<Key, usize> = FxHashMap::default();
        for depth in 0..DEPTH {
            walkers.retain_mut(|walker| {
                if let Some(inner) = walker.way {
                    let c = &ways.ways[inner].counts;
                    let matters = |part: u64, whole: u64| part.saturating_mul(SHARE) >= whole && part > 0;
                    if !matters(c.allocations, profile.totals.allocations)
                        && !matters(c.allocated_bytes, profile.totals.allocated_bytes)
                    {
                        return false;
                    }
                }
                ways.follow(walker, depth, functions, containers, &mut known)
            });
        }
        ways
    }

    /// True if there was one more function of the program's own.
    fn follow(
        &mut self,
        walker: &mut Walker,
        depth: usize,
        functions: &Functions<'_>,
        containers: &mut Containers<'_>,
        known: &mut FxHashMap<Key, usize>,
    ) -> bool {
        let last = walker.way.map(|way| self.ways[way].step.function);
        let mut through = None;
        let mut container = None;
        // Where that has no name, the place is the one that all views name.
        let first = if depth == 0 { functions.named_at(walker.stack).map_or(0, |(at, _)| at) } else { 0 };
        let steps: Vec<Step> = functions.steps(walker.stack).copied().collect();
        for (at, &step) in steps.iter().enumerate().skip(walker.next) {
            if step.interest != Interest::Own {
                if depth == 0 {
                    container = containers.with(container, step.function);
                    through = if step.interest == Interest::Runtime { Some(step.function) } else { through };
                }
                continue;
            }
            // Recursion reads as one call.
            if Some(step.function) == last || step.nameless && at < first {
                continue;
            }
            // Nor does an address tell more than the name of who called it.
            let is_named =
                |outer: &Step| outer.interest == Interest::Own && !outer.nameless && outer.module == step.module;
            if depth > 0 && step.nameless && steps[at..].iter().any(is_named) {
                continue;
            }
            let (function, file, line, _) = step.text_key(false);
            let frame = (line == 0).then_some(step.frame());
            let key = Key { inner: walker.way, function, file, line, frame, through, container };
            let number = *known.entry(key).or_insert_with(|| {
                let (counts, patterns) = Default::default();
                let (inner, largest) = (walker.way, walker.stack);
                let outer = Vec::new();
                self.ways.push(Way {
                    step,
                    inner,
                    outer,
                    through,
                    container,
                    counts,
                    patterns,
                    sites: 0,
                    largest,
                    most: 0,
                });
                let number = self.ways.len() - 1;
                if let Some(inner) = inner {
                    self.ways[inner].outer.push(number);
                }
                number
            });
            let way = &mut self.ways[number];
            way.counts += walker.counts;
            way.patterns += walker.patterns;
            way.sites += 1;
            if walker.counts.allocations > way.most {
                (way.most, way.largest) = (walker.counts.allocations, walker.stack);
            }
            (walker.next, walker.way) = (at + 1, Some(number));
            return true;
        }
        false
    }

    /// A way.
    pub fn get(&self, number: usize) -> &Way {
        &self.ways[number]
    }

    /// The roots, in the order of their first stack.
    pub fn roots(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ways.len()).filter(|&number| self.ways[number].inner.is_none())
    }

    /// The root of a way.
    pub fn root_of(&self, mut number: usize) -> usize {
        while let Some(inner) = self.ways[number].inner {
            number = inner;
        }
        number
    }

    /// Is it a wrapper that others allocate through? It is when several functions call it, and none of them stands for
    /// nearly all. What it does is then theirs, where they want different things.
    pub fn is_wrapper(&self, number: usize) -> bool {
        let way = &self.ways[number];
        let callers: FxHashSet<FunctionId> = way.outer.iter().map(|&outer| self.ways[outer].step.function).collect();
        let largest = way.outer.iter().map(|&outer| self.ways[outer].counts.allocations).max().unwrap_or(0);
        callers.len() >= 4 && largest < way.counts.allocations / 10 * 9
    }
}

/// The same stack in several processes is one.
fn walkers(profile: &Profile) -> Vec<Walker> {
    let walker = |s: &Site| Walker { stack: s.stack, counts: s.counts, patterns: *s.patterns, next: 0, way: None };
    let mut walkers: Vec<_> = profile.sites.iter().map(walker).collect();
    walkers.sort_unstable_by_key(|walker| walker.stack);
    walkers.dedup_by(|next, sum| {
        let same = next.stack == sum.stack;
        if same {
            sum.counts += next.counts;
            sum.patterns += next.patterns;
        }
        same
    });
    walkers
}
