//! What the kernel accounts for of a watched program, from report to report.

use std::time::{Duration, Instant};

use mallow_capture::watch::Watch;
use mallow_report::analysis::sampled::Book;
use mallow_report::analysis::{MemoryParts, Watched, WatchedMemory, memory_parts, watched_memory};

/// The parts of RSS when the watching began.
#[derive(Default)]
pub struct MemoryHistory {
    before: Option<MemoryParts>,
    shown: Option<Shown>,
}

/// The account that the live view has: reading another one takes a lock of the program.
struct Shown {
    read: Instant,
    took: Duration,
    memory: Option<WatchedMemory>,
}

/// The live view's account is at least so old before it is read again, and so many times as old as reading it took.
const SHOWN: Duration = Duration::from_secs(1);
const SHARE: u32 = 100;

impl MemoryHistory {
    /// Takes the first account of a program, once it runs.
    pub fn begin(&mut self, watch: &Watch, book: &Book) {
        if self.before.is_some() || watch.running() == 0 {
            return;
        }
        let footprints = watch.footprints();
        if !footprints.is_empty() {
            let live_bytes = book.history().last().map_or(0, |&(_, bytes)| bytes);
            self.before = Some(memory_parts(&footprints, live_bytes));
        }
    }

    /// The account that belongs to a report. None: no process runs, or none may be read.
    pub fn of(&mut self, watch: &Watch, report: &Watched) -> Option<WatchedMemory> {
        let footprints = watch.footprints();
        if footprints.is_empty() {
            return None;
        }
        let live_bytes = report.live_bytes.value.max(0.0) as u64;
        let before = *self.before.get_or_insert_with(|| memory_parts(&footprints, live_bytes));
        Some(watched_memory(&footprints, live_bytes, &before))
    }

    /// The account for the live view, which is drawn more often than memory should be read.
    pub fn shown(&mut self, watch: &Watch, report: &Watched) -> Option<WatchedMemory> {
        let is_fresh = |shown: &Shown| shown.read.elapsed() < SHOWN.max(shown.took.saturating_mul(SHARE));
        if !self.shown.as_ref().is_some_and(is_fresh) {
            let read = Instant::now();
            let memory = self.of(watch, report);
            self.shown = Some(Shown { read, took: read.elapsed(), memory });
        }
        self.shown.as_ref()?.memory.clone()
    }
}
