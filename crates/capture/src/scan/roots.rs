//! What of a process's memory is no heap: where its pointers to blocks begin.
//!
//! Roots are all writable mappings but what the allocator has, Mallow's own files, and stacks below their stack pointer. What
//! an allocator keeps of freed blocks, and its lists of them, would keep blocks alive that nothing else points to.

use super::Exit;
use super::Failure;
use super::index::Index;
use super::mappings::Mapping;
use super::memory::Memory;
use super::pages::PAGE;
use super::threads::Thread;
use std::ops::Range;

/// glibc's arenas but the first are mappings of this size, aligned to it.
const ARENA: u64 = 64 << 20;
/// Stacks of threads are searched up to this size.
const STACK: u64 = 1 << 30;
/// Around a thread pointer: thread-local storage below it, the C library's own of the thread above.
const STORAGE: u64 = 16 << 10;
/// The stack pointer's red zone.
const RED_ZONE: u64 = 128;

/// A part of the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Where.
    pub range: Range<u64>,
    /// The C library's own data: its lists of free blocks are here.
    pub libc: bool,
}

/// The roots of a process, by address.
pub fn roots(
    exit: &Exit<'_>,
    mappings: &[Mapping],
    index: &Index,
    threads: &[Thread],
    memory: &mut Memory<'_>,
) -> Result<Vec<Root>, Failure> {
    let mut roots = Vec::new();
    for (at, mapping) in mappings.iter().enumerate() {
        if !mapping.writable || is_mallows(mapping, exit.directory) {
            continue;
        }
        let file = mapping.name.rsplit('/').next().unwrap_or_default();
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
        } else if mapping.name == "[heap]" || (mapping.is_anonymous() && is_arena(mapping, after, memory)?) {
            parts.clear();
        } else if !within.is_empty() {
            for taken in heap_in(index, within, memory)? {
                cut(&mut parts, taken);
            }
        }
        if mapping.is_anonymous() && before.is_some_and(|m| m.closed) && mapping.end - mapping.start <= STACK {
            for dead in unused_stacks(mapping, threads, exit, memory)? {
                cut(&mut parts, dead);
            }
        }
        if mapping.name == "[stack]" && (mapping.start..mapping.end).contains(&exit.sp) {
            cut(&mut parts, mapping.start..exit.sp);
        } else if mapping.name == "[stack]" {
            for sp in threads.iter().filter_map(|t| t.sp).filter(|sp| (mapping.start..mapping.end).contains(sp)) {
                cut(&mut parts, mapping.start..sp - RED_ZONE);
            }
        }
        // The kernel joins neighbours: what is a thread's may lie in the mapping of a block.
        for own in [exit.thread.saturating_sub(STORAGE)..exit.thread.saturating_add(PAGE), exit.sp..exit.sp + PAGE] {
            let own = own.start.max(mapping.start)..own.end.min(mapping.end);
            if own.start < own.end && !parts.iter().any(|part| part.start <= own.start && own.end <= part.end) {
                parts.push(own);
            }
        }
        roots.extend(parts.into_iter().map(|range| Root { range, libc }));
    }
    Ok(roots)
}

fn is_mallows(mapping: &Mapping, directory: &str) -> bool {
    !directory.is_empty() && mapping.name.split('/').any(|part| part == directory)
}

/// Takes a range out of some.
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

/// One of glibc's arenas: aligned, not larger than one, with reserved addresses behind it unless it is full, and a head that
/// names an arena and a size that fits.
fn is_arena(mapping: &Mapping, after: Option<&Mapping>, memory: &mut Memory<'_>) -> Result<bool, Failure> {
    let length = mapping.end - mapping.start;
    let whole = mapping.start.saturating_add(ARENA);
    let reserved = mapping.end >= whole || after.is_some_and(|m| m.closed && m.end >= whole);
    if !mapping.start.is_multiple_of(ARENA) || !reserved {
        return Ok(false);
    }
    let [arena, _, size] = words(memory, mapping.start)?;
    Ok(arena != 0 && arena % 16 == 0 && size >= PAGE && size <= length.min(ARENA) && size.is_multiple_of(PAGE))
}

fn words<const N: usize>(memory: &mut Memory<'_>, at: u64) -> Result<[u64; N], Failure> {
    let mut words = [0; N];
    let end = at + 8 * N as u64;
    memory.words(at, end, end, |from, read| {
        let skip = ((from - at) / 8) as usize;
        words[skip..skip + read.len()].copy_from_slice(read);
        Ok(())
    })?;
    Ok(words)
}

/// What of a mapping the allocator has: each block that glibc mapped for itself; under any other allocator, or in an arena,
/// all from the first block to the last.
fn heap_in(index: &Index, within: Range<usize>, memory: &mut Memory<'_>) -> Result<Vec<Range<u64>>, Failure> {
    let blocks = &index.blocks[within];
    let mut mapped = Vec::new();
    for block in blocks {
        let [head] = words(memory, block.address - 8)?;
        let (size, is_mapped) = (head & !7, head & 2 != 0);
        let start = block.address - 16;
        let fits = start.is_multiple_of(PAGE) && size.is_multiple_of(PAGE) && size >= block.size + 16;
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

/// Of a mapping that may be a thread's stack, what is not in use: all that is below the stack pointer, and the whole stack of
/// a thread that has ended, which the C library keeps for the next one.
fn unused_stacks(
    mapping: &Mapping,
    threads: &[Thread],
    exit: &Exit<'_>,
    memory: &mut Memory<'_>,
) -> Result<Vec<Range<u64>>, Failure> {
    let mut blocks = Vec::new();
    // A thread's control block names itself at its start, and again 16 bytes further. Its thread's id is in it until it ends.
    let mut last = [0u64; 2];
    memory.words(mapping.start, mapping.end, mapping.end, |from, words| {
        for (at, &word) in (from..).step_by(8).zip(words) {
            if word == at.wrapping_sub(16) && last[0] == word && word % 64 == 0 {
                blocks.push(word);
            }
            last = [last[1], word];
        }
        Ok(())
    })?;
    let mut from = mapping.start;
    let mut unused = Vec::new();
    for block in blocks {
        // `tid` of glibc's struct pthread.
        let [tid] = words(memory, block + 0x2d0)?;
        let tid = tid as u32;
        let here = |sp: &u64| (from..block).contains(sp);
        let sp = threads.iter().filter_map(|thread| thread.sp).chain([exit.sp]).filter(here).min();
        match sp {
            Some(sp) => unused.push(from..(sp - RED_ZONE).max(from)),
            // The pointer to its table of storage (`dtv`) is behind the one to itself: the next thread on this stack has that table.
            None if tid == 0 => unused.extend([from..block + 8, block + 16..block + PAGE / 2]),
            None => {}
        }
        from = block;
    }
    Ok(unused)
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
