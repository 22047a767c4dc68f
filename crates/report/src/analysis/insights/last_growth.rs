//! Large blocks that were kept after their last growth, and where the peak was by then.
//!
//! Giving back what is not used lowers the peak only where the growth was over. A peak inside of it has the old block
//! beside the new one, and only a size that is right from the start lowers that.

use std::ops::AddAssign;

use mallow_profile::{Profile, Site};

/// Kept blocks of some sites. Those of which it is not known on which side of the peak they grew are in neither part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LargeBlocks {
    /// Blocks that had grown for the last time before the peak.
    pub complete: Kept,
    /// Blocks that were growing at the peak: the block that each had grown from was live, too.
    pub growing: Kept,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub number: u64,
    /// Requested bytes.
    pub bytes: u64,
    /// Bytes that the blocks grew by in their last step.
    pub slack: u64,
}

/// The least size of a block whose last step counts.
const LARGE: u64 = 64 << 10;
/// One part in so many is what a doubled block may be short of twice the old one: headers of the program's own.
const SLIGHTLY: u64 = 32;

impl LargeBlocks {
    pub fn of(profile: &Profile, site: &Site) -> Self {
        let (c, p) = (&site.counts, &site.patterns);
        // What was not live at the peak does not lower it.
        let kept = Kept { number: p.kept, bytes: p.kept_bytes, slack: p.kept_slack.min(c.peak_bytes) };
        let (none, only) = (Self::default(), p.growth_steps > 0 && c.allocations <= p.growth_steps.saturating_add(1));
        let by_copy = c.reallocs_in_place == 0 && c.reallocs_moved == 0;
        if let Some(growing) = last_step_at_peak(site).filter(|_| only && by_copy) {
            return Self { growing, ..none };
        }
        if p.kept == 0 {
            return none;
        }
        if p.kept == 1 && only && by_copy {
            // All blocks of the site are this one at different times.
            return match (c.peak, c.peak_bytes == p.kept_bytes) {
                (1, true) => Self { complete: kept, ..none },
                (2, _) if c.peak_bytes > p.kept_bytes => Self { growing: kept, ..none },
                _ => none,
            };
        }
        if last_growth_ms(profile, site) < profile.peak_ms { Self { complete: kept, ..none } } else { none }
    }

    /// Bytes that all of them grew by in their last step.
    pub fn slack(&self) -> u64 {
        self.complete.slack.saturating_add(self.growing.slack)
    }
}

/// The only buffer of a site, if the peak is in its last step: the new block is the largest, and the old one half of it
/// or more. Counts and bytes alone tell, so it is the same in each run; how long the block was kept after that is a
/// matter of speed.
fn last_step_at_peak(site: &Site) -> Option<Kept> {
    let (c, p) = (&site.counts, &site.patterns);
    let old = c.peak_bytes.checked_sub(p.largest).filter(|&old| old < p.largest)?;
    // A peak in an earlier step has more than the largest block only where steps are smaller than by the golden ratio:
    // 1.44 steps a doubling.
    let doublings = u64::from((p.largest / p.smallest.max(1)).checked_ilog2()?);
    let is_geometric = p.growth_steps.saturating_mul(100) <= doublings.saturating_mul(144);
    let is_last = c.peak == 2 && p.largest >= LARGE && old >= p.largest / 2 - p.largest / SLIGHTLY;
    (is_geometric && is_last && p.grown_buffers <= 1).then_some(Kept {
        number: 1,
        bytes: p.largest,
        slack: p.largest - old,
    })
}

/// The latest time at which the site's kept blocks had grown for the last time.
fn last_growth_ms(profile: &Profile, site: &Site) -> u64 {
    let (c, p) = (&site.counts, &site.patterns);
    // A block is kept if it lives for half of the time from its process's start to its own end, or longer.
    let half = profile.processes.get(site.process.0 as usize).map_or(u64::MAX, |process| {
        let ms = process.done_ms().saturating_sub(process.start_ms) / 2;
        process.start_ms.saturating_add(ms)
    });
    let all_live = c.live >= p.kept && c.live_bytes >= p.kept_bytes;
    if all_live { half.min(site.live_youngest_ms) } else { half }
}

impl AddAssign for LargeBlocks {
    fn add_assign(&mut self, other: Self) {
        self.complete += other.complete;
        self.growing += other.growing;
    }
}

impl AddAssign for Kept {
    fn add_assign(&mut self, other: Self) {
        self.number = self.number.saturating_add(other.number);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.slack = self.slack.saturating_add(other.slack);
    }
}
