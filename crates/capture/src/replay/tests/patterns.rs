//! What sites do with their blocks: each habit, and what looks nearly like it.

use super::*;
use mallow_profile::Patterns;

const MAIN: &[u64] = &[0x110];
const F: &[u64] = &[0x120, 0x110];

/// Stacks 0 (main) and 1 (main, f).
fn stacks() -> Tape {
    Tape::default().thread(7).time(10).stack(0, &[0x1010]).stack(1, &[0x1020])
}

fn main_of(profile: &Profile) -> Patterns {
    *site(profile, MAIN).patterns
}

/// Steps, buffers, bytes copied.
fn growth(p: Patterns) -> [u64; 3] {
    [p.growth_steps, p.grown_buffers, p.copied_bytes]
}

#[test]
fn sizes() {
    let p = main_of(&replayed(stacks().alloc(0, 0x10, 30, 0).alloc(0, 0x20, 7, 0).alloc(0, 0x30, 0, 1)));
    assert_eq!((p.smallest, p.largest), (7, 30));
    // Chunks of 48 and of 32 bytes.
    assert_eq!(p, Patterns { smallest: 7, largest: 30, overhead_bytes: 43, ..Patterns::default() });
}

#[test]
fn buffers_grow_by_realloc() {
    let tape = stacks()
        .alloc(0, 0x10, 100, 1)
        .begin(0x10)
        .done(0x20, 200, 0) // the first step copies
        .begin(0x20)
        .done(0x20, 400, 0) // in place
        .begin(0x20)
        .done(0x30, 300, 0) // a block that shrinks is no buffer that grows
        .begin(0x99)
        .done(0x40, 999, 0) // nobody knows from what
        .alloc(2, 0x50, 10, 0) // realloc of NULL
        .begin(0x50)
        .done(0x60, 11, 0);
    let p = replayed(tape);
    assert_eq!(growth(main_of(&p)), [3, 2, 110]);
    assert_eq!(growth(*site(&p, F).patterns), [0; 3]);
}

#[test]
fn large_blocks_are_moved_by_pages_and_not_copied() {
    let grown = |from: u64| {
        let tape = stacks().alloc_wide(0x10, from, 0).begin(0x10);
        growth(main_of(&replayed(tape.done(0x20, from + 5, 0))))
    };
    assert_eq!(grown((32 << 20) - 1), [1, 1, (32 << 20) - 1]);
    assert_eq!(grown(32 << 20), [1, 1, 0]);
}

#[test]
fn buffers_grow_by_a_new_block_and_a_free_of_the_old_one() {
    let tape = stacks()
        .alloc(0, 0x10, 8, 0)
        .alloc(0, 0x20, 12, 0)
        .free(0x10)
        .alloc(0, 0x10, 20, 0)
        .alloc(0, 0x30, 50, 1) // what the new element needs
        .free(0x20);
    assert_eq!(growth(main_of(&replayed(tape))), [2, 1, 20]);
}

#[test]
fn a_block_takes_over_from_one_block_alone() {
    let tape = stacks()
        .alloc(0, 0x10, 40, 0)
        .alloc(0, 0x30, 8, 0)
        .alloc(0, 0x20, 80, 0)
        .free(0x10)
        .alloc(0, 0x40, 5, 1)
        .free(0x30);
    assert_eq!(growth(main_of(&replayed(tape))), [1, 1, 40]);
}

#[test]
fn blocks_that_merely_follow_each_other_do_not_grow() {
    for (why, tape) in [
        ("the new block is smaller", stacks().alloc(0, 0x10, 8, 0).alloc(0, 0x20, 7, 0).free(0x10)),
        ("it is as large", stacks().alloc(0, 0x10, 8, 0).alloc(0, 0x20, 8, 0).free(0x10)),
        (
            "something else was freed first",
            stacks().alloc(0, 0x10, 8, 0).alloc(0, 0x30, 1, 1).alloc(0, 0x20, 16, 0).free(0x30).free(0x10),
        ),
        (
            "too much was allocated between",
            stacks().alloc(0, 0x10, 8, 0).alloc(0, 0x20, 16, 0).alloc(0, 0x30, 1, 1).alloc(0, 0x40, 1, 1).free(0x10),
        ),
        ("the sites differ", stacks().alloc(0, 0x10, 40, 0).alloc(0, 0x20, 82, 1).free(0x10)),
        ("the sizes are common ones", stacks().alloc(0, 0x10, 24, 0).alloc(0, 0x20, 48, 1).free(0x10)),
    ] {
        let p = replayed(tape);
        assert!(p.sites.iter().all(|s| growth(*s.patterns) == [0; 3]), "{why}");
    }
}

#[test]
fn a_doubled_block_of_another_site_takes_over() {
    for (from, to) in [(31, 61), (40, 80)] {
        let p = replayed(stacks().alloc(0, 0x10, from, 0).alloc(0, 0x20, to, 1).free(0x10));
        assert_eq!((growth(*site(&p, F).patterns), growth(main_of(&p))), ([1, 1, from], [0; 3]));
    }
}

#[test]
fn another_thread_in_between_does_not_matter() {
    let mut replay = started();
    words(&mut replay, 0, 0, stacks().alloc(0, 0x10, 8, 0).alloc(0, 0x20, 16, 0));
    words(&mut replay, 0, 1, stacks().alloc(0, 0x30, 8, 1).alloc(0, 0x40, 8, 1).free(0x30));
    round(&mut replay, 1);
    words(&mut replay, 0, 0, Tape::default().free(0x10));
    let p = profile(replay);
    assert_eq!((growth(main_of(&p)), growth(*site(&p, F).patterns)), ([1, 1, 8], [0; 3]));
    assert_eq!((main_of(&p).freed_by_others, site(&p, F).patterns.freed_by_others), (0, 0));
}

