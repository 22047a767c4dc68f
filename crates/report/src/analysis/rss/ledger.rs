//! What a pass over the territories of a process adds up to.

use std::collections::BTreeMap;

use mallow_profile::{Footprint, HeapMap, Mapping, MappingKind, Process, ProcessId, Profile, StackId, StringId};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::super::functions::{FunctionId, Functions, Named};
use super::geometry::{Allocator, PAGE, page_after, page_of};
use super::residency::Residency;
use super::sweep::{ALLOCATORS_OWN, BlockBytes, CACHED, Found, FreeAt, Sweep, is_cached};
use super::territory::{Territory, TerritoryKind, territories};

/// Sums in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HeapSums {
    /// Requested bytes of blocks in the allocator's memory.
    pub live_bytes: u64,
    /// Usable, not requested.
    pub rounding_bytes: u64,
    /// Headers, and what else the allocator is known to use.
    pub allocator_bytes: u64,
    /// Of these three, what was never touched.
    pub never_touched_bytes: u64,
    /// Of these three, what is in swap.
    pub swapped_bytes: u64,
    /// Free, in pages that live blocks pin.
    pub holes_bytes: u64,
    /// In pages without a live block.
    pub free_bytes: u64,
    /// Freed, and kept by threads for their next requests.
    pub cached_bytes: u64,
}

/// What one place has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceSums {
    /// Live blocks.
    pub live: u64,
    /// Their requested bytes.
    pub live_bytes: u64,
    /// What of these is in memory.
    pub resident_bytes: u64,
    /// Usable, not requested.
    pub rounding_bytes: u64,
    /// Its share of the free bytes in pages that its blocks pin: by the bytes that its blocks have there.
    pub holes_bytes: u64,
    /// The free bytes in pages that its blocks alone pin.
    pub alone_bytes: u64,
    /// Pages with its blocks and free bytes.
    pub pinned_pages: u64,
}

/// A line of a function of the program's own.
pub struct PlaceEntry {
    /// What its sites are named by.
    pub named: Option<Named>,
    /// What it has.
    pub sums: PlaceSums,
    /// Of its sites with live blocks, how many there are, and the one with most live bytes.
    pub sites: u64,
    /// See `sites`.
    pub largest: (u64, StackId),
}

/// Blocks of one usable size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSums {
    /// How many.
    pub live: u64,
    /// Requested bytes.
    pub live_bytes: u64,
    /// Usable, not requested.
    pub rounding_bytes: u64,
}

/// What an arena of glibc has, or all mappings of another allocator.
#[derive(Clone, Copy, Debug)]
pub struct ArenaSums {
    /// What it is.
    pub kind: TerritoryKind,
    /// Resident bytes.
    pub resident: u64,
    /// Those of live blocks, with rounding and headers.
    pub used: u64,
    /// Free, in pages that live blocks pin.
    pub holes: u64,
    /// Resident pages between its blocks.
    pub between: u64,
    /// Resident pages behind its last block.
    pub top: u64,
    /// Resident pages of one without live blocks.
    pub unused: u64,
    /// Free, in pages that only what threads keep pins.
    pub beside_cached: u64,
    /// What `malloc_trim` would give back: whole pages of the gaps between blocks.
    pub trim_between: u64,
    /// And at its end.
    pub trim_top: u64,
}

/// All of it.
pub struct Ledger<'a> {
    /// Names of functions.
    pub functions: Functions<'a>,
    /// Who manages the process's memory.
    pub allocator: Allocator,
    /// What it knows of its usable sizes is the truth: no rounding is hidden in holes.
    pub knows_classes: bool,
    /// Sums of all territories.
    pub sums: HeapSums,
    /// By place.
    pub places: Vec<PlaceEntry>,
    /// By usable size.
    pub classes: BTreeMap<u64, ClassSums>,
    /// By territory; what is not glibc's is one.
    pub arenas: Vec<ArenaSums>,
    /// Mappings with pages in memory that are in no territory: index of the mapping, and bytes.
    pub others: Vec<(usize, u64)>,
    /// Data of files that is in no file: their `.bss`.
    pub bss: u64,
    /// Blocks in no territory: where no pages were read, or in no mapping at all.
    pub elsewhere: ClassSums,
    /// By number of the largest places, by their share of holes, that have to go: the free bytes in pages that nobody else pins.
    pub together: Vec<u64>,
    /// The order of places by their share of holes.
    pub by_holes: Vec<u32>,
    /// Where the allocator keeps its tables is known.
    pub knows_tables: bool,
    /// What threads keep is known, of all threads.
    pub knows_caches: bool,
    /// Whether blocks are there that the recording does not know: pages without known blocks may hold those.
    pub older_blocks: bool,
}

/// Places whose blocks may get a memory pool: nobody makes more.
const POOLS: usize = 12;

