//! The patch of a function's entry.
//!
//! ```text
//!  before                            after                        trampoline, within ±2 GiB
//!
//!  f:    endbr64                     f:    endbr64
//!  f+4:  push %rbp        ┐          f+4:  jmp  stub ─────►  …    t:    push %rbp
//!  f+5:  mov  %rsp,%rbp   │ displaced      (tail of the           t+1:  mov  %rsp,%rbp
//!  f+8:  mov  x(%rip),%r9 ┘                 last one)             t+4:  mov  x(%rip),%r9   operand moved
//!  f+15: …                           f+15: …  ◄────────────────── t+11: jmp  f+15
//! ```
//!
//! Five bytes are written. Each displaced instruction begins in them, so nothing but the jump can be executed there;
//! the tail of the last one stays as it was and is never executed.

use std::ops::Range;

use mallow_arch::Flow;
pub use mallow_arch::entry::JUMP;
use mallow_arch::entry::{self, LANDING, Moved};
use mallow_arch::instruction::{Decoder, Instruction};

use crate::branches::Branches;
use crate::refusal::Refusal;

/// A function whose entry is to be patched. All addresses are those of the process.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub address: u64,
    /// Size of the symbol in bytes; 0 if unknown.
    pub size: u64,
    /// Address of the next symbol, or the end of the text.
    pub next: u64,
    /// Whether the symbol is an `STT_GNU_IFUNC`.
    pub ifunc: bool,
    /// Bytes of the process from `address` on: the function, and what pads it.
    pub memory: &'a [u8],
    /// Bytes of the file for the addresses of `memory`.
    pub file: &'a [u8],
    /// First address of the module, and the first one behind it.
    pub module: (u64, u64),
}

/// A patch that is safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Address of the jump: the function's first byte, or the one after its [`LANDING`].
    at: u64,
    instructions: Vec<Instruction>,
    /// The five bytes that the jump replaces.
    original: [u8; JUMP as usize],
    /// Whether the displaced instructions end in a jump or a return, so that none of the function follows.
    ends: bool,
}

/// Plans the patch of an entry. `branches` are those of its whole module.
pub fn plan(entry: &Entry, branches: &Branches) -> Result<Patch, Refusal> {
    if entry.ifunc {
        return Err(Refusal::Ifunc);
    }
    let skipped = if entry.memory.starts_with(LANDING) { LANDING.len() as u64 } else { 0 };
    let at = entry.address.checked_add(skipped).ok_or(Refusal::Unreadable)?;
    let code = entry.memory.get(skipped as usize..).unwrap_or_default();
    unchanged(entry, at, code)?;
    let displaced = displaced(entry, at, code)?;
    let end = at + displaced.length;
    if entry.next > at && entry.next < at + JUMP.max(displaced.length) {
        return Err(Refusal::NeighbourInside(entry.next - entry.address));
    }
    for &(target, source) in branches.jumps_into(at, end.max(at + JUMP)) {
        match target == at {
            false => return Err(Refusal::BranchInside(target - entry.address)),
            true if own(entry).contains(&source) => return Err(Refusal::LoopToEntry),
            true => {}
        }
    }
    let original = code.first_chunk().copied().ok_or(Refusal::Unreadable)?;
    Ok(Patch { at, instructions: displaced.instructions, original, ends: displaced.ends })
}

fn own(entry: &Entry) -> Range<u64> {
    let end = if entry.size == 0 { entry.next } else { entry.address.saturating_add(entry.size) };
    entry.address..end
}

