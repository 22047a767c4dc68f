//! The order between the rings of a process.
//!
//! Each ring is in its thread's order; between rings there are stamps, numbers of the process, wherever a thread's part
//! of what is live left a window, and one law: at an address allocations and frees alternate. Only addresses that two
//! rings touch while their words wait can be out of order, so only records of such *contested* addresses are looked at,
//! and stamps.
//!
//! First each contested address is put in order by itself ([`super::merge`]); for that, a ring's records between two
//! stamps are taken to be evenly spread. Then the rings are run against these orders. Stamps come in their order, and a
//! ring rests before its next stamp: what a stamp begins comes at once, as far as it can. Whatever truly came before a
//! record belongs to an earlier stamp than the next one of the record's ring, so no ring waits beyond that, and what is
//! live is never further from the truth than the rings' windows are wide (docs/design/trace.md#the-peak).
//!
//! Where all wait for each other, the orders of some addresses contradict each other, and one of
//! them is made anew around a record that could come next. What still fits nowhere is taken as it comes: those blocks
//! were allocated or freed where nobody saw it.
//!
//! A plan does what is two rounds old. What is one round old may come before it, where its stamp is earlier; what came
//! in this round is only looked at, for addresses.
//!
//! Cost: about 10 ns for each word that waits, and 100 ns for each contested record. What deadlocks may cost in all is
//! bounded ([`BUDGET`]); beyond that, the lane that is furthest back gets its turn as it is.

use super::effects::{Effect, for_each_effect};
use super::merge::{Merger, Touch, misfits};
use super::ring::Ring;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A step of a plan: so many words of a ring come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingWords {
    /// Index of the ring among those of its process.
    pub ring: u32,
    pub words: u32,
}

/// Bits of a hash of addresses: the filter has the ring that touched those of each value, which sorts out most
/// uncontested addresses.
const FILTER_BITS: u32 = 16;
const CONTESTED: u16 = u16::MAX;
/// A process must have fewer rings than this.
pub const RINGS: usize = CONTESTED as usize - 1;
/// Bits of [`Op::time`] below a moment of the process.
const FRACTION_BITS: u32 = 10;
/// Lanes are shifted by less than 16 moments in another attempt.
const SHIFT_BITS: u32 = FRACTION_BITS + 4;
/// Most moments that one span may take, so that sums cannot overflow.
const SPAN_MOST: u64 = 1 << 30;
/// Records that may be ordered anew in one round, in addition to [`BUDGET_SHARE`] for each op.
const BUDGET: u64 = 200_000;
const BUDGET_SHARE: u64 = 20;
/// Most words between a thread's last look for other threads' numbers and its last record: MALLOW_ORDER_WORDS,
/// ORDER_PATIENCE, and an event that is as long as it may be where it is not a new stack's.
const LOOK_MOST: u32 = 96 + 16 + 16;
/// Most plans that are made for one round.
const ATTEMPTS: u64 = 12;
/// [`Op::address`] of an op that can always go on: a stamp, or the first words of another age.
const MARK: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Op {
    /// The ring's last stamp: the op can come from there on.
    key: u64,
    /// The op came before this stamp of the process; 0: not known yet.
    before: u64,
    /// Time of the op as far as the ring shows.
    stamp: u64,
    /// Time of the op as this attempt takes it.
    time: u64,
    /// Waiting words before the op's record; the op ends where the next one begins.
    begin: u32,
    /// Index of a contested address, or [`MARK`].
    address: u32,
    gives: bool,
}

#[derive(Debug, Default)]
struct Lane {
    ring: u32,
    ops: Vec<Op>,
    words: u32,
    /// How many ops must be done in this round.
    due: u32,
    /// How many ops may be done in this round.
    open: u32,
    /// How many ops have all that they depend on.
    aged: u32,
    next: u32,
    /// For each op that the last attempt did, how many ops it had done before.
    done: Vec<u64>,
}

impl Lane {
    fn head(&self) -> Option<&Op> {
        self.ops.get(self.next as usize)
    }

    fn is_due(&self) -> bool {
        self.next < self.due
    }
}

