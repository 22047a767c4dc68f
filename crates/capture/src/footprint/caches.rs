//! What the caches of glibc's threads (tcache) hold: freed blocks that their arenas count as in use, so `malloc_trim`
//! leaves them.
//!
//! ```text
//! cache:   | counts: 64 of 2 bytes | first blocks: 64 addresses |      a chunk of 656 bytes: glibc 2.30 to 2.41
//!          | counts: 64 of 1 byte  | first blocks: 64 addresses |      a chunk of 592 bytes: glibc 2.26 to 2.29
//! block:   | size of its chunk | address of the next one, xor its own address >> 12 |     plain before glibc 2.32
//! ```
//!
//! The first thread's cache is the first chunk of `[heap]`. A word of thread-local storage, at the end of a thread's
//! stack, leads to that thread's. Memory is read while its owner may change it: each chunk, count and address must fit,
//! and a list ends where one does not.

use super::peek::words;
use super::smaps::is_anonymous;
use mallow_profile::{CachedBlock, Mapping, MappingFlags, MappingKind, ThreadCaches};
use std::fs;

/// Kinds of sizes that a cache has blocks of; each is 16 bytes larger than the one before, and the first chunk has 32.
const BINS: usize = 64;
const LEAST: u64 = 32;
const STEP: u64 = 16;
/// Flags of a chunk in its size.
const FLAGS: u64 = 7;
/// Blocks of all caches of a process.
const BLOCKS: usize = 1 << 18;
/// Stacks of threads that are searched, and the pages at the end of each that may be thread-local storage.
const STACKS: usize = 1024;
const STORAGE: u64 = 4;
const PAGE: u64 = 4096;

/// Words of a chunk: its size, and the largest cache.
const CHUNK: usize = 1 + BINS / 4 + BINS;

/// Reads the caches of a process. None are found where the underlying allocator is another one.
pub fn read(pid: u32, mappings: &[Mapping]) -> ThreadCaches {
    let Ok(pid_number) = i32::try_from(pid) else { return ThreadCaches::default() };
    let mut it = Search { pid: pid_number, mappings, found: ThreadCaches::default() };
    let Some(heap) = mappings.iter().find(|mapping| mapping.kind == MappingKind::Heap) else { return it.found };
    if it.caches(&[heap.start + 16]) == 0 {
        return it.found;
    }
    let stacks: Vec<_> = mappings.iter().filter(|mapping| mapping.kind == MappingKind::ThreadStack).collect();
    let candidates = it.pointers(&stacks[..stacks.len().min(STACKS)], heap.start + 16);
    it.caches(&candidates);
    let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    let mut found = it.found;
    found.is_complete = threads <= stacks.len() + 1 && stacks.len() <= STACKS && found.blocks.len() < BLOCKS;
    found.blocks.sort_unstable_by_key(|block| block.address);
    found.blocks.dedup_by_key(|block| block.address);
    found
}

struct Search<'a> {
    pid: i32,
    mappings: &'a [Mapping],
    found: ThreadCaches,
}

/// The lists of one cache.
struct Lists {
    /// Bin, address of its first block, and number of its blocks.
    heads: Vec<(usize, u64, u64)>,
}

