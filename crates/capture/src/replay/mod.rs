//! From what the drain saw to exact counts.
//!
//! The words of each ring are decoded ([`crate::wire::record`]), put in order with those of the other rings of their
//! process ([`order`], [`merge`]), applied to the process's live blocks ([`process`]) and posted in the ledger
//! ([`crate::accounts`]). The same events go to a sink: the recording file, or nothing.
//!
//! Words wait for two rounds, because what they depend on may come with the next one ([`order`]); a process with one
//! busy ring needs no order, and its words are copied once and otherwise replayed as they are.

mod effects;
mod looks;
mod memory;
mod merge;
mod order;
mod process;
mod recent;
mod ring;
mod scans;
mod window;

use crate::accounts::{EventSink, Options};
use crate::chunk::{Chunk, ProcessStart};
use crate::drain::memory::MemoryQueue;
use crate::footprint::Reading;
use crate::preflight;
use crate::rundir::directory::Scans;
use crate::scan::{Failure, Found, LiveBlock};
use looks::Seen;
use mallow_profile::{AllocatorInside, Footprint, ProcessId, Profile, SizeClasses, Thread};
use process::{Process, Shared};
use rustc_hash::FxHashMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// Milliseconds since the recording began, at which processes end that have not ended.
    pub duration_ms: u64,
    /// Process id of the command, and when it was started, in milliseconds since the recording began. None: mallow
    /// attached.
    pub started: Option<(u32, u64)>,
    /// CPU time of the command and of what it waited for, or of an attached process meanwhile. None: it is not known.
    pub cpu: Option<Duration>,
    /// Exit status of the command as a shell shows it.
    pub exit_status: Option<i32>,
    /// Why the run went on without the recording, if it did.
    pub cut_short: Option<String>,
    pub allocators_inside: Vec<AllocatorInside>,
}

/// Counts of the replay so far, which lags up to two rounds behind the rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub allocations: u64,
    pub frees: u64,
    /// Bytes that are live, as requested.
    pub live_bytes: u64,
    /// The highest `live_bytes` so far.
    pub peak_bytes: u64,
    pub lost: u64,
    /// Records that made no sense.
    pub damaged: u64,
    /// Frees and allocations that fitted nowhere between those of other threads.
    pub forced: u64,
}

/// The replay of a run, as the module's text says.
#[derive(Debug, Default)]
pub struct Replay<S = ()> {
    options: Options,
    shared: Shared<S>,
    processes: Vec<Process>,
    /// Numbers of processes that have not ended.
    running: Vec<u32>,
    /// How many images each pid had so far.
    images: FxHashMap<u32, u32>,
    /// What each process's environment says of allocators above malloc (`wire::SETTING_…`).
    settings: Vec<u32>,
    /// Arguments that processes were started with, of those that show others by now.
    first_arguments: FxHashMap<u32, Vec<String>>,
    /// Names of threads, by number of the process and thread id.
    names: FxHashMap<(u32, u32), String>,
    sink_failed: Option<(io::ErrorKind, String)>,
    /// Knows which readings of processes' memory are still the highest or the last; None: all may be.
    queue: Option<Arc<MemoryQueue>>,
    size_classes: Vec<SizeClasses>,
}

impl<S: EventSink> Replay<S> {
    pub fn new(options: Options, sink: S) -> Self {
        let shared = Shared::new(sink);
        let (processes, running, images, settings, names) = Default::default();
        let (first_arguments, sink_failed, queue, size_classes) = Default::default();
        Self {
            options,
            shared,
            processes,
            running,
            images,
            settings,
            first_arguments,
            names,
            sink_failed,
            queue,
            size_classes,
        }
    }

    /// Passes readings over that `queue` knows to be of no use any more: the reader of processes' memory may be ahead.
    pub fn with_memory(mut self, queue: Arc<MemoryQueue>) -> Self {
        self.queue = Some(queue);
        self
    }

    /// Says which processes are to be scanned at their exit: one that is not says why.
    pub fn with_scans(mut self, scans: Scans) -> Self {
        self.shared.unscanned = if scans == Scans::None { Failure::Off } else { Failure::NoExit };
        self.shared.scanning_forked = scans == Scans::All;
        self
    }

