//! What happened, event by event. A recording is a stream of these; a [`crate::Profile`] is what they add up to.

/// What an event's position says: who, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Number of the process.
    pub process: u32,
    /// Index of the thread in [`crate::Profile::threads`].
    pub thread: u32,
    /// Milliseconds since the recording began.
    pub ms: u64,
}

/// An allocation's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Index of the function in [`crate::FAMILIES`].
    pub family: u8,
    /// Index of the site.
    pub site: u32,
    /// Requested bytes.
    pub size: u64,
}

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Which allocation of the recording made it: 0, 1, 2, …
    pub sequence: u64,
    /// Index of its site.
    pub site: u32,
    /// Requested bytes.
    pub size: u64,
    /// When it was allocated.
    pub ms: u64,
    /// Mark of the thread that allocated it; see [`Block::thread_mark`].
    pub thread: u8,
}

impl Block {
    /// What is kept of a thread's index with each block: its low byte. Two threads of a process have the same mark only
    /// if there are more than 256 of them in the recording.
    #[inline]
    pub fn thread_mark(thread: u32) -> u8 {
        thread as u8
    }
}

/// What happened, in the order that the replay found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An allocation; its number is one above the last one's.
    Allocate(Call),
    /// A realloc that succeeded: the old block is gone, and a new one has the next number.
    Reallocate {
        /// The new block.
        call: Call,
        /// The old one; None where it was not seen allocated.
        old: Option<Block>,
        /// The address changed.
        moved: bool,
    },
    /// A call of free; None where the block was not seen allocated.
    Free(Option<Block>),
    /// A realloc to size 0 that freed.
    ReallocFree(Option<Block>),
    /// The block is gone, but nobody saw how: its address was handed out again.
    UnseenFree(Block),
    /// A run of a measured region begins or ends, for all threads of the process or for the moment's thread alone.
    Region {
        /// Of the run, as in [`crate::Region`].
        number: u32,
        /// It ends.
        end: bool,
        /// See above.
        this_thread: bool,
    },
    /// The process ended: its live blocks are gone. The moment's thread means nothing.
    EndProcess,
}
