//! What `mallow test` writes for other programs: JUnit XML, Markdown, GitHub annotations, SARIF.

use std::fmt::Write;
use std::path::Path;

use mallow_report::analysis::gate::{Check, Metric, Verdict, informative_steps};
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};
use serde_json::Value;

use super::case_verdict::{CaseVerdict, Report};
use super::outcome::Reason;
use super::text::{self, PER_OP_ROUNDED, amount};
use crate::output::sarif::{self, Finding};
use crate::output::text::markdown::cell;
use crate::output::text::units::plural;
use crate::output::text::{Look, clean};

/// One line that says why a case did not pass.
fn reason(case: &CaseVerdict) -> String {
    if let Some(why) = &case.why {
        return why.clone();
    }
    let failed = case.checks.iter().filter(|check| check.verdict == case.verdict);
    failed.map(describe).collect::<Vec<_>>().join("; ")
}

fn describe(check: &Check) -> String {
    let figure = check.figure.map(|n| n.to_string()).unwrap_or_default();
    let key = check.metric.key();
    match (check.lowest.filter(|_| check.verdict == Verdict::Improved), check.highest) {
        (Some(lowest), Some(highest)) if lowest < highest => {
            format!("{key}: {figure}, allowed {lowest} to {highest}")
        }
        (Some(lowest), None) => format!("{key}: {figure}, allowed from {lowest} on"),
        (_, Some(highest)) => format!("{key}: {figure}, allowed {highest}"),
        (None, None) => format!("{key}: {figure}"),
    }
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Passed => "passed",
        Verdict::Improved => "improved",
        Verdict::Regressed => "regressed",
        Verdict::Broken => "broken",
    }
}

/// Whether a case's differences, if it has any, are to a baseline; else they are all stacks that there are.
fn compared(case: &CaseVerdict) -> bool {
    !case.explanation.as_ref().is_some_and(|e| e.without_baseline && !e.differences.is_empty())
}

/// The stacks that changed, one after another.
fn stacks(case: &CaseVerdict) -> String {
    let compared = compared(case);
    let mut out = if compared { String::new() } else { "Nothing to compare with\n".to_owned() };
    for difference in case.explanation.iter().flat_map(|e| &e.differences).take(20) {
        let (allocations, bytes) = (difference.allocations(), difference.bytes());
        let [of_allocations, of_bytes] =
            [(allocations, "allocation"), (bytes, "byte")].map(|(n, noun)| plural(n.unsigned_abs(), noun));
        // Writing into a string cannot fail.
        let _ = match compared {
            true => writeln!(out, "{allocations:+} {of_allocations}, {bytes:+} {of_bytes}"),
            false => writeln!(out, "{allocations} {of_allocations}, {bytes} {of_bytes}"),
        };
        for shown in informative_steps(&difference.stack) {
            let _ = writeln!(out, "    {}", clean(shown.step));
        }
    }
    out
}

/// A report that CI servers read: <https://github.com/testmoapp/junitxml> describes it.
pub fn junit(report: &Report) -> Result<String, String> {
    let mut suite = TestSuite::new(format!("mallow on {}", report.platform));
    for case in &report.cases {
        let mut status = match case.verdict {
            Verdict::Passed => TestCaseStatus::success(),
            Verdict::Broken => TestCaseStatus::non_success(NonSuccessKind::Error),
            Verdict::Improved | Verdict::Regressed => TestCaseStatus::non_success(NonSuccessKind::Failure),
        };
        if case.verdict != Verdict::Passed {
            status.set_message(clean(&reason(case)).into_owned());
            status.set_type(word(case.verdict));
            status.set_description(stacks(case));
        }
        let mut test = TestCase::new(clean(&case.name).into_owned(), status);
        test.set_classname("mallow");
        let figures = case.measured.as_ref().map(|measured| measured.figures);
        let lines = figures.into_iter().flat_map(|figures| {
            let figure = move |metric: Metric| Some((metric, figures.get(metric)?));
            Metric::ALL.into_iter().filter_map(figure)
        });
        let lines = lines.map(|(metric, figure)| format!("{}.{}: {figure}", clean(&case.name), metric.key()));
        let lines = lines.chain(case.warnings.iter().map(|text| clean(&text::warning(&case.name, text)).into_owned()));
        let lines: Vec<_> = lines.collect();
        if !lines.is_empty() {
            test.set_system_out(lines.join("\n"));
        }
        suite.add_test_case(test);
    }
    let mut junit = quick_junit::Report::new("mallow test");
    junit.add_test_suite(suite);
    junit.to_string().map_err(|error| error.to_string())
}

