//! What a process did while mallow attached to it, if that failed: the reason is then what it did, and not what failed
//! because of it.

use super::error::AttachError;
use mallow_patch::{Obstacle, Process, State};
use mallow_proc::auxiliary_vector;

#[derive(Debug)]
pub struct Moment {
    pid: u32,
    /// The auxiliary vector: each exec chooses other addresses.
    vector: Option<Vec<u8>>,
}

impl Moment {
    /// Notes the state of process `pid` before it is attached to.
    pub fn of(pid: u32) -> Self {
        Self { pid, vector: vector(pid) }
    }

    /// How the program has ended since then. None: it has not.
    pub fn end(&self) -> Option<AttachError> {
        let pid = self.pid;
        match Process::read(pid) {
            Err(_) => return Some(AttachError::Ended(pid)),
            Ok(process) if process.state == State::Zombie => return Some(AttachError::Ended(pid)),
            Ok(_) => {}
        }
        let now = vector(pid);
        if now.is_none() || self.vector.is_none() || now == self.vector {
            return None;
        }
        let path = Process::read(pid).and_then(|process| process.executable());
        let program = path.map_or_else(|_| "unknown".to_owned(), |path| path.display().to_string());
        Some(AttachError::Executed { process: pid, program })
    }

    /// The reason why attaching failed: `error`, unless the program has ended, was stopped or was frozen meanwhile.
    pub fn explain(&self, error: AttachError) -> AttachError {
        let pid = self.pid;
        // These are decisions, and true whatever the process does.
        if matches!(error, AttachError::Interrupted | AttachError::Busy { .. } | AttachError::Unturned { .. }) {
            return error;
        }
        if let Some(end) = self.end() {
            return end;
        }
        let holds = |obstacle: &Obstacle| matches!(obstacle, Obstacle::Stopped(_) | Obstacle::Frozen(_));
        match Obstacle::all(pid).into_iter().find(holds) {
            Some(obstacle) => AttachError::Obstacle(obstacle),
            None => error,
        }
    }
}

/// The auxiliary vector of a process. None: it cannot be read, or the process has none any more.
fn vector(pid: u32) -> Option<Vec<u8>> {
    auxiliary_vector(pid).ok().filter(|vector| !vector.is_empty())
}
