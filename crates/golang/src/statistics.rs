//! Statistics of benchmarks as Go's benchstat has them, which people compare with: medians with an interval by order
//! statistics, the Mann-Whitney U-test, the geometric mean. Nothing is assumed of how values are distributed.

use serde::Serialize;

/// Confidence level of all intervals.
const CONFIDENCE: f64 = 0.95;
/// The p-value below which a difference counts.
pub const ALPHA: f64 = 0.05;
/// Samples of more values have normal approximations.
const EXACT_ORDER: usize = 30;
const EXACT_TEST: usize = 50;
const EXACT_TEST_WITH_TIES: usize = 25;
/// Fewer values have no finite interval of the median at [`CONFIDENCE`].
pub const LEAST_FOR_INTERVAL: usize = 6;
/// Fewer values on each side differ significantly never.
pub const LEAST_FOR_DIFFERENCE: usize = 4;

/// The median, and between which values that of all runs lies in 95 of 100 cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// Median of the values, in the unit of the metric.
    pub median: f64,
    /// Lower end of the 95 % confidence interval of the median; null: too few values.
    pub low: Option<f64>,
    /// Upper end of the 95 % confidence interval of the median; null: too few values.
    pub high: Option<f64>,
}

impl Summary {
    pub fn of(values: &[f64]) -> Self {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        let n = values.len();
        let median = match (n, n % 2) {
            (0, _) => return Self::default(),
            (_, 1) => values[n / 2],
            _ => f64::midpoint(values[n / 2 - 1], values[n / 2]),
        };
        let (low, high) = orders(n);
        let at = |order: Option<usize>| order.and_then(|order| values.get(order.checked_sub(1)?)).copied();
        Self { median, low: at(low), high: at(high) }
    }

    /// The interval's larger half in percent of the median, as benchstat prints it behind `±`.
    pub fn percent(&self) -> Option<f64> {
        let (low, high) = (self.low?, self.high?);
        if self.median == 0.0 {
            return (low == 0.0 && high == 0.0).then_some(0.0);
        }
        let halves = (high / self.median - 1.0).max(1.0 - low / self.median);
        (low > 0.0 && self.median > 0.0).then_some(100.0 * halves)
    }
}

/// The order statistics, from 1, that bound the interval of the median; None beyond the sample.
fn orders(n: usize) -> (Option<usize>, Option<usize>) {
    let inside = |order: f64| (order >= 1.0 && order <= n as f64).then_some(order as usize);
    if n > EXACT_ORDER {
        // The binomial distribution's normal approximation, with the correction for continuity.
        let (mean, deviation) = (n as f64 / 2.0, (n as f64).sqrt() / 2.0);
        let bound = mean + deviation * normal_quantile((1.0 - CONFIDENCE) / 2.0);
        let (low, high) = ((bound - 0.5).floor() + 1.0, (2.0 * mean - bound - 0.5).ceil() + 1.0);
        let below = |order: f64| normal((order - 0.5 - mean) / deviation);
        // One order less may be enough.
        let enough = below(high - 1.0) - below(low) >= CONFIDENCE;
        return (inside(low), inside(if enough { high - 1.0 } else { high }));
    }
    // The interval grows from the middle of the binomial distribution, the left side first, until it has enough.
    let chance = |k: Option<usize>| k.filter(|&k| k <= n).map_or(0.0, |k| choose(n, k) * 0.5_f64.powi(n as i32));
    let mut left = n.div_ceil(2).saturating_sub(usize::from(n % 2 == 1));
    let mut right = left + 1;
    let mut sum = chance(Some(left));
    loop {
        let (before, after) = (chance(left.checked_sub(1)), chance(Some(right)));
        if sum >= CONFIDENCE || before <= 0.0 && after <= 0.0 {
            break;
        }
        if before >= after {
            sum += before;
            left -= 1;
        } else {
            sum += after;
            right += 1;
        }
    }
    (inside(left as f64), inside(right as f64))
}

