//! What a pass over the territories of a process adds up to.

use std::collections::BTreeMap;

use mallow_profile::{
    Footprint, HeapKind, HeapMap, KnownHeap, Mapping, MappingKind, Process, ProcessId, Profile, StackId, StringId,
};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::geometry::{Allocator, PAGE, page_after, page_of};
use super::large::{LARGE, LargeBlocks};
use super::owners::{Owner, Owners, Reach, may_be_managed};
use super::pools::{Pinning, Pools, least_worth};
use super::residency::Residency;
use super::sweep::{ALLOCATORS_OWN, BlockBytes, CACHED, Found, FreeAt, Sweep, is_cached, locked};
use super::territory::{Territory, TerritoryKind, territories};
use crate::analysis::stacks::functions::{FunctionId, Functions, Named};

/// Sums over the memory of an allocator, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeapSums {
    /// Requested bytes of blocks in the allocator's memory.
    pub live_bytes: u64,
    /// Usable bytes of live blocks that were not requested.
    pub rounding_bytes: u64,
    /// Bytes of headers, and of what else the allocator is known to use.
    pub allocator_bytes: u64,
    /// Bytes of live blocks, rounding and headers that were never touched.
    pub never_touched_bytes: u64,
    /// Bytes of live blocks, rounding and headers that are in swap.
    pub swapped_bytes: u64,
    /// Free bytes in pages that live blocks pin.
    pub holes_bytes: u64,
    /// Free bytes in pages without a live block.
    pub free_bytes: u64,
    /// Bytes of freed blocks that threads keep for their next requests.
    pub cached_bytes: u64,
}

/// Sums over the live blocks of a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceSums {
    /// Number of live blocks.
    pub live: u64,
    /// Requested bytes.
    pub live_bytes: u64,
    /// Requested bytes that are in memory.
    pub resident_bytes: u64,
    /// Bytes in memory that the blocks take: requested, rounding and headers.
    pub taken_bytes: u64,
    /// Usable bytes that were not requested.
    pub rounding_bytes: u64,
    /// Share of the free bytes in pages that the blocks pin, by the bytes of all blocks there.
    pub holes_bytes: u64,
    /// Free bytes in pages that these blocks alone pin.
    pub alone_bytes: u64,
    /// Number of pages that have both a block of the place and free bytes.
    pub pinned_pages: u64,
}

/// A line of a function of the program's own.
pub struct PlaceEntry {
    /// What the place's sites are named by.
    pub named: Option<Named>,
    pub sums: PlaceSums,
    /// Number of the place's sites with live blocks.
    pub sites: u64,
    /// Most live bytes of a site, and that site's stack.
    pub largest: (u64, StackId),
}

/// Sums over the blocks of one usable size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSums {
    pub live: u64,
    pub live_bytes: u64,
    /// Usable bytes that were not requested.
    pub rounding_bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct OwnerSums {
    /// Sums of the allocator's territories.
    pub sums: HeapSums,
    /// Whether usable sizes are known, so that no rounding is hidden in holes.
    pub knows_classes: bool,
}

/// Sums over an arena of glibc, or over all mappings of another allocator.
#[derive(Clone, Copy, Debug)]
pub struct ArenaSums {
    pub kind: TerritoryKind,
    /// Index into [`Owners::all`].
    pub owner: usize,
    pub resident: u64,
    /// Resident bytes of live blocks, with rounding and headers.
    pub used: u64,
    /// Free bytes in pages that live blocks pin.
    pub holes: u64,
    /// Resident bytes of pages between live blocks.
    pub between: u64,
    /// Resident bytes of pages behind the last live block.
    pub top: u64,
    /// Resident bytes of pages in territories without live blocks.
    pub unused: u64,
    /// Free bytes in pages that only blocks in threads' caches pin.
    pub beside_cached: u64,
    /// Bytes that `malloc_trim` would give back: whole pages of the gaps between blocks.
    pub trim_between: u64,
    /// Part of `trim_between` that is locked in memory, so that it gives nothing back.
    pub trim_locked: u64,
    /// Part of `trim_between` in gaps where a block that the program calls large may have lain.
    pub trim_large: u64,
    /// Bytes that `malloc_trim` would give back at the end of the arena.
    pub trim_top: u64,
}

