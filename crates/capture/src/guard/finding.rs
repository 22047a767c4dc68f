//! What the keeper says to mallow: findings, and how guarding went in each image. A line of JSON each, through a pipe.
//!
//! Addresses and numbers in them come from a target and may be anything.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Kind {
    /// An access to a block that was freed.
    UseAfterFree,
    /// An access after a live block.
    Overflow,
    /// An access before a live block.
    Underflow,
    /// An access to guarded addresses far from every block.
    Wild,
    /// A free of a block that was freed before.
    DoubleFree,
    /// A free of an address inside of a block.
    InteriorFree,
    /// A free of an address that no allocator returned.
    ForeignFree,
    /// Bytes beside a block were changed; found when the block was freed, or at the exit.
    Slack,
    /// Blocks that nothing points to any more, at the exit.
    Leak,
    /// A block was freed by an operation that does not belong to its allocation.
    MismatchedFree,
}

/// A form of operator new and operator delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Operator {
    /// `new` and `delete`, of one object.
    One,
    /// `new[]` and `delete[]`, of an array.
    Array,
}

/// What frees a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Freeing {
    Free,
    Realloc,
    Delete(Operator),
}

/// The two operations of a [`Kind::MismatchedFree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The operator that allocated the block; None: a function of malloc's family.
    pub allocated: Option<Operator>,
    pub freed: Freeing,
    /// The size that operator delete was called with; None: without one.
    pub size: Option<u64>,
    /// The alignment that operator new was called with; None: without one.
    pub alignment: Option<u64>,
    /// The alignment that operator delete was called with; None: without one.
    pub freed_alignment: Option<u64>,
}

/// A stack by its addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Addresses {
    /// Return addresses, the outermost first, with `EXACT_PC`.
    pub pcs: Vec<u64>,
    /// The generation of modules in which the addresses hold.
    pub generation: u32,
    /// Outer frames are missing.
    pub cut: bool,
}

/// An access, allocation or free: when, by which thread and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Nanoseconds on CLOCK_MONOTONIC.
    pub at_ns: u64,
    pub tid: u32,
    /// Name of the thread; empty: it has ended, or is not known.
    pub thread: String,
    pub stack: Addresses,
}

/// The block that an error is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    pub address: u64,
    /// Bytes that the program requested.
    pub size: u64,
    /// Index in `mallow_profile::FAMILIES` of the function that allocated the block.
    pub family: u8,
    /// Operator that allocated the block, in that function's place; None: none that is known.
    pub operator: Option<Operator>,
    pub allocated: Operation,
    /// The free of the block; None: it is live.
    pub freed: Option<Operation>,
}

/// An error of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub kind: Kind,
    /// Process id that the process's file has.
    pub pid: u32,
    /// Number of the process's image.
    pub serial: u32,
    /// The address that was accessed or freed; of [`Kind::Slack`] the first changed byte.
    pub address: u64,
    /// The address is exact; else the first of its page (Linux before 5.18).
    pub exact: bool,
    /// The access was a write; None: no access.
    pub write: Option<bool>,
    /// The wrong access or free. Of [`Kind::Slack`]: the free that found it, without a stack at the exit.
    pub operation: Operation,
    /// Why the stack is not known or not whole.
    pub without_stack: Option<String>,
    /// The block that the error is about, or the nearest; None: there is none near.
    pub block: Option<Block>,
    /// What is at the address of a [`Kind::ForeignFree`].
    pub region: Option<Region>,
    /// The two operations of a [`Kind::MismatchedFree`].
    pub mismatch: Option<Mismatch>,
    /// Bytes: the changed ones, or the last ones of a live block before an access after it, or its first ones.
    pub bytes: Vec<u8>,
}

/// How a page fault accessed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Access {
    Read,
    Write,
    /// An instruction was fetched.
    Execute,
}

/// What is at an address of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Region {
    /// The mappings could not be read.
    #[default]
    Unknown,
    /// Nothing is mapped at the address.
    Nothing,
    Stack,
    /// Memory of a file, or static data right behind it.
    File {
        /// Path of the file, as the process has it; empty: not known.
        path: String,
        writable: bool,
    },
    /// The program break's memory, of which the C library's allocator makes blocks.
    Heap,
    /// Memory that the program mapped, or an allocator.
    Mapped {
        /// Bytes from the mapping's beginning to the address.
        before: u64,
        /// Bytes of the mapping; 0: not known.
        bytes: u64,
    },
}

