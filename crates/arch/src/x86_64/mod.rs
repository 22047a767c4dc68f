//! x86-64, with the System V calling convention and Linux's system calls.

pub mod call;
pub mod context;
pub mod dwarf;
pub mod entry;
pub mod go;
pub mod goroutine;
pub mod instruction;
pub mod machine;
pub mod plt;
pub mod prefetch;
pub mod registers;
pub mod relocation;
pub mod rule;
pub mod signal;
pub mod sites;
pub mod state;
pub mod trampoline;
