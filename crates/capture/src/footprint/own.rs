//! Memory that Mallow's library has mapped for itself: parts of mappings of their own kind.
//!
//! The kernel joins anonymous mappings with their neighbours, so smaps does not say whose they are. The library lists
//! its ranges (`struct mallow_own`).

use super::Failure;
use super::division::divide;
use super::pagemap::{PAGE, Pagemap};
use super::peek::words;
use crate::wire::own;
use mallow_profile::{Mapping, MappingKind, PageState};
use std::ops::Range;

/// Lists that are read of a process: a range for each of 65,000 threads.
const LISTS: usize = 256;

/// Ranges of the library's, by address, without overlaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnRanges {
    all: Vec<Range<u64>>,
    /// Ranges of `all` that are slots of samples: blocks of the program lie in them.
    slots: Vec<Range<u64>>,
}

impl OwnRanges {
    /// Ranges that process `pid` lists. `address`: of its first list; 0: it has none.
    pub fn read(pid: u32, address: u64) -> Self {
        let pid = i32::try_from(pid).unwrap_or_default();
        let (mut lists, mut next) = (Vec::new(), address);
        while next != 0 && lists.len() < LISTS {
            let Some(Some(list)) = words::<{ own::WORDS }>(pid, &[next]).pop() else { break };
            next = list[0];
            lists.push(list);
        }
        Self::of(lists.iter().map(|list| &list[1..]))
    }

