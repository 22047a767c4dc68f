//! The ledger of the selected blocks' events.

use super::choice::Bits;
use super::selection::Criterion;
use crate::accounts::Ledger;
use mallow_profile::{Block, Event, Moment};

pub(super) struct SelectedLedger<'a> {
    pub criterion: &'a Criterion<'a>,
    pub ledger: &'a mut Ledger,
    pub chosen: Bits,
    /// Whether [`SelectedLedger::post`] fills `chosen` from each allocation; otherwise the caller has filled it before.
    pub decide: bool,
    /// Chosen blocks that are still to be allocated; `u64::MAX` where that is not known.
    pub left: u64,
    pub live: u64,
    /// Whether frees of blocks without a recorded allocation are posted, too.
    pub foreign: bool,
}

impl SelectedLedger<'_> {
    #[inline]
    fn born(&mut self, at: Moment, size: u64) -> bool {
        if self.decide {
            self.chosen.push(self.criterion.allocated(at.process, at.thread, at.ms, size));
        }
        let chosen = self.chosen.get(self.ledger.allocations());
        self.live += u64::from(chosen);
        self.left -= u64::from(chosen && !self.decide);
        chosen
    }

    /// Counts a freed block off the live ones; None unless it is chosen.
    #[inline]
    fn gone(&mut self, block: Option<Block>) -> Option<Block> {
        let block = block.filter(|block| self.chosen.get(block.sequence));
        self.live -= u64::from(block.is_some());
        block
    }

    /// Posts an event in the order of the recording. `live` gives the live blocks of its process, at the end of that.
    #[inline]
    pub fn post(&mut self, at: Moment, event: Event, live: impl FnOnce() -> Vec<Block>) {
        // Events that are left out have a part in the time, which is the latest one so far.
        self.ledger.advance(at.ms);
        let foreign = self.foreign && self.criterion.process(at.process);
        match event {
            Event::Allocate(call) => match self.born(at, call.size) {
                true => drop(self.ledger.allocate(at, call)),
                false => self.ledger.pass(at),
            },
            Event::Free(block) => {
                let gone = self.gone(block);
                if gone.is_some() || (block.is_none() && foreign) {
                    self.ledger.free(at, gone.as_ref());
                }
            }
            Event::Reallocate { call, old, moved } => {
                let gone = self.gone(old);
                let released = gone.is_some() || (old.is_none() && foreign);
                match (released, self.born(at, call.size)) {
                    (true, true) => drop(self.ledger.reallocate(at, gone.as_ref(), call, moved)),
                    (false, true) => drop(self.ledger.reallocated(at, call, moved)),
                    (released, false) => {
                        if released {
                            self.ledger.realloc_free(at, gone.as_ref());
                        }
                        self.ledger.pass(at);
                    }
                }
            }
            Event::ReallocFree(block) => {
                let gone = self.gone(block);
                if gone.is_some() || (block.is_none() && foreign) {
                    self.ledger.realloc_free(at, gone.as_ref());
                }
            }
            Event::UnseenFree(block) => {
                if let Some(block) = self.gone(Some(block)) {
                    self.ledger.unseen_free(at, &block);
                }
            }
            Event::Region { .. } => {}
            Event::EndProcess => {
                let mut live = live();
                live.retain(|block| self.chosen.get(block.sequence));
                self.live -= live.len() as u64;
                self.ledger.end_process(at.process, at.ms, live.into_iter());
            }
        }
    }
}
