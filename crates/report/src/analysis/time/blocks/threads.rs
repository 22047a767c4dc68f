//! Which thread allocates, and which one frees.

use std::cmp::Reverse;

use mallow_profile::{Block, Call, Event, Moment, ProcessId, Profile};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Threads that allocated or freed, the one with the most allocations first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Threads {
    /// Threads that allocated or freed, shown or not.
    pub threads_in_all: u64,
    /// Allocations of all threads.
    pub allocations: u64,
    /// Requested bytes of `allocations`.
    pub allocated_bytes: u64,
    /// Threads of all processes, the most allocations first.
    pub threads: Vec<ThreadRow>,
    /// Pairs of threads of one process, where one freed what the other allocated; the most blocks first.
    pub pairs: Vec<ThreadPair>,
    /// Pairs of threads, shown or not.
    pub pairs_in_all: u64,
    /// Blocks of all pairs.
    pub handed_over: u64,
    /// Requested bytes of the blocks in `handed_over`.
    pub handed_over_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadRow {
    /// Process id.
    pub pid: u32,
    /// Thread id of the system; null where the target did not report it.
    pub tid: Option<u32>,
    /// Name of the thread; null where it is not known, or is that of the process.
    pub name: Option<String>,
    /// Path of the executable of the thread's process.
    pub program: String,
    /// Allocations of the thread, reallocs included.
    pub allocations: u64,
    /// Requested bytes of `allocations`.
    pub allocated_bytes: u64,
    /// Most bytes of the thread's blocks that were live at once, whoever freed them.
    pub own_peak_bytes: u64,
    /// Blocks that the thread freed, by realloc too.
    pub frees: u64,
    /// Blocks among `frees` that another thread had allocated.
    pub frees_of_others: u64,
    /// Blocks that the thread allocated and another thread freed.
    pub freed_by_others: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadPair {
    /// Process id.
    pub pid: u32,
    /// Id of the thread that allocated; null where the target did not report it.
    pub allocated_by: Option<u32>,
    /// Id of the thread that freed; null where the target did not report it.
    pub freed_by: Option<u32>,
    /// Blocks that one thread allocated and the other freed.
    pub blocks: u64,
    /// Requested bytes of the blocks in `blocks`.
    pub bytes: u64,
}

/// Counts what threads do, event by event. Of processes with several threads, remembers who allocated each live block:
/// about 24 bytes a block.
#[derive(Debug)]
pub struct ThreadsBuilder {
    rows: Vec<ThreadRow>,
    live: Vec<u64>,
    /// By process, the index of its thread where it has only one.
    only: Vec<Option<u32>>,
    owners: FxHashMap<u64, u32>,
    pairs: FxHashMap<(u32, u32), (u64, u64)>,
}

impl ThreadsBuilder {
    pub fn new(profile: &Profile) -> Self {
        let name = |index: usize| profile.thread_names.get(index).filter(|name| !name.is_empty());
        // What does not name its threads has that of its first one everywhere.
        let mut main: FxHashMap<ProcessId, &String> = FxHashMap::default();
        for (index, thread) in profile.threads.iter().enumerate() {
            let process = profile.processes.get(thread.process.0 as usize);
            if let (Some(process), Some(name)) = (process, name(index))
                && process.pid == thread.tid
            {
                main.insert(thread.process, name);
            }
        }
        let row = |(index, thread): (usize, &mallow_profile::Thread)| {
            let process = profile.processes.get(thread.process.0 as usize);
            let own_name = name(index).filter(|name| main.get(&thread.process) != Some(name));
            ThreadRow {
                pid: process.map_or(0, |process| process.pid),
                tid: Some(thread.tid).filter(|tid| *tid > 0),
                name: own_name.cloned(),
                program: process.map_or(String::new(), |process| process.executable.clone()),
                ..ThreadRow::default()
            }
        };
        let mut threads: Vec<Vec<u32>> = vec![Vec::new(); profile.processes.len()];
        for (index, thread) in profile.threads.iter().enumerate() {
            if let Some(of) = threads.get_mut(thread.process.0 as usize) {
                of.push(index as u32);
            }
        }
        Self {
            rows: profile.threads.iter().enumerate().map(row).collect(),
            live: vec![0; profile.threads.len()],
            only: threads.iter().map(|all| if let [one] = all[..] { Some(one) } else { None }).collect(),
            owners: FxHashMap::default(),
            pairs: FxHashMap::default(),
        }
    }

    /// `number` counts the allocations of the whole recording before this event.
    pub fn event(&mut self, number: u64, at: Moment, event: &Event) {
        match *event {
            Event::Allocate(call) => self.allocate(number, at, call),
            Event::Reallocate { call, old, .. } => {
                self.free(at, old, true);
                self.allocate(number, at, call);
            }
            Event::Free(block) | Event::ReallocFree(block) => self.free(at, block, true),
            // Nobody saw which thread freed it.
            Event::UnseenFree(block) => self.free(at, Some(block), false),
            Event::Region { .. } | Event::EndProcess => {}
        }
    }

    fn only(&self, at: Moment) -> Option<u32> {
        self.only.get(at.process as usize).copied().flatten()
    }

    fn allocate(&mut self, number: u64, at: Moment, call: Call) {
        if self.only(at).is_none() {
            self.owners.insert(number, at.thread);
        }
        let index = at.thread as usize;
        let (Some(row), Some(live)) = (self.rows.get_mut(index), self.live.get_mut(index)) else { return };
        row.allocations += 1;
        row.allocated_bytes = row.allocated_bytes.saturating_add(call.size);
        *live = live.saturating_add(call.size);
        row.own_peak_bytes = row.own_peak_bytes.max(*live);
    }

    fn free(&mut self, at: Moment, block: Option<Block>, by_thread: bool) {
        let Some(block) = block else { return };
        let owner = self.only(at).or_else(|| self.owners.remove(&block.sequence));
        if let Some(live) = owner.and_then(|owner| self.live.get_mut(owner as usize)) {
            *live = live.saturating_sub(block.size);
        }
        if !by_thread {
            return;
        }
        if let Some(row) = self.rows.get_mut(at.thread as usize) {
            row.frees += 1;
        }
        let Some(owner) = owner.filter(|owner| *owner != at.thread) else { return };
        if let Some(row) = self.rows.get_mut(at.thread as usize) {
            row.frees_of_others += 1;
        }
        if let Some(row) = self.rows.get_mut(owner as usize) {
            row.freed_by_others += 1;
        }
        let (blocks, bytes) = self.pairs.entry((owner, at.thread)).or_default();
        *blocks += 1;
        *bytes = bytes.saturating_add(block.size);
    }

    /// Lists at most `limit` threads and `limit` pairs; the sums cover all.
    pub fn finish(self, limit: usize) -> Threads {
        let tid = |index: u32| self.rows.get(index as usize).and_then(|row| row.tid);
        let pid = |index: u32| self.rows.get(index as usize).map_or(0, |row| row.pid);
        let mut pairs: Vec<_> = self.pairs.iter().collect();
        pairs.sort_by_key(|&(threads, &(blocks, bytes))| (Reverse((blocks, bytes)), *threads));
        let sum = |of: fn(&(u64, u64)) -> u64| pairs.iter().fold(0u64, |sum, (_, pair)| sum.saturating_add(of(pair)));
        let (handed_over, handed_over_bytes) = (sum(|pair| pair.0), sum(|pair| pair.1));
        let pairs_in_all = pairs.len() as u64;
        let pair = |(&(from, to), &(blocks, bytes)): (&(u32, u32), &(u64, u64))| ThreadPair {
            pid: pid(from),
            allocated_by: tid(from),
            freed_by: tid(to),
            blocks,
            bytes,
        };
        let pairs = pairs.into_iter().take(limit).map(pair).collect();
        let mut threads: Vec<ThreadRow> =
            self.rows.into_iter().filter(|row| row.allocations > 0 || row.frees > 0).collect();
        threads.sort_by_key(|row| Reverse((row.allocations, row.allocated_bytes)));
        let threads_in_all = threads.len() as u64;
        let all = |of: fn(&ThreadRow) -> u64| threads.iter().fold(0u64, |sum, row| sum.saturating_add(of(row)));
        let (allocations, allocated_bytes) = (all(|row| row.allocations), all(|row| row.allocated_bytes));
        threads.truncate(limit);
        Threads {
            threads_in_all,
            allocations,
            allocated_bytes,
            threads,
            pairs,
            pairs_in_all,
            handed_over,
            handed_over_bytes,
        }
    }
}
