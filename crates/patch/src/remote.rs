//! System calls that a stopped thread of another process makes.

use std::io;
use std::time::{Duration, Instant};

use mallow_arch::registers::Registers;

use crate::recovery::{Gateway, Recovery};
use crate::threads::{Stopped, Thread};
use crate::trace::{self, Event};

/// Time limit for a stop that a thread was asked for. The thread finds back by itself if it comes later.
const REACH: Duration = Duration::from_secs(10);

impl Stopped {
    /// Makes a system call in one of the threads. Registers, signal mask and the system call in which the thread was
    /// interrupted are as before, even if the caller is killed meanwhile. Only for calls that do not block.
    ///
    /// Fails with [`io::ErrorKind::ResourceBusy`] where each thread is about to take a signal, or stopped by one. A
    /// seccomp filter applies to the call as to one of the program's own: [`crate::Sandbox`].
    pub fn system_call(&mut self, gateway: Gateway, number: i64, arguments: [u64; 6]) -> io::Result<u64> {
        let thread = self.threads_mut().find(|thread| thread.signal == 0 && !thread.grouped);
        let thread = thread.ok_or_else(|| io::Error::from(io::ErrorKind::ResourceBusy))?;
        thread.system_call(gateway, number, arguments)
    }

    /// Maps `length` bytes of anonymous memory at `address`, where nothing may be mapped.
    pub fn map(&mut self, gateway: Gateway, address: u64, length: u64, protection: i32) -> io::Result<()> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let arguments = [address, length, protection as u64, flags as u64, u64::MAX, 0];
        self.system_call(gateway, libc::SYS_mmap, arguments).map(drop)
    }

    /// Unmaps an area of [`Self::map`].
    pub fn unmap(&mut self, gateway: Gateway, address: u64, length: u64) -> io::Result<()> {
        self.system_call(gateway, libc::SYS_munmap, [address, length, 0, 0, 0, 0]).map(drop)
    }
}

impl Thread {
    /// Makes a system call in this thread: see [`Stopped::system_call`].
    pub fn system_call(&mut self, gateway: Gateway, number: i64, arguments: [u64; 6]) -> io::Result<u64> {
        self.prepare(gateway)?;
        let recovery = self.recovery.take().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let call = recovery.registers.system_call(gateway.call, recovery.at, number, arguments);
        self.divert(&call)?;
        let result = self.enter_and_leave().and_then(|()| Registers::read(self.tid)).map(|after| after.result());
        self.restore(&recovery)?;
        self.recovery = Some(recovery);
        match result? {
            error @ -4095..0 => Err(io::Error::from_raw_os_error(-error as i32)),
            value => Ok(value as u64),
        }
    }

    /// Makes sure that it finds back by itself, before anything of it is changed. Fails where it could not.
    pub fn prepare(&mut self, gateway: Gateway) -> io::Result<()> {
        if self.recovery.is_none() {
            self.recovery = Some(Recovery::prepare(self.tid, gateway)?);
        }
        Ok(())
    }

    /// Gives it registers that lead to its recovery, and has it take no signal meanwhile.
    pub(crate) fn divert(&mut self, registers: &Registers) -> io::Result<()> {
        // In this order: between the two, it has a mask that it may have.
        registers.write(self.tid)?;
        trace::set_blocked(self.tid, u64::MAX)
    }

    /// Gives it its own registers and signals back. The kernel restarts an interrupted call only on its path out of a
    /// stop for a signal or an interruption: the thread is brought there first.
    pub(crate) fn restore(&mut self, recovery: &Recovery) -> io::Result<()> {
        trace::interrupt(self.tid)?;
        trace::resume(self.tid)?;
        self.reach(Event::Stop)?;
        // In this order: in between, it goes back to its recovery.
        trace::set_blocked(self.tid, recovery.mask)?;
        recovery.registers.write(self.tid)
    }

    fn enter_and_leave(&mut self) -> io::Result<()> {
        for _ in 0..2 {
            trace::resume_to_system_call(self.tid)?;
            self.reach(Event::SystemCall)?;
        }
        Ok(())
    }

    /// Waits for `event`. A stop of the whole process that comes in between is passed over: it takes effect when the
    /// thread is let go.
    pub(crate) fn reach(&mut self, event: Event) -> io::Result<()> {
        let deadline = Instant::now() + REACH;
        loop {
            match trace::wait_until(self.tid, deadline)? {
                Some(reached) if reached == event => return Ok(()),
                Some(Event::Gone) => return Err(io::Error::from_raw_os_error(libc::ESRCH)),
                None => return Err(io::Error::new(io::ErrorKind::TimedOut, "a thread did not stop in time")),
                Some(_) if event == Event::SystemCall => trace::resume_to_system_call(self.tid)?,
                Some(_) => trace::resume(self.tid)?,
            }
        }
    }
}
