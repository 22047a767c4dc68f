//! The process that writes a process file, distinguished from others that have its pid: before it, after it, or in
//! another namespace.

use super::directory::monotonic_ns;
use crate::wire;
use mallow_proc::{Stat, Status, mappings, read_maps};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A process that runs: its pid as mallow sees it, and the time of its start, which exec keeps and a fork does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pid: u32,
    start_ticks: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerSearch {
    Found(Owner),
    /// The process has ended, or has become something else by exec.
    Gone,
    /// A process that may be the one cannot be looked into.
    Hidden,
}

/// A file that some process says to write, and what the file says of that process.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    pub inode: u64,
    /// Process id, in the process's own namespace.
    pub pid: u32,
    /// When the image began, on CLOCK_MONOTONIC.
    pub start_ns: u64,
    pub name: &'a [u8],
}

impl Owner {
    /// The living process that writes the file.
    pub fn find(claim: &Claim<'_>) -> OwnerSearch {
        let here = Self::if_it_is(claim.pid, claim);
        if let OwnerSearch::Found(_) = here {
            return here;
        }
        let all = foreign(claim.start_ns);
        let elsewhere = all.iter().filter(|(_, own)| *own == claim.pid).map(|(pid, _)| Self::if_it_is(*pid, claim));
        elsewhere.fold(here, |best, next| match (best, next) {
            (OwnerSearch::Found(_), _) | (_, OwnerSearch::Gone) => best,
            _ => next,
        })
    }

    /// Process `pid`, if it writes the file. A process that cannot be looked into is believed.
    pub fn with_pid(pid: u32, claim: &Claim<'_>) -> Option<Self> {
        match Self::if_it_is(pid, claim) {
            OwnerSearch::Found(writer) => Some(writer),
            OwnerSearch::Hidden => Some(Self { pid, start_ticks: start_ticks(pid)? }),
            OwnerSearch::Gone => None,
        }
    }

    fn if_it_is(pid: u32, claim: &Claim<'_>) -> OwnerSearch {
        match start_ticks(pid) {
            Some(start_ticks) if start_ticks <= ticks_since_boot(claim.start_ns) => match maps(pid, claim) {
                Some(true) => OwnerSearch::Found(Self { pid, start_ticks }),
                Some(false) => OwnerSearch::Gone,
                None => OwnerSearch::Hidden,
            },
            _ => OwnerSearch::Gone,
        }
    }

    /// Whether the process has the file mapped; false also where it cannot be looked into.
    pub fn has_mapped(self, claim: &Claim<'_>) -> bool {
        maps(self.pid, claim) == Some(true)
    }

    /// Whether the process has this pid in its own namespace, and that namespace is mallow's.
    pub fn is_in_own_namespace_as(self, pid: u32) -> bool {
        self.pid == pid && namespace(&pid.to_string()).is_some_and(|its| Some(its) == namespace("self"))
    }

    /// Process id, as mallow sees it.
    pub fn pid(self) -> u32 {
        self.pid
    }

    /// Id of a thread that has the process's memory: the first one's, unless that has ended and others go on.
    pub fn thread_with_memory(self) -> u32 {
        thread_with_memory(self.pid)
    }

    /// Path of the executable, below the process's own root directory.
    pub fn executable(self) -> Option<PathBuf> {
        let thread = self.thread_with_memory();
        let link = |name: &str| fs::read_link(format!("/proc/{thread}/{name}")).ok();
        let (path, root) = (link("exe")?, link("root")?);
        Some(path.strip_prefix(root).map_or_else(|_| path.clone(), |below| Path::new("/").join(below)))
    }

    /// Whether any thread of the process still runs.
    pub fn alive(self) -> bool {
        start_ticks(self.pid) == Some(self.start_ticks)
    }
}

/// Files that are mapped into process `pid` and have the name of its own process file.
pub fn own_files(pid: u32) -> std::io::Result<Vec<PathBuf>> {
    let text = read_maps(pid)?;
    let prefix = format!("p-{}-", innermost_pid(pid).unwrap_or(pid));
    let paths = mappings(&text).map(|mapping| Path::new(OsStr::from_bytes(mapping.path)));
    let is_own = |path: &&Path| path.file_name().is_some_and(|name| name.as_bytes().starts_with(prefix.as_bytes()));
    Ok(paths.filter(|path| path.is_absolute()).filter(is_own).map(Path::to_owned).collect())
}

/// The run directory that the environment of process `pid` names.
pub fn directory_in_environment(pid: u32) -> std::io::Result<Option<PathBuf>> {
    let environment = fs::read(format!("/proc/{pid}/environ"))?;
    let prefix = [wire::DIR_VARIABLE.as_bytes(), b"="].concat();
    let mut variables = environment.split(|&byte| byte == 0);
    let directory = variables.find_map(|variable| variable.strip_prefix(&prefix[..]));
    Ok(directory.map(|path| PathBuf::from(OsStr::from_bytes(path))))
}

/// When a process started, in clock ticks since boot; None where there is none, or all of its threads have ended.
pub fn start_ticks(pid: u32) -> Option<u64> {
    let stat = Stat::read(pid).ok()?;
    // A first thread that ended is a zombie while others go on.
    match stat.state() {
        b'X' | b'x' => None,
        b'Z' if stat.threads()? <= 1 => None,
        _ => stat.start_ticks(),
    }
}

/// A time on CLOCK_MONOTONIC, in clock ticks since boot as /proc counts. CLOCK_MONOTONIC stands still while the system
/// sleeps: what was before a sleep seems to have been later, so that no living process is taken for gone.
fn ticks_since_boot(monotonic: u64) -> u64 {
    let now = monotonic_ns();
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let slept = (boot.tv_sec as u64 * 1_000_000_000 + boot.tv_nsec as u64).saturating_sub(now);
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    monotonic.saturating_add(slept) / tick_ns
}