/// A wrong access to memory that was not there: the thread went on with a page of zeros.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zeroed {
    pub kind: Kind,
    /// The address that was accessed, or the first one of its page.
    pub address: u64,
    pub write: bool,
    pub operation: Operation,
}

/// A signal that ended an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crash {
    /// Process id that the process's file has.
    pub pid: u32,
    /// Number of the process's image.
    pub serial: u32,
    pub signal: i32,
    /// The `si_code` of the signal.
    pub code: i32,
    /// The process that sent the signal; None: the processor or the kernel raised it.
    pub sender: Option<u32>,
    /// The address that was accessed, or of the instruction; None: that is not known, or the signal was sent.
    pub address: Option<u64>,
    /// How memory was accessed; None: there was no page fault.
    pub access: Option<Access>,
    /// What is at `address`; unknown where that is None.
    pub region: Region,
    /// The thread that the signal was delivered to, and where.
    pub operation: Operation,
    /// Why the thread's stack is not known or not whole.
    pub without_stack: Option<String>,
    /// Values of the registers, in the order of [`mallow_arch::registers::NAMES`].
    pub registers: Vec<u64>,
    /// The guarded block nearest to the address, where it lies in or near guarded memory.
    pub block: Option<Block>,
    /// The thread's last wrong access that was answered with zeros, else the last one of another thread; None: there
    /// was none.
    pub after: Option<Zeroed>,
}

/// Blocks of one allocation stack that nothing points to when their image exits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leak {
    /// Process id that the process's file has.
    pub pid: u32,
    /// Number of the process's image.
    pub serial: u32,
    /// When the image was searched, in nanoseconds on CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// Blocks that no lost block points to, either; of a cycle the first one.
    pub count: u64,
    /// How many of the `count` blocks are of a cycle, whose blocks point to each other.
    pub cycles: u64,
    /// Requested bytes of the `count` blocks.
    pub bytes: u64,
    /// Blocks that only the `count` blocks hold.
    pub held: u64,
    /// Requested bytes of the `held` blocks.
    pub held_bytes: u64,
    /// The first of the `count` blocks.
    pub block: Block,
}

/// Whether an image was searched for leaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Search {
    /// Nobody asked for a search, or nothing is guarded in the image.
    Unwanted,
    Done,
    /// Why the image was not searched.
    Not(String),
    /// The image was not searched: exec put another one in its place.
    Replaced,
    /// The image was not searched: a signal ended it, or exec replaced it. A later image of the process shows which.
    Unknown,
}

/// How guarding went in an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub pid: u32,
    /// Number of the process's image; a later image of the process may have it again.
    pub serial: u32,
    /// The file that the image executes.
    pub executable: String,
    /// When the image began, on CLOCK_MONOTONIC.
    pub began_ns: u64,
    /// Why nothing is guarded in the image; None: allocations are guarded.
    pub refused: Option<String>,
    /// Why a signal handler takes the place of userfaultfd; None: it does not.
    pub handled: Option<String>,
    /// Why nothing was guarded from some moment on; None: guarding went on.
    pub ended: Option<String>,
    /// Allocations that were guarded.
    pub guarded: u64,
    /// Allocations that were to be guarded, and were not.
    pub unguarded: u64,
    /// Allocations larger or more aligned than any slot.
    pub unfit: u64,
    /// Findings that were overwritten before they were read, or came after the first [`super::MOST_FINDINGS`].
    pub lost: u64,
    /// Why no allocation was compared with its free; None: they were, or there are no operators new and delete.
    pub uncompared: Option<String>,
    /// Frees by another operation than the block's that are no findings: a module may have operators of its own.
    pub unsure: u64,
    pub search: Search,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    Finding(Box<Finding>),
    Leak(Box<Leak>),
    Crash(Box<Crash>),
    /// The last message on an image: it has ended, or the keeper ends.
    Outcome(Outcome),
}
