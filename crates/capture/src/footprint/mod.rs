//! The memory of a process as the kernel accounts for it, read from outside while it runs.
//!
//! | file | holds |
//! | --- | --- |
//! | `smaps.rs` | mappings with their sizes and kinds |
//! | `pagemap.rs` | pages that exist |
//! | `stacks.rs` | mappings that are stacks of threads |
//! | `caches.rs` | freed blocks that glibc's threads keep |
//! | `environment.rs` | whether the environment fixes glibc's thresholds |
//! | `tables.rs` | where jemalloc keeps its own tables |
//! | `heaps.rs` | heaps that their contents name: arenas of glibc, and those of runtimes |
//! | `go_heap.rs` | Go's heap |
//! | `bss.rs` | the `.bss` of modules |
//! | `division.rs` | mappings, divided by ranges of known owners |
//! | `live_pages.rs` | what of live blocks is in memory |
//! | `own.rs` | what of it is Mallow's own |
//! | `zeros.rs` | what of huge pages nobody wrote |
//! | `peek.rs` | words of another process's memory |
//! | `peak.rs` | the kernel's own maximum |
//! | `reading.rs` | one reading of a process |
//! | `schedule.rs` | when to read |
//! | `words.rs` | a reading as words of the spool |
//! | `columns.rs` | a footprint as columns of a recording |
//! | `series.rs` | RSS over time |

mod bss;
mod caches;
pub mod columns;
mod division;
mod environment;
mod go_heap;
mod heaps;
mod live_pages;
mod own;
mod pagemap;
mod peak;
mod peek;
mod reading;
mod schedule;
mod series;
mod smaps;
mod stacks;
mod tables;
mod words;
mod zeros;

pub use columns::Packed;
pub use live_pages::live_resident;
pub use own::OwnRanges;
pub use peak::PeakTracker;
pub use reading::{Reading, Resident, Subject, account, copied_pages, is_higher, resident};
pub use schedule::{Look, Reason, Schedule};
pub use series::Series;

use std::io;

/// Why the memory of a process was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The kernel does not let mallow read the process.
    Forbidden,
    /// The process has ended, or is about to.
    Gone,
}

impl Failure {
    fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Forbidden,
            _ if error.raw_os_error() == Some(libc::EPERM) => Self::Forbidden,
            _ => Self::Gone,
        }
    }
}
