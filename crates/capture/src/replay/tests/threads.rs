//! Several rings: what the order between them has to be.

use super::simulator::{Reuse, Setting, Simulator, Sites, sites_of};
use super::*;

fn two(a: Tape, b: Tape) -> (Profile, u64) {
    let mut replay = started();
    words(&mut replay, 0, 0, a);
    words(&mut replay, 0, 1, b);
    round(&mut replay, 1);
    round(&mut replay, 2);
    round(&mut replay, 3);
    let forced = replay.progress().forced;
    (profile(replay), forced)
}

fn tape() -> Tape {
    Tape::default().time(1).stack(0, &[0x1010])
}

#[test]
fn a_block_handed_over_is_freed_after_it_was_allocated() {
    let (p, forced) = two(tape().free(0x10), tape().alloc(0, 0x10, 1, 0));
    assert_eq!((p.totals.frees, p.totals.live, p.processes[0].foreign_frees, forced), (1, 0, 0, 0));
}

#[test]
fn a_block_that_comes_back_is_not_freed_too_early() {
    // The first ring could run to its end, and then the second one's free would have nothing to free.
    let (p, forced) = two(tape().alloc(0, 0x10, 1, 0).free(0x10), tape().free(0x10).alloc(0, 0x10, 1, 0));
    assert_eq!((p.totals.frees, p.totals.live, p.processes[0].foreign_frees, forced), (2, 0, 0, 0));
}

#[test]
fn what_a_record_depends_on_may_come_one_round_later() {
    let mut replay = started();
    words(&mut replay, 0, 0, tape().alloc(0, 0x10, 1, 0).free(0x10));
    round(&mut replay, 1);
    words(&mut replay, 0, 1, tape().free(0x10).alloc(0, 0x10, 1, 0));
    round(&mut replay, 2);
    round(&mut replay, 3);
    round(&mut replay, 4);
    assert_eq!(replay.progress().forced, 0);
    let p = profile(replay);
    assert_eq!((p.totals.frees, p.processes[0].foreign_frees), (2, 0));
}

#[test]
fn what_fits_nowhere_is_taken_as_it_is() {
    let (p, forced) = two(tape().free(0x10), tape().free(0x10).alloc(0, 0x10, 1, 0));
    assert_eq!((p.totals.frees, p.totals.live, p.processes[0].foreign_frees, forced), (1, 0, 1, 1));
}

fn simulated(setting: Setting) -> (Profile, Sites, u64, u64) {
    let mut replay = started();
    let (truth, peak) = Simulator::new(setting).run(&mut replay);
    let forced = replay.progress().forced;
    (profile(replay), truth, peak, forced)
}

/// Where only one thread gives out an address, the rings leave no choice that counts.
#[test]
fn arenas_are_counted_exactly() {
    for seed in 0..400 {
        let threads = 1 + seed as usize % 4;
        let (steps, round, millisecond) = (seed as usize * 7 % 1500, 1 + seed * 13 % 400, 1 + seed * 29 % 500);
        let setting =
            Setting { seed, threads, steps, reuse: Reuse::Owner, foreign: seed % 16, round, millisecond, stamp: 64 };
        let (p, truth, peak, forced) = simulated(setting);
        assert_eq!((forced, p.processes[0].foreign_frees, p.ending.damaged), (0, 0, 0), "{setting:?}");
        assert_eq!(sites_of(&p), truth, "{setting:?}");
        if threads == 1 {
            assert_eq!(p.totals.peak_bytes, peak, "{setting:?}");
        }
    }
}