/// A summary for a pull request or a job.
pub fn markdown(report: &Report) -> String {
    let mut out = format!("### Allocations: {}\n\n", word(report.verdict));
    out.push_str("| | case | allocations | baseline | change | per op |\n| --- | --- | ---: | ---: | ---: | ---: |\n");
    for case in &report.cases {
        let now = case.measured.as_ref().map(|measured| measured.figures);
        let number = |n: Option<i64>| n.map(|n| n.to_string()).unwrap_or_default();
        let change = now.zip(case.baseline).map(|(now, before)| now.total_allocations - before.total_allocations);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            word(case.verdict),
            cell(&case.name),
            number(now.map(|figures| figures.total_allocations)),
            number(case.baseline.map(|figures| figures.total_allocations)),
            change.filter(|n| *n != 0).map(|n| format!("{n:+}")).unwrap_or_default(),
            text::per_op(case),
        );
    }
    for case in &report.cases {
        for text in &case.warnings {
            let _ = writeln!(out, "\n**{}** {}", cell(&case.name), cell(text));
        }
    }
    for case in report.cases.iter().filter(|case| case.verdict != Verdict::Passed) {
        let _ = writeln!(out, "\n**{}** {}: {}", cell(&case.name), word(case.verdict), cell(&reason(case)));
        let compared = compared(case);
        if !compared {
            out.push_str("\nNothing to compare with:\n\n");
        }
        for difference in case.explanation.iter().flat_map(|e| &e.differences).take(10) {
            let steps = informative_steps(&difference.stack);
            let steps: Vec<_> =
                steps.iter().take(6).map(|step| cell(&text::shown(step.step, &Look::default()))).collect();
            let (amount, unit) = amount(difference.allocations(), difference.bytes(), compared);
            let _ = writeln!(out, "- {amount} {unit}{}: {}", rounded(case), steps.join(" ← "));
        }
    }
    if report.cases.iter().any(|case| case.rounded_down) {
        let _ = writeln!(out, "\n{}", text::ROUNDED_DOWN);
    }
    let _ = writeln!(out, "\n{}", cell(&report.platform));
    out
}

/// What the numbers of a case's stacks are, behind their unit.
fn rounded(case: &CaseVerdict) -> &'static str {
    if case.rounded_down { PER_OP_ROUNDED } else { "" }
}

/// A line of a source of the project, and what its stacks have more than before; without a baseline all that they
/// have.
struct Change<'a> {
    file: &'a str,
    line: u32,
    allocations: i64,
    bytes: i64,
    reasons: Vec<String>,
}

impl Change<'_> {
    fn describe(&self, case: &CaseVerdict) -> String {
        let compared = compared(case);
        let (amount, unit) = amount(self.allocations, self.bytes, compared);
        let reasons = if self.reasons.is_empty() { String::new() } else { format!(": {}", self.reasons.join("; ")) };
        match compared {
            true if case.rounded_down => format!("{amount} {unit}{PER_OP_ROUNDED}, in {}{reasons}", case.name),
            true => format!("{amount} {unit} in {}{reasons}", case.name),
            false => format!("{amount} {unit}{} of {}, nothing to compare with{reasons}", rounded(case), case.name),
        }
    }
}

/// Changes in a case by line: of each stack the first one that lies in the project. The largest first.
fn changes<'a>(case: &'a CaseVerdict, root: &Path) -> Vec<Change<'a>> {
    let mut changes: Vec<Change> = Vec::new();
    for difference in case.explanation.iter().flat_map(|e| &e.differences) {
        let place = difference.stack.iter().find_map(|step| {
            let (file, line) = step.strip_suffix(')')?.rsplit_once(" (")?.1.rsplit_once(':')?;
            root.join(file).is_file().then_some((file, line.parse().ok()?))
        });
        let Some((file, line)) = place else { continue };
        let (allocations, bytes) = (difference.allocations(), difference.bytes());
        let found = case.explanation.iter().flat_map(|e| &e.reasons).filter(|reason| reason.stack == difference.stack);
        let reasons = found.map(Reason::line);
        match changes.iter_mut().find(|change| (change.file, change.line) == (file, line)) {
            Some(change) => {
                change.allocations += allocations;
                change.bytes += bytes;
                change.reasons.extend(reasons);
            }
            None => changes.push(Change { file, line, allocations, bytes, reasons: reasons.collect() }),
        }
    }
    changes.sort_by_key(|change| std::cmp::Reverse((change.allocations.abs(), change.bytes.abs())));
    changes.truncate(10);
    changes
}

