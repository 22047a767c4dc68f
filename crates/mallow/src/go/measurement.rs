//! Measuring the benchmarks of a package: times, every allocation, and reasons.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};
use mallow_golang::join::{self, Allocation, Compiled, Explained, Part, ReasonSource};
use mallow_golang::model::Diagnostic;
use mallow_golang::results::{Benchmark, Run};
use mallow_golang::statistics::Summary;
use mallow_golang::tool::{Go, Input, Package, TestBinary, Timing};
use mallow_profile::Profile;
use mallow_symbols::GoProgram;
use serde::Serialize;

use super::count::{CountedBenchmark, count};
use super::program_source::ProgramSource;
use crate::input::go_reasons::parts;
use crate::output::progress::Spinner;

/// A benchmark, and every line that allocates.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Measured {
    /// Name of the benchmark: `BenchmarkDecode/small`.
    pub name: String,
    /// Operations of the undisturbed runs, added up.
    pub operations: u64,
    /// Number of undisturbed runs.
    pub runs: u64,
    /// Median time of the undisturbed runs, in nanoseconds per operation.
    pub ns_per_op: f64,
    /// Median and 95 % confidence interval of the time, in nanoseconds per operation.
    pub time: Summary,
    /// Results of the undisturbed runs, each as the benchmark prints them.
    pub measurements: Vec<Run>,
    /// Median of the undisturbed runs: bytes per operation (`B/op`), as the benchmark prints them.
    pub bytes_per_op: f64,
    /// Median of the undisturbed runs: allocations per operation (`allocs/op`), as the benchmark prints them.
    pub allocs_per_op: f64,
    /// Operations whose allocations were all counted; 0 where there are none.
    pub counted_operations: u64,
    /// Reconciliation of the counted allocations with the benchmark's own figures, per operation.
    pub sums: Reconciliation,
    /// Lines that allocate: first those of operations, last those that are in no figure; of each the most allocations
    /// first.
    pub lines: Vec<Explained>,
    /// Reason why the lines of the benchmark are not known; left out where they are, and where nothing was allocated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Profile of [`SAVED`] operations; None where nothing was counted.
    #[serde(skip)]
    pub profile: Option<Profile>,
}

/// Comparison of what was counted with what a benchmark prints, by operation.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reconciliation {
    /// Allocations that were counted, per operation.
    pub counted: f64,
    /// Counted allocations that have a source line, per operation.
    pub on_lines: f64,
    /// Counted allocations that have a line and a reason, per operation.
    pub with_reason: f64,
    /// Bytes that were counted, on lines and beside them, per operation.
    pub counted_bytes: f64,
    /// Bytes per operation that blocks would have if small objects shared none of them: `shared_bytes` more than
    /// `counted_bytes`.
    pub block_bytes: f64,
    /// Bytes per operation that small objects without pointers save by sharing blocks: lines have that much less than
    /// their blocks.
    pub shared_bytes: f64,
    /// Allocations per operation that share a block, where the profile cannot see them: what the benchmark's own figure
    /// has more.
    pub unseen: f64,
    /// Allocations of one run that happen once while the timer runs: set-up, which the benchmark divides by its
    /// operations.
    pub setup: f64,
    /// Allocations of one run that its first operations make, and no more after them.
    pub first_operations: f64,
    /// Allocations of one run that the goroutines of `b.RunParallel` make once, whatever their operations.
    pub in_goroutines: f64,
    /// Set-up among the counted allocations that grows with the number of operations, per operation.
    pub growing: f64,
    /// Allocations while the timer is stopped, which are in no figure.
    pub untimed: f64,
    /// Every allocation was seen, those in shared blocks too.
    pub exact: bool,
}

pub struct Measurer<'a> {
    pub go: &'a Go,
    pub package: &'a Package,
    /// Progress on the terminal.
    pub working: &'a Spinner,
}

