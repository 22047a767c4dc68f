//! What `mallow diff` says first: the change, its place, and every total with its place, on the first screen.

use std::fs;
use std::path::Path;

use harness::{Run, directory, mallow, tool};
use serde_json::Value;

use crate::diff_regressions::{RECORDINGS, recorded};
use crate::other_tools::ran;

fn cpp(place: &Path) {
    let flags = ["-O2", "-g", "-std=c++17", "-fno-builtin-malloc"];
    recorded(place, "c++", &flags, ["cpp_before/main.cpp", "cpp_after/main.cpp"]);
}

fn diff(place: &Path, arguments: &[&str]) -> String {
    ran(Run::new(mallow(), place).arg("diff").args(arguments)).out()
}

/// What a terminal of so many columns and rows shows, without colours.
fn screen(place: &Path, columns: usize, rows: usize, arguments: &str) -> Vec<String> {
    let line = format!("stty rows {rows} cols {columns}; {} diff {arguments}", mallow().display());
    let run = Run::new(tool("script"), place).args(["-qfec", &line, "/dev/null"]).env("TERM", Some("xterm"));
    let text = ran(run.env("SHELL", Some("/bin/sh")).env("NO_COLOR", Some("1")).env("LC_ALL", Some("C.UTF-8"))).out();
    text.lines().map(|line| line.trim_end_matches('\r').to_owned()).collect()
}

#[test]
fn the_changed_line_is_at_the_top_of_the_first_screen() {
    let directory = directory();
    let place = directory.path();
    cpp(place);
    let shown = screen(place, 80, 24, "before.mallow after.mallow");
    let text = shown.join("\n");
    assert!(shown.len() <= 23 && shown.iter().all(|line| line.chars().count() <= 80), "{text}");
    let verdict = "+5,500 allocations (+366.2 %): build_index main.cpp:20, 500 → 5,500; 91 % of the change";
    assert_eq!(shown[..2].join(" ").split_whitespace().collect::<Vec<_>>().join(" "), verdict, "{text}");
    for row in ["+5,000  500 → 5,500  build_index main.cpp:20", "+500  new          main main.cpp:35"] {
        assert!(shown.iter().any(|line| line.trim_start().starts_with(row)), "{row}: {text}");
    }
    // Each total that changed has its place.
    for (total, at) in [("  allocations", "main.cpp:20"), ("  bytes", "main.cpp:20"), ("  temporary", "main.cpp:")] {
        assert!(shown.iter().any(|line| line.starts_with(total) && line.contains(at)), "{total}: {text}");
    }
    // The file has another name, once.
    assert!(text.contains("Renamed: rows.h is called records.h now (1 function)"), "{text}");
    assert_eq!(text.matches("records.h").count(), 1, "{text}");
    assert!(shown.last().is_some_and(|line| line.contains("net +5,500 allocations")), "{text}");
}

#[test]
fn stacks_and_the_rest_are_there_for_those_who_ask() {
    let directory = directory();
    let place = directory.path();
    cpp(place);
    let [before, after] = RECORDINGS;
    let short = diff(place, &[before, after]);
    assert!(!short.contains("operator new") && !short.contains("% sure"), "{short}");
    let stacks = diff(place, &["--stacks", before, after]);
    assert!(stacks.contains("Stacks: 0 only in BEFORE, 1 only in AFTER, 1 with different numbers"), "{stacks}");
    assert!(stacks.contains("+ std::vector<…>::push_back") && stacks.contains("  +500  only in AFTER"), "{stacks}");
    assert!(stacks.contains("parse_row is called read_row now"), "{stacks}");
    // A file that has another name is no reason of each stack.
    assert!(!stacks.contains("has moved from rows.h"), "{stacks}");
    let all = diff(place, &["--all", before, after]);
    assert!(all.contains("% sure") && !all.contains("operator new"), "{all}");
}

#[test]
fn scripts_read_the_answer() {
    let directory = directory();
    let place = directory.path();
    cpp(place);
    let [before, after] = RECORDINGS;
    let report: Value = serde_json::from_str(&diff(place, &["--json", before, after])).expect("JSON");
    let verdict = &report["verdict"];
    assert_eq!(
        (&verdict["by"], &verdict["change"], &verdict["places_in_all"]),
        (&"allocations".into(), &5500.into(), &2.into())
    );
    let named = &verdict["places"][0];
    assert_eq!((&named["function"], &named["line"]), (&"build_index(int)".into(), &20.into()));
    assert_eq!((&named["state"], &named["before"], &named["after"]), (&"more".into(), &500.into(), &5500.into()));
    let words: Vec<_> = report["totals"].as_array().expect("totals").iter().map(|total| &total["by"]).collect();
    assert_eq!(words, ["allocations", "bytes", "peak", "live", "temporary"]);
    assert_eq!(report["places"]["largest"].as_array().map(Vec::len), Some(2));
    assert_eq!((&report["renamed"][0]["from"], &report["renamed"][0]["file"]), (&"rows.h".into(), &true.into()));
    for key in ["only_before", "only_after", "different", "recognised", "equal_stacks", "shown", "hidden", "elsewhere"]
    {
        assert!(report.get(key).is_some(), "{key}");
    }
}

/// Verdicts of files that can be written by hand: one for each case.
#[test]
fn a_verdict_says_what_changed_and_what_did_not() {
    let directory = directory();
    let place = directory.path();
    let first = |before: &str, after: &str, arguments: &[&str]| {
        fs::write(place.join("before"), before).expect("a file");
        fs::write(place.join("after"), after).expect("a file");
        diff(place, &[arguments, &["before", "after"]].concat()).lines().next().unwrap_or_default().to_owned()
    };
    let base = "main;f 1000\nmain;g 500\n";
    assert_eq!(first(base, base, &[]), "No change: 1,500 allocations in both, and no other total changed");
    assert_eq!(
        first(base, "main;f 1000\nmain;g 500\nmain;h 7\n", &[]),
        "+7 allocations (+0.5 %): h, new; all of the change"
    );
    assert_eq!(first(base, "main;f 1000\n", &[]), "-500 allocations (-33.3 %): g, gone; all of the change");
    assert_eq!(
        first(base, "main;f 900\nmain;g 600\n", &[]),
        "No net change in allocations (1,500): f -100, g +100; all of what went up and down"
    );
    let many = |n: u64| (0..40).map(|at| format!("main;f{at} {}\n", 100_000 + n * (at + 1))).collect::<String>();
    assert_eq!(
        first(&many(0), &many(1), &[]),
        "Nearly no change: +820 allocations (<0.1 %) in 40 places; the largest, f39 +40, is 5 % of the change"
    );
    // Blocks that stay where they were freed: as many allocations, and the leak is the answer, unless it is not asked
    // for.
    let heap = |kept: u64| {
        let block = format!(
            "heap_v2/1\n  t*: {kept}: {bytes} [50: 5000]\n@ 0x1000 0x2000\n  t*: {kept}: {bytes} [50: 5000]\n",
            bytes = kept * 100
        );
        block + "\nMAPPED_LIBRARIES:\n"
    };
    assert!(
        first(&heap(1), &heap(40), &[]).starts_with("+3.90 kB live (+3900.0 %): "),
        "{}",
        first(&heap(1), &heap(40), &[])
    );
    assert!(first(&heap(1), &heap(40), &["--by", "allocations"]).starts_with("No change in allocations: 50 in both"));
}
