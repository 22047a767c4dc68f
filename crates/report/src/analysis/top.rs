//! Functions, by what they allocated themselves and together with what they called.

use mallow_profile::{Counts, Profile};
use rustc_hash::FxHashSet;
use serde::Serialize;

use super::functions::{FunctionId, Functions};
use super::interest::Interest;
use super::numbers::{Measure, Totals};
use super::overview::by_stack;

/// What to show.
#[derive(Clone, Copy, Debug)]
pub struct TopOptions {
    /// Sorted and measured by this.
    pub by: Measure,
    /// Sort by what a function and all that it called allocated.
    pub cum: bool,
    /// Show each function for itself, those that only pass the request on too.
    pub raw: bool,
    /// At most so many functions.
    pub limit: usize,
}

/// Functions, the largest first.
///
/// Flat is what a function allocates itself. By the letter, that would nearly always be `operator new`, `strdup` or a
/// vector growing: true, and no answer to anybody. Those functions are an allocator's arm, not the program's choice,
/// so flat goes to the function that a site is named by (see [`super::interest`]), and functions that are looked past are no
/// rows at all. `raw` shows the letter: flat is the innermost function of the stack, whatever it is.
#[derive(Clone, Debug, Serialize)]
pub struct Top {
    /// The command line that was recorded.
    pub command: Vec<String>,
    /// Sorted and measured by this.
    pub by: Measure,
    /// Sorted by cum.
    pub cum: bool,
    /// Each function is shown for itself.
    pub raw: bool,
    /// Sums over the recording.
    #[serde(flatten)]
    pub totals: Totals,
    /// Functions where the measure is above 0, shown here or not.
    pub functions_in_all: u64,
    /// The largest first.
    pub functions: Vec<TopFunction>,
}

/// One function.
#[derive(Clone, Debug, Serialize)]
pub struct TopFunction {
    /// Demangled name, or `module+0xoffset`.
    pub function: String,
    /// Source file.
    pub file: Option<String>,
    /// Path of the ELF file in which it was seen first.
    pub module: Option<String>,
    /// By this function itself.
    pub flat: Totals,
    /// By it and all that it called; recursion counts once.
    pub cum: Totals,
}

/// The functions of a recording. Costs a walk over each stack.
pub fn top(profile: &Profile, options: TopOptions) -> Top {
    let functions = Functions::new(profile);
    let mut sums = vec![(Counts::default(), Counts::default()); functions.len()];
    let mut seen: FxHashSet<FunctionId> = FxHashSet::default();
    for (stack, counts) in by_stack(profile) {
        let flat = if options.raw {
            functions.steps(stack).next().map(|s| s.function)
        } else {
            functions.named(stack).map(|n| n.step.function)
        };
        let Some(flat) = flat else { continue };
        sums[flat.0 as usize].0 += counts;
        seen.clear();
        // Where only looked-past functions are on the stack, the one that names it stands for all.
        seen.insert(flat);
        sums[flat.0 as usize].1 += counts;
        for step in functions.steps(stack) {
            if (options.raw || step.interest == Interest::Own) && seen.insert(step.function) {
                sums[step.function.0 as usize].1 += counts;
            }
        }
    }
    let by = options.by;
    let mut ranked: Vec<(u64, u64, FunctionId)> = sums
        .iter()
        .enumerate()
        .map(|(at, (flat, cum))| (by.of(&(*flat).into()), by.of(&(*cum).into()), FunctionId(at as u32)))
        .filter(|&(flat, cum, _)| if options.cum { cum > 0 } else { flat > 0 })
        .collect();
    let functions_in_all = ranked.len() as u64;
    ranked.sort_by_key(|&(flat, cum, id)| {
        let (first, second) = if options.cum { (cum, flat) } else { (flat, cum) };
        (std::cmp::Reverse(first), std::cmp::Reverse(second), id)
    });
    ranked.truncate(options.limit);
    let row = |id: FunctionId| TopFunction {
        function: functions.name(id),
        file: functions.file(id),
        module: functions.module(id),
        flat: sums[id.0 as usize].0.into(),
        cum: sums[id.0 as usize].1.into(),
    };
    Top {
        command: profile.command.clone(),
        by,
        cum: options.cum,
        raw: options.raw,
        totals: profile.totals.into(),
        functions_in_all,
        functions: ranked.iter().map(|&(_, _, id)| row(id)).collect(),
    }
}