#[test]
fn allocations_and_frees_that_alternate() {
    let tape = stacks().alloc(0, 0x10, 8, 0).alloc(0, 0x20, 9, 1).free(0x10).alloc(0, 0x10, 8, 0).free(0x20).free(0x10);
    let p = replayed(tape);
    assert_eq!((main_of(&p).alternating, site(&p, F).patterns.alternating), (2, 1));
}

#[test]
fn threads_that_share_a_site_alternate_each_for_itself() {
    let mut replay = started();
    words(&mut replay, 0, 0, stacks().alloc(0, 0x10, 8, 0));
    words(&mut replay, 0, 1, stacks().alloc(0, 0x20, 8, 0));
    round(&mut replay, 1);
    words(&mut replay, 0, 0, Tape::default().free(0x10));
    words(&mut replay, 0, 1, Tape::default().free(0x20));
    assert_eq!(main_of(&profile(replay)).alternating, 2);
}

#[test]
fn blocks_that_live_side_by_side_do_not_alternate() {
    let tape = stacks().alloc(0, 0x10, 8, 0).alloc(0, 0x20, 8, 0).free(0x10).alloc(0, 0x10, 8, 0).free(0x20);
    assert_eq!(main_of(&replayed(tape)).alternating, 0);
    // What realloc takes over was not freed by the program.
    let tape = stacks().alloc(0, 0x10, 8, 0).begin(0x10).done(0x10, 9, 1).alloc(0, 0x20, 8, 0);
    assert_eq!(main_of(&replayed(tape)).alternating, 0);
}

/// So many blocks of stack 0 are freed in a row, with an allocation after `pause` of them.
fn run(blocks: u64, pause: u64) -> Tape {
    let tape = (1..=blocks).fold(stacks(), |tape, n| tape.alloc(0, n * 16, 8, 0));
    (1..=blocks).fold(tape, |tape, n| {
        let tape = tape.free(n * 16);
        if n == pause { tape.alloc(0, 0x9000, 8, 1) } else { tape }
    })
}

#[test]
fn blocks_freed_in_a_row() {
    let runs = |tape| {
        let p = main_of(&replayed(tape));
        [p.freed_in_runs, p.runs]
    };
    assert_eq!(runs(run(40, 99)), [25, 1]);
    assert_eq!(runs(run(15, 99)), [0, 0], "too few");
    assert_eq!(runs(run(30, 15)), [0, 0], "an allocation comes between");
    assert_eq!(runs(run(40, 20)), [10, 2]);
}

#[test]
fn blocks_freed_by_others() {
    let mut replay = started();
    words(&mut replay, 0, 0, stacks().alloc(0, 0x10, 8, 0).alloc(0, 0x20, 8, 0).alloc(0, 0x30, 1 << 40, 1));
    round(&mut replay, 1);
    words(&mut replay, 0, 1, Tape::default().thread(8).free(0x10).free(0x30));
    round(&mut replay, 2);
    words(&mut replay, 0, 0, Tape::default().free(0x20));
    let p = profile(replay);
    assert_eq!((main_of(&p).freed_by_others, site(&p, F).patterns.freed_by_others), (1, 1));
    // The last blocks of their sites, but of another thread.
    assert_eq!((main_of(&p).alternating, site(&p, F).patterns.alternating), (1, 0));
}

/// A block of 50 kB grows to this at 200 ms; then this happens. The process began at 0 ms and ends at 1000.
fn kept(size: u64, then: impl Fn(Tape) -> Tape) -> [u64; 3] {
    let tape = stacks().alloc(0, 0x10, 50_000, 0).time(200).begin(0x10).done(0x20, size, 0);
    let p = main_of(&replayed(then(tape)));
    [p.kept, p.kept_bytes, p.kept_slack]
}

#[test]
fn large_blocks_that_are_kept_after_they_grew() {
    assert_eq!(kept(100_000, |tape| tape), [1, 100_000, 50_000]);
    assert_eq!(kept(100_000, |tape| tape.time(400).free(0x20)), [1, 100_000, 50_000]);
    assert_eq!(kept(100_000, |tape| tape.time(399).free(0x20)), [0; 3], "not for long");
    assert_eq!(kept(65_535, |tape| tape), [0; 3], "not large");
    assert_eq!(kept(66_666, |tape| tape), [1, 66_666, 16_666]);
    assert_eq!(kept(66_665, |tape| tape.begin(0x20).done(0x20, 70_000, 0)), [0; 3], "grown by little");
    assert_eq!(kept(400_000, |tape| tape), [1, 400_000, 350_000]);
    assert_eq!(kept(400_008, |tape| tape), [0; 3], "to a size that was known");
    let again = |tape: Tape| tape.time(900).begin(0x20).done(0x30, 200_000, 0);
    assert_eq!(kept(100_000, again), [0; 3], "it was needed, and the larger one came late");
    let copied = |tape: Tape| tape.time(400).alloc(0, 0x30, 200_000, 0).free(0x20);
    assert_eq!(kept(100_000, copied), [1, 200_000, 100_000], "it was copied into the one that is kept");
    let shrunk = |tape: Tape| tape.begin(0x20).done(0x20, 70_000, 0);
    assert_eq!(kept(100_000, shrunk), [0; 3], "shrunk to fit");
}
