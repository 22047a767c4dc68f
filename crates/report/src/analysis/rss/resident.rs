//! RSS beside live bytes: the highest of all processes, and over time.

use std::cmp::Reverse;

use mallow_profile::{Footprint, MappingKind, Profile, RssSeries};
use serde::Serialize;

use super::{KernelPeak, OlderBlocks};

/// The process that had the highest RSS, and the moment when its memory was read and was largest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HighestRss {
    /// Process id.
    pub pid: u32,
    /// Number of the process image among those with this pid, from 0: exec begins the next one.
    pub serial: u32,
    /// Highest RSS of the process, as the kernel noted it.
    #[serde(flatten)]
    pub peak: KernelPeak,
    /// Moment at which the memory was read, in milliseconds since the recording began. The fields that follow are of
    /// that moment.
    pub ms: u64,
    /// RSS at that moment, in bytes.
    pub rss: u64,
    /// PSS at that moment, in bytes: RSS with each shared page divided by the processes that have it. Null where the
    /// mappings could not be read, or the process ended before.
    pub pss: Option<u64>,
    /// Bytes of `rss` that belong to no file; null where `pss` is.
    pub anonymous: Option<u64>,
    /// Bytes of the process in swap; null where `pss` is.
    pub swap: Option<u64>,
    /// Live blocks; null where `pss` is, and where the process may have blocks that are not known.
    pub live: Option<u64>,
    /// Requested bytes of the live blocks; null where the process may have blocks that are not known.
    pub live_bytes: Option<u64>,
    /// Requested bytes of the live blocks that were allocated while the process was recorded.
    pub recorded_live_bytes: u64,
    /// Bytes of `recorded_live_bytes` that are in memory: a block is live before its pages are touched, and while they
    /// are in swap. Null where pages were not read.
    pub live_resident_bytes: Option<u64>,
    /// Bytes of `rss` that are Mallow's own: rings, tables, its library; null where the mappings could not be read.
    pub mallow_bytes: Option<u64>,
    /// Reason why there may be live blocks that are not known; null: there are none.
    pub older_blocks: Option<OlderBlocks>,
    /// Processes whose RSS was read.
    pub processes: u64,
}

/// None where no memory was read.
pub fn highest_rss(profile: &Profile) -> Option<HighestRss> {
    let of_footprint = profile.footprints.iter().filter_map(|footprint| highest_of(profile, footprint));
    let has_none = |series: &&RssSeries| profile.footprints.iter().all(|footprint| footprint.process != series.process);
    let of_series = profile.rss.iter().filter(has_none).filter_map(|series| highest_point(profile, series));
    let mut highest =
        of_footprint.chain(of_series).max_by_key(|highest| (highest.peak.peak_rss, Reverse(highest.pid)))?;
    highest.processes = profile.rss.len().max(1) as u64;
    Some(highest)
}

fn highest_of(profile: &Profile, footprint: &Footprint) -> Option<HighestRss> {
    if !footprint.is_highest {
        return None;
    }
    let process = profile.processes.get(footprint.process.0 as usize)?;
    let totals = &footprint.totals;
    let older_blocks = OlderBlocks::of(process);
    Some(HighestRss {
        pid: process.pid,
        serial: process.serial,
        peak: KernelPeak::of(profile, footprint.process)?,
        ms: footprint.ms,
        rss: totals.rss,
        pss: Some(totals.pss),
        anonymous: Some(totals.anonymous),
        swap: Some(totals.swap),
        live: older_blocks.is_none().then_some(footprint.live_blocks),
        live_bytes: older_blocks.is_none().then_some(footprint.live_bytes),
        recorded_live_bytes: footprint.live_bytes,
        live_resident_bytes: footprint.live_resident,
        mallow_bytes: Some(mallow_bytes(footprint)),
        older_blocks,
        processes: 1,
    })
}

fn mallow_bytes(footprint: &Footprint) -> u64 {
    let own = footprint.mappings.iter().filter(|mapping| mapping.kind == MappingKind::Mallow);
    own.fold(0, |sum: u64, mapping| sum.saturating_add(mapping.sizes.rss))
}

