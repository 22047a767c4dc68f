//! Registers by their numbers in DWARF (System V x86-64 ABI 3.6.2).

use gimli::{Register, X86_64};

use super::rule::SAVED_COUNT;

/// Number of registers that have a value for an unwinder: general ones and the return address.
pub const REGISTERS: usize = 17;

pub const SP: Register = X86_64::RSP;
pub const FP: Register = X86_64::RBP;
/// The column of the return address.
pub const RA: Register = X86_64::RA;
/// The register that an expression of call frame information names to get the address of the instruction: on x86-64,
/// the column of the return address.
pub const PC: Register = X86_64::RA;

/// Registers that a function gives back as it found them.
pub const KEPT: [Register; 6] = [X86_64::RBX, X86_64::RBP, X86_64::R12, X86_64::R13, X86_64::R14, X86_64::R15];

/// The registers of [`Rule::kind`](super::rule::Rule::kind), in its order.
pub const SAVED: [Register; SAVED_COUNT] = {
    let [rbx, rbp, r12, r13, r14, r15] = KEPT;
    [rbx, rbp, r12, r13, r14, r15, RA]
};

/// Index of a register in [`SAVED`]. None: a rule says nothing of it.
#[inline]
pub fn saved_index(register: Register) -> Option<usize> {
    SAVED.iter().position(|&saved| saved == register)
}

#[cfg(test)]
mod tests {
    use super::super::rule;
    use super::*;

    #[test]
    fn saved_registers_are_in_the_order_of_rule_h() {
        let order = [X86_64::RBX, X86_64::RBP, X86_64::R12, X86_64::R13, X86_64::R14, X86_64::R15, X86_64::RA];
        assert_eq!(order.map(saved_index), std::array::from_fn(Some));
        assert_eq!([FP, X86_64::R14, RA].map(saved_index), [Some(rule::FP), Some(rule::CONTEXT), Some(rule::RA)]);
        assert_eq!([SP, X86_64::RAX].map(saved_index), [None; 2]);
    }
}
