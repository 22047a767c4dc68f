//! What instructions do to the flow of control.

/// The place at which a processor goes on after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The instruction behind this one.
    Next,
    /// A target that the instruction names.
    Jump,
    /// A target that the instruction names, or the next instruction.
    ConditionalJump,
    /// An address in a register or in memory.
    IndirectJump,
    Return,
    /// A function, and then the next instruction.
    Call,
    /// The kernel or a hypervisor, and then the next instruction.
    SystemCall,
    /// The kernel, by a numbered interrupt, and then the next instruction.
    Interrupt,
    /// Nowhere in the code: an invalid instruction on purpose, or a breakpoint.
    Trap,
    /// The next instruction, or the target that this one names where a transaction fails.
    Transaction,
}
