//! What `mallow test` prints: the lines that scripts know, and a table for people.

use mallow_report::analysis::gate::{
    Change, Difference, Figures, Metric, PlaceChange, Run, Verdict, informative_steps,
};

use super::baseline::Baseline;
use super::case_verdict::{CaseVerdict, Report};
use super::config::{Benchmarks, Config, Regions};
use super::explanation::Explanation;
use super::outcome::Reason;
use super::runner;
use super::selection::wanted;
use crate::output::text::units::{count, fixed, of, of_signed, plural, ratio, signed};
use crate::output::text::{Align, Line, Look, Page, Table, function};

/// The names of the cases, as far as the file has them.
pub fn list(config: &Config, filters: &[String]) -> String {
    let mut out = String::new();
    for program in &config.programs {
        let names = match &program.regions {
            Regions::Named(names) => names.clone(),
            Regions::None => program.name.iter().cloned().collect(),
            _ if program.benchmarks.is_some() => {
                let benchmarks = program.benchmarks.as_ref().map(Benchmarks::display).unwrap_or_default();
                vec![format!("(the benchmarks of {benchmarks})")]
            }
            Regions::All | Regions::IfAny => vec![format!("(the regions of {})", runner::display(&program.command))],
        };
        for name in names.iter().filter(|name| wanted(filters, name)) {
            out.push_str(&crate::output::text::clean(name));
            out.push('\n');
        }
    }
    out
}

pub fn text(report: &Report, baseline: &Baseline, verbose: bool, look: &Look) -> String {
    // Lines for scripts are never cut to a terminal's width.
    let mut page = Page::new(Look { width: None, ..*look });
    for case in &report.cases {
        lines(case, verbose, &mut page);
    }
    let mut page = Page::from_text(page.into_text(), *look);
    page.gap();
    if report.idle {
        page.line(Line::new().warning("Nothing was counted (--no-hook): the figures mean nothing"));
        return page.into_text();
    }
    table(report).onto(&mut page);
    if report.cases.iter().any(|case| case.rounded_down) {
        page.line(Line::new().faint(format!("  {ROUNDED_DOWN}")));
    }
    for case in &report.cases {
        reasons(case, report, verbose, look, &mut page);
    }
    page.gap();
    page.line(summary(report));
    if report.cases.iter().all(|case| case.baseline.is_none()) {
        let others: Vec<_> = baseline.platforms().filter(|platform| *platform != report.platform).collect();
        if !others.is_empty() {
            page.line(Line::new().faint(format!("The baseline has {}", others.join(", "))));
        }
    }
    page.into_text()
}

/// Lines such as `NAME.total_allocations: 75001`.
fn lines(case: &CaseVerdict, verbose: bool, page: &mut Page) {
    if let Some(measured) = &case.measured {
        for metric in Metric::ALL {
            if let Some(figure) = measured.figures.get(metric) {
                page.line(Line::new().plain(format!("{}.{}: {figure}", case.name, metric.key())));
            }
        }
        if verbose {
            let runs: Vec<_> = measured.runs.iter().map(debug_run).collect();
            page.line(Line::new().plain(format!("DEBUG: [{}]", runs.join(", "))));
        }
    }
    for warning in &case.warnings {
        page.line(Line::new().warning(self::warning(&case.name, warning)));
    }
}

/// The line of a warning about a case.
pub fn warning(case: &str, text: &str) -> String {
    format!("WARNING: {case}: {text}")
}

fn debug_run(run: &Run) -> String {
    let remaining = run.remaining_allocations.map(|n| format!("\"remaining_allocations\": {n}, ")).unwrap_or_default();
    let fds = run.leaked_fds.map(|n| format!(", \"leaked_fds\": {n}")).unwrap_or_default();
    format!(
        "[{remaining}\"total_allocations\": {}, \"total_allocated_bytes\": {}{fds}]",
        run.total_allocations, run.total_allocated_bytes
    )
}

