//! What the drain and the reader of processes' memory tell each other. The reader waits for files of `/proc`, so it is
//! a thread of its own; what it has read goes into the spool by the drain, between what the process did before and
//! after.

use crate::rundir::process_file::ProcessFile;
use crate::scan::ProcessCopy;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The RSS of a process.
    Rss {
        process: u32,
        /// Milliseconds since the recording began.
        ms: u64,
        /// RSS in bytes.
        rss: u64,
        /// Highest RSS in bytes that the kernel had noted by then.
        peak: u64,
        /// How far each ring was written at that moment, indexed by the number of the ring.
        heads: Vec<u64>,
    },
    /// The highest RSS of a process's whole life, found at its end.
    FinalRss {
        process: u32,
        /// Milliseconds since the recording began.
        ms: u64,
        /// Highest RSS in bytes.
        peak: u64,
    },
    /// A reading begins, or has ended.
    Moment {
        process: u32,
        /// Number of the reading in its process: 1, 2, 3, …
        number: u64,
        is_end: bool,
        /// How far each ring was written at that begin or end, indexed by the number of the ring.
        heads: Vec<u64>,
    },
    Reading {
        process: u32,
        /// As [`crate::footprint::Reading::to_words`] encodes it.
        words: Vec<u64>,
    },
}

#[derive(Default)]
struct Queue {
    running: BTreeMap<u32, Arc<ProcessFile>>,
    /// Processes that wait at their exit and were not read yet.
    exits: FxHashSet<u32>,
    findings: Vec<Finding>,
    /// Copies of processes that wait at their exit and were read.
    copies: FxHashMap<u32, HeldCopy>,
    /// Numbers of the highest and of the last reading, by process.
    kept: FxHashMap<u32, (u64, u64)>,
}

/// A copy that counts in [`MemoryQueue::copied_bytes`] until it is dropped.
#[derive(Debug)]
pub struct HeldCopy {
    pub copy: ProcessCopy,
    /// How far each ring was written before the copy began: it has the blocks of that moment.
    pub heads: Vec<u64>,
    held: Arc<AtomicU64>,
}

impl Drop for HeldCopy {
    fn drop(&mut self) {
        self.held.fetch_sub(self.copy.bytes(), Ordering::Relaxed);
    }
}

#[derive(Default)]
pub struct MemoryQueue {
    queue: Mutex<Queue>,
    changed: Condvar,
    is_on: AtomicBool,
    held: Arc<AtomicU64>,
}

impl fmt::Debug for MemoryQueue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("MemoryQueue").field("is_on", &self.is_on).finish_non_exhaustive()
    }
}

impl MemoryQueue {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that there is a reader from here on; no process is added before.
    pub fn open(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// Notes that there is no reader any more, and wakes whoever waits.
    pub fn close(&self) {
        let mut queue = self.lock();
        self.is_on.store(false, Ordering::Relaxed);
        queue.exits.clear();
        self.changed.notify_all();
    }

    /// Whether there is a reader.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub fn add(&self, process: u32, source: Arc<ProcessFile>) {
        if self.is_on() {
            self.lock().running.insert(process, source);
        }
    }

    /// Removes a process that has ended, or waits no more, and its copy.
    pub fn remove(&self, process: u32) {
        let mut queue = self.lock();
        queue.running.remove(&process);
        queue.exits.remove(&process);
        let copy = queue.copies.remove(&process);
        drop(queue);
        drop(copy);
    }

    /// Keeps a copy of a process that waits at its exit, before [`Self::exit_read`]. `heads`: as [`HeldCopy::heads`].
    pub fn put_copy(&self, process: u32, copy: ProcessCopy, heads: Vec<u64>) {
        self.held.fetch_add(copy.bytes(), Ordering::Relaxed);
        let copy = HeldCopy { copy, heads, held: Arc::clone(&self.held) };
        let mut queue = self.lock();
        // It may have ended, or was let go: nobody would take it.
        if queue.exits.contains(&process) {
            queue.copies.insert(process, copy);
        }
    }

    /// Takes out the copy of a process that waits at its exit.
    pub fn take_copy(&self, process: u32) -> Option<HeldCopy> {
        self.lock().copies.remove(&process)
    }

    /// Bytes of all copies that are held, by whom ever.
    pub fn copied_bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Has the memory of a process that waits at its exit read at once. False: nobody reads it.
    pub fn exits(&self, process: u32) -> bool {
        let mut queue = self.lock();
        let is_read = self.is_on() && queue.running.contains_key(&process);
        if is_read {
            queue.exits.insert(process);
            self.changed.notify_all();
        }
        is_read
    }

    /// Processes that wait at their exit for their memory to be read.
    pub fn awaited(&self) -> FxHashSet<u32> {
        self.lock().exits.clone()
    }

    /// What was found since the last call.
    pub fn take(&self) -> Vec<Finding> {
        std::mem::take(&mut self.lock().findings)
    }

    /// Sleeps for `time`, or until a process waits at its exit. Returns processes that do, and all that run.
    pub fn wait(&self, time: Duration) -> (Vec<u32>, Vec<(u32, Arc<ProcessFile>)>) {
        let is_idle = |queue: &mut Queue| queue.exits.is_empty() && self.is_on();
        let waited = self.changed.wait_timeout_while(self.lock(), time, is_idle);
        let (queue, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let exits = queue.exits.iter().copied().collect();
        (exits, queue.running.iter().map(|(&process, source)| (process, Arc::clone(source))).collect())
    }

    pub fn put(&self, findings: impl IntoIterator<Item = Finding>) {
        self.lock().findings.extend(findings);
    }

    /// Reading `number` of a process is the last one so far, and perhaps the highest.
    pub fn keep(&self, process: u32, number: u64, is_highest: bool) {
        let mut queue = self.lock();
        let kept = queue.kept.entry(process).or_default();
        *kept = (if is_highest { number } else { kept.0 }, number);
    }

    /// Whether a reading is still the highest or the last one of its process. A replay that lags behind need not place
    /// blocks in the others.
    pub fn is_kept(&self, process: u32, number: u64) -> bool {
        self.lock().kept.get(&process).is_none_or(|&(highest, last)| number == highest || number == last)
    }

    /// Whether a reading that has begun may be one that is kept.
    pub fn may_be_kept(&self, process: u32, number: u64) -> bool {
        self.lock().kept.get(&process).is_none_or(|&(highest, last)| number == highest || number >= last)
    }

    /// The process that waits at its exit was read, or cannot be.
    pub fn exit_read(&self, process: u32) {
        self.lock().exits.remove(&process);
    }
}
