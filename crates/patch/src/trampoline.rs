//! Frames of code that has no unwind information and is known by its bytes: see [`mallow_arch::trampoline`].

use mallow_arch::trampoline::{LONGEST, TRAMPOLINES, Trampoline};

use crate::memory::Window;

/// The frame to which such code returns.
pub(crate) struct Caller {
    pub address: u64,
    /// Stack pointer after the return.
    pub sp: u64,
    /// Frame pointer after the return. None: it is as it was.
    pub frame_pointer: Option<u64>,
}

/// The caller of such code: `address` is where its call returns to, and `sp` the stack pointer then. None: it is other
/// code.
pub(crate) fn caller(address: u64, sp: u64, memory: &Window) -> Option<Caller> {
    let code = TRAMPOLINES.iter().find(|code| is_at(code, address, memory))?;
    let pushed = memory.word(sp)?;
    let address = memory.word(sp.checked_add(8)?)?;
    Some(Caller { address, sp: sp.checked_add(16)?, frame_pointer: code.has_frame.then_some(pushed) })
}

fn is_at(code: &Trampoline, address: u64, memory: &Window) -> bool {
    let mut bytes = [0; LONGEST];
    let length = code.before.len() + code.after.len();
    let (Some(start), Some(bytes)) = (address.checked_sub(code.before.len() as u64), bytes.get_mut(..length)) else {
        return false;
    };
    memory.read(start, bytes).is_some() && bytes.starts_with(code.before) && bytes.ends_with(code.after)
}
