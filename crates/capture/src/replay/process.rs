//! One process image: its live blocks, its sites, its modules, and what a record does to them. `readings.rs`: what was
//! live while its memory was read.

mod readings;

use super::looks::Looks;
use super::memory::Memory;
use super::order::{self, Planner};
use super::recent::RecentHigh;
use super::ring::{NO_SITE, Ring, StackDefinition, Transit};
use super::scans;
use super::window::Window;
use crate::accounts::addresses::{AddressMap, Interner};
use crate::accounts::{EventSink, Ledger, Live};
use crate::courtesy::Courtesy;
use crate::scan::{Failure, Found, LiveBlock};
use crate::wire::record::{self, Record, What};
use mallow_profile::{Block, Call, Event, Footprint, Moment, PlacedBlock, ProcessId, RssSeries, Scan};
use mallow_profile::{StackId, Stacks};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;

/// Most stack numbers of a ring.
const STACKS: usize = 1 << 24;
/// Records whose memory is asked for together: enough to wait for all of it at once, few enough to be there still.
const TOGETHER: usize = 16;

/// State that all processes share.
#[derive(Debug, Default)]
pub struct Shared<S> {
    pub ledger: Ledger,
    /// Takes each event that the ledger takes.
    pub sink: S,
    pub interner: Interner,
    pub planner: Planner,
    pub courtesy: Courtesy,
    /// Records that made no sense.
    pub damaged: u64,
    /// Events that fitted nowhere, and were taken as they came.
    pub forced: u64,
    pub scans: Vec<Scan>,
    /// Why processes without a scan have none.
    pub unscanned: Failure,
    /// Processes that began with fork are scanned, too.
    pub scanning_forked: bool,
    pub footprints: Vec<Footprint>,
    /// RSS over time of processes that ended.
    pub rss: Vec<RssSeries>,
}

impl<S> Shared<S> {
    pub fn new(sink: S) -> Self {
        Self {
            ledger: Ledger::default(),
            sink,
            interner: Interner::default(),
            planner: Planner::default(),
            courtesy: Courtesy::default(),
            damaged: 0,
            forced: 0,
            scans: Vec::new(),
            unscanned: Failure::NoAnswer,
            scanning_forked: false,
            footprints: Vec::new(),
            rss: Vec::new(),
        }
    }
}

/// A process image, as the module's text says.
#[derive(Debug, Default)]
pub struct Process {
    /// Number of the process in the ledger.
    pub number: u32,
    pub addresses: AddressMap,
    live: Live,
    sites: FxHashMap<StackId, u32>,
    rings: Vec<Ring>,
    ring_index: FxHashMap<u32, usize>,
    /// The latest thread of each thread id, by its index in the ledger.
    threads: FxHashMap<u32, u32>,
    /// Blocks whose address was handed out again before their free came, by address. In a process with several rings
    /// the free may come out of order: it is these blocks'.
    displaced: FxHashMap<u64, VecDeque<Block>>,
    /// How many frees fitted no block, by address. In a process with several rings the block may come out of order.
    early_frees: FxHashMap<u64, u32>,
    ended: bool,
    /// The process may free blocks that are older than its recording: it began with fork, or was attached to.
    pub older_blocks: bool,
    scan: Option<Result<Found, Failure>>,
    pub memory: Memory,
    /// The reading of the process's memory that is being placed.
    window: Option<Window>,
    /// Looks at RSS that the replay has not come to.
    looks: Looks,
    recent: RecentHigh,
}

impl Process {
    pub fn new(number: u32) -> Self {
        Self { number, ..Self::default() }
    }

    /// Takes words of a ring, which end at position `end` of it.
    pub fn push<S>(&mut self, shared: &mut Shared<S>, ring: u32, words: &[u64], end: u64) {
        let known = self.rings.len();
        if self.ended || (known >= order::RINGS && !self.ring_index.contains_key(&ring)) {
            shared.damaged += 1;
            return;
        }
        let index = *self.ring_index.entry(ring).or_insert(known);
        if index == known {
            self.rings.push(Ring::new(ring));
        }
        let sound = record::sound(words);
        shared.damaged += u64::from(sound < words.len());
        self.rings[index].push(&words[..sound], end);
    }

