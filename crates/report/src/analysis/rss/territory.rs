//! Which addresses an allocator manages, by what lies there.

use mallow_profile::{Footprint, HeapMap, Mapping, MappingFlags, MappingKind, PlacedBlock};
use serde::Serialize;

use super::geometry::{Allocator, PAGE, Place, chunk, page_of};

/// What a territory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TerritoryKind {
    /// glibc's first arena, in `[heap]`.
    MainArena,
    /// A heap of one of glibc's other arenas.
    ThreadArena,
    /// Blocks of glibc with mappings of their own.
    OwnMappings,
    /// Mappings of any other allocator.
    Allocator,
}

/// Addresses that an allocator manages. Precondition of all that uses it: territories are by address and do not overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Territory {
    /// What it is.
    pub kind: TerritoryKind,
    /// Its first address.
    pub start: u64,
    /// Past its last.
    pub end: u64,
    /// Bytes at its beginning that the allocator itself uses.
    pub head: u64,
    /// Its blocks, among those of the heap map.
    pub blocks: (usize, usize),
}

/// The heaps of glibc's other arenas begin at multiples of this.
const ARENA: u64 = 64 << 20;
/// The cache of a thread: a chunk that glibc allocates for itself at the thread's first request.
const THREAD_CACHE: u64 = 0x290;
/// What a heap begins with: `heap_info`; the first one of an arena goes on with its `malloc_state`.
const HEAP_INFO: u64 = 0x30;
const ARENA_STATE: u64 = 0x898;
/// Where Go's own heap begins, in blocks of the same size.
const GO_HEAP: std::ops::Range<u64> = 0xc0_0000_0000..0xe0_0000_0000;

/// The territories of the allocators of a process. `allocator` manages all but `[heap]` and glibc's arenas where `beside_glibc` is set:
/// then it is inside of the program, and the C library has its own.
pub fn territories(
    footprint: &Footprint,
    heap: &HeapMap,
    allocator: Allocator,
    beside_glibc: bool,
) -> Vec<(Allocator, Territory)> {
    let blocks = &heap.blocks[..];
    let mut all = Vec::new();
    for (index, mapping) in footprint.mappings.iter().enumerate() {
        let is_managed = matches!(mapping.kind, MappingKind::Heap | MappingKind::Anonymous);
        if !mapping.has_pages || !is_managed {
            continue;
        }
        let inside = within(blocks, mapping.start, mapping.end);
        if allocator == Allocator::Glibc || beside_glibc {
            let next = footprint.mappings.get(index + 1);
            let found = of_glibc(mapping, next, blocks, inside);
            if allocator == Allocator::Glibc
                || found.iter().any(|territory| territory.kind != TerritoryKind::OwnMappings)
            {
                all.extend(found.into_iter().map(|territory| (Allocator::Glibc, territory)));
                continue;
            }
        }
        let has_tables = || {
            let first = heap.tables.partition_point(|range| range.start < mapping.start);
            heap.tables.get(first).is_some_and(|range| range.start < mapping.end)
        };
        if inside.0 < inside.1 || is_named_by(mapping, allocator) || has_tables() {
            let (start, end) = (mapping.start, mapping.end);
            let territory = Territory { kind: TerritoryKind::Allocator, start, end, head: 0, blocks: inside };
            all.push((allocator, territory));
        }
    }
    all
}

/// The blocks with addresses in a range.
fn within(blocks: &[PlacedBlock], start: u64, end: u64) -> (usize, usize) {
    let first = |address| blocks.partition_point(|block| block.address < address);
    (first(start), first(end))
}

/// An allocator that names its mappings, which some kernels show.
fn is_named_by(mapping: &Mapping, allocator: Allocator) -> bool {
    let name = mapping.name.strip_prefix("[anon:").unwrap_or_default();
    allocator.name().is_some_and(|own| name.starts_with(own))
}

