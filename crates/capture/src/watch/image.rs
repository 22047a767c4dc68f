//! One process image of a watched program: what changed in its file since the last look.

use super::backlog::Backlog;
use super::slots::{Counters, Ended, Held, Layout, Slot, Stirred};
use crate::accounts::Catalog;
use crate::accounts::addresses::{AddressMap, Interner};
use crate::drain::requests::{self, Request};
use crate::rundir::process_file::ProcessFile;
use crate::tables::supply::Bases;
use crate::wire;
use mallow_profile::{Lost, ProcessId, Release, Sample, SampleEvent, SampleKey, StackId, Stacks};
use rustc_hash::FxHashMap;
use std::ffi::OsString;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Looks after which a sample without a reported end counts as gone.
const PATIENCE: u32 = 3;
/// Glances at an image that seems to do nothing, before it is looked at all the same.
const GLANCES: u32 = 64;
/// Frames in different stacks that are kept, over all processes. Real programs have some ten thousands.
const NODES: usize = 16 << 20;

pub struct Common {
    pub catalog: Catalog,
    pub interner: Interner,
    pub bases: Bases,
    /// Asks for tables that targets wait for.
    pub tables: Sender<Request>,
    pcs: Vec<u64>,
}

impl Common {
    pub fn new(tables: Sender<Request>) -> Self {
        Self {
            catalog: Catalog::default(),
            interner: Interner::default(),
            bases: Bases::default(),
            tables,
            pcs: Vec::new(),
        }
    }
}

/// What was reported of a slot.
#[derive(Clone, Copy, Default)]
struct SlotState {
    /// Sequence word of the live sample that was seen in the slot last; 0: none.
    sequence: u64,
    /// The sample was reported as an event; else it is an inherited one, and its parent's.
    reported: bool,
}

/// Looks since a sample left its slot without a known end, and when the last look before that was.
struct PendingEnd {
    looks: u32,
    after_ns: u64,
}

pub struct Image {
    pub source: Arc<ProcessFile>,
    pub id: ProcessId,
    pub name: OsString,
    layout: Layout,
    addresses: AddressMap,
    modules: u32,
    stacks: FxHashMap<u32, StackId>,
    slots: Vec<SlotState>,
    leaving: FxHashMap<(u32, u64), PendingEnd>,
    /// Number of the last end that was read.
    ends: u64,
    counters: Counters,
    /// Counts at the latest two looks.
    stirred: [Option<Stirred>; 2],
    glances: u32,
    looked_ns: u64,
    backlog: Backlog,
    begun: bool,
    /// Inherited samples are this image's: whoever allocated them is gone.
    pub heir: bool,
    /// The process goes on as another image.
    pub replaced: bool,
}

impl Image {
    pub fn new(source: ProcessFile, layout: Layout, id: ProcessId, name: OsString) -> Self {
        Self {
            source: Arc::new(source),
            id,
            name,
            layout,
            addresses: AddressMap::default(),
            modules: 0,
            stacks: FxHashMap::default(),
            slots: Vec::new(),
            leaving: FxHashMap::default(),
            ends: 0,
            counters: Counters::default(),
            stirred: [None; 2],
            glances: 0,
            looked_ns: 0,
            backlog: Backlog::default(),
            begun: false,
            heir: false,
            replaced: false,
        }
    }

    /// Takes inherited samples as this image's own from here on.
    pub fn become_heir(&mut self) {
        self.heir = true;
        self.stirred = [None; 2];
    }

    /// Whether a look may find something, by a few words of the file. A sample is counted before it is written, and may
    /// have been under way at the last look; so what was counted must have been the same at two looks. Now and then the
    /// answer is yes all the same: a thread may have been stopped between the two.
    pub fn has_news(&mut self) -> bool {
        self.glances += 1;
        let now = Some(self.layout.stirred(self.source.shared()));
        let quiet =
            self.stirred == [now; 2] && self.glances < GLANCES && self.leaving.is_empty() && self.backlog.is_empty();
        !quiet
    }

    /// Reports what happened before `at_ns` since the last look. `last`: nobody writes any more, and all of it is
    /// reported.
    pub fn look(&mut self, common: &mut Common, at_ns: u64, last: bool, each: &mut dyn FnMut(SampleEvent)) {
        let mut backlog = std::mem::take(&mut self.backlog);
        let until_ns = if last { u64::MAX } else { at_ns };
        backlog.report(until_ns, each);
        self.read(common, at_ns, last, &mut |event| backlog.pass(event, until_ns, each));
        self.backlog = backlog;
    }

