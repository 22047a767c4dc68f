//! From an address to the live block that has it.

use super::LiveBlock;
use super::pages::PAGE;

/// Blocks of more bytes than this are looked for by themselves: a table of their pages would be large, too.
const LARGE: u64 = 1 << 20;
const GAP: u64 = 256;

#[derive(Debug, Default)]
pub struct Index {
    /// Sorted by address; none overlaps the next one.
    pub blocks: Vec<LiveBlock>,
    /// Pages with blocks that are not large, by page, without overlaps.
    regions: Vec<Region>,
    /// Indexes of the large blocks in `blocks`, ascending.
    large: Vec<u32>,
    /// The lowest address of a block, and in `high` the end of the highest one.
    low: u64,
    high: u64,
}

/// Neighbouring pages from `page` on: for each, the index of the first block that is not large and ends behind its
/// start.
#[derive(Debug, Default)]
struct Region {
    page: u64,
    first: Vec<u32>,
}

impl Index {
    /// Takes blocks in any order, at most `u32::MAX - 1` of them.
    pub fn new(mut blocks: Vec<LiveBlock>) -> Self {
        blocks.sort_unstable_by_key(|block| block.address);
        let mut index = Self { low: u64::MAX, ..Self::default() };
        for (number, block) in (0..).zip(&blocks) {
            index.add(number, block);
        }
        index.blocks = blocks;
        index
    }

    fn add(&mut self, number: u32, block: &LiveBlock) {
        let end = block.end();
        self.low = self.low.min(block.address);
        self.high = self.high.max(end);
        if block.size > LARGE {
            self.large.push(number);
            return;
        }
        let (page, last) = (block.address / PAGE, (end - 1) / PAGE);
        match self.regions.last_mut() {
            Some(region) if page < region.page + region.first.len() as u64 + GAP => {
                // Pages in between have no block: the next one is this.
                let count = (last + 1 - region.page) as usize;
                if count > region.first.len() {
                    region.first.resize(count, number);
                }
            }
            _ => self.regions.push(Region { page, first: vec![number; (last + 1 - page) as usize] }),
        }
    }

    /// Index of the block that has this address, from its first byte to its last one.
    #[inline]
    pub fn find(&self, address: u64) -> Option<u32> {
        if address < self.low || address >= self.high {
            return None;
        }
        self.find_small(address).or_else(|| {
            let after = self.large.partition_point(|&number| self.blocks[number as usize].address <= address);
            let number = *self.large.get(after.checked_sub(1)?)?;
            (address < self.blocks[number as usize].end()).then_some(number)
        })
    }

    #[inline]
    fn find_small(&self, address: u64) -> Option<u32> {
        let page = address / PAGE;
        let after = self.regions.partition_point(|region| region.page <= page);
        let region = self.regions.get(after.checked_sub(1)?)?;
        let at = (page - region.page) as usize;
        let first = *region.first.get(at)? as usize;
        let last = region.first.get(at + 1).map_or(self.blocks.len(), |&next| next as usize + 1);
        let candidates = &self.blocks[first..last.min(self.blocks.len())];
        let below = candidates.partition_point(|block| block.address <= address);
        let block = candidates.get(below.checked_sub(1)?)?;
        (address < block.end()).then_some((first + below - 1) as u32)
    }

    /// Indexes of the blocks that have an address in `start..end`.
    pub fn within(&self, start: u64, end: u64) -> std::ops::Range<usize> {
        let mut first = self.blocks.partition_point(|block| block.address < start);
        if first > 0 && self.blocks[first - 1].end() > start {
            first -= 1;
        }
        first..self.blocks.partition_point(|block| block.address < end).max(first)
    }
}

impl LiveBlock {
    /// Address past the last byte. A block of no bytes has its address all the same.
    #[inline]
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.size.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// As a search through all blocks.
        #[test]
        fn finds_what_a_search_finds(
            parts in prop::collection::vec((0u64..3000, prop_oneof![0u64..200, 4000u64..20000, 1_000_000u64..3_000_000]), 0..60),
            probes in prop::collection::vec((0usize..60, -40i64..40, any::<bool>()), 0..80),
            far in any::<bool>(),
        ) {
            let mut at = 0x7000_0000_0000u64;
            let mut blocks = Vec::new();
            for (n, (gap, size)) in parts.into_iter().enumerate() {
                at += gap + if far && n % 7 == 0 { 5 << 20 } else { 0 };
                at = at.next_multiple_of(16);
                blocks.push(LiveBlock { address: at, size, sequence: n as u64, site: 0 });
                at += size.max(1);
            }
            let index = Index::new(blocks.iter().rev().copied().collect());
            for (block, offset, end) in probes {
                let Some(block) = blocks.get(block) else { continue };
                let address = (if end { block.end() } else { block.address }).wrapping_add_signed(offset);
                let expected = blocks.iter().position(|b| (b.address..b.end()).contains(&address));
                prop_assert_eq!(index.find(address).map(|n| n as usize), expected, "{:x}", address);
                let within = index.within(address, address + 100);
                let all: Vec<_> = (0..blocks.len()).filter(|&n| blocks[n].address < address + 100 && blocks[n].end() > address).collect();
                prop_assert_eq!(within.collect::<Vec<_>>(), all);
            }
        }
    }
}
