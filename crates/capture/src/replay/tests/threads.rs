//! Several rings: what the order between them has to be.

use super::*;

fn two(a: Tape, b: Tape) -> (Profile, u64) {
    let mut replay = started();
    words(&mut replay, 0, 0, a);
    words(&mut replay, 0, 1, b);
    round(&mut replay, 1);
    round(&mut replay, 2);
    let forced = replay.progress().forced;
    (profile(replay), forced)
}

fn tape() -> Tape {
    Tape::default().time(1).stack(0, &[0x1010])
}

#[test]
fn a_block_handed_over_is_freed_after_it_was_allocated() {
    let (p, forced) = two(tape().free(0x10), tape().alloc(0, 0x10, 1, 0));
    assert_eq!((p.totals.frees, p.totals.leaked, p.processes[0].foreign_frees, forced), (1, 0, 0, 0));
}

#[test]
fn a_block_that_comes_back_is_not_freed_too_early() {
    // The first ring could run to its end, and then the second one's free would have nothing to free.
    let (p, forced) = two(tape().alloc(0, 0x10, 1, 0).free(0x10), tape().free(0x10).alloc(0, 0x10, 1, 0));
    assert_eq!((p.totals.frees, p.totals.leaked, p.processes[0].foreign_frees, forced), (2, 0, 0, 0));
}

#[test]
fn what_a_record_depends_on_may_come_one_round_later() {
    let mut replay = started();
    words(&mut replay, 0, 0, tape().alloc(0, 0x10, 1, 0).free(0x10));
    round(&mut replay, 1);
    words(&mut replay, 0, 1, tape().free(0x10).alloc(0, 0x10, 1, 0));
    round(&mut replay, 2);
    round(&mut replay, 3);
    assert_eq!(replay.progress().forced, 0);
    let p = profile(replay);
    assert_eq!((p.totals.frees, p.processes[0].foreign_frees), (2, 0));
}

#[test]
fn what_fits_nowhere_is_taken_as_it_is() {
    let (p, forced) = two(tape().free(0x10), tape().free(0x10).alloc(0, 0x10, 1, 0));
    assert_eq!((p.totals.frees, p.totals.leaked, p.processes[0].foreign_frees, forced), (1, 0, 1, 1));
}
