use std::collections::BTreeMap;

use mallow_profile::{Profile, StackId, Stacks};
use proptest::prelude::*;

use super::{Hidden, Measure, Totals, Tree, TreeFunction, TreeOptions, TreeRow, tree};
use crate::analysis::stacks::by_stack::by_stack;
use crate::analysis::{TopOptions, top};
use crate::testing::random::profile;
use crate::testing::{Builder, blocks, parser};

const ALL: TreeOptions =
    TreeOptions { by: Measure::Allocations, callers: false, raw: false, depth: usize::MAX, min: 1, limit: usize::MAX };

/// Rows with two blanks for each row above: amount, own amount, functions.
fn shown(report: &Tree) -> Vec<String> {
    fn add(report: &Tree, rows: &[TreeRow], hidden: Option<&Hidden>, depth: usize, out: &mut Vec<String>) {
        let by = report.by;
        let blanks = "  ".repeat(depth);
        for row in rows {
            let name =
                |(f, recursive): (&TreeFunction, bool)| format!("{}{}", f.function, ["", "*"][usize::from(recursive)]);
            let names: Vec<_> = report.called(row).map(name).collect();
            out.push(format!("{blanks}{} {} {}", by.of(&row.cum), by.of(&row.self_sums), names.join(" ")));
            add(report, &row.children, row.hidden.as_ref(), depth + 1, out);
        }
        if let Some(hidden) = hidden {
            out.push(format!("{blanks}{} in {} more", by.of(&hidden.cum), hidden.rows));
        }
    }
    let mut out = Vec::new();
    add(report, &report.rows, report.hidden.as_ref(), 0, &mut out);
    out
}

fn built(stacks: &[(&[&str], u64)]) -> Profile {
    let mut b = Builder::default();
    let p = b.process(1, &["a"], 10);
    for (frames, allocations) in stacks {
        b.site(p, frames, blocks(*allocations, 8, 0, 0));
    }
    b.profile
}

#[test]
fn calls_go_from_main_to_those_that_allocate() {
    let report = tree(&parser(), ALL);
    let row = "app::Parser::parse_row(std::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)";
    assert_eq!(
        shown(&report),
        [
            "1000019 0 main app::run(int)".to_owned(),
            "  900012 0 app::load".to_owned(),
            format!("    900000 900000 {row}"),
            "    12 12 app::Cache::put".to_owned(),
            format!("  100000 100000 app::reload {row}"),
            "  7 7 libplugin.so+0x1400 libplugin.so+0x12f0".to_owned(),
            "3 3 _dl_new_object".to_owned(),
        ]
    );
}

#[test]
fn callers_go_from_those_that_allocate_to_main() {
    let report = tree(&parser(), TreeOptions { callers: true, by: Measure::Bytes, ..ALL });
    let row = "app::Parser::parse_row(std::basic_string<char, std::char_traits<char>, std::allocator<char> > const&)";
    assert_eq!(
        shown(&report),
        [
            format!("38400000 0 {row}"),
            "  36000000 36000000 app::load app::run(int) main".to_owned(),
            "  2400000 2400000 app::reload app::run(int) main".to_owned(),
            "7000000 7000000 libplugin.so+0x12f0 libplugin.so+0x1400 app::run(int) main".to_owned(),
            "12000 12000 app::Cache::put app::load app::run(int) main".to_owned(),
            "3600 3600 _dl_new_object".to_owned(),
        ]
    );
}

#[test]
fn raw_is_the_letter() {
    let profile = built(&[
        (&["operator new!libstdc++.so.6", "f@a.c:2 | f@a.c:1", "f@a.c:1", "main", "_start"], 3),
        (&["f@a.c:1", "main", "_start"], 2),
    ]);
    let raw = tree(&profile, TreeOptions { raw: true, ..ALL });
    assert_eq!(shown(&raw), ["5 2 _start main f", "  3 3 f f operator new"]);
    assert_eq!(shown(&tree(&profile, ALL)), ["5 5 main f*"]);
}

