//! Processes that wait at their exit until their memory was scanned, and how long they may.

use super::memory::HeldCopy;
use crate::chunk::ExitKind;
use crate::rundir::process_file::{ExitState, ProcessFile};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Waits may take one part in so many of the run's time so far, and [`LEAST`] in addition.
const SHARE: u32 = 10;
const LEAST: Duration = Duration::from_secs(1);

struct Waiting {
    source: Arc<ProcessFile>,
    since: Instant,
}

/// Processes that wait, and whose [`Chunk::Exit`](crate::chunk::Chunk::Exit) is in the spool.
#[derive(Default)]
pub struct Exits {
    waiting: Mutex<FxHashMap<u32, Waiting>>,
    /// Processes that wait no more, as they were copied, with their files.
    copies: Mutex<FxHashMap<u32, (Arc<ProcessFile>, HeldCopy)>>,
    changed: Condvar,
    closed: AtomicBool,
}

impl Exits {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<u32, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a process that has waited since `since`, and wakes [`Exits::wait`].
    pub fn add(&self, process: u32, source: Arc<ProcessFile>, since: Instant) {
        self.lock().insert(process, Waiting { source, since });
        self.changed.notify_all();
    }

    /// Adds the copy of a process that goes on.
    pub fn add_copy(&self, process: u32, source: Arc<ProcessFile>, copy: HeldCopy) {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).insert(process, (source, copy));
    }

    /// Takes out the copy of a process.
    pub fn take_copy(&self, process: u32) -> Option<(Arc<ProcessFile>, HeldCopy)> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner).remove(&process)
    }

    /// The file of a process that waits.
    pub fn source(&self, process: u32) -> Option<Arc<ProcessFile>> {
        self.lock().get(&process).map(|waiting| Arc::clone(&waiting.source))
    }

    pub fn remove(&self, process: u32) {
        self.lock().remove(&process);
    }

    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// The pid of the process that has waited longest, and for how long.
    pub fn longest(&self) -> Option<(u32, Duration)> {
        let waiting = self.lock();
        waiting.values().min_by_key(|waiting| waiting.since).map(|first| (first.source.pid, first.since.elapsed()))
    }

    /// Sleeps until a process waits or [`Exits::close`] was called, for `time` at the most.
    pub fn wait(&self, time: Duration) {
        let is_open = |waiting: &mut FxHashMap<_, _>| waiting.is_empty() && !self.closed.load(Ordering::Relaxed);
        let _ = self.changed.wait_timeout_while(self.lock(), time, is_open);
    }

    /// Notes that no process comes any more, and wakes whoever sleeps.
    pub fn close(&self) {
        let _waiting = self.lock();
        self.closed.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }
}

/// How far the drain is with an image's exit. An [`Instant`] is when its wait began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStage {
    /// The image has not come to its exit.
    Not,
    /// The image waits, and so many rounds are to follow: then what its last events depend on is in the spool.
    Rounds(u32, Instant),
    /// The image waits, those rounds are over, and the kernel's account of its memory is being read.
    Read(Instant),
    /// The image waits, its memory was read, and so many rounds are to follow: others may have written before that.
    Known(u32, Instant),
    /// The image waits, and the spool has its `Chunk::Exit`.
    Spooled(Instant),
    /// The image waits no more.
    Over,
}

impl ExitStage {
    /// Whether rounds are to follow before the image is handed to the replay.
    pub fn has_rounds(self) -> bool {
        matches!(self, Self::Rounds(..) | Self::Known(..))
    }

    /// Since when the image waits. None: it does not.
    pub fn since(self) -> Option<Instant> {
        match self {
            Self::Rounds(_, since) | Self::Read(since) | Self::Known(_, since) | Self::Spooled(since) => Some(since),
            Self::Not | Self::Over => None,
        }
    }
}

/// How long processes may wait in sum. One that waits for its scan makes others wait: a shell, a pipe, a forking
/// server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitBudget {
    spent: Duration,
    is_limited: bool,
}

impl WaitBudget {
    /// A limited budget is a tenth of the run's time so far, and a second.
    pub fn new(is_limited: bool) -> Self {
        Self { spent: Duration::ZERO, is_limited }
    }

    pub fn spend(&mut self, time: Duration) {
        self.spent = self.spent.saturating_add(time);
    }

    /// Whether the processes that wait now, for `now` in sum, have to go on. `elapsed`: since the run began.
    pub fn is_over(&self, now: Duration, elapsed: Duration) -> bool {
        self.is_limited && self.spent.saturating_add(now) > elapsed / SHARE + LEAST
    }
}