#[derive(Clone, Copy, Debug)]
struct Address {
    /// An address has a block when the round begins.
    live_before: bool,
    live: bool,
    /// Index in `order` of the next record of the address, and in `end` past its last one.
    next: usize,
    end: usize,
}

/// Makes plans, one after the other in the same memory.
#[derive(Debug, Default)]
pub struct Planner {
    filter: Vec<u16>,
    lanes: Vec<Lane>,
    ids: FxHashMap<u64, u32>,
    addresses: Vec<Address>,
    /// Records by address, each address's in the order in which they should come.
    order: Vec<Touch>,
    merger: Merger,
    scratch: Vec<Touch>,
    /// Lanes that may be able to go on, by their next op's `key`.
    ready: BinaryHeap<Reverse<(u64, u32)>>,
    /// Lanes that wait for their turn at an address.
    waiting: Vec<(u32, u32)>,
    steps: Vec<RingWords>,
    forced: u64,
    /// How many ops the attempt has done.
    clock: u64,
    /// What is left of the round's [`BUDGET`].
    budget: u64,
    /// How many rings have words waiting.
    busy: u64,
}

impl Planner {
    /// Plans all words of the rings that are due, and what must come before them. `live` says whether an address has a
    /// live block now.
    pub fn plan(&mut self, rings: &[Ring], live: impl Fn(u64) -> bool) {
        self.scan(rings, live);
        let ops = self.lanes.iter().map(|lane| lane.ops.len() as u64).sum::<u64>();
        self.budget = BUDGET + BUDGET_SHARE * ops;
        self.order_addresses();
        self.run();
        for attempt in 1..ATTEMPTS {
            if self.forced == 0 || self.budget < ops {
                break;
            }
            self.budget -= ops;
            let (steps, forced) = (std::mem::take(&mut self.steps), self.forced);
            self.guess_times(attempt);
            self.order_addresses();
            self.run();
            if forced <= self.forced {
                (self.steps, self.forced) = (steps, forced);
            }
        }
    }

    /// Steps of the plan, in order.
    pub fn steps(&self) -> &[RingWords] {
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
        self.ids.clear();
        self.addresses.clear();
        let mut marks_region = false;
        let busy = || rings.iter().enumerate().filter(|(_, ring)| !ring.waiting().is_empty());
        for (index, ring) in busy() {
            let mine = index as u16 + 1;
            let due = ring.due() as u32;
            for_each_effect(ring, |begin, effect| match effect {
                Effect::Address(_, address) => {
                    let slot = &mut self.filter[slot(address)];
                    *slot = if *slot == 0 || *slot == mine { mine } else { CONTESTED };
                }
                Effect::Region => marks_region |= begin < due,
                Effect::Pause | Effect::Nothing | Effect::Order(..) => {}
            });
        }
        self.busy = busy().count() as u64;
        for (index, ring) in busy() {
            let lane = self.lane(index as u32, ring, &live);
            self.lanes.push(lane);
        }
        // A region's mark stands between rounds: nothing of a later one comes before it.
        if marks_region {
            self.lanes.iter_mut().for_each(|lane| lane.open = lane.due);
        }
    }

