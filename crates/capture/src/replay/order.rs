//! The order between the rings of a process.
//!
//! Each ring is in its thread's order; between rings there are time stamps of a millisecond, and one law: at an address
//! allocations and frees alternate. Only addresses that two rings touch while their words wait can be out of order, so
//! only records of such *contested* addresses are looked at, besides time stamps, which keep the rings in step.
//!
//! A plan is made by running those records alone: always the ring that is furthest back in time and can go on; within
//! a millisecond a ring's records are taken to be evenly spread. Where all rings wait for each other, some earlier
//! choice was wrong: two rings could have freed (or been given) the block, and the other one did. The plan is made
//! again with the rule that the one waits for the other, for some of the possible culprits; the best plan counts. What
//! still fits nowhere is taken as it comes: those blocks were allocated or freed where nobody saw it.
//!
//! Cost: about 10 ns for each word that waits, and once more for each new attempt among the contested records.

use super::record::{Record, decode};
use super::ring::Ring;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// So many words of a ring come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index of the ring.
    pub ring: u32,
    /// How many words.
    pub words: u32,
}

/// Sorts out most uncontested addresses: which ring touched those of a hash value.
const FILTER_BITS: u32 = 16;
const CONTESTED: u16 = u16::MAX;
/// Rings of one process must stay below.
pub const RINGS: usize = CONTESTED as usize - 1;
/// Plans made for one round at most, and records looked at for them beyond the first plan, in rounds' worth.
const ATTEMPTS: usize = 200;
const EFFORT: usize = 30;
/// Culprits of one wait that are tried.
const CULPRITS: usize = 4;
/// A millisecond in units of [`Op::time`].
const FRACTION_BITS: u32 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Can always go on: a time stamp, or the end of the aged words.
    Mark,
    /// The block must be live, and is not afterwards.
    Take,
    /// The address must be free, and is not afterwards.
    Give,
}

#[derive(Clone, Copy, Debug)]
struct Op {
    time: u64,
    /// Waiting words up to the end of its record.
    end: u32,
    address: u32,
    kind: Kind,
}

/// What is planned of one ring.
#[derive(Debug, Default)]
struct Lane {
    ring: u32,
    ops: Vec<Op>,
    /// Ops that must be done in this round.
    aged: u32,
}

/// Op `op` of `lane` must wait until op `first_op` of lane `first` is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    lane: u32,
    op: u32,
    first: u32,
    first_op: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Address(u32),
    Lane(u32),
}

/// An op of a contested address that the attempt has done.
#[derive(Clone, Copy, Debug)]
struct Done {
    lane: u32,
    op: u32,
    kind: Kind,
    /// The one before at this address, an index of the log plus 1.
    previous: u32,
}

#[derive(Debug, Default)]
struct Attempt {
    /// (lane, op). Up to `aged` they are the plan; after that they show what the plan leads to.
    steps: Vec<(u32, u32)>,
    aged: usize,
    forced: u64,
    /// Fresh ops that the plan leaves no way to do yet.
    stuck: usize,
    /// How far it got before it had to force something, or was stuck.
    clean: usize,
    /// What might have kept it from getting further.
    suspects: Vec<Rule>,
}

impl Attempt {
    fn badness(&self) -> impl Ord {
        (self.forced, self.stuck, Reverse(self.clean))
    }
}

/// Makes plans; kept for its memory.
#[derive(Debug, Default)]
pub struct Planner {
    filter: Vec<u16>,
    lanes: Vec<Lane>,
    addresses: FxHashMap<u64, u32>,
    /// By address: live when the round begins.
    live: Vec<bool>,
    rules: Vec<Rule>,
    steps: Vec<Step>,
    forced: u64,
}

impl Planner {
    /// Plans all aged words of the rings, and what must come before them. `live` tells where a block is live now.
    pub fn plan(&mut self, rings: &[Ring], live: impl Fn(u64) -> bool) {
        self.scan(rings, live);
        let mut best = self.attempt();
        let total: usize = self.lanes.iter().map(|lane| lane.ops.len()).sum();
        let mut effort = total * EFFORT + 10_000;
        let mut tried: Vec<Rule> = Vec::new();
        for _ in 0..ATTEMPTS {
            let Some(&rule) = best.suspects.iter().find(|rule| !tried.contains(rule)) else { break };
            if effort < total {
                break;
            }
            effort -= total;
            tried.push(rule);
            self.rules.push(rule);
            let next = self.attempt();
            if next.badness() < best.badness() {
                best = next;
            } else {
                self.rules.pop();
            }
        }
        self.rules.clear();
        self.forced = best.forced;
        self.lay_out(&best.steps[..best.aged]);
    }

    /// The plan, all steps in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// How many records of the plan do not fit.
    pub fn forced(&self) -> u64 {
        self.forced
    }

