//! A whole run, from starting the command to what it did.

use crate::accounts::EventSink;
use crate::drain::requests;
use crate::drain::rings::{Drain, Shown};
use crate::drain::spool::{SpoolReader, SpoolWriter};
use crate::launch::blind_spots::Unwatched;
use crate::launch::{command as launch, preparation, signals};
use crate::library::{self, Library, LibraryError};
use crate::preflight;
use crate::replay::{End, Options, Progress, Replay};
use crate::rundir::directory::{About, Mode, Regions, RunDirectory, Settings, about};
use crate::rundir::leftovers;
use crate::rundir::process_file::sources;
use crate::rundir::results::{self, RegionResult};
use mallow_profile::{CustomAllocator, FamilyCounts, Profile};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Why a run could not be. The messages name their causes: none is a `source` as well, which would be told again.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No directory for the run.
    #[error("cannot make a private directory for the run: {0}; set TMPDIR to a directory that you can write to")]
    Directory(io::Error),
    /// No library to load into the command.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The command could not be executed.
    #[error("{command}: {error}")]
    Command {
        /// Its name.
        command: String,
        /// What exec said.
        error: io::Error,
    },
    /// No recording.
    #[error("cannot write {0}; name another output with -o")]
    Recording(io::Error),
    /// No spool.
    #[error("cannot write {0}: {1}; name another output with -o")]
    Spool(PathBuf, io::Error),
    /// What the command did was not read to its end. The run directory and the spool stay.
    #[error("the recording could not be completed: {error}; mallow recover {0} makes it of what was recorded", directory.display())]
    Incomplete {
        /// Why.
        error: io::Error,
        /// The run directory.
        directory: PathBuf,
        /// The command's, as a shell shows it. None: it still ran.
        exit_status: Option<i32>,
    },
    /// A signal came when the command had ended, and not all was replayed. The run directory and the spool stay.
    #[error("stopped before the recording was complete: mallow recover {0} makes it of what was recorded", directory.display())]
    Stopped {
        /// Which signal.
        signal: i32,
        /// The run directory.
        directory: PathBuf,
    },
    /// The directory is none that a run left behind.
    #[error("{0} is no recording that mallow left behind: {1}; mallow recover alone lists what there is")]
    NoRun(PathBuf, io::Error),
}

/// What a counting run came to.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// The command's process id.
    pub command_pid: u32,
    /// From start to end of the command.
    pub wall: Duration,
    /// As a shell shows it. None: it still ran when counting ended.
    pub exit_status: Option<i32>,
    /// Process images, in the order of their start: what they said, their counters, and calls that were not counted.
    pub processes: Vec<(crate::chunk::ProcessStart, FamilyCounts, u64)>,
    /// Allocators above malloc; their processes are indices in `processes`.
    pub custom_allocators: Vec<CustomAllocator>,
    /// Images that could not take part.
    pub failed_processes: u32,
    /// Why programs that the command started were out of sight, each a sentence.
    pub unwatched: Vec<String>,
    /// What measured regions wrote, in the order of their ends.
    pub results: Vec<RegionResult>,
}

