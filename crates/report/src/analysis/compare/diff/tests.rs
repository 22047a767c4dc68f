use mallow_profile::{Counts, Profile};

use super::{Diff, DiffList, DiffOptions, DiffPlace, DiffTotal, Mark, Rule, Rules, State, Why, diff};
use crate::analysis::Measure;
use crate::testing::{Builder, blocks, parser};

const ALL: DiffOptions = DiffOptions {
    by: Measure::Allocations,
    rules: RULES,
    min: 0,
    limit: usize::MAX,
    any_measure: true,
    places: usize::MAX,
};
const RULES: Rules = Rules::ALL;

fn profile(sites: &[(&[&str], Counts)]) -> Profile {
    let mut b = Builder::default();
    let p = b.process(1, &["a"], 10);
    for (stack, counts) in sites {
        b.site(p, stack, *counts);
    }
    b.profile
}

/// Innermost function, before, after.
fn rows(list: &DiffList) -> Vec<(String, u64, u64)> {
    let first = |row: &super::DiffRow| row.stacks[0].frames.first().map_or(String::new(), |f| f.frame.function.clone());
    list.rows.iter().map(|row| (first(row), row.before, row.after)).collect()
}

fn row(name: &str, before: u64, after: u64) -> (String, u64, u64) {
    (name.to_owned(), before, after)
}

fn adds_up(diff: &Diff) {
    assert_eq!(diff.change, diff.after.value as i64 - diff.before.value as i64);
    assert_eq!(diff.shown + diff.hidden + diff.elsewhere, diff.change);
    let lists = [&diff.only_before, &diff.only_after, &diff.different];
    assert_eq!(lists.iter().map(|list| list.change).sum::<i64>() + diff.elsewhere, diff.change);
    assert_eq!(lists.iter().flat_map(|list| &list.rows).map(|row| row.change).sum::<i64>(), diff.shown);
    assert!(diff.recognised.rows.iter().all(|row| row.change == 0));
    for total in diff.totals.iter().chain([&diff.places]) {
        assert_eq!(total.change, total.after as i64 - total.before as i64);
        assert!(total.largest.is_sorted_by(|a, b| a.change.unsigned_abs() >= b.change.unsigned_abs()));
        if total.places == total.largest.len() as u64 {
            let sum: i64 = total.largest.iter().map(|place| place.change).sum();
            assert_eq!(sum + total.elsewhere, total.change, "{:?}", total.by);
        }
    }
}

/// Function, line, before, after.
fn places(total: &DiffTotal) -> Vec<(String, u32, u64, u64)> {
    let row = |place: &DiffPlace| {
        let frame = place.frame.as_ref().expect("a frame");
        (frame.function.clone(), frame.line.unwrap_or(0), place.before, place.after)
    };
    total.largest.iter().map(row).collect()
}

