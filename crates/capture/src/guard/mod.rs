//! Guarding: wrong accesses to heap memory stop their thread in the kernel, and are read from outside.
//! docs/design/guard.md draws it.

mod crash;
mod faults;
mod finding;
mod hold;
mod image;
mod keeper;
mod leaks;
mod operators;
mod region;
mod slots;
mod threads;
mod uffd;

pub use finding::{
    Access, Addresses, Block, Crash, Finding, Freeing, Kind, Leak, Message, Mismatch, Operation, Operator, Outcome,
    Region, Search, Zeroed,
};
pub use keeper::keep;
use mallow_proc::{Status, Task};
use threads::name as thread_name;

use crate::rundir::directory::{Mode, RunDirectory};
use crate::session::{self, RunError};
use crate::watch::Watch;
use crate::wire::{Shared, control, guard};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Name of itself (`argv[0]`) by which mallow's own program becomes the keeper.
pub const KEEPER: &str = "mallow-keeper";
/// Findings of one image that are reported at the most.
pub const MOST_FINDINGS: u64 = 1000;

/// Where a block lies in its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardedEdge {
    /// Before the missing page: accesses after it are found.
    End = 0,
    /// After the missing page: accesses before it are found.
    Begin = 1,
    /// Either, for each allocation anew.
    Random = 2,
}

/// How a command is guarded.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes between guarded allocations, on average; None: every allocation is guarded.
    pub period: Option<u32>,
    /// Most bytes that the pages of live guarded blocks may take.
    pub memory: u64,
    pub place: GuardedEdge,
    /// Alignment of every block, at least: a power of two.
    pub alignment: u32,
    /// The program ends at its first error.
    pub fails_fast: bool,
    /// Each image is searched for leaks at its exit.
    pub leaks: bool,
    /// A signal that would end the program is reported first.
    pub crashes: bool,
    /// Where userfaultfd is forbidden, a signal handler in the program may take its place.
    pub handler: bool,
}

impl Settings {
    /// Samples of a program in production: a block begins or ends at its missing page at random.
    pub fn sampled(period: u32, handler: bool) -> Self {
        const MEMORY: u64 = 256 << 20;
        let place = GuardedEdge::Random;
        Self {
            period: Some(period),
            memory: MEMORY,
            place,
            alignment: 16,
            fails_fast: false,
            leaks: false,
            crashes: false,
            handler,
        }
    }
}

/// A keeper that mallow started. Dropping it closes the keeper's input, which ends the keeper.
pub struct Keeper {
    process: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Message>,
}

/// Why userfaultfd fails with `errno` `error`, and what to do.
pub fn refusal(error: i32) -> String {
    match error {
        libc::ENOSYS => "this kernel has no userfaultfd; guarding needs Linux 5.11 with CONFIG_USERFAULTFD".to_owned(),
        libc::EPERM => "userfaultfd is forbidden, as Docker's default seccomp profile does; start the container with a profile that allows it (--security-opt seccomp=…), or run outside of it".to_owned(),
        libc::EINVAL => "this kernel's userfaultfd has no user mode; guarding needs Linux 5.11".to_owned(),
        other => format!("userfaultfd fails: {}", io::Error::from_raw_os_error(other)),
    }
}

/// Whether this machine lets a process have a userfaultfd. A child tries: a filter of system calls may kill who does.
pub fn available() -> Result<(), String> {
    // SAFETY: the child makes two system calls.
    let status = unsafe {
        let child = libc::fork();
        if child == 0 {
            let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | 1;
            let result = libc::syscall(libc::SYS_userfaultfd, flags);
            libc::_exit(if result >= 0 { 0 } else { *libc::__errno_location() });
        }
        let mut status = 0;
        if child < 0 || libc::waitpid(child, &mut status, 0) != child {
            return Err(format!("cannot find out whether userfaultfd works: {}", io::Error::last_os_error()));
        }
        status
    };
    match libc::WIFEXITED(status) {
        true if libc::WEXITSTATUS(status) == 0 => Ok(()),
        true => Err(refusal(libc::WEXITSTATUS(status))),
        false => Err("a filter of system calls (seccomp) kills who calls userfaultfd".to_owned()),
    }
}

/// Number of seccomp filters that mallow runs under; 0 where it cannot be read.
fn filters() -> u32 {
    Status::read(Task::Own).ok().and_then(|status| status.seccomp_filters()).unwrap_or(0)
}

