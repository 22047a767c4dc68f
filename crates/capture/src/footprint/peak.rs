//! The kernel's own maximum of a process's RSS, from looks at it.

use mallow_profile::PeakRss;

/// A maximum that was there at the first look at a process that mallow attached to is older than the recording if RSS
/// was lower then by more than this part.
const OLDER: u64 = 100;

/// The kernel's figure as a look found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    ms: u64,
    bytes: u64,
}

/// The highest RSS of a process image. The kernel's figure never falls, so a look finds what came between looks, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeakTracker {
    peak: Option<PeakRss>,
    /// A look of which it is open whether the maximum had been reached by it: the kernel adds up late.
    near: Option<Found>,
    /// The maximum that the first look found, where RSS was lower then by more than [`OLDER`] allows.
    older: Option<u64>,
}

impl PeakTracker {
    /// Notes a look at `ms`: RSS, and the kernel's maximum so far, in bytes.
    pub fn look(&mut self, ms: u64, rss: u64, highest: u64) {
        let bytes = highest.max(rss);
        match self.peak {
            None => {
                self.older = (rss < bytes - bytes / OLDER).then_some(bytes);
                self.peak = Some(PeakRss { bytes, by_ms: ms, read_ms: ms, ..PeakRss::default() });
            }
            Some(peak) => self.peak = Some(self.seen(Found { ms, bytes }, peak)),
        }
    }

    /// Notes the maximum at the end of the process: nothing is higher.
    pub fn end(&mut self, ms: u64, highest: u64) {
        if let Some(peak) = &mut self.peak {
            peak.end(ms, highest);
        }
    }

    fn seen(&mut self, found: Found, peak: PeakRss) -> PeakRss {
        let read_ms = peak.read_ms.max(found.ms);
        if found.bytes <= peak.bytes {
            return PeakRss { read_ms, ..peak };
        }
        let last = Found { ms: peak.read_ms, bytes: peak.bytes };
        // What was there before the recording began had been added up: whatever is above it is a rise.
        let is_older = self.older == Some(peak.bytes);
        let is_below = |look: &Found| is_older || !PeakRss::may_be(found.bytes, look.bytes);
        let (after_ms, near) = match self.near {
            _ if is_below(&last) => (last.ms, None),
            Some(near) if is_below(&near) => (near.ms, Some(last)),
            near => (peak.after_ms, near.or(Some(last))),
        };
        self.near = near;
        PeakRss { bytes: found.bytes, after_ms, by_ms: found.ms, read_ms, ..peak }
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

    const MIB: u64 = 1 << 20;

    /// A tracker that looked: milliseconds, RSS and the kernel's maximum in MiB.
    fn looked(looks: &[(u64, u64, u64)]) -> PeakTracker {
        let mut tracker = PeakTracker::default();
        looks.iter().for_each(|&(ms, rss, highest)| tracker.look(ms, rss * MIB, highest * MIB));
        tracker
    }

    /// The maximum in MiB, and between which looks it was reached.
    fn times(tracker: PeakTracker) -> Option<(u64, u64, u64)> {
        tracker.peak(0, false).map(|peak| (peak.bytes / MIB, peak.after_ms, peak.by_ms))
    }

    #[test]
    fn what_came_between_two_looks_is_found() {
        assert_eq!(PeakTracker::default().peak(3, false), None);
        let mut tracker = looked(&[(10, 100, 100), (20, 90, 100), (40, 80, 700), (60, 80, 700)]);
        let bytes = 700 * MIB;
        let peak = PeakRss { bytes, after_ms: 20, by_ms: 40, read_ms: 60, is_final: false, is_older: false };
        assert_eq!(tracker.peak(3, false), Some(peak));
        assert_eq!(tracker.peak(3, true), Some(peak));
        tracker.end(80, 650 * MIB);
        assert_eq!(tracker.peak(3, false), Some(PeakRss { read_ms: 80, is_final: true, ..peak }));
        tracker.end(90, 800 * MIB);
        assert_eq!(times(tracker), Some((800, 80, 90)));
    }

    /// A look while the maximum was reached, and one that found the pages which the kernel had not added up then.
    #[test]
    fn what_the_kernel_adds_late_is_no_rise_since_the_last_look() {
        assert_eq!(times(looked(&[(10, 5, 5), (100, 20, 499), (200, 20, 500), (300, 20, 500)])), Some((500, 10, 200)));
        // It creeps: a look is before the maximum once that is higher than what is counted late.
        let creeping: Vec<_> = (0..=20).map(|step| (10 * step, 500 + step, 500 + step)).collect();
        assert_eq!(times(looked(&creeping)), Some((520, 0, 200)));
        let creeping: Vec<_> = (0..=40).map(|step| (10 * step, 500 + step, 500 + step)).collect();
        let (bytes, after, by) = times(looked(&creeping)).expect("a maximum");
        assert!((bytes, by) == (540, 400) && (120..=290).contains(&after), "{after}");
        let mut tracker = looked(&[(10, 5, 5), (100, 20, 500)]);
        tracker.end(200, 508 * MIB);
        assert_eq!(times(tracker), Some((508, 10, 200)));
    }

    #[test]
    fn a_maximum_from_before_the_attachment_is_not_this_recordings() {
        let of = |first: u64, then: u64| {
            let tracker = looked(&[(10, first, 1000), (20, 10, then)]);
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
