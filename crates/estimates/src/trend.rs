//! The interval of a rate of growth: between which limits the rate of the process that makes and ends blocks lies.
//!
//! A rate is a statement about what goes on, and not about the very blocks that came and went in the time that was
//! looked at. A cache of fixed size with a few hundred entries has now more, now fewer settled ones, although nothing
//! grows, and that would be so if each of its blocks were picked. So the limits hold both kinds of chance: which blocks
//! were picked, and which blocks there were. Picked blocks that come independently of each other are as many as
//! Poisson's distribution has them, however likely each of them was to be picked; that is the distribution of the test
//! whether a site grows, too.
//!
//! Blocks are not always independent: what is freed at once goes up and down together. Where the settled bytes are
//! over-dispersed (their variance about a straight line is far above that of independent blocks), that variance
//! replaces Poisson's.

use statrs::function::beta::beta_reg;

use super::estimate::{LEAST_SAMPLES, Moments};
use super::lives::BUCKETS;

/// Probability, on either side, that chance alone leaves zero out of the interval.
const MISS: f64 = 0.025;
/// z-score of a two-sided 95 % normal interval.
const Z_95: f64 = 1.96;
/// Ratio of the settled bytes' variance to that of independent blocks above which they count as over-dispersed. Below
/// it, a variance measured at a dozen points may be chance.
const OVER_DISPERSED: f64 = 2.0;

/// Blocks that came into, and went out of, the settled ones between two ends of buckets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flow {
    pub came: Moments,
    pub went: Moments,
}

impl Flow {
    /// Bytes that came, less those that went.
    pub fn net(&self) -> f64 {
        self.came.value - self.went.value
    }

    /// Swaps births and deaths: growth of the result is shrinkage of this flow.
    pub fn reversed(self) -> Self {
        Self { came: self.went, went: self.came }
    }

    /// Bytes of one block, if all weighed the same and were as sure together; 0 without blocks.
    pub fn weight(&self) -> f64 {
        let value = self.came.value + self.went.value;
        if value > 0.0 { self.squares() / value } else { 0.0 }
    }

    fn squares(&self) -> f64 {
        self.came.squares + self.went.squares
    }

    /// Whether there are enough blocks for an interval, where one that was missed may have the weight `heaviest`.
    pub fn enough(&self, heaviest: f64) -> bool {
        let squares = self.squares();
        squares > 0.0 && squares >= self.least(heaviest)
    }

    /// Number of samples that an interval needs, if they weigh as those that there are.
    pub fn needed(&self, heaviest: f64) -> u64 {
        let samples = (self.came.samples + self.went.samples) as f64;
        let squares = self.squares();
        let needed = if squares > 0.0 { samples * self.least(heaviest) / squares } else { LEAST_SAMPLES };
        needed.ceil() as u64
    }

    fn least(&self, heaviest: f64) -> f64 {
        LEAST_SAMPLES * heaviest.max(self.weight()).powi(2)
    }

    /// 95 % confidence interval of the expected net growth, in bytes. `heaviest` is the largest weight of a block that
    /// was missed, `variance` that of the settled bytes ([`Settled::variance`]), `draw` a uniform number in [0, 1)
    /// (randomized test). Precondition: there are blocks.
    pub fn limits(&self, heaviest: f64, variance: f64, draw: f64) -> (f64, f64) {
        let least = self.least(heaviest);
        let alone = if self.came.squares > 0.0 && self.went.squares > 0.0 { 0.0 } else { least };
        let (low, high) = self.between(alone, variance, draw);
        // What came without anything that went may have been about to go. Zero is outside where the test says so as
        // well.
        let low = if chance(self) < MISS { low } else { low.min(0.0) };
        let high = if chance(&self.reversed()) < MISS { high } else { high.max(0.0) };
        (low, high)
    }

    /// 95 % confidence interval, in bytes, of growth that is shown only because its p-value is below `rare`. Such a
    /// selection overstates growth (the winner's curse), so the interval is conditional on having been shown: at the
    /// threshold itself its lower limit is near zero. `variance` and `draw` as for [`Flow::limits`]. Precondition:
    /// `chance(self) < rare`.
    pub fn limits_of_growth(&self, rare: f64, variance: f64, draw: f64) -> (f64, f64) {
        let (came, went) = whole(self);
        let (mut below, mut above) = (went, came);
        for _ in 0..40 {
            let middle = 0.5 * (below + above);
            if chance_of(middle, went) < rare { above = middle } else { below = middle }
        }
        self.between(self.came.squares * above / came, variance, draw)
    }

    /// `least` is the sum of the squares of what came, or of what went where nothing came, below which nothing is
    /// shown.
    fn between(&self, least: f64, variance: f64, draw: f64) -> (f64, f64) {
        let net = self.net();
        let (down, up) = match (self.came.squares > 0.0, self.went.squares > 0.0) {
            (true, true) => {
                let came = self.came.arrivals(least, draw);
                // A second uniform draw from the same 53 random bits: independent enough for a randomized test.
                let went = self.went.arrivals(0.0, (draw * 65_536.0).fract());
                let down = (self.came.value - came.0).hypot(went.1 - self.went.value);
                (down, (came.1 - self.came.value).hypot(self.went.value - went.0))
            }
            (true, false) => {
                let came = self.came.arrivals(least, draw);
                (self.came.value - came.0, came.1 - self.came.value)
            }
            (false, _) => {
                let went = self.went.arrivals(least, draw);
                (went.1 - self.went.value, self.went.value - went.0)
            }
        };
        // The net is a difference of two ends, each with that variance.
        let (variance, squares) = (2.0 * variance, self.squares());
        let more = if variance > OVER_DISPERSED * squares { Z_95 * (variance - squares).sqrt() } else { 0.0 };
        (net - down.hypot(more), net + up.hypot(more))
    }
}