fn table(report: &Report) -> Table {
    let columns = [Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Right, Align::Left];
    let mut table = Table::new(&columns);
    table.row(["", "allocations", "per op", "baseline", "change", "runs", "case"].map(|t| Line::new().faint(t)));
    for case in &report.cases {
        let figures = case.measured.as_ref().map(|measured| measured.figures);
        let total = |figures: &Figures| figures.total_allocations;
        let change = figures.zip(case.baseline).map(|(now, before)| total(&now) - total(&before));
        let allocations = case.measured.as_ref().map(|measured| {
            let (least, most) = (total(&measured.figures), total(&measured.most));
            if least < most { format!("{} to {}", signed(least), signed(most)) } else { signed(least) }
        });
        let runs = case.measured.as_ref().map(|measured| measured.runs.len().to_string());
        let text = |text: Option<String>| Line::new().plain(text.unwrap_or_default());
        table.row([
            verdict(case.verdict),
            text(allocations),
            text(Some(per_op(case))),
            text(case.baseline.map(|figures| signed(total(&figures)))),
            text(change.filter(|n| *n != 0).map(|n| if n > 0 { format!("+{}", count(n as u64)) } else { signed(n) })),
            text(runs),
            Line::new().strong(&case.name),
        ]);
    }
    table
}

/// A line below tables with benchmarks of Go.
pub const ROUNDED_DOWN: &str = "Figures of Go are those of one operation, which Go rounds down: 0 may be 0.9";

/// Behind allocations of a stack, which are the nearest whole number to their mean.
pub const PER_OP_ROUNDED: &str = " per op, rounded";

/// Allocations of an operation as they are shown; empty where nobody knows.
pub fn per_op(case: &CaseVerdict) -> String {
    let figures = case.measured.as_ref().map(|measured| measured.figures);
    match (case.scale, figures) {
        (Some(scale), _) => ratio(scale.allocations_per_op),
        (None, Some(figures)) if case.rounded_down => signed(figures.total_allocations),
        (None, figures) => figures.and_then(|figures| figures.allocations_per_op()).map(ratio).unwrap_or_default(),
    }
}

fn verdict(verdict: Verdict) -> Line {
    match verdict {
        Verdict::Passed => Line::new().plain("passed"),
        Verdict::Improved => Line::new().warning("improved"),
        Verdict::Regressed => Line::new().warning("regressed"),
        Verdict::Broken => Line::new().warning("broken"),
    }
}

/// Checks that did not pass, and why.
fn reasons(case: &CaseVerdict, report: &Report, verbose: bool, look: &Look, page: &mut Page) {
    let reported = case.checks.iter().filter(|check| check.verdict != Verdict::Passed || check.why.is_some());
    if case.why.is_none() && reported.clone().count() == 0 && !case.unstable && case.explanation.is_none() {
        return;
    }
    page.gap();
    page.line(Line::new().strong(&case.name).plain(" ").then(verdict(case.verdict)));
    if let Some(why) = &case.why {
        page.line(Line::new().plain(format!("  {why}")));
    }
    for check in reported.filter(|check| check.verdict != Verdict::Broken) {
        let figure = check.figure.map(signed).unwrap_or_default();
        let allowed = match (check.lowest, check.highest) {
            (Some(low), Some(high)) if low < high => format!(", allowed {} to {}", signed(low), signed(high)),
            (_, Some(high)) => format!(", allowed {}", signed(high)),
            (Some(low), None) => format!(", allowed from {} on", signed(low)),
            (None, None) => String::new(),
        };
        let why = check.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        page.line(Line::new().plain(format!("  {}: {figure}{allowed}{why}", check.metric.key())));
    }
    let by_limit = case.alone || case.baseline.is_none();
    if case.verdict == Verdict::Improved && by_limit {
        page.line(Line::new().plain(format!("  lower its limits in {}", report.file.display())));
    } else if case.verdict == Verdict::Improved {
        page.line(
            Line::new().plain(format!("  lower the baseline: {}, or --ratchet for what is lower alone", report.update)),
        );
    }
    if let (true, Some(measured)) = (case.unstable, &case.measured) {
        let (least, most) = (measured.figures, measured.most);
        let differ = Metric::ALL.into_iter().filter(|&m| least.get(m) != most.get(m)).map(|m| {
            let number = |figures: &Figures| signed(figures.get(m).unwrap_or_default());
            format!("{} {} to {}", m.key(), number(&least), number(&most))
        });
        let differ: Vec<_> = differ.collect();
        page.line(Line::new().plain("  ").warning(format!("unstable: runs disagree: {}", differ.join(", "))));
        if case.between_runs.is_none() {
            page.line(Line::new().faint("  --explain shows the stacks that differ between runs"));
        }
    }
    if let Some(scale) = case.scale {
        page.line(Line::new().plain(format!(
            "  {} allocations and {} bytes per op, {} before the first",
            ratio(scale.allocations_per_op),
            fixed(scale.bytes_per_op, 1),
            of_signed(scale.setup_allocations.round() as i64, "allocation")
        )));
    }
    let operations = case.measured.as_ref().map_or(0, |measured| measured.figures.operations);
    let reasons = case.explanation.as_ref().map_or(&[][..], |explanation| &explanation.reasons);
    let mut stacks = Stacks { operations, rounded: case.rounded_down, reasons, verbose, compared: true, look, page };
    if let Some(explanation) = &case.explanation {
        stacks.compared = !explanation.without_baseline;
        if explanation.without_baseline {
            nothing_to_compare_with(case, &report.update, stacks.page);
        }
        stacks.of(explanation);
        stacks.compared = true;
    }
    match &case.between_runs {
        Some(Some(differences)) => {
            stacks.page.line(Line::new().faint("  From the run with the fewest allocations to the one with the most:"));
            stacks.list(differences);
        }
        Some(None) => stacks.page.line(Line::new().faint("  Run with stacks, all runs agree")),
        None => {}
    }
}