fn of_glibc(
    mapping: &Mapping,
    next: Option<&Mapping>,
    blocks: &[PlacedBlock],
    inside: (usize, usize),
) -> Vec<Territory> {
    if mapping.kind == MappingKind::Heap {
        let head = (THREAD_CACHE + 16).min(mapping.end - mapping.start);
        let (start, end) = (mapping.start, mapping.end);
        return vec![Territory { kind: TerritoryKind::MainArena, start, end, head, blocks: inside }];
    }
    let mut found = Vec::new();
    // Mappings next to each other are one: arenas, and blocks with mappings of their own before and after them.
    let mut others_from = mapping.start;
    let mut arena = mapping.start.checked_next_multiple_of(ARENA).unwrap_or(u64::MAX);
    while arena < mapping.end {
        let end = arena.saturating_add(ARENA).min(mapping.end);
        let own = within(&blocks[..inside.1], arena, end);
        // A block that reaches into it from before has it within its mapping.
        let is_within =
            blocks[inside.0..own.0].last().is_some_and(|block| block.address.saturating_add(block.size) > arena);
        if !is_within && is_arena(arena, end, mapping, next, &blocks[own.0..own.1]) {
            found.extend(own_mappings(blocks, within(&blocks[..inside.1], others_from, arena), others_from, arena));
            let head = (HEAP_INFO + ARENA_STATE + THREAD_CACHE + 8).min(end - arena);
            let kind = TerritoryKind::ThreadArena;
            found.push(Territory { kind, start: arena, end, head, blocks: own });
            others_from = end;
        }
        arena = end;
    }
    let rest = within(&blocks[..inside.1], others_from, mapping.end);
    found.extend(own_mappings(blocks, rest, others_from, mapping.end));
    found
}

/// Whether a heap of an arena begins at this multiple of its size: it is followed by the addresses that are kept for it, or fills them,
/// and its first block is not one with a mapping of its own.
fn is_arena(start: u64, end: u64, mapping: &Mapping, next: Option<&Mapping>, blocks: &[PlacedBlock]) -> bool {
    let is_kept = end == start + ARENA
        || next.is_some_and(|next| {
            let usable = MappingFlags::READ | MappingFlags::WRITE | MappingFlags::EXECUTE;
            next.start == end && next.flags.0 & usable == 0 && next.end >= start + ARENA
        });
    match blocks.first() {
        Some(first) => is_kept && !(first.address % PAGE == 16 && first.size >= OWN_MAPPING),
        // One that has no block any more. A mapping that is as large may be anybody's.
        None => is_kept && end < start + ARENA && !GO_HEAP.contains(&mapping.start),
    }
}

/// The least that has a mapping of its own, unless the program has changed that.
const OWN_MAPPING: u64 = 64 << 10;