    fn lane(&mut self, index: u32, ring: &Ring, live: &impl Fn(u64) -> bool) -> Lane {
        let words = ring.waiting().len() as u32;
        let (due, mut open, aged) = (ring.due() as u32, ring.aged() as u32, ring.aged() as u32);
        let mut ops: Vec<Op> = Vec::new();
        let (mut due_ops, mut open_ops, mut aged_ops) = (None, None, None);
        // The span between two ORDER records that is being filled: its begin, first op and word.
        let (mut moment, mut first, mut from) = (ring.order, 0, 0);
        let (mut span, mut paused, mut is_stamped) = (1, false, false);
        // Up to where its number was still the latest one.
        let (mut latest, mut is_repeated) = (0, false);
        let lanes = self.busy.max(1);
        // Before `known` no other ring had a later moment: that is within one moment. The rest has the whole span.
        let spread = |ops: &mut [Op], moment: u64, (span, next): (u64, u64), from: u32, known: u32, to: u32| {
            let part = |at: u32, from: u32, to: u32, span: u64| {
                (u64::from(at - from) << FRACTION_BITS) * span / u64::from(to - from + 1)
            };
            for op in ops {
                let (after, before) = match op.begin < known {
                    _ if op.before != 0 => (0, op.before),
                    true => (part(op.begin, from, known, 1), moment + 1),
                    false if known == from => (part(op.begin, from, to, span), next),
                    false => ((1 << FRACTION_BITS) - 1 + part(op.begin, known, to, span - 1), next),
                };
                op.stamp = (moment << FRACTION_BITS) + after;
                (op.time, op.before) = (op.stamp, before);
            }
        };
        let op = |key, begin, address, gives| Op { key, before: 0, stamp: 0, time: 0, begin, address, gives };
        let limit = |ops: &mut Vec<Op>, count: &mut Option<u32>, key, at: u32, begin: u32| {
            if begin >= at && count.is_none() {
                *count = Some(if at == 0 { 0 } else { ops.len() as u32 });
                ops.push(op(key, at, MARK, false));
            }
        };
        ops.push(op(moment, 0, MARK, false));
        // Where the last record begins.
        let mut last = 0;
        for_each_effect(ring, |begin, effect| {
            last = begin;
            if matches!(effect, Effect::Region) && begin >= due {
                open = open.min(begin);
            }
            limit(&mut ops, &mut due_ops, moment, due, begin);
            limit(&mut ops, &mut open_ops, moment, open, begin);
            limit(&mut ops, &mut aged_ops, moment, aged, begin);
            match effect {
                Effect::Pause => paused = true,
                Effect::Region => {}
                Effect::Nothing => (is_stamped, is_repeated) = (false, false),
                // What comes next came before the next number of the process, too.
                Effect::Order(next, _) if next == moment && next != 0 => (latest, is_repeated) = (begin, true),
                Effect::Order(next, since) => {
                    // After a pause the ring begins a new moment: what came before the pause is not drawn out over it.
                    span = next.saturating_sub(moment).clamp(1, if paused { lanes } else { SPAN_MOST });
                    let known = begin.checked_sub(since).filter(|known| since > 0 && *known > from).unwrap_or(from);
                    let known = known.max(latest);
                    spread(&mut ops[first..], moment, (span, next), from, known, begin);
                    (is_stamped, is_repeated) = (true, false);
                    (latest, paused) = (begin, false);
                    (moment, first, from) = (next, ops.len(), begin);
                    ops.push(op(moment, begin, MARK, false));
                }
                Effect::Address(gives, address) => {
                    if self.filter[slot(address)] == CONTESTED {
                        let known = self.addresses.len() as u32;
                        let id = *self.ids.entry(address).or_insert(known);
                        if id == known {
                            self.addresses.push(Address { live_before: live(address), live: false, next: 0, end: 0 });
                        }
                        let before = if is_stamped { moment + 1 } else { 0 };
                        ops.push(Op { before, ..op(moment, begin, id, gives) });
                    }
                    if is_repeated {
                        latest = begin + 1;
                    }
                    (is_stamped, is_repeated) = (false, false);
                }
            }
        });
        for (count, at) in [(&mut due_ops, due), (&mut open_ops, open), (&mut aged_ops, aged)] {
            limit(&mut ops, count, moment, at, words);
        }
        // The last span is not over. A look that found a number of another thread would have ended it, so what came
        // before the last look is within one moment; a thread that ended never tells. What follows a look is as good as
        // there, too. Where no look is sure, the span is taken to be as long as the one before it.
        let looked = last.saturating_sub(LOOK_MOST);
        let is_looked = moment > 0 && looked > from;
        let known = if is_looked { looked } else { from }.max(latest);
        let span = if is_looked { 1 } else { span };
        spread(&mut ops[first..], moment, (span, u64::MAX), from, known, words);
        let [due, open, aged] = [due_ops, open_ops, aged_ops].map(Option::unwrap_or_default);
        Lane { ring: index, ops, words, due, open, aged, next: 0, done: Vec::new() }
    }

