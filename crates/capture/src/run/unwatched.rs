//! Programs that a command starts and that cannot be watched: found by looking at its processes now and then. Of those that
//! live longer than the time between two looks, all are found; what is told of one is certain.

use crate::sight;
use rustc_hash::FxHashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// So many processes are looked at: 2 ms of system calls.
const MOST: usize = 500;

/// Between two looks, at least.
const PAUSE: Duration = Duration::from_millis(80);

/// What was seen so far.
#[derive(Default)]
pub(super) struct Unwatched {
    /// By executable: why it is out of sight, if it is.
    known: FxHashMap<PathBuf, Option<String>>,
    last: Option<Instant>,
}

impl Unwatched {
    /// Looks at the processes that descend from `command`. Costs a few system calls for each.
    pub fn look(&mut self, command: u32) {
        if self.last.is_some_and(|last| last.elapsed() < PAUSE) {
            return;
        }
        self.last = Some(Instant::now());
        let executable = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).ok();
        let own = executable(command);
        let mut processes = vec![command];
        let mut next = 0;
        while let Some(&pid) = processes.get(next).filter(|_| next < MOST) {
            next += 1;
            processes.extend(children(pid));
            // The command's own program is told of by whoever knows its name. What is gone by now, or another user's, is not.
            if let Some(program) = executable(pid).filter(|program| own.as_ref() != Some(program)) {
                self.known.entry(program).or_insert_with_key(|program| why(pid, program));
            }
        }
    }

    /// Why each of them could not be watched, in the order of their names.
    pub fn told(self) -> Vec<String> {
        let mut all: Vec<_> = self.known.into_values().flatten().collect();
        all.sort_unstable();
        all
    }
}

/// The file may be in a file system that only the process has.
fn why(pid: u32, program: &Path) -> Option<String> {
    let inside = PathBuf::from(format!("/proc/{pid}/root")).join(program.strip_prefix("/").unwrap_or(program));
    if program.is_file() { sight::why_program(program) } else { sight::why_program(&inside) }
}

/// Processes that its threads have started.
fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}
