//! What a thread that works for us needs to go back to its own work without us.
//!
//! A tracer may be killed between any two of its requests, and a thread that it held goes on with the registers that it
//! has by then. So the frame of a signal handler with the thread's own registers is written below its stack before they
//! are changed, and whatever the thread is made to execute ends there: the frame leads to the C library's
//! `rt_sigreturn` ([`mallow_arch::signal`]). At each moment, a thread has either its own registers or some that lead to
//! that frame; its signal mask is its own, or the frame has it. The frame's system call is the one in which the thread
//! was interrupted, made anew.

use std::io;

use mallow_arch::registers::{self, Registers};
use mallow_arch::signal::{Frame, RETURN, SYSTEM_CALL};

use crate::maps::Maps;
use crate::memory::Memory;
use crate::trace;

/// Code of more bytes than this is not searched.
const SEARCHED: usize = 4 << 20;

/// Bytes that stay free below the frame, for signal handlers that run before the thread is back.
const FREE: u64 = 8 << 10;

/// Instructions of a process by which its threads make system calls and go back. Nothing is written for them: each C
/// library has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Address of a [`SYSTEM_CALL`].
    pub(crate) call: u64,
    /// Address of one of [`RETURN`].
    pub(crate) back: u64,
}

impl Gateway {
    /// The gateway of process `pid`, found in its mapped files.
    pub fn find(pid: u32) -> io::Result<Self> {
        let (maps, memory) = (Maps::read(pid)?, Memory::open(pid)?);
        let (mut call, mut back) = (None, None);
        // Special mappings such as the vDSO differ from kernel to kernel.
        for mapping in maps.iter().filter(|mapping| mapping.executable && mapping.path.starts_with('/')) {
            let bytes = memory.read_up_to(mapping.start, ((mapping.end - mapping.start) as usize).min(SEARCHED));
            let at = |code: &[u8]| memchr::memmem::find(&bytes, code).map(|at| mapping.start + at as u64);
            call = call.or_else(|| at(SYSTEM_CALL));
            back = back.or_else(|| RETURN.iter().find_map(|code| at(code)));
            if let (Some(call), Some(back)) = (call, back) {
                return Ok(Self { call, back });
            }
        }
        let why = "the process has no code by which a thread returns from a system call or from a signal handler";
        Err(io::Error::new(io::ErrorKind::NotFound, why))
    }
}

/// A thread's own state; its stack has a copy.
#[derive(Debug)]
pub(crate) struct Recovery {
    pub(crate) registers: Registers,
    /// Signals that the thread blocks, as bits.
    pub(crate) mask: u64,
    pub(crate) extended: Vec<u8>,
    /// Address of the copy: by it, the thread returns to its own work.
    pub(crate) at: u64,
}

impl Recovery {
    /// Recovery of a thread that is held and whose registers are its own. Writes below its stack, and changes nothing
    /// else.
    pub(crate) fn prepare(tid: u32, gateway: Gateway) -> io::Result<Self> {
        let registers = Registers::read(tid)?;
        let mask = trace::blocked(tid)?;
        let extended = registers::extended(tid)?;
        let frame = Frame::new(&registers, &extended, mask, gateway.back)?;
        if !is_own_stack(&Maps::read(tid)?, &registers, frame.at.wrapping_sub(FREE)) {
            let why = "the stack of a thread has no room, or its end is not known";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        Memory::open_writable(tid)?.write(frame.at, &frame.bytes)?;
        Ok(Self { registers, mask, extended, at: frame.at })
    }
}

/// Whether all between `lowest` and the stack pointer belongs to the thread's stack: the process's first one, or that
/// which has the thread's control block above it, as the C library lays it out. A coroutine's stack, or one for signal
/// handlers, may have anything below it.
fn is_own_stack(maps: &Maps, registers: &Registers, lowest: u64) -> bool {
    maps.iter().any(|mapping| {
        let range = mapping.start..mapping.end;
        let (sp, thread) = (registers.sp(), registers.thread_pointer());
        let is_thread = range.contains(&thread) && thread > sp;
        mapping.writable && range.contains(&sp) && range.contains(&lowest) && (mapping.path == "[stack]" || is_thread)
    })
}
