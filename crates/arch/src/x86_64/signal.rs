//! The frame of a signal handler: written for a thread that works for mallow, and found on the stack of one that is in
//! a handler of its own.
//!
//! A thread whose stack pointer is at a [`Frame`] goes back to its own work by `ret`: that leads to the C library's
//! `rt_sigreturn`, which gives it the registers of the frame.
//!
//! ```text
//!  own stack:   address of rt_sigreturn │ signal frame │ registers of the processor's units │ red zone │ ◄ stack pointer
//! ```

use std::io;

use super::registers::{EXTENDED_MOST, Registers};

/// Code by which a thread makes a system call and goes back: `syscall`, `ret`. Whatever follows the call, the frame's
/// address is on the stack.
pub const SYSTEM_CALL: &[u8] = b"\x0f\x05\xc3";

/// `mov $SYS_rt_sigreturn,%rax` or `%eax`, `syscall`: what C libraries have signal handlers return to.
pub const RETURN: [&[u8]; 2] = [b"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", b"\xb8\x0f\x00\x00\x00\x0f\x05"];

/// Bytes below the stack pointer that are in use (System V x86-64 ABI 3.2.2).
const RED_ZONE: u64 = 128;

/// Bytes of the address and of the frame, up to the registers of the processor's units.
const FRAME: u64 = 512;

/// A thread's own state, to be written below its stack.
pub struct Frame {
    /// Address for the frame: the stack pointer by which the thread goes back.
    pub at: u64,
    pub bytes: Vec<u8>,
}

impl Frame {
    /// The frame of a thread with these registers, these of floating point and vectors
    /// ([`super::registers::extended`]), and this mask of blocked signals. `back` is where one of [`RETURN`] is in its
    /// memory. The system call in which it was interrupted is made anew. Fails where the registers of the processor's
    /// units have an unknown layout.
    pub fn new(registers: &Registers, extended: &[u8], mask: u64, back: u64) -> io::Result<Self> {
        let saved = signal_extended(extended)?;
        let end = registers.sp().wrapping_sub(RED_ZONE);
        // The kernel wants these on a cache line, and they are last.
        let units = end.wrapping_sub(saved.len() as u64) & !63;
        let at = units.wrapping_sub(FRAME);
        let mut bytes = back.to_le_bytes().to_vec();
        bytes.extend(context(registers, mask, units));
        bytes.resize(FRAME as usize, 0);
        bytes.extend(saved);
        Ok(Self { at, bytes })
    }
}

/// `struct ucontext` of the kernel, by which a thread goes back to these registers. The system call in which it was
/// interrupted is made again.
fn context(interrupted: &Registers, mask: u64, units: u64) -> Vec<u8> {
    /// The flags UC_FP_XSTATE, UC_SIGCONTEXT_SS and UC_STRICT_RESTORE_SS.
    const FLAGS: u64 = 1 | 2 | 4;
    /// No mode of `stack_t`: the thread keeps the stack for signal handlers that it has.
    const SAME_STACK: u64 = 0x7f;
    let Registers(r) = interrupted.interrupted_call().unwrap_or(*interrupted);
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
pub fn interrupted(words: &[u64], own: &Registers) -> Option<Registers> {
    /// Segment registers of 64-bit code: `cs` is the lowest part.
    const SEGMENTS: usize = 23;
    const USER_CODE: u64 = 0x33;
    let (flags, cs) = (*words.first()?, *words.get(SEGMENTS)? & 0xffff);
    // Flags that the kernel sets, see `context`.
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
    let interrupted = libc::user_regs_struct {
        r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags, cs, orig_rax, ..own.0
    };
    Some(Registers(interrupted))
}

/// Whether signal handlers return to this code.
pub fn ends_handler(code: &[u8]) -> bool {
    RETURN.iter().any(|back| code.starts_with(back))
}

/// The registers of floating point and vectors, as a signal frame has them: the kernel's regset with what says so.
fn signal_extended(regset: &[u8]) -> io::Result<Vec<u8>> {
    /// Offset of the kernel's own words in the first part; and of the word in the second one that has the features in
    /// use.
    const WORDS: usize = 464;
    const IN_USE: usize = 512;
    const MAGIC_1: u32 = 0x4650_5853;
    const MAGIC_2: u32 = 0x4650_5845;
    const TILES: u32 = 18;
    if regset.len() < 576 || regset.len() > EXTENDED_MOST {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of an XSAVE area without any feature in use.
    const EXTENDED: usize = 576;

    fn own() -> Registers {
        let Registers(registers) = Registers::of_saved(&std::array::from_fn(|index| 0x7000_1000 + index as u64));
        Registers(libc::user_regs_struct { cs: 0x33, ss: 0x2b, eflags: 0x246, orig_rax: u64::MAX, ..registers })
    }

    #[test]
    fn a_frame_that_is_written_is_recognised() {
        let frame = Frame::new(&own(), &[0; EXTENDED], 0x10, 0x1122).unwrap();
        assert!(frame.at + frame.bytes.len() as u64 <= own().sp() - RED_ZONE, "what is in use stays");
        assert_eq!((frame.at + FRAME) % 64, 0, "a cache line");
        let words: Vec<u64> =
            frame.bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(words[0], 0x1122, "where it goes back");
        let found = interrupted(&words[1..], &own()).unwrap();
        assert_eq!((found.pc(), found.sp(), found.numbered()), (own().pc(), own().sp(), own().numbered()));
        assert!(interrupted(&words, &own()).is_none(), "one word off");
        assert!(interrupted(&words[1..20], &own()).is_none(), "cut");
        assert!(interrupted(&[], &own()).is_none());
    }

    #[test]
    fn extended_registers_of_an_unknown_size_have_no_frame() {
        for bytes in [0, EXTENDED - 1, EXTENDED_MOST + 1] {
            assert!(Frame::new(&own(), &vec![0; bytes], 0, 0).is_err(), "{bytes}");
        }
    }

    #[test]
    fn code_that_ends_a_handler() {
        assert!(RETURN.iter().all(|code| ends_handler(code)));
        assert!(!ends_handler(SYSTEM_CALL) && !ends_handler(&RETURN[0][..8]));
    }
}
