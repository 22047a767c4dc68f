//! Patterns of what sites do with their blocks, found while events are counted: [`Patterns`].
//!
//! Costs a line of memory for each allocation and each release, 64 bytes a site, and more only for the sites that do
//! something rare. Everything follows from the order of one thread's events, which rings keep exactly.

use mallow_arch::prefetch::prefetch;
use mallow_profile::{Block, Moment, Patterns, Site, overhead};
use rustc_hash::FxHashMap;

/// Frees in a row from which on a run counts as one.
const RUN: u32 = 16;
/// A step of a growing buffer may have so many other allocations of its thread between the new block and the free of
/// the old one: the element that is added may need memory too.
const BETWEEN: u32 = 1;
/// A block of this many bytes or more, given up for one of double the size from another site, is taken for a buffer
/// that grows; smaller sizes meet by chance. The C++ library's strings begin with this one.
const SMALLEST: u64 = 31;
/// Smallest size of a large block, in bytes.
const LARGE: u64 = 64 << 10;
/// glibc moves the pages of a block of so many bytes, whatever its settings have become meanwhile, and copies nothing.
const MOVED_BY_PAGES: u64 = 32 << 20;
/// Growing buffers that are remembered; beyond that, some are taken for new ones.
const GROWING: usize = 1 << 12;

/// Why a block is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    Free,
    Realloc,
    /// No event shows the release: the address was handed out again, or the process ended.
    Unseen,
}

/// State that each event of a site changes, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Track {
    smallest: u64,
    largest: u64,
    freed_in_runs: u64,
    last_sequence: u64,
    last_size: u64,
    last_number: u32,
    last_thread: u32,
    /// Modulo 2^32; the multiples of 2^32 are in [`Tracker::rare`].
    alternating: u32,
    /// Modulo 2^32; the multiples of 2^32 are in [`Tracker::rare`].
    overhead_bytes: u32,
    runs: u32,
    last_run: u32,
}

