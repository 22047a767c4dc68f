//! Which mappings are stacks of threads: the kernel knows that of the first thread alone.
//!
//! glibc and musl make a stack of one mapping without rights, the guard, and a writable one that begins where the guard
//! ends. From glibc 2.42 on the guard may be part of the mapping, which then looks as any other. There the stack
//! pointers of threads that sleep in a system call say what may be a stack.
//!
//! Others make guards as well, and the kernel joins a stack with what lies behind it: Go's runtime does the one and has
//! the other, and its goroutines have their stack pointers in its heap. glibc keeps each thread's control block in the
//! last page of its stack. So in a process with glibc, a stack has one, and ends there.

use super::Failure;
use super::division::divide;
use super::pagemap::{PAGE, Pagemap};
use super::peek::words;
use super::smaps::is_anonymous;
use mallow_profile::{Mapping, MappingFlags, MappingKind};
use std::fs;

/// Guards are small; the unused rest of an arena is a large mapping without rights, and its heap begins at a multiple
/// of 64 MiB.
const GUARD_MOST: u64 = 1 << 20;
const ARENA: u64 = 64 << 20;
/// glibc makes no stack below PTHREAD_STACK_MIN, 16 KiB with its guard. A stack for signals (`sigaltstack`) that has a
/// guard, as Rust's runtime gives one to each thread, is mostly smaller, and no thread's.
const STACK_LEAST: u64 = 12 << 10;
/// Threads that are asked for their stack pointers.
const THREADS: usize = 64;
/// Pages of a mapping that are searched for a control block.
const PAGES: usize = 1 << 10;
/// Words of a page.
const WORDS: usize = PAGE as usize / 8;
/// A control block is aligned to so many words (`TCB_ALIGNMENT`), and holds its own address in its words 0 and 2.
const ALIGNED: usize = 8;

/// How many threads the process has.
pub fn threads(pid: u32) -> u64 {
    fs::read_dir(format!("/proc/{pid}/task")).map_or(0, |entries| entries.count() as u64)
}

/// What jemalloc calls its thread that gives free pages back.
const BACKGROUND: &str = "jemalloc_bg_thd";
/// Threads whose names are looked at: jemalloc starts its own early.
const NAMES: usize = 256;

/// Whether a thread of the process gives back free pages of a jemalloc.
pub fn has_background_thread(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten().take(NAMES);
    let name = |task: fs::DirEntry| fs::read_to_string(task.path().join("comm")).ok();
    tasks.filter_map(name).any(|name| name.trim_end() == BACKGROUND)
}

/// Finds the stacks of process `pid`, and divides mappings that hold more than one.
pub fn mark(pid: u32, pagemap: &mut Pagemap, mappings: &mut Vec<Mapping>) -> Result<(), Failure> {
    let rights = MappingFlags::READ | MappingFlags::WRITE | MappingFlags::EXECUTE;
    let mut may_be = vec![false; mappings.len()];
    for at in 1..mappings.len() {
        let guard = &mappings[at - 1];
        let is_guard = guard.flags.0 & rights == 0 && guard.end - guard.start <= GUARD_MOST && guard.name.is_empty();
        let ends_there = guard.end == mappings[at].start;
        let is_large = mappings[at].end - mappings[at].start >= STACK_LEAST;
        may_be[at] = is_guard && ends_there && is_large && !mappings[at].start.is_multiple_of(ARENA);
    }
    for sp in stack_pointers(pid) {
        let at = mappings.partition_point(|mapping| mapping.end <= sp);
        if mappings.get(at).is_some_and(|mapping| mapping.start <= sp) {
            may_be[at] = true;
        }
    }
    let has_glibc = mappings.iter().any(|mapping| mapping.name.ends_with("/libc.so.6"));
    let mut stacks = Vec::new();
    for (mapping, may_be) in mappings.iter().zip(may_be) {
        let is_writable = mapping.flags.has(MappingFlags::READ | MappingFlags::WRITE);
        let is_known = matches!(mapping.kind, MappingKind::Heap | MappingKind::Bss);
        if !(may_be && is_anonymous(mapping) && is_writable) || is_known {
            continue;
        }
        match if has_glibc { end_of_stack(pid, pagemap, mapping)? } else { End::Unknown } {
            End::Unknown => stacks.push(mapping.start..mapping.end),
            End::None => {}
            End::At(end) => stacks.push(mapping.start..end.min(mapping.end)),
        }
    }
    divide(&stacks, pagemap, mappings, |mapping| mapping.kind = MappingKind::ThreadStack)
}

