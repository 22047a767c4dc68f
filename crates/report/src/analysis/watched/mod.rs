//! What a watched program holds, by site: the report of `watch` and `import`.

mod baseline;
mod build;
mod memory;
mod places;

use std::ops::AddAssign;

use serde::Serialize;

use crate::analysis::numbers::LeftOut;
use crate::analysis::sampled::{Estimate, Growth, Sum};
use crate::analysis::stacks::custom_allocators::CustomAllocatorRow;
use crate::analysis::stacks::functions::{Frame, Stack};
pub use baseline::Baseline;
pub use build::{WatchOptions, WatchState, watched};
pub use memory::{MemoryPart, MemoryPartRow, MemoryParts, WatchedMemory, is_notable_growth, watched_memory};

/// Live samples that a report is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Which {
    /// Samples that were allocated longer ago than some time.
    Old,
    /// Live samples of any age.
    Live,
    /// Samples that were live when most was.
    Peak,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Watched {
    /// Occasion of the report in a word: `every`, `hup`, `usr1`, `end`, ….
    pub occasion: String,
    /// Samples that are reported.
    pub which: Which,
    /// Age in milliseconds from which on samples are reported where `which` is `old`; those that grow are reported at
    /// any age.
    pub older_than_ms: u64,
    /// Moment of the report, in milliseconds since 1970 UTC; 0: not known, of imported events.
    pub at_unix_ms: u64,
    /// Milliseconds for which this mallow has watched the program.
    pub watched_ms: u64,
    /// The command line of the program.
    pub command: Vec<String>,
    /// Milliseconds that the program had run when mallow attached to it: blocks allocated before are not included.
    /// Null: it was started under mallow.
    pub attached_ms: Option<u64>,
    /// Processes that run, or ended with live samples.
    pub processes: Vec<WatchedProcess>,
    /// Mean distance in bytes between two sampled ones; null: sampling is switched off.
    pub period_bytes: Option<u64>,
    /// Estimate of all live bytes, old or not, known or not.
    pub live_bytes: Estimate,
    /// Estimate of all live blocks, old or not, known or not.
    pub live: Estimate,
    /// Number of all live samples.
    pub samples: u64,
    /// Estimate of the bytes that are reported.
    pub reported_bytes: Estimate,
    /// Samples of the reported blocks.
    pub reported_samples: u64,
    /// Sites that grow significantly, shown or not.
    pub growing: u64,
    /// Reported sites by place.
    #[serde(flatten)]
    pub places: WatchedPlaces,
    /// Sites, the growing ones first, then the largest.
    pub sites: Vec<WatchedSite>,
    /// Sites, shown or not.
    pub sites_in_all: u64,
    /// Sums of the sites that are not shown; null where all are.
    pub hidden: Option<LeftOut<Samples>>,
    /// Samples that are muted, by key or signal.
    pub muted_samples: u64,
    /// Samples that suppressions match.
    pub suppressed_samples: u64,
    /// Samples of sites that the baseline has.
    pub known_samples: u64,
    /// Suppressions that match nothing.
    pub unused_suppressions: Vec<String>,
    /// RSS beside live bytes; null: no process runs, or none may be read.
    pub memory: Option<WatchedMemory>,
    /// Counts of what could not be reported.
    pub lost: WatchLosses,
    /// Runtimes that allocate past malloc in the processes: what they serve is in no number.
    pub custom_allocators: Vec<CustomAllocatorRow>,
    /// Reason why nothing of the command's own program can be sampled; null: none is known.
    pub unseen: Option<Unseen>,
}

/// Reason why nothing of a program is sampled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unseen {
    /// Obstacle, as a sentence without a full stop.
    pub found: String,
    /// What to do instead, as a clause.
    pub remedy: String,
}

impl Watched {
    /// The reason why there is nothing to report: no process was sampled, and none can be. None in all other cases.
    pub fn nothing_seen(&self) -> Option<&Unseen> {
        self.unseen.as_ref().filter(|_| self.processes.is_empty() && self.samples == 0)
    }
}

/// A process in a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchedProcess {
    /// Process id.
    pub pid: u32,
    /// Path of the executable.
    pub executable: String,
    /// The process still runs.
    pub running: bool,
}

/// Samples, as rows that are left out add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Samples {
    /// Number of live samples.
    pub samples: u64,
}

impl AddAssign for Samples {
    fn add_assign(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
    }
}

/// Counts of what could not be reported of the watched processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchLosses {
    /// Events that were overwritten before they were read; live samples are known all the same.
    pub events: u64,
    /// Allocations that were picked and found no place among the samples.
    pub picks: u64,
    /// Samples whose stack found no place.
    pub stacks: u64,
    /// Records that made no sense.
    pub damaged: u64,
    /// Processes that sample nothing more, because a signal handler left Mallow's own work by `longjmp`.
    pub left: u64,
    /// Processes that sample nothing more, because a filter of system calls that they installed forbids it.
    pub filtered: u64,
    /// Processes that give blocks of `malloc` to functions of their allocator that Mallow does not see, so that nothing
    /// is sampled.
    pub foreign: u64,
    /// Processes without any sample.
    pub unsampled: u64,
}

