//! Runs of a process that was not started under mallow: attached to, waited for, detached from.

use super::executed::ExecutedPrograms;
use super::leftovers;
use crate::attach::{self, AttachError, Attachment, Rest};
use crate::launch::signals;
use crate::preflight::executed_names;
use crate::rundir::command_line;
use crate::rundir::directory::RunDirectory;
use crate::wire::control;
use mallow_profile::command_word;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::{Duration, Instant};

pub struct AttachedProcess<'a> {
    pub pid: u32,
    /// How long to stay attached. None: until a signal comes or the process ends.
    pub duration: Option<Duration>,
    /// How long to wait for a thread that holds no lock.
    pub timeout: Duration,
    /// Called while attaching waits, with what is in the way.
    pub waiting: &'a dyn Fn(&str),
    /// Called with a clause about what is left in the process after detaching.
    pub warning: &'a dyn Fn(&str),
}

/// The words of a process's command line; empty where it is gone.
pub(super) fn command_line(pid: u32) -> Vec<OsString> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    command_line::words(&bytes, true).into_iter().map(|word| OsString::from_vec(word.to_vec())).collect()
}

/// What the command line of a process calls its program; see [`mallow_profile::command_word`].
pub(super) fn command_word_of(pid: u32) -> Option<OsString> {
    let first = command_line(pid).into_iter().next()?.to_string_lossy().into_owned();
    let executable = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    Some(command_word(&first, [&*executable.to_string_lossy()]).into())
}

/// CPU time of a process so far. None: the process is gone.
pub(super) fn cpu_time(pid: u32) -> Option<Duration> {
    let mut clock = 0;
    // SAFETY: both calls write to a place of their own.
    let time = unsafe {
        if libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) != 0 {
            return None;
        }
        let mut time: libc::timespec = std::mem::zeroed();
        if libc::clock_gettime(clock, &mut time) != 0 {
            return None;
        }
        time
    };
    Some(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Name of a process: its command's, where that leads to its executable, which may have several names; else the
/// executable's. None: the process is gone.
pub fn name(pid: u32) -> Option<OsString> {
    let executable = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    let executable = executable.to_string_lossy();
    // The file may have been replaced meanwhile.
    let executable = executable.strip_suffix(" (deleted)").unwrap_or(&executable);
    let command = command_line(pid).into_iter().next().unwrap_or_default();
    let executed_as = executed_names::find(executable, &command.to_string_lossy());
    let path = if executed_as.is_empty() { executable } else { &executed_as };
    Path::new(path).file_name().map(OsString::from)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchedBy {
    /// Process id of the mallow that is attached.
    Mallow(u32),
    /// The mallow that was attached has been killed.
    Killed,
}

/// Whose patches process `pid` has; None: it has none.
pub fn patched_by(pid: u32) -> Option<PatchedBy> {
    let directory = attach::joined_directory(pid)?;
    Some(reader_of(&directory).map_or(PatchedBy::Killed, PatchedBy::Mallow))
}

/// Process id of the mallow that reads a run directory.
fn reader_of(directory: &Path) -> Option<u32> {
    leftovers::reader(directory, &leftovers::control(directory).ok()?)
}

/// Whether a signal came that ends a recording.
pub(super) fn is_stopped() -> bool {
    signals::stop().is_some()
}

/// Attaches to the process, and gives up once `is_stopped`.
pub(super) fn attach(
    process: &AttachedProcess,
    run: &RunDirectory,
    is_stopped: fn() -> bool,
) -> Result<Attachment, AttachError> {
    run.control().set32(control::ROOT_PID, process.pid);
    let mut given_up = |why: &str| {
        (process.waiting)(why);
        is_stopped()
    };
    attach::attach(process.pid, run, process.timeout, &mut given_up, &reader_of)
}

/// A clause: what is left in a process after detaching, and why.
pub fn left(rest: Rest) -> &'static str {
    match rest {
        Rest::InLibrary => {
            "detached, and its code is as it was; a thread may still be in the library, so some memory of this run stays with the process until its end or until mallow attaches again"
        }
        Rest::Sandboxed => {
            "detached, and its code is as it was; the process has installed a seccomp filter that may forbid what gives the memory of this run back, so that stays with it until its end"
        }
    }
}

/// Detaches from the process. Returns since when nothing was seen any more, which may be long before it is quiet.
pub(super) fn detach(
    process: &AttachedProcess,
    run: &RunDirectory,
    attachment: Attachment,
) -> Result<Instant, AttachError> {
    let detached = attachment.detach(run.path())?;
    if let Some(rest) = detached.rest {
        (process.warning)(left(rest));
    }
    Ok(detached.restored)
}

/// A clause: allocators in libraries that the process loads now cannot be patched.
pub fn later_libraries_fail(error: &AttachError) -> String {
    format!("allocators in libraries that the process loads now are not included: {error}; mallow tries again")
}

/// Waits until the time is over, a signal comes, the process ends, or `enough` says so, and looks for libraries that
/// the process loads meanwhile: both a few times a second. `executed` was made before the process was attached to.
/// Returns sentences about what the process did that is not seen.
pub(super) fn wait(
    process: &AttachedProcess,
    attachment: &mut Attachment,
    mut executed: ExecutedPrograms,
    enough: &mut dyn FnMut() -> bool,
) -> Vec<String> {
    let handle = rustix::process::Pid::from_raw(process.pid as i32)
        .and_then(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok());
    let deadline = process.duration.map(|duration| Instant::now() + duration);
    while signals::stop().is_none() && !enough() {
        // A process that ended is noticed below.
        if let Err(error) = attachment.patch_new_modules() {
            (process.warning)(&later_libraries_fail(&error));
        }
        executed.look();
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        let pause = left.unwrap_or(Duration::MAX).min(Duration::from_millis(100));
        let time = Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() };
        match &handle {
            Some(handle) if poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&time)) == Ok(1) => break,
            Some(_) => {}
            None if !std::fs::exists(format!("/proc/{}", process.pid)).unwrap_or(false) => break,
            None => std::thread::sleep(pause),
        }
    }
    signals::forget();
    executed.look_now();
    executed.sentence().into_iter().collect()
}
