//! Call paths from the program to the allocator: a tree whose roots are the calls that ask for memory, and whose
//! branches are those that lead there.
//!
//! Habits belong to a place in the source, and nobody knows which function of a path that is: the innermost of the
//! program's own may be a wrapper that all others go through. So a habit is looked for at the root of each tree, and
//! where it is not to be seen there, further out.

use std::hash::{Hash, Hasher};

use mallow_profile::{Counts, FrameId, Patterns, Profile, Site, StackId, StringId};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use super::containers::{Container, Containers};
use super::last_growth::LargeBlocks;
use super::library_call::LibraryCall;
use super::worth::at_least;
use crate::analysis::stacks::function_kind::FunctionKind;
use crate::analysis::stacks::functions::{FunctionId, Functions, Step};

/// Most functions of the program's own on a path.
const DEPTH: usize = 5;
/// A call path with less than one part in so many of the program's allocations and bytes is not followed further out.
const SHARE: u64 = 200;
/// Percentage of temporary allocations from which on no level of a recursion keeps its block for the next one.
const FREED_AT_ONCE_PERCENT: u64 = 90;

/// The call paths of all stacks that have the same functions up to this one, the outermost of the path.
#[derive(Clone, Debug)]
pub(crate) struct CallPath {
    pub step: Step,
    /// Number of the path that ends one function further in; None for a root.
    pub inner: Option<usize>,
    /// Numbers of the paths that go one function further out and matter.
    pub outer: Vec<usize>,
    /// The function of the language's own library that the innermost function called.
    pub through: Option<FunctionId>,
    /// The thing of that library that the memory is for.
    pub container: Option<Container>,
    pub call: LibraryCall,
    /// The call gives a container room before it is filled.
    pub reserves: bool,
    pub counts: Counts,
    pub patterns: Patterns,
    /// Large blocks of the path's sites, by where the peak was.
    pub large: LargeBlocks,
    pub sites: u64,
    /// Hashes of the frames from the allocation to this function: different for each call in it, equal whatever called
    /// it.
    calls: FxHashSet<u64>,
    /// Hashes of `calls`, each with the recursion depth of the function or its caller: different for levels of a
    /// recursion.
    levels: FxHashSet<u64>,
    /// The stack with the most allocations.
    pub largest: StackId,
    most: u64,
    /// The stack whose large blocks grew by most in their last steps.
    pub most_slack: StackId,
    slack: u64,
}

pub(crate) struct CallPaths {
    paths: Vec<CallPath>,
}

/// Equal for stacks of one call path.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    inner: Option<usize>,
    function: FunctionId,
    file: Option<StringId>,
    line: u32,
    /// None where the line is known. Elsewhere addresses tell calls apart.
    frame: Option<FrameId>,
    through: Option<FunctionId>,
    container: Option<Container>,
}

/// A stack, with how far out it has been followed.
struct Walker {
    stack: StackId,
    counts: Counts,
    patterns: Patterns,
    large: LargeBlocks,
    /// Index of the step to look at next.
    next: usize,
    path: Option<usize>,
}

impl CallPath {
    /// Number of calls of the function that lead to the allocator: each has blocks of its own, and so has each level of
    /// a recursion, unless a block is gone before its thread allocates anything else.
    pub fn calls(&self) -> u64 {
        if self.is_gone_at_once() { self.calls.len() as u64 } else { self.levels.len() as u64 }
    }

    /// Whether its blocks are gone before their thread allocates anything else: no two are live at once.
    pub fn is_gone_at_once(&self) -> bool {
        at_least(self.counts.temporary, FREED_AT_ONCE_PERCENT, self.counts.allocations)
    }
}

impl CallPaths {
    /// Costs a walk over the innermost functions of each stack.
    pub fn new(profile: &Profile, functions: &Functions<'_>, containers: &mut Containers<'_>) -> Self {
        let mut walkers = walkers(profile);
        let mut paths = Self { paths: Vec::new() };
        let mut known: FxHashMap<Key, usize> = FxHashMap::default();
        // Stacks of recursive programs have hundreds of steps: one list for all of them.
        let mut steps: Vec<&Step> = Vec::new();
        for depth in 0..DEPTH {
            walkers.retain_mut(|walker| {
                if let Some(inner) = walker.path {
                    let c = &paths.paths[inner].counts;
                    let matters = |part: u64, whole: u64| part.saturating_mul(SHARE) >= whole && part > 0;
                    if !matters(c.allocations, profile.totals.allocations)
                        && !matters(c.allocated_bytes, profile.totals.allocated_bytes)
                    {
                        return false;
                    }
                }
                steps.clear();
                steps.extend(functions.steps(walker.stack));
                paths.follow(walker, depth, &steps, functions, containers, &mut known)
            });
        }
        paths
    }

