//! What SwiftNIO's allocation tests keep and print.
//!
//! Limits are an object of JSON, `{ "1000_reqs_1_conn": 26400 }`, or variables,
//! `MAX_ALLOCS_ALLOWED_1000_reqs_1_conn=26400` in a script or a container's settings. Figures are the lines of a run,
//! `test_1000_reqs_1_conn.total_allocations: 26327`, as a terminal or a CI server's log has them, with whatever stands
//! before them; a `DEBUG:` line after those of a case repeats them run by run, and must agree.

use std::collections::BTreeMap;

use mallow_report::analysis::gate::{Figures, Metric};

use super::unique_map::UniqueMap;

#[derive(Debug, Default, PartialEq)]
pub struct SwiftNioValues {
    /// Largest number of allocations by case.
    pub limits: BTreeMap<String, i64>,
    /// Figures of a run by case.
    pub figures: BTreeMap<String, Figures>,
}

/// A mistake in a text.
#[derive(Debug, PartialEq)]
pub struct Fault {
    /// Line number, counted from 1; None where the whole is wrong.
    pub line: Option<usize>,
    pub what: String,
}

const NOTHING: &str = "neither limits (a JSON object of cases and numbers, or MAX_ALLOCS_ALLOWED_CASE=N) nor lines of a \
                       run (CASE.total_allocations: N)";
const CUT: &str = "is the file cut short?";

/// Reads a text of either kind. Cases that are not `wanted` are not looked at.
pub fn read(text: &str, wanted: &dyn Fn(&str) -> bool) -> Result<SwiftNioValues, Fault> {
    let values = match text.trim_start().chars().next() {
        Some('{' | '[') => thresholds(text, wanted)?,
        _ => Lines::default().read(text, wanted)?,
    };
    if values == SwiftNioValues::default() {
        return Err(Fault { line: None, what: NOTHING.to_owned() });
    }
    Ok(values)
}

fn thresholds(text: &str, wanted: &dyn Fn(&str) -> bool) -> Result<SwiftNioValues, Fault> {
    let fault = |error: serde_json::Error| {
        let what = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        Fault { line: Some(error.line()), what: what.strip_suffix(&place).unwrap_or(&what).to_owned() }
    };
    if let Some(metric) = benchmark_metric(text) {
        let what = format!(
            "{metric} is a metric of package-benchmark, counted by its own harness with what that allocates: measure the \
             benchmark's body with mallow_measure, and mallow test --update makes its baseline; SwiftNIO's limits of \
             allocations are in IntegrationTests/…/Thresholds"
        );
        return Err(Fault { line: None, what });
    }
    // Below zero is what is printed where nothing was measured.
    let UniqueMap(limits) = serde_json::from_str::<UniqueMap<u32>>(text).map_err(fault)?;
    let limits = limits.into_iter().filter(|(case, _)| wanted(case)).map(|(case, limit)| (case, limit.into()));
    Ok(SwiftNioValues { limits: limits.collect(), ..SwiftNioValues::default() })
}

/// The metric of a file of package-benchmark's, which has a value for each metric of one benchmark.
fn benchmark_metric(text: &str) -> Option<String> {
    const METRICS: &[&str] = &[
        "cpuTotal",
        "cpuUser",
        "cpuSystem",
        "wallClock",
        "throughput",
        "instructions",
        "peakMemoryResident",
        "peakMemoryResidentDelta",
        "peakMemoryVirtual",
        "allocatedResidentMemory",
        "memoryLeaked",
        "mallocCountSmall",
        "mallocCountLarge",
        "mallocCountTotal",
        "mallocBytesCount",
        "objectAllocCount",
        "retainCount",
        "releaseCount",
        "retainReleaseDelta",
        "syscalls",
        "contextSwitches",
        "threads",
        "threadsRunning",
        "readSyscalls",
        "writeSyscalls",
        "readBytesLogical",
        "writeBytesLogical",
        "readBytesPhysical",
        "writeBytesPhysical",
    ];
    let object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).ok()?;
    let metrics = object.keys().all(|key| METRICS.contains(&key.as_str()));
    object.into_iter().next().filter(|_| metrics).map(|(key, _)| key)
}

/// A name that a person can type, and that stays in its line.
fn typeable(name: &str) -> bool {
    !name.trim().is_empty() && !name.chars().any(char::is_control)
}

#[derive(Default)]
struct Lines {
    limits: BTreeMap<String, (i64, usize)>,
    /// Figure and its line, by case and metric.
    figures: BTreeMap<String, BTreeMap<Metric, (i64, usize)>>,
    /// Case of the line that came last.
    last: Option<String>,
}

