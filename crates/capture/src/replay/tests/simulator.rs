//! A made-up program of several threads, with its real interleaving: what it truly did, and what its rings show.

use super::*;
use std::collections::{BTreeMap, HashMap};

/// Who may get an address that was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    /// The thread that had it first, as with arenas.
    Owner,
    /// The thread that freed it, as with caches of threads, or its first owner.
    Freer,
}

/// What to simulate.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub seed: u64,
    pub threads: usize,
    pub steps: usize,
    pub reuse: Reuse,
    /// Of 100 frees and reallocs, how many are of any thread's blocks; the others are of the thread's own.
    pub foreign: u64,
    /// Steps between two rounds, about.
    pub round: u64,
    /// Steps of a millisecond, about.
    pub millisecond: u64,
    /// Events from one ORDER record to the next.
    pub stamp: u32,
}

/// What is true of a stack, by what the naive model counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    pub allocations: u64,
    pub allocated_bytes: u64,
    pub frees: u64,
    pub freed_bytes: u64,
    pub temporary: u64,
    pub live: u64,
    pub live_bytes: u64,
    pub in_place: u64,
    pub moved: u64,
    pub oldest: u64,
    pub youngest: u64,
}

/// By stack, the innermost link-time address first.
pub type Sites = BTreeMap<Vec<u64>, Truth>;

#[derive(Clone, Copy)]
struct Held {
    thread: usize,
    stack: usize,
    size: u64,
    ms: u64,
    serial: u64,
}

/// A realloc under way.
#[derive(Clone, Copy)]
struct Realloc {
    from: u64,
    moves: bool,
    held: Held,
}

#[derive(Default)]
struct Thread {
    tape: Tape,
    /// By index in the list of stacks: the number in the ring.
    numbers: HashMap<usize, u64>,
    last_stack: Vec<u64>,
    ms: u64,
    /// Events until the next ORDER record.
    until_order: u32,
    last_serial: u64,
    realloc: Option<Realloc>,
    free_list: Vec<u64>,
    fresh: u64,
}

pub struct Simulator {
    setting: Setting,
    dice: u64,
    threads: Vec<Thread>,
    stacks: Vec<Vec<u64>>,
    live: BTreeMap<u64, Held>,
    owner: HashMap<u64, usize>,
    truth: Vec<Truth>,
    ms: u64,
    /// ORDER records.
    order: u64,
    serial: u64,
    live_bytes: u64,
    pub peak_bytes: u64,
}

impl Simulator {
    pub fn new(setting: Setting) -> Self {
        // Stacks of 1 to 5 frames that share some of their callers, and no two the same.
        let pc = |n: u64, depth, last| 0x1010 + 256 * depth + 16 * if depth == last { n } else { n >> 3 };
        let stacks = (0..12).map(|n| (0..=n % 5).map(|depth| pc(n, depth, n % 5)).collect()).collect::<Vec<Vec<u64>>>();
        Self {
            setting,
            dice: setting.seed,
            threads: (0..setting.threads).map(|_| Thread::default()).collect(),
            truth: vec![Truth::default(); stacks.len()],
            stacks,
            live: BTreeMap::new(),
            owner: HashMap::new(),
            ms: 1,
            order: 0,
            serial: 0,
            live_bytes: 0,
            peak_bytes: 0,
        }
    }

    /// Runs the program; what the drain reads meanwhile goes to the replay. Returns what is true.
    pub fn run<S: EventSink>(mut self, replay: &mut Replay<S>) -> (Sites, u64) {
        // The drain reads one ring after another while the program goes on.
        let mut reading = 0;
        for _ in 0..self.setting.steps {
            if self.below(self.setting.millisecond) == 0 {
                self.ms += 1;
            }
            if self.below(self.setting.round / self.setting.threads as u64 + 1) == 0 {
                self.drain(replay, &mut reading);
            }
            self.step();
        }
        for _ in 0..3 * self.threads.len() {
            self.drain(replay, &mut reading);
        }
        self.settle();
        let sites = self.stacks.iter().zip(&self.truth).filter(|(_, truth)| truth.allocations > 0);
        let key = |stack: &Vec<u64>| stack.iter().rev().map(|pc| pc - 0x1000 + 0x100).collect();
        (sites.map(|(stack, truth)| (key(stack), *truth)).collect(), self.peak_bytes)
    }

