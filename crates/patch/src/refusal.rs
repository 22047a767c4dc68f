//! Why an entry is not patched. [`crate::entry`] decides it.

use mallow_arch::entry::JUMP;

/// Why patching an entry would not be safe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The symbol is resolved when the program starts: the function that runs is another one.
    #[error("an ifunc: its symbol is that of a resolver")]
    Ifunc,
    /// Bytes in memory are not those of the file.
    #[error("its code differs from its file, {0} bytes in")]
    CodeDiffers(u64),
    /// A debugger's breakpoint is at the entry.
    #[error("a breakpoint is at its entry: a debugger holds it")]
    Breakpoint,
    /// The function begins with a jump that leaves its module.
    #[error("another tool has patched it: it begins with a jump out of its module")]
    PatchedAlready,
    /// The function ends before the jump does, and what follows is in use.
    #[error("{0} bytes long, the jump takes {JUMP}, and what follows is in use")]
    TooShort(u64),
    #[error("another function begins {0} bytes in")]
    NeighbourInside(u64),
    /// A branch leads into the middle of the displaced instructions.
    #[error("a branch leads {0} bytes in, where the jump would be")]
    BranchInside(u64),
    /// The function loops back to its own entry: each turn would count as a call.
    #[error("it loops back to its entry: each turn would pass for a call")]
    LoopToEntry,
    /// A call would be displaced: its return address would be in the trampoline, where no unwinder knows it.
    #[error("it begins with a call, which cannot be moved")]
    Call,
    /// A system call would be displaced: a thread could wait in the trampoline for ever.
    #[error("it begins with a system call")]
    SystemCall,
    /// A trap or a transaction would be displaced.
    #[error("it begins with an instruction that cannot be moved ({0})")]
    Immovable(String),
    #[error("its first bytes are no instructions")]
    NotCode,
    #[error("its code cannot be read")]
    Unreadable,
    /// A displaced instruction cannot reach its operand from the trampoline.
    #[error("its first instructions cannot be moved: {0}")]
    NotRelocatable(String),
    /// The jump or the displaced instructions do not reach.
    #[error("no free page within 2 GiB")]
    OutOfReach,
}
