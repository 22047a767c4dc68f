//! Why a process could not be attached to.

use mallow_patch::{CallError, Obstacle, StopError, WriteError};
use std::io;
use std::time::Duration;

/// Why a process could not be attached to. The process is then as it was before.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error("{}", with_remedy(.0))]
    Obstacle(Obstacle),
    #[error("process {0} ended while mallow attached to it")]
    Ended(u32),
    #[error(
        "process {process} became another program ({program}) while mallow attached to it; attach again: -p {process}"
    )]
    Executed {
        process: u32,
        /// Path of the executable that the process runs now.
        program: String,
    },
    #[error("{0}")]
    Unsupported(String),
    /// Seccomp forbids calls that mallow needs in the process, or may do so.
    #[error("{what}; {remedy}")]
    Sandboxed {
        /// Which calls are forbidden, or why that is not known.
        what: String,
        remedy: String,
    },
    /// The process was started under mallow, with the library preloaded.
    #[error(
        "process {0} runs under mallow already: mallow watch -p {0} joins it if mallow run or mallow watch started it"
    )]
    Joined(u32),
    #[error("process {process} is attached to by another mallow, process {mallow}")]
    Busy { process: u32, mallow: u32 },
    #[error(
        "another mallow has been attaching to process {process}, or detaching from it, for {waited:?}; name more time with --timeout"
    )]
    Unturned { process: u32, waited: Duration },
    #[error(
        "no thread of process {process} could load the library within {waited:?}: {reason}; name more time with --timeout"
    )]
    NoThread {
        process: u32,
        waited: Duration,
        /// What was in the way of the thread that was tried last.
        reason: String,
    },
    #[error("interrupted before the process was attached to")]
    Interrupted,
    /// `dlopen` failed: `: ` and what `dlerror` says, or nothing.
    #[error("the process's dynamic linker did not load the library{}", with_cure(.0))]
    NotLoaded(String),
    #[error("{function} of {module} cannot be patched: {reason}")]
    Refused { function: String, module: String, reason: String },
    #[error("the process cannot open the run directory {directory}: {reason}")]
    Unreached {
        directory: String,
        /// Why the process cannot open the directory, and what to do.
        reason: String,
    },
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Stop(StopError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("mallow could not look into the process or work in it: {0}")]
    Io(#[from] io::Error),
}

/// What the dynamic linker says, with a remedy where one is known.
fn with_cure(why: &str) -> String {
    match why.contains("static TLS") {
        true => format!("{why}; start the program with GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096"),
        false => why.to_owned(),
    }
}

fn with_remedy(obstacle: &Obstacle) -> String {
    match obstacle.remedy() {
        Some(remedy) => format!("{obstacle}; {remedy}"),
        None => obstacle.to_string(),
    }
}

impl From<StopError> for AttachError {
    fn from(error: StopError) -> Self {
        match error {
            StopError::Obstacle(obstacle) => Self::Obstacle(obstacle),
            error => Self::Stop(error),
        }
    }
}

impl AttachError {
    /// Whether the process has ended.
    pub fn is_gone(&self) -> bool {
        let gone = |error: &io::Error| error.raw_os_error() == Some(libc::ESRCH);
        match self {
            Self::Ended(_) | Self::Obstacle(Obstacle::Gone(_) | Obstacle::Zombie(_)) => true,
            Self::Io(error) | Self::Call(CallError::Request(error)) | Self::Stop(StopError::Request(error)) => {
                gone(error)
            }
            Self::Write(WriteError::Request(error)) => gone(error),
            _ => false,
        }
    }
}