#[test]
fn recursion_is_folded_into_the_first_call() {
    let profile = built(&[
        (&["leaf", "term", "sum", "term", "sum", "main"], 5),
        (&["term", "sum", "main"], 2),
        (&["leaf", "once", "main"], 1),
        (&["sum", "term", "main"], 1),
    ]);
    let expected = ["9 0 main", "  7 2 sum* term", "    5 5 leaf", "  1 1 term sum", "  1 1 once leaf"];
    assert_eq!(shown(&tree(&profile, ALL)), expected);
    let callers = tree(&profile, TreeOptions { callers: true, ..ALL });
    let expected = ["6 0 leaf", "  5 5 term sum* main", "  1 1 once main", "2 2 term sum* main", "1 1 sum term main"];
    assert_eq!(shown(&callers), expected);
}

#[test]
fn a_function_that_a_compiler_split_does_not_call_itself() {
    // GCC makes `copy` call `copy.part.0`, which debug information calls by the same name.
    let split = built(&[(&["strdup!libc.so.6", "copy@a.c:9", "copy@a.c:3", "main"], 4)]);
    assert_eq!(shown(&tree(&split, ALL)), ["4 4 main copy"]);
    let thrice = built(&[(&["copy@a.c:9", "copy@a.c:9", "copy@a.c:3", "main"], 4)]);
    assert_eq!(shown(&tree(&thrice, ALL)), ["4 4 main copy*"]);
    let through = built(&[(&["visit@a.c:9", "std::invoke", "visit@a.c:3", "main"], 4)]);
    assert_eq!(shown(&tree(&through, ALL)), ["4 4 main visit*"]);
}

#[test]
fn addresses_belong_to_named_functions_of_their_module() {
    let profile = built(&[
        (&["+0x10!libx.so", "+0x20!libx.so", "x_open!libx.so", "+0x90", "main"], 9),
        (&["x_read!libx.so", "+0x20!libx.so", "+0x30!libx.so", "main"], 8),
        (&["+0x40!liby.so", "+0x50!liby.so"], 7),
    ]);
    let expected =
        ["17 0 main", "  9 9 x_open", "  8 8 libx.so+0x30 libx.so+0x20 x_read", "7 7 liby.so+0x50 liby.so+0x40"];
    assert_eq!(shown(&tree(&profile, ALL)), expected);
}

#[test]
fn stacks_that_are_cut_or_unknown_have_rows() {
    let mut b = Builder::default();
    let p = b.process(1, &["a"], 10);
    b.site(p, &["f", "main"], blocks(1, 8, 0, 0));
    b.site(p, &[], blocks(2, 8, 0, 0));
    b.site(p, &["lone"], blocks(16, 8, 0, 0));
    let frame = b.profile.stacks.top(b.profile.sites[0].stack).expect("a frame").0;
    let cut = b.profile.stacks.push(Stacks::CUT_ROOT, frame);
    for (stack, allocations) in [(cut, 4), (Stacks::CUT_ROOT, 8)] {
        b.site(p, &[], blocks(allocations, 8, 0, 0)).stack = stack;
    }
    let report = tree(&b.profile, ALL);
    let expected =
        ["16 16 lone", "12 8 (outer frames are missing)", "  4 4 f", "2 2 (no stack is known)", "1 1 main f"];
    assert_eq!(shown(&report), expected);
    let callers = tree(&b.profile, TreeOptions { callers: true, ..ALL });
    let expected = [
        "16 16 lone",
        "8 8 (outer frames are missing)",
        "5 0 f",
        "  4 4 (outer frames are missing)",
        "  1 1 main",
        "2 2 (no stack is known)",
    ];
    assert_eq!(shown(&callers), expected);
}

