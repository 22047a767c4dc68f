//! The patch of a function's entry: a jump, and the displaced instructions, moved.

use iced_x86::{BlockEncoder, BlockEncoderOptions, Code, InstructionBlock};

use super::instruction::Instruction;

/// Bytes of the jump, `jmp rel32`.
pub const JUMP: u64 = 5;

/// `endbr64`, to which indirect calls lead: it stays where it is.
pub const LANDING: &[u8] = b"\xf3\x0f\x1e\xfa";

/// Bytes from a function's first one on that a patch may change.
pub const CHANGED: u64 = LANDING.len() as u64 + JUMP;

/// Reach of the jump in both directions, in bytes. Operands of displaced instructions reach as far.
pub const REACH: u64 = 1 << 31;

/// `lea disp32(%rip),%r9`, without the displacement.
const LEA: &[u8] = b"\x4c\x8d\x0d";

const JUMP_TO_NEXT: &[u8] = b"\xff\x25\0\0\0\0";

const BREAKPOINT: u8 = 0xcc;

/// A jump at `at` that leads to `to`. None: it does not reach so far.
pub fn jump(at: u64, to: u64) -> Option<[u8; JUMP as usize]> {
    let distance = to.wrapping_sub(at.wrapping_add(JUMP)) as i64;
    let distance = i32::try_from(distance).ok()?;
    let mut jump = [0xe9; JUMP as usize];
    jump[1..].copy_from_slice(&distance.to_le_bytes());
    Some(jump)
}

/// Displaced instructions in their trampoline.
pub struct Moved {
    pub code: Vec<u8>,
    /// The address of each instruction, and of the one that takes its place. None: several do.
    pub moves: Vec<(u64, Option<u64>)>,
}

/// Code for the address `place` that does what these instructions do where they are, and goes on at `resume`. Fails,
/// with the reason, where an instruction does not reach its operand from there.
pub fn move_to(place: u64, instructions: &[Instruction], resume: Option<u64>) -> Result<Moved, String> {
    let mut all: Vec<iced_x86::Instruction> = instructions.iter().map(|instruction| instruction.0).collect();
    if let Some(resume) = resume {
        let back = iced_x86::Instruction::with_branch(Code::Jmp_rel32_64, resume);
        all.push(back.map_err(|error| error.to_string())?);
    }
    let block = InstructionBlock::new(&all, place);
    let encoded = BlockEncoder::encode(64, block, BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS)
        .map_err(|error| error.to_string())?;
    let offsets = encoded.new_instruction_offsets.into_iter();
    // The largest number stands for an instruction that became several.
    let address = |offset| (offset != u32::MAX).then(|| place + u64::from(offset));
    let moves = instructions.iter().zip(offsets).map(|(from, to)| (from.address(), address(to)));
    Ok(Moved { code: encoded.code_buffer, moves: moves.collect() })
}

/// Place, in code that [`append_hop`] wrote, of the reference to its data.
pub struct DataReference(usize);

impl DataReference {
    /// The data begin at the end of `code`, less than 2 GiB on.
    pub fn resolve(self, code: &mut [u8]) {
        let distance = (code.len() - self.0) as u32;
        code[self.0 - 4..self.0].copy_from_slice(&distance.to_le_bytes());
    }
}

/// Appends code that goes on at `to`, anywhere. With data, it has their address in `r9`, where no function with at most
/// five arguments has one.
pub fn append_hop(code: &mut Vec<u8>, to: u64, has_data: bool) -> Option<DataReference> {
    let reference = has_data.then(|| {
        code.extend(LEA);
        code.extend([0; 4]);
        DataReference(code.len())
    });
    code.extend(JUMP_TO_NEXT);
    code.extend(to.to_le_bytes());
    reference
}

/// Fills `code` up to `length` bytes with what stops a thread that strays there.
pub fn fill(code: &mut Vec<u8>, length: usize) {
    code.resize(length, BREAKPOINT);
}

#[cfg(test)]
mod tests {
    use super::super::instruction::Decoder;
    use super::*;

    const AT: u64 = 0x7f00_0040_1000;

    #[test]
    fn operands_and_branches_lead_to_where_they_led() {
        // mov 0x100(%rip),%rax; je +0x10
        let code = b"\x48\x8b\x05\x00\x01\x00\x00\x74\x10";
        let instructions: Vec<Instruction> = Decoder::new(code, AT).collect();
        let moved = move_to(AT + 0x1000, &instructions, Some(AT + 9)).unwrap();
        let after: Vec<Instruction> = Decoder::new(&moved.code, AT + 0x1000).collect();
        assert_eq!(after[0].0.ip_rel_memory_address(), AT + 7 + 0x100);
        assert_eq!(after[1..].iter().map(Instruction::target).collect::<Vec<_>>(), [Some(AT + 9 + 0x10), Some(AT + 9)]);
        assert_eq!(moved.moves, [(AT, Some(AT + 0x1000)), (AT + 7, Some(AT + 0x1007))]);
        // Too far for the operand.
        assert!(move_to(1 << 46, &instructions, None).is_err());
    }

    #[test]
    fn jumps_reach_two_gibibytes() {
        assert_eq!(jump(AT, AT + 0x1005), Some(*b"\xe9\x00\x10\x00\x00"));
        assert_eq!(jump(AT, AT), Some(*b"\xe9\xfb\xff\xff\xff"));
        assert_eq!(jump(AT, AT + JUMP + REACH), None);
        assert!(jump(AT, AT + JUMP + REACH - 1).is_some() && jump(AT, AT + JUMP - REACH).is_some());
    }

    #[test]
    fn hops_lead_anywhere_and_find_their_data() {
        let mut code = Vec::new();
        assert!(append_hop(&mut code, 0x1122, false).is_none());
        assert_eq!(code, b"\xff\x25\0\0\0\0\x22\x11\0\0\0\0\0\0");
        let mut code = Vec::new();
        let data = append_hop(&mut code, 0x1122, true).unwrap();
        fill(&mut code, 24);
        data.resolve(&mut code);
        let lea = Decoder::new(&code, AT).next().unwrap();
        assert_eq!(lea.0.ip_rel_memory_address(), AT + 24);
        assert_eq!(code[21..], [BREAKPOINT; 3]);
    }
}
