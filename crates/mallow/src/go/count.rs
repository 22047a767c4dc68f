//! Counting each allocation of a benchmark, until that explains what the benchmark says of itself.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use mallow_golang::join::{self, Allocation, Listed, Runs, Sums};
use mallow_golang::results::{Benchmark, Run};
use mallow_golang::tool::{ExactRun, Go, Profiled, TestBinary};
use mallow_profile::Profile;
use mallow_report::formats;
use mallow_symbols::TINY;

use super::program_source::ProgramSource;

/// Operations whose allocations are saved: what happens once in a thousand of them is still there.
const SAVED: u64 = 1000;
/// With collections or without: where what was counted does not explain what the benchmark says, it is counted again. What
/// is in pools is made anew after a collection, and a pool gives what was put into it on the same processor alone.
const ROUNDS: [bool; 3] = [true, false, true];

/// What was counted of a benchmark.
pub struct CountedBenchmark {
    /// By operation.
    pub allocations: Vec<Allocation>,
    /// Set-up, divided by the operations of the undisturbed run.
    pub setup: Vec<Allocation>,
    /// Of both, what no line leads to.
    pub nowhere: Sums,
    /// Operations that were counted.
    pub operations: u64,
    /// What the benchmark said of the run with many operations.
    pub said: Option<Run>,
    /// What [`SAVED`] operations allocate.
    pub profile: Profile,
}

/// Counts the allocations of a benchmark. `program` is the one whose allocations are all seen.
pub fn count(
    go: &Go,
    binary: &TestBinary,
    program: &Path,
    benchmark: &Benchmark,
    own: &ProgramSource,
) -> Result<CountedBenchmark> {
    let says = BenchmarkFigures::of(benchmark);
    let mut nearest: Option<(Split, Profile, Profile, u64, Option<Run>)> = None;
    for collecting in ROUNDS {
        let run = go.exact(binary, program, benchmark, collecting)?;
        let (few, many) = (profile(&run.few)?, profile(&run.many)?);
        let operations = run.many.operations - run.few.operations;
        let mut split = Split { each: join::each(&few, &many, operations, own), setup: Listed::default() };
        if !says.is(&split) {
            let before = go.before(binary, program, benchmark, collecting, &run)?;
            split = says.nearest(split, with_setup(&before, (&few, &many), &run, &says, own)?);
        }
        if nearest.as_ref().is_none_or(|(nearest, ..)| says.off(&split) < says.off(nearest)) {
            nearest = Some((split, few, many, operations, run.many.said));
        }
        if nearest.as_ref().is_some_and(|(nearest, ..)| says.is_near(nearest)) {
            break;
        }
    }
    let (split, few, mut many, operations, said) = nearest.context("it was not counted")?;
    join::difference(&few, &mut many, operations, SAVED);
    let nowhere = split.each.nowhere.plus(split.setup.nowhere);
    let (allocations, setup) = (split.each.allocations, split.setup.allocations);
    Ok(CountedBenchmark { allocations, setup, nowhere, operations, said, profile: many })
}

/// Allocations by operation, and set-up divided by the operations of the undisturbed run.
struct Split {
    each: Listed,
    setup: Listed,
}

impl Split {
    fn sum(&self) -> Sums {
        self.each.sum().plus(self.setup.sum())
    }
}

/// What the benchmark says of its undisturbed run.
struct BenchmarkFigures {
    operations: f64,
    allocations: f64,
    bytes: f64,
}

impl BenchmarkFigures {
    fn of(benchmark: &Benchmark) -> Self {
        Self {
            operations: benchmark.median(|run| run.operations as f64),
            allocations: benchmark.median(|run| run.allocations),
            bytes: benchmark.median(|run| run.bytes),
        }
    }

    fn off(&self, split: &Split) -> f64 {
        (split.sum().allocations - self.allocations).abs()
    }

    /// What it says is a whole number.
    fn is_near(&self, split: &Split) -> bool {
        self.off(split) < 1.0 + 0.01 * self.allocations
    }

    /// The bytes are there too: a few large blocks are less than one allocation by operation.
    fn is(&self, split: &Split) -> bool {
        self.is_near(split) && split.sum().bytes + (TINY as f64) >= 0.99 * self.bytes
    }

    fn nearest(&self, linear: Split, others: Vec<Split>) -> Split {
        others.into_iter().fold(linear, |nearest, other| {
            let better = self.off(&other) < self.off(&nearest) || self.is(&other) && !self.is(&nearest);
            if better { other } else { nearest }
        })
    }
}

/// The same with its set-up, in each of the two runs where the sum of both is what the benchmark says of that run: what it
/// does while its timer is stopped is no part of either.
fn with_setup(
    before: &Profiled,
    (few, many): (&Profile, &Profile),
    run: &ExactRun,
    says: &BenchmarkFigures,
    own: &ProgramSource,
) -> Result<Vec<Split>> {
    let before = profile(before)?;
    let runs = Runs { before: &before, few: (few, run.few.operations), many: (many, run.many.operations) };
    let apart = runs.apart(own);
    let each = apart.each.sum();
    let of_run = |(run, mut once): (&Profiled, Listed)| {
        let found = once.sum();
        let (said, operations) = (run.said.as_ref()?, run.operations as f64);
        let explains = |said: f64, each: f64, found: f64, slack: f64| {
            let missing = (said - each) * operations;
            found >= 0.99 * missing - slack * operations && found <= 1.01 * missing + 2.0 * slack * operations
        };
        if !explains(said.allocations, each.allocations, found.allocations, 1.0)
            || !explains(said.bytes, each.bytes, found.bytes, TINY as f64)
        {
            return None;
        }
        once.by(says.operations);
        Some(Split { each: apart.each.clone(), setup: once })
    };
    Ok([(&run.many, apart.once_in_many), (&run.few, apart.once_in_few)].into_iter().filter_map(of_run).collect())
}

fn profile(run: &Profiled) -> Result<Profile> {
    let file = File::open(&run.path)?;
    let length = file.metadata().ok().map(|metadata| metadata.len());
    let foreign = formats::read(file, length, &mut |_| {}).context("cannot read the profile of a benchmark")?;
    Ok(foreign.profile)
}
