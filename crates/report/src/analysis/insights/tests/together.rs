//! Small blocks that are freed together.

use mallow_profile::overhead;

use super::*;

fn in_runs(allocations: u64, size: u64, freed_in_runs: u64, runs: u64) -> Profile {
    beside(
        PLACE,
        blocks(allocations, size, 0, 0),
        Patterns { freed_in_runs, runs, overhead_bytes: allocations * overhead(size), ..sizes(size, size) },
    )
}

#[test]
fn small_blocks_that_are_freed_together() {
    let found = one(&in_runs(100_000, 40, 99_000, 10));
    let Evidence::OneLifetime { allocations, runs, overhead_bytes, places, .. } = found.evidence else {
        panic!("{found:?}")
    };
    // 40 bytes take 48.
    assert_eq!((allocations, runs, overhead_bytes, places), (100_000, 10, 800_000, 1));
    // The peak is of requested bytes: an arena does not lower it.
    assert_eq!((found.saves.peak_bytes, found.peak_share), (0, 0.0));
    // Blocks of 24 and of 104 bytes, by turns: 8 more each, and not the 16 of blocks of their mean.
    let mixed = Patterns { freed_in_runs: 100_000, runs: 1, overhead_bytes: 8 * 100_000, ..sizes(24, 104) };
    let found = one(&beside(PLACE, blocks(100_000, 64, 0, 0), mixed));
    assert!(matches!(found.evidence, Evidence::OneLifetime { overhead_bytes: 800_000, .. }), "{found:?}");
    // A tenth of them were live at the peak.
    let mut profile = in_runs(100_000, 40, 99_000, 10);
    profile.sites[1].counts.peak = 10_000;
    let Evidence::OneLifetime { overhead_bytes, allocated_overhead_bytes, .. } = one(&profile).evidence else {
        panic!("{profile:?}")
    };
    assert_eq!((overhead_bytes, allocated_overhead_bytes), (80_000, 800_000));
    // Places that may share an arena are one insight.
    let mut profile = in_runs(30_000, 40, 30_000, 10);
    let mut b = Builder { profile };
    let process = mallow_profile::ProcessId(0);
    let more = Patterns { freed_in_runs: 50_000, runs: 10, ..sizes(10, 20) };
    b.site(process, &["g@a.c:6", "main@a.c:10"], blocks(50_000, 20, 0, 0)).patterns = more.into();
    profile = b.profile;
    let found = one(&profile);
    let Evidence::OneLifetime { allocations, places, .. } = found.evidence else { panic!("{found:?}") };
    assert_eq!((allocations, places, found.frame.function.as_str()), (80_000, 2, "g"));
}

#[test]
fn blocks_that_are_not_quite_freed_together() {
    assert!(silent(&in_runs(100_000, 40, 70_000, 10)), "not all of them");
    assert!(silent(&in_runs(100_000, 40, 100_000, 2_000)), "in short runs");
    assert!(silent(&in_runs(100_000, 400, 100_000, 10)), "not small");
    assert!(silent(&in_runs(50_000, 40, 50_000, 10)), "less than a twentieth of the program");
}

/// What stays keeps the whole arena: a block in eight of the same line, or in a hundred.
#[test]
fn an_arena_that_is_never_free_is_none() {
    let kept = |live: u64| {
        let counts = blocks(80_000, 200, 0, live);
        let patterns = Patterns { freed_in_runs: 80_000 - live, runs: 1, ..sizes(200, 200) };
        all(&beside(PLACE, counts, patterns)).len()
    };
    assert_eq!([0, 100, 800, 10_000].map(kept), [1, 1, 0, 0]);
}
