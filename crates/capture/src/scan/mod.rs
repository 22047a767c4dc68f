//! Which live blocks of a process does nothing point to any more? A conservative look at its memory, as LeakSanitizer
//! has it: any aligned word that is an address within a block keeps the block.
//!
//! | file | holds |
//! | --- | --- |
//! | `mappings.rs` | the process's mappings |
//! | `threads.rs` | its threads: stack pointers, and whether they ran |
//! | `memory.rs` | reading its memory, page by page that exists |
//! | `copied_pages.rs` | pages of it that were copied |
//! | `copy.rs` | a copy of all this, so that the process can end before it is searched |
//! | `pages.rs` | the kernel's lists of pages that exist |
//! | `index.rs` | from an address to the live block that has it |
//! | `stacks.rs` | what of its threads' stacks nobody uses |
//! | `roots.rs` | what of its memory is no heap |
//! | `jemalloc.rs`, `mimalloc.rs` | what these allocators have for themselves |
//! | `kernel.rs` | addresses that the kernel has for the program |
//! | `heap.rs` | whether glibc has a block for free |
//! | `contents.rs` | what a block holds, as far as its words show it |
//! | `graph.rs` | which block points to which |
//! | `lost.rs` | lost blocks, what they hold, and cycles |

mod contents;
mod copied_pages;
mod copy;
mod graph;
mod heap;
mod index;
mod jemalloc;
mod kernel;
mod lost;
mod mappings;
mod memory;
mod mimalloc;
pub mod pages;
mod roots;
mod stacks;
mod threads;

pub use copy::ProcessCopy;
pub use graph::{Graph, read, read_copy};
pub use lost::{Cycles, Found, LostBlock};
pub use threads::thread_ids;

use std::ops::Range;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveBlock {
    pub address: u64,
    /// Bytes as requested.
    pub size: u64,
    /// Number of the block's allocation.
    pub sequence: u64,
    /// Index of the block's site in the ledger.
    pub site: u32,
}

/// Registers of the thread that waits at the exit of its image; `thread` is its thread pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitPoint {
    pub sp: u64,
    pub thread: u64,
    /// The thread's stack for signals; 0: it has none, or was not asked.
    pub signal_stack: u64,
}

pub struct Exit<'a> {
    /// Process id, as mallow sees it.
    pub pid: u32,
    pub at: ExitPoint,
    /// The process has blocks that nobody knows: its parent's, as it began with fork, or those that are not guarded.
    pub unknown_blocks: bool,
    /// Memory that holds nothing of the program's but the blocks: slots of blocks, and Mallow's own.
    pub own: &'a [Range<u64>],
    /// Words that are pointers if they look like one, asked for at each look: registers of other threads.
    pub registers: &'a dyn Fn() -> Vec<u64>,
    /// Name of the run directory: mappings of its files are mallow's own.
    pub directory: &'a str,
    /// Says true once the recording ends, and the scan is to stop.
    pub enough: &'a (dyn Fn() -> bool + Sync),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failure {
    Forbidden,
    Gone,
    /// The scan took too long, or the recording ended.
    Stopped,
    /// More pointers between blocks than mallow has room for.
    TooMany,
    NoExit,
    /// The image ended by exec: its memory was given back, and nothing of it leaked.
    Exec,
    Off,
    /// Some events of the process were lost: its live blocks are not all known.
    EventsLost,
    Forked,
    /// The image had waited for longer than it may.
    OutOfTime,
    /// A seccomp filter may forbid the system calls of a wait.
    Sandboxed,
    /// Mallow was stopped, or did not answer.
    #[default]
    NoAnswer,
}

impl Failure {
    /// What follows "not scanned:" in a report, of one process or several.
    pub fn why(self) -> &'static str {
        match self {
            Self::Forbidden => "memory that may not be read",
            Self::Gone => "killed during the scan",
            Self::Stopped => "the scan took too long, or the recording ended meanwhile",
            Self::TooMany => "more pointers than can be followed",
            Self::NoExit => "no exit: ended by a signal or by _exit, or still running",
            Self::Exec => "replaced by exec",
            Self::Off => "recorded without a scan (--no-scan)",
            Self::EventsLost => "events were lost",
            Self::Forked => "forked, with blocks of the parent; record --scan-all scans forked children, too",
            Self::OutOfTime => "the time that exits may wait was used up; record --scan-all waits until it is done",
            Self::Sandboxed => "a seccomp filter may forbid the wait at exit",
            Self::NoAnswer => "mallow did not answer: it was stopped, or got no processor",
        }
    }
}
