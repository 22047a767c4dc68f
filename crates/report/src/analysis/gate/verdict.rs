//! Whether figures are within what is allowed.

use serde::Serialize;

use super::figures::{Figures, Metric, Tolerance};

/// How far a figure may be from its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Slack {
    /// Distance as a number.
    Absolute(u64),
    /// Distance in percent of the baseline, rounded down.
    Percent(f64),
}

impl Slack {
    fn of(self, baseline: i64) -> i64 {
        match self {
            Self::Absolute(n) => i64::try_from(n).unwrap_or(i64::MAX),
            Self::Percent(percent) => (baseline.unsigned_abs() as f64 * percent.max(0.0) / 100.0) as i64,
        }
    }
}

/// Bounds of a metric, whatever the baseline has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Lower bound, inclusive. A lower figure says that the limit is too high, or, of what may be below zero, that
    /// nothing was measured.
    pub min: Option<i64>,
    /// Upper bound, inclusive.
    pub max: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limit {
    pub bounds: Bounds,
    /// How far the figure may be above the baseline; None: as far as the metric allows by itself or the baseline
    /// tolerates.
    pub up: Option<Slack>,
    /// How far the figure may be below the baseline; a lower one is an improvement that the baseline should have.
    pub down: Option<Slack>,
}

/// The limits of a case. A metric without an entry is compared with the baseline exactly.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    pub of: Vec<(Metric, Limit)>,
    /// A limit of `total_allocations` that overrides all others, with where it came from.
    pub outright: Option<(String, i64)>,
    /// Whether the limits alone decide; a baseline is there for comparison.
    pub alone: bool,
}

impl Limits {
    pub fn set_bounds(&mut self, metric: Metric, bounds: Bounds) {
        match self.of.iter_mut().find(|(of, _)| *of == metric) {
            Some((_, own)) => own.bounds = bounds,
            None => self.of.push((metric, Limit { bounds, ..Limit::default() })),
        }
    }

    /// Whether a metric has a limit that needs no baseline.
    pub fn absolute(&self) -> bool {
        self.outright.is_some() || self.of.iter().any(|(_, limit)| limit.bounds != Bounds::default())
    }

    pub fn get(&self, metric: Metric) -> Limit {
        self.of.iter().find(|(of, _)| *of == metric).map(|(_, limit)| *limit).unwrap_or_default()
    }
}

/// Bytes may differ by 1 %: a path or a host name of another length is no regression. What the runs of the baseline
/// differed by is no regression either. A slack that was set overrides both.
fn slack(metric: Metric, set: Option<Slack>, baseline: i64, tolerance: &Tolerance) -> i64 {
    let standard = match metric {
        Metric::TotalAllocatedBytes => Slack::Percent(1.0),
        _ => Slack::Absolute(0),
    };
    match set {
        Some(slack) => slack.of(baseline),
        None => standard.of(baseline).max(Slack::Absolute(tolerance.get(metric)).of(baseline)),
    }
}

/// Outcome of a case or of one of its metrics; the later ones outweigh the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The figure is within what is allowed.
    Passed,
    /// The figure is below what is allowed: lower the baseline.
    Improved,
    /// The figure is above what is allowed.
    Regressed,
    /// There is no verdict: nothing was counted, the figure cannot be true, or there is nothing to compare it with.
    Broken,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// Metric that is checked.
    pub metric: Metric,
    /// Measured figure, in the unit of the metric; null where it is not known.
    pub figure: Option<i64>,
    /// Figure of the baseline, in the unit of the metric; null without one.
    pub baseline: Option<i64>,
    /// Smallest figure that passes; null: no limit.
    pub lowest: Option<i64>,
    /// Largest figure that passes; null: no limit.
    pub highest: Option<i64>,
    /// Result of the check.
    pub verdict: Verdict,
    /// Reason why the metric did not pass, or limit that overrode the others, in words; null elsewhere.
    pub why: Option<String>,
}

