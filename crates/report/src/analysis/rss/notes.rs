//! What the account of a process does not know, in words of its own.

use mallow_profile::{ProcessId, Profile};
use serde::Serialize;

use crate::analysis::stacks::custom_allocators::has_python_malloc;

/// Limit of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RssNote {
    /// The process may have blocks from before it was recorded: it began with fork, or was attached to.
    OlderBlocks,
    /// The allocator's size classes are not known.
    UnknownSizeClasses,
    /// The memory that the allocator needs for itself is not known: it is among free pages.
    UnknownMetadata,
    /// The freed blocks that threads of glibc keep are not known: they count as holes and free pages.
    UnknownCaches,
    /// The process ran while its memory was read.
    WhileRunning,
    /// The kernel's maximum is more than a twentieth above the highest RSS that was read.
    HigherBefore,
    /// Live bytes were freed just before, most of them, or more than half of what a remedy would give back: until then,
    /// what is free was in use.
    FreedBefore,
    /// RSS was the same at another moment, with markedly more live bytes.
    Busier,
    /// RSS was nearly the same later, with markedly fewer live bytes.
    Kept,
    /// Markedly less was live when the process ended than at the last moment that was read, this one.
    FreedAfter,
    /// Memory came on top of the divided moment, up to the kernel's maximum: estimates are of what is divided.
    Undivided,
    /// The kernel's maximum was not read at the very end of the process.
    PeakUnread,
    /// The pages of the process were not read.
    NoPages,
}

/// Sentences about what the recording changed in a process, so that its RSS is not that of a run without Mallow.
pub(super) fn changes(profile: &Profile, process: ProcessId) -> Vec<&'static str> {
    const PYTHON_MALLOC: &str = "With PYTHONMALLOC=malloc, as record --python sets it: by itself, Python has its small objects in arenas of its own, and RSS, its parts \
         and what helps are others. mallow rss -- python … shows those.";
    has_python_malloc(profile, process).then_some(PYTHON_MALLOC).into_iter().collect()
}
