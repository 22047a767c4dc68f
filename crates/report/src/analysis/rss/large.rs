//! Blocks that glibc gives mappings of their own at first, and what freeing one of them does to its thresholds.

use mallow_profile::{Footprint, HeapMap, MappingKind, Profile, Site};

use super::geometry::PAGE;
use super::owners::Owners;

/// Size, in bytes, from which on blocks have mappings of their own in glibc, until the first of them is freed: the
/// threshold rises to its size then, and that for the end of the heap to twice as much.
pub const LARGE: u64 = 128 << 10;
/// Largest mapping, in bytes, whose end raises the thresholds (`DEFAULT_MMAP_THRESHOLD_MAX`).
const MOST: u64 = 32 << 20;
/// Bytes of a mapping before its block.
const MAPPING_HEADER: u64 = 16;
/// Arenas of threads begin at multiples of this (`HEAP_MAX_SIZE`).
const ARENA: u64 = 64 << 20;

/// Most bytes that a chunk takes beyond the request: its header, and rounding to 16 bytes.
const OVERHEAD: u64 = 8 + 15;
/// Bytes of the smallest chunk.
const LEAST_CHUNK: u64 = 32;
/// Requested bytes of all steps of a buffer that grows by a quarter and more are at most this many times the last
/// step's.
const GEOMETRIC: u64 = 5;

/// What glibc's large blocks have done to a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LargeBlocks {
    /// Requested bytes at the peak of live bytes, freed since, of sites whose blocks are [`LARGE`] on average, as far
    /// as these may have lain in the heap. Others had mappings of their own, and went back to the kernel when they were
    /// freed.
    pub given_up: u64,
    /// Most bytes that chunks of all other sites took at the peak, and do no more.
    pub small_given_up: u64,
    /// Whether a block was freed that raises glibc's thresholds.
    pub rose: bool,
    /// Blocks that were live at the peak of live bytes and are not at the footprint's moment, whichever comes first.
    pub at_peak: AtPeak,
}

/// Blocks that were live at the peak of live bytes, and are not at the moment of a footprint, by where they may have
/// lain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtPeak {
    /// Most bytes that the blocks' chunks took in glibc's heap.
    pub heap: u64,
    /// Bytes of blocks with mappings of their own, which go back to the kernel with them.
    pub mapped: u64,
    /// Bytes of which nothing tells whether they were in the heap or in mappings of their own.
    pub unknown: u64,
    /// Requested bytes in memory of other allocators.
    pub others: u64,
}

/// The blocks of a site that are live at the footprint's moment.
#[derive(Clone, Copy, Default)]
struct LiveBlocks {
    blocks: u64,
    bytes: u64,
    /// Bytes of the large ones, each with its mapping.
    large_bytes: u64,
    largest: u64,
}

/// The highest thresholds that frees before the peak of live bytes may have brought.
struct Thresholds {
    /// Highest threshold by the frees of one site, and that site's index among the process's.
    highest: (u64, usize),
    /// Highest threshold by the frees of any other site.
    second: u64,
}

impl LargeBlocks {
    pub fn of(profile: &Profile, footprint: &Footprint, heap: &HeapMap, owners: &Owners) -> Self {
        let is_its = |at: usize| owners.inside(at as u32).is_empty() && !owners.has_foremost();
        let mut live = vec![LiveBlocks::default(); profile.sites.len()];
        // One that has no mapping of its own now: so may others have had none, by mallopt or in a gap.
        let mut is_in_heap = false;
        for block in &heap.blocks {
            let is_large = block.size >= LARGE;
            is_in_heap |= is_large && block.address % PAGE != MAPPING_HEADER && is_its(block.site as usize);
            if let Some(site) = live.get_mut(block.site as usize) {
                site.blocks += 1;
                site.bytes = site.bytes.saturating_add(block.size);
                site.large_bytes = site.large_bytes.saturating_add(if is_large { block.size } else { 0 });
                site.largest = site.largest.max(block.size);
            }
        }
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
        let (large, small): (Vec<_>, Vec<_>) =
            own.iter().enumerate().partition(|(_, (site, _))| mean_at_peak(site) >= LARGE);
        for (_, &(site, live)) in small {
            all.rose |= raises(site, live);
            let chunks = chunks_at_most(site.counts.peak.saturating_sub(live.blocks), gone(site, live));
            // Among them may be large ones.
            let is_known = !footprint.fixes_thresholds && site.patterns.largest.min(site.counts.peak_bytes) < LARGE;
            let of = if is_known { &mut all.at_peak.heap } else { &mut all.at_peak.unknown };
            *of = of.saturating_add(chunks);
            all.small_given_up = all.small_given_up.saturating_add(if is_before { chunks } else { 0 });
        }
        // A large block has no mapping where a gap of the heap, or its end, has room for it.
        let heaps = heaps(footprint).saturating_add(all.at_peak.heap).max(LARGE);
        for (at, &(site, live)) in large {
            all.rose |= raises(site, live);
            let gone = gone(site, live);
            let may_keep = footprint.fixes_thresholds || thresholds.may_keep(at, site);
            all.given_up = all.given_up.saturating_add(if may_keep && is_before { gone } else { 0 });
            if may_keep || is_in_heap || least_at_peak(site) < heaps {
                all.at_peak.unknown = all.at_peak.unknown.saturating_add(gone);
            } else {
                let mapped = site.counts.peak_bytes.saturating_sub(live.large_bytes);
                all.at_peak.mapped = all.at_peak.mapped.saturating_add(mapped);
            }
        }
        all
    }
}

