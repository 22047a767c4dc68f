//! Is a site's live memory growing, and will it go on?
//!
//! Blocks that lived through at least one whole bucket are *settled*; what comes and goes faster is no growth. The
//! settled blocks that came and are still live are compared with those that were there and are gone. That is growth, if
//! chance would seldom make such a difference, over all sites that are looked at. It is called lasting if five more
//! things hold:
//!
//! - Each third of the last three quarters of the time has its part in it. One large step is no leak.
//! - What came and stayed came as much late as early. A cache that fills up slows down.
//! - It has not stopped: the last few buckets have their part in it, too. A cache that is full is seen by that soon.
//! - Settled blocks hardly die. Where a third of them would be gone after as long again, what looks like growth is a
//!   population that is still gathering: nobody can see the deaths of blocks that were there before the watching began.
//!   It may also be two populations, a leak beside a cache: so blocks count that outlive those, if they last.
//! - It has gone on for longer than caches take to fill. An even growth that ends cannot be distinguished from one that
//!   does not until it ends; before that it is growth so far.
//!
//! A server that has less to do leaks less. So time is measured twice where growth seems to fade or to stop: by the
//! clock, and by what other sites allocated meanwhile.
//!
//! Chance is reckoned with whole blocks, however large: three buffers of 64 MiB are three blocks.

use serde::Serialize;
use statrs::function::beta::beta_reg;
use statrs::function::erf::erfc;
use statrs::function::gamma::gamma_lr;

use super::estimate::{Estimate, Moments};
use super::lives::{BUCKETS, CLOCKS, Clock, Deaths, FIRST_WIDTH_NS, Traffic};
use super::trend::{Flow, Settled, chance, whole};

/// Probability of a verdict by chance alone, at most, over all sites and all looks.
pub(super) const CHANCE: f64 = 0.01;
/// Least share of an even third that each third of the time must have.
const PART: f64 = 0.25;
/// Share of the settled blocks that may die in a time as long as the one that is looked at.
const DYING: f64 = 0.3;
/// Fewest buckets that show anything.
const LEAST_BUCKETS: u32 = 8;
/// Nanoseconds that a site is watched before its first verdict.
pub const FIRST_VERDICT_NS: u64 = LEAST_BUCKETS as u64 * FIRST_WIDTH_NS;
/// Nanoseconds that growth must have gone on for, unless set otherwise: most caches are full by then.
pub const WARM_UP_NS: u64 = 180_000_000_000;
/// Growth has stopped if its last part is below this share of the expected one, with a p-value below the second number.
const STOPPED: (f64, f64) = (0.5, 0.001);
/// The middle of even growth is at 0.5 of its time, with the second number as deviation, divided by the root of the
/// number of blocks. Where growth halves within the time, its middle is at 0.46: below the first number it may fade.
const EVEN_MIDDLE: (f64, f64) = (0.47, 0.29);
/// Low end, in bytes an hour, of growth beyond chance: zero is outside of the interval.
const LEAST_RATE: f64 = 1.0;
/// Fewest samples of other sites that show how busy the program is.
const LEAST_TRAFFIC: f64 = 50.0;

/// Verdict on the growth of live memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Not known: there are not enough samples, or not enough time has passed.
    #[default]
    Unknown,
    /// Does not grow, as far as can be seen: what comes goes again, and zero is within the interval.
    Steady,
    /// Shrinks: more goes than comes.
    Shrinking,
    /// Zero is outside of the interval, which happens by chance once in twenty times, and not yet beyond that; or it
    /// grows, and whether that fades may be chance.
    Undecided,
    /// Grew in steps, significantly.
    Uneven,
    /// Grew less and less, or has stopped, significantly: a cache that fills up, or a population that gathers.
    Slowing,
    /// Grows, too early to say whether growth will end.
    SoFar,
    /// Grows, with no sign of an end: a leak, until somebody knows better.
    Growing,
}

