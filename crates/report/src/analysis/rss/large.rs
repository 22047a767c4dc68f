//! Blocks that glibc gives mappings of their own at first, and what freeing one of them does to its thresholds.

use mallow_profile::{Footprint, HeapMap, Profile, Site};

use super::owners::Owners;

/// Blocks of this size have mappings of their own in glibc, until the first of them is freed: the threshold rises to its size then, and that
/// for the end of the heap to twice as much.
pub const LARGE: u64 = 128 << 10;
/// The thresholds rise up to this size (`DEFAULT_MMAP_THRESHOLD_MAX`); freeing a larger block leaves them.
const MOST: u64 = 32 << 20;

/// What glibc's large blocks have done to a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LargeBlocks {
    /// What sites whose blocks are [`LARGE`] on average had at the peak of live bytes, and have no more.
    pub given_up: u64,
    /// What the other sites had then, and have no more.
    pub small_given_up: u64,
    /// A block was freed that raises glibc's thresholds.
    pub rose: bool,
}

/// Of a site, its blocks that are live at the moment.
#[derive(Clone, Copy, Default)]
struct LiveBlocks {
    bytes: u64,
    largest: u64,
}

impl LargeBlocks {
    /// Of the process of a footprint, at its moment.
    pub fn of(profile: &Profile, footprint: &Footprint, heap: &HeapMap, owners: &Owners) -> Self {
        let mut live = vec![LiveBlocks::default(); profile.sites.len()];
        for block in &heap.blocks {
            if let Some(site) = live.get_mut(block.site as usize) {
                site.bytes = site.bytes.saturating_add(block.size);
                site.largest = site.largest.max(block.size);
            }
        }
        let is_its = |at: usize| owners.inside(at as u32).is_empty() && !owners.has_foremost();
        let sites = profile.sites.iter().zip(live).enumerate();
        let own = sites.filter(|(at, (site, _))| site.process == footprint.process && is_its(*at)).map(|(_, own)| own);
        let mut all = Self::default();
        for (site, live) in own {
            all.rose |= raises(site, live);
            if profile.peak_ms <= footprint.ms {
                let is_large = site.counts.peak_bytes / site.counts.peak.max(1) >= LARGE;
                let sum = if is_large { &mut all.given_up } else { &mut all.small_given_up };
                *sum = sum.saturating_add(site.counts.peak_bytes.saturating_sub(live.bytes));
            }
        }
        all
    }
}

/// Whether a site has had a block that raises the thresholds, and has it no more: its largest one, or any where they are so large on average.
fn raises(site: &Site, live: LiveBlocks) -> bool {
    let is_large = |size: u64| (LARGE..=MOST).contains(&size);
    let counts = &site.counts;
    let mean = counts.allocated_bytes / counts.allocations.max(1);
    is_large(site.patterns.largest) && live.largest < site.patterns.largest || is_large(mean) && counts.frees > 0
}