impl Search<'_> {
    /// Reads those of these addresses that are caches. Returns how many are.
    fn caches(&mut self, addresses: &[u64]) -> usize {
        let chunks: Vec<u64> = addresses.iter().map(|address| address - 8).collect();
        let mut found = 0;
        for (&address, chunk) in addresses.iter().zip(words::<CHUNK>(self.pid, &chunks)) {
            let Some(lists) = chunk.and_then(|chunk| self.lists(&chunk)) else { continue };
            found += 1;
            // The first one is at the beginning of the heap, which is known to be the allocator's own.
            if self.found.caches > 0 {
                self.found.blocks.push(CachedBlock { address, size: 8 * (CHUNK as u64 - 1) });
            }
            self.found.caches += 1;
            self.walk(lists);
        }
        found
    }

    /// The lists of what may be a cache. None: it is none.
    fn lists(&self, chunk: &[u64; CHUNK]) -> Option<Lists> {
        let bytes = match chunk[0] & !FLAGS {
            0x290 => 2,
            0x250 => 1,
            _ => return None,
        };
        let counts: Vec<u8> = chunk[1..].iter().flat_map(|word| word.to_le_bytes()).take(bytes * BINS).collect();
        let count =
            |bin: usize| counts[bin * bytes..][..bytes].iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte));
        let firsts = &chunk[1 + bytes * BINS / 8..][..BINS];
        let (mut heads, mut odd) = (Vec::new(), 0);
        for (bin, &first) in firsts.iter().enumerate() {
            match (count(bin), first) {
                (0, 0) => {}
                // Its owner is about to add one, or has taken the last one.
                (0, _) | (1, 0) => odd += 1,
                (_, 0) => return None,
                (count, first) if self.is_block(first) => heads.push((bin, first, count)),
                _ => return None,
            }
        }
        (odd <= 1).then_some(Lists { heads })
    }

    /// All lists a step at a time, so that the kernel is asked as often as the longest one has blocks.
    fn walk(&mut self, lists: Lists) {
        let mut heads = lists.heads;
        while !heads.is_empty() && self.found.blocks.len() < BLOCKS {
            let chunks: Vec<u64> = heads.iter().map(|&(_, address, _)| address - 8).collect();
            let read = words::<2>(self.pid, &chunks);
            let mut next_heads = Vec::with_capacity(heads.len());
            for (&(bin, address, left), chunk) in heads.iter().zip(read) {
                let size = LEAST + STEP * bin as u64;
                let Some([_, link]) = chunk.filter(|[own, _]| own & !FLAGS == size) else { continue };
                self.found.blocks.push(CachedBlock { address, size: size - 8 });
                let next = [link ^ (address >> 12), link].into_iter().find(|&next| next == 0 || self.is_block(next));
                if let Some(next) = next.filter(|&next| next != 0 && left > 1) {
                    next_heads.push((bin, next, left - 1));
                }
            }
            heads = next_heads;
        }
    }

    /// Words of threads' storage that may be the address of a cache.
    fn pointers(&self, stacks: &[&Mapping], known: u64) -> Vec<u64> {
        let pages = stacks.iter().flat_map(|stack| {
            let pages = STORAGE.min((stack.end - stack.start) / PAGE);
            (1..=pages).map(|page| stack.end - page * PAGE)
        });
        let pages: Vec<u64> = pages.collect();
        let mut found = Vec::new();
        for page in pages.chunks(STACKS).flat_map(|pages| words::<512>(self.pid, pages)).flatten() {
            found.extend(page.into_iter().filter(|&word| word != known && self.is_block(word)));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Whether a block of an arena may have this address.
    fn is_block(&self, address: u64) -> bool {
        let at = self.mappings.partition_point(|mapping| mapping.end <= address);
        let mapping = self.mappings.get(at).filter(|mapping| mapping.start + 16 <= address);
        let is_arenas = |mapping: &Mapping| is_anonymous(mapping) && mapping.kind != MappingKind::ThreadStack;
        address.is_multiple_of(16) && mapping.is_some_and(|m| is_arenas(m) && m.flags.has(MappingFlags::WRITE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::footprint::pagemap::Pagemap;
    use crate::footprint::{smaps, stacks};
    use std::sync::{Barrier, Mutex};
    use std::thread;

    /// Of this process: blocks of a size that nobody else uses, some of them freed by a thread that does nothing more:
    /// reading allocates, and would take a block out of its own thread's cache.
    #[test]
    fn what_a_thread_freed_is_in_its_cache() {
        const SIZE: u64 = 1000;
        let blocks = Mutex::new([0u64; 9]);
        let (freed, looked) = (Barrier::new(2), Barrier::new(2));
        let at = |block: u64| block as *mut libc::c_void;
        let (found, blocks, mappings) = thread::scope(|scope| {
            scope.spawn(|| {
                // SAFETY: blocks are freed once, and their addresses are compared alone.
                let mut own = [(); 9].map(|()| unsafe { libc::malloc(SIZE as usize) as u64 });
                *blocks.lock().expect("no panic") = own;
                // SAFETY: see above.
                own[..5].iter().for_each(|&block| unsafe { libc::free(at(block)) });
                freed.wait();
                looked.wait();
                own.reverse();
                // SAFETY: see above.
                own[..4].iter().for_each(|&block| unsafe { libc::free(at(block)) });
            });
            freed.wait();
            let mappings = smaps::mappings(std::process::id(), "").map(|mut mappings| {
                let mut pagemap = Pagemap::open(std::process::id()).expect("own pages");
                stacks::mark(std::process::id(), &mut pagemap, &mut mappings).expect("own memory");
                (read(std::process::id(), &mappings), mappings)
            });
            looked.wait();
            let (found, mappings) = mappings.expect("own mappings");
            (found, *blocks.lock().expect("no panic"), mappings)
        });
        let has = |address: &u64| found.blocks.contains(&CachedBlock { address: *address, size: 1000 });
        assert!(blocks[..5].iter().all(has) && !blocks[5..].iter().any(has), "{blocks:#x?} {found:#x?}");
        // That of the first thread, and of that one.
        assert!(found.caches >= 2, "{found:#x?}");
        assert_eq!(read(u32::MAX, &mappings), ThreadCaches::default());
    }

    /// A cache with these counts and first blocks, in a heap from 0x1000 on.
    fn lists(size: u64, counts: &[(usize, u64)], firsts: &[(usize, u64)]) -> Option<usize> {
        let flags = MappingFlags(MappingFlags::READ | MappingFlags::WRITE);
        let heap = Mapping { start: 0x1000, end: 0x9000, kind: MappingKind::Heap, flags, ..Mapping::default() };
        let search = Search { pid: 0, mappings: &[heap], found: ThreadCaches::default() };
        let (mut chunk, bytes) = ([0; CHUNK], if size & !FLAGS == 0x250 { 1 } else { 2 });
        chunk[0] = size;
        for &(bin, count) in counts {
            chunk[1 + bin * bytes / 8] |= count << (bin * bytes % 8 * 8);
        }
        firsts.iter().for_each(|&(bin, first)| chunk[1 + bytes * BINS / 8 + bin] = first);
        search.lists(&chunk).map(|lists| lists.heads.len())
    }

    #[test]
    fn what_does_not_fit_is_no_cache() {
        for size in [0x291, 0x295, 0x251] {
            assert_eq!(lists(size, &[], &[]), Some(0));
            assert_eq!(lists(size, &[(3, 7), (63, 1)], &[(3, 0x2010), (63, 0x8ff0)]), Some(2));
            assert_eq!(lists(size, &[(3, 7)], &[(3, 0x2018)]), None, "no block has this address");
            assert_eq!(lists(size, &[(3, 7)], &[(3, 0x9010)]), None, "an address outside");
            assert_eq!(lists(size, &[(3, 7)], &[]), None, "seven blocks, and no first one");
            assert_eq!(lists(size, &[(3, 1)], &[]), Some(0), "its owner takes the last one");
            assert_eq!(lists(size, &[(3, 1), (4, 1)], &[]), None, "it cannot take two at once");
        }
        assert_eq!(lists(0x301, &[], &[]), None);
    }
}