    fn drain<S: EventSink>(&mut self, replay: &mut Replay<S>, reading: &mut usize) {
        let tape = std::mem::take(&mut self.threads[*reading].tape);
        // Large rings come in several chunks.
        words(replay, 0, *reading as u32, tape);
        *reading += 1;
        if *reading == self.threads.len() {
            *reading = 0;
            round(replay, self.ms);
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        // splitmix64
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.dice ^ self.dice >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % n.max(1)
    }

    fn step(&mut self) {
        let t = self.below(self.threads.len() as u64) as usize;
        if let Some(realloc) = self.threads[t].realloc.take() {
            return self.end_realloc(t, realloc);
        }
        match self.below(20) {
            0..9 => {
                let address = self.get(t);
                let (family, stack, size) = (self.below(2), self.pick_stack(), self.below(100));
                self.allocate(t, address, family, stack, size, false);
            }
            9..17 => {
                if let Some(address) = self.pick_live(t) {
                    self.stamp(t);
                    self.write(t, |tape| tape.free(address));
                    let held = self.live.remove(&address).unwrap();
                    self.release(t, held);
                    self.put(t, address);
                }
            }
            _ => {
                if let Some(address) = self.pick_live(t) {
                    self.stamp(t);
                    self.write(t, |tape| tape.begin(address));
                    let held = self.live.remove(&address).unwrap();
                    // It is decided now whether the block moves: then others may own the address from here on.
                    // In place, the thread would give out an address that is not its own.
                    let stays = self.setting.reuse != Reuse::Owner || self.owner[&address] == t;
                    let moves = self.below(2) == 0 || !stays;
                    if moves {
                        self.put(t, address);
                    }
                    self.threads[t].realloc = Some(Realloc { from: address, moves, held });
                }
            }
        }
    }

    fn end_realloc(&mut self, t: usize, Realloc { from, moves, held }: Realloc) {
        self.stamp(t);
        let outcome = self.below(10);
        if !moves && outcome == 0 {
            self.write(t, Tape::failed);
            self.live.insert(from, held);
            return;
        }
        self.release(t, held);
        if moves && outcome == 0 {
            self.write(t, Tape::freed);
            return;
        }
        let to = if moves { self.get(t) } else { from };
        let (stack, size) = (self.pick_stack(), self.below(200));
        self.allocate(t, to, 2, stack, size, true);
        // A block that moves may come to lie where it was.
        let truth = &mut self.truth[stack];
        if to == from { truth.in_place += 1 } else { truth.moved += 1 }
    }

    fn allocate(&mut self, t: usize, address: u64, family: u64, stack: usize, size: u64, realloc: bool) {
        self.stamp(t);
        let number = self.number(t, stack);
        match realloc {
            true => self.write(t, |tape| tape.done(address, size, number)),
            false => self.write(t, |tape| tape.alloc(family, address, size, number)),
        }
        self.serial += 1;
        self.threads[t].last_serial = self.serial;
        self.live.insert(address, Held { thread: t, stack, size, ms: self.threads[t].ms, serial: self.serial });
        self.truth[stack].allocations += 1;
        self.truth[stack].allocated_bytes += size;
        self.live_bytes += size;
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
    }

    fn release(&mut self, t: usize, held: Held) {
        let truth = &mut self.truth[held.stack];
        truth.frees += 1;
        truth.freed_bytes += held.size;
        truth.temporary += u64::from(self.threads[t].last_serial == held.serial);
        self.live_bytes -= held.size;
    }

    fn settle(&mut self) {
        let under_way = self.threads.iter().filter_map(|thread| thread.realloc.map(|realloc| realloc.held));
        for held in self.live.values().copied().chain(under_way) {
            let truth = &mut self.truth[held.stack];
            truth.oldest = if truth.live == 0 { held.ms } else { truth.oldest.min(held.ms) };
            truth.youngest = truth.youngest.max(held.ms);
            truth.live += 1;
            truth.live_bytes += held.size;
        }
    }

    fn number(&mut self, t: usize, stack: usize) -> u64 {
        let thread = &mut self.threads[t];
        let frames = self.stacks[stack].clone();
        let known = thread.numbers.len() as u64;
        let number = *thread.numbers.entry(stack).or_insert(known);
        if number == known {
            let keep = frames.iter().zip(&thread.last_stack).take_while(|(a, b)| a == b).count();
            thread.tape = std::mem::take(&mut thread.tape).stack(keep as u64, &frames[keep..]);
        }
        thread.last_stack = frames;
        number
    }

    fn pick_stack(&mut self) -> usize {
        self.below(self.stacks.len() as u64) as usize
    }

    /// The thread's youngest block, any of its blocks, or any block.
    fn pick_live(&mut self, t: usize) -> Option<u64> {
        let last = self.threads[t].last_serial;
        let youngest = self.below(3) == 0;
        let own = self.below(100) >= self.setting.foreign;
        let fits = |held: &Held| (!own || held.thread == t) && (!youngest || held.serial == last);
        let found: Vec<u64> = self.live.iter().filter(|(_, held)| fits(held)).map(|(&address, _)| address).collect();
        let at = self.below(found.len() as u64) as usize;
        found.get(at).copied()
    }

    fn get(&mut self, t: usize) -> u64 {
        if self.below(8) != 0
            && let Some(address) = self.threads[t].free_list.pop()
        {
            return address;
        }
        self.threads[t].fresh += 16;
        let address = (t as u64 + 1) << 32 | self.threads[t].fresh;
        self.owner.insert(address, t);
        address
    }

    fn put(&mut self, t: usize, address: u64) {
        let owner = self.owner[&address];
        let kept = self.below(2) == 0;
        let to = match self.setting.reuse {
            Reuse::Owner => owner,
            Reuse::Freer if kept => t,
            Reuse::Freer => owner,
        };
        self.threads[to].free_list.push(address);
    }

    fn stamp(&mut self, t: usize) {
        let ms = self.ms;
        self.threads[t].until_order = self.threads[t].until_order.saturating_sub(1);
        let later = self.threads[t].ms != ms;
        if later || self.threads[t].until_order == 0 {
            if self.threads[t].ms == 0 {
                self.write(t, |tape| tape.thread(50 + t as u64));
            }
            self.threads[t].ms = ms;
            self.threads[t].until_order = self.setting.stamp;
            self.order += 1;
            let order = self.order;
            self.write(t, |tape| if later { tape.time(ms) } else { tape }.order(order));
        }
    }

    fn write(&mut self, t: usize, write: impl FnOnce(Tape) -> Tape) {
        let tape = &mut self.threads[t].tape;
        *tape = write(std::mem::take(tape));
    }
}

/// What a profile says, in the model's words.
pub fn sites_of(profile: &Profile) -> Sites {
    let truth = |site: &Site| Truth {
        allocations: site.counts.allocations,
        allocated_bytes: site.counts.allocated_bytes,
        frees: site.counts.frees,
        freed_bytes: site.counts.freed_bytes,
        temporary: site.counts.temporary,
        live: site.counts.live,
        live_bytes: site.counts.live_bytes,
        in_place: site.counts.reallocs_in_place,
        moved: site.counts.reallocs_moved,
        oldest: site.live_oldest_ms,
        youngest: site.live_youngest_ms,
    };
    profile.sites.iter().map(|site| (addresses(profile, site.stack), truth(site))).collect()
}
