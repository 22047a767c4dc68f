//! Code that has no unwind information and is known by its bytes: CPython's trampolines for perf (`python -X perf`,
//! PYTHONPERFSUPPORT), one for each function of a script, in memory of no file. Each calls the interpreter and returns
//! (`Python/asm_trampoline.S`).

/// A trampoline up to the address that its call returns to, and what follows. Below its own return address it has one
/// word of the stack.
pub struct Trampoline {
    pub before: &'static [u8],
    pub after: &'static [u8],
    /// Whether the word on the stack is the frame pointer of the trampoline's caller.
    pub has_frame: bool,
}

/// Bytes of the longest one, at the most.
pub const LONGEST: usize = 16;

pub const TRAMPOLINES: [Trampoline; 2] = [
    Trampoline {
        before: b"\x48\x83\xec\x08\xff\xd1", // sub $8,%rsp; call *%rcx
        after: b"\x48\x83\xc4\x08\xc3",      // add $8,%rsp; ret
        has_frame: false,
    },
    Trampoline {
        before: b"\x55\x48\x89\xe5\xff\xd1", // push %rbp; mov %rsp,%rbp; call *%rcx
        after: b"\x5d\xc3",                  // pop %rbp; ret
        has_frame: true,
    },
];
