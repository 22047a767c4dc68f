//! Functions line by line, and instruction by instruction.

use std::cmp::Reverse;

use mallow_profile::{ModuleId, Profile};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::functions::FunctionId;
use super::line_sums::LineSums;
use super::narrow::Pattern;
use super::profile_views::ProfileViews;
use crate::analysis::compare::changes::{Amount, Both, Changed, RowSource, Shown};
use crate::analysis::numbers::{LeftOut, Measure, Totals};

#[derive(Clone, Copy, Debug)]
pub struct ListOptions {
    pub by: Measure,
    /// Whether each function is for itself, those that only pass the request on too.
    pub raw: bool,
    /// Most functions that are listed.
    pub limit: usize,
}

/// The functions whose names match, with what each of their lines allocated.
///
/// Self and cum of a function are those of [`super::top()`]. A line has its function's self where it is the line at
/// which the function that names the site is left, on the way to the allocator: the self of all lines is that of the
/// function. Cum is counted at each line of the function that is on the stack, once a stack; the lines of a function
/// that calls itself can have more in all than the function.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct List<T = Totals> {
    /// The command line that was recorded.
    pub command: Vec<String>,
    /// Measure that functions are sorted by.
    pub by: Measure,
    /// Each function is shown for itself, those that only pass the request on, too.
    pub raw: bool,
    /// Sums over the recording.
    #[serde(flatten)]
    pub totals: T,
    /// Functions that match and where the measure is above 0, or has changed, shown here or not.
    pub functions_in_all: u64,
    /// Functions that match, the largest first: by self, then by cum.
    pub functions: Vec<ListFunction<T>>,
    /// Sums of `self` over the functions that are not shown; null where all are.
    pub hidden: Option<LeftOut<T>>,
    /// Names of functions that match and are looked past; some of them, where there are many.
    pub looked_past: Vec<String>,
    /// Names of functions that match and where the measure is 0; some of them, where there are many.
    pub without: Vec<String>,
    /// Sentences on what is missing, and what to do.
    pub notes: Vec<String>,
}

impl<T: Shown> List<T> {
    /// Leaves out functions whose cum is below `min`.
    pub fn leave_out(&mut self, min: u64) {
        let by = self.by;
        LeftOut::small(&mut self.hidden, &mut self.functions, |f| f.cum.rank(by) >= min, |f| f.self_sums);
    }
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListFunction<T = Totals> {
    /// Demangled name, or `module+0xoffset`.
    pub function: String,
    /// Source file of the function, as debug information names it; null where no line is known.
    pub file: Option<String>,
    /// Path of the ELF file in which the function was seen first; null where none is known.
    pub module: Option<String>,
    /// Sums of the function itself, without callees.
    #[serde(rename = "self")]
    pub self_sums: T,
    /// Sums of the function and its callees; recursion counts once.
    pub cum: T,
    /// Path of the source file that the texts of the lines are from; null where there is none, or `--asm` is given.
    pub source: Option<String>,
    /// Lines of the function by number; first what belongs to no line.
    pub lines: Vec<ListLine<T>>,
    /// Instructions of the function, by module and address; left out where its source is shown, and where two profiles
    /// are compared.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<ListInstruction<T>>,
}

impl<T: Shown> ListFunction<T> {
    /// Whether lines have more in all than the function: it calls itself.
    pub fn counts_lines_twice(&self, by: Measure) -> bool {
        let lines = self.lines.iter().map(|line| line.cum.whole(by));
        lines.fold(0, u64::saturating_add) > self.cum.whole(by)
    }
}

/// A line of a function.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListLine<T = Totals> {
    /// Line number in the function's file, from 1; null for what belongs to no line.
    pub line: Option<u32>,
    /// True: a line of the base profile that no line of the other one takes the place of. Left out where false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
    /// Source text of the line; null where there is no source.
    pub text: Option<String>,
    /// Allocations at the line and their reasons, a text each, where the compiler says them; left out where there are
    /// none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Sums of the line itself, without callees.
    #[serde(rename = "self")]
    pub self_sums: T,
    /// Sums of the line and its callees.
    pub cum: T,
}

/// An instruction that allocates, or calls something that does.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ListInstruction<T = Totals> {
    /// Path of the ELF file that the instruction is in; null where none is known.
    pub module: Option<String>,
    /// Index of `module` in [`Profile::modules`].
    #[serde(skip)]
    pub module_id: Option<ModuleId>,
    /// Link-time address in the module, in hexadecimal: of the instruction after it, unless `exact`.
    pub address: String,
    /// Link-time address of `address` as a number.
    #[serde(skip)]
    pub at: u64,
    /// `address` is that of the instruction itself.
    pub exact: bool,
    /// The compiler put the function into another one there.
    pub inlined: bool,
    /// Line number in the function's file, from 1; null where it is not known.
    pub line: Option<u32>,
    /// Text of the instruction; null where the machine code is not there.
    pub text: Option<String>,
    /// Function that the instruction calls; null where that is not known.
    pub calls: Option<String>,
    /// Sums of the instruction itself, without callees.
    #[serde(rename = "self")]
    pub self_sums: T,
    /// Sums of the instruction and its callees.
    pub cum: T,
}

