//! Is a site's live memory growing, and will it go on?
//!
//! Blocks that lived through at least one whole bucket are *settled*; what comes and goes faster is no growth. The settled
//! blocks that came and are still live are compared with those that were there and are gone. That is growth, if chance would
//! seldom make such a difference, over all sites that are looked at. It is called lasting if four things hold besides:
//!
//! - Each third of the last three quarters of the time has its part in it. One large step is no leak.
//! - What came and stayed came as much late as early. A cache that fills up slows down.
//! - Settled blocks hardly die. Where a third of them would be gone after as long again, what looks like growth is a
//!   population that is still gathering: nobody can see the deaths of blocks that were there before the watching began.
//! - It has gone on for a minute. Before that, every program starts up.
//!
//! Chance is reckoned with whole blocks, however large: three buffers of 64 MiB are three blocks.

use serde::Serialize;
use statrs::function::beta::beta_reg;

use super::estimate::{Estimate, LEAST_SAMPLES, Moments};
use super::lives::{BUCKETS, CLOCKS, Clock, Deaths};

/// How likely chance alone may be, over all sites and all looks.
const CHANCE: f64 = 0.01;
/// The share of an even third that each third has at the least.
const PART: f64 = 0.25;
/// How many of the settled blocks may die in a time as long as the one that is looked at.
const DYING: f64 = 0.3;
/// The fewest buckets that tell anything.
const LEAST_BUCKETS: u32 = 8;
/// The shortest time that lasts.
const LEAST_NS: u64 = 60_000_000_000;

/// What is said of a site's growth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// There are not enough samples, or not enough time has passed.
    #[default]
    Unknown,
    /// What comes goes again, as far as can be told.
    Steady,
    /// It grew, in steps, or for less than a minute.
    Uneven,
    /// It grew less and less: a cache that fills up, or a population that gathers.
    Slowing,
    /// It grows, and nothing says that it will end: a leak, until somebody knows better.
    Growing,
}

/// How a site's live memory grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Growth {
    /// What to think of it.
    pub verdict: Verdict,
    /// By how many bytes an hour its settled blocks became more.
    pub bytes_per_hour: Estimate,
    /// How likely chance alone would look like this at one of the sites.
    pub chance: f64,
    /// The time that was looked at.
    pub over_ns: u64,
}

impl Growth {
    /// The bytes an hour by which it grows at the least.
    pub fn surely(&self) -> f64 {
        self.bytes_per_hour.low.unwrap_or(0.0)
    }

    /// What to say of a site of which the clocks, the one with the shortest memory first, say this. What grows in a short
    /// memory may be a cache that a longer one sees fill up.
    pub(super) fn of_clocks(mut said: [Self; CLOCKS]) -> Self {
        for shorter in 0..CLOCKS - 1 {
            if said[shorter].verdict == Verdict::Growing && said[shorter + 1].verdict == Verdict::Slowing {
                said[shorter].verdict = Verdict::Slowing;
            }
        }
        let rank = |growth: &Self| {
            let known = growth.verdict != Verdict::Unknown;
            (growth.verdict == Verdict::Growing, known, -growth.chance)
        };
        said.into_iter().reduce(|best, next| if rank(&next) > rank(&best) { next } else { best }).unwrap_or_default()
    }
}

/// The lives of a site's blocks, by the buckets of one clock.
#[derive(Clone, Debug)]
pub struct Lives {
    /// Live ones, by the bucket of their birth.
    pub live: [Moments; BUCKETS as usize + 1],
    /// Those that died.
    pub deaths: Deaths,
}

impl Default for Lives {
    fn default() -> Self {
        Self { live: [Moments::default(); BUCKETS as usize + 1], deaths: Deaths::default() }
    }
}

/// Blocks that came into, and went out of, the settled ones between two ends of buckets.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    came: Moments,
    went: Moments,
}

impl Flow {
    fn net(&self) -> f64 {
        self.came.value - self.went.value
    }
}

impl Lives {
    /// Settled at the end of bucket `from` or of bucket `to`, but not at both.
    fn flow(&self, from: u32, to: u32) -> Flow {
        let mut flow = Flow::default();
        let mut add = |born: u32, died: Option<u32>, block: Moments| {
            let settled = |end: u32| born < end && died.is_none_or(|died| died > end);
            match (settled(from), settled(to)) {
                (false, true) => flow.came += block,
                (true, false) => flow.went += block,
                _ => {}
            }
        };
        for (born, block) in (0..).zip(self.live) {
            add(born, None, block);
        }
        for (born, died, block) in self.deaths.iter() {
            add(born, Some(died), block);
        }
        flow
    }

