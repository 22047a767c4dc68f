//! The requests of ptrace that are used here. Each is for the thread that seized the tracee: ptrace belongs to threads.

use std::io;
use std::ptr;
use std::time::{Duration, Instant};

use crate::seccomp::Instruction;
use libc::{c_int, c_long, c_uint, c_void, pid_t};

/// Result of waiting for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The thread stopped because it was interrupted.
    Stop,
    /// The thread stopped with its whole process, because of a stop signal.
    GroupStop,
    /// The thread stopped before the delivery of this signal.
    Signal(c_int),
    /// The thread stopped at the beginning or the end of a system call.
    SystemCall,
    /// The thread stopped after one instruction, or for another event.
    Trap,
    Gone,
}

const PTRACE_GETSIGMASK: c_uint = 0x420a;
const PTRACE_SETSIGMASK: c_uint = 0x420b;
const PTRACE_SECCOMP_GET_FILTER: c_uint = 0x420c;

/// Bytes of the kernel's signal mask.
const MASK: usize = 8;

fn request(request: c_uint, tid: u32, address: usize, data: usize) -> io::Result<c_long> {
    // SAFETY: requests that read or write the caller's memory are made below alone, with pointers to live values of the
    // size that the kernel expects. None of the others touches it.
    let result = unsafe { libc::ptrace(request as _, tid as pid_t, address as *mut c_void, data as *mut c_void) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Makes the caller its tracer. It runs on.
pub(crate) fn seize(tid: u32) -> io::Result<()> {
    request(libc::PTRACE_SEIZE, tid, 0, libc::PTRACE_O_TRACESYSGOOD as usize).map(drop)
}

/// Asks the thread to stop. No signal is sent.
pub(crate) fn interrupt(tid: u32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, tid, 0, 0).map(drop)
}

/// Lets it run on untraced, with `signal` delivered unless that is 0.
pub(crate) fn detach(tid: u32, signal: c_int) -> io::Result<()> {
    request(libc::PTRACE_DETACH, tid, 0, signal as usize).map(drop)
}

pub(crate) fn resume(tid: u32) -> io::Result<()> {
    request(libc::PTRACE_CONT, tid, 0, 0).map(drop)
}

/// Lets it run to the beginning or the end of a system call.
pub(crate) fn resume_to_system_call(tid: u32) -> io::Result<()> {
    request(libc::PTRACE_SYSCALL, tid, 0, 0).map(drop)
}

/// Reads the signals that it blocks: of a thread that waits with other ones (sigsuspend), those that it goes back to.
pub(crate) fn blocked(tid: u32) -> io::Result<u64> {
    let mut mask = 0_u64;
    request(PTRACE_GETSIGMASK, tid, MASK, ptr::from_mut(&mut mask) as usize)?;
    Ok(mask)
}

pub(crate) fn set_blocked(tid: u32, mask: u64) -> io::Result<()> {
    request(PTRACE_SETSIGMASK, tid, MASK, ptr::from_ref(&mask) as usize).map(drop)
}

/// Reads one of the seccomp filters of a thread that is held, 0 the oldest. ENOENT: there are no more. EINVAL: it has
/// none, or the kernel was built without CONFIG_CHECKPOINT_RESTORE.
pub(crate) fn seccomp_filter(tid: u32, index: usize) -> io::Result<Vec<Instruction>> {
    // The kernel does not ask how much room there is.
    let mut filter = vec![Instruction::default(); libc::BPF_MAXINSNS as usize];
    let count = request(PTRACE_SECCOMP_GET_FILTER, tid, index, filter.as_mut_ptr() as usize)?;
    filter.truncate(count as usize);
    Ok(filter)
}

/// Why the thread stopped. None: it still runs.
pub(crate) fn wait(tid: u32) -> io::Result<Option<Event>> {
    let mut status = 0;
    loop {
        // SAFETY: `status` lives.
        let result = unsafe { libc::waitpid(tid as pid_t, &mut status, libc::__WALL | libc::WNOHANG) };
        match result {
            0 => return Ok(None),
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error if error.raw_os_error() == Some(libc::ECHILD) => return Ok(Some(Event::Gone)),
                error => return Err(error),
            },
            _ => return Ok(Some(event(status))),
        }
    }
}

/// Result of [`wait`], repeated until `deadline`. A wait without an end is never safe: a thread may freeze with its
/// cgroup, and the first one of a process says nothing of its end while others live.
pub(crate) fn wait_until(tid: u32, deadline: Instant) -> io::Result<Option<Event>> {
    let mut pauses = Pauses::default();
    loop {
        match wait(tid)? {
            None if Instant::now() < deadline => pauses.next(),
            found => return Ok(found),
        }
    }
}

/// Pauses between looks at something that mostly comes within microseconds.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    taken: u32,
}

impl Pauses {
    /// The next one: they become longer, up to 0.2 ms, as other threads may stand still meanwhile. A thread that yields
    /// instead would wait for all that want its processor, which may be many.
    pub(crate) fn next(&mut self) {
        const LONGEST: Duration = Duration::from_micros(200);
        std::thread::sleep((Duration::from_micros(5) * (1 << self.taken.min(10))).min(LONGEST));
        self.taken = self.taken.saturating_add(1);
    }
}

fn event(status: c_int) -> Event {
    if !libc::WIFSTOPPED(status) {
        return Event::Gone;
    }
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Event::SystemCall,
        0 => Event::Signal(signal),
        libc::PTRACE_EVENT_STOP if signal == libc::SIGTRAP => Event::Stop,
        libc::PTRACE_EVENT_STOP => Event::GroupStop,
        _ => Event::Trap,
    }
}
