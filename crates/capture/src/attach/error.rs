//! Why a process could not be attached to.

use mallow_patch::{CallError, Obstacle, StopError, WriteError};
use std::io;
use std::time::Duration;

/// Why a process could not be attached to. It is then as it was before.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// It cannot be traced.
    #[error("{}", with_remedy(.0))]
    Obstacle(Obstacle),
    /// It ended meanwhile.
    #[error("process {0} ended while mallow attached to it")]
    Ended(u32),
    /// It has become another program meanwhile.
    #[error(
        "process {process} became another program ({program}) while mallow attached to it; attach again: -p {process}"
    )]
    Executed {
        process: u32,
        /// The path of what it is now.
        program: String,
    },
    /// It cannot be attached to.
    #[error("{0}")]
    Unsupported(String),
    /// Seccomp forbids what is needed in it, or may do so.
    #[error("{what}; {remedy}")]
    Sandboxed {
        /// What is forbidden, or why that is not known.
        what: String,
        remedy: String,
    },
    /// The library is in it already, and takes part in a run.
    #[error(
        "process {0} runs under mallow already: mallow watch -p {0} joins it if mallow run or mallow watch started it"
    )]
    Joined(u32),
    /// Another mallow is attached.
    #[error("process {process} is attached to by another mallow, process {mallow}")]
    Busy { process: u32, mallow: u32 },
    /// Another mallow works on it.
    #[error(
        "another mallow has been attaching to process {process}, or detaching from it, for {waited:?}; name more time with --timeout"
    )]
    Unturned {
        process: u32,
        /// How long it was waited for.
        waited: Duration,
    },
    /// No thread could be used in time.
    #[error(
        "no thread of process {process} could load the library within {waited:?}: {reason}; name more time with --timeout"
    )]
    NoThread {
        process: u32,
        /// How long it was tried.
        waited: Duration,
        /// What was in the way at last.
        reason: String,
    },
    /// The user did not want to wait any longer.
    #[error("interrupted before the process was attached to")]
    Interrupted,
    /// The dynamic linker refused.
    #[error("the process's dynamic linker did not load the library{}", with_cure(.0))]
    NotLoaded(String),
    /// A function that must be seen cannot be patched.
    #[error("{function} of {module} cannot be patched: {reason}")]
    Refused {
        function: String,
        module: String,
        /// Why not.
        reason: String,
    },
    /// The library could not open the run directory.
    #[error("the process cannot open the run directory {directory}: {reason}")]
    Unreached {
        directory: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// A call in the process failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// Its threads could not be stopped.
    #[error(transparent)]
    Stop(StopError),
    /// The patches could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Something else failed.
    #[error("mallow could not look into the process or work in it: {0}")]
    Io(#[from] io::Error),
}

/// What the dynamic linker says, and what to do about it.
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
