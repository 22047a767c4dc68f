//! What glibc's heap says of a block that looks lost: it may be free.
//!
//! A library that was opened with RTLD_DEEPBIND, as PHP opens its extensions, calls the C library's `free` and not
//! Mallow's. A block that it frees seems to live on, and nothing points to it any more.

use super::Failure;
use super::index::Index;
use super::memory::Memory;
use mallow_proc::Mapping;

/// What is before a block: the size of the chunk before it, if that is free, and that of its own.
const HEAD: u64 = 16;
const SMALLEST: u64 = 32;
/// A chunk may have so many bytes more than were asked for.
const SLACK: u64 = 48;
/// Bits of a chunk's size: BEFORE_IN_USE for the chunk before it, MAPPED for a chunk that is a mapping of its own.
const BEFORE_IN_USE: u64 = 1;
const MAPPED: u64 = 2;
/// Chunks that are looked at in a scan, at the most.
const CHUNKS: usize = 1 << 22;
/// Bytes that are read together with a chunk's head.
const AHEAD: u64 = 1 << 20;

/// For each block that nothing reaches whether it lies in a free chunk; false in doubt, and for reached blocks.
pub fn free_blocks(
    index: &Index,
    reached: &[bool],
    mappings: &[Mapping],
    memory: &mut Memory<'_>,
) -> Result<Vec<bool>, Failure> {
    let mut free = vec![false; reached.len()];
    let mut left = CHUNKS;
    for mapping in mappings.iter().filter(|mapping| mapping.is_data()) {
        let is_main = mapping.path == "[heap]";
        let within = index.within(mapping.start, mapping.end);
        if !(is_main || mapping.is_anonymous()) || reached[within.clone()].iter().all(|&reached| reached) {
            continue;
        }
        // Glibc's first heap has a chunk at its start. Where the way is lost, or not known, it begins again at a block
        // in use.
        let mut chunk = is_main.then_some(mapping.start);
        for number in within {
            let block = &index.blocks[number];
            if !reached[number] {
                let walk = Walk { end: mapping.end, block: block.address, left: &mut left, memory };
                (free[number], chunk) = chunk.map_or(Ok((false, None)), |chunk| walk.from(chunk))?;
            } else if chunk.is_none() && fits(memory.array(block.address.saturating_sub(8), AHEAD)?, block.size) {
                chunk = block.address.checked_sub(HEAD);
            }
        }
    }
    Ok(free)
}

/// Whether a block in use of `requested` bytes may have a chunk of this size.
fn fits([size]: [u64; 1], requested: u64) -> bool {
    let least = (requested.saturating_add(8 + 15) & !15).max(SMALLEST);
    size & MAPPED == 0 && (least..=least.saturating_add(SLACK)).contains(&(size & !7))
}

/// A way from chunk to chunk of glibc's heap to the one that has `block`.
struct Walk<'a, 'b> {
    end: u64,
    block: u64,
    left: &'a mut usize,
    memory: &'a mut Memory<'b>,
}

impl Walk<'_, '_> {
    /// Whether the block is free, and the address of the chunk that has it; None: there is no way to it.
    fn from(self, mut chunk: u64) -> Result<(bool, Option<u64>), Failure> {
        let head = self.block.saturating_sub(HEAD);
        while *self.left > 0 && chunk <= head {
            *self.left -= 1;
            let [_, size, first, second] = self.memory.array(chunk, AHEAD)?;
            let next = chunk.saturating_add(size & !7);
            if size & (MAPPED | 8) != 0 || size < SMALLEST || next > self.end {
                break;
            }
            if next <= head {
                chunk = next;
                continue;
            }
            // Behind the last chunk, which is the rest of the heap, is nothing.
            let is_rest = next.saturating_add(HEAD) > self.end;
            let [_, after] = if is_rest { [0; 2] } else { self.memory.array(next, AHEAD)? };
            // Each chunk has a size: where there is none, the memory was not read.
            let is_read = is_rest || after & !7 != 0;
            let is_free = is_read && after & BEFORE_IN_USE == 0;
            return Ok((is_free || chunk == head && self.is_cached(first, second), Some(chunk)));
        }
        Ok((false, None))
    }

