//! What speaks for two stacks that are not equal being one.
//!
//! Functions alone are no evidence: code that is gone and code that is new may have the same callers. A pair whose
//! memory is requested by another function needs numbers that fit, or other pairs that agree on the two functions.

use mallow_profile::Counts;

use super::align::{Costs, Op};
use super::assign::Edge;
use super::items::Item;
use super::likeness::Comparison;
use super::stacks::{AFTER, BEFORE, Token};

/// The mean sizes of blocks are the same if they differ by at most one part in so many.
const SIZES: u64 = 8;
/// Numbers are nearly equal if they differ by at most one part in so many.
const NEARLY: u64 = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requests {
    /// Both stacks have the same requesting function, or two overloads, or two names of one code.
    Same,
    /// The requesting functions may be one, or one may have been a part of the other.
    Akin,
    /// The requesting functions have nothing in common.
    Unlike,
}

/// Compares the innermost functions of the programs' own. Each side is its functions, as far as they were learnt by the
/// other side's names, and that innermost one; None where a stack has none.
pub(super) fn requests(sides: [(&[Token], Option<Token>); 2], costs: &Costs<'_>) -> Requests {
    let [(was, from), (is, to)] = sides;
    let (Some(from), Some(to)) = (from, to) else {
        return if from == to { Requests::Same } else { Requests::Akin };
    };
    if from == to || costs.weights.overloaded(from, to) || costs.joint.are_one_code(from, to) {
        return Requests::Same;
    }
    // Neither became the other: both profiles have the code of both.
    if [from, to].iter().all(|&token| costs.joint.is_settled(token)) {
        return Requests::Unlike;
    }
    let renamed = costs.weights.exclusive(from) && costs.weights.exclusive(to);
    if renamed || is.contains(&from) || was.contains(&to) { Requests::Akin } else { Requests::Unlike }
}

/// Whether the numbers may be those of one piece of code: neither is more than twice the other, and the mean sizes of
/// blocks differ by at most one part in [`SIZES`].
pub(super) fn fit(was: &Counts, is: &Counts, comparison: Comparison) -> bool {
    let half = |a: u64, b: u64| a.max(b) / 2 <= a.min(b);
    let sizes = || {
        let [a, b] =
            [(was, is), (is, was)].map(|(one, other)| u128::from(one.allocated_bytes) * u128::from(other.allocations));
        a.abs_diff(b) <= a.max(b) / u128::from(SIZES)
    };
    let both = comparison.allocations && comparison.bytes;
    (!comparison.allocations || half(was.allocations, is.allocations))
        && (!comparison.bytes || both || half(was.allocated_bytes, is.allocated_bytes))
        && (!comparison.live || half(was.live_bytes, is.live_bytes))
        && (!both || sizes())
}

fn are_nearly_equal(was: &Counts, is: &Counts, comparison: Comparison) -> bool {
    let near = |a: u64, b: u64, compared: bool| !compared || a.abs_diff(b) <= a.max(b) / NEARLY;
    near(was.allocations, is.allocations, comparison.allocations)
        && near(was.allocated_bytes, is.allocated_bytes, comparison.bytes)
        && near(was.live_bytes, is.live_bytes, comparison.live)
}

