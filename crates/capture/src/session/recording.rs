//! Runs that record.

use super::command::{prepare, spawn, wait};
use super::error::{RunError, not_executed};
use super::leftovers;
use crate::accounts::{EventSink, Options};
use crate::drain::requests;
use crate::drain::rings::{Drain, DrainState};
use crate::drain::spool::{SpoolReader, SpoolWriter};
use crate::launch::blind_spots::BlindSpots;
use crate::launch::signals;
use crate::library;
use crate::preflight::search;
use crate::replay::{End, Progress, Replay};
use crate::rundir::directory::{RunDirectory, Settings, about};
use crate::rundir::process_file::process_files;
use crate::rundir::results;
use mallow_profile::Profile;
use rustix::fs::{FlockOperation, flock};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What a tracing run came to.
pub struct RecordingOutcome<S> {
    /// What it did.
    pub profile: Profile,
    /// The sink, to be closed; or why it failed.
    pub sink: io::Result<S>,
    /// As a shell shows it. None: it still ran when the recording ended.
    pub exit_status: Option<i32>,
    /// The command's process id; None where that is not known.
    pub command_pid: Option<u32>,
    /// Processes that still ran.
    pub still_running: u32,
    /// Images that could not take part.
    pub failed_processes: u32,
    /// Why programs that the command started were out of sight, each a sentence.
    pub unwatched: Vec<String>,
}

/// What is known of a recording while it goes on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tick {
    /// Since the start.
    pub elapsed: Duration,
    /// What was replayed so far.
    pub progress: Progress,
    /// The command has ended; what it left in the spool is being read.
    pub ended: bool,
}

/// How to record.
pub struct Recording<'a> {
    /// See [`Settings`].
    pub settings: Settings,
    /// Go on until all processes have ended.
    pub wait: bool,
    /// Where the spool goes: beside the recording, on a disk. A suffix follows, so that the file is a new one.
    pub spool: &'a Path,
    /// Where the recording lies until it is complete: what a killed mallow leaves, besides the run directory and the spool.
    pub partial: Option<&'a Path>,
}

/// Runs `command` and records it into what `sink` makes. `tick` is called a few times a second.
pub fn record<S: EventSink + Send>(
    command: &[OsString],
    how: &Recording,
    sink: impl FnOnce(&Options) -> io::Result<S>,
    tick: &mut dyn FnMut(Tick),
) -> Result<RecordingOutcome<S>, RunError> {
    // Before anything is written: a name typed wrong must not cost a recording that was there.
    let program = command.first().map(OsString::as_os_str).unwrap_or_default();
    search::find(program).map_err(|error| not_executed(command, error))?;
    let mut run = prepare(&how.settings, command)?;
    let library = library::unpack(run.path())?;
    let about = about(run.path()).map_err(RunError::Directory)?;
    let (spool_guard, spool) = make_spool(how.spool)?;
    let spool_error = |error| RunError::Spool(spool_guard.0.clone(), error);
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, run.path().join(name));
    let spool_again = spool.try_clone().map_err(spool_error)?;
    link(&spool_guard.0.canonicalize().map_err(spool_error)?, leftovers::SPOOL).map_err(RunError::Directory)?;
    if let Some(partial) = how.partial {
        let whole = std::path::absolute(partial).map_err(RunError::Directory)?;
        link(&whole, leftovers::PARTIAL).map_err(RunError::Directory)?;
    }
    let options = about.options();
    let sink = sink(&options).map_err(RunError::Recording)?;
    let mut child = spawn(&run, &library, command)?;
    let mut blind_spots = BlindSpots::default();

    let shown = DrainState::default();
    let progress = Mutex::new(Progress::default());
    let replay = Replay::new(options, sink);
    let mut command_status = None;
    let outcome = std::thread::scope(|scope| {
        let (send, receive) = std::sync::mpsc::channel();
        let drain = Drain::new(&run, &shown, SpoolWriter::new(spool_again), send, about.started_ns);
        let directory = run.path();
        scope.spawn(move || requests::serve(&receive, directory));
        let draining = scope.spawn(|| drain.work());
        let following = scope.spawn(|| {
            stand_back();
            follow(replay, SpoolReader::new(spool), &shown, &progress)
        });

        let show = |ended: bool, tick: &mut dyn FnMut(Tick)| {
            let progress = progress.lock().map(|p| *p).unwrap_or_default();
            tick(Tick { elapsed: run.began().elapsed(), progress, ended });
        };
        let mut enough = || {
            show(false, tick);
            signals::interrupts() >= 2 || draining.is_finished()
        };
        let mut exit_status = wait(&mut child, &mut blind_spots, &run, &mut enough);
        command_status = exit_status;
        while how.wait && exit_status.is_some() && shown.running.load(Ordering::Relaxed) > 0 && !enough() {
            std::thread::sleep(Duration::from_millis(20));
        }
        let duration_ms = run.elapsed_ms();
        let still_running = running(&run);
        shown.finish.store(true, Ordering::Release);
        run.control().futex_wake(crate::wire::control::DOORBELL);
        let drained = draining.join().unwrap_or_else(|_| Err(io::Error::other("the drain failed")));
        // A thread that stood back cannot step forward again without privileges: another one does the rest.
        shown.drained.store(true, Ordering::Release);
        let followed = following.join().unwrap_or_else(|_| Err(io::Error::other("the replay failed")));
        if followed.is_err() && exit_status.is_none() && drained.is_err() {
            command_status = wait(&mut child, &mut blind_spots, &run, &mut || signals::interrupts() >= 2);
        }
        let (replay, spool) = followed?;
        // A signal that came by now counts, whatever this thread's luck with the processor.
        shown.stop.store(signals::stop().is_some(), Ordering::Relaxed);
        let replaying = scope.spawn(|| follow_to_end(replay, spool, &shown, &progress));
        while !replaying.is_finished() {
            show(true, tick);
            shown.stop.store(signals::stop().is_some(), Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(2));
        }
        let replay = replaying.join().map_err(|_| io::Error::other("the replay failed"))??;
        if exit_status.is_none() && drained.is_err() {
            // The disk is full, not the command's life: it goes on unrecorded, and its status is still mallow's.
            exit_status = wait(&mut child, &mut blind_spots, &run, &mut || signals::interrupts() >= 2);
            command_status = exit_status;
        }
        let cut_short = drained.err().map(|error| format!("the spool could not be written: {error}"));
        Ok((replay, End { duration_ms, exit_status, cut_short }, still_running))
    });
    let failure = match outcome {
        Ok((Some(replay), end, still_running)) => {
            let exit_status = end.exit_status;
            let (mut profile, sink) = replay.finish(end);
            profile.regions = results::regions(run.path());
            let (command_pid, failed_processes) = (Some(child.id()), run.failed_processes());
            let unwatched = blind_spots.sentences(&run);
            drop((spool_guard, run));
            signals::unwatch();
            return Ok(RecordingOutcome {
                profile,
                sink,
                exit_status,
                command_pid,
                still_running,
                failed_processes,
                unwatched,
            });
        }
        Ok((None, ..)) => {
            RunError::Stopped { signal: signals::stop().unwrap_or_default(), directory: run.path().to_owned() }
        }
        Err(error) => RunError::Incomplete { error, directory: run.path().to_owned(), exit_status: command_status },
    };
    run.keep();
    std::mem::forget(spool_guard);
    Err(failure)
}