impl Lines {
    fn read(mut self, text: &str, wanted: &dyn Fn(&str) -> bool) -> Result<SwiftNioValues, Fault> {
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            let fault = |what: String| Fault { line: Some(number), what };
            let mut known = true;
            if let Some((case, limit)) = variable(line) {
                let limit = limit.parse::<u32>().map_err(|_| fault(format!("{limit:?} is no limit of {case}")))?;
                if wanted(&case) {
                    enter(&mut self.limits, case.clone(), (limit.into(), number), &case)?;
                }
            } else if let Some((case, metric, figure)) = figure(line) {
                self.last = Some(case.to_owned());
                let name = format!("{} of {case}", metric.key());
                let figure: i64 = figure.parse().map_err(|_| fault(format!("{figure:?} is no {name}; {CUT}")))?;
                if wanted(case) {
                    if !typeable(case) {
                        return Err(fault("a case with a name that nobody can type".to_owned()));
                    }
                    if figure < 0 {
                        return Err(fault(format!("{name} is {figure}: nothing was measured, or not all of it")));
                    }
                    enter(self.figures.entry(case.to_owned()).or_default(), metric, (figure, number), &name)?;
                }
            } else if let Some(runs) = line.split("DEBUG: [[").nth(1) {
                self.runs(runs, number)?;
            } else {
                known = false;
            }
            if known && number == text.lines().count() && !text.ends_with('\n') {
                return Err(fault(format!("the last line has no end: {CUT}")));
            }
        }
        self.into_values()
    }

    /// The runs of the case of the lines before: the least of each metric is what these have.
    fn runs(&mut self, runs: &str, line: usize) -> Result<(), Fault> {
        let fault = |what: String| Err(Fault { line: Some(line), what });
        if !runs.trim_end().ends_with("]]") {
            return fault(format!("runs without an end: {CUT}"));
        }
        let Some((case, figures)) = self.last.as_ref().and_then(|case| Some((case, self.figures.get_mut(case)?)))
        else {
            return Ok(()); // of a case that is not wanted
        };
        let mut least: BTreeMap<Metric, i64> = BTreeMap::new();
        for pair in runs.split(['[', ']', ',']) {
            let Some((key, value)) = pair.split_once(':') else { continue };
            let Some(metric) = Metric::of_key(key.trim().trim_matches('"')) else { continue };
            let Ok(value) = value.trim().parse::<i64>() else {
                return fault(format!("{:?} is no {}", value.trim(), metric.key()));
            };
            least.entry(metric).and_modify(|least| *least = value.min(*least)).or_insert(value);
        }
        for (metric, least) in least {
            let (figure, of) = *figures.entry(metric).or_insert((least, line));
            if figure != least {
                let key = metric.key();
                return fault(format!("the minimum {key} of {case} is {least} here and {figure} in line {of}"));
            }
        }
        Ok(())
    }

    fn into_values(self) -> Result<SwiftNioValues, Fault> {
        let mut values = SwiftNioValues::default();
        values.limits.extend(self.limits.into_iter().map(|(case, (limit, _))| (case, limit)));
        for (case, of_case) in self.figures {
            let mut figures = Figures::default();
            let line = of_case.values().map(|(_, line)| *line).max();
            for metric in Metric::ALL {
                match of_case.get(&metric) {
                    Some((figure, _)) => figures.set(metric, Some(*figure)),
                    None if metric == Metric::LeakedFds => {}
                    None => return Err(Fault { line, what: format!("{case} has no {}; {CUT}", metric.key()) }),
                }
            }
            values.figures.insert(case, figures);
        }
        // What is printed where the functions were not hooked.
        if !values.figures.is_empty() && values.figures.values().all(|figures| figures.total_allocations == 0) {
            let what = "no case has an allocation: nothing was counted in this run".to_owned();
            return Err(Fault { line: None, what });
        }
        Ok(values)
    }
}

/// Enters a value and its line. The same value twice is once, as logs repeat themselves; another value is a fault.
fn enter<K: Ord>(map: &mut BTreeMap<K, (i64, usize)>, key: K, value: (i64, usize), name: &str) -> Result<(), Fault> {
    let (there, line) = *map.entry(key).or_insert(value);
    match there == value.0 {
        true => Ok(()),
        false => {
            let what = format!("{name} is {} here and {there} in line {line}", value.0);
            Err(Fault { line: Some(value.1), what })
        }
    }
}

/// Case, metric and figure of a line such as `… CASE.METRIC: N`.
fn figure(line: &str) -> Option<(&str, Metric, &str)> {
    let (name, figure) =
        line.trim_end().rsplit_once(": ").or_else(|| Some((line.trim_end().strip_suffix(':')?, "")))?;
    let name = name.rsplit(char::is_whitespace).next()?;
    let (case, metric) = name.rsplit_once('.')?;
    Some((case, Metric::of_key(metric)?, figure.trim()))
}

