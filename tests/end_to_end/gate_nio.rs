//! `mallow test` for a package of SwiftNIO's shape: one program for each test, thresholds in JSON, and SwiftNIO's
//! gates.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use harness::{Outcome, Run, json, mallow, program};
use serde_json::Value;

const REGRESSED: i32 = 1;
const USAGE: i32 = 2;
const IMPROVED: i32 = 3;

/// A directory with the sources, thresholds and built programs of such a package.
struct Package(tempfile::TempDir);

impl Package {
    fn new(tests: &[&str], thresholds: &str) -> Self {
        let package = Self(tempfile::tempdir().expect("a directory"));
        fs::create_dir_all(package.path().join(".build/release")).expect("a directory");
        fs::create_dir_all(package.path().join("tests_04_performance/Thresholds")).expect("a directory");
        fs::create_dir_all(package.path().join("tests_04_performance/test_01_resources")).expect("a directory");
        for test in tests {
            let source = format!("tests_04_performance/test_01_resources/{test}.swift");
            fs::write(package.path().join(source), "func run(identifier: String) {}\n").expect("a file");
            symlink(program("gate_nio"), package.path().join(".build/release").join(test)).expect("a link");
        }
        fs::write(package.path().join("tests_04_performance/Thresholds/6.0.json"), thresholds).expect("a file");
        package
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn run(&self, arguments: &[&str]) -> Outcome {
        Run::new(mallow(), self.path()).arg("test").args(arguments).go()
    }

    fn import(&self) -> Outcome {
        let done = self.run(&["--import", "tests_04_performance/Thresholds/6.0.json"]);
        assert_eq!(done.status, 0, "{}{}", done.out(), done.err());
        done
    }

    /// The cases file, written as `toml`.
    fn write(&self, toml: &str) {
        fs::write(self.path().join("mallow.toml"), toml).expect("a file");
    }

    /// Which programs ran since the last call, each once.
    fn ran(&self) -> Vec<String> {
        let file = self.path().join("ran");
        let text = fs::read_to_string(&file).unwrap_or_default();
        let _ = fs::remove_file(&file);
        let mut names: Vec<_> = text.lines().map(str::to_owned).collect();
        names.sort();
        names.dedup();
        names
    }
}

fn check<'a>(report: &'a Value, case: &str, metric: &str) -> &'a Value {
    let cases = report["cases"].as_array().expect("cases");
    let case = cases.iter().find(|of| of["name"] == case).unwrap_or_else(|| panic!("no {case}: {report}"));
    let checks = case["checks"].as_array().expect("checks");
    checks.iter().find(|check| check["metric"] == metric).unwrap_or_else(|| panic!("no {metric}: {case}"))
}

