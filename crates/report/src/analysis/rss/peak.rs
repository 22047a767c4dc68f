//! The kernel's own maximum of a process's RSS, beside what was read of its memory; and what of its blocks a recording cannot know.

use mallow_profile::{Footprint, PeakRss, Process, ProcessId, Profile, RssPoint};
use serde::Serialize;

/// The highest RSS of a process as the kernel counts it (`VmHWM`). It is no figure of any moment that was read: those are beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct KernelPeak {
    /// In bytes.
    pub peak_rss: u64,
    /// The process reached it after this time and by `peak_by_ms`, in milliseconds since the recording began; null where that is not
    /// known.
    pub peak_after_ms: Option<u64>,
    /// See `peak_after_ms`.
    pub peak_by_ms: Option<u64>,
    /// So many milliseconds before the end of the process, or of its recording, the kernel's figure was read last; null where nothing
    /// can have come after it.
    pub peak_unread_ms: Option<u64>,
    /// The process reached it before mallow attached to it.
    pub peak_is_older: bool,
}

/// A moment at which RSS was that of the account, and markedly more was live: what is free at the account's moment was in use then, so giving
/// it back lowers the highest RSS by less, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BusierMoment {
    /// In milliseconds since the recording began.
    pub ms: u64,
    /// RSS then.
    pub rss: u64,
    /// Requested bytes of live blocks then.
    pub live_bytes: u64,
}

/// RSS is the same within this part of it.
const SAME: u64 = 50;
/// Live bytes are markedly more by this part of RSS.
const MARKED: u64 = 10;
/// So long before the account's moment, in milliseconds, is shortly before. What is live at any time after it needs its memory again.
const SHORTLY: u64 = 1000;

impl BusierMoment {
    /// For the footprint that stands for the highest RSS of its process; None elsewhere, and where there is no such moment.
    pub fn of(profile: &Profile, footprint: &Footprint) -> Option<Self> {
        let &Footprint { ms, live_bytes, totals, .. } = footprint;
        let series = profile.rss.iter().find(|series| series.process == footprint.process && footprint.is_highest)?;
        let is_busier = |point: &&RssPoint| {
            point.ms.saturating_add(SHORTLY) >= ms
                && point.rss.abs_diff(totals.rss) <= totals.rss / SAME
                && point.live_bytes.saturating_sub(live_bytes) > totals.rss / MARKED
        };
        let busiest = series.points.iter().filter(is_busier).max_by_key(|point| point.live_bytes)?;
        Some(Self { ms: busiest.ms, rss: busiest.rss, live_bytes: busiest.live_bytes })
    }
}

impl KernelPeak {
    /// Of a process; None: nothing was read of it.
    pub fn of(profile: &Profile, process: ProcessId) -> Option<Self> {
        let own = || profile.footprints.iter().filter(|footprint| footprint.process == process);
        let series = profile.rss.iter().find(|series| series.process == process);
        let points = || series.iter().flat_map(|series| &series.points);
        let of_footprints = own().map(|footprint| footprint.peak_rss.max(footprint.totals.rss)).max();
        let read = of_footprints.max(points().map(|point| point.rss).max())?;
        let end_ms = profile.processes.get(process.0 as usize).map_or(profile.duration_ms, |process| process.end_ms);
        let last = own().map(|footprint| footprint.ms).chain(points().map(|point| point.ms)).max().unwrap_or(end_ms);
        let Some(peak) = series.and_then(|series| series.peak) else {
            // A recording of an earlier version: each footprint has what the kernel had noted by then.
            let is_final = own().any(|footprint| footprint.is_at_exit);
            return Some(Self {
                peak_rss: read,
                peak_after_ms: None,
                peak_by_ms: None,
                peak_unread_ms: (!is_final).then(|| end_ms.saturating_sub(last)),
                peak_is_older: false,
            });
        };
        let PeakRss { bytes, after_ms, by_ms, read_ms, is_final, is_older } = peak;
        // Sums of mappings may be a few pages above the kernel's own counts.
        Some(Self {
            peak_rss: bytes.max(read),
            peak_after_ms: Some(after_ms),
            peak_by_ms: Some(by_ms),
            peak_unread_ms: (!is_final).then(|| end_ms.saturating_sub(read_ms)),
            peak_is_older: is_older,
        })
    }
}

/// Why a process may have blocks that its recording does not know: their number is unknown, and not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OlderBlocks {
    /// It began with fork: it has those of its parent.
    Forked,
    /// Mallow attached to it while it ran.
    Attached,
    /// It freed blocks that were never seen.
    Freed,
    /// It may have run while nothing was sampled.
    Unsampled,
}

impl OlderBlocks {
    /// Of a process; None: all its blocks are known.
    pub fn of(process: &Process) -> Option<Self> {
        match process {
            Process { attached: true, .. } => Some(Self::Attached),
            Process { forked: true, .. } => Some(Self::Forked),
            process => process.has_older_blocks().then_some(Self::Freed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_profile::{Footprint, MemorySizes, RssPoint, RssSeries};

    fn profile(peak: Option<PeakRss>) -> Profile {
        let process = Process { end_ms: 100, ..Process::default() };
        let footprint = |ms, rss, peak_rss| {
            let totals = MemorySizes { rss, ..MemorySizes::default() };
            Footprint { ms, peak_rss, totals, ..Footprint::default() }
        };
        let points = [(10, 5), (90, 30)].map(|(ms, rss)| RssPoint { ms, rss, live_bytes: 0 });
        Profile {
            processes: vec![process],
            footprints: vec![footprint(20, 40, 50), footprint(60, 20, 70)],
            rss: vec![RssSeries { process: ProcessId(0), points: points.to_vec(), peak }],
            ..Profile::default()
        }
    }

    #[test]
    fn the_kernels_own_maximum_is_above_all_that_was_read() {
        let peak = PeakRss { bytes: 90, after_ms: 60, by_ms: 80, read_ms: 95, is_final: false, is_older: false };
        let found = KernelPeak::of(&profile(Some(peak)), ProcessId(0)).expect("a peak");
        let expected = KernelPeak {
            peak_rss: 90,
            peak_after_ms: Some(60),
            peak_by_ms: Some(80),
            peak_unread_ms: Some(5),
            peak_is_older: false,
        };
        assert_eq!(found, expected);
        let end = PeakRss { is_final: true, ..peak };
        let found = KernelPeak::of(&profile(Some(end)), ProcessId(0));
        assert_eq!(found, Some(KernelPeak { peak_unread_ms: None, ..expected }));
        // Of a recording of an earlier version, the last footprint knows most.
        let found = KernelPeak::of(&profile(None), ProcessId(0)).expect("a peak");
        let none =
            KernelPeak { peak_rss: 70, peak_after_ms: None, peak_by_ms: None, peak_unread_ms: Some(10), ..expected };
        assert_eq!(found, none);
        assert_eq!(KernelPeak::of(&Profile::default(), ProcessId(0)), None);
    }

    #[test]
    fn older_blocks_have_a_reason() {
        let of = |attached, forked, foreign_frees| {
            OlderBlocks::of(&Process { attached, forked, foreign_frees, ..Process::default() })
        };
        assert_eq!(of(false, false, 0), None);
        assert_eq!(of(true, false, 9), Some(OlderBlocks::Attached));
        assert_eq!(of(false, true, 9), Some(OlderBlocks::Forked));
        assert_eq!(of(false, false, 9), Some(OlderBlocks::Freed));
    }
}
