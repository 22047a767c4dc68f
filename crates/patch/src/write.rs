//! Patches written into a stopped process, and restored.
//!
//! A thread that stands within displaced bytes continues at the same instruction of the trampoline. A signal handler
//! that interrupted a thread there would return into the middle of the jump: the return address of its frame is on the
//! stack, which is searched for it. Then nothing is written, and the caller tries again later.

use std::io;
use std::ops::Range;

use mallow_arch::registers::Registers;

use crate::maps::Maps;
use crate::memory::Memory;
use crate::patches::{Placed, Write};
use crate::presence::{searched_from, stack_refers_to};
use crate::threads::Stopped;

/// Why patches were not written, or not restored.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The entry is not what it was when the patch was planned, or not what was written.
    #[error("the code at {0:#x} was changed meanwhile")]
    Changed(u64),
    /// A signal handler interrupted the thread within displaced bytes: another attempt may succeed.
    #[error("a signal handler interrupted thread {0} at the entry of a function")]
    Interrupted(u32),
    #[error("{0}")]
    Request(#[from] io::Error),
}

impl Stopped {
    /// Fills the areas, which are mapped, and writes the jumps: all of them, or none. Areas stay mapped where it fails:
    /// a thread may be in one.
    pub fn write_patches(&mut self, memory: &Memory, placed: &[Placed]) -> Result<(), WriteError> {
        for one in placed {
            memory.write(one.area, &one.code)?;
        }
        let writes: Vec<&Write> = placed.iter().flat_map(|one| &one.writes).collect();
        for write in &writes {
            expect(memory, write.at, &write.before)?;
        }
        let inside: Vec<Range<u64>> = writes.iter().map(|write| write.at + 1..write.displaced.end).collect();
        let maps = Maps::read(self.pid())?;
        for thread in self.threads() {
            let sp = Registers::read(thread.id())?.sp();
            if stack_refers_to(&maps, memory, searched_from(sp), &inside) {
                return Err(WriteError::Interrupted(thread.id()));
            }
        }
        self.move_threads(&writes)?;
        for (index, write) in writes.iter().enumerate() {
            if let Err(error) = memory.write(write.at, &write.after) {
                for done in &writes[..index] {
                    memory.write(done.at, &done.before)?;
                }
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Puts the entries back, byte for byte. Nothing is to do for those that are as they were: their module was loaded
    /// again. Those that are neither that nor what [`Self::write_patches`] wrote are left alone, and the first of them
    /// is the error: somebody else changed them.
    pub fn restore_patches(&mut self, memory: &Memory, placed: &[Placed]) -> Result<(), WriteError> {
        let mut result = Ok(());
        for write in placed.iter().flat_map(|one| &one.writes) {
            if expect(memory, write.at, &write.before).is_ok() {
                continue;
            }
            let restored = expect(memory, write.at, &write.after)
                .and_then(|()| Ok(memory.write(write.at, &write.before)?))
                .and_then(|()| expect(memory, write.at, &write.before));
            result = result.and(restored);
        }
        result
    }

    /// Brings threads that are past the first displaced instruction of an entry to where the same instruction is
    /// afterwards.
    fn move_threads(&mut self, writes: &[&Write]) -> Result<(), WriteError> {
        for thread in self.threads() {
            let registers = Registers::read(thread.id())?;
            let pc = registers.pc();
            let within = |write: &&&Write| pc > write.at && pc < write.displaced.end;
            let Some(write) = writes.iter().find(within) else { continue };
            let to = write.moves.iter().find(|(from, _)| *from == pc).and_then(|(_, to)| *to);
            // Padding that follows a short function is within the range, and never executed.
            let to = to.ok_or(WriteError::Interrupted(thread.id()))?;
            registers.with_pc(to).write(thread.id())?;
        }
        Ok(())
    }
}

fn expect(memory: &Memory, at: u64, bytes: &[u8]) -> Result<(), WriteError> {
    let found = memory.read_up_to(at, bytes.len());
    if found == bytes { Ok(()) } else { Err(WriteError::Changed(at)) }
}
