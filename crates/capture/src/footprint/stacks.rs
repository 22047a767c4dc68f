//! Which mappings are stacks of threads: the kernel knows that of the first thread alone.
//!
//! glibc and musl make a stack of one mapping without rights, the guard, and a writable one that begins where the guard ends. From
//! glibc 2.42 on the guard may be part of the mapping, which then looks as any other. There the stack pointers of threads that sleep
//! in a system call say what is a stack.

use mallow_profile::{Mapping, MappingFlags, MappingKind};

use super::smaps::is_anonymous;
use std::fs;

/// Guards are small; the unused rest of an arena is a large mapping without rights, and its heap begins at a multiple of 64 MiB.
const GUARD_MOST: u64 = 1 << 20;
const ARENA: u64 = 64 << 20;
/// glibc makes no stack below PTHREAD_STACK_MIN, 16 KiB with its guard. A stack for signals (`sigaltstack`) that has a guard, as Rust's
/// runtime gives one to each thread, is mostly smaller, and no thread's.
const STACK_LEAST: u64 = 12 << 10;
/// Threads that are asked for their stack pointers.
const THREADS: usize = 64;

/// Finds the stacks of process `pid`.
pub fn mark(pid: u32, mappings: &mut [Mapping]) {
    let rights = MappingFlags::READ | MappingFlags::WRITE | MappingFlags::EXECUTE;
    for at in 1..mappings.len() {
        let guard = &mappings[at - 1];
        let is_guard = guard.flags.0 & rights == 0 && guard.end - guard.start <= GUARD_MOST && guard.name.is_empty();
        let ends_there = guard.end == mappings[at].start;
        let is_large = mappings[at].end - mappings[at].start >= STACK_LEAST;
        if is_guard && ends_there && is_large && !mappings[at].start.is_multiple_of(ARENA) {
            make_stack(&mut mappings[at]);
        }
    }
    for sp in stack_pointers(pid) {
        let at = mappings.partition_point(|mapping| mapping.end <= sp);
        if let Some(mapping) = mappings.get_mut(at).filter(|mapping| mapping.start <= sp) {
            make_stack(mapping);
        }
    }
}

fn make_stack(mapping: &mut Mapping) {
    let is_writable = mapping.flags.has(MappingFlags::READ | MappingFlags::WRITE);
    if is_anonymous(mapping) && is_writable && !matches!(mapping.kind, MappingKind::Heap | MappingKind::Bss) {
        mapping.kind = MappingKind::ThreadStack;
    }
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
        let mut all = [
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
        mark(u32::MAX, &mut all);
        let stacks: Vec<_> = (0..all.len()).filter(|&at| all[at].kind == MappingKind::ThreadStack).collect();
        assert_eq!(stacks, [1]);
    }
}