/// A site of a watched program.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchedSite {
    /// Estimate of the live bytes of the site.
    pub live_bytes: Estimate,
    /// Estimate of the live blocks of the site.
    pub live: Estimate,
    /// Live samples of the site.
    pub samples: u64,
    /// Growth of the live bytes.
    pub growth: Growth,
    /// Age of the oldest live sample, in milliseconds.
    pub oldest_ms: u64,
    /// Age of the youngest live sample, in milliseconds.
    pub youngest_ms: u64,
    /// Bytes times the seconds that they were live, of all that the site allocated while it was watched.
    pub byte_seconds: Estimate,
    /// Share of the site's freed bytes that another thread freed than had allocated them, from 0 to 1; null where too
    /// few were seen.
    pub freed_by_others: Option<f64>,
    /// Ids of the processes with live samples of the site.
    pub pids: Vec<u32>,
    /// Number of the site in this watch, equal from report to report.
    #[serde(skip)]
    pub id: u64,
    /// Number of the place that the site belongs to.
    #[serde(skip)]
    pub place: u64,
    #[serde(flatten)]
    pub stack: Stack,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchedPlaces {
    /// Places that grow significantly, shown or not.
    pub growing_places: u64,
    /// Places that grow so far, shown or not.
    pub places_growing_so_far: u64,
    /// Places, shown or not.
    pub places_in_all: u64,
    /// Places, the growing ones first, then the largest.
    pub places: Vec<WatchedPlace>,
    /// Places with a verdict other than unknown, also those whose blocks are too young to be reported.
    pub places_judged: u64,
    /// Places that grew significantly, but in steps or less and less, also those too young to be reported.
    pub places_grown_unsteadily: u64,
    /// Largest number of settled samples of a place whose verdict is unknown.
    pub settled_samples: u64,
    /// Sums of the places that are not shown; null where all are.
    pub places_hidden: Option<LeftOut<Samples>>,
}

/// A line of a watched program, with the sites that it is named for: reports look past wrappers and containers. Where
/// some call paths of a line grow and others do not, the caller that tells them apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WatchedPlace {
    /// The function; without its keys where the place's sites have no frames.
    #[serde(flatten)]
    pub frame: Option<Frame>,
    /// Function by which the line's function allocates, where other call paths of it do not grow like this one; null:
    /// the line itself allocates.
    pub by: Option<String>,
    /// Function that the line called to get its memory; null where that is an allocating function.
    pub through: Option<String>,
    /// Estimate of the live bytes of the place.
    pub live_bytes: Estimate,
    /// Estimate of the live blocks of the place.
    pub live: Estimate,
    /// Live samples of the place.
    pub samples: u64,
    /// Growth of the live bytes of all sites of the place together.
    pub growth: Growth,
    /// Age of the oldest live sample, in milliseconds.
    pub oldest_ms: u64,
    /// Age of the youngest live sample, in milliseconds.
    pub youngest_ms: u64,
    /// Bytes times the seconds that they were live, of all that the place allocated while it was watched.
    pub byte_seconds: Estimate,
    /// Share of the place's freed bytes that another thread freed than had allocated them, from 0 to 1; null where too
    /// few were seen.
    pub freed_by_others: Option<f64>,
    /// Ids of the processes with live samples of the place.
    pub pids: Vec<u32>,
    /// Call sites of the place.
    pub sites: u64,
    /// Number of the place in this watch, equal from report to report.
    #[serde(skip)]
    pub id: u64,
    /// Sum behind `live_bytes`: those of several watches add up.
    #[serde(skip)]
    pub bytes: Sum,
    /// Stack of the site that holds most.
    pub largest_site: Stack,
}

/// A free or realloc of a sampled block, as it is reported.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Recent {
    /// Process id.
    pub pid: u32,
    /// Call that freed the block: `free` or `realloc`.
    pub how: &'static str,
    /// Address of the block, in hexadecimal.
    pub address: String,
    /// Requested bytes of the block.
    pub size: u64,
    /// Milliseconds since the block was freed.
    pub ago_ms: u64,
    /// Milliseconds from the allocation to the free.
    pub lived_ms: u64,
    /// Id of the thread that freed the block.
    pub freed_by: u32,
    /// Id of the thread that allocated the block.
    pub allocated_by: u32,
    /// Stack of the free.
    pub freed: Stack,
    /// Stack of the allocation.
    pub allocated: Stack,
}
