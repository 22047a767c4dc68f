//! Names of processors, for messages.

use object::elf;

/// The name of a processor by its number in ELF files (`e_machine`). None: one that no message names.
pub fn machine_name(number: u16) -> Option<&'static str> {
    Some(match number {
        elf::EM_X86_64 => "x86-64",
        elf::EM_AARCH64 => "aarch64",
        elf::EM_RISCV => "RISC-V",
        elf::EM_PPC64 => "PowerPC",
        elf::EM_S390 => "s390x",
        elf::EM_LOONGARCH => "LoongArch",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine;

    #[test]
    fn this_processor_has_one_name() {
        assert_eq!(machine_name(machine::ELF), Some(machine::NAME));
        assert_eq!(machine_name(elf::EM_AARCH64), Some("aarch64"));
        assert_eq!(machine_name(elf::EM_NONE), None);
    }
}
