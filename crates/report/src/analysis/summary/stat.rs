//! What counting mode found.

use mallow_profile::{FamilyCounts, replaced_by_exec};
use serde::{Deserialize, Serialize};

use super::processes::{FamilyRow, family_rows};
use crate::analysis::stacks::custom_allocators::{AllocatorInsideRow, CustomAllocatorRow};

/// The result of counting, as `stat` hands it in.
#[derive(Clone, Debug, Default)]
pub struct Stat {
    pub command: Vec<String>,
    /// Whether counting began while the process ran: it frees blocks that were not counted.
    pub attached: bool,
    /// Nanoseconds from the command's start to its end.
    pub wall_ns: u64,
    /// Exit status as a shell shows it; None where the command still ran.
    pub exit_status: Option<i32>,
    /// Process images, in the order of their start.
    pub processes: Vec<StatProcess>,
    /// Allocators above malloc, whose blocks are missing.
    pub custom_allocators: Vec<CustomAllocatorRow>,
    /// Allocators inside of executables and libraries whose calls are counted.
    pub allocators_inside: Vec<AllocatorInsideRow>,
    /// Number of the signal that ended the command.
    pub ended_by: Option<i32>,
    /// Sentences about programs of the command whose calls are in no number.
    pub uncounted: Vec<String>,
    /// Number of calls that could not be counted.
    pub lost: u64,
    /// Runs of measured regions, in the order of their ends.
    pub regions: Vec<RegionRow>,
}

#[derive(Clone, Debug, Default)]
pub struct StatProcess {
    pub pid: u32,
    pub parent_pid: u32,
    /// Number of the image among those of the process.
    pub serial: u32,
    /// Whether the process began with fork: it may free what its parent allocated.
    pub forked: bool,
    /// Arguments, the name first; or the executable where there are none.
    pub arguments: Vec<String>,
    pub families: FamilyCounts,
}

/// The result of counting, as it is shown.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatReport {
    /// The command line that was counted.
    pub command: Vec<String>,
    /// Counting began while the process ran: `remaining` says nothing. Left out where false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub attached: bool,
    /// Nanoseconds of wall time from the start of the command to its end.
    pub wall_ns: u64,
    /// Exit status of the command as a shell shows it; null where it is not known.
    pub exit_status: Option<i32>,
    /// Number of the signal that ended the command; left out where none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<i32>,
    /// Programs of the command whose calls are in no number, a sentence each; left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uncounted: Vec<String>,
    /// Calls that could not be counted.
    pub lost: u64,
    /// Sums over all processes.
    #[serde(flatten)]
    pub totals: StatRow,
    /// Process images, in order of their start.
    pub processes: Vec<StatProcessRow>,
    /// Processes; exec begins a new image of the same one, so `processes` may have more rows.
    pub processes_in_all: u64,
    /// Allocators above malloc, whose blocks are missing; left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub custom_allocators: Vec<CustomAllocatorRow>,
    /// Allocators inside of executables and libraries whose calls are counted; left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocators_inside: Vec<AllocatorInsideRow>,
    /// Measured regions, in the order of their ends; left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<RegionRow>,
}

/// Counts that a run of a measured region reported; `docs/DEFINITIONS.md` defines each quantity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RegionRow {
    /// Event that the row describes.
    pub kind: RegionKind,
    /// Process id.
    pub pid: u32,
    /// Name that the program gave to the region.
    pub name: String,
    /// Number of the run in one measurement.
    pub run: u32,
    /// Number of the run among all: a beginning and its end have the same one.
    pub number: u32,
    /// Operations that the run performed; 0: unknown.
    pub operations: u64,
    /// Successful calls of the allocating functions in the region.
    pub allocations: u64,
    /// Requested bytes of `allocations`.
    pub allocated_bytes: u64,
    /// Frees in the region, of all kinds.
    pub frees: u64,
    /// Calls in the region that could not be counted.
    pub unrecorded: u64,
    /// File descriptors that stayed open; null where that is not known.
    pub leaked_fds: Option<i64>,
    /// True: counted on the calling thread alone. False: on all threads.
    pub this_thread: bool,
    /// Other threads still allocated when the wait for quiet was given up.
    pub restless: bool,
    /// The name that the program gave to the region was longer, and is cut.
    pub name_cut: bool,
}

/// Event of a measured region, or of a process image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RegionKind {
    /// A run began; without an end of its number it did not end.
    #[default]
    Begun,
    /// A run that came before the measured ones.
    Warmup,
    /// A measured run of the region.
    Measured,
    /// A process image counted known calls exactly.
    Proof,
    /// A process image did not count known calls exactly, or not with one allocation more.
    FailedProof,
}

/// Counts of one process image.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatProcessRow {
    /// Process id.
    pub pid: u32,
    /// Process id of the parent.
    pub parent_pid: u32,
    /// Number of the process image among those with this pid, from 0: exec begins the next one.
    pub serial: u32,
    /// The process image began with fork.
    pub forked: bool,
    /// Arguments of the process image, its name first.
    pub arguments: Vec<String>,
    #[serde(flatten)]
    pub counts: StatRow,
}

/// Sums; `docs/DEFINITIONS.md` defines each quantity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StatRow {
    /// Successful calls of the allocating functions.
    pub allocations: u64,
    /// Requested bytes of `allocations`.
    pub allocated_bytes: u64,
    /// Blocks freed, by free and by realloc.
    pub frees: u64,
    /// Allocations minus frees; below 0 where a process frees what its parent allocated.
    pub remaining: i64,
    /// Successful reallocs of non-NULL that kept the address. They are allocations too.
    pub reallocs_in_place: u64,
    /// Successful reallocs of non-NULL that moved the block. They are allocations too.
    pub reallocs_moved: u64,
    /// Calls by the allocating function; functions that were not called are left out.
    pub families: Vec<FamilyRow>,
}

impl From<&FamilyCounts> for StatRow {
    fn from(f: &FamilyCounts) -> Self {
        Self {
            allocations: f.allocations(),
            allocated_bytes: f.allocated_bytes(),
            frees: f.all_frees(),
            remaining: f.allocations().wrapping_sub(f.all_frees()) as i64,
            reallocs_in_place: f.reallocs_in_place,
            reallocs_moved: f.reallocs_moved,
            families: family_rows(f),
        }
    }
}

pub fn stat(stat: &Stat) -> StatReport {
    let mut all = FamilyCounts::default();
    for process in &stat.processes {
        all += process.families;
    }
    let replaced = replaced_by_exec(stat.processes.iter().map(|p| (p.pid, p.serial, p.forked)));
    let row = |p: &StatProcess| StatProcessRow {
        pid: p.pid,
        parent_pid: p.parent_pid,
        serial: p.serial,
        forked: p.forked,
        arguments: p.arguments.clone(),
        counts: StatRow::from(&p.families),
    };
    StatReport {
        command: stat.command.clone(),
        wall_ns: stat.wall_ns,
        attached: stat.attached,
        exit_status: stat.exit_status,
        ended_by: stat.ended_by,
        uncounted: stat.uncounted.clone(),
        lost: stat.lost,
        totals: StatRow::from(&all),
        processes: stat.processes.iter().map(row).collect(),
        processes_in_all: replaced.iter().filter(|replaced| replaced.is_none()).count() as u64,
        custom_allocators: stat.custom_allocators.clone(),
        allocators_inside: stat.allocators_inside.clone(),
        regions: stat.regions.clone(),
    }
}