    fn read(&mut self, common: &mut Common, now_ns: u64, last: bool, each: &mut dyn FnMut(SampleEvent)) {
        let source = Arc::clone(&self.source);
        let shared = source.shared();
        let mut lost = Lost::default();
        // Before anything else is read.
        self.stirred = [self.stirred[1], Some(self.layout.stirred(shared))];
        self.glances = 0;
        if !self.begun {
            self.begin(each);
        }
        let used = self.layout.used(shared);
        if self.slots.len() < used as usize {
            self.slots.resize(used as usize, SlotState::default());
        }
        for index in 0..used {
            let sequence = self.layout.sequence(shared, index);
            let before = self.slots[index as usize];
            if sequence == before.sequence && (before.reported || !self.heir) {
                continue;
            }
            if before.sequence != 0 && sequence != before.sequence {
                if before.reported {
                    self.leaving.insert((index, before.sequence), PendingEnd { looks: 0, after_ns: self.looked_ns });
                }
                self.slots[index as usize] = SlotState::default();
            }
            match self.layout.slot(shared, index) {
                Slot::Empty => {}
                Slot::Damaged => lost.damaged += 1,
                Slot::Live(held) => {
                    let reported = !held.inherited || self.heir;
                    self.slots[index as usize] = SlotState { sequence: held.sequence, reported };
                    if reported {
                        self.allocated(common, index, &held, each);
                    }
                }
            }
        }
        // After the slots: what ended meanwhile is reported right after its beginning.
        let ended = self.layout.ended(shared);
        let unread = ended.saturating_sub(self.ends);
        let readable = unread.min(self.layout.max_ends);
        lost.events = unread - readable;
        // The target may have written any number there, the largest one too.
        for before in ended - readable..ended {
            match self.layout.end(shared, before + 1) {
                Some(end) => self.ended(common, &end, each),
                None => lost.events = lost.events.saturating_add(1),
            }
        }
        self.ends = self.ends.max(ended);
        self.settle(now_ns, last || lost.events > 0, each);
        let counters = self.layout.counters(shared);
        lost.picks += counters.picks.saturating_sub(self.counters.picks);
        lost.stacks += counters.stacks.saturating_sub(self.counters.stacks);
        if counters.over != self.counters.over {
            lost.left += u64::from(counters.over == wire::OVER_LEFT);
            lost.filtered += u64::from(counters.over == wire::OVER_FILTER);
            lost.foreign += u64::from(counters.over == wire::OVER_FOREIGN);
        }
        self.counters = counters;
        if lost != Lost::default() {
            each(SampleEvent::Lost { process: Some(self.id), lost });
        }
        self.modules(common);
        self.looked_ns = now_ns;
    }

    /// Reports from when on everything is known: the image's start, or the oldest end that was not overwritten.
    fn begin(&mut self, each: &mut dyn FnMut(SampleEvent)) {
        self.begun = true;
        let shared = self.source.shared();
        let ended = self.layout.ended(shared);
        let mut at_ns = self.source.start_ns();
        if ended > self.layout.max_ends {
            self.ends = ended - self.layout.max_ends;
            // The very oldest may be overwritten while it is read.
            let oldest = (self.ends + 1..=ended).find_map(|number| self.layout.end(shared, number));
            at_ns = oldest.map_or(at_ns, |end| end.ended_ns.max(at_ns));
            // Those that are overwritten before they are read are no loss of this reader's.
            self.ends = self.layout.ended(shared).saturating_sub(self.layout.max_ends).max(self.ends);
        }
        each(SampleEvent::ProcessBegan { process: self.id, at_ns });
    }

    /// A sample's time, not before the image's start: the coarse clock, by which samples have their times, lags some
    /// milliseconds behind the one that has the image's start.
    fn not_before_start(&self, at_ns: u64) -> u64 {
        at_ns.max(self.source.start_ns())
    }

    /// Addresses of the live samples, in order and without overlaps.
    pub fn sampled(&self) -> Vec<Range<u64>> {
        let shared = self.source.shared();
        let live = (0..self.layout.used(shared)).filter_map(|index| match self.layout.slot(shared, index) {
            Slot::Live(held) => Some(held.address..held.address.saturating_add(held.size)),
            Slot::Empty | Slot::Damaged => None,
        });
        let mut all: Vec<Range<u64>> = live.collect();
        all.sort_unstable_by_key(|range| (range.start, range.end));
        let mut last = 0;
        all.retain(|range| {
            let is_apart = range.start >= last;
            last = last.max(range.end);
            is_apart
        });
        all
    }

