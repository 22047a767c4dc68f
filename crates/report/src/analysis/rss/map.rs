//! Pages in the order of their addresses, for a picture.

use mallow_profile::{Footprint, HeapMap, Profile};

use super::geometry::{PAGE, page_of};
use super::ledger::places;
use super::owners::Owners;
use super::residency::Residency;
use super::sweep::{CACHED, Found, Sweep, is_cached};
use super::territory::{TerritoryKind, territories};
use crate::analysis::stacks::functions::{Frame, Functions};

/// The pages of a process that its allocators manage.
#[derive(Clone, Debug)]
pub struct PageMap {
    pub pages_per_cell: u64,
    /// Sorted by address.
    pub rows: Vec<HeapRow>,
    /// The places that cells have the index of.
    pub places: Vec<Option<Frame>>,
}

/// Cells of one territory, or of several that are neighbours.
#[derive(Clone, Debug)]
pub struct HeapRow {
    pub kind: TerritoryKind,
    /// First address, the beginning of a page.
    pub start: u64,
    /// By address, without gaps.
    pub cells: Vec<HeapCell>,
}

/// The bytes of some pages. The rest of their size is not in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapCell {
    /// Bytes of live blocks, with rounding and headers.
    pub used: u64,
    /// Free bytes in pages that live blocks pin.
    pub holes: u64,
    /// Bytes of free pages and of freed blocks that threads keep.
    pub free: u64,
    /// The places with most bytes in the cell, at most three: index of the place, and bytes.
    pub places: Vec<(u32, u64)>,
}

const NAMED: usize = 3;

/// The map of a footprint, with about `cells` cells at most.
pub fn page_map(profile: &Profile, footprint: &Footprint, heap: &HeapMap, cells: u64) -> PageMap {
    let functions = Functions::new(profile);
    let (site_places, entries) = places(profile, footprint.process, heap, &functions);
    let process = profile.processes.get(footprint.process.0 as usize);
    let owners = Owners::of(profile, footprint, heap, process);
    let residency = Residency::new(&heap.pages, footprint.page_bytes);
    let classes = profile.size_classes.iter().find(|classes| classes.process == footprint.process);
    let sweep = Sweep { residency: &residency, heap, classes, places: &site_places, owners: &owners, locked: &[] };
    let all = territories(footprint, heap, &owners);
    // Addresses in no page in memory, at the ends of territories, are not drawn.
    let pages = |start: u64, end: u64| (end - page_of(start)).div_ceil(PAGE);
    let shown: Vec<_> =
        all.into_iter().filter(|territory| residency.resident(territory.start, territory.end) > 0).collect();
    let in_all: u64 = shown.iter().map(|territory| pages(territory.start, territory.end)).sum();
    let pages_per_cell = in_all.div_ceil(cells.max(1)).max(1).next_power_of_two();
    let cell_bytes = pages_per_cell * PAGE;
    let mut rows: Vec<HeapRow> = Vec::new();
    for territory in &shown {
        let start = page_of(territory.start);
        let count = (territory.end - start).div_ceil(cell_bytes) as usize;
        let mut row = HeapRow { kind: territory.kind, start, cells: vec![HeapCell::default(); count] };
        sweep.territory(territory, &mut |found| match found {
            Found::Unit { start: from, end, resident, used, cached, pins } => {
                let spread = Spread { row: &mut row, cell_bytes, residency: &residency };
                let free = if is_cached(pins) { resident } else { cached };
                let (mut resident_left, mut used_left, mut free_left) = (resident, used, free);
                spread.over(from, end, resident, |cell, part| {
                    let share = |of: u64| (u128::from(of) * u128::from(part) / u128::from(resident_left.max(1))) as u64;
                    let used = share(used_left);
                    // Both are rounded down, and the last part takes what is left.
                    let free = share(free_left).min(part - used);
                    (resident_left, used_left, free_left) = (resident_left - part, used_left - used, free_left - free);
                    cell.used += used;
                    cell.free += free;
                    cell.holes += part - used - free;
                    for &(place, bytes) in pins.iter().filter(|(place, _)| *place < CACHED) {
                        match cell.places.iter_mut().find(|(known, _)| *known == place) {
                            Some((_, sum)) => *sum += bytes,
                            None => cell.places.push((place, bytes)),
                        }
                    }
                });
            }
            Found::Free { start: from, end, resident, .. } => {
                let spread = Spread { row: &mut row, cell_bytes, residency: &residency };
                spread.over(from, end, resident, |cell, part| cell.free += part);
            }
            Found::Block(..) | Found::Gap { .. } => {}
        });
        for cell in &mut row.cells {
            cell.places.sort_by_key(|&(place, bytes)| (std::cmp::Reverse(bytes), place));
            cell.places.truncate(NAMED);
        }
        rows.push(row);
    }
    let frames = entries.iter().map(|entry| entry.named.map(|named| functions.frame(&named.step)));
    PageMap { pages_per_cell, rows, places: frames.collect() }
}

struct Spread<'a> {
    row: &'a mut HeapRow,
    cell_bytes: u64,
    residency: &'a Residency<'a>,
}

impl Spread<'_> {
    /// Calls `each` with every cell of a range and its resident bytes there.
    fn over(self, start: u64, end: u64, resident: u64, mut each: impl FnMut(&mut HeapCell, u64)) {
        if resident == 0 {
            return;
        }
        let mut at = start;
        while at < end {
            let index = (at - self.row.start) / self.cell_bytes;
            let next = self.row.start.saturating_add((index + 1).saturating_mul(self.cell_bytes)).min(end);
            let part = self.residency.resident(at, next);
            if let Some(cell) = self.row.cells.get_mut(index as usize).filter(|_| part > 0) {
                each(cell, part);
            }
            at = next;
        }
    }
}
