//! What of a process's memory is no heap: where its pointers to blocks begin.
//!
//! Roots are all writable mappings, and those of no file that can be read, but what the allocator has, Mallow's own
//! files, and stacks below their stack pointer. What an allocator keeps of freed blocks, and its lists of them, would
//! keep blocks alive that nothing else points to.

use super::Exit;
use super::Failure;
use super::index::Index;
use super::jemalloc;
use super::memory::Memory;
use super::mimalloc;
use super::pages::PAGE;
use super::stacks;
use super::threads::Thread;
use mallow_proc::Mapping;
use std::ops::Range;

/// glibc's arenas but the first are mappings of this size, aligned to it.
const ARENA: u64 = 64 << 20;
/// Stacks of threads are searched up to this size.
const STACK: u64 = 1 << 30;
/// Around a thread pointer: thread-local storage below it, the C library's own of the thread above.
const STORAGE: u64 = 16 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    pub range: Range<u64>,
    /// Part of the C library's own data, where its lists of free blocks are.
    pub libc: bool,
    /// Part of code that a program made: pointers are operands of instructions, at any address.
    pub code: bool,
}

#[derive(Debug, Default)]
pub struct Roots {
    /// Parts of memory, by the address of their mappings.
    pub parts: Vec<Root>,
    /// Tables of thread-local storage (`dtv`) that glibc keeps for the next thread on a stack: they are in use with the
    /// storage that they lead to, and what is in that storage is nobody's.
    pub tables: Vec<u64>,
}

/// The roots of a process that waits at its exit; empty parts are left out.
pub fn roots(
    exit: &Exit<'_>,
    mappings: &[Mapping],
    index: &Index,
    threads: &[Thread],
    memory: &mut Memory<'_>,
) -> Result<Roots, Failure> {
    let mut roots = Roots::default();
    let of_mimalloc = mimalloc::own(mappings, index, memory)?;
    for (at, mapping) in mappings.iter().enumerate() {
        if !is_searched(mapping, exit.directory) {
            continue;
        }
        let code = mapping.executable && mapping.is_anonymous();
        let file = mapping.path.rsplit('/').next().unwrap_or_default();
        let libc = file.starts_with("libc.so") || file.starts_with("libc-2") || file.starts_with("ld-musl");
        let next_to = |a: &Mapping, b: &Mapping| a.end == b.start;
        let before = at.checked_sub(1).and_then(|before| mappings.get(before)).filter(|m| next_to(m, mapping));
        let after = mappings.get(at + 1).filter(|m| next_to(mapping, m));
        let whole = mapping.start..mapping.end;
        let mut parts = vec![whole];
        for own in exit.own {
            cut(&mut parts, own.clone());
        }
        if parts.is_empty() {
            continue;
        }
        let within = index.within(mapping.start, mapping.end);
        if exit.unknown_blocks {
            // Others lie between those that are known, and hold pointers to them.
            for block in &index.blocks[within] {
                cut(&mut parts, block.address..block.end());
            }
        } else if mapping.path == "[heap]" || (mapping.is_anonymous() && is_arena(mapping, after, memory)?) {
            parts.clear();
        } else if !within.is_empty() {
            for taken in heap_in(index, within, memory)? {
                cut(&mut parts, taken);
            }
        }
        let has_blocks = |range: &Range<u64>| !index.within(range.start, range.end).is_empty();
        for own in jemalloc::own(jemalloc::pieces(mapping, memory)?, has_blocks) {
            cut(&mut parts, own);
        }
        of_mimalloc.iter().for_each(|own| cut(&mut parts, own.clone()));
        if mapping.is_anonymous() && before.is_some_and(|m| m.is_closed()) && mapping.end - mapping.start <= STACK {
            let unused = stacks::unused(mapping, threads, exit, memory)?;
            for dead in unused.parts {
                cut(&mut parts, dead);
            }
            roots.tables.extend(unused.tables);
        }
        if mapping.path == "[stack]" && (mapping.start..mapping.end).contains(&exit.at.sp) {
            cut(&mut parts, mapping.start..exit.at.sp);
        } else if mapping.path == "[stack]" {
            for sp in threads.iter().filter_map(|t| t.sp).filter(|sp| (mapping.start..mapping.end).contains(sp)) {
                cut(&mut parts, mapping.start..sp - stacks::RED_ZONE);
            }
        }
        // The kernel joins neighbours: what is a thread's may lie in the mapping of a block.
        for own in
            [exit.at.thread.saturating_sub(STORAGE)..exit.at.thread.saturating_add(PAGE), exit.at.sp..exit.at.sp + PAGE]
        {
            let own = own.start.max(mapping.start)..own.end.min(mapping.end);
            if own.start < own.end && !parts.iter().any(|part| part.start <= own.start && own.end <= part.end) {
                parts.push(own);
            }
        }
        roots.parts.extend(parts.into_iter().map(|range| Root { range, libc, code }));
    }
    Ok(roots)
}

