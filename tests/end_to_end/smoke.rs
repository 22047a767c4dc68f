//! The list of what `make smoke` runs.

use std::collections::BTreeSet;
use std::process::Command;

use harness::workspace;

/// To the runner a name of no test is a filter that nothing matches, and so is one of a test that was renamed.
fn faults(listed: &[&str], tests: &BTreeSet<&str>) -> Vec<String> {
    let module = |test: &&str| test.split("::").next().unwrap_or_default().to_owned();
    let unknown = listed.iter().filter(|name| !tests.contains(**name)).map(|name| format!("no test is called {name}"));
    let covered: BTreeSet<String> = listed.iter().map(module).collect();
    let modules: BTreeSet<String> = tests.iter().map(module).collect();
    let without = modules.difference(&covered).map(|name| format!("no test of {name} is listed"));
    unknown.chain(without).collect()
}

#[test]
fn each_module_has_a_test_in_the_list() {
    let tests = BTreeSet::from(["one::first", "one::second", "other::only"]);
    assert!(faults(&["one::second", "other::only"], &tests).is_empty());
    assert_eq!(
        faults(&["one::first", "one::gone"], &tests),
        ["no test is called one::gone", "no test of other is listed"]
    );

    let this = std::env::current_exe().expect("this program");
    let printed = Command::new(this).arg("--list").output().expect("the tests");
    let printed = String::from_utf8(printed.stdout).expect("text");
    let tests: BTreeSet<&str> = printed.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let list = std::fs::read_to_string(workspace().join("tests/smoke.txt")).expect("the list");
    let listed: Vec<&str> = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let wrong = faults(&listed, &tests);
    assert!(wrong.is_empty(), "tests/smoke.txt:\n{}", wrong.join("\n"));
}
