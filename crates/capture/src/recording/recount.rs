//! Counting a part of a recording again.
//!
//! The events of the selected blocks are posted in a new ledger, so that sums, peaks and leaks are theirs. Where a
//! block's allocation does not determine whether it is selected, a pass over the events before that decides for each
//! allocation, or the events wait ([`super::queue`]).

use super::block::Kind;
use super::blocks::{Block as FileBlock, Progress};
use super::bytes::Nonsense;
use super::choice::{Bits, Choice};
use super::decoder::Decoder;
use super::error::ReadError;
use super::lost_blocks::LostList;
use super::queue::{self, EventQueue};
use super::reader::Reader;
use super::selected_ledger::SelectedLedger;
use super::selection::{Criterion, Running, Selection};
use crate::accounts::Ledger;
use mallow_profile::{Block, Event, Profile};
use std::io::{Read, Seek};

/// Ranges of what there is to select from; in each pair, the last number is one that there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    pub allocations: u64,
    /// Least and most bytes as requested.
    pub sizes: (u64, u64),
    /// Milliseconds since the recording began at which the first and the last block was allocated.
    pub allocated_ms: (u64, u64),
    /// Milliseconds since the recording began of the first and the last free; None if there was none.
    pub freed_ms: Option<(u64, u64)>,
    /// Shortest and longest life of a block, in milliseconds.
    pub lifetimes: (u64, u64),
}

