//! The ledger of a recording: everything a profile is made of, and the one place where events become sums.
//!
//! The replay fills it from rings, the recording's reader from event blocks; both post the same operations.
//!
//! The state of every site at the peak is kept without touching all sites when a peak is set. Peaks have generations;
//! a site whose snapshot is older than the current generation has not changed since that peak was set, so its live
//! counts still are its counts at the peak, and the next event of the site takes the snapshot before it changes them.
//! The end of its process takes the last one: where a peak is set after that, nothing of the site was live then.

use super::catalog::Catalog;
use super::patterns::{Release, Tracker};
use mallow_arch::prefetch::prefetch;
use mallow_profile::{
    Block, Call, Counts, Ending, Moment, Process, ProcessId, Profile, Site, StackId, Strings, Thread,
};

#[derive(Clone, Debug, Default)]
struct Running {
    /// Blocks whose address was handed out again before a free; taken off the foreign frees at the process's end.
    unseen_frees: u64,
    sites: Vec<u32>,
    live_bytes: u64,
    ended: bool,
}

#[derive(Debug, Default)]
pub struct Ledger {
    pub catalog: Catalog,
    pub threads: Vec<Thread>,
    /// Totals of a process stay 0 until [`Ledger::close`].
    pub processes: Vec<Process>,
    /// The `peak` of a site is valid only if its snapshot is of the current generation, see the module's text.
    pub sites: Vec<Site>,
    tracker: Tracker,
    running: Vec<Running>,
    snapshots: Vec<u64>,
    last_allocation: Vec<u64>,
    sequence: u64,
    frees: u64,
    /// The latest time of an event so far: each thread has its own clock, and events keep their order.
    clock: u64,
    live_bytes: u64,
    peak_bytes: u64,
    peak_ms: u64,
    peak_generation: u64,
}

impl Ledger {
    /// A new ledger with the processes, threads and sites of `profile` and all counts at 0, to count some of their
    /// events again. Modules, frames and stacks stay with the profile.
    pub fn again(profile: &Profile) -> Self {
        let mut ledger = Self::default();
        for process in &profile.processes {
            ledger.add_process(Process {
                threads: 0,
                totals: Default::default(),
                own_peak_bytes: 0,
                own_peak_ms: 0,
                families: Default::default(),
                foreign_frees: 0,
                ..process.clone()
            });
        }
        for thread in &profile.threads {
            ledger.add_thread(thread.process.0, thread.tid);
        }
        for site in &profile.sites {
            ledger.add_site(site.process.0, site.stack);
        }
        ledger
    }

    /// Adds a process and returns its index in `processes`.
    pub fn add_process(&mut self, process: Process) -> u32 {
        self.processes.push(process);
        self.running.push(Running::default());
        (self.processes.len() - 1) as u32
    }

    /// Adds a thread to a process and returns its index. Precondition: the process exists.
    pub fn add_thread(&mut self, process: u32, tid: u32) -> u32 {
        self.threads.push(Thread { process: ProcessId(process), tid });
        self.last_allocation.push(u64::MAX);
        self.processes[process as usize].threads += 1;
        (self.threads.len() - 1) as u32
    }

    /// Adds a site that is not there yet and returns its index. Precondition: the process exists.
    pub fn add_site(&mut self, process: u32, stack: StackId) -> u32 {
        let site = self.sites.len() as u32;
        self.sites.push(Site::of(ProcessId(process), stack, Counts::default()));
        self.snapshots.push(self.peak_generation);
        self.running[process as usize].sites.push(site);
        site
    }

    /// Moves the clock forward to `ms`, the time of an event that is not counted here; an earlier `ms` changes nothing.
    #[inline]
    pub fn advance(&mut self, ms: u64) {
        self.clock = self.clock.max(ms);
    }

    /// Posts an allocation. Precondition of each method with a [`Moment`]: process, thread and site exist and match.
    #[inline]
    pub fn allocate(&mut self, at: Moment, call: Call) -> Block {
        let block = self.count_allocation(at, call);
        self.tracker.allocated(at, &block);
        block
    }

