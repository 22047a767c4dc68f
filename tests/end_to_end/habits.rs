//! Insights into a program that has each habit, and into one that nearly has it.

use std::collections::BTreeSet;

use harness::{Case, Recorded, Run, mallow, number};
use serde_json::Value;

fn recorded(way: &str) -> Recorded {
    Case::target("habits").arg(way).record()
}

/// The insights of a report: kind and function.
fn insights(json: &Value) -> BTreeSet<(String, String)> {
    let text = |insight: &Value, key: &str| {
        let text = insight[key].as_str().unwrap_or_else(|| panic!("no {key} in {insight}"));
        text.split('(').next().unwrap_or_default().to_owned()
    };
    let all = json["insights"].as_array().expect("insights");
    assert_eq!(number(json, "insights_in_all"), all.len() as u64);
    all.iter().map(|insight| (text(insight, "kind"), text(insight, "function"))).collect()
}

#[test]
fn each_habit_is_reported_at_its_function() {
    let recorded = recorded("habits");
    let expected = [
        ("after_main", "at_exit"),
        ("before_main", "before_main"),
        ("freed_by_others", "send_messages"),
        ("grown_buffer", "grow_by_realloc"),
        ("grown_buffer", "grow_vectors"),
        ("kept_slack", "double_table"),
        ("one_lifetime", "lists_of"),
        ("popular_container", "copy_names"),
        ("rebuilt_container", "rebuild_vector"),
        ("temporary_block", "scratch_in_loop"),
    ];
    let expected: BTreeSet<_> = expected.into_iter().map(|(kind, at)| (kind.to_owned(), at.to_owned())).collect();
    assert_eq!(insights(&recorded.json), expected, "{:#}", recorded.json["insights"]);

    let evidence = |at: &str| {
        let all = recorded.json["insights"].as_array().into_iter().flatten();
        let here = |insight: &&Value| insight["function"].as_str().is_some_and(|f| f.starts_with(at));
        all.clone().find(here).map(|insight| insight["evidence"].clone()).expect("it is there")
    };
    assert_eq!(number(&evidence("grow_by_realloc"), "growth_steps"), 500 * 63);
    assert_eq!(evidence("grow_by_realloc")["doubling"], false);
    let vectors = evidence("grow_vectors");
    assert_eq!((number(&vectors, "grown_buffers"), number(&vectors, "growth_steps")), (1000, 12_000));
    // 4 B, 8 B, … 8192 B are copied.
    assert_eq!((number(&vectors, "copied_bytes"), &vectors["container"]), (1000 * 16_380, &"std::vector".into()));
    assert_eq!(number(&evidence("rebuild_vector"), "times"), 4000);
    assert_eq!(number(&evidence("scratch_in_loop"), "freed_before_next"), 30_000);
    assert_eq!((number(&evidence("lists_of"), "runs"), number(&evidence("lists_of"), "allocations")), (10, 30_000));
    // Where addresses go to and fro, the order of two threads is not always known.
    assert!(number(&evidence("send_messages"), "freed_by_others") > 29_900);
    assert_eq!(number(&evidence("double_table"), "kept_slack"), 4 << 20);
    assert_eq!(
        (number(&evidence("before_main"), "allocations"), number(&evidence("at_exit"), "allocations")),
        (20_000, 20_000)
    );

    // In words: the first few, or all.
    let report = |limit: &[&str]| {
        let report = Run::new(mallow(), recorded.directory.path()).arg("report").args(limit).arg(&recorded.file).go();
        assert_eq!((report.status, report.err()), (0, String::new()));
        report.out()
    };
    assert!(report(&[]).contains("\nBest insight  (the largest 1 of 10)"), "{}", report(&[]));
    assert!(report(&["--limit", "5"]).contains("\nInsights  (the largest 5 of 10)"), "{}", report(&["--limit", "5"]));
    assert_eq!(report(&["--limit", "0"]).matches("\nInsights  what each may save").count(), 1);
    let all = report(&["--all"]);
    for line in [
        "A std::vector is built anew 4,000 times",
        "freed one after another in at most 10 runs",
        "20,000 allocations, 480 kB, after main",
    ] {
        assert!(all.contains(line), "{line:?} is not in\n{all}");
    }
}

#[test]
fn what_is_nearly_a_habit_is_passed_over() {
    let recorded = recorded("nearly");
    assert_eq!(insights(&recorded.json), BTreeSet::new(), "{:#}", recorded.json["insights"]);
    let report = Run::new(mallow(), recorded.directory.path()).args(["report", "--all"]).arg(&recorded.file).go();
    let text = report.out();
    assert!(text.contains("Most allocations") && !text.contains("Insights") && !text.contains("insight"), "{text}");
}

/// The sums of habits are added up again from the events.
#[test]
fn a_recording_that_was_cut_short_has_its_insights() {
    let recorded = recorded("habits");
    let bytes = std::fs::read(&recorded.file).expect("the recording");
    let cut = recorded.directory.path().join("cut.mallow");
    std::fs::write(&cut, &bytes[..bytes.len() - 16]).expect("a file");
    let report = Run::new(mallow(), recorded.directory.path()).args(["report", "--json"]).arg(&cut).go();
    let json: Value = serde_json::from_str(&report.out()).expect("JSON");
    assert!(json["cut_short"].is_string());
    assert_eq!(insights(&json), insights(&recorded.json));
}
