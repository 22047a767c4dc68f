//! What the account of a process does not know, in words of its own.

use mallow_profile::{ProcessId, Profile};
use serde::Serialize;

/// What the account does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RssNote {
    /// The process may have blocks from before it was recorded: it began with fork, or was attached to.
    OlderBlocks,
    /// The allocator's size classes.
    UnknownSizeClasses,
    /// What the allocator needs for itself: it is among free pages.
    UnknownMetadata,
    /// What threads keep of freed blocks, of glibc: it counts as holes and free pages.
    UnknownCaches,
    /// The process ran while its memory was read.
    WhileRunning,
    /// The kernel's maximum is more than a twentieth above the highest RSS that was read.
    HigherBefore,
    /// Most live bytes were freed just before: until then, what is free was in use.
    FreedBefore,
    /// RSS was the same at another moment, with markedly more live bytes.
    Busier,
    /// The kernel's maximum was not read at the very end of the process.
    PeakUnread,
    /// Python's objects are blocks of malloc (`PYTHONMALLOC=malloc`), and not in arenas of its own.
    PythonMalloc,
    /// Pages.
    NoPages,
}

/// Whether it is an interpreter of Python without arenas of its own: where it has them, the recording says so.
pub(super) fn has_python_malloc(profile: &Profile, process: ProcessId) -> bool {
    let executable = profile.processes.get(process.0 as usize).map_or("", |process| process.executable.as_str());
    let name = executable.rsplit('/').next().unwrap_or_default();
    let is_python =
        name.strip_prefix("python").is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'));
    is_python && !profile.custom_allocators.iter().any(|one| one.process == process && one.found.starts_with("Python "))
}
