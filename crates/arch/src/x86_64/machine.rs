//! Names and numbers of the processor.

use object::{Architecture, elf};

/// Path of glibc's dynamic linker, by which programs name it (psABI, "Program Interpreter").
pub const DYNAMIC_LINKER: &str = "/lib64/ld-linux-x86-64.so.2";

pub const NAME: &str = "x86-64";

/// The processor's number in the header of an ELF file (`e_machine`).
pub const ELF: u16 = elf::EM_X86_64;

/// The processor's name in the crate `object`.
pub const ARCHITECTURE: Architecture = Architecture::X86_64;

/// `AUDIT_ARCH_X86_64`: the processor's number in `struct seccomp_data`.
pub const AUDIT: u32 = 0xc000_003e;

/// The first address at which the kernel maps nothing unless a program asks for it: four levels of page tables.
pub const ADDRESSES_END: u64 = 1 << 47;

/// Values of `$PLATFORM` in 64-bit programs: glibc's names of these processors, and the kernel's.
pub const PLATFORMS: [&str; 3] = ["x86_64", "haswell", "xeon_phi"];

/// Values of `$PLATFORM` in 32-bit programs, which the processor executes, too.
pub const PLATFORMS_32: [&str; 4] = ["i386", "i486", "i586", "i686"];

/// The processor's number in the header of a 32-bit ELF file.
pub const ELF_32: u16 = elf::EM_386;
