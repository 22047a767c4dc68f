//! Between which limits the truth lies, from what a sum of samples says about its own distribution.
//!
//! A sum of samples is no normal variable: with ten of them it is as skewed as Poisson's distribution, and with sizes
//! around the period it is skewed the other way, because few are missed rather than few are picked. So the limits come
//! from a test that is inverted: a value is within them unless a sum as small, or as large, as the one that was found
//! would be one of the 2.5 % most unlikely ones. Three things make them hold for sums of few samples:
//!
//! - The sum is taken for `rest + weight × n`, with `n` picked out of `N` with probability `p` each. Weight, `p` and
//!   rest are such that mean, variance, skewness and what mean and variance have in common are those of the samples.
//!   For blocks of one size that is the very distribution, and nothing is approximated.
//! - Limits are shown only above a number of samples, and what was shown by luck had more than its expectation. So the
//!   distribution is cut there: what is asked is how likely the sum would be among those that are shown.
//! - Counts are whole numbers, and no fixed rule for whole numbers covers 95 in 100: it would be 93 for some truths and
//!   97 for others. Between one number and the next the limits are therefore randomized, by one uniform draw a site.

use statrs::function::beta::beta_reg;
use statrs::function::erf::erfc;
use statrs::function::gamma::gamma_lr;

/// Probability that the truth is outside of the limits.
const MISS: f64 = 0.05;
/// Strides of one length down to a limit; those that follow are twice as long each.
const STRIDES: u32 = 16;

/// A sum of samples and the distribution that it comes from.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub value: f64,
    /// Estimated variance of the sum, above 0.
    pub variance: f64,
    /// Change of the sum by one sample.
    pub weight: f64,
    /// Share of such allocations that is missed, above 0: the part of a sample's weight that is by chance.
    pub missed: f64,
    /// The variance below which no limits are shown.
    pub least_variance: f64,
    /// Lower bound of the truth: so much was seen.
    pub floor: f64,
    /// Uniform number in [0, 1) of the randomized test.
    pub draw: f64,
}

impl Spread {
    /// The limits between which the truth lies 95 times in a hundred.
    ///
    /// Half of the misses are on either side. Only truths so small that limits are seldom shown cannot be missed from
    /// above, so that the other side has these misses too.
    pub fn limits(&self) -> (f64, f64) {
        let low = self.crossing(|truth| {
            let (larger, shown) = self.larger(truth);
            larger - MISS * (1.0 - 0.5 * shown)
        });
        let high = self.crossing(|truth| {
            let (larger, shown) = self.larger(truth);
            larger - 1.0 + MISS * 0.5 * shown
        });
        // Numbers of a file may contradict each other: what was seen be more than the sum.
        (low.min(high), high)
    }

    /// The truth at which a function of it crosses zero from below; the floor, where that is above.
    fn crossing(&self, function: impl Fn(f64) -> f64) -> f64 {
        let mut stride = self.variance.sqrt() + self.weight;
        let (mut below, mut above) = (self.value, self.value);
        let (mut under, mut over) = (function(below), 0.0);
        if under < 0.0 {
            // 60 doublings lead anywhere.
            for _ in 0..60 {
                above = below + stride;
                over = function(above);
                if over >= 0.0 {
                    break;
                }
                (below, under, stride) = (above, over, 2.0 * stride);
            }
        } else {
            over = under;
            // Two or three strides are usual. A stride below the precision of the value leads nowhere, however many
            // there are.
            let mut strides = 0;
            while under >= 0.0 {
                if below <= self.floor || strides == STRIDES + 60 {
                    return self.floor;
                }
                stride *= if strides < STRIDES { 1.0 } else { 2.0 };
                strides += 1;
                (above, over) = (below, under);
                below = (above - stride).max(self.floor);
                under = function(below);
            }
        }
        // Regula falsi, in which an end that stays counts half the next time.
        let tolerance = stride * 1e-5;
        let mut stayed = 0;
        for _ in 0..60 {
            if above - below < tolerance {
                break;
            }
            // Not `clamp`, which panics at ends of nonsense: of numbers whose sums are infinite, or no numbers.
            let at = (below + (above - below) * under / (under - over)).max(below).min(above);
            let value = function(at);
            if value.abs() < 1e-6 {
                return at;
            }
            if value < 0.0 {
                (below, under) = (at, value);
                over *= if stayed == 1 { 0.5 } else { 1.0 };
                stayed = 1;
            } else {
                (above, over) = (at, value);
                under *= if stayed == 2 { 0.5 } else { 1.0 };
                stayed = 2;
            }
        }
        0.5 * (below + above)
    }

