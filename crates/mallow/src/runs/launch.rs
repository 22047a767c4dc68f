//! What `stat` and `record` share: failures around a command, its exit status, and what was out of sight.

use std::ffi::OsString;
use std::io::{Error, ErrorKind};
use std::process::ExitCode;

use anyhow::Result;
use mallow_capture::preflight::{self, Chain};
use mallow_capture::rundir::outsiders::WITHOUT;
use mallow_capture::session::RunError;

use crate::output::text::units::of;
use crate::output::{exit, stdio};

/// A run that could not be: a command that cannot be executed has exit codes of its own, and a signal has that of one. Where
/// the command ran, its status is mallow's unless the user had it otherwise; see [`status_after`].
pub fn failed(error: RunError, fail_on_write_error: bool) -> Result<ExitCode> {
    match &error {
        &RunError::Incomplete { exit_status, .. } => {
            Ok(status_after(exit_status, Err(error.into()), fail_on_write_error))
        }
        RunError::Command { command, error } => {
            stdio::notify(&format!("{command}: {}", refusal(error)));
            Ok(ExitCode::from(match error.kind() {
                ErrorKind::NotFound => exit::NOT_FOUND,
                _ => exit::NOT_EXECUTABLE,
            }))
        }
        RunError::Stopped { signal, .. } | RunError::NotStarted(signal) => {
            stdio::notify(&error.to_string());
            Ok(status(Some(128 + signal)))
        }
        _ => Err(error.into()),
    }
}

/// Why a command cannot be executed, in words.
pub fn refusal(error: &Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "not found; is the name right, and its interpreter there?".to_owned(),
        ErrorKind::PermissionDenied => "not executable; is it a program?".to_owned(),
        _ => format!("cannot be executed: {error}"),
    }
}

/// Mallow's own exit status after a command that ended with `status`. Where it still runs, somebody pressed Ctrl-C.
pub fn status(status: Option<i32>) -> ExitCode {
    const INTERRUPTED: u8 = 128 + 2;
    ExitCode::from(status.map_or(INTERRUPTED, |status| status as u8))
}

/// The same where mallow's own output may have failed: that is one line on standard error, and changes the status only where
/// `fail_on_write_error` asks for it.
pub fn status_after(ended: Option<i32>, output: Result<()>, fail_on_write_error: bool) -> ExitCode {
    match output {
        Ok(()) => status(ended),
        Err(error) => {
            stdio::notify(&format!("{error:#}"));
            if fail_on_write_error { ExitCode::from(exit::FAILED_AROUND_COMMAND) } else { status(ended) }
        }
    }
}

/// What was recorded of a command's processes, and what not.
pub struct ObservedProcesses<'a> {
    /// Process images.
    pub seen: usize,
    /// Those of the command itself: what it executes in its own place is another one.
    pub command: usize,
    /// Images that could not take part.
    pub failed: u32,
    /// Processes that went on.
    pub still_running: u32,
    /// Why programs that the command started were out of sight.
    pub unwatched: &'a [String],
}

/// So many programs that the command started are told of by name.
const UNWATCHED: usize = 3;

/// Tells what was out of sight.
pub fn warn(command: &[OsString], sight: &ObservedProcesses<'_>) {
    let &ObservedProcesses { seen, failed, still_running, .. } = sight;
    let chain = Chain::of(command);
    let mut unwatched = sight.unwatched.to_vec();
    if sight.command < chain.programs().count().max(1) && failed == 0 {
        let program = command.first().map(OsString::as_os_str).unwrap_or_default();
        let name = program.to_string_lossy();
        match (preflight::why(&chain), seen) {
            (Some(why), 0) => stdio::notify(&format!("nothing was recorded: {why}")),
            (Some(why), _) if sight.command > 0 => {
                let last = chain.programs().last().map_or(name, |program| program.to_string_lossy());
                // By the name that it was executed by: the same program, for the same reason.
                let base = last.rsplit('/').next().unwrap_or(&last).to_owned();
                let same =
                    |told: &str| told.strip_suffix(WITHOUT).is_some_and(|it| it.rsplit('/').next() == Some(&base));
                unwatched.retain(|told| !same(told));
                stdio::notify(&format!("{last} was not recorded, only what led to it: {why}"));
            }
            (Some(why), _) => stdio::notify(&format!("{name} itself was not recorded, only what it started: {why}")),
            (None, 0) => stdio::notify(&format!(
                "nothing was recorded: {name} allocated nothing; what it started without LD_PRELOAD and MALLOW_DIR is not seen"
            )),
            // It allocated nothing, and what it started did.
            (None, _) => {}
        }
    }
    warn_unwatched(&unwatched, "recorded");
    if failed > 0 {
        let processes = of(failed.into(), "process");
        stdio::notify(&format!(
            "{processes} went unrecorded for want of memory, file size or permission (ulimit -v, ulimit -f, a change of user or root directory)"
        ));
    }
    if still_running > 0 {
        let processes = of(still_running.into(), "process");
        stdio::notify(&format!("{processes} continued after the recording ended; --wait records until all have ended"));
    }
}

/// Names programs that the command started and that were out of sight. `how`: what they were not.
pub fn warn_unwatched(unwatched: &[String], how: &str) {
    for why in unwatched.iter().take(UNWATCHED) {
        stdio::notify(&format!("started by the command, and not {how}: {why}"));
    }
    if unwatched.len() > UNWATCHED {
        let more = of((unwatched.len() - UNWATCHED) as u64, "program");
        stdio::notify(&format!("and so were {more} more"));
    }
}
