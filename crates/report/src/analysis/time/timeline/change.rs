//! What an event means for the heap.

use mallow_profile::{Block, Call, Event, Moment};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Born(Call),
    Gone(Block),
    /// All blocks of the process with this number are gone.
    AllGone(u32),
}

/// The changes by an event, in their order. The end of a block that was not seen allocated is none.
#[inline]
pub(super) fn changes(at: Moment, event: &Event) -> impl Iterator<Item = Change> {
    let steps = match *event {
        Event::Allocate(call) => [None, Some(Change::Born(call))],
        Event::Reallocate { call, old, .. } => [old.map(Change::Gone), Some(Change::Born(call))],
        Event::Free(block) | Event::ReallocFree(block) => [block.map(Change::Gone), None],
        Event::UnseenFree(block) => [Some(Change::Gone(block)), None],
        Event::EndProcess => [Some(Change::AllGone(at.process)), None],
        Event::Region { .. } => [None, None],
    };
    steps.into_iter().flatten()
}
