//! Names and numbers of the processor.

use object::{Architecture, elf};

/// Where glibc's dynamic linker lies: programs name it by this path (psABI, "Program Interpreter").
pub const DYNAMIC_LINKER: &str = "/lib64/ld-linux-x86-64.so.2";

/// The processor's name in messages.
pub const NAME: &str = "x86-64";

/// The processor's number in the header of an ELF file (`e_machine`).
pub const ELF: u16 = elf::EM_X86_64;

/// The processor's name in the crate `object`.
pub const ARCHITECTURE: Architecture = Architecture::X86_64;

/// `AUDIT_ARCH_X86_64`: the processor's number in `struct seccomp_data`.
pub const AUDIT: u32 = 0xc000_003e;

/// The first address at which the kernel maps nothing unless a program asks for it: four levels of page tables.
pub const ADDRESSES_END: u64 = 1 << 47;

/// What dynamic linkers put for `$PLATFORM` in 64-bit programs: what glibc knows of these processors, and what the
/// kernel calls them.
pub const PLATFORMS: [&str; 3] = ["x86_64", "haswell", "xeon_phi"];

/// What they put for `$PLATFORM` in 32-bit programs, which the processor executes, too.
pub const PLATFORMS_32: [&str; 4] = ["i386", "i486", "i586", "i686"];

/// The processor's number in the header of a 32-bit ELF file.
pub const ELF_32: u16 = elf::EM_386;
