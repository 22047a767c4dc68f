//! A server whose sites allocate by known habits, sampled into a ledger. Its time advances in ticks.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use mallow_profile::{ProcessId, Release, Sample, SampleEvent, SampleKey, StackId, Stacks};

use super::simulation::{Countdown, PERIOD, Random, sample};
use crate::SampleLedger;

pub const SECOND: u64 = 1_000_000_000;
pub const BEGIN: u64 = 1000 * SECOND;
pub const PROCESS: ProcessId = ProcessId(0);

/// What a site does.
#[derive(Clone, Copy)]
pub struct Habit {
    pub stack: u32,
    pub size: u64,
    /// Allocated bytes per second; of a [`Life::Cache`] the bytes that it holds.
    pub bytes_per_second: f64,
    pub life: Life,
}

#[derive(Clone, Copy)]
pub enum Life {
    /// So many seconds on average.
    Short(f64),
    /// Exactly so many: a queue, or a cache that evicts what is oldest.
    Queue(f64),
    /// A cache that needs ever less: half of it is there after so many seconds. Nothing is freed.
    Filling(f64),
    /// A cache of fixed size: full after a second, and what expires is replaced at once.
    Cache(Lifetime),
    /// All at once after so many seconds, and again.
    Flushed(f64),
    Forever,
    /// Forever, but only from so many seconds on.
    Late(f64),
    /// Allocated when the program starts: so many seconds' worth at once.
    AtStart(f64),
}

/// The distribution of lifetimes, in seconds.
#[derive(Clone, Copy)]
pub enum Lifetime {
    /// With this mean.
    Exponential(f64),
    /// Each block's is the same.
    Fixed(f64),
    /// With this mean, and a standard deviation of the logarithm of 1.
    Lognormal(f64),
}

impl Lifetime {
    fn draw(self, random: &mut Random) -> f64 {
        match self {
            Self::Exponential(mean) => random.exponential(mean),
            Self::Fixed(seconds) => seconds,
            Self::Lognormal(mean) => {
                let normal = (-2.0 * random.unit().ln()).sqrt() * (std::f64::consts::TAU * random.unit()).cos();
                mean * (normal - 0.5).exp()
            }
        }
    }
}

/// How much there is to do, of what is usual, so many seconds after the start.
pub type Load = fn(f64) -> f64;

pub const EVEN: Load = |_| 1.0;

/// A block that is not picked has no slot.
const UNPICKED: u32 = u32::MAX;

pub struct Server {
    pub load: Load,
    pub tick_ns: u64,
    pub random: Random,
    pub ledger: SampleLedger,
    countdown: Countdown,
    habits: Vec<Habit>,
    owed: Vec<f64>,
    /// When, the place of the habit, and the slot.
    deaths: BinaryHeap<Reverse<(u64, usize, u32)>>,
    free_slots: Vec<u32>,
    used: Vec<Option<SampleKey>>,
    generation: u32,
    now: u64,
}

impl Server {
    pub fn new(seed: u64, habits: &[Habit]) -> Self {
        Self::with_period(seed, habits, PERIOD)
    }

    pub fn with_period(seed: u64, habits: &[Habit], period: u64) -> Self {
        let mut random = Random(seed);
        let mut ledger = SampleLedger::new();
        ledger.feed(&SampleEvent::ProcessBegan { process: PROCESS, at_ns: BEGIN });
        Self {
            load: EVEN,
            tick_ns: SECOND / 50,
            countdown: Countdown::new(&mut random, period),
            random,
            ledger,
            habits: habits.to_vec(),
            owed: vec![0.0; habits.len()],
            deaths: BinaryHeap::new(),
            free_slots: Vec::new(),
            used: Vec::new(),
            generation: 0,
            now: BEGIN,
        }
    }

    pub fn run_until(&mut self, seconds: u64) {
        while self.now < BEGIN + seconds * SECOND {
            self.tick();
            if self.now.is_multiple_of(SECOND / 2) {
                self.ledger.advance(self.now);
            }
        }
    }

