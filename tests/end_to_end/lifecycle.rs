//! Allocation where a process hardly lives yet, or hardly any more.

use harness::Case;

#[test]
fn before_main_and_after_the_destructors() {
    let three = Case::target("early").three_ways();
    assert_eq!(three.bare.status, 7);
    assert!(three.bare.out().contains("after the destructors"));
    assert_eq!(three.stat.counts(), three.record.counts());
    // 9 notes and 2 x 100 blocks at least: none of the phases is missing from the count.
    assert!(three.stat.counts().allocations >= 209, "{:?}", three.stat.counts());
}

#[test]
fn inside_dlsym() {
    Case::target("dlsym_allocates").three_ways();
}

#[test]
fn in_destructors_of_threads() {
    let three = Case::target("tls_destructors").three_ways();
    assert_eq!(three.stat.counts().sums(), three.record.counts().sums());
}

#[test]
fn stacks_switched_by_the_program() {
    let three = Case::target("contexts").three_ways();
    assert_eq!(three.stat.counts().sums(), three.record.counts().sums());
    assert_eq!(three.record.losses(), (0, 0));
}

#[test]
fn coroutines() {
    let three = Case::target("coroutines").three_ways();
    assert_eq!(three.stat.counts(), three.record.counts());
}

#[test]
fn exceptions_through_deep_stacks() {
    let three = Case::target("exceptions").three_ways();
    assert_eq!(three.bare.status, 134, "the last one is not caught");
    assert_eq!(three.stat.counts(), three.record.counts());
}

#[test]
fn what_glibc_answers_at_its_edges() {
    Case::target("glibc_edges").three_ways();
}
