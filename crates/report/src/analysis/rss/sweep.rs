//! One pass over the blocks of a process by address: what each takes, what their pages have left, what lies between
//! them.
//!
//! All ranges that are handed out are disjoint, and their resident bytes add up to those of the territories, whatever
//! the blocks are: a chunk that overlaps the one before is cut.

use mallow_profile::{AddressRange, CachedBlock, Footprint, HeapMap, MappingFlags, SizeClasses};

use super::geometry::{Allocator, BlockMemory, PAGE, chunk, page_after, page_of};
use super::owners::{Owners, Reach};
use super::residency::{Bytes, Residency};
use super::territory::{Territory, TerritoryKind};

/// The pin that stands for the allocator's own bytes at the beginning of a territory.
pub const ALLOCATORS_OWN: u32 = u32::MAX;
/// The pin that stands for freed blocks that threads keep.
pub const CACHED: u32 = u32::MAX - 1;

/// Whether nothing pins a unit but blocks in threads' caches.
pub fn is_cached(pins: &[(u32, u64)]) -> bool {
    matches!(pins, [(CACHED, _)])
}

/// Bytes of a block and its header, resident or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockBytes {
    pub requested: u64,
    pub requested_resident: u64,
    /// Usable bytes that were not requested.
    pub rounding: u64,
    pub rounding_resident: u64,
    pub own: u64,
    pub own_resident: u64,
    /// Requested bytes, rounding and the allocator's own bytes that are in swap.
    pub swapped: u64,
}

impl BlockBytes {
    /// Resident bytes of the block, its rounding and its header.
    pub fn resident(&self) -> u64 {
        self.requested_resident + self.rounding_resident + self.own_resident
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FreeAt {
    Between,
    Top,
    /// Pages in a territory without a live block.
    Unused,
}

#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// A block, by its index in the heap map.
    Block(usize, BlockBytes),
    /// Pages that can only be given back together, because live blocks lie in them.
    Unit {
        start: u64,
        /// End, exclusive.
        end: u64,
        resident: u64,
        /// Resident bytes that are not free.
        used: u64,
        /// Resident bytes of freed blocks that threads keep.
        cached: u64,
        /// Owners of the unit's blocks, with the bytes of each: indices of places, [`ALLOCATORS_OWN`] or [`CACHED`].
        pins: &'a [(u32, u64)],
    },
    /// Pages without a live block.
    Free {
        start: u64,
        /// End, exclusive.
        end: u64,
        resident: u64,
        at: FreeAt,
    },
    /// Free bytes from the end of a chunk to the beginning of the next one, or to the end of the territory.
    Gap {
        /// End of the chunk, its header's place included.
        start: u64,
        /// Beginning of the next chunk, or the territory's end.
        end: u64,
        /// Whether there is no chunk behind the gap.
        is_top: bool,
    },
}

/// Walks territories block by block and says what lies where.
pub struct Sweep<'a> {
    pub residency: &'a Residency<'a>,
    pub heap: &'a HeapMap,
    /// Usable sizes that the process reported.
    pub classes: Option<&'a SizeClasses>,
    /// By site, the index of its place.
    pub places: &'a [u32],
    pub owners: &'a Owners,
    /// Ranges from which `madvise` gives no page back, as [`locked`] returns them.
    pub locked: &'a [(u64, u64)],
}

/// Address ranges of the mappings that are locked in memory, ends exclusive.
pub fn locked(footprint: &Footprint) -> Vec<(u64, u64)> {
    let mappings = footprint.mappings.iter().filter(|mapping| mapping.flags.has(MappingFlags::LOCKED));
    mappings.map(|mapping| (mapping.start, mapping.end)).collect()
}

struct Unit {
    start: u64,
    end: u64,
    used: u64,
    cached: u64,
    pins: Vec<(u32, u64)>,
}

