//! Stacks of glibc's threads: what of them nobody uses.
//!
//! glibc puts a thread's control block (`struct pthread`) at the top of its stack, with the thread-local storage below
//! it. It keeps the stacks of threads that have ended, mapped and as they were, for the next threads. A stack is left
//! out of the roots only where its control block shows that it is such a one: the memory that a program gave for a
//! stack is the program's own again.

use super::memory::Memory;
use super::threads::Thread;
use super::{Exit, Failure};
use mallow_proc::Mapping;
use std::ops::Range;

/// The stack pointer's red zone.
pub const RED_ZONE: u64 = 128;
/// Words of a control block that are read: it is 0x900 bytes long in glibc 2.36, and was never longer than this.
const WORDS: usize = 0x1000 / 8;
/// The block names itself at its start, and again 16 bytes further (`header.tcb`, `header.self`), with the table of
/// storage (`dtv`) between. Then come the thread's id (`tid`), and who joins it (`joinid`), which is so many words
/// before the bounds of the stack.
const TABLE: usize = 1;
const TID: usize = 0x2d0 / 8;
const JOINER_BEFORE_STACK: usize = 14;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Unused {
    pub parts: Vec<Range<u64>>,
    /// Addresses of tables (`dtv`) of the storage of threads that have ended.
    pub tables: Vec<u64>,
}

/// What nobody uses of a mapping that may have stacks: what is below the stack pointers of threads, and the stacks of
/// threads that have ended.
pub fn unused(
    mapping: &Mapping,
    threads: &[Thread],
    exit: &Exit<'_>,
    memory: &mut Memory<'_>,
) -> Result<Unused, Failure> {
    let mut blocks = Vec::new();
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
    let mut unused = Unused::default();
    for at in blocks {
        let words: [u64; WORDS] = memory.array(at, 0)?;
        let Some(block) = ControlBlock::of(at, &words, mapping) else { continue };
        let sps = threads.iter().filter_map(|thread| thread.sp).chain([exit.at.sp]);
        block.unused(sps, &mut unused);
    }
    Ok(unused)
}

/// A thread's control block, `struct pthread`.
#[derive(Debug, PartialEq, Eq)]
struct ControlBlock {
    /// The part of the stack that can be written, with the block in it.
    stack: Range<u64>,
    /// In the stack of a thread that has ended, no frame of the C library's lies below this address.
    frames: u64,
    table: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The thread may run, or the stack is the program's own memory.
    Used,
    /// The thread has ended, and may be joined: that gives what the thread returned.
    Ended,
    /// glibc keeps the stack for the next thread.
    Free,
}

impl ControlBlock {
    /// The control block at this address. None: nothing there says where its stack is.
    fn of(at: u64, words: &[u64; WORDS], mapping: &Mapping) -> Option<Self> {
        // `stackblock`, `stackblock_size` and `guardsize`, which is 0 where the program gave the memory.
        let is_stack = |base: u64, size: u64, guard: u64| {
            let (start, end) = (base.saturating_add(guard), base.saturating_add(size));
            mapping.start <= start && end <= mapping.end && (start..end).contains(&at) && end - at <= 8 * WORDS as u64
        };
        let found = words[TID..].windows(3).position(|words| is_stack(words[0], words[1], words[2]))?;
        let stack_at = TID + found;
        let (base, size, guard) = (words[stack_at], words[stack_at + 1], words[stack_at + 2]);
        let joiner = words[stack_at - JOINER_BEFORE_STACK];
        let stack = base + guard..base + size;
        let is_glibcs = guard != 0 && stack.start == mapping.start;
        // The kernel clears the id when the thread ends, and joining makes it negative. A detached thread is its own
        // joiner.
        let state = match words[TID] as u32 as i32 {
            _ if !is_glibcs => State::Used,
            1.. => State::Used,
            0 if joiner != at => State::Ended,
            _ => State::Free,
        };
        // The block leads to the frame from which the C library calls the thread's function: `cleanup_jmp_buf`.
        let frames = words[TID..stack_at].iter().copied().filter(|word| (stack.start..at).contains(word)).min();
        Some(Self { frames: frames.unwrap_or(stack.start), stack, table: words[TABLE], state })
    }

