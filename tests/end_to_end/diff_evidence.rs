//! What `mallow diff` takes for one piece of code in two builds, and what it does not: programs of which the truth is
//! known.

use std::fs;
use std::path::Path;

use harness::{Run, directory, mallow, tool, workspace};
use serde_json::{Value, json};

use crate::diff_regressions::RECORDINGS;
use crate::other_tools::ran;
use crate::scripts::naming;

const FLAGS: [&str; 3] = ["-O2", "-g", "-fno-builtin-malloc"];

fn source(name: &str) -> String {
    workspace().join("tests/targets/regressions").join(name).display().to_string()
}

/// Builds a program, and records it with these arguments.
fn recorded(place: &Path, name: &str, flags: &[&str], file: &str, arguments: &[&str]) {
    ran(Run::new(tool("cc"), place).args(FLAGS).args(flags).args(["-o", name, &source(file)]));
    let recording = format!("{name}.mallow");
    let record = ["record", "--no-report", "-o", &recording, "--", &format!("./{name}")];
    ran(Run::new(mallow(), place).args(record).args(arguments));
}

/// What a symbol table says: `nm` is the oracle of which functions there are.
fn has_function(place: &Path, program: &str, name: &str) -> bool {
    let table = ran(Run::new(tool("nm"), place).arg(program)).out();
    table.lines().any(|line| line.split_whitespace().last() == Some(name))
}

fn diff(place: &Path, files: [&str; 2]) -> (String, Value) {
    let text = ran(Run::new(mallow(), place).arg("diff").args(files)).out();
    let json = ran(Run::new(mallow(), place).args(["diff", "--json"]).args(files)).out();
    (text, serde_json::from_str(&json).expect("JSON"))
}

/// Function, state, before and after of each place, by name.
fn places(report: &Value) -> Vec<(String, String, u64, u64)> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let number = |value: &Value| value.as_u64().expect("a number");
    let rows = report["places"]["largest"].as_array().expect("places").iter();
    let row = |at: &Value| (text(&at["function"]), text(&at["state"]), number(&at["before"]), number(&at["after"]));
    let mut places: Vec<_> = rows.map(row).collect();
    places.sort();
    places
}

fn place(function: &str, state: &str, before: u64, after: u64) -> (String, String, u64, u64) {
    (function.to_owned(), state.to_owned(), before, after)
}

#[test]
fn a_helper_that_was_not_there_is_new_and_the_line_that_it_relieved_is_gone() {
    let directory = directory();
    let place_of = directory.path();
    recorded(place_of, "before", &[], "pool.c", &[]);
    recorded(place_of, "after", &["-DPOOLED"], "pool.c", &[]);
    assert!(!has_function(place_of, "before", "request_chunk") && has_function(place_of, "after", "request_chunk"));
    let (text, report) = diff(place_of, RECORDINGS);
    let truth = [place("parse_records", "gone", 1000, 0), place("request_chunk", "new", 0, 200)];
    assert_eq!(places(&report), truth, "{text}");
    let first = text.lines().next().unwrap_or_default();
    assert!(first.starts_with("-800 allocations (-80.0 %): parse_records pool.c:"), "{text}");
    assert!(first.contains(" -1,000; 83 % of what went up and down"), "{text}");
    // A view of both, and a file without the programs.
    let top = ran(Run::new(mallow(), place_of).args(["top", "--base"]).args(RECORDINGS)).out();
    let row = |name: &str| top.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{name}: {top}"));
    let columns = |name: &str| row(name).split_whitespace().take(3).collect::<Vec<_>>().join(" ");
    assert_eq!([columns("parse_records"), columns("request_chunk")], ["1,000 . -1,000", ". 200 +200"], "{top}");
    for name in ["before", "after"] {
        fs::rename(place_of.join(name), place_of.join(format!("{name}.gone"))).expect("a file");
    }
    assert_eq!(places(&diff(place_of, RECORDINGS).1).iter().map(|place| place.2).sum::<u64>(), 1000);
}

#[test]
fn a_function_that_both_programs_have_is_not_called_like_another_one_now() {
    let directory = directory();
    let place_of = directory.path();
    recorded(place_of, "before", &[], "loads.c", &["1000", "0"]);
    for number in [1000u64, 3000] {
        recorded(place_of, "after", &["-DMORE"], "loads.c", &["0", &number.to_string()]);
        for program in ["before", "after"] {
            assert!(["load_users", "load_orders"].iter().all(|name| has_function(place_of, program, name)));
        }
        let (text, report) = diff(place_of, RECORDINGS);
        let truth = [place("load_orders", "new", 0, number), place("load_users", "gone", 1000, 0)];
        assert_eq!((places(&report), &report["renamed"]), (truth.to_vec(), &serde_json::json!([])), "{text}");
        assert!(!text.contains("No change:") && !text.contains("enamed"), "{text}");
    }
}

