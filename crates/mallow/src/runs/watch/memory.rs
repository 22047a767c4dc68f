//! What the kernel accounts for of a watched program, from report to report.

use std::time::{Duration, Instant};

use mallow_capture::watch::Watch;
use mallow_report::analysis::sampled::SampleLedger;
use mallow_report::analysis::{MemoryParts, OlderBlocks, Watched, WatchedMemory, watched_memory};

/// The parts of RSS when the watching began.
pub struct MemoryHistory {
    before: Option<MemoryParts>,
    /// The program may have allocated while nothing was sampled.
    was_unsampled: bool,
    shown: Option<Shown>,
}

/// The account that the live view has: reading another one takes a lock of the program.
struct Shown {
    read: Instant,
    took: Duration,
    memory: Option<WatchedMemory>,
}

/// An account is at least so old before it is read again, and so many times as old as reading it took.
#[derive(Clone, Copy)]
pub struct Rate {
    least: Duration,
    share: u32,
}

/// Rate of the live view.
pub const DRAWN: Rate = Rate { least: Duration::from_secs(1), share: 100 };
/// Rate of readings for the summary at the end, when there is no memory any more.
pub const KEPT: Rate = Rate { least: Duration::from_secs(5), share: 1000 };

impl MemoryHistory {
    /// The history of a program. `has_run`: mallow joined it, so that older blocks may not be known.
    pub fn new(has_run: bool) -> Self {
        Self { before: None, was_unsampled: has_run, shown: None }
    }

    /// Takes the first account of a program, once it runs. Called with each look: whoever switches sampling off is
    /// noticed.
    pub fn begin(&mut self, watch: &Watch, ledger: &SampleLedger) {
        self.was_unsampled |= !watch.control().sampling();
        if self.before.is_some() || watch.running() == 0 {
            return;
        }
        let footprints = watch.footprints();
        if !footprints.is_empty() {
            let live_bytes = ledger.history().last().map_or(0, |&(_, bytes)| bytes);
            self.before = Some(MemoryParts::of(&footprints, live_bytes));
        }
    }

    /// The account that belongs to a report. None: no process runs, or none may be read.
    pub fn of(&mut self, watch: &Watch, report: &Watched) -> Option<WatchedMemory> {
        let footprints = watch.footprints();
        if footprints.is_empty() {
            return None;
        }
        let live_bytes = report.live_bytes.value.max(0.0) as u64;
        let before = *self.before.get_or_insert_with(|| MemoryParts::of(&footprints, live_bytes));
        let older_blocks = match report.attached_ms {
            Some(_) => Some(OlderBlocks::Attached),
            None => self.was_unsampled.then_some(OlderBlocks::Unsampled),
        };
        Some(watched_memory(&footprints, &report.live_bytes, older_blocks, &before))
    }

    /// The account for reports that are made more often than memory should be read.
    pub fn shown(&mut self, watch: &Watch, report: &Watched, rate: Rate) -> Option<WatchedMemory> {
        let is_fresh = |shown: &Shown| shown.read.elapsed() < rate.least.max(shown.took.saturating_mul(rate.share));
        if !self.shown.as_ref().is_some_and(is_fresh) {
            let read = Instant::now();
            let memory = self.of(watch, report);
            self.shown = Some(Shown { read, took: read.elapsed(), memory });
        }
        self.shown.as_ref()?.memory.clone()
    }
}
