//! Which addresses an allocator manages, by what lies there.

use mallow_profile::{Footprint, HeapKind, HeapMap, KnownHeap, Mapping, MappingFlags, MappingKind, PlacedBlock};
use serde::Serialize;

use super::geometry::{Allocator, BlockMemory, PAGE, chunk, page_of};
use super::owners::{LIBRARY, Owners, Reach, may_be_managed};

/// Kind of memory that an allocator manages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// Addresses that an allocator manages. All that use territories expect them sorted by address and without overlaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Territory {
    pub kind: TerritoryKind,
    /// Index into [`Owners::all`].
    pub owner: usize,
    pub start: u64,
    /// End, exclusive.
    pub end: u64,
    /// Bytes at the beginning that the allocator itself uses.
    pub head: u64,
    /// Range of indices into the heap map's blocks, the end exclusive.
    pub blocks: (usize, usize),
}

/// The heaps of glibc's other arenas begin at multiples of this.
const ARENA: u64 = 64 << 20;
/// Bytes of a thread's cache: a chunk that glibc allocates for itself at the thread's first request.
const THREAD_CACHE: u64 = 0x290;
/// Bytes of `heap_info`, which a heap begins with; in the first one of an arena `malloc_state` follows.
const HEAP_INFO: u64 = 0x30;
const ARENA_STATE: u64 = 0x898;
/// Addresses of Go's own heap, in blocks of the size of arenas.
const GO_HEAP: std::ops::Range<u64> = 0xc0_0000_0000..0xe0_0000_0000;

pub fn territories(footprint: &Footprint, heap: &HeapMap, owners: &Owners) -> Vec<Territory> {
    let mut survey = Survey { heap, owners, all: Vec::new() };
    let same_area = |before: &Mapping, next: &Mapping| {
        let is = |mapping: &Mapping| [MappingKind::Heap, MappingKind::Bss].map(|kind| mapping.kind == kind);
        before.end == next.start && may_be_managed(before) && may_be_managed(next) && is(before) == is(next)
    };
    for area in footprint.mappings.chunk_by(same_area) {
        if may_be_managed(&area[0]) && area.iter().any(|mapping| mapping.has_pages) {
            survey.area(area);
        }
    }
    survey.all.sort_by_key(|territory| territory.start);
    survey.all
}

/// Range of indices of the blocks with addresses in a range.
fn within(blocks: &[PlacedBlock], start: u64, end: u64) -> (usize, usize) {
    let first = |address| blocks.partition_point(|block| block.address < address);
    (first(start), first(end))
}

fn has_rights(mapping: &Mapping) -> bool {
    mapping.flags.0 & (MappingFlags::READ | MappingFlags::WRITE | MappingFlags::EXECUTE) != 0
}

struct Survey<'a> {
    heap: &'a HeapMap,
    owners: &'a Owners,
    all: Vec<Territory>,
}

/// A part of a mapping, or of several neighbours, with its owner.
#[derive(Clone, Copy)]
struct Segment {
    owner: Option<usize>,
    start: u64,
    end: u64,
    blocks: (usize, usize),
    has_pages: bool,
}

