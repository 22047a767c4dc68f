//! Cases that are benchmarks of Go: what each allocates by operation, as Go itself says it, and the lines and reasons
//! behind that.

use std::path::Path;

use anyhow::{Context, Result, bail};
use mallow_golang::join::{Explained, Part};
use mallow_golang::tool::{Go, Package, Timing, only};
use mallow_report::analysis::gate::{Measured, Run, SiteCount};

use super::config::{Benchmarks, Program};
use super::outcome::{CaseRun, CaseStacks, Reason};
use crate::go::measurement::Measurer;
use crate::output::progress::Spinner;

/// Runs the benchmarks: each is a case, `example.com/elvis.BenchmarkOne`. What goes wrong breaks cases.
pub fn run(index: usize, program: &Program, benchmarks: &Benchmarks) -> Vec<CaseRun> {
    let ran = |name: String, measured| CaseRun { name, program: index, measured, scale: None, warnings: Vec::new() };
    let (go, packages) = match packages(program, benchmarks, &benchmarks.packages) {
        Ok(found) => found,
        Err(error) => return vec![ran(benchmarks.display(), Err(format!("{error:#}")))],
    };
    let mut cases = Vec::new();
    for package in packages.iter().filter(|package| package.broken.is_some() || package.may_have_benchmarks()) {
        match measured(&go, package, program, benchmarks) {
            Ok(measured) => cases.extend(measured.into_iter().map(|(name, measured)| ran(name, measured))),
            Err(error) => cases.push(ran(package.import_path.clone(), Err(format!("{error:#}")))),
        }
    }
    if cases.is_empty() {
        let why = format!("no benchmark of {} matches {:?}", benchmarks.display(), benchmarks.pattern);
        cases.push(ran(benchmarks.display(), Err(why)));
    }
    cases
}

fn packages(program: &Program, benchmarks: &Benchmarks, names: &[String]) -> Result<(Go, Vec<Package>)> {
    let (tags, environment) = (benchmarks.tags.as_deref(), program.environment.clone());
    let go = Go::find_with(&program.directory, tags, environment, Some(program.timeout))?;
    let packages = go.packages(names)?;
    Ok((go, packages))
}

type Case = (String, Result<Measured, String>);

fn measured(go: &Go, package: &Package, program: &Program, benchmarks: &Benchmarks) -> Result<Vec<Case>> {
    if let Some(broken) = &package.broken {
        bail!("{broken}");
    }
    let binary = go.test_binary(package)?;
    let timing = Timing {
        pattern: benchmarks.pattern.clone(),
        count: program.warmup + program.runs,
        time: Some(format!("{}x", benchmarks.operations)),
    };
    let cases = go.time(&binary, &timing)?.into_iter().map(|benchmark| {
        let runs: Vec<Run> = benchmark
            .runs
            .iter()
            .skip(program.warmup as usize)
            .map(|run| Run {
                total_allocations: run.allocations as u64,
                total_allocated_bytes: run.bytes as u64,
                // What is not used any more is still there until Go collects it: nobody knows.
                remaining_allocations: None,
                leaked_fds: None,
                // Go has divided by them.
                operations: 1,
            })
            .collect();
        let measured = Measured::of(&runs).ok_or_else(|| "it ended before all runs were measured".to_owned());
        (format!("{}.{}", package.import_path, benchmark.name), measured)
    });
    Ok(cases.collect())
}

/// Bytes by operation that two runs of one benchmark may differ by: what the runtime allocates for itself and what
/// pools lost to a collection, up to 3.2 kB a run, is shared out over the operations.
pub fn noise(benchmarks: &Benchmarks) -> u64 {
    const OF_RUN: u64 = 4096;
    OF_RUN / benchmarks.operations.max(1)
}

/// The lines that allocate in a case, with their reasons. Files below `root` are named relative to it.
pub fn stacks(program: &Program, benchmarks: &Benchmarks, case: &str, root: &Path) -> Result<CaseStacks, String> {
    let lines = lines(program, benchmarks, case).map_err(|error| format!("no lines: {error:#}"))?;
    let mut found = CaseStacks::default();
    for line in &lines {
        found.add(line, &root.to_string_lossy());
    }
    Ok(found)
}