/// Stacks without others beside them: which of them are too many, nobody knows.
fn nothing_to_compare_with(case: &CaseVerdict, update: &str, page: &mut Page) {
    if case.baseline.is_some() {
        page.line(
            Line::new()
                .faint("  The baseline holds no stacks: these are all that allocate now; a run that passes adds them"),
        );
        return;
    }
    let total = case.checks.iter().find(|check| check.metric == Metric::TotalAllocations);
    let excess =
        total.and_then(|check| Some(check.figure?.saturating_sub(check.highest?))).filter(|excess| *excess > 0);
    let line = match excess {
        Some(excess) => {
            let excess = of_signed(excess, "allocation");
            format!("  {excess} above the limit; nothing to compare with: the stacks that allocate the most")
        }
        None => "  Nothing to compare with: these are all that allocate now".to_owned(),
    };
    page.line(Line::new().plain(line));
    page.line(Line::new().faint(format!("  {update} keeps the stacks of a good build, to compare with")));
}

/// Functions of a stack that are shown.
const FRAMES: usize = 8;
const STACKS: usize = 10;
/// Lines of the program that are shown before them.
const PLACES: usize = 5;

fn plus(n: i64) -> &'static str {
    if n > 0 { "+" } else { "" }
}

fn more(n: i64) -> String {
    format!("{}{}", plus(n), signed(n))
}

/// A difference with its noun: `+1 byte`.
pub fn more_of(n: i64, noun: &str) -> String {
    format!("{}{}", plus(n), of_signed(n, noun))
}

/// The difference in allocations, or in bytes where allocations are as many, and its unit. `compared`: with a baseline;
/// else the numbers are those of now, and have no sign.
pub fn amount(allocations: i64, bytes: i64, compared: bool) -> (String, String) {
    let written = if compared { more } else { signed };
    let (n, noun) = if allocations == 0 { (bytes, "byte") } else { (allocations, "allocation") };
    (written(n), plural(n.unsigned_abs(), noun))
}

/// What of the figures' change the stacks are. They are of a run of their own, which may differ by something else, and
/// are `rounded` to whole numbers where the figures are means of one operation.
fn explained(explanation: &Explanation, rounded: bool) -> String {
    let Explanation { change, explained, change_bytes, explained_bytes, .. } = *explanation;
    let is_part = |part: i64, whole: i64| part == 0 || part.signum() == whole.signum() && part.abs() <= whole.abs();
    if is_part(explained, change) && is_part(explained_bytes, change_bytes) {
        let [explained, explained_bytes] = [explained, explained_bytes].map(signed);
        let (allocations, bytes) = (of_signed(change, "allocation"), of_signed(change_bytes, "byte"));
        if rounded && change == 0 {
            return format!("The stacks explain {explained_bytes} of {bytes}");
        }
        return format!("The stacks explain {explained} of {allocations}, {explained_bytes} of {bytes}");
    }
    let differ = |allocations, bytes| format!("{}, {}", more_of(allocations, "allocation"), more_of(bytes, "byte"));
    format!(
        "The figures differ by {}; the stacks, of a run of their own{}, by {}",
        differ(change, change_bytes),
        if rounded { ", rounded to whole allocations" } else { "" },
        differ(explained, explained_bytes)
    )
}

struct Stacks<'a> {
    operations: u64,
    /// Whether the numbers are means of one operation, without fractions.
    rounded: bool,
    /// Reasons of stacks, with the fractions that their numbers are without.
    reasons: &'a [Reason],
    /// Whether all stacks are shown, with all of their functions.
    verbose: bool,
    /// Whether the stacks are compared with others.
    compared: bool,
    look: &'a Look,
    page: &'a mut Page,
}

