//! Heaps that their contents, or their addresses, name: those of glibc's other arenas, CPython's small objects, V8, the
//! JVM and Go. The kernel joins what lies side by side, so a mapping says nothing of whose it is; each of these heaps
//! begins with a head.
//!
//! ```text
//! arena of glibc, at 64 MiB:   | its malloc_state | heap before | size | size with rights |
//! pool of CPython, at 16 KiB:  | blocks in use | first free block | next | previous | arena, class | offset of the next block, its maximum |
//! page of V8, at 256 KiB:      | size | flags | heap | begin of objects | end of objects |
//! block of glibc, at a mapping's beginning or where another one ends:   | 0 | size + 2 |
//! ```
//!
//! The JVM keeps its heap below 32 GiB, as compressed pointers have no more bits; `go_heap.rs` has Go's. A heap that
//! looks otherwise is not named.

use super::go_heap;
use super::peek::words;
use super::smaps::is_mapped;
use mallow_profile::{HeapKind, KnownHeap, Mapping, PageRun};
use std::cell::Cell;

const ARENA: u64 = 64 << 20;
/// What `heap_info` takes, at most; the first heap of an arena goes on with its `malloc_state`.
const HEAP_INFO_MOST: u64 = 0x40;
/// Pools of CPython 3.10 and later, and of earlier ones.
const POOLS: [u64; 2] = [16 << 10, 4 << 10];
const POOL_HEAD: u64 = 48;
/// Blocks of pools are multiples of this, up to 32 of them.
const POOL_STEP: u64 = 16;
const POOL_CLASSES: u64 = 32;
const V8_PAGE: u64 = 256 << 10;
/// The head of a page of V8 is smaller.
const V8_HEAD_MOST: u64 = 16 << 10;
const COMPRESSED: u64 = 32 << 30;
/// Heads that are looked at: those of 16 GiB of pools.
const PLACES: usize = 1 << 20;

/// Blocks of glibc that are followed from one to the next.
const CHAIN: usize = 1 << 12;

/// The heaps of process `pid`, by address, without overlaps. `has_older_blocks`: it may have blocks that no event tells
/// of.
pub fn read(pid: u32, mappings: &[Mapping], pages: &[PageRun], has_older_blocks: bool) -> Vec<KnownHeap> {
    let Ok(pid) = i32::try_from(pid) else { return Vec::new() };
    let places = Places { pid, mappings, pages, lacks_head: Cell::new(false) };
    let has_file = |is: &dyn Fn(&str) -> bool| {
        mappings
            .iter()
            .any(|mapping| !mapping.name.is_empty() && is(mapping.name.rsplit('/').next().unwrap_or_default()))
    };
    let mut all = arenas(&places);
    all.extend(v8_pages(&places));
    if has_file(&|file| file.starts_with("libjvm.so")) {
        all.extend(mappings.iter().filter(|m| is_mapped(m) && m.end <= COMPRESSED).map(|m| whole(m, HeapKind::Java)));
    }
    all.extend(go_heap::read(pid, mappings));
    if has_older_blocks {
        all.extend(glibc_blocks(&places));
    }
    if has_file(&|file| file.contains("python")) {
        for pool in POOLS {
            let found = pools(&places, pool);
            if !found.is_empty() {
                all.extend(found);
                break;
            }
        }
    }
    all.sort_by_key(|heap| heap.start);
    let mut end = 0;
    all.retain(|heap| {
        let is_apart = heap.start >= end && heap.end > heap.start;
        end = end.max(heap.end);
        is_apart
    });
    if places.lacks_head.get() {
        let unmapped = unmapped(&places, &all);
        all.extend(unmapped);
        all.sort_by_key(|heap| heap.start);
    }
    all
}

/// Pages outside of `known` heaps that do not exist any more: a program gives back memory while it is read.
fn unmapped(places: &Places<'_>, known: &[KnownHeap]) -> Vec<KnownHeap> {
    let mut all: Vec<KnownHeap> = Vec::new();
    let found = places.at_multiples(POOLS[0]);
    let addresses: Vec<u64> = found.iter().map(|(place, _)| *place).collect();
    let read = words::<1>(places.pid, &addresses);
    for ((start, limit), _) in found.into_iter().zip(read).filter(|(_, word)| word.is_none()) {
        let next = known.get(known.partition_point(|heap| heap.end <= start));
        let end = start.saturating_add(POOLS[0]).min(limit).min(next.map_or(u64::MAX, |next| next.start));
        match all.last_mut().filter(|last| last.end == start) {
            _ if end <= start => {}
            Some(last) => last.end = end,
            None => all.push(KnownHeap { kind: HeapKind::Unmapped, start, end, used: 0 }),
        }
    }
    all
}