#[test]
fn what_is_hidden_is_added_up() {
    let stacks: Vec<(Vec<String>, u64)> = (1..=9u64).map(|n| (vec![format!("f{n}"), "main".to_owned()], n)).collect();
    let texts: Vec<(Vec<&str>, u64)> =
        stacks.iter().map(|(f, n)| (f.iter().map(String::as_str).collect(), *n)).collect();
    let profile = built(&texts.iter().map(|(f, n)| (f.as_slice(), *n)).collect::<Vec<_>>());
    let limited = |limit| shown(&tree(&profile, TreeOptions { limit, ..ALL }));
    assert_eq!(limited(1), ["45 0 main", "  45 in 9 more"]);
    assert_eq!(limited(4), ["45 0 main", "  9 9 f9", "  8 8 f8", "  28 in 7 more"]);
    assert_eq!(limited(9).last().map(String::as_str), Some("  3 in 2 more"));
    assert_eq!(limited(10).last().map(String::as_str), Some("  1 1 f1"));
    let least = shown(&tree(&profile, TreeOptions { min: 8, ..ALL }));
    assert_eq!(least, ["45 0 main", "  9 9 f9", "  8 8 f8", "  28 in 7 more"]);
    // The last line would announce one more row, and shows it instead.
    let but_one = shown(&tree(&profile, TreeOptions { min: 2, ..ALL }));
    assert_eq!(but_one.last().map(String::as_str), Some("  1 1 f1"));
    let shallow = shown(&tree(&profile, TreeOptions { depth: 1, ..ALL }));
    assert_eq!(shallow, ["45 0 main", "  45 in 9 more"]);
}

#[test]
fn a_row_that_is_next_to_nothing_but_another_is_one_with_it() {
    let profile = built(&[
        (&["hot", "run", "main"], 980),
        (&["run", "main"], 10),
        (&["log", "main"], 5),
        (&["hot", "idle", "main"], 5),
    ]);
    let exact = ["1000 0 main", "  990 10 run", "    980 980 hot", "  5 5 log", "  5 5 idle hot"];
    assert_eq!(shown(&tree(&profile, ALL)), exact);
    let least = TreeOptions { min: 21, ..ALL };
    assert_eq!(shown(&tree(&profile, least)), ["1000 990 main run hot", "  10 in 2 more"]);
    // All small things together are worth more than the row that they would be printed with.
    let many = built(&[(&["a", "main"], 60), (&["b", "main"], 9), (&["c", "main"], 9), (&["d", "main"], 9)]);
    assert_eq!(shown(&tree(&many, TreeOptions { min: 28, ..ALL })), ["87 0 main", "  60 60 a", "  27 in 3 more"]);
}

#[test]
fn sites_without_the_measure_are_no_part_of_the_tree() {
    let profile = parser();
    let report = tree(&profile, TreeOptions { by: Measure::Live, ..ALL });
    assert_eq!(
        shown(&report),
        ["12000 12000 main app::run(int) app::load app::Cache::put", "3600 3600 _dl_new_object"]
    );
    assert_eq!(report.rows[0].cum.allocations, 12);
}

/// `h` is called by main, not by `f`: below the row of both it is a sum, though there is room for one row more.
#[test]
fn what_is_next_to_nothing_is_no_row_below_another_function() {
    let profile = built(&[(&["g", "f", "main"], 300), (&["f", "main"], 50), (&["f", "h", "main"], 1)]);
    let options = TreeOptions { min: 9, limit: 3, ..ALL };
    assert_eq!(shown(&tree(&profile, options)), ["351 50 main f", "  300 300 g", "  1 in 1 more"]);
}

fn sum<'a>(all: impl Iterator<Item = &'a Totals>) -> [u64; 4] {
    all.fold([0; 4], |sum, t| {
        let each = [t.allocations, t.allocated_bytes, t.live_bytes, t.peak_bytes];
        std::array::from_fn(|at| sum[at] + each[at])
    })
}

/// Whole names, as `top` has them.
type Name = (String, Option<String>, Option<String>);

struct Check<'a> {
    report: &'a Tree,
    options: TreeOptions,
    lines: usize,
    own: BTreeMap<Name, u64>,
}

