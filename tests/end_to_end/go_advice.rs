//! Each suggestion of `mallow go`, tried: a program that has the allocation gets the suggestion, and the same program with what
//! is suggested allocates less, by Go's own count.

use std::fs;

use harness::{json, workspace};
use serde_json::Value;

use crate::go_bench::Module;

/// The suggestion that a benchmark is named after: `KeptSlice` of `BenchmarkKeptSliceMade`.
fn owner<'a>(suggestions: &'a str, benchmark: &Value) -> Option<&'a str> {
    let name = benchmark.as_str()?.strip_prefix("Benchmark")?;
    let names = suggestions.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name);
    names.filter(|suggestion| name.starts_with(suggestion)).max_by_key(|suggestion| suggestion.len())
}

#[test]
fn each_suggestion_is_given_and_works() {
    let corpus = workspace().join("crates/golang/tests/advice");
    let read = |name: &str| fs::read_to_string(corpus.join(name)).expect("a file of the corpus");
    let files = ["go.mod", "advice.go", "advice_test.go"].map(|name| (name, read(name)));
    let module = Module::new(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let done = module.mallow(&["bench", "--json", "--benchtime", "100x"]);
    assert_eq!(done.status, 0, "{}", done.err());
    let report = json(&done);
    let benchmarks = report["packages"][0]["benchmarks"].as_array().expect("benchmarks");
    let allocations = |one: &Value| one["allocs_per_op"].as_f64().expect("a number");
    let mut faults = Vec::new();
    let suggestions = read("suggestions.txt");
    for (name, text) in suggestions.lines().map(|line| line.split_once(": ").expect("a name")) {
        let of = |variant: &str| format!("Benchmark{name}{variant}");
        let before = benchmarks.iter().find(|one| one["name"] == of("Before").as_str()).expect("it ran");
        let own = |line: &&Value| ["chain", "callers"].iter().any(|at| line[at].to_string().contains("advice.go"));
        let lines: Vec<&Value> = before["lines"].as_array().expect("lines").iter().filter(own).collect();
        if !lines.iter().any(|line| line["remedy"] == text) {
            let said: Vec<String> =
                lines.iter().map(|l| format!("{}: {}: {}", l["what"], l["reason"], l["remedy"])).collect();
            faults.push(format!("{name} is suggested nowhere: {said:#?}"));
        }
        let variants = benchmarks.iter().filter(|one| owner(&suggestions, &one["name"]) == Some(name));
        for after in variants.filter(|one| one["name"] != before["name"]) {
            if allocations(after) >= allocations(before) {
                faults.push(format!("{} allocates {} times, as before", after["name"], allocations(after)));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