    fn tick(&mut self) {
        let passed = (self.now - BEGIN) as f64 / SECOND as f64;
        let tick = self.tick_ns as f64 / SECOND as f64;
        self.now += self.tick_ns;
        for index in 0..self.habits.len() {
            let habit = self.habits[index];
            self.owed[index] += habit.bytes_per_second
                * match habit.life {
                    Life::Filling(half) => tick * (-passed / half * 2f64.ln()).exp(),
                    Life::AtStart(seconds) if passed == 0.0 => seconds,
                    Life::AtStart(_) => 0.0,
                    Life::Late(begin) if passed < begin => 0.0,
                    Life::Cache(_) if passed < 1.0 => tick,
                    Life::Cache(_) => 0.0,
                    _ => tick * (self.load)(passed),
                };
            let count = (self.owed[index] / habit.size as f64).floor();
            self.owed[index] -= count * habit.size as f64;
            if let Life::Cache(_) = habit.life {
                for _ in 0..count as u64 {
                    let at_ns = self.now - (self.random.unit() * self.tick_ns as f64) as u64;
                    self.cache(index, at_ns);
                }
                continue;
            }
            let mut picked = 0;
            self.countdown.allocate_many(&mut self.random, habit.size, count as u64, |_| picked += 1);
            for _ in 0..picked {
                let at_ns = self.now - (self.random.unit() * self.tick_ns as f64) as u64;
                self.allocate(index, at_ns);
            }
        }
        while let Some(Reverse((at, index, slot))) = self.deaths.peek().copied().filter(|next| next.0.0 <= self.now) {
            self.deaths.pop();
            if slot != UNPICKED {
                let key = self.used[slot as usize].take().expect("a live sample");
                self.free_slots.push(slot);
                let release = Release { thread: 1, at_ns: at, stack: Stacks::ROOT };
                self.ledger.feed(&SampleEvent::Freed { key, release });
            }
            if let Life::Cache(_) = self.habits[index].life {
                self.cache(index, at);
            }
        }
    }

    /// One block of a cache, which follows each of them to its end.
    fn cache(&mut self, index: usize, at_ns: u64) {
        let Life::Cache(lifetime) = self.habits[index].life else { return };
        let slot = match self.countdown.allocate(&mut self.random, self.habits[index].size) {
            true => self.pick(index, at_ns),
            false => UNPICKED,
        };
        let seconds = lifetime.draw(&mut self.random);
        self.deaths.push(Reverse((at_ns + (seconds * SECOND as f64) as u64, index, slot)));
    }

    /// A picked block, with its end where it has one.
    fn allocate(&mut self, index: usize, at_ns: u64) {
        let slot = self.pick(index, at_ns);
        let seconds = match self.habits[index].life {
            Life::Short(mean) => self.random.exponential(mean),
            Life::Queue(seconds) => seconds,
            Life::Flushed(seconds) => {
                let passed = (at_ns - BEGIN) as f64 / SECOND as f64;
                (passed / seconds).ceil() * seconds - passed
            }
            _ => return,
        };
        self.deaths.push(Reverse((at_ns + (seconds * SECOND as f64) as u64, index, slot)));
    }

    fn pick(&mut self, index: usize, at_ns: u64) -> u32 {
        let habit = self.habits[index];
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.used.push(None);
            self.used.len() as u32 - 1
        });
        self.generation += 1;
        let key = SampleKey { process: PROCESS, slot, generation: self.generation };
        self.used[slot as usize] = Some(key);
        let of = Sample { at_ns, stack: StackId(habit.stack), ..sample(habit.size, self.countdown.period) };
        self.ledger.feed(&SampleEvent::Allocated { key, sample: of });
        slot
    }

    /// Sites that are said to grow, the first one first.
    pub fn growing(&self) -> Vec<u32> {
        self.ledger.findings().iter().map(|finding| finding.stack.0).collect()
    }
}

pub const MEBIBYTE: f64 = (1 << 20) as f64;
pub const LEAK: u32 = 90;

pub const fn habit(stack: u32, size: u64, bytes_per_second: f64, life: Life) -> Habit {
    Habit { stack, size, bytes_per_second, life }
}

/// Requests, connections, queues, a heap from the start, and what is flushed now and then.
pub fn healthy() -> Vec<Habit> {
    vec![
        habit(10, 4096, 60.0 * MEBIBYTE, Life::Short(0.005)),
        habit(11, 200, 20.0 * MEBIBYTE, Life::Short(0.05)),
        habit(12, 30_000, 20.0 * MEBIBYTE, Life::Short(1.0)),
        habit(13, 1000, 4.0 * MEBIBYTE, Life::Short(8.0)),
        habit(14, 64 << 10, 5.0 * MEBIBYTE, Life::Queue(10.0)),
        habit(15, 2000, 2.0 * MEBIBYTE, Life::Flushed(7.0)),
        habit(16, 800, 3.0 * MEBIBYTE, Life::AtStart(40.0)),
        habit(17, 50 << 20, 150.0 * MEBIBYTE, Life::AtStart(1.0)),
    ]
}