impl Sweep<'_> {
    /// Calls back for each block, unit, free range and gap of a territory.
    pub fn territory(&self, territory: &Territory, each: &mut impl FnMut(Found<'_>)) {
        let owner = &self.owners.all[territory.owner];
        let allocator = owner.allocator;
        // The process asked the function that all of its modules call.
        let classes = self.classes.filter(|_| allocator != Allocator::Glibc && owner.reach == Reach::Everywhere);
        let mut pass =
            Pass { sweep: self, territory, each, unit: None, done: territory.start, any: false, pins: Vec::new() };
        let mut cursor = territory.start;
        if territory.head > 0 {
            let end = territory.start.saturating_add(territory.head).min(territory.end);
            pass.cover(territory.start, end, None, ALLOCATORS_OWN);
            cursor = end;
            (pass.each)(Found::Block(usize::MAX, self.head(territory.start, end)));
        }
        let place = match territory.kind {
            TerritoryKind::OwnMappings => BlockMemory::OwnMapping,
            _ => BlockMemory::Heap,
        };
        let mut cached = self.cached(allocator, territory);
        let mut tables = self.tables(allocator, territory);
        for index in territory.blocks.0..territory.blocks.1 {
            let block = &self.heap.blocks[index];
            while let Some(range) = tables.next_if(|range| range.start < block.address) {
                cursor = pass.tables(range, cursor, block.address);
            }
            // The same address: it was given out meanwhile.
            while let Some(kept) = cached.next_if(|kept| kept.address <= block.address) {
                if kept.address < block.address {
                    cursor = pass.cached(kept, cursor, block.address);
                }
            }
            let usable = classes.and_then(|classes| classes.usable(block.size));
            let Some(mut chunk) = chunk(allocator, place, block.address, block.size, usable) else { continue };
            let next = self.heap.blocks.get(index + 1).map_or(u64::MAX, |next| next.address);
            let next = cached.peek().map_or(next, |kept| next.min(kept.address));
            let next = tables.peek().map_or(next, |range| next.min(range.start));
            let next =
                if place == BlockMemory::Heap && allocator == Allocator::Glibc { next.saturating_sub(8) } else { next };
            let limit = next.min(territory.end);
            chunk.usable_end = chunk.usable_end.min(limit.max(chunk.requested_end)).min(territory.end);
            chunk.end = chunk.end.min(limit.max(chunk.usable_end)).min(territory.end);
            let start = chunk.start.max(cursor).min(territory.end);
            let end = chunk.end.max(start);
            if start > cursor {
                (pass.each)(Found::Gap { start: cursor, end: start, is_top: false });
            }
            let found = self.block(start, chunk.block, chunk.requested_end, chunk.usable_end, end, block.size);
            (pass.each)(Found::Block(index, found));
            pass.cover(start, end, chunk.slab, self.place_of(block.site));
            cursor = end;
        }
        for range in tables {
            cursor = pass.tables(range, cursor, territory.end);
        }
        for kept in cached {
            cursor = pass.cached(kept, cursor, territory.end);
        }
        (pass.each)(Found::Gap { start: cursor, end: territory.end, is_top: true });
        pass.finish();
    }

    /// The address ranges in a territory where its allocator keeps tables.
    fn tables(
        &self,
        allocator: Allocator,
        territory: &Territory,
    ) -> std::iter::Peekable<std::slice::Iter<'_, AddressRange>> {
        let all = &self.heap.tables[..];
        let first = |address| all.partition_point(|range| range.start < address);
        let range = first(territory.start)..first(territory.end);
        all.get(range).filter(|_| allocator != Allocator::Glibc).unwrap_or_default().iter().peekable()
    }

    /// Freed blocks of a territory that threads keep.
    fn cached(
        &self,
        allocator: Allocator,
        territory: &Territory,
    ) -> std::iter::Peekable<std::slice::Iter<'_, CachedBlock>> {
        let all = &self.heap.caches.blocks[..];
        let first = |address| all.partition_point(|block| block.address < address);
        let range = first(territory.start)..first(territory.end);
        let is_arena = allocator == Allocator::Glibc && territory.kind != TerritoryKind::OwnMappings;
        all.get(range).filter(|_| is_arena).unwrap_or_default().iter().peekable()
    }

    fn place_of(&self, site: u32) -> u32 {
        self.places.get(site as usize).copied().unwrap_or(ALLOCATORS_OWN)
    }

    fn head(&self, start: u64, end: u64) -> BlockBytes {
        let Bytes { resident, swapped } = self.residency.of(start, end);
        BlockBytes { own: end - start, own_resident: resident, swapped, ..BlockBytes::default() }
    }

    /// The bytes of a chunk from `start` to `end`: own ones, the block up to `requested_end`, rounding, own ones again.
    fn block(&self, start: u64, block: u64, requested_end: u64, usable_end: u64, end: u64, size: u64) -> BlockBytes {
        let cut = |address: u64| address.clamp(start, end);
        let (block, requested_end, usable_end) = (cut(block), cut(requested_end), cut(usable_end));
        let own = [self.residency.of(start, block), self.residency.of(usable_end, end)];
        let requested = self.residency.of(block, requested_end);
        let rounding = self.residency.of(requested_end, usable_end);
        BlockBytes {
            requested: size,
            requested_resident: requested.resident,
            rounding: usable_end - requested_end,
            rounding_resident: rounding.resident,
            own: (block - start) + (end - usable_end),
            own_resident: own[0].resident + own[1].resident,
            swapped: requested.swapped + rounding.swapped + own[0].swapped + own[1].swapped,
        }
    }
}

