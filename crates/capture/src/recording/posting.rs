//! Events of selected blocks, posted into new books.

use super::choice::Bits;
use super::selection::Judge;
use crate::accounts::Ledger;
use mallow_profile::{Block, Event, Moment};

/// Posts the events of chosen blocks.
pub(super) struct Posting<'a> {
    pub judge: &'a Judge<'a>,
    pub books: &'a mut Ledger,
    pub chosen: Bits,
    /// `chosen` is filled here; else others do that before.
    pub decide: bool,
    /// Chosen blocks that are still to be allocated, where that is known.
    pub left: u64,
    /// Chosen blocks that are live.
    pub live: u64,
    /// Frees of blocks that were not seen allocated are posted too.
    pub foreign: bool,
}

impl Posting<'_> {
    #[inline]
    fn born(&mut self, at: Moment, size: u64) -> bool {
        if self.decide {
            self.chosen.push(self.judge.allocated(at.process, at.thread, at.ms, size));
        }
        let chosen = self.chosen.get(self.books.allocations());
        self.live += u64::from(chosen);
        self.left -= u64::from(chosen && !self.decide);
        chosen
    }

    /// The block if it is chosen, and gone now.
    #[inline]
    fn gone(&mut self, block: Option<Block>) -> Option<Block> {
        let block = block.filter(|block| self.chosen.get(block.sequence));
        self.live -= u64::from(block.is_some());
        block
    }

    #[inline]
    pub fn post(&mut self, at: Moment, event: Event, live: impl FnOnce() -> Vec<Block>) {
        // Events that are left out have a part in the time, which is the latest one so far.
        self.books.advance(at.ms);
        let foreign = self.foreign && self.judge.process(at.process);
        match event {
            Event::Allocate(call) => match self.born(at, call.size) {
                true => drop(self.books.allocate(at, call)),
                false => self.books.pass(at),
            },
            Event::Free(block) => {
                let gone = self.gone(block);
                if gone.is_some() || (block.is_none() && foreign) {
                    self.books.free(at, gone.as_ref());
                }
            }
            Event::Reallocate { call, old, moved } => {
                let gone = self.gone(old);
                let released = gone.is_some() || (old.is_none() && foreign);
                match (released, self.born(at, call.size)) {
                    (true, true) => drop(self.books.reallocate(at, gone.as_ref(), call, moved)),
                    (false, true) => drop(self.books.reallocated(at, call, moved)),
                    (released, false) => {
                        if released {
                            self.books.realloc_free(at, gone.as_ref());
                        }
                        self.books.pass(at);
                    }
                }
            }
            Event::ReallocFree(block) => {
                let gone = self.gone(block);
                if gone.is_some() || (block.is_none() && foreign) {
                    self.books.realloc_free(at, gone.as_ref());
                }
            }
            Event::UnseenFree(block) => {
                if let Some(block) = self.gone(Some(block)) {
                    self.books.unseen_free(at, &block);
                }
            }
            Event::Region { .. } => {}
            Event::EndProcess => {
                let mut live = live();
                live.retain(|block| self.chosen.get(block.sequence));
                self.live -= live.len() as u64;
                self.books.end_process(at.process, at.ms, live.into_iter());
            }
        }
    }
}