    /// Takes the next chunk. An error is the sink's, and comes once: from then on the replay goes on without the sink.
    pub fn feed(&mut self, chunk: &Chunk<'_>) -> io::Result<()> {
        match chunk {
            Chunk::Process(start) => self.start(start),
            Chunk::Module(module) => match self.processes.get_mut(module.process as usize) {
                Some(process) => {
                    process.addresses.add(&mut self.shared.interner, &mut self.shared.ledger.catalog, module)
                }
                None => self.shared.damaged += 1,
            },
            Chunk::Words { process, ring, end, words } => match self.processes.get_mut(*process as usize) {
                Some(process) => process.push(&mut self.shared, *ring, words, *end),
                None => self.shared.damaged += 1,
            },
            Chunk::Round { ms: _ } => {
                for &number in &self.running {
                    self.processes[number as usize].round(&mut self.shared);
                }
            }
            // Whoever can read its memory asks for its blocks.
            Chunk::Exit { .. } => {}
            Chunk::Reading { process, number, is_end, heads } => self.reads(*process, *number, *is_end, heads),
            Chunk::Memory { process, is_last, words } => self.memory(*process, *is_last, words),
            Chunk::SizeClasses { process, usable } => match self.processes.get((*process) as usize) {
                Some(_) if usable.is_sorted_by(|a, b| a < b) => {
                    let process = ProcessId(*process);
                    self.size_classes.push(SizeClasses { process, usable: usable.to_vec() });
                }
                _ => self.shared.damaged += 1,
            },
            &Chunk::Rss { process, ms, rss, peak, heads } => match self.processes.get_mut(process as usize) {
                Some(process) => process.look(&self.shared, heads, Seen { ms, rss, peak }),
                None => self.shared.damaged += 1,
            },
            &Chunk::FinalRss { process, ms, peak } => match self.processes.get_mut(process as usize) {
                Some(process) => process.end_rss(&mut self.shared, ms, peak),
                None => self.shared.damaged += 1,
            },
            Chunk::Arguments { process, words } => match self.shared.ledger.processes.get_mut(*process as usize) {
                Some(known) => {
                    let before = std::mem::replace(&mut known.arguments, words.clone());
                    self.first_arguments.entry(*process).or_insert(before);
                }
                None => self.shared.damaged += 1,
            },
            Chunk::ThreadName { process, tid, name } => _ = self.names.insert((*process, *tid), name.clone()),
            &Chunk::ExitWait { process, ms } => match self.shared.ledger.processes.get_mut(process as usize) {
                Some(process) => process.exit_wait_ms = ms,
                None => self.shared.damaged += 1,
            },
            &Chunk::TableWait { process, ms, late } => match self.shared.ledger.processes.get_mut(process as usize) {
                Some(process) => (process.table_wait_ms, process.late_tables) = (ms, late),
                None => self.shared.damaged += 1,
            },
            Chunk::ProcessEnd { process, ms, lost } => self.end(*process, *ms, *lost),
        }
        self.settle()
    }

    /// A reading of a process's memory begins, or ends.
    fn reads(&mut self, process: u32, number: u64, is_end: bool, heads: &[u64]) {
        let may_be_kept = self.queue.as_ref().is_none_or(|queue| queue.may_be_kept(process, number));
        match self.processes.get_mut(process as usize) {
            Some(process) if is_end => process.reading_ends(number, heads),
            Some(process) => {
                if may_be_kept {
                    process.reading_begins(&self.shared, number, heads);
                }
                process.look_begins(&self.shared, number, heads);
            }
            None => self.shared.damaged += 1,
        }
    }

    fn memory(&mut self, number: u32, is_last: bool, words: &[u64]) {
        let Some(process) = self.processes.get_mut(number as usize) else {
            self.shared.damaged += 1;
            return;
        };
        let is_kept = |reading: &Reading| self.queue.as_ref().is_none_or(|queue| queue.is_kept(number, reading.number));
        match process.memory.part(number, is_last, words) {
            Ok(Some(reading)) => {
                let Footprint { ms, peak_rss, ref totals, .. } = reading.footprint;
                process.reading_saw(&self.shared, reading.number, Seen { ms, rss: totals.rss, peak: peak_rss });
                if is_kept(&reading) {
                    process.place(&self.shared, reading);
                }
            }
            Ok(None) => {}
            Err(()) => self.shared.damaged += 1,
        }
    }

    /// The live blocks of a process that waits at its exit, and whether it began with fork. None: events of it were
    /// lost, or there is no such process.
    pub fn at_exit(&self, process: u32) -> Option<(Vec<LiveBlock>, bool)> {
        let known = self.shared.ledger.processes.get(process as usize).filter(|known| known.lost == 0)?;
        let live = self.processes.get(process as usize)?.live_blocks();
        Some((live, known.forked))
    }

    /// Takes what a scan of a process found.
    pub fn scanned(&mut self, process: u32, scan: Result<Found, Failure>) {
        if let Some(process) = self.processes.get_mut(process as usize) {
            process.scanned(scan);
        }
    }

    pub fn progress(&self) -> Progress {
        let ledger = &self.shared.ledger;
        Progress {
            allocations: ledger.allocations(),
            frees: ledger.frees(),
            live_bytes: ledger.live_bytes(),
            peak_bytes: ledger.peak_bytes(),
            lost: ledger.processes.iter().fold(0, |sum, p| sum.saturating_add(p.lost)),
            damaged: self.shared.damaged,
            forced: self.shared.forced,
        }
    }

