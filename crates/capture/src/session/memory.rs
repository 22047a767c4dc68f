//! Reads the memory of processes while they are recorded: a thread of its own, which the drain and the targets do not wait for, but
//! at an exit.

use crate::drain::memory::{Finding, MemoryQueue};
use crate::footprint::{Failure, Reading, Schedule, Subject, is_higher, resident};
use crate::rundir::directory::RunDirectory;
use crate::rundir::process_file::{ExitState, ProcessFile};
use crate::wire::control;
use rustc_hash::FxHashMap;
use std::sync::Arc;
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
}

/// Reads until the queue is closed.
pub fn serve(run: &RunDirectory, queue: &MemoryQueue) {
    let mut reader = Reader { run, queue, known: FxHashMap::default() };
    let (mut next, mut turn) = (Instant::now(), 0);
    while queue.is_on() {
        let (exits, running) = queue.wait(next.saturating_duration_since(Instant::now()));
        for process in exits {
            if let Some((_, source)) = running.iter().find(|(number, _)| *number == process) {
                reader.read_at_exit(process, source);
            }
            queue.exit_read(process);
            run.control().futex_wake(control::DOORBELL);
        }
        if Instant::now() < next {
            continue;
        }
        next = Instant::now() + LOOK;
        reader.known.retain(|process, _| running.binary_search_by_key(process, |(number, _)| *number).is_ok());
        let count = running.len();
        for at in 0..count.min(TOGETHER) {
            let (process, source) = &running[(turn + at) % count];
            reader.look(*process, source);
        }
        turn = if count > TOGETHER { (turn + TOGETHER) % count } else { 0 };
    }
}

struct Reader<'a> {
    run: &'a RunDirectory,
    queue: &'a MemoryQueue,
    known: FxHashMap<u32, Known>,
}

impl Reader<'_> {
    /// None: the process is gone, or cannot be found.
    fn known(&mut self, process: u32, source: &ProcessFile) -> Option<&mut Known> {
        if !self.known.contains_key(&process) {
            let pid = source.writer()?.pid();
            let schedule = Schedule::new(self.run.began().elapsed(), source.is_forked());
            self.known.insert(process, Known { pid, schedule, readings: 0, highest: 0, point: None });
        }
        self.known.get_mut(&process)
    }

    /// Looks at a process that runs.
    fn look(&mut self, process: u32, source: &ProcessFile) {
        let (now, ms) = (self.run.began().elapsed(), self.run.elapsed_ms());
        let Some(known) = self.known(process, source) else { return };
        let Some(rss) = resident(known.pid).filter(|&rss| rss > 0) else { return };
        let is_due = known.schedule.due(now, rss).is_some();
        let is_new = known
            .point
            .is_none_or(|(at, last)| rss.abs_diff(last) > last / POINT_STEP || ms.saturating_sub(at) >= POINT_MS);
        // One that waits at its exit is read as such.
        if is_due && source.exit_state() != ExitState::Waits {
            let _ = self.read(process, source, false);
        } else if is_new && source.alive() {
            known.point = Some((ms, rss));
            self.queue.put([Finding::Rss { process, ms, rss }]);
        }
    }

    /// Reads a process that waits at its exit. It has nothing left to do, so this costs it no time of its own.
    fn read_at_exit(&mut self, process: u32, source: &ProcessFile) {
        if self.known(process, source).is_some() {
            let _ = self.read(process, source, true);
        }
    }

    fn read(&mut self, process: u32, source: &ProcessFile, is_at_exit: bool) -> Result<(), Failure> {
        let (now, ms) = (self.run.began().elapsed(), self.run.elapsed_ms());
        let directory = self.run.path().file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        let known = self.known.get_mut(&process).ok_or(Failure::Gone)?;
        let began = Instant::now();
        let read = Reading::of(&Subject { pid: known.pid, process, directory: &directory, is_at_exit });
        // A failure costs as much as what it failed at.
        known.schedule.read(now, read.as_ref().map_or(0, |reading| reading.footprint.totals.rss), began.elapsed());
        let mut reading = read?;
        // Read while the image was there: after an exec the memory is another one's.
        let still_waits = !is_at_exit || source.exit_state() == ExitState::Waits;
        if !source.alive() || !still_waits {
            return Err(Failure::Gone);
        }
        known.readings += 1;
        (reading.number, reading.footprint.ms) = (known.readings, ms);
        let rss = reading.footprint.totals.rss;
        known.point = Some((ms, rss));
        // As the replay decides it.
        let is_highest = is_higher(rss, known.highest);
        known.highest = if is_highest { rss } else { known.highest };
        self.queue.keep(process, reading.number, is_highest);
        self.queue.put([Finding::Reading { process, words: reading.to_words() }]);
        Ok(())
    }
}

/// Closes the queue when dropped, so that nobody waits for a reader that failed.
pub struct Closing(pub Arc<MemoryQueue>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}
