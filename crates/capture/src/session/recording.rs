//! Runs that record.

use super::attached::{self, AttachedProcess};
use super::command::{final_rss, prepare, spawn, wait, wait_and};
use super::error::{RunError, not_executed};
use super::executed::ExecutedPrograms;
use super::idle_thread::IdleThread;
use super::{exits, leftovers, memory};
use crate::accounts::{EventSink, Options};
use crate::attach::{self, AttachError};
use crate::drain::memory::Finding;
use crate::drain::requests;
use crate::drain::rings::{Drain, DrainState};
use crate::drain::spool::{SpoolReader, SpoolWriter};
use crate::footprint::resident;
use crate::inside;
use crate::launch::blind_spots::BlindSpots;
use crate::launch::signals;
use crate::library;
use crate::preflight::search;
use crate::replay::{End, Progress, Replay};
use crate::rundir::directory::{RunDirectory, Scans, Settings, about, monotonic_ns};
use crate::rundir::owner;
use crate::rundir::process_file::process_files;
use crate::rundir::results;
use mallow_profile::{AllocatorInside, Profile};
use rustix::fs::{FlockOperation, flock};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub struct RecordingOutcome<S> {
    pub profile: Profile,
    /// The sink, to be closed; or why it failed.
    pub sink: io::Result<S>,
    /// Exit status as a shell shows it. None: the command still ran when the recording ended.
    pub exit_status: Option<i32>,
    /// Process id of the command, or of the process that was attached to; None where that is not known.
    pub command_pid: Option<u32>,
    /// Processes that still ran when the recording ended.
    pub still_running: u32,
    pub failed_processes: u32,
    /// Sentences: why programs that the command started were out of sight.
    pub unwatched: Vec<String>,
}

/// How far a recording is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    #[default]
    Running,
    Detaching,
    /// The command has ended, or mallow has detached; what is left in the spool is being read.
    Reading {
        /// Bytes of the spool that were read.
        read: u64,
        /// Bytes of the whole spool.
        all: u64,
    },
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Tick {
    /// Time since the start of the recording.
    pub elapsed: Duration,
    pub progress: Progress,
    /// Bytes that were recorded and not replayed as yet: what is in them is not in `progress`.
    pub unread: u64,
    pub stage: Stage,
    /// The pid of the process that has waited longest at its exit for its scan, and for how long.
    pub exiting: Option<(u32, Duration)>,
    /// How long the process has waited that waits longest for an unwind table.
    pub awaiting_table: Option<Duration>,
}

pub struct Recording<'a> {
    /// Variables to set in the command's environment.
    pub environment: &'a [(OsString, OsString)],
    pub settings: Settings,
    /// The recording goes on until all processes have ended.
    pub wait: bool,
    /// Path of the spool, beside the recording, on a disk; a suffix is added, so that the file is a new one.
    pub spool: &'a Path,
    /// Path of the recording until it is complete. A killed mallow leaves it, the run directory and the spool.
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
    record_subject(RecordedProgram::Command(command), how, sink, tick)
}

/// Attaches to a process, records it into what `sink` makes, and detaches.
pub fn record_process<S: EventSink + Send>(
    process: &AttachedProcess,
    how: &Recording,
    sink: impl FnOnce(&Options) -> io::Result<S>,
    tick: &mut dyn FnMut(Tick),
) -> Result<RecordingOutcome<S>, RunError> {
    if let Some(obstacle) = attach::obstacle(process.pid) {
        return Err(obstacle.into());
    }
    record_subject(RecordedProgram::Process(process), how, sink, tick)
}

enum RecordedProgram<'a> {
    Command(&'a [OsString]),
    Process(&'a AttachedProcess<'a>),
}

enum Started<'a> {
    Command(Box<(Child, BlindSpots)>),
    Process(&'a AttachedProcess<'a>),
}