impl Check<'_> {
    fn rows(&mut self, rows: &[TreeRow], hidden: Option<&Hidden>, own: u64, path: &mut Vec<Name>) {
        let by = self.options.by;
        assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(by.of(&row.cum))));
        assert!(hidden.is_none_or(|hidden| hidden.rows > 0));
        if !rows.is_empty() {
            let own = self.options.callers && own > 0;
            self.lines += rows.len() + usize::from(hidden.is_some()) + usize::from(own);
        }
        for row in rows {
            let below = row.children.iter().map(|c| &c.cum).chain(row.hidden.as_ref().map(|h| &h.cum));
            assert_eq!(sum([row.cum].iter()), sum([row.self_sums].iter().chain(below)));
            let before = path.len();
            for (f, _) in self.report.called(row) {
                let name = (f.function.clone(), f.file.clone(), f.module.clone());
                assert!(self.options.raw || !path.contains(&name), "{name:?} calls itself");
                path.push(name);
            }
            *self.own.entry(path[path.len() - 1].clone()).or_default() += by.of(&row.self_sums);
            self.rows(&row.children, row.hidden.as_ref(), by.of(&row.self_sums), path);
            path.truncate(before);
        }
    }
}

proptest! {
    #[test]
    fn rows_add_up(
        profile in profile(),
        by in proptest::sample::select(Measure::ALL.to_vec()),
        (callers, raw) in any::<(bool, bool)>(),
        depth in prop_oneof![1..4usize, Just(usize::MAX)],
        min in prop_oneof![Just(1u64), 1..3000u64],
        limit in prop_oneof![1..30usize, Just(usize::MAX)],
    ) {
        let options = TreeOptions { by, callers, raw, depth, min, limit };
        let report = tree(&profile, options);
        let stacks = by_stack(&profile).map(|(_, counts)| Totals::from(counts));
        let all: Vec<Totals> = stacks.filter(|counts| by.of(counts) > 0).collect();
        let roots = report.rows.iter().map(|row| &row.cum).chain(report.hidden.as_ref().map(|h| &h.cum));
        prop_assert_eq!(sum(roots), sum(all.iter()));
        let mut check = Check { report: &report, options, lines: 0, own: BTreeMap::new() };
        check.rows(&report.rows, report.hidden.as_ref(), 0, &mut Vec::new());
        // The first row and what it hides are always there.
        prop_assert!(check.lines <= limit.max(2), "{} lines", check.lines);
    }

    #[test]
    fn the_tree_agrees_with_top(profile in profile(), by in proptest::sample::select(Measure::ALL.to_vec()), raw: bool) {
        let functions = top(&profile, TopOptions { by, cum: false, raw, limit: usize::MAX }).functions;
        let self_sums: BTreeMap<Name, u64> =
            functions.into_iter().map(|f| ((f.function, f.file, f.module), by.of(&f.self_sums))).collect();
        let words = |name: &Name| name.0.starts_with('(');

        let options = TreeOptions { by, raw, ..ALL };
        let report = tree(&profile, options);
        let mut check = Check { report: &report, options, lines: 0, own: BTreeMap::new() };
        check.rows(&report.rows, None, 0, &mut Vec::new());
        check.own.retain(|name, own| *own > 0 && !words(name));
        prop_assert_eq!(&check.own, &self_sums);

        let report = tree(&profile, TreeOptions { callers: true, ..options });
        let first = |row: &TreeRow| report.functions[row.functions[0] as usize].clone();
        let called = report.rows.iter().map(|row| (first(row), by.of(&row.cum)));
        let called: BTreeMap<Name, u64> = called.map(|(f, self_sums)| ((f.function, f.file, f.module), self_sums)).collect();
        prop_assert_eq!(called.into_iter().filter(|(name, _)| !words(name)).collect::<BTreeMap<_, _>>(), self_sums);
    }
}

#[test]
fn stacks_of_any_depth_are_walked() {
    let mut b = Builder::default();
    let p = b.process(1, &["a"], 10);
    let (f, g) = (b.stack(&["f"]), b.stack(&["g"]));
    let frames = [f, g].map(|stack| b.profile.stacks.top(stack).expect("a frame").0);
    let deep = (0..200_000).fold(Stacks::ROOT, |to: StackId, n| b.profile.stacks.push(to, frames[n % 2]));
    b.site(p, &[], blocks(1, 8, 0, 0)).stack = deep;
    assert_eq!(shown(&tree(&b.profile, ALL)), ["1 1 f* g"]);
    let raw = tree(&b.profile, TreeOptions { raw: true, ..ALL });
    assert_eq!((raw.rows.len(), raw.rows[0].functions.len()), (1, 200_000));
}
