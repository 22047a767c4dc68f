//! Readings of a process's memory and looks at its RSS: the replay says what was live then.

use super::super::looks::Seen;
use super::super::window::Window;
use super::{Process, Shared, placed};
use crate::footprint::Reading;
use mallow_profile::{Block, PlacedBlock};

impl Process {
    /// Begins a reading, while the rings are written so far. What was read before is placed now.
    pub fn reading_begins<S>(&mut self, shared: &Shared<S>, number: u64, heads: &[u64]) {
        self.settle_window(shared, true);
        self.window = Some(Window::new(number, heads));
        self.settle_window(shared, false);
    }

    /// Takes the RSS of a reading for a look, whether the reading is kept or not: it begins while the rings are written
    /// so far.
    pub fn look_begins<S>(&mut self, shared: &Shared<S>, number: u64, heads: &[u64]) {
        self.looks.reading_begins(number, heads);
        self.settle_looks(shared, false);
    }

    /// Takes the RSS that a reading saw. A reading at the exit has no begin: the process waits, and what is live now
    /// was live then.
    pub fn reading_saw<S>(&mut self, shared: &Shared<S>, number: u64, seen: Seen) {
        if !self.looks.reading_saw(number, seen) {
            self.looks.add(&[], seen);
        }
        self.settle_looks(shared, false);
    }

    /// Takes a look at RSS, made while the rings were written so far.
    pub fn look<S>(&mut self, shared: &Shared<S>, heads: &[u64], seen: Seen) {
        self.looks.add(heads, seen);
        self.settle_looks(shared, false);
    }

    pub(super) fn settle_looks<S>(&mut self, shared: &Shared<S>, is_last: bool) {
        if self.looks.is_empty() {
            return;
        }
        let live_bytes = shared.ledger.live_bytes_of(self.number);
        for (Seen { ms, rss, peak }, live_bytes) in self.looks.settle(&self.rings, live_bytes, is_last) {
            self.memory.rss(ms, rss, peak, live_bytes);
        }
    }

    /// Ends the reading of this number, while the rings are written so far.
    pub fn reading_ends(&mut self, number: u64, heads: &[u64]) {
        if let Some(window) = self.window.as_mut().filter(|window| window.number == number) {
            window.ends(heads);
        }
    }

    /// Takes a reading. Of a process that waits at its exit, the blocks that are live now lay there.
    pub fn place<S>(&mut self, shared: &Shared<S>, reading: Reading) {
        match &mut self.window {
            Some(window) if window.number == reading.number => {
                window.reading = Some(reading);
                self.settle_window(shared, false);
            }
            _ => {
                self.settle_window(shared, true);
                let blocks = self.placed();
                let recent = self.recent.at(reading.footprint.ms, shared.ledger.live_bytes_of(self.number));
                self.memory.read(reading, blocks, recent);
            }
        }
    }

    /// Live blocks, and those whose realloc is under way.
    fn placed(&self) -> Vec<PlacedBlock> {
        self.live.iter().chain(self.in_transit()).map(placed).collect()
    }

    /// Blocks whose realloc is under way, by their old addresses.
    fn in_transit(&self) -> impl Iterator<Item = (u64, Block)> + '_ {
        self.rings
            .iter()
            .filter_map(|ring| ring.transit.as_ref().and_then(|transit| Some((transit.address, transit.block?))))
    }

    /// Places the blocks of a reading, if the replay has come there. `is_last`: more does not come.
    pub(super) fn settle_window<S>(&mut self, shared: &Shared<S>, is_last: bool) {
        let Some(mut window) = self.window.take() else { return };
        if window.begins(&self.rings) || is_last && window.reading.is_some() && window.lacks_blocks() {
            let live = (self.recent.clone(), shared.ledger.live_bytes_of(self.number));
            window.place(self.placed(), self.in_transit().map(placed), live);
        }
        let is_over = is_last || window.is_over(&self.rings);
        match window.reading.take() {
            Some(reading) if is_over => {
                let recent = window.recent_live(reading.footprint.ms);
                let blocks = window.blocks(&reading);
                self.memory.read(reading, blocks, recent);
            }
            None if is_last => {}
            reading => {
                window.reading = reading;
                self.window = Some(window);
            }
        }
    }
}