#[test]
fn a_name_that_is_gone_and_one_that_is_new_are_one_function_and_without_the_programs_a_guess() {
    let directory = directory();
    let place_of = directory.path();
    recorded(place_of, "before", &[], "loads.c", &["0", "1000"]);
    recorded(place_of, "after", &["-DRENAMED"], "loads.c", &["0", "1200"]);
    let (text, report) = diff(place_of, RECORDINGS);
    assert_eq!(places(&report), [place("load_invoices", "more", 1000, 1200)], "{text}");
    assert_eq!(report["places"]["largest"][0]["formerly"][0]["function"], "load_orders", "{text}");
    assert!(text.contains("load_invoices loads.c:") && text.contains(", 1,000 in load_orders → 1,200; all"), "{text}");
    assert!(text.contains("\nRenamed: load_orders is called load_invoices now\n"), "{text}");
    assert_eq!(report["renamed"][0]["certain"], true, "{report:#}");
    // Packed, and read where the programs are not.
    recorded(place_of, "after", &["-DRENAMED"], "loads.c", &["0", "1000"]);
    let elsewhere = harness::directory();
    for name in RECORDINGS {
        let packed = elsewhere.path().join(name);
        ran(Run::new(mallow(), place_of).args(["pack", name, "-o"]).arg(&packed));
    }
    for name in ["before", "after"] {
        fs::remove_file(place_of.join(name)).expect("a file");
    }
    let (text, report) = diff(elsewhere.path(), RECORDINGS);
    assert!(
        text.starts_with("No change if load_orders is called load_invoices now: 1,000 allocations in both"),
        "{text}"
    );
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Perhaps renamed: load_orders is called load_invoices now (by call paths"), "{text}");
    assert_eq!(report["renamed"][0]["certain"], false, "{report:#}");
}

/// One build: equal addresses are equal lines, however their numbers agree. The program's arguments are the truth.
#[test]
fn each_line_of_one_build_is_compared_with_itself() {
    let directory = directory();
    let place_of = directory.path();
    for (was, is) in [([1000, 10], [10, 1000]), ([1000, 100], [100, 3000]), ([1000, 0], [0, 1000])] {
        let arguments = [was, is].map(|numbers| numbers.map(|number: u64| number.to_string()));
        for (name, [one, other]) in ["before", "after"].iter().zip(&arguments) {
            recorded(place_of, name, &[], "lines.c", &[one, other]);
        }
        let (text, report) = diff(place_of, RECORDINGS);
        let state = |was: u64, is: u64| match (was, is) {
            (_, 0) => "gone",
            (0, _) => "new",
            _ if is < was => "fewer",
            _ => "more",
        };
        let mut truth: Vec<_> = was.iter().zip(is).map(|(&was, is)| place("parse", state(was, is), was, is)).collect();
        truth.sort();
        assert_eq!(places(&report), truth, "{text}");
        assert!(!text.starts_with("No change"), "{text}");
    }
}

const SCRIPT: &str = "import sys
def common(n):
    return [str(i) * 3 for i in range(n)]
def scan(n):
    return {i: str(i) for i in range(n)}
def match(n):
    return {i: str(i) for i in range(n)}
common(2000)
for name, number in zip(sys.argv[1::2], sys.argv[2::2]):
    globals()[name](int(number))
";

/// The interpreter requests the memory of all functions of a script by the same functions of its own.
#[test]
fn functions_of_a_script_are_not_each_other_in_two_runs_of_it() {
    let Some(python) = naming("functions_of_a_script_are_not_each_other_in_two_runs_of_it") else { return };
    let directory = directory();
    let place = directory.path();
    fs::write(place.join("script.py"), SCRIPT).expect("a file");
    let python = python.to_str().expect("a plain path");
    for (number, [before, after]) in
        [["scan 2", "match 2"], ["scan 2 scan 40 match 40", "match 2 scan 40 match 40"]].into_iter().enumerate()
    {
        for (name, calls) in [("before", before), ("after", after)] {
            let recording = format!("{name}.mallow");
            let command = ["record", "--no-report", "-o", &recording, "--python", python, "script.py"];
            ran(Run::new(mallow(), place).args(command).args(calls.split(' ')));
        }
        let (text, report) = diff(place, RECORDINGS);
        assert_eq!((&report["renamed"], &report["recognised"]["rows_in_all"]), (&json!([]), &json!(0)), "{text}");
        // Each run has what `top` says of it.
        let of_script: Vec<_> =
            places(&report).into_iter().filter(|at| ["scan", "match"].contains(&at.0.as_str())).collect();
        let of = |name: &str| of_script.iter().filter(|at| at.0 == name).map(|at| (at.2, at.3)).collect::<Vec<_>>();
        let ([(scanned, scans)], [(matched, matches)]) = (&of("scan")[..], &of("match")[..]) else { panic!("{text}") };
        assert!(scanned > scans && matched < matches, "{text}");
        assert_eq!((*scans == 0, *matched == 0), (number == 0, number == 0), "{text}");
        let formerly = |place: &Value| place["formerly"].as_array().is_none_or(Vec::is_empty);
        assert!(report["places"]["largest"].as_array().expect("places").iter().all(formerly), "{text}");
    }
}
