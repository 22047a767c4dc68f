//! Small stories, counted by hand.

use mallow_profile::{Block, Call, Event, Moment, ProcessId, Thread};

use super::{LifetimesBuilder, SizesBuilder, ThreadPair, ThreadsBuilder};
use crate::testing::Builder;

fn allocate(size: u64) -> Event {
    Event::Allocate(Call { family: 0, site: 0, size })
}

fn block(sequence: u64, size: u64, ms: u64, thread: u8) -> Block {
    Block { sequence, site: 0, size, ms, thread }
}

#[test]
fn sizes_are_in_buckets_by_powers_of_two() {
    let mut sizes = SizesBuilder::default();
    [0, 1, 2, 3, 4, 7, 8, u64::MAX].map(allocate).iter().for_each(|event| sizes.event(event));
    let grown = Call { family: 2, site: 0, size: 9 };
    sizes.event(&Event::Reallocate { call: grown, old: Some(block(1, 1, 0, 0)), moved: true });
    let sizes = sizes.finish();
    assert_eq!((sizes.allocations, sizes.smallest, sizes.largest), (9, Some(0), Some(u64::MAX)));
    let buckets: Vec<_> = sizes.buckets.iter().filter(|b| b.blocks > 0).map(|b| (b.from, b.to, b.blocks)).collect();
    let top = 1u64 << 63;
    let expected =
        [(0, Some(1), 1), (1, Some(2), 1), (2, Some(4), 2), (4, Some(8), 2), (8, Some(16), 2), (top, None, 1)];
    assert_eq!(buckets, expected);
    assert_eq!(sizes.buckets.len(), 65);
    assert!(SizesBuilder::default().finish().buckets.is_empty());
}

#[test]
fn lifetimes_are_counted_in_time_and_in_allocations() {
    let mut lifetimes = LifetimesBuilder::default();
    let at = |ms| Moment { process: 0, thread: 0, ms };
    lifetimes.event(0, at(0), &allocate(10));
    lifetimes.event(1, at(1), &allocate(20));
    lifetimes.event(2, at(1), &Event::Free(Some(block(1, 20, 1, 0))));
    lifetimes.event(2, at(1), &Event::Free(None));
    lifetimes.event(2, at(5), &allocate(30));
    let call = Call { family: 2, site: 0, size: 40 };
    lifetimes.event(3, at(6), &Event::Reallocate { call, old: Some(block(0, 10, 0, 0)), moved: false });
    let mut b = Builder::default();
    for (process, ms) in [3, 58].into_iter().enumerate() {
        b.process(7, &["a"], 10);
        b.profile.processes[process].table_wait_ms = ms;
    }
    let lifetimes = lifetimes.finish(&b.profile);
    assert_eq!(lifetimes.table_wait_ms, 58);
    assert_eq!((lifetimes.allocations, lifetimes.frees, lifetimes.live), (4, 2, 2));
    assert_eq!((lifetimes.freed_bytes, lifetimes.live_bytes), (30, 70));
    let filled = |all: &[super::Bucket]| -> Vec<_> {
        all.iter().filter(|b| b.blocks > 0).map(|b| (b.from, b.to, b.blocks, b.bytes)).collect()
    };
    assert_eq!(filled(&lifetimes.by_ms), [(0, Some(1), 1, 20), (4, Some(8), 1, 10)]);
    // None between the second block and its free; two between the first and its realloc.
    assert_eq!(filled(&lifetimes.by_allocations), [(0, Some(1), 1, 20), (2, Some(4), 1, 10)]);
}

#[test]
fn threads_have_their_blocks_whoever_frees_them() {
    let mut b = Builder::default();
    b.process(7, &["a"], 10);
    for tid in [7, 8, 0] {
        b.profile.threads.push(Thread { process: ProcessId(0), tid });
    }
    let at = |thread| Moment { process: 0, thread, ms: 0 };
    let mut threads = ThreadsBuilder::new(&b.profile);
    threads.event(0, at(0), &allocate(100));
    threads.event(1, at(1), &allocate(10));
    threads.event(2, at(1), &allocate(10));
    // A number that is filtered out lies between.
    threads.event(4, at(0), &allocate(50));
    threads.event(5, at(1), &Event::Free(Some(block(0, 100, 0, 0))));
    threads.event(5, at(0), &Event::Free(Some(block(4, 50, 0, 0))));
    let call = Call { family: 2, site: 0, size: 30 };
    threads.event(5, at(0), &Event::Reallocate { call, old: Some(block(1, 10, 0, 1)), moved: true });
    threads.event(6, at(1), &Event::UnseenFree(block(2, 10, 0, 1)));
    let report = threads.finish(9);
    let row = |at: usize| {
        let t = &report.threads[at];
        (t.tid, t.allocations, t.allocated_bytes, t.own_peak_bytes, t.frees, t.frees_of_others, t.freed_by_others)
    };
    assert_eq!(row(0), (Some(7), 3, 180, 150, 2, 1, 1));
    assert_eq!(row(1), (Some(8), 2, 20, 20, 1, 1, 1));
    assert_eq!((report.threads_in_all, report.handed_over, report.handed_over_bytes), (2, 2, 110));
    let pair = |allocated_by, freed_by, bytes| ThreadPair {
        pid: 7,
        allocated_by: Some(allocated_by),
        freed_by: Some(freed_by),
        blocks: 1,
        bytes,
    };
    assert_eq!(report.pairs, [pair(7, 8, 100), pair(8, 7, 10)]);
}