    fn scan(&mut self, rings: &[Ring], live: impl Fn(u64) -> bool) {
        self.filter.clear();
        self.filter.resize(1 << FILTER_BITS, 0);
        self.lanes.clear();
        self.addresses.clear();
        self.live.clear();
        let busy = || rings.iter().enumerate().filter(|(_, ring)| !ring.waiting().is_empty());
        for (index, ring) in busy() {
            let mine = index as u16 + 1;
            touches(ring, |_, _, address| {
                let slot = &mut self.filter[slot(address)];
                *slot = if *slot == 0 || *slot == mine { mine } else { CONTESTED };
            });
        }
        for (index, ring) in busy() {
            let lane = self.lane(index as u32, ring, &live);
            self.lanes.push(lane);
        }
    }

    fn lane(&mut self, index: u32, ring: &Ring, live: &impl Fn(u64) -> bool) -> Lane {
        let aged = ring.aged() as u32;
        let mut ops: Vec<Op> = Vec::new();
        let mut aged_ops = None;
        // The millisecond that is being filled: its first op and word.
        let (mut ms, mut first, mut begin) = (ring.ms, 0, 0);
        let spread = |ops: &mut [Op], ms: u64, begin: u32, end: u32| {
            for op in ops {
                let part = u64::from(op.end - begin) << FRACTION_BITS;
                op.time = (ms << FRACTION_BITS) + part / u64::from(end - begin + 1);
            }
        };
        let mark = |end| Op { time: 0, end, address: 0, kind: Kind::Mark };
        touches_and_times(ring, |begun, end, touch| {
            if begun >= aged && aged_ops.is_none() {
                ops.push(mark(aged));
                aged_ops = Some(ops.len() as u32);
            }
            match touch {
                Touch::Time(next) => {
                    spread(&mut ops[first..], ms, begin, end);
                    (ms, first, begin) = (next, ops.len(), end);
                    ops.push(mark(end));
                }
                Touch::Address(kind, address) => {
                    if self.filter[slot(address)] == CONTESTED {
                        let known = self.live.len() as u32;
                        let id = *self.addresses.entry(address).or_insert(known);
                        if id == known {
                            self.live.push(live(address));
                        }
                        ops.push(Op { time: 0, end, address: id, kind });
                    }
                }
            }
        });
        let aged_ops = aged_ops.unwrap_or_else(|| {
            ops.push(mark(aged));
            ops.len() as u32
        });
        spread(&mut ops[first..], ms, begin, ring.waiting().len() as u32);
        Lane { ring: index, ops, aged: if aged == 0 { 0 } else { aged_ops } }
    }

    fn attempt(&self) -> Attempt {
        Run::new(self).finish()
    }

    fn lay_out(&mut self, done: &[(u32, u32)]) {
        self.steps.clear();
        let mut ends = vec![0; self.lanes.len()];
        for &(lane, op) in done {
            let Lane { ring, ops, .. } = &self.lanes[lane as usize];
            let end = ops[op as usize].end;
            let words = end - std::mem::replace(&mut ends[lane as usize], end);
            match self.steps.last_mut() {
                Some(last) if last.ring == *ring => last.words += words,
                _ => self.steps.push(Step { ring: *ring, words }),
            }
        }
    }
}

/// One attempt under way.
struct Run<'a> {
    lanes: &'a [Lane],
    rules: &'a [Rule],
    live: Vec<bool>,
    /// Next op by lane.
    next: Vec<u32>,
    /// Lanes that may be able to go on: aged ones first, then by time.
    ready: BinaryHeap<Reverse<(bool, u64, u32)>>,
    waiting: Vec<(u32, Wait)>,
    log: Vec<Done>,
    /// By address: its last entry in the log plus 1.
    last: Vec<u32>,
    /// Lanes with aged ops to do.
    open: usize,
    result: Attempt,
}

impl<'a> Run<'a> {
    fn new(planner: &'a Planner) -> Self {
        let lanes = &planner.lanes[..];
        let mut run = Self {
            lanes,
            rules: &planner.rules,
            live: planner.live.clone(),
            next: vec![0; lanes.len()],
            ready: BinaryHeap::with_capacity(lanes.len()),
            waiting: Vec::new(),
            log: Vec::new(),
            last: vec![0; planner.live.len()],
            open: lanes.iter().filter(|lane| lane.aged > 0).count(),
            result: Attempt::default(),
        };
        (0..lanes.len() as u32).for_each(|lane| run.make_ready(lane));
        run
    }

    fn finish(mut self) -> Attempt {
        loop {
            match self.ready.pop() {
                Some(Reverse((_, _, lane))) => match self.obstacle(lane) {
                    None => self.advance(lane),
                    Some(wait) => self.waiting.push((lane, wait)),
                },
                None if self.waiting.is_empty() => return self.result,
                None => {
                    if self.result.suspects.is_empty() {
                        self.result.clean = self.log.len();
                        self.suspect();
                    }
                    if !self.force() {
                        return self.result;
                    }
                }
            }
        }
    }

    fn make_ready(&mut self, lane: u32) {
        let Lane { ops, aged, .. } = &self.lanes[lane as usize];
        let next = self.next[lane as usize];
        if let Some(op) = ops.get(next as usize) {
            self.ready.push(Reverse((next >= *aged, op.time, lane)));
        }
    }