impl Survey<'_> {
    /// Finds the territories in neighbouring mappings: what was one mapping until madvise, mprotect or mbind split it,
    /// or several.
    fn area(&mut self, area: &[Mapping]) {
        let (Some(first), Some(last)) = (area.first(), area.last()) else { return };
        let (start, end) = (first.start, last.end);
        if first.kind == MappingKind::Heap && self.owners.heap_is_librarys {
            let head = (THREAD_CACHE + 16).min(end - start);
            let blocks = within(&self.heap.blocks, start, end);
            self.all.push(Territory { kind: TerritoryKind::MainArena, owner: LIBRARY, start, end, head, blocks });
            return;
        }
        let mut from = start;
        if first.kind != MappingKind::Heap && self.owners.has_glibc() {
            let mut at = start.checked_next_multiple_of(ARENA).unwrap_or(u64::MAX);
            while at < end {
                if let Some(arena) = self.arena(area, at) {
                    self.region(area, from, at);
                    self.all.push(arena);
                    from = arena.end;
                }
                at = at.saturating_add(ARENA);
            }
        }
        self.region(area, from, end);
    }

    /// The territory of an arena's heap that begins at `start`, a multiple of its size. Where nobody looked for its
    /// head, it is one if the addresses that are kept for it follow, or it fills them, and its first block is not one
    /// with a mapping of its own.
    fn arena(&self, area: &[Mapping], start: u64) -> Option<Territory> {
        let blocks = &self.heap.blocks;
        let first = area.partition_point(|mapping| mapping.end <= start);
        let whole = start.checked_add(ARENA)?;
        let mut end = start;
        let mut pieces = area.get(first..)?.iter().peekable();
        while let Some(piece) = pieces.next_if(|piece| has_rights(piece) && piece.start < whole) {
            end = piece.end.min(whole);
        }
        let is_kept = end == whole || pieces.peek().is_some_and(|next| next.start == end && next.end >= whole);
        let own = within(blocks, start, end);
        let head = (HEAP_INFO + ARENA_STATE + THREAD_CACHE + 8).min(end - start);
        let kind = TerritoryKind::ThreadArena;
        let found = Territory { kind, owner: LIBRARY, start, end, head, blocks: own };
        // Its head was looked for.
        if let Some(heaps) = &self.heap.heaps {
            let at = heaps.partition_point(|heap| heap.start < start);
            let is_it = |heap: &KnownHeap| heap.start == start && heap.kind == HeapKind::GlibcArena;
            return heaps.get(at).filter(|heap| is_it(heap) && end > start).map(|_| found);
        }
        if end == start || !is_kept {
            return None;
        }
        // A block that reaches into it from before has it within its mapping.
        let before = own.0.checked_sub(1).and_then(|before| blocks.get(before));
        if before.is_some_and(|block| block.address.saturating_add(block.size) > start) {
            return None;
        }
        let is_arena = match blocks.get(own.0).filter(|_| own.0 < own.1) {
            Some(block) => {
                let has_own_mapping = block.address % PAGE == 16 && block.size >= OWN_MAPPING;
                !has_own_mapping && !self.owners.has_foremost() && self.owners.inside(block.site).is_empty()
            }
            // One that has no block any more. A mapping that is as large may be anybody's.
            None => end < whole && !GO_HEAP.contains(&start) && !self.owners.has_foremost(),
        };
        is_arena.then_some(found)
    }

    /// Finds the territories outside of glibc's arenas: glibc's blocks with mappings of their own first, then other
    /// allocators'.
    fn region(&mut self, area: &[Mapping], start: u64, end: u64) {
        let heap = self.heap;
        let (first, last) = within(&heap.blocks, start, end);
        let (mut from, mut rest) = (start, first);
        let mut own: Option<Territory> = None;
        for index in first..last {
            let block = &heap.blocks[index];
            let is_within = own.is_some_and(|own| block.address < own.end);
            let mapping = area.get(area.partition_point(|mapping| mapping.end <= block.address));
            let mapping_start = mapping.map_or(start, |mapping| mapping.start);
            if !is_within && (!self.owners.has_glibc() || self.owners.of_block(block, mapping_start) != LIBRARY) {
                continue;
            }
            let found = chunk(Allocator::Glibc, BlockMemory::OwnMapping, block.address, block.size, None);
            let Some(chunk) = found else { continue };
            let begins = page_of(chunk.start).max(own.map_or(from, |own| own.end));
            let ends = chunk.end.min(end);
            // Blocks of others lie between.
            let follows = own.filter(|own| index == own.blocks.1 && (begins >= ends || own.end == begins));
            if let Some(mut known) = follows {
                known.end = known.end.max(ends);
                known.blocks.1 = index + 1;
                own = Some(known);
            } else if begins < ends {
                if let Some(known) = own.take() {
                    (from, rest) = (known.end, known.blocks.1);
                    self.all.push(known);
                }
                self.rest(area, (from, begins), (rest, index));
                let kind = TerritoryKind::OwnMappings;
                let blocks = (index, index + 1);
                own = Some(Territory { kind, owner: LIBRARY, start: begins, end: ends, head: 0, blocks });
            }
        }
        if let Some(known) = own {
            (from, rest) = (known.end, known.blocks.1);
            self.all.push(known);
        }
        self.rest(area, (from, end), (rest, last));
    }

    /// Finds the territories of other allocators than glibc: an allocator has the mappings that its live blocks lie in.
    /// A mapping without one is nobody's, unless it lies between two of one allocator: naming an owner would be a
    /// guess.
    fn rest(&mut self, area: &[Mapping], (start, end): (u64, u64), (first, last): (usize, usize)) {
        if start >= end || self.owners.is_alone_glibc() {
            return;
        }
        let mut segments: Vec<Segment> = Vec::new();
        let mut next = first;
        let pieces = area.iter().skip(area.partition_point(|mapping| mapping.end <= start));
        for piece in pieces.take_while(|piece| piece.start < end) {
            let bounds = (piece.start.max(start), piece.end.min(end));
            let own_end = within(&self.heap.blocks[..last], bounds.0, bounds.1).1.max(next);
            let before = segments.last().filter(|before| before.end == bounds.0).and_then(|before| {
                let owner = before.owner?;
                let block = before.blocks.1.checked_sub(1).filter(|&last| last >= before.blocks.0)?;
                let block = &self.heap.blocks[block];
                let chunk =
                    chunk(self.owners.all[owner].allocator, BlockMemory::Heap, block.address, block.size, None)?;
                (chunk.end > bounds.0).then_some(owner)
            });
            self.segments(piece, bounds, (next, own_end), before, &mut segments);
            next = own_end;
        }
        join(&mut segments);
        for segment in segments {
            let Segment { owner: Some(owner), start, end, blocks, .. } = segment else { continue };
            self.all.push(Territory { kind: TerritoryKind::Allocator, owner, start, end, head: 0, blocks });
        }
    }

    /// Divides a mapping, or a part of it, by owner. `before` is the owner of the block that reaches into it.
    fn segments(
        &self,
        piece: &Mapping,
        (start, end): (u64, u64),
        (first, last): (usize, usize),
        before: Option<usize>,
        all: &mut Vec<Segment>,
    ) {
        let has_pages = piece.has_pages;
        let mut segment = Segment { owner: before, start, end, blocks: (first, first), has_pages };
        for index in first..last {
            let block = &self.heap.blocks[index];
            let owner = self.owners.of_block(block, piece.start);
            let cut = page_of(block.address);
            match segment.owner {
                Some(known) if known != owner && cut > segment.start => {
                    let (begins, blocks) = (cut, (index, index + 1));
                    all.push(Segment { end: cut, ..segment });
                    segment = Segment { owner: Some(owner), start: begins, end, blocks, has_pages };
                }
                Some(_) => segment.blocks.1 = index + 1,
                None => {
                    segment.owner = Some(owner);
                    segment.blocks.1 = index + 1;
                }
            }
        }
        if segment.owner.is_none() && piece.kind != MappingKind::ThreadStack && has_pages {
            let tables = &self.heap.tables;
            let range = tables.get(tables.partition_point(|range| range.start < start));
            let has_tables = range.is_some_and(|range| range.start < end);
            let of_tables = || self.owners.of_tables().filter(|_| has_tables);
            segment.owner = self.owners.of_name(piece).or_else(of_tables);
            if segment.owner.is_some_and(|owner| self.owners.all[owner].reach == Reach::Unseen) {
                // Blocks that nobody saw may lie beside the tables.
                all.extend(tables[tables.partition_point(|range| range.end <= start)..].iter().map_while(|range| {
                    let (start, end) = (range.start.max(start), range.end.min(end));
                    (start < end).then_some(Segment { start, end, ..segment })
                }));
                return;
            }
        }
        all.push(segment);
    }
}