/// Numbers of blocks of one weight that would be as sure: those that came, and those that went.
pub fn whole(flow: &Flow) -> (f64, f64) {
    let weight = flow.weight();
    (flow.came.value / weight, flow.went.value / weight)
}

/// Probability that so many come and so few go, if each block is as likely to do one as the other.
pub fn chance(flow: &Flow) -> f64 {
    if flow.net() <= 0.0 {
        return 1.0;
    }
    let (came, went) = whole(flow);
    chance_of(came, went)
}

fn chance_of(came: f64, went: f64) -> f64 {
    let at_least = beta_reg(came, went + 1.0, 0.5);
    let more = if went > 0.0 { beta_reg(came + 1.0, went, 0.5) } else { 0.0 };
    0.5 * (at_least + more)
}

/// Settled bytes at the end of each bucket.
#[derive(Clone, Debug)]
pub struct Settled {
    bytes: [f64; BUCKETS as usize + 2],
}

impl Settled {
    /// `blocks` are with the buckets of their birth and of their death, if they died.
    pub fn of(blocks: impl Iterator<Item = (u32, Option<u32>, Moments)>) -> Self {
        let mut bytes = [0.0; BUCKETS as usize + 2];
        for (born, died, block) in blocks {
            let died = died.unwrap_or(BUCKETS + 1);
            if died > born + 1 {
                bytes[(born + 1) as usize] += block.value;
                bytes[died as usize] -= block.value;
            }
        }
        let mut sum = 0.0;
        for change in &mut bytes {
            sum += *change;
            *change = sum;
        }
        Self { bytes }
    }

    /// Variance of the settled bytes about a straight line, from the end of bucket `from` to that of `to`; 0 with fewer
    /// than four points.
    pub fn variance(&self, from: u32, to: u32) -> f64 {
        let points = &self.bytes[from as usize..=to as usize];
        let n = points.len() as f64;
        if n < 4.0 {
            return 0.0;
        }
        let (middle, mean) = ((n - 1.0) / 2.0, points.iter().sum::<f64>() / n);
        let (mut places, mut both, mut squares) = (0.0, 0.0, 0.0);
        for (place, bytes) in points.iter().enumerate() {
            let (x, y) = (place as f64 - middle, bytes - mean);
            (places, both, squares) = (places + x * x, both + x * y, squares + y * y);
        }
        ((squares - both * both / places) / (n - 2.0)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(count: u32, bytes: f64) -> Moments {
        let mut sum = Moments::default();
        (0..count).for_each(|_| sum += Moments::of(bytes, 1.0));
        sum
    }

    #[test]
    fn blocks_that_are_all_picked_leave_the_rate_open() {
        let flow = |came, went| Flow { came: blocks(came, 100.0), went: blocks(went, 100.0) };
        assert!(!flow(7, 0).enough(100.0) && flow(8, 0).enough(100.0) && !flow(8, 0).enough(200.0));
        let (low, high) = flow(100, 100).limits(100.0, 0.0, 0.5);
        // Two Poisson variables of 100: 1.96 × √200, and a little more above than below.
        assert!((low + 2770.0).abs() < 150.0 && (high - 2770.0).abs() < 150.0, "{low} {high}");
        let (low, high) = flow(20, 0).limits(100.0, 0.0, 0.5);
        assert!((low - 1240.0).abs() < 100.0 && (high - 3030.0).abs() < 100.0, "{low} {high}");
        assert_eq!(flow(4, 0).limits(100.0, 0.0, 0.5).0, 0.0, "four of four by chance are seen once in 32 times");
        assert_eq!(flow(0, 4).limits(100.0, 0.0, 0.5).1, 0.0);
        // What is shown from 17 on, and is 17, may be anything; what is far above is what it is.
        let rare = 0.5f64.powi(18) * 1.01;
        let (low, high) = flow(17, 0).limits_of_growth(rare, 0.0, 0.5);
        // 17 is at the threshold: no mean is too small for it, and the largest is below 27.2, which 17 alone would
        // allow.
        assert!(low < 1.0 && (2200.0..2700.0).contains(&high), "{low} {high}");
        let (low, _) = flow(20, 0).limits_of_growth(rare, 0.0, 0.5);
        assert!((500.0..1000.0).contains(&low), "{low}");
        let (low, _) = flow(60, 0).limits_of_growth(rare, 0.0, 0.5);
        assert!((low - 4580.0).abs() < 100.0, "{low}");
    }

    #[test]
    fn over_dispersed_bytes_are_no_trend() {
        let alternating = Settled { bytes: std::array::from_fn(|end| if end % 4 < 2 { 0.0 } else { 2000.0 }) };
        let flow = Flow { came: blocks(20, 100.0), went: Moments::default() };
        let (low, high) = flow.limits(100.0, alternating.variance(5, 23), 0.5);
        assert!(low < 0.0 && high > 4000.0, "{low} {high}");
        let rising = Settled { bytes: std::array::from_fn(|end| 300.0 * end as f64) };
        assert!(rising.variance(5, 23) < 1e-3, "{}", rising.variance(5, 23));
    }

    #[test]
    fn settled_are_those_that_lived_through_a_bucket() {
        let settled = Settled::of(
            [(2, Some(5), blocks(1, 10.0)), (3, Some(4), blocks(1, 100.0)), (4, None, blocks(1, 7.0))].into_iter(),
        );
        assert_eq!(settled.bytes[..8], [0.0, 0.0, 0.0, 10.0, 10.0, 7.0, 7.0, 7.0]);
    }
}