fn unchanged(entry: &Entry, at: u64, code: &[u8]) -> Result<(), Refusal> {
    let compared = match entry.size {
        0 => entry.memory.len(),
        size => entry.memory.len().min(usize::try_from(size).unwrap_or(usize::MAX)),
    };
    let (memory, file) = (&entry.memory[..compared], entry.file.get(..compared).ok_or(Refusal::Unreadable)?);
    let difference = memory.iter().zip(file).position(|(memory, file)| memory != file);
    if let Some(first) = Decoder::new(code, at).next() {
        let module = entry.module.0..entry.module.1;
        let leaves = first.flow() == Flow::Jump && first.target().is_some_and(|target| !module.contains(&target));
        let changed = difference.is_some_and(|difference| (difference as u64) < at - entry.address + JUMP);
        if leaves || changed && first.flow() == Flow::IndirectJump {
            return Err(Refusal::PatchedAlready);
        }
        if changed && first.is_breakpoint() {
            return Err(Refusal::Breakpoint);
        }
    }
    match difference {
        Some(difference) => Err(Refusal::CodeDiffers(difference as u64)),
        None => Ok(()),
    }
}

struct Displaced {
    instructions: Vec<Instruction>,
    /// Length of the instructions in bytes.
    length: u64,
    ends: bool,
}

/// The instructions that begin in the five bytes from `at` on.
fn displaced(entry: &Entry, at: u64, code: &[u8]) -> Result<Displaced, Refusal> {
    let mut all = Displaced { instructions: Vec::new(), length: 0, ends: false };
    let mut decoder = Decoder::new(code, at);
    while all.length < JUMP && !all.ends {
        if !decoder.can_decode() {
            return Err(Refusal::Unreadable);
        }
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return Err(Refusal::NotCode);
        }
        if entry.size != 0 && instruction.next() > entry.address.saturating_add(entry.size) {
            // It runs on into what follows.
            return Err(Refusal::TooShort(entry.size));
        }
        match instruction.flow() {
            Flow::Next | Flow::ConditionalJump => {}
            Flow::Jump | Flow::IndirectJump | Flow::Return => all.ends = true,
            Flow::Call => return Err(Refusal::Call),
            Flow::SystemCall => return Err(Refusal::SystemCall),
            Flow::Interrupt | Flow::Trap | Flow::Transaction => {
                return Err(Refusal::Immovable(instruction.mnemonic()));
            }
        }
        all.length += instruction.length();
        all.instructions.push(instruction);
    }
    // Nothing of the function is left: what pads it may be overwritten, up to the next one.
    let mut reached = all.length;
    while reached < JUMP {
        if !decoder.can_decode() {
            return Err(Refusal::TooShort(at - entry.address + all.length));
        }
        let padding = decoder.decode();
        if !padding.is_padding() {
            return Err(Refusal::TooShort(at - entry.address + all.length));
        }
        reached += padding.length();
    }
    Ok(all)
}

impl Patch {
    /// Addresses of the jump and of the displaced instructions behind it, which are no longer executed there. No thread
    /// may be inside of them, past the first, when the jump is written.
    pub fn range(&self) -> Range<u64> {
        let length: u64 = self.instructions.iter().map(Instruction::length).sum();
        self.at..self.at + length.max(JUMP)
    }

    /// The five bytes that restore the entry.
    pub fn original(&self) -> &[u8; JUMP as usize] {
        &self.original
    }

    /// The five bytes that send the entry to `stub`.
    pub fn jump(&self, stub: u64) -> Result<[u8; JUMP as usize], Refusal> {
        entry::jump(self.at, stub).ok_or(Refusal::OutOfReach)
    }

    /// Code for the address `place` that does what the displaced instructions do, and goes on in the function.
    pub fn trampoline(&self, place: u64) -> Result<Vec<u8>, Refusal> {
        self.moved_to(place).map(|moved| moved.code)
    }

    /// The trampoline at `place`, and where the displaced instructions are in it.
    pub(crate) fn moved_to(&self, place: u64) -> Result<Moved, Refusal> {
        let resume = (!self.ends).then(|| self.instructions.last().map_or(self.at, Instruction::next));
        entry::move_to(place, &self.instructions, resume).map_err(Refusal::NotRelocatable)
    }
}

#[cfg(test)]
mod tests;
