//! The kernel's own maximum of a process's RSS, beside what was read of its memory; and what of its blocks a recording
//! cannot know.

use mallow_profile::{Footprint, PeakRss, Process, ProcessId, Profile, RecentLive, RssPoint, RssSeries};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// The highest RSS of a process as the kernel counts it (`VmHWM`). It is no figure of any moment that was read: those
/// are beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KernelPeak {
    /// The kernel's maximum of RSS, in bytes.
    pub peak_rss: u64,
    /// Moment after which the process reached `peak_rss`, in milliseconds since the recording began; null where that is
    /// not known, as where the kernel's figure had been as high before, within what the kernel adds late.
    pub peak_after_ms: Option<u64>,
    /// Moment by which the process had reached `peak_rss`, in milliseconds since the recording began; null where that
    /// is not known.
    pub peak_by_ms: Option<u64>,
    /// Milliseconds between the last reading of the kernel's figure and the end of the process or of its recording;
    /// null where nothing can have come after it.
    pub peak_unread_ms: Option<u64>,
    /// The process reached `peak_rss` before mallow attached to it.
    pub peak_is_older: bool,
}

/// A moment at which RSS was no higher than that of the account, and more was live: what is free at the account's
/// moment was in use then, so giving it back lowers the highest RSS by less, or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BusierMoment {
    /// Moment of the numbers, in milliseconds since the recording began.
    pub ms: u64,
    /// RSS at the moment, in bytes; null where nobody looked.
    pub rss: Option<u64>,
    /// Requested bytes of live blocks at the moment.
    pub live_bytes: u64,
}

/// Live bytes that were freed shortly before a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FreedBefore {
    /// Moment of `live_bytes`, in milliseconds since the recording began.
    pub ms: u64,
    /// Requested bytes of live blocks at the moment `ms`.
    pub live_bytes: u64,
    /// Bytes by which less was live at the moment of the account.
    pub freed_bytes: u64,
}

impl FreedBefore {
    /// The latest fall of live bytes before a footprint; None where hardly any were freed. `was_in_use` says that so
    /// many were that a remedy is a bound.
    pub fn of(footprint: &Footprint, was_in_use: bool) -> Option<Self> {
        let RecentLive { ms, bytes } = footprint.fell_from().or(footprint.recent_live.filter(|_| was_in_use))?;
        Some(Self { ms, live_bytes: bytes, freed_bytes: bytes.saturating_sub(footprint.live_bytes) })
    }
}

/// A later moment that was read, at which RSS was nearly that of the account and markedly less was live: the process
/// keeps what its blocks had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptMoment {
    /// Moment of the numbers, in milliseconds since the recording began.
    pub ms: u64,
    /// RSS at the moment, in bytes.
    pub rss: u64,
    /// Requested bytes of live blocks at the moment.
    pub live_bytes: u64,
}

/// The end of a process, where markedly less was live than at the last moment that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FreedAfter {
    /// End of the process, in milliseconds since the recording began.
    pub ms: u64,
    /// Requested bytes of live blocks at the end.
    pub live_bytes: u64,
}

/// RSS is the same if it differs by at most one part in so many.
const SAME: u64 = 50;
/// Live bytes are markedly more from one part in so many of RSS on.
const MARKED: u64 = 10;
/// Live bytes are more from one part in so many of RSS on: below that, they are those of another moment of the same
/// look.
const MORE: u64 = 50;
/// Milliseconds that count as shortly before the account's moment. What is live at any time after it needs its memory
/// again.
const SHORTLY: u64 = 1000;

/// The process of a footprint that stands for the highest RSS; None for any other footprint, and where older blocks may
/// have been freed meanwhile.
fn known<'a>(profile: &'a Profile, footprint: &Footprint) -> Option<&'a Process> {
    let process = profile.processes.get(footprint.process.0 as usize)?;
    (footprint.is_highest && OlderBlocks::of(process).is_none()).then_some(process)
}

impl BusierMoment {
    /// Requested bytes by which more was live than the account's `live_bytes`.
    pub fn more(&self, live_bytes: u64) -> u64 {
        self.live_bytes.saturating_sub(live_bytes)
    }