/// The p-value of the Mann-Whitney U-test: how likely two samples of one population differ as much. None where one is
/// empty or all values are equal: then there is nothing to test.
pub fn difference(before: &[f64], after: &[f64]) -> Option<f64> {
    let (n1, n2) = (before.len(), after.len());
    let mut merged: Vec<(f64, bool)> =
        before.iter().map(|&v| (v, true)).chain(after.iter().map(|&v| (v, false))).collect();
    merged.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Groups of equal values: their sizes. Twice the rank sum of the first sample, as ranks of ties are halves.
    let mut ties: Vec<usize> = Vec::new();
    let mut twice_ranks = 0_usize;
    let mut from = 0;
    while let Some(first) = merged.get(from) {
        let group = merged[from..].iter().take_while(|(value, _)| *value == first.0);
        let (size, of_first) = group.fold((0, 0), |(size, first), (_, is)| (size + 1, first + usize::from(*is)));
        twice_ranks += of_first * (2 * from + size + 1);
        ties.push(size);
        // A value that is not equal to itself would be a group of none.
        from += size.max(1);
    }
    if n1 == 0 || n2 == 0 || ties.len() == 1 {
        return None;
    }
    let twice_u = twice_ranks - n1 * (n1 + 1);
    let other = 2 * n1 * n2 - twice_u;
    let has_ties = ties.iter().any(|&size| size > 1);
    let limit = if has_ties { EXACT_TEST_WITH_TIES } else { EXACT_TEST };
    if n1.max(n2) > limit {
        return approximate(n1, n2, twice_u, &ties);
    }
    if twice_u == other {
        return Some(1.0);
    }
    Some(2.0 * exact(n1, twice_u.min(other), &ties))
}

/// The chance that the statistic is at most this, for groups of ties: each group gives some of its values to the first
/// sample, in as many ways.
fn exact(n1: usize, twice_u: usize, ties: &[usize]) -> f64 {
    let most = twice_u + n1 * (n1 + 1);
    // By values of the first sample so far, the ways by twice their rank sum.
    let mut ways = vec![vec![0.0_f64; most + 1]; n1 + 1];
    ways[0][0] = 1.0;
    let mut from = 0;
    for &size in ties {
        let twice_rank = 2 * from + size + 1;
        for taken in (1..=n1).rev() {
            for of_group in 1..=size.min(taken) {
                let (sum, factor) = (of_group * twice_rank, choose(size, of_group));
                let (fewer, rest) = ways.split_at_mut(taken);
                for (at, &ways_before) in fewer[taken - of_group].iter().enumerate() {
                    if let Some(ways) = rest[0].get_mut(at + sum) {
                        *ways += factor * ways_before;
                    }
                }
            }
        }
        from += size;
    }
    let all = choose(from, n1);
    ways[n1].iter().sum::<f64>() / all
}

/// The normal approximation, with the corrections for ties and continuity.
fn approximate(n1: usize, n2: usize, twice_u: usize, ties: &[usize]) -> Option<f64> {
    let (product, all) = ((n1 * n2) as f64, (n1 + n2) as f64);
    let correction: f64 = ties.iter().map(|&t| (t * t * t - t) as f64).sum();
    let deviation = (product * (all + 1.0 - correction / (all * (all - 1.0))) / 12.0).sqrt();
    let off = twice_u as f64 / 2.0 - product / 2.0;
    let corrected = off - off.signum() * if off == 0.0 { 0.0 } else { 0.5 };
    (deviation > 0.0).then(|| (2.0 * normal(-(corrected / deviation).abs())).min(1.0))
}

/// The geometric mean; None where one is not above 0, which has none.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let above = !values.is_empty() && values.iter().all(|&value| value > 0.0);
    above.then(|| (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp())
}

fn choose(n: usize, k: usize) -> f64 {
    (0..k.min(n - k.min(n))).fold(1.0, |product, at| product * (n - at) as f64 / (at + 1) as f64)
}