impl Stacks<'_> {
    fn of(&mut self, explanation: &Explanation) {
        let sum = explanation.smaller.filter(|smaller| smaller.allocations() != 0 || smaller.bytes() != 0);
        if self.compared && explanation.differences.is_empty() && sum.is_none() {
            let changed = explanation.change != 0 || explanation.change_bytes != 0;
            let run = if changed { "  In one more run, with stacks, none" } else { "  No stack" };
            self.page.line(Line::new().plain(format!("{run} differs from the baseline's")));
        }
        // Stacks of one line, which everything goes through, are printed first, as their sum.
        if explanation.places.iter().any(|place| place.stacks > 1) {
            for place in explanation.places.iter().take(PLACES) {
                self.place(place);
            }
        }
        self.list(&explanation.differences);
        if let Some(sum) = sum {
            let (amount, unit) = amount(sum.allocations(), sum.bytes(), self.compared);
            let (before, now) = (count(sum.stacks_before), of(sum.stacks_now, "stack"));
            self.page.line(
                Line::new().plain("  ").strong(amount).plain(format!(
                    " {unit} in stacks too small for the baseline to keep one by one, {before} → {now}"
                )),
            );
        }
        self.reasons(&explanation.reasons);
        if !explanation.without_baseline {
            self.page.line(Line::new().faint(format!("  {}", explained(explanation, self.rounded))));
        }
    }

    /// Why the compiler, or the runtime, allocates what there is more of.
    fn reasons(&mut self, reasons: &[Reason]) {
        for reason in reasons.iter().take(if self.verbose { reasons.len() } else { STACKS }) {
            self.page.line(Line::new().plain("  ").plain(&reason.place).plain("  ").strong(reason.line()));
            for (label, text) in [
                ("path", Some(reason.steps.join(" → ")).filter(|path| !path.is_empty())),
                ("suggestion", reason.suggestion.clone()),
            ] {
                if let Some(text) = text {
                    self.page.hanging(Line::new().faint(format!("      {label:<12}")), &text);
                }
            }
        }
    }

    fn place(&mut self, place: &PlaceChange) {
        let stacks = of(place.stacks as u64, "stack");
        let amount = amount(place.allocations, place.bytes, self.compared);
        let line = Line::new().plain("  ").strong(format!("{:>8}", amount.0)).plain(format!(" {}, ", amount.1));
        self.page.line(line.plain(shown(&place.function, self.look)).faint(format!(", {stacks}")));
    }

    fn list(&mut self, differences: &[Difference]) {
        let limit = if self.verbose { differences.len() } else { STACKS };
        for difference in differences.iter().take(limit) {
            self.one(difference);
        }
        if differences.len() > limit {
            let rest = &differences[limit..];
            let sum: i64 = rest.iter().map(Difference::allocations).sum();
            let (stacks, sum) = (plural(rest.len() as u64, "stack"), of_signed(sum, "allocation"));
            let text = format!("  and {} more {stacks}, {sum}; -v shows them", rest.len());
            self.page.line(Line::new().faint(text));
        }
    }

    fn one(&mut self, difference: &Difference) {
        let (change, bytes) = (difference.allocations(), difference.bytes());
        let per_op = match self.operations {
            _ if self.rounded => PER_OP_ROUNDED.to_owned(),
            0 => String::new(),
            operations => format!(" ({}{} per op)", plus(change), ratio(change as f64 / operations as f64)),
        };
        let word = match difference.change {
            Change::New => "new",
            Change::Gone => "gone",
            Change::Changed => "changed",
        };
        let (now, before) = (count(difference.now), count(difference.before));
        if !self.compared {
            let allocations = plural(difference.now, "allocation");
            let rest = format!(" {allocations}{}, {}", per_op.replace('+', ""), of(difference.bytes_now, "byte"));
            self.page.line(Line::new().plain("  ").strong(count(difference.now)).plain(rest));
            return self.steps(difference);
        }
        let (first, rest) = match change {
            0 => {
                let now = match difference.now {
                    0 => "less than 1 allocation".to_owned(),
                    now if self.rounded => format!("{}{PER_OP_ROUNDED}", of(now, "allocation")),
                    now => of(now, "allocation"),
                };
                let bytes_of = plural(bytes.unsigned_abs(), "byte");
                (more(bytes), format!(" {bytes_of} in {now}, "))
            }
            _ => {
                let allocations = plural(change.unsigned_abs(), "allocation");
                let bytes = more_of(bytes, "byte");
                let mean = self.mean(difference);
                (more(change), format!(" {allocations}{per_op}, {before} → {now}{mean}, {bytes}, "))
            }
        };
        self.page.line(Line::new().plain("  ").strong(first).plain(rest).strong(word));
        self.steps(difference);
    }

    /// ` (now 0.90)`: the mean that was rounded, where it is known and no whole number.
    fn mean(&self, difference: &Difference) -> String {
        let of_stack = |reason: &&Reason| self.rounded && reason.stack == difference.stack;
        let mean = self.reasons.iter().find(of_stack).map(|reason| reason.allocations);
        let fraction = mean.filter(|mean| (mean - mean.round()).abs() >= 0.005);
        fraction.map_or(String::new(), |mean| format!(" (now {})", ratio(mean)))
    }

    fn steps(&mut self, difference: &Difference) {
        if self.verbose {
            for step in &difference.stack {
                self.page.line(Line::new().plain(format!("      {}", shown(step, self.look))));
            }
            return;
        }
        let steps = informative_steps(&difference.stack);
        for step in steps.iter().take(FRAMES) {
            let mut line = Line::new().plain(format!("      {}", shown(step.step, self.look)));
            if step.within > 0 {
                line = line.faint(format!(" and {} within it", step.within));
            }
            if step.times > 1 {
                line = line.faint(format!(" ×{}", step.times));
            }
            self.page.line(line);
        }
        if steps.len() > FRAMES {
            self.page.line(Line::new().faint(format!("      … {} more", steps.len() - FRAMES)));
        }
    }
}

