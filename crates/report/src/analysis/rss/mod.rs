//! The memory of a process, divided until it adds up to the kernel's figure: live blocks, what the allocator keeps and
//! why, and what no allocator has to do with. And what would help.
//!
//! | file | holds |
//! | --- | --- |
//! | `geometry.rs`, `tcmalloc.rs` | what a request takes, by allocator |
//! | `owners.rs` | the allocators of a process, and whose a block is |
//! | `territory.rs` | which addresses an allocator manages |
//! | `residency.rs` | which addresses are in memory |
//! | `resident.rs` | RSS over time, as it was read |
//! | `sweep.rs` | one pass over the blocks by address |
//! | `ledger.rs` | what such passes add up to |
//! | `file_data.rs` | data of files, and whose most of it is |
//! | `kept_apart.rs` | what of RSS is huge, shared, locked or swapped |
//! | `parts.rs` | the parts of RSS, and the largest one |
//! | `peak.rs` | the kernel's own maximum, and blocks that a recording cannot know |
//! | `undivided.rs` | what came on top of the moment that is divided |
//! | `pools.rs` | memory pools for the blocks of some places |
//! | `remedies.rs` | what would release how much |
//! | `report.rs` | the report of a recording |
//! | `map.rs` | pages in order, for a picture |

#[cfg(test)]
mod bound_tests;
#[cfg(test)]
mod cause_tests;
mod file_data;
mod geometry;
mod kept_apart;
mod large;
mod ledger;
mod map;
mod notes;
mod owners;
mod parts;
mod peak;
mod pools;
mod remedies;
mod report;
mod residency;
pub(super) mod resident;
mod sweep;
mod tcmalloc;
mod territory;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trough_tests;
mod undivided;

pub use geometry::Allocator;
pub use ledger::HeapSums;
pub use map::{HeapCell, HeapRow, PageMap, page_map};
pub use notes::RssNote;
pub use parts::{Cause, CausePlace, Part, PartKind};
pub use peak::{BusierMoment, FreedAfter, FreedBefore, KeptMoment, KernelPeak, OlderBlocks};
pub use remedies::{Certainty, Remedy, RemedyKind};
pub use report::{
    AllocatorRow, FreeRow, MappingRow, Rss, RssAccount, RssMoment, RssPlace, RssProcess, SizeClassRow, rss,
    shown_footprint,
};
pub use territory::TerritoryKind;
pub use undivided::{Undivided, UndividedBlocks};
