//! Whether figures are within what is allowed.

use serde::Serialize;

use super::figures::{Figures, Metric};

/// How far a figure may be from its baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Slack {
    /// By so many.
    Absolute(u64),
    /// By so much of the baseline, in percent; rounded down.
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

/// What is allowed of one metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// At most so many, whatever the baseline has.
    pub max: Option<i64>,
    /// So far above the baseline.
    pub up: Slack,
    /// So far below it; what is lower is an improvement that the baseline should have.
    pub down: Slack,
}

impl Default for Limit {
    fn default() -> Self {
        Self { max: None, up: Slack::Absolute(0), down: Slack::Absolute(0) }
    }
}

/// What is allowed of a case. Without an entry a metric is compared with the baseline exactly.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// By metric.
    pub of: Vec<(Metric, Limit)>,
    /// A limit of `total_allocations` that stands above all others: where it came from, and the limit.
    pub outright: Option<(String, i64)>,
}

impl Limits {
    /// Sets the most that a metric may have.
    pub fn set_max(&mut self, metric: Metric, max: i64) {
        let limit = Limit { max: Some(max), ..self.get(metric) };
        match self.of.iter_mut().find(|(of, _)| *of == metric) {
            Some((_, own)) => *own = limit,
            None => self.of.push((metric, limit)),
        }
    }

    /// True where a metric has one that needs no baseline.
    pub fn absolute(&self) -> bool {
        self.outright.is_some() || self.of.iter().any(|(_, limit)| limit.max.is_some())
    }

    /// Bytes may differ by 1 %: a path or a host name of another length is no regression.
    pub fn get(&self, metric: Metric) -> Limit {
        let own = self.of.iter().find(|(of, _)| *of == metric).map(|(_, limit)| *limit);
        own.unwrap_or_else(|| match metric {
            Metric::TotalAllocatedBytes => {
                Limit { up: Slack::Percent(1.0), down: Slack::Percent(1.0), ..Limit::default() }
            }
            _ => Limit::default(),
        })
    }
}

/// How a case or one of its metrics came out; the later ones outweigh the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Within what is allowed.
    Passed,
    /// Below it: lower the baseline.
    Improved,
    /// Above it.
    Regressed,
    /// It cannot be judged.
    Broken,
}

/// One metric, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// Which.
    pub metric: Metric,
    /// What was measured; null where it is not known.
    pub figure: Option<i64>,
    /// What the baseline has.
    pub baseline: Option<i64>,
    /// The least that passes.
    pub lowest: Option<i64>,
    /// The most that passes.
    pub highest: Option<i64>,
    /// How it came out.
    pub verdict: Verdict,
    /// In words, where it did not pass or a limit stood above the others.
    pub why: Option<String>,
}

/// Judges all metrics of a case. The case's verdict is the worst of them. A case without a baseline that has a limit is
/// judged by its limits alone.
pub fn judge(figures: &Figures, baseline: Option<&Figures>, limits: &Limits) -> Vec<Check> {
    Metric::ALL.into_iter().map(|metric| check(metric, figures, baseline, limits)).collect()
}

const BELOW_ZERO: &str = "below zero: blocks or descriptors were released that were made outside of the region";

fn check(metric: Metric, figures: &Figures, baseline: Option<&Figures>, limits: &Limits) -> Check {
    let figure = figures.get(metric);
    let of_baseline = baseline.and_then(|baseline| baseline.get(metric));
    let limit = limits.get(metric);
    let mut check = Check {
        metric,
        figure,
        baseline: of_baseline,
        lowest: of_baseline.map(|n| n.saturating_sub(limit.down.of(n))),
        highest: of_baseline.map(|n| n.saturating_add(limit.up.of(n))),
        verdict: Verdict::Passed,
        why: None,
    };
    if let Some(max) = limit.max {
        check.highest = Some(check.highest.map_or(max, |highest| highest.min(max)));
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
    // Descriptors are told by newer baselines and not by importers; a leak is judged where there is something to compare.
    let Some(highest) = check.highest else {
        return match (metric, baseline) {
            (Metric::LeakedFds, Some(_)) => check,
            (_, None) if figure < 0 => broken(check, BELOW_ZERO),
            (_, None) if limits.absolute() => check,
            _ => broken(check, "there is no baseline and no limit for it"),
        };
    };
    if figure < 0 {
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
            remaining_allocations: remaining,
            leaked_fds: Some(0),
            operations: 0,
        }
    }

    fn verdicts(figures: &Figures, baseline: Option<&Figures>, limits: &Limits) -> Vec<(Metric, Verdict)> {
        let judged = judge(figures, baseline, limits);
        judged.iter().filter(|c| c.verdict != Verdict::Passed).map(|c| (c.metric, c.verdict)).collect()
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
        let limit = |up, down| Limits { of: vec![(TotalAllocations, Limit { max: None, up, down })], outright: None };
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
        let limits = Limits {
            of: Metric::ALL.map(|metric| (metric, Limit { max: Some(50), ..Limit::default() })).to_vec(),
            outright: None,
        };
        assert_eq!(verdicts(&figures(50, 50, 50), None, &limits), []);
        assert_eq!(verdicts(&figures(51, 50, 50), None, &limits), [(TotalAllocations, Regressed)]);
        let baseline = figures(60, 50, 50);
        assert_eq!(verdicts(&figures(60, 50, 50), Some(&baseline), &limits), [(TotalAllocations, Regressed)]);
        // One limit is enough: the others are told and not judged, but for what cannot be true.
        let mut one = Limits::default();
        one.set_max(TotalAllocations, 50);
        assert_eq!(verdicts(&figures(50, 99, 99), None, &one), []);
        assert_eq!(verdicts(&figures(51, 99, 99), None, &one), [(TotalAllocations, Regressed)]);
        assert_eq!(verdicts(&figures(50, 99, -1), None, &one), [(RemainingAllocations, Broken)]);
        let outright = Limits { of: Vec::new(), outright: Some((String::new(), 50)) };
        assert_eq!(verdicts(&figures(50, 99, 0), None, &outright), []);
    }

    #[test]
    fn what_cannot_be_judged_is_broken() {
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
        let limits = Limits { of: vec![], outright: Some(("MAX_ALLOCS_ALLOWED_a=20".to_owned(), 20)) };
        let baseline = figures(10, 10, 0);
        for (n, expected) in [(20, vec![]), (3, vec![]), (21, vec![(TotalAllocations, Regressed)])] {
            assert_eq!(verdicts(&figures(n, 10, 0), Some(&baseline), &limits), expected);
        }
        let judged = judge(&figures(20, 10, 0), Some(&baseline), &limits);
        assert_eq!(judged[1].why.as_deref(), Some("the limit is MAX_ALLOCS_ALLOWED_a=20"));
    }

    #[test]
    fn the_worst_verdict_outweighs() {
        assert!(Broken > Regressed && Regressed > Improved && Improved > Passed);
    }
}
