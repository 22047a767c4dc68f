//! Registers of a thread that is held by ptrace, as the kernel lays them out.
//!
//! Each function that is given a thread's number makes a request of ptrace: the calling thread seized that thread,
//! which stands still.

use std::{io, ptr};

use libc::{c_uint, c_void, iovec, pid_t};

/// Registers that a thread has, and those by which the kernel makes or repeats a system call.
#[derive(Clone, Copy, Debug)]
pub struct Registers(pub(super) libc::user_regs_struct);

/// Number of general registers that may hold addresses, without the stack pointer.
pub const GENERAL: usize = 15;

/// Number of the registers that a signal handler gets first: `gregs` of `mcontext_t`, in glibc's `sys/ucontext.h`.
pub const SAVED: usize = 17;

/// Names of the [`SAVED`] registers, in their order.
pub const NAMES: [&str; SAVED] = [
    "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax", "rcx", "rsp", "rip",
];

/// Index of the stack pointer in [`NAMES`].
pub const SAVED_SP: usize = 15;

/// [`NAMES`] as rows of a report: where the code is, results, arguments, others.
pub const ROWS: [&[&str]; 5] = [
    &["rip", "rsp", "rbp"],
    &["rax", "rbx", "rcx", "rdx"],
    &["rdi", "rsi", "r8", "r9"],
    &["r10", "r11", "r12", "r13"],
    &["r14", "r15"],
];

/// -EINTR, as a system call returns it.
pub const INTERRUPTED: i64 = -(libc::EINTR as i64);

/// The result by which a tracer sees -ERESTART_RESTARTBLOCK: the call has a timeout, and restart_syscall goes on with
/// the rest of it.
pub const TO_RESTART: i64 = -516;

/// A system call that must not be made again after EINTR: its descriptor is closed already, and another one may have
/// its number.
const CLOSE: u64 = libc::SYS_close as u64;

/// Length of the instruction `syscall`.
const SYSCALL: u64 = 2;

/// The value in place of a call's number: with a number, the kernel would take the registers for those of an
/// interrupted call, and restart it.
const NO_CALL: u64 = u64::MAX;

/// No single step and no direction of the thread's own: interrupts enabled, and the bit that is always set.
const PLAIN_FLAGS: u64 = 0x202;

const NT_X86_XSTATE: usize = 0x202;

/// Most bytes that the registers of floating point and vectors take: AMX has 8 KiB of tiles.
pub(super) const EXTENDED_MOST: usize = 16 << 10;

impl Registers {
    pub fn read(tid: u32) -> io::Result<Self> {
        let mut registers = Self::zeroed();
        request(libc::PTRACE_GETREGS, tid, 0, ptr::from_mut(&mut registers.0).cast())?;
        Ok(registers)
    }

    pub fn write(&self, tid: u32) -> io::Result<()> {
        request(libc::PTRACE_SETREGS, tid, 0, ptr::from_ref(&self.0).cast_mut().cast())
    }

    fn zeroed() -> Self {
        // SAFETY: a structure of integers, for which zeros are values.
        Self(unsafe { std::mem::zeroed() })
    }

    /// The registers of a thread whose signal handler got these, in the order of [`NAMES`]; all others are 0.
    pub fn of_saved(saved: &[u64; SAVED]) -> Self {
        let [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip] = *saved;
        let nothing = Self::zeroed().0;
        #[rustfmt::skip]
        let registers = libc::user_regs_struct {
            r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, ..nothing
        };
        Self(registers)
    }

    /// The address of the instruction that is executed next.
    pub fn pc(&self) -> u64 {
        self.0.rip
    }

    pub fn with_pc(&self, pc: u64) -> Self {
        Self(libc::user_regs_struct { rip: pc, ..self.0 })
    }

    pub fn sp(&self) -> u64 {
        self.0.rsp
    }

    /// The base of thread-local storage: the C library's control block of the thread.
    pub fn thread_pointer(&self) -> u64 {
        self.0.fs_base
    }

    /// Registers that may hold addresses, in no order.
    pub fn general(&self) -> [u64; GENERAL] {
        let r = &self.0;
        [r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15]
    }

    /// Values of registers by their numbers in DWARF: [`super::dwarf`].
    pub fn numbered(&self) -> [u64; super::dwarf::REGISTERS] {
        let r = &self.0;
        [
            r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14,
            r.r15, r.rip,
        ]
    }

    /// The result of a system call that has just ended: a value, or an error below 0.
    pub fn result(&self) -> i64 {
        self.0.rax as i64
    }

    /// Registers by which a thread makes the system call again in which it was interrupted. None: there was none, or it
    /// must not be repeated.
    pub fn interrupted_call(&self) -> Option<Self> {
        /// ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK: the kernel's own, which no program sees.
        const RESTARTED: [i64; 4] = [-512, -513, -514, TO_RESTART];
        let r = &self.0;
        let cut = self.result() == INTERRUPTED && r.orig_rax != CLOSE;
        ((r.orig_rax as i64) >= 0 && (cut || RESTARTED.contains(&self.result()))).then(|| {
            let rip = r.rip.wrapping_sub(SYSCALL);
            Self(libc::user_regs_struct { rax: r.orig_rax, rip, orig_rax: NO_CALL, ..*r })
        })
    }

