//! Running benchmarks: for their times, undisturbed, and for each allocation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::build::TestBinary;
use super::{Go, GoError};
use crate::results::{Benchmark, Run, failures, processors, results};

#[derive(Clone, Debug)]
pub struct Timing {
    /// Pattern of the benchmarks, as `go test -bench` understands it.
    pub pattern: String,
    pub count: u32,
    /// `100x` or `2s`; Go's own 1 s where it is not said.
    pub time: Option<String>,
}

/// A benchmark with every allocation in two profiles. What the second has more than the first is by the operations
/// that it has more: set-up is in both.
#[derive(Debug)]
pub struct ExactRun {
    pub few: Profiled,
    pub many: Profiled,
    /// Directory of the profiles, which are removed with it.
    directory: TempDir,
}

/// A run with a profile of each allocation.
#[derive(Debug)]
pub struct Profiled {
    pub path: PathBuf,
    /// Operations of the run, beside the one that Go tries each benchmark with.
    pub operations: u64,
    /// The benchmark's own output for this run.
    pub said: Option<Run>,
}

/// Operations of the run with few: the first ones fill caches and pools.
const FEW: u64 = 5;
/// Operations of the run with many, at the least and at the most.
const MANY: (u64, u64) = (9, 20_000);
/// The part of the undisturbed run's time that the run with many may take.
const SHARE: f64 = 0.1;
/// The part that it may take where fewer operations do something else than those of the undisturbed run.
const LARGEST_SHARE: f64 = 3.0;
/// The time of an undisturbed run is taken to be at least this, in nanoseconds.
const LEAST_TIME: f64 = 2e8;
/// Memory at which a run without collections has one all the same.
const MEMORY: &str = "1GiB";
/// Cost of counting each allocation, in nanoseconds.
const COST: f64 = 2500.0;

impl Go {
    /// Runs the benchmarks undisturbed: what they say of themselves, each by its name, in their order.
    pub fn time(&self, binary: &TestBinary, timing: &Timing) -> Result<Vec<Benchmark>, GoError> {
        let mut arguments = vec![format!("-test.count={}", timing.count)];
        arguments.extend(timing.time.iter().map(|time| format!("-test.benchtime={time}")));
        let said = self.run_benchmarks(binary, &binary.path, &timing.pattern, &arguments, true)?;
        Ok(measured(&said))
    }

    /// Runs a benchmark alone, with a profile of each allocation, of so many `operations` at the most. `exact` is the
    /// program that shows every allocation. Without `collecting` no garbage is collected: pools keep what is put into
    /// them, in set-up too.
    pub fn exact(
        &self,
        binary: &TestBinary,
        exact: &Path,
        benchmark: &Benchmark,
        collecting: bool,
        operations: u64,
    ) -> Result<ExactRun, GoError> {
        let directory = self.cache.draft()?;
        let (few, many) = (FEW.min(operations / 3), operations);
        let run = |name: &str, operations: u64| {
            let path = directory.path().join(name);
            let said = self.counted(binary, exact, benchmark, collecting, (&path, operations))?;
            let said = measured(&said).into_iter().find(|said| said.name == benchmark.name);
            Ok::<_, GoError>(Profiled { path, operations, said: said.and_then(|said| said.runs.into_iter().next()) })
        };
        let (few, many) = (run("few", few)?, run("many", many)?);
        Ok(ExactRun { few, many, directory })
    }

    /// A profile of what an exact run has before its own operations begin: the program's beginning, and the one
    /// operation that Go tries each benchmark with.
    pub fn before(
        &self,
        binary: &TestBinary,
        exact: &Path,
        benchmark: &Benchmark,
        collecting: bool,
        run: &ExactRun,
    ) -> Result<Profiled, GoError> {
        let path = run.directory.path().join("before");
        self.counted(binary, exact, benchmark, collecting, (&path, 1))?;
        Ok(Profiled { path, operations: 0, said: None })
    }

