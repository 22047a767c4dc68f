//! What benchmarks print of themselves.

use serde::Serialize;

/// A benchmark, with its runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Benchmark {
    /// Name of the benchmark, without the number of processors: `BenchmarkDecode/small`.
    pub name: String,
    /// Results of the runs, one for each `-count`.
    pub runs: Vec<Run>,
}

/// Results of one run of a benchmark, as Go prints them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Run {
    /// Operations of the run, which Go calls iterations.
    pub operations: u64,
    /// Time of the run, in nanoseconds per operation.
    pub nanoseconds: f64,
    /// Bytes per operation of the run, rounded down by Go.
    pub bytes: f64,
    /// Allocations per operation of the run, rounded down by Go.
    pub allocations: f64,
}

impl Benchmark {
    /// Median of a figure over the runs; 0 without runs.
    pub fn median(&self, of: fn(&Run) -> f64) -> f64 {
        let mut values: Vec<f64> = self.runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        match values.len() {
            0 => 0.0,
            n if n % 2 == 1 => values[middle],
            _ => (values[middle - 1] + values[middle]) / 2.0,
        }
    }
}

/// The lines of results. `processors` is what names end with.
pub fn results(said: &str, processors: Option<u32>) -> Vec<Benchmark> {
    let mut benchmarks: Vec<Benchmark> = Vec::new();
    for (name, run) in said.lines().filter_map(line) {
        let suffix = processors.map(|n| format!("-{n}")).unwrap_or_default();
        let name = name.strip_suffix(suffix.as_str()).unwrap_or(name);
        match benchmarks.iter_mut().find(|known| known.name == name) {
            Some(known) => known.runs.push(run),
            None => benchmarks.push(Benchmark { name: name.to_owned(), runs: vec![run] }),
        }
    }
    benchmarks
}

/// The number of processors that names end with, which Go appends where it is not 1. `there_are` so many; names may end
/// like that by themselves, but seldom all of them, and with this very number.
pub fn processors(said: &str, there_are: u32) -> Option<u32> {
    let suffix = format!("-{there_are}");
    let mut names = said.lines().filter_map(line).map(|(name, _)| name);
    (there_are > 1 && names.all(|name| name.ends_with(&suffix))).then_some(there_are)
}

fn line(line: &str) -> Option<(&str, Run)> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next().filter(|name| name.starts_with("Benchmark"))?;
    let mut run = Run { operations: words.next()?.parse().ok()?, ..Run::default() };
    let mut timed = false;
    while let (Some(value), Some(unit)) = (words.next(), words.next()) {
        let value: f64 = value.parse().ok()?;
        match unit {
            "ns/op" => (run.nanoseconds, timed) = (value, true),
            "B/op" => run.bytes = value,
            "allocs/op" => (run.allocations, timed) = (value, true),
            _ => {}
        }
    }
    timed.then_some((name, run))
}

/// The first failure or panic in a benchmark's output, in a line.
pub fn failures(said: &str, errors: &str) -> Option<String> {
    let lines: Vec<&str> = said.lines().chain(errors.lines()).collect();
    let at = lines.iter().position(|line| ["--- FAIL", "panic:", "fatal error:"].iter().any(|w| line.contains(w)))?;
    let what = lines[at].trim();
    // The reason of a failed benchmark stands in the line below.
    let why = lines.get(at + 1).filter(|_| what.starts_with("---")).map(|line| line.trim()).unwrap_or_default();
    Some(if why.is_empty() { what.to_owned() } else { format!("{}: {why}", what.trim_start_matches("--- ")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "goos: linux\nBenchmarkA/x-2 \t 1000\t 24588 ns/op\t 12.5 MB/s\t 53 B/op\t 2 allocs/op\n\
        hello BenchmarkA\nBenchmarkB-2 10 5.5 ns/op 0 B/op 0 allocs/op\nBenchmarkA/x-2 1000 24590 ns/op 53 B/op 4 allocs/op\nPASS\n";

    #[test]
    fn lines_of_results() {
        let found = results(SAID, processors(SAID, 2));
        let names: Vec<_> = found.iter().map(|b| (b.name.as_str(), b.runs.len())).collect();
        assert_eq!(names, [("BenchmarkA/x", 2), ("BenchmarkB", 1)]);
        assert_eq!(found[0].median(|run| run.allocations), 3.0);
        assert_eq!(found[1].median(|run| run.nanoseconds), 5.5);
    }

    #[test]
    fn a_number_that_is_part_of_the_name_stays() {
        let said = "BenchmarkA/size-10 1 5 ns/op\nBenchmarkA/size-20 1 5 ns/op\n";
        assert_eq!((processors(said, 10), processors(said, 1)), (None, None));
        assert_eq!(results(said, None)[0].name, "BenchmarkA/size-10");
    }

    #[test]
    fn what_went_wrong() {
        let said = "goos: linux\n--- FAIL: BenchmarkX\n    x_test.go:9: no such file\nFAIL\n";
        assert_eq!(failures(said, "").as_deref(), Some("FAIL: BenchmarkX: x_test.go:9: no such file"));
        assert_eq!(failures("", "panic: boom\n\ngoroutine 1").as_deref(), Some("panic: boom"));
        assert_eq!(failures("PASS", ""), None);
    }
}