    /// Extends the walker's path by one function of the program's own; false if there is none. `steps` are those of its
    /// stack.
    fn follow(
        &mut self,
        walker: &mut Walker,
        depth: usize,
        steps: &[&Step],
        functions: &Functions<'_>,
        containers: &mut Containers<'_>,
        known: &mut FxHashMap<Key, usize>,
    ) -> bool {
        let last = walker.path.map(|path| self.paths[path].step.function);
        let mut through = None;
        let mut container = None;
        // Where that has no name, the place is the one that all views name.
        let first = if depth == 0 { functions.named_at(walker.stack).map_or(0, |(at, _)| at) } else { 0 };
        for (at, &&step) in steps.iter().enumerate().skip(walker.next) {
            if step.kind != FunctionKind::Own {
                if depth == 0 {
                    container = containers.with(container, step.function);
                    let says = step.kind == FunctionKind::Runtime && !functions.is_interpreters(walker.stack, &step);
                    through = if says { Some(step.function) } else { through };
                }
                continue;
            }
            // Recursion reads as one call.
            if Some(step.function) == last || step.nameless && at < first {
                continue;
            }
            // Nor does an address say more than the name of who called it.
            let is_named =
                |outer: &&Step| outer.kind == FunctionKind::Own && !outer.nameless && outer.module == step.module;
            if depth > 0 && step.nameless && steps[at..].iter().any(is_named) {
                continue;
            }
            let (function, file, line, _) = step.text_key(false);
            let frame = (line == 0).then_some(step.frame());
            let key = Key { inner: walker.path, function, file, line, frame, through, container };
            let number = *known.entry(key).or_insert_with(|| {
                let (counts, patterns) = Default::default();
                let (inner, largest) = (walker.path, walker.stack);
                let called = through.and_then(|through| functions.known_name(through));
                let call = LibraryCall::of(container, called);
                let reserves = called.is_some_and(LibraryCall::reserves);
                let outer = Vec::new();
                self.paths.push(CallPath {
                    step,
                    inner,
                    outer,
                    through,
                    container,
                    call,
                    reserves,
                    counts,
                    patterns,
                    large: LargeBlocks::default(),
                    sites: 0,
                    calls: FxHashSet::default(),
                    levels: FxHashSet::default(),
                    largest,
                    most: 0,
                    most_slack: largest,
                    slack: 0,
                });
                let number = self.paths.len() - 1;
                if let Some(inner) = inner {
                    self.paths[inner].outer.push(number);
                }
                number
            });
            let path = &mut self.paths[number];
            path.counts += walker.counts;
            path.patterns += walker.patterns;
            path.large += walker.large;
            path.sites += 1;
            let call = hash_of(&steps[..=at]);
            path.calls.insert(call);
            path.levels.insert(call ^ levels(&steps[at..]));
            if walker.counts.allocations > path.most {
                (path.most, path.largest) = (walker.counts.allocations, walker.stack);
            }
            if walker.large.slack() > path.slack {
                (path.slack, path.most_slack) = (walker.large.slack(), walker.stack);
            }
            (walker.next, walker.path) = (at + 1, Some(number));
            return true;
        }
        false
    }

    pub fn get(&self, number: usize) -> &CallPath {
        &self.paths[number]
    }

    /// Numbers of the roots, in the order of their first stack.
    pub fn roots(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.paths.len()).filter(|&number| self.paths[number].inner.is_none())
    }

    pub fn root_of(&self, mut number: usize) -> usize {
        while let Some(inner) = self.paths[number].inner {
            number = inner;
        }
        number
    }

    /// Whether the path is a wrapper that others allocate through: several functions call it, and none of them stands
    /// for nearly all. What it does is then theirs, where they want different things.
    pub fn is_wrapper(&self, number: usize) -> bool {
        let path = &self.paths[number];
        let callers: FxHashSet<FunctionId> = path.outer.iter().map(|&outer| self.paths[outer].step.function).collect();
        let largest = path.outer.iter().map(|&outer| self.paths[outer].counts.allocations).max().unwrap_or(0);
        callers.len() >= 4 && largest < path.counts.allocations / 10 * 9
    }
}

/// How often the first function, or the innermost of the program's own that called it, is on the path again.
fn levels(steps: &[&Step]) -> u64 {
    let Some((first, outer)) = steps.split_first() else { return 0 };
    let own = || outer.iter().filter(|step| step.kind == FunctionKind::Own).map(|step| step.function);
    let caller = own().next();
    let again = own().filter(|&function| function == first.function).count();
    let callers = own().skip(1).filter(|&function| Some(function) == caller && function != first.function).count();
    (again + callers) as u64
}

/// Hashes the addresses of the frames.
fn hash_of(steps: &[&Step]) -> u64 {
    let mut hasher = FxHasher::default();
    steps.iter().for_each(|step| step.frame().hash(&mut hasher));
    hasher.finish()
}

/// One walker for each stack, whatever processes have it.
fn walkers(profile: &Profile) -> Vec<Walker> {
    let walker = |s: &Site| {
        let (large, patterns) = (LargeBlocks::of(profile, s), *s.patterns);
        Walker { stack: s.stack, counts: s.counts, patterns, large, next: 0, path: None }
    };
    let mut walkers: Vec<_> = profile.sites.iter().map(walker).collect();
    walkers.sort_unstable_by_key(|walker| walker.stack);
    walkers.dedup_by(|next, sum| {
        let same = next.stack == sum.stack;
        if same {
            sum.counts += next.counts;
            sum.patterns += next.patterns;
            sum.large += next.large;
        }
        same
    });
    walkers
}
