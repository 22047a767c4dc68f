//! What allocating takes, and from what on a suggestion is worth a word.
//!
//! Estimates rank suggestions of different kinds: what an allocation and its free take with the C library's allocator,
//! copying from cache and memory, and a free that has to go to another thread's arena. A program is compared with
//! itself alone, so their proportions matter and not the machine. What malloc takes of a run is between two bounds,
//! because it depends on sizes, lifetimes and caches: docs/design/analyses.md has the measurements.

use mallow_profile::{Counts, Process, Profile};
use rustc_hash::FxHashMap;

use super::insight::{SHARE, Savings};
use crate::analysis::rss::Allocator;

/// Estimated nanoseconds of an allocation and its free.
const ALLOCATION: f64 = 20.0;
/// Estimated nanoseconds of a copied byte.
const COPIED_BYTE: f64 = 0.1;
/// Estimated nanoseconds that a free by another thread takes beyond a free by its own, before anybody waits for a lock.
const FREED_BY_OTHER: f64 = 40.0;

/// Size, in bytes, from which on a block always has a mapping of its own in glibc (`DEFAULT_MMAP_THRESHOLD_MAX`), and
/// estimated nanoseconds of mmap, munmap and the first page of one.
const MAPPED: u64 = 32 << 20;
const MAPPING: f64 = 5000.0;

/// Least nanoseconds of an allocation and its free.
const ALLOCATION_LEAST: f64 = 5.0;
/// Most nanoseconds of each: an allocation and its free among many live blocks of all sizes, a copied byte, a free by
/// another thread, a byte of a large block, whose pages may come from the kernel each time.
const ALLOCATION_MOST: f64 = 1000.0;
const COPIED_BYTE_MOST: f64 = 0.5;
const FREED_BY_OTHER_MOST: f64 = 1000.0;
const LARGE_BYTE_MOST: f64 = 0.25;
/// Mean size of blocks, in bytes, from which on those of a site are large.
const LARGE_BLOCK: u64 = 64 << 10;

/// Savings from which on an insight is not small in itself; one of them suffices.
const ALLOCATIONS: u64 = 10_000;
const COPIED_BYTES: u64 = 10 << 20;
const PEAK_BYTES: u64 = 1 << 20;
/// Least allocations of so many bytes, which have to be cleared or fetched, that matter below [`ALLOCATIONS`].
const LARGE_ALLOCATIONS: u64 = 500;
const LARGE_BYTES: u64 = 10 << 20;

pub(crate) struct Whole {
    pub counts: Counts,
    /// Whether no other allocator than glibc's was seen.
    pub in_glibc: bool,
    time: f64,
    least_ns: f64,
    most_ns: f64,
    /// CPU time of the run; None where it is not known.
    cpu_ns: Option<f64>,
}

impl Whole {
    /// Costs a pass over the sites.
    pub fn of(profile: &Profile) -> Self {
        let patterns = || profile.sites.iter().map(|site| *site.patterns);
        let all = Savings {
            allocations: profile.totals.allocations,
            copied_bytes: patterns().fold(0, |sum, p| sum.saturating_add(p.copied_bytes)),
            freed_by_others: patterns().fold(0, |sum, p| sum.saturating_add(p.freed_by_others)),
            large_bytes: profile.sites.iter().fold(0, |sum, site| sum.saturating_add(large_bytes(&site.counts))),
            peak_bytes: 0,
        };
        Self {
            counts: profile.totals,
            in_glibc: !has_other_allocator(profile),
            time: time(&all)
                + profile
                    .sites
                    .iter()
                    .map(|site| mappings(site.counts.allocations, large_bytes(&site.counts)))
                    .sum::<f64>(),
            least_ns: if is_cpu_of_all(profile) { all.allocations as f64 * ALLOCATION_LEAST } else { 0.0 },
            most_ns: most(&all),
            cpu_ns: profile.cpu_us.filter(|&us| us > 0).map(|us| us as f64 * 1000.0),
        }
    }

    /// The estimated share of malloc's time that this saves; at most 1.
    pub fn malloc_share(&self, saves: &Savings) -> f64 {
        part(time(saves) + mappings(saves.allocations, saves.large_bytes), self.time)
    }

