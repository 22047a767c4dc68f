//! Whether threads of a stopped process are in some code, or may return there.
//!
//! Frames decide as far as they are known. Two kinds of code hide what lies beyond them:
//!
//! - code that a runtime wrote at run time, in memory without a file: no unwind information exists. Its callers are
//!   compiled code of the runtime; code that it interrupted is found by the frame of the signal handler, which has all
//!   registers;
//! - functions of a file without unwind information: anything may have called them, so the words of the stack decide.

use std::collections::HashSet;
use std::io;
use std::ops::Range;

use mallow_arch::registers::Registers;
use mallow_arch::signal;

use crate::maps::Maps;
use crate::memory::Memory;
use crate::threads::Stopped;
use crate::unwind::{UnwindError, Unwinder, Walk};

/// Bytes of a stack that are searched, from its stack pointer on.
const SEARCHED: u64 = 256 << 10;

/// A word below the stack pointer is searched, too: code may take its return address off the stack and jump by it. What
/// lies deeper is left from calls that are over, and would have each waiting thread unwound.
const BELOW: u64 = 8;

/// Frames of signal handlers that are followed. A thread with more of them counts as one that returns there.
const HANDLERS_MOST: usize = 64;

impl Stopped {
    /// Threads that are within one of these addresses, or that may return there, but for those in `outside`. None: no
    /// thread is, and nothing there is executed any more if no function leads to it. Threads that are not go into
    /// `outside`.
    ///
    /// Of a thread, its stack is searched first, 256 KiB deep: without such an address it returns nowhere there. One
    /// may be left from a call that is over: then the frames decide. So they do on a stack that is not the thread's
    /// own: that holds its control block in glibc, too, but for the first thread. The code at these addresses calls
    /// functions of files alone, so code without a file is below it only where a signal interrupted it.
    pub fn refers_to(
        &self,
        memory: &Memory,
        unwinder: &Unwinder,
        ranges: &[Range<u64>],
        outside: &mut HashSet<u32>,
    ) -> io::Result<Vec<u32>> {
        let looked = Looked { maps: &Maps::read(self.pid())?, memory, unwinder, ranges };
        let mut inside = Vec::new();
        for thread in self.threads() {
            if outside.contains(&thread.id()) {
                continue;
            }
            match looked.is_present(&Registers::read(thread.id())?) {
                true => inside.push(thread.id()),
                false => drop(outside.insert(thread.id())),
            }
        }
        Ok(inside)
    }
}

struct Looked<'a> {
    maps: &'a Maps,
    memory: &'a Memory,
    unwinder: &'a Unwinder<'a>,
    ranges: &'a [Range<u64>],
}

impl Looked<'_> {
    fn is_within(&self, address: u64) -> bool {
        self.ranges.iter().any(|range| range.contains(&address))
    }

    fn is_present(&self, registers: &Registers) -> bool {
        if self.is_within(registers.pc()) {
            return true;
        }
        // A signal handler that has a stack of its own returns to another one.
        let is_own = self.maps.find(registers.sp()).is_some_and(|stack| {
            stack.path == "[stack]" || (stack.start..stack.end).contains(&registers.thread_pointer())
        });
        if is_own && !stack_refers_to(self.maps, self.memory, searched_from(registers.sp()), self.ranges) {
            return false;
        }
        self.may_return(registers)
    }

    /// Whether a thread with these registers returns to the ranges, as far as its frames are known, and may beyond
    /// them.
    fn may_return(&self, registers: &Registers) -> bool {
        let (mut followed, mut pending) = (HashSet::new(), vec![*registers]);
        while let Some(from) = pending.pop() {
            let Walk { frames, unknown } = self.unwinder.walk(&from, self.memory);
            if frames.iter().any(|frame| self.is_within(frame.address)) {
                return true;
            }
            let Some((error, sp)) = unknown else { continue };
            // Beyond a step to a stack at a lower address nothing can be searched.
            let Some(sp) = sp.filter(|sp| *sp >= from.sp()) else { return true };
            let is_written = matches!(error, UnwindError::NoModule(address) if self.has_no_file(address));
            if !is_written && (sp == from.sp() || stack_refers_to(self.maps, self.memory, (sp, sp), self.ranges)) {
                return true;
            }
            // Frames of handlers that are over are followed, too: nothing distinguishes them.
            let interrupted = self.interrupted(sp, registers);
            pending.extend(interrupted.into_iter().filter(|(at, _)| followed.insert(*at)).map(|(_, found)| found));
            if followed.len() > HANDLERS_MOST {
                return true;
            }
        }
        false
    }

    /// Whether the address is in code that a runtime wrote.
    fn has_no_file(&self, address: u64) -> bool {
        let is_anonymous = |path: &str| path.is_empty() || path.starts_with("[anon");
        self.maps.find(address).is_some_and(|one| one.executable && one.inode == 0 && is_anonymous(&one.path))
    }

    /// Addresses of signal frames on a stack, from `sp` on, with the registers that their handlers interrupted. `own`:
    /// registers of the thread.
    fn interrupted(&self, sp: u64, own: &Registers) -> Vec<(u64, Registers)> {
        let Some((at, words)) = words_of(self.maps, self.memory, (sp, sp)) else { return Vec::new() };
        let found = words.iter().enumerate().filter_map(|(index, &word)| {
            let registers = signal::interrupted(words.get(index + 1..)?, own)?;
            let code = self.maps.find(word).filter(|one| one.executable)?;
            let length = (code.end - word).min(16) as usize;
            let is_handler = signal::ends_handler(&self.memory.read_up_to(word, length));
            is_handler.then_some((at + 8 * index as u64, registers))
        });
        found.collect()
    }
}

/// First address of the search of a whole stack, and its stack pointer.
pub(crate) fn searched_from(sp: u64) -> (u64, u64) {
    (sp.saturating_sub(BELOW) & !7, sp)
}

/// Whether one of these addresses is on the stack that has `sp`, at `from` or after it.
pub(crate) fn stack_refers_to(maps: &Maps, memory: &Memory, (from, sp): (u64, u64), ranges: &[Range<u64>]) -> bool {
    let first = ranges.iter().map(|range| range.start).min().unwrap_or(0);
    let last = ranges.iter().map(|range| range.end).max().unwrap_or(0);
    let Some((_, words)) = words_of(maps, memory, (from, sp)) else { return false };
    let mut near = words.into_iter().filter(|word| (first..last).contains(word));
    near.any(|word| ranges.iter().any(|range| range.contains(&word)))
}

/// The words of the stack that has `sp`, at `from` or after it, and where they begin. None: `sp` is on no stack.
fn words_of(maps: &Maps, memory: &Memory, (from, sp): (u64, u64)) -> Option<(u64, Vec<u64>)> {
    let stack = maps.find(sp)?;
    let from = from.max(stack.start);
    let bytes = memory.read_up_to(from, stack.end.min(sp.saturating_add(SEARCHED)).saturating_sub(from) as usize);
    let words = bytes.chunks_exact(8).filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)));
    Some((from, words.collect()))
}
