//! The `.bss` of modules: private memory of no file that lies right behind a module's data, so that smaps does not say
//! whose it is. The program headers do: a segment is larger in memory than in its file. They are read from the
//! process's memory, where a file that was replaced or removed still is what runs.

use super::Failure;
use super::division;
use super::pagemap::{PAGE, Pagemap};
use super::peek::words;
use super::smaps::is_anonymous;
use mallow_profile::{Mapping, MappingFlags, MappingKind};
use std::ops::Range;

/// Words that are read of a module's beginning: a page, and so what the first mapping of a module has at the least.
const HEAD: usize = 512;
/// Bytes of a program header.
const ENTRY: usize = 56;
const LOAD: u32 = 1;
const WRITABLE: u32 = 2;
/// Mappings before a module's data among which its head is looked for.
const NEAR: usize = 64;
/// Beginnings of adjacent mappings of the file: code may have been mapped anew, as for huge pages, and a module loaded
/// twice.
const HEADS: usize = 4;

/// Gives the `.bss` of each module of process `pid` a mapping of its own.
pub fn divide(pid: u32, pagemap: &mut Pagemap, mappings: &mut Vec<Mapping>) -> Result<(), Failure> {
    let all = find(pid, mappings);
    let ranges: Vec<Range<u64>> = all.iter().map(|(range, _)| range.clone()).collect();
    division::divide(&ranges, pagemap, mappings, |mapping| {
        let at = ranges.partition_point(|range| range.end <= mapping.start);
        if let Some((_, name)) = all.get(at) {
            (mapping.kind, mapping.name) = (MappingKind::Bss, name.clone());
        }
    })
}

/// Ranges of `.bss` by address, without overlaps, each with the name of its module.
fn find(pid: u32, mappings: &[Mapping]) -> Vec<(Range<u64>, String)> {
    let Ok(pid) = i32::try_from(pid) else { return Vec::new() };
    let mut asked: Vec<(&Mapping, u64)> = Vec::new();
    for (at, data) in mappings.iter().enumerate() {
        let is_data = data.kind == MappingKind::FileData && data.flags.has(MappingFlags::WRITE);
        if is_data && mappings.get(at + 1).is_some_and(is_anonymous) {
            asked.extend(heads(mappings, at).map(|head| (data, head)));
        }
    }
    let addresses: Vec<u64> = asked.iter().map(|(_, head)| *head).collect();
    let mut found: Vec<(Range<u64>, String)> = Vec::new();
    for ((data, start), head) in asked.iter().zip(words::<HEAD>(pid, &addresses)) {
        let of_module = head.map(|head| of_head(*start, &head, data)).unwrap_or_default();
        found.extend(of_module.into_iter().map(|range| (range, data.name.clone())));
    }
    found.sort_by_key(|(range, _)| (range.start, range.end));
    let mut end = 0;
    found.retain(|(range, _)| {
        let is_apart = range.start >= end;
        end = end.max(range.end);
        is_apart
    });
    found
}

/// Where the file of the mapping at this index may begin, the nearest first.
fn heads(mappings: &[Mapping], at: usize) -> impl Iterator<Item = u64> {
    let name = &mappings[at].name;
    let is_of_file = move |at: usize| mappings.get(at).is_some_and(|mapping| mapping.name == *name);
    let begins = move |&at: &usize| {
        let is_next =
            at.checked_sub(1).is_some_and(|before| is_of_file(before) && mappings[before].end == mappings[at].start);
        is_of_file(at) && !is_next
    };
    (at.saturating_sub(NEAR)..=at).rev().filter(begins).map(|at| mappings[at].start).take(HEADS)
}

/// Ranges of whole pages that the module whose file begins at `start` has behind its file's data. Empty where these
/// words are no ELF header, or none of the module that `data` is of.
fn of_head(start: u64, head: &[u64; HEAD], data: &Mapping) -> Vec<Range<u64>> {
    let bytes: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
    let Some(segments) = segments(&bytes) else { return Vec::new() };
    let Some(first) = segments.iter().find(|segment| segment.offset < PAGE) else { return Vec::new() };
    let bias = start.wrapping_sub(first.address / PAGE * PAGE);
    let up = |address: u64| address.checked_next_multiple_of(PAGE);
    let placed = segments.iter().filter(|segment| segment.is_writable).filter_map(|segment| {
        let begin = bias.wrapping_add(segment.address);
        let (file_end, end) = (begin.checked_add(segment.file)?, begin.checked_add(segment.memory)?);
        // The rest of the last page of the file's data is that page.
        let from = if segment.file == 0 { begin / PAGE * PAGE } else { up(file_end)? };
        Some((begin / PAGE * PAGE..up(file_end)?, from..up(end)?))
    });
    let placed: Vec<(Range<u64>, Range<u64>)> = placed.collect();
    let is_its = placed.iter().any(|(of_file, _)| of_file.start <= data.start && data.end <= of_file.end);
    placed.into_iter().map(|(_, bss)| bss).filter(|bss| is_its && bss.start < bss.end).collect()
}

/// A segment that is loaded.
struct Segment {
    is_writable: bool,
    offset: u64,
    address: u64,
    /// Bytes of the segment in the file.
    file: u64,
    /// Bytes of the segment in memory.
    memory: u64,
}