impl Measurer<'_> {
    /// The benchmarks that match, each with its lines; and what the compiler said.
    pub fn measure(&self, timing: &Timing) -> Result<(Vec<Measured>, Compiled)> {
        if let Some(broken) = &self.package.broken {
            anyhow::bail!("{}: {broken}", self.package.import_path);
        }
        let name = &self.package.import_path;
        self.working.at(&format!("building the tests of {name}"));
        let binary = self.go.test_binary(self.package)?;
        self.working.at(&format!("running the benchmarks of {name}"));
        let times = self.go.time(&binary, timing)?;
        self.explain(&binary, times)
    }

    /// Counts and explains the allocations of benchmarks.
    fn explain(&self, binary: &TestBinary, times: Vec<Benchmark>) -> Result<(Vec<Measured>, Compiled)> {
        let name = &self.package.import_path;
        let allocating: Vec<Benchmark> = times
            .iter()
            .filter(|b| b.runs.iter().any(|run| run.bytes > 0.0 || run.allocations > 0.0))
            .cloned()
            .collect();
        let program =
            GoProgram::open(&binary.path).with_context(|| format!("cannot read the test program of {name}"))?;
        let exact = binary.variant("exact", || program.exact()).context("cannot write to the cache")?;
        let own = ProgramSource::new(Some(&program), &self.go.root, &binary.directory);
        let program = exact.as_deref().unwrap_or(&binary.path);
        let all = allocating.len();
        let said =
            |done: usize| self.working.at(&format!("counting allocations of {name}: {done} of {all} benchmarks"));
        said(0);
        let counted = side_by_side(&allocating, &said, |benchmark| count(self.go, binary, program, benchmark, &own));
        let counted: Vec<(Benchmark, Result<CountedBenchmark>)> = allocating.into_iter().zip(counted).collect();
        self.working.at("asking the compiler for reasons");
        let allocations = counted
            .iter()
            .flat_map(|(_, counted)| counted.as_ref().ok())
            .flat_map(|c| c.allocations.iter().chain(&c.setup));
        let compiled = self.compiled(binary, allocations)?;
        let mut counted = counted.into_iter();
        let mut next = counted.next();
        let mut measured = Vec::new();
        for benchmark in times {
            let mine = match &next {
                Some((other, _)) if other.name == benchmark.name => std::mem::replace(&mut next, counted.next()),
                _ => None,
            };
            measured.push(self::measured(benchmark, mine.map(|(_, counted)| counted), &compiled, exact.is_some()));
        }
        Ok((measured, compiled))
    }

    /// Diagnostics of the packages that allocate.
    fn compiled<'a>(&self, binary: &TestBinary, all: impl Iterator<Item = &'a Allocation>) -> Result<Compiled> {
        let functions = all.filter_map(|allocation| allocation.chain.last()).map(|place| place.function.as_str());
        let mut packages: BTreeSet<String> = functions.map(package).collect();
        packages.insert(binary.package.clone());
        Ok(Compiled::new(diagnostics(self.go, binary, packages)?))
    }
}

/// Diagnostics of some of the packages that a test program is made of.
pub fn diagnostics(go: &Go, binary: &TestBinary, packages: BTreeSet<String>) -> Result<Vec<Diagnostic>> {
    let of_test = |input: &&Input| input.for_test.is_some();
    let mut wanted: Vec<Input> = Vec::new();
    for package in packages {
        let inputs = || binary.inputs.iter().filter(|input| input.package == package);
        // The variant for the test takes the place of the package.
        wanted.extend(inputs().find(of_test).or_else(|| inputs().next()).cloned());
    }
    let mut list = Vec::new();
    for unit in go.diagnose_test(binary, &wanted)? {
        list.extend(unit.read()?.list);
    }
    Ok(list)
}

/// Import path of a function: `github.com/a/b` of `github.com/a/b.(*T).m[…]`.
pub fn package(function: &str) -> String {
    parts(function).0
}

