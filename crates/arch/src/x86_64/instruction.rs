//! Instructions, decoded by iced-x86.

use iced_x86::{Code, DecoderOptions, FlowControl, FormatMnemonicOptions, Formatter, GasFormatter, Mnemonic};

use crate::flow::Flow;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instruction(pub(super) iced_x86::Instruction);

/// Decodes code from its beginning to its end. Bytes that are no instruction make one that is invalid.
pub struct Decoder<'a>(iced_x86::Decoder<'a>);

impl<'a> Decoder<'a> {
    /// Begins with the first byte of `code`, which is at `address`.
    #[inline]
    pub fn new(code: &'a [u8], address: u64) -> Self {
        Self(iced_x86::Decoder::with_ip(64, code, address, DecoderOptions::NONE))
    }

    /// False at the end of the code.
    #[inline]
    pub fn can_decode(&self) -> bool {
        self.0.can_decode()
    }

    #[inline]
    pub fn decode(&mut self) -> Instruction {
        Instruction(self.0.decode())
    }

    /// [`Self::decode`] into an instruction that is there already: saves a copy.
    #[inline]
    pub fn decode_into(&mut self, instruction: &mut Instruction) {
        self.0.decode_out(&mut instruction.0);
    }
}

impl Iterator for Decoder<'_> {
    type Item = Instruction;

    #[inline]
    fn next(&mut self) -> Option<Instruction> {
        self.can_decode().then(|| self.decode())
    }
}

impl Instruction {
    #[inline]
    pub fn address(&self) -> u64 {
        self.0.ip()
    }

    /// The address of the next one: the return address of a call.
    #[inline]
    pub fn next(&self) -> u64 {
        self.0.next_ip()
    }

    /// Length of the instruction in bytes.
    #[inline]
    pub fn length(&self) -> u64 {
        self.0.len() as u64
    }

    /// Whether the bytes are no instruction.
    #[inline]
    pub fn is_invalid(&self) -> bool {
        self.0.is_invalid()
    }

    #[inline]
    pub fn flow(&self) -> Flow {
        match self.0.flow_control() {
            FlowControl::Next => Flow::Next,
            FlowControl::UnconditionalBranch => Flow::Jump,
            FlowControl::ConditionalBranch => Flow::ConditionalJump,
            FlowControl::IndirectBranch => Flow::IndirectJump,
            FlowControl::Return => Flow::Return,
            FlowControl::Call | FlowControl::IndirectCall => match self.is_call() {
                true => Flow::Call,
                false => Flow::SystemCall,
            },
            FlowControl::Interrupt if self.0.mnemonic() == Mnemonic::Int => Flow::Interrupt,
            FlowControl::Interrupt | FlowControl::Exception => Flow::Trap,
            FlowControl::XbeginXabortXend => Flow::Transaction,
        }
    }

    /// Target of a jump or a call that names it; None also for address 0.
    #[inline]
    pub fn target(&self) -> Option<u64> {
        let target = self.0.near_branch_target();
        (target != 0).then_some(target)
    }

    /// The address of the word in memory that holds the target of a jump or a call, where the instruction names it.
    pub fn slot(&self) -> Option<u64> {
        let through_slot = matches!(self.0.code(), Code::Call_rm64 | Code::Jmp_rm64);
        (through_slot && self.0.is_ip_rel_memory_operand()).then(|| self.0.ip_rel_memory_address())
    }

    #[inline]
    pub fn is_call(&self) -> bool {
        self.0.mnemonic() == Mnemonic::Call
    }

    /// The function that it calls and names.
    pub fn callee(&self) -> Option<u64> {
        (self.0.code() == Code::Call_rel32_64).then(|| self.0.near_branch_target())
    }

    /// Whether the instruction does nothing, or is a breakpoint: compilers put these between functions.
    #[inline]
    pub fn is_padding(&self) -> bool {
        matches!(self.0.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
    }

    pub fn is_breakpoint(&self) -> bool {
        self.0.mnemonic() == Mnemonic::Int3
    }

    /// Whether the instruction is invalid on purpose: compilers put it where nothing can lead.
    #[inline]
    pub fn is_unreachable(&self) -> bool {
        self.0.mnemonic() == Mnemonic::Ud2
    }

    /// The instruction's name as AT&T's assemblers write it, without operands and prefixes. The decoder's own table of
    /// names takes 75 kB, and is in no other use.
    pub fn mnemonic(&self) -> String {
        let mut name = String::new();
        GasFormatter::new().format_mnemonic_options(&self.0, &mut name, FormatMnemonicOptions::NO_PREFIXES);
        name
    }

    /// The instruction as AT&T's assemblers write it; `(bad)` for bytes that are none.
    pub fn text(&self) -> String {
        let mut formatter = GasFormatter::new();
        let options = formatter.options_mut();
        options.set_space_after_operand_separator(true);
        options.set_branch_leading_zeros(false);
        options.set_uppercase_hex(false);
        let mut text = String::new();
        formatter.format(&self.0, &mut text);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_of_instructions() {
        let all: [(&[u8], Flow, Option<u64>); 14] = [
            (b"\x90", Flow::Next, None),
            (b"\xeb\x10", Flow::Jump, Some(0x1012)),
            (b"\x75\xfe", Flow::ConditionalJump, Some(0x1000)),
            (b"\xe3\x00", Flow::ConditionalJump, Some(0x1002)),
            (b"\xff\xe0", Flow::IndirectJump, None),
            (b"\xc3", Flow::Return, None),
            (b"\xe8\0\0\0\0", Flow::Call, Some(0x1005)),
            (b"\xff\xd0", Flow::Call, None),
            (b"\x0f\x05", Flow::SystemCall, None),
            (b"\xcd\x80", Flow::Interrupt, None),
            (b"\xcc", Flow::Trap, None),
            (b"\x0f\x0b", Flow::Trap, None),
            (b"\xc7\xf8\0\0\0\0", Flow::Transaction, Some(0x1006)),
            (b"\xf4", Flow::Next, None),
        ];
        for (code, flow, target) in all {
            let instruction = Decoder::new(code, 0x1000).decode();
            assert_eq!((instruction.flow(), instruction.target()), (flow, target), "{}", instruction.text());
            assert_eq!(instruction.next(), 0x1000 + code.len() as u64);
        }
        assert!(Decoder::new(b"\x06", 0).decode().is_invalid());
        assert_eq!(Decoder::new(b"", 0).next(), None);
    }

    #[test]
    fn slots_and_callees() {
        let of = |code: &[u8]| {
            let instruction = Decoder::new(code, 0x1000).decode();
            (instruction.slot(), instruction.callee())
        };
        assert_eq!(of(b"\xff\x15\x10\0\0\0"), (Some(0x1016), None), "call *0x10(%rip)");
        assert_eq!(of(b"\xff\x25\x10\0\0\0"), (Some(0x1016), None), "jmp *0x10(%rip)");
        assert_eq!(of(b"\xff\x50\x10"), (None, None), "call *0x10(%rax)");
        assert_eq!(of(b"\xe8\x10\0\0\0"), (None, Some(0x1015)), "call");
    }
}