    fn unused(&self, sps: impl Iterator<Item = u64>, unused: &mut Unused) {
        let sp = sps.filter(|sp| self.stack.contains(sp)).min();
        match (sp, self.state) {
            (Some(sp), _) => unused.parts.push(self.stack.start..sp.saturating_sub(RED_ZONE).max(self.stack.start)),
            (None, State::Used) => {}
            (None, State::Ended) => unused.parts.push(self.stack.start..self.frames),
            (None, State::Free) => {
                unused.parts.push(self.stack.clone());
                unused.tables.push(self.table);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::pages::PAGE;

    const AT: u64 = 0x7f00_0010_0000 - 0x940;
    const BASE: u64 = 0x7f00_0000_0000;
    const SIZE: u64 = 0x10_0000;

    fn mapping() -> Mapping {
        Mapping { start: BASE + PAGE, end: BASE + SIZE, readable: true, writable: true, ..Mapping::default() }
    }

    /// As glibc 2.36 has it.
    fn words(tid: i32, joiner: u64, guard: u64) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        (words[0], words[1], words[2]) = (AT, 0x5555, AT);
        words[TID] = u64::from(tid as u32);
        words[0x300 / 8] = AT - 0x100;
        words[0x510 / 8] = AT + 0x310;
        words[0x620 / 8] = joiner;
        (words[0x690 / 8], words[0x698 / 8], words[0x6a0 / 8]) = (BASE, SIZE, guard);
        words
    }

    fn unused(words: &[u64; WORDS], sp: u64) -> Unused {
        let mut unused = Unused::default();
        ControlBlock::of(AT, words, &mapping()).expect("a block").unused([sp].into_iter(), &mut unused);
        unused
    }

    fn part(range: Range<u64>, tables: &[u64]) -> Unused {
        Unused { parts: std::iter::once(range).collect(), tables: tables.to_vec() }
    }

    #[test]
    fn a_stack_that_glibc_has_for_the_next_thread_is_unused() {
        let whole = part(BASE + PAGE..BASE + SIZE, &[0x5555]);
        assert_eq!(unused(&words(-1, 0x7000, PAGE), 0), whole);
        assert_eq!(unused(&words(0, AT, PAGE), 0), whole);
    }

    #[test]
    fn storage_of_a_thread_that_may_be_joined_is_used() {
        let expected = part(BASE + PAGE..AT - 0x100, &[]);
        assert_eq!(unused(&words(0, 0, PAGE), 0), expected);
    }

    #[test]
    fn a_stack_with_a_stack_pointer_or_an_id_is_used() {
        assert_eq!(unused(&words(7, 0, PAGE), 0), Unused::default());
        assert_eq!(unused(&words(7, AT, PAGE), 0), Unused::default());
        let expected = part(BASE + PAGE..BASE + 0x8000 - RED_ZONE, &[]);
        assert_eq!(unused(&words(-1, 0, PAGE), BASE + 0x8000), expected);
    }

    #[test]
    fn memory_that_a_program_gave_for_a_stack_is_its_own_again() {
        for guard in [0, PAGE] {
            let mut words = words(-1, 0x7000, guard);
            (words[0x690 / 8], words[0x698 / 8]) = (BASE + PAGE, SIZE - PAGE);
            assert_eq!(unused(&words, 0), Unused::default());
        }
    }

    #[test]
    fn a_block_that_does_not_say_where_its_stack_is_says_nothing() {
        let mut other = words(-1, 0x7000, PAGE);
        other[0x698 / 8] = u64::MAX;
        assert_eq!(ControlBlock::of(AT, &other, &mapping()), None);
    }
}
