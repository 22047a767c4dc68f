//! What a thread that works for us needs to go back to its own work without us.
//!
//! A tracer may be killed between any two of its requests, and a thread that it held goes on with the registers that it
//! has by then. So the frame of a signal handler with the thread's own registers is written below its stack before they
//! are changed, and whatever the thread is made to execute ends there: with the frame's address on the stack, a `ret`
//! leads to the C library's `rt_sigreturn`. At each moment, a thread has either its own registers or some that lead to
//! that frame; its signal mask is its own, or the frame has it. The frame's system call is the one in which the thread
//! was interrupted, made anew.
//!
//! ```text
//!  own stack:   address of rt_sigreturn │ signal frame │ registers of the processor's units │ red zone │ ◄ stack pointer
//! ```

use std::io;

use crate::maps::Maps;
use crate::memory::Memory;
use crate::trace::{self, Registers};

/// `syscall`, `ret`: whatever follows the call, the frame's address is on the stack.
const CALL: &[u8] = b"\x0f\x05\xc3";

/// `mov $SYS_rt_sigreturn,%rax` or `%eax`, `syscall`: what C libraries have signal handlers return to.
const BACK: [&[u8]; 2] = [b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", b"\xb8\x0f\x00\x00\x00\x0f\x05"];

/// Code of more bytes than this is not searched.
const SEARCHED: usize = 4 << 20;

/// What lies below the stack pointer and is in use (System V x86-64 ABI 3.2.2), in bytes.
const RED_ZONE: u64 = 128;

/// Bytes of the address and of the frame, up to the registers of the processor's units.
const FRAME: u64 = 512;

/// What is left free below all that: for signal handlers that run before the thread is back.
const FREE: u64 = 8 << 10;

/// Instructions of a process by which its threads make system calls and go back. Nothing is written for them: each C
/// library has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Of [`CALL`].
    pub(crate) call: u64,
    /// Of one of [`BACK`].
    pub(crate) back: u64,
}