fn whole(mapping: &Mapping, kind: HeapKind) -> KnownHeap {
    KnownHeap { kind, start: mapping.start, end: mapping.end, used: 0 }
}

struct Places<'a> {
    pid: i32,
    mappings: &'a [Mapping],
    pages: &'a [PageRun],
    /// A head could not be read, of a page that existed before.
    lacks_head: Cell<bool>,
}

impl Places<'_> {
    /// Multiples of `step` that are in memory, with the ends of their mappings.
    fn at_multiples(&self, step: u64) -> Vec<(u64, u64)> {
        let mut found: Vec<(u64, u64)> = Vec::new();
        for mapping in self.mappings.iter().filter(|mapping| is_mapped(mapping) && mapping.sizes.rss > 0) {
            // Reservations of a terabyte have few pages.
            let first = self.pages.partition_point(|run| run.start.saturating_add(run.pages << 12) <= mapping.start);
            for run in self.pages.iter().skip(first).take_while(|run| run.start < mapping.end) {
                let end = run.start.saturating_add(run.pages << 12).min(mapping.end);
                let Some(start) = run.start.max(mapping.start).checked_next_multiple_of(step) else { continue };
                let places = (start..end).step_by(step as usize).map(|place| (place, mapping.end));
                found.extend(places.take(PLACES.saturating_sub(found.len())));
            }
        }
        found
    }

    /// The heads at multiples of `step` that are in memory, with the ends of their mappings.
    fn heads<const N: usize>(&self, step: u64) -> Vec<(u64, u64, [u64; N])> {
        let found = self.at_multiples(step);
        let addresses: Vec<u64> = found.iter().map(|(place, _)| *place).collect();
        let read = words::<N>(self.pid, &addresses);
        self.lacks_head.set(self.lacks_head.get() || read.iter().any(Option::is_none));
        found.into_iter().zip(read).filter_map(|((place, end), head)| Some((place, end, head?))).collect()
    }
}

/// Blocks of glibc with mappings of their own. The kernel joins such mappings, so one begins where another one ends.
fn glibc_blocks(places: &Places<'_>) -> Vec<KnownHeap> {
    let mappings = places.mappings.iter().filter(|mapping| is_mapped(mapping) && mapping.sizes.rss > 0);
    let mut next: Vec<(u64, u64)> = mappings.map(|mapping| (mapping.start, mapping.end)).collect();
    let mut found = Vec::new();
    for _ in 0..CHAIN {
        let addresses: Vec<u64> = next.iter().map(|(start, _)| *start).collect();
        let blocks = next.iter().zip(words::<2>(places.pid, &addresses)).filter_map(|(&(start, limit), head)| {
            let end = start.checked_add(glibc_block(head?)?)?;
            (end <= limit).then_some((start, end, limit))
        });
        let blocks: Vec<_> = blocks.collect();
        found.extend(blocks.iter().map(|&(start, end, _)| KnownHeap {
            kind: HeapKind::GlibcBlock,
            start,
            end,
            used: 0,
        }));
        next = blocks.into_iter().filter(|(_, end, limit)| end < limit).map(|(_, end, limit)| (end, limit)).collect();
        if next.is_empty() {
            break;
        }
    }
    found
}

/// The bytes of the mapping of the block with this head. None: it is none.
fn glibc_block([before, size]: [u64; 2]) -> Option<u64> {
    const IS_MAPPED: u64 = 2;
    let bytes = size & !7;
    (before == 0 && size & 7 == IS_MAPPED && bytes > 0 && bytes.is_multiple_of(4096)).then_some(bytes)
}

fn arenas(places: &Places<'_>) -> Vec<KnownHeap> {
    let heads = places.heads::<4>(ARENA);
    let found = heads.into_iter().filter_map(|(start, _, head)| arena(start, head).map(|size| (start, size)));
    found.map(|(start, size)| KnownHeap { kind: HeapKind::GlibcArena, start, end: start + size, used: 0 }).collect()
}

/// The size of the heap with this head. None: it is none.
fn arena(start: u64, head: [u64; 4]) -> Option<u64> {
    let [state, before, size, with_rights] = head;
    let is_size = |size: u64| size > 0 && size <= ARENA && size.is_multiple_of(4096);
    // The first heap has the arena's state behind its head; others name the one before.
    let is_first = before == 0 && state > start && state - start <= HEAP_INFO_MOST;
    let is_other = before != 0 && before.is_multiple_of(ARENA) && state % ARENA <= HEAP_INFO_MOST && state > ARENA;
    (is_size(size) && is_size(with_rights) && size <= with_rights && (is_first || is_other)).then_some(size)
}

