//! Benchmarks beside those of an earlier `mallow go bench --json`, with benchstat's statistics.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use mallow_golang::results::Run;
use mallow_golang::statistics::{ALPHA, LEAST_FOR_DIFFERENCE, LEAST_FOR_INTERVAL, Summary, difference, geometric_mean};
use serde::{Deserialize, Serialize};

use super::figures::{number, summarized};
use super::measurement::Measured;
use crate::output::text::{Align, Line, Page, Table};

/// Figures of an earlier run by package and benchmark.
pub struct EarlierRuns(HashMap<(String, String), Vec<Figures>>);

/// The figures of one run, by operation.
#[derive(Clone, Copy, Deserialize)]
struct Figures {
    nanoseconds: f64,
    bytes: f64,
    allocations: f64,
}

/// Comparison of the benchmarks of two runs.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BenchComparison {
    /// Path of the file of the earlier run, as the command line has it.
    pub base: String,
    /// Figures of the benchmarks that both runs have, by unit.
    pub differences: Vec<Difference>,
    /// Geometric means of the medians, one row for each unit.
    pub means: Vec<Means>,
    /// Benchmarks that only one of both runs has, each with the import path of its package.
    pub only_one: Vec<String>,
}

/// One figure of one benchmark, in both runs.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Difference {
    /// Import path of the benchmark's package.
    pub package: String,
    /// Name of the benchmark: `BenchmarkDecode/small`.
    pub name: String,
    /// Unit of the figure: `ns/op`, `B/op` or `allocs/op`.
    pub unit: &'static str,
    /// Median and interval of the base, in `unit`.
    pub before: Summary,
    /// Median and interval of this run, in `unit`.
    pub after: Summary,
    /// Numbers of runs that are compared: of the base, and of this run.
    pub runs: [usize; 2],
    /// The p-value of the Mann-Whitney U-test; null where all runs are equal.
    pub p: Option<f64>,
    /// The p-value is at most 0.05.
    pub significant: bool,
}

/// Geometric means of the medians of all benchmarks, in one unit.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Means {
    /// Unit of `before` and `after`: `ns/op`, `B/op` or `allocs/op`.
    pub unit: &'static str,
    /// Geometric mean of the base's medians, in `unit`; null where a median is 0.
    pub before: Option<f64>,
    /// Geometric mean of this run's medians, in `unit`; null where a median is 0.
    pub after: Option<f64>,
}

/// A unit, and the figure of a run in it.
type Unit = (&'static str, fn(&Figures) -> f64);

const UNITS: [Unit; 3] =
    [("ns/op", |run| run.nanoseconds), ("B/op", |run| run.bytes), ("allocs/op", |run| run.allocations)];

impl EarlierRuns {
    /// Reads what `mallow go bench --json` wrote.
    pub fn read(path: &Path) -> Result<Self> {
        #[derive(Deserialize)]
        struct Document {
            packages: Vec<Package>,
        }
        #[derive(Deserialize)]
        struct Package {
            package: String,
            benchmarks: Vec<Benchmark>,
        }
        #[derive(Deserialize)]
        struct Benchmark {
            name: String,
            measurements: Vec<Figures>,
        }
        let name = path.display();
        let text = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
        let document: Document = serde_json::from_slice(&text)
            .with_context(|| format!("{name} is not what mallow go bench --json --count 10 writes"))?;
        let mut runs = HashMap::new();
        for package in document.packages {
            for benchmark in package.benchmarks {
                runs.insert((package.package.clone(), benchmark.name), benchmark.measurements);
            }
        }
        if runs.is_empty() {
            bail!("{name} has no benchmarks");
        }
        Ok(Self(runs))
    }

    /// Compares benchmarks, each with the import path of its package.
    pub fn compare<'a>(mut self, all: impl Iterator<Item = (&'a str, &'a Measured)>, base: String) -> BenchComparison {
        let mut found = BenchComparison { base, ..BenchComparison::default() };
        for (package, measured) in all {
            let Some(before) = self.0.remove(&(package.to_owned(), measured.name.clone())) else {
                found.only_one.push(format!("{package}.{}", measured.name));
                continue;
            };
            let figures =
                |run: &Run| Figures { nanoseconds: run.nanoseconds, bytes: run.bytes, allocations: run.allocations };
            let after: Vec<Figures> = measured.measurements.iter().map(figures).collect();
            for (unit, of) in UNITS {
                let [before, after]: [Vec<f64>; 2] = [&before, &after].map(|runs| runs.iter().map(of).collect());
                let p = difference(&before, &after);
                found.differences.push(Difference {
                    package: package.to_owned(),
                    name: measured.name.clone(),
                    unit,
                    before: Summary::of(&before),
                    after: Summary::of(&after),
                    runs: [before.len(), after.len()],
                    significant: p.is_some_and(|p| p <= ALPHA),
                    p,
                });
            }
        }
        let mut gone: Vec<String> = self.0.into_keys().map(|(package, name)| format!("{package}.{name}")).collect();
        gone.sort_unstable();
        found.only_one.extend(gone);
        found.means = UNITS.map(|(unit, _)| found.mean(unit)).into();
        found
    }
}