    /// None unless the footprint stands for the highest RSS of its process, and where there is no such moment.
    pub fn of(profile: &Profile, footprint: &Footprint) -> Option<Self> {
        let &Footprint { ms, live_bytes, totals, .. } = footprint;
        let process = known(profile, footprint)?;
        let is_busier = |of: u64, live: u64| {
            of.saturating_add(SHORTLY) >= ms && live.saturating_sub(live_bytes) > totals.rss / MORE
        };
        let series = profile.rss.iter().filter(|series| series.process == footprint.process);
        // Its own reading is a point as well: in recordings before live bytes were those of each look, with live bytes
        // of some time before.
        let is_same = |point: &&RssPoint| {
            point.ms != ms
                && point.rss.abs_diff(totals.rss) <= totals.rss / SAME
                && is_busier(point.ms, point.live_bytes)
        };
        let points = series.flat_map(|series| &series.points).filter(is_same);
        let looks = points.map(|point| Self { ms: point.ms, rss: Some(point.rss), live_bytes: point.live_bytes });
        // Between two looks: all that is known of RSS is the kernel's maximum.
        let own = Self { ms: process.own_peak_ms, rss: None, live_bytes: process.own_peak_bytes };
        let own = Some(own).filter(|own| is_busier(own.ms, own.live_bytes));
        looks.chain(own).max_by_key(|moment| (moment.live_bytes, moment.rss))
    }
}

impl FreedAfter {
    /// None unless the footprint is the last one of its process, and one of the time before its exit.
    pub fn of(footprint: &Footprint, process: &Process) -> Option<Self> {
        let live_bytes = process.totals.live_bytes;
        let is_last = footprint.is_last && !footprint.is_at_exit && OlderBlocks::of(process).is_none();
        let is_less = footprint.live_bytes.saturating_sub(live_bytes) > footprint.totals.rss / MARKED;
        (is_last && is_less).then_some(Self { ms: process.end_ms, live_bytes })
    }
}

/// RSS is kept if it has fallen by at most one part in so many.
const KEPT: u64 = 10;

impl KeptMoment {
    /// Compares the footprint that stands for the highest RSS of a process with the last one; None for any other
    /// footprint, and where RSS fell, or hardly less was live, or the process was about to end and freed what it had.
    pub fn of(profile: &Profile, footprint: &Footprint) -> Option<Self> {
        known(profile, footprint)?;
        let is_last = |other: &&Footprint| other.process == footprint.process && other.is_last && !other.is_highest;
        let last = profile.footprints.iter().find(is_last)?;
        let (rss, live_bytes) = (last.totals.rss, last.live_bytes);
        let is_kept = rss >= footprint.totals.rss - footprint.totals.rss / KEPT && last.fell_from().is_none();
        let is_less = footprint.live_bytes.saturating_sub(live_bytes) > footprint.totals.rss / MARKED;
        (last.ms > footprint.ms && is_kept && is_less).then_some(Self { ms: last.ms, rss, live_bytes })
    }
}

impl KernelPeak {
    /// None where no memory of the process was read.
    pub fn of(profile: &Profile, process: ProcessId) -> Option<Self> {
        let own: Vec<&Footprint> = profile.footprints.iter().filter(|one| one.process == process).collect();
        Self::among(profile, process, &own, profile.rss.iter().find(|series| series.process == process))
    }

    /// Those of all processes of which memory was read, in one pass over what was read.
    pub fn all(profile: &Profile) -> FxHashMap<ProcessId, Self> {
        let mut read: FxHashMap<ProcessId, (Vec<&Footprint>, Option<&RssSeries>)> = FxHashMap::default();
        for footprint in &profile.footprints {
            read.entry(footprint.process).or_default().0.push(footprint);
        }
        for series in &profile.rss {
            read.entry(series.process).or_default().1.get_or_insert(series);
        }
        let of = |(process, (own, series)): (ProcessId, (Vec<&Footprint>, _))| {
            Some((process, Self::among(profile, process, &own, series)?))
        };
        read.into_iter().filter_map(of).collect()
    }

