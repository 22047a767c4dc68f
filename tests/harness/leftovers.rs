//! What a run left behind: processes with its mark, run directories of its mallow.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Outcome;

/// Fails when a process or a run directory of this run of mallow is still there.
///
/// # Panics
/// When something was left. Processes that are about to end have some seconds to do so.
pub fn nothing_left(what: &str, run: &Outcome) {
    let patience = Instant::now() + Duration::from_secs(10);
    while !processes(&run.mark).is_empty() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
    let left = describe(&run.mark);
    if !left.is_empty() {
        kill_all(&run.mark);
        panic!("{what} left processes behind:\n{left}");
    }
    let dirs = run.before.new_of(run.pid);
    assert!(dirs.is_empty(), "{what} left {dirs:?} behind");
}

/// The run directories that there are at a moment. One with the pid of a later mallow may be among them: pids come
/// again.
#[derive(Clone, Debug)]
pub struct RunDirectories(Vec<PathBuf>);

impl RunDirectories {
    /// Those that there are now.
    pub fn now() -> Self {
        let mut places = vec![PathBuf::from("/dev/shm"), std::env::temp_dir()];
        places.extend(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
        let entries = places.iter().filter_map(|p| fs::read_dir(p).ok()).flatten().flatten();
        Self(entries.filter(|e| e.file_name().as_encoded_bytes().starts_with(b"mallow-")).map(|e| e.path()).collect())
    }

    /// Those whose `about`, which has the command, contains this text.
    pub fn with_text(&self, text: &str) -> Vec<PathBuf> {
        let contains = |dir: &&PathBuf| {
            let about = fs::read(dir.join("about")).unwrap_or_default();
            about.windows(text.len()).any(|part| part == text.as_bytes())
        };
        self.0.iter().filter(contains).cloned().collect()
    }

    /// Those of the mallow with that pid that have been made since. By name: what lies in them may be damaged.
    pub fn new_of(&self, pid: u32) -> Vec<PathBuf> {
        let prefix = format!("mallow-{pid:07}-");
        let of = |dir: &PathBuf| dir.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(prefix.as_bytes()));
        Self::now().0.into_iter().filter(of).filter(|dir| !self.0.contains(dir)).collect()
    }
}

/// Processes whose environment carries the mark.
fn processes(mark: &str) -> Vec<u32> {
    let needle = format!("HARNESS_MARK={mark}\0");
    let all = fs::read_dir("/proc").expect("/proc").flatten();
    all.filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.windows(needle.len()).any(|w| w == needle.as_bytes())
        })
        .collect()
}

/// A line for each process with the mark: what it is, and what its threads do.
pub fn describe(mark: &str) -> String {
    let mut text = String::new();
    for pid in processes(mark) {
        let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        text += &format!("{pid}: {}\n", read("cmdline").replace('\0', " "));
        for thread in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten().take(20) {
            let read = |name: &str| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            text += &format!("    {} {}", read("comm").trim(), read("syscall"));
        }
    }
    text
}

/// Kills every process with the mark.
pub fn kill_all(mark: &str) {
    for _ in 0..20 {
        let left = processes(mark);
        if left.is_empty() {
            return;
        }
        for pid in left {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // It may have ended by itself in the meantime.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
