//! Where jemalloc keeps its own tables: arenas, extents, caches of threads. It names these places nowhere, but each has
//! a head.
//!
//! ```text
//! base block, at a multiple of 2 MiB: | its size | next one | bits | first free address | free bytes |      jemalloc 5
//! ```
//!
//! The free bytes end where the block ends, which no other memory says of itself.

use super::peek::words;
use super::smaps::is_anonymous;
use mallow_profile::{AddressRange, Mapping, MappingFlags, PageRun};

/// A base block begins at a multiple of this, and is as large, or a multiple.
const BASE: u64 = 2 << 20;
/// Places that are looked at: those of 256 GiB.
const PLACES: usize = 1 << 17;

/// Reads the heads of what may be base blocks: pages at the right addresses, in memory.
pub fn read(pid: u32, mappings: &[Mapping], pages: &[PageRun]) -> Vec<AddressRange> {
    let Ok(pid) = i32::try_from(pid) else { return Vec::new() };
    let is_there = |address: u64| {
        let after = pages.partition_point(|run| run.start <= address);
        let run = after.checked_sub(1).map(|last| pages[last]);
        run.is_some_and(|run| (address - run.start) >> 12 < run.pages)
    };
    let is_wanted = |mapping: &&Mapping| is_anonymous(mapping) && mapping.flags.has(MappingFlags::WRITE);
    let places = mappings.iter().filter(is_wanted).flat_map(|mapping| {
        let first = mapping.start.next_multiple_of(BASE);
        (first..mapping.end).step_by(BASE as usize)
    });
    let places: Vec<u64> = places.filter(|&place| is_there(place)).take(PLACES).collect();
    let mut found: Vec<AddressRange> = Vec::new();
    for (&start, head) in places.iter().zip(words::<5>(pid, &places)) {
        let Some(size) = head.and_then(|head| size(start, head)) else { continue };
        let at = mappings.partition_point(|mapping| mapping.end <= start);
        let is_within = mappings.get(at).is_some_and(|mapping| start + size <= mapping.end);
        if is_within && found.last().is_none_or(|last| last.end <= start) {
            found.push(AddressRange { start, end: start + size });
        }
    }
    found
}

/// The size of the base block with this head. None: it is none.
fn size(start: u64, head: [u64; 5]) -> Option<u64> {
    let [size, next, _, free, free_bytes] = head;
    let end = start.checked_add(size)?;
    let is_block = size > 0 && size.is_multiple_of(BASE) && next.is_multiple_of(BASE);
    let is_free = start < free && free.checked_add(free_bytes)? == end;
    (is_block && is_free).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_does_not_fit_is_none() {
        let start = 0x7f00_0020_0000;
        let head = [BASE, 0, 7, start + 0x1000, BASE - 0x1000];
        assert_eq!(size(start, head), Some(BASE));
        assert_eq!(size(start, [2 * BASE, start - BASE, 7, start + 2 * BASE, 0]), Some(2 * BASE));
        for (word, wrong) in [(0, 0), (0, BASE + 8), (0, u64::MAX), (1, 8), (3, start), (3, u64::MAX), (4, BASE)] {
            let mut head = head;
            head[word] = wrong;
            assert_eq!(size(start, head), None, "{word}: {wrong}");
        }
        assert_eq!(size(start, [0; 5]), None);
    }
}
