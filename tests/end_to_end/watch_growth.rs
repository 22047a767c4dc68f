//! What `mallow watch` calls growing, on a server with churn, sessions and a cache that fills up and then evicts.

use std::path::Path;
use std::process::{Command, Stdio};

use harness::{directory, mallow, program};
use serde_json::Value;

use crate::fleet::Watched;
use crate::watch_harness::{Alive, quiet, reports, until, until_or, wait_for};

/// Looks at a server that leaves so many bytes behind with each request, until the latest reports are as they should
/// be.
fn watch(arguments: &[&str], settled: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let place = directory();
    let file = place.path().join("reports");
    let options = ["--json", "--period", "64KiB", "--warm-up", "25s", "--every", "3s", "--older-than", "0"];
    let mut command = Command::new(mallow());
    command.arg("watch").args(options).arg("-o").arg(&file).arg("--").arg(program("requests"));
    let _watched = Alive::start(quiet(command.args(["300", "3000"]).args(arguments)));
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
    let reports = watch(&["100"], leaks_alone);
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
fn a_steady_server_has_nothing_that_grows_in_any_report() {
    let long = |report: &Value| report["watched_ms"].as_u64() > Some(45_000);
    let reports = watch(&["0", "warm"], |all| all.last().is_some_and(long));
    for report in &reports {
        assert!(!report["sites"].as_array().expect("sites").is_empty());
        let numbers = ["growing", "growing_places"].map(|key| report[key].as_u64());
        assert_eq!((growing(report), numbers), (Vec::<&Value>::new(), [Some(0); 2]), "{report:#}");
    }
}

/// A leak behind a function that a cache uses too: together they show what the cache does.
#[test]
fn of_a_helper_that_a_cache_uses_too_the_caller_that_leaks_is_named() {
    let place = directory();
    let file = place.path().join("reports");
    let watched = Watched::of(
        place.path(),
        &["--warm-up", "25s", "--listen", "127.0.0.1:0"],
        &program("shared_helper"),
        &["300"],
        Stdio::null(),
    );
    let grows = |report: &Value| report["growing_places"].as_u64() > Some(0);
    let found = wait_for(&file, "a place that grows", grows);
    let first = &found["places"][0];
    let name = |key: &str| first[key].as_str().unwrap_or_default().to_owned();
    assert!(name("function").contains("note_session") && name("by").contains("make_payload"), "{first:#}");
    let line = first["line"].as_u64();
    let text = include_str!("../targets/shared_helper.cpp");
    let expected =
        text.lines().position(|line| line.contains("auto payload = make_payload")).expect("the call") as u64 + 1;
    assert_eq!(line, Some(expected), "{first:#}");
    // 720 MB an hour, and the string's own 32 bytes.
    let rate = &first["growth"]["bytes_per_hour"];
    let (low, high) = (rate["low"].as_f64().expect("a limit"), rate["high"].as_f64().expect("a limit"));
    assert!(low > 0.0 && high > 300e6 && low < 1500e6, "{rate}");
    // The cache by the same function is a place of its own, and does not grow.
    let places = found["places"].as_array().expect("places");
    let rest = places.iter().find(|place| place["function"].as_str().is_some_and(|name| name.contains("make_payload")));
    assert!(rest.is_some_and(|rest| rest["growth"]["verdict"] != "growing"), "{found:#}");
    let metrics = watched.text("/metrics");
    // The list's own nodes may be found, too.
    let number = metrics.lines().find_map(|line| line.strip_prefix("mallow_growing_places "));
    assert!(matches!(number, Some("1" | "2")), "{metrics}");
    let alert = metrics.lines().find(|line| line.starts_with("mallow_place_growth_bytes_per_hour_low{"));
    assert!(
        alert.is_some_and(|line| line.contains("note_session") && line.contains("verdict=\"growing\"")),
        "{metrics}"
    );
    // It leaks on, and is found in each report from then on.
    let before = reports(&file).len();
    let after = until("later reports", || Some(reports(&file)).filter(|all| all.len() >= before + 15));
    let is_it = |report: &Value| {
        let places = report["places"].as_array().expect("places").iter();
        let mut growing = places.filter(|place| place["growth"]["verdict"] == "growing").peekable();
        growing.peek().is_some_and(|place| place["by"] == first["by"])
            && growing.all(|place| place["function"] == first["function"])
    };
    let from = after.iter().position(grows).expect("it");
    assert!(after[from..].iter().all(is_it), "{}", describe_growth(&file));
    drop(watched);
}
