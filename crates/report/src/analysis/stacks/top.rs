//! Functions, by what they allocated themselves and together with what they called.

use mallow_profile::{Precision, Profile};
use serde::Serialize;

use super::function_sums::FunctionSums;
use super::functions::{FunctionId, reads_like_another};
use super::profile_views::ProfileViews;
use super::tell_apart::{self, Row, tell_apart};
use crate::analysis::compare::changes::{Amount, Both, Changed, RowSource, Shown};
use crate::analysis::numbers::{LeftOut, Measure, Totals};
use crate::analysis::sampled::Estimate;

#[derive(Clone, Copy, Debug)]
pub struct TopOptions {
    /// The measure that functions are sorted by.
    pub by: Measure,
    /// Whether functions are sorted by what they and all that they called allocated.
    pub cum: bool,
    /// Whether each function is for itself, those that only pass the request on too.
    pub raw: bool,
    /// Most functions that are listed.
    pub limit: usize,
}

/// Functions, the largest first.
///
/// Self is what a function allocates itself. By the letter, that would nearly always be `operator new`, `strdup` or a
/// vector growing: true, and no answer to anybody. Those functions are an allocator's arm, not the program's choice, so
/// self goes to the function that a site is named by (see [`super::function_kind`]), and functions that are looked past
/// are no rows at all. `raw` shows the letter: self is the innermost function of the stack, whatever it is.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Top<T = Totals> {
    /// The command line that was recorded.
    pub command: Vec<String>,
    /// Measure that functions are sorted by.
    pub by: Measure,
    /// True: functions are sorted by `cum`. False: by `self`.
    pub cum: bool,
    /// Each function is shown for itself, those that only pass the request on, too.
    pub raw: bool,
    /// Sums over the recording.
    #[serde(flatten)]
    pub totals: T,
    /// Functions where the measure is above 0, or has changed, shown here or not.
    pub functions_in_all: u64,
    /// Functions, the largest first: by `self`, or by `cum` where that is asked for.
    pub functions: Vec<TopFunction<T>>,
    /// Sums of `self` over the functions that are not shown; null where all are.
    pub hidden: Option<LeftOut<T>>,
}

impl<T: Shown> Top<T> {
    /// Leaves out functions with less of what they are sorted by.
    pub fn leave_out(&mut self, min: u64) {
        let (by, cum) = (self.by, self.cum);
        let worth = |f: &TopFunction<T>| if cum { f.cum } else { f.self_sums }.rank(by) >= min;
        LeftOut::small(&mut self.hidden, &mut self.functions, worth, |f| f.self_sums);
    }
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TopFunction<T = Totals> {
    /// Demangled name, or `module+0xoffset`.
    pub function: String,
    /// Other functions that have the same code; left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub folded: Vec<String>,
    /// Source file of the function, as debug information names it; null where no line is known.
    pub file: Option<String>,
    /// Path of the ELF file in which the function was seen first; null where none is known.
    pub module: Option<String>,
    /// Another row's function has the same name without its arguments.
    #[serde(skip)]
    pub keeps_arguments: bool,
    /// Sums of the function itself, without callees.
    #[serde(rename = "self")]
    pub self_sums: T,
    /// Sums of the function and its callees; recursion counts once.
    pub cum: T,
    /// Estimate of `self` by the measure `by`, with its interval. Left out where the profile is not sampled or its
    /// precision is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_estimate: Option<Estimate>,
    /// Estimate of `cum` by the measure `by`, with its interval. Left out where `self_estimate` is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cum_estimate: Option<Estimate>,
}

impl<T> Row for TopFunction<T> {
    fn shown(&self) -> Option<tell_apart::Shown<'_>> {
        let (file, module) = (self.file.as_deref(), self.module.as_deref());
        Some(tell_apart::Shown { function: &self.function, file, line: None, module, by: None })
    }