fn record_subject<S: EventSink + Send>(
    subject: RecordedProgram<'_>,
    how: &Recording,
    sink: impl FnOnce(&Options) -> io::Result<S>,
    tick: &mut dyn FnMut(Tick),
) -> Result<RecordingOutcome<S>, RunError> {
    let command = match &subject {
        RecordedProgram::Command(command) => command.to_vec(),
        RecordedProgram::Process(process) if how.settings.arguments => attached::command_line(process.pid),
        RecordedProgram::Process(process) => attached::command_word_of(process.pid).into_iter().collect(),
    };
    let mut run = prepare(&how.settings, &command)?;
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
    let inside = inside::Server::begin(&run).map_err(RunError::Directory)?;
    let (mut own_peak, mut command_word) = (u64::MAX, None);
    let mut started = match subject {
        RecordedProgram::Command(command) => {
            let library = library::unpack(run.path())?;
            let child = spawn(&run, &library, command, how.environment)?;
            command_word = command.first().cloned();
            // Until it executes the command, the child has mallow's own memory.
            own_peak = resident(std::process::id()).map_or(u64::MAX, |own| own.peak);
            Started::Command(Box::new((child, BlindSpots::default())))
        }
        RecordedProgram::Process(process) => Started::Process(process),
    };
    let command_started = match &started {
        Started::Command(started) => Some((started.0.id(), run.elapsed_ms())),
        Started::Process(_) => None,
    };
    let mut detached = Ok(None);
    let (mut attached_inside, mut attached_unwatched) = (Vec::new(), Vec::new());

    let shown = DrainState::default();
    let progress = Mutex::new(Progress::default());
    let queue = Arc::clone(&shown.memory);
    let replay = Replay::new(options, sink).with_scans(how.settings.scan).with_memory(Arc::clone(&queue));
    let idle = IdleThread::default();
    let follower = Mutex::new(Some(Follower { replay, spool: SpoolReader::new(spool), directory: run.path() }));
    let mut command_status = None;
    let outcome = std::thread::scope(|scope| {
        let (send, receive) = std::sync::mpsc::channel();
        let drain = Drain::new(&run, &shown, SpoolWriter::new(spool_again), send, about.started_ns);
        scope.spawn(|| {
            let receive = receive;
            requests::serve(&receive, &shown.table_waits);
        });
        // Before the drain finds the first process.
        if how.settings.memory {
            queue.open();
        }
        let is_attaching = matches!(started, Started::Process(_));
        let draining = scope.spawn(move || {
            // All threads of such a process begin at once, and those that wait for a full ring would wait for all
            // others, too.
            if is_attaching {
                mallow_patch::hurry();
            }
            drain.work()
        });
        let following = scope.spawn(|| {
            idle.enter();
            follow(&follower, &shown, &progress)
        });
        let memory_reader = how.settings.memory.then(|| {
            scope.spawn(|| {
                let closing = memory::Closing(Arc::clone(&queue));
                memory::serve(&run, &closing.0, how.settings.scan != Scans::None);
            })
        });
        // Processes wait for this one at their exit.
        let serving =
            (how.settings.scan != Scans::None).then(|| scope.spawn(|| serve_exits(&follower, &shown, &progress)));

        let show = |stage: Stage, tick: &mut dyn FnMut(Tick)| {
            let progress = progress.lock().map(|p| *p).unwrap_or_default();
            let unread = shown.spooled.load(Ordering::Relaxed).saturating_sub(shown.replayed.load(Ordering::Relaxed));
            let (exiting, awaiting_table) = (shown.exits.longest(), shown.table_waits.longest());
            tick(Tick { elapsed: run.began().elapsed(), progress, unread, stage, exiting, awaiting_table });
        };
        let reading = || Stage::Reading {
            read: shown.replayed.load(Ordering::Relaxed),
            all: shown.spooled.load(Ordering::Relaxed),
        };
        let mut enough = |stage: Stage| {
            show(stage, tick);
            signals::interrupts() >= 2 || draining.is_finished()
        };
        let cpu;
        let mut exit_status = match &mut started {
            Started::Command(started) => {
                // Of a single image it is that image's own: also if a signal ended it, or `_exit`.
                let ended = |pid| {
                    let is_alone = shown.processes.load(Ordering::Relaxed) == 1;
                    let program = command_word.as_deref();
                    let peak =
                        program.and_then(|program| final_rss(pid, program)).filter(|&peak| is_alone && peak > own_peak);
                    let (process, ms) = (0, run.elapsed_ms());
                    queue.put(peak.map(|peak| Finding::FinalRss { process, ms, peak }));
                };
                let mut enough = || enough(Stage::Running);
                let end = wait_and(&mut started.0, &mut started.1, &run, &mut enough, ended);
                cpu = end.map(|end| end.cpu);
                end.map(|end| end.status)
            }
            Started::Process(process) => {
                let gathered = (&mut attached_inside, &mut attached_unwatched);
                let before = attached::cpu_time(process.pid);
                detached = record_attached(process, &run, &shown, &mut enough, gathered).map(Some);
                cpu = attached::cpu_time(process.pid).zip(before).map(|(after, before)| after.saturating_sub(before));
                None
            }
        };
        command_status = exit_status;
        while how.wait && exit_status.is_some() && !enough(Stage::Running) {
            let pause = match shown.running.load(Ordering::Relaxed) {
                0 if members(run.path()).next().is_none() => break,
                0 => 100,
                _ => 20,
            };
            std::thread::sleep(Duration::from_millis(pause));
        }
        let duration_ms = match &detached {
            Ok(Some(end)) => end.saturating_duration_since(run.began()).as_millis() as u64 + 1,
            _ => run.elapsed_ms(),
        };
        let still_running = running(&run);
        // What is not read by now would be of processes that live on.
        queue.close();
        drop(memory_reader.map(|reader| reader.join()));
        shown.finish.store(true, Ordering::Release);
        run.control().futex_wake(crate::wire::control::DOORBELL);
        let mut until = |is_over: &dyn Fn() -> bool| {
            while !is_over() {
                show(reading(), tick);
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        until(&|| draining.is_finished());
        let drained = draining.join().unwrap_or_else(|_| Err(io::Error::other("the drain failed")));
        // Without privileges it stays in the idle class: another thread does the rest.
        shown.drained.store(true, Ordering::Release);
        idle.leave();
        shown.exits.close();
        let failed = || Err(io::Error::other("the replay failed"));
        until(&|| following.is_finished());
        let served = serving.map_or(Ok(()), |serving| serving.join().unwrap_or_else(|_| failed()));
        let followed = following.join().unwrap_or_else(|_| failed()).and(served);
        if followed.is_err() && exit_status.is_none() && drained.is_err() {
            command_status = started.wait(&run);
        }
        followed?;
        let follower = lock(&follower).take().ok_or_else(|| io::Error::other("the replay failed"))?;
        // A signal that came by now counts, whatever this thread's luck with the processor.
        shown.stop.store(signals::stop().is_some(), Ordering::Relaxed);
        let replaying = scope.spawn(|| follow_to_end(follower, &shown, &progress));
        while !replaying.is_finished() {
            show(reading(), tick);
            shown.stop.store(signals::stop().is_some(), Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(2));
        }
        let replay = replaying.join().map_err(|_| io::Error::other("the replay failed"))??;
        if exit_status.is_none() && drained.is_err() {
            // The disk is full, not the command's life: it goes on unrecorded, and its status is still mallow's.
            exit_status = started.wait(&run);
            command_status = exit_status;
        }
        let cut_short = drained.err().map(|error| format!("the spool could not be written: {error}"));
        let mut allocators_inside = inside.end();
        allocators_inside.append(&mut attached_inside);
        let end = End { duration_ms, started: command_started, cpu, exit_status, cut_short, allocators_inside };
        Ok((replay, end, still_running))
    });
    let failure = match outcome {
        // Nothing was recorded, or the process is not as it was: either is worth more than a report.
        Ok(_) if detached.is_err() => {
            signals::unwatch();
            return Err(detached.map_or_else(RunError::from, |_| RunError::NotStarted(0)));
        }
        Ok((Some(replay), end, still_running)) => {
            let exit_status = end.exit_status;
            let (mut profile, sink) = replay.finish(end);
            profile.regions = results::regions(run.path());
            let failed_processes = run.failed_processes();
            let (command_pid, mut unwatched) = match &mut started {
                Started::Command(started) => (Some(started.0.id()), std::mem::take(&mut started.1).sentences(&run)),
                Started::Process(process) => (Some(process.pid), std::mem::take(&mut attached_unwatched)),
            };
            let images = profile.processes.iter().map(|process| &*process.executable);
            unwatched.extend(inside::unseen(&profile.allocators_inside, images));
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

impl Started<'_> {
    /// Waits for a command to end, until Ctrl-C comes twice. None: it has not ended, or is a process that was attached
    /// to.
    fn wait(&mut self, run: &RunDirectory) -> Option<i32> {
        match self {
            Self::Command(started) => {
                let ended = wait(&mut started.0, &mut started.1, run, &mut || signals::interrupts() >= 2);
                ended.map(|end| end.status)
            }
            Self::Process(_) => None,
        }
    }
}

/// Attaches, waits, and detaches, while the rings are read. `enough` gets the stage. Returns when the recording ended.
fn record_attached(
    process: &AttachedProcess,
    run: &RunDirectory,
    shown: &DrainState,
    enough: &mut dyn FnMut(Stage) -> bool,
    (allocators_inside, unwatched): (&mut Vec<AllocatorInside>, &mut Vec<String>),
) -> Result<Instant, AttachError> {
    let executed = ExecutedPrograms::of(process.pid, run.path());
    let mut attachment = attached::attach(process, run, attached::is_stopped)?;
    shown.attached_ns.store(monotonic_ns(), Ordering::Release);
    unwatched.append(&mut attached::wait(process, &mut attachment, executed, &mut || enough(Stage::Running)));
    allocators_inside.extend_from_slice(attachment.allocators());
    enough(Stage::Detaching);
    // All threads stand still until one of them has done its part, and that needs a processor.
    shown.rests.store(true, Ordering::Release);
    let detached = attached::detach(process, run, attachment);
    shown.rests.store(false, Ordering::Release);
    signals::keep();
    detached
}

/// Removes a file when dropped.
struct Remove(PathBuf);

impl Drop for Remove {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Makes a new spool file, which is removed when its [`Remove`] is dropped. Pids come again, and containers that share
/// a directory have the same ones, while a spool that a killed mallow left is what its recording can be made of.
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
    // A pid of a process file may be of another namespace.
    pids.len().max(members(run.path()).count()) as u32
}

/// Pids of processes with this run directory in their environment. A child of fork has no process file until it calls
/// the allocator, as a daemon that outlives its parent.
fn members(run: &Path) -> impl Iterator<Item = u32> {
    owner::processes().filter(move |&pid| {
        owner::directory_in_environment(pid).is_ok_and(|directory| directory.as_deref() == Some(run))
    })
}

struct Follower<'a, S> {
    replay: Replay<S>,
    spool: SpoolReader,
    directory: &'a Path,
}

/// The follower, for one thread at a time; None once it was taken to replay the rest.
type SharedFollower<'a, S> = Mutex<Option<Follower<'a, S>>>;

fn lock<'m, 'a, S>(follower: &'m SharedFollower<'a, S>) -> MutexGuard<'m, Option<Follower<'a, S>>> {
    follower.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Replays the spool while it grows, until the drain has ended.
fn follow<S: EventSink>(
    follower: &SharedFollower<'_, S>,
    shown: &DrainState,
    progress: &Mutex<Progress>,
) -> io::Result<()> {
    let is_drained = || shown.drained.load(Ordering::Acquire);
    // Where processes wait at their exit, another thread does it, at once.
    let is_others = || shown.rests.load(Ordering::Acquire) || !shown.exits.is_empty();
    while !is_drained() {
        let more = match is_others() {
            false => {
                lock(follower).as_mut().map(|follower| follower.some(shown, progress, &|| is_drained() || is_others()))
            }
            true => None,
        };
        if !more.unwrap_or(Ok(false))? {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    Ok(())
}

/// Replays the spool while processes wait at their exit.
fn serve_exits<S: EventSink>(
    follower: &SharedFollower<'_, S>,
    shown: &DrainState,
    progress: &Mutex<Progress>,
) -> io::Result<()> {
    let is_drained = || shown.drained.load(Ordering::Acquire);
    while !is_drained() {
        shown.exits.wait(Duration::from_secs(1));
        while !shown.exits.is_empty() && !is_drained() {
            let more = lock(follower).as_mut().map(|follower| follower.some(shown, progress, &is_drained));
            if !more.unwrap_or(Ok(false))? {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    Ok(())
}

/// Replays what is left of a spool that grows no more. None: `shown.stop` came before its end.
fn follow_to_end<S: EventSink>(
    mut follower: Follower<'_, S>,
    shown: &DrainState,
    progress: &Mutex<Progress>,
) -> io::Result<Option<Replay<S>>> {
    let is_stopped = || shown.stop.load(Ordering::Relaxed);
    while follower.some(shown, progress, &is_stopped)? {
        if is_stopped() {
            return Ok(None);
        }
    }
    Ok(Some(follower.replay))
}

impl<S: EventSink> Follower<'_, S> {
    /// Replays some chunks, fewer once `enough` says so: where all processors are busy, each may take a thread that
    /// stands back a second. False: there was none to replay.
    fn some(&mut self, shown: &DrainState, progress: &Mutex<Progress>, enough: &dyn Fn() -> bool) -> io::Result<bool> {
        const SOME: usize = 64;
        let end = shown.spooled.load(Ordering::Acquire);
        let mut done = 0;
        while done < SOME {
            let Self { replay, spool, directory } = self;
            // `finish` reports a failed sink, once; the replay goes on for the report.
            let more = spool.next(end, |chunk, _| {
                let _ = replay.feed(chunk);
                exits::serve(replay, chunk, shown, directory);
                Ok(())
            })?;
            if !more {
                break;
            }
            done += 1;
            shown.replayed.store(spool.at(), Ordering::Relaxed);
            if enough() {
                break;
            }
        }
        if let Some(mut progress) = progress.lock().ok().filter(|_| done > 0) {
            *progress = self.replay.progress();
        }
        Ok(done > 0)
    }
}
