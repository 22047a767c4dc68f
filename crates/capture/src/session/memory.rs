//! Reads the memory of processes while they are recorded: a thread of its own, which the drain and the targets do not
//! wait for, but at an exit.

use super::headroom;
use crate::drain::memory::{Finding, MemoryQueue};
use crate::footprint::{
    Failure, Look, OwnRanges, Reading, Resident, Schedule, Subject, copied_pages, is_higher, resident,
};
use crate::pace::cpu_time;
use crate::rundir::directory::RunDirectory;
use crate::rundir::process_file::{ExitState, ProcessFile};
use crate::scan::{Exit, ProcessCopy};
use crate::wire::control;
use mallow_profile::MemorySizes;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two looks at the RSS of processes. A look costs some microseconds, and takes no lock of the process.
const LOOK: Duration = Duration::from_millis(20);
/// Processes that are looked at each time, at the most; where there are more, they take turns.
const TOGETHER: usize = 64;
/// A point of a process's RSS is noted if RSS or its maximum differs by more than one part in so many from the last
/// point, or after [`POINT_MS`].
const POINT_STEP: u64 = 100;
const POINT_MS: u64 = 100;
/// Attempts at most to read the memory of a process that runs, until its sizes and its pages agree. Each costs as much
/// as the first one.
const ATTEMPTS: usize = 2;
/// Most bytes of all copies of processes that wait for their scan, which are there beside what was copied; and most of
/// what memory is available: one in [`SHARE_OF_AVAILABLE`] bytes.
const COPIED_MOST: u64 = 256 << 20;
const SHARE_OF_AVAILABLE: u64 = 4;
const PAGE: u64 = 4096;

struct Known {
    pid: u32,
    schedule: Schedule,
    /// Bytes of pages that the process got since it began; 0 unless it may share pages with another recorded process.
    copied: u64,
    readings: u64,
    highest: Option<MemorySizes>,
    /// Milliseconds, RSS and its maximum of the last point.
    point: Option<(u64, Resident)>,
}

impl Known {
    fn is_new(&self, ms: u64, now: Resident) -> bool {
        let differs = |a: u64, b: u64| a.abs_diff(b) > b / POINT_STEP;
        self.point.is_none_or(|(at, last)| {
            differs(now.rss, last.rss) || differs(now.peak, last.peak) || ms.saturating_sub(at) >= POINT_MS
        })
    }
}

/// Reads until the queue is closed. `is_scanning`: processes that wait at their exit are searched for lost blocks, and
/// therefore copied.
pub fn serve(run: &RunDirectory, queue: &MemoryQueue, is_scanning: bool) {
    let mut reader = Reader { run, queue, is_scanning, known: FxHashMap::default(), families: FxHashMap::default() };
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
        reader.families = families(&running);
        let count = running.len();
        for at in 0..count.min(TOGETHER) {
            let (process, source) = &running[(turn + at) % count];
            reader.look(*process, source);
        }
        turn = if count > TOGETHER { (turn + TOGETHER) % count } else { 0 };
    }
}

/// Processes that may share pages with another one that is recorded: forked children, and their parents, with the
/// children of each. What a child copies is then the parent's alone, too.
fn families(running: &[(u32, Arc<ProcessFile>)]) -> FxHashMap<u32, Vec<u32>> {
    let forked = || running.iter().filter(|(_, source)| source.is_forked());
    let mut children: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
    forked().for_each(|(number, source)| children.entry(source.parent_pid()).or_default().push(*number));
    let members = running.iter().filter(|(_, source)| source.is_forked() || children.contains_key(&source.pid));
    members.map(|(number, source)| (*number, children.get(&source.pid).cloned().unwrap_or_default())).collect()
}

/// Words that each ring of a process has got since it began.
fn heads(source: &ProcessFile) -> Vec<u64> {
    (0..source.threads()).map(|ring| source.head(ring)).collect()
}

struct Reader<'a> {
    run: &'a RunDirectory,
    queue: &'a MemoryQueue,
    is_scanning: bool,
    known: FxHashMap<u32, Known>,
    families: FxHashMap<u32, Vec<u32>>,
}