    /// Whether a chunk with these two words is in a thread's cache of small blocks, which glibc has in use. Such a
    /// block has the next one's address, hidden by its own, and a random number of the process, cleared when the block
    /// is handed out. Blocks in fast bins have the link alone, which is no proof.
    fn is_cached(&self, first: u64, second: u64) -> bool {
        let next = first ^ (self.block >> 12);
        let is_link = next == 0 || next.is_multiple_of(16) && next < self.end && next >> 26 == self.block >> 26;
        is_link && !matches!(second >> 48, 0 | 0xffff)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::LiveBlock;
    use std::time::Duration;

    /// Of a heap in this process: chunks of these sizes, with the bit of the chunk before, and the first word of each
    /// block.
    fn free(chunks: &[(u64, u64, u64)], lost: usize) -> bool {
        let mut words = vec![0u64; 1 << 12];
        let start = (words.as_ptr() as u64).next_multiple_of(16);
        let mut at = (start - words.as_ptr() as u64) as usize / 8;
        let mut blocks = Vec::new();
        for &(size, bits, first) in chunks {
            let address = words.as_ptr() as u64 + 8 * at as u64 + 16;
            words[at + 1] = size | bits;
            (words[at + 2], words[at + 3]) =
                if first == CACHED { (address >> 12, 0x57d2_e68e_c881_6034) } else { (first, 0) };
            if first == HANDED_OUT {
                words[at + 2] = address >> 12;
            }
            blocks.push(LiveBlock { address, size: 24, ..LiveBlock::default() });
            at += size as usize / 8;
        }
        let mapping = Mapping { start, end: start + (1 << 14), readable: true, writable: true, ..Mapping::default() };
        let mut reached = vec![true; blocks.len()];
        reached[lost] = false;
        // Of a larger chunk the block is a later part.
        blocks[lost].address += chunks[lost].0.saturating_sub(32);
        let index = Index::new(blocks);
        let enough = || false;
        let mut memory = Memory::of(std::process::id(), &enough, Duration::from_secs(60)).expect("own memory");
        free_blocks(&index, &reached, &[mapping], &mut memory).expect("readable")[lost]
    }

    const CACHED: u64 = u64::MAX;
    const HANDED_OUT: u64 = u64::MAX - 1;

    #[test]
    fn a_block_in_a_free_chunk_is_free() {
        assert!(free(&[(32, 1, 0), (32, 1, 0), (32, 0, 0)], 1));
        assert!(free(&[(32, 1, 0), (320, 1, 0), (32, 0, 0)], 1));
        assert!(free(&[(32, 1, 0), (32, 1, CACHED), (32, 1, 0)], 1));
    }

    #[test]
    fn a_block_in_use_is_not() {
        assert!(!free(&[(32, 1, 0), (32, 1, 0), (32, 1, 0)], 1));
        assert!(!free(&[(32, 1, 0), (32, 1, 0x5555), (32, 1, 0)], 1));
        // From the cache, and not written to.
        assert!(!free(&[(32, 1, 0), (32, 1, HANDED_OUT), (32, 1, 0)], 1));
        // As an allocator has it that takes its memory from malloc.
        assert!(!free(&[(32, 1, 0), (320, 1, 0), (32, 1, 0)], 1));
    }

    #[test]
    fn what_is_no_chain_of_chunks_says_nothing() {
        assert!(!free(&[(1024, 1, 0), (32, 1, 0), (32, 0, 0)], 1));
        assert!(!free(&[(32, 1, 0), (24, 1, 0), (32, 0, 0)], 1));
        // Zeros where the next chunk has its head, as of memory that cannot be read any more.
        assert!(!free(&[(32, 1, 0), (32, 1, 0), (0, 0, 0)], 1));
    }
}