/// When the drain asks which processes have ended. An end that is noticed late adds the blocks of a process that is
/// gone to those of its successor.
#[derive(Clone, Copy, Debug)]
pub struct EndChecks {
    last: Instant,
    cost: Duration,
    is_asked: bool,
}

impl Default for EndChecks {
    fn default() -> Self {
        Self { last: Instant::now(), cost: Duration::ZERO, is_asked: false }
    }
}

/// Longest pause between two checks.
const END_CHECK_LONGEST: Duration = Duration::from_millis(50);
/// Checks take one part in so many of the drain's time at the most: the first while processes only run, the second
/// while many processes appear.
const END_CHECK_PARTS: [u32; 2] = [20, 4];
/// Up to so many running processes, each that appears is checked for: 20 us for each of them.
const END_CHECK_ALWAYS: usize = 64;

impl EndChecks {
    /// A process appeared: those that ended before must end in the spool before its first event.
    pub fn ask(&mut self) {
        self.is_asked = true;
    }

    /// Whether to ask now. `running`: how many processes; `has_words`: one of them wrote events.
    pub fn is_due(&self, running: usize, has_words: bool) -> bool {
        let least = match (self.is_asked, has_words) {
            (true, _) if running <= END_CHECK_ALWAYS => return true,
            (true, _) => self.cost * END_CHECK_PARTS[1],
            (false, true) => self.cost * END_CHECK_PARTS[0],
            (false, false) => END_CHECK_LONGEST,
        };
        self.last.elapsed() >= least.min(END_CHECK_LONGEST)
    }

    /// Notes a check that took `cost`.
    pub fn took(&mut self, cost: Duration) {
        *self = Self { last: Instant::now(), cost, is_asked: false };
    }
}

/// What the end of an image shows of its exit; None: it was scanned, or came to no exit.
pub fn unscanned(source: &ProcessFile) -> Option<ExitKind> {
    match source.exit_state() {
        ExitState::Waits => Some(ExitKind::Killed),
        ExitState::Sandboxed => Some(ExitKind::Sandboxed),
        ExitState::GaveUp => Some(ExitKind::GaveUp),
        ExitState::Exec | ExitState::Not => None,
    }
}

/// Whether the image of `source`, which is over, ended by exec. An image that called exec of the C library has noted
/// that; one that made the system call itself runs on as another program, or left an image of that among `others`.
pub fn is_replaced<'a>(source: &ProcessFile, mut others: impl Iterator<Item = &'a ProcessFile>) -> bool {
    if source.exit_state() == ExitState::Exec {
        return true;
    }
    // The executable of a process that is about to end cannot be read any more.
    let runs_on = || source.writer().is_some_and(|writer| writer.executable().is_some() && writer.alive());
    let came_after = |other: &ProcessFile| {
        other.pid == source.pid && other.start_ns() > source.start_ns() && other.began_with_exec() && {
            let (one, next) = (source.writer(), other.writer());
            one.is_none() || next.is_none() || one == next
        }
    };
    others.any(came_after) || (!source.is_attached() && !source.alive() && runs_on())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_appears_is_checked_for_at_once() {
        let mut checks = EndChecks { last: Instant::now(), cost: Duration::from_secs(60), is_asked: false };
        assert!(!checks.is_due(1, false) && !checks.is_due(END_CHECK_ALWAYS, true));
        checks.ask();
        assert!(checks.is_due(END_CHECK_ALWAYS, false) && checks.is_due(1, true));
        assert!(!checks.is_due(END_CHECK_ALWAYS + 1, true), "a check costs too much to be made for each of a crowd");
        checks.took(Duration::from_secs(60));
        assert!(!checks.is_due(1, true));
    }

    #[test]
    fn waits_take_a_tenth_of_the_run_and_a_second() {
        let seconds = Duration::from_secs;
        let mut budget = WaitBudget::new(true);
        assert!(!budget.is_over(Duration::from_millis(900), seconds(0)));
        assert!(budget.is_over(Duration::from_millis(1100), seconds(0)));
        budget.spend(seconds(3));
        assert!(budget.is_over(Duration::ZERO, seconds(19)));
        assert!(!budget.is_over(Duration::ZERO, seconds(21)));
        assert!(budget.is_over(seconds(1), seconds(29)));
        let mut endless = WaitBudget::new(false);
        endless.spend(seconds(1_000_000));
        assert!(!endless.is_over(seconds(1_000_000), seconds(0)));
    }
}