pub struct RssLedger<'a> {
    pub functions: Functions<'a>,
    pub owners: Owners,
    /// Indexed as [`Owners::all`].
    pub by_owner: Vec<OwnerSums>,
    /// Sums of all territories.
    pub sums: HeapSums,
    /// Sums by place; [`Pools`] and pins have indices of them.
    pub places: Vec<PlaceEntry>,
    /// Sums by usable size.
    pub classes: BTreeMap<u64, ClassSums>,
    /// One for each territory of glibc's, and one for each other allocator.
    pub arenas: Vec<ArenaSums>,
    /// Resident bytes of stacks that are in a territory: blocks that the program made stacks of.
    pub managed_stacks: u64,
    /// Resident bytes of heaps that their contents name, but for what an allocator manages.
    pub runtimes: Vec<(HeapKind, u64)>,
    /// Bytes in use in CPython's pools, by the pools' own counts.
    pub pymalloc_used: u64,
    /// Indices of the mappings of threads' stacks that no allocator manages.
    pub stacks: Vec<usize>,
    /// An estimate of the bytes of zeros in huge pages that the process asked for.
    pub huge_zeros: u64,
    /// Effects of blocks with mappings of their own on glibc. Thresholds rose only where the environment does not fix
    /// them.
    pub large: LargeBlocks,
    /// Mappings with pages in memory that are in no territory: index of the mapping, and bytes.
    pub others: Vec<(usize, u64)>,
    /// `.bss` of files in recordings that have no mappings of that kind: what lies right behind a file's data. Index of
    /// the mapping, and bytes.
    pub unnamed_bss: Vec<(usize, u64)>,
    /// Resident bytes of `.bss` that are in a territory: an allocator has its memory in a static array.
    pub managed_bss: u64,
    /// Blocks in no territory: where no pages were read, or in no mapping at all.
    pub elsewhere: ClassSums,
    pub pools: Pools,
    /// Whether it is known where jemalloc keeps its tables.
    pub knows_tables: bool,
    /// Whether the caches of all threads are known.
    pub knows_caches: bool,
    /// Whether there are blocks that the recording does not know: pages without known blocks may hold those.
    pub older_blocks: bool,
}

type Key = Option<(FunctionId, Option<StringId>, u32)>;

impl<'a> RssLedger<'a> {
    /// Divides a footprint by its pages and blocks.
    pub fn of(profile: &'a Profile, footprint: &Footprint, heap: &HeapMap) -> Self {
        let functions = Functions::new(profile);
        let (site_places, places) = places(profile, footprint.process, heap, &functions);
        let process = profile.processes.get(footprint.process.0 as usize);
        let owners = Owners::of(profile, footprint, heap, process);
        let classes = profile.size_classes.iter().find(|classes| classes.process == footprint.process);
        let residency = Residency::new(&heap.pages, footprint.page_bytes);
        let of_owner = |owner: &Owner| {
            let is_asked = classes.is_some() && owner.reach == Reach::Everywhere;
            OwnerSums { knows_classes: owner.allocator != Allocator::Unknown || is_asked, ..OwnerSums::default() }
        };
        let large = LargeBlocks::of(profile, footprint, heap, &owners);
        let mut it = Self {
            functions,
            by_owner: owners.all.iter().map(of_owner).collect(),
            owners: owners.clone(),
            sums: HeapSums::default(),
            places,
            classes: BTreeMap::new(),
            arenas: Vec::new(),
            managed_stacks: 0,
            runtimes: Vec::new(),
            pymalloc_used: pymalloc_used(heap),
            stacks: Vec::new(),
            huge_zeros: heap.huge_zeros,
            large: LargeBlocks { rose: large.rose && !footprint.fixes_thresholds, ..large },
            others: Vec::new(),
            unnamed_bss: Vec::new(),
            managed_bss: 0,
            elsewhere: ClassSums::default(),
            pools: Pools::default(),
            knows_tables: !heap.tables.is_empty(),
            knows_caches: heap.caches.is_complete,
            older_blocks: process.is_some_and(Process::has_older_blocks),
        };
        let all = territories(footprint, heap, &owners);
        let locked = locked(footprint);
        let sweep =
            Sweep { residency: &residency, heap, classes, places: &site_places, owners: &owners, locked: &locked };
        for territory in &all {
            it.add(&sweep, territory);
        }
        it.sums = it.by_owner.iter().map(|one| one.sums).fold(HeapSums::default(), HeapSums::plus);
        it.add_elsewhere(heap, &all);
        let heaps = runtime_heaps(footprint, heap, &residency, &all, it.older_blocks);
        for kind in HeapKind::ALL {
            let bytes: u64 = heaps.iter().filter(|(heap, _)| heap.kind == kind).map(|(_, bytes)| bytes).sum();
            it.runtimes.extend((bytes > 0).then_some((kind, bytes)));
        }
        it.add_others(footprint, &residency, &all, &heaps);
        let least = least_worth(footprint);
        let pinning = |place: &PlaceEntry| Pinning { named: place.named, holes: place.sums.holes_bytes };
        let pinning: Vec<Pinning> = it.places.iter().map(pinning).collect();
        it.pools = Pools::of(profile, footprint.process, &it.functions, &pinning, &sweep, &all, least);
        it
    }

