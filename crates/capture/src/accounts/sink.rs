//! The receiver of the replay's events, in addition to the ledger.

use super::ledger::Ledger;
use crate::footprint::Packed;
use crate::scan::LostBlock;
use mallow_profile::{Event, Moment};
use std::io;

pub trait EventSink {
    /// Takes one event. It cannot fail: what it makes is kept until [`EventSink::settle`]; once that has failed,
    /// nothing is kept any more.
    fn event(&mut self, at: Moment, event: Event);

    /// Called often, when the ledger holds all that the events so far refer to.
    fn settle(&mut self, ledger: &Ledger) -> io::Result<()>;

    /// Takes a footprint of a process that has ended. It is kept until [`EventSink::settle`], too.
    fn footprint(&mut self, _: Packed) {}

    /// Takes the lost blocks of a process that has ended, by number. They are kept until [`EventSink::settle`], too.
    fn lost_blocks(&mut self, _process: u32, _blocks: Vec<LostBlock>) {}

    /// Called once, after the last event.
    fn close(&mut self, ledger: &Ledger) -> io::Result<()> {
        self.settle(ledger)
    }
}

impl EventSink for () {
    #[inline]
    fn event(&mut self, _: Moment, _: Event) {}

    fn settle(&mut self, _: &Ledger) -> io::Result<()> {
        Ok(())
    }
}