/// The loaded segments of a 64-bit ELF file with these first bytes. None: it is none, or its program headers lie
/// elsewhere.
fn segments(bytes: &[u8]) -> Option<Vec<Segment>> {
    const MAGIC: &[u8] = b"\x7fELF\x02\x01";
    if !bytes.starts_with(MAGIC) || half(bytes, 54)? as usize != ENTRY {
        return None;
    }
    let (from, count) = (usize::try_from(word(bytes, 32)?).ok()?, half(bytes, 56)? as usize);
    let table = bytes.get(from..from.checked_add(count.checked_mul(ENTRY)?)?)?;
    let segment = |entry: &[u8]| {
        let kind = u32::from_le_bytes(entry.get(..4)?.try_into().ok()?);
        let flags = u32::from_le_bytes(entry.get(4..8)?.try_into().ok()?);
        let [offset, address, _, file, memory] = [8, 16, 24, 32, 40].map(|at| word(entry, at));
        let is_writable = flags & WRITABLE != 0;
        let found = Segment { is_writable, offset: offset?, address: address?, file: file?, memory: memory? };
        (kind == LOAD && found.file <= found.memory).then_some(found)
    };
    Some(table.chunks_exact(ENTRY).filter_map(segment).collect())
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU8, Ordering};

    const BYTES: usize = 3 << 20;
    static TABLE: [AtomicU8; BYTES] = [const { AtomicU8::new(0) }; BYTES];

    /// Of this process: a static array, half of it touched, is its program's.
    #[test]
    fn a_static_array_is_its_modules() {
        TABLE.iter().take(BYTES / 2).step_by(PAGE as usize).for_each(|byte| byte.store(1, Ordering::Relaxed));
        let pid = std::process::id();
        let mut pagemap = Pagemap::open(pid).expect("own pagemap");
        let mut mappings = super::super::smaps::mappings(pid, "").expect("own mappings");
        let before: u64 = mappings.iter().map(|mapping| mapping.sizes.rss).sum();
        divide(pid, &mut pagemap, &mut mappings).expect("own memory");
        assert_eq!(mappings.iter().map(|mapping| mapping.sizes.rss).sum::<u64>(), before);
        let address = TABLE.as_ptr() as u64;
        let within: Vec<&Mapping> =
            mappings.iter().filter(|m| m.start < address + BYTES as u64 && m.end > address + PAGE).collect();
        let [bss] = within[..] else { panic!("{within:?}") };
        let program = std::env::current_exe().expect("its path");
        assert_eq!((bss.kind, bss.name.as_str()), (MappingKind::Bss, program.to_str().expect("a text")));
        let rss = bss.sizes.rss;
        assert!((BYTES as u64 / 2..BYTES as u64 / 2 + (1 << 20)).contains(&rss), "{rss}");
        assert!(mappings.iter().any(|m| m.kind == MappingKind::Bss && m.name.ends_with("/libc.so.6")));
    }

    /// A module at 0x10000 with this segment: the first page of it, and its data.
    fn module(file: u64, memory: u64) -> ([u64; HEAD], Mapping) {
        let mut bytes = vec![0u8; HEAD * 8];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[32] = 64;
        (bytes[54], bytes[56]) = (ENTRY as u8, 2);
        let mut entry = |at: usize, flags: u32, words: [u64; 5]| {
            bytes[at..at + 4].copy_from_slice(&LOAD.to_le_bytes());
            bytes[at + 4..at + 8].copy_from_slice(&flags.to_le_bytes());
            for (word, at) in words.into_iter().zip((at + 8..).step_by(8)) {
                bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
        };
        entry(64, 4, [0, 0, 0, 0x900, 0x900]);
        entry(64 + ENTRY, 6, [0x1200, 0x2200, 0, file, memory]);
        let head = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight")));
        let head: Vec<u64> = head.collect();
        let data = Mapping { start: 0x12000, end: 0x14000, kind: MappingKind::FileData, ..Mapping::default() };
        (head.try_into().expect("a page"), data)
    }

    #[test]
    fn what_is_larger_in_memory_than_in_the_file_is_bss() {
        let of = |file, memory, start| {
            let (head, data) = module(file, memory);
            of_head(start, &head, &data)
        };
        assert_eq!(of(0x1300, 0x9300, 0x10000), vec![0x14000..0x1c000; 1]);
        // All of it is in the last page of the file's data.
        assert_eq!(of(0x1300, 0x1e00, 0x10000), []);
        // Another module's head.
        assert_eq!(of(0x1300, 0x9300, 0x50000), []);
        // More in the file than in memory.
        assert_eq!(of(0x1300, 0x1200, 0x10000), []);
        assert_eq!(of(0x1300, u64::MAX, 0x10000), []);
        assert_eq!(of_head(0x10000, &[u64::MAX; HEAD], &module(0, 0).1), []);
        let (mut head, data) = module(0x1300, 0x9300);
        for at in 0..30 {
            head[at] ^= u64::MAX;
            of_head(0x10000, &head, &data);
            head[at] ^= u64::MAX;
        }
    }
}