    /// Resident bytes of older blocks of glibc with mappings of their own.
    pub fn older_mapped(&self) -> u64 {
        self.bytes_of(HeapKind::GlibcBlock)
    }

    /// Bytes of pages that were unmapped while they were read, and that no block explains.
    pub fn unmapped(&self) -> u64 {
        self.bytes_of(HeapKind::Unmapped)
    }

    fn bytes_of(&self, kind: HeapKind) -> u64 {
        self.runtimes.iter().filter(|(of, _)| *of == kind).map(|(_, bytes)| bytes).sum()
    }

    fn add(&mut self, sweep: &Sweep<'_>, territory: &Territory) {
        let resident = sweep.residency.resident(territory.start, territory.end);
        let kind = territory.kind;
        let mut sums = HeapSums::default();
        let mut arena = ArenaSums {
            kind,
            owner: territory.owner,
            resident,
            used: 0,
            holes: 0,
            between: 0,
            top: 0,
            unused: 0,
            beside_cached: 0,
            trim_between: 0,
            trim_locked: 0,
            trim_large: 0,
            trim_top: 0,
        };
        sweep.territory(territory, &mut |found| match found {
            Found::Block(index, bytes) => {
                let block = sweep.heap.blocks.get(index).map(|block| (block.site, block.size));
                sums.block(&bytes);
                if block.is_some() {
                    self.block(block.and_then(|(site, _)| sweep.places.get(site as usize)), &bytes);
                }
                arena.used += bytes.resident();
            }
            Found::Unit { resident, used, cached, pins, start, end } => {
                let free = resident - used - cached;
                sums.cached_bytes += cached;
                if is_cached(pins) {
                    sums.free_bytes += free;
                    arena.beside_cached += free;
                } else {
                    arena.holes += free;
                    self.unit(free, (end - start) / PAGE, pins);
                }
            }
            Found::Free { resident, at, .. } => {
                sums.free_bytes += resident;
                *match at {
                    FreeAt::Between => &mut arena.between,
                    FreeAt::Top => &mut arena.top,
                    FreeAt::Unused => &mut arena.unused,
                } += resident;
            }
            Found::Gap { start, end, is_top: false } => {
                if let Some((from, to)) = trimmed(start, end) {
                    let resident = sweep.residency.resident(from, to);
                    arena.trim_between += resident;
                    let locked = sweep.locked.iter().map(|&(first, last)| (from.max(first), to.min(last)));
                    arena.trim_locked += locked.map(|(from, to)| sweep.residency.resident(from, to)).sum::<u64>();
                    arena.trim_large += if end - start >= LARGE { resident } else { 0 };
                }
            }
            Found::Gap { start, end, is_top: true } => {
                if let Some(from) = start.checked_add(25).and_then(page_after) {
                    arena.trim_top += sweep.residency.resident(from, end);
                }
            }
        });
        sums.holes_bytes += arena.holes;
        if let Some(own) = self.by_owner.get_mut(territory.owner) {
            own.sums = own.sums.plus(sums);
        }
        let is_same = |known: &&mut ArenaSums| known.kind == kind && known.owner == territory.owner;
        match self.arenas.iter_mut().find(is_same).filter(|_| kind != TerritoryKind::ThreadArena) {
            Some(known) => known.add(&arena),
            None => self.arenas.push(arena),
        }
    }

    fn block(&mut self, place: Option<&u32>, bytes: &BlockBytes) {
        let class = self.classes.entry(bytes.requested.saturating_add(bytes.rounding)).or_default();
        class.live += 1;
        class.live_bytes = class.live_bytes.saturating_add(bytes.requested);
        class.rounding_bytes += bytes.rounding;
        if let Some(entry) = place.and_then(|&place| self.places.get_mut(place as usize)) {
            entry.sums.live += 1;
            entry.sums.live_bytes = entry.sums.live_bytes.saturating_add(bytes.requested);
            entry.sums.resident_bytes += bytes.requested_resident;
            entry.sums.taken_bytes += bytes.resident();
            entry.sums.rounding_bytes += bytes.rounding;
        }
    }

