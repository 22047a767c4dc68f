//! The data model: what a recording says, free of where it came from.
//!
//! A [`Profile`] is a set of sites (whole stacks, each of one process) with their [`Counts`]. Stacks are paths in one
//! trie, frames are addresses in modules until `symbols` fills in their lines, strings are interned. This crate imports
//! no other room and opens no file. [`Profile::check`] says what holds of every profile.
//!
//! The quantities are those of `docs/DEFINITIONS.md`.

#![warn(missing_docs)]
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

#[macro_use]
mod count_table;

mod arguments;
mod check;
mod code;
mod counts;
mod events;
mod families;
mod footprint;
mod known_heap;
mod lookup;
mod patterns;
mod peak_rss;
mod precision;
mod process;
mod profile;
mod quantities;
mod samples;
mod scan;
mod site;
mod stacks;
mod strings;

pub use arguments::{command_word, program_name};
pub use check::Defect;
pub use code::{Frame, Line, Module, ModuleId};
pub use counts::{Count, Counts};
pub use events::{Block, Call, Event, Moment};
pub use families::{FAMILIES, Family, FamilyCounts};
pub use footprint::{
    AddressRange, CachedBlock, Footprint, HeapMap, Mapping, MappingFlags, MappingKind, MemorySizes, PageRun, PageState,
    PlacedBlock, RecentLive, RssPoint, RssSeries, SizeClasses, ThreadCaches,
};
pub use known_heap::{HeapKind, KnownHeap};
pub use lookup::{ModuleSummary, NameSource, Note, Summary};
pub use patterns::{Habits, Patterns, overhead};
pub use peak_rss::PeakRss;
pub use precision::{Precision, Precisions, add_precisions};
pub use process::{AllocatorInside, AllocatorKind, CustomAllocator, Process, ProcessId, Thread, replaced_by_exec};
pub use profile::{Ending, Profile, Region};
pub use quantities::{Origin, Quantities, Quantity};
pub use samples::{Lost, Release, Sample, SampleEvent, SampleKey};
pub use scan::{LostBlocks, LostCycle, LostKind, Scan, ScanOutcome, sum_lost};
pub use site::Site;
pub use stacks::{FrameId, StackId, Stacks};
pub use strings::{StringId, Strings};