/// Who manages the memory of a process, and whether the C library's allocator is beside it.
pub fn allocator_of(profile: &Profile, footprint: &Footprint, heap: &HeapMap, process: &Process) -> (Allocator, bool) {
    let library = footprint.mappings.iter().find_map(|mapping| Allocator::of_library(&mapping.name));
    if let Some(allocator) = library.filter(|_| !lies_in_glibc(footprint, heap)) {
        return (allocator, false);
    }
    let mut inside =
        profile.allocators_inside.iter().filter(|one| one.functions > 0 && one.program == process.executable);
    if let Some(one) = inside.next() {
        return (Allocator::of_name(&one.name), true);
    }
    // Its file is libc.so.6 with any version and libc-2.31.so in old ones; musl's is ld-musl.
    let is_glibc = |name: &str| {
        let file = name.rsplit('/').next().unwrap_or(name);
        file == "libc.so.6" || file.starts_with("libc-2.")
    };
    let glibc = footprint.mappings.iter().any(|mapping| is_glibc(&mapping.name));
    (if glibc { Allocator::Glibc } else { Allocator::Unknown }, false)
}

/// Whether most blocks lie in the C library's heap although another allocator is there, too: functions of the library that is loaded first
/// are called.
fn lies_in_glibc(footprint: &Footprint, heap: &HeapMap) -> bool {
    let main = footprint.mappings.iter().find(|mapping| mapping.kind == MappingKind::Heap);
    let Some(main) = main.filter(|_| heap.caches.caches > 0) else { return false };
    let first = |address| heap.blocks.partition_point(|block| block.address < address);
    2 * (first(main.end) - first(main.start)) > heap.blocks.len()
}

type Key = Option<(FunctionId, Option<StringId>, u32)>;

impl<'a> Ledger<'a> {
    /// Of a footprint with its pages and blocks.
    pub fn of(profile: &'a Profile, footprint: &Footprint, heap: &HeapMap) -> Self {
        let functions = Functions::new(profile);
        let (site_places, places) = places(profile, footprint.process, heap, &functions);
        let process = profile.processes.get(footprint.process.0 as usize);
        let (allocator, beside) =
            process.map_or((Allocator::Unknown, false), |p| allocator_of(profile, footprint, heap, p));
        let classes = profile.size_classes.iter().find(|classes| classes.process == footprint.process);
        let residency = Residency::new(&heap.pages, footprint.page_bytes);
        let mut it = Self {
            functions,
            allocator,
            knows_classes: allocator != Allocator::Unknown || classes.is_some(),
            sums: HeapSums::default(),
            places,
            classes: BTreeMap::new(),
            arenas: Vec::new(),
            others: Vec::new(),
            bss: 0,
            elsewhere: ClassSums::default(),
            together: Vec::new(),
            by_holes: Vec::new(),
            knows_tables: !heap.tables.is_empty(),
            knows_caches: heap.caches.is_complete,
            older_blocks: process.is_some_and(Process::has_older_blocks),
        };
        let all = territories(footprint, heap, allocator, beside);
        let sweep = Sweep { residency: &residency, heap, classes, places: &site_places };
        for (allocator, territory) in &all {
            it.add(&sweep, *allocator, territory);
        }
        it.add_elsewhere(heap, &all);
        it.add_others(footprint, &residency, &all);
        it.rank(&sweep, &all);
        it
    }

    fn add(&mut self, sweep: &Sweep<'_>, allocator: Allocator, territory: &Territory) {
        let resident = sweep.residency.resident(territory.start, territory.end);
        let kind = territory.kind;
        let mut arena = ArenaSums {
            kind,
            resident,
            used: 0,
            holes: 0,
            between: 0,
            top: 0,
            unused: 0,
            beside_cached: 0,
            trim_between: 0,
            trim_top: 0,
        };
        sweep.territory(allocator, territory, &mut |found| match found {
            Found::Block(index, bytes) => {
                let block = sweep.heap.blocks.get(index).map(|block| (block.site, block.size));
                self.block(block.and_then(|(site, _)| sweep.places.get(site as usize)), block.is_some(), &bytes);
                arena.used += bytes.requested_resident + bytes.rounding_resident + bytes.own_resident;
            }
            Found::Unit { resident, used, cached, pins, start, end } => {
                let free = resident - used - cached;
                self.sums.cached_bytes += cached;
                if is_cached(pins) {
                    self.sums.free_bytes += free;
                    arena.beside_cached += free;
                } else {
                    arena.holes += free;
                    self.unit(free, (end - start) / PAGE, pins);
                }
            }
            Found::Free { resident, at, .. } => {
                self.sums.free_bytes += resident;
                *match at {
                    FreeAt::Between => &mut arena.between,
                    FreeAt::Top => &mut arena.top,
                    FreeAt::Unused => &mut arena.unused,
                } += resident;
            }
            Found::Gap { start, end, is_top: false } => {
                if let Some((from, to)) = trimmed(start, end) {
                    arena.trim_between += sweep.residency.resident(from, to);
                }
            }
            Found::Gap { start, end, is_top: true } => {
                if let Some(from) = start.checked_add(25).and_then(page_after) {
                    arena.trim_top += sweep.residency.resident(from, end);
                }
            }
        });
        self.sums.holes_bytes += arena.holes;
        match self.arenas.last_mut().filter(|last| last.kind == kind && kind != TerritoryKind::ThreadArena) {
            Some(last) => last.add(&arena),
            None => self.arenas.push(arena),
        }
    }

