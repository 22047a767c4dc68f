//! A function of the process that one of its threads calls for us, while the others run.
//!
//! The thread goes back to where it was by itself: what is called returns to code that says so, waits about half a
//! second for its tracer, and ends with rt_sigreturn, by the frame on the thread's own stack ([`crate::recovery`]). So
//! a tracer that is killed at any moment of a call leaves a thread that finishes it and goes on. A tracer that lives
//! gives it its registers back, which also restarts the system call in which it was interrupted. It is not stopped at
//! each system call meanwhile: on a busy machine it would wait for a processor each time.
//!
//! ```text
//!  room:   code (read, execute) │ stack of the call ◄── │ values, name
//! ```

use std::io;
use std::time::{Duration, Instant};

use mallow_arch::call::{self, CODE, DONE, RESULT};
use mallow_arch::registers::{self, Registers};

use crate::maps::PAGE;
use crate::memory::Memory;
use crate::recovery::Gateway;
use crate::threads::Thread;
use crate::trace::{self, Event};
use crate::unwind::{Frame, UnwindError, Unwinder};

/// Bytes of a room: the linker needs some ten thousand of stack, and initialisers may need more.
const ROOM: u64 = 512 << 10;

/// Bytes at its end that are no stack.
const VALUES: u64 = 8 << 10;

/// Offset of the name that a call is given, behind the values of the code.
const NAME: u64 = 256;

/// Memory of the process for calls, until it is unmapped by [`Thread::leave_room`].
#[derive(Clone, Copy, Debug)]
pub struct Room {
    start: u64,
    gateway: Gateway,
}

/// A function and what it is given.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub function: u64,
    /// The first arguments, in the order of the calling convention.
    pub arguments: [u64; 3],
    /// The address of a function that returns the address of the thread's errno: `__errno_location`.
    pub errno: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The function has not returned. The thread goes on with it, and then with its own work.
    #[error("a function that a thread was to call did not return within {0:?}")]
    Late(Duration),
    /// A signal ended the function, and the thread is back where it was.
    #[error("a function that a thread was to call ended with signal {0}")]
    Fault(i32),
    #[error("ptrace: {0}")]
    Request(#[from] io::Error),
}

impl Room {
    /// Address for a name of at most 3,840 bytes that the call is given.
    pub fn name(&self) -> u64 {
        self.values() + NAME
    }

    fn values(&self) -> u64 {
        self.start + ROOM - VALUES
    }
}

impl Thread {
    /// Whether the thread may run for us: no signal waits for it, and its process is not stopped.
    pub fn is_free(&self) -> bool {
        self.signal == 0 && !self.grouped
    }

    /// Whether a stop signal holds the thread's process, or is about to.
    pub fn is_stopped(&self) -> bool {
        self.grouped || self.signal == libc::SIGSTOP
    }

    /// The thread's pointer to thread-local storage.
    pub fn thread_pointer(&self) -> io::Result<u64> {
        Registers::read(self.tid).map(|registers| registers.thread_pointer())
    }

    pub fn frames(&self, unwinder: &Unwinder, memory: &Memory) -> io::Result<Result<Vec<Frame>, UnwindError>> {
        Ok(unwinder.frames(&Registers::read(self.tid)?, memory))
    }

    /// The thread's stack as far as it is known, and whether that is all of it.
    pub fn walk(&self, unwinder: &Unwinder, memory: &Memory) -> io::Result<(Vec<Frame>, bool)> {
        let walk = unwinder.walk(&Registers::read(self.tid)?, memory);
        Ok((walk.frames, walk.unknown.is_none()))
    }

    pub fn enter_room(&mut self, gateway: Gateway, memory: &Memory) -> io::Result<Room> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let arguments = [0, ROOM, both as u64, flags as u64, u64::MAX, 0];
        let start = self.system_call(gateway, libc::SYS_mmap, arguments)?;
        let room = Room { start, gateway };
        let code = libc::PROT_READ | libc::PROT_EXEC;
        let ready = memory.write(start, CODE).and_then(|()| {
            self.system_call(gateway, libc::SYS_mprotect, [start, PAGE, code as u64, 0, 0, 0]).map(drop)
        });
        ready.map(|()| room).inspect_err(|_| drop(self.leave_room(&room)))
    }

    pub fn leave_room(&mut self, room: &Room) -> io::Result<()> {
        self.system_call(room.gateway, libc::SYS_munmap, [room.start, ROOM, 0, 0, 0, 0]).map(drop)
    }

    /// Calls a function. Afterwards the thread is held as before, with all its registers, unless it is late.
    pub fn call(&mut self, room: &Room, memory: &Memory, call: &Call, patience: Duration) -> Result<u64, CallError> {
        let values = room.values();
        self.prepare(room.gateway)?;
        let recovery = self.recovery.take().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        memory.write(values, &call::values(call.function, call.arguments, call.errno, recovery.at))?;
        let begin = recovery.registers.call(room.start, values);
        self.divert(&begin)?;
        let ended = self.finish(room, memory, patience);
        if let Err(CallError::Late(_)) = ended {
            // It restores itself.
            self.stopped = false;
            return ended.map(|_| 0);
        }
        let mut result = [0; 8];
        let read = memory.read(values + RESULT, &mut result);
        if let Ok(false) = ended {
            self.repeat_call()?;
        } else {
            registers::set_extended(self.tid, &recovery.extended)?;
            self.restore(&recovery)?;
            self.recovery = Some(recovery);
        }
        ended?;
        read?;
        Ok(u64::from_le_bytes(result))
    }

    /// Lets it run until what is called has returned, and stops it. False: it has gone back to its own work by itself.
    fn finish(&mut self, room: &Room, memory: &Memory, patience: Duration) -> Result<bool, CallError> {
        let deadline = Instant::now() + patience;
        trace::resume(self.tid)?;
        loop {
            match trace::wait(self.tid)? {
                Some(Event::Gone) => return Err(io::Error::from_raw_os_error(libc::ESRCH).into()),
                Some(Event::Signal(signal)) => return Err(CallError::Fault(signal)),
                // A stop of the whole process takes effect when the thread is let go.
                Some(_) => trace::resume(self.tid)?,
                None => {}
            }
            let mut done = [0; 4];
            memory.read(room.values() + DONE, &mut done)?;
            if done != [0; 4] {
                trace::interrupt(self.tid)?;
                self.reach(Event::Stop)?;
                return Ok(call::range(room.start).contains(&Registers::read(self.tid)?.pc()));
            }
            if Instant::now() >= deadline {
                return Err(CallError::Late(patience));
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}
