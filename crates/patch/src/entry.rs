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

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionBlock,
    Mnemonic,
};

use crate::branches::Branches;
use crate::refusal::Refusal;

/// Bytes of `jmp rel32`.
pub const JUMP: u64 = 5;

/// Bytes of `endbr64`.
const ENDBR64: &[u8] = b"\xf3\x0f\x1e\xfa";

/// A function whose entry is to be patched. All addresses are those of the process.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its first byte.
    pub address: u64,
    /// Its symbol's size in bytes; 0 if unknown.
    pub size: u64,
    /// Where the next symbol begins, or the text ends.
    pub next: u64,
    /// Whether its symbol is an `STT_GNU_IFUNC`.
    pub ifunc: bool,
    /// Bytes of the process from `address` on: the function, and what pads it.
    pub memory: &'a [u8],
    /// The same bytes of its file.
    pub file: &'a [u8],
    /// Where its module's code is.
    pub module: (u64, u64),
}

/// A patch that is safe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Where the jump is written: the function's first byte, or the one after its `endbr64`.
    at: u64,
    instructions: Vec<Instruction>,
    /// The five bytes that the jump replaces.
    original: [u8; JUMP as usize],
    /// Whether they end in a jump or a return, so that none of the function follows.
    ends: bool,
}

/// Plans the patch of an entry. `branches` are those of its whole module.
pub fn plan(entry: &Entry, branches: &Branches) -> Result<Patch, Refusal> {
    if entry.ifunc {
        return Err(Refusal::Ifunc);
    }
    let skipped = if entry.memory.starts_with(ENDBR64) { ENDBR64.len() as u64 } else { 0 };
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

/// The function's own addresses.
fn own(entry: &Entry) -> Range<u64> {
    let end = if entry.size == 0 { entry.next } else { entry.address.saturating_add(entry.size) };
    entry.address..end
}

/// Whether the function's code is that of its file.
fn unchanged(entry: &Entry, at: u64, code: &[u8]) -> Result<(), Refusal> {
    let compared = match entry.size {
        0 => entry.memory.len(),
        size => entry.memory.len().min(usize::try_from(size).unwrap_or(usize::MAX)),
    };
    let (memory, file) = (&entry.memory[..compared], entry.file.get(..compared).ok_or(Refusal::Unreadable)?);
    let difference = memory.iter().zip(file).position(|(memory, file)| memory != file);
    let first = Decoder::with_ip(64, code, at, DecoderOptions::NONE).into_iter().next();
    if let Some(first) = first {
        let target = first.near_branch_target();
        let leaves =
            first.mnemonic() == Mnemonic::Jmp && target != 0 && !(entry.module.0..entry.module.1).contains(&target);
        let changed = difference.is_some_and(|difference| (difference as u64) < at - entry.address + JUMP);
        if leaves || changed && first.flow_control() == FlowControl::IndirectBranch {
            return Err(Refusal::PatchedAlready);
        }
        if changed && first.mnemonic() == Mnemonic::Int3 {
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
    /// Bytes of them.
    length: u64,
    ends: bool,
}

/// The instructions that begin in the five bytes from `at` on.
fn displaced(entry: &Entry, at: u64, code: &[u8]) -> Result<Displaced, Refusal> {
    let mut all = Displaced { instructions: Vec::new(), length: 0, ends: false };
    let mut decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
    while all.length < JUMP && !all.ends {
        if !decoder.can_decode() {
            return Err(Refusal::Unreadable);
        }
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return Err(Refusal::NotCode);
        }
        if entry.size != 0 && instruction.next_ip() > entry.address.saturating_add(entry.size) {
            // It runs on into what follows.
            return Err(Refusal::TooShort(entry.size));
        }
        match instruction.flow_control() {
            FlowControl::Next | FlowControl::ConditionalBranch => {}
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return => all.ends = true,
            FlowControl::Call | FlowControl::IndirectCall => match instruction.mnemonic() {
                Mnemonic::Call => return Err(Refusal::Call),
                _ => return Err(Refusal::SystemCall),
            },
            _ => return Err(Refusal::Immovable(format!("{:?}", instruction.mnemonic()).to_lowercase())),
        }
        all.length += instruction.len() as u64;
        all.instructions.push(instruction);
    }
    // Nothing of the function is left: what pads it may be overwritten, up to the next one.
    let mut reached = all.length;
    while reached < JUMP {
        if !decoder.can_decode() {
            return Err(Refusal::TooShort(at - entry.address + all.length));
        }
        let padding = decoder.decode();
        if !matches!(padding.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
            return Err(Refusal::TooShort(at - entry.address + all.length));
        }
        reached += padding.len() as u64;
    }
    Ok(all)
}

impl Patch {
    /// Where the jump is written, and the bytes of the function that are no longer executed there. No thread may be
    /// inside of them, past the first, when the jump is written.
    pub fn range(&self) -> Range<u64> {
        let length: usize = self.instructions.iter().map(Instruction::len).sum();
        self.at..self.at + (length as u64).max(JUMP)
    }

    /// The five bytes that restore the entry.
    pub fn original(&self) -> &[u8; JUMP as usize] {
        &self.original
    }

    /// The five bytes that send the entry to `stub`.
    pub fn jump(&self, stub: u64) -> Result<[u8; JUMP as usize], Refusal> {
        let distance = stub.wrapping_sub(self.at.wrapping_add(JUMP)) as i64;
        let distance = i32::try_from(distance).map_err(|_| Refusal::OutOfReach)?;
        let mut jump = [0xe9; JUMP as usize];
        jump[1..].copy_from_slice(&distance.to_le_bytes());
        Ok(jump)
    }

    /// Code for the address `place` that does what the displaced instructions do, and goes on in the function.
    pub fn trampoline(&self, place: u64) -> Result<Vec<u8>, Refusal> {
        self.relocated(place).map(|relocated| relocated.code)
    }

    /// The trampoline at `place`, and where the displaced instructions are in it.
    pub(crate) fn relocated(&self, place: u64) -> Result<Relocated, Refusal> {
        let mut instructions = self.instructions.clone();
        if !self.ends {
            let resume = instructions.last().map_or(self.at, Instruction::next_ip);
            let back = Instruction::with_branch(Code::Jmp_rel32_64, resume);
            instructions.push(back.map_err(|error| Refusal::NotRelocatable(error.to_string()))?);
        }
        let block = InstructionBlock::new(&instructions, place);
        match BlockEncoder::encode(64, block, BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS) {
            Ok(encoded) => {
                let offsets = encoded.new_instruction_offsets.into_iter();
                // The largest number stands for an instruction that became several.
                let address = |offset| (offset != u32::MAX).then(|| place + u64::from(offset));
                let moves = self.instructions.iter().zip(offsets).map(|(from, to)| (from.ip(), address(to)));
                Ok(Relocated { code: encoded.code_buffer, moves: moves.collect() })
            }
            Err(error) => Err(Refusal::NotRelocatable(error.to_string())),
        }
    }
}

pub(crate) struct Relocated {
    pub(crate) code: Vec<u8>,
    /// The address of each displaced instruction, and of the one that takes its place. None: several do.
    pub(crate) moves: Vec<(u64, Option<u64>)>,
}

#[cfg(test)]
mod tests;