    fn head(&self, lane: u32) -> Op {
        self.lanes[lane as usize].ops[self.next[lane as usize] as usize]
    }

    fn obstacle(&self, lane: u32) -> Option<Wait> {
        let next = self.next[lane as usize];
        let unmet = |r: &&Rule| r.lane == lane && r.op == next && self.next[r.first as usize] <= r.first_op;
        if let Some(rule) = self.rules.iter().find(unmet) {
            return Some(Wait::Lane(rule.first));
        }
        let op = self.head(lane);
        let fits = match op.kind {
            Kind::Mark => true,
            Kind::Take => self.live[op.address as usize],
            Kind::Give => !self.live[op.address as usize],
        };
        (!fits).then_some(Wait::Address(op.address))
    }

    fn advance(&mut self, lane: u32) {
        let op = self.head(lane);
        let next = &mut self.next[lane as usize];
        self.result.steps.push((lane, *next));
        *next += 1;
        if *next == self.lanes[lane as usize].aged {
            self.open -= 1;
            if self.open == 0 {
                self.result.aged = self.result.steps.len();
            }
        }
        if op.kind != Kind::Mark {
            let last = &mut self.last[op.address as usize];
            self.log.push(Done { lane, op: *next - 1, kind: op.kind, previous: *last });
            *last = self.log.len() as u32;
            self.live[op.address as usize] = op.kind == Kind::Give;
            self.wake(Wait::Address(op.address));
        }
        self.wake(Wait::Lane(lane));
        self.make_ready(lane);
    }

    fn wake(&mut self, wait: Wait) {
        let mut i = 0;
        while i < self.waiting.len() {
            if self.waiting[i].1 == wait {
                let (lane, _) = self.waiting.swap_remove(i);
                self.make_ready(lane);
            } else {
                i += 1;
            }
        }
    }

    /// All lanes wait. One with aged ops goes on all the same: one that waits for a rule, or else the one furthest back.
    #[cold]
    fn force(&mut self) -> bool {
        let key = |&(lane, wait): &(u32, Wait)| (matches!(wait, Wait::Address(_)), self.head(lane).time, lane);
        let late = (0..self.waiting.len()).filter(|&i| !self.is_fresh(self.waiting[i].0));
        let Some(at) = late.min_by_key(|&i| key(&self.waiting[i])) else {
            let undone =
                |&(lane, _): &(u32, Wait)| self.lanes[lane as usize].ops.len() - self.next[lane as usize] as usize;
            self.result.stuck = self.waiting.iter().map(undone).sum();
            return false;
        };
        let (lane, _) = self.waiting.swap_remove(at);
        self.result.forced += 1;
        self.advance(lane);
        true
    }

    fn is_fresh(&self, lane: u32) -> bool {
        self.next[lane as usize] >= self.lanes[lane as usize].aged
    }

    /// For each lane that waits: who did last what would have let it pass?
    fn suspect(&mut self) {
        for &(lane, wait) in &self.waiting {
            let next = self.next[lane as usize];
            let Wait::Address(address) = wait else { continue };
            let kind = self.head(lane).kind;
            let mut at = self.last[address as usize];
            let mut found = 0;
            while let Some(done) = (at as usize).checked_sub(1).map(|i| self.log[i])
                && found < CULPRITS
            {
                if done.kind == kind && done.lane != lane {
                    self.result.suspects.push(Rule { lane: done.lane, op: done.op, first: lane, first_op: next });
                    found += 1;
                }
                at = done.previous;
            }
        }
    }
}

enum Touch {
    Time(u64),
    Address(Kind, u64),
}

fn slot(address: u64) -> usize {
    ((address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FILTER_BITS)) as usize
}

/// Calls `f` with (end, kind, address) for each waiting record of an address.
#[inline]
fn touches(ring: &Ring, mut f: impl FnMut(u32, Kind, u64)) {
    touches_and_times(ring, |_, end, touch| {
        if let Touch::Address(kind, address) = touch {
            f(end, kind, address);
        }
    });
}

/// Calls `f` with (begin, end, what) for each waiting record of an address or a time.
#[inline]
fn touches_and_times(ring: &Ring, mut f: impl FnMut(u32, u32, Touch)) {
    let words = ring.waiting();
    let mut transit = ring.transit.map(|t| t.address);
    let mut at = 0;
    while let Some((record, length)) = decode(&words[at..]) {
        let begin = at as u32;
        at += length;
        let touch = match record {
            Record::Alloc { address, realloc, .. } => {
                if realloc {
                    transit = None;
                }
                Touch::Address(Kind::Give, address)
            }
            Record::Free { address } => Touch::Address(Kind::Take, address),
            Record::ReallocBegin { address } => {
                transit = Some(address);
                Touch::Address(Kind::Take, address)
            }
            Record::ReallocFailed => match transit.take() {
                Some(address) => Touch::Address(Kind::Give, address),
                None => continue,
            },
            Record::ReallocFreed => {
                transit = None;
                continue;
            }
            Record::Time { ms } => Touch::Time(ms),
            _ => continue,
        };
        f(begin, at as u32, touch);
    }
}
