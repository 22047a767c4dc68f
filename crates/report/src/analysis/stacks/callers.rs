//! Who called the line that a site is named by, each by what it reads as.

use mallow_profile::{StackId, StringId};
use rustc_hash::FxHashMap;

use super::branches::{CALLERS, number_of};
use super::functions::{FunctionId, Functions, Step};

/// Names of functions with their lines, as numbers that are the same in several processes and from report to report.
pub(crate) struct Callers<'f, 'p> {
    functions: &'f Functions<'p>,
    known: FxHashMap<(FunctionId, Option<StringId>, u32), u64>,
}

impl<'f, 'p> Callers<'f, 'p> {
    pub fn new(functions: &'f Functions<'p>) -> Self {
        Self { functions, known: FxHashMap::default() }
    }

    /// The callers of a stack's line that are the program's own and no wrappers, the nearest one first.
    pub fn of(&mut self, stack: StackId) -> Vec<u64> {
        let functions = self.functions;
        steps(functions, stack).map(|step| self.name(step)).collect()
    }

    /// Hashes the step's function, file and line, the same from report to report.
    pub fn name(&mut self, step: &Step) -> u64 {
        let functions = self.functions;
        *self.known.entry((step.function, step.file(), step.line)).or_insert_with(|| {
            let frame = functions.frame(step);
            number_of((frame.function, frame.file, frame.line))
        })
    }
}

/// Returns the caller of the stack's line at an index of what [`Callers::of`] returns.
pub(crate) fn caller<'a>(functions: &'a Functions<'_>, stack: StackId, at: usize) -> Option<&'a Step> {
    steps(functions, stack).nth(at)
}

fn steps<'a>(functions: &'a Functions<'_>, stack: StackId) -> impl Iterator<Item = &'a Step> {
    let line = functions.named_at(stack).map_or(usize::MAX, |(at, _)| at);
    let callers = functions.steps(stack).skip(line.saturating_add(1));
    callers.filter(|step| !functions.is_looked_past(step)).take(CALLERS)
}