impl BenchComparison {
    fn mean(&self, unit: &'static str) -> Means {
        let of = |median: fn(&Difference) -> f64| {
            let medians: Vec<f64> = self.differences.iter().filter(|one| one.unit == unit).map(median).collect();
            geometric_mean(&medians)
        };
        Means { unit, before: of(|one| one.before.median), after: of(|one| one.after.median) }
    }

    pub fn onto(&self, page: &mut Page) {
        for means in &self.means {
            let rows: Vec<&Difference> = self.differences.iter().filter(|one| one.unit == means.unit).collect();
            if rows.is_empty() {
                continue;
            }
            page.gap();
            let summaries = rows.iter().flat_map(|row| [&row.before, &row.after]);
            let intervals = match summaries.filter(|summary| summary.percent().is_some()).count() {
                0 => format!("medians (95 % intervals show from {LEAST_FOR_INTERVAL} runs on: --count)"),
                _ => "medians with 95 % intervals".to_owned(),
            };
            let title = format!("{}, {intervals}, beside {}", means.unit, self.base);
            page.line(Line::new().strong(title));
            let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right, Align::Left]);
            table.row(["", "before", "after", "change", ""].map(|title| Line::new().faint(title)));
            for row in &rows {
                let [before, after] = [&row.before, &row.after].map(|summary| Line::new().plain(summarized(summary)));
                let change = match row.significant {
                    true => change(row.before.median, row.after.median),
                    false => "~".to_owned(),
                };
                let remark = Line::new().faint(tested(row));
                table.row([Line::new().strong(&row.name), before, after, Line::new().plain(change), remark]);
            }
            if let (Some(before), Some(after), true) = (means.before, means.after, rows.len() > 1) {
                let [shown_before, shown_after] = [before, after].map(|mean| Line::new().plain(number(mean)));
                let change = Line::new().plain(change(before, after));
                table.row([Line::new().plain("geometric mean"), shown_before, shown_after, change, Line::new()]);
            }
            table.onto(page);
        }
        if let [first, others @ ..] = self.only_one.as_slice() {
            let more = if others.is_empty() { String::new() } else { format!(" and {} more", others.len()) };
            page.gap();
            page.line(Line::new().faint(format!("Only one of both has {first}{more}: not compared")));
        }
    }
}

/// `-12.34 %`, as benchstat has it.
fn change(before: f64, after: f64) -> String {
    match before {
        _ if before == after => "0.00 %".to_owned(),
        0.0 => "?".to_owned(),
        _ => format!("{:+.2} %", (after / before - 1.0) * 100.0),
    }
}

/// `(p=0.002 n=6)`; or why there is nothing to say.
fn tested(row: &Difference) -> String {
    let [before, after] = row.runs;
    let runs = if before == after { format!("n={before}") } else { format!("n={before}+{after}") };
    match row.p {
        None => format!("(all runs are equal, {runs})"),
        Some(p) if !row.significant && before.max(after) < LEAST_FOR_DIFFERENCE => {
            format!("(p={p:.3} {runs}; a difference shows from {LEAST_FOR_DIFFERENCE} runs on: --count)")
        }
        Some(p) => format!("(p={p:.3} {runs})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_written_as_benchstat_writes_them() {
        assert_eq!(change(100.0, 87.5), "-12.50 %");
        assert_eq!(
            (change(0.0, 5.0), change(2.0, 2.0), change(0.0, 0.0)),
            ("?".into(), "0.00 %".into(), "0.00 %".into())
        );
        let row = |p, before, after| Difference {
            package: String::new(),
            name: String::new(),
            unit: "ns/op",
            before: Summary::default(),
            after: Summary::default(),
            runs: [before, after],
            p,
            significant: p.is_some_and(|p| p <= ALPHA),
        };
        assert_eq!(tested(&row(Some(0.0021), 6, 6)), "(p=0.002 n=6)");
        assert_eq!(tested(&row(Some(0.4), 6, 7)), "(p=0.400 n=6+7)");
        assert_eq!(tested(&row(None, 3, 3)), "(all runs are equal, n=3)");
        assert!(tested(&row(Some(1.0), 1, 1)).contains("from 4 runs on"));
    }
}
