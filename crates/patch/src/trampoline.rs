//! Frames of code that has no unwind information and is known by its bytes: CPython's trampolines for perf (`python -X
//! perf`, PYTHONPERFSUPPORT), one for each function of a script, in memory of no file. Each calls the interpreter and
//! returns (`Python/asm_trampoline.S`).

use crate::memory::Window;

/// A trampoline up to the address that its call returns to, what follows, and how much of the stack it has below its
/// return address.
struct Code {
    before: &'static [u8],
    after: &'static [u8],
    /// Whether what it has there is the frame pointer of its caller.
    has_frame: bool,
}

const CODES: [Code; 2] = [
    Code {
        before: b"\x48\x83\xec\x08\xff\xd1", // sub $8,%rsp; call *%rcx
        after: b"\x48\x83\xc4\x08\xc3",      // add $8,%rsp; ret
        has_frame: false,
    },
    Code {
        before: b"\x55\x48\x89\xe5\xff\xd1", // push %rbp; mov %rsp,%rbp; call *%rcx
        after: b"\x5d\xc3",                  // pop %rbp; ret
        has_frame: true,
    },
];

/// What such code returns to.
pub(crate) struct Caller {
    pub address: u64,
    /// The stack pointer there.
    pub sp: u64,
    /// The frame pointer there. None: it is as it was.
    pub frame_pointer: Option<u64>,
}

/// The caller of such code: `address` is where its call returns to, and `sp` the stack pointer then. None: it is other
/// code.
pub(crate) fn caller(address: u64, sp: u64, memory: &Window) -> Option<Caller> {
    let code = CODES.iter().find(|code| is_at(code, address, memory))?;
    let pushed = memory.word(sp)?;
    let address = memory.word(sp.checked_add(8)?)?;
    Some(Caller { address, sp: sp.checked_add(16)?, frame_pointer: code.has_frame.then_some(pushed) })
}

fn is_at(code: &Code, address: u64, memory: &Window) -> bool {
    let mut bytes = [0; 16];
    let length = code.before.len() + code.after.len();
    let (Some(start), Some(bytes)) = (address.checked_sub(code.before.len() as u64), bytes.get_mut(..length)) else {
        return false;
    };
    memory.read(start, bytes).is_some() && bytes.starts_with(code.before) && bytes.ends_with(code.after)
}