    fn keep_arguments(&mut self) {
        self.keeps_arguments = true;
    }
}

/// Costs a walk over each stack.
pub fn top(profile: &Profile, options: TopOptions) -> Top {
    ProfileViews::of(profile).top(options)
}

impl ProfileViews<'_> {
    pub fn top(&self, options: TopOptions) -> Top {
        self.view(|source| match options.raw || source.precisions.is_some() {
            true => ranked(source, &FunctionSums::of(source, options.raw, options.by), options),
            false => {
                let sums = self.function_sums.get_or_init(|| FunctionSums::of(source, false, options.by));
                ranked(source, sums, options)
            }
        })
    }
}

/// Lists how the functions of two profiles changed, the largest change first, whatever its sign.
pub fn top_changes(both: &Both, options: TopOptions) -> Top<Changed> {
    both.view(|source| ranked(source, &FunctionSums::of(source, options.raw, options.by), options))
}

fn ranked<A: Amount>(source: RowSource<'_, A>, sums: &FunctionSums<A>, options: TopOptions) -> Top<A::Shown> {
    let functions = source.functions;
    let FunctionSums { sums, precisions } = sums;
    let by = options.by;
    let mut ranked: Vec<(u64, u64, FunctionId)> = sums
        .iter()
        .enumerate()
        .map(|(at, (self_sums, cum))| (self_sums.rank(by), cum.rank(by), FunctionId(at as u32)))
        // Changes of a function and of what it calls may come to nothing together.
        .filter(|&(self_sums, cum, _)| self_sums > 0 || options.cum && cum > 0)
        .collect();
    let functions_in_all = ranked.len() as u64;
    ranked.sort_by_key(|&(self_sums, cum, id)| {
        let (first, second) = if options.cum { (cum, self_sums) } else { (self_sums, cum) };
        (std::cmp::Reverse(first), std::cmp::Reverse(second), id)
    });
    let hidden = LeftOut::after(options.limit, ranked.iter().map(|&(_, _, id)| sums[id.0 as usize].0.shown(by)));
    ranked.truncate(options.limit);
    let estimate = |amount: &A, of: fn(&(Precision, Precision)) -> &Precision, id: FunctionId| {
        source.precisions?.estimate(amount.values(by)[1], of(&precisions[id.0 as usize]))
    };
    let row = |id: FunctionId| TopFunction {
        self_estimate: estimate(&sums[id.0 as usize].0, |both| &both.0, id),
        cum_estimate: estimate(&sums[id.0 as usize].1, |both| &both.1, id),
        function: functions.name(id),
        file: functions.file(id),
        module: functions.module(id),
        keeps_arguments: reads_like_another(&functions.name(id), &functions.folded(id)),
        folded: functions.folded(id),
        self_sums: sums[id.0 as usize].0.shown(by),
        cum: sums[id.0 as usize].1.shown(by),
    };
    let mut rows: Vec<TopFunction<A::Shown>> = ranked.iter().map(|&(_, _, id)| row(id)).collect();
    tell_apart(rows.iter_mut());
    Top {
        command: source.profile.command.clone(),
        by,
        cum: options.cum,
        raw: options.raw,
        totals: source.totals.shown(by),
        functions_in_all,
        functions: rows,
        hidden,
    }
}

#[cfg(test)]
mod tests {
    use super::{Measure, Top, TopFunction, TopOptions, top};
    use crate::analysis::Least;
    use crate::testing::{Builder, blocks, parser};

    fn rows(top: &Top, by: Measure) -> Vec<(&str, u64, u64)> {
        top.functions.iter().map(|f| (f.function.as_str(), by.of(&f.self_sums), by.of(&f.cum))).collect()
    }

    const ALL: TopOptions = TopOptions { by: Measure::Allocations, cum: false, raw: false, limit: usize::MAX };