    /// The mean place of the growth within the time, from 0 to 1.
    fn middle(&self, from: u32, to: u32) -> f64 {
        let (mut sum, mut places) = (0.0, 0.0);
        for end in from..to {
            let net = self.flow(end, end + 1).net();
            sum += net;
            places += net * (f64::from(end - from) + 0.5);
        }
        places / sum / f64::from(to - from)
    }

    /// The share of settled blocks that would die in a time as long as this one.
    fn dying(&self, from: u32, to: u32) -> f64 {
        let (mut died, mut lived) = (0.0, 0.0);
        let mut add = |born: u32, death: Option<u32>, block: &Moments| {
            let (first, last) = ((born + 1).max(from), death.unwrap_or(to + 1).min(to + 1) - 1);
            lived += block.value * f64::from(last.saturating_sub(first));
            if death.is_some_and(|death| (from + 1..=to).contains(&death)) {
                died += block.value;
            }
        };
        for (born, block) in (0..to).zip(&self.live) {
            add(born, None, block);
        }
        for (born, death, block) in self.deaths.iter() {
            add(born, Some(death), &block);
        }
        if lived > 0.0 { died / lived * f64::from(to - from) } else { 0.0 }
    }

    /// What one clock says. `since_ns` is when the process began to be watched, `tests` how many such questions are asked,
    /// `heaviest` the longest period.
    pub fn growth(&self, clock: &Clock, since_ns: u64, now_ns: u64, tests: f64, heaviest: f64, lot: f64) -> Growth {
        let to = clock.over(now_ns);
        let first = clock.bucket(since_ns).max(1) - 1;
        let buckets = to.saturating_sub(first);
        let third = buckets / 4;
        if buckets < LEAST_BUCKETS {
            return Growth { chance: 1.0, ..Growth::default() };
        }
        let from = to - 3 * third;
        let over_ns = clock.width_ns() * u64::from(3 * third);
        let flow = self.flow(from, to);
        let per_hour = 3.6e12 / over_ns as f64;
        let samples = flow.came.samples + flow.went.samples;
        let mut bytes_per_hour = Estimate { value: flow.net() * per_hour, samples, ..Estimate::default() };
        let least_variance = LEAST_SAMPLES * heaviest * heaviest;
        let variance = flow.came.variance + flow.went.variance;
        if variance > 0.0 && variance >= least_variance {
            let (low, high) = flow.came.limits_less(&flow.went, least_variance, lot);
            (bytes_per_hour.low, bytes_per_hour.high) = (Some(low * per_hour), Some(high * per_hour));
        }
        let chance = (chance(&flow) * tests).min(1.0);
        let verdict = match chance < CHANCE {
            true => self.lasts(first, from, to, clock.width_ns()),
            false if bytes_per_hour.enough() => Verdict::Steady,
            false => Verdict::Unknown,
        };
        Growth { verdict, bytes_per_hour, chance, over_ns }
    }

    /// What kind of growth it is that there is since `from`, in a time that began with `first`.
    fn lasts(&self, first: u32, from: u32, to: u32, width_ns: u64) -> Verdict {
        // Without what happens at the very start.
        let early = first + (to - first).div_ceil(8);
        let flow = self.flow(early, to);
        // How many blocks' worth of growth there is, among so many comings and goings.
        let (came, went) = whole(&flow);
        let blocks = (came - went) * (came - went) / (came + went);
        // An even growth's middle is at 0.5, give or take 0.29 / √blocks; where it halves within the time, at 0.46.
        let fades = flow.net() > 0.0 && self.middle(early, to) < 0.47 - 0.1 / blocks.sqrt();
        if fades || self.dying(from, to) > DYING {
            return Verdict::Slowing;
        }
        let third = (to - from) / 3;
        let part = PART * self.flow(from, to).net() / 3.0;
        let even = (0..3).all(|n| self.flow(from + n * third, from + (n + 1) * third).net() >= part);
        let long = width_ns * u64::from(to - first) >= LEAST_NS;
        if even && long { Verdict::Growing } else { Verdict::Uneven }
    }
}

/// How many blocks of one weight would be as sure: those that came, and those that went.
fn whole(flow: &Flow) -> (f64, f64) {
    let weight = (flow.came.squares + flow.went.squares) / (flow.came.value + flow.went.value);
    (flow.came.value / weight, flow.went.value / weight)
}

/// How likely so many come and so few go, if each block is as likely to do one as the other.
fn chance(flow: &Flow) -> f64 {
    if flow.net() <= 0.0 {
        return 1.0;
    }
    let (came, went) = whole(flow);
    let at_least = beta_reg(came, went + 1.0, 0.5);
    let more = if went > 0.0 { beta_reg(came + 1.0, went, 0.5) } else { 0.0 };
    0.5 * (at_least + more)
}
