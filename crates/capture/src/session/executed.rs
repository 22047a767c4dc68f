//! Programs that a process executes while mallow is attached to it. A forked child takes its patches and its part of the run with it;
//! exec replaces them, so nothing of what follows is seen.

use crate::rundir::owner::{children, is_in_run};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// So many processes are looked at: 2 ms of system calls.
const MOST: usize = 500;

/// So many programs are named.
const NAMED: usize = 4;

/// What was seen so far.
pub(super) struct ExecutedPrograms {
    pid: u32,
    run: PathBuf,
    /// Descendants from before, which have no part in the run.
    before: BTreeSet<u32>,
    /// By their paths: their processes.
    programs: BTreeMap<PathBuf, BTreeSet<u32>>,
}

impl ExecutedPrograms {
    /// Those of process `pid` from now on, which takes part in the run of this directory.
    pub fn of(pid: u32, run: &Path) -> Self {
        let before = descendants(pid).into_iter().collect();
        Self { pid, run: run.to_owned(), before, programs: BTreeMap::new() }
    }

    /// Looks at its descendants, and at itself.
    pub fn look(&mut self) {
        let all = descendants(self.pid).into_iter().filter(|pid| !self.before.contains(pid)).chain([self.pid]);
        let outside: Vec<u32> = all.filter(|&pid| is_in_run(pid, &self.run) == Some(false)).collect();
        for pid in outside {
            if let Ok(program) = std::fs::read_link(format!("/proc/{pid}/exe")) {
                self.programs.entry(program).or_default().insert(pid);
            }
        }
    }

    /// A sentence about them, if there are any.
    pub fn sentence(&self) -> Option<String> {
        let itself = self.programs.iter().find(|(_, pids)| pids.contains(&self.pid));
        if let Some((program, _)) = itself {
            return Some(format!(
                "process {} became {} by exec: nothing after that is included; attach again, or start it under mallow",
                self.pid,
                program.display()
            ));
        }
        let mut names: Vec<String> = self.programs.keys().map(|program| program.display().to_string()).collect();
        let more = names.len().saturating_sub(NAMED);
        names.truncate(NAMED);
        if more > 0 {
            names.push(format!("{more} more"));
        }
        (!names.is_empty()).then(|| {
            format!(
                "programs that the process executed are not included: {}; start it under mallow to see them too",
                names.join(", ")
            )
        })
    }
}

/// The processes that descend from this one.
fn descendants(pid: u32) -> Vec<u32> {
    let mut all = children(pid);
    let mut next = 0;
    while let Some(&pid) = all.get(next).filter(|_| next < MOST) {
        next += 1;
        all.extend(children(pid));
    }
    all
}
