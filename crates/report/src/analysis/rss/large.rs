//! Blocks that glibc gives mappings of their own at first, and what freeing one of them does to its thresholds.

use mallow_profile::{Footprint, HeapMap, Profile, Site};

use super::geometry::PAGE;
use super::owners::Owners;

/// Blocks of this size have mappings of their own in glibc, until the first of them is freed: the threshold rises to its size then, and that
/// for the end of the heap to twice as much.
pub const LARGE: u64 = 128 << 10;
/// The thresholds rise up to this size (`DEFAULT_MMAP_THRESHOLD_MAX`); freeing a larger block leaves them.
const MOST: u64 = 32 << 20;

/// A chunk takes at most so much more than what was requested: its header, and rounding to 16 bytes.
const OVERHEAD: u64 = 8 + 15;
/// The smallest chunk.
const LEAST_CHUNK: u64 = 32;
/// Requested bytes of all steps of a buffer that grows by a quarter and more are at most this many times its last ones.
const GEOMETRIC: u64 = 5;

/// What glibc's large blocks have done to a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LargeBlocks {
    /// What sites whose blocks are [`LARGE`] on average had at the peak of live bytes, and have no more: of those blocks that may have lain in
    /// the heap. Others had mappings of their own, and went back to the kernel when they were freed.
    pub given_up: u64,
    /// What chunks of the other sites took then at most, and do no more.
    pub small_given_up: u64,
    /// A block was freed that raises glibc's thresholds.
    pub rose: bool,
    /// What was live at the peak of live bytes and is not at the footprint's moment, whichever comes first.
    pub at_peak: AtPeak,
}

/// Blocks that were live at the peak of live bytes, and are not at the moment of a footprint, by where they may have lain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtPeak {
    /// In glibc's heap: what their chunks took at most.
    pub heap: u64,
    /// In mappings of their own, which go back to the kernel with them.
    pub mapped: u64,
    /// In memory of other allocators: requested bytes.
    pub others: u64,
}

/// Of a site, its blocks that are live at the moment.
#[derive(Clone, Copy, Default)]
struct LiveBlocks {
    blocks: u64,
    bytes: u64,
    largest: u64,
}

/// The highest thresholds that frees before the peak of live bytes may have brought.
struct Thresholds {
    /// By the frees of one site, which has this index among the process's.
    highest: (u64, usize),
    /// By those of any other.
    second: u64,
}

impl LargeBlocks {
    /// Of the process of a footprint, at its moment.
    pub fn of(profile: &Profile, footprint: &Footprint, heap: &HeapMap, owners: &Owners) -> Self {
        let mut live = vec![LiveBlocks::default(); profile.sites.len()];
        for block in &heap.blocks {
            if let Some(site) = live.get_mut(block.site as usize) {
                site.blocks += 1;
                site.bytes = site.bytes.saturating_add(block.size);
                site.largest = site.largest.max(block.size);
            }
        }
        let is_its = |at: usize| owners.inside(at as u32).is_empty() && !owners.has_foremost();
        let sites = profile.sites.iter().zip(live).enumerate();
        let mut all = Self::default();
        let mut own: Vec<(&Site, LiveBlocks)> = Vec::new();
        for (at, (site, live)) in sites.filter(|(_, (site, _))| site.process == footprint.process) {
            if is_its(at) {
                own.push((site, live));
            } else {
                all.at_peak.others = all.at_peak.others.saturating_add(gone(site, live));
            }
        }
        let thresholds = Thresholds::of(own.iter().map(|(site, _)| *site));
        let is_before = profile.peak_ms <= footprint.ms;
        for (at, &(site, live)) in own.iter().enumerate() {
            all.rose |= raises(site, live);
            let gone = gone(site, live);
            if site.counts.peak_bytes / site.counts.peak.max(1) < LARGE {
                let chunks = chunks_at_most(site.counts.peak.saturating_sub(live.blocks), gone);
                all.at_peak.heap = all.at_peak.heap.saturating_add(chunks);
                all.small_given_up = all.small_given_up.saturating_add(if is_before { chunks } else { 0 });
            } else if footprint.fixes_thresholds || thresholds.may_keep(at, site) {
                all.at_peak.heap = all.at_peak.heap.saturating_add(gone);
                all.given_up = all.given_up.saturating_add(if is_before { gone } else { 0 });
            } else {
                all.at_peak.mapped = all.at_peak.mapped.saturating_add(gone);
            }
        }
        all
    }
}

/// Requested bytes that a site had at the peak of live bytes, and has no more.
fn gone(site: &Site, live: LiveBlocks) -> u64 {
    site.counts.peak_bytes.saturating_sub(live.bytes)
}

/// What chunks of so many blocks and requested bytes take at most.
pub fn chunks_at_most(blocks: u64, bytes: u64) -> u64 {
    bytes.saturating_add(blocks.saturating_mul(OVERHEAD)).max(blocks.saturating_mul(LEAST_CHUNK))
}

impl Thresholds {
    fn of<'a>(sites: impl Iterator<Item = &'a Site>) -> Self {
        let mut found = Self { highest: (0, 0), second: 0 };
        for (at, threshold) in sites.map(threshold_before_peak).enumerate() {
            if threshold > found.highest.0 {
                (found.second, found.highest) = (found.highest.0, (threshold, at));
            } else {
                found.second = found.second.max(threshold);
            }
        }
        found
    }

    /// Whether blocks of a site that were live at the peak may have lain in the heap: an earlier free had raised the threshold above the
    /// size of one. Buffers that grow never fall below what their own steps freed.
    fn may_keep(&self, at: usize, site: &Site) -> bool {
        let (highest, highest_at) = self.highest;
        let threshold = if highest_at == at && grows(site) { self.second } else { highest };
        let counts = &site.counts;
        let smallest = if counts.peak == 1 { counts.peak_bytes } else { site.patterns.smallest };
        threshold > 0 && smallest < threshold
    }
}

/// The highest threshold to which frees of a site's blocks may have brought glibc before the peak of live bytes; 0: none. Blocks that were
/// live at the peak were not freed before it.
fn threshold_before_peak(site: &Site) -> u64 {
    let counts = &site.counts;
    let mean = counts.allocated_bytes / counts.allocations.max(1);
    let largest = site.patterns.largest.max(mean);
    if counts.allocations <= counts.peak || largest < LARGE || site.patterns.smallest.min(mean) > MOST {
        return 0;
    }
    // A mapping is whole pages, and has a header of 16 bytes.
    (largest.min(MOST) + 16).next_multiple_of(PAGE)
}

/// Whether each block of a site took over from a smaller one, by steps in proportion to its size: a buffer that grows.
fn grows(site: &Site) -> bool {
    let (counts, patterns) = (&site.counts, &site.patterns);
    let is_one = patterns.grown_buffers <= 1 && patterns.growth_steps.saturating_add(1) >= counts.allocations;
    is_one && counts.allocated_bytes <= patterns.largest.saturating_mul(GEOMETRIC)
}

/// Whether a site has had a block that raises the thresholds, and has it no more: its largest one, or any where they are so large on average.
fn raises(site: &Site, live: LiveBlocks) -> bool {
    let is_large = |size: u64| (LARGE..=MOST).contains(&size);
    let counts = &site.counts;
    let mean = counts.allocated_bytes / counts.allocations.max(1);
    is_large(site.patterns.largest) && live.largest < site.patterns.largest || is_large(mean) && counts.frees > 0
}
