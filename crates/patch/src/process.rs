//! What `/proc` says of a process.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mallow_proc::{Stat, Status, Task};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The process runs, or waits for something that a signal interrupts.
    Alive,
    /// The process waits for something that no signal interrupts: a disk, a child of vfork, a frozen cgroup.
    Uninterruptible,
    /// A signal or a debugger stopped the process.
    Stopped,
    /// The process has ended, and its parent has not asked for its exit status.
    Zombie,
}

/// The properties of a process that decide whether it can be traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    /// At most 15 bytes.
    pub name: String,
    /// State of the first thread.
    pub state: State,
    /// The process that the number belongs to: another one if it is that of a thread.
    pub group: u32,
    /// The process that traces it; 0 if none does.
    pub tracer: u32,
    /// Real, effective, saved and file system user.
    pub users: [u32; 4],
    /// The user to whom its status in `/proc` belongs: root, where the process may not be inspected by its user.
    pub owner: u32,
    pub threads: u32,
    /// Whether this is a thread of the kernel.
    pub kernel: bool,
}

impl Process {
    /// Reads `/proc/PID`, which every user may do unless `/proc` is mounted with `hidepid`.
    pub fn read(pid: u32) -> io::Result<Self> {
        let owner = Task::from(pid).owner()?;
        Ok(Self::of(pid, owner, &Status::read(pid)?))
    }

    fn of(pid: u32, owner: u32, status: &Status) -> Self {
        // One that ends has no memory before it is a zombie. Kernels before 6.8 do not say what is theirs: their
        // threads are children of their first one.
        let without_memory = status.virtual_bytes().is_none();
        let of_kernel = status.is_kernel_thread().unwrap_or_else(|| matches!(status.parent(), None | Some(0 | 2)));
        let state = match state_of(status.state()) {
            _ if without_memory && !of_kernel => State::Zombie,
            state => state,
        };
        Self {
            pid,
            name: status.name().unwrap_or_default(),
            state,
            group: status.group().unwrap_or_default(),
            tracer: status.tracer().unwrap_or_default(),
            users: status.users().unwrap_or_default(),
            owner,
            threads: status.threads().unwrap_or_default(),
            kernel: state != State::Zombie && without_memory,
        }
    }

    /// The path of its executable, as the process itself sees it. Needs the right to inspect it.
    pub fn executable(&self) -> io::Result<PathBuf> {
        fs::read_link(format!("/proc/{}/exe", self.pid))
    }

    /// The first bytes of its executable, up to `length`. Reads the file that runs, even if it was removed.
    pub fn executable_begin(&self, length: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(format!("/proc/{}/exe", self.pid))?.take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// A variable of the environment that it started with.
    pub fn variable(&self, name: &str) -> Option<String> {
        let all = fs::read(format!("/proc/{}/environ", self.pid)).ok()?;
        let value = all.split(|byte| *byte == 0).find_map(|v| v.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        value.map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// Path, as found from here, of a file that the process or its mappings name: it may be in another mount namespace
    /// or another root directory.
    pub fn path(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.pid));
        let elsewhere = root.join(path.strip_prefix("/").unwrap_or(path));
        let same = |a: &fs::Metadata, b: &fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        match (fs::metadata(path), fs::metadata(&elsewhere)) {
            (Ok(here), Ok(there)) if same(&here, &there) => path.to_owned(),
            (_, Ok(_)) => elsewhere,
            (Ok(_), _) => path.to_owned(),
            // The kernel names what is mapped from the root of its mount namespace on, and not from that of the
            // process.
            _ => {
                let named = fs::read_link(&root).ok();
                let below = named.and_then(|named| path.strip_prefix(named).ok().map(Path::to_owned));
                below.map(|below| root.join(below)).filter(|file| file.exists()).unwrap_or_else(|| path.to_owned())
            }
        }
    }

    /// Whether the process lives in another user namespace than the caller. None: that cannot be read.
    pub fn other_user_namespace(&self) -> Option<bool> {
        let theirs = fs::read_link(format!("/proc/{}/ns/user", self.pid)).ok()?;
        let own = fs::read_link("/proc/self/ns/user").ok()?;
        Some(theirs.as_os_str().as_bytes() != own.as_os_str().as_bytes())
    }
}

/// The state of one thread. None: it is gone.
pub(crate) fn thread_state(pid: u32, tid: u32) -> Option<State> {
    let state = Status::read(Task::Thread { process: pid, thread: tid }).ok()?.state()?;
    (state != b'X').then(|| state_of(Some(state)))
}

fn state_of(letter: Option<u8>) -> State {
    match letter {
        Some(b'D') => State::Uninterruptible,
        Some(b'T' | b't') => State::Stopped,
        Some(b'Z' | b'X' | b'x') => State::Zombie,
        _ => State::Alive,
    }
}

/// The threads of a process, in no order.
pub fn threads(pid: u32) -> io::Result<Vec<u32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect())
}

