//! Mallow's exit status around a command: the command's own, unless it could not be started, or mallow's own output
//! failed and `--fail-on-write-error` asks for 125. `output/exit.rs` lists the numbers.

use std::io::{Error, ErrorKind};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use mallow_capture::session::RunError;

use crate::output::{exit, stdio};

/// The exit status of a run that failed: 126 or 127 where the command cannot be executed, 128+n for signal n. Where the
/// command ran, see [`after_command`].
pub fn after_failure(error: RunError, fail_on_write_error: bool) -> Result<ExitCode> {
    match &error {
        &RunError::Incomplete { exit_status, .. } => {
            Ok(after_command(exit_status, Err(error.into()), fail_on_write_error))
        }
        RunError::Command { command, error } => {
            stdio::notify(&format!("{command}: {}", refusal(error, Path::new(command))));
            Ok(ExitCode::from(match error.kind() {
                ErrorKind::NotFound => exit::NOT_FOUND,
                _ => exit::NOT_EXECUTABLE,
            }))
        }
        RunError::Stopped { signal, .. } | RunError::NotStarted(signal) => {
            stdio::notify(&error.to_string());
            Ok(of_command(Some(128 + signal)))
        }
        _ => Err(error.into()),
    }
}

/// Why a command cannot be executed, in words.
pub fn refusal(error: &Error, command: &Path) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied if command.is_dir() => "a directory, and no program".to_owned(),
        ErrorKind::NotFound => "not found; is the name right, and its interpreter there?".to_owned(),
        ErrorKind::PermissionDenied => "not executable; is it a program?".to_owned(),
        _ => format!("cannot be executed: {error}"),
    }
}

/// Mallow's own exit status after a command that ended with `status`. Where it still runs, somebody pressed Ctrl-C.
fn of_command(status: Option<i32>) -> ExitCode {
    const INTERRUPTED: u8 = 128 + 2;
    ExitCode::from(status.map_or(INTERRUPTED, |status| status as u8))
}

/// The exit status after a command that ended with `status`, and of which nothing could be recorded: the command's own
/// if it failed, else 125.
pub fn after_nothing(status: Option<i32>) -> ExitCode {
    match status {
        Some(0) => ExitCode::from(exit::FAILED_AROUND_COMMAND),
        status => of_command(status),
    }
}

/// The exit status after a command where mallow's own output may have failed: that is one line on standard error, and
/// changes the status only where `fail_on_write_error` asks for it.
pub fn after_command(ended: Option<i32>, output: Result<()>, fail_on_write_error: bool) -> ExitCode {
    match output {
        Ok(()) => of_command(ended),
        Err(error) => {
            stdio::notify(&format!("{error:#}"));
            if fail_on_write_error { ExitCode::from(exit::FAILED_AROUND_COMMAND) } else { of_command(ended) }
        }
    }
}
