//! The run directory of a process to which no path leads: one with another mount namespace, root directory or user. A
//! descriptor of it is sent into the process. docs/design/attach.md gives the reasons.

use super::error::AttachError;
use crate::rundir::directory::RunDirectory;
use mallow_patch::Process;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Why a process does not open the control file by a descriptor of its directory.
pub const REFUSED: &str = "its system refuses that, although mallow sent it a descriptor: a security module (AppArmor, SELinux) may do so, see the kernel's log; start the program under mallow in its container";

/// Between two looks for the socket of the process.
const PAUSE: Duration = Duration::from_micros(200);

/// Whether the path of a run directory leads a process to it, and its user may write there. What is mounted may be
/// read-only there: then the library cannot join by the path, and says so.
pub fn is_path_enough(process: &Process, run: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    leads_to(process, run) && [own, 0].contains(&process.users[3])
}

/// Whether the path, in the root directory of the process, is that of the same directory.
fn leads_to(process: &Process, run: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let there =
        Path::new("/proc").join(process.pid.to_string()).join("root").join(run.strip_prefix("/").unwrap_or(run));
    let identity = |path: &Path| std::fs::metadata(path).map(|file| (file.dev(), file.ino())).ok();
    identity(run).is_some_and(|here| identity(&there) == Some(here))
}

/// A descriptor of the run directory, by which the process may make files in it.
pub fn descriptor(process: &Process, run: &RunDirectory) -> Result<OwnedFd, AttachError> {
    let unreached = |reason: String| AttachError::Unreached { directory: run.path().display().to_string(), reason };
    let (own, user) = (rustix::process::geteuid().as_raw(), process.users[3]);
    let other = (user != own && user != 0).then_some(user);
    if other.is_some() && own != 0 {
        return Err(unreached(format!("it belongs to user {user}; run mallow as that user or as root")));
    }
    run.lend(other).map_err(|error| {
        unreached(format!("it belongs to user {user}, and that one cannot be let in: {error}; run mallow as that user"))
    })?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(run.path(), flags, Mode::empty()).map_err(io::Error::from)?)
}

/// Sends `directory` once the library waits for it at its `socket`. Blocks until then, or until `over` is set.
pub fn send(
    pid: u32,
    socket: &dyn Fn() -> io::Result<Option<i32>>,
    directory: &OwnedFd,
    over: &AtomicBool,
) -> io::Result<()> {
    let socket = loop {
        match socket()? {
            Some(socket) => break socket,
            None if over.load(Ordering::Acquire) => return Ok(()),
            None => std::thread::sleep(PAUSE),
        }
    };
    let pid = Pid::from_raw(pid as i32).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let socket = pidfd_getfd(&process, socket, PidfdGetfdFlags::empty())?;
    let rights = [directory.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    message.push(SendAncillaryMessage::ScmRights(&rights));
    sendmsg(&socket, &[IoSlice::new(b"d")], &mut message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
    Ok(())
}
