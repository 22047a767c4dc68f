//! What restricts the system calls of a process: seccomp's filters, read from its threads.

use std::io;
use std::time::Duration;

use mallow_proc::{Status, Task};

use crate::filters::{Mode, filters, mode};
use crate::process;
use crate::seccomp::{Answer, Filter, SystemCall};
use crate::threads::{StopError, stop_thread};

const STOP: Duration = Duration::from_secs(10);

/// Rounds of looking for threads that came meanwhile: they have the filters of those that started them.
const ROUNDS: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sandbox {
    Open,
    /// Seccomp's strict mode, of one thread at least: it may read, write and exit.
    Strict,
    /// Filters that any thread has. A call is made where all of its thread's allow it.
    Filters(Vec<Filter>),
}

#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("root alone may read it (CAP_SYS_ADMIN of the machine, in no container of another user namespace)")]
    NoRight,
    /// The kernel shows them to processes alone that have none.
    #[error("mallow has a filter itself, and the kernel shows them to processes without one alone")]
    OwnFilter,
    /// The kernel keeps them, or refuses for another reason.
    #[error("the kernel does not show it: {0}")]
    Refused(io::Error),
    /// A thread could not be stopped for it.
    #[error(transparent)]
    Stop(#[from] StopError),
}

impl Sandbox {
    /// The sandbox of process `pid`. Each thread with a filter is stopped for a moment; without the right to read
    /// filters, nothing is. A filter that is installed meanwhile is not seen.
    pub fn read(pid: u32) -> Result<Self, SandboxError> {
        let (mut seen, mut filters) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let threads = process::threads(pid).unwrap_or_default();
            let new: Vec<u32> = threads.into_iter().filter(|tid| !seen.contains(tid)).collect();
            if new.is_empty() {
                break;
            }
            seen.extend(&new);
            for tid in new {
                match mode(pid, tid) {
                    Mode::None => {}
                    Mode::Strict => return Ok(Self::Strict),
                    Mode::Filter => {
                        may_read()?;
                        for filter in of_thread(pid, tid)? {
                            if !filters.contains(&filter) {
                                filters.push(filter);
                            }
                        }
                    }
                }
            }
        }
        Ok(if filters.is_empty() { Self::Open } else { Self::Filters(filters) })
    }

    /// Names of these calls that the sandbox refuses or punishes, each once, and whether it does so whatever the
    /// unknown arguments are.
    pub fn forbidden(&self, calls: &[SystemCall]) -> Vec<(&'static str, bool)> {
        let Self::Filters(filters) = self else { return Vec::new() };
        let mut all: Vec<(&str, bool)> = Vec::new();
        for call in calls {
            let answers: Vec<_> = filters.iter().map(|filter| filter.answers(call)).collect();
            if answers.iter().all(|(_, worst)| *worst == Answer::Allowed) {
                continue;
            }
            let is_certain = answers.iter().any(|(mildest, _)| *mildest != Answer::Allowed);
            match all.iter_mut().find(|(name, _)| *name == call.name) {
                Some((_, certain)) => *certain |= is_certain,
                None => all.push((call.name, is_certain)),
            }
        }
        all
    }
}

/// Whether seccomp restricts any thread of the process.
pub fn is_sandboxed(pid: u32) -> bool {
    process::threads(pid).unwrap_or_default().into_iter().any(|tid| mode(pid, tid) != Mode::None)
}

fn of_thread(pid: u32, tid: u32) -> Result<Vec<Filter>, SandboxError> {
    match stop_thread(pid, tid, STOP, |thread| filters(thread.id())) {
        Ok(Ok(filters)) => Ok(filters),
        // It ended, or became another program.
        Ok(Err(_)) | Err(StopError::Obstacle(_)) if mode(pid, tid) != Mode::Filter => Ok(Vec::new()),
        Ok(Err(error)) => Err(SandboxError::Refused(error)),
        Err(error) => Err(error.into()),
    }
}

/// The kernel's conditions for reading filters: kernel/seccomp.c, `seccomp_get_filter`.
fn may_read() -> Result<(), SandboxError> {
    const CAP_SYS_ADMIN: u32 = 21;
    let status = Status::read(Task::OwnThread).unwrap_or_default();
    if status.effective_capabilities().unwrap_or_default() >> CAP_SYS_ADMIN & 1 == 0 {
        return Err(SandboxError::NoRight);
    }
    match status.seccomp_mode() {
        None | Some(0) => Ok(()),
        _ => Err(SandboxError::OwnFilter),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::RESTART;

    #[test]
    fn a_process_without_a_filter_forbids_nothing() {
        let sandbox = Sandbox::read(std::process::id());
        // Tests may run in a container.
        if !is_sandboxed(std::process::id()) {
            let sandbox = sandbox.unwrap();
            assert_eq!((&sandbox, sandbox.forbidden(&[RESTART])), (&Sandbox::Open, Vec::new()));
        }
    }
}
