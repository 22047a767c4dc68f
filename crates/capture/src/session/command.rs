//! The command of a run: prepared for, started, waited for.

use super::error::{RunError, not_executed};
use super::leftovers;
use crate::launch::blind_spots::BlindSpots;
use crate::launch::{command as launch, signals};
use crate::library::Library;
use crate::rundir::directory::{RunDirectory, Settings};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::time::Duration;

/// A run directory for it. Signals are watched from before it is made: one that comes does not leave it behind.
pub(super) fn prepare(settings: &Settings, command: &[OsString]) -> Result<RunDirectory, RunError> {
    signals::watch();
    create(settings, command)
}

/// The same for who watches signals by itself.
pub(super) fn create(settings: &Settings, command: &[OsString]) -> Result<RunDirectory, RunError> {
    leftovers::sweep_unfinished();
    let words: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    RunDirectory::create(settings, &words).map_err(RunError::Directory)
}

/// Starts it with the library in it; signals go to it from here on. Precondition: the run directory is of [`prepare`].
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

/// Waits for the command; `enough` is asked, and its processes are looked at, a few times a second. None: it said yes
/// before the command ended.
pub(super) fn wait(
    child: &mut Child,
    blind_spots: &mut BlindSpots,
    run: &RunDirectory,
    enough: &mut dyn FnMut() -> bool,
) -> Option<i32> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    const ENDED: WaitIdOptions = WaitIdOptions::EXITED.union(WaitIdOptions::NOHANG).union(WaitIdOptions::NOWAIT);
    let pid = rustix::process::Pid::from_child(child);
    let handle = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok();
    let pause = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    loop {
        // Before the command is reaped: its pid may be another process's afterwards, and a signal that is passed on is lost.
        let ended = waitid(WaitId::Pid(pid), ENDED);
        if matches!(ended, Ok(Some(_))) {
            signals::keep();
        }
        match if matches!(ended, Ok(None)) { Ok(None) } else { child.try_wait() } {
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
        blind_spots.look(child.id(), run);
        match &handle {
            // A signal ends the wait early, and that is what it is for.
            Some(handle) => drop(poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&pause))),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