#[test]
fn thresholds_without_a_file_of_cases_make_one() {
    let package = Package::new(
        &["test_1000_tasks", "test_1000_tasks_sync", "test_frames"],
        "{ \"1000_tasks\": 1050, \"1000_tasks_sync\": 1050, \"frames_new\": 1050, \"frames_held\": 1050 }",
    );
    let done = package.import();
    assert!(done.out().starts_with("mallow.toml: limits of 4 cases\n"), "{}", done.out());
    assert!(done.out().contains("3 programs in .build/release"), "{}", done.out());
    assert!(done.out().contains("swift build -c release"), "{}", done.out());
    let text = fs::read_to_string(package.path().join("mallow.toml")).expect("a file");
    for part in [
        "[[case]]\ncommand = \".build/release/test_1000_tasks\"\nregions = [\"test_1000_tasks\"]\n",
        "[[case]]\ncommand = \".build/release/test_frames\"\nregions = [\"test_frames_held\", \"test_frames_new\"]\n",
        "settle = 5\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let outcome = package.run(&["--runs", "2", "--json"]);
    assert_eq!(outcome.status, 0, "{}{}", outcome.out(), outcome.err());
    assert_eq!(json(&outcome)["cases"].as_array().map(Vec::len), Some(4));
    // What it wrote is what it reads.
    let again = package.import();
    assert!(again.out().starts_with("mallow.toml: limits of 4 cases, 0 of them changed\n"), "{}", again.out());
    assert_eq!(fs::read_to_string(package.path().join("mallow.toml")).expect("a file"), text);
}

#[test]
fn thresholds_without_sources_are_cases_of_their_own() {
    let package = Package::new(&["test_tasks"], "{ \"tasks\": 1050, \"gone\": 3 }");
    fs::remove_dir_all(package.path().join("tests_04_performance/test_01_resources")).expect("a directory");
    let done = package.import();
    assert!(done.out().contains("no source was found for test_gone, test_tasks"), "{}", done.out());
    let done = package.run(&["--runs", "2", "tasks"]);
    assert_eq!(done.status, 0, "{}{}", done.out(), done.err());
}

#[test]
fn thresholds_of_package_benchmark_are_refused_by_name() {
    let package = Package::new(&[], "{ \"mallocCountTotal\" : 100 }");
    let done = package.run(&["--import", "tests_04_performance/Thresholds/6.0.json"]);
    assert_eq!(done.status, USAGE, "{}", done.out());
    assert!(done.err().contains("mallocCountTotal is a metric of package-benchmark"), "{}", done.err());
    assert!(!package.path().join("mallow.toml").exists());
}

#[test]
fn a_case_that_leaks_blocks_or_a_descriptor_fails_the_gates_of_its_thresholds() {
    let package = Package::new(&["test_leaky"], "{ \"leaky\": 200 }");
    package.import();
    let done = package.run(&["--runs", "2", "--json", "--no-explain"]);
    assert_eq!(done.status, REGRESSED, "{}", done.out());
    let report = json(&done);
    let remaining = check(&report, "test_leaky", "remaining_allocations");
    assert_eq!((&remaining["verdict"], &remaining["figure"]), (&"regressed".into(), &100.into()));
    assert_eq!((&remaining["lowest"], &remaining["highest"]), (&(-4).into(), &4.into()));
    let descriptors = check(&report, "test_leaky", "leaked_fds");
    assert_eq!((&descriptors["verdict"], &descriptors["highest"]), (&"regressed".into(), &0.into()));
    assert_eq!(check(&report, "test_leaky", "total_allocations")["verdict"], "passed");
}

#[test]
fn a_threshold_that_is_a_thousand_too_high_is_reported() {
    let package = Package::new(&["test_tasks"], "{ \"tasks\": 2000 }");
    package.import();
    let done = package.run(&["--runs", "2"]);
    assert_eq!(done.status, IMPROVED, "{}", done.out());
    assert!(done.out().contains("total_allocations: 1,000, allowed 1,001 to 2,000"), "{}", done.out());
    assert!(done.out().contains("lower its limits in mallow.toml"), "{}", done.out());
    package.write(&fs::read_to_string(package.path().join("mallow.toml")).expect("a file").replace("1001", "1000"));
    assert_eq!(package.run(&["--runs", "2"]).status, 0);
}

const ALL: &str = "[defaults]\nregions = 'all'\nruns = 2\n\
                   [[case]]\ncommand = '.build/release/test_tasks'\n\
                   [[case]]\ncommand = '.build/release/test_frames'\n\
                   [[case]]\ncommand = '.build/release/test_worker'\n";

#[test]
fn a_filter_runs_what_the_baseline_knows_to_make_its_cases() {
    let package = Package::new(&["test_tasks", "test_frames", "test_worker"], "{}");
    package.write(ALL);
    // Nothing is known: all of them run, and that is said.
    let blind = package.run(&["frames_new"]);
    assert_eq!(package.ran(), ["test_frames", "test_tasks", "test_worker"]);
    assert!(blind.err().contains("2 programs ran for nothing"), "{}", blind.err());
    assert_eq!(package.run(&["--update"]).status, 0);
    package.ran();
    let done = package.run(&["frames_new"]);
    assert_eq!(done.status, 0, "{}{}", done.out(), done.err());
    assert_eq!(package.ran(), ["test_frames"]);
    assert!(done.err().contains("2 of 3 programs did not run"), "{}", done.err());
    // What nobody knows may be new in each of them; a program by another name is unknown.
    assert_eq!(package.run(&["nosuch"]).status, USAGE);
    assert_eq!(package.ran(), ["test_frames", "test_tasks", "test_worker"]);
    package.write(&ALL.replace("release/test_tasks'", "release/./test_tasks'"));
    assert_eq!(package.run(&["worker"]).status, 0);
    assert_eq!(package.ran(), ["test_tasks", "test_worker"]);
}

#[test]
fn a_filter_runs_what_the_limits_know_to_make_its_cases() {
    let package = Package::new(
        &["test_tasks", "test_frames", "test_worker"],
        "{ \"tasks\": 1050, \"frames_new\": 1050, \"frames_held\": 1050, \"worker\": 9 }",
    );
    package.write(ALL);
    package.import();
    let done = package.run(&["frames_held"]);
    assert_eq!(done.status, 0, "{}{}", done.out(), done.err());
    assert_eq!(package.ran(), ["test_frames"]);
}

#[test]
fn a_run_may_settle_as_with_swiftnio() {
    let package = Package::new(&["test_worker"], "{}");
    let case = "[[case]]\ncommand = '.build/release/test_worker'\nregions = 'all'\nruns = 1\nwarmup = 0\n";
    package.write(case);
    let figure = |more: &[&str]| {
        let report = json(&package.run(&[&["--json"], more].concat()));
        report["cases"][0]["measured"]["remaining_allocations"].as_i64().expect("a figure")
    };
    assert!(figure(&[]) > 0);
    package.write(&format!("{case}settle = 5\n"));
    assert_eq!(figure(&[]), 0);
    package.write(&format!("{case}settle = 601\n"));
    let long = package.run(&[]);
    assert!(long.status == USAGE && long.err().contains("settle is at most 600 s"), "{}", long.err());
    package.write(&format!("{case}settle = 5\n").replace("warmup = 0", "warmup = 1"));
    // The worker of the warm-up ends in the run: what is below zero is no run, as with SwiftNIO.
    let report = json(&package.run(&["--json", "--runs", "3"]));
    let case = &report["cases"][0];
    assert_eq!(case["measured"]["remaining_allocations"], 0, "{case}");
}