struct Pass<'a, F> {
    sweep: &'a Sweep<'a>,
    territory: &'a Territory,
    each: &'a mut F,
    unit: Option<Unit>,
    /// End of what was reported so far.
    done: u64,
    /// Whether there was a unit.
    any: bool,
    /// Pins of a unit that was reported: its memory is used again.
    pins: Vec<(u32, u64)>,
}

impl<F: FnMut(Found<'_>)> Pass<'_, F> {
    /// Takes in a freed block that a thread keeps, with its header, up to `limit`. Returns its end.
    fn cached(&mut self, block: &CachedBlock, cursor: u64, limit: u64) -> u64 {
        let start = block.address.saturating_sub(8).max(cursor).min(limit);
        let end = block.address.saturating_add(block.size).min(limit).max(start);
        if start > cursor {
            (self.each)(Found::Gap { start: cursor, end: start, is_top: false });
        }
        self.cover(start, end, None, CACHED);
        cursor.max(end)
    }

    /// Takes in tables of the allocator, up to `limit`: resident bytes of them are its own. Returns their end.
    fn tables(&mut self, range: &AddressRange, cursor: u64, limit: u64) -> u64 {
        let start = range.start.max(cursor).min(limit);
        let end = range.end.min(limit).max(start);
        let own = self.sweep.residency.resident(start, end);
        (self.each)(Found::Block(usize::MAX, BlockBytes { own, own_resident: own, ..BlockBytes::default() }));
        self.cover(start, end, None, ALLOCATORS_OWN);
        cursor.max(end)
    }

    /// Takes in bytes of a chunk, which pins its slab, or its pages, each by itself.
    fn cover(&mut self, start: u64, end: u64, slab: Option<(u64, u64)>, pin: u32) {
        if end <= start {
            return;
        }
        if let Some((from, to)) = slab {
            self.part(start, end, from, to, pin);
            return;
        }
        let first_end = page_of(start).saturating_add(PAGE);
        if end <= first_end {
            self.part(start, end, page_of(start), first_end, pin);
            return;
        }
        self.part(start, first_end, page_of(start), first_end, pin);
        let last = page_of(end);
        if first_end < last {
            self.part(first_end, last, first_end, last, pin);
        }
        if last < end {
            self.part(last, end, last, last.saturating_add(PAGE), pin);
        }
    }

    /// Takes in the bytes of a chunk that lie within the unit from `from` to `to`.
    fn part(&mut self, start: u64, end: u64, from: u64, to: u64, pin: u32) {
        let used = self.sweep.residency.resident(start, end);
        let to = to.max(end).min(page_after(self.territory.end).unwrap_or(u64::MAX));
        if let Some(unit) = self.unit.as_mut().filter(|unit| start < unit.end) {
            unit.end = unit.end.max(to);
            *(if pin == CACHED { &mut unit.cached } else { &mut unit.used }) += used;
            match unit.pins.iter_mut().rev().find(|(place, _)| *place == pin) {
                Some((_, bytes)) => *bytes += end - start,
                None => unit.pins.push((pin, end - start)),
            }
            return;
        }
        self.flush();
        let from = from.max(self.done).min(start);
        self.free(from, FreeAt::Between);
        let mut pins = std::mem::take(&mut self.pins);
        pins.clear();
        pins.push((pin, end - start));
        let (used, cached) = if pin == CACHED { (0, used) } else { (used, 0) };
        self.unit = Some(Unit { start: from, end: to, used, cached, pins });
        self.any = true;
    }

    /// Reports the unit, if there is one.
    fn flush(&mut self) {
        let Some(unit) = self.unit.take() else { return };
        let end = unit.end.min(self.territory.end);
        let resident = self.sweep.residency.resident(unit.start, end);
        let Unit { start, used, cached, .. } = unit;
        (self.each)(Found::Unit { start, end, resident, used, cached, pins: &unit.pins });
        self.done = end;
        self.pins = unit.pins;
    }

    /// Reports what lies before `end` as free.
    fn free(&mut self, end: u64, at: FreeAt) {
        if end > self.done {
            let resident = self.sweep.residency.resident(self.done, end);
            (self.each)(Found::Free { start: self.done, end, resident, at });
            self.done = end;
        }
    }

    fn finish(mut self) {
        self.flush();
        let is_unused = !self.any || self.territory.blocks.0 == self.territory.blocks.1;
        self.free(self.territory.end, if is_unused { FreeAt::Unused } else { FreeAt::Top });
    }
}
