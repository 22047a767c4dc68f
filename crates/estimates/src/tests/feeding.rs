//! Events in an order that nobody would choose, and more of them than are kept.

use mallow_profile::{Family, ProcessId, Release, Sample, SampleEvent, SampleKey, StackId, Stacks};

use crate::{SampleLedger, Verdict};

/// New stacks for ever, and processes by the thousand: what is kept stays bounded, and the sums are right.
#[test]
fn stacks_and_processes_without_end() {
    let mut ledger = SampleLedger::new();
    let second = 1_000_000_000;
    for process in 0..200 {
        let id = ProcessId(process);
        let at_ns = second * u64::from(process + 1);
        ledger.feed(&SampleEvent::ProcessBegan { process: id, at_ns });
        for slot in 0..500 {
            let key = SampleKey { process: id, slot: slot % 7, generation: slot };
            let stack = StackId(process * 500 + slot);
            let sample = Sample {
                process: id,
                thread: 1,
                family: Family(0),
                size: 1 << 30,
                period: 4096,
                address: 0,
                at_ns,
                stack,
            };
            ledger.feed(&SampleEvent::Allocated { key, sample });
            if slot % 100 != 99 {
                ledger.feed(&SampleEvent::Freed { key, release: Release { thread: 1, at_ns, stack: Stacks::ROOT } });
            }
        }
        ledger.advance(at_ns);
        ledger.feed(&SampleEvent::ProcessEnded { process: id, at_ns });
        assert!(ledger.stacks().count() <= 20_000, "{}", ledger.stacks().count());
    }
    assert_eq!(ledger.recent().count(), 1000);
    let (folded, bytes) = ledger.folded();
    let stacks: Vec<_> = ledger.stacks().collect();
    let kept = ledger.site(&stacks).allocated_bytes;
    assert_eq!(folded as usize + stacks.len(), 100_000);
    assert_eq!(bytes.value + kept.value, 100_000.0 * (1u64 << 30) as f64);
}

/// A reader looks at slots first, and then at what ended in between.
#[test]
fn a_sample_that_is_reported_late_does_not_take_the_place_of_the_live_one() {
    let mut ledger = SampleLedger::new();
    let process = ProcessId(0);
    ledger.feed(&SampleEvent::ProcessBegan { process, at_ns: 0 });
    let report = |ledger: &mut SampleLedger, generation: u32, freed: bool| {
        let key = SampleKey { process, slot: 3, generation };
        let at_ns = u64::from(generation);
        let (stack, family) = (StackId(generation), Family(0));
        let sample = Sample { process, thread: 1, family, size: 100, period: 4096, address: 0, at_ns, stack };
        ledger.feed(&SampleEvent::Allocated { key, sample });
        if freed {
            ledger.feed(&SampleEvent::Freed { key, release: Release { thread: 1, at_ns: at_ns + 1, stack } });
        }
    };
    report(&mut ledger, 9, false);
    for generation in [6, 7, 8] {
        report(&mut ledger, generation, true);
    }
    ledger.advance(20);
    assert_eq!(ledger.live().map(|(key, _)| key.generation).collect::<Vec<_>>(), [9]);
    assert_eq!(ledger.recent().map(|ended| ended.key.generation).collect::<Vec<_>>(), [6, 7, 8]);
    assert_eq!(ledger.heap().1.samples, 1);
}

/// Of a slot that is taken again between two looks, the new sample is reported before the end of the old one. A ring of
/// 60 blocks that is full after 30 s does not grow, whether its ends are reported, come late as gone, or never come.
#[test]
fn a_block_whose_slot_was_taken_again_has_ended() {
    let (process, second) = (ProcessId(0), 1_000_000_000);
    for reports in ["freed", "gone", "nothing"] {
        let mut ledger = SampleLedger::new();
        ledger.feed(&SampleEvent::ProcessBegan { process, at_ns: 0 });
        for n in 0..160u32 {
            let at_ns = u64::from(n) * second / 2;
            let key = |n: u32| SampleKey { process, slot: n % 60, generation: n / 60 };
            let (stack, family) = (StackId(1), Family(0));
            let sample = Sample { process, thread: 1, family, size: 3000, period: 1, address: 0, at_ns, stack };
            ledger.feed(&SampleEvent::Allocated { key: key(n), sample });
            if let Some(old) = n.checked_sub(60).map(key) {
                let release = Release { thread: 1, at_ns, stack: Stacks::ROOT };
                match reports {
                    "freed" => ledger.feed(&SampleEvent::Freed { key: old, release }),
                    "gone" => {
                        ledger.feed(&SampleEvent::Gone { key: old, after_ns: at_ns - second / 2, before_ns: at_ns })
                    }
                    _ => {}
                }
            }
            ledger.advance(at_ns);
        }
        let site = ledger.site(&[StackId(1)]);
        // Nobody knows of the last 60 that they ended, where nothing says it.
        let ended = if reports == "nothing" { 40.0 } else { 100.0 };
        assert_eq!(site.freed_bytes.value, ended * 3000.0, "{reports}");
        assert!(reports == "nothing" || site.growth.verdict < Verdict::SoFar, "{reports}: {:?}", site.growth);
    }
}
