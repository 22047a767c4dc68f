//! mimalloc's memory for itself, which is no root: since version 3 the record of each of its pages has the address of
//! the page's first block (`types.h`: `mi_page_t`), which nobody else may have any more.
//!
//! Records lie apart from blocks, at the start of the arena that both are from, or of the mapping where a block has one
//! of its own. An arena begins with its own record (`mi_arena_t`), at a multiple of a slice:
//!
//! | word | holds |
//! | --- | --- |
//! | 0 | address that the system gave: the arena's |
//! | 1 | how much it gave |
//! | 2 | what kind of memory this is (`mi_memkind_t`), in the lower half |
//!
//! and a page with a block of its own with that page's:
//!
//! | word | holds |
//! | --- | --- |
//! | 5 | what the block has |
//! | 6 | address of the block |

use super::Failure;
use super::LiveBlock;
use super::index::Index;
use super::memory::Memory;
use mallow_proc::Mapping;
use std::ops::Range;

const SLICE: u64 = 64 << 10;
/// Arenas are at least so large: smaller ones are asked for by hand.
const ARENA: u64 = 4 << 20;
/// Memory of the system, in huge pages or not, and such that was moved.
const OF_SYSTEM: Range<u32> = 4..7;
/// Words of a record that are looked at.
const WORDS: usize = 7;

/// What mimalloc has of a process's memory, by address: whole arenas with blocks, and records before blocks.
pub fn own(mappings: &[Mapping], index: &Index, memory: &mut Memory<'_>) -> Result<Vec<Range<u64>>, Failure> {
    let mut found: Vec<Range<u64>> = Vec::new();
    for mapping in mappings.iter().filter(|mapping| mapping.is_anonymous() && mapping.is_data()) {
        if found.last().is_some_and(|arena| mapping.start < arena.end) {
            continue;
        }
        // The kernel joins neighbours: the arena may begin later than the mapping, but before a block.
        let first = index.blocks.get(index.within(mapping.start, mapping.end).start);
        let first = first.filter(|block| block.address < mapping.end);
        let before = first.map_or(mapping.start.saturating_add(1), |block| block.address);
        let mut at = mapping.start.next_multiple_of(SLICE);
        while at < before {
            let record = memory.array(at, 0)?;
            let has_blocks = |&end: &u64| !index.within(at, end).is_empty();
            let end = match first.filter(|block| is_page_of(block, record)) {
                Some(block) => Some(block.address),
                None => arena(at, record).filter(has_blocks),
            };
            if let Some(end) = end {
                found.push(at..end);
                break;
            }
            at += SLICE;
        }
    }
    Ok(found)
}

/// Where an arena ends that begins at `at` with this record; None: it is none.
fn arena(at: u64, [base, size, kind, ..]: [u64; WORDS]) -> Option<u64> {
    let is_arena = base == at && size >= ARENA && size.is_multiple_of(SLICE) && OF_SYSTEM.contains(&(kind as u32));
    at.checked_add(size).filter(|_| is_arena)
}

/// Whether the record is of the page that has this block alone.
fn is_page_of(block: &LiveBlock, [.., size, start]: [u64; WORDS]) -> bool {
    start == block.address && size >= block.size && size - block.size <= SLICE.max(block.size / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 2 << 40;

    #[test]
    fn an_arena_says_where_it_lies_and_how_large_it_is() {
        let record = [AT, 1 << 30, 0x1_0000_0004, 0x55c0_dead_b000, 0, 1 << 14, 40];
        assert_eq!(arena(AT, record), Some(AT + (1 << 30)));
        for (word, wrong) in [(0, AT + SLICE), (0, 0), (1, 0), (1, SLICE), (1, (1 << 30) + 8), (1, u64::MAX), (2, 7)] {
            let mut record = record;
            record[word] = wrong;
            assert_eq!(arena(AT, record), None, "{word}: {wrong:#x}");
        }
        assert_eq!(arena(AT, [0; WORDS]), None);
    }

    #[test]
    fn a_page_has_its_one_block() {
        let block = LiveBlock { address: AT + SLICE, size: 100 << 20, ..LiveBlock::default() };
        let record = [7, 0, 0x1_0001, 0, 1, 100 << 20, AT + SLICE];
        assert!(is_page_of(&block, record));
        for (word, wrong) in [(5, 0), (5, (100 << 20) - 8), (5, 1 << 30), (6, AT), (6, 0)] {
            let mut record = record;
            record[word] = wrong;
            assert!(!is_page_of(&block, record), "{word}: {wrong:#x}");
        }
    }
}
