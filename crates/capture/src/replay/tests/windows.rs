//! Blocks and pages of one moment: what a process does while its memory is read.

use super::*;
use crate::footprint::Reading;
use mallow_profile::{Footprint, Mapping, MappingFlags, MappingKind, MemorySizes, ProcessId};

const HEAP: u64 = 0x10_0000;
const OLD: u64 = 0x7f00_0000_0000;
const NEW: u64 = 0x7f00_2000_0000;
const MIB: u64 = 1 << 20;

/// A reading with the heap and these mappings, of so many bytes each.
fn reading(mapped: &[(u64, u64)]) -> Vec<u64> {
    let mapping = |&(start, bytes): &(u64, u64)| Mapping {
        start,
        end: start + bytes,
        kind: if start == HEAP { MappingKind::Heap } else { MappingKind::Anonymous },
        flags: MappingFlags(MappingFlags::READ | MappingFlags::WRITE),
        sizes: MemorySizes { rss: bytes, ..MemorySizes::default() },
        ..Mapping::default()
    };
    let mappings: Vec<Mapping> = [(HEAP, MIB)].iter().chain(mapped).map(mapping).collect();
    let totals = mappings.iter().map(|mapping| mapping.sizes).sum();
    let footprint =
        Footprint { process: ProcessId(0), ms: 7, page_bytes: 4096, totals, mappings, ..Footprint::default() };
    Reading { number: 1, footprint, ..Reading::default() }.to_words()
}

/// The live blocks of a reading that begins after `before`, and ends after `meanwhile`; then the process does the rest.
/// The drain finds all of that in one pass, and what was read in the next one.
fn placed(tapes: &[[Tape; 3]], mapped: &[(u64, u64)]) -> (u64, u64) {
    let profile = replayed(tapes, mapped);
    let [footprint] = &profile.footprints[..] else { panic!("{:?}", profile.footprints) };
    (footprint.live_blocks, footprint.live_bytes)
}

fn replayed(tapes: &[[Tape; 3]], mapped: &[(u64, u64)]) -> Profile {
    let mut replay = started();
    let heads = |parts: usize| -> Vec<u64> {
        let words = |tape: &[Tape; 3]| tape[..parts].iter().map(|part| part.0.len() as u64).sum();
        tapes.iter().map(words).collect()
    };
    for (ring, parts) in tapes.iter().enumerate() {
        let words: Vec<u64> = parts.iter().flat_map(|part| part.0.iter().copied()).collect();
        let (ring, end) = (ring as u32, words.len() as u64);
        replay.feed(&Chunk::Words { process: 0, ring, end, words: &words }).unwrap();
    }
    replay.feed(&Chunk::Round { ms: 8 }).unwrap();
    replay.feed(&Chunk::Reading { process: 0, number: 1, is_end: false, heads: &heads(1) }).unwrap();
    round(&mut replay, 9);
    replay.feed(&Chunk::Reading { process: 0, number: 1, is_end: true, heads: &heads(2) }).unwrap();
    replay.feed(&Chunk::Memory { process: 0, is_last: true, words: &reading(mapped) }).unwrap();
    round(&mut replay, 10);
    profile(replay)
}

fn stack() -> Tape {
    Tape::default().thread(7).time(5).stack(0, &[0x1010])
}

/// A buffer that grows: the old block is copied into the new one, and then unmapped.
#[test]
fn a_block_that_is_freed_after_its_pages_were_read_holds_them() {
    let old = stack().alloc(0, OLD + 16, 16 * MIB, 0);
    let mapped = [(OLD, 17 * MIB), (NEW, 33 * MIB)];
    let new = || Tape::default().alloc(0, NEW + 16, 32 * MIB, 0);
    let free = || Tape::default().free(OLD + 16);
    let both = (2, 48 * MIB);
    assert_eq!(placed(&[[old.clone(), new(), free()]], &mapped), both);
    assert_eq!(placed(&[[old.clone(), new().free(OLD + 16), Tape::default()]], &mapped), both);
    let begun = stack().alloc(0, OLD + 16, 16 * MIB, 0).alloc(0, NEW + 16, 32 * MIB, 0);
    assert_eq!(placed(&[[begun.clone(), Tape::default(), free()]], &mapped), both);
    assert_eq!(placed(&[[begun, free(), Tape::default()]], &mapped), both);
    // As its mappings show, the reading came before the new one, or after the old one.
    assert_eq!(placed(&[[old.clone(), new(), free()]], &mapped[..1]), (1, 16 * MIB));
    assert_eq!(placed(&[[old.clone(), new().free(OLD + 16), Tape::default()]], &mapped[1..]), (1, 32 * MIB));
    // By two threads.
    let other = Tape::default().thread(8).time(5);
    assert_eq!(placed(&[[old.clone(), new(), Tape::default()], [other, free(), Tape::default()]], &mapped), both);
}