/// Ids of the process's threads, those that wait first: a thread that runs stops only once it gets a processor.
pub fn waiting_threads_first(pid: u32) -> io::Result<Vec<u32>> {
    let mut all = threads(pid)?;
    all.sort_by_cached_key(|&tid| activity(pid, tid) == Activity::Running);
    Ok(all)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    /// The thread runs, or waits for a processor.
    Running,
    Uninterruptible,
    /// The thread waits, or is gone.
    Waiting,
}

pub(crate) fn activity(pid: u32, tid: u32) -> Activity {
    match Stat::read(Task::Thread { process: pid, thread: tid }).map(|stat| stat.state()) {
        Ok(b'R') => Activity::Running,
        Ok(b'D') => Activity::Uninterruptible,
        _ => Activity::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    #[test]
    fn fields_of_a_status_are_parsed() {
        let process = |status: &str| Process::of(8, 0, &Status::parse(status));
        let status = "Name:\tcat dog\nState:\tT (stopped)\nTgid:\t7\nTracerPid:\t9\nUid:\t1\t2\t3\t4\nVmSize:\t  9 kB\n\
                      Threads:\t3\n";
        let stopped = process(status);
        assert_eq!((stopped.name.as_str(), stopped.state, stopped.group), ("cat dog", State::Stopped, 7));
        assert_eq!((stopped.tracer, stopped.users, stopped.threads), (9, [1, 2, 3, 4], 3));
        assert!(!stopped.kernel);
        assert!(process("").kernel);
        let kernels = process("State:\tI (idle)\nPPid:\t2\nKthread:\t1\n");
        assert_eq!((kernels.kernel, kernels.state), (true, State::Alive));
        // It ends: its memory is gone, and its parent does not know yet.
        let ending = process("State:\tR (running)\nPPid:\t7\nKthread:\t0\n");
        assert_eq!((ending.kernel, ending.state), (false, State::Zombie));
        let ending = process("State:\tD (disk sleep)\nPPid:\t7\n");
        assert_eq!((ending.kernel, ending.state), (false, State::Zombie));
    }

    #[test]
    fn this_process_is_known() {
        let process = Process::read(std::process::id()).unwrap();
        assert_eq!((process.group, process.state, process.tracer), (process.pid, State::Alive, 0));
        assert_eq!(process.executable().unwrap(), std::env::current_exe().unwrap());
        assert_eq!(process.executable_begin(4).unwrap(), b"\x7fELF");
        assert_eq!(process.other_user_namespace(), Some(false));
        assert_eq!(process.path(Path::new("/bin")), Path::new("/bin"));
        assert!(threads(process.pid).unwrap().contains(&process.pid));
        assert!(thread_state(process.pid, process.pid).is_some());
        assert_eq!(Process::read(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn threads_that_wait_come_before_those_that_run() {
        let (over, pid) = (AtomicBool::new(false), std::process::id());
        let is_running = |tid| activity(pid, tid) == Activity::Running;
        let (sender, numbers) = mpsc::channel();
        let number = || sender.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                number();
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let running = numbers.recv().unwrap();
            let (release, wait) = mpsc::channel::<()>();
            scope.spawn(|| {
                number();
                let _ = wait.into_iter().next();
            });
            let waiting = numbers.recv().unwrap();
            while is_running(waiting) || !is_running(running) {
                std::thread::yield_now();
            }
            let order = waiting_threads_first(pid).unwrap();
            let at = |tid| order.iter().position(|&one| one == tid).unwrap();
            assert!(at(waiting) < at(running), "{order:?}: {waiting} waits, {running} runs");
            over.store(true, Ordering::Relaxed);
            drop(release);
        });
    }
}