/// Starts `command` guarded; the keeper is there before it.
pub fn start(command: &[OsString], settings: &Settings) -> Result<(RunDirectory, Child, Keeper), RunError> {
    let mut keeper = None;
    let (run, child) = session::start_sampled_with(command, Mode::Sample, settings.period.unwrap_or(1), &mut |run| {
        if settings.period.is_none() {
            // As many again wait in quarantine.
            run.control().set32(control::MAX_SLOTS, pages(settings).saturating_mul(2).clamp(1 << 12, 1 << 20));
        }
        keeper = Some(Keeper::start(run.path(), run.control(), settings)?);
        Ok(())
    })?;
    let keeper = keeper.ok_or_else(|| RunError::Directory(io::Error::from(io::ErrorKind::NotFound)))?;
    Ok((run, child, keeper))
}

/// Guards the samples of a program that runs, and was started by `mallow run` or `mallow watch`: each of its processes
/// takes part from its next look at the control file on.
pub fn join(watch: &Watch, settings: &Settings) -> io::Result<Keeper> {
    Keeper::start(watch.directory(), watch.control().shared(), settings)
}

/// Most pages that live guarded blocks may take.
fn pages(settings: &Settings) -> u32 {
    (settings.memory >> 12).clamp(1, 1 << 22) as u32
}

/// Whether process `pid` is a keeper that has not ended.
fn is_keeper(pid: u32) -> bool {
    pid != 0 && std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.starts_with(KEEPER.as_bytes()))
}

impl Keeper {
    /// Says in the control file how programs are guarded, and starts the keeper.
    fn start(directory: &Path, shared: &Shared, settings: &Settings) -> io::Result<Self> {
        // Two of them cannot have one image: that of a mallow that was killed is about to end.
        const OLD: Duration = Duration::from_secs(2);
        let (old, began) = (shared.get32(control::GUARD_KEEPER), Instant::now());
        while is_keeper(old) && began.elapsed() < OLD {
            std::thread::sleep(Duration::from_millis(5));
        }
        let every = if settings.period.is_none() { guard::EVERY } else { 0 };
        let abort = if settings.fails_fast { guard::ABORT } else { 0 };
        let leaks = if settings.leaks { guard::LEAKS } else { 0 };
        shared.set32(control::GUARD_PAGES, pages(settings));
        shared.set32(control::GUARD_PLACE, settings.place as u32);
        shared.set32(control::GUARD_ALIGNMENT, settings.alignment.clamp(1, 4096));
        shared.set32(control::GUARD_FILTERS, filters());
        let handler = if settings.handler { guard::HANDLER } else { 0 };
        let crashes = if settings.crashes { guard::CRASHES } else { 0 };
        let all = guard::EVERY | guard::ABORT | guard::LEAKS | guard::HANDLER | guard::CRASHES;
        let others = shared.get32(control::FLAGS) & !all;
        shared.set32(control::FLAGS, others | guard::GUARD | every | abort | leaks | handler | crashes);
        let started = Self::spawn(directory)?;
        shared.word32(control::GUARD_KEEPER).store(started.process.id(), Ordering::Release);
        Ok(started)
    }

    fn spawn(directory: &Path) -> io::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.arg0(KEEPER).arg(directory).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // SAFETY: one system call. In a session of its own no terminal stops or ends it.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                Ok(())
            });
        }
        let mut process = command.spawn()?;
        let input = process.stdin.take();
        let output = process.stdout.take().ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        let (send, messages) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                let Ok(line) = line else { break };
                // A line that is none is no message: the keeper was killed while it wrote.
                if let Ok(message) = serde_json::from_str(&line)
                    && send.send(message).is_err()
                {
                    break;
                }
            }
        });
        Ok(Self { process, input, messages })
    }

    /// What the keeper said since the last call.
    pub fn messages(&self) -> impl Iterator<Item = Message> {
        self.messages.try_iter()
    }

    /// Whether the keeper has ended by itself, or was killed: nothing is guarded any more.
    pub fn is_gone(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(Some(_)))
    }

    /// Ends the keeper, and returns all that it still says. One that says nothing more for 20 s is killed: the kernel
    /// then lets go what it held.
    pub fn end(mut self) -> Vec<Message> {
        const SILENCE: Duration = Duration::from_secs(20);
        drop(self.input.take());
        let mut messages = Vec::new();
        loop {
            match self.messages.recv_timeout(SILENCE) {
                Ok(message) => messages.push(message),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    let _ = self.process.kill();
                    break;
                }
            }
        }
        // It has closed its output, or was killed.
        let until = Instant::now() + SILENCE;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        messages
    }
}
