//! Programs that a command starts and that cannot be watched: found by looking at its processes now and then. All
//! that live longer than the time between two looks are found; what is reported of one is certain. Those that cannot
//! reach the run directory, or have no dynamic linker, were noted by whoever executed them, as far as that was a
//! process that mallow sees.

use super::outsiders::{self, Outsiders};
use crate::pace::Pace;
use crate::preflight;
use crate::rundir::directory::RunDirectory;
use crate::rundir::owner;
use crate::wire::{self, control};
use rustc_hash::{FxHashMap, FxHashSet};
use rustix::fs::StatVfsMountFlags;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Least time between two looks.
const PAUSE: Duration = Duration::from_millis(80);

pub(crate) struct BlindSpots {
    /// Executables and their mount namespaces, with what hides them; None: nothing does.
    known: FxHashMap<(PathBuf, Option<PathBuf>), Option<Why>>,
    /// Processes that did not reach the run directory at the last look: they may just have been executed.
    suspects: FxHashSet<(u32, PathBuf)>,
    pace: Pace,
}

enum Why {
    /// A sentence about the program.
    Program(String),
    /// Path of a program that cannot reach the run directory.
    Unreached(String),
}

impl Default for BlindSpots {
    fn default() -> Self {
        Self { known: FxHashMap::default(), suspects: FxHashSet::default(), pace: Pace::new(PAUSE) }
    }
}

impl BlindSpots {
    /// Looks at the processes that descend from `command`, for a few system calls each, where the pace allows a look.
    pub fn look(&mut self, command: u32, run: &RunDirectory) {
        if let Some(look) = self.pace.begin() {
            self.look_now(command, run);
            self.pace.end(look, false);
        }
    }

    fn look_now(&mut self, command: u32, run: &RunDirectory) {
        let executable = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).ok();
        let own = executable(command);
        let before = std::mem::take(&mut self.suspects);
        for pid in std::iter::once(command).chain(owner::descendants(command)) {
            // Whoever knows the name of the command's own program reports it. A process that is gone by now, or another
            // user's, is not reported.
            if let Some(program) = executable(pid).filter(|program| own.as_ref() != Some(program)) {
                let namespace = fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
                let key = (program, namespace);
                if self.known.contains_key(&key) {
                    continue;
                }
                let patched = run.control().get32(control::FLAGS) & wire::INSIDE != 0;
                let why = why(pid, &key.0, run.path(), patched);
                if let Some(Why::Unreached(_)) = why {
                    let suspect = (pid, key.0.clone());
                    let again = before.contains(&suspect);
                    self.suspects.insert(suspect);
                    if !again {
                        continue;
                    }
                }
                self.known.insert(key, why);
            }
        }
    }

    /// A sentence for each program that could not be watched, sorted, each once.
    pub fn sentences(self, run: &RunDirectory) -> Vec<String> {
        let mut noted = Outsiders::of(run.control());
        // A long path is noted by its end.
        let seen = || self.known.iter().filter(|(_, why)| why.is_some()).map(|((program, _), _)| program);
        noted.drop_unlinked(&|end| seen().any(|program| program.to_string_lossy().ends_with(end)));
        let mut all = noted.sentences();
        all.extend(self.known.into_values().flatten().filter_map(|why| match why {
            Why::Program(why) => Some(why),
            // The same ones, by other names; or what they started.
            Why::Unreached(_) if noted.has_hidden() => None,
            Why::Unreached(program) => Some(outsiders::sentence(&program, 1)),
        }));
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// What hides the program that process `pid` runs; its file may be in a file system that only this process has.
fn why(pid: u32, program: &Path, run: &Path, patched: bool) -> Option<Why> {
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let below_root = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
    let file = if program.is_file() { program.to_owned() } else { below_root(program) };
    let reachable = || {
        let control = below_root(&run.join("control"));
        let hidden = control.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound);
        // It writes to that file. Where the file system is read-only as such, so is it for mallow, who would not be
        // here.
        let read_only =
            rustix::fs::statvfs(&control).is_ok_and(|mount| mount.f_flag.contains(StatVfsMountFlags::RDONLY));
        !(hidden || read_only) || owner::is_in_run(pid, run).unwrap_or(true)
    };
    match preflight::why_program(&file, patched) {
        Some(why) => Some(Why::Program(why)),
        None if owner::directory_in_environment(pid).is_ok_and(|dir| dir.as_deref() == Some(run)) && !reachable() => {
            Some(Why::Unreached(program.display().to_string()))
        }
        None => None,
    }
}