    /// Ends a round: records that are two rounds old are replayed now, because all that they depend on is here, and all
    /// that came before them. Where one ring alone has any, those of the round before suffice.
    pub fn round<S: EventSink>(&mut self, shared: &mut Shared<S>) {
        self.replay_due(shared);
        self.rings.iter_mut().for_each(Ring::age);
        let is_over = self.window.as_mut().is_some_and(Window::age);
        self.settle_window(shared, is_over);
        self.looks.age();
        self.settle_looks(shared, false);
    }

    /// Live blocks of the process, for a scan at its exit.
    pub fn live_blocks(&self) -> Vec<LiveBlock> {
        let block = |(address, Block { size, sequence, site, .. })| LiveBlock { address, size, sequence, site };
        self.live.iter().map(block).collect()
    }

    /// Takes the highest RSS of the process's whole life, in bytes, also after its end.
    pub fn end_rss<S>(&mut self, shared: &mut Shared<S>, ms: u64, peak: u64) {
        if !self.ended {
            self.memory.end_rss(ms, peak);
            return;
        }
        let ended = shared.rss.iter_mut().find(|series| series.process == ProcessId(self.number));
        if let Some(known) = ended.and_then(|series| series.peak.as_mut()) {
            known.end(ms, peak);
        }
    }

    /// Takes what the scan at the exit found.
    pub fn scanned(&mut self, scan: Result<Found, Failure>) {
        self.scan = Some(scan);
    }