    /// Ends the processes that have not ended, and adds everything up. The sink comes back to be closed with the
    /// profile, after whatever is still to be filled in there; an error is the one by which it failed.
    pub fn finish(mut self, end: End) -> (Profile, io::Result<S>) {
        let all_ended = self.running.is_empty();
        for number in std::mem::take(&mut self.running) {
            self.processes[number as usize].end(&mut self.shared, end.duration_ms);
        }
        let settled = match self.sink_failed.take() {
            Some((kind, why)) => Err(io::Error::new(kind, why)),
            None => self.shared.sink.close(&self.shared.ledger),
        };
        let damaged = self.shared.damaged;
        let mut scans = std::mem::take(&mut self.shared.scans);
        scans.sort_by_key(|scan| scan.process);
        let mut profile = self.shared.ledger.close();
        profile.scans = scans;
        profile.footprints = std::mem::take(&mut self.shared.footprints);
        profile.footprints.sort_by_key(|footprint| (footprint.process, footprint.ms));
        profile.rss = std::mem::take(&mut self.shared.rss);
        profile.rss.sort_by_key(|series| series.process);
        profile.size_classes = std::mem::take(&mut self.size_classes);
        let name = |thread: &Thread| self.names.get(&(thread.process.0, thread.tid)).cloned().unwrap_or_default();
        profile.thread_names = profile.threads.iter().map(name).collect();
        profile.command = shown_command(self.options.command, &profile.processes, &self.first_arguments);
        profile.started_unix_ms = self.options.started_unix_ms;
        profile.duration_ms = end.duration_ms;
        profile.run_ms = end.started.and_then(|(command, start)| run_of(&profile, command, start, all_ended));
        profile.cpu_us = end.cpu.map(|cpu| cpu.as_micros() as u64);
        profile.ending.exit_status = end.exit_status;
        profile.ending.cut_short = end.cut_short;
        profile.ending.damaged = damaged;
        profile.custom_allocators = preflight::custom_allocators(
            profile.processes.iter().zip(&self.settings).enumerate().map(|(number, (process, &settings))| {
                let first = self.first_arguments.get(&(number as u32)).unwrap_or(&process.arguments);
                (&*process.executable, &**first, settings)
            }),
            &end.allocators_inside,
        );
        preflight::settle_linked(&mut profile);
        profile.allocators_inside = end.allocators_inside;
        // A title may not name the file that was executed.
        let mut swap = |processes: &mut [mallow_profile::Process]| {
            for (&number, first) in &mut self.first_arguments {
                if let Some(process) = processes.get_mut(number as usize) {
                    std::mem::swap(&mut process.arguments, first);
                }
            }
        };
        swap(&mut profile.processes);
        preflight::executed_names::set(&mut profile.processes);
        swap(&mut profile.processes);
        (profile, settled.map(|()| self.shared.sink))
    }

    fn start(&mut self, start: &ProcessStart) {
        if start.process as usize != self.processes.len() {
            self.shared.damaged += 1;
            return;
        }
        let images = self.images.entry(start.pid).or_default();
        let serial = *images;
        *images += 1;
        let number = self.shared.ledger.add_process(mallow_profile::Process {
            pid: start.pid,
            parent_pid: start.parent_pid,
            serial,
            forked: start.forked,
            attached: start.attached,
            executable: start.executable.clone(),
            arguments: start.arguments.clone(),
            start_ms: start.start_ms,
            end_ms: start.start_ms,
            ..Default::default()
        });
        let mut process = Process::new(number);
        process.older_blocks = start.forked || start.attached;
        self.processes.push(process);
        self.settings.push(start.settings);
        self.running.push(number);
    }

    fn end(&mut self, number: u32, ms: u64, lost: u64) {
        let Some(process) = self.processes.get_mut(number as usize) else {
            self.shared.damaged += 1;
            return;
        };
        process.end(&mut self.shared, ms);
        let total = &mut self.shared.ledger.processes[number as usize].lost;
        *total = total.saturating_add(lost);
        self.running.retain(|&n| n != number);
    }

    fn settle(&mut self) -> io::Result<()> {
        if self.sink_failed.is_some() {
            return Ok(());
        }
        let settled = self.shared.sink.settle(&self.shared.ledger);
        self.sink_failed = settled.as_ref().err().map(|error| (error.kind(), error.to_string()));
        settled
    }
}

/// When the command ran, in milliseconds since the recording began. It is known to have ended with its last process, if
/// its own was seen, and all ended.
fn run_of(profile: &Profile, command: u32, start: u64, all_ended: bool) -> Option<Range<u64>> {
    let processes = &profile.processes;
    let end = processes.iter().map(|process| process.end_ms).max()?.min(profile.duration_ms);
    let is_known = all_ended && processes.iter().any(|process| process.pid == command);
    // It ran before mallow got the processor to see it.
    let start = processes.iter().map(|process| process.start_ms).fold(start, u64::min);
    let end = if is_known { end } else { profile.duration_ms };
    Some(start.min(end)..end)
}

/// The command as its process showed it at the end. The first process is the command's, if it was started with the
/// command's arguments: of a script, behind its interpreter.
fn shown_command(
    command: Vec<String>,
    processes: &[mallow_profile::Process],
    first_arguments: &FxHashMap<u32, Vec<String>>,
) -> Vec<String> {
    let is_its_own = |first: &&Vec<String>| first.ends_with(command.get(1..).unwrap_or_default());
    match (processes.first(), first_arguments.get(&0).filter(is_its_own)) {
        (Some(process), Some(_)) => process.arguments.clone(),
        _ => command,
    }
}

#[cfg(test)]
pub(crate) mod tests;
