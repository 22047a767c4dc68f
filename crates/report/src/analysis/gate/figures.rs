//! What runs of a case counted, and the figures that stand for them.

use serde::{Deserialize, Serialize};

use crate::analysis::summary::stat::{RegionKind, RegionRow};

/// Counts of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// Successful calls of the allocating functions.
    pub total_allocations: u64,
    /// Requested bytes of `total_allocations`.
    pub total_allocated_bytes: u64,
    /// Allocations minus frees of the run; left out where that is not known: of benchmarks of Go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_allocations: Option<i64>,
    /// File descriptors that stayed open; null where that is not known.
    pub leaked_fds: Option<i64>,
    /// Operations that the run performed; 0: unknown.
    pub operations: u64,
}

impl From<&RegionRow> for Run {
    fn from(row: &RegionRow) -> Self {
        Self {
            total_allocations: row.allocations,
            total_allocated_bytes: row.allocated_bytes,
            remaining_allocations: Some(row.allocations.wrapping_sub(row.frees) as i64),
            leaked_fds: row.leaked_fds,
            operations: row.operations,
        }
    }
}

/// The measured runs of each region, by name, in the order of their first ends.
pub fn runs_by_region(rows: &[RegionRow]) -> Vec<(String, Vec<Run>)> {
    let mut regions: Vec<(String, Vec<Run>)> = Vec::new();
    for row in rows.iter().filter(|row| row.kind == RegionKind::Measured) {
        match regions.iter_mut().find(|(name, _)| *name == row.name) {
            Some((_, runs)) => runs.push(row.into()),
            None => regions.push((row.name.clone(), vec![row.into()])),
        }
    }
    regions
}

/// Metric that is compared. The names are those that the lines of a run and the keys of a baseline have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Allocations minus frees of a run.
    RemainingAllocations,
    /// Successful calls of the allocating functions.
    TotalAllocations,
    /// Requested bytes of all allocations.
    TotalAllocatedBytes,
    /// File descriptors that stayed open.
    LeakedFds,
}

impl Metric {
    /// All metrics, in the order of the lines of a run.
    pub const ALL: [Self; 4] =
        [Self::RemainingAllocations, Self::TotalAllocations, Self::TotalAllocatedBytes, Self::LeakedFds];

    pub fn key(self) -> &'static str {
        match self {
            Self::RemainingAllocations => "remaining_allocations",
            Self::TotalAllocations => "total_allocations",
            Self::TotalAllocatedBytes => "total_allocated_bytes",
            Self::LeakedFds => "leaked_fds",
        }
    }

    pub fn of_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|metric| metric.key() == key)
    }
}

/// The figures of a case, as they are compared and kept in a baseline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Allocations minus frees of a run; left out where that is not known: of benchmarks of Go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_allocations: Option<i64>,
    /// Successful calls of the allocating functions.
    pub total_allocations: i64,
    /// Requested bytes of `total_allocations`.
    pub total_allocated_bytes: i64,
    /// File descriptors that stayed open; left out where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaked_fds: Option<i64>,
    /// Operations that a run performs; 0: unknown.
    #[serde(default)]
    pub operations: u64,
}

impl Figures {
    pub fn get(&self, metric: Metric) -> Option<i64> {
        match metric {
            Metric::RemainingAllocations => self.remaining_allocations,
            Metric::TotalAllocations => Some(self.total_allocations),
            Metric::TotalAllocatedBytes => Some(self.total_allocated_bytes),
            Metric::LeakedFds => self.leaked_fds,
        }
    }

    /// Sets a metric's figure; None is 0 where a figure is always known.
    pub fn set(&mut self, metric: Metric, value: Option<i64>) {
        match metric {
            Metric::RemainingAllocations => self.remaining_allocations = value,
            Metric::TotalAllocations => self.total_allocations = value.unwrap_or_default(),
            Metric::TotalAllocatedBytes => self.total_allocated_bytes = value.unwrap_or_default(),
            Metric::LeakedFds => self.leaked_fds = value,
        }
    }

