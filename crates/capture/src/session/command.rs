//! The command of a run: prepared for, started, waited for.

use super::error::{RunError, not_executed};
use super::leftovers;
use crate::launch::blind_spots::BlindSpots;
use crate::launch::{command as launch, signals};
use crate::library::Library;
use crate::rundir::directory::{RunDirectory, Settings};
use mallow_proc::Stat;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;
use std::time::Duration;

/// Makes a run directory for a command. Signals are watched from before it is made, so that none leaves it behind.
pub(super) fn prepare(settings: &Settings, command: &[OsString]) -> Result<RunDirectory, RunError> {
    signals::watch();
    create(settings, command)
}

/// Makes a run directory, as [`prepare`] does, for a caller that watches signals by itself.
pub(super) fn create(settings: &Settings, command: &[OsString]) -> Result<RunDirectory, RunError> {
    leftovers::sweep_unfinished();
    leftovers::sweep_useless();
    let words: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    RunDirectory::create(settings, &words).map_err(RunError::Directory)
}

/// Starts the command with the library in it; signals go to it from here on. The run directory must be of [`prepare`].
pub(super) fn spawn(
    run: &RunDirectory,
    library: &Library,
    command: &[OsString],
    environment: &[(OsString, OsString)],
) -> Result<Child, RunError> {
    if let Some(signal) = signals::stop() {
        return Err(RunError::NotStarted(signal));
    }
    let child = launch::launch(run, library, command, environment).map_err(|error| not_executed(command, error))?;
    signals::pass_on_to(child.id() as i32);
    Ok(child)
}

/// The highest RSS, in bytes, of a process that has ended and was not reaped as yet, as the kernel counts it for
/// whoever waits for it: of all its images, and of its children that it had waited for. None where it may be that of
/// another image than this `program`'s, and where the process is no child of this one.
pub(super) fn final_rss(pid: u32, program: &OsStr) -> Option<u64> {
    let stat = Stat::read(pid).ok()?;
    let name = Path::new(program).file_name()?.as_bytes();
    let is_program = stat.name() == &name[..name.len().min(15)];
    let has_children = stat.child_minor_faults()? != 0;
    if has_children || !is_program {
        return None;
    }
    // SAFETY: both structures are plain data, of which the kernel fills in what it has; nothing is reaped (WNOWAIT).
    let (failed, usage) = unsafe {
        let (mut info, mut usage): (libc::siginfo_t, libc::rusage) = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        let result = libc::syscall(libc::SYS_waitid, libc::P_PID, pid, &raw mut info, options, &raw mut usage);
        (result != 0 || info.si_signo != libc::SIGCHLD, usage)
    };
    (!failed).then(|| usage.ru_maxrss.unsigned_abs().saturating_mul(1024)).filter(|&bytes| bytes > 0)
}

#[derive(Clone, Copy, Debug)]
pub(super) struct CommandEnd {
    /// Exit status as a shell shows it: 128 and the signal's number where one ended the command.
    pub status: i32,
    pub signal: Option<i32>,
    /// CPU time of the command and of the processes that it waited for.
    pub cpu: Duration,
}

/// Waits for the command; `enough` is asked, and the command's processes are looked at, a few times a second. None:
/// `enough` said yes before the command ended.
pub(super) fn wait(
    child: &mut Child,
    blind_spots: &mut BlindSpots,
    run: &RunDirectory,
    enough: &mut dyn FnMut() -> bool,
) -> Option<CommandEnd> {
    wait_and(child, blind_spots, run, enough, |_| ())
}

/// [`wait`] that calls `ended` with the command's id once it has ended, before that may be another process's.
pub(super) fn wait_and(
    child: &mut Child,
    blind_spots: &mut BlindSpots,
    run: &RunDirectory,
    enough: &mut dyn FnMut() -> bool,
    mut ended: impl FnMut(u32),
) -> Option<CommandEnd> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    const ENDED: WaitIdOptions = WaitIdOptions::EXITED.union(WaitIdOptions::NOHANG).union(WaitIdOptions::NOWAIT);
    let pid = rustix::process::Pid::from_child(child);
    let handle = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok();
    let pause = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    loop {
        // Before the command is reaped: its pid may be another process's afterwards, and a signal that is passed on is
        // lost.
        let state = waitid(WaitId::Pid(pid), ENDED);
        if matches!(state, Ok(Some(_))) {
            signals::keep();
            ended(child.id());
        }
        // The kernel adds a child's CPU time to mallow's when it is reaped: the difference is this child's.
        let before = children_cpu();
        match if matches!(state, Ok(None)) { Ok(None) } else { child.try_wait() } {
            Ok(Some(status)) => {
                signals::keep();
                let cpu = children_cpu().saturating_sub(before);
                let signal = status.signal();
                let status = status.code().or_else(|| signal.map(|signal| 128 + signal));
                return status.map(|status| CommandEnd { status, signal, cpu });
            }
            Ok(None) => {}
            Err(_) => return None,
        }
        if enough() {
            signals::keep();
            return None;
        }
        blind_spots.look(child.id(), run);
        match &handle {
            // A signal ends the wait early, and that is what it is for.
            Some(handle) => drop(poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&pause))),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// CPU time of the children that mallow has waited for, and of those that these have.
fn children_cpu() -> Duration {
    // SAFETY: all-zero bytes are a value of this type.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is there to be filled. With this argument the call cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) };
    let duration = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    duration(usage.ru_utime) + duration(usage.ru_stime)
}
