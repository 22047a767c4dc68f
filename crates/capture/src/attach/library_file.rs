//! The file of the library that a process is to load: in memory, or where it has no `/proc` to open that by, in a
//! directory of its own.

use super::error::AttachError;
use crate::wire::LIBRARY_NAME;
use mallow_patch::{Gateway, Memory, Room, Thread};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags, StatVfsMountFlags};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The library's file in a directory of the process begins so; the number of a mallow follows.
const PLACED: &str = "libmallow.so.attached-";

/// Directories where that file may lie, in the root directory of the process; the first possible one is used.
const DIRECTORIES: &[&str] = &["dev/shm", "run", "tmp", "var/tmp", "dev", "."];

pub enum LibraryFile {
    /// A file in memory: its descriptor in the process.
    Descriptor(u64),
    /// A file of the process: its directory, and its name there.
    Placed(OwnedFd, String),
}

impl LibraryFile {
    /// Makes the file of `bytes`. The text is the path by which the process opens it.
    pub fn make(
        pid: u32,
        bytes: &[u8],
        (thread, gateway, memory, room): (&mut Thread, Gateway, &Memory, &Room),
    ) -> Result<(Self, String), AttachError> {
        if !has_proc(pid) {
            return Self::place(pid, bytes);
        }
        memory.write(room.name(), format!("{LIBRARY_NAME}\0").as_bytes())?;
        let arguments = [room.name(), u64::from(libc::MFD_CLOEXEC), 0, 0, 0, 0];
        let descriptor = thread.system_call(gateway, libc::SYS_memfd_create, arguments)?;
        let file = Self::Descriptor(descriptor);
        let path = format!("/proc/{pid}/fd/{descriptor}");
        let opened = OpenOptions::new().write(true).custom_flags(libc::O_CLOEXEC).open(path);
        match opened.and_then(|mut opened| opened.write_all(bytes)) {
            Ok(()) => Ok((file, format!("/proc/self/fd/{descriptor}"))),
            Err(error) => {
                file.remove(thread, gateway)?;
                Err(error.into())
            }
        }
    }

    /// Makes the file in the first directory where that is possible, and from which code may be mapped.
    fn place(pid: u32, bytes: &[u8]) -> Result<(Self, String), AttachError> {
        let name = format!("{PLACED}{}", std::process::id());
        let root = rustix::fs::open(format!("/proc/{pid}/root"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let root = root.map_err(io::Error::from)?;
        let mut refused = None;
        for directory in DIRECTORIES {
            match place_in(root.as_fd(), directory, &name, bytes) {
                Ok(at) => return Ok((Self::Placed(at, name.clone()), format!("/{directory}/{name}"))),
                Err(error) => refused = Some(error),
            }
        }
        let why = refused.map(|error| format!(" ({error})")).unwrap_or_default();
        Err(AttachError::Unsupported(format!(
            "it has no /proc by which it could open the library in memory, and no directory that mallow may write to{why}: mount /proc in its root directory (mount -t proc proc ROOT/proc)"
        )))
    }

    /// Closes or removes the file, once the library is loaded or was refused.
    pub fn remove(self, thread: &mut Thread, gateway: Gateway) -> io::Result<()> {
        match self {
            Self::Descriptor(descriptor) => {
                thread.system_call(gateway, libc::SYS_close, [descriptor, 0, 0, 0, 0, 0]).map(drop)
            }
            Self::Placed(directory, name) => Ok(rustix::fs::unlinkat(&directory, &name, AtFlags::empty())?),
        }
    }
}

/// Whether the process has `/proc`. Its `self` leads nowhere for others.
fn has_proc(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}/root/proc/self")).symlink_metadata().is_ok()
}

/// Makes the file in `directory` below `root`, out of which no link leads.
fn place_in(root: BorrowedFd, directory: &str, name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let at = rustix::fs::openat2(root, directory, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
    if rustix::fs::fstatvfs(&at)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(io::Error::other("it is mounted with noexec"));
    }
    sweep(&at);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&at, name, flags, Mode::from_raw_mode(0o644))?;
    // Whatever mallow's umask is.
    let made = rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644)).map_err(io::Error::from);
    match made.and_then(|()| File::from(file).write_all(bytes)) {
        Ok(()) => Ok(at),
        Err(error) => {
            let _ = rustix::fs::unlinkat(&at, name, AtFlags::empty());
            Err(error)
        }
    }
}

/// Removes what a mallow left that was killed.
fn sweep(directory: &OwnedFd) {
    let Ok(entries) = Dir::read_from(directory) else { return };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().ok().and_then(|name| name.strip_prefix(PLACED)) else { continue };
        let is_gone = pid.parse::<u32>().is_ok_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if is_gone {
            let _ = rustix::fs::unlinkat(directory, entry.file_name(), AtFlags::empty());
        }
    }
}

/// Whether a mapping of this path is of the library that mallow loads into a process.
pub fn is_library(path: &str) -> bool {
    let is_in_memory = path.strip_prefix("/memfd:").is_some_and(|name| name.starts_with(LIBRARY_NAME));
    is_in_memory || path.rsplit('/').next().is_some_and(|name| name.starts_with(PLACED))
}

/// Descriptors of the library's file in a process: left if a mallow was killed while the process loaded the file.
pub fn descriptors(pid: u32) -> Vec<u64> {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let is_ours = |entry: &std::fs::DirEntry| {
        let leads = std::fs::read_link(entry.path());
        leads.is_ok_and(|path| path.to_string_lossy().starts_with(&format!("/memfd:{LIBRARY_NAME}")))
    };
    let ours = entries.flatten().filter(is_ours);
    ours.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}