/// `… MAX_ALLOCS_ALLOWED_CASE=N`, or with a colon, as YAML has it.
fn variable(line: &str) -> Option<(String, &str)> {
    let rest = line.split("MAX_ALLOCS_ALLOWED_").nth(1)?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-' | '.'))?;
    let (case, rest) = rest.split_at(end);
    let limit = rest.strip_prefix("\"").unwrap_or(rest).strip_prefix(['=', ':'])?;
    Some((case.to_owned(), limit.trim().trim_matches(['"', '\''])))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Result<SwiftNioValues, String> {
        read(text, &|_| true).map_err(|fault| match fault.line {
            Some(line) => format!("{line}: {}", fault.what),
            None => fault.what,
        })
    }

    fn figures(remaining: i64, allocations: i64, bytes: i64, fds: Option<i64>) -> Figures {
        Figures {
            remaining_allocations: Some(remaining),
            total_allocations: allocations,
            total_allocated_bytes: bytes,
            leaked_fds: fds,
            operations: 0,
        }
    }

    const RUN: &str = "test_a.remaining_allocations: 0\ntest_a.total_allocations: 75001\n\
                       test_a.total_allocated_bytes: 4138056\n";

    #[test]
    fn thresholds_are_limits() {
        let values = all("{\n \"1000_reqs_1_conn\": 26400,\n \"execute_hop\": 0\n}\n").expect("limits");
        let expected = [("1000_reqs_1_conn", 26400), ("execute_hop", 0)];
        assert_eq!(values.limits, expected.map(|(case, n)| (case.to_owned(), n)).into());
        assert!(values.figures.is_empty());
        let variables =
            "warn: set it ($MAX_ALLOCS_ALLOWED_c)\nexport MAX_ALLOCS_ALLOWED_a_b=7\n  - MAX_ALLOCS_ALLOWED_c: \"8\"\n";
        assert_eq!(all(variables).expect("limits").limits, [("a_b".to_owned(), 7), ("c".to_owned(), 8)].into());
    }

    #[test]
    fn lines_of_a_run_are_figures() {
        let debug = "DEBUG: [[\"remaining_allocations\": 0, \"total_allocations\": 75001, \"leaked_fds\": 2], \
                     [\"total_allocations\": 75009, \"remaining_allocations\": 1, \"leaked_fds\": 1]]\n";
        let log = format!(
            "- /src/test_a.swift\n{RUN}{debug}DEBUG: After waiting 7 times, we quiesced to unfreeds=0\n\
             2025-01-02T03:04:05.6Z test_b.x.remaining_allocations: 3\r\n\
             info: test_b.x.total_allocations: 4\r\ninfo: test_b.x.total_allocated_bytes: 5\r\n{RUN}"
        );
        let values = all(&log).expect("figures");
        assert_eq!(values.figures["test_a"], figures(0, 75001, 4138056, Some(1)));
        assert_eq!(values.figures["test_b.x"], figures(3, 4, 5, None));
        let some = read(&log, &|case| case == "test_a").expect("figures");
        assert_eq!(some.figures.keys().collect::<Vec<_>>(), ["test_a"]);
    }

    #[test]
    fn errors_name_their_line() {
        for (text, expected) in [
            ("", "neither limits "),
            ("hello\n", "neither limits "),
            ("{}", "neither limits "),
            ("{\n\"a\": 1,\n\"b\": ", "3: EOF while parsing a value"),
            ("{\"a\": 1,\n\"a\": 1}", "2: a is there twice"),
            ("{\"a\": 1,\n\"b\": -1}", "2: invalid value: integer `-1`, expected u32"),
            ("{\"mallocCountTotal\" : 100}", "mallocCountTotal is a metric of package-benchmark"),
            ("{\"syscalls\": {\"p90\": 1}, \"threads\": 3}", "syscalls is a metric of package-benchmark"),
            ("{\"a\": 1.5}", "1: invalid type: floating point"),
            ("{\"a\": {\"b\": 1}}", "1: invalid type: map, expected u32"),
            ("{\"\\u001b[2J\": 1}", "1: a name that nobody can type"),
            ("{\"a\": 1}\n}", "2: trailing characters"),
            ("[1]", "1: invalid type: sequence, expected an object"),
            ("a.total_allocations: 5\n", "1: a has no remaining_allocations; is the file cut short?"),
            (
                "a.total_allocations: 5\nb.total_allocations: 6\nb.total_allocations: 7\n",
                "3: total_allocations of b is 7 here and 6 in line 2",
            ),
            ("a.total_allocations: -1\n", "1: total_allocations of a is -1: nothing was measured"),
            ("a.total_allocations: 99999999999999999999\n", "1: \"99999999999999999999\" is no total_allocations of a"),
            ("a.total_allocations:\n", "1: \"\" is no total_allocations of a"),
            ("a.total_allocations: 750", "1: the last line has no end: is the file cut short?"),
            ("MAX_ALLOCS_ALLOWED_a=many\n", "1: \"many\" is no limit of a"),
            (
                "a.remaining_allocations: 0\na.total_allocations: 0\na.total_allocated_bytes: 0\n",
                "no case has an allocation",
            ),
        ] {
            let error = all(text).expect_err(text);
            assert!(error.starts_with(expected), "{text:?}: {error}");
        }
        let other = all(&format!("{RUN}DEBUG: [[\"total_allocations\": 75002]]\n")).expect_err("other runs");
        assert_eq!(other, "4: the minimum total_allocations of test_a is 75002 here and 75001 in line 2");
        let cut = all(&format!("{RUN}DEBUG: [[\"total_allocations\": 75001], [\"tot\n")).expect_err("a cut");
        assert_eq!(cut, "4: runs without an end: is the file cut short?");
    }
}
