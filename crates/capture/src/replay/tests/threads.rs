//! Several rings: what the order between them has to be.

use super::simulator::{Reuse, Setting, Simulator, Sites, told};
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
        let setting = Setting { seed, threads, steps, reuse: Reuse::Owner, foreign: seed % 16, round, millisecond };
        let (p, truth, peak, forced) = simulated(setting);
        assert_eq!((forced, p.processes[0].foreign_frees, p.ending.damaged), (0, 0, 0), "{setting:?}");
        assert_eq!(told(&p), truth, "{setting:?}");
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
        };
        let (p, truth, _, forced) = simulated(setting);
        forced_in_all += forced;
        steps_in_all += setting.steps as u64;
        let told = told(&p);
        for (stack, truth) in &truth {
            let told = &told[stack];
            assert_eq!((told.allocations, told.allocated_bytes), (truth.allocations, truth.allocated_bytes));
            assert_eq!((told.in_place, told.moved), (truth.in_place, truth.moved));
        }
        if forced == 0 {
            let frees = |sites: &Sites| {
                sites.values().map(|truth| (truth.frees, truth.leaked)).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
            };
            assert_eq!(frees(&told), frees(&truth), "{setting:?}");
        }
    }
    assert!(forced_in_all * 1000 < steps_in_all, "{forced_in_all} of {steps_in_all}");
}