/// Bytes of the address space of the heap and of the threads' arenas.
fn heaps(footprint: &Footprint) -> u64 {
    let is_one = |kind, start: u64| match kind {
        MappingKind::Heap => true,
        MappingKind::Anonymous => start.is_multiple_of(ARENA),
        _ => false,
    };
    let own = footprint.mappings.iter().filter(|mapping| is_one(mapping.kind, mapping.start));
    own.fold(0u64, |sum, mapping| sum.saturating_add(mapping.end.saturating_sub(mapping.start)))
}

/// Mean size, in bytes, of the site's blocks that were live at the peak of live bytes.
fn mean_at_peak(site: &Site) -> u64 {
    site.counts.peak_bytes / site.counts.peak.max(1)
}

/// Lower bound of the size, in bytes, of each block of the site that was live at the peak: all others were no larger
/// than its largest.
fn least_at_peak(site: &Site) -> u64 {
    let mean = mean_at_peak(site);
    let others = site.counts.peak.saturating_sub(1).saturating_mul(site.patterns.largest.max(mean));
    site.patterns.smallest.min(mean).max(site.counts.peak_bytes.saturating_sub(others))
}

/// Requested bytes that a site had at the peak of live bytes, and has no more.
fn gone(site: &Site, live: LiveBlocks) -> u64 {
    site.counts.peak_bytes.saturating_sub(live.bytes)
}

/// Most bytes that chunks of so many blocks and requested bytes take.
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

    /// Whether blocks of a site that were live at the peak may have lain in the heap: an earlier free had raised the
    /// threshold above the size of one. Buffers that grow never fall below what their own steps freed.
    fn may_keep(&self, at: usize, site: &Site) -> bool {
        let (highest, highest_at) = self.highest;
        let threshold = if highest_at == at && grows(site) { self.second } else { highest };
        threshold > 0 && least_at_peak(site) < threshold
    }
}

/// The highest threshold to which frees of a site's blocks may have brought glibc before the peak of live bytes; 0 for
/// none. Blocks that were live at the peak were not freed before it, and a buffer that realloc grew is freed once.
fn threshold_before_peak(site: &Site) -> u64 {
    let counts = &site.counts;
    if counts.peak > 0 && is_grown_by_realloc(site) {
        return 0;
    }
    let mean = counts.allocated_bytes / counts.allocations.max(1);
    let largest = site.patterns.largest.max(mean);
    if counts.allocations <= counts.peak || largest < LARGE || mapping_of(site.patterns.smallest.min(mean)) > MOST {
        return 0;
    }
    mapping_of(largest).min(MOST)
}

/// Bytes of the mapping of a block: whole pages.
fn mapping_of(size: u64) -> u64 {
    size.saturating_add(MAPPING_HEADER).checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
}

/// Whether the site is a buffer that grows: each block took over from a smaller one, by steps in proportion to its
/// size.
fn grows(site: &Site) -> bool {
    is_one_buffer(site) && site.counts.allocated_bytes <= site.patterns.largest.saturating_mul(GEOMETRIC)
}

fn is_one_buffer(site: &Site) -> bool {
    let (counts, patterns) = (&site.counts, &site.patterns);
    patterns.grown_buffers <= 1 && patterns.growth_steps.saturating_add(1) >= counts.allocations
}

/// Whether realloc made each block of a site from the one before: realloc moves a mapping or gives it back, and leaves
/// the thresholds. Only free raises them, of the last block.
fn is_grown_by_realloc(site: &Site) -> bool {
    let counts = &site.counts;
    let reallocs = counts.reallocs_in_place.saturating_add(counts.reallocs_moved);
    reallocs > 0 && reallocs.saturating_add(1) >= counts.allocations && is_one_buffer(site)
}

/// Whether a site has freed a block that raises the thresholds: its largest one, or any where they are so large on
/// average.
fn raises(site: &Site, live: LiveBlocks) -> bool {
    let is_large = |size: u64| size >= LARGE && mapping_of(size) <= MOST;
    let counts = &site.counts;
    if is_grown_by_realloc(site) {
        return is_large(site.patterns.largest) && live.blocks == 0;
    }
    let mean = counts.allocated_bytes / counts.allocations.max(1);
    is_large(site.patterns.largest) && live.largest < site.patterns.largest || is_large(mean) && counts.frees > 0
}