    /// Runs so many operations of a benchmark with a profile of each allocation. What it says.
    fn counted(
        &self,
        binary: &TestBinary,
        exact: &Path,
        benchmark: &Benchmark,
        collecting: bool,
        (profile, operations): (&Path, u64),
    ) -> Result<String, GoError> {
        let arguments = [
            format!("-test.benchtime={operations}x"),
            "-test.memprofilerate=1".to_owned(),
            format!("-test.memprofile={}", profile.display()),
            // A pattern matches all names that begin so.
            format!("-test.skip={}/.", only(&benchmark.name)),
        ];
        let said = self.run_benchmarks(binary, exact, &only(&benchmark.name), &arguments, collecting)?;
        match fs::metadata(profile) {
            Ok(_) => Ok(said),
            Err(_) => Err(GoError::Failed {
                package: binary.package.clone(),
                what: format!("{} wrote no profile", benchmark.name),
            }),
        }
    }

    /// Runs the benchmarks that match, and returns their output.
    fn run_benchmarks(
        &self,
        binary: &TestBinary,
        program: &Path,
        pattern: &str,
        more: &[String],
        collecting: bool,
    ) -> Result<String, GoError> {
        let mut command = Command::new(program);
        command.envs(&self.environment);
        if !collecting {
            command.env("GOGC", "off").env("GOMEMLIMIT", MEMORY);
        }
        // Go's own -test.timeout ends no benchmarks.
        command
            .current_dir(&binary.directory)
            .args(["-test.run=^$", "-test.benchmem", "-test.timeout=0"])
            .arg(format!("-test.bench={pattern}"))
            .args(more);
        let failed = |what| GoError::Failed { package: binary.package.clone(), what };
        let output = mallow_children::output(&mut command, self.limit).map_err(GoError::Start)?.ok_or_else(|| {
            let seconds = self.limit.unwrap_or_default().as_secs_f64();
            failed(format!("its benchmarks took longer than {seconds} s; timeout in mallow.toml allows more"))
        })?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(said);
        }
        let what = match failures(&said, &String::from_utf8_lossy(&output.stderr)) {
            Some(what) => what,
            None => format!("its benchmarks failed: {}", output.status),
        };
        Err(failed(what))
    }
}

/// Operations of the run with many: enough to see what happens seldom, in a small part of the time that was measured.
pub fn some_operations(benchmark: &Benchmark) -> u64 {
    let allocations = benchmark.runs.first().map_or(0.0, |run| run.allocations);
    fitting(benchmark, allocations, SHARE).clamp(MANY.0, MANY.1)
}

/// Operations of the undisturbed run, or as many of them as may be counted in the time of some of its kind.
/// `allocations` by operation are all that the program makes, timed or not.
pub fn timed_operations(benchmark: &Benchmark, allocations: f64) -> u64 {
    let timed = benchmark.median(|run| run.operations as f64) as u64;
    timed.min(fitting(benchmark, allocations, LARGEST_SHARE))
}

/// Operations that are counted in a `share` of the undisturbed run's time.
fn fitting(benchmark: &Benchmark, allocations: f64, share: f64) -> u64 {
    let (measured, each) = benchmark.runs.first().map_or((0, 0.0), |run| (run.operations, run.nanoseconds));
    let time = (each * measured as f64).max(LEAST_TIME) * share;
    (time / (each + COST * allocations).max(1.0)) as u64
}

/// The results, by names without the number of processors.
fn measured(said: &str) -> Vec<Benchmark> {
    let configured = std::env::var("GOMAXPROCS").ok().and_then(|n| n.parse().ok()).filter(|&n| n > 0);
    let there_are = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    results(said, processors(said, configured.unwrap_or(there_are)))
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

#[cfg(test)]
mod tests {
    use super::only;

    #[test]
    fn patterns_match_one_benchmark_alone() {
        assert_eq!(only("BenchmarkX"), "^BenchmarkX$");
        assert_eq!(only("BenchmarkX/a|b=1.5/c#01"), "^BenchmarkX$/^a\\|b\\=1\\.5$/^c\\#01$");
    }
}