/// The pages of V8: two of one heap at least.
fn v8_pages(places: &Places<'_>) -> Vec<KnownHeap> {
    let heads = places.heads::<5>(V8_PAGE);
    let is_page = |(start, _, head): &(u64, u64, [u64; 5])| v8_page(*start, *head).is_some();
    let heaps: Vec<u64> = heads.iter().filter(|head| is_page(head)).map(|(_, _, head)| head[2]).collect();
    let is_shared = |heap: u64| heaps.iter().filter(|other| **other == heap).count() > 1;
    let mut shared: Vec<u64> = Vec::new();
    for &heap in &heaps {
        if !shared.contains(&heap) && shared.len() < 64 && is_shared(heap) {
            shared.push(heap);
        }
    }
    let of_heap = |(start, limit, head): (u64, u64, [u64; 5])| {
        let size = v8_page(start, head).filter(|_| shared.contains(&head[2]))?;
        // A large one goes on for several mappings, where its rights differ.
        let end = start.checked_add(size.next_multiple_of(4096))?;
        (start < limit).then_some(KnownHeap { kind: HeapKind::V8, start, end, used: 0 })
    };
    heads.into_iter().filter_map(of_heap).collect()
}

fn v8_page(start: u64, head: [u64; 5]) -> Option<u64> {
    let [size, _, heap, begin, end] = head;
    let is_size = (4096..1 << 40).contains(&size);
    let fits = begin > start && begin - start < V8_HEAD_MOST && end > begin && end <= start.checked_add(size)?;
    (is_size && fits && heap != 0 && heap.is_multiple_of(8)).then_some(size)
}

fn pools(places: &Places<'_>, pool: u64) -> Vec<KnownHeap> {
    let mut found: Vec<KnownHeap> = Vec::new();
    for (start, limit, head) in places.heads::<6>(pool) {
        let Some(used) = used_of_pool(start, head, pool).filter(|_| limit - start >= pool) else { continue };
        match found.last_mut().filter(|last| last.end == start) {
            Some(last) => {
                last.end += pool;
                last.used += used;
            }
            None => found.push(KnownHeap { kind: HeapKind::Pymalloc, start, end: start + pool, used }),
        }
    }
    found
}

