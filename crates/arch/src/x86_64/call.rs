//! Code by which a thread calls a function for mallow and goes back to its own work by itself.
//!
//! The code and its values are in memory that mallow mapped. What is called returns to code that says so, waits about
//! half a second for its tracer, and ends with rt_sigreturn, by a [`super::signal::Frame`].

use std::ops::Range;

/// Offset of the function's result in the values, in bytes.
pub const RESULT: u64 = 40;
/// Offset in the values of 4 bytes that become 1 when the function has returned.
pub const DONE: u64 = 56;

/// Code that the thread executes. `r12` leads to the values; errno is the caller's own again at the end.
pub const CODE: &[u8] = &[
    0x41, 0xff, 0x14, 0x24, // call *(%r12): where errno is
    0x49, 0x89, 0xc5, // mov %rax,%r13
    0x44, 0x8b, 0x30, // mov (%rax),%r14d
    0x49, 0x8b, 0x7c, 0x24, 0x10, // mov 16(%r12),%rdi
    0x49, 0x8b, 0x74, 0x24, 0x18, // mov 24(%r12),%rsi
    0x49, 0x8b, 0x54, 0x24, 0x20, // mov 32(%r12),%rdx
    0x41, 0xff, 0x54, 0x24, 0x08, // call *8(%r12)
    0x49, 0x89, 0x44, 0x24, 0x28, // mov %rax,40(%r12)
    0x45, 0x89, 0x75, 0x00, // mov %r14d,(%r13)
    0x41, 0xc7, 0x44, 0x24, 0x38, 0x01, 0x00, 0x00, 0x00, // movl $1,56(%r12): it has returned
    0x0f, 0x31, // rdtsc
    0x48, 0xc1, 0xe2, 0x20, // shl $32,%rdx
    0x48, 0x09, 0xd0, // or %rdx,%rax
    0x49, 0x89, 0xc7, // mov %rax,%r15
    0x49, 0x81, 0xc7, 0x00, 0x00, 0x00, 0x40, // add $1<<30,%r15
    0xb8, 0x18, 0x00, 0x00, 0x00, // 1: mov $SYS_sched_yield,%eax
    0x0f, 0x05, // syscall
    0x0f, 0x31, // rdtsc
    0x48, 0xc1, 0xe2, 0x20, // shl $32,%rdx
    0x48, 0x09, 0xd0, // or %rdx,%rax
    0x4c, 0x39, 0xf8, // cmp %r15,%rax
    0x72, 0xeb, // jb 1b
    0x49, 0x8b, 0x64, 0x24, 0x30, // mov 48(%r12),%rsp
    0xb8, 0x0f, 0x00, 0x00, 0x00, // mov $SYS_rt_sigreturn,%eax
    0x0f, 0x05, // syscall
];

/// Values for [`CODE`], 64 bytes. `errno` is the address of a function that returns the address of the thread's errno,
/// and `frame` that of the thread's [`super::signal::Frame`].
pub fn values(function: u64, arguments: [u64; 3], errno: u64, frame: u64) -> Vec<u8> {
    // As if its handler had returned: behind the address that it returns to.
    let back = frame + 8;
    let words = [errno, function, arguments[0], arguments[1], arguments[2], 0, back, 0];
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The addresses that [`CODE`] takes where it is written to `start`.
pub fn range(start: u64) -> Range<u64> {
    start..start + CODE.len() as u64
}