/// Removes a file when dropped.
struct Remove(PathBuf);

impl Drop for Remove {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A new file: pids come again, and containers that share a directory have the same ones, while a spool that a killed mallow left
/// is what its recording can be made of.
fn make_spool(path: &Path) -> Result<(Remove, File), RunError> {
    const MOST: u32 = 1000;
    leftovers::sweep_spools(path);
    let mut number = 1;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(if number == 1 { ".spool".to_owned() } else { format!("-{number}.spool") });
        let name = PathBuf::from(name);
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&name) {
            Ok(file) => {
                // Where there are no locks, the process's number is all that others can know.
                let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
                return Ok((Remove(name), file));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MOST => number += 1,
            Err(error) => return Err(RunError::Spool(name, error)),
        }
    }
}

fn running(run: &RunDirectory) -> u32 {
    let mut pids: Vec<u32> = process_files(run.path()).iter().filter(|s| s.alive()).map(|s| s.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    pids.len() as u32
}

/// Lets all other threads go first, here and in the target: what the caller does can wait.
fn stand_back() {
    // SAFETY: sets the scheduling class of the calling thread; the parameter is valid, and 0 is the class's only priority.
    // Where it is refused, the thread works as all others do.
    unsafe {
        let parameter: libc::sched_param = std::mem::zeroed();
        libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameter);
    }
}

/// Replays the spool while it grows, until the drain has ended.
fn follow<S: EventSink>(
    mut replay: Replay<S>,
    mut spool: SpoolReader,
    shown: &DrainState,
    progress: &Mutex<Progress>,
) -> io::Result<(Replay<S>, SpoolReader)> {
    while !shown.drained.load(Ordering::Acquire) {
        if !follow_some(&mut replay, &mut spool, shown, progress, &shown.drained)? {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    Ok((replay, spool))
}

/// Replays what is left of a spool that grows no more. None: stopped before its end.
fn follow_to_end<S: EventSink>(
    mut replay: Replay<S>,
    mut spool: SpoolReader,
    shown: &DrainState,
    progress: &Mutex<Progress>,
) -> io::Result<Option<Replay<S>>> {
    while follow_some(&mut replay, &mut spool, shown, progress, &shown.stop)? {
        if shown.stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
    }
    Ok(Some(replay))
}

/// Replays a few chunks, fewer once it is enough: where all processors are busy, each may take a thread that stands back
/// a second. False: there were none.
fn follow_some<S: EventSink>(
    replay: &mut Replay<S>,
    spool: &mut SpoolReader,
    shown: &DrainState,
    progress: &Mutex<Progress>,
    enough: &AtomicBool,
) -> io::Result<bool> {
    const SOME: usize = 64;
    let end = shown.spooled.load(Ordering::Acquire);
    for done in 0..SOME {
        // A failed sink is told once, by `finish`; the replay goes on for the report.
        let more = spool.next(end, |chunk, _| {
            let _ = replay.feed(chunk);
            Ok(())
        })?;
        if !more {
            return Ok(done > 0);
        }
        shown.replayed.store(spool.at(), Ordering::Relaxed);
        if enough.load(Ordering::Acquire) {
            break;
        }
    }
    if let Ok(mut progress) = progress.lock() {
        *progress = replay.progress();
    }
    Ok(true)
}