    /// New times for another attempt: in turn the order in which the last attempt could do the ops, and the stamps with
    /// the lanes shifted against each other by less than 16 moments.
    fn guess_times(&mut self, attempt: u64) {
        for (number, lane) in (0..).zip(&mut self.lanes) {
            let shift = (attempt * 0x1_0000 + number).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SHIFT_BITS);
            for (i, op) in lane.ops.iter_mut().enumerate() {
                op.time = match attempt % 2 {
                    1 if i < lane.done.len() => lane.done[i],
                    1 => self.clock + op.stamp,
                    _ => op.stamp + shift,
                };
            }
        }
    }

    /// Puts each address in order by itself.
    fn order_addresses(&mut self) {
        for address in &mut self.addresses {
            (address.live, address.end) = (address.live_before, 0);
        }
        let contested = || self.lanes.iter().flat_map(|lane| &lane.ops).filter(|op| op.address != MARK);
        for op in contested() {
            self.addresses[op.address as usize].end += 1;
        }
        let mut begin = 0;
        for address in &mut self.addresses {
            address.next = begin;
            begin += address.end;
            address.end = address.next;
        }
        self.order.clear();
        self.order.resize(begin, Touch::default());
        for (number, lane) in (0..).zip(&self.lanes) {
            for (op, &Op { key, before, time, address, gives, .. }) in
                (0..).zip(&lane.ops).filter(|(_, op)| op.address != MARK)
            {
                let Address { end, .. } = &mut self.addresses[address as usize];
                let aged = op < lane.aged;
                self.order[*end] = Touch { lane: number, op, time, from: key, to: before, gives, aged };
                *end += 1;
            }
        }
        for &Address { live, next, end, .. } in &self.addresses {
            self.merger.merge(live, &mut self.order[next..end]);
        }
        self.budget = self.budget.saturating_sub(self.merger.take_steps_back());
    }

    /// Runs the lanes until all ops that are due are done.
    fn run(&mut self) {
        self.steps.clear();
        (self.forced, self.clock) = (0, 0);
        for lane in &mut self.lanes {
            lane.next = 0;
            lane.done.clear();
        }
        self.ready.clear();
        self.waiting.clear();
        let mut open = self.lanes.iter().filter(|lane| lane.due > 0).count();
        (0..self.lanes.len() as u32).for_each(|lane| self.make_ready(lane));
        while open > 0 {
            let lane = match self.ready.pop() {
                Some(Reverse((_, lane))) => lane,
                None => match self.give_way() {
                    Some(lane) => lane,
                    // Nothing waits, so nothing is left.
                    None => return,
                },
            };
            match self.waits_for(lane) {
                Some(address) => self.waiting.push((lane, address)),
                None => open -= usize::from(self.advance(lane)),
            }
        }
    }

    fn make_ready(&mut self, number: u32) {
        let lane = &self.lanes[number as usize];
        if lane.next < lane.open
            && let Some(op) = lane.head()
        {
            self.ready.push(Reverse((op.key, number)));
        }
    }

    /// Index of the address at which it is not this lane's turn; None: the lane can go on.
    fn waits_for(&self, number: u32) -> Option<u32> {
        let lane = &self.lanes[number as usize];
        let op = lane.head().filter(|op| op.address != MARK)?;
        let address = &self.addresses[op.address as usize];
        let turn = &self.order[address.next];
        let mine = turn.lane == number && turn.op == lane.next;
        // Where the order knows no better than to put a due record here, that is how it is taken.
        (!mine || (op.gives == address.live && !lane.is_due())).then_some(op.address)
    }

    /// Does the next op of a lane. True if it was the last one that is due.
    fn advance(&mut self, number: u32) -> bool {
        let lane = &mut self.lanes[number as usize];
        let Some(&op) = lane.head() else { return false };
        lane.next += 1;
        let end = lane.head().map_or(lane.words, |next| next.begin);
        lane.done.push(self.clock);
        self.clock += 1;
        let (ring, words, done) = (lane.ring, end - op.begin, lane.next == lane.due);
        match self.steps.last_mut() {
            Some(last) if last.ring == ring => last.words += words,
            _ => self.steps.push(RingWords { ring, words }),
        }
        if op.address != MARK {
            let address = &mut self.addresses[op.address as usize];
            self.forced += u64::from(op.gives == address.live);
            address.live = op.gives;
            address.next += 1;
            self.wake(op.address);
        }
        self.make_ready(number);
        done
    }

    fn wake(&mut self, address: u32) {
        let mut i = 0;
        while i < self.waiting.len() {
            if self.waiting[i].1 == address {
                let (lane, _) = self.waiting.swap_remove(i);
                self.make_ready(lane);
            } else {
                i += 1;
            }
        }
    }

    /// All lanes wait. One of them gets its turn: the one after which the fewest records of its address fit nowhere,
    /// and among those the one furthest back.
    #[cold]
    fn give_way(&mut self) -> Option<u32> {
        if !self.waiting.iter().any(|&(lane, _)| self.lanes[lane as usize].is_due()) {
            return None;
        }
        if self.budget == 0 {
            return self.give_way_by_time();
        }
        let waiting = std::mem::take(&mut self.waiting);
        let best = waiting.iter().filter_map(|&(lane, _)| {
            let time = self.lanes[lane as usize].head()?.time;
            let fresh = !self.lanes[lane as usize].is_due();
            let misfits = self.after_turn(lane)?;
            Some(((misfits.aged, misfits.fresh, fresh, time, lane), lane))
        });
        let lane = best.min_by_key(|(key, _)| *key).map(|(_, lane)| lane);
        self.waiting = waiting;
        let lane = lane?;
        self.after_turn(lane)?;
        self.take_turn(lane);
        self.waiting.retain(|(waiting, _)| *waiting != lane);
        Some(lane)
    }

    /// [`Self::give_way`] where the budget is used up: the lane that is furthest back gets its turn, and the order
    /// behind it stays as it is.
    fn give_way_by_time(&mut self) -> Option<u32> {
        let turn = |&(number, address): &(u32, u32)| {
            let lane = &self.lanes[number as usize];
            let op = lane.head()?;
            let fits = op.gives != self.addresses[address as usize].live;
            (fits || lane.is_due()).then_some((!fits, !lane.is_due(), op.time, number, address))
        };
        let (.., number, address) = self.waiting.iter().filter_map(turn).min()?;
        let Address { next, end, .. } = self.addresses[address as usize];
        let op = self.lanes[number as usize].next;
        let at = self.order[next..end].iter().position(|touch| touch.lane == number && touch.op == op)?;
        self.order[next..=next + at].rotate_right(1);
        self.waiting.retain(|(waiting, _)| *waiting != number);
        Some(number)
    }

    /// Orders the other records of the address of a lane's next record as if that came next, and leaves them in
    /// `scratch`. Returns how many more misfit than now; None for a fresh record that misfits itself.
    fn after_turn(&mut self, number: u32) -> Option<Change> {
        let lane = &self.lanes[number as usize];
        let op = lane.head()?;
        let Address { live, next, end, .. } = self.addresses[op.address as usize];
        let rest = &self.order[next..end];
        let at = rest.iter().position(|touch| touch.lane == number && touch.op == lane.next)?;
        let misfit = op.gives == live;
        if misfit && !lane.is_due() {
            return None;
        }
        let before = misfits(live, rest);
        self.budget = self.budget.saturating_sub(rest.len() as u64);
        self.scratch.clear();
        self.scratch.push(rest[at]);
        self.scratch.extend_from_slice(&rest[..at]);
        self.scratch.extend_from_slice(&rest[at + 1..]);
        self.scratch[1..].sort_by_key(|touch| (touch.lane, touch.op));
        let after = self.merger.merge(op.gives, &mut self.scratch[1..]);
        self.budget = self.budget.saturating_sub(self.merger.take_steps_back());
        Some(Change {
            aged: after.aged as i64 + i64::from(misfit) - before.aged as i64,
            fresh: after.fresh as i64 - before.fresh as i64,
        })
    }

    /// Takes over the order that [`Self::after_turn`] left.
    fn take_turn(&mut self, number: u32) {
        if let Some(op) = self.lanes[number as usize].head() {
            let Address { next, end, .. } = self.addresses[op.address as usize];
            self.order[next..end].copy_from_slice(&self.scratch);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Change {
    aged: i64,
    fresh: i64,
}

fn slot(address: u64) -> usize {
    ((address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - FILTER_BITS)) as usize
}
