//! Selections by lifetime, counted again in one pass over the events.
//!
//! Whether a block lived so long is known when it is gone, or when more time went by than is asked about. Events wait,
//! in the order of the file, until that is known of the blocks that they allocate. Lifetimes that are asked about are
//! short as a rule, and then few events wait; where many would, a pass before decides, which reads everything twice.

use super::choice::Bits;
use super::index::{self, BlockSummary};
use super::live_blocks::LiveBlocks;
use super::selected_ledger::SelectedLedger;
use super::selection::{Criterion, Selection, When};
use mallow_profile::{Block, Event, Moment};
use std::collections::VecDeque;

/// Most events that may wait, some 90 bytes each.
const MOST: u64 = 1 << 20;

#[derive(Default)]
struct Chunk {
    events: Vec<(Moment, Event)>,
    /// Live blocks at each end of a process in `events`.
    live: VecDeque<Vec<Block>>,
    /// Time of the last allocation in `events`.
    latest: u64,
}

/// Queued events and the ledger that they are posted in.
pub(super) struct EventQueue<'a> {
    selected: SelectedLedger<'a>,
    criterion: &'a Criterion<'a>,
    /// Time of the end of each process.
    ends: &'a [u64],
    bound: u64,
    /// For each block of events how many it has, and the earliest time after it.
    blocks: std::vec::IntoIter<(u64, u64)>,
    /// How many events of the block that is being read are still to come; `earliest_after` is the time after it.
    events_left: u64,
    earliest_after: u64,
    /// Allocations whose blocks are live so far, by number.
    alive: Bits,
    /// Events that wait, block by block; the last chunk is being filled.
    chunks: VecDeque<Chunk>,
    /// Emptied chunks, to be filled again.
    spare: Vec<Chunk>,
}

/// After how many milliseconds the fate of every block is known. None: events would wait too long for it, so that a
/// pass before has to decide.
pub(super) fn bound(selection: &Selection, index: &[BlockSummary]) -> Option<u64> {
    let span = selection.lifetimes?;
    let other_future = selection.regions.is_some() || selection.time.is_some_and(|(when, _)| when != When::Allocated);
    let bound = span.to.unwrap_or(span.from);
    (!other_future && !index.is_empty() && most_waiting(index, bound) <= MOST).then_some(bound)
}

fn most_waiting(index: &[BlockSummary], bound: u64) -> u64 {
    let earliest = index::earliest(index);
    let (mut most, mut waiting, mut next, mut latest) = (0u64, 0u64, 0, 0);
    for block in index {
        latest = block.last_ms.max(latest);
        while next < index.len() && (waiting == 0 || earliest[next].1 < latest.saturating_add(bound)) {
            waiting = waiting.saturating_add(index[next].events);
            next += 1;
        }
        most = most.max(waiting);
        waiting = waiting.saturating_sub(block.events);
    }
    most
}

impl<'a> EventQueue<'a> {
    /// An empty queue. `selected` must not have chosen any block.
    pub fn new(
        selected: SelectedLedger<'a>,
        criterion: &'a Criterion<'a>,
        ends: &'a [u64],
        bound: u64,
        index: &[BlockSummary],
    ) -> Self {
        let earliest = index::earliest(index);
        let after = earliest.iter().skip(1).map(|&(_, ms)| ms).chain([0]);
        let blocks: Vec<_> = index.iter().map(|block| block.events).zip(after).collect();
        let mut waiting = Self {
            selected,
            criterion,
            ends,
            bound,
            blocks: blocks.into_iter(),
            events_left: 0,
            earliest_after: 0,
            alive: Bits::default(),
            chunks: VecDeque::new(),
            spare: Vec::new(),
        };
        waiting.next_block();
        waiting
    }

    fn next_block(&mut self) {
        (self.events_left, self.earliest_after) = self.blocks.next().unwrap_or((u64::MAX, 0));
        self.chunks.push_back(self.spare.pop().unwrap_or_default());
    }

    /// Whether no selected block is live or queued.
    pub fn is_idle(&self) -> bool {
        let posted = self.selected.ledger.allocations();
        self.selected.live == 0 && (posted..self.alive.length()).all(|number| !self.selected.chosen.get(number))
    }

    /// Takes the next event of the recording.
    pub fn event(&mut self, living: &mut LiveBlocks, at: Moment, event: Event) {
        let Some(chunk) = self.chunks.back_mut() else { return };
        let (chosen, alive) = (&mut self.selected.chosen, &mut self.alive);
        let mut gone = |chosen: &mut Bits, block: &Block, freed| {
            alive.clear(block.sequence);
            if !self.criterion.gone(block.ms, at.ms, freed) {
                chosen.clear(block.sequence);
            }
        };
        let mut born = None;
        match &event {
            Event::Allocate(call) => born = Some(call.size),
            Event::Reallocate { call, old, .. } => {
                old.iter().for_each(|block| gone(chosen, block, true));
                born = Some(call.size);
            }
            Event::Free(block) | Event::ReallocFree(block) => block.iter().for_each(|block| gone(chosen, block, true)),
            Event::UnseenFree(block) => gone(chosen, block, true),
            Event::Region { .. } => {}
            Event::EndProcess => {
                let live: Vec<Block> = living.drain(at.process).collect();
                live.iter().for_each(|block| gone(chosen, block, false));
                chunk.live.push_back(live);
            }
        }
        if let Some(size) = born {
            chosen.push(self.criterion.allocated(at.process, at.thread, at.ms, size));
            self.alive.push(true);
            chunk.latest = chunk.latest.max(at.ms);
        }
        chunk.events.push((at, event));
        self.events_left = self.events_left.saturating_sub(1);
        if self.events_left == 0 {
            self.post(self.earliest_after);
            self.next_block();
        }
    }

    /// Posts the events whose blocks' fates are known at `now`, before which nothing comes any more.
    fn post(&mut self, now: u64) {
        while self.chunks.front().is_some_and(|chunk| chunk.latest.saturating_add(self.bound) <= now) {
            let Some(mut chunk) = self.chunks.pop_front() else { return };
            for (at, event) in chunk.events.drain(..) {
                if matches!(event, Event::Allocate(_) | Event::Reallocate { .. }) {
                    self.decide(at, now);
                }
                self.selected.post(at, event, || chunk.live.pop_front().unwrap_or_default());
            }
            chunk.latest = 0;
            self.spare.push(chunk);
        }
    }

    /// Decides on the next allocation that is posted, if its block lives on.
    #[inline]
    fn decide(&mut self, at: Moment, now: u64) {
        let number = self.selected.ledger.allocations();
        if self.alive.get(number) {
            // It leaks with its process, or it is freed after now.
            let end = self.ends.get(at.process as usize).map_or(now, |&end| end.min(now));
            if !self.criterion.gone(at.ms, end, false) {
                self.selected.chosen.clear(number);
            }
        }
    }

    /// Posts all that waits, after the last event; `live` are the blocks that are left of each process.
    pub fn finish(mut self, live: &[Vec<Block>]) -> SelectedLedger<'a> {
        for (blocks, &end) in live.iter().zip(self.ends) {
            for block in blocks {
                self.alive.clear(block.sequence);
                if !self.criterion.gone(block.ms, end, false) {
                    self.selected.chosen.clear(block.sequence);
                }
            }
        }
        self.post(u64::MAX);
        self.selected
    }
}
