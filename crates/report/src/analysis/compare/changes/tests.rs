use std::collections::BTreeMap;

use mallow_profile::{Counts, Profile};
use proptest::prelude::*;

use super::{Both, Changed};
use crate::analysis::compare::diff::{DiffOptions, Rule, Rules, diff};
use crate::analysis::{
    FlameOptions, Least, ListLine, ListOptions, Measure, Top, TopFunction, TopOptions, TreeOptions, flame_changes,
    list_changes, top, top_changes, tree_changes,
};
use crate::testing::random::profile;
use crate::testing::{Builder, blocks};

const BY: Measure = Measure::Allocations;
const TOP: TopOptions = TopOptions { by: BY, cum: false, raw: false, limit: usize::MAX };

fn built(sites: &[(&[&str], Counts)]) -> Profile {
    let mut b = Builder::default();
    let p = b.process(1, &["a"], 10);
    for (stack, counts) in sites {
        b.site(p, stack, *counts);
    }
    b.profile
}

fn both(before: &Profile, after: &Profile) -> Both {
    Both::new(before, after, BY, Rules::ALL)
}

/// Function, self before and after, cum before and after.
fn rows(top: &Top<Changed>) -> Vec<(&str, [u64; 4])> {
    let values = |changed: &Changed| [changed.before.allocations, changed.after.allocations];
    let numbers = |self_sums: [u64; 2], cum: [u64; 2]| [self_sums[0], self_sums[1], cum[0], cum[1]];
    top.functions.iter().map(|f| (f.function.as_str(), numbers(values(&f.self_sums), values(&f.cum)))).collect()
}

#[test]
fn functions_changed_in_both_directions_and_the_largest_change_is_first() {
    let before = built(&[
        (&["gone", "main"], blocks(50, 8, 0, 0)),
        (&["same", "main"], blocks(7000, 8, 0, 0)),
        (&["less", "main"], blocks(30, 8, 0, 0)),
    ]);
    let after = built(&[
        (&["same", "main"], blocks(7000, 8, 0, 0)),
        (&["less", "main"], blocks(29, 8, 0, 0)),
        (&["new", "main"], blocks(49, 8, 0, 0)),
    ]);
    let both = Both::new(&before, &after, BY, Rules::without(&[Rule::Pairing]));
    let report = top_changes(&both, TOP);
    let expected = [("gone", [50, 0, 50, 0]), ("new", [0, 49, 0, 49]), ("less", [30, 29, 30, 29])];
    assert_eq!(rows(&report), expected);
    assert_eq!((report.totals.change, report.functions_in_all), (-2, 3));
    let report = top_changes(&both, TopOptions { cum: true, limit: 2, ..TOP });
    // What main's callees changed by is next to nothing together.
    assert_eq!(rows(&report), expected[..2]);
    assert_eq!(report.hidden.map(|hidden| (hidden.rows, hidden.sums.change)), Some((2, -1)));
}

