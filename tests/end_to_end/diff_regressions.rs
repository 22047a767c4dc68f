//! `mallow diff` on two versions of a program that differ by deliberate changes: it reports each change as what it is,
//! and lists nothing above it.

use std::path::Path;

use harness::{Run, directory, mallow, tool, workspace};
use serde_json::Value;

use crate::go_pprof::go;
use crate::other_tools::ran;

fn source(name: &str) -> String {
    workspace().join("tests/targets/regressions").join(name).display().to_string()
}

/// Builds the two versions, and records them.
pub fn recorded(place: &Path, compiler: &str, flags: &[&str], sources: [&str; 2]) {
    for (name, file) in ["before", "after"].into_iter().zip(sources) {
        ran(Run::new(tool(compiler), place).args(flags).args(["-o", name, &source(file)]));
        let recording = format!("{name}.mallow");
        ran(Run::new(mallow(), place).args(["record", "--no-report", "-o", &recording, &format!("./{name}")]));
    }
}

fn diff(place: &Path, arguments: &[&str], files: [&str; 2]) -> Value {
    let outcome = ran(Run::new(mallow(), place).args(["diff", "--json"]).args(arguments).args(files));
    serde_json::from_slice(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {}", outcome.err()))
}

pub const RECORDINGS: [&str; 2] = ["before.mallow", "after.mallow"];

/// Functions of a row's first stack: all, or those of one side alone.
fn functions<'a>(row: &'a Value, of: &str) -> Vec<&'a str> {
    let frames = row["stacks"][0]["frames"].as_array().expect("frames").iter();
    frames.filter(|f| of.is_empty() || f["of"] == of).map(|f| f["function"].as_str().expect("a name")).collect()
}

fn has(row: &Value, of: &str, part: &str) -> bool {
    functions(row, of).iter().any(|function| function.contains(part))
}

fn rows<'a>(report: &'a Value, list: &str) -> &'a [Value] {
    report[list]["rows"].as_array().expect("rows")
}

/// Reasons of the stacks that are others, and have equal numbers.
fn recognised(report: &Value) -> String {
    let whys = rows(report, "recognised").iter().map(|row| row["why"].to_string());
    whys.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_cpp_program_with_a_copy_and_without_a_reserve() {
    let place = directory();
    let flags = ["-O2", "-g", "-std=c++17", "-fno-builtin-malloc"];
    recorded(place.path(), "c++", &flags, ["cpp_before/main.cpp", "cpp_after/main.cpp"]);
    for by in ["allocations", "bytes"] {
        let report = diff(place.path(), &["--by", by], RECORDINGS);
        assert_eq!(report["only_before"]["rows_in_all"], 0, "{report:#}");
        // The copy, by main, of the vector.
        let copies = rows(&report, "only_after");
        assert_eq!(copies.len(), 1, "{report:#}");
        let copied = if by == "bytes" { 500 * 300 * 4 } else { 500 };
        assert!(copies[0]["change"] == copied && has(&copies[0], "", "vector") && has(&copies[0], "", "main"));
        // The index that lost its reserve, and nothing else.
        let changed = rows(&report, "different");
        assert_eq!(changed.len(), 1, "{report:#}");
        assert!(has(&changed[0], "both", "build_index"), "{report:#}");
        assert!(has(&changed[0], "before", "reserve") && has(&changed[0], "after", "push_back"), "{report:#}");
        if by == "allocations" {
            assert_eq!((&changed[0]["before"], &changed[0]["after"]), (&500.into(), &(500 * 11).into()));
        }
        let reasons = recognised(&report);
        assert!(
            reasons.contains("renamed") && reasons.contains("parse_row") && reasons.contains("read_row"),
            "{reasons}"
        );
        assert!(reasons.contains(r#""from":"rows.h","to":"records.h""#) && reasons.contains("format_row"), "{reasons}");
    }
}

#[test]
fn a_rust_program_with_a_copy_and_a_function_that_is_no_longer_inlined() {
    let place = directory();
    // Without debug information a function that was put into its caller is not seen.
    recorded(
        place.path(),
        "rustc",
        &["--crate-name", "words", "--edition", "2024", "-O"],
        ["rust_before/main.rs", "rust_after/main.rs"],
    );
    let report = diff(place.path(), &[], RECORDINGS);
    assert_eq!((&report["only_before"]["rows_in_all"], &report["change"]), (&0.into(), &800.into()), "{report:#}");
    let copies = rows(&report, "only_after");
    assert!(copies.len() == 1 && copies[0]["change"] == 800 && has(&copies[0], "", "count_words"), "{report:#}");
    assert_eq!(report["different"]["rows_in_all"], 0, "{report:#}");
    let reasons = recognised(&report);
    // Its allocations were those of its caller.
    let new = r#"{"what":"new","function":"words::append_field"}"#;
    assert!(reasons.contains(r#""what":"split""#) && reasons.contains(new), "{reasons}");
    // With it, the stacks are equal.
    recorded(
        place.path(),
        "rustc",
        &["--crate-name", "words", "--edition", "2024", "-O", "-g"],
        ["rust_before/main.rs", "rust_after/main.rs"],
    );
    let report = diff(place.path(), &[], RECORDINGS);
    assert!(!recognised(&report).contains("append_field"), "{report:#}");
    assert_eq!((rows(&report, "only_after").len(), &report["different"]["rows_in_all"]), (1, &0.into()), "{report:#}");
}

#[test]
fn a_go_program_with_a_slice_that_grows_and_a_function_of_another_name() {
    let place = directory();
    for name in ["before", "after"] {
        let main = source(&format!("go_{name}/main.go"));
        ran(go(place.path()).args(["run", &main, &format!("{name}.pb.gz")]));
    }
    let report = diff(place.path(), &["--by", "allocations", "--focus", "main\\."], ["before.pb.gz", "after.pb.gz"]);
    let changed = rows(&report, "different");
    assert!(!changed.is_empty() && has(&changed[0], "", "main.buildIndex"), "{report:#}");
    assert_eq!((&changed[0]["before"], &report["only_before"]["rows_in_all"]), (&400.into(), &0.into()), "{report:#}");
    assert!(changed[0]["change"].as_i64().is_some_and(|more| more >= 400 * 6), "{report:#}");
    let reasons = recognised(&report);
    assert!(reasons.contains("main.loadName") && reasons.contains("main.fetchName"), "{reasons}");
}
