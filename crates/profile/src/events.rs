//! What happened, event by event. A recording is a stream of these; a [`crate::Profile`] is what they add up to.

/// The process, the thread and the time of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Index of the process in [`crate::Profile::processes`].
    pub process: u32,
    /// Index of the thread in [`crate::Profile::threads`].
    pub thread: u32,
    /// Milliseconds since the recording began.
    pub ms: u64,
}

/// A successful call that allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Index of the function in [`crate::FAMILIES`].
    pub family: u8,
    /// Index of the site.
    pub site: u32,
    /// Size that was asked for, in bytes.
    pub size: u64,
}

/// A block that is live at the moment of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Position of the allocation among all of the recording: 0, 1, 2, …
    pub sequence: u64,
    /// Index of its site.
    pub site: u32,
    /// Size that was asked for, in bytes.
    pub size: u64,
    /// Time of the allocation, in milliseconds since the recording began.
    pub ms: u64,
    /// Mark of the thread that allocated it; see [`Block::thread_mark`].
    pub thread: u8,
}

impl Block {
    /// The low byte of a thread's index, which is kept with each block. Two threads of a process have the same mark
    /// only if there are more than 256 of them in the recording.
    #[inline]
    pub fn thread_mark(thread: u32) -> u8 {
        thread as u8
    }
}

/// One change of the heap, of a measured region or of a process, in the order that the replay found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An allocation; its number is one above the last one's.
    Allocate(Call),
    /// A realloc that succeeded: the old block is gone, and a new one has the next number.
    Reallocate {
        /// The call that allocated the new block.
        call: Call,
        /// The block that was reallocated; None where it was not seen allocated.
        old: Option<Block>,
        /// Whether the address changed.
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
        /// Number of the run, as [`crate::Region::number`].
        number: u32,
        /// Whether the run ends; it begins otherwise.
        end: bool,
        /// Whether the run measures the moment's thread alone.
        this_thread: bool,
    },
    /// The process ended: its live blocks are gone. The moment's thread means nothing.
    EndProcess,
}