    /// Registers by which the thread makes a system call and then goes back by its [`super::signal::Frame`]. `call` is
    /// where [`super::signal::SYSTEM_CALL`] is in its memory, and `frame` where the frame is.
    pub fn system_call(&self, call: u64, frame: u64, number: i64, arguments: [u64; 6]) -> Self {
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        Self(libc::user_regs_struct {
            rip: call,
            rsp: frame,
            rax: number as u64,
            orig_rax: NO_CALL,
            rdi,
            rsi,
            rdx,
            r10,
            r8,
            r9,
            eflags: PLAIN_FLAGS,
            ..self.0
        })
    }

    /// Registers by which the thread executes [`super::call::CODE`], which is at `code`, with the values that
    /// [`super::call::values`] made, at `values`: its stack ends there.
    pub fn call(&self, code: u64, values: u64) -> Self {
        /// Distance that aligns the stack as at a call.
        const BELOW: u64 = 256;
        Self(libc::user_regs_struct {
            rip: code,
            rsp: values - BELOW,
            rbp: 0,
            r12: values,
            rax: 0,
            orig_rax: NO_CALL,
            eflags: PLAIN_FLAGS,
            ..self.0
        })
    }
}

/// Reads the registers of floating point and vectors, as XSAVE lays them out.
pub fn extended(tid: u32) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; EXTENDED_MOST];
    let mut vector = iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    request(libc::PTRACE_GETREGSET, tid, NT_X86_XSTATE, ptr::from_mut(&mut vector).cast())?;
    bytes.truncate(vector.iov_len);
    Ok(bytes)
}

/// Writes registers that [`extended`] has read.
pub fn set_extended(tid: u32, bytes: &[u8]) -> io::Result<()> {
    let mut vector = iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    request(libc::PTRACE_SETREGSET, tid, NT_X86_XSTATE, ptr::from_mut(&mut vector).cast())
}

fn request(request: c_uint, tid: u32, address: usize, data: *mut c_void) -> io::Result<()> {
    // SAFETY: each caller passes a pointer to a live value of the size that the kernel expects.
    let result = unsafe { libc::ptrace(request as _, tid as pid_t, address as *mut c_void, data) };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Registers with different values, as a signal handler gets them.
    fn saved() -> [u64; SAVED] {
        std::array::from_fn(|index| 0x1000 + index as u64)
    }

    #[test]
    fn rows_have_each_name_once() {
        let mut rows: Vec<&str> = ROWS.concat();
        let mut names = NAMES.to_vec();
        rows.sort_unstable();
        names.sort_unstable();
        assert_eq!(rows, names);
    }

    #[test]
    fn saved_registers_are_those_of_their_names() {
        let value = |name: &str| saved()[NAMES.iter().position(|&known| known == name).unwrap()];
        let registers = Registers::of_saved(&saved());
        assert_eq!((registers.pc(), registers.sp()), (value("rip"), value("rsp")));
        assert_eq!(registers.sp(), saved()[SAVED_SP]);
        assert_eq!(registers.result(), value("rax") as i64);
        let numbered = registers.numbered();
        let by_dwarf = |register: gimli::Register| numbered[usize::from(register.0)];
        use super::super::dwarf;
        assert_eq!([dwarf::SP, dwarf::FP, dwarf::RA].map(by_dwarf), ["rsp", "rbp", "rip"].map(value));
        assert_eq!(dwarf::KEPT.map(by_dwarf), ["rbx", "rbp", "r12", "r13", "r14", "r15"].map(value));
        let mut general = registers.general();
        general.sort_unstable();
        assert_eq!(
            general[..],
            saved().into_iter().filter(|&one| one != value("rsp") && one != value("rip")).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_call_that_was_cut_is_made_again() {
        let cut = |number: i64, result: i64| {
            let nothing = Registers::zeroed().0;
            let (orig_rax, rax) = (number as u64, result as u64);
            Registers(libc::user_regs_struct { orig_rax, rax, rip: 0x1002, ..nothing }).interrupted_call()
        };
        for result in [INTERRUPTED, -512, -513, -514, TO_RESTART] {
            let again = cut(libc::SYS_read, result).unwrap();
            assert_eq!((again.pc(), again.result(), again.0.orig_rax), (0x1000, libc::SYS_read, NO_CALL));
        }
        assert!(cut(libc::SYS_close, INTERRUPTED).is_none(), "its descriptor is closed");
        assert!(cut(libc::SYS_close, -512).is_some(), "the kernel has not closed it");
        assert!(cut(libc::SYS_read, 5).is_none(), "it has ended");
        assert!(cut(-1, INTERRUPTED).is_none(), "it was in no call");
    }
}
