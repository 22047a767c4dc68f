//! Threads by the thousand.

use harness::{Case, number};

fn threads(how: &str, count: &str) {
    let three = Case::target("threads").args([how, count]).three_ways();
    let (stat, record) = (three.stat.counts(), three.record.counts());
    assert_eq!(stat.families["malloc"], record.families["malloc"], "{how}");
    // glibc allocates and frees a table for each thread, or takes an ended thread's, as time has it.
    if matches!(how, "sequential" | "handover") {
        assert_eq!(stat, record, "{how}");
    }
    assert_eq!(number(&three.record.json["processes"][0], "foreign_frees"), 0, "{how}: whose blocks are these?");
    assert_eq!(three.record.losses(), (0, 0));
    assert_eq!(three.stat.json["lost"].as_u64(), Some(0));
}

#[test]
fn one_after_the_other() {
    threads("sequential", "5000");
}

#[test]
fn detached() {
    threads("detached", "3000");
}

#[test]
fn blocks_handed_over() {
    threads("handover", "500");
}

#[test]
fn more_than_a_thousand_alive() {
    threads("alive", "1500");
}

/// A thread is one, however late it frees: the C library frees a thread's own message of `strerror` when its last
/// destructor has run, and by then its ring may have another owner.
#[test]
fn a_thread_that_frees_at_its_very_end_is_one_thread() {
    let record = Case::target("threads").args(["late", "40"]).record();
    let threads = record.view_json(&["threads", "--limit", "0"]);
    assert_eq!(number(&threads, "threads_in_all"), 41);
    let rows = threads["threads"].as_array().expect("threads");
    assert_eq!(rows.len(), 41, "{threads:#}");
    let idle = rows.iter().filter(|row| number(row, "allocations") == 0).count();
    assert_eq!(idle, 0, "{threads:#}");
}
