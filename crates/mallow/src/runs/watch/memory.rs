//! What the kernel accounts for of a watched program, from report to report.

use mallow_capture::watch::Watch;
use mallow_report::analysis::sampled::Book;
use mallow_report::analysis::{MemoryParts, Watched, WatchedMemory, memory_parts, watched_memory};

/// The parts of RSS when the watching began.
#[derive(Default)]
pub struct MemoryHistory {
    before: Option<MemoryParts>,
}

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
}
