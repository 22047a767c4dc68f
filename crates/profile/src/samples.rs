//! Allocations that a sampler picked: what passes between the reader of a watched program, the analyses and the
//! command.
//!
//! Each byte that a thread asks for is as likely as any other to be picked, so an allocation of `size` bytes is a
//! sample with probability `1 - exp(-size / period)`, on its own. What follows from that is the analyses' work.

use crate::families::Family;
use crate::process::ProcessId;
use crate::stacks::StackId;

/// A sampled block. A slot is used again and again; its generation tells the uses apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SampleKey {
    /// The process image that allocated it.
    pub process: ProcessId,
    /// Number of the slot in its process.
    pub slot: u32,
    /// Number of the slot's use, which tells the blocks of one slot apart.
    pub generation: u32,
}

/// An allocation that was picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The process image that allocated the block: an index of `Profile::processes`.
    pub process: ProcessId,
    /// Id, in the system, of the thread that allocated it. Ids are given to new threads again.
    pub thread: u32,
    /// The function that was called.
    pub family: Family,
    /// Requested bytes, above 0: no byte of an empty block can be picked.
    pub size: u64,
    /// Mean distance in bytes between two picked ones, when this one was. Never 0.
    pub period: u64,
    /// Address of the block in its process.
    pub address: u64,
    /// Time of the allocation: CLOCK_MONOTONIC, nanoseconds.
    pub at_ns: u64,
    /// Stack of the allocation. [`crate::Stacks::ROOT`] where the target had no place left to keep the stack.
    pub stack: StackId,
}

/// The thread, time and stack of a sampled block's release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// Id of the thread in the system.
    pub thread: u32,
    /// Time of the release: CLOCK_MONOTONIC, nanoseconds.
    pub at_ns: u64,
    /// Stack of the release; [`crate::Stacks::ROOT`] where the target did not report it.
    pub stack: StackId,
}

/// A change of a watched program's samples, process by process in the order in which it happened there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleEvent {
    /// A process image appeared; it comes before everything else of its process. `Profile::processes` has the rest.
    ProcessBegan {
        /// Index of the image in `Profile::processes`.
        process: ProcessId,
        /// When the image began: CLOCK_MONOTONIC, nanoseconds.
        at_ns: u64,
    },
    /// A block was picked, or, where the reader joined a program that ran already, was found live.
    Allocated {
        /// A key that no live sample has.
        key: SampleKey,
        /// The allocation as the target reported it.
        sample: Sample,
    },
    /// A sampled block was freed.
    Freed {
        /// The key of a live sample, which ends.
        key: SampleKey,
        /// The thread, the moment and the stack.
        release: Release,
    },
    /// A sampled block was reallocated, in place or not: it is gone. The new block is drawn for as any other is, and
    /// comes as an `Allocated` of its own if it was picked again.
    Reallocated {
        /// The key of a live sample, which ends.
        key: SampleKey,
        /// The thread, the moment and the stack.
        release: Release,
        /// Requested bytes of the new block.
        size: u64,
    },
    /// A sampled block is gone, and the event that names who did it was lost.
    Gone {
        /// The key of a sample of which nothing more is known.
        key: SampleKey,
        /// A moment at which the sample was still live: CLOCK_MONOTONIC, nanoseconds.
        after_ns: u64,
        /// A moment at which the sample was gone: CLOCK_MONOTONIC, nanoseconds.
        before_ns: u64,
    },
    /// Losses: what could not be reported.
    Lost {
        /// The process that lost events; None for one that has no file.
        process: Option<ProcessId>,
        /// Losses since the last event of this kind.
        lost: Lost,
    },
    /// Nothing more comes from this process; no more of its blocks are freed.
    ProcessEnded {
        /// The process image, which began earlier.
        process: ProcessId,
        /// When the end was noticed: CLOCK_MONOTONIC, nanoseconds.
        at_ns: u64,
    },
}

/// Number of things that could not be reported of a process. In an event: since the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Events that were overwritten before they were read. Which samples are live is known all the same.
    pub events: u64,
    /// Allocations that were picked and found no slot: no estimate has them.
    pub picks: u64,
    /// Samples whose stack found no place.
    pub stacks: u64,
    /// Records that made no sense and were passed over.
    pub damaged: u64,
    /// Processes that sample nothing more, because a signal handler left the work on a sample by `longjmp`.
    pub left: u64,
    /// Processes that sample nothing more, because they installed a filter of system calls that forbids it.
    pub filtered: u64,
    /// Processes without any sample: they give blocks of `malloc` to functions of their allocator that Mallow does not
    /// see.
    pub foreign: u64,
    /// Processes without any sample: there was no room for their file, or for samples.
    pub unsampled: u64,
}

impl std::ops::AddAssign for Lost {
    fn add_assign(&mut self, other: Self) {
        self.events = self.events.saturating_add(other.events);
        self.picks = self.picks.saturating_add(other.picks);
        self.stacks = self.stacks.saturating_add(other.stacks);
        self.damaged = self.damaged.saturating_add(other.damaged);
        self.left = self.left.saturating_add(other.left);
        self.filtered = self.filtered.saturating_add(other.filtered);
        self.foreign = self.foreign.saturating_add(other.foreign);
        self.unsampled = self.unsampled.saturating_add(other.unsampled);
    }
}

#[cfg(test)]
mod tests {
    use super::Lost;

    #[test]
    fn what_is_lost_adds_up_field_by_field() {
        let lost = |factor: u64, damaged| Lost {
            events: factor,
            picks: 20 * factor,
            stacks: 300 * factor,
            damaged,
            left: 4 * factor,
            filtered: 5 * factor,
            foreign: 6 * factor,
            unsampled: 7 * factor,
        };
        let mut sum = lost(1, u64::MAX);
        sum += lost(4, 1);
        let all = lost(5, u64::MAX);
        assert_eq!(sum, all);
    }
}
