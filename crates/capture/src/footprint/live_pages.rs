//! What of live blocks is in memory: a block may be live whose pages were never touched, or are in swap.

use mallow_profile::{Footprint, HeapMap, PageState};

/// Bytes of live blocks in no mapping, or in one without pages, may be this part of all: the answer is not known where
/// they are more.
const UNKNOWN: u64 = 100;

/// Requested bytes of the map's blocks in memory. None: pages were not read, or not where the blocks lie. Precondition:
/// the map is sound.
pub fn live_resident(footprint: &Footprint, map: &HeapMap) -> Option<u64> {
    if footprint.gap.is_some() {
        return None;
    }
    let page = u64::from(footprint.page_bytes).max(1);
    let (mut resident, mut unknown, mut all) = (0u64, 0u64, 0u64);
    let (mut first, mut mapping) = (0, 0);
    let mappings = &footprint.mappings;
    for block in &map.blocks {
        let (start, end) = (block.address, block.address.saturating_add(block.size));
        all = all.saturating_add(block.size);
        while mappings.get(mapping).is_some_and(|mapping| mapping.end <= start) {
            mapping += 1;
        }
        let holder = mappings.get(mapping).filter(|mapping| mapping.start <= start);
        // Where nothing is mapped, the block is gone, or came after the mappings were read.
        if holder.is_none_or(|mapping| !mapping.has_pages && mapping.sizes.rss > 0) {
            unknown = unknown.saturating_add(block.size);
            continue;
        }
        let end_of = |run: &mallow_profile::PageRun| run.start.saturating_add(run.pages.saturating_mul(page));
        while map.pages.get(first).is_some_and(|run| end_of(run) <= start) {
            first += 1;
        }
        let runs = map.pages[first..].iter().take_while(|run| run.start < end);
        let own = runs.filter(|run| run.state.has(PageState::RESIDENT));
        let bytes = own.map(|run| end_of(run).min(end).saturating_sub(run.start.max(start)));
        resident = bytes.fold(resident, u64::saturating_add);
    }
    (unknown <= all / UNKNOWN).then_some(resident)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_profile::{Mapping, MappingKind, MemorySizes, PageRun, PlacedBlock};

    #[test]
    fn untouched_and_swapped_pages_are_not_in_memory() {
        let mapping = |start, end, has_pages| {
            let (kind, sizes) = (MappingKind::Anonymous, MemorySizes { rss: 4096, ..MemorySizes::default() });
            Mapping { start, end, kind, sizes, has_pages, ..Mapping::default() }
        };
        let mappings = vec![mapping(0x1000, 0x9000, true), mapping(0x9000, 0xb000, false)];
        let footprint = Footprint { page_bytes: 4096, mappings, ..Footprint::default() };
        let run = |page: u64, pages, state| PageRun { start: page << 12, pages, state: PageState(state) };
        let pages = vec![run(1, 2, PageState::RESIDENT), run(4, 1, PageState::SWAPPED), run(5, 1, PageState::RESIDENT)];
        let block = |address, size| PlacedBlock { address, size, site: 0 };
        let blocks = vec![block(0x1010, 16), block(0x1100, 0x100), block(0x2800, 0x3000), block(0x7000, 0x100)];
        let map = HeapMap { pages, blocks, ..HeapMap::default() };
        assert_eq!(live_resident(&footprint, &map), Some(16 + 0x100 + 0x800 + 0x800));
        // Where pages were not read, nothing is known of much.
        let mut beside = map.clone();
        beside.blocks.push(block(0x9000, 8));
        assert_eq!(live_resident(&footprint, &beside), live_resident(&footprint, &map));
        beside.blocks.push(block(0x9100, 0x1000));
        assert_eq!(live_resident(&footprint, &beside), None);
        // Nor of what lies nowhere.
        let mut nowhere = map.clone();
        nowhere.blocks.push(block(0xc000, 8));
        assert_eq!(live_resident(&footprint, &nowhere), live_resident(&footprint, &map));
        nowhere.blocks.push(block(0xc100, 0x1000));
        assert_eq!(live_resident(&footprint, &nowhere), None);
        let without = Footprint { gap: Some("it is gone".into()), ..footprint };
        assert_eq!(live_resident(&without, &map), None);
    }
}