    fn block(&mut self, place: Option<&u32>, is_block: bool, bytes: &BlockBytes) {
        let sums = &mut self.sums;
        sums.live_bytes = sums.live_bytes.saturating_add(bytes.requested);
        sums.rounding_bytes += bytes.rounding;
        sums.allocator_bytes += bytes.own;
        sums.swapped_bytes += bytes.swapped;
        let resident = bytes.requested_resident + bytes.rounding_resident + bytes.own_resident;
        let all = bytes.requested.saturating_add(bytes.rounding).saturating_add(bytes.own);
        sums.never_touched_bytes =
            sums.never_touched_bytes.saturating_add(all.saturating_sub(resident + bytes.swapped));
        if !is_block {
            return;
        }
        let class = self.classes.entry(bytes.requested.saturating_add(bytes.rounding)).or_default();
        class.live += 1;
        class.live_bytes = class.live_bytes.saturating_add(bytes.requested);
        class.rounding_bytes += bytes.rounding;
        if let Some(entry) = place.and_then(|&place| self.places.get_mut(place as usize)) {
            entry.sums.live += 1;
            entry.sums.live_bytes = entry.sums.live_bytes.saturating_add(bytes.requested);
            entry.sums.resident_bytes += bytes.requested_resident;
            entry.sums.rounding_bytes += bytes.rounding;
        }
    }

    /// Free bytes go to who pins them, by the bytes of each; what is left of the division goes to the last one.
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

    fn add_elsewhere(&mut self, heap: &HeapMap, all: &[(Allocator, Territory)]) {
        let placed: usize = all.iter().map(|(_, territory)| territory.blocks.1 - territory.blocks.0).sum();
        self.elsewhere.live = heap.blocks.len().saturating_sub(placed) as u64;
        let bytes = heap.blocks.iter().fold(0u64, |sum, block| sum.saturating_add(block.size));
        self.elsewhere.live_bytes = bytes.saturating_sub(self.sums.live_bytes);
    }

    fn add_others(&mut self, footprint: &Footprint, residency: &Residency<'_>, all: &[(Allocator, Territory)]) {
        let mut all = all.iter().map(|(_, territory)| territory).peekable();
        for (index, mapping) in footprint.mappings.iter().enumerate() {
            if !mapping.has_pages || !matches!(mapping.kind, MappingKind::Heap | MappingKind::Anonymous) {
                continue;
            }
            let mut other = residency.resident(mapping.start, mapping.end);
            while let Some(territory) = all.next_if(|territory| territory.start < mapping.end) {
                other = other.saturating_sub(residency.resident(territory.start, territory.end));
            }
            let before = index.checked_sub(1).and_then(|before| footprint.mappings.get(before));
            let is_bss = |before: &Mapping| before.kind == MappingKind::FileData && before.end == mapping.start;
            match other {
                0 => {}
                _ if mapping.name.is_empty() && before.is_some_and(is_bss) => self.bss += other,
                _ => self.others.push((index, other)),
            }
        }
    }

    /// Which places pin most, and what would be free without the first one, the first two and so on.
    fn rank(&mut self, sweep: &Sweep<'_>, all: &[(Allocator, Territory)]) {
        let mut order: Vec<u32> = (0..self.places.len() as u32).collect();
        order.retain(|&place| self.places[place as usize].sums.holes_bytes > 0);
        order.sort_by_key(|&place| std::cmp::Reverse(self.places[place as usize].sums.holes_bytes));
        let mut rank = vec![usize::MAX; self.places.len()];
        for (at, &place) in order.iter().take(POOLS).enumerate() {
            rank[place as usize] = at;
        }
        let mut together = vec![0u64; order.len().min(POOLS)];
        for (allocator, territory) in all {
            sweep.territory(*allocator, territory, &mut |found| {
                let Found::Unit { resident, used, cached, pins, .. } = found else { return };
                let last = pins.iter().map(|&(place, _)| rank.get(place as usize).copied().unwrap_or(usize::MAX)).max();
                if let Some(sum) = last.and_then(|last| together.get_mut(last)) {
                    *sum += resident - used - cached;
                }
            });
        }
        for at in 1..together.len() {
            together[at] += together[at - 1];
        }
        (self.together, self.by_holes) = (together, order);
    }
}

impl ArenaSums {
    /// Resident bytes of its free pages.
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
        self.trim_top += other.trim_top;
    }
}

/// The pages of a free chunk of glibc that `malloc_trim` gives back. The chunk begins 8 bytes before the end of the one before, and its
/// first 48 bytes stay; what follows it begins with 8 bytes that are the free chunk's.
fn trimmed(start: u64, end: u64) -> Option<(u64, u64)> {
    let (from, to) = (page_after(start.checked_add(40)?)?, page_of(end.checked_sub(8)?));
    (from < to).then_some((from, to))
}

/// Of each site its place, where it has a live block, and the places.
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
