use mallow_profile::{Profile, SampleEvent, StackId};

use super::lines::{arguments, period_of};
use super::{Probes, read};
use crate::FormatError;

fn events(text: &str) -> Result<(Probes, Vec<SampleEvent>), FormatError> {
    let mut events = Vec::new();
    let probes = read(text.as_bytes(), None, 4096, &mut |_| {}, &mut |event| events.push(event))?;
    Ok((probes, events))
}

fn names(profile: &Profile, stack: StackId) -> Vec<&str> {
    let frames = profile.stacks.frames(stack).map(|frame| &profile.frames[frame.0 as usize]);
    frames.map(|frame| frame.lines.first().map_or("?", |line| profile.strings.get(line.function))).collect()
}

const SCRIPT: &str = "\
redis-server  4711/4712 [001]   17.602282: sdt_mallow:malloc: (7f5c3d00) arg1=362 arg2=139998753980416 arg3=22605
\t    7f5c3d00 probe_allocation+0x20 (inlined)
\t    7f5c3d00 malloc+0x20 (/home/me/libmallow.so)
\t    55d0c3a1 zmalloc+0x11 (/usr/bin/redis-server)
\t    55d0c3ff [unknown] (/usr/bin/redis-server)

swapper     0 [000]   17.7: sched:sched_switch: prev_comm=swapper
\t    ffffffff schedule+0x20 ([kernel.kallsyms])

io thread  4711/4713 [000]   18.000001: sdt_mallow:free_1: (7f5c3d11) arg1=362 arg2=139998753980416 arg3=22605
\t    55d0c4a1 zfree (/usr/bin/redis-server)

child  4800/4800 [000]   18.5: sdt_mallow:calloc: (7f) arg1=2 arg2=50 arg3=7 arg4=0x1000 arg5=100
child  4800/4800 [000]   18.6: sdt_mallow:realloc_from_tracked: (7f) arg1=7 arg2=4096 arg3=100 arg4=8 arg5=8192 arg6=200
child  4800/4800 [000]   18.7: sdt_mallow:realloc_to_regular: (7f) arg1=8 arg2=8192 arg3=200 arg4=5 arg5=300
child  4800/4800 [000]   18.8: sdt_mallow:free: (7f) arg1=9 arg2=999 arg3=1
";

#[test]
fn perf_script_has_allocations_and_how_they_ended() {
    let (probes, events) = events(SCRIPT).expect("a text of perf script");
    assert_eq!((probes.events, probes.unseen, probes.damaged), (6, 1, 0));
    assert_eq!(probes.end_ns, 18_800_000_000);
    let pids: Vec<_> = probes.profile.processes.iter().map(|p| (p.pid, p.executable.as_str())).collect();
    assert_eq!(pids, [(4711, "redis-server"), (4800, "child")]);
    let mut kinds = Vec::new();
    for event in &events {
        kinds.push(match event {
            SampleEvent::ProcessBegan { process, .. } => format!("began {}", process.0),
            SampleEvent::Allocated { key, sample } => {
                let stack = names(&probes.profile, sample.stack).join(" ");
                format!("allocated {} {} {} {stack}", key.generation, sample.thread, sample.size)
            }
            SampleEvent::Freed { key, release } => {
                let stack = names(&probes.profile, release.stack).join(" ");
                format!("freed {} {} {stack}", key.generation, release.thread)
            }
            SampleEvent::Reallocated { key, size, .. } => format!("reallocated {} {size}", key.generation),
            other => format!("{other:?}"),
        });
    }
    assert_eq!(
        kinds,
        [
            "began 0",
            "allocated 1 4712 22605 zmalloc ?",
            "freed 1 4713 zfree",
            "began 1",
            "allocated 2 4800 100 ",
            "reallocated 2 200",
            "allocated 3 4800 200 ",
            "reallocated 3 300",
        ]
    );
}

