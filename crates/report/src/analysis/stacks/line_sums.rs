//! What each line and each instruction of functions allocated itself, and together with what it called.

use mallow_profile::FrameId;
use rustc_hash::FxHashMap;

use super::functions::FunctionId;
use super::narrow::Pattern;
use crate::analysis::compare::changes::{Amount, RowSource};

#[derive(Clone, Copy, Default)]
pub(crate) struct LineSum<A> {
    pub self_sums: A,
    pub cum: A,
    /// The last stack that was counted, plus 1; 0: none was.
    pub seen: u32,
}

impl<A: Amount> LineSum<A> {
    fn add(&mut self, stack: u32, amount: A, innermost: bool) {
        if innermost {
            self.self_sums += amount;
        }
        if self.seen != stack + 1 {
            self.seen = stack + 1;
            self.cum += amount;
        }
    }
}

/// Sums of the functions whose names match a pattern. They are those of every measure.
pub(crate) struct LineSums<A> {
    pattern: String,
    raw: bool,
    /// By function, whether it matches.
    pub matched: Vec<bool>,
    /// By function.
    pub sums: Vec<LineSum<A>>,
    /// By function, whether it was looked past.
    pub passed: Vec<bool>,
    /// By function, line, and whether it is one of the profile that is compared with.
    pub lines: FxHashMap<(FunctionId, u32, bool), LineSum<A>>,
    /// By function, frame and line, with whether the function was inlined there.
    pub instructions: FxHashMap<(FunctionId, FrameId, u32), (LineSum<A>, bool)>,
}

impl<A: Amount> LineSums<A> {
    /// Costs a walk over each stack.
    pub fn of(source: RowSource<'_, A>, pattern: &Pattern, raw: bool) -> Self {
        let functions = source.functions;
        let matches = |id: usize| pattern.matches(&functions.name(FunctionId(id as u32)));
        let mut it = Self {
            pattern: pattern.as_str().to_owned(),
            raw,
            matched: (0..functions.len()).map(matches).collect(),
            sums: vec![LineSum::default(); functions.len()],
            passed: vec![false; functions.len()],
            lines: FxHashMap::default(),
            instructions: FxHashMap::default(),
        };
        let mut stacks = 0..;
        (source.sites)(&mut |stack, amount| {
            let index: u32 = stacks.next().unwrap_or(u32::MAX);
            let named = if raw { Some(0) } else { functions.named_at(stack).map(|(at, _)| at) };
            for (at, step) in functions.steps(stack).enumerate() {
                let innermost = Some(at) == named;
                let function = step.function.0 as usize;
                if !it.matched[function] {
                    continue;
                }
                if !innermost && !raw && functions.is_looked_past(step) {
                    it.passed[function] = true;
                } else {
                    it.sums[function].add(index, amount, innermost);
                    let gone = step.frame.0 >= source.first_old;
                    it.lines.entry((step.function, step.line, gone)).or_default().add(index, amount, innermost);
                    let instruction = it.instructions.entry((step.function, step.frame, step.line));
                    instruction.or_insert((LineSum::default(), step.inlined)).0.add(index, amount, innermost);
                }
            }
        });
        it
    }

    /// Whether the sums are of the functions that `pattern` matches.
    pub fn are_of(&self, pattern: &Pattern, raw: bool) -> bool {
        self.pattern == pattern.as_str() && self.raw == raw
    }
}