    /// By the footprints and the series of the process.
    fn among(profile: &Profile, process: ProcessId, own: &[&Footprint], series: Option<&RssSeries>) -> Option<Self> {
        let own = || own.iter();
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
        let peak_rss = bytes.max(read);
        let before = own().filter(|footprint| footprint.ms <= after_ms);
        let before = before.map(|footprint| footprint.peak_rss.max(footprint.totals.rss));
        let before = before.chain(points().filter(|point| point.ms <= after_ms).map(|point| point.rss)).max();
        let is_late = before.is_some_and(|before| PeakRss::may_be(peak_rss, before));
        // The program has ended then, and waits for mallow or is gone.
        let end = own().filter(|footprint| footprint.is_at_exit).map(|footprint| footprint.ms).max();
        let has_ended = |ms: u64| end.is_some_and(|end| ms > end);
        Some(Self {
            peak_rss,
            peak_after_ms: (!is_late && !has_ended(by_ms)).then_some(after_ms),
            peak_by_ms: (!has_ended(by_ms)).then_some(by_ms),
            peak_unread_ms: (!is_final).then(|| end_ms.saturating_sub(read_ms)),
            peak_is_older: is_older,
        })
    }
}

/// Reason why a process may have blocks that its recording does not know: their number is unknown, and not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum OlderBlocks {
    /// The process began with fork: it has the blocks of its parent.
    Forked,
    /// Mallow attached to the process while it ran.
    Attached,
    /// The process freed blocks that were never seen.
    Freed,
    /// The process may have run while nothing was sampled.
    Unsampled,
}

impl OlderBlocks {
    /// None where all blocks of the process are known.
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
    use mallow_profile::{Footprint, MemorySizes, RssPoint};

    const MIB: u64 = 1 << 20;

    fn profile(peak: Option<PeakRss>) -> Profile {
        let process = Process { end_ms: 100, ..Process::default() };
        let footprint = |ms, rss, peak_rss| {
            let totals = MemorySizes { rss: rss * MIB, ..MemorySizes::default() };
            Footprint { ms, peak_rss: peak_rss * MIB, totals, ..Footprint::default() }
        };
        let points = [(10, 5), (90, 30)].map(|(ms, rss)| RssPoint { ms, rss: rss * MIB, live_bytes: 0 });
        Profile {
            processes: vec![process],
            footprints: vec![footprint(20, 40, 50), footprint(60, 20, 70)],
            rss: vec![RssSeries { process: ProcessId(0), points: points.to_vec(), peak }],
            ..Profile::default()
        }
    }

    #[test]
    fn the_kernels_own_maximum_is_above_all_that_was_read() {
        let peak = PeakRss { bytes: 90 * MIB, after_ms: 60, by_ms: 80, read_ms: 95, is_final: false, is_older: false };
        let found = KernelPeak::of(&profile(Some(peak)), ProcessId(0)).expect("a peak");
        let expected = KernelPeak {
            peak_rss: 90 * MIB,
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
        let none = KernelPeak {
            peak_rss: 70 * MIB,
            peak_after_ms: None,
            peak_by_ms: None,
            peak_unread_ms: Some(10),
            ..expected
        };
        assert_eq!(found, none);
        assert_eq!(KernelPeak::of(&Profile::default(), ProcessId(0)), None);
    }

    /// The exact figure of a process's end is above what the kernel had added up before: it has not risen between two
    /// looks.
    #[test]
    fn what_the_kernel_adds_late_is_no_rise() {
        let of = |bytes, after_ms, by_ms, exit_ms: Option<u64>| {
            let peak = PeakRss { bytes, after_ms, by_ms, read_ms: by_ms, is_final: true, is_older: false };
            let mut made = profile(Some(peak));
            made.footprints[1].is_at_exit = exit_ms.is_some();
            made.footprints[1].ms = exit_ms.unwrap_or(60);
            let found = KernelPeak::of(&made, ProcessId(0)).expect("a peak");
            (found.peak_after_ms, found.peak_by_ms)
        };
        // 70 MiB by 60 ms, and half of one more.
        assert_eq!(of(70 * MIB + MIB / 2, 70, 80, None), (None, Some(80)));
        assert_eq!(of(75 * MIB, 70, 80, None), (Some(70), Some(80)));
        // What was read later says nothing about before.
        assert_eq!(of(70 * MIB + MIB / 2, 30, 50, None), (Some(30), Some(50)));
        // The program's end is at 60 ms: what it reached, it had reached by then.
        assert_eq!(of(70 * MIB + MIB / 2, 70, 80, Some(60)), (None, None));
        assert_eq!(of(90 * MIB, 70, 80, Some(60)), (None, None));
        assert_eq!(of(90 * MIB, 50, 60, Some(60)), (Some(50), Some(60)));
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