/// Growth of the live memory of a site or place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Growth {
    /// Verdict on the growth of the live bytes.
    pub verdict: Verdict,
    /// Growth of the settled blocks, in bytes per hour. The interval covers the chance by which blocks came and went,
    /// and by which they were sampled.
    pub bytes_per_hour: Estimate,
    /// Probability, from 0 to 1, that chance alone looks like this at one of the sites.
    pub chance: f64,
    /// Nanoseconds of the time that was looked at.
    pub over_ns: u64,
    /// Nanoseconds without a new sampled block that is settled or may be, in whole buckets.
    pub idle_ns: u64,
    /// Settled samples that an interval needs, of the kind counted in `samples`; 0 where there is an interval, and
    /// before there was time for any.
    pub needed_samples: u64,
}

impl Growth {
    /// The least bytes an hour by which the site grows; 0 where that is not known.
    pub fn surely(&self) -> f64 {
        self.bytes_per_hour.low.unwrap_or(0.0)
    }

    /// A key that sorts sites: the greatest one grows worst, by how much it surely does.
    pub fn rank(&self) -> (Verdict, f64) {
        match self.verdict {
            Verdict::Growing | Verdict::SoFar => (self.verdict, self.surely()),
            _ => (Verdict::Unknown, 0.0),
        }
    }
}

/// The findings of one clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Said {
    growth: Growth,
    stopped: bool,
    /// Samples of other sites a second; None where there are too few to tell.
    traffic: Option<f64>,
    /// Whether significantly more goes than comes.
    shrinks: bool,
    /// Evidence that would occur by chance with lasting growth as seldom as apparent growth without any.
    against: Against,
    /// The probability of chance that `against` was found with.
    rare: f64,
    /// Whether no look has found lasting growth yet.
    early: bool,
    /// Blocks that came into, and went out of, the settled ones: as many of the weight `weight` as would be as certain.
    came: f64,
    went: f64,
    weight: f64,
}

/// Significant evidence that growth, if there is any, is not lasting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Against {
    /// Whether growth fades, or has stopped.
    slows: bool,
    /// Whether settled blocks die. That is no sign of less growth while others may stay.
    dies: bool,
    /// Whether the second or the last third of the time has next to nothing of the growth.
    steps: bool,
}

impl Said {
    /// Joins the findings of a site's clocks, the one with the shortest memory first. What grows in a short memory may
    /// be a cache that a longer one sees fill up, and what grew in a long memory may have stopped.
    pub fn together(mut said: [Self; CLOCKS]) -> Growth {
        for shorter in 0..CLOCKS - 1 {
            let [short, long] = [said[shorter], said[shorter + 1]];
            if short.growth.verdict >= Verdict::SoFar && long.growth.verdict == Verdict::Slowing {
                said[shorter].growth.verdict = Verdict::Slowing;
                said[shorter].against.slows |= long.against.slows;
                said[shorter].against.dies |= long.against.dies;
            }
            let idle = short.traffic.zip(long.traffic).map_or(1.0, |(now, usual)| (now / usual).min(1.0));
            let usual = long.growth.bytes_per_hour.value * idle;
            let stopped =
                short.stopped || short.growth.bytes_per_hour.high.is_some_and(|high| high < STOPPED.0 * usual);
            if stopped && long.growth.verdict >= Verdict::SoFar {
                said[shorter + 1].growth.verdict = Verdict::Slowing;
                let rate = long.growth.bytes_per_hour.value;
                let refuted = short.refutes(rate, long.weight, long.traffic, short.rare);
                said[shorter + 1].against.slows |= refuted && !short.against.dies;
                said[shorter + 1].against.dies |= short.against.dies;
            }
        }
        let early = said[CLOCKS - 1].early;
        // Among clocks that see growth, the one that is surest. Of the others the longest that has a verdict, whatever
        // it says: the one that happens to see most would be chosen for its chance.
        let rank = |growth: &Growth| match growth.rank().0 {
            Verdict::Unknown => (Verdict::Unknown, f64::from(growth.verdict != Verdict::Unknown)),
            verdict => (verdict, -growth.chance),
        };
        let better = |best: Self, next: Self| {
            let (was, is) = (rank(&best.growth), rank(&next.growth));
            if is.0 > was.0 || is.0 == was.0 && (is.1 > was.1 || is.0 == Verdict::Unknown && is.1 == was.1) {
                next
            } else {
                best
            }
        };
        let said = said.into_iter().reduce(better).unwrap_or_default();
        Growth { verdict: said.verdict(early), ..said.growth }
    }

