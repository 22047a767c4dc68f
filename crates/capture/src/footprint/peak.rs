//! The kernel's own maximum of a process's RSS, from looks at it.

use mallow_profile::PeakRss;

/// A maximum that was there at the first look at a process that mallow attached to is older than the recording if RSS
/// was lower then by more than this part.
const OLDER: u64 = 100;

/// The highest RSS of a process image. The kernel's figure never falls, so a look finds what came between looks, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeakTracker {
    peak: Option<PeakRss>,
    /// The maximum that the first look found, where RSS was lower then by more than [`OLDER`] allows.
    older: Option<u64>,
}

impl PeakTracker {
    /// Notes a look at `ms`: RSS, and the kernel's maximum so far, in bytes.
    pub fn look(&mut self, ms: u64, rss: u64, highest: u64) {
        let bytes = highest.max(rss);
        match &mut self.peak {
            None => {
                self.older = (rss < bytes - bytes / OLDER).then_some(bytes);
                self.peak = Some(PeakRss { bytes, by_ms: ms, read_ms: ms, ..PeakRss::default() });
            }
            Some(peak) => peak.look(ms, bytes),
        }
    }

    /// Notes the maximum at the end of the process: nothing is higher.
    pub fn end(&mut self, ms: u64, highest: u64) {
        if let Some(peak) = &mut self.peak {
            peak.end(ms, highest);
        }
    }

    /// The maximum. `start_ms`: when the process began; `attached`: mallow attached to it then.
    pub fn peak(&self, start_ms: u64, attached: bool) -> Option<PeakRss> {
        let peak = self.peak?;
        let is_older = attached && self.older == Some(peak.bytes);
        Some(PeakRss { after_ms: peak.after_ms.max(start_ms.min(peak.by_ms)), is_older, ..peak })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_between_two_looks_is_found() {
        let mut tracker = PeakTracker::default();
        assert_eq!(tracker.peak(3, false), None);
        tracker.look(10, 100, 100);
        tracker.look(20, 90, 100);
        tracker.look(40, 80, 700);
        tracker.look(60, 80, 700);
        let peak = PeakRss { bytes: 700, after_ms: 20, by_ms: 40, read_ms: 60, is_final: false, is_older: false };
        assert_eq!(tracker.peak(3, false), Some(peak));
        assert_eq!(tracker.peak(3, true), Some(peak));
        tracker.end(80, 650);
        assert_eq!(tracker.peak(3, false), Some(PeakRss { read_ms: 80, is_final: true, ..peak }));
        tracker.end(90, 800);
        assert_eq!(tracker.peak(3, false).map(|peak| (peak.bytes, peak.after_ms, peak.by_ms)), Some((800, 80, 90)));
    }

    #[test]
    fn a_maximum_from_before_the_attachment_is_not_this_recordings() {
        let of = |first: u64, then: u64| {
            let mut tracker = PeakTracker::default();
            tracker.look(10, first, 1000);
            tracker.look(20, 10, then);
            (
                tracker.peak(5, true).map(|peak| (peak.is_older, peak.after_ms)),
                tracker.peak(5, false).map(|p| p.is_older),
            )
        };
        assert_eq!(of(400, 1000), (Some((true, 5)), Some(false)));
        // It stood there, or went higher later.
        assert_eq!(of(999, 1000), (Some((false, 5)), Some(false)));
        assert_eq!(of(400, 1001), (Some((false, 10)), Some(false)));
    }

    /// The kernel counts pages of several processors together now and then: RSS may be above its own maximum by some.
    #[test]
    fn rss_is_a_maximum_too() {
        let mut tracker = PeakTracker::default();
        tracker.look(10, 101, 100);
        assert_eq!(tracker.peak(0, false).map(|peak| peak.bytes), Some(101));
    }
}