    /// Allocations per operation; None where the number of operations is unknown.
    pub fn allocations_per_op(&self) -> Option<f64> {
        (self.operations > 0).then(|| self.total_allocations as f64 / self.operations as f64)
    }
}

/// How far the figures of an unchanged program may be from those of a baseline, because its own runs disagreed.
///
/// A block or a descriptor that stays is in every run, so the least of them is sharp: those have no tolerance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Tolerance {
    /// Allocations by which a figure may be above or below the baseline; left out where 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub total_allocations: u64,
    /// Requested bytes by which a figure may be above or below the baseline; left out where 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub total_allocated_bytes: u64,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Tolerance {
    /// The spread of the runs, and a quarter more, at least one: other runs may differ by a little more than these.
    pub fn of(measured: &Measured) -> Self {
        let of = |metric| {
            let (least, most) = (measured.figures.get(metric), measured.most.get(metric));
            match least.zip(most).map_or(0, |(least, most)| most.abs_diff(least)) {
                0 => 0,
                spread => spread.saturating_add((spread / 4).max(1)),
            }
        };
        Self { total_allocations: of(Metric::TotalAllocations), total_allocated_bytes: of(Metric::TotalAllocatedBytes) }
    }

    pub fn get(&self, metric: Metric) -> u64 {
        match metric {
            Metric::TotalAllocations => self.total_allocations,
            Metric::TotalAllocatedBytes => self.total_allocated_bytes,
            Metric::RemainingAllocations | Metric::LeakedFds => 0,
        }
    }

    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether two sets of figures differ by no more than this tolerance.
    pub fn covers(&self, one: &Figures, other: &Figures) -> bool {
        let within = |metric| match (one.get(metric), other.get(metric)) {
            (Some(one), Some(other)) => one.abs_diff(other) <= self.get(metric),
            (one, other) => one == other,
        };
        one.operations == other.operations && Metric::ALL.into_iter().all(within)
    }
}

/// All runs of a case, and the figures that stand for them: of each metric the least that a run had. What is above
/// it came from elsewhere, a cache that filled or a thread that woke.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Measured {
    /// Least that a run had of each metric.
    #[serde(flatten)]
    pub figures: Figures,
    /// Most that a run had of each metric.
    pub most: Figures,
    /// Counts of each run, in the order in which they ran.
    pub runs: Vec<Run>,
}

impl Measured {
    /// The least and the most of each figure over the runs. None without runs.
    pub fn of(runs: &[Run]) -> Option<Self> {
        // What one run could not count is not known.
        let known = |of: fn(&Run) -> Option<i64>| runs.iter().map(of).collect::<Option<Vec<i64>>>().unwrap_or_default();
        let (fds, remaining) = (known(|run| run.leaked_fds), known(|run| run.remaining_allocations));
        let whole = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let operations = runs.iter().map(|run| run.operations).min()?;
        let of = |pick: fn(&mut dyn Iterator<Item = i64>) -> Option<i64>| {
            Some(Figures {
                remaining_allocations: pick(&mut remaining.iter().copied()),
                total_allocations: pick(&mut runs.iter().map(|run| whole(run.total_allocations)))?,
                total_allocated_bytes: pick(&mut runs.iter().map(|run| whole(run.total_allocated_bytes)))?,
                leaked_fds: pick(&mut fds.iter().copied()),
                operations,
            })
        };
        Some(Self { figures: of(|n| n.min())?, most: of(|n| n.max())?, runs: runs.to_vec() })
    }

    /// Whether the runs disagree.
    pub fn unstable(&self) -> bool {
        self.figures != self.most
    }
}

/// Costs from two numbers of operations: that of each operation, and what comes before the first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Scale {
    /// Allocations of one operation.
    pub allocations_per_op: f64,
    /// Requested bytes of one operation.
    pub bytes_per_op: f64,
    /// Allocations that a run without any operation would have.
    pub setup_allocations: f64,
}

