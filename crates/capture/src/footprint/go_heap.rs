//! Go's heap, by its addresses and names.
//!
//! Go reserves arenas of 64 MiB, at 0xc000000000 up to Go 1.25. From 1.26 on the address is random, in the lower half
//! of what programs have, and the heap begins anywhere in the first arena. What is reserved and what is in use follow
//! each other, so a row of mappings begins and ends at multiples of an arena. Where the kernel names mappings
//! (`CONFIG_ANON_VMA_NAME`), Go 1.25 and later name theirs.

use super::smaps::{is_anonymous, is_mapped};
use mallow_profile::{HeapKind, KnownHeap, Mapping, MappingFlags};
use object::read::ReadCache;
use object::read::elf::ElfFile64;
use object::{Endianness, Object};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;

const ARENA: u64 = 64 << 20;
/// Where the heap begins up to Go 1.25.
const FIXED: u64 = 0xc0_0000_0000;
/// Random addresses have 46 bits; the lowest 4 GiB are left to programs, their data and the heaps of the JVM.
const RANDOM: std::ops::Range<u64> = 1 << 32..1 << 46;
/// Most files that are searched for Go's runtime.
const FILES: usize = 256;
/// What Go calls its heap; parts of it that were given back to the kernel, and taken again, have the other names.
const NAMES: [&str; 3] = ["[anon: Go: heap]", "[anon: Go: used]", "[anon: Go: unused]"];

/// Go's heap in process `pid`. Empty where none is, and where no file of the process says that it is Go's.
pub fn read(pid: i32, mappings: &[Mapping]) -> Vec<KnownHeap> {
    let named: Vec<_> = mappings.iter().filter(|mapping| NAMES.contains(&&*mapping.name)).collect();
    if !named.is_empty() {
        return named.into_iter().map(whole).collect();
    }
    match from_fixed(mappings) {
        found if !found.is_empty() => found,
        _ => Some(from_random(mappings)).filter(|found| !found.is_empty() && has_go(pid, mappings)).unwrap_or_default(),
    }
}

fn whole(mapping: &Mapping) -> KnownHeap {
    KnownHeap { kind: HeapKind::Go, start: mapping.start, end: mapping.end, used: 0 }
}

/// From the fixed address on, as far as its arenas follow each other.
fn from_fixed(mappings: &[Mapping]) -> Vec<KnownHeap> {
    let first = mappings.partition_point(|mapping| mapping.start < FIXED);
    let all = mappings.get(first..).unwrap_or_default();
    let begins = all.first().is_some_and(|mapping| mapping.start == FIXED);
    let own = all.chunk_by(|before, next| before.end == next.start).next().filter(|_| begins).unwrap_or_default();
    own.iter().filter(|mapping| is_mapped(mapping)).map(whole).collect()
}

/// Rows of mappings without gaps that are whole arenas.
fn from_random(mappings: &[Mapping]) -> Vec<KnownHeap> {
    let is_ours = |mapping: &Mapping| is_anonymous(mapping) && !mapping.flags.has(MappingFlags::SHARED);
    let are_arenas = |row: &&[Mapping]| {
        let (Some(first), Some(last)) = (row.first(), row.last()) else { return false };
        let is_aligned = first.start.is_multiple_of(ARENA) && last.end.is_multiple_of(ARENA);
        is_aligned && RANDOM.contains(&first.start) && RANDOM.contains(&last.end) && row.iter().all(is_ours)
    };
    let rows = mappings.chunk_by(|before, next| before.end == next.start).filter(are_arenas);
    rows.flatten().filter(|mapping| is_mapped(mapping)).map(whole).collect()
}

/// Whether the program, or a library of it, has Go's runtime.
fn has_go(pid: i32, mappings: &[Mapping]) -> bool {
    let is_code = |mapping: &&Mapping| mapping.flags.has(MappingFlags::EXECUTE) && mapping.name.starts_with('/');
    let mut names: Vec<&str> = mappings.iter().filter(is_code).map(|mapping| &*mapping.name).collect();
    names.dedup();
    let libraries = names.into_iter().take(FILES).map(|name| format!("/proc/{pid}/root{name}"));
    std::iter::once(format!("/proc/{pid}/exe")).chain(libraries).any(|path| is_go(&path))
}

/// What lies at a path of another process may be anything by now: a pipe is not waited for.
fn is_go(path: &str) -> bool {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let is_file = |file: &File| file.metadata().is_ok_and(|metadata| metadata.is_file());
    let Some(file) = file.ok().filter(is_file) else { return false };
    let cache = ReadCache::new(file);
    let parsed = ElfFile64::<Endianness, _>::parse(&cache);
    parsed.is_ok_and(|parsed| parsed.section_by_name(".go.buildinfo").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: u32 = MappingFlags::READ | MappingFlags::WRITE;

    fn mapping(start: u64, end: u64, rights: u32) -> Mapping {
        let kind = mallow_profile::MappingKind::Anonymous;
        Mapping { start, end, kind, flags: MappingFlags(rights), ..Mapping::default() }
    }

    fn starts(found: &[KnownHeap], from: u64) -> Vec<u64> {
        found.iter().map(|heap| heap.start - from).collect()
    }

    #[test]
    fn a_heap_at_the_fixed_address() {
        let all = [
            mapping(FIXED - 0x1000, FIXED, OPEN),
            mapping(FIXED, FIXED + 0x40_0000, OPEN),
            mapping(FIXED + 0x40_0000, FIXED + ARENA, 0),
            mapping(FIXED + ARENA, FIXED + 2 * ARENA, OPEN),
            mapping(FIXED + 4 * ARENA, FIXED + 5 * ARENA, OPEN),
        ];
        assert_eq!(starts(&from_fixed(&all[1..]), FIXED), [0, ARENA]);
        assert_eq!(from_fixed(&all[3..]), []);
    }

    #[test]
    fn a_heap_at_a_random_address() {
        const AT: u64 = 0x19b1_7400_0000;
        let heap = [
            mapping(AT, AT + 0x3c0_0000, 0),
            mapping(AT + 0x3c0_0000, AT + ARENA + 0x10_0000, OPEN),
            mapping(AT + ARENA + 0x10_0000, AT + 2 * ARENA, 0),
        ];
        assert_eq!(starts(&from_random(&heap), AT), [0x3c0_0000]);
        // Not whole arenas, a neighbour of a file, and addresses of the C library's arenas.
        assert_eq!(from_random(&heap[..2]), []);
        let file = Mapping { kind: mallow_profile::MappingKind::FileData, ..heap[1].clone() };
        assert_eq!(from_random(&[heap[0].clone(), file, heap[2].clone()]), []);
        let high = 0x7f69_2800_0000;
        assert_eq!(from_random(&[mapping(high, high + 0x2_1000, OPEN), mapping(high + 0x2_1000, high + ARENA, 0)]), []);
    }

    #[test]
    fn a_heap_by_its_name() {
        let name = |name: &str| Mapping { name: name.to_owned(), ..mapping(0x7f00_0000_0000, 0x7f00_0040_0000, OPEN) };
        assert_eq!(read(1, &[name("[anon: Go: heap]")]).len(), 1);
        assert_eq!(read(1, &[name("[anon: Go: heap index]"), name("[anon:Go]")]), []);
    }
}