/// Workflow commands: GitHub shows them at their lines.
pub fn github(report: &Report) -> String {
    // https://docs.github.com/actions/reference/workflow-commands-for-github-actions: % and line ends are escaped, and
    // in properties : and , too.
    let data = |text: &str| clean(text).replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    let mut out = String::new();
    for case in &report.cases {
        for text in &case.warnings {
            let _ = writeln!(out, "::warning title={}::{}", property(&case.name), data(text));
        }
    }
    for case in report.cases.iter().filter(|case| case.verdict != Verdict::Passed) {
        let command = if case.verdict == Verdict::Improved { "notice" } else { "error" };
        let title = property(&format!("{} {}", case.name, word(case.verdict)));
        let _ = writeln!(out, "::{command} title={title}::{}", data(&reason(case)));
        for change in changes(case, &report.root) {
            let (file, line, text) = (property(change.file), change.line, data(&change.describe(case)));
            let _ = writeln!(out, "::{command} file={file},line={line},title={title}::{text}");
        }
    }
    out
}

pub fn sarif(report: &Report) -> Value {
    let cases = report.file.to_string_lossy();
    let finding = |case: &CaseVerdict, message: String, (file, line): (&str, u32)| Finding {
        rule: word(case.verdict),
        level: if case.verdict == Verdict::Improved { "note" } else { "error" },
        message,
        file: file.to_owned(),
        line,
        column: 0,
        ..Finding::default()
    };
    let failed = report.cases.iter().filter(|case| case.verdict != Verdict::Passed);
    let findings = failed.flat_map(|case| {
        let changes = changes(case, &report.root);
        // What has no place of its own is where the cases are.
        let first = changes.first().map_or((&*cases, 1), |change| (change.file, change.line));
        let whole = finding(case, format!("{}: {}", case.name, reason(case)), first);
        let placed = changes.iter().map(|at| finding(case, at.describe(case), (at.file, at.line)));
        std::iter::once(whole).chain(placed).collect::<Vec<_>>()
    });
    let findings: Vec<Finding> = findings.collect();
    let rules = [Verdict::Improved, Verdict::Regressed, Verdict::Broken]
        .map(|verdict| (word(verdict), format!("A case {}", word(verdict))));
    sarif::document(&rules, &findings)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use mallow_report::analysis::gate::{Change, Difference, Figures, Measured, Run, places};

    use super::*;
    use crate::gate::explanation::Explanation;

    fn report() -> Report {
        let figures =
            |n| Figures { remaining_allocations: Some(0), total_allocations: n, operations: 10, ..Figures::default() };
        let measured = Measured { figures: figures(30), most: figures(30), runs: vec![Run::default()] };
        let check = Check {
            metric: Metric::TotalAllocations,
            figure: Some(30),
            baseline: Some(20),
            lowest: Some(20),
            highest: Some(20),
            verdict: Verdict::Regressed,
            why: None,
        };
        let difference = Difference {
            change: Change::New,
            stack: vec!["operator new".into(), "f<int> (Cargo.toml:7)".into(), "main (nowhere.c:3)".into()],
            before: 0,
            now: 10,
            bytes_before: 0,
            bytes_now: 80,
            why: Vec::new(),
        };
        let case = |name: &str, verdict| CaseVerdict {
            name: name.into(),
            verdict,
            why: None,
            measured: Some(measured.clone()),
            baseline: Some(figures(20)),
            checks: vec![Check { verdict, ..check.clone() }],
            unstable: false,
            scale: None,
            rounded_down: false,
            warnings: Vec::new(),
            explanation: None,
            between_runs: None,
            alone: false,
            program: Some(0),
        };
        let explanation = Explanation {
            places: places(std::slice::from_ref(&difference)),
            reasons: Vec::new(),
            smaller: None,
            differences: vec![difference],
            change: 10,
            explained: 10,
            change_bytes: 80,
            explained_bytes: 80,
            without_baseline: false,
        };
        let broken = CaseVerdict {
            why: Some("it | ended\nbadly: 50%".into()),
            measured: None,
            checks: Vec::new(),
            ..case("b,c", Verdict::Broken)
        };
        let regressed = CaseVerdict { explanation: Some(explanation), ..case("a<b>", Verdict::Regressed) };
        let warnings = vec!["Incomplete: Python <allocates>, in arenas".into()];
        let fine = CaseVerdict { warnings, ..case("fine", Verdict::Passed) };
        let cases = vec![fine, regressed, broken];
        Report {
            platform: "linux".into(),
            verdict: Verdict::Broken,
            idle: false,
            cases,
            root: PathBuf::from("."),
            file: "my cases.toml".into(),
            update: "mallow test --update".into(),
        }
    }

    #[test]
    fn github_shows_failures_at_their_lines() {
        insta::assert_snapshot!(github(&report()));
    }

    #[test]
    fn stacks_through_one_line_are_one_annotation() {
        let mut report = report();
        let explanation = report.cases[1].explanation.as_mut().expect("an explanation");
        let other = Difference {
            stack: vec!["g (Cargo.toml:7)".into()],
            now: 3,
            bytes_now: 9,
            ..explanation.differences[0].clone()
        };
        let bytes =
            Difference { stack: vec!["h (Cargo.toml:1)".into()], before: 4, now: 4, bytes_now: 9, ..other.clone() };
        explanation.differences.extend([other, bytes]);
        let output = github(&report);
        let lines: Vec<_> = output.lines().filter(|line| line.contains("file=")).collect();
        let of = |line, text| format!("::error file=Cargo.toml,line={line},title=a<b> regressed::{text} in a<b>");
        assert_eq!(lines, [of(7, "+13 allocations"), of(1, "+9 bytes")]);
    }

    #[test]
    fn without_a_baseline_nothing_is_said_to_be_more() {
        let mut report = report();
        let explanation = report.cases[1].explanation.as_mut().expect("an explanation");
        explanation.without_baseline = true;
        let outputs = [
            (github(&report), "10 allocations of a<b>, nothing to compare with"),
            (junit(&report).expect("XML"), "Nothing to compare with\n10 allocations, 80 bytes\n"),
            (markdown(&report), "\nNothing to compare with:\n\n- 10 allocations: f"),
            (sarif(&report).to_string(), "10 allocations of a<b>, nothing to compare with"),
        ];
        for (output, right) in outputs {
            assert!(!output.contains("+10 allocations") && output.contains(right), "{output}");
        }
    }

    #[test]
    fn what_is_below_a_range_has_both_ends_of_it() {
        let check = |verdict, lowest, highest| {
            describe(&Check {
                metric: Metric::TotalAllocations,
                figure: Some(5),
                baseline: None,
                lowest,
                highest,
                verdict,
                why: None,
            })
        };
        for (text, expected) in [
            (check(Verdict::Improved, Some(6), Some(9)), "5, allowed 6 to 9"),
            (check(Verdict::Improved, Some(6), None), "5, allowed from 6 on"),
            (check(Verdict::Improved, Some(6), Some(6)), "5, allowed 6"),
            (check(Verdict::Regressed, Some(1), Some(4)), "5, allowed 4"),
            (check(Verdict::Regressed, None, Some(4)), "5, allowed 4"),
        ] {
            assert_eq!(text, format!("total_allocations: {expected}"));
        }
    }

    #[test]
    fn one_of_them_has_a_noun_of_one() {
        let mut report = report();
        let explanation = report.cases[1].explanation.as_mut().expect("an explanation");
        explanation.differences[0] = Difference { now: 1, bytes_now: 1, ..explanation.differences[0].clone() };
        assert!(github(&report).contains("::+1 allocation in a<b>\n"), "{}", github(&report));
        let xml = junit(&report).expect("XML");
        assert!(xml.contains(">+1 allocation, +1 byte\n"), "{xml}");
        assert!(markdown(&report).contains("\n- +1 allocation: f"), "{}", markdown(&report));
    }

    #[test]
    fn markdown_is_a_table_that_no_name_can_leave() {
        insta::assert_snapshot!(markdown(&report()));
    }

    #[test]
    fn junit_has_a_test_for_each_case() {
        insta::assert_snapshot!(junit(&report()).expect("XML").replace(env!("CARGO_PKG_VERSION"), "X"));
    }

    #[test]
    fn sarif_has_a_result_for_each_failure_and_each_line() {
        let sarif = sarif(&report());
        let results = sarif["runs"][0]["results"].as_array().expect("results");
        let place = |r: &Value| {
            let place = &r["locations"][0]["physicalLocation"];
            let file = place["artifactLocation"]["uri"].as_str().unwrap_or_default();
            format!("{} {file}:{}", r["ruleId"].as_str().unwrap_or_default(), place["region"]["startLine"])
        };
        let actual: Vec<_> = results.iter().map(place).collect();
        assert_eq!(actual, ["regressed Cargo.toml:7", "regressed Cargo.toml:7", "broken my%20cases.toml:1"]);
    }
}