/// Does something for each, one on each processor: no times are measured meanwhile. `done` receives how many are done.
fn side_by_side<T: Sync, R: Send>(all: &[T], done: &(dyn Fn(usize) + Sync), each: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(all.len());
    let work = || {
        let mut mine = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = all.get(index) else { return mine };
            mine.push((index, each(item)));
            done(finished.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let joined = |thread: std::thread::ScopedJoinHandle<_>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().flat_map(joined).collect()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

fn measured(
    benchmark: Benchmark,
    counted: Option<Result<CountedBenchmark>>,
    compiled: &Compiled,
    exact: bool,
) -> Measured {
    let (counted, error) = match counted {
        Some(Ok(counted)) => (Some(counted), None),
        Some(Err(error)) => (None, Some(format!("{error:#}"))),
        None => (None, None),
    };
    let mut it = Measured {
        operations: benchmark.runs.iter().map(|run| run.operations).sum(),
        runs: benchmark.runs.len() as u64,
        ns_per_op: benchmark.median(|run| run.nanoseconds),
        time: Summary::of(&benchmark.runs.iter().map(|run| run.nanoseconds).collect::<Vec<_>>()),
        measurements: benchmark.runs.clone(),
        bytes_per_op: benchmark.median(|run| run.bytes),
        allocs_per_op: benchmark.median(|run| run.allocations),
        counted_operations: 0,
        sums: Reconciliation { exact, ..Reconciliation::default() },
        lines: Vec::new(),
        error,
        profile: None,
        name: benchmark.name,
    };
    let Some(counted) = counted else { return it };
    it.counted_operations = counted.operations;
    it.profile = Some(counted.profile);
    let mut lines = join::explain(counted.allocations, compiled);
    lines.extend(join::explain(counted.setup, compiled));
    let lines = join::merge(lines);
    let in_figures = |line: &&Explained| line.allocation.part != Part::Untimed;
    let sum = |of: &dyn Fn(&Explained) -> f64| lines.iter().filter(in_figures).map(of).sum::<f64>();
    it.sums.on_lines = sum(&|line| line.allocation.allocations);
    it.sums.counted = it.sums.on_lines + counted.nowhere.allocations;
    let reason = |line: &Explained| match line.explanation.source {
        ReasonSource::None => 0.0,
        _ => line.allocation.allocations,
    };
    it.sums.with_reason = sum(&reason);
    it.sums.counted_bytes = sum(&|line| line.allocation.bytes) + counted.nowhere.bytes;
    let timed = it.operations as f64 / it.runs.max(1) as f64;
    let of = |part: Part| {
        let lines = lines.iter().filter(|line| line.allocation.part == part);
        lines.map(|line| line.allocation.allocations).fold(0.0, |sum, n| sum + n)
    };
    (it.sums.setup, it.sums.first_operations) = (of(Part::Once) * timed, of(Part::FirstOperations) * timed);
    it.sums.in_goroutines = of(Part::OnceInGoroutine) * timed;
    (it.sums.growing, it.sums.untimed) = (of(Part::Growing), of(Part::Untimed));
    match counted.shared_bytes {
        Some(saved) => it.sums.shared_bytes = saved,
        None => it.sums.unseen = (it.allocs_per_op - it.sums.counted).max(0.0),
    }
    it.sums.block_bytes = it.sums.counted_bytes + it.sums.shared_bytes;
    it.lines = lines;
    it
}

#[cfg(test)]
mod tests {
    use super::package;

    #[test]
    fn packages_of_functions() {
        for (function, expected) in [
            ("github.com/a/b.(*T).m", "github.com/a/b"),
            ("main.main", "main"),
            ("gopkg.in/yaml%2ev3.(*decoder).scalar", "gopkg.in/yaml.v3"),
            ("example.com/x.g[go.shape.struct { example.com/x.a int }]", "example.com/x"),
            ("example.com/x.two.func1", "example.com/x"),
        ] {
            assert_eq!(package(function), expected);
        }
    }
}