#[test]
fn perf_trace_and_libpoireau_read_alike() {
    let text = "\
 17602.282 coronerd/0/15464 sdt_libpoireau:malloc(__probe_ip: 140369085100327, arg1: 362, arg2: 139998753980416, arg3: 22605)
                                   sampled_malloc (/home/x/libpoireau.so)
                                   string_create (/opt/coronerd)
                                   [0] ([unknown])
 17605.033 coronerd/0/15464 sdt_libpoireau:free(__probe_ip: 14, arg1: 362, arg2: 139998753980416, arg3: 22605)
";
    let (probes, events) = events(text).expect("a text of perf trace");
    let [_, SampleEvent::Allocated { sample, .. }, SampleEvent::Freed { .. }] = events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((sample.at_ns, sample.thread, sample.size), (17_602_282_000, 15_464, 22_605));
    // What lies in no file is no caller.
    assert_eq!(names(&probes.profile, sample.stack), ["string_create"]);
    assert!(probes.profile.stacks.is_cut(sample.stack));
    assert!(probes.remarks[0].contains("no process ids"), "{:?}", probes.remarks);
}

/// As examples/probes.bt has bpftrace write them, of a program without frame pointers.
#[test]
fn bpftrace_strays_and_its_stacks_are_cut() {
    let event = |at: u64, stray: &str| {
        format!(
            "server 7/9 38730.93314{at}: mallow:malloc: arg1={at} arg2={} arg3=100\n\t7f1aa7e187a0 probe+32 (/x/libmallow-0.so)\n\
             \t55ef14b4eaa0 keep+52 (/x/server)\n\t{stray} 0x{stray} ([unknown])\n\ta031 0xa031 ([unknown])\n\n",
            4096 * at
        )
    };
    let (probes, events) = events(&(event(1, "7c4200000001") + &event(2, "55ef14a72e10"))).unwrap();
    assert_eq!((probes.events, probes.damaged, probes.profile.processes[0].pid), (2, 0, 7));
    let stacks: Vec<StackId> = events
        .iter()
        .filter_map(|event| match event {
            SampleEvent::Allocated { sample, .. } => Some(sample.stack),
            _ => None,
        })
        .collect();
    assert_eq!((stacks.len(), stacks[0]), (2, stacks[1]));
    assert_eq!(names(&probes.profile, stacks[0]), ["keep"]);
    assert!(probes.profile.stacks.is_cut(stacks[0]));
}

#[test]
fn open_telemetrys_events_have_a_weight() {
    let text = "\
x 1/1 [0] 1.0: sdt_otel_memory:alloc: (7f) arg1=4096 arg2=1000 arg3=100501
x 1/1 [0] 1.1: sdt_mallow:malloc: (7f) arg1=1 arg2=4096 arg3=1000
x 1/1 [0] 1.2: sdt_otel_memory:free: (7f) arg1=4096
";
    let (probes, events) = events(text).expect("a text");
    let [_, SampleEvent::Allocated { sample, .. }, SampleEvent::Freed { .. }] = events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((sample.size, sample.period), (1000, 100_000));
    assert!(probes.remarks[0].contains("two kinds"), "{:?}", probes.remarks);
    for (size, period) in [(1, 1 << 19), (1 << 19, 1 << 19), (1 << 22, 1 << 19)] {
        let weight = size as f64 / (1.0 - (-(size as f64) / period as f64).exp());
        let found = period_of(size, weight.round() as u64);
        assert!(found.abs_diff(period) <= period / 50, "{size}: {found} and not {period}");
    }
    assert_eq!(period_of(5, 5), 1);
}

#[test]
fn other_text_is_refused_in_one_line() {
    for (text, expected) in [
        ("", "is empty"),
        ("hello\n", "has no event of mallow's probes"),
        ("x 1/1 [0] 1.0: sdt_mallow:malloc: (7f) arg1=1\n", "none with its arguments"),
        ("x 1/1 [0] 1.0: sdt_mallow:malloc: (7f) arg1=1 arg2=0 arg3=5\n", "none with its arguments"),
        ("x 1/1 [0] 99999999999999999999.0: sdt_mallow:free: (7f) arg1=1 arg2=5 arg3=5\n", "none with its arguments"),
    ] {
        let error = events(text).map(|(probes, _)| probes.events).unwrap_err().to_string();
        assert!(error.contains(expected) || text.is_empty(), "{text:?}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    assert_eq!(arguments("arg1=1 arg3=3"), [1]);
    assert_eq!(arguments("__probe_ip: 7, arg1: 0xff, arg2: -1"), [255, u64::MAX]);
}

/// Cut anywhere, it is read up to there.
#[test]
fn a_text_that_was_cut_is_no_panic() {
    for end in 0..SCRIPT.len() {
        let _ = events(&SCRIPT[..end]);
    }
}
