//! The process images of a recording, each with its sums.

use mallow_profile::{FAMILIES, FamilyCounts, Process, ProcessId, Profile, program_name};
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::analysis::numbers::Totals;
use crate::analysis::rss::KernelPeak;

/// Calls of one allocating function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FamilyRow {
    /// Name of the allocating function.
    pub family: &'static str,
    /// Successful calls of the function.
    pub allocations: u64,
    /// Requested bytes of the calls in `allocations`.
    pub allocated_bytes: u64,
}

/// A process image of a recording.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessRow {
    /// Process id.
    pub pid: u32,
    /// Process id of the parent.
    pub parent_pid: u32,
    /// Number of the process image among those with this pid, from 0: exec begins the next one.
    pub serial: u32,
    /// The process image began with fork.
    pub forked: bool,
    /// Mallow attached to the process while it ran: it went on afterwards.
    pub attached: bool,
    /// Path of the executable.
    pub executable: String,
    /// Arguments of the process image, its name first.
    pub arguments: Vec<String>,
    /// Path of the file that the process was read from, where several were merged; left out elsewhere.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// First moment of the process image, in milliseconds since the recording began.
    pub start_ms: u64,
    /// Last moment of the process image, in milliseconds since the recording began.
    pub end_ms: u64,
    /// Milliseconds that the process waited for mallow at its exit.
    pub exit_wait_ms: u64,
    /// Milliseconds that the process waited for unwind tables, which are made once, and kept.
    pub table_wait_ms: u64,
    /// The kernel's maximum of the process image's RSS, in bytes; left out where it is not known to be that of its
    /// whole life, and where the process had pages that RSS does not count (hugetlbfs).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_rss: Option<u64>,
    /// Threads of the process image, in all.
    pub threads: u32,
    /// Sums over the sites of the process; `peak_bytes` is live at the recording's peak.
    #[serde(flatten)]
    pub totals: Totals,
    /// Highest live bytes of the process, at a moment of its own; left out where call paths are left out: the peak of
    /// the rest is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_peak_bytes: Option<u64>,
    /// Moment of `own_peak_bytes`, in milliseconds since the recording began; left out with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_peak_ms: Option<u64>,
    /// Allocations by the function that was called; those that were not called are left out.
    pub families: Vec<FamilyRow>,
    /// Frees of blocks that the process did not allocate while recorded.
    pub foreign_frees: u64,
    /// Events that could not be recorded.
    pub lost: u64,
}

impl ProcessRow {
    /// The name that the program was called by, without its directory.
    pub fn program(&self) -> &str {
        program_name(self.arguments.first().map_or("", |name| name), &self.executable)
    }
}

/// The rows of all process images, in their order.
pub(super) fn process_rows(profile: &Profile) -> Vec<ProcessRow> {
    let peaks = peaks_rss(profile);
    let row = |(id, process)| process_row(process, peaks.get(&ProcessId(id)).copied());
    (0..).zip(&profile.processes).map(row).collect()
}

/// By process, the kernel's maximum of RSS where nothing can have come after its reading. It does not count pages of
/// hugetlbfs.
fn peaks_rss(profile: &Profile) -> FxHashMap<ProcessId, u64> {
    let mut peaks = KernelPeak::all(profile);
    peaks.retain(|_, peak| peak.peak_unread_ms.is_none());
    for footprint in profile.footprints.iter().filter(|footprint| footprint.totals.hugetlb > 0) {
        peaks.remove(&footprint.process);
    }
    peaks.into_iter().map(|(process, peak)| (process, peak.peak_rss)).collect()
}

fn process_row(p: &Process, peak_rss: Option<u64>) -> ProcessRow {
    // What has allocated bytes has had a peak.
    let is_known = p.own_peak_bytes > 0 || p.totals.allocated_bytes == 0;
    let own_peak = is_known.then_some((p.own_peak_bytes, p.own_peak_ms));
    ProcessRow {
        pid: p.pid,
        parent_pid: p.parent_pid,
        serial: p.serial,
        forked: p.forked,
        attached: p.attached,
        executable: p.executable.clone(),
        arguments: p.arguments.clone(),
        source: p.source.clone(),
        start_ms: p.start_ms,
        end_ms: p.end_ms,
        exit_wait_ms: p.exit_wait_ms,
        table_wait_ms: p.table_wait_ms,
        peak_rss,
        threads: p.threads,
        totals: p.totals.into(),
        own_peak_bytes: own_peak.map(|(bytes, _)| bytes),
        own_peak_ms: own_peak.map(|(_, ms)| ms),
        families: family_rows(&p.families),
        foreign_frees: p.foreign_frees,
        lost: p.lost,
    }
}

pub(crate) fn family_rows(families: &FamilyCounts) -> Vec<FamilyRow> {
    FAMILIES
        .iter()
        .zip(families.calls)
        .filter(|(_, (calls, _))| *calls > 0)
        .map(|(&family, (allocations, allocated_bytes))| FamilyRow { family, allocations, allocated_bytes })
        .collect()
}
