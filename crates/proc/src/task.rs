//! Whose files are read.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// More than most files have: bytes.
const ROOM: usize = 16 << 10;

/// A process or a thread, as this process's `/proc` numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The process that asks.
    Own,
    /// The thread that asks.
    OwnThread,
    /// A process. The number of a thread that is not its first one leads to that thread.
    Process(u32),
    /// One thread of a process.
    Thread { process: u32, thread: u32 },
}

impl From<u32> for Task {
    fn from(pid: u32) -> Self {
        Self::Process(pid)
    }
}

impl Task {
    /// The user to whom its files belong: root, where the process may not be inspected by its user. Fails where there
    /// is no such task.
    pub fn owner(self) -> io::Result<u32> {
        fs::metadata(self.file("status")).map(|file| file.uid())
    }

    pub(crate) fn file(self, name: &str) -> PathBuf {
        let path = match self {
            Self::Own => format!("/proc/self/{name}"),
            Self::OwnThread => format!("/proc/thread-self/{name}"),
            Self::Process(pid) => format!("/proc/{pid}/{name}"),
            Self::Thread { process, thread } => format!("/proc/{process}/task/{thread}/{name}"),
        };
        path.into()
    }

    /// The whole file. The kernel does not say how long it is: a buffer that begins small would take a system call for
    /// each doubling.
    pub(crate) fn read(self, name: &str) -> io::Result<Vec<u8>> {
        let mut text = Vec::with_capacity(ROOM);
        File::open(self.file(name))?.read_to_end(&mut text)?;
        Ok(text)
    }
}

/// The auxiliary vector of a process, as the kernel gave it to the program: exec makes another one, with addresses of
/// its own. Empty where the process has no memory any more. Does not take the lock of its mappings, but needs the right
/// to inspect it.
pub fn auxiliary_vector(task: impl Into<Task>) -> io::Result<Vec<u8>> {
    task.into().read("auxv")
}
