//! What `mallow watch` calls growing, on a server with churn, sessions and a cache that fills up and then evicts.

use std::path::Path;
use std::process::Command;

use harness::{directory, mallow, program};
use serde_json::Value;

use crate::watch_harness::{Alive, quiet, reports, until_or};

/// Looks at a server that leaves so many bytes behind with each request, until the latest reports are as they should be.
fn watch(left_behind: &str, settled: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let place = directory();
    let file = place.path().join("reports");
    let options = ["--json", "--period", "64KiB", "--warm-up", "25s", "--every", "3s", "--older-than", "0"];
    let mut command = Command::new(mallow());
    command.arg("watch").args(options).arg("-o").arg(&file).arg("--").arg(program("requests"));
    let _watched = Alive::start(quiet(command.args(["300", "3000", left_behind])));
    let all = || Some(reports(&file)).filter(|all| settled(all));
    until_or(all, || panic!("{}", describe_growth(&file)))
}

fn describe_growth(file: &Path) -> String {
    let verdict = |site: &Value| format!("{} {}", site["frames"][0]["function"], site["growth"]);
    let sites =
        |report: &Value| -> Vec<String> { report["sites"].as_array().into_iter().flatten().map(verdict).collect() };
    reports(file).iter().map(|report| format!("after {} ms: {:#?}\n", report["watched_ms"], sites(report))).collect()
}

fn growing(report: &Value) -> Vec<&Value> {
    let sites = report["sites"].as_array().expect("sites");
    sites.iter().filter(|site| site["growth"]["verdict"] == "growing").collect()
}

fn goes_through(site: &Value, function: &str) -> bool {
    let frames = site["frames"].as_array().expect("frames");
    frames.iter().any(|frame| frame["function"].as_str().is_some_and(|name| name.contains(function)))
}

#[test]
fn a_leak_of_100_bytes_a_request_is_named_first_and_the_cache_is_not_named() {
    let leaks_alone = |all: &[Value]| {
        let growing = all.last().map(growing).unwrap_or_default();
        growing.len() == 1 && goes_through(growing[0], "AuditLog::remember")
    };
    let reports = watch("100", leaks_alone);
    let last = &reports[reports.len() - 1];
    assert_eq!(last["sites"][0], *growing(last)[0], "it comes first");
    assert!(last["sites"][0]["growth"]["bytes_per_hour"]["low"].as_f64() > Some(0.0), "{last:#}");
    assert!(last["sites"].as_array().expect("sites").iter().any(|site| goes_through(site, "Cache::look_up")));
    // Before it is called growing, it grew so far.
    let so_far = |report: &Value| {
        let first = &report["sites"][0];
        first["growth"]["verdict"] == "so_far" && goes_through(first, "AuditLog::remember")
    };
    assert!(reports.iter().any(so_far), "{reports:#?}");
}

#[test]
fn a_steady_server_has_nothing_that_grows() {
    // The cache may be slow to fill on a busy machine; once it is full nothing grows.
    let long = |report: &Value| report["watched_ms"].as_u64() > Some(35_000);
    let reports = watch("0", |all| {
        all.len() >= 3 && all[all.len() - 3..].iter().all(|report| long(report) && growing(report).is_empty())
    });
    assert!(reports.iter().all(|report| !report["sites"].as_array().expect("sites").is_empty()));
}