    /// `early` is for a first verdict, in which a false alarm is worse than a late one. The criteria of lasting growth
    /// are sensitive: a constant leak of some dozens of blocks fails them in one of six looks. So growth that fails
    /// them is only then said to slow down, or to come in steps, if that is significant.
    fn verdict(&self, early: bool) -> Verdict {
        match (self.growth.verdict, self.against) {
            (Verdict::Slowing | Verdict::Uneven, Against { slows: true, .. }) => Verdict::Slowing,
            (Verdict::Slowing | Verdict::Uneven, Against { steps: true, .. }) => Verdict::Uneven,
            (Verdict::Slowing | Verdict::Uneven, Against { dies: true, .. }) => Verdict::Undecided,
            (Verdict::Slowing | Verdict::Uneven, _) if early => Verdict::SoFar,
            (Verdict::Slowing | Verdict::Uneven, _) => Verdict::Undecided,
            (verdict, _) => verdict,
        }
    }

    /// Samples of other sites a second, as far as it is known.
    pub fn traffic(&self) -> Option<f64> {
        self.traffic
    }

    /// The weight of one settled block, in bytes; 0 without blocks.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Whether the blocks of this clock's time are evidence, as strong as a chance of `rare` is, against growth at half
    /// of `bytes_per_hour`, a rate that was found before. `weight` is that of one of its blocks, and `usual` what other
    /// sites allocated then.
    pub fn refutes(&self, bytes_per_hour: f64, weight: f64, usual: Option<f64>, rare: f64) -> bool {
        if self.shrinks || self.against.slows || self.against.dies || self.against.steps {
            return true;
        }
        let weight = weight.max(self.weight);
        if self.growth.over_ns == 0 || weight <= 0.0 {
            return false;
        }
        let idle = self.traffic.zip(usual).map_or(1.0, |(now, usual)| (now / usual).min(1.0));
        let expected = STOPPED.0 * idle * bytes_per_hour * self.growth.over_ns as f64 / 3.6e12 / weight;
        let net = self.came - self.went;
        net < expected && below((expected - net) / (self.came + self.went + expected).sqrt()) < rare
    }
}

/// Probability that a normal variable is more than so many deviations below its mean.
fn below(deviations: f64) -> f64 {
    0.5 * erfc(deviations / std::f64::consts::SQRT_2)
}

#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// CLOCK_MONOTONIC at which the process began to be watched.
    pub since_ns: u64,
    pub now_ns: u64,
    /// Number of tests that share the chance of an error.
    pub tests: f64,
    /// The longest period, in bytes.
    pub heaviest: f64,
    /// Uniform number in [0, 1) of the randomized tests: drawn once a site, independent of its samples.
    pub draw: f64,
    /// Nanoseconds before which no growth is called lasting.
    pub warm_up_ns: u64,
}

/// First bucket of the time that is looked at, out of those from `first` on and before `to`: it has three equal thirds,
/// and leaves out the first quarter. None where there are too few buckets.
fn begin(first: u32, to: u32) -> Option<u32> {
    let buckets = to.saturating_sub(first);
    (buckets >= LEAST_BUCKETS).then(|| to - 3 * (buckets / 4))
}

/// The lives of a site's blocks, by the buckets of one clock.
#[derive(Clone, Debug)]
pub struct Lives {
    /// Live blocks by the bucket of their birth.
    pub live: [Moments; BUCKETS as usize + 1],
    /// Blocks that died, by the buckets of birth and death.
    pub deaths: Deaths,
}

impl Default for Lives {
    fn default() -> Self {
        Self { live: [Moments::default(); BUCKETS as usize + 1], deaths: Deaths::default() }
    }
}

