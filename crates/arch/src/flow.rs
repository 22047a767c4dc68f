//! What instructions do to the flow of control.

/// Where a processor goes on after an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// At the next one.
    Next,
    /// At a target that the instruction names.
    Jump,
    /// At a target that it names, or at the next one.
    ConditionalJump,
    /// At an address in a register or in memory.
    IndirectJump,
    Return,
    /// In a function, and then at the next one.
    Call,
    /// In the kernel or in a hypervisor, and then at the next one.
    SystemCall,
    /// In the kernel, by a numbered interrupt, and then at the next one.
    Interrupt,
    /// Nowhere in the code: an invalid instruction on purpose, or a breakpoint.
    Trap,
    /// At the next one, or at the target that it names where a transaction fails.
    Transaction,
}