impl Gateway {
    /// Of process `pid`.
    pub fn find(pid: u32) -> io::Result<Self> {
        let (maps, memory) = (Maps::read(pid)?, Memory::open(pid)?);
        let (mut call, mut back) = (None, None);
        // Special mappings such as the vDSO differ from kernel to kernel.
        for mapping in maps.iter().filter(|mapping| mapping.executable && mapping.path.starts_with('/')) {
            let bytes = memory.read_up_to(mapping.start, ((mapping.end - mapping.start) as usize).min(SEARCHED));
            let at = |code: &[u8]| memchr::memmem::find(&bytes, code).map(|at| mapping.start + at as u64);
            call = call.or_else(|| at(CALL));
            back = back.or_else(|| BACK.iter().find_map(|code| at(code)));
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
    /// The signals that it blocks.
    pub(crate) mask: u64,
    pub(crate) extended: Vec<u8>,
    /// Where the copy begins: a thread whose stack pointer is here returns to its own work by `ret`.
    pub(crate) at: u64,
}

impl Recovery {
    /// Of a thread that is held and whose registers are its own. Writes below its stack, and changes nothing else.
    pub(crate) fn prepare(tid: u32, gateway: Gateway) -> io::Result<Self> {
        let registers = trace::registers(tid)?;
        let mask = trace::blocked(tid)?;
        let extended = trace::extended_registers(tid)?;
        let saved = signal_extended(&extended)?;
        let end = registers.rsp.wrapping_sub(RED_ZONE);
        // The kernel wants these on a cache line, and they are last.
        let units = end.wrapping_sub(saved.len() as u64) & !63;
        let at = units.wrapping_sub(FRAME);
        if !is_own_stack(&Maps::read(tid)?, &registers, at.wrapping_sub(FREE)) {
            let why = "the stack of a thread has no room, or its end is not known";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let mut bytes = gateway.back.to_le_bytes().to_vec();
        bytes.extend(signal_frame(&registers, mask, units));
        bytes.resize(FRAME as usize, 0);
        bytes.extend(saved);
        Memory::open_writable(tid)?.write(at, &bytes)?;
        Ok(Self { registers, mask, extended, at })
    }
}

/// Whether all between `lowest` and the stack pointer belongs to the thread's stack: the process's first one, or that
/// which has the thread's control block above it, as the C library lays it out. A coroutine's stack, or one for signal
/// handlers, may have anything below it.
fn is_own_stack(maps: &Maps, registers: &Registers, lowest: u64) -> bool {
    maps.iter().any(|mapping| {
        let range = mapping.start..mapping.end;
        let is_thread = range.contains(&registers.fs_base) && registers.fs_base > registers.rsp;
        mapping.writable
            && range.contains(&registers.rsp)
            && range.contains(&lowest)
            && (mapping.path == "[stack]" || is_thread)
    })
}

/// -EINTR, as a system call returns it.
pub(crate) const INTERRUPTED: u64 = -(libc::EINTR as i64) as u64;

/// What a tracer sees of -ERESTART_RESTARTBLOCK: the call has a timeout, and restart_syscall goes on with the rest
/// of it.
pub(crate) const TO_RESTART: u64 = -516_i64 as u64;

/// A system call that must not be made again after EINTR: its descriptor is closed already, and another one may have
/// its number.
const CLOSE: u64 = libc::SYS_close as u64;

/// Bytes of `syscall`.
const SYSCALL: u64 = 2;

/// Registers by which a thread makes the system call again in which it was interrupted. None: there was none.
pub(crate) fn interrupted_call(registers: &Registers) -> Option<Registers> {
    /// ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK: the kernel's own, which no program sees.
    const RESTARTED: [i64; 4] = [-512, -513, -514, -516];
    let result = registers.rax as i64;
    let cut = registers.rax == INTERRUPTED && registers.orig_rax != CLOSE;
    ((registers.orig_rax as i64) >= 0 && (cut || RESTARTED.contains(&result))).then(|| Registers {
        rax: registers.orig_rax,
        rip: registers.rip.wrapping_sub(SYSCALL),
        orig_rax: u64::MAX,
        ..*registers
    })
}

/// `struct ucontext` of the kernel, by which a thread goes back to these registers. The system call in which it was
/// interrupted is made again.
fn signal_frame(interrupted: &Registers, mask: u64, units: u64) -> Vec<u8> {
    /// UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS.
    const FLAGS: u64 = 1 | 2 | 4;
    /// No mode of `stack_t`: the thread keeps the stack for signal handlers that it has.
    const SAME_STACK: u64 = 0x7f;
    let r = interrupted_call(interrupted).unwrap_or(*interrupted);
    let mut words = vec![FLAGS, 0, 0, SAME_STACK, 0];
    words.extend([
        r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax, r.rcx,
    ]);
    words.extend([r.rsp, r.rip, r.eflags, r.cs | r.ss << 48, 0, 0, mask, 0, units]);
    words.extend([0; 8]);
    words.push(mask);
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Registers of the code that a signal handler interrupted: `words` follow the address that the handler returns to.
/// None: they are no `struct ucontext`. `own`: what the frame does not have, of the same thread.
pub(crate) fn registers_of_frame(words: &[u64], own: &Registers) -> Option<Registers> {
    /// Segment registers of 64-bit code: `cs` is the lowest part.
    const SEGMENTS: usize = 23;
    const USER_CODE: u64 = 0x33;
    let (flags, cs) = (*words.first()?, *words.get(SEGMENTS)? & 0xffff);
    // Flags that the kernel sets, see `signal_frame`.
    if flags > 7 || cs != USER_CODE {
        return None;
    }
    let &[r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags] =
        words.get(5..SEGMENTS)?
    else {
        return None;
    };
    let orig_rax = u64::MAX;
    #[rustfmt::skip]
    let interrupted = Registers {
        r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags, cs, orig_rax, ..*own
    };
    Some(interrupted)
}

/// Whether this code is what signal handlers return to.
pub(crate) fn ends_handler(code: &[u8]) -> bool {
    BACK.iter().any(|back| code.starts_with(back))
}

/// Most bytes of them: AMX has 8 KiB of tiles.
const UNITS_MOST: usize = 16 << 10;

/// The registers of floating point and vectors, as a signal frame has them: the kernel's regset with what says so.
fn signal_extended(regset: &[u8]) -> io::Result<Vec<u8>> {
    /// Where the kernel keeps its own words, in the first part; and where the second one says which features are in
    /// use.
    const WORDS: usize = 464;
    const IN_USE: usize = 512;
    const MAGIC_1: u32 = 0x4650_5853;
    const MAGIC_2: u32 = 0x4650_5845;
    /// The tiles of AMX.
    const TILES: u32 = 18;
    if regset.len() < 576 || regset.len() > UNITS_MOST {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the processor's registers have an unknown layout"));
    }
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| regset[at + i]));
    let mut features = word(WORDS);
    // A thread that has no tiles must not have room for them in a frame: the kernel would take the frame for an old
    // one, without what came after SSE.
    let mut size = regset.len();
    if word(IN_USE) & 1 << TILES == 0 && features & 1 << TILES != 0 {
        let begin = std::arch::x86_64::__cpuid_count(0xd, TILES).ebx as usize;
        if begin >= 576 {
            size = size.min(begin);
        }
        features &= !(1 << TILES);
    }
    let mut bytes = regset[..size].to_vec();
    bytes[WORDS..WORDS + 4].copy_from_slice(&MAGIC_1.to_le_bytes());
    bytes[WORDS + 4..WORDS + 8].copy_from_slice(&(size as u32 + 4).to_le_bytes());
    bytes[WORDS + 8..WORDS + 16].copy_from_slice(&features.to_le_bytes());
    bytes[WORDS + 16..WORDS + 20].copy_from_slice(&(size as u32).to_le_bytes());
    bytes.extend(MAGIC_2.to_le_bytes());
    Ok(bytes)
}