    /// Divides free bytes among those that pin them, by the bytes of each; the last one gets what the division leaves
    /// over.
    fn unit(&mut self, free: u64, pages: u64, pins: &[(u32, u64)]) {
        if free == 0 {
            return;
        }
        let of_program = || pins.iter().filter(|(place, _)| *place < CACHED);
        let all: u64 = of_program().map(|(_, bytes)| bytes).sum();
        let count = of_program().count();
        let mut left = free;
        for (number, &(place, bytes)) in of_program().enumerate() {
            let share = (u128::from(free) * u128::from(bytes) / u128::from(all.max(1))) as u64;
            let share = if number + 1 == count { left } else { share };
            left -= share;
            if let Some(entry) = self.places.get_mut(place as usize) {
                entry.sums.holes_bytes += share;
                entry.sums.pinned_pages += pages;
                if pins.len() == 1 {
                    entry.sums.alone_bytes += free;
                }
            }
        }
    }

    fn add_elsewhere(&mut self, heap: &HeapMap, all: &[Territory]) {
        let placed: usize = all.iter().map(|territory| territory.blocks.1 - territory.blocks.0).sum();
        self.elsewhere.live = heap.blocks.len().saturating_sub(placed) as u64;
        let bytes = heap.blocks.iter().fold(0u64, |sum, block| sum.saturating_add(block.size));
        self.elsewhere.live_bytes = bytes.saturating_sub(self.sums.live_bytes);
    }

    fn add_others(
        &mut self,
        footprint: &Footprint,
        residency: &Residency<'_>,
        all: &[Territory],
        heaps: &[(KnownHeap, u64)],
    ) {
        let knows_bss = footprint.mappings.iter().any(|mapping| mapping.kind == MappingKind::Bss);
        for (index, mapping) in footprint.mappings.iter().enumerate() {
            if !mapping.has_pages || !may_be_managed(mapping) {
                continue;
            }
            let from = heaps.partition_point(|(heap, _)| heap.end <= mapping.start);
            let own = heaps[from..].iter().take_while(|(heap, _)| heap.start < mapping.end);
            let in_heaps: u64 = own.map(|(_, bytes)| bytes).sum();
            let managed = managed(residency, all, mapping.start, mapping.end) + in_heaps;
            if mapping.kind == MappingKind::ThreadStack {
                self.managed_stacks += managed;
                self.stacks.extend((managed == 0).then_some(index));
                continue;
            }
            if mapping.kind == MappingKind::Bss {
                self.managed_bss += managed;
                continue;
            }
            let other = residency.resident(mapping.start, mapping.end).saturating_sub(managed);
            let before = index.checked_sub(1).and_then(|before| footprint.mappings.get(before));
            let is_bss = |before: &Mapping| before.kind == MappingKind::FileData && before.end == mapping.start;
            match other {
                0 => {}
                _ if !knows_bss && mapping.name.is_empty() && before.is_some_and(is_bss) => {
                    self.unnamed_bss.push((index, other));
                }
                _ => self.others.push((index, other)),
            }
        }
    }
}

impl HeapSums {
    fn block(&mut self, bytes: &BlockBytes) {
        self.live_bytes = self.live_bytes.saturating_add(bytes.requested);
        self.rounding_bytes += bytes.rounding;
        self.allocator_bytes += bytes.own;
        self.swapped_bytes += bytes.swapped;
        let resident = bytes.resident();
        let all = bytes.requested.saturating_add(bytes.rounding).saturating_add(bytes.own);
        self.never_touched_bytes =
            self.never_touched_bytes.saturating_add(all.saturating_sub(resident + bytes.swapped));
    }

    fn plus(self, other: Self) -> Self {
        Self {
            live_bytes: self.live_bytes.saturating_add(other.live_bytes),
            rounding_bytes: self.rounding_bytes.saturating_add(other.rounding_bytes),
            allocator_bytes: self.allocator_bytes.saturating_add(other.allocator_bytes),
            never_touched_bytes: self.never_touched_bytes.saturating_add(other.never_touched_bytes),
            swapped_bytes: self.swapped_bytes.saturating_add(other.swapped_bytes),
            holes_bytes: self.holes_bytes.saturating_add(other.holes_bytes),
            free_bytes: self.free_bytes.saturating_add(other.free_bytes),
            cached_bytes: self.cached_bytes.saturating_add(other.cached_bytes),
        }
    }
}