/// Whether roots and blocks may lie in a mapping. `directory`: as [`Exit::directory`].
pub fn is_searched(mapping: &Mapping, directory: &str) -> bool {
    let code = mapping.executable && mapping.is_anonymous();
    // A table that a program seals is its own, as what it may write is.
    let sealed = mapping.readable && mapping.is_anonymous();
    (mapping.is_data() || code || sealed) && !is_mallows(mapping, directory)
}

fn is_mallows(mapping: &Mapping, directory: &str) -> bool {
    !directory.is_empty() && mapping.path.split('/').any(|part| part == directory)
}

/// Takes a range out of disjoint ones.
fn cut(parts: &mut Vec<Range<u64>>, taken: Range<u64>) {
    // Ranges are taken out by address mostly: the last part is the one.
    let first = parts.iter().rposition(|part| part.end <= taken.start).map_or(0, |at| at + 1);
    let rest = parts.split_off(first);
    for part in rest {
        if part.end <= taken.start || taken.end <= part.start {
            parts.push(part);
            continue;
        }
        if part.start < taken.start {
            parts.push(part.start..taken.start);
        }
        if taken.end < part.end {
            parts.push(taken.end..part.end);
        }
    }
}

/// Whether a mapping is one of glibc's arenas but the first: aligned, not larger than one, with reserved addresses
/// behind it unless it is full, and a head that names an arena and a size that fits.
fn is_arena(mapping: &Mapping, after: Option<&Mapping>, memory: &mut Memory<'_>) -> Result<bool, Failure> {
    let length = mapping.end - mapping.start;
    let whole = mapping.start.saturating_add(ARENA);
    let reserved = mapping.end >= whole || after.is_some_and(|m| m.is_closed() && m.end >= whole);
    if !mapping.start.is_multiple_of(ARENA) || !reserved {
        return Ok(false);
    }
    let [arena, _, size] = memory.array(mapping.start, 0)?;
    Ok(arena != 0 && arena % 16 == 0 && size >= PAGE && size <= length.min(ARENA) && size.is_multiple_of(PAGE))
}

/// Ranges of a mapping that the allocator has: each block that glibc mapped for itself; under any other allocator, or
/// in an arena, all from the first block to the last.
fn heap_in(index: &Index, within: Range<usize>, memory: &mut Memory<'_>) -> Result<Vec<Range<u64>>, Failure> {
    let blocks = &index.blocks[within];
    let mut mapped = Vec::new();
    for block in blocks {
        let [head] = memory.array(block.address.saturating_sub(8), 0)?;
        let (size, is_mapped) = (head & !7, head & 2 != 0);
        let start = block.address.saturating_sub(16);
        let fits = start.is_multiple_of(PAGE) && size.is_multiple_of(PAGE) && size >= block.size.saturating_add(16);
        if !is_mapped || !fits {
            let hull = |first: &super::LiveBlock, last: &super::LiveBlock| {
                first.address / PAGE * PAGE..last.end().next_multiple_of(PAGE)
            };
            return Ok(blocks.first().zip(blocks.last()).map(|(first, last)| hull(first, last)).into_iter().collect());
        }
        mapped.push(start..start + size);
    }
    Ok(mapped)
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn ranges_are_taken_out() {
        let whole = 0..100;
        let mut parts = vec![whole];
        for taken in [10..20, 20..30, 50..60, 90..200, 0..1] {
            cut(&mut parts, taken);
        }
        assert_eq!(parts, [1..10, 30..50, 60..90]);
        cut(&mut parts, 0..1000);
        assert!(parts.is_empty());
    }
}