    #[test]
    fn recursion_counts_once_and_inlined_functions_are_functions() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        b.site(p, &["leaf@a.c:1 | walk@a.c:9", "walk@a.c:8", "walk@a.c:7", "main"], blocks(5, 10, 0, 0));
        b.site(p, &["walk@a.c:7", "main"], blocks(2, 10, 0, 0));
        let report = top(&b.profile, TopOptions { cum: true, ..ALL });
        assert_eq!(rows(&report, Measure::Allocations), [("walk", 2, 7), ("main", 0, 7), ("leaf", 5, 5)]);
        let report = top(&b.profile, ALL);
        assert_eq!(rows(&report, Measure::Allocations), [("leaf", 5, 5), ("walk", 2, 7)]);
        assert_eq!(rows(&report, Measure::Bytes), [("leaf", 50, 50), ("walk", 20, 70)]);
    }

    #[test]
    fn functions_of_one_name_in_two_files_are_two() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        b.site(p, &["init@a.c:1", "main"], blocks(5, 10, 0, 0));
        b.site(p, &["init@b.c:1", "main"], blocks(4, 10, 0, 0));
        b.site(p, &["init!liba.so", "main"], blocks(3, 10, 0, 0));
        assert_eq!(rows(&top(&b.profile, ALL), Measure::Allocations), [("init", 5, 5), ("init", 4, 4), ("init", 3, 3)]);
    }

    #[test]
    fn raw_shows_what_is_looked_past_otherwise() {
        let profile = parser();
        let plain = top(&profile, ALL);
        assert!(plain.functions[0].function.starts_with("app::Parser::parse_row"));
        assert_eq!(plain.functions[0].self_sums.allocations, 1_000_000);
        assert!(plain.functions.iter().all(|f| !f.function.starts_with("operator new")));
        let raw = top(&profile, TopOptions { raw: true, ..ALL });
        assert_eq!(raw.functions[0].function, "operator new(unsigned long)");
        assert_eq!(raw.functions[0].self_sums.allocations, 1_000_000);
        let self_sums: u64 = raw.functions.iter().map(|f| f.self_sums.allocations).sum();
        assert_eq!(
            (self_sums, plain.functions.iter().map(|f| f.self_sums.allocations).sum()),
            (raw.totals.allocations, self_sums)
        );
    }

    #[test]
    fn the_limit_cuts_the_list_and_says_what_it_cut() {
        let report = top(&parser(), TopOptions { limit: 1, cum: true, ..ALL });
        assert_eq!(report.functions.len(), 1);
        assert_eq!(report.functions[0].function, "main");
        assert!(report.functions_in_all > 4, "{}", report.functions_in_all);
    }

    #[test]
    fn what_is_hidden_is_added_up() {
        for (raw, cum, limit, least) in [
            (false, false, usize::MAX, Least::Percent(1.0)),
            (false, false, 2, Least::Amount(13)),
            (true, false, 1, Least::Amount(0)),
            (true, true, usize::MAX, Least::Percent(100.0)),
        ] {
            let whole = top(&parser(), TopOptions { raw, cum, ..ALL });
            assert!(whole.hidden.is_none());
            let mut report = top(&parser(), TopOptions { raw, cum, limit, ..ALL });
            let min = least.of(whole.totals.allocations);
            report.leave_out(min);
            let hidden = report.hidden.expect("some are hidden");
            assert_eq!(hidden.rows + report.functions.len() as u64, whole.functions_in_all);
            let self_sums = |functions: &[TopFunction]| functions.iter().map(|f| f.self_sums.allocations).sum::<u64>();
            assert_eq!(self_sums(&report.functions) + hidden.sums.allocations, self_sums(&whole.functions));
            let worth = |f: &TopFunction| if cum { f.cum.allocations } else { f.self_sums.allocations };
            let kept = whole.functions.iter().filter(|f| worth(f) >= min).count().min(limit);
            assert_eq!(report.functions.len(), kept);
        }
    }
}
