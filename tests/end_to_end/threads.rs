//! Threads by the thousand.

use harness::Case;

fn threads(how: &str, count: &str) {
    let three = Case::target("threads").args([how, count]).three_ways();
    assert_eq!(three.stat.counts().sums(), three.record.counts().sums(), "{how}");
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