/// What a tracing run came to.
pub struct Recorded<S> {
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

/// Runs `command` and counts, or does as if. Precondition: the mode is not [`Mode::Trace`].
pub fn measure(command: &[OsString], mode: Mode, regions: Regions) -> Result<Counted, RunError> {
    let settings = Settings { mode, max_depth: 1, children: true, regions };
    let run = RunDirectory::create(&settings, &words(command)).map_err(RunError::Directory)?;
    let library = library::unpack(run.path())?;
    let start = Instant::now();
    let mut child = spawn(&run, &library, command)?;
    let mut unwatched = Unwatched::default();
    let exit_status = wait(&mut child, &mut unwatched, &run, &mut || signals::interrupts() >= 2);
    let wall = start.elapsed();
    run.end();
    let mut processes: Vec<_> = sources(run.path())
        .into_iter()
        .map(|source| {
            let (families, lost) = source.counters();
            (source.process(0, 0), families, lost)
        })
        .collect();
    processes.sort_by_key(|(process, ..)| (process.start_ms, process.pid, process.serial));
    let custom_allocators = match mode {
        Mode::Count => {
            preflight::custom_allocators(processes.iter().map(|(p, ..)| (&*p.executable, &*p.arguments, p.settings)))
        }
        _ => Vec::new(),
    };
    let results = results::read(run.path());
    let (command_pid, failed_processes) = (child.id(), run.failed_processes());
    let unwatched = unwatched.told(&run);
    drop(run);
    signals::unwatch();
    Ok(Counted { command_pid, wall, exit_status, processes, custom_allocators, failed_processes, unwatched, results })
}

/// Starts `command` to be sampled, or to wait for it in [`Mode::Dormant`]. Its processes need nobody that reads: call
/// [`RunDirectory::leave`] to let them go on alone.
pub fn start_sampled(command: &[OsString], mode: Mode, period: u32) -> Result<(RunDirectory, Child), RunError> {
    let (run, library) = sampled(command, mode, period)?;
    let child = spawn(&run, &library, command)?;
    Ok((run, child))
}

/// Becomes `command`, as [`start_sampled`] starts it: no process of mallow's remains. Returns only where that could not be.
pub fn become_sampled(command: &[OsString], mode: Mode, period: u32) -> RunError {
    match sampled(command, mode, period) {
        Ok((mut run, library)) => {
            run.read_no_more();
            not_executed(command, launch::become_command(&run, &library, command))
        }
        Err(error) => error,
    }
}

fn sampled(command: &[OsString], mode: Mode, period: u32) -> Result<(RunDirectory, Library), RunError> {
    leftovers::sweep();
    let program = command.first().map(OsString::as_os_str).unwrap_or_default();
    launch::find(program).map_err(|error| not_executed(command, error))?;
    let settings = Settings { mode, max_depth: SAMPLED_DEPTH, children: true, regions: Regions::default() };
    let run = RunDirectory::create(&settings, &words(command)).map_err(RunError::Directory)?;
    run.sample(mode, period);
    let library = library::unpack(run.path())?;
    if mode == Mode::Sample {
        preparation::make(command, &library.file, run.path());
    }
    Ok((run, library))
}

/// Frames that a sample's stack keeps at the most: those nearest to the allocation.
const SAMPLED_DEPTH: u32 = 512;

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
) -> Result<Recorded<S>, RunError> {
    // Before anything is written: a name typed wrong must not cost a recording that was there.
    let program = command.first().map(OsString::as_os_str).unwrap_or_default();
    launch::find(program).map_err(|error| not_executed(command, error))?;
    let mut run = RunDirectory::create(&how.settings, &words(command)).map_err(RunError::Directory)?;
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
    let options = options(&about);
    let sink = sink(&options).map_err(RunError::Recording)?;
    let mut child = spawn(&run, &library, command)?;
    let mut unwatched = Unwatched::default();

    let shown = Shown::default();
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
        let mut exit_status = wait(&mut child, &mut unwatched, &run, &mut enough);
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
            command_status = wait(&mut child, &mut unwatched, &run, &mut || signals::interrupts() >= 2);
        }
        let (replay, spool) = followed?;
        let replaying = scope.spawn(|| follow_to_end(replay, spool, &shown, &progress));
        while !replaying.is_finished() {
            show(true, tick);
            shown.stop.store(signals::stop().is_some(), Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(2));
        }
        let replay = replaying.join().map_err(|_| io::Error::other("the replay failed"))??;
        if exit_status.is_none() && drained.is_err() {
            // The disk is full, not the command's life: it goes on unrecorded, and its status is still mallow's.
            exit_status = wait(&mut child, &mut unwatched, &run, &mut || signals::interrupts() >= 2);
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
            let unwatched = unwatched.told(&run);
            drop((spool_guard, run));
            signals::unwatch();
            return Ok(Recorded {
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
    let mut number = 1;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(if number == 1 { ".spool".to_owned() } else { format!("-{number}.spool") });
        let name = PathBuf::from(name);
        match OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&name) {
            Ok(file) => return Ok((Remove(name), file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MOST => number += 1,
            Err(error) => return Err(RunError::Spool(name, error)),
        }
    }
}

pub(super) fn options(about: &About) -> Options {
    Options { command: about.command.clone(), started_unix_ms: about.started_unix_ms }
}

fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| word.to_string_lossy().into_owned()).collect()
}

fn not_executed(command: &[OsString], error: io::Error) -> RunError {
    RunError::Command {
        command: command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        error,
    }
}

fn spawn(run: &RunDirectory, library: &Library, command: &[OsString]) -> Result<Child, RunError> {
    signals::watch();
    let child = launch::launch(run, library, command).map_err(|error| not_executed(command, error))?;
    signals::pass_on_to(child.id() as i32);
    Ok(child)
}

/// Waits for the command; `enough` is asked, and its processes are looked at, a few times a second. None: it said yes
/// before the command ended.
fn wait(
    child: &mut Child,
    unwatched: &mut Unwatched,
    run: &RunDirectory,
    enough: &mut dyn FnMut() -> bool,
) -> Option<i32> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let pid = rustix::process::Pid::from_child(child);
    let handle = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok();
    let pause = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                signals::keep();
                return status.code().or_else(|| status.signal().map(|signal| 128 + signal));
            }
            Ok(None) => {}
            Err(_) => return None,
        }
        if enough() {
            signals::keep();
            return None;
        }
        unwatched.look(child.id(), run);
        match &handle {
            // A signal ends the wait early, and that is what it is for.
            Some(handle) => drop(poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&pause))),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn running(run: &RunDirectory) -> u32 {
    let mut pids: Vec<u32> = sources(run.path()).iter().filter(|s| s.alive()).map(|s| s.pid).collect();
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
    shown: &Shown,
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
    shown: &Shown,
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
    shown: &Shown,
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
