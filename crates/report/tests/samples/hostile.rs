//! A ledger that is fed nonsense: nothing panics, hangs or grows, and its figures are numbers.

use mallow_profile::{
    Family, Frame, FrameId, Lost, ProcessId, Profile, Release, Sample, SampleEvent, SampleKey, StackId, Stacks,
};
use mallow_report::analysis::sampled::{Estimate, SampleLedger, snapshot};
use proptest::prelude::*;

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), 0..5000u64, any::<u64>(), 0..200_000_000_000u64]
}

fn key() -> impl Strategy<Value = SampleKey> {
    (0..4u32, prop_oneof![0..6u32, any::<u32>()], 0..3u32).prop_map(|(process, slot, generation)| SampleKey {
        process: ProcessId(process),
        slot,
        generation,
    })
}

fn event() -> impl Strategy<Value = SampleEvent> {
    let sample = (key(), number(), number(), number(), 0..6u32, any::<u8>()).prop_map(
        |(key, size, period, at_ns, stack, family)| {
            let (process, stack) = (key.process, StackId(stack));
            let sample =
                Sample { process, thread: stack.0, family: Family(family), size, period, address: size, at_ns, stack };
            SampleEvent::Allocated { key, sample }
        },
    );
    let release = || (0..3u32, number()).prop_map(|(thread, at_ns)| Release { thread, at_ns, stack: Stacks::ROOT });
    prop_oneof![
        6 => sample,
        3 => (key(), release()).prop_map(|(key, release)| SampleEvent::Freed { key, release }),
        1 => (key(), release(), number())
            .prop_map(|(key, release, size)| SampleEvent::Reallocated { key, release, size }),
        1 => (key(), number(), number())
            .prop_map(|(key, after_ns, before_ns)| SampleEvent::Gone { key, after_ns, before_ns }),
        1 => (0..4u32, number())
            .prop_map(|(process, at_ns)| SampleEvent::ProcessBegan { process: ProcessId(process), at_ns }),
        1 => (0..4u32, number())
            .prop_map(|(process, at_ns)| SampleEvent::ProcessEnded { process: ProcessId(process), at_ns }),
        1 => number().prop_map(|events| {
            SampleEvent::Lost { process: Some(ProcessId(0)), lost: Lost { events, ..Lost::default() } }
        }),
    ]
}

fn is_sane(estimate: Estimate) -> bool {
    let limits = estimate.interval().unwrap_or((0.0, 0.0));
    estimate.value.is_finite() && limits.0.is_finite() && limits.1.is_finite() && limits.0 <= limits.1
}

/// The stacks that the events name.
fn tables() -> Profile {
    let mut tables = Profile::default();
    for address in 0..4 {
        tables.stacks.push(Stacks::ROOT, FrameId(tables.frames.len() as u32));
        tables.frames.push(Frame::new(None, address, false));
    }
    tables
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn nonsense_is_data(rounds in prop::collection::vec((prop::collection::vec(event(), 0..60), number()), 1..6)) {
        let mut ledger = SampleLedger::new();
        ledger.track_peak();
        for (events, now_ns) in rounds {
            for event in &events {
                ledger.feed(event);
            }
            ledger.advance(now_ns);
            let (blocks, bytes) = ledger.heap();
            prop_assert!(is_sane(blocks) && is_sane(bytes), "{blocks:?} {bytes:?}");
            let stacks: Vec<_> = ledger.stacks().collect();
            let site = ledger.site(&stacks);
            for estimate in [
                site.live,
                site.live_bytes,
                site.allocations,
                site.allocated_bytes,
                site.freed_bytes,
                site.freed_by_others,
                site.byte_seconds,
                site.growth.bytes_per_hour,
            ] {
                prop_assert!(is_sane(estimate), "{site:?}");
            }
            prop_assert!((0.0..=1.0).contains(&site.growth.chance), "{:?}", site.growth);
            let _ = ledger.findings();
            let profile = snapshot(&ledger, &tables(), now_ns, 0);
            prop_assert_eq!(profile.check(), Ok(()));
            prop_assert_eq!(profile.totals.live > 0, ledger.live().count() > 0);
        }
    }
}
