//! Programs that may be watched: run directories of this machine, and processes that run without Mallow.

use super::{Control, WatchError, directory_of};
use crate::attach::is_loaded;
use crate::preflight::executed_names;
use crate::rundir::changes::DirectoryChanges;
use crate::rundir::command_line;
use crate::rundir::directory::{about, bases};
use crate::rundir::owner;
use crate::rundir::process_file::process_files;
use crate::session::leftovers;
use mallow_profile::Process;
use rustc_hash::{FxHashMap, FxHashSet};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Run directories, as they come and go. Each is named when it is new, and again when processes came to it.
pub struct Candidates {
    places: Vec<(PathBuf, DirectoryChanges)>,
    runs: FxHashMap<PathBuf, DirectoryChanges>,
}

impl Default for Candidates {
    fn default() -> Self {
        Self::new()
    }
}

impl Candidates {
    /// Run directories of this user; for root, of all users.
    pub fn new() -> Self {
        let mut places: Vec<PathBuf> = bases().collect();
        if rustix::process::geteuid().is_root() {
            let users = std::fs::read_dir("/run/user").into_iter().flatten().flatten();
            places.extend(users.map(|user| user.path()));
        }
        places.sort_unstable();
        places.dedup();
        Self {
            places: places.into_iter().map(|place| (place, DirectoryChanges::default())).collect(),
            runs: FxHashMap::default(),
        }
    }

    pub fn places(&self) -> impl Iterator<Item = &Path> {
        self.places.iter().map(|(place, _)| place.as_path())
    }

    /// Run directories that are new, or whose entries changed since the last call, sorted, without those that are
    /// `known`.
    pub fn changed(&mut self, known: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
        for (place, changes) in &mut self.places {
            if !changes.since_last(place) {
                continue;
            }
            let entries = std::fs::read_dir(&place).into_iter().flatten().flatten();
            let runs = entries.filter(|entry| entry.file_name().as_bytes().starts_with(b"mallow-"));
            let now: FxHashSet<PathBuf> = runs.map(|entry| entry.path()).collect();
            self.runs.retain(|run, _| run.parent() != Some(place) || now.contains(run));
            for run in now {
                self.runs.entry(run).or_default();
            }
        }
        let mut changed: Vec<PathBuf> = Vec::new();
        for (run, changes) in &mut self.runs {
            if !known(run) && changes.since_last(run) && is_accessible(run) {
                changed.push(run.clone());
            }
        }
        changed.sort_unstable();
        changed
    }

    /// Names a run directory again by the next call, whether it changes or not.
    pub fn again(&mut self, run: &Path) {
        self.runs.insert(run.to_owned(), DirectoryChanges::default());
    }
}

/// Whether a run directory is this user's: anybody may make one of such a name in a directory that all users share.
fn is_accessible(run: &Path) -> bool {
    let user = rustix::process::geteuid();
    let status = std::fs::symlink_metadata(run);
    status.is_ok_and(|status| status.is_dir() && (status.uid() == user.as_raw() || user.is_root()))
}

/// The processes that run in a directory. Fails where its run is not a sampled one.
pub fn running(run: &Path) -> Result<Vec<Process>, WatchError> {
    Control::open(run)?;
    let about = about(run).map_err(|error| WatchError::Directory { path: run.to_owned(), error })?;
    let files = process_files(run);
    let of = |file: &crate::rundir::process_file::ProcessFile| {
        let start = file.process(0, about.started_ns);
        Process {
            pid: file.pid_here(),
            executable: start.executable,
            arguments: start.arguments,
            attached: start.attached,
            ..Process::default()
        }
    };
    let mut processes: Vec<Process> = files.iter().filter(|file| file.alive()).map(of).collect();
    executed_names::set(&mut processes);
    Ok(processes)
}

/// Processes of this user, or for root of all users, that do not run under Mallow. Each is named once.
#[derive(Default)]
pub struct Others {
    /// Executables by pid and the time of the start, which distinguishes processes that have a pid one after the other.
    seen: FxHashMap<(u32, u64), String>,
}

impl Others {
    /// Processes that were not there at the last call, that were another program then (a container's first one is often
    /// a shell that executes it), or that another mallow was attached to.
    pub fn new_ones(&mut self) -> Vec<Process> {
        let user = rustix::process::geteuid();
        let own = std::fs::read_link("/proc/self/exe").ok();
        let mut now = FxHashMap::default();
        let mut new = Vec::new();
        for pid in owner::processes() {
            let Some(began) = owner::start_ticks(pid) else { continue };
            // A thread of the kernel has no executable.
            let Some(executable) = std::fs::read_link(format!("/proc/{pid}/exe")).ok() else { continue };
            // As it was when it was started: an upgrade deletes it.
            let program = executable.to_string_lossy().trim_end_matches(" (deleted)").to_owned();
            let is_new = self.seen.get(&(pid, began)) != Some(&program);
            now.insert((pid, began), program.clone());
            if !is_new {
                continue;
            }
            let is_own = std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|status| status.uid() == user.as_raw());
            if !(is_own || user.is_root()) || Some(&executable) == own.as_ref() {
                continue;
            }
            // Named when that mallow is gone.
            if reader_of(pid).is_some() {
                now.remove(&(pid, began));
                continue;
            }
            let in_run = owner::own_files(pid).is_ok_and(|files| !files.is_empty())
                || owner::directory_in_environment(pid).is_ok_and(|run| run.is_some_and(|run| run.is_dir()));
            if in_run && !is_loaded(pid) {
                continue;
            }
            let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words = command_line::words(&arguments, true);
            new.push(Process {
                pid,
                executable: program,
                arguments: words.into_iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect(),
                ..Process::default()
            });
        }
        self.seen = now;
        executed_names::set(&mut new);
        new
    }
}

/// Process id of the mallow that reads a run directory.
pub fn reader(run: &Path) -> Option<u32> {
    leftovers::reader(run, &leftovers::control(run).ok()?)
}

/// Process id of the mallow that is attached to a process.
fn reader_of(pid: u32) -> Option<u32> {
    if is_loaded(pid) { reader(&directory_of(pid).ok()?) } else { None }
}

/// Whether mallow attached to a process, or to one that forked it: a later mallow has to attach anew.
pub fn is_attached(process: &Process) -> bool {
    is_loaded(process.pid)
}

/// Run directories that some process has in its environment: it may not have made its file in them yet.
pub fn in_use() -> FxHashSet<PathBuf> {
    owner::processes().filter_map(|pid| owner::directory_in_environment(pid).ok().flatten()).collect()
}
