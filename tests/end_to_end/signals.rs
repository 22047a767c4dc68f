//! Handlers that allocate, throw and jump. The target's allocator is one that handlers may call, so that the code
//! which signals interrupt at bad moments is Mallow's.

use harness::{Case, number};

fn storm(how: &str) {
    let three = Case::target("signal_storm").args([how, "600"]).three_ways();
    // 5000 blocks of 77777 bytes after the storm: Mallow still sees.
    for json in [&three.stat.json, &three.record.json] {
        assert!(number(json, "allocated_bytes") >= 5000 * 77777, "{how}: {json:#}");
    }
    assert!(number(&three.record.json, "live_bytes") >= 5000 * 77777, "{how}");
    assert_eq!(three.record.losses().1, 0, "{how}: damaged");
}

#[test]
fn handlers_that_allocate() {
    storm("plain");
}

#[test]
fn handlers_on_alternate_stacks() {
    storm("altstack");
}

#[test]
fn handlers_that_jump_out() {
    storm("jump");
}

#[test]
fn signals_between_threads() {
    storm("threads");
}

#[test]
fn exceptions_out_of_handlers() {
    let three = Case::target("faults").three_ways();
    assert_eq!(three.stat.counts().sums(), three.record.counts().sums());
}

#[test]
fn interrupted_system_calls() {
    let three = Case::target("interrupted").three_ways();
    assert_eq!(three.record.losses(), (0, 0));
}