/// The mappings of blocks that have their own: as far as a block reaches, the rest of a mapping is not glibc's.
fn own_mappings(blocks: &[PlacedBlock], own: (usize, usize), start: u64, end: u64) -> Vec<Territory> {
    let mut all: Vec<Territory> = Vec::new();
    for (index, block) in blocks.iter().enumerate().take(own.1).skip(own.0) {
        let Some(chunk) = chunk(Allocator::Glibc, Place::OwnMapping, block.address, block.size, None) else { continue };
        let from = all.last().map_or(start, |last| last.end).max(page_of(chunk.start));
        let to = chunk.end.min(end);
        match all.last_mut().filter(|last| from >= to || last.end == from) {
            Some(last) => {
                last.end = last.end.max(to);
                last.blocks.1 = index + 1;
            }
            None if from < to => {
                let kind = TerritoryKind::OwnMappings;
                all.push(Territory { kind, start: from, end: to, head: 0, blocks: (index, index + 1) });
            }
            None => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, end: u64, kind: MappingKind, rights: u32) -> Mapping {
        let flags = MappingFlags(rights);
        Mapping { start, end, kind, flags, has_pages: rights != 0, ..Mapping::default() }
    }

    const WRITABLE: u32 = MappingFlags::READ | MappingFlags::WRITE;

    fn found(mappings: Vec<Mapping>, blocks: &[(u64, u64)], allocator: Allocator, beside: bool) -> Vec<Territory> {
        let footprint = Footprint { mappings, page_bytes: 4096, ..Footprint::default() };
        let block = |&(address, size): &(u64, u64)| PlacedBlock { address, size, site: 0 };
        let blocks = blocks.iter().map(block).collect();
        let heap = HeapMap { blocks, ..HeapMap::default() };
        territories(&footprint, &heap, allocator, beside).into_iter().map(|(_, territory)| territory).collect()
    }

    #[test]
    fn arenas_are_known_by_what_is_kept_for_them() {
        let arena = 0x7f00_0000_0000;
        let mappings = vec![
            mapping(0x5000, 0x9000, MappingKind::Heap, WRITABLE),
            mapping(arena, arena + 0x20000, MappingKind::Anonymous, WRITABLE),
            mapping(arena + 0x20000, arena + ARENA, MappingKind::Anonymous, 0),
            mapping(arena + 2 * ARENA, arena + 2 * ARENA + 0x1000, MappingKind::Anonymous, WRITABLE),
        ];
        let all = found(mappings, &[(0x52a0, 8), (arena + 0xc00, 24)], Allocator::Glibc, false);
        let kinds: Vec<_> = all.iter().map(|t| (t.kind, t.start, t.blocks)).collect();
        assert_eq!(
            kinds,
            [(TerritoryKind::MainArena, 0x5000, (0, 1)), (TerritoryKind::ThreadArena, arena, (1, 2))],
            "a mapping without a block is anybody's"
        );
    }

    #[test]
    fn blocks_with_mappings_of_their_own_leave_the_rest_to_others() {
        let start = 0x7f12_3450_0000;
        let mappings = vec![mapping(start, start + 0x10_0000, MappingKind::Anonymous, WRITABLE)];
        let blocks = [(start + 0x1010, 0x2_0000), (start + 0x2_2010, 0x2_0000), (start + 0x8_0010, 0x2_0000)];
        let all = found(mappings, &blocks, Allocator::Glibc, false);
        let ranges: Vec<_> = all.iter().map(|t| (t.kind, t.start - start, t.end - start, t.blocks)).collect();
        assert_eq!(
            ranges,
            [
                (TerritoryKind::OwnMappings, 0x1000, 0x4_3000, (0, 2)),
                (TerritoryKind::OwnMappings, 0x8_0000, 0xa_1000, (2, 3))
            ]
        );
    }

    /// Blocks that are larger than an arena reach over the multiples of its size.
    #[test]
    fn large_blocks_are_no_arenas() {
        let start = 0x7f00_0000_0000 - 0x3000;
        let mappings = vec![mapping(start, start + 3 * ARENA, MappingKind::Anonymous, WRITABLE)];
        let size = ARENA + 0x100;
        let all = found(mappings, &[(start + 16, size), (start + ARENA + 0x1010, size)], Allocator::Glibc, false);
        let ranges: Vec<_> = all.iter().map(|t| (t.kind, t.start - start, t.end - start)).collect();
        assert_eq!(ranges, [(TerritoryKind::OwnMappings, 0, 2 * ARENA + 0x2000)]);
    }

    /// An arena, blocks before it and after it, and a second arena that follows at once: the kernel joins them.
    #[test]
    fn one_mapping_may_hold_all_of_it() {
        let arena = 0x7f00_0000_0000;
        let start = arena - 0x3_0000;
        let mappings = vec![
            mapping(start, arena + ARENA + 0x5000, MappingKind::Anonymous, WRITABLE),
            mapping(arena + ARENA + 0x5000, arena + 2 * ARENA, MappingKind::Anonymous, 0),
        ];
        let blocks = [(start + 16, 0x2_0000), (arena + 0xb60, 100), (arena + ARENA + 0x40, 100)];
        let all = found(mappings, &blocks, Allocator::Glibc, false);
        let ranges: Vec<_> = all.iter().map(|t| (t.kind, t.start, t.end)).collect();
        assert_eq!(
            ranges,
            [
                (TerritoryKind::OwnMappings, start, start + 0x2_1000),
                (TerritoryKind::ThreadArena, arena, arena + ARENA),
                (TerritoryKind::ThreadArena, arena + ARENA, arena + ARENA + 0x5000),
            ]
        );
    }

    #[test]
    fn other_allocators_have_the_mappings_that_hold_their_blocks() {
        let at = 0x7f12_0000_0000;
        let named =
            Mapping { name: "[anon:mimalloc]".into(), ..mapping(at, at + 0x1000, MappingKind::Anonymous, WRITABLE) };
        let mappings = || {
            vec![
                mapping(0x5000, 0x9000, MappingKind::Heap, WRITABLE),
                named.clone(),
                mapping(at + 0x2000, at + 0x3000, MappingKind::Anonymous, WRITABLE),
                mapping(at + 0x4000, at + 0x5000, MappingKind::Anonymous, WRITABLE),
                mapping(at + 0x6000, at + 0x7000, MappingKind::FileData, WRITABLE),
            ]
        };
        let blocks = [(at + 0x2000, 8), (at + 0x6000, 8)];
        let kinds = |beside| -> Vec<_> {
            found(mappings(), &blocks, Allocator::Mimalloc, beside).iter().map(|t| (t.kind, t.start)).collect()
        };
        let own = [(TerritoryKind::Allocator, at), (TerritoryKind::Allocator, at + 0x2000)];
        assert_eq!(kinds(false), own);
        assert_eq!(kinds(true), [&[(TerritoryKind::MainArena, 0x5000)], &own[..]].concat());
    }
}