/// Decides on all metrics of a case. The case's verdict is the worst of them. Limits decide alone where there is no
/// baseline, or where they say so ([`Limits::alone`]).
pub fn decide(figures: &Figures, baseline: Option<&Figures>, tolerance: &Tolerance, limits: &Limits) -> Vec<Check> {
    let baseline = baseline.filter(|_| !limits.alone);
    Metric::ALL.into_iter().map(|metric| check(metric, figures, baseline, tolerance, limits)).collect()
}

const BELOW_ZERO: &str = "below zero: blocks or descriptors were released that were made outside of the region";

fn check(
    metric: Metric,
    figures: &Figures,
    baseline: Option<&Figures>,
    tolerance: &Tolerance,
    limits: &Limits,
) -> Check {
    let figure = figures.get(metric);
    let of_baseline = baseline.and_then(|baseline| baseline.get(metric));
    let limit = limits.get(metric);
    let mut check = Check {
        metric,
        figure,
        baseline: of_baseline,
        lowest: of_baseline.map(|n| n.saturating_sub(slack(metric, limit.down, n, tolerance))),
        highest: of_baseline.map(|n| n.saturating_add(slack(metric, limit.up, n, tolerance))),
        verdict: Verdict::Passed,
        why: None,
    };
    let Bounds { min, max } = limit.bounds;
    if let Some(max) = max {
        check.highest = Some(check.highest.map_or(max, |highest| highest.min(max)));
    }
    if let Some(min) = min {
        check.lowest = Some(check.lowest.map_or(min, |lowest| lowest.max(min)));
    }
    if let (Metric::TotalAllocations, Some((from, max))) = (metric, &limits.outright) {
        check.highest = Some(*max);
        check.lowest = None;
        check.why = Some(format!("the limit is {from}"));
    }
    let broken = |mut check: Check, why: &str| {
        check.verdict = Verdict::Broken;
        check.why = Some(why.to_owned());
        check
    };
    let Some(figure) = figure else {
        return match check.highest {
            Some(_) => broken(check, "this run could not count it, and it has a limit"),
            None => check,
        };
    };
    // Where a limit goes below zero, frees of other runs' blocks are meant to pass.
    let below_zero = figure < 0 && min.is_none_or(|min| figure < min);
    // Newer baselines have descriptors, and importers do not: without figures to compare there is no verdict on leaks.
    let Some(highest) = check.highest else {
        return match (metric, baseline) {
            (Metric::LeakedFds, Some(_)) => check,
            (_, None) if below_zero => broken(check, BELOW_ZERO),
            (_, None) if check.lowest.is_some_and(|lowest| figure < lowest) => {
                check.verdict = Verdict::Improved;
                check
            }
            (_, None) if limits.absolute() => check,
            _ => broken(check, "there is no baseline and no limit for it"),
        };
    };
    if below_zero {
        return broken(check, BELOW_ZERO);
    }
    if metric == Metric::TotalAllocations && figure == 0 && of_baseline.is_some_and(|n| n != 0) {
        return broken(check, "zero, where the baseline is not; if that is true, mallow test --update");
    }
    if figure > highest {
        check.verdict = Verdict::Regressed;
    } else if check.lowest.is_some_and(|lowest| figure < lowest) {
        check.verdict = Verdict::Improved;
    }
    check
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(allocations: i64, bytes: i64, remaining: i64) -> Figures {
        Figures {
            total_allocations: allocations,
            total_allocated_bytes: bytes,
            remaining_allocations: Some(remaining),
            leaked_fds: Some(0),
            operations: 0,
        }
    }

    fn verdicts(figures: &Figures, baseline: Option<&Figures>, limits: &Limits) -> Vec<(Metric, Verdict)> {
        let checks = decide(figures, baseline, &Tolerance::default(), limits);
        checks.iter().filter(|c| c.verdict != Verdict::Passed).map(|c| (c.metric, c.verdict)).collect()
    }

    use Metric::*;
    use Verdict::*;

    #[test]
    fn figures_are_compared_exactly_and_bytes_to_one_percent() {
        let baseline = figures(1000, 10_000, 0);
        let none = Limits::default();
        for (now, expected) in [
            (figures(1000, 10_000, 0), vec![]),
            (figures(1000, 10_100, 0), vec![]),
            (figures(1000, 9_900, 0), vec![]),
            (figures(1000, 10_101, 0), vec![(TotalAllocatedBytes, Regressed)]),
            (figures(1000, 9_899, 0), vec![(TotalAllocatedBytes, Improved)]),
            (figures(1001, 10_000, 0), vec![(TotalAllocations, Regressed)]),
            (figures(999, 10_000, 0), vec![(TotalAllocations, Improved)]),
            (figures(1000, 10_000, 1), vec![(RemainingAllocations, Regressed)]),
        ] {
            assert_eq!(verdicts(&now, Some(&baseline), &none), expected, "{now:?}");
        }
    }

    #[test]
    fn slack_goes_both_ways_by_number_and_by_percent() {
        let limit = |up, down| {
            let limit = Limit { up: Some(up), down: Some(down), ..Limit::default() };
            Limits { of: vec![(TotalAllocations, limit)], ..Limits::default() }
        };
        let baseline = figures(1000, 1, 0);
        let cases = [
            (limit(Slack::Absolute(5), Slack::Absolute(3)), 997, 1005),
            (limit(Slack::Percent(0.55), Slack::Percent(10.0)), 900, 1005),
        ];
        for (limits, lowest, highest) in cases {
            for (n, expected) in [(lowest - 1, vec![(TotalAllocations, Improved)]), (lowest, vec![]), (highest, vec![])]
            {
                assert_eq!(verdicts(&figures(n, 1, 0), Some(&baseline), &limits), expected, "{n}");
            }
            let over = verdicts(&figures(highest + 1, 1, 0), Some(&baseline), &limits);
            assert_eq!(over, [(TotalAllocations, Regressed)]);
        }
    }

    #[test]
    fn a_limit_serves_without_a_baseline_and_caps_one() {
        let most = |max| Bounds { min: None, max: Some(max) };
        let fifty = Limit { bounds: most(50), ..Limit::default() };
        let limits = Limits { of: Metric::ALL.map(|metric| (metric, fifty)).to_vec(), ..Limits::default() };
        assert_eq!(verdicts(&figures(50, 50, 50), None, &limits), []);
        assert_eq!(verdicts(&figures(51, 50, 50), None, &limits), [(TotalAllocations, Regressed)]);
        let baseline = figures(60, 50, 50);
        assert_eq!(verdicts(&figures(60, 50, 50), Some(&baseline), &limits), [(TotalAllocations, Regressed)]);
        // One limit is enough: the others are reported without a verdict, except figures that cannot be true.
        let mut one = Limits::default();
        one.set_bounds(TotalAllocations, most(50));
        assert_eq!(verdicts(&figures(50, 99, 99), None, &one), []);
        assert_eq!(verdicts(&figures(51, 99, 99), None, &one), [(TotalAllocations, Regressed)]);
        assert_eq!(verdicts(&figures(50, 99, -1), None, &one), [(RemainingAllocations, Broken)]);
        let outright = Limits { outright: Some((String::new(), 50)), ..Limits::default() };
        assert_eq!(verdicts(&figures(50, 99, 0), None, &outright), []);
    }

    #[test]
    fn a_range_passes_below_zero_and_reports_a_loose_limit() {
        let mut limits = Limits::default();
        limits.set_bounds(TotalAllocations, Bounds { min: Some(901), max: Some(1900) });
        limits.set_bounds(RemainingAllocations, Bounds { min: Some(-4), max: Some(4) });
        for (now, expected) in [
            (figures(901, 1, 4), vec![]),
            (figures(1900, 1, -4), vec![]),
            (figures(900, 1, 0), vec![(TotalAllocations, Improved)]),
            (figures(1901, 1, 5), vec![(RemainingAllocations, Regressed), (TotalAllocations, Regressed)]),
            (figures(1000, 1, -5), vec![(RemainingAllocations, Broken)]),
        ] {
            assert_eq!(verdicts(&now, None, &limits), expected, "{now:?}");
        }
        limits.of.retain(|(metric, _)| *metric == RemainingAllocations);
        limits.set_bounds(TotalAllocations, Bounds { min: Some(10), max: None });
        assert_eq!(verdicts(&figures(9, 1, 0), None, &limits), [(TotalAllocations, Improved)]);
    }

    #[test]
    fn limits_alone_pass_over_the_baseline() {
        let mut limits = Limits { alone: true, ..Limits::default() };
        limits.set_bounds(TotalAllocations, Bounds { min: None, max: Some(50) });
        assert_eq!(verdicts(&figures(50, 9, 9), Some(&figures(10, 1, 0)), &limits), []);
        assert_eq!(verdicts(&figures(51, 9, 9), Some(&figures(99, 1, 0)), &limits), [(TotalAllocations, Regressed)]);
    }

    #[test]
    fn a_tolerance_goes_both_ways_and_gives_way_to_a_slack() {
        let baseline = figures(1000, 10_000, 0);
        let tolerance = Tolerance { total_allocations: 12, total_allocated_bytes: 300 };
        let verdict = |now: &Figures, limits: &Limits| {
            decide(now, Some(&baseline), &tolerance, limits).iter().map(|check| check.verdict).max()
        };
        let mut set = Limits::default();
        set.of.push((TotalAllocations, Limit { up: Some(Slack::Absolute(2)), ..Limit::default() }));
        for (now, expected, with_slack) in [
            (figures(1012, 10_300, 0), Passed, Regressed),
            (figures(1002, 9_700, 0), Passed, Passed),
            (figures(1013, 10_000, 0), Regressed, Regressed),
            (figures(987, 10_000, 0), Improved, Improved),
            (figures(1000, 10_301, 0), Regressed, Regressed),
            (figures(1000, 10_000, 1), Regressed, Regressed),
        ] {
            assert_eq!(verdict(&now, &Limits::default()), Some(expected), "{now:?}");
            assert_eq!(verdict(&now, &set), Some(with_slack), "{now:?}");
        }
    }

    #[test]
    fn a_case_without_a_possible_verdict_is_broken() {
        let none = Limits::default();
        let baseline = figures(10, 10, 0);
        let without = verdicts(&figures(10, 10, 0), None, &none);
        assert_eq!(without.len(), 4);
        assert!(without.iter().all(|(_, verdict)| *verdict == Broken));
        let zero = verdicts(&figures(0, 0, 0), Some(&baseline), &none);
        assert!(zero.contains(&(TotalAllocations, Broken)));
        assert_eq!(verdicts(&figures(0, 0, 0), Some(&figures(0, 0, 0)), &none), []);
        let negative = verdicts(&figures(10, 10, -1), Some(&figures(10, 10, -1)), &none);
        assert_eq!(negative, [(RemainingAllocations, Broken)]);
        let blind = Figures { leaked_fds: None, ..baseline };
        assert_eq!(verdicts(&blind, Some(&baseline), &none), [(LeakedFds, Broken)]);
        assert_eq!(verdicts(&baseline, Some(&blind), &none), []);
    }

    #[test]
    fn an_outright_limit_wins_and_says_so() {
        let limits = Limits { outright: Some(("MAX_ALLOCS_ALLOWED_a=20".to_owned(), 20)), ..Limits::default() };
        let baseline = figures(10, 10, 0);
        for (n, expected) in [(20, vec![]), (3, vec![]), (21, vec![(TotalAllocations, Regressed)])] {
            assert_eq!(verdicts(&figures(n, 10, 0), Some(&baseline), &limits), expected);
        }
        let checks = decide(&figures(20, 10, 0), Some(&baseline), &Tolerance::default(), &limits);
        assert_eq!(checks[1].why.as_deref(), Some("the limit is MAX_ALLOCS_ALLOWED_a=20"));
    }

    #[test]
    fn the_worst_verdict_outweighs() {
        assert!(Broken > Regressed && Regressed > Improved && Improved > Passed);
    }
}