/// The standard normal distribution's cumulative function: of the complementary error function by its continued
/// fraction and its series.
fn normal(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let tail = if x < 3.0 {
        // erf by its Taylor series.
        let mut term = x;
        let mut sum = x;
        for n in 1..200 {
            let n = f64::from(n);
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        1.0 - sum * 2.0 / std::f64::consts::PI.sqrt()
    } else {
        let fraction = (1..=100).rev().fold(x, |rest, n| x + f64::from(n) / 2.0 / rest);
        (-x * x).exp() / fraction / std::f64::consts::PI.sqrt()
    };
    if z < 0.0 { tail / 2.0 } else { 1.0 - tail / 2.0 }
}

/// The inverse of [`normal`], by bisection: a few digits of it are needed, once.
fn normal_quantile(p: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if normal(middle) < p { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn intervals_of_medians() {
        // The orders are those of golang.org/x/perf/benchmath.
        // Of five the upper side has an order, and the lower one none: no interval.
        for (n, orders_of) in
            [(1, (None, None)), (5, (None, Some(5))), (6, (Some(1), Some(6))), (10, (Some(2), Some(9)))]
        {
            assert_eq!(orders(n), orders_of, "{n}");
        }
        let one = Summary::of(&[3.0]);
        assert_eq!((one.median, one.low, one.percent()), (3.0, None, None));
        let six = Summary::of(&[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]);
        assert_eq!((six.median, six.low, six.high), (3.5, Some(1.0), Some(6.0)));
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        let ten = Summary::of(&ten);
        assert!(
            (ten.percent().expect("an interval") - 100.0 * (1.0_f64 - 2.0 / 5.5).max(9.0 / 5.5 - 1.0)).abs() < 1e-9
        );
        assert_eq!(Summary::of(&[0.0; 6]).percent(), Some(0.0));
        assert_eq!(Summary::of(&[]), Summary::default());
        assert_eq!(LEAST_FOR_INTERVAL, (1..).find(|&n| orders(n).0.is_some() && orders(n).1.is_some()).expect("one"));
    }

    #[test]
    fn p_values() {
        let values = |from: i32, n: i32| (from..from + n).map(f64::from).collect::<Vec<_>>();
        for (n, least) in [(1, 1.0), (2, 1.0 / 3.0), (3, 0.1), (4, 2.0 / 70.0), (5, 2.0 / 252.0), (9, 2.0 / 48_620.0)] {
            let p = difference(&values(0, n), &values(100, n)).expect("a test");
            assert!(close(p, least), "{n}: {p}");
        }
        let least = (1..).find(|&n| difference(&values(0, n), &values(100, n)) <= Some(ALPHA)).expect("one");
        assert_eq!(least as usize, LEAST_FOR_DIFFERENCE);
        // Interleaved: R's wilcox.test has 0.6667 of 1, 3 and 2, 4.
        assert!(close(difference(&[1.0, 3.0], &[2.0, 4.0]).expect("a test"), 2.0 / 3.0));
        // With ties: 20 ways to choose, by hand. {1,1,2} against {2,3,3}: U = 0.5.
        let tied = difference(&[1.0, 1.0, 2.0], &[2.0, 3.0, 3.0]).expect("a test");
        assert!(close(tied, 2.0 * 2.0 / 20.0), "{tied}");
        assert_eq!(difference(&[1.0, 1.0], &[1.0]), None);
        assert_eq!(difference(&[], &[1.0]), None);
        assert_eq!(difference(&[1.0, 4.0], &[2.0, 3.0]), Some(1.0));
        assert!(difference(&values(0, 60), &values(1000, 60)).expect("a test") < 1e-12);
        let near = difference(&values(0, 60), &values(5, 60)).expect("a test");
        assert!(near > ALPHA && near < 0.2, "{near}");
    }

    #[test]
    fn the_normal_distribution() {
        for (z, p) in
            [(0.0, 0.5), (1.0, 0.841_344_746_068_543), (-1.96, 0.024_997_895_148_220_4), (5.0, 0.999_999_713_348_428)]
        {
            assert!((normal(z) - p).abs() < 1e-12, "{z}: {}", normal(z));
        }
        assert!((normal_quantile(0.025) + 1.959_963_984_540_05).abs() < 1e-9);
        assert!(geometric_mean(&[1.0, 4.0]).is_some_and(|mean| close(mean, 2.0)));
        assert_eq!((geometric_mean(&[1.0, 0.0]), geometric_mean(&[])), (None, None));
    }
}