#[test]
fn what_a_comparison_pairs_changes_no_function() {
    let tail = ["work@w.c:9", "main@w.c:50", "start_thread"];
    let stack = |inner: &[&'static str]| [inner, &tail].concat();
    let before = built(&[
        (&stack(&["parse_row.constprop.0@p.c:10", "load@p.c:30"]), blocks(900, 8, 0, 0)),
        (&stack(&["parse_row.constprop.0@p.c:11", "load@p.c:31"]), blocks(90, 8, 0, 0)),
        (&stack(&["write@o.c:3"]), blocks(400, 16, 0, 0)),
    ]);
    let after = built(&[
        (&stack(&["read_row.isra.0@p.c:110", "load@p.c:130"]), blocks(900, 8, 0, 0)),
        (&stack(&["read_row.isra.0@p.c:112", "load@p.c:131"]), blocks(95, 8, 0, 0)),
        (&stack(&["put@o.c:7", "write@o.c:3"]), blocks(400, 16, 0, 0)),
    ]);
    let report = top_changes(&both(&before, &after), TOP);
    assert_eq!(rows(&report), [("read_row.isra.0", [990, 995, 990, 995])]);
    let unpaired = Both::new(&before, &after, BY, Rules::without(&[Rule::Pairing]));
    let names: Vec<_> = rows(&top_changes(&unpaired, TOP)).iter().map(|row| row.0.to_owned()).collect();
    assert_eq!(names, ["read_row.isra.0", "parse_row.constprop.0", "put", "write"]);
    // The lines that moved are the lines that they were.
    let list = list_changes(
        &both(&before, &after),
        &"row|load".parse().expect("a pattern"),
        ListOptions { by: BY, raw: false, limit: usize::MAX },
    );
    let lines = |name: &str| {
        let function = list.functions.iter().find(|f| f.function.starts_with(name)).expect("the function");
        let line =
            |l: &ListLine<Changed>| (l.line.unwrap_or(0), l.gone, l.cum.before.allocations, l.cum.after.allocations);
        function.lines.iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(lines("read_row"), [(110, false, 900, 900), (112, false, 90, 95)]);
    assert_eq!(lines("load"), [(130, false, 900, 900), (131, false, 90, 95)]);
    assert!(list.functions.iter().all(|f| f.instructions.is_empty()));
}

#[test]
fn one_stack_that_became_several_has_its_numbers_where_they_are_now() {
    let before = built(&[
        (&["parse@p.c:1", "load@l.c:1", "main"], blocks(1001, 10, 0, 0)),
        (&["other@o.c:1", "main"], blocks(3, 10, 0, 0)),
    ]);
    let after = built(&[
        (&["digits@p.c:8", "parse@p.c:1", "load@l.c:1", "main"], blocks(600, 10, 0, 0)),
        (&["words@p.c:9", "parse@p.c:2", "load@l.c:1", "main"], blocks(401, 10, 0, 0)),
        (&["other@o.c:1", "main"], blocks(3, 10, 0, 0)),
    ]);
    let split = both(&before, &after);
    assert!(top_changes(&split, TOP).functions.is_empty() && split.moved() == 0);
    // Stacks that differ by their lines alone are divided together: no rounding is left at any of them.
    let lines: Vec<String> = (1..=9).map(|line| format!("parse@p.c:{line}")).collect();
    let mut several = Builder::default();
    let p = several.process(1, &["a"], 10);
    for (at, line) in lines.iter().enumerate() {
        several.site(p, &[line, "load@l.c:1", "main"], blocks(if at == 0 { 983 } else { 3 }, 10, 0, 0));
    }
    several.site(p, &["other@o.c:1", "main"], blocks(3, 10, 0, 0));
    let halves = built(&[
        (&["digits@p.c:8", "parse@p.c:1", "load@l.c:1", "main"], blocks(504, 10, 0, 0)),
        (&["words@p.c:9", "parse@p.c:2", "load@l.c:1", "main"], blocks(503, 10, 0, 0)),
        (&["other@o.c:1", "main"], blocks(3, 10, 0, 0)),
    ]);
    let divided = both(&several.profile, &halves);
    assert_eq!(
        (divided.moved(), top_changes(&divided, TOP).functions.len()),
        (0, 0),
        "{:?}",
        rows(&top_changes(&divided, TOP))
    );
    let of = |name: &str| {
        let top = top_changes(&split, TopOptions { by: BY, cum: true, raw: true, limit: 9 });
        top.functions.iter().any(|f| f.function == name)
    };
    assert!(!of("digits") && !of("parse"));
}

#[test]
fn a_removed_line_is_marked_and_has_its_old_number() {
    let lines = |lines: &[(&'static str, u64)]| {
        let sites: Vec<([&str; 2], u64)> = lines.iter().map(|&(line, blocks)| ([line, "main"], blocks)).collect();
        let sites: Vec<(&[&str], Counts)> = sites.iter().map(|(s, n)| (&s[..], blocks(*n, 8, 0, 0))).collect();
        built(&sites)
    };
    let before = lines(&[("f@a.c:10", 500), ("f@a.c:20", 70), ("f@a.c:30", 9000)]);
    let after = lines(&[("f@a.c:10", 500), ("f@a.c:25", 9001)]);
    let options = ListOptions { by: BY, raw: false, limit: usize::MAX };
    let list = list_changes(&both(&before, &after), &"^f$".parse().expect("a pattern"), options);
    let rows: Vec<_> = list.functions[0]
        .lines
        .iter()
        .map(|l| (l.line.unwrap_or(0), l.gone, l.self_sums.before.allocations, l.self_sums.after.allocations))
        .collect();
    assert_eq!(rows, [(10, false, 500, 500), (20, true, 70, 0), (25, false, 9000, 9001)]);
}

/// Folded stacks and dtrace's have no lines: one stack of theirs is all that differ by lines alone.
#[test]
fn a_format_without_lines_has_all_lines_in_one_stack() {
    let of = |sites: &[(&str, &str, u64)]| {
        let sites: Vec<([&str; 2], u64)> = sites.iter().map(|&(late, main, n)| ([late, main], n)).collect();
        built(&sites.iter().map(|(stack, n)| (&stack[..], blocks(*n, 10, 0, 0))).collect::<Vec<_>>())
    };
    let lined = of(&[
        ("late@a.c:3", "main@a.c:4", 100),
        ("late@a.c:3", "main@a.c:5", 7),
        ("late@a.c:3", "main@a.c:6", 30),
        ("main", "start", 1),
    ]);
    let bare = of(&[("late", "main", 137), ("main", "start", 1)]);
    let options = DiffOptions { by: BY, rules: Rules::ALL, min: 0, limit: 9, any_measure: false, places: 9 };
    for (before, after) in [(&lined, &bare), (&bare, &lined)] {
        let report = diff(before, after, options);
        assert_eq!(report.change, 0);
        assert!(report.places.largest.is_empty(), "{:?}", report.places.largest);
        assert_eq!(both(before, after).moved(), 0);
    }
    let more = diff(&of(&[("late", "main", 274), ("main", "start", 1)]), &lined, options);
    let changes: Vec<i64> = more.places.largest.iter().map(|place| place.change).collect();
    assert_eq!(changes.iter().sum::<i64>(), -137, "{changes:?}");
}

/// Where its functions were: a file of one build has no line of the other.
#[test]
fn what_is_gone_has_the_file_and_the_line_of_its_own_build() {
    let of = |[parse, load, main]: [&str; 3]| {
        let all: [&[&str]; 3] = [&["malloc!libc.so.6", parse, main], &["malloc!libc.so.6", load, main], &[main]];
        built(
            &all[usize::from(parse.is_empty())..].iter().map(|stack| (*stack, blocks(50, 8, 0, 0))).collect::<Vec<_>>(),
        )
    };
    let before = of(["parse@/old/v1.c:4", "load@/old/v1.c:3", "main@/old/v1.c:6"]);
    for (main, gone) in [
        ("main@/new/v4.c:7", ["/old/v1.c:4", "/old/v1.c:6"]),
        ("main", ["/old/v1.c:4", "/old/v1.c:6"]),
        // Builds have directories of their own: it is the same file.
        ("main@/new/v1.c:7", ["/old/v1.c:4", "/new/v1.c:6"]),
    ] {
        let after = of(["", "load@/new/v4.c:6", main]);
        let report = diff(
            &before,
            &after,
            DiffOptions { by: BY, rules: Rules::ALL, min: 0, limit: 9, any_measure: false, places: 9 },
        );
        let [place] = &report.places.largest[..] else { panic!("{:?}", report.places) };
        let own = place.stack.frames.iter().filter(|frame| frame.file.is_some());
        let own = own.map(|frame| format!("{}:{}", frame.file.as_deref().unwrap_or(""), frame.line.unwrap_or(0)));
        assert_eq!(own.collect::<Vec<_>>(), gone, "{main}");
        // It is one function all the same.
        let options = FlameOptions { by: BY, callers: false, raw: false, parts: u64::MAX, least: Least::Amount(0) };
        let flame = flame_changes(&both(&before, &after), options);
        let mains = flame.boxes.iter().filter(|b| flame.functions[b.function].name == "main").count();
        assert_eq!((mains, flame.gone.len()), (1, 1), "{main}");
    }
}

#[test]
fn a_picture_shows_what_is_gone_and_every_change_once() {
    let before = built(&[
        (&["gone", "load", "main"], blocks(50, 8, 0, 0)),
        (&["inner", "gone", "main"], blocks(20, 8, 0, 0)),
        (&["kept", "main"], blocks(10, 8, 0, 0)),
    ]);
    let after = built(&[(&["kept", "main"], blocks(100, 8, 0, 0)), (&["load", "main"], blocks(30, 8, 0, 0))]);
    let options = FlameOptions { by: BY, callers: false, raw: false, parts: u64::MAX, least: Least::Amount(0) };
    let flame = flame_changes(&Both::new(&before, &after, BY, Rules::without(&[Rule::Pairing])), options);
    let boxes: Vec<_> = flame
        .boxes
        .iter()
        .map(|b| (flame.functions[b.function].name.as_str(), b.value, b.before, b.change, b.gone))
        .collect();
    let expected =
        [("", 130, 80, 0, 0), ("main", 130, 80, -20, 20), ("kept", 100, 10, 90, 0), ("load", 30, 50, -20, 50)];
    assert_eq!(boxes, expected);
    assert_eq!(flame.gone, [("gone".to_owned(), 70)]);
    assert_eq!(flame.base.map(|base| (base.before, base.change)), Some((80, 50)));
}

#[test]
fn a_picture_lists_no_call_of_0_as_gone() {
    let live = |live: u64| blocks(10, 8, 0, live);
    // What adapts a call is no function of the comparison: the two stacks of BEFORE are one, and one of them leaks
    // nothing.
    let before = built(&[
        (&["keep@k.c:1", "main"], live(5)),
        (&["partial apply for closure #1 in keep", "keep@k.c:2", "main"], live(0)),
    ]);
    let after = built(&[(&["keep@k.c:1", "main"], live(6))]);
    let by = Measure::Live;
    let options = FlameOptions { by, callers: false, raw: true, parts: u64::MAX, least: Least::Amount(0) };
    let flame = flame_changes(&Both::new(&before, &after, by, Rules::ALL), options);
    assert_eq!(flame.gone, []);
}

fn changes(top: &Top<Changed>) -> i64 {
    top.functions.iter().map(|f| f.self_sums.change).sum::<i64>() + top.hidden.map_or(0, |hidden| hidden.sums.change)
}

proptest! {
    #[test]
    fn every_view_adds_up_to_the_difference(
        before in profile(),
        after in profile(),
        by in proptest::sample::select(Measure::ALL.to_vec()),
        (callers, raw, pairing) in any::<(bool, bool, bool)>(),
        limit in prop_oneof![1..30usize, Just(usize::MAX)],
    ) {
        let rules = if pairing { Rules::ALL } else { Rules::without(&[Rule::Pairing, Rule::Clones]) };
        let diff = diff(&before, &after, DiffOptions { by, rules, min: 0, limit: usize::MAX, any_measure: false, places: usize::MAX });
        let both = Both::new(&before, &after, by, rules);
        let in_stacks = diff.change - diff.elsewhere;
        let sums = both.sites.iter().map(|(_, change)| both_of(by, change));
        prop_assert_eq!(sums.sum::<i64>(), in_stacks);

        let report = tree_changes(&both, TreeOptions { by, callers, raw, depth: 1000, min: 1, limit });
        let rows = report.rows.iter().map(|row| row.cum.change).sum::<i64>();
        prop_assert_eq!(rows + report.hidden.map_or(0, |hidden| hidden.cum.change), in_stacks);

        // Sites without a stack belong to no function.
        let nowhere = both.sites.iter().filter(|(stack, _)| both.profile.stacks.depth(*stack) == 0);
        let in_functions = in_stacks - nowhere.map(|(_, change)| both_of(by, change)).sum::<i64>();
        let report = top_changes(&both, TopOptions { by, cum: callers, raw, limit });
        prop_assert_eq!(changes(&report), in_functions);
        let rank = |f: &TopFunction<Changed>| if callers { f.cum } else { f.self_sums }.change.unsigned_abs();
        prop_assert!(report.functions.is_sorted_by(|a, b| rank(a) >= rank(b)));

        let report = list_changes(&both, &"".parse().expect("a pattern"), ListOptions { by, raw, limit: usize::MAX });
        prop_assert_eq!(report.functions.iter().map(|f| f.self_sums.change).sum::<i64>(), in_functions);
        for f in &report.functions {
            prop_assert_eq!(f.lines.iter().map(|l| l.self_sums.change).sum::<i64>(), f.self_sums.change, "{}", f.function);
        }

        let parts = if raw { 5 } else { u64::MAX };
        let flame = flame_changes(&both, FlameOptions { by, callers, raw, parts, least: Least::Amount(0) });
        prop_assert_eq!(flame.boxes.iter().map(|b| b.change).sum::<i64>(), diff.change);
        for (at, node) in flame.boxes.iter().enumerate() {
            let on_it: u64 = flame.boxes.iter().filter(|b| b.parent == Some(at)).map(|b| b.value).sum();
            prop_assert!(on_it <= node.value);
        }
    }

    #[test]
    fn what_is_after_is_what_the_view_of_one_profile_shows(
        before in profile(),
        after in profile(),
        by in proptest::sample::select(Measure::ALL.to_vec()),
        raw: bool,
    ) {
        let both = Both::new(&before, &after, by, Rules::ALL);
        let options = TopOptions { by, cum: true, raw, limit: usize::MAX };
        let single: BTreeMap<_, _> = top(&after, options)
            .functions
            .into_iter()
            .map(|f| ((f.function, f.file, f.module), (by.of(&f.self_sums), by.of(&f.cum))))
            .collect();
        for f in top_changes(&both, options).functions {
            let is = (by.of(&f.self_sums.after), by.of(&f.cum.after));
            let known = single.get(&(f.function, f.file, f.module)).copied().unwrap_or_default();
            prop_assert_eq!(is, known);
        }
        let same = Both::new(&after, &after, by, Rules::ALL);
        prop_assert_eq!((same.moved(), top_changes(&same, options).functions.len()), (0, 0));
    }
}

fn both_of(by: Measure, change: &super::Change) -> i64 {
    let [before, after] = super::Amount::values(change, by);
    super::difference(before, after)
}
