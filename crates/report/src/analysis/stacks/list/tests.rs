use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{List, ListOptions, Measure, Pattern, list};
use crate::analysis::{TopOptions, top};
use crate::testing::random::profile;
use crate::testing::{Builder, blocks, parser};

const ALL: ListOptions = ListOptions { by: Measure::Allocations, raw: false, limit: usize::MAX };

fn named(pattern: &str) -> Pattern {
    pattern.parse().expect("a pattern")
}

/// Name, self and cum; then those of each line.
fn shown(report: &List) -> Vec<String> {
    let by = report.by;
    let function = |f: &super::ListFunction| {
        let lines = f.lines.iter().map(|l| {
            let line = l.line.map_or("?".to_owned(), |line| line.to_string());
            format!(" {line}:{}/{}", by.of(&l.self_sums), by.of(&l.cum))
        });
        format!("{} {}/{}{}", f.function, by.of(&f.self_sums), by.of(&f.cum), lines.collect::<String>())
    };
    report.functions.iter().map(function).collect()
}

#[test]
fn lines_of_functions_that_match() {
    let mut b = Builder::default();
    let p = b.process(1, &["a"], 10);
    b.site(p, &["leaf@a.c:1 | walk@a.c:9", "walk@a.c:8", "walk@a.c:7", "main@a.c:20"], blocks(5, 10, 0, 0));
    b.site(p, &["operator new!libstdc++.so.6", "walk@a.c:7", "main@a.c:20"], blocks(2, 10, 0, 0));
    b.site(p, &["leaf@a.c:1", "main@a.c:21"], blocks(1, 10, 0, 0));
    b.site(p, &["walk@a.c", "main@a.c:22"], blocks(9, 10, 0, 0));
    let walk = list(&b.profile, &named("^walk$"), ALL);
    // One name, and one function in that file and one in none.
    assert_eq!(shown(&walk), ["walk 9/9 ?:9/9", "walk 2/7 7:2/7 8:0/5 9:0/5"]);
    let twice = |f: &super::ListFunction| f.counts_lines_twice(Measure::Allocations);
    assert_eq!(walk.functions.iter().map(twice).collect::<Vec<_>>(), [false, true]);
    let leaf = list(&b.profile, &named("^(leaf|main)$"), ALL);
    assert_eq!(shown(&leaf), ["leaf 6/6 1:6/6", "main 0/17 20:0/7 21:0/1 22:0/9"]);
    let mut places: Vec<_> =
        leaf.functions[0].instructions.iter().map(|i| (i.inlined, i.line, i.self_sums.allocations)).collect();
    places.sort_unstable();
    assert_eq!(places, [(false, Some(1), 1), (true, Some(1), 5)]);
}

#[test]
fn what_is_looked_past_belongs_to_the_line_that_called_it() {
    let profile = parser();
    let row = list(&profile, &named("^app::Parser"), ALL);
    assert_eq!(row.functions[0].lines[0].line, Some(212));
    assert_eq!(row.functions[0].lines[0].self_sums.allocations, 1_000_000);
    let new = list(&profile, &named("^operator new"), ALL);
    assert_eq!((new.functions.len(), new.looked_past.as_slice()), (0, &["operator new(unsigned long)".to_owned()][..]));
    let raw = list(&profile, &named("^operator new"), ListOptions { raw: true, ..ALL });
    assert_eq!((raw.functions[0].self_sums.allocations, raw.looked_past.len()), (1_000_000, 0));
}

#[test]
fn functions_without_the_measure_are_named() {
    let report = list(&parser(), &named("load"), ListOptions { by: Measure::Live, ..ALL });
    assert_eq!(shown(&report), ["app::load 0/12000 88:0/0 91:0/12000"]);
    assert_eq!(report.without, ["app::reload"]);
    let report = list(&parser(), &named("load"), ListOptions { limit: 1, ..ALL });
    assert_eq!((report.functions.len(), report.functions_in_all), (1, 2));
    let nothing = list(&parser(), &named("^nobody$"), ALL);
    assert!(nothing.functions.is_empty() && nothing.without.is_empty() && nothing.looked_past.is_empty());
}

type Name = (String, Option<String>, Option<String>);

proptest! {
    #[test]
    fn lines_and_instructions_add_up_to_top(
        profile in profile(),
        by in proptest::sample::select(Measure::ALL.to_vec()),
        raw: bool,
    ) {
        let report = list(&profile, &named(""), ListOptions { by, raw, limit: usize::MAX });
        let mine: BTreeMap<Name, (u64, u64)> = report
            .functions
            .iter()
            .map(|f| ((f.function.clone(), f.file.clone(), f.module.clone()), (by.of(&f.self_sums), by.of(&f.cum))))
            .collect();
        let tops = top(&profile, TopOptions { by, cum: true, raw, limit: usize::MAX }).functions;
        let tops: BTreeMap<Name, (u64, u64)> =
            tops.into_iter().map(|f| ((f.function, f.file, f.module), (by.of(&f.self_sums), by.of(&f.cum)))).collect();
        prop_assert_eq!(mine, tops);
        for f in &report.functions {
            let self_sums: u64 = f.lines.iter().map(|l| by.of(&l.self_sums)).sum();
            prop_assert_eq!(self_sums, by.of(&f.self_sums), "lines of {}", f.function);
            let self_sums: u64 = f.instructions.iter().map(|i| by.of(&i.self_sums)).sum();
            prop_assert_eq!(self_sums, by.of(&f.self_sums), "instructions of {}", f.function);
            let cum: u64 = f.lines.iter().map(|l| by.of(&l.cum)).sum();
            prop_assert!(cum >= by.of(&f.cum), "lines of {}", f.function);
            // Each line counts a stack once, however often the function is on it.
            let cums = f.lines.iter().map(|l| &l.cum).chain(f.instructions.iter().map(|i| &i.cum));
            prop_assert!(cums.into_iter().all(|cum| by.of(cum) <= by.of(&f.cum)), "lines of {}", f.function);
            prop_assert!(by.of(&f.cum) <= by.of(&report.totals), "{}", f.function);
            prop_assert!(f.lines.is_sorted_by(|a, b| a.line < b.line), "each line once");
        }
    }
}