impl ArenaSums {
    /// Resident bytes of the arena's free pages.
    pub fn free(&self) -> u64 {
        self.between + self.top + self.unused + self.beside_cached
    }

    fn add(&mut self, other: &Self) {
        self.resident += other.resident;
        self.used += other.used;
        self.holes += other.holes;
        self.between += other.between;
        self.top += other.top;
        self.unused += other.unused;
        self.beside_cached += other.beside_cached;
        self.trim_between += other.trim_between;
        self.trim_locked += other.trim_locked;
        self.trim_large += other.trim_large;
        self.trim_top += other.trim_top;
    }
}

/// The pages of a free chunk of glibc that `malloc_trim` gives back. The chunk begins 8 bytes before the end of the one
/// before, and its first 48 bytes stay; what follows it begins with 8 bytes that are the free chunk's.
fn trimmed(start: u64, end: u64) -> Option<(u64, u64)> {
    let (from, to) = (page_after(start.checked_add(40)?)?, page_of(end.checked_sub(8)?));
    (from < to).then_some((from, to))
}

/// Resident bytes of a range that territories have.
fn managed(residency: &Residency<'_>, all: &[Territory], start: u64, end: u64) -> u64 {
    let from = all.partition_point(|territory| territory.end <= start);
    let own = all[from..].iter().take_while(|territory| territory.start < end);
    own.map(|territory| residency.resident(territory.start.max(start), territory.end.min(end))).sum()
}

/// The heaps of runtimes, cut at the bounds of mappings with pages: each with its resident bytes that no allocator
/// manages.
fn runtime_heaps(
    footprint: &Footprint,
    heap: &HeapMap,
    residency: &Residency<'_>,
    all: &[Territory],
    older_blocks: bool,
) -> Vec<(KnownHeap, u64)> {
    let mut found = Vec::new();
    let is_shown = |heap: &&KnownHeap| match heap.kind {
        HeapKind::GlibcArena => false,
        HeapKind::GlibcBlock => older_blocks,
        _ => true,
    };
    for heap in heap.heaps.iter().flatten().filter(is_shown) {
        let from = footprint.mappings.partition_point(|mapping| mapping.end <= heap.start);
        let own = footprint.mappings[from..].iter().take_while(|mapping| mapping.start < heap.end);
        for mapping in own.filter(|mapping| mapping.has_pages && may_be_managed(mapping)) {
            let (start, end) = (heap.start.max(mapping.start), heap.end.min(mapping.end));
            let bytes = residency.resident(start, end) - managed(residency, all, start, end);
            found.push((KnownHeap { start, end, ..*heap }, bytes));
        }
    }
    found
}

fn pymalloc_used(heap: &HeapMap) -> u64 {
    let pools = heap.heaps.iter().flatten().filter(|heap| heap.kind == HeapKind::Pymalloc);
    pools.fold(0, |sum, heap| sum.saturating_add(heap.used))
}

/// By site, the index of its place, where it has a live block; and the places.
pub fn places(
    profile: &Profile,
    process: ProcessId,
    heap: &HeapMap,
    functions: &Functions<'_>,
) -> (Vec<u32>, Vec<PlaceEntry>) {
    let mut bytes = vec![None; profile.sites.len()];
    for block in &heap.blocks {
        if let Some(sum) = bytes.get_mut(block.site as usize) {
            let so_far: u64 = sum.unwrap_or(0);
            *sum = Some(so_far.saturating_add(block.size));
        }
    }
    let mut numbers: FxHashMap<Key, u32> = FxHashMap::default();
    let mut entries: Vec<PlaceEntry> = Vec::new();
    let mut of_sites = vec![ALLOCATORS_OWN; profile.sites.len()];
    for (at, site) in profile.sites.iter().enumerate() {
        let Some(bytes) = bytes[at].filter(|_| site.process == process) else { continue };
        let named = functions.named(site.stack);
        let number = *numbers.entry(named.map(|named| named.key())).or_insert(entries.len() as u32);
        if number as usize == entries.len() {
            entries.push(PlaceEntry { named, sums: PlaceSums::default(), sites: 0, largest: (0, site.stack) });
        }
        let entry = &mut entries[number as usize];
        entry.sites += 1;
        if bytes > entry.largest.0 {
            entry.largest = (bytes, site.stack);
        }
        of_sites[at] = number;
    }
    (of_sites, entries)
}
