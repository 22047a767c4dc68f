//! Many watched processes in one report: each by itself, and summed up by program.

mod build;
mod process;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::AddAssign;

use serde::Serialize;

use crate::analysis::numbers::LeftOut;
use crate::analysis::sampled::{Estimate, Sum, Verdict};
use crate::analysis::stacks::functions::Frame;
use crate::analysis::watched::{WatchLosses, WatchedPlace};
pub use build::{FleetLimits, FleetOptions, fleet};

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetReport {
    /// Occasion of the report in a word: `every`, `hup`, `end`.
    pub occasion: String,
    /// Moment of the report, in milliseconds since 1970 UTC.
    pub at_unix_ms: u64,
    /// Milliseconds since mallow began to watch.
    pub watched_ms: u64,
    /// Pattern that chooses the processes.
    pub pattern: String,
    /// Sums over all processes.
    #[serde(flatten)]
    pub sums: FleetSums,
    /// Process that has grown most where no sampled block is; null where none has.
    pub grown_elsewhere: Option<GrownElsewhere>,
    /// Processes that have ended since mallow watches, in this report or not.
    pub ended_in_all: u64,
    /// Programs: the growing ones first, then those that hold most.
    pub programs: Vec<FleetProgram>,
    /// Programs, shown or not.
    pub programs_in_all: u64,
    /// Sums of the programs that are not shown; null where all are.
    pub programs_hidden: Option<LeftOut<FleetSums>>,
    /// Processes that match and are not watched, by reason.
    pub unwatched: Vec<Unwatched>,
    /// Counts of what could not be reported.
    pub lost: WatchLosses,
}

/// Numbers of several processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetSums {
    /// Processes that run.
    pub processes: u64,
    /// Processes that ended since the previous report; their last numbers are in no sum of live memory.
    pub ended: u64,
    /// Running processes with a place that grows significantly.
    pub growing_processes: u64,
    /// Running processes with a place that grows so far, and none significantly.
    pub processes_growing_so_far: u64,
    /// Running processes with a place that has enough samples for a verdict on its growth.
    pub processes_judged: u64,
    /// Running processes with a place that grew significantly, but in steps or less and less.
    pub processes_grown_unsteadily: u64,
    /// Running processes whose memory has grown where no sampled block is.
    pub processes_grown_elsewhere: u64,
    /// Estimate of the live bytes of the running processes.
    pub live_bytes: Estimate,
    /// Estimate of the live blocks of the running processes.
    pub live: Estimate,
    /// Live samples of the running processes.
    pub samples: u64,
    #[serde(skip)]
    pub(crate) bytes: Sum,
    #[serde(skip)]
    pub(crate) blocks: Sum,
}

/// A process whose memory has grown where no sampled block is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GrownElsewhere {
    /// Name of the program.
    pub program: String,
    /// Process id.
    pub pid: u32,
    /// Lower bound of the growth since mallow began to watch the process.
    pub bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetProgram {
    /// Name of the program.
    pub program: String,
    /// Sums over the processes of the program.
    #[serde(flatten)]
    pub sums: FleetSums,
    /// Estimate of the allocations of all processes of the program since mallow watches, ended ones as well.
    pub allocations: u64,
    /// Estimate of the requested bytes of `allocations`.
    pub allocated_bytes: u64,
    /// Places over all running processes: the growing ones first, then those with the most live bytes.
    pub places: Vec<FleetPlace>,
    /// Places, shown or not; the first few of each process are looked at.
    pub places_in_all: u64,
    /// The processes: the growing ones first, then those that hold most, then those that have ended.
    #[serde(rename = "members")]
    pub processes: Vec<FleetProcess>,
    /// Sums of the processes that are not shown; null where all are.
    #[serde(rename = "members_hidden")]
    pub processes_hidden: Option<LeftOut<FleetSums>>,
}