    fn key(&self, slot: u32, sequence: u64) -> SampleKey {
        SampleKey { process: self.id, slot, generation: (sequence >> 2) as u32 }
    }

    fn allocated(&mut self, common: &mut Common, slot: u32, held: &Held, each: &mut dyn FnMut(SampleEvent)) {
        let sample = Sample {
            process: self.id,
            thread: held.tid,
            family: held.family,
            size: held.size,
            period: held.period,
            address: held.address,
            // An inherited one is the parent's.
            at_ns: if held.inherited { held.began_ns } else { self.not_before_start(held.began_ns) },
            stack: self.stack(common, held.stack),
        };
        each(SampleEvent::Allocated { key: self.key(slot, held.sequence), sample });
    }

    fn ended(&mut self, common: &mut Common, end: &Ended, each: &mut dyn FnMut(SampleEvent)) {
        let Ended { held, slot, .. } = end;
        let seen = self.slots.get_mut(*slot as usize).filter(|seen| seen.sequence == held.sequence);
        let reported = match seen {
            Some(seen) => std::mem::take(seen).reported,
            None => {
                let left = self.leaving.remove(&(*slot, held.sequence)).is_some();
                // It came and went between two looks.
                if !left && (!held.inherited || self.heir) {
                    self.allocated(common, *slot, held, each);
                }
                left || !held.inherited || self.heir
            }
        };
        if !reported {
            return;
        }
        let key = self.key(*slot, held.sequence);
        let stack = self.stack(common, end.stack);
        let release = Release { thread: end.tid, at_ns: self.not_before_start(end.ended_ns), stack };
        each(match end.reallocated {
            false => SampleEvent::Freed { key, release },
            // The new size is not reported: what came of it is an allocation of its own.
            true => SampleEvent::Reallocated { key, release, size: 0 },
        });
    }

    /// Reports samples as gone that left their slots, and whose end is nowhere.
    fn settle(&mut self, now_ns: u64, at_once: bool, each: &mut dyn FnMut(SampleEvent)) {
        let process = self.id;
        self.leaving.retain(|&(slot, sequence), leaving| {
            leaving.looks += 1;
            let wait = !at_once && leaving.looks < PATIENCE;
            if !wait {
                let key = SampleKey { process, slot, generation: (sequence >> 2) as u32 };
                each(SampleEvent::Gone { key, after_ns: leaving.after_ns, before_ns: now_ns });
            }
            wait
        });
    }

    fn stack(&mut self, common: &mut Common, number: u32) -> StackId {
        if number == 0 {
            return Stacks::ROOT;
        }
        if let Some(&id) = self.stacks.get(&number) {
            return id;
        }
        let source = Arc::clone(&self.source);
        let mut pcs = std::mem::take(&mut common.pcs);
        pcs.clear();
        let found = self.layout.stack(source.shared(), number, &mut pcs);
        let id = found.map_or(Stacks::ROOT, |found| self.interned(common, found.generation, &pcs, found.cut));
        common.pcs = pcs;
        self.stacks.insert(number, id);
        id
    }

    /// The stack with these addresses, the outermost first; the root where there are too many stacks.
    pub fn interned(&mut self, common: &mut Common, generation: u32, pcs: &[u64], cut: bool) -> StackId {
        // Its modules were announced before it.
        self.modules(common);
        if common.catalog.stacks.len() >= NODES {
            return Stacks::ROOT;
        }
        let root = if cut { Stacks::CUT_ROOT } else { Stacks::ROOT };
        pcs.iter().fold(root, |parent, &pc| {
            let Common { catalog, interner, .. } = common;
            let frame = self.addresses.frame(interner, catalog, self.id.0, generation, pc);
            catalog.stacks.push(parent, frame)
        })
    }

    /// Takes modules that were announced, and has tables made that the target waits for.
    pub fn modules(&mut self, common: &mut Common) {
        while self.modules < self.source.modules() {
            let index = self.modules;
            let mut module = self.source.module(self.id.0, index);
            module.base_svma = common.bases.of(&module, || self.source.pid_here());
            self.addresses.add(&mut common.interner, &mut common.catalog, &module);
            requests::ask_if_wanted(&common.tables, None, &self.source, index, module);
            self.modules += 1;
        }
    }
}