impl Reader<'_> {
    /// None: the process is gone, or cannot be found.
    fn known(&mut self, process: u32, source: &ProcessFile) -> Option<&mut Known> {
        if !self.known.contains_key(&process) {
            let pid = source.writer()?.pid();
            let schedule = Schedule::new(self.run.began().elapsed(), source.is_forked());
            self.known.insert(process, Known { pid, schedule, copied: 0, readings: 0, highest: None, point: None });
        }
        self.known.get_mut(&process)
    }

    /// Notes the RSS of a process that runs, and reads its memory where that is due.
    fn look(&mut self, process: u32, source: &ProcessFile) {
        let (now, ms) = (self.run.began().elapsed(), self.run.elapsed_ms());
        let children = self.families.get(&process);
        let is_member = children.is_some();
        let of_children = children.into_iter().flatten().filter_map(|child| self.known.get(child));
        let copied_by_children = of_children.fold(0, |sum: u64, child| sum.saturating_add(child.copied));
        let Some(known) = self.known(process, source) else { return };
        let Some(resident) = resident(known.pid) else { return };
        known.copied = if is_member { copied_pages(known.pid).unwrap_or_default().saturating_mul(PAGE) } else { 0 };
        let look = Look { rss: resident.rss, copied: known.copied.saturating_add(copied_by_children) };
        let is_due = known.schedule.due(now, look).is_some();
        let is_new = known.is_new(ms, resident);
        // One that waits at its exit is read as such.
        if is_due && source.exit_state() != ExitState::Waits {
            let _ = self.read(process, source, look, false);
        } else if is_new && source.alive() {
            known.point = Some((ms, resident));
            let Resident { rss, peak } = resident;
            self.queue.put([Finding::Rss { process, ms, rss, peak, heads: heads(source) }]);
        }
    }

    /// Reads a process that waits at its exit, which has nothing left to do: this costs it no time of its own.
    fn read_at_exit(&mut self, process: u32, source: &ProcessFile) {
        if self.known(process, source).is_some() {
            let _ = self.read(process, source, Look::default(), true);
        }
        if self.is_scanning
            && let Some((copy, heads)) = self.copied(source)
        {
            self.queue.put_copy(process, copy, heads);
        }
    }

    /// A copy of a process that waits at its exit, and how far its rings were written before. None: it is too large for
    /// that, or does not stand still, or the copy failed. Then the process waits until it was searched.
    fn copied(&self, source: &ProcessFile) -> Option<(ProcessCopy, Vec<u64>)> {
        let heads = heads(source);
        let most = (headroom::available() / SHARE_OF_AVAILABLE).min(COPIED_MOST);
        let most = most.checked_sub(self.queue.copied_bytes())?;
        let pid = source.writer()?.thread_with_memory();
        let own = OwnRanges::read(pid, source.own_list()).without_slots();
        let exit = Exit {
            pid,
            at: source.exit()?,
            unknown_blocks: false,
            own: &own,
            registers: &Vec::new,
            directory: self.run.name(),
            enough: &|| source.exit_state() != ExitState::Waits,
        };
        let copy = ProcessCopy::of(&exit, most).ok()??;
        // Read while the image was there, and while it stood still.
        (source.has_memory() && source.exit_state() == ExitState::Waits).then_some((copy, heads))
    }

    fn read(&mut self, process: u32, source: &ProcessFile, look: Look, is_at_exit: bool) -> Result<(), Failure> {
        let now = self.run.began().elapsed();
        let directory = self.run.name().to_owned();
        let known = self.known.get_mut(&process).ok_or(Failure::Gone)?;
        let (before, number) = (cpu_time(), known.readings + 1);
        let subject = Subject {
            pid: known.pid,
            process,
            directory: &directory,
            own_list: source.own_list(),
            sampled: &[],
            has_older_blocks: source.has_older_blocks(),
            is_at_exit,
        };
        // One that waits changes nothing.
        let attempts = if is_at_exit { 1 } else { ATTEMPTS };
        let moment = |is_end| Finding::Moment { process, number, is_end, heads: heads(source) };
        let (mut read, mut ms) = (Err(Failure::Gone), 0);
        for _ in 0..attempts {
            ms = self.run.elapsed_ms();
            if !is_at_exit {
                self.queue.put([moment(false)]);
            }
            read = Reading::of(&subject);
            if read.as_ref().is_ok_and(Reading::is_settled) {
                break;
            }
        }
        // A failure costs as much as what it failed at.
        let rss = read.as_ref().map_or(0, |reading| reading.footprint.totals.rss);
        known.schedule.read(now, Look { rss, ..look }, cpu_time().saturating_sub(before));
        let mut reading = read?;
        // Read while the image was there: after an exec the memory is another one's.
        let still_waits = !is_at_exit || source.exit_state() == ExitState::Waits;
        if !source.has_memory() || !still_waits {
            return Err(Failure::Gone);
        }
        known.readings = number;
        (reading.number, reading.footprint.ms) = (known.readings, ms);
        let (totals, peak) = (reading.footprint.totals, reading.footprint.peak_rss);
        known.point = Some((ms, Resident { rss: totals.rss, peak }));
        // As the replay decides it; at an exit the replay may keep both.
        let is_highest = !is_at_exit && known.highest.is_none_or(|highest| is_higher(&totals, &highest));
        known.highest = if is_highest { Some(totals) } else { known.highest };
        self.queue.keep(process, reading.number, is_highest);
        let words = reading.to_words();
        let ended = (!is_at_exit).then(|| moment(true));
        self.queue.put(ended.into_iter().chain([Finding::Reading { process, words }]));
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