#[test]
fn new_and_gone_and_changed_places_are_one_list_and_the_largest_is_the_verdict() {
    let main = ["main@main.c:3"];
    let stack = |inner: &[&'static str]| [inner, &main].concat();
    let before = profile(&[
        (&stack(&["operator new!libstdc++.so.6", "gone@a.c:4"]), blocks(5, 10, 0, 0)),
        (&stack(&["operator new!libstdc++.so.6", "grown@a.c:9"]), blocks(10, 10, 0, 0)),
        (&stack(&["operator new!libstdc++.so.6", "same@a.c:20"]), blocks(900, 10, 0, 0)),
    ]);
    let after = profile(&[
        (&stack(&["operator new!libstdc++.so.6", "grown@a.c:12"]), blocks(30, 10, 0, 0)),
        (&stack(&["operator new!libstdc++.so.6", "same@a.c:23"]), blocks(900, 10, 0, 0)),
        (&stack(&["operator new!libstdc++.so.6", "encode@b.c:297"]), blocks(1001, 10, 0, 0)),
        // Another way to the place that is there already.
        (&["operator new!libstdc++.so.6", "same@a.c:23", "other@b.c:5", "main@main.c:3"], blocks(3, 10, 0, 0)),
    ]);
    let report = diff(&before, &after, ALL);
    adds_up(&report);
    let row = |name: &str, line, before, after| (name.to_owned(), line, before, after);
    assert_eq!(
        places(&report.places),
        [row("encode", 297, 0, 1001), row("grown", 12, 10, 30), row("gone", 4, 5, 0), row("same", 23, 900, 903)]
    );
    let states: Vec<_> = report.places.largest.iter().map(|place| place.state).collect();
    assert_eq!(states, [State::New, State::More, State::Gone, State::More]);
    let verdict = &report.verdict;
    assert_eq!((verdict.places.len(), verdict.places_in_all, verdict.change), (1, 4, 1019));
    assert_eq!((verdict.is_clear(), verdict.one_way, (verdict.share * 1029.0).round()), (true, false, 1001.0));
    // Each total has its largest place.
    let tops: Vec<_> = report.totals.iter().map(|total| (total.by, places(total).first().cloned())).collect();
    assert_eq!(tops.len(), 5);
    assert_eq!(tops[1], (Measure::Bytes, Some(row("encode", 297, 0, 10_010))));
    assert_eq!((tops[3].1.clone(), tops[4].1.clone()), (None, None));
}

#[test]
fn a_line_that_was_inserted_is_the_place_and_not_the_lines_below_it() {
    let before = profile(&[(&["f@a.c:10", "main"], blocks(500, 8, 0, 0)), (&["f@a.c:11", "main"], blocks(9, 8, 0, 0))]);
    let after = profile(&[
        (&["f@a.c:10", "main"], blocks(77, 8, 0, 0)),
        (&["f@a.c:11", "main"], blocks(500, 8, 0, 0)),
        (&["f@a.c:12", "main"], blocks(9, 8, 0, 0)),
    ]);
    let report = diff(&before, &after, ALL);
    adds_up(&report);
    assert_eq!(places(&report.places), [("f".to_owned(), 10, 0, 77)]);
    // On a call path that nothing pairs: nobody knows which line is which, and what is left is the change.
    let elsewhere = profile(&[(&["f@a.c:14", "other", "elsewhere", "thread"], blocks(700, 8, 0, 0))]);
    let report = diff(&before, &elsewhere, DiffOptions { rules: Rules::without(&[Rule::Pairing]), ..ALL });
    adds_up(&report);
    assert_eq!(places(&report.places), [("f".to_owned(), 14, 509, 700)]);
}

/// As in the report of one profile. The allocator's lines are others in each build.
#[test]
fn wrappers_of_the_allocator_are_looked_past() {
    let build = |module: &str, lines: [u32; 2], more: u64| {
        let sites = (0..4u64).map(|maker| {
            let wrapper = format!("gc_alloc@gc.c:{}!{module}", lines[maker as usize % 2]);
            let stack = [wrapper, format!("make_{maker}@objects.c:{}!{module}", 20 + maker), "main".to_owned()];
            (stack, blocks(if maker == 2 { 100 + more } else { 100 }, 8 * (1 + maker), 0, 0))
        });
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        for (stack, counts) in sites {
            b.site(p, &stack.each_ref().map(String::as_str), counts);
        }
        b.profile
    };
    let report = diff(&build("python3.11", [1, 2], 0), &build("python3.13", [3, 4], 500), ALL);
    assert_eq!(places(&report.places), [("make_2".to_owned(), 22, 100, 600)]);
}

#[test]
fn another_measure_is_the_verdict_where_allocations_hardly_changed() {
    let before =
        profile(&[(&["f@a.c:1", "main"], blocks(10_000, 8, 0, 0)), (&["g@a.c:2", "main"], blocks(10, 8, 0, 0))]);
    let after =
        profile(&[(&["f@a.c:1", "main"], blocks(10_001, 8, 0, 0)), (&["g@a.c:2", "main"], blocks(10, 8, 0, 9))]);
    let free = diff(&before, &after, ALL);
    adds_up(&free);
    assert_eq!((free.by, free.verdict.by, free.places.by), (Measure::Allocations, Measure::Live, Measure::Live));
    assert_eq!(places(&free.places), [("g".to_owned(), 2, 0, 72)]);
    let asked = diff(&before, &after, DiffOptions { any_measure: false, ..ALL });
    assert_eq!(
        (asked.verdict.by, places(&asked.places)),
        (Measure::Allocations, vec![("f".to_owned(), 1, 10_000, 10_001)])
    );
    // Nothing changed.
    let same = diff(&before, &before, ALL);
    adds_up(&same);
    assert_eq!((same.verdict.by, same.verdict.places.len(), same.places.places), (Measure::Allocations, 0, 0));
    assert!(same.totals.iter().all(|total| total.moved == 0));
}

#[test]
fn a_file_with_another_name_is_said_once() {
    let sites = |file: &str| -> Profile {
        let names = ["one", "two", "three"];
        let frames: Vec<String> = names.iter().map(|name| format!("{name}@{file}:7")).collect();
        let stacks: Vec<[&str; 2]> = frames.iter().map(|frame| [&frame[..], "main@main.c:3"]).collect();
        let sites: Vec<(&[&str], Counts)> = stacks.iter().map(|stack| (&stack[..], blocks(5, 8, 0, 0))).collect();
        profile(&sites)
    };
    let report = diff(&sites("rows.h"), &sites("records.h"), ALL);
    adds_up(&report);
    let [only] = &report.renamed[..] else { panic!("{:?}", report.renamed) };
    let why = Why::Moved { function: String::new(), from: "rows.h".to_owned(), to: "records.h".to_owned() };
    assert_eq!((&only.why, only.file, only.functions, only.stacks), (&why, true, 3, 3));
}

#[test]
fn each_stack_is_of_one_kind_and_the_largest_comes_first() {
    let before = profile(&[
        (&["gone", "main"], blocks(5, 10, 0, 0)),
        (&["grown", "main"], blocks(10, 10, 0, 0)),
        (&["shrunk", "main"], blocks(50, 10, 0, 0)),
        (&["same", "main"], blocks(7, 10, 0, 0)),
    ]);
    let after = profile(&[
        (&["same", "main"], blocks(7, 10, 0, 0)),
        (&["small", "main"], blocks(1, 10, 0, 0)),
        (&["shrunk", "main"], blocks(20, 10, 0, 0)),
        (&["grown", "main"], blocks(15, 10, 0, 0)),
        (&["large", "main", "more"], blocks(900, 10, 0, 0)),
    ]);
    let report = diff(&before, &after, ALL);
    adds_up(&report);
    assert_eq!(rows(&report.only_before), [row("gone", 5, 0)]);
    assert_eq!(rows(&report.only_after), [row("large", 0, 900), row("small", 0, 1)]);
    assert_eq!(rows(&report.different), [row("shrunk", 50, 20), row("grown", 10, 15)]);
    assert_eq!((report.change, report.equal_stacks), (943 - 72, 1));
    let cut = diff(&before, &after, DiffOptions { min: 6, limit: 1, ..ALL });
    adds_up(&cut);
    assert_eq!((rows(&cut.only_before), cut.only_before.hidden_change()), (vec![], -5));
    assert_eq!((rows(&cut.only_after), cut.only_after.hidden()), (vec![row("large", 0, 900)], 1));
    assert_eq!((cut.shown, cut.hidden), (870, 1));
}

#[test]
fn the_least_is_asked_of_the_difference() {
    let before = profile(&[(&["f", "main"], blocks(999, 1, 0, 0))]);
    let after = profile(&[(&["f", "main"], blocks(1500, 1, 0, 0))]);
    let report = diff(&before, &after, DiffOptions { min: 500, ..ALL });
    assert_eq!((report.only_after.rows_in_all, rows(&report.different)), (0, vec![row("f", 999, 1500)]));
}

#[test]
fn each_measure_adds_up_on_its_own() {
    let (before, mut after) = (parser(), parser());
    for (at, site) in after.sites.iter_mut().enumerate() {
        let more = blocks(at as u64 + 1, 100, at as u64 % 2, at as u64 % 3);
        site.counts += more;
        after.totals += more;
    }
    for by in Measure::ALL {
        let report = diff(&before, &after, DiffOptions { by, limit: 2, ..ALL });
        adds_up(&report);
        assert!(report.different.rows_in_all + report.only_after.rows_in_all >= 1, "{by:?}");
    }
}

#[test]
fn allocations_in_no_stack_are_counted_elsewhere() {
    let before = profile(&[(&["f", "main"], blocks(1, 1, 0, 0))]);
    let mut after = before.clone();
    after.totals.allocations += 70;
    let report = diff(&before, &after, ALL);
    adds_up(&report);
    assert_eq!((report.change, report.elsewhere), (70, 70));
}

#[test]
fn two_builds_of_one_program_are_equal_unless_rules_are_off() {
    let before = profile(&[(
        &[
            "f.constprop.0@/old/a.c:10",
            "+0x12f0!libx.so.1.2",
            "run::{closure#1}@/old/a.c:90 | main@/old/a.c:99",
            "_start",
        ],
        blocks(5, 10, 0, 0),
    )]);
    let after = profile(&[(
        &[
            "f.18@/new/b.c:12",
            "+0x1300!libx.so.1.3",
            "run::{closure#4}@/old/a.c:95",
            "main@/old/a.c:99",
            "__libc_start_main",
        ],
        blocks(5, 10, 0, 0),
    )]);
    let report = diff(&before, &after, ALL);
    // A function is in another file, which is reported.
    assert_eq!((report.recognised.rows_in_all, report.only_after.rows_in_all), (1, 0));
    for rule in [Rule::Addresses, Rule::Clones, Rule::Closures, Rule::Start, Rule::Lines, Rule::Files, Rule::Inlining] {
        let report = diff(&before, &after, DiffOptions { rules: Rules::without(&[rule, Rule::Pairing]), ..ALL });
        assert_eq!((report.equal_stacks, report.only_after.rows_in_all), (0, 1), "{rule:?}");
        adds_up(&report);
    }
}

#[test]
fn addresses_of_one_build_are_compared() {
    let build = |address: &str| {
        let mut profile = profile(&[(&[&format!("+{address}!libx.so.1"), "main"], blocks(5, 10, 0, 0))]);
        profile.modules.iter_mut().for_each(|module| module.build_id = vec![7]);
        profile
    };
    assert_eq!(diff(&build("0x10"), &build("0x10"), ALL).equal_stacks, 1);
    assert_eq!(diff(&build("0x10"), &build("0x20"), ALL).equal_stacks, 0);
}

/// Line, `by`, before, after, of the places by a measure.
fn places_by(report: &Diff, by: Measure) -> Vec<(String, Option<String>, u64, u64)> {
    let total = report.totals.iter().find(|total| total.by == by).expect("the measure");
    let row = |place: &DiffPlace| {
        let frame = place.frame.as_ref().expect("a frame");
        let line = format!("{}:{}", frame.function, frame.line.unwrap_or(0));
        (line, place.by.clone(), place.before, place.after)
    };
    total.largest.iter().map(row).collect()
}

#[test]
fn a_leak_behind_a_helper_is_no_part_of_a_cache_that_shrinks() {
    let build = |cached: u64, noted: u64| {
        let helper = ["operator new!libstdc++.so.6", "make_payload@srv.c:5"];
        let stack = |callers: &[&'static str]| [&helper, callers, &["main@srv.c:9"]].concat();
        let mut profile = profile(&[
            (&stack(&["cache_put@srv.c:7", "serve@srv.c:30"]), blocks(2000, 100, 0, cached)),
            (&stack(&["cache_put@srv.c:7", "warm_up@srv.c:40"]), blocks(2000, 100, 0, cached)),
            (&stack(&["note_session@srv.c:21", "serve@srv.c:31"]), blocks(2000, 100, 0, noted)),
            (&stack(&["trace@srv.c:60", "serve@srv.c:32"]), blocks(2000, 100, 0, 1)),
        ]);
        profile.modules.iter_mut().for_each(|module| module.build_id = vec![7]);
        profile
    };
    let place = |name: &str, before, after| (name.to_owned(), Some("make_payload".to_owned()), before, after);
    let report = diff(&build(1000, 0), &build(500, 1000), ALL);
    adds_up(&report);
    let mut places = places_by(&report, Measure::Live);
    places.sort();
    assert_eq!(places, [place("cache_put:7", 200_000, 100_000), place("note_session:21", 0, 100_000)]);
    assert_eq!((report.verdict.by, report.verdict.change, report.verdict.one_way), (Measure::Live, 0, false));
    let cache = report.places.largest.iter().find(|place| place.state == State::Fewer).expect("the cache");
    let callers: Vec<_> = cache.stack.own().iter().map(|frame| frame.function.clone()).collect();
    assert_eq!((cache.sites, &callers[..2]), (2, &["make_payload".to_owned(), "cache_put".to_owned()][..]));
    // All of it one way: the line, whoever called it.
    let report = diff(&build(500, 500), &build(1000, 1000), ALL);
    let line = ("make_payload:5".to_owned(), None, 150_100, 300_100);
    assert_eq!(places_by(&report, Measure::Live), [line]);
}

/// Of two builds, lines are matched by their numbers: a line may have been inserted above. Of one, each is what it is.
#[test]
fn lines_of_one_build_are_compared_with_themselves() {
    let build = |id: u8, seven: u64, nine: u64| {
        let line = |line: &'static str, allocations: u64| ([line, "main@a.c:11"], blocks(allocations, 64, 0, 0));
        let all = [line("parse@a.c:7", seven), line("parse@a.c:9", nine)];
        let stacks: Vec<_> =
            all.iter().filter(|(_, counts)| counts.allocations > 0).map(|(s, c)| (&s[..], *c)).collect();
        let mut profile = profile(&stacks);
        profile.modules.iter_mut().for_each(|module| module.build_id = vec![id]);
        profile
    };
    let place = |line: u64, before, after| (format!("parse:{line}"), None, before, after);
    for (was, is) in [([1000, 10], [10, 1000]), ([1000, 100], [100, 3000]), ([1000, 0], [0, 1000])] {
        let report = diff(&build(1, was[0], was[1]), &build(1, is[0], is[1]), ALL);
        adds_up(&report);
        let mut places = places_by(&report, Measure::Allocations);
        places.sort();
        let mut expected = [place(7, was[0], is[0]), place(9, was[1], is[1])];
        expected.sort();
        assert_eq!(places, expected);
        assert!(report.totals[0].moved > 0, "{:?}", report.verdict);
    }
    let report = diff(&build(1, 1000, 10), &build(2, 10, 1000), ALL);
    assert_eq!(report.totals[0].moved, 20, "of two builds, line 7 may be line 9 now");
}

#[test]
fn functions_of_one_build_have_no_other_names() {
    let build = |id: u8, caller: &'static str| {
        let mut profile = profile(&[(&["make@a.c:5", caller, "main@a.c:9"], blocks(1000, 100, 0, 0))]);
        profile.modules.iter_mut().for_each(|module| module.build_id = vec![id]);
        profile
    };
    let (cache, session) = ("cache_put@a.c:7", "note_session@a.c:8");
    let report = diff(&build(1, cache), &build(1, session), ALL);
    assert_eq!((report.renamed.len(), report.only_before.rows_in_all, report.only_after.rows_in_all), (0, 1, 1));
    let place = |name: &str, before, after| (name.to_owned(), Some("make".to_owned()), before, after);
    let mut places = places_by(&report, Measure::Allocations);
    places.sort();
    assert_eq!(places, [place("cache_put:7", 1000, 0), place("note_session:8", 0, 1000)]);
    // Of another build, it may be.
    let report = diff(&build(1, cache), &build(2, session), ALL);
    assert_eq!((report.renamed.len(), report.totals[0].moved), (1, 0));
}

#[test]
fn of_stacks_that_differ_by_lines_the_one_that_changed_is_shown() {
    let before = profile(&[(&["f@a.c:1", "main@a.c:9"], blocks(900, 1, 0, 0))]);
    let after = profile(&[
        (&["f@a.c:1", "main@a.c:9"], blocks(900, 1, 0, 0)),
        (&["f@a.c:5", "main@a.c:9"], blocks(30, 1, 0, 0)),
    ]);
    let report = diff(&before, &after, ALL);
    assert_eq!(rows(&report.different), [row("f", 900, 930)]);
    assert_eq!(report.different.rows[0].stacks[0].frames[0].frame.line, Some(5));
}

#[test]
fn ids_that_lead_nowhere_are_withstood() {
    let mut broken = parser();
    broken.sites[0].stack = mallow_profile::StackId(77_777);
    broken.frames.truncate(3);
    broken.modules.clear();
    for (a, b) in [(&broken, &parser()), (&parser(), &broken), (&broken, &broken), (&Profile::default(), &broken)] {
        adds_up(&diff(a, b, ALL));
    }
}

fn whys(row: &super::DiffRow) -> Vec<String> {
    row.why
        .iter()
        .map(|why| serde_json::to_value(why).expect("JSON")["what"].as_str().expect("text").to_owned())
        .collect()
}

/// A program with several callers of each function, so that functions are as rare as in real ones.
fn program(parse: &str, helper: &[&str], more: u64) -> Profile {
    let mut b = Builder::default();
    let p = b.process(1, &["a"], 10);
    for (at, caller) in ["load", "reload", "import", "check"].iter().enumerate() {
        let stack = [&["operator new!libstdc++.so.6"], helper, &[parse, caller, "run", "main"]].concat();
        b.site(p, &stack, blocks(1000 + 100 * at as u64 + more, 24, 0, 0));
        b.site(p, &["write", caller, "run", "main"], blocks(40 + at as u64, 10, 0, 0));
    }
    b.profile
}

#[test]
fn a_function_with_another_name_is_the_same() {
    let report = diff(&program("parse_row", &[], 0), &program("read_row", &[], 0), ALL);
    adds_up(&report);
    assert_eq!(
        (report.only_before.rows_in_all, report.only_after.rows_in_all, report.recognised.rows_in_all),
        (0, 0, 4)
    );
    let row = &report.recognised.rows[0];
    assert_eq!((whys(row), row.before, row.after), (vec!["renamed".into(), "same_numbers".into()], 1300, 1300));
    assert!(row.confidence > 0.9 && row.confidence <= 1.0, "{}", row.confidence);
    let marks: Vec<_> = row.stacks[0].frames.iter().map(|f| (f.of, f.frame.function.as_str())).collect();
    assert_eq!(marks[..3], [(Mark::Both, "operator new"), (Mark::Before, "parse_row"), (Mark::After, "read_row")]);
    let off = diff(
        &program("parse_row", &[], 0),
        &program("read_row", &[], 0),
        DiffOptions { rules: Rules::without(&[Rule::Pairing]), ..ALL },
    );
    assert_eq!((off.only_before.rows_in_all, off.only_after.rows_in_all), (4, 4));
}

#[test]
fn a_function_that_is_no_longer_inlined_has_come_in_between_and_numbers_may_differ() {
    let report = diff(&program("parse", &[], 0), &program("parse", &["copy_field"], 50), ALL);
    adds_up(&report);
    assert_eq!(
        (report.only_before.rows_in_all, report.only_after.rows_in_all, report.different.rows_in_all),
        (0, 0, 4)
    );
    for row in &report.different.rows {
        assert_eq!((whys(row), row.change), (vec!["new".to_owned()], 50));
    }
    let back = diff(&program("parse", &["copy_field"], 0), &program("parse", &[], 0), ALL);
    assert!(back.recognised.rows.iter().all(|row| whys(row) == ["gone", "same_numbers"]), "{back:?}");
}

#[test]
fn what_is_not_the_same_is_left_alone() {
    let before = profile(&[
        (&["old_cache", "load", "main"], blocks(70, 100, 0, 0)),
        (&["kept", "load", "main"], blocks(1, 1, 0, 0)),
    ]);
    let after = profile(&[
        (&["copy_rows", "sort", "report", "main"], blocks(9000, 8, 0, 0)),
        (&["kept", "load", "main"], blocks(1, 1, 0, 0)),
    ]);
    let report = diff(&before, &after, ALL);
    assert_eq!(
        (rows(&report.only_before), rows(&report.only_after)),
        (vec![row("old_cache", 70, 0)], vec![row("copy_rows", 0, 9000)])
    );
}

#[test]
fn a_stack_that_became_two_is_one_row() {
    let others: [(&[&str], Counts); 3] = [
        (&["a", "main"], blocks(3, 1, 0, 0)),
        (&["b", "x", "main"], blocks(4, 1, 0, 0)),
        (&["c", "y", "main"], blocks(5, 1, 0, 0)),
    ];
    let with = |sites: &[(&[&str], Counts)]| profile(&[&others[..], sites].concat());
    let whole = with(&[(&["alloc", "insert", "build", "main"], blocks(1000, 32, 0, 0))]);
    // The other part is a stack that there was, or both are new.
    for one in [&["alloc", "insert", "build", "main"][..], &["alloc", "insert_quick", "insert", "build", "main"]] {
        let parts = with(&[
            (one, blocks(600, 32, 0, 0)),
            (&["alloc", "insert_slow", "insert", "build", "main"], blocks(400, 32, 0, 0)),
        ]);
        for (before, after, what) in [(&whole, &parts, "split"), (&parts, &whole, "merged")] {
            let report = diff(before, after, ALL);
            adds_up(&report);
            assert_eq!((report.only_before.rows_in_all, report.only_after.rows_in_all), (0, 0), "{what} {one:?}");
            let row = &report.recognised.rows[0];
            assert_eq!((row.before, row.after, row.stacks.len(), whys(row)[0].as_str()), (1000, 1000, 2, what));
            let sums: [u64; 2] =
                [row.stacks.iter().filter_map(|s| s.before).sum(), row.stacks.iter().filter_map(|s| s.after).sum()];
            assert_eq!(sums, [1000, 1000]);
        }
    }
}

#[test]
fn a_part_of_a_stack_that_was_renamed_is_found() {
    let callers: Vec<String> = (0..12).map(|n| format!("build{n}")).collect();
    let stacks = |insert: &'static [&'static str], first: u64| -> Vec<(Vec<&str>, Counts)> {
        let stack = |caller| [&["alloc"], insert, &[caller, "load", "main"]].concat();
        let count = |n| if n == 0 { first } else { 50 + 10 * n as u64 };
        callers.iter().enumerate().map(|(n, caller)| (stack(caller.as_str()), blocks(count(n), 32, 0, 0))).collect()
    };
    let of = |stacks: &[(Vec<&str>, Counts)]| {
        profile(&stacks.iter().map(|(stack, counts)| (&stack[..], *counts)).collect::<Vec<_>>())
    };
    let before = of(&stacks(&["insert"], 1000));
    let mut after = stacks(&["insert", "insert_quick"], 600);
    after.push((vec!["alloc", "insert_slow", "insert", "build0", "load", "main"], blocks(400, 32, 0, 0)));
    // More alike, with another number.
    after.push((vec!["alloc", "insert", "build0", "load", "again", "main"], blocks(7, 32, 0, 0)));
    let report = diff(&before, &of(&after), ALL);
    adds_up(&report);
    assert_eq!(rows(&report.only_after), vec![row("alloc", 0, 7)]);
    let split: Vec<_> = report.recognised.rows.iter().filter(|row| whys(row)[0] == "split").collect();
    assert_eq!(
        split.iter().map(|row| (row.before, row.after, row.stacks.len())).collect::<Vec<_>>(),
        [(1000, 1000, 2)]
    );
}