impl Scale {
    /// The line through two measurements; None where both have the same number of operations.
    pub fn of(few: &Figures, many: &Figures) -> Option<Self> {
        let operations = many.operations as f64 - few.operations as f64;
        if operations == 0.0 {
            return None;
        }
        let slope = |metric| Some((many.get(metric)? - few.get(metric)?) as f64 / operations);
        let allocations_per_op = slope(Metric::TotalAllocations)?;
        Some(Self {
            allocations_per_op,
            bytes_per_op: slope(Metric::TotalAllocatedBytes)?,
            setup_allocations: few.total_allocations as f64 - allocations_per_op * few.operations as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(allocations: u64, bytes: u64, remaining: i64, fds: Option<i64>) -> Run {
        Run {
            total_allocations: allocations,
            total_allocated_bytes: bytes,
            remaining_allocations: Some(remaining),
            leaked_fds: fds,
            operations: 10,
        }
    }

    #[test]
    fn the_least_of_each_metric_stands_for_the_runs() {
        let measured = Measured::of(&[run(5, 90, 1, Some(0)), run(7, 80, 0, Some(2))]).expect("runs");
        let figures = |remaining, allocations, bytes, fds| Figures {
            remaining_allocations: Some(remaining),
            total_allocations: allocations,
            total_allocated_bytes: bytes,
            leaked_fds: Some(fds),
            operations: 10,
        };
        assert_eq!((measured.figures, measured.most), (figures(0, 5, 80, 0), figures(1, 7, 90, 2)));
        assert!(measured.unstable());
        assert_eq!(measured.figures.allocations_per_op(), Some(0.5));
        let one = Measured::of(&[run(5, 90, 1, Some(0)), run(5, 90, 1, Some(0))]).expect("runs");
        assert!(!one.unstable());
        assert_eq!(Measured::of(&[]), None);
    }

    #[test]
    fn what_one_run_does_not_know_is_not_known() {
        let measured = Measured::of(&[run(5, 90, 1, Some(0)), run(5, 90, 1, None)]).expect("runs");
        assert_eq!(measured.figures.leaked_fds, None);
        let blind = Run { remaining_allocations: None, ..run(5, 90, 1, Some(0)) };
        let measured = Measured::of(&[run(5, 90, 1, Some(0)), blind]).expect("runs");
        assert_eq!((measured.figures.remaining_allocations, measured.figures.leaked_fds), (None, Some(0)));
    }

    #[test]
    fn what_runs_differ_by_is_tolerated_and_a_quarter_more() {
        let tolerance = |runs: &[Run]| Tolerance::of(&Measured::of(runs).expect("runs"));
        let one = run(1000, 500, 0, Some(0));
        assert!(tolerance(&[one, one]).is_none());
        let seen = tolerance(&[one, run(1065, 501, 3, Some(1))]);
        assert_eq!((seen.total_allocations, seen.total_allocated_bytes), (81, 2));
        let figures = |run: Run| Measured::of(&[run]).expect("a run").figures;
        for (other, covered) in [
            (run(919, 502, 0, Some(0)), true),
            (run(918, 500, 0, Some(0)), false),
            (run(1000, 503, 0, Some(0)), false),
            (run(1000, 500, 1, Some(0)), false),
            (run(1000, 500, 0, None), false),
        ] {
            assert_eq!(seen.covers(&figures(one), &figures(other)), covered, "{other:?}");
        }
    }

    #[test]
    fn two_numbers_of_operations_give_the_cost_of_one() {
        let figures = |operations, total_allocations, total_allocated_bytes| Figures {
            operations,
            total_allocations,
            total_allocated_bytes,
            ..Figures::default()
        };
        let scale = Scale::of(&figures(10, 37, 1000), &figures(110, 337, 9000)).expect("a line");
        assert_eq!((scale.allocations_per_op, scale.bytes_per_op, scale.setup_allocations), (3.0, 80.0, 7.0));
        assert_eq!(Scale::of(&figures(10, 37, 0), &figures(10, 37, 0)), None);
    }

    #[test]
    fn names_are_those_of_the_lines() {
        for metric in Metric::ALL {
            assert_eq!(Metric::of_key(metric.key()), Some(metric));
            assert_eq!(serde_json::to_value(metric).expect("JSON"), metric.key());
        }
    }
}
