//! Where the replay's events go besides the books.

use super::ledger::{Block, Call, Ledger, Moment};
use std::io;

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
    /// The process ended: its live blocks leaked. The moment's thread means nothing.
    EndProcess,
}

/// Takes events while they are replayed.
pub trait EventSink {
    /// Takes one event. It cannot fail: what it makes is kept until [`EventSink::settle`]; once that has failed, nothing
    /// is kept any more.
    fn event(&mut self, at: Moment, event: Event);

    /// Called often, when the ledger holds all that the events so far refer to.
    fn settle(&mut self, ledger: &Ledger) -> io::Result<()>;

    /// Called once, after the last event.
    fn close(&mut self, ledger: &Ledger) -> io::Result<()> {
        self.settle(ledger)
    }
}

/// Takes nothing.
impl EventSink for () {
    #[inline]
    fn event(&mut self, _: Moment, _: Event) {}

    fn settle(&mut self, _: &Ledger) -> io::Result<()> {
        Ok(())
    }
}
