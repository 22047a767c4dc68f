//! Running benchmarks: for their times, undisturbed, and for each allocation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use super::build::TestBinary;
use super::{Go, GoError, start};
use crate::results::{Benchmark, failures, processors, results};

/// What the undisturbed run is asked for.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Which benchmarks, as `go test -bench` understands it.
    pub pattern: String,
    /// How often each.
    pub count: u32,
    /// `100x` or `2s`; Go's own 1 s where it is not said.
    pub time: Option<String>,
}

/// A benchmark of which every allocation is in two profiles. What the second has more than the first is by `operations`
/// operations: set-up is in both.
#[derive(Debug)]
pub struct ExactRun {
    /// The profile with few operations.
    pub few: PathBuf,
    /// The profile with many.
    pub many: PathBuf,
    /// Operations that the second one has more.
    pub operations: u64,
    /// What the benchmark itself said of the run with many.
    pub said: Option<Benchmark>,
    /// The profiles vanish with it.
    _directory: TempDir,
}

/// Operations of the run with few: the first ones fill caches and pools.
const FEW: u64 = 5;
/// Operations of the run with many, at the least and at the most.
const MANY: (u64, u64) = (15, 20_000);
/// The part of the undisturbed run's time that the run with many may take.
const SHARE: f64 = 0.1;
/// The time of an undisturbed run is taken to be at least this, in nanoseconds.
const LEAST_TIME: f64 = 2e8;
/// What counting costs, for each allocation in nanoseconds.
const COST: f64 = 2500.0;

impl Go {
    /// Runs the benchmarks undisturbed: what they say of themselves, each by its name, in their order.
    pub fn time(&self, binary: &TestBinary, timing: &Timing) -> Result<Vec<Benchmark>, GoError> {
        let mut arguments = vec![format!("-test.count={}", timing.count)];
        arguments.extend(timing.time.iter().map(|time| format!("-test.benchtime={time}")));
        let said = run(binary, &binary.path, &timing.pattern, &arguments)?;
        Ok(measured(&said))
    }

    /// Runs each benchmark alone, with a profile of each allocation. `exact` is the program of which every allocation is
    /// seen. `done` is told how many are.
    pub fn exact(
        &self,
        binary: &TestBinary,
        exact: &Path,
        benchmarks: &[Benchmark],
        done: &(dyn Fn(usize) + Sync),
    ) -> Vec<Result<ExactRun, GoError>> {
        // Times do not matter here: one for each processor.
        let results: Vec<Mutex<Option<Result<ExactRun, GoError>>>> =
            benchmarks.iter().map(|_| Mutex::default()).collect();
        let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(benchmarks.len());
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    while let Some(benchmark) = benchmarks.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let index = benchmarks.iter().position(|other| std::ptr::eq(other, benchmark));
                        let result = self.exact_one(binary, exact, benchmark);
                        if let Some(Ok(mut place)) = index.map(|index| results[index].lock()) {
                            *place = Some(result);
                        }
                        done(finished.fetch_add(1, Ordering::Relaxed) + 1);
                    }
                });
            }
        });
        let missing = || Err(GoError::Failed { package: binary.package.clone(), what: "it was not run".into() });
        results.into_iter().map(|place| place.into_inner().ok().flatten().unwrap_or_else(missing)).collect()
    }

    fn exact_one(&self, binary: &TestBinary, exact: &Path, benchmark: &Benchmark) -> Result<ExactRun, GoError> {
        let directory = self.cache.draft()?;
        let many = operations(benchmark);
        let pattern = only(&benchmark.name);
        let profile = |name: &str, operations: u64| {
            let path = directory.path().join(name);
            let arguments = [
                format!("-test.benchtime={operations}x"),
                "-test.memprofilerate=1".to_owned(),
                format!("-test.memprofile={}", path.display()),
            ];
            let said = run(binary, exact, &pattern, &arguments)?;
            match fs::metadata(&path) {
                Ok(_) => Ok((path, said)),
                Err(_) => Err(GoError::Failed {
                    package: binary.package.clone(),
                    what: format!("{} wrote no profile", benchmark.name),
                }),
            }
        };
        let (few, _) = profile("few", FEW)?;
        let (many_path, said) = profile("many", many)?;
        let said = measured(&said).into_iter().find(|said| said.name == benchmark.name);
        Ok(ExactRun { few, many: many_path, operations: many - FEW, said, _directory: directory })
    }
}

/// How many operations are counted: enough to tell what happens seldom, in a small part of the time that was measured.
fn operations(benchmark: &Benchmark) -> u64 {
    let run = benchmark.runs.first();
    let (measured, each, allocations) =
        run.map_or((0, 0.0, 0.0), |run| (run.operations, run.nanoseconds, run.allocations));
    let time = (each * measured as f64).max(LEAST_TIME) * SHARE;
    let fitting = (time / (each + COST * allocations).max(1.0)) as u64;
    fitting.clamp(MANY.0, MANY.1)
}

/// The results, by names without the number of processors.
fn measured(said: &str) -> Vec<Benchmark> {
    let told = std::env::var("GOMAXPROCS").ok().and_then(|n| n.parse().ok()).filter(|&n| n > 0);
    let there_are = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    results(said, processors(said, told.unwrap_or(there_are)))
}

/// The pattern of this benchmark alone.
pub fn only(name: &str) -> String {
    let quoted = |part: &str| {
        let mut text = String::from("^");
        for c in part.chars() {
            if c.is_ascii() && !c.is_ascii_alphanumeric() && c != '_' {
                text.push('\\');
            }
            text.push(c);
        }
        text + "$"
    };
    name.split('/').map(quoted).collect::<Vec<_>>().join("/")
}

fn run(binary: &TestBinary, program: &Path, pattern: &str, more: &[String]) -> Result<String, GoError> {
    let output = start(
        Command::new(program)
            .current_dir(&binary.directory)
            .args(["-test.run=^$", "-test.benchmem", "-test.timeout=0"])
            .arg(format!("-test.bench={pattern}"))
            .args(more),
    )?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(said);
    }
    let what = match failures(&said, &String::from_utf8_lossy(&output.stderr)) {
        Some(what) => what,
        None => format!("its benchmarks failed: {}", output.status),
    };
    Err(GoError::Failed { package: binary.package.clone(), what })
}

#[cfg(test)]
mod tests {
    use super::only;

    #[test]
    fn patterns_match_one_benchmark_alone() {
        assert_eq!(only("BenchmarkX"), "^BenchmarkX$");
        assert_eq!(only("BenchmarkX/a|b=1.5/c#01"), "^BenchmarkX$/^a\\|b\\=1\\.5$/^c\\#01$");
    }
}
