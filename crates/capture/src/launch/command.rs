//! Starting the command as if mallow were not there.

use super::signals;
use crate::library::Library;
use crate::rundir::directory::RunDirectory;
use crate::wire::{self, control};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// A bit for each closed standard stream: before `main`, Rust's runtime opens /dev/null for these, and ignores SIGPIPE.
/// The command must find both as mallow's caller left them.
static CLOSED: AtomicU32 = AtomicU32::new(0);
static SIGPIPE_IGNORED: AtomicI32 = AtomicI32::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static REMEMBER: extern "C" fn() = {
    extern "C" fn remember() {
        for fd in 0..3 {
            // SAFETY: asks for a descriptor's flags; changes nothing.
            if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
                CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
            }
        }
        // SAFETY: sigaction with no new action only fills `old`, which is valid for writes; zero is a valid value of
        // it.
        let ignored = unsafe {
            let mut old: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGPIPE, std::ptr::null(), &mut old) == 0 && old.sa_sigaction == libc::SIG_IGN
        };
        SIGPIPE_IGNORED.store(i32::from(ignored), Ordering::Relaxed);
    }
    remember
};

/// Starts `command` with the library loaded into it, and `environment` set. Fails as exec does: not found, not
/// executable, ….
pub fn launch(
    run: &RunDirectory,
    library: &Library,
    command: &[OsString],
    environment: &[(OsString, OsString)],
) -> io::Result<Child> {
    let mut child = prepared(run, library, command)?;
    child.envs(environment.iter().map(|(name, value)| (name, value)));
    // SAFETY: as in `prepared`: the closure makes system calls alone. A signal that came since the fork ends the child.
    unsafe {
        child.pre_exec(|| {
            signals::unwatch();
            if let Some(signal) = signals::stop() {
                libc::kill(libc::getpid(), signal);
            }
            Ok(())
        });
    }
    child.spawn()
}

/// Becomes `command`, with the library loaded into it. Returns only where exec fails, or a watched signal came. A
/// signal in the few instructions between the last look and exec ends mallow, and the next run removes the run
/// directory.
pub fn become_command(run: &RunDirectory, library: &Library, command: &[OsString]) -> io::Error {
    match prepared(run, library, command) {
        Ok(mut command) => {
            // SAFETY: as in `prepared`: the closure makes system calls alone.
            unsafe {
                command.pre_exec(|| {
                    signals::unwatch();
                    signals::stop().map_or(Ok(()), |_| Err(io::Error::from_raw_os_error(libc::EINTR)))
                });
            }
            command.exec()
        }
        Err(error) => error,
    }
}

fn prepared(run: &RunDirectory, library: &Library, command: &[OsString]) -> io::Result<Command> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    };
    let mut preload = OsString::from(&library.preload);
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let root_pid = run.control().word32(control::ROOT_PID) as *const AtomicU32 as usize;
    let mut child = Command::new(program);
    child.args(arguments).env("LD_PRELOAD", preload).env(wire::DIR_VARIABLE, run.path());
    // SAFETY: the closure runs between fork and exec and makes system calls and one store to a shared mapping, which
    // outlives it; it neither allocates nor takes locks.
    unsafe {
        child.pre_exec(move || {
            (*(root_pid as *const AtomicU32)).store(libc::getpid() as u32, Ordering::Release);
            if SIGPIPE_IGNORED.load(Ordering::Relaxed) != 0 {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            }
            let closed = CLOSED.load(Ordering::Relaxed);
            for fd in 0..3 {
                if closed & 1 << fd != 0 {
                    libc::close(fd);
                }
            }
            Ok(())
        });
    }
    Ok(child)
}
