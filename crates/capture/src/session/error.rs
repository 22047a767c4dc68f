//! Why a run could not be.

use crate::attach::AttachError;
use crate::library::LibraryError;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

/// Why a run could not be. The messages name their causes: none is a `source` as well, which would be printed again.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("cannot make a private directory for the run: {0}; set TMPDIR to a directory that you can write to")]
    Directory(io::Error),
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// Exec refused the command.
    #[error("{command}: {error}")]
    Command { command: String, error: io::Error },
    #[error("cannot write {0}; name another output with -o")]
    Recording(io::Error),
    #[error("cannot write {0}: {1}; name another output with -o")]
    Spool(PathBuf, io::Error),
    /// The events were not read to their end. The run directory and the spool stay.
    #[error("the recording could not be completed: {error}; mallow recover {0} makes it of what was recorded", directory.display())]
    Incomplete {
        error: io::Error,
        directory: PathBuf,
        /// The command's exit status as a shell shows it. None: it still ran.
        exit_status: Option<i32>,
    },
    /// A signal came when the command had ended, and not all was replayed. The run directory and the spool stay.
    #[error("stopped before the recording was complete: mallow recover {0} makes it of what was recorded", directory.display())]
    Stopped { signal: i32, directory: PathBuf },
    /// A signal came before the command was started. Nothing is left of the run.
    #[error("stopped by signal {0} before the command was started")]
    NotStarted(i32),
    #[error("{0} is no recording that mallow left behind: {1}; mallow recover alone lists what there is")]
    NoRun(PathBuf, io::Error),
}

/// The error of a command that exec refused.
pub(super) fn not_executed(command: &[OsString], error: io::Error) -> RunError {
    RunError::Command {
        command: command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        error,
    }
}