impl Lives {
    /// Blocks that were settled at the end of bucket `from` or of bucket `to`, but not at both.
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

    fn settled(&self) -> Settled {
        let live = (0..).zip(self.live).map(|(born, block)| (born, None, block));
        Settled::of(live.chain(self.deaths.iter().map(|(born, died, block)| (born, Some(died), block))))
    }

    /// The mean place of the growth within the time, from 0 to 1; `width` is how long each bucket counts.
    fn middle(&self, from: u32, to: u32, width: impl Fn(u32) -> f64) -> f64 {
        let (mut sum, mut places, mut passed) = (0.0, 0.0, 0.0);
        for end in from..to {
            let (net, width) = (self.flow(end, end + 1).net(), width(end));
            sum += net;
            places += net * (passed + 0.5 * width);
            passed += width;
        }
        places / sum / passed
    }

    /// By bucket, the samples of all other sites.
    fn others(&self, traffic: &Traffic) -> Traffic {
        let mut others = *traffic;
        for (born, block) in (0..).zip(&self.live) {
            others.take(born, block.samples);
        }
        for (born, _, block) in self.deaths.iter() {
            others.take(born, block.samples);
        }
        others
    }

    /// Whether growth has come to an end in the last few buckets, though there was as much to do: lasting growth would
    /// look like this by chance less often than `rare`.
    fn stopped(&self, from: u32, to: u32, others: &Traffic, rare: f64) -> bool {
        let weight = self.flow(from, to).weight();
        (1..=(to - from) / 3).any(|last| {
            let end = to - last;
            let (before, after) = (self.flow(from, end).net() / weight, self.flow(end, to).net() / weight);
            let by_clock = f64::from(last) / f64::from(to - from);
            let share = match others.between(from, to) {
                all if all >= LEAST_TRAFFIC => (others.between(end, to) / all).min(by_clock),
                _ => by_clock,
            };
            let expected = before * share / (1.0 - share);
            let after = after.max(0.0);
            // As likely as it is that of all these blocks so few come in the last part.
            before > 0.0
                && share > 0.0
                && after < STOPPED.0 * expected
                && beta_reg(before, after + 1.0, 1.0 - share) < rare
        })
    }

    /// The bytes of settled blocks that died, and the mean of those that lived. The first divided by the second is the
    /// share that would die in a time as long as this one.
    fn dying(&self, from: u32, to: u32) -> (f64, f64) {
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
        (died, lived / f64::from(to - from))
    }

    /// The lives as they would be if a block were settled once it has lived through `age` buckets.
    fn settled_after(&self, age: u32) -> Self {
        let mut older = Self::default();
        older.live[0] = self.live[0];
        let settles = |born: u32| if born == 0 { 0 } else { born + age - 1 };
        for (born, block) in (1..=BUCKETS).zip(&self.live[1..]) {
            if let Some(live) = older.live.get_mut(settles(born) as usize) {
                *live += *block;
            }
        }
        for (born, died, block) in self.deaths.iter() {
            older.deaths.add(settles(born), died, block);
        }
        older
    }

    /// The findings of one clock. `traffic` has the samples of all sites.
    ///
    /// A site may be two populations: blocks that stay beside those that are replaced after some buckets. Where settled
    /// blocks die, those that live longer are therefore looked at alone, too, and count where they last.
    pub fn growth(&self, clock: &Clock, traffic: &Traffic, asked: &Asked) -> Said {
        let others = self.others(traffic);
        let to = clock.over(asked.now_ns);
        let first = clock.bucket(asked.since_ns).max(1) - 1;
        let Some(from) = begin(first, to) else {
            return Said { growth: Growth { chance: 1.0, ..Growth::default() }, ..Said::default() };
        };
        let said = self.said(clock, (first, from, to), &others, asked);
        if said.growth.verdict >= Verdict::SoFar || !self.dies(from, to) {
            return said;
        }
        // What was there when the watching began has to be settled in time.
        let ages = 2..from - first;
        let each = Asked { tests: asked.tests * ages.len() as f64, ..*asked };
        let older = ages.map(|age| self.settled_after(age).said(clock, (first, from, to), &others, &each));
        older.into_iter().find(|older| older.growth.verdict >= Verdict::SoFar).unwrap_or(said)
    }