    #[inline]
    fn count_allocation(&mut self, at: Moment, call: Call) -> Block {
        self.advance(at.ms);
        let thread = Block::thread_mark(at.thread);
        let block = Block { sequence: self.sequence, site: call.site, size: call.size, ms: at.ms, thread };
        self.sequence += 1;
        self.last_allocation[at.thread as usize] = block.sequence;

        self.snapshot(call.site);
        let counts = &mut self.sites[call.site as usize].counts;
        counts.allocations += 1;
        counts.allocated_bytes = counts.allocated_bytes.saturating_add(call.size);

        let process = &mut self.processes[at.process as usize];
        let calls = &mut process.families.calls[call.family as usize];
        calls.0 += 1;
        calls.1 = calls.1.saturating_add(call.size);
        let running = &mut self.running[at.process as usize];
        running.live_bytes = running.live_bytes.saturating_add(call.size);
        if running.live_bytes > process.own_peak_bytes {
            process.own_peak_bytes = running.live_bytes;
            process.own_peak_ms = self.clock;
        }
        self.live_bytes = self.live_bytes.saturating_add(call.size);
        if self.live_bytes > self.peak_bytes {
            self.peak_bytes = self.live_bytes;
            self.peak_ms = self.clock;
            self.peak_generation += 1;
        }
        block
    }

    /// Gives a number to an allocation that is not counted, so that other blocks are temporary as if it were counted.
    #[inline]
    pub fn pass(&mut self, at: Moment) {
        self.last_allocation[at.thread as usize] = self.sequence;
        self.sequence += 1;
        self.tracker.passed(at);
    }

    /// Posts a call of free. A `block` of None was not seen allocated, and counts as a foreign free.
    #[inline]
    pub fn free(&mut self, at: Moment, block: Option<&Block>) {
        self.processes[at.process as usize].families.frees += 1;
        self.count_free(at, block, Release::Free);
    }

    /// Posts a realloc to size 0 that freed.
    pub fn realloc_free(&mut self, at: Moment, block: Option<&Block>) {
        self.realloc_released(at, block, Release::Free);
    }

    /// Posts the release of a block whose free was not seen: its address was handed out again. A free that fits no
    /// block may be that one: each unseen free takes one off the process's foreign frees at its end.
    pub fn unseen_free(&mut self, at: Moment, block: &Block) {
        self.advance(at.ms);
        self.running[at.process as usize].unseen_frees += 1;
        self.release(at, block, Release::Unseen);
    }

    /// Posts a realloc that succeeded. An `old` block of None was not seen allocated.
    pub fn reallocate(&mut self, at: Moment, old: Option<&Block>, call: Call, moved: bool) -> Block {
        self.realloc_released(at, old, Release::Realloc);
        let block = self.count_reallocation(at, call, moved);
        self.tracker.reallocated(at, old, &block, moved);
        block
    }

    /// Posts the allocating half of a realloc that succeeded; the release of the old block is not counted.
    pub fn reallocated(&mut self, at: Moment, call: Call, moved: bool) -> Block {
        let block = self.count_reallocation(at, call, moved);
        self.tracker.reallocated(at, None, &block, moved);
        block
    }

    fn count_reallocation(&mut self, at: Moment, call: Call, moved: bool) -> Block {
        let block = self.count_allocation(at, call);
        let families = &mut self.processes[at.process as usize].families;
        let counts = &mut self.sites[call.site as usize].counts;
        if moved {
            families.reallocs_moved += 1;
            counts.reallocs_moved += 1;
        } else {
            families.reallocs_in_place += 1;
            counts.reallocs_in_place += 1;
        }
        block
    }

    fn realloc_released(&mut self, at: Moment, old: Option<&Block>, why: Release) {
        self.processes[at.process as usize].families.realloc_frees += 1;
        self.count_free(at, old, why);
    }

    #[inline]
    fn count_free(&mut self, at: Moment, block: Option<&Block>, why: Release) {
        self.advance(at.ms);
        self.frees += 1;
        match block {
            Some(block) => self.release(at, block, why),
            None => self.processes[at.process as usize].foreign_frees += 1,
        }
    }

