//! A process that mallow attaches to: what is known of it before, and what the user reads meanwhile.

use std::cell::Cell;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mallow_capture::session::{self, AttachedProcess};
use mallow_proc::Stat;
use rustix::fs::{Mode, OFlags};

use crate::output::stdio;
use crate::output::text::units::span;

/// The process's name, for its recording.
pub fn name(pid: u32) -> OsString {
    session::process_name(pid).unwrap_or_else(|| OsString::from(format!("process-{pid}")))
}

/// The root directory of a process that has another one than mallow, as those in containers do. It lasts longer than
/// the process.
pub struct ForeignRoot(OwnedFd);

impl ForeignRoot {
    /// None: the process has the root directory of mallow, or is out of reach.
    pub fn of(pid: u32) -> Option<Self> {
        let identity = |path: &str| std::fs::metadata(path).map(|root| (root.dev(), root.ino())).ok();
        let theirs = format!("/proc/{pid}/root/");
        let is_own = identity(&theirs)? == identity("/")?;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        (!is_own).then(|| rustix::fs::open(&theirs, flags, Mode::empty()).ok()).flatten().map(Self)
    }

    /// The path that leads there, in this process.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

/// Limits of the numbers of a process that mallow attached to, as a clause.
pub fn limits(pid: u32) -> String {
    let when =
        age(pid).map_or_else(|| "while it ran".to_owned(), |age| format!("after {}", span(age.as_millis() as u64)));
    format!("attached {when}; blocks allocated before are not included, and what was live at the end need not be lost")
}

/// Time since the process started. None: it is gone.
pub fn age(pid: u32) -> Option<Duration> {
    let ticks = Stat::read(pid).ok()?.start_ticks()?;
    let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let ms = (boot.tv_sec as u64 * 1000 + boot.tv_nsec as u64 / 1_000_000)
        .saturating_sub(ticks * 1000 / rustix::param::clock_ticks_per_second().max(1));
    Some(Duration::from_millis(ms))
}

/// Calls `act` with process `pid`, to be attached to for `duration`. `timeout` is for finding a thread that can load
/// the library; what attaching waits for is reported once a second.
pub fn with<T>(pid: u32, duration: Option<Duration>, timeout: Duration, act: impl FnOnce(&AttachedProcess) -> T) -> T {
    let last = Cell::new(Instant::now());
    let waiting = |why: &str| {
        if last.get().elapsed() >= Duration::from_secs(1) {
            last.set(Instant::now());
            stdio::notify(&format!("still attaching: {why}"));
        }
    };
    act(&AttachedProcess { pid, duration, timeout, waiting: &waiting, warning: &stdio::notify })
}
