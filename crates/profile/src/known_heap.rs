//! Heaps in a process's memory that their contents name.

/// The owner of a heap that its contents name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HeapKind {
    /// A heap of one of glibc's arenas beside the first.
    GlibcArena,
    /// Pools of CPython's allocator of small objects.
    Pymalloc,
    /// Pages of V8's heap.
    V8,
    /// The JVM's heap of objects.
    Java,
    /// Go's heap of objects.
    Go,
    /// A block of glibc with a mapping of its own, of a process that may have blocks from before it was recorded.
    GlibcBlock,
    /// Pages that were in memory, and were unmapped before their heads could be read: nothing says whose they were.
    Unmapped,
}

impl HeapKind {
    /// All kinds; the position of each is its number in a recording.
    pub const ALL: [Self; 7] =
        [Self::GlibcArena, Self::Pymalloc, Self::V8, Self::Java, Self::Go, Self::GlibcBlock, Self::Unmapped];
}

/// A heap that its contents name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownHeap {
    /// The allocator that keeps its blocks there.
    pub kind: HeapKind,
    /// First address of the heap.
    pub start: u64,
    /// First address behind the heap.
    pub end: u64,
    /// Bytes of its blocks in use, of CPython's; 0 of others.
    pub used: u64,
}
