//! Profiles from a ledger, through the writer and the reader of pprof.

use mallow_estimates::testing::simulation::sample;
use mallow_formats::{self as formats, pprof};
use mallow_profile::{
    Family, Frame, Process, ProcessId, Profile, Quantity, Release, Sample, SampleEvent, SampleKey, Stacks,
};
use mallow_report::analysis::sampled::{SampleLedger, snapshot};

const SECOND: u64 = 1_000_000_000;

fn tables() -> Profile {
    let mut tables = Profile { command: vec!["server".into()], ..Profile::default() };
    tables.processes.push(Process { pid: 77, executable: "/bin/server".into(), ..Process::default() });
    for address in [0x10, 0x20, 0x30] {
        tables.frames.push(Frame::new(None, address, false));
    }
    tables
}

/// Two samples of 100 B, one of them freed, and one of 3 MiB on another stack.
fn ledger(tables: &mut Profile, process: ProcessId) -> SampleLedger {
    let outer = tables.stacks.push(Stacks::ROOT, mallow_profile::FrameId(0));
    let [small, large] = [1, 2].map(|frame| tables.stacks.push(outer, mallow_profile::FrameId(frame)));
    let mut ledger = SampleLedger::new();
    ledger.track_peak();
    ledger.feed(&SampleEvent::ProcessBegan { process, at_ns: SECOND });
    for (slot, size, stack) in [(0, 100, small), (1, 100, small), (2, 3 << 20, large)] {
        let at_ns = SECOND * (2 + u64::from(slot));
        let of = Sample { process, at_ns, stack, family: Family(0), ..sample(size, 1 << 20) };
        ledger.feed(&SampleEvent::Allocated { key: SampleKey { process, slot, generation: 1 }, sample: of });
    }
    ledger.advance(5 * SECOND);
    let release = Release { thread: 9, at_ns: 6 * SECOND, stack: Stacks::ROOT };
    ledger.feed(&SampleEvent::Freed { key: SampleKey { process, slot: 1, generation: 1 }, release });
    ledger.advance(7 * SECOND);
    ledger
}

#[test]
fn a_snapshot_is_a_profile_that_pprof_carries() {
    let mut tables = tables();
    let ledger = ledger(&mut tables, ProcessId(0));
    let profile = snapshot(&ledger, &tables, 7 * SECOND, 1_000_000);
    // 100 B of a mebibyte: each stands for 10,486.26, one of them live; 3 MiB for 3 / (1 - e^-3).
    let weight = 1.0 / (1.0 - (-100.0f64 / 1_048_576.0).exp());
    let large = (3 << 20) as f64 / (1.0 - (-3.0f64).exp());
    assert_eq!(profile.totals.live_bytes, (100.0 * weight).round() as u64 + large.round() as u64);
    assert_eq!(profile.totals.allocations, (2.0 * weight).round() as u64 + 1);
    assert_eq!(profile.totals.peak_bytes, (200.0 * weight).round() as u64 + large.round() as u64);
    assert_eq!((profile.duration_ms, profile.started_unix_ms), (5000, 995_000));
    assert!(!profile.has(Quantity::Temporary) && profile.has(Quantity::PeakBytes));
    let mut file = Vec::new();
    pprof::write(&profile, &mut file).expect("a file");
    let read = formats::read(&file[..], None, &mut |_| {}).expect("a profile").profile;
    assert_eq!(read.totals.live_bytes, profile.totals.live_bytes);
    assert_eq!(read.totals.allocations, profile.totals.allocations);
    assert_eq!(read.origin.and_then(|o| o.sampled_bytes), Some(1 << 20));
    assert_eq!(read.processes.iter().map(|p| p.pid).collect::<Vec<_>>(), [77]);
}

#[test]
fn sums_of_ended_processes_stay_in_a_snapshot() {
    let mut tables = tables();
    let mut ledger = ledger(&mut tables, ProcessId(0));
    let before = snapshot(&ledger, &tables, 7 * SECOND, 0).totals;
    tables.processes.push(Process { pid: 78, ..Process::default() });
    ledger.feed(&SampleEvent::ProcessEnded { process: ProcessId(0), at_ns: 8 * SECOND });
    assert_eq!(snapshot(&ledger, &tables, 8 * SECOND, 0).totals, before, "the last one's live samples stay");
    ledger.feed(&SampleEvent::ProcessBegan { process: ProcessId(1), at_ns: 9 * SECOND });
    let after = snapshot(&ledger, &tables, 9 * SECOND, 0);
    assert_eq!((after.totals.live, after.totals.allocations), (0, before.allocations));
    assert_eq!(after.sites.iter().map(|site| site.process.0).max(), Some(2));
    assert_eq!(after.processes[2].executable, "(ended)");
}