    /// If this is the truth: the probability of a larger sum among those that are shown, and that of a sum that is
    /// shown. Both rise with the truth.
    fn larger(&self, truth: f64) -> (f64, f64) {
        let Self { value, variance, weight, missed, .. } = *self;
        let picked = 1.0 - missed;
        // Of `value = rest + weight × n`.
        let n = variance / (weight * weight * missed);
        let expected = (truth - value) / weight + n;
        let least = self.least_variance / (weight * weight * missed);
        let shown = at_least(n - (n - least + 1e-9).floor(), expected, picked);
        let larger =
            self.draw * at_least(n, expected, picked) + (1.0 - self.draw) * at_least(n + 1.0, expected, picked);
        (if shown > 0.0 { (larger / shown).min(1.0) } else { 0.0 }, shown)
    }
}

/// Probability that at least `n` are picked, each with probability `picked`, if `expected` are on average.
fn at_least(n: f64, expected: f64, picked: f64) -> f64 {
    if expected <= 0.0 {
        return 0.0;
    }
    if n <= 0.0 {
        return 1.0;
    }
    let (spread, skewness) = ((expected * (1.0 - picked)).sqrt(), 1.0 - 2.0 * picked);
    if spread > 50.0 {
        // Nearly normal: no need for more.
        let z = (n - 0.5 - expected) / spread;
        let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
        let normal = 0.5 * erfc(z / std::f64::consts::SQRT_2);
        return (normal + skewness / spread / 6.0 * (z * z - 1.0) * density).clamp(0.0, 1.0);
    }
    const RARELY: f64 = 1e-4;
    if picked < RARELY {
        return gamma_lr(n, expected);
    }
    let missed = expected / picked - n + 1.0;
    if missed > 0.0 { beta_reg(n, missed, picked) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file may name a sum whose neighbours, as numbers of 64 bits, are further away than its deviation.
    #[test]
    fn a_value_without_near_neighbours_has_limits_after_some_steps() {
        for (value, floor) in [(1e17, 0.0), (1e17, 1e16), (1e17, f64::MIN), (f64::MAX, f64::MIN)] {
            let of = Spread { value, variance: 1.0, weight: 1.0, missed: 1.0, least_variance: 0.0, floor, draw: 0.5 };
            let steps = std::cell::Cell::new(0);
            let low = of.crossing(|truth| {
                steps.set(steps.get() + 1);
                assert!(steps.get() < 200, "{value} from {floor}: {truth} is step {}", steps.get());
                of.larger(truth).0 - MISS
            });
            assert!(floor <= low && low <= value, "{value} from {floor}: {low}");
        }
    }

    #[test]
    fn at_least_is_the_distribution_of_what_is_picked() {
        // 3 of 10 with probability 0.4, by hand; and Poisson's distribution.
        assert!((at_least(3.0, 4.0, 0.4) - 0.832_710_246_4).abs() < 1e-9);
        assert!((at_least(1.0, 2.0, 1e-6) - (1.0 - (-2.0f64).exp())).abs() < 1e-5);
        assert_eq!((at_least(0.0, 1.0, 0.5), at_least(3.0, 0.0, 0.5)), (1.0, 0.0));
        assert_eq!(at_least(12.0, 4.0, 0.4), 0.0, "10 are all there are");
        // Where it goes over to the nearly normal one.
        for (n, expected, picked) in [(2450.0, 2499.0, 1e-6), (2600.0, 2499.0, 1e-6), (24_950.0, 24_990.0, 0.9)] {
            let (exact, near) = (at_least(n, expected, picked), at_least(n, expected * 1.0001 + 1.0, picked));
            assert!((exact - near).abs() < 0.03, "{n}: {exact} {near}");
        }
    }
}