/// A step with a name that people read.
pub fn shown(step: &str, look: &Look) -> String {
    match step.strip_suffix(')').and_then(|_| step.rfind(" (")) {
        Some(at) if step[at..].contains(':') => format!("{}{}", function(&step[..at], look), &step[at..]),
        _ => function(step, look),
    }
}

fn summary(report: &Report) -> Line {
    let of = |verdict| report.cases.iter().filter(|case| case.verdict == verdict).count();
    let words = [
        (Verdict::Passed, "passed"),
        (Verdict::Improved, "improved"),
        (Verdict::Regressed, "regressed"),
        (Verdict::Broken, "broken"),
    ];
    let parts: Vec<_> =
        words.iter().filter(|(v, _)| of(*v) > 0).map(|(v, word)| format!("{} {word}", of(*v))).collect();
    Line::new().strong(parts.join(", ")).faint(format!("  on {}", report.platform))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_explain_no_more_than_there_is() {
        let explained = |[change, explained, change_bytes, explained_bytes]: [i64; 4], rounded| {
            let explanation =
                Explanation { change, explained, change_bytes, explained_bytes, ..Explanation::default() };
            super::explained(&explanation, rounded)
        };
        let of = |change, of_stacks, change_bytes, bytes_of_stacks| {
            explained([change, of_stacks, change_bytes, bytes_of_stacks], false)
        };
        let mean = |change, of_stacks, change_bytes, bytes_of_stacks| {
            explained([change, of_stacks, change_bytes, bytes_of_stacks], true)
        };
        for (text, expected) in [
            (of(10, 10, 80, 80), "The stacks explain 10 of 10 allocations, 80 of 80 bytes"),
            (of(1, 0, -1, 0), "The stacks explain 0 of 1 allocation, 0 of -1 byte"),
            (
                of(0, 1, 25, 26),
                "The figures differ by 0 allocations, +25 bytes; the stacks, of a run of their own, by +1 allocation, \
                 +26 bytes",
            ),
            (
                of(-1, 3, 0, 0),
                "The figures differ by -1 allocation, 0 bytes; the stacks, of a run of their own, by +3 allocations, \
                 0 bytes",
            ),
            (mean(0, 0, 25, 25), "The stacks explain 25 of 25 bytes"),
            (mean(1, 1, 25, 25), "The stacks explain 1 of 1 allocation, 25 of 25 bytes"),
            (
                mean(0, 1, 25, 26),
                "The figures differ by 0 allocations, +25 bytes; the stacks, of a run of their own, rounded to whole \
                 allocations, by +1 allocation, +26 bytes",
            ),
        ] {
            assert_eq!(text, expected);
        }
    }
}