    /// Number of buckets before `to` since the birth of the last block that lives, or lived for more than a bucket.
    fn idle(&self, to: u32) -> u32 {
        let live = (0..).zip(&self.live).filter(|(_, block)| block.samples > 0).map(|(born, _)| born);
        let last = live.chain(self.deaths.iter().map(|(born, _, _)| born)).max().unwrap_or(0);
        to.saturating_sub(last)
    }

    /// Whether so many settled blocks die that apparent growth may be a population that gathers.
    fn dies(&self, from: u32, to: u32) -> bool {
        let (died, lived) = self.dying(from, to);
        lived > 0.0 && died > DYING * lived
    }

    /// The findings of one clock about its buckets before `to`, with growth from `from` on.
    fn said(&self, clock: &Clock, (first, from, to): (u32, u32, u32), others: &Traffic, asked: &Asked) -> Said {
        let over_ns = clock.width_ns() * u64::from(to - from);
        let flow = self.flow(from, to);
        let per_hour = 3.6e12 / over_ns as f64;
        let samples = flow.came.samples + flow.went.samples;
        let mut bytes_per_hour = Estimate { value: flow.net() * per_hour, samples, ..Estimate::default() };
        let chance_of = |flow: &Flow| (chance(flow) * asked.tests).min(1.0);
        let (chance, shrinks) = (chance_of(&flow), chance_of(&flow.reversed()) < CHANCE);
        let grows = chance < CHANCE;
        if grows || flow.enough(asked.heaviest) {
            let variance = self.settled().variance(from, to);
            let (rare, least) = (CHANCE / asked.tests, LEAST_RATE / per_hour);
            let (low, high) = match flow.limits(asked.heaviest, variance, asked.draw) {
                (low, _) if low > 0.0 && grows => {
                    let (low, high) = flow.limits_of_growth(rare, variance, asked.draw);
                    (low.max(least), high)
                }
                (_, high) if high < 0.0 && shrinks => {
                    let (low, high) = flow.reversed().limits_of_growth(rare, variance, asked.draw);
                    (-high, -low.max(least))
                }
                limits => limits,
            };
            (bytes_per_hour.low, bytes_per_hour.high) = (Some(low * per_hour), Some(high * per_hour));
        }
        let stopped = grows && self.stopped(from, to, others, STOPPED.1);
        let early = clock.width_ns() * u64::from(to - first) < asked.warm_up_ns;
        let verdict = match bytes_per_hour.interval() {
            None => Verdict::Unknown,
            Some((low, _)) if low > 0.0 && grows => match self.lasts(first, from, to, others) {
                _ if stopped => Verdict::Slowing,
                Verdict::Growing if early => Verdict::SoFar,
                verdict => verdict,
            },
            Some((_, high)) if high < 0.0 && shrinks => Verdict::Shrinking,
            Some((low, high)) if low > 0.0 || high < 0.0 => Verdict::Undecided,
            Some(_) => Verdict::Steady,
        };
        let traffic = others.between(from, to);
        let traffic = (traffic >= LEAST_TRAFFIC).then(|| traffic / over_ns as f64);
        let needed_samples = if bytes_per_hour.enough() { 0 } else { flow.needed(asked.heaviest) };
        let idle_ns = clock.width_ns() * u64::from(self.idle(to));
        let growth = Growth { verdict, bytes_per_hour, chance, over_ns, idle_ns, needed_samples };
        let (came, went) = whole(&flow);
        let rare = CHANCE / asked.tests;
        let against = self.against((first, from, to), others, rare);
        Said { growth, stopped, traffic, shrinks, against, rare, early, came, went, weight: flow.weight() }
    }