    /// Ranges of lists of starts and bytes, without those that are not of whole pages, or overlap an earlier one.
    fn of<'a>(lists: impl Iterator<Item = &'a [u64]>) -> Self {
        let range = |words: &[u64]| {
            let &[start, bytes] = words else { return None };
            let end = start.checked_add(bytes & !own::SLOTS)?;
            let is_sound = start != 0 && start < end && start.is_multiple_of(PAGE) && end.is_multiple_of(PAGE);
            is_sound.then_some((start, end, bytes & own::SLOTS != 0))
        };
        let mut all: Vec<(u64, u64, bool)> = lists.flat_map(|list| list.chunks(2).filter_map(range)).collect();
        all.sort_unstable();
        let mut last = 0;
        all.retain(|&(start, end, _)| {
            let is_apart = start >= last;
            last = if is_apart { end } else { last };
            is_apart
        });
        Self {
            slots: all.iter().filter(|range| range.2).map(|range| range.0..range.1).collect(),
            all: all.into_iter().map(|(start, end, _)| start..end).collect(),
        }
    }

    /// Ranges in which nothing of the program's lies.
    pub fn without_slots(&self) -> Vec<Range<u64>> {
        let is_slots = |range: &Range<u64>| self.slots.binary_search_by_key(&range.start, |slots| slots.start).is_ok();
        self.all.iter().filter(|range| !is_slots(range)).cloned().collect()
    }

    /// Gives what is the library's a mapping of its own. A part whose pages are not all known stays with the program's.
    pub fn divide(&self, pagemap: &mut Pagemap, mappings: &mut Vec<Mapping>) -> Result<(), Failure> {
        divide(&self.all, pagemap, mappings, |mapping| mapping.kind = MappingKind::Mallow)
    }

    /// Bytes of `blocks`, which are by address and do not overlap, that are in memory in the slots of these mappings.
    pub fn held(&self, pagemap: &mut Pagemap, mappings: &[Mapping], blocks: &[Range<u64>]) -> Result<u64, Failure> {
        let is_slots = |mapping: &&Mapping| {
            let at = self.slots.partition_point(|range| range.end <= mapping.start);
            mapping.kind == MappingKind::Mallow && self.slots.get(at).is_some_and(|range| range.start <= mapping.start)
        };
        let mut bytes: u64 = 0;
        for mapping in mappings.iter().filter(is_slots) {
            let first = pagemap.runs.len();
            pagemap.read(mapping)?;
            let resident = pagemap.runs[first..].iter().filter(|run| run.state.has(PageState::RESIDENT));
            for (start, end) in resident.map(|run| (run.start, run.start + PAGE * run.pages)) {
                let from = blocks.partition_point(|block| block.end <= start);
                let of_run = blocks[from..].iter().take_while(|block| block.start < end);
                let held = of_run.map(|block| block.end.min(end).saturating_sub(block.start.max(start)));
                bytes = bytes.saturating_add(held.sum());
            }
            pagemap.runs.truncate(first);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_profile::MemorySizes;

    #[test]
    fn lists_may_say_anything() {
        let list = [
            0,
            0x1000,
            0x5000,
            0x2001,
            0x9000,
            0,
            0x9001,
            0x1000,
            u64::MAX - 0xfff,
            0x1000,
            0x6000,
            0x1000,
            0x2000,
            0x1000,
            7,
        ];
        let ranges = OwnRanges::of(std::iter::once(&list[..]));
        assert_eq!(ranges.all, [0x2000..0x3000, 0x5000..0x7000]);
        assert_eq!(ranges.slots, vec![0x5000..0x7000]);
        assert_eq!(OwnRanges::read(std::process::id(), 0), OwnRanges::default());
        assert_eq!(OwnRanges::read(std::process::id(), 8), OwnRanges::default());
    }

    /// Of this process: a list in its memory, and ten pages of which the third and fourth, and the ninth, are the
    /// library's.
    #[test]
    fn a_mapping_is_divided_by_its_pages() {
        const PAGES: usize = 10;
        // SAFETY: a mapping of its own, of that length; seven pages of it are written.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let bytes = PAGES * PAGE as usize;
            let at = libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            (0..7).for_each(|page| at.cast::<u8>().add(page * PAGE as usize).write_volatile(1));
            at as u64
        };
        let page = |page: u64| start + page * PAGE;
        let mut list = [0; own::WORDS];
        list[1..5].copy_from_slice(&[page(2), 2 * PAGE, page(8), PAGE | own::SLOTS]);
        let mut head = [0; own::WORDS];
        head[0] = list.as_ptr() as u64;
        let ranges = OwnRanges::read(std::process::id(), head.as_ptr() as u64);
        assert_eq!((ranges.all.len(), ranges.slots.len()), (2, 1));
        let end = page(PAGES as u64);
        let sizes =
            MemorySizes { size: end - start, rss: 7 * PAGE, pss: 7 * PAGE - 5 * 1024, ..MemorySizes::default() };
        let whole = Mapping { start, end, sizes, ..Mapping::default() };
        let file = Mapping { start: end, end: end + PAGE, kind: MappingKind::FileData, ..Mapping::default() };
        let mut pagemap = Pagemap::open(std::process::id()).expect("own pagemap");
        let mut mappings = vec![whole, file];
        ranges.divide(&mut pagemap, &mut mappings).expect("own memory");
        let found: Vec<_> =
            mappings.iter().map(|part| (part.kind, part.sizes.size / PAGE, part.sizes.rss / PAGE)).collect();
        use MappingKind::{Anonymous, FileData, Mallow};
        let expected = [(Anonymous, 2, 2), (Mallow, 2, 2), (Anonymous, 4, 3), (Mallow, 1, 0), (Anonymous, 1, 0)];
        assert_eq!((&found[..5], found[5].0), (&expected[..], FileData));
        assert_eq!(mappings.iter().map(|part| part.sizes).sum::<MemorySizes>(), sizes);
        assert!(
            mappings.iter().flat_map(|part| part.sizes.all()).all(|size| size.is_multiple_of(1024)),
            "{mappings:?}"
        );
        // A block of a slot counts as far as it is in memory.
        let slots = OwnRanges { slots: vec![start..page(1), page(1)..page(8)], ..ranges };
        let blocks = [page(1)..page(1) + 9, page(2) + 16..page(2) + 116, page(3) + 16..page(4)];
        assert_eq!(slots.held(&mut pagemap, &mappings, &blocks), Ok(100 + PAGE - 16));
        assert_eq!(pagemap.runs, []);
        // SAFETY: the mapping from above, which nobody uses any more.
        unsafe { libc::munmap(start as *mut libc::c_void, PAGES * PAGE as usize) };
    }
}