/// Most names of functions that are not shown and still are listed.
const NAMES: usize = 3;

/// Lists the functions whose names match. Costs a walk over each stack.
pub fn list(profile: &Profile, pattern: &Pattern, options: ListOptions) -> List {
    ProfileViews::of(profile).list(pattern, options)
}

impl ProfileViews<'_> {
    pub fn list(&self, pattern: &Pattern, options: ListOptions) -> List {
        self.view(|source| {
            let of_first = self.line_sums.get_or_init(|| LineSums::of(source, pattern, options.raw));
            match of_first.are_of(pattern, options.raw) {
                true => listed(source, of_first, options),
                false => listed(source, &LineSums::of(source, pattern, options.raw), options),
            }
        })
    }
}

/// Lists what the lines of the matching functions changed by. There are no instructions: two builds have no addresses
/// in common.
pub fn list_changes(both: &Both, pattern: &Pattern, options: ListOptions) -> List<Changed> {
    let mut list = both.view(|source| listed(source, &LineSums::of(source, pattern, options.raw), options));
    list.functions.iter_mut().for_each(|function| function.instructions.clear());
    list
}

fn listed<A: Amount>(source: RowSource<'_, A>, found: &LineSums<A>, options: ListOptions) -> List<A::Shown> {
    let (profile, functions) = (source.profile, source.functions);
    let by = options.by;
    let ids = || (0..functions.len()).map(|id| FunctionId(id as u32)).filter(|&id| found.matched[id.0 as usize]);
    let sum = |id: FunctionId| &found.sums[id.0 as usize];
    let mut ranked: Vec<_> = ids().filter(|&id| sum(id).cum.weight(by) > 0).collect();
    ranked.sort_by_key(|&id| (Reverse(sum(id).self_sums.rank(by)), Reverse(sum(id).cum.rank(by)), id));
    let some = |of: &dyn Fn(FunctionId) -> bool| {
        let mut names: Vec<String> = ids().filter(|&id| of(id)).map(|id| functions.name(id)).collect();
        names.sort_unstable();
        names.dedup();
        names.truncate(NAMES);
        names
    };
    let mut of_function: FxHashMap<FunctionId, usize> = FxHashMap::default();
    let functions_in_all = ranked.len() as u64;
    let hidden = LeftOut::after(options.limit, ranked.iter().map(|&id| sum(id).self_sums.shown(by)));
    ranked.truncate(options.limit);
    let mut shown: Vec<ListFunction<A::Shown>> = Vec::new();
    for &id in &ranked {
        of_function.insert(id, shown.len());
        shown.push(ListFunction {
            function: functions.name(id),
            file: functions.file(id),
            module: functions.module(id),
            self_sums: sum(id).self_sums.shown(by),
            cum: sum(id).cum.shown(by),
            source: None,
            lines: Vec::new(),
            instructions: Vec::new(),
        });
    }
    let known = |line: u32| (line > 0).then_some(line);
    for (&(id, line, gone), sum) in &found.lines {
        if let Some(&at) = of_function.get(&id) {
            shown[at].lines.push(ListLine {
                line: known(line),
                gone,
                text: None,
                reasons: Vec::new(),
                self_sums: sum.self_sums.shown(by),
                cum: sum.cum.shown(by),
            });
        }
    }
    for (&(id, frame, line), &(sum, inlined)) in &found.instructions {
        if let (Some(&at), Some(raw)) = (of_function.get(&id), profile.frames.get(frame.0 as usize)) {
            shown[at].instructions.push(ListInstruction {
                module: raw.module.and_then(|m| profile.modules.get(m.0 as usize)).map(|m| m.path.clone()),
                module_id: raw.module,
                address: format!("{:#x}", raw.address),
                at: raw.address,
                exact: raw.exact,
                inlined,
                line: known(line),
                text: None,
                calls: None,
                self_sums: sum.self_sums.shown(by),
                cum: sum.cum.shown(by),
            });
        }
    }
    for function in &mut shown {
        function.lines.sort_by_key(|line| (line.line, line.gone));
        function.instructions.sort_by_key(|i| (i.module_id, i.at, i.exact, i.line));
    }
    List {
        command: profile.command.clone(),
        by,
        raw: options.raw,
        totals: source.totals.shown(by),
        functions_in_all,
        functions: shown,
        hidden,
        looked_past: some(&|id| sum(id).seen == 0 && found.passed[id.0 as usize]),
        notes: Vec::new(),
        without: some(&|id| sum(id).seen > 0 && sum(id).cum.weight(by) == 0),
    }
}

#[cfg(test)]
mod tests;