/// A place in all processes of a program.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetPlace {
    /// The function; without its keys where the place's sites have no frames.
    #[serde(flatten)]
    pub frame: Option<Frame>,
    /// Function by which the line's function allocates, where others use the latter too and their blocks do not grow
    /// like these: the figures are then those of the processes in which it grows so. Null: the line itself allocates.
    pub by: Option<String>,
    /// Function that the line called to get its memory; null where that is an allocating function.
    pub through: Option<String>,
    /// Estimate of the live bytes of the place in all processes.
    pub live_bytes: Estimate,
    /// Live samples of the place in all processes.
    pub samples: u64,
    /// Processes in which the place has live samples.
    pub processes: u64,
    /// Verdict on growth in the process where it is worst.
    pub verdict: Verdict,
    /// Processes in which the place grows, so far or significantly.
    pub grows_in: u64,
    /// Growth over the processes in `grows_in`, in bytes per hour.
    pub bytes_per_hour: Estimate,
    /// Ids of the processes in which the place grows most, a few.
    pub growing_pids: Vec<u32>,
    #[serde(skip)]
    pub id: u64,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FleetProcess {
    /// Process id.
    pub pid: u32,
    /// Name of the program.
    pub program: String,
    /// Command line of the process.
    pub command: Vec<String>,
    /// Kubernetes and container labels of the process by name, as far as they are known.
    pub labels: BTreeMap<&'static str, String>,
    /// True: the process runs. False: it has ended, and these are its last numbers.
    pub running: bool,
    /// The process ended by a signal, or without its exit handlers.
    pub abrupt: bool,
    /// Mallow attached to the process while it ran: blocks allocated before are not included.
    pub attached: bool,
    /// Moment of the numbers, in milliseconds since 1970 UTC.
    pub at_unix_ms: u64,
    /// Milliseconds for which the process was watched.
    pub watched_ms: u64,
    /// Estimate of the live bytes of the process.
    pub live_bytes: Estimate,
    /// Estimate of the live blocks of the process.
    pub live: Estimate,
    /// Live samples of the process.
    pub samples: u64,
    /// Estimate of the allocations of the process since it is watched.
    pub allocations: u64,
    /// Estimate of the requested bytes of `allocations`.
    pub allocated_bytes: u64,
    /// Verdict on the place that grows worst; `unknown` where no place has enough samples.
    pub verdict: Verdict,
    /// Places of the process that grow significantly.
    pub growing_places: u64,
    /// Places of the process that grow so far.
    pub places_growing_so_far: u64,
    /// Places of the process with enough samples for a verdict on their growth.
    pub places_judged: u64,
    /// Places of the process that grew significantly, but in steps or less and less.
    pub places_grown_unsteadily: u64,
    /// RSS in bytes, by the kernel's count; null: the process has ended, or may not be read.
    pub rss: Option<u64>,
    /// Growth of the RSS since mallow began to watch the process; null where that is not known.
    pub rss_grown_bytes: Option<i64>,
    /// Places of the process, the first few.
    pub places: Vec<WatchedPlace>,
    /// Places of the process, shown or not.
    pub places_in_all: u64,
    /// Counts of what could not be reported.
    pub lost: WatchLosses,
    #[serde(skip)]
    pub(crate) bytes: Sum,
    #[serde(skip)]
    pub(crate) blocks: Sum,
}

/// Processes that match and are not watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unwatched {
    /// Reason why the processes are not watched, in words.
    pub reason: String,
    /// Processes with this reason.
    pub processes: u64,
}

impl AddAssign for FleetSums {
    fn add_assign(&mut self, other: Self) {
        self.processes += other.processes;
        self.ended += other.ended;
        self.growing_processes += other.growing_processes;
        self.processes_growing_so_far += other.processes_growing_so_far;
        self.processes_judged += other.processes_judged;
        self.processes_grown_unsteadily += other.processes_grown_unsteadily;
        self.processes_grown_elsewhere += other.processes_grown_elsewhere;
        self.bytes += other.bytes;
        self.blocks += other.blocks;
        self.live_bytes = self.bytes.estimate(0.5);
        self.live = self.blocks.estimate(0.5);
        self.samples = self.bytes.samples();
    }
}