/// Whether each new name that a pair needs has evidence: that other pairs agree on it, that neither program has both
/// functions and the numbers fit, or, where the programs are not known, that the numbers are nearly equal.
pub(super) fn supports_names(items: [&[Item]; 2], pair: &Edge, costs: &Costs<'_>, comparison: Comparison) -> bool {
    let (was, is) = (&items[BEFORE][pair.before], &items[AFTER][pair.after]);
    let (mut before, mut after) = (was.tokens.iter(), is.tokens.iter());
    costs.ops(&was.tokens, &is.tokens).into_iter().all(|op| {
        let from = if op == Op::After { None } else { before.next() };
        let to = if op == Op::Before { None } else { after.next() };
        let (Op::Renamed, Some(&from), Some(&to)) = (op, from, to) else { return true };
        let is_own = costs.joint.is_own(from) || costs.joint.is_own(to);
        let is_one = costs.joint.are_one_code(from, to) || costs.weights.overloaded(from, to);
        let guessed = is_own && !is_one && costs.learnt.renamed.get(&from) != Some(&to);
        let is_supported = || match costs.are_known(from, to) {
            true => fit(&was.counts, &is.counts, comparison),
            false => are_nearly_equal(&was.counts, &is.counts, comparison),
        };
        !guessed || is_supported()
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use mallow_profile::{Counts, ModuleId, Profile};

    use super::super::{Diff, DiffOptions, FormerFunction, State, Why, diff, diff_with_progress};
    use crate::analysis::numbers::Measure;
    use crate::testing::{Builder, blocks};

    fn options() -> DiffOptions {
        let rules = Default::default();
        DiffOptions { by: Measure::Allocations, rules, min: 0, limit: 99, any_measure: true, places: 99 }
    }

    /// A build of a program.
    fn build(id: u8, sites: &[(&[&str], Counts)]) -> Profile {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        for (stack, counts) in sites {
            b.site(p, stack, *counts);
        }
        b.profile.modules.iter_mut().for_each(|module| module.build_id = vec![id]);
        b.profile
    }

    /// Function, state, before and after of the places, the largest change first.
    fn places(report: &Diff) -> Vec<(&str, State, u64, u64)> {
        let mut rows = Vec::new();
        for place in &report.places.largest {
            let name = place.frame.as_ref().map_or("", |frame| &frame.function);
            rows.push((name, place.state, place.before, place.after));
        }
        rows
    }

    /// Two runs of a script, or of one file under two paths.
    fn scripts(file: &str, sites: &[(&str, u64)]) -> Profile {
        let mut b = Builder::default();
        let p = b.process(1, &["python3.12"], 10);
        for (function, number) in sites {
            let function = format!("{function}@{file}:0!");
            let stack =
                ["list_resize!python3.12", "eval!python3.12", &function, "<module>@/a.py:0!", "main!python3.12"];
            b.site(p, &stack, blocks(*number, 56, 0, 0));
        }
        b.profile.modules.iter_mut().for_each(|module| module.build_id = vec![7]);
        b.profile
    }

    #[test]
    fn functions_of_one_script_are_not_each_other() {
        // Both runs have both functions, or each has one of them.
        let common = ("common", 2000);
        for (before, after, truth) in [
            (&[common, ("scan", 7), ("match", 40)][..], &[common, ("scan", 40), ("match", 7)][..], [(7, 40), (40, 7)]),
            (&[common, ("scan", 7)], &[common, ("match", 7)], [(7, 0), (0, 7)]),
            (&[common, ("scan", 700)], &[common, ("match", 700)], [(700, 0), (0, 700)]),
        ] {
            let [before, after] = [before, after].map(|sites| scripts("/lib/parse.py", sites));
            for functions in [None, Some([&["main"][..], &["main"]])] {
                let report = match functions {
                    None => diff(&before, &after, options()),
                    Some(functions) => compared(&before, &after, functions),
                };
                let mut found: Vec<_> = places(&report).into_iter().map(|(name, _, b, a)| (name, (b, a))).collect();
                found.sort_by_key(|(name, _)| std::cmp::Reverse(*name));
                assert_eq!((found, renames(&report)), (vec![("scan", truth[0]), ("match", truth[1])], vec![]));
            }
        }
    }

    /// Files of programs list no function of a script: a new name in another copy of it is a guess.
    #[test]
    fn a_new_name_in_a_script_is_no_certain_one() {
        let [before, after] = [("/v1/parse.py", "load_users"), ("/v2/parse.py", "load_orders")]
            .map(|(file, name)| scripts(file, &[("common", 2000), (name, 700)]));
        assert_eq!(renames(&compared(&before, &after, [&["main"], &["main"]])), renamed(false));
        let after = scripts("/v2/parse.py", &[("common", 2000), ("load_orders", 900)]);
        assert_eq!(renames(&compared(&before, &after, [&["main"], &["main"]])), []);
    }

    /// The map of a JIT compiler has no file for this one, so the stack is not known to be of one build.
    #[test]
    fn functions_of_a_library_that_both_have_are_not_each_other() {
        let of = |caller: &'static str| {
            let mut profile =
                build(7, &[(&[MALLOC, "make@a.c:5", caller, "Main.run()!", "main@a.c:9"], blocks(9, 100, 0, 0))]);
            profile.modules.retain(|module| !module.path.is_empty());
            profile
        };
        let report = diff(&of("cache_put@a.c:7"), &of("note_session@a.c:8"), options());
        let (gone, new) = ("cache_put".to_owned(), "note_session".to_owned());
        assert_eq!(renames(&report), [Why::Gone { function: gone }, Why::New { function: new }]);
    }

    const MALLOC: &str = "malloc!libc.so.6";
    const PARSE: [&str; 3] = [MALLOC, "parse@a.c:9", "main@a.c:20"];
    const POOL: [&str; 4] = [MALLOC, "pool_chunk@a.c:6", "parse@a.c:8", "main@a.c:20"];

    #[test]
    fn a_helper_that_requests_other_blocks_is_new_and_what_it_replaced_is_gone() {
        let before = build(1, &[(&PARSE, blocks(1000, 200, 0, 0))]);
        let after = build(2, &[(&POOL, blocks(200, 4096, 0, 0))]);
        let two = [("parse", State::Gone, 1000, 0), ("pool_chunk", State::New, 0, 200)];
        assert_eq!(places(&diff(&before, &after, options())), two);
        let [gone, new] = two;
        let back = diff(&after, &before, options());
        assert_eq!(places(&back), [(gone.0, State::New, 0, 1000), (new.0, State::Gone, 200, 0)]);
        // As many blocks of another size, and a fifth of the blocks of the same.
        for counts in [blocks(1000, 4096, 0, 0), blocks(200, 200, 0, 0)] {
            let report = diff(&before, &build(2, &[(&POOL, counts)]), options());
            assert_eq!(report.places.places, 2, "{:?}", places(&report));
        }
    }

    /// Three callers each: what all of them say is learnt, unless none of them had evidence.
    #[test]
    fn a_helper_of_many_callers_is_new_too() {
        let callers = ["load@b.c:1", "reload@b.c:2", "import@b.c:3"];
        let stack = |inner: &[&'static str], caller| [inner, &[caller, "main@a.c:20"]].concat();
        let of = |id, inner: &[&'static str], counts: Counts| {
            let stacks: Vec<Vec<&str>> = callers.iter().map(|caller| stack(inner, caller)).collect();
            build(id, &stacks.iter().map(|stack| (&stack[..], counts)).collect::<Vec<_>>())
        };
        let before = of(1, &[MALLOC, "parse@a.c:9"], blocks(1000, 200, 0, 0));
        let after = of(2, &[MALLOC, "pool_chunk@a.c:6", "parse@a.c:8"], blocks(200, 4096, 0, 0));
        let report = diff(&before, &after, options());
        assert_eq!(places(&report), [("parse", State::Gone, 3000, 0), ("pool_chunk", State::New, 0, 600)]);
    }

    #[test]
    fn what_a_helper_took_over_has_the_name_of_its_former_function() {
        let before = build(1, &[(&PARSE, blocks(1000, 200, 0, 0))]);
        let report = diff(&before, &build(2, &[(&POOL, blocks(900, 200, 0, 0))]), options());
        assert_eq!(places(&report), [("pool_chunk", State::Fewer, 1000, 900)]);
        let former = FormerFunction { function: "parse".to_owned(), before: 1000 };
        assert_eq!(report.places.largest[0].formerly, [former]);
        let same = diff(&before, &build(2, &[(&PARSE, blocks(900, 200, 0, 0))]), options());
        assert_eq!(
            (places(&same), &same.places.largest[0].formerly[..]),
            (vec![("parse", State::Fewer, 1000, 900)], &[][..])
        );
    }

    fn loads(id: u8, function: &str, number: u64) -> Profile {
        build(id, &[(&[MALLOC, function, "main@a.c:20"], blocks(number, 120, 0, 0))])
    }

    /// Compared, where the programs have these functions.
    fn compared(before: &Profile, after: &Profile, functions: [&[&str]; 2]) -> Diff {
        let each = |side: usize, modules: &BTreeSet<ModuleId>, each: &mut dyn FnMut(&str)| {
            assert!(!modules.is_empty());
            functions[side].iter().for_each(|name| each(name));
            true
        };
        diff_with_progress(before, after, options(), &each, &|_| {})
    }

    fn renamed(certain: bool) -> Vec<Why> {
        vec![Why::Renamed { from: "load_users".to_owned(), to: "load_orders".to_owned(), certain }]
    }

    fn renames(report: &Diff) -> Vec<Why> {
        report.renamed.iter().map(|one| one.why.clone()).collect()
    }

    #[test]
    fn a_function_that_both_programs_have_has_no_other_name() {
        let (users, orders) = (["main", "load_users"], ["main", "load_orders"]);
        let both = ["main", "load_users", "load_orders"];
        let before = loads(1, "load_users@a.c:6", 1000);
        for number in [1000, 1010, 3000] {
            let after = loads(2, "load_orders@a.c:9", number);
            let mut two = vec![("load_orders", State::New, 0, number), ("load_users", State::Gone, 1000, 0)];
            for functions in [[&both[..], &both], [&users, &both], [&both, &orders]] {
                let report = compared(&before, &after, functions);
                let mut found = places(&report);
                found.sort_by_key(|place| place.0.to_owned());
                two.sort_by_key(|place| place.0.to_owned());
                assert_eq!((found, renames(&report)), (two.clone(), vec![]), "{number} {functions:?}");
            }
        }
        // The old name is gone, and the new one new.
        let after = loads(2, "load_orders@a.c:9", 1300);
        let report = compared(&before, &after, [&users, &orders]);
        assert_eq!(
            (places(&report), renames(&report)),
            (vec![("load_orders", State::More, 1000, 1300)], renamed(true))
        );
        assert_eq!(report.places.largest[0].formerly[0].function, "load_users");
    }

    /// One call path and its numbers say it, no name: another function may have taken the place of the first.
    #[test]
    fn names_with_nothing_in_common_are_one_function_perhaps() {
        let (before, after) = (loads(1, "read_config@a.c:6", 1000), loads(2, "send_mail@a.c:9", 1000));
        let report = compared(&before, &after, [&["main", "read_config"], &["main", "send_mail"]]);
        let one = Why::Renamed { from: "read_config".to_owned(), to: "send_mail".to_owned(), certain: false };
        assert_eq!(renames(&report), [one]);
    }

    #[test]
    fn without_the_programs_a_new_name_is_a_guess_and_needs_equal_numbers() {
        let before = loads(1, "load_users@a.c:6", 1000);
        let report = |number| diff(&before, &loads(2, "load_orders@a.c:9", number), options());
        assert_eq!((renames(&report(1000)), report(1000).places.places), (renamed(false), 0));
        for number in [1300, 3000] {
            assert_eq!((renames(&report(number)), report(number).places.places), (vec![], 2), "{number}");
        }
        // Another stack of the program has the function: it is no new name of another one.
        let mut both = Builder { profile: loads(1, "load_users@a.c:6", 1000) };
        both.site(mallow_profile::ProcessId(0), &[MALLOC, "load_orders@a.c:9", "main@a.c:21"], blocks(5, 120, 0, 0));
        both.profile.modules.iter_mut().for_each(|module| module.build_id = vec![1]);
        let report = diff(&both.profile, &loads(2, "load_orders@a.c:9", 1005), options());
        assert_eq!(renames(&report), vec![]);
        assert_eq!(places(&report), [("load_orders", State::More, 5, 1005), ("load_users", State::Gone, 1000, 0)]);
    }

    /// What several stacks say of a function holds for one whose numbers changed.
    #[test]
    fn a_name_that_other_stacks_confirm_needs_no_numbers() {
        let of = |id, function: &'static str, last: u64| {
            let stacks = ["load@b.c:1", "reload@b.c:2", "import@b.c:3", "check@b.c:4"]
                .map(|caller| [MALLOC, function, caller, "main@a.c:20"]);
            let number = |at: usize| if at == 3 { last } else { 100 + 10 * at as u64 };
            let sites: Vec<(&[&str], Counts)> =
                stacks.iter().enumerate().map(|(at, stack)| (&stack[..], blocks(number(at), 24, 0, 0))).collect();
            build(id, &sites)
        };
        let report = diff(&of(1, "parse@a.c:5", 50), &of(2, "read@a.c:7", 900), options());
        assert_eq!(places(&report), [("read", State::More, 380, 1230)]);
        assert_eq!((report.only_before.rows_in_all, report.only_after.rows_in_all), (0, 0));
        // The same with programs that have both.
        let names = ["main", "parse", "read"];
        let report = compared(&of(1, "parse@a.c:5", 50), &of(2, "read@a.c:7", 900), [&names, &names]);
        assert_eq!((renames(&report), report.places.places), (vec![], 2));
    }
}
