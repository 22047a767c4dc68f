//! What `mallow watch` calls growing, on a server with churn, sessions and a cache that fills up and then evicts.

use std::fs;

use harness::{Run, directory, mallow, program};
use serde_json::Value;

/// The reports of a run of 95 seconds at 6,000 requests a second, each of which leaves so many bytes behind.
fn reports(left_behind: &str) -> Vec<Value> {
    let place = directory();
    let run = Run::new(mallow(), place.path())
        .args(["watch", "--json", "--period", "64KiB", "--every", "10s", "--older-than", "0", "-o", "reports", "--"])
        .arg(program("requests"))
        .args(["95", "6000", left_behind])
        .go();
    assert_eq!(run.status, 0, "{}", run.err());
    assert!(run.out().ends_with(" requests\n"), "{}", run.out());
    let text = fs::read_to_string(place.path().join("reports")).expect("reports");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
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
    let reports = reports("100");
    let last = &reports[reports.len() - 2];
    let growing = growing(last);
    assert_eq!(growing.len(), 1, "{last:#}");
    assert!(goes_through(growing[0], "AuditLog::remember"), "{last:#}");
    assert_eq!(last["sites"][0], *growing[0], "it comes first");
    // The truth is known: 600 kB a second.
    let rate = &growing[0]["growth"]["bytes_per_hour"];
    let number = |key: &str| rate[key].as_f64().expect("a number");
    assert!(number("low") < 2.16e9 * 1.1 && number("high") > 2.16e9 * 0.9, "{rate}");
    assert!(last["sites"].as_array().expect("sites").iter().any(|site| goes_through(site, "Cache::look_up")));
}

#[test]
fn a_steady_server_has_nothing_that_grows() {
    for report in reports("0") {
        assert!(growing(&report).is_empty(), "{report:#}");
    }
}