    /// Evidence that growth, if there is any, is not lasting: criteria as in [`Lives::lasts`] and [`Lives::stopped`],
    /// met by lasting growth by chance less often than `rare`.
    fn against(&self, (first, from, to): (u32, u32, u32), others: &Traffic, rare: f64) -> Against {
        let flow = self.flow(from, to);
        if flow.net() <= 0.0 {
            return Against::default();
        }
        let weight = flow.weight();
        let (died, lived) = self.dying(from, to);
        let (died, lived) = (died / weight, lived / weight);
        let dies = lived > 0.0 && died > DYING * lived && gamma_lr(died, DYING * lived) < rare;
        let blocks = flow.net() / weight;
        let is_short = |(n, share): (u32, f64)| {
            let third = (to - from) / 3;
            let part = self.flow(from + n * third, from + (n + 1) * third).net().max(0.0) / weight;
            part < PART * blocks * share && beta_reg(blocks - part, part + 1.0, 1.0 - share) < rare
        };
        // Nothing in the first third is growth that began later.
        let steps = (0..3).zip(self.shares(from, to, others)).skip(1).any(is_short);
        let slows = self.stopped(from, to, others, rare) || self.fades((first, to), others, rare);
        Against { slows, dies, steps }
    }

    /// Whether so much of what came and stayed came early that even growth would look so less often than `rare`.
    fn fades(&self, (first, to): (u32, u32), others: &Traffic, rare: f64) -> bool {
        // Without what happens at the very start.
        let early = first + (to - first).div_ceil(8);
        let (came, went) = whole(&self.flow(early, to));
        let blocks = (came - went) * (came - went) / (came + went);
        let is_early =
            |middle: f64| middle < EVEN_MIDDLE.0 && below((0.5 - middle) / EVEN_MIDDLE.1 * blocks.sqrt()) < rare;
        came > went && self.middles(early, to, others).all(is_early)
    }

    /// The places of the middle of growth: by the clock, and by what other sites allocated, as far as that is known.
    fn middles(&self, from: u32, to: u32, others: &Traffic) -> impl Iterator<Item = f64> {
        let by_clock = self.middle(from, to, |_| 1.0);
        let known = others.between(from, to) >= LEAST_TRAFFIC;
        let by_traffic = known.then(|| self.middle(from, to, |bucket| others.between(bucket, bucket + 1)));
        std::iter::once(by_clock).chain(by_traffic)
    }

    /// Most that each third of the time may have of even growth, as a share: less than a third where there was less to
    /// do.
    fn shares(&self, from: u32, to: u32, others: &Traffic) -> [f64; 3] {
        let (third, all) = ((to - from) / 3, others.between(from, to));
        [0, 1, 2].map(|n| {
            let (begin, end) = (from + n * third, from + (n + 1) * third);
            let busy = if all >= LEAST_TRAFFIC { others.between(begin, end) / all } else { 1.0 };
            busy.min(1.0 / 3.0)
        })
    }

    /// The kind of growth since `from`, if it goes on. The time began with `first`.
    fn lasts(&self, first: u32, from: u32, to: u32, others: &Traffic) -> Verdict {
        // Without what happens at the very start.
        let early = first + (to - first).div_ceil(8);
        let flow = self.flow(early, to);
        // How many blocks' worth of growth there is, among so many comings and goings.
        let (came, went) = whole(&flow);
        let blocks = (came - went) * (came - went) / (came + went);
        let least = EVEN_MIDDLE.0 - 0.1 / blocks.sqrt();
        let fades = flow.net() > 0.0 && self.middles(early, to, others).all(|middle| middle < least);
        if fades || self.dies(from, to) {
            return Verdict::Slowing;
        }
        let (third, net) = ((to - from) / 3, self.flow(from, to).net());
        let even = (0..3).zip(self.shares(from, to, others)).all(|(n, share)| {
            let (begin, end) = (from + n * third, from + (n + 1) * third);
            self.flow(begin, end).net() >= PART * net * share
        });
        if even { Verdict::Growing } else { Verdict::Uneven }
    }
}