impl Default for Track {
    fn default() -> Self {
        Self {
            smallest: u64::MAX,
            largest: 0,
            freed_in_runs: 0,
            last_sequence: u64::MAX,
            last_size: 0,
            last_number: 0,
            last_thread: u32::MAX,
            alternating: 0,
            overhead_bytes: 0,
            runs: 0,
            last_run: 0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    /// Allocations of the thread, modulo 2^32.
    number: u32,
    /// Frees of the thread since its last allocation.
    frees: u32,
    /// Number of the run that these frees are, valid from [`RUN`] frees on.
    run: u32,
    last_site: u32,
    last_size: u64,
    last_sequence: u64,
}

impl Default for Thread {
    fn default() -> Self {
        Self { number: 0, frees: 0, run: 0, last_site: u32::MAX, last_size: 0, last_sequence: u64::MAX }
    }
}

#[derive(Debug, Default)]
pub struct Tracker {
    sites: Vec<Track>,
    /// Patterns that few sites have, by site, without sizes and runs: [`Track`] has these.
    rare: FxHashMap<u32, Patterns>,
    threads: Vec<Thread>,
    runs: u32,
    /// Sequence numbers of blocks that are growing buffers, by their hash; empty before the first one.
    growing: Vec<u64>,
    /// Bytes by which a live large block had grown last, by its number, where that is a quarter of its size or more.
    large: FxHashMap<u64, u64>,
}

impl Tracker {
    /// Asks for the memory that the next event of a site needs.
    #[inline]
    pub fn prefetch(&self, site: usize) {
        prefetch(&self.sites, site);
    }

    /// A block was allocated, other than by realloc of another one.
    #[inline]
    pub fn allocated(&mut self, at: Moment, block: &Block) {
        let (site, index) = (block.site as usize, at.thread as usize);
        if site >= self.sites.len() || index >= self.threads.len() {
            self.make_room(site, index);
        }
        let thread = &mut self.threads[index];
        thread.number = thread.number.wrapping_add(1);
        thread.frees = 0;
        thread.last_site = block.site;
        thread.last_size = block.size;
        thread.last_sequence = block.sequence;
        let track = &mut self.sites[site];
        track.smallest = track.smallest.min(block.size);
        track.largest = track.largest.max(block.size);
        track.last_sequence = block.sequence;
        track.last_size = block.size;
        track.last_number = thread.number;
        track.last_thread = at.thread;
        // At most 32 each.
        let (bytes, is_over) = track.overhead_bytes.overflowing_add(overhead(block.size) as u32);
        track.overhead_bytes = bytes;
        if is_over {
            rare(&mut self.rare, block.site).overhead_bytes += 1 << 32;
        }
    }

    /// The thread allocated something that is not watched.
    #[inline]
    pub fn passed(&mut self, at: Moment) {
        if let Some(thread) = self.threads.get_mut(at.thread as usize) {
            thread.number = thread.number.wrapping_add(1);
            thread.frees = 0;
        }
    }

    /// Notes a realloc that succeeded; `old` is None where it is not watched. The release of `old` comes first.
    pub fn reallocated(&mut self, at: Moment, old: Option<&Block>, new: &Block, moved: bool) {
        self.allocated(at, new);
        if let Some(old) = old
            && old.size < new.size
        {
            let copied = if moved && old.size < MOVED_BY_PAGES { old.size } else { 0 };
            self.grown(at, old, new.site, (new.sequence, new.size), copied);
        }
    }

    /// Notes the release of a block whose process began at `start_ms`.
    #[inline]
    pub fn released(&mut self, at: Moment, block: &Block, why: Release, start_ms: u64) {
        let (site, index) = (block.site as usize, at.thread as usize);
        if site >= self.sites.len() || index >= self.threads.len() {
            self.make_room(site, index);
        }
        if why == Release::Free {
            self.freed(at, block);
        }
        // A buffer that was copied into a larger one is none that is kept.
        if block.size >= LARGE {
            self.large_released(block, at.ms, start_ms, why);
        }
    }

    #[inline]
    fn freed(&mut self, at: Moment, block: &Block) {
        let thread = &mut self.threads[at.thread as usize];
        let track = &mut self.sites[block.site as usize];
        if block.thread == Block::thread_mark(at.thread) {
            let last = track.last_sequence == block.sequence || thread.last_sequence == block.sequence;
            let (count, is_over) = track.alternating.overflowing_add(u32::from(last));
            track.alternating = count;
            if is_over {
                rare(&mut self.rare, block.site).alternating += 1 << 32;
            }
        } else {
            rare(&mut self.rare, block.site).freed_by_others += 1;
        }
        thread.frees += 1;
        match thread.frees {
            1 => self.free_after_allocation(at, block),
            2..RUN => {}
            frees => {
                if frees == RUN {
                    self.runs += 1;
                    thread.run = self.runs;
                }
                track.freed_in_runs += 1;
                track.runs += u32::from(track.last_run != thread.run);
                track.last_run = thread.run;
            }
        }
    }

    /// A free right after an allocation is how a buffer moves into a larger block, without realloc: the old block is
    /// that of the same site, or half as large.
    #[inline]
    fn free_after_allocation(&mut self, at: Moment, old: &Block) {
        let thread = self.threads[at.thread as usize];
        let track = self.sites[old.site as usize];
        let again = track.last_thread == at.thread
            && thread.number.wrapping_sub(track.last_number) <= BETWEEN
            && track.last_size > old.size;
        if again {
            self.grown(at, old, old.site, (track.last_sequence, track.last_size), old.size);
            return;
        }
        // Strings have one byte more than their capacity.
        let double = old.size.saturating_mul(2);
        if old.size >= SMALLEST && (thread.last_size == double || thread.last_size == double - 1) {
            self.grown(at, old, thread.last_site, (thread.last_sequence, thread.last_size), old.size);
        }
    }

    /// The block of this number and size took over from `old`.
    fn grown(&mut self, at: Moment, old: &Block, site: u32, (sequence, size): (u64, u64), copied: u64) {
        if self.growing.is_empty() {
            self.growing = vec![u64::MAX; GROWING];
        }
        let slot = |sequence: u64| (sequence.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % GROWING;
        let first = self.growing[slot(old.sequence)] != old.sequence;
        self.growing[slot(sequence)] = sequence;
        let patterns = rare(&mut self.rare, site);
        patterns.growth_steps += 1;
        patterns.grown_buffers += u64::from(first);
        patterns.copied_bytes = patterns.copied_bytes.saturating_add(copied);
        let slack = size - old.size;
        // What grew from less than an eighth grew to a size that somebody knew.
        if size >= LARGE && (size / 4..=size - size / 8).contains(&slack) {
            self.large.insert(sequence, slack);
        }
        // It was needed after all.
        self.large.remove(&old.sequence);
        // What is freed after the old block is another one: a block without a size takes over from none.
        let (track, thread) = (&mut self.sites[site as usize], &mut self.threads[at.thread as usize]);
        if track.last_sequence == sequence {
            track.last_size = 0;
        }
        if thread.last_sequence == sequence {
            thread.last_size = 0;
        }
    }

    #[cold]
    fn large_released(&mut self, block: &Block, ms: u64, start_ms: u64, why: Release) {
        let Some(slack) = self.large.remove(&block.sequence) else { return };
        let kept = ms.saturating_sub(block.ms);
        if why != Release::Realloc && kept > 0 && kept.saturating_mul(2) >= ms.saturating_sub(start_ms) {
            let patterns = rare(&mut self.rare, block.site);
            patterns.kept += 1;
            patterns.kept_bytes = patterns.kept_bytes.saturating_add(block.size);
            patterns.kept_slack = patterns.kept_slack.saturating_add(slack);
        }
    }

    /// Notes a block that is live at the end of its process, at `ms`; the process began at `start_ms`.
    pub fn live(&mut self, block: &Block, ms: u64, start_ms: u64) {
        if block.size >= LARGE {
            self.large_released(block, ms, start_ms, Release::Unseen);
        }
    }

    /// Writes the patterns into the sites. Patterns of sites without events here stay.
    pub fn close(mut self, sites: &mut [Site]) {
        for ((number, site), track) in (0..).zip(sites).zip(self.sites) {
            let rare = self.rare.remove(&number).unwrap_or_default();
            let patterns = Patterns {
                smallest: track.smallest,
                largest: track.largest,
                alternating: rare.alternating + u64::from(track.alternating),
                freed_in_runs: track.freed_in_runs,
                runs: track.runs.into(),
                overhead_bytes: rare.overhead_bytes + u64::from(track.overhead_bytes),
                ..rare
            };
            site.patterns = patterns.into();
        }
    }

    #[cold]
    fn make_room(&mut self, site: usize, thread: usize) {
        if site >= self.sites.len() {
            self.sites.resize(site + 1, Track::default());
        }
        if thread >= self.threads.len() {
            self.threads.resize(thread + 1, Thread::default());
        }
    }
}

#[inline]
fn rare(all: &mut FxHashMap<u32, Patterns>, site: u32) -> &mut Patterns {
    all.entry(site).or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mallow_profile::{Counts, ProcessId, Stacks};

    #[test]
    fn counts_of_a_long_run_do_not_wrap() {
        let mut tracker = Tracker::default();
        let at = Moment { process: 0, thread: 0, ms: 1 };
        let block = Block { sequence: 1, site: 0, size: 40, ms: 1, thread: Block::thread_mark(0) };
        tracker.allocated(at, &block);
        tracker.sites[0].alternating = u32::MAX;
        tracker.sites[0].overhead_bytes = u32::MAX - 5;
        tracker.allocated(at, &block);
        tracker.released(at, &block, Release::Free, 0);
        let mut sites = [Site::of(ProcessId(0), Stacks::ROOT, Counts::default())];
        tracker.close(&mut sites);
        assert_eq!(sites[0].patterns.alternating, 1 << 32);
        assert_eq!(sites[0].patterns.overhead_bytes, (1 << 32) - 6 + 8);
    }
}
