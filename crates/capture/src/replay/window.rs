//! What was live while the memory of a process was read.
//!
//! A reading takes time, and the replay is elsewhere when it comes. So the reader says how far each ring was written
//! when it began and when it ended. The blocks of a reading are those that were live at its begin: the replay stops
//! there. Large blocks that came or went meanwhile have mappings of their own, and their pages may be in the reading:
//! whether they are, its mappings show.

use super::recent::RecentHigh;
use super::ring::{Ring, is_past};
use crate::footprint::Reading;
use mallow_profile::{Block, HeapKind, Mapping, MappingFlags, MappingKind, PlacedBlock, RecentLive};
use rustc_hash::FxHashSet;

/// Bytes of the smallest block that may have a mapping of its own.
const LARGE: u64 = 64 << 10;
/// Most changes that are noted of one reading.
const CHANGES: usize = 1 << 16;
/// Rounds that a reading waits for rings whose words never come.
const PATIENCE: u32 = 4;

/// A reading, from its begin to its end.
#[derive(Debug, Default)]
pub struct Window {
    pub number: u64,
    /// None: the reading has not come yet.
    pub reading: Option<Reading>,
    /// How far each ring was written when the reading began, and in `end` when it ended.
    begin: Vec<u64>,
    end: Option<Vec<u64>>,
    /// Blocks that were live at the begin; None: the replay is not there yet.
    blocks: Option<Vec<PlacedBlock>>,
    /// Live bytes in the second before the begin, and at it.
    live: (RecentHigh, u64),
    /// Large blocks that were allocated or freed meanwhile.
    changes: Vec<PlacedBlock>,
    is_noting: bool,
    rounds: u32,
}

impl Window {
    /// A reading that begins while rings are written so far.
    pub fn new(number: u64, begin: &[u64]) -> Self {
        Self { number, begin: begin.to_vec(), ..Self::default() }
    }

    /// Ends the reading, while rings are written so far.
    pub fn ends(&mut self, end: &[u64]) {
        self.end = Some(end.to_vec());
    }

    /// How many of the next `words` waiting words of a ring to replay at once, so that the replay stops at the begin
    /// and at the end of the reading, and whether it stops behind them.
    pub fn part(&mut self, ring: &Ring, words: usize) -> (usize, bool) {
        let of = |heads: &[u64]| ring.words_to(heads.get(ring.number as usize).copied().unwrap_or_default());
        let begin = of(&self.begin);
        let end = self.end.as_deref().map(of);
        let is_over = end == Some(Some(0)) && ring.transit.is_none();
        self.is_noting = begin == Some(0) && !is_over;
        let bounds = [begin, end.flatten()].into_iter().flatten();
        let next = bounds.filter(|&bound| bound > 0).min().map(|bound| ring.whole_records(bound));
        next.filter(|&next| next <= words).map_or((words, false), |next| (next, true))
    }

    /// Notes a block that came or went.
    #[inline]
    pub fn note(&mut self, address: u64, block: &Block) {
        if self.is_noting && block.size >= LARGE && self.changes.len() < CHANGES {
            self.changes.push(PlacedBlock { address, size: block.size, site: block.site });
        }
    }

    /// Whether the blocks of the begin are to be placed now: all rings have come there.
    pub fn begins(&self, rings: &[Ring]) -> bool {
        self.blocks.is_none() && is_past(&self.begin, rings)
    }

    /// Whether the blocks of the begin are not placed yet.
    pub fn lacks_blocks(&self) -> bool {
        self.blocks.is_none()
    }

    /// Takes the blocks that were live at the begin, and those of them whose realloc was under way. `live`: live bytes
    /// before the begin, and at it.
    pub fn place(
        &mut self,
        blocks: Vec<PlacedBlock>,
        in_transit: impl Iterator<Item = PlacedBlock>,
        live: (RecentHigh, u64),
    ) {
        (self.blocks, self.live) = (Some(blocks), live);
        self.changes.extend(in_transit.filter(|block| block.size >= LARGE));
    }