    /// The share of the bytes live at the peak that this saves; at most 1.
    pub fn peak_share(&self, saves: &Savings) -> f64 {
        part(saves.peak_bytes as f64, self.counts.peak_bytes as f64)
    }

    /// The most that this may save of the run's CPU time, as a share; None where that time is not known.
    pub fn run_share(&self, saves: &Savings) -> Option<f64> {
        self.cpu_ns.map(|cpu| part(most(saves), cpu))
    }

    /// Least and greatest share that malloc's time may have of the run's CPU time: the least is 0 where processes may
    /// have taken more than is known. None where that time is not known.
    pub fn malloc_of_run(&self) -> Option<(f64, f64)> {
        self.cpu_ns.map(|cpu| (part(self.least_ns, cpu), part(self.most_ns, cpu)))
    }

    /// Whether savings are worth an insight. `bytes` are those allocated there.
    pub fn matters(&self, saves: &Savings, bytes: u64) -> bool {
        let large = saves.allocations >= ALLOCATIONS
            || saves.copied_bytes >= COPIED_BYTES
            || saves.freed_by_others >= ALLOCATIONS
            || saves.peak_bytes >= PEAK_BYTES
            || saves.allocations >= LARGE_ALLOCATIONS && bytes >= LARGE_BYTES;
        large && self.malloc_share(saves).max(self.peak_share(saves)) >= SHARE
    }
}

/// The allocated bytes, if blocks are large on average; else 0.
pub(crate) fn large_bytes(counts: &Counts) -> u64 {
    let average = counts.allocated_bytes.checked_div(counts.allocations).unwrap_or(0);
    if average >= LARGE_BLOCK { counts.allocated_bytes } else { 0 }
}

fn time(s: &Savings) -> f64 {
    s.allocations as f64 * ALLOCATION + s.copied_bytes as f64 * COPIED_BYTE + s.freed_by_others as f64 * FREED_BY_OTHER
}

/// Estimated nanoseconds of mappings; 0 unless the blocks' mean size is at least [`MAPPED`].
fn mappings(allocations: u64, bytes: u64) -> f64 {
    if bytes.checked_div(allocations).is_some_and(|mean| mean >= MAPPED) { allocations as f64 * MAPPING } else { 0.0 }
}

fn most(s: &Savings) -> f64 {
    s.allocations as f64 * ALLOCATION_MOST
        + s.copied_bytes as f64 * COPIED_BYTE_MOST
        + s.freed_by_others as f64 * FREED_BY_OTHER_MOST
        + s.large_bytes as f64 * LARGE_BYTE_MOST
}

fn part(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).min(1.0) } else { 0.0 }
}

/// Whether `part` is at least `percent` hundredths of `whole`.
pub(crate) fn at_least(part: u64, percent: u64, whole: u64) -> bool {
    u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}

/// Whether somebody waited for each process, as far as the recording shows: the kernel adds the CPU time of a process
/// to that of the parent that waits for it, and a daemon's to nobody's.
fn is_cpu_of_all(profile: &Profile) -> bool {
    /// Milliseconds by which the end of a process is seen later than it was.
    const SEEN: u64 = 100;
    let Some(first) = profile.processes.first() else { return true };
    let mut ends: FxHashMap<u32, u64> = FxHashMap::default();
    for process in &profile.processes {
        let end = ends.entry(process.pid).or_default();
        *end = process.end_ms.max(*end);
    }
    let is_waited_for =
        |process: &Process| ends.get(&process.parent_pid).is_some_and(|end| end.saturating_add(SEEN) >= process.end_ms);
    profile.processes.iter().all(|process| process.pid == first.pid || is_waited_for(process))
}

fn has_other_allocator(profile: &Profile) -> bool {
    let mappings =
        profile.footprints.iter().flat_map(|footprint| &footprint.mappings).map(|mapping| mapping.name.as_str());
    let mut files = mappings.chain(profile.modules.iter().map(|module| module.path.as_str()));
    !profile.allocators_inside.is_empty() || files.any(|path| Allocator::of_library(path).is_some())
}