/// Where freed addresses go to the thread that freed them, alternation leaves more orders than one: which of two blocks
/// a free was for may stay open, but the sums do not.
#[test]
fn thread_caches_are_summed_exactly_and_rarely_forced() {
    let (mut forced_in_all, mut steps_in_all) = (0, 0);
    for seed in 0..100 {
        let setting = Setting {
            seed,
            threads: 2 + seed as usize % 3,
            steps: 2000,
            reuse: Reuse::Freer,
            foreign: seed % 16,
            round: 300,
            millisecond: 100,
            stamp: 64,
        };
        let (p, truth, _, forced) = simulated(setting);
        forced_in_all += forced;
        steps_in_all += setting.steps as u64;
        let sites = sites_of(&p);
        for (stack, truth) in &truth {
            let site = &sites[stack];
            assert_eq!((site.allocations, site.allocated_bytes), (truth.allocations, truth.allocated_bytes));
            assert_eq!((site.in_place, site.moved), (truth.in_place, truth.moved));
        }
        if forced == 0 {
            let frees = |sites: &Sites| {
                sites.values().map(|truth| (truth.frees, truth.live)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
            };
            assert_eq!(frees(&sites), frees(&truth), "{setting:?}");
        }
    }
    assert!(forced_in_all * 1000 < steps_in_all, "{forced_in_all} of {steps_in_all}");
}

/// Blocks of 1,000 bytes that one thread allocates and another frees before the next one comes, at addresses that never
/// come again.
fn handed_over(blocks: u64) -> (Tape, Tape) {
    (0..blocks).fold((tape(), tape()), |(a, b), n| {
        let address = 0x1000 * (n + 1);
        (a.order(2 * n + 1).alloc(0, address, 1000, 0), b.order(2 * n + 2).free(address))
    })
}

#[test]
fn a_peak_of_blocks_handed_over_is_one_block() {
    let (a, b) = handed_over(100);
    let (p, forced) = two(a, b);
    assert_eq!((p.totals.peak_bytes, p.totals.live, forced), (1000, 0, 0));
}

/// The drain looks at the rings one after another: what came earlier may be read later.
#[test]
fn a_ring_that_is_read_later_is_not_behind() {
    let (a, b) = handed_over(100);
    for late in 0..2 {
        let mut replay = started();
        let mut tapes = [a.clone(), b.clone()];
        words(&mut replay, 0, 1 - late, std::mem::take(&mut tapes[1 - late as usize]));
        round(&mut replay, 1);
        words(&mut replay, 0, late, std::mem::take(&mut tapes[late as usize]));
        (2..6).for_each(|ms| round(&mut replay, ms));
        assert_eq!(replay.progress().peak_bytes, 1000, "ring {late} is late");
        assert_eq!((replay.progress().live_bytes, replay.progress().forced), (0, 0));
    }
}

/// What a stamp began may have gone on until the ring's next stamp, but no longer: an address that was free in between.
#[test]
fn an_order_of_addresses_keeps_to_the_stamps() {
    // The address was in turn the first, the second, the third and the first ring's.
    let mut replay = started();
    words(&mut replay, 0, 0, tape().order(1).alloc(0, 0x10, 1, 0).order(7).free(0x10).order(8));
    words(&mut replay, 0, 1, tape().order(2).free(0x10).order(3));
    words(&mut replay, 0, 2, tape().order(4).alloc(0, 0x10, 5, 0).order(6));
    (1..5).for_each(|ms| round(&mut replay, ms));
    assert_eq!((replay.progress().peak_bytes, replay.progress().forced), (5, 0));
}

/// Where each event has its number, the order is the true one, however the rings are read.
#[test]
fn a_peak_with_a_stamp_at_each_event_is_exact() {
    for seed in 0..200 {
        let (threads, steps, round) = (2 + seed as usize % 5, 200 + seed as usize * 7 % 1500, 1 + seed * 13 % 400);
        let foreign = seed * 7 % 100;
        let reuse = if seed % 2 == 0 { Reuse::Owner } else { Reuse::Freer };
        let setting = Setting { seed, threads, steps, reuse, foreign, round, millisecond: 100, stamp: 1 };
        let (p, truth, peak, forced) = simulated(setting);
        assert_eq!((p.totals.peak_bytes, forced), (peak, 0), "{setting:?}");
        assert_eq!(sites_of(&p), truth, "{setting:?}");
    }
}

/// The first thread does all its work before the second one begins, and finds its own number to be the last one each
/// time it looks: it writes no more of them. Both use one address, and lists of their own around it.
#[test]
fn a_thread_that_nobody_interrupted_is_not_drawn_out_over_the_next_ones_numbers() {
    let blocks = 40;
    let lists = |tape: Tape, own: u64, stamp: &mut dyn FnMut(Tape) -> Tape| {
        (0..4).fold(tape, |tape, _| {
            let tape = (0..blocks).fold(tape, |tape, n| stamp(tape).alloc(0, own + 0x100 * n, 100, 0));
            let tape = stamp(tape).alloc(0, 0x10, 100, 0);
            let tape = stamp(tape).free(0x10);
            (0..blocks).fold(tape, |tape, n| stamp(tape).free(own + 0x100 * n))
        })
    };
    // What the first one did before took long: 1,000 numbers of others.
    let first = tape().order(1).alloc(0, 0x20, 1, 0).free(0x20).order(1000);
    let first = lists(first, 0x10_0000, &mut |tape| tape);
    let mut number = 1000;
    let second = lists(tape(), 0x20_0000, &mut |tape| {
        number += 1;
        tape.order(number)
    });
    let (p, forced) = two(first, second);
    assert_eq!((p.totals.peak_bytes, p.totals.live, forced), (100 * (blocks + 1), 0, 0));
}

/// A thread that owns the latest number repeats it where it leaves its window: what it did up to there, and the event
/// that follows, came before the next number. A small block came to the large one's address after that was freed, in a
/// ring whose own numbers leave that open.
#[test]
fn a_repeated_number_keeps_a_small_block_from_a_large_ones_place() {
    let (large, small) = (2 << 20, 288);
    let replayed = |is_repeated_after: bool, is_over: bool| {
        let mut replay = started();
        words(&mut replay, 0, 0, tape().order(38).order(39).alloc(0, 0x20, small, 0).alloc(0, 0x10, small, 0));
        words(&mut replay, 0, 1, tape().order(2).alloc(0, 0x3000, large, 0));
        // Its numbers are far apart, and so may the next ones be.
        let third = tape().order(3).alloc(0, 0x30, small, 0).order(40).free(0x3000);
        let third = match is_repeated_after {
            true => third.alloc(0, 0x10, large, 0).order(40).alloc(0, 0x40, small, 0),
            false => third.order(40).alloc(0, 0x10, large, 0).alloc(0, 0x40, small, 0),
        };
        words(&mut replay, 0, 2, if is_over { third.order(80) } else { third });
        words(&mut replay, 0, 3, tape().order(41).free(0x10).order(41).alloc(0, 0x4000, large, 0));
        (1..5).for_each(|ms| round(&mut replay, ms));
        let peak = replay.progress().peak_bytes;
        words(&mut replay, 0, 0, tape().free(0x10).free(0x20).free(0x30).free(0x40));
        words(&mut replay, 0, 1, tape().order(90).free(0x4000));
        (5..9).for_each(|ms| round(&mut replay, ms));
        (peak, replay.progress().live_bytes, replay.progress().forced)
    };
    for is_over in [false, true] {
        for is_repeated_after in [false, true] {
            let (peak, live, forced) = replayed(is_repeated_after, is_over);
            assert!((large..large + 5 * small).contains(&peak), "{is_repeated_after}, {is_over}: {peak}");
            assert_eq!((live, forced), (0, 0), "{is_repeated_after}, {is_over}");
        }
    }
}
