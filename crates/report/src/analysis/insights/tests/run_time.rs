//! What malloc takes of the run's CPU time.

use super::*;

/// 600 reallocs of a run of half a second are nothing, and 400,000 allocations may be much of it.
#[test]
fn what_saves_next_to_nothing_of_the_run_does_not_matter() {
    let mut b = Builder::default();
    let process = b.process(1, &["a"], 10);
    let counts = by_realloc(blocks(600, 30_000, 0, 0), 599);
    b.site(process, PLACE, counts).patterns =
        Patterns { growth_steps: 599, grown_buffers: 1, copied_bytes: 0, ..sizes(100, 60_000) }.into();
    let mut profile = b.profile;
    profile.cpu_us = Some(500_000);
    let found = insights(&profile, 9);
    let malloc_time = found.malloc_time.expect("the CPU time is known");
    assert!(malloc_time.most < 0.01 && malloc_time.least < malloc_time.most, "{malloc_time:?}");
    assert!(found.insights.iter().all(|insight| insight.malloc_share > 0.9 && !insight.matters()), "{found:?}");
    assert!(!found.insights.is_empty(), "a share of nearly all of nothing");
    let mut much = alternating_at(PLACE, 64);
    much.cpu_us = Some(500_000);
    let found = insights(&much, 9);
    assert!(found.insights[0].matters() && found.insights[0].run_share.is_some_and(|share| share >= 0.05));
    // Where nobody knows the CPU time, nothing is left out.
    much.cpu_us = None;
    let found = insights(&much, 9);
    assert_eq!((found.malloc_time, found.insights[0].run_share), (None, None));
    assert!(found.insights[0].matters());
}

/// A daemon's CPU time is in nobody's: what malloc takes of the command's own is no lower bound.
#[test]
fn the_time_of_a_process_that_nobody_waited_for_is_not_known() {
    let least = |parent_pid: u32, ended_ms: u64| {
        let mut b = Builder::default();
        let command = b.process(1, &["a"], 500);
        let child = b.process(2, &["a"], ended_ms);
        for process in [command, child] {
            b.site(process, PLACE, blocks(30_000, 64, 0, 0));
        }
        b.profile.processes[1].parent_pid = parent_pid;
        b.profile.cpu_us = Some(1000);
        let time = insights(&b.profile, 9).malloc_time.expect("the CPU time is known");
        assert!(time.most > 0.1, "{time:?}");
        time.least
    };
    assert!(least(1, 300) > 0.1);
    assert!(least(1, 550) > 0.1, "its end is seen late");
    assert_eq!([least(1, 900), least(7, 300)], [0.0, 0.0], "a daemon, and a child of who is not recorded");
}
