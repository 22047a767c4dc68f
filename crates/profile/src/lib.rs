//! The data model: what a recording says, free of where it came from.
//!
//! A [`Profile`] is a set of sites (whole stacks, each of one process) with their [`Counts`]. Stacks are paths in one
//! trie, frames are addresses in modules until `symbols` fills in their lines, strings are interned. This crate imports
//! no other room and opens no file. [`Profile::check`] says what holds of every profile.
//!
//! The words are those of `docs/DEFINITIONS.md`.

#[macro_use]
mod count_table;

mod check;
mod code;
mod counts;
mod events;
mod families;
mod lookup;
mod patterns;
mod process;
mod profile;
mod samples;
mod site;
mod stacks;
mod strings;
mod words;

pub use check::Defect;
pub use code::{Frame, Line, Module, ModuleId};
pub use counts::{Count, Counts};
pub use events::{Block, Call, Event, Moment};
pub use families::{FAMILIES, Family, FamilyCounts};
pub use lookup::{ModuleSummary, NameSource, Note, Summary};
pub use patterns::{Habits, Patterns};
pub use process::{CustomAllocator, Process, ProcessId, Thread};
pub use profile::{Ending, Profile, Region};
pub use samples::{Lost, Release, Sample, SampleEvent, SampleKey};
pub use site::Site;
pub use stacks::{FrameId, StackId, Stacks};
pub use strings::{StringId, Strings};
pub use words::{Origin, Word, Words};