#[test]
fn nothing_depends_on_the_order_of_a_file() {
    let build = |reverse: bool, parse: &str| {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        let mut order: Vec<u64> = (0..60).collect();
        if reverse {
            order.reverse();
        }
        for n in order {
            let (caller, leaf) = (format!("caller{}", n % 7), format!("leaf{}", n % 5));
            let stack = [leaf.as_str(), parse, caller.as_str(), if n % 2 == 0 { "even" } else { "odd" }, "main"];
            b.site(p, &stack, blocks(1 + n % 3, 8, 0, 0));
        }
        b.profile
    };
    let json = |reverse| {
        let mut report = diff(&build(reverse, "parse"), &build(reverse, "scan"), ALL);
        // Addresses are made up.
        for list in [&mut report.only_before, &mut report.only_after, &mut report.different, &mut report.recognised] {
            list.rows
                .iter_mut()
                .flat_map(|r| &mut r.stacks)
                .flat_map(|s| &mut s.frames)
                .for_each(|f| f.frame.address.clear());
        }
        serde_json::to_string(&report).expect("JSON")
    };
    assert_eq!(json(false), json(true));
}

#[test]
fn functions_that_are_in_another_file_have_moved() {
    let build = |directory: &str, parse: &str, write: &str| {
        let sites: Vec<[String; 3]> = vec![
            [
                format!("parse@{directory}/src/{parse}:3"),
                format!("load@{directory}/src/load.c:5"),
                format!("main@{directory}/src/main.c:9"),
            ],
            [
                format!("write@{directory}/{write}:3"),
                format!("save@{directory}/src/load.c:50"),
                format!("main@{directory}/src/main.c:9"),
            ],
        ];
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 10);
        for site in &sites {
            b.site(p, &site.each_ref().map(String::as_str), blocks(5, 10, 0, 0));
        }
        b.profile
    };
    let report = diff(&build("/old", "parse.c", "src/write.c"), &build("/new", "reader.c", "io/write.c"), ALL);
    let why = |row: &super::DiffRow| serde_json::to_value(&row.why).expect("JSON");
    let all: Vec<_> = report.recognised.rows.iter().map(why).collect();
    let moved = |function: &str, from: &str, to: &str| serde_json::json!([{ "what": "moved", "function": function, "from": from, "to": to }]);
    assert_eq!(all, [moved("parse", "parse.c", "reader.c"), moved("write", "/old/src/write.c", "/new/io/write.c")]);
    assert_eq!(diff(&build("/old", "a.c", "src/b.c"), &build("/new", "a.c", "src/b.c"), ALL).equal_stacks, 2);
}

#[test]
fn progress_goes_from_nothing_to_all() {
    let sites = |name: &str| {
        let names: Vec<[String; 3]> =
            (0..200).map(|n| [format!("{name}{n}"), format!("{name}_of{}", n % 7), format!("main{}", n % 3)]).collect();
        let stacks: Vec<Vec<&str>> = names.iter().map(|names| names.iter().map(String::as_str).collect()).collect();
        let sites: Vec<(&[&str], Counts)> = stacks.iter().map(|stack| (&stack[..], blocks(5, 8, 0, 0))).collect();
        profile(&sites)
    };
    let parts = std::cell::RefCell::new(Vec::new());
    super::diff_with_progress(&sites("one"), &sites("other"), ALL, &super::no_files, &|part| {
        parts.borrow_mut().push(part)
    });
    let parts = parts.into_inner();
    assert!(parts.len() > 3 && parts.is_sorted() && parts.iter().all(|part| (0.0..=1.0).contains(part)), "{parts:?}");
}