/// Bytes of blocks in use in the pool with this head. None: it is none.
fn used_of_pool(start: u64, head: [u64; 6], pool: u64) -> Option<u64> {
    let [count, free, next, _, arena_and_class, offsets] = head;
    let (class, offset, most) = (arena_and_class >> 32, offsets & u64::from(u32::MAX), offsets >> 32);
    if class >= POOL_CLASSES {
        return None;
    }
    let size = (class + 1) * POOL_STEP;
    let is_block = |at: u64| at >= POOL_HEAD && at < pool && (at - POOL_HEAD).is_multiple_of(size);
    let count = count & u64::from(u32::MAX);
    let fits = most == pool - size
        && offset > POOL_HEAD
        && offset <= pool
        && (offset - POOL_HEAD).is_multiple_of(size)
        && count <= (pool - POOL_HEAD) / size
        && (free == 0 || is_block(free.wrapping_sub(start)))
        && (next == 0 || next.is_multiple_of(8));
    fits.then_some(count * size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_profile::{MappingFlags, MappingKind, MemorySizes, PageState};

    const AT: u64 = 0x7f00_0000_0000;

    #[test]
    fn a_head_that_does_not_fit_is_none() {
        let first = [AT + 0x30, 0, 0x21000, 0x21000];
        assert_eq!(arena(AT, first), Some(0x21000));
        let other = [AT - ARENA + 0x30, AT - ARENA, 0x5000, 0x8000];
        assert_eq!(arena(AT, other), Some(0x5000));
        for (word, wrong) in
            [(0, 0), (0, AT), (0, AT + 0x1000), (1, 8), (2, 0), (2, 0x21001), (2, 2 * ARENA), (3, 0x1000)]
        {
            let mut head = first;
            head[word] = wrong;
            assert_eq!(arena(AT, head), None, "{word}: {wrong:#x}");
        }
        let page = [V8_PAGE, 0x12, 0x5555_0000_1000, AT + 0x1148, AT + V8_PAGE];
        assert_eq!(v8_page(AT, page), Some(V8_PAGE));
        for (word, wrong) in [(0, 0), (0, u64::MAX), (2, 0), (2, 3), (3, AT), (3, AT + V8_PAGE), (4, AT), (4, u64::MAX)]
        {
            let mut head = page;
            head[word] = wrong;
            assert_eq!(v8_page(AT, head), None, "{word}: {wrong:#x}");
        }
    }

    /// Blocks of 48 bytes, of which 100 are in use.
    #[test]
    fn a_pool_says_what_is_in_use() {
        const POOL: u64 = 16 << 10;
        let (class, most) = (2u64, POOL - 48);
        let head = [100, AT + 48 + 48 * 7, AT + 8 * POOL, AT + 8 * POOL, class << 32 | 5, most << 32 | (48 + 48 * 101)];
        assert_eq!(used_of_pool(AT, head, POOL), Some(4800));
        assert_eq!(used_of_pool(AT, head, 4096), None);
        let wrong = [(0, 9999), (1, AT + 49), (1, AT + POOL), (2, 3), (4, 40 << 32), (5, most << 32), (5, 0)];
        for (word, wrong) in wrong {
            let mut head = head;
            head[word] = wrong;
            assert_eq!(used_of_pool(AT, head, POOL), None, "{word}: {wrong:#x}");
        }
        assert_eq!(used_of_pool(AT, [0; 6], POOL), None);
        assert_eq!(used_of_pool(AT, [u64::MAX; 6], POOL), None);
    }

    /// Of three mappings next to each other, the middle one is unmapped between a look at the pages and a look at their
    /// heads.
    #[test]
    fn what_was_unmapped_while_it_was_read_is_nobodys() {
        const PART: usize = 1 << 20;
        // Far from where the kernel looks for room: another test's mapping would fill the hole.
        const FAR: usize = 0x1234_5670_0000;
        let mut pages = Vec::new();
        // SAFETY: a mapping of its own, of that length; its pages are written.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE | libc::MAP_FIXED_NOREPLACE;
            let at = libc::mmap(FAR as *mut libc::c_void, 3 * PART, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            at as u64
        };
        let part = PART as u64;
        pages.push(PageRun { start, pages: 3 * (part >> 12), state: PageState(PageState::RESIDENT) });
        let sizes = MemorySizes { rss: 3 * part, ..MemorySizes::default() };
        let flags = MappingFlags(MappingFlags::READ | MappingFlags::WRITE);
        let kind = MappingKind::Anonymous;
        let mapping =
            Mapping { start, end: start + 3 * part, kind, flags, sizes, has_pages: true, ..Mapping::default() };
        let python =
            Mapping { start: 4096, end: 8192, name: "/usr/lib/libpython3.12.so.1.0".into(), ..Mapping::default() };
        let mappings = [python, mapping];
        let of = || read(std::process::id(), &mappings, &pages, false);
        assert_eq!(of(), []);
        let middle = start + part;
        // SAFETY: nobody uses these pages.
        unsafe { libc::munmap(middle as *mut libc::c_void, PART) };
        let found = of();
        let [gone] = &found[..] else { panic!("{found:x?}") };
        assert_eq!(gone.kind, HeapKind::Unmapped);
        // A mapping need not begin at a multiple of a pool.
        assert!(gone.start >= middle && gone.start - middle < POOLS[0] && gone.end.abs_diff(middle + part) < POOLS[0]);
        // SAFETY: nobody uses these pages.
        unsafe { libc::munmap(start as *mut libc::c_void, 3 * PART) };
    }

    /// Two blocks of malloc in this process, which are next to each other or not: each is found, as large as it is. No
    /// other memory is one.
    #[test]
    fn blocks_with_mappings_of_their_own_are_found() {
        assert_eq!(glibc_block([0, 0x2_1002]), Some(0x2_1000));
        let others = [[0, 0x2_1001], [0, 0x2_1006], [0x10, 0x2_1002], [0, 0x2_1012], [0, 2], [0, 0]];
        assert_eq!(others.map(glibc_block), [None; 6]);
        // Above what the threshold may have risen to.
        let sizes = [40 << 20, 50 << 20];
        // SAFETY: blocks of that size, whose first byte is written.
        let blocks = sizes.map(|size| unsafe {
            let block = libc::malloc(size).cast::<u8>();
            assert!(!block.is_null());
            block.write_volatile(1);
            block
        });
        let pid = std::process::id();
        let mappings = crate::footprint::smaps::mappings(pid, "").expect("own mappings");
        let found = read(pid, &mappings, &[], true);
        for (block, size) in blocks.into_iter().zip(sizes) {
            let start = block as u64 - 16;
            let one = found.iter().find(|heap| heap.start == start).expect("the block");
            assert_eq!((one.kind, one.end - start), (HeapKind::GlibcBlock, (size as u64 + 16).next_multiple_of(4096)));
        }
        assert!(read(pid, &mappings, &[], false).iter().all(|heap| heap.kind != HeapKind::GlibcBlock));
        // SAFETY: nobody uses them any more.
        blocks.into_iter().for_each(|block| unsafe { libc::free(block.cast()) });
    }
}