/// Where a stack ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The process may not be read, or not all of its pages are known or in memory.
    Unknown,
    /// The mapping does not begin with a stack.
    None,
    At(u64),
}

/// Where the stack ends that begins a mapping, by its thread's control block. Only pages in memory are read: reading
/// another one would make it.
fn end_of_stack(pid: u32, pagemap: &mut Pagemap, mapping: &Mapping) -> Result<End, Failure> {
    let first = pagemap.runs.len();
    let is_known = pagemap.read(mapping)?;
    let runs = pagemap.runs.split_off(first);
    if !is_known || mapping.sizes.swap > 0 {
        return Ok(End::Unknown);
    }
    let last = runs.last().and_then(|run| Some(run.start + run.pages.checked_sub(1)? * PAGE));
    let pages = runs.iter().flat_map(|run| (0..run.pages).map(|page| run.start + page * PAGE)).take(PAGES);
    let pages: Vec<u64> = last.into_iter().chain(pages).collect();
    let read = words::<WORDS>(i32::try_from(pid).unwrap_or_default(), &pages);
    if !pages.is_empty() && read.iter().all(Option::is_none) {
        return Ok(End::Unknown);
    }
    let has_one = |(page, words): (&u64, Option<[u64; WORDS]>)| {
        words.is_some_and(|words| has_control_block(*page, &words)).then_some(page + PAGE)
    };
    Ok(pages.iter().zip(read).find_map(has_one).map_or(End::None, End::At))
}

fn has_control_block(page: u64, words: &[u64; WORDS]) -> bool {
    let own = |at: usize| page + 8 * at as u64;
    (0..WORDS - 2).step_by(ALIGNED).any(|at| words[at] == own(at) && words[at + 2] == own(at))
}

fn stack_pointers(pid: u32) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let stack_pointer = |entry: fs::DirEntry| {
        // "NUMBER ARGUMENTS… SP PC", or "running".
        let call = fs::read_to_string(entry.path().join("syscall")).ok()?;
        let mut words = call.split_whitespace().rev();
        let sp = words.nth(1)?.strip_prefix("0x")?;
        u64::from_str_radix(sp, 16).ok()
    };
    entries.flatten().take(THREADS).filter_map(stack_pointer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guard_precedes_is_a_stack() {
        let mapping = |start, end, flags, kind| {
            let flags = MappingFlags(flags);
            Mapping { start, end, flags, kind, ..Mapping::default() }
        };
        let (open, anonymous) = (MappingFlags::READ | MappingFlags::WRITE, MappingKind::Anonymous);
        let mut all = vec![
            mapping(0x1000, 0x2000, 0, anonymous),
            mapping(0x2000, 0x9000, open, anonymous),
            mapping(0xa000, 0xb000, 0, anonymous),
            mapping(0xc000, 0xd000, open, anonymous),
            mapping(0x3ff_f000, 0x400_0000, 0, anonymous),
            mapping(0x400_0000, 0x401_0000, open, anonymous),
            mapping(0x401_0000, 0x800_0000, 0, anonymous),
            mapping(0x800_0000, 0x801_0000, open, anonymous),
            mapping(0x802_0000, 0x802_1000, 0, anonymous),
            mapping(0x802_1000, 0x802_3000, open, anonymous),
        ];
        let mut pagemap = Pagemap::open(std::process::id()).expect("own pages");
        mark(u32::MAX, &mut pagemap, &mut all).expect("no pages are asked for");
        let stacks: Vec<_> = (0..all.len()).filter(|&at| all[at].kind == MappingKind::ThreadStack).collect();
        assert_eq!(stacks, [1]);
    }

    #[test]
    fn a_control_block_holds_its_own_address() {
        let mut page = [0; WORDS];
        assert!(!has_control_block(0x7000, &page));
        page[200] = 0x7000 + 1600;
        assert!(!has_control_block(0x7000, &page));
        page[202] = 0x7000 + 1600;
        assert!(has_control_block(0x7000, &page) && !has_control_block(0x8000, &page));
        // The head of an empty list.
        let mut list = [0; WORDS];
        (list[200], list[201]) = (0x7000 + 1600, 0x7000 + 1600);
        assert!(!has_control_block(0x7000, &list));
    }
}
