//! What a processor does: its registers, its instructions, its relocations, and the code that mallow writes for it. No
//! other crate names any of these.
//!
//! A folder for each processor, with the same file names and the same public names in it; the one of the machine that
//! mallow is built for is compiled, as of the folders of `preload/arch/`.
//!
//! - [`Flow`] and [`machine_name`] are common to all processors.
//! - [`machine`]: the processor's name, its number in ELF files, and its names for the dynamic linker.
//! - [`registers`]: those of a thread that ptrace holds; in which of them a system call has its arguments.
//! - [`signal`]: the frame by which a thread returns from a signal handler, written and recognised.
//! - [`call`]: code by which a thread calls a function and goes back by itself.
//! - [`instruction`]: decoding, and what an instruction does to the flow of control.
//! - [`entry`]: a jump at a function's entry, and the instructions that it displaces, moved elsewhere.
//! - [`sites`], [`plt`], [`relocation`]: calls found without decoding; stubs of the procedure linkage table.
//! - [`dwarf`], [`rule`]: registers by their numbers in DWARF; the unwind rules of `preload/arch/`.
//! - [`state`], [`context`], [`goroutine`]: unwind rules from instructions: of any function, of async functions of
//!   Swift, and of Go's calls of C code.
//! - [`go`]: the calling convention of Go's compiler. [`trampoline`]: CPython's code around functions of scripts.
//! - [`prefetch`]: a hint that changes nothing but time.
//!
//! # What it does not do
//!
//! It opens no file and searches no process: it works on bytes and registers that it is given. Exceptions are
//! [`registers`], which reads and writes those of one thread by ptrace, [`signal`], which asks the processor how it
//! lays out its registers, and [`prefetch`]. It reads no code of another processor than the one that mallow runs on: a
//! recording from elsewhere shows names, but no instructions.
//!
//! # What the caller owes
//!
//! - The file is one of [`machine::ELF`]: nothing here checks that, and the bytes of another machine decode to
//!   nonsense.
//! - A thread whose registers are read or written was seized by the calling thread, and stands still.
//! - Code that is written is written while no thread executes it.
//!
//! Bytes of files and of processes may be damaged or hostile: they cause no panic.

// A damaged file, or a hostile one, ends in an error: what cannot fail says why in an `expect` of its own.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]

mod flow;
mod machines;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("a processor needs a folder here, with the files of x86_64/");

pub use flow::Flow;
pub use machines::machine_name;
