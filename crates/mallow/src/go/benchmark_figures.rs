//! Whether counted allocations explain a benchmark's own figures.

use mallow_golang::join::{Listed, OperationSums, Part};
use mallow_golang::results::Benchmark;
use mallow_symbols::TINY;

/// Allocations by operation, and set-up divided by the operations of the undisturbed run.
pub struct Split {
    pub each: Listed,
    pub setup: Listed,
    /// What the source says to be in no figure is in `each` as an operation: the figures contradict the source.
    pub timed_all: bool,
    /// A run without operations has shown what is set-up.
    pub apart: bool,
}

impl Split {
    /// All that a run has more than another one.
    pub fn linear(each: Listed) -> Self {
        Self { each, setup: Listed::default(), timed_all: false, apart: false }
    }

    fn sum(&self) -> OperationSums {
        self.each.sum().plus(self.setup.sum())
    }

    /// Allocations by operation, timed or not.
    pub fn all(&self) -> f64 {
        self.sum().allocations + self.each.untimed().allocations
    }

    /// The least and the most bytes by operation, as far as small objects share blocks and the runtime allocates for
    /// itself.
    fn bytes(&self) -> (f64, f64) {
        let all = self.sum().bytes;
        let lines = self.each.allocations.iter().chain(&self.setup.allocations);
        let small: f64 = lines.filter(|line| line.part != Part::Untimed).map(|line| line.small).sum();
        let nowhere = self.each.nowhere.plus(self.setup.nowhere).bytes;
        ((all - small * (TINY - 1) as f64 - nowhere).max(0.0), all)
    }
}

/// Figures of the benchmark's undisturbed run.
pub struct BenchmarkFigures {
    operations: f64,
    allocations: f64,
    bytes: f64,
}

impl BenchmarkFigures {
    /// Operations of the undisturbed run.
    pub fn operations(&self) -> f64 {
        self.operations
    }

    pub fn of(benchmark: &Benchmark) -> Self {
        Self {
            operations: benchmark.median(|run| run.operations as f64),
            allocations: benchmark.median(|run| run.allocations),
            bytes: benchmark.median(|run| run.bytes),
        }
    }

    /// Takes untimed lines for timed ones where the figures fit better so: the source, which decides, is wrong then.
    pub fn decide_timing(&self, split: &mut Split) {
        let (timed, untimed) = (split.sum().allocations, split.each.untimed().allocations);
        if (timed + untimed - self.allocations).abs() < (timed - self.allocations).abs() {
            split.each.time_all();
            split.timed_all = true;
        }
    }

    pub fn off(&self, split: &Split) -> f64 {
        (split.sum().allocations - self.allocations).abs()
    }

    /// Whether the split is near the benchmark's figure, which is a whole number.
    pub fn is_near(&self, split: &Split) -> bool {
        self.off(split) < 1.0 + 0.01 * self.allocations
    }

    /// Whether both sums are the benchmark's figures, but for what differs from run to run.
    pub fn agrees(&self, split: &Split) -> bool {
        self.gap(split) <= 1.0
    }

    /// How far the sums are from the benchmark's figures, which Go rounds down: 1.0 is what runs may differ by.
    pub fn gap(&self, split: &Split) -> f64 {
        let allocations = split.sum().allocations;
        let off = beyond((allocations, allocations), self.allocations) / (0.05 + 0.01 * self.allocations);
        off.max(beyond(split.bytes(), self.bytes) / (2.0 + 0.02 * self.bytes))
    }

    /// The bytes are there too: a few large blocks are less than one allocation by operation.
    pub fn is(&self, split: &Split) -> bool {
        self.is_near(split) && split.sum().bytes + (TINY as f64) >= 0.99 * self.bytes
    }

    pub fn nearest(&self, linear: Split, others: Vec<Split>) -> Split {
        others.into_iter().fold(linear, |nearest, other| {
            let better = self.off(&other) < self.off(&nearest) || self.is(&other) && !self.is(&nearest);
            if better { other } else { nearest }
        })
    }
}

/// How far a sum between two limits is from a figure that was rounded down.
fn beyond((least, most): (f64, f64), figure: f64) -> f64 {
    (figure - most).max(least - (figure + 1.0)).max(0.0)
}