/// mremap: one block, wherever it is.
#[test]
fn a_block_that_moves_meanwhile_is_counted_once() {
    let old = || stack().alloc(0, OLD + 16, 16 * MIB, 0);
    let (begin, done) = (|| Tape::default().begin(OLD + 16), || Tape::default().done(NEW + 16, 32 * MIB, 0));
    let moved = || Tape::default().begin(OLD + 16).done(NEW + 16, 32 * MIB, 0);
    for tape in
        [[old(), moved(), Tape::default()], [old(), begin(), done()], [old().begin(OLD + 16), done(), Tape::default()]]
    {
        assert_eq!(placed(std::slice::from_ref(&tape), &[(OLD, 17 * MIB)]), (1, 16 * MIB), "{tape:?}");
        assert_eq!(placed(&[tape], &[(NEW, 33 * MIB)]), (1, 32 * MIB));
    }
    let grown = Tape::default().begin(OLD + 16).done(OLD + 16, 32 * MIB, 0);
    assert_eq!(placed(&[[old(), grown.clone(), Tape::default()]], &[(OLD, 17 * MIB)]), (1, 16 * MIB));
    assert_eq!(placed(&[[old(), grown, Tape::default()]], &[(OLD, 33 * MIB)]), (1, 32 * MIB));
}

/// Blocks of a heap are those of the begin.
#[test]
fn what_comes_and_goes_in_a_heap_is_of_the_begin() {
    let old = stack().alloc(0, HEAP + 0x100, 100, 0).alloc(0, HEAP + 0x200, 200, 0);
    let meanwhile = Tape::default().free(HEAP + 0x100).alloc(0, HEAP + 0x2000, 100_000, 0).free(HEAP + 0x2000);
    let after = Tape::default().free(HEAP + 0x200).alloc(0, HEAP + 0x300, 7, 0);
    assert_eq!(placed(&[[old, meanwhile, after]], &[]), (2, 300));
}

/// A look finds RSS while events before it still wait in rings, and others have come after it.
#[test]
fn a_look_has_the_live_bytes_of_its_moment() {
    let parts = [
        stack().alloc(0, OLD + 16, 16 * MIB, 0),
        Tape::default().alloc(0, NEW + 16, 32 * MIB, 0),
        Tape::default().free(OLD + 16),
    ];
    let mut replay = started();
    let words: Vec<u64> = parts.iter().flat_map(|part| part.0.iter().copied()).collect();
    replay.feed(&Chunk::Words { process: 0, ring: 0, end: words.len() as u64, words: &words }).unwrap();
    for count in 0..=parts.len() {
        let heads = [parts[..count].iter().map(|part| part.0.len() as u64).sum()];
        let (ms, rss) = (6 + count as u64, MIB * (1 + count as u64));
        replay.feed(&Chunk::Rss { process: 0, ms, rss, peak: rss, heads: &heads }).unwrap();
    }
    (0..3).for_each(|_| round(&mut replay, 11));
    let profile = profile(replay);
    let live: Vec<u64> = profile.rss[0].points.iter().map(|point| point.live_bytes / MIB).collect();
    assert_eq!(live, [0, 16, 48, 32]);
}

/// The pages of a reading show which of two blocks are in them: its point of RSS over time has the same live bytes.
#[test]
fn a_moment_has_one_figure_of_live_bytes() {
    let old = stack().alloc(0, OLD + 16, 16 * MIB, 0).alloc(0, NEW + 16, 32 * MIB, 0);
    let profile = replayed(&[[old, Tape::default().free(OLD + 16), Tape::default()]], &[(NEW, 33 * MIB)]);
    let (footprint, points) = (&profile.footprints[0], &profile.rss[0].points);
    assert_eq!(footprint.live_bytes, 32 * MIB);
    let of_reading: Vec<u64> =
        points.iter().filter(|point| point.ms == footprint.ms).map(|point| point.live_bytes).collect();
    assert_eq!(of_reading, [32 * MIB]);
    // What was freed while it was read had been live in the second before.
    assert_eq!(footprint.recent_live.map(|recent| recent.bytes), Some(48 * MIB));
}