fn lines(program: &Program, benchmarks: &Benchmarks, case: &str) -> Result<Vec<Explained>> {
    let (import_path, name) = split(case).context("the name of the case is no benchmark's")?;
    let (go, packages) = packages(program, benchmarks, &[import_path.to_owned()])?;
    let package = packages.first().context("its package is gone")?;
    let timing = Timing { pattern: only(name), count: 1, time: Some(format!("{}x", benchmarks.operations)) };
    let working = Spinner::new();
    let (measured, _) = Measurer { go: &go, package, working: &working }.measure(&timing)?;
    let measured = measured.into_iter().find(|measured| measured.name == name).context("it did not run again")?;
    match measured.error {
        Some(error) => bail!(error),
        None => Ok(measured.lines.into_iter().filter(|line| line.allocation.part != Part::Untimed).collect()),
    }
}

/// Import path and benchmark of a case's name.
fn split(case: &str) -> Option<(&str, &str)> {
    let at = case.find(".Benchmark")?;
    Some((&case[..at], &case[at + 1..]))
}

impl CaseStacks {
    /// Adds an allocation as the stacks that lead to it from the project's own code. What is allocated is the innermost
    /// frame, a function of its own, so that several of one function stay distinct when stacks are compared without
    /// lines.
    fn add(&mut self, line: &Explained, root: &str) {
        let (allocation, explanation) = (&line.allocation, &line.explanation);
        let Some(place) = allocation.chain.first() else { return };
        let file = |file: &str| below(file, root).to_owned();
        let at = format!("{}:{}", file(&place.file), place.line);
        let mut stack = vec![format!("{} ({at})", explanation.what)];
        stack.extend(allocation.chain.iter().map(|p| format!("{} ({}:{})", p.function, file(&p.file), p.line)));
        let mut call_paths: Vec<(Vec<String>, f64)> = allocation
            .callers
            .iter()
            .map(|caller| {
                let place = &caller.place;
                let step = format!("{} ({}:{})", place.function, file(&place.file), place.line);
                (stack.iter().cloned().chain([step]).collect(), caller.allocations)
            })
            .collect();
        let rest = allocation.allocations - call_paths.iter().map(|(_, allocations)| allocations).sum::<f64>();
        if rest > 1e-6 || call_paths.is_empty() {
            call_paths.push((stack, rest));
        }
        let size = if allocation.allocations > 0.0 { allocation.bytes / allocation.allocations } else { 0.0 };
        for (stack, allocations) in call_paths {
            let site = SiteCount {
                stack: stack.clone(),
                allocations: allocations.round() as u64,
                allocated_bytes: (allocations * size).round() as u64,
            };
            // What happens less often than in every second operation is no part of whole numbers.
            if site.allocations == 0 && site.allocated_bytes == 0 {
                continue;
            }
            self.sites.push(site);
            self.reasons.push(Reason {
                stack,
                place: at.clone(),
                allocations,
                what: explanation.what.clone(),
                reason: explanation.reason.clone(),
                steps: explanation.steps.clone(),
                suggestion: explanation.remedy.clone(),
            });
        }
    }
}

fn below<'a>(file: &'a str, root: &str) -> &'a str {
    let rest = file.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
    rest.unwrap_or_else(|| file.rsplit('/').next().unwrap_or(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cases_are_split_where_the_benchmark_begins() {
        assert_eq!(split("example.com/a.b.BenchmarkX/.Benchmark"), Some(("example.com/a.b", "BenchmarkX/.Benchmark")));
        assert_eq!(split("leak"), None);
    }

    #[test]
    fn files_are_named_from_the_root() {
        assert_eq!(below("/home/p/a/b.go", "/home/p"), "a/b.go");
        assert_eq!(below("/usr/go/io.go", "/home/p"), "io.go");
    }
}
