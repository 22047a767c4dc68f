//! Commands that mallow runs and waits for. Each has a process group of its own, and nothing of it is left behind: not
//! when it takes too long, and not when a signal ends mallow.

// A damaged file, or a hostile one, ends in an error: what cannot fail says why in an `expect` of its own.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]

mod passed_on;
mod signals;

pub use passed_on::passed_on;

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};

use signals::Running;

/// A signal to mallow is noticed after this time at the latest.
const LOOK: Duration = Duration::from_millis(50);
/// Time for which a group may end after each request to.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs a command to its end, with the standard streams that it was given. None: it took longer than `limit`, and was
/// ended with all that it started. A signal that ends mallow ends the command first, and this does not return.
pub fn run(command: &mut Command, limit: Option<Duration>) -> io::Result<Option<ExitStatus>> {
    run_observed(command, limit, &mut || true, || {})
}

/// [`run`] for a command whose work is looked at meanwhile: several times a second `observe` answers whether it may go
/// on, else it is ended as one that took too long. `clean_up` removes what it leaves behind, before a signal ends
/// mallow.
pub fn run_observed(
    command: &mut Command,
    limit: Option<Duration>,
    observe: &mut dyn FnMut() -> bool,
    clean_up: impl FnOnce(),
) -> io::Result<Option<ExitStatus>> {
    let running = Running::begin()?;
    let mut child = command.process_group(0).spawn()?;
    let began = Instant::now();
    loop {
        let rest = limit.map(|limit| limit.saturating_sub(began.elapsed()));
        if ends_within(&mut child, rest.map_or(LOOK, |rest| rest.min(LOOK)))? {
            return child.wait().map(Some);
        }
        for signal in running.signals() {
            // SAFETY: a system call without pointers, to a child that was not waited for yet.
            unsafe { libc::kill(child.id() as i32, signal) };
        }
        if running.to_end() {
            let ended = end(&mut child);
            clean_up();
            ended?;
            running.die();
        }
        if rest.is_some_and(|rest| rest.is_zero()) || !observe() {
            end(&mut child)?;
            return Ok(None);
        }
    }
}

/// [`run`] with nothing to read; returns what the command prints.
pub fn output(command: &mut Command, limit: Option<Duration>) -> io::Result<Option<Output>> {
    let (mut out, mut err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
    let Some(status) = run(command, limit)? else { return Ok(None) };
    let said = |file: &mut File| {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes).map(|_| bytes)
    };
    Ok(Some(Output { status, stdout: said(&mut out)?, stderr: said(&mut err)? }))
}

/// True when the child ended in that time.
fn ends_within(child: &mut Child, time: Duration) -> io::Result<bool> {
    let began = Instant::now();
    let pid = pid(child);
    let handle = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    loop {
        if child.try_wait()?.is_some() {
            return Ok(true);
        }
        let rest = time.saturating_sub(began.elapsed());
        if rest.is_zero() {
            return Ok(false);
        }
        match &handle {
            Some(handle) => {
                let rest = Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() };
                // It comes back early where a signal arrives: time is looked at anew.
                let _ = poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&rest));
            }
            // Before Linux 5.3, or where no descriptor is left.
            None => std::thread::sleep(rest.min(Duration::from_millis(5))),
        }
    }
}

/// Ends a command and its group: in good order, so that a mallow among them leaves nothing behind, also where its own
/// command heeds nothing.
fn end(child: &mut Child) -> io::Result<()> {
    let Some(pid) = pid(child) else { return Ok(()) };
    let _ = kill_process_group(pid, Signal::TERM);
    // As Ctrl-C twice: the first is for a mallow's command, the second ends mallow without it.
    for _ in 0..2 {
        if !ends_within(child, PATIENCE)? {
            let _ = kill_process(pid, Signal::INT);
        }
    }
    ends_within(child, PATIENCE)?;
    let _ = kill_process_group(pid, Signal::KILL);
    child.wait().map(drop)
}

fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(child.id() as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sent to mallow alone: the command gets it, and mallow goes on.
    #[test]
    fn signals_for_programs_reach_the_command() {
        let place = tempfile::tempdir().unwrap();
        let script = "trap 'exit 7' USR1; : > ready; while :; do sleep 0.01; done";
        let ready = place.path().join("ready");
        let mut observe = || {
            if ready.exists() {
                // SAFETY: a system call without pointers, to this process.
                unsafe { libc::kill(libc::getpid(), libc::SIGUSR1) };
            }
            true
        };
        let mut command = Command::new("sh");
        let status = run_observed(command.args(["-c", script]).current_dir(place.path()), None, &mut observe, || {});
        let code = status.unwrap().and_then(|status| status.code());
        assert_eq!(code, Some(7));
    }
}