/// Whether something keeps a process file open that has locked it; None where the file cannot be opened any more, or
/// another one has its name. Takes no lock.
pub fn file_is_locked(path: &Path, inode: u64) -> Option<bool> {
    let file = fs::OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path).ok()?;
    if file.metadata().ok()?.ino() != inode {
        return None;
    }
    // SAFETY: zero is a valid value of the struct; the fields that matter are set below.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    // SAFETY: the descriptor is open, and the struct lives until the call returns.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) };
    (asked == 0).then_some(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// Id of a thread of the process that has its memory: the first one, unless that has ended.
fn thread_with_memory(pid: u32) -> u32 {
    let has_memory = |thread: &u32| fs::read_link(format!("/proc/{thread}/exe")).is_ok();
    if has_memory(&pid) {
        return pid;
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok()).find(has_memory).unwrap_or(pid)
}

/// Whether the process has the file mapped; None: the process cannot be looked into.
fn maps(pid: u32, claim: &Claim<'_>) -> Option<bool> {
    let text = match read_maps(thread_with_memory(pid)) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return None,
        // It ended meanwhile.
        Err(_) => return Some(false),
    };
    let has_name = |path: &[u8]| path.windows(claim.name.len()).any(|part| part == claim.name);
    Some(mappings(&text).any(|mapping| mapping.inode == claim.inode && has_name(mapping.path)))
}

/// Pids of processes of other pid namespaces: as mallow sees them, and in their own.
struct Foreign {
    processes: Arc<Vec<(u32, u32)>>,
    /// When the processes were looked for, on CLOCK_MONOTONIC.
    looked_ns: u64,
}

/// Processes that may write a file whose image began at `start_ns`. They are looked for anew only where that was after
/// the last look: the drain asks for each process that is gone, thousands in a build, and threads wait for it.
fn foreign(start_ns: u64) -> Arc<Vec<(u32, u32)>> {
    static KNOWN: Mutex<Option<Foreign>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.as_ref().filter(|known| start_ns < known.looked_ns) {
        return Arc::clone(&known.processes);
    }
    let looked_ns = monotonic_ns();
    let own = namespace("self");
    let elsewhere = processes().filter(|pid| namespace(&pid.to_string()).is_some_and(|its| Some(its) != own));
    let processes = Arc::new(elsewhere.filter_map(|pid| Some((pid, innermost_pid(pid)?))).collect());
    *known = Some(Foreign { processes: Arc::clone(&processes), looked_ns });
    processes
}

fn namespace(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/pid")).ok()
}

/// The pid that a process has in its own namespace.
fn innermost_pid(pid: u32) -> Option<u32> {
    Status::read(pid).ok()?.innermost_pid()
}

/// Whether a process has the control file of a run mapped, as its forked children have. None: it cannot be looked into,
/// or is gone.
pub fn is_in_run(pid: u32, run: &Path) -> Option<bool> {
    let text = read_maps(pid).ok().filter(|text| !text.is_empty())?;
    let mut control = run.file_name().unwrap_or_default().as_encoded_bytes().to_vec();
    control.extend_from_slice(b"/control");
    Some(mappings(&text).any(|mapping| mapping.path.ends_with(&control)))
}

/// Pids of the processes that threads of a process have started.
pub fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let lists = threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}

/// Most processes of a tree whose children are looked for: 2 ms of system calls.
const TREE_MOST: usize = 500;

/// Pids of the processes that descend from `pid`, without itself; not all of a large tree.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut all = children(pid);
    let mut next = 0;
    while let Some(&pid) = all.get(next).filter(|_| next < TREE_MOST) {
        next += 1;
        all.extend(children(pid));
    }
    all
}

pub fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Shared;

    /// A pid that comes again is another process, and so is one that is not mapping the file.
    #[test]
    fn a_pid_alone_is_no_process() {
        let place = tempfile::tempdir().unwrap();
        let pid = std::process::id();
        let (path, name) = (place.path().join(format!("p-{pid}-0")), format!("p-{pid}-0"));
        let file = fs::OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(4096).unwrap();
        let inode = file.metadata().unwrap().ino();
        let claim = |start_ns| Claim { inode, pid, start_ns, name: name.as_bytes() };
        assert_eq!(Owner::find(&claim(monotonic_ns())), OwnerSearch::Gone, "not mapped");
        // Other tests of this process map files of their own meanwhile.
        let mapped_here = || -> Vec<PathBuf> {
            own_files(pid).unwrap().into_iter().filter(|file| file.starts_with(place.path())).collect()
        };
        assert_eq!(mapped_here(), [] as [PathBuf; 0]);
        let mapped = Shared::map(&file, 4096).unwrap();
        assert_eq!(mapped_here(), [path]);
        let OwnerSearch::Found(writer) = Owner::find(&claim(monotonic_ns())) else { panic!("this process") };
        assert!(writer.alive() && writer.pid == pid && writer.has_mapped(&claim(0)));
        assert_eq!(Owner::find(&claim(0)), OwnerSearch::Gone, "it is older than this process");
        let later = Owner { start_ticks: writer.start_ticks + 1, ..writer };
        assert!(!later.alive(), "another one with this pid");
        drop(mapped);
        assert!(!writer.has_mapped(&claim(monotonic_ns())));
        assert_eq!(Owner::find(&claim(monotonic_ns())), OwnerSearch::Gone);
    }
}