    /// The most live bytes of the second before `ms`, which is when the reading began.
    pub fn recent_live(&self, ms: u64) -> RecentLive {
        let (recent, live_bytes) = &self.live;
        recent.at(ms, *live_bytes)
    }

    /// Whether all that belongs to the reading has been replayed.
    pub fn is_over(&self, rings: &[Ring]) -> bool {
        let is_settled = || rings.iter().all(|ring| ring.transit.is_none());
        self.blocks.is_some() && self.end.as_ref().is_some_and(|end| is_past(end, rings)) && is_settled()
    }

    /// Ends a round. True: the reading waits no more.
    pub fn age(&mut self) -> bool {
        self.rounds += u32::from(self.reading.is_some());
        self.rounds > PATIENCE
    }

    /// The blocks whose pages the reading has.
    pub fn blocks(self, reading: &Reading) -> Vec<PlacedBlock> {
        let mut blocks = self.blocks.unwrap_or_default();
        if self.changes.is_empty() {
            return blocks;
        }
        let mappings = &reading.footprint.mappings;
        let changed: FxHashSet<u64> = self.changes.iter().map(|block| block.address).collect();
        // What was live at the begin and went: it may have been unmapped before its mapping was read.
        let mut rivals: Vec<PlacedBlock> = Vec::new();
        blocks.retain(|block| {
            let is_sure = block.size < LARGE || !changed.contains(&block.address);
            rivals.extend((!is_sure).then_some(*block));
            is_sure
        });
        // What came meanwhile, in a heap: its pages were free there before.
        let in_a_heap = |block: &PlacedBlock| {
            let arenas = reading.heaps.iter().filter(|heap| heap.kind == HeapKind::GlibcArena);
            let mut of_arenas = arenas.map(|heap| heap.start..heap.end);
            let mapping = reading.footprint.mapping_at(block.address);
            mapping.is_some_and(|mapping| mapping.kind == MappingKind::Heap)
                || of_arenas.any(|range| range.contains(&block.address))
        };
        rivals.extend(self.changes.iter().filter(|block| !in_a_heap(block)));
        rivals.retain(|block| is_mapped(mappings, block) && may_have_pages(reading, block));
        // Where one took the place of another, a mapping that holds all of the larger one is not the smaller one's.
        rivals.sort_by_key(|block| std::cmp::Reverse(block.size));
        let mut taken: Vec<PlacedBlock> = Vec::new();
        for block in rivals {
            let at = taken.partition_point(|other| end_of(other) <= block.address);
            if taken.get(at).is_none_or(|next| end_of(&block) <= next.address) {
                taken.insert(at, block);
            }
        }
        for block in &blocks {
            let at = taken.partition_point(|other| end_of(other) <= block.address);
            if taken.get(at).is_some_and(|rival| rival.address < end_of(block)) {
                taken.remove(at);
            }
        }
        blocks.extend(taken);
        blocks
    }
}

fn end_of(block: &PlacedBlock) -> u64 {
    block.address.saturating_add(block.size.max(1))
}

/// Whether pages of a block were found, or not looked for. A block that has none and went meanwhile may have been on
/// its way out: it has no part in what was read.
fn may_have_pages(reading: &Reading, block: &PlacedBlock) -> bool {
    let after = reading.pages.partition_point(|run| run.start < end_of(block));
    let page = u64::from(reading.footprint.page_bytes);
    let last = after.checked_sub(1).and_then(|at| reading.pages.get(at));
    let has_any = last.is_some_and(|run| run.start.saturating_add(run.pages.saturating_mul(page)) > block.address);
    has_any || reading.footprint.mapping_at(block.address).is_some_and(|mapping| !mapping.has_pages)
}

/// Whether writable mappings hold all of a block.
fn is_mapped(mappings: &[Mapping], block: &PlacedBlock) -> bool {
    let mut at = block.address;
    for mapping in &mappings[mappings.partition_point(|mapping| mapping.end <= at)..] {
        let is_open = mapping.flags.has(MappingFlags::WRITE) || mapping.sizes.rss > 0;
        if mapping.start > at || !is_open {
            return false;
        }
        at = mapping.end;
        if at >= end_of(block) {
            return true;
        }
    }
    false
}
