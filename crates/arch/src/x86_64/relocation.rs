//! Relocations of the slots that stubs jump through.

use object::elf;

/// The value that the dynamic linker writes into a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotValue {
    /// The address of the relocation's symbol.
    Symbol,
    /// The result of the function at the relocation's addend, the resolver of an IFUNC.
    Resolved,
}

/// The value that a relocation of this kind (`r_type`) writes. None: it is of something else than a slot for a
/// function.
pub fn slot_value(kind: u32) -> Option<SlotValue> {
    match kind {
        elf::R_X86_64_JUMP_SLOT | elf::R_X86_64_GLOB_DAT => Some(SlotValue::Symbol),
        elf::R_X86_64_IRELATIVE => Some(SlotValue::Resolved),
        _ => None,
    }
}