impl<R: Read + Seek> Reader<R> {
    /// The part of the recording that is selected, with only the sites and processes that take part in it.
    /// `profile` is what [`Reader::open`] returned, perhaps with lines of frames filled in.
    pub fn select(
        &mut self,
        mut profile: Profile,
        selection: &Selection,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Profile, Choice), ReadError> {
        let mut ledger = Ledger::again(&profile);
        let sites: Vec<_> = profile.sites.iter().map(|site| (site.process, site.stack)).collect();
        profile.sites = Vec::new();
        let criterion = Criterion::new(selection);
        let bound = queue::bound(selection, &self.index);
        let passes = if bound.is_none() && selection.asks_the_future() { 2 } else { 1 };
        let ends: Vec<u64> = profile.processes.iter().map(|process| process.end_ms).collect();
        let mut decided = Bits::default();
        if passes == 2 {
            decided = self.decide(selection, &criterion, &ends, &mut |at| progress(at.part(0, 2)))?;
        }
        let mut selected = SelectedLedger {
            criterion: &criterion,
            ledger: &mut ledger,
            decide: passes == 1 && bound.is_none(),
            left: if passes == 1 { u64::MAX } else { decided.ones() },
            chosen: decided,
            live: 0,
            foreign: selection.asks_for_processes_alone(),
        };
        let mut decoder = Decoder::default();
        let left = |decoder: &mut Decoder| -> Vec<Vec<Block>> {
            (0..ends.len() as u32).map(|process| decoder.living().drain(process).collect()).collect()
        };
        let live;
        if let Some(bound) = bound {
            let known = selection.fates_known();
            let mut waiting = EventQueue::new(selected, &criterion, &ends, bound, &self.index);
            self.pass(
                &mut decoder,
                progress,
                |waiting: &EventQueue<'_>, from| {
                    known.is_some_and(|known| from.is_some_and(|from| from >= known)) && waiting.is_idle()
                },
                &mut waiting,
                EventQueue::event,
            )?;
            live = left(&mut decoder);
            selected = waiting.finish(&live);
        } else {
            let last = selection.allocations_end().filter(|_| passes == 1);
            self.pass(
                &mut decoder,
                &mut |at| progress(at.part(passes - 1, passes)),
                |selected: &SelectedLedger<'_>, from| {
                    let none_to_come =
                        selected.left == 0 || last.is_some_and(|last| from.is_some_and(|from| from >= last));
                    none_to_come && selected.live == 0
                },
                &mut selected,
                |selected, living, at, event| selected.post(at, event, || living.drain(at.process).collect()),
            )?;
            live = left(&mut decoder);
        }
        let SelectedLedger { chosen: bits, foreign, .. } = selected;
        for ((process, &end), live) in (0..).zip(&ends).zip(live) {
            ledger.end_process(process, end, live.into_iter().filter(|block| bits.get(block.sequence)));
        }
        let mut counted = ledger.close();
        for (process, &end) in counted.processes.iter_mut().zip(&ends) {
            process.end_ms = end;
            process.threads = 0;
        }
        for (thread, index) in profile.threads.iter().zip(0..) {
            if criterion.thread(index) {
                counted.processes[thread.process.0 as usize].threads += 1;
            }
        }
        // The kernel knows processes, and no blocks.
        let is_kept = |process: u32| {
            let processes = selection.processes.as_ref().filter(|_| selection.asks_for_processes_alone());
            processes.is_some_and(|processes| processes.contains(&process))
        };
        profile.footprints.retain(|footprint| is_kept(footprint.process.0));
        profile.rss.retain(|series| is_kept(series.process.0));
        if !selection.asks_for_processes_alone() {
            let lost = self.lost_blocks(sites.len(), &profile)?;
            let all = std::mem::take(&mut profile.scans);
            profile.scans = all.into_iter().map(|scan| lost.choose(scan, &bits, &sites)).collect();
        }
        profile.window_ms = selection.window(&profile);
        profile.sites = counted.sites;
        profile.processes = counted.processes;
        profile.totals = counted.totals;
        profile.peak_ms = counted.peak_ms;
        let chosen = Choice::of(bits, foreign, &mut profile);
        Ok((profile, chosen))
    }

    /// The lost blocks of the recording, one by one; none where no process has any.
    fn lost_blocks(&mut self, sites: usize, profile: &Profile) -> Result<LostList, ReadError> {
        let mut lost = LostList::default();
        if profile.scans.iter().all(|scan| scan.lost.is_empty()) {
            return Ok(lost);
        }
        self.blocks.rewind()?;
        while let Some(FileBlock { at, mut columns, .. }) = self.blocks.next(|kind| kind == Kind::LostBlocks)? {
            lost.read(&mut columns, sites).map_err(|Nonsense(what)| ReadError::Damaged { at, what })?;
        }
        Ok(lost)
    }

    /// Decides for each allocation, by its number, with what is known of it later.
    fn decide(
        &mut self,
        selection: &Selection,
        criterion: &Criterion<'_>,
        ends: &[u64],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Bits, ReadError> {
        let mut decoder = Decoder::default();
        let known = selection.fates_known();
        let mut running = Running::default();
        let mut bits = Bits::default();
        let stopped = self.pass(
            &mut decoder,
            progress,
            |_, from| known.is_some_and(|known| from.is_some_and(|from| from >= known)),
            &mut bits,
            |bits, living, at, event| {
                let gone = |bits: &mut Bits, block: &Block, freed| {
                    if !criterion.gone(block.ms, at.ms, freed) {
                        bits.clear(block.sequence);
                    }
                };
                let within = criterion.within(&running, at);
                let allocated = |size| within && criterion.allocated(at.process, at.thread, at.ms, size);
                match event {
                    Event::Allocate(call) => bits.push(allocated(call.size)),
                    Event::Reallocate { call, old, .. } => {
                        old.iter().for_each(|block| gone(bits, block, true));
                        bits.push(allocated(call.size));
                    }
                    Event::Free(block) | Event::ReallocFree(block) => {
                        block.iter().for_each(|block| gone(bits, block, true));
                    }
                    Event::UnseenFree(block) => gone(bits, &block, true),
                    Event::Region { number, end, this_thread } => {
                        criterion.region(&mut running, at, number, end, this_thread);
                    }
                    Event::EndProcess => {
                        living.drain(at.process).for_each(|block| gone(bits, &block, false));
                    }
                }
            },
        )?;
        for (process, &end) in (0..).zip(ends) {
            for block in decoder.living().drain(process) {
                // Where reading stopped early, all that is asked is whether it was live then.
                if !criterion.gone(block.ms, stopped.unwrap_or(end), false) {
                    bits.clear(block.sequence);
                }
            }
        }
        Ok(bits)
    }

    /// The extent of the processes and threads of a selection, whose other conditions do not count.
    pub fn extent(
        &mut self,
        profile: &Profile,
        selection: &Selection,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Extent, ReadError> {
        let whose = Selection {
            processes: selection.processes.clone(),
            threads: selection.threads.clone(),
            ..Selection::default()
        };
        let criterion = Criterion::new(&whose);
        let mut decoder = Decoder::default();
        let mut seen = Seen::default();
        self.pass(
            &mut decoder,
            progress,
            |_, _| false,
            &mut seen,
            |seen, living, at, event| {
                let born = |seen: &mut Seen, size| {
                    let mine = criterion.allocated(at.process, at.thread, at.ms, size);
                    seen.bits.push(mine);
                    if mine {
                        seen.allocations += 1;
                        widen(&mut seen.sizes, size);
                        widen(&mut seen.allocated_ms, at.ms);
                    }
                };
                match event {
                    Event::Allocate(call) => born(seen, call.size),
                    Event::Reallocate { call, old, .. } => {
                        old.iter().for_each(|block| seen.gone(block, at.ms, true));
                        born(seen, call.size);
                    }
                    Event::Free(block) | Event::ReallocFree(block) => {
                        block.iter().for_each(|block| seen.gone(block, at.ms, true));
                    }
                    Event::UnseenFree(block) => seen.gone(&block, at.ms, true),
                    Event::Region { .. } => {}
                    Event::EndProcess => {
                        living.drain(at.process).for_each(|block| seen.gone(&block, at.ms, false));
                    }
                }
            },
        )?;
        for (process, end) in (0..).zip(&profile.processes) {
            decoder.living().drain(process).for_each(|block| seen.gone(&block, end.end_ms, false));
        }
        Ok(Extent {
            allocations: seen.allocations,
            sizes: seen.sizes.unwrap_or_default(),
            allocated_ms: seen.allocated_ms.unwrap_or_default(),
            freed_ms: seen.freed_ms,
            lifetimes: seen.lifetimes.unwrap_or_default(),
        })
    }
}

#[derive(Default)]
struct Seen {
    bits: Bits,
    allocations: u64,
    sizes: Option<(u64, u64)>,
    allocated_ms: Option<(u64, u64)>,
    freed_ms: Option<(u64, u64)>,
    lifetimes: Option<(u64, u64)>,
}

impl Seen {
    fn gone(&mut self, block: &Block, ms: u64, freed: bool) {
        if self.bits.get(block.sequence) {
            widen(&mut self.lifetimes, ms.saturating_sub(block.ms));
            if freed {
                widen(&mut self.freed_ms, ms);
            }
        }
    }
}

fn widen(span: &mut Option<(u64, u64)>, number: u64) {
    let (least, most) = span.unwrap_or((number, number));
    *span = Some((least.min(number), most.max(number)));
}