fn highest_point(profile: &Profile, series: &RssSeries) -> Option<HighestRss> {
    let process = profile.processes.get(series.process.0 as usize)?;
    let point = series.points.iter().max_by_key(|point| (point.rss, Reverse(point.ms)))?;
    let older_blocks = OlderBlocks::of(process);
    Some(HighestRss {
        pid: process.pid,
        serial: process.serial,
        peak: KernelPeak::of(profile, series.process)?,
        ms: point.ms,
        rss: point.rss,
        pss: None,
        anonymous: None,
        swap: None,
        live: None,
        live_bytes: older_blocks.is_none().then_some(point.live_bytes),
        recorded_live_bytes: point.live_bytes,
        live_resident_bytes: None,
        mallow_bytes: None,
        older_blocks,
        processes: 1,
    })
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RssOverTime {
    /// RSS in bytes at the beginning of each point of the timeline, added up over the processes that ran: a page that
    /// several of them share counts in each. Null before the first reading.
    pub values: Vec<Option<u64>>,
    /// Highest value of `values`.
    pub highest: u64,
    /// Moment of `highest`, in milliseconds since the recording began.
    pub highest_ms: u64,
    /// Processes whose RSS was read.
    pub processes: u64,
    /// The kernel's own maximum of a single process, which no reading needs to have met; null of several processes.
    pub peak: Option<KernelPeak>,
    /// Mallow attached to one of the processes: RSS has its older blocks, and live bytes have not.
    pub attached: bool,
}

/// `times` must be ascending; None where no memory was read.
pub fn rss_over_time(profile: &Profile, times: impl Iterator<Item = u64>) -> Option<RssOverTime> {
    if profile.rss.is_empty() {
        return None;
    }
    let values = times.map(|ms| sum_at(profile, ms)).collect();
    let sums = sums(profile, MOMENTS).map(|(ms, sum)| (sum, ms));
    let (highest, highest_ms) = sums.max_by_key(|&(sum, ms)| (sum, Reverse(ms)))?;
    let peak = rss_peak(profile);
    let process = |series: &RssSeries| profile.processes.get(series.process.0 as usize);
    let attached = profile.rss.iter().filter_map(process).any(|process| process.attached);
    Some(RssOverTime { values, highest, highest_ms, processes: profile.rss.len() as u64, peak, attached })
}

/// The kernel's own maximum in a recording of one process; None for several: their maxima are of different moments, and
/// have no sum.
pub(in crate::analysis) fn rss_peak(profile: &Profile) -> Option<KernelPeak> {
    match &*profile.rss {
        [only] => KernelPeak::of(profile, only.process),
        _ => None,
    }
}

/// Most moments at which the sum of all processes is looked at.
const MOMENTS: usize = 4096;

/// Milliseconds since the recording began at which RSS was read, and the sum of all processes then, in bytes. Of more
/// than `most` moments, some are left out.
pub(in crate::analysis) fn rss_points(profile: &Profile, most: usize) -> Vec<(u64, u64)> {
    sums(profile, most).collect()
}

/// Takes at most `most` moments: of thousands of processes, some of them are enough.
fn sums(profile: &Profile, most: usize) -> impl Iterator<Item = (u64, u64)> {
    let moments = profile.rss.iter().flat_map(|series| series.points.iter().map(|point| point.ms));
    let mut moments: Vec<u64> = moments.collect();
    moments.sort_unstable();
    moments.dedup();
    let step = moments.len().div_ceil(most).max(1);
    moments.into_iter().step_by(step).map(|ms| (ms, sum_at(profile, ms).unwrap_or_default()))
}

fn sum_at(profile: &Profile, ms: u64) -> Option<u64> {
    let at = |series: &RssSeries| {
        let process = profile.processes.get(series.process.0 as usize)?;
        let is_running = process.start_ms <= ms && ms <= process.end_ms;
        let next = series.points.partition_point(|point| point.ms <= ms);
        let last = next.checked_sub(1).and_then(|last| series.points.get(last));
        last.filter(|_| is_running).map(|point| point.rss)
    };
    profile.rss.iter().filter_map(at).fold(None, |sum: Option<u64>, rss| Some(sum.unwrap_or(0).saturating_add(rss)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_profile::{MemorySizes, Process, ProcessId, RssPoint};

    fn profile() -> Profile {
        let mut profile = Profile::default();
        for (pid, start_ms, end_ms) in [(7, 0, 100), (8, 20, 60)] {
            profile.processes.push(Process { pid, start_ms, end_ms, ..Process::default() });
        }
        let footprint = |process, rss, peak_rss, is_highest| Footprint {
            process: ProcessId(process),
            ms: rss,
            is_highest,
            peak_rss,
            totals: MemorySizes { rss, ..MemorySizes::default() },
            live_bytes: rss / 2,
            ..Footprint::default()
        };
        profile.footprints = vec![footprint(0, 50, 60, true), footprint(0, 40, 90, false), footprint(1, 70, 80, true)];
        let points = |all: &[(u64, u64)]| {
            let point = |&(ms, rss): &(u64, u64)| RssPoint { ms, rss, live_bytes: 0 };
            all.iter().map(point).collect()
        };
        profile.rss = vec![
            RssSeries { process: ProcessId(0), points: points(&[(10, 5), (50, 9)]), peak: None },
            RssSeries { process: ProcessId(1), points: points(&[(30, 3), (55, 1)]), peak: None },
        ];
        profile
    }

    #[test]
    fn the_process_with_the_highest_peak_is_named() {
        let highest = highest_rss(&profile()).expect("footprints");
        assert_eq!((highest.pid, highest.peak.peak_rss, highest.rss, highest.ms), (7, 90, 50, 50));
        assert_eq!((highest.live_bytes, highest.processes), (Some(25), 2));
        assert_eq!(highest_rss(&Profile::default()), None);
        let without = Profile { footprints: Vec::new(), ..profile() };
        let highest = highest_rss(&without).expect("points");
        assert_eq!((highest.pid, highest.rss, highest.ms, highest.pss), (7, 9, 50, None));
    }

    /// What was allocated before mallow attached is unknown: a small number would say that it is absent.
    #[test]
    fn live_bytes_of_an_attached_process_are_not_known() {
        let mut profile = profile();
        profile.processes[0].attached = true;
        let highest = highest_rss(&profile).expect("footprints");
        assert_eq!((highest.live, highest.live_bytes, highest.recorded_live_bytes), (None, None, 25));
        assert_eq!(highest.older_blocks, Some(OlderBlocks::Attached));
        let without = Profile { footprints: Vec::new(), ..profile };
        assert_eq!(highest_rss(&without).and_then(|highest| highest.live_bytes), None);
    }

    #[test]
    fn processes_that_run_are_added_up() {
        let over = rss_over_time(&profile(), [0, 10, 29, 30, 54, 60, 61, 100, 101].into_iter()).expect("series");
        let expected = [None, Some(5), Some(5), Some(8), Some(12), Some(10), Some(9), Some(9), None];
        assert_eq!(over.values, expected);
        assert_eq!((over.highest, over.highest_ms, over.processes, over.attached), (12, 50, 2, false));
        let mut attached = profile();
        attached.processes[1].attached = true;
        assert_eq!(rss_over_time(&attached, [0].into_iter()).map(|over| over.attached), Some(true));
        assert_eq!(rss_over_time(&Profile::default(), [0].into_iter()), None);
    }
}
