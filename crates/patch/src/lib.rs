//! Another process from outside: what stands in the way of tracing it, its memory, its threads, and patches of function
//! entries.
//!
//! - [`Process`] and [`Obstacle`]: whether a process can be traced, and what to do where it cannot.
//! - [`Maps`] and [`Memory`]: its mappings and its bytes, read and written through `/proc/PID/mem`.
//! - [`Module`]: an ELF file that is mapped into it, compared with what is in memory.
//! - [`LoadList`]: the dynamic linker's list, for noticing new modules cheaply.
//! - [`stop`] and [`Stopped`]: all of its threads held by ptrace, system calls run in one of them, and let go so that
//!   no system call fails because of it.
//! - [`plan`] and [`Patch`]: a jump at a function's entry and the trampoline that runs what it displaces; [`Refusal`]
//!   names an entry that cannot be patched safely.
//! - [`stop_thread`], [`Unwinder`] and [`Thread::call`]: one thread held, its stack, and a function that it calls while
//!   the others run.
//! - [`Sandbox`]: which system calls a process may make.
//! - [`Draft`] and [`Placed`]: the patches of a module's functions, laid out near it, written and restored.
//!
//! What depends on the processor is in [`mallow_arch`]. This crate knows no allocator and no recording. It writes into
//! no process unless its caller asks for it. What a process or a file says is treated as hostile: it may be wrong, and
//! causes no panic.

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

mod branches;
mod call;
mod cgroup;
mod code;
mod entry;
mod filters;
mod load_list;
mod maps;
mod memory;
mod module;
mod obstacle;
mod patches;
mod presence;
mod process;
mod recovery;
mod refusal;
mod remote;
mod sandbox;
mod seccomp;
mod symbol;
mod threads;
mod trace;
mod trampoline;
mod unwind;
mod write;

pub use branches::Branches;
pub use call::{Call, CallError, Room};
pub use code::{Code, Function};
pub use entry::{Entry, JUMP, Patch, plan};
pub use load_list::LoadList;
pub use mallow_proc::Mapping;
pub use maps::Maps;
pub use memory::Memory;
pub use module::{Module, ModuleError, Text};
pub use obstacle::Obstacle;
pub use patches::{Detour, Draft, Placed, Write};
pub use process::{Process, State, threads, waiting_threads_first};
pub use recovery::Gateway;
pub use refusal::Refusal;
pub use sandbox::{Sandbox, SandboxError, is_sandboxed};
pub use seccomp::{Answer, Filter, Instruction, SystemCall};
pub use symbol::Export;
pub use threads::{StopError, Stopped, Thread, hurry, stop, stop_thread};
pub use unwind::{Frame, UnwindError, Unwinder};
pub use write::WriteError;
