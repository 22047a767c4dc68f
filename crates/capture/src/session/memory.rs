//! Reads the memory of processes while they are recorded. Neither the drain nor the targets wait for that, but at an exit: for those
//! there is a thread of their own, as the other may get no processor for long.

use crate::drain::memory::{Finding, MemoryQueue};
use crate::footprint::{Failure, Reading, Schedule, Subject, is_higher, resident};
use crate::rundir::directory::RunDirectory;
use crate::rundir::process_file::{ExitState, ProcessFile};
use crate::wire::control;
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often it looks at the RSS of processes. A look costs some microseconds, and takes no lock of the process.
const LOOK: Duration = Duration::from_millis(20);
/// Processes that are looked at each time; where there are more, they take turns.
const TOGETHER: usize = 64;
/// A point of a process's RSS is noted if it differs by this part of the last one, or after this time.
const POINT_STEP: u64 = 100;
const POINT_MS: u64 = 1000;

/// What is known of a process.
struct Known {
    pid: u32,
    schedule: Schedule,
    readings: u64,
    highest: u64,
    /// Time and RSS of the last point.
    point: Option<(u64, u64)>,
    /// It waits at its exit: what was read of it before that is out of date.
    is_exiting: bool,
}

/// Reads the processes of a run until its queue is closed. Its two methods are for a thread each.
pub struct Reader<'a> {
    run: &'a RunDirectory,
    queue: &'a MemoryQueue,
    known: Mutex<FxHashMap<u32, Known>>,
}

impl<'a> Reader<'a> {
    /// Of `run`, whose processes `queue` has.
    pub fn new(run: &'a RunDirectory, queue: &'a MemoryQueue) -> Self {
        Self { run, queue, known: Mutex::default() }
    }

    /// Looks at processes that run.
    pub fn serve_running(&self) {
        let mut turn = 0;
        while self.queue.is_on() {
            let running = self.queue.running_after(LOOK);
            let is_there = |process: &u32| running.binary_search_by_key(process, |(number, _)| *number).is_ok();
            self.lock().retain(|process, _| is_there(process));
            let count = running.len();
            for at in 0..count.min(TOGETHER) {
                let (process, source) = &running[(turn + at) % count];
                self.look(*process, source);
            }
            turn = if count > TOGETHER { (turn + TOGETHER) % count } else { 0 };
        }
    }

    /// Reads processes that wait at their exit. They have nothing left to do, so this costs them no time of their own.
    pub fn serve_exits(&self) {
        while self.queue.is_on() {
            for (process, source) in self.queue.exiting() {
                if self.with(process, &source, |known| known.is_exiting = true).is_some() {
                    let _ = self.read(process, &source, true);
                }
                self.queue.exit_read(process);
                self.run.control().futex_wake(control::DOORBELL);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<u32, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `act` with what is known of a process. None: it is gone, or cannot be found.
    fn with<T>(&self, process: u32, source: &ProcessFile, act: impl FnOnce(&mut Known) -> T) -> Option<T> {
        let mut known = self.lock();
        let one = match known.entry(process) {
            Entry::Occupied(one) => one.into_mut(),
            Entry::Vacant(place) => {
                let pid = source.writer()?.pid();
                let schedule = Schedule::new(self.run.began().elapsed(), source.is_forked());
                place.insert(Known { pid, schedule, readings: 0, highest: 0, point: None, is_exiting: false })
            }
        };
        Some(act(one))
    }

    /// Looks at a process that runs.
    fn look(&self, process: u32, source: &ProcessFile) {
        let (now, ms) = (self.run.began().elapsed(), self.run.elapsed_ms());
        let Some(pid) = self.with(process, source, |known| known.pid) else { return };
        let Some(rss) = resident(pid).filter(|&rss| rss > 0) else { return };
        let is_waiting = source.exit_state() == ExitState::Waits;
        let (is_due, is_point) = self
            .with(process, source, |known| {
                // One that waits at its exit is read as such.
                let is_due = known.schedule.due(now, rss).is_some() && !is_waiting;
                let is_new = known.point.is_none_or(|(at, last)| {
                    rss.abs_diff(last) > last / POINT_STEP || ms.saturating_sub(at) >= POINT_MS
                });
                let is_point = !is_due && is_new && source.alive();
                if is_point {
                    known.point = Some((ms, rss));
                }
                (is_due, is_point)
            })
            .unwrap_or_default();
        if is_due {
            let _ = self.read(process, source, false);
        }
        if is_point {
            self.queue.put([Finding::Rss { process, ms, rss }]);
        }
    }

    fn read(&self, process: u32, source: &ProcessFile, is_at_exit: bool) -> Result<(), Failure> {
        let (now, ms) = (self.run.began().elapsed(), self.run.elapsed_ms());
        let directory = self.run.path().file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let pid = self.with(process, source, |known| known.pid).ok_or(Failure::Gone)?;
        let began = Instant::now();
        let read = Reading::of(&Subject { pid, process, directory: &directory, is_at_exit });
        let (cost, rss) = (began.elapsed(), read.as_ref().map_or(0, |reading| reading.footprint.totals.rss));
        let number = self.with(process, source, |known| {
            // A failure costs as much as what it failed at.
            known.schedule.read(now, rss, cost);
            known.readings += 1;
            known.readings
        });
        let mut reading = read?;
        (reading.number, reading.footprint.ms) = (number.ok_or(Failure::Gone)?, ms);
        // Not while the other thread waits: it takes long for a large process.
        let words = reading.to_words();
        // Read while the image was there: after an exec the memory is another one's.
        let still_waits = !is_at_exit || source.exit_state() == ExitState::Waits;
        let is_there = source.alive() && still_waits;
        self.with(process, source, |known| {
            if !is_there || (known.is_exiting && !is_at_exit) {
                return Err(Failure::Gone);
            }
            known.point = Some((ms, rss));
            // As the replay decides it.
            let is_highest = is_higher(rss, known.highest);
            known.highest = if is_highest { rss } else { known.highest };
            self.queue.keep(process, reading.number, is_highest);
            self.queue.put([Finding::Reading { process, words }]);
            Ok(())
        })
        .ok_or(Failure::Gone)?
    }
}

/// Closes the queue when dropped, so that nobody waits for a reader that failed.
pub struct Closing(pub Arc<MemoryQueue>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}