    /// Ends the process: everything is replayed, and no more blocks are freed.
    pub fn end<S: EventSink>(&mut self, shared: &mut Shared<S>, ms: u64) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        for _ in 0..2 {
            self.rings.iter_mut().for_each(Ring::age);
        }
        self.replay_due(shared);
        self.settle_window(shared, true);
        self.settle_looks(shared, true);
        self.settle_disorder(shared);
        let is_forked = shared.ledger.processes[self.number as usize].forked;
        let none = match shared.unscanned {
            Failure::NoExit if is_forked && !shared.scanning_forked => Failure::Forked,
            why => why,
        };
        let scan = self.scan.take().unwrap_or(Err(none));
        if let Some((scan, blocks)) = scans::close(self.number, scan, &self.live, &shared.ledger) {
            shared.scans.push(scan);
            shared.sink.lost_blocks(self.number, blocks);
        }
        // A block whose realloc was under way is as live as the rest, at one address or the other.
        let rings = std::mem::take(&mut self.rings);
        let in_transit = rings.iter().filter_map(|ring| ring.transit?.block);
        let known = &shared.ledger.processes[self.number as usize];
        let peak = self.memory.peak(known.start_ms, known.attached);
        let (footprints, points) = std::mem::take(&mut self.memory).end(&shared.ledger);
        for packed in footprints {
            shared.footprints.push(packed.footprint.clone());
            shared.sink.footprint(packed);
        }
        if !points.is_empty() {
            shared.rss.push(RssSeries { process: ProcessId(self.number), points, peak });
        }
        shared.sink.event(Moment { process: self.number, thread: 0, ms }, Event::EndProcess);
        shared.ledger.end_process(self.number, ms, self.live.drain().chain(in_transit));
        (self.sites, self.ring_index, self.threads, self.addresses) = Default::default();
    }

    fn replay_due<S: EventSink>(&mut self, shared: &mut Shared<S>) {
        let mut busy = (0..self.rings.len()).filter(|&i| !self.rings[i].waiting().is_empty());
        match (busy.next(), busy.next()) {
            (None, _) => {}
            (Some(only), None) => {
                let end = self.rings[only].aged();
                self.replay(shared, only, end);
            }
            _ if self.rings.iter().all(|ring| ring.due() == 0) => {}
            _ => {
                let mut planner = std::mem::take(&mut shared.planner);
                planner.plan(&self.rings, |address| self.live.contains(address));
                for &order::RingWords { ring, words } in planner.steps() {
                    self.replay(shared, ring as usize, words as usize);
                }
                shared.forced += planner.forced();
                shared.planner = planner;
            }
        }
    }

    /// Replays so many waiting words of a ring, a few records at a time; each first asks for the memory that it needs.
    /// Live blocks and sites take more memory than a processor has near, and waiting for it was most of the time that a
    /// replay took.
    fn replay<S: EventSink>(&mut self, shared: &mut Shared<S>, index: usize, words: usize) {
        let mut left = words;
        while left > 0 && (self.window.is_some() || !self.looks.is_empty()) {
            let ring = &self.rings[index];
            let (part, stops) = self.window.as_mut().map_or((left, false), |window| window.part(ring, left));
            let look = self.looks.words_to_next(ring).filter(|&words| words <= part);
            let part = look.unwrap_or(part);
            self.replay_part(shared, index, part);
            left -= part;
            if stops || look.is_some() {
                self.settle_window(shared, false);
                self.settle_looks(shared, false);
            }
        }
        if left > 0 {
            self.replay_part(shared, index, left);
        }
    }

    fn replay_part<S: EventSink>(&mut self, shared: &mut Shared<S>, index: usize, words: usize) {
        let (all, start) = self.rings[index].take();
        let mut rest = &all[start..start + words];
        let mut few = [Record::ReallocFailed; TOGETHER];
        loop {
            let mut count = 0;
            while count < TOGETHER
                && let Some((record, length)) = record::decode(rest)
            {
                if let Record::Free { address } | Record::Alloc { address, .. } = record {
                    self.live.prefetch(address);
                }
                few[count] = record;
                count += 1;
                rest = &rest[length..];
            }
            for record in &few[..count] {
                let site = match *record {
                    Record::Free { address } => self.live.site_at_home(address),
                    Record::Alloc { what: What::Packed { stack, .. }, .. } => {
                        self.rings[index].stacks.get(stack as usize).map(|defined| defined.site)
                    }
                    _ => None,
                };
                if let Some(site) = site {
                    shared.ledger.prefetch(site);
                }
            }
            if count == 0 {
                break;
            }
            for record in &few[..count] {
                self.apply(shared, index, *record);
            }
            shared.courtesy.after(count);
        }
        self.rings[index].put_back(all);
        self.rings[index].consume(words);
    }

    #[inline]
    fn apply<S: EventSink>(&mut self, shared: &mut Shared<S>, index: usize, record: Record<'_>) {
        match record {
            Record::Alloc { address, what, family, realloc: false } => {
                let Some(call) = self.call(shared, index, family, what) else { return };
                let at = self.moment(shared, index);
                let block = shared.ledger.allocate(at, call);
                self.recent.rise(shared.ledger.live_bytes_of(self.number));
                shared.sink.event(at, Event::Allocate(call));
                self.note(address, Some(&block));
                self.own(shared, at, address, block);
            }
            Record::Free { address } => {
                let at = self.moment(shared, index);
                let block = self.take(address);
                self.note(address, block.as_ref());
                shared.ledger.free(at, block.as_ref());
                shared.sink.event(at, Event::Free(block));
            }
            Record::Stack { keep, pcs, cut } => self.define(shared, index, keep, pcs, cut),
            Record::Time { ms } => self.rings[index].ms = ms,
            Record::Order { number, .. } => self.rings[index].order = number,
            other => self.apply_rare(shared, index, other),
        }
    }

    fn apply_rare<S: EventSink>(&mut self, shared: &mut Shared<S>, index: usize, record: Record<'_>) {
        match record {
            Record::ReallocBegin { address } => {
                self.conclude(shared, index);
                let block = self.take(address);
                self.note(address, block.as_ref());
                self.rings[index].transit = Some(Transit { address, block });
            }
            Record::Alloc { address, what, family, realloc: _ } => {
                let Some(call) = self.call(shared, index, family, what) else { return };
                let Some(Transit { address: from, block: old }) = self.rings[index].transit.take() else {
                    shared.damaged += 1;
                    return;
                };
                let at = self.moment(shared, index);
                let moved = from != address;
                let block = shared.ledger.reallocate(at, old.as_ref(), call, moved);
                self.recent.rise(shared.ledger.live_bytes_of(self.number));
                shared.sink.event(at, Event::Reallocate { call, old, moved });
                self.note(address, Some(&block));
                self.own(shared, at, address, block);
            }
            Record::ReallocFreed => {
                let at = self.moment(shared, index);
                let Some(Transit { block, .. }) = self.rings[index].transit.take() else {
                    shared.damaged += 1;
                    return;
                };
                shared.ledger.realloc_free(at, block.as_ref());
                shared.sink.event(at, Event::ReallocFree(block));
            }
            Record::ReallocFailed => self.conclude(shared, index),
            Record::Thread { tid, again } => {
                let is_of = |thread: u32| shared.ledger.threads[thread as usize].tid == tid;
                if !self.rings[index].thread.is_some_and(is_of) {
                    // Its last ring may have a new owner.
                    let known = self.threads.get(&tid).copied().filter(|_| again);
                    let thread = known.unwrap_or_else(|| shared.ledger.add_thread(self.number, tid));
                    self.threads.insert(tid, thread);
                    self.rings[index].thread = Some(thread);
                }
            }
            Record::Generation { generation } => {
                let ring = &mut self.rings[index];
                ring.generation = generation;
                ring.stacks.clear();
                ring.last = Stacks::ROOT;
                ring.packed = None;
            }
            Record::Lost { events } => {
                let lost = &mut shared.ledger.processes[self.number as usize].lost;
                *lost = lost.saturating_add(events);
            }
            Record::Region { number, end, this_thread } => {
                let at = self.moment(shared, index);
                shared.ledger.advance(at.ms);
                shared.sink.event(at, Event::Region { number, end, this_thread });
            }
            Record::Stack { .. } | Record::Time { .. } | Record::Order { .. } | Record::Free { .. } => {}
        }
    }

    /// Notes a block that came or went, for a reading that is being placed.
    #[inline]
    fn note(&mut self, address: u64, block: Option<&Block>) {
        if let (Some(window), Some(block)) = (&mut self.window, block) {
            window.note(address, block);
        }
    }

    /// Takes the block that a free or a realloc at this address ends; None: none is known.
    #[inline]
    fn take(&mut self, address: u64) -> Option<Block> {
        if !self.displaced.is_empty()
            && let Entry::Occupied(mut entry) = self.displaced.entry(address)
        {
            let block = entry.get_mut().pop_front();
            if entry.get().is_empty() {
                entry.remove();
            }
            return block;
        }
        let block = self.live.remove(address);
        if block.is_none() && self.rings.len() > 1 {
            *self.early_frees.entry(address).or_default() += 1;
        }
        block
    }

    /// Frees blocks that must be gone at the end. What is displaced went unseen. A process that began with exec can
    /// only free what it allocated: a block that is live now, and whose address was freed when nothing was there, is
    /// gone, as that free came before it. So is a block that the allocator had for free at the exit.
    fn settle_disorder<S: EventSink>(&mut self, shared: &mut Shared<S>) {
        let (displaced, mut frees) = (std::mem::take(&mut self.displaced), std::mem::take(&mut self.early_frees));
        let mut gone: Vec<_> = Vec::new();
        for (address, blocks) in displaced {
            // An early free is one block's: first those that must be gone.
            if let Some(early) = frees.get_mut(&address) {
                *early = early.saturating_sub(blocks.len() as u32);
            }
            gone.extend(blocks);
        }
        if !self.older_blocks {
            let early = frees.into_iter().filter(|(_, early)| *early > 0);
            gone.extend(early.filter_map(|(address, _)| self.live.remove(address)));
        }
        if let Some(Ok(found)) = &mut self.scan {
            for (address, sequence) in std::mem::take(&mut found.freed) {
                if self.live.get(address).is_some_and(|block| block.sequence == sequence) {
                    gone.extend(self.live.remove(address));
                }
            }
        }
        gone.sort_unstable_by_key(|block| block.sequence);
        for block in gone {
            let at = self.moment(shared, 0);
            shared.ledger.unseen_free(at, &block);
            shared.sink.event(at, Event::UnseenFree(block));
        }
    }

    /// Puts a block in transit back: its realloc failed, or nothing shows how it went on.
    fn conclude<S: EventSink>(&mut self, shared: &mut Shared<S>, index: usize) {
        if let Some(Transit { address, block: Some(block) }) = self.rings[index].transit.take() {
            let at = self.moment(shared, index);
            self.own(shared, at, address, block);
        }
    }

    /// Gives the address this block from here on. The one that was there must have been freed: unseen, where one ring
    /// holds all, or by a record that is still to come.
    #[inline]
    fn own<S: EventSink>(&mut self, shared: &mut Shared<S>, at: Moment, address: u64, block: Block) {
        if let Some(old) = self.live.insert(address, block) {
            if self.rings.len() > 1 {
                self.displaced.entry(address).or_default().push_back(old);
                return;
            }
            shared.ledger.unseen_free(at, &old);
            shared.sink.event(at, Event::UnseenFree(old));
        }
    }

    #[inline]
    fn moment<S>(&mut self, shared: &mut Shared<S>, index: usize) -> Moment {
        let ring = &mut self.rings[index];
        let thread = match ring.thread {
            Some(thread) => thread,
            None => *ring.thread.insert(shared.ledger.add_thread(self.number, 0)),
        };
        let ms = ring.ms;
        self.recent.event(ms, || shared.ledger.live_bytes_of(self.number));
        Moment { process: self.number, thread, ms }
    }

    /// The call that an allocation's record stands for. None: it means an earlier record that there is not, or has no
    /// sound size.
    #[inline]
    fn call<S>(&mut self, shared: &mut Shared<S>, index: usize, family: u8, what: What) -> Option<Call> {
        let ring = &mut self.rings[index];
        let (size, stack) = match what {
            What::Packed { size, stack } => *ring.packed.insert((size, stack)),
            // No block is that large: something in the process wrote over its ring.
            What::Wide { size, .. } if size >> 47 != 0 => {
                shared.damaged += 1;
                return None;
            }
            What::Wide { size, stack } => (size, stack),
            What::Same => match ring.packed {
                Some(packed) => packed,
                None => {
                    shared.damaged += 1;
                    return None;
                }
            },
        };
        Some(Call { family, site: self.site(shared, index, stack), size })
    }

    /// Index of the site of a stack number; that of the empty stack where the number was never defined.
    #[inline]
    fn site<S>(&mut self, shared: &mut Shared<S>, index: usize, number: u32) -> u32 {
        let ring = &mut self.rings[index];
        let Some(defined) = ring.stacks.get_mut(number as usize) else {
            shared.damaged += 1;
            return site_of(&mut self.sites, &mut shared.ledger, self.number, Stacks::ROOT);
        };
        ring.last = defined.stack;
        if defined.site == NO_SITE {
            defined.site = site_of(&mut self.sites, &mut shared.ledger, self.number, defined.stack);
        }
        defined.site
    }

    fn define<S>(&mut self, shared: &mut Shared<S>, index: usize, keep: u32, pcs: &[u64], cut: bool) {
        let Shared { ledger, interner, .. } = shared;
        let ring = &mut self.rings[index];
        let mut stack = ring.last;
        let depth = ledger.catalog.stacks.depth(stack);
        // The costs follow what changed: from the last stack up to what is kept of it, then down the new frames.
        for _ in keep..depth {
            stack = ledger.catalog.stacks.top(stack).map_or(Stacks::ROOT, |(_, parent)| parent);
        }
        if keep > depth || ring.stacks.len() >= STACKS {
            // The number has to be taken all the same, or all later ones would be wrong.
            shared.damaged += 1;
            stack = Stacks::CUT_ROOT;
        } else if ledger.catalog.stacks.is_cut(stack) != cut {
            let kept: Vec<_> = ledger.catalog.stacks.frames(stack).collect();
            stack = if cut { Stacks::CUT_ROOT } else { Stacks::ROOT };
            stack = kept.into_iter().rev().fold(stack, |stack, frame| ledger.catalog.stacks.push(stack, frame));
        }
        for &pc in pcs {
            let frame = self.addresses.frame(interner, &mut ledger.catalog, self.number, ring.generation, pc);
            stack = ledger.catalog.stacks.push(stack, frame);
        }
        ring.last = stack;
        if ring.stacks.len() < STACKS {
            ring.stacks.push(StackDefinition { stack, site: NO_SITE });
        }
    }
}

fn placed((address, block): (u64, Block)) -> PlacedBlock {
    PlacedBlock { address, size: block.size, site: block.site }
}

fn site_of(sites: &mut FxHashMap<StackId, u32>, ledger: &mut Ledger, process: u32, stack: StackId) -> u32 {
    *sites.entry(stack).or_insert_with(|| ledger.add_site(process, stack))
}