/// Joins neighbours of one owner, and what lies between two of them without a block.
fn join(segments: &mut Vec<Segment>) {
    for at in 2..segments.len() {
        let (before, middle, after) = (&segments[at - 2], &segments[at - 1], &segments[at]);
        let is_between = middle.owner.is_none() && middle.has_pages && before.owner == after.owner;
        if is_between && before.end == middle.start && middle.end == after.start {
            segments[at - 1].owner = segments[at].owner;
        }
    }
    segments.dedup_by(|next, before| {
        let is_same = next.owner == before.owner && before.end == next.start && next.owner.is_some();
        if is_same {
            before.end = next.end;
            before.blocks.1 = before.blocks.1.max(next.blocks.1);
        }
        is_same
    });
}

/// Least bytes that have a mapping of their own, unless the program has changed that.
const OWN_MAPPING: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_profile::Profile;

    fn mapping(start: u64, end: u64, kind: MappingKind, rights: u32) -> Mapping {
        let flags = MappingFlags(rights);
        Mapping { start, end, kind, flags, has_pages: rights != 0, ..Mapping::default() }
    }

    const WRITABLE: u32 = MappingFlags::READ | MappingFlags::WRITE;

    /// In a process with glibc and these libraries.
    fn found(mut mappings: Vec<Mapping>, blocks: &[(u64, u64)], libraries: &[&str]) -> Vec<Territory> {
        for name in ["/l/libc.so.6"].iter().chain(libraries) {
            let at = mappings.last().map_or(0, |last| last.end) + 0x1000;
            let file = mapping(at, at + 0x1000, MappingKind::FileText, 0);
            mappings.push(Mapping { name: (*name).to_owned(), ..file });
        }
        let footprint = Footprint { mappings, page_bytes: 4096, ..Footprint::default() };
        let block = |&(address, size): &(u64, u64)| PlacedBlock { address, size, site: 0 };
        let blocks = blocks.iter().map(block).collect();
        let heap = HeapMap { blocks, ..HeapMap::default() };
        let owners = Owners::of(&Profile::default(), &footprint, &heap, None);
        territories(&footprint, &heap, &owners)
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
        let all = found(mappings, &[(0x52a0, 8), (arena + 0xc00, 24)], &[]);
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
        let all = found(mappings, &blocks, &[]);
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
        let all = found(mappings, &[(start + 16, size), (start + ARENA + 0x1010, size)], &[]);
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
        let all = found(mappings, &blocks, &[]);
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
        let found = found(mappings(), &blocks, &["/l/libmimalloc.so.2.0"]);
        let own = found.iter().map(|t| (t.kind, t.owner, t.start)).collect::<Vec<_>>();
        assert_eq!(
            own,
            [
                (TerritoryKind::MainArena, 0, 0x5000),
                (TerritoryKind::Allocator, 1, at),
                (TerritoryKind::Allocator, 1, at + 0x2000)
            ]
        );
    }

    const HUGE: u32 = WRITABLE | MappingFlags::HUGE;

    /// What numpy does with arrays of 4 MiB and more: all pages of a block but the first and the last one are advised
    /// to be huge.
    #[test]
    fn a_block_that_madvise_split_is_one() {
        let start = 0x7f12_3450_0000;
        let mappings = || {
            let mut all = Vec::new();
            for array in 0..3 {
                let at = start + array * 0x80_1000;
                all.push(mapping(at, at + 0x1000, MappingKind::Anonymous, WRITABLE));
                all.push(mapping(at + 0x1000, at + 0x80_0000, MappingKind::Anonymous, HUGE));
                all.push(mapping(at + 0x80_0000, at + 0x80_1000, MappingKind::Anonymous, WRITABLE));
            }
            all
        };
        let blocks: Vec<_> = (0..3).map(|array| (start + array * 0x80_1000 + 16, 0x80_0000)).collect();
        let of = |mappings, blocks: &[(u64, u64)], libraries: &[&str]| -> Vec<_> {
            found(mappings, blocks, libraries)
                .iter()
                .map(|t| (t.kind, t.start - start, t.end - start, t.blocks))
                .collect()
        };
        assert_eq!(of(mappings(), &blocks, &[]), [(TerritoryKind::OwnMappings, 0, 3 * 0x80_1000, (0, 3))]);
        // mprotect: a page of the block without any rights, which makes its rest look like a stack behind a guard.
        let mut guarded = mappings();
        guarded[1].flags = MappingFlags(0);
        guarded[2].kind = MappingKind::ThreadStack;
        assert_eq!(of(guarded, &blocks, &[]), [(TerritoryKind::OwnMappings, 0, 3 * 0x80_1000, (0, 3))]);
        // Of another allocator: its blocks, and the page between two of them; but not what follows the last one.
        let blocks: Vec<_> = (0..3).map(|array| (start + array * 0x80_1000 + 0x40, 0x70_0000)).collect();
        let own = (TerritoryKind::Allocator, 0, 2 * 0x80_1000 + 0x80_0000, (0, 3));
        assert_eq!(of(mappings(), &blocks, &["/l/libjemalloc.so.2"]), [own]);
    }

    /// jemalloc's blocks and glibc's with mappings of their own, in one mapping: the kernel joins them.
    #[test]
    fn two_allocators_share_a_mapping() {
        let start = 0x7f12_3450_0000;
        let mappings = vec![mapping(start, start + 0x10_0000, MappingKind::Anonymous, WRITABLE)];
        let blocks = [(start + 0x100, 0x20), (start + 0x4_0010, 0x2_0000), (start + 0x8_0040, 0x1_0000)];
        let all = found(mappings, &blocks, &["/l/libjemalloc.so.2"]);
        let ranges: Vec<_> = all.iter().map(|t| (t.kind, t.owner, t.start - start, t.end - start, t.blocks)).collect();
        let (own, others) = (TerritoryKind::OwnMappings, TerritoryKind::Allocator);
        assert_eq!(
            ranges,
            [
                (others, 1, 0, 0x4_0000, (0, 1)),
                (own, 0, 0x4_0000, 0x6_1000, (1, 2)),
                (others, 1, 0x6_1000, 0x10_0000, (2, 3))
            ]
        );
    }
}