    /// A block is temporary if the thread that allocated it frees it before its next allocation. A free by another
    /// thread does not count: rings do not record reproducibly whether that came before.
    #[inline]
    fn release(&mut self, at: Moment, block: &Block, why: Release) {
        self.snapshot(block.site);
        let counts = &mut self.sites[block.site as usize].counts;
        counts.frees += 1;
        counts.freed_bytes = counts.freed_bytes.saturating_add(block.size);
        if self.last_allocation[at.thread as usize] == block.sequence {
            counts.temporary += 1;
            counts.temporary_bytes = counts.temporary_bytes.saturating_add(block.size);
        }
        let running = &mut self.running[at.process as usize];
        running.live_bytes = running.live_bytes.saturating_sub(block.size);
        self.live_bytes = self.live_bytes.saturating_sub(block.size);
        self.tracker.released(at, block, why, self.processes[at.process as usize].start_ms);
    }

    /// Asks for the memory that the next event of a site needs.
    #[inline]
    pub fn prefetch(&self, site: u32) {
        let site = site as usize;
        prefetch(&self.sites, site);
        prefetch(&self.snapshots, site);
        self.tracker.prefetch(site);
    }

    #[inline]
    fn snapshot(&mut self, site: u32) {
        let snapshot = &mut self.snapshots[site as usize];
        if *snapshot < self.peak_generation {
            *snapshot = self.peak_generation;
            let counts = &mut self.sites[site as usize].counts;
            counts.peak = counts.allocations.wrapping_sub(counts.frees);
            counts.peak_bytes = counts.allocated_bytes.wrapping_sub(counts.freed_bytes);
        }
    }

    /// Ends a process at `ms`, with the blocks that are still live. A second call for the same process does nothing.
    pub fn end_process(&mut self, process: u32, ms: u64, live: impl Iterator<Item = Block>) {
        self.advance(ms);
        let running = &mut self.running[process as usize];
        if running.ended {
            return;
        }
        running.ended = true;
        self.live_bytes = self.live_bytes.saturating_sub(running.live_bytes);
        running.live_bytes = 0;
        let ended = &mut self.processes[process as usize];
        ended.end_ms = ms;
        let start_ms = ended.start_ms;
        ended.foreign_frees = ended.foreign_frees.saturating_sub(running.unseen_frees);
        for site in std::mem::take(&mut running.sites) {
            self.snapshot(site);
        }
        for block in live {
            self.tracker.live(&block, ms, start_ms);
            let site = &mut self.sites[block.site as usize];
            if site.counts.live == 0 {
                site.live_oldest_ms = block.ms;
                site.live_youngest_ms = block.ms;
            }
            site.counts.live += 1;
            site.counts.live_bytes = site.counts.live_bytes.saturating_add(block.size);
            site.live_oldest_ms = site.live_oldest_ms.min(block.ms);
            site.live_youngest_ms = site.live_youngest_ms.max(block.ms);
        }
    }

    /// Allocations so far, those passed over included: the sequence number of the next one.
    pub fn allocations(&self) -> u64 {
        self.sequence
    }

    /// Frees so far, foreign ones included.
    pub fn frees(&self) -> u64 {
        self.frees
    }

    /// Requested bytes that are live now, over all processes.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Requested bytes of a process that are live now; 0 where there is no such process.
    pub fn live_bytes_of(&self, process: u32) -> u64 {
        self.running.get(process as usize).map_or(0, |running| running.live_bytes)
    }

    /// The highest `live_bytes` so far.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Closes the ledger. Precondition: all processes have ended.
    pub fn close(mut self) -> Profile {
        self.tracker.close(&mut self.sites);
        for (site, snapshot) in self.sites.iter_mut().zip(&self.snapshots) {
            if *snapshot < self.peak_generation {
                (site.counts.peak, site.counts.peak_bytes) = (0, 0);
            }
            self.processes[site.process.0 as usize].totals += site.counts;
        }
        let mut profile = Profile {
            ending: Ending {
                lost: self.processes.iter().fold(0, |sum, p| sum.saturating_add(p.lost)),
                ..Ending::default()
            },
            peak_ms: self.peak_ms,
            strings: Strings::default(),
            modules: self.catalog.modules,
            frames: self.catalog.frames,
            stacks: self.catalog.stacks,
            processes: self.processes,
            threads: self.threads,
            sites: self.sites,
            ..Profile::default()
        };
        for process in &profile.processes {
            profile.totals += process.totals;
        }
        profile
    }
}
