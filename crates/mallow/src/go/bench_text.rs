//! `mallow go bench` for people.

use mallow_golang::join::{Explained, Part, ReasonSource};
use mallow_golang::statistics::LEAST_FOR_INTERVAL;

use super::bench_document::GoBench;
use super::figures::{interval, number, size, time};
use super::measurement::Measured;
use super::names::{instance, short};
use crate::flags::ViewFlags;
use crate::output::text::units::{count, of};
use crate::output::text::{Align, Line, Look, Page, Table};

/// Lines of a benchmark, where the number is not said.
const LINES: usize = 12;
/// Callers of a line in a library.
const CALLERS: usize = 2;
/// Allocations by operation below which a line is noise.
const LEAST: f64 = 0.005;
/// Why the figures of lines are not always those of benchmarks.
const OWN_RUNS: &str = "B/op and allocs/op: timed runs, rounded down by Go; lines: runs of their own, which may add up to a \
                        little more or less";

pub fn text(report: &GoBench, view: &ViewFlags, look: &Look) -> String {
    let mut page = Page::new(*look);
    page.line(
        Line::new().strong("Benchmarks").plain(format!(" with {}; each line that allocates, per operation", report.go)),
    );
    let all = || report.packages.iter().flat_map(|package| &package.benchmarks);
    if all().any(|measured| measured.counted_operations > 0) {
        page.hanging(Line::new(), OWN_RUNS);
    }
    for package in &report.packages {
        page.gap();
        page.line(Line::new().strong(&package.package));
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right]);
        for measured in &package.benchmarks {
            table.row([
                Line::new().strong(&measured.name),
                Line::new().plain(format!("{} ns/op{}", time(measured.ns_per_op), interval(&measured.time))),
                Line::new().plain(format!("{} B/op", number(measured.bytes_per_op))),
                Line::new().plain(format!("{} allocs/op", number(measured.allocs_per_op))),
            ]);
        }
        table.onto(&mut page);
        for measured in package.benchmarks.iter().filter(|measured| has_details(measured)) {
            page.gap();
            page.line(Line::new().plain("  ").strong(&measured.name).faint(counted(measured)));
            benchmark(measured, view.limit(LINES), look, &mut page);
        }
        if let Some(error) = &package.error {
            page.line(Line::new().plain("  ").warning(error));
        }
    }
    let runs = all().map(|measured| measured.runs).max().unwrap_or(0);
    if (2..LEAST_FOR_INTERVAL as u64).contains(&runs) {
        page.gap();
        page.line(Line::new().faint(format!("Intervals of medians need {LEAST_FOR_INTERVAL} runs: --count")));
    }
    if let Some(comparison) = &report.comparison {
        comparison.onto(&mut page);
    }
    page.into_text()
}

/// Whether the report of a benchmark has more than its figures.
fn has_details(measured: &Measured) -> bool {
    // Of less, what pools and the runtime lose is no question.
    const BYTES: f64 = 64.0;
    let is_much = measured.allocs_per_op >= 1.0 || measured.bytes_per_op >= BYTES;
    measured.error.is_some() || is_much || measured.lines.iter().any(is_seen)
}

/// `: 8,995 operations counted, 9,000 timed`.
fn counted(measured: &Measured) -> String {
    match measured.counted_operations {
        0 => String::new(),
        counted => format!(": {} counted, {} timed", of(counted, "operation"), count(measured.operations)),
    }
}

/// Whether the line allocates often enough, or has bytes enough, to be shown.
fn is_seen(line: &Explained) -> bool {
    line.allocation.allocations >= LEAST || line.allocation.bytes >= 1.0
}

fn benchmark(measured: &Measured, limit: usize, look: &Look, page: &mut Page) {
    if let Some(error) = &measured.error {
        page.line(Line::new().plain("    ").warning(format!("its allocations could not be counted: {error}")));
        return;
    }
    let shown: Vec<&Explained> = measured.lines.iter().filter(|line| is_seen(line)).take(limit).collect();
    let cells = |line: &Explained| [number(line.allocation.allocations), size(line.allocation.bytes)];
    let indent = match shown.is_empty() {
        true => 0,
        false => rows(shown.iter().copied(), ["allocs/op", "B/op"], (cells, number), look, page),
    };
    let rest = &measured.lines[shown.len().min(measured.lines.len())..];
    let in_figures = || rest.iter().filter(|line| line.allocation.part != Part::Untimed);
    let sum: f64 = in_figures().map(|line| line.allocation.allocations).sum();
    let bytes: f64 = in_figures().map(|line| line.allocation.bytes).sum();
    if sum >= LEAST || bytes >= 1.0 {
        let more = if rest.len() + shown.len() > limit { "; --limit 0 shows all" } else { "" };
        page.line(Line::new().faint(format!(
            "{}and {} more, {} allocs/op, {} B/op{more}",
            " ".repeat(indent),
            of(rest.len() as u64, "line"),
            number(sum),
            size(bytes)
        )));
    }
    for remark in reconciled(measured) {
        page.hanging(Line::new().plain("  "), &remark);
    }
}

/// Lines with their numbers, what is allocated there, and why. `called` shows the allocations of a caller as `cells`
/// does those of a line. Says how wide the numbers are.
pub fn rows<'a, const N: usize>(
    lines: impl IntoIterator<Item = &'a Explained>,
    titles: [&str; N],
    (cells, called): (impl Fn(&Explained) -> [String; N], impl Fn(f64) -> String),
    look: &Look,
    page: &mut Page,
) -> usize {
    let rows: Vec<(&Explained, [String; N])> = lines.into_iter().map(|line| (line, cells(line))).collect();
    let width = |column: usize| {
        let of_rows = rows.iter().map(|(_, cells)| cells[column].chars().count());
        of_rows.chain([titles[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let row = |cells: [&str; N]| {
        let padded = cells.iter().zip(widths).map(|(cell, width)| format!("  {cell:>width$}"));
        padded.collect::<String>() + "  "
    };
    page.line(Line::new().faint(row(titles)));
    let indent = row([""; N]).len();
    for (at, (line, cells)) in rows.iter().enumerate() {
        // Instances of one generic function look alike without their types.
        let looks_like = |other: &Explained| {
            (&other.allocation.chain, &other.explanation.what) == (&line.allocation.chain, &line.explanation.what)
        };
        let alike = rows.iter().enumerate().any(|(other, (row, _))| other != at && looks_like(row));
        let mark = mark(line.allocation.part).map_or(String::new(), |mark| format!(" ({mark})"));
        let numbers = Line::new().plain(row(cells.each_ref().map(String::as_str)));
        page.line(numbers.then(place(line, alike, look)).faint(mark));
        explanation(line, indent + 2, &called, look, page);
    }
    indent
}

/// `stream.go:9  bytes.NewBuffer, inlined into elvis.One`, and what is allocated. With `types`, of a generic function,
/// those that it was compiled for.
pub fn place(line: &Explained, types: bool, look: &Look) -> Line {
    let chain = &line.allocation.chain;
    let (Some(inner), Some(outer)) = (chain.first(), chain.last()) else { return Line::new() };
    let symbol = || line.allocation.symbol.as_deref().filter(|_| types);
    let compiled = symbol().and_then(instance).unwrap_or_else(|| short(&outer.function, look));
    let innermost = if chain.len() > 1 { short(&inner.function, look) } else { compiled.clone() };
    let mut text = Line::new().strong(at(&inner.file, inner.line)).plain(" ").plain(innermost);
    if chain.len() > 1 {
        let sites: Vec<String> = chain[1..].iter().map(|place| at(&place.file, place.line)).collect();
        text = text.faint(format!(", inlined at {} of {}", sites.join(", "), compiled));
    }
    text.plain(": ").plain(&line.explanation.what)
}

/// Mark of a line that is no operation of its benchmark; None for one that is.
pub fn mark(part: Part) -> Option<&'static str> {
    match part {
        Part::Operation => None,
        Part::Growing => Some("set-up, grows with b.N"),
        Part::Once => Some("set-up, once"),
        Part::FirstOperations => Some("first operations"),
        Part::OnceInGoroutine => Some("once a goroutine"),
        Part::Untimed => Some("not timed"),
    }
}

fn explanation(line: &Explained, indent: usize, called: &dyn Fn(f64) -> String, look: &Look, page: &mut Page) {
    let explanation = &line.explanation;
    let before = || Line::new().plain(" ".repeat(indent));
    match explanation.source {
        ReasonSource::None => page.line(before().warning(match explanation.steps.is_empty() {
            true => "no reason is known: neither the compiler nor the runtime's call explains it",
            false => "no reason is known; the compiler gives this path:",
        })),
        _ => {
            let sure = if explanation.one_of > 1 {
                format!(" (one of {} on this line; which is not known)", explanation.one_of)
            } else {
                String::new()
            };
            page.hanging(before(), &format!("{}{sure}", explanation.reason));
        }
    }
    // One step alone is the compiler's reason again.
    if explanation.steps.len() > 1 || explanation.source != ReasonSource::Compiler && !explanation.steps.is_empty() {
        page.hanging(before(), &explanation.steps.join(" → "));
    }
    let callers: Vec<String> = line
        .allocation
        .callers
        .iter()
        .take(CALLERS)
        .map(|caller| {
            let place = &caller.place;
            format!("{} {} ({})", at(&place.file, place.line), short(&place.function, look), called(caller.allocations))
        })
        .collect();
    if !callers.is_empty() {
        let more = line.allocation.callers.len().saturating_sub(CALLERS);
        let more = if more > 0 { format!(" and {} more", count(more as u64)) } else { String::new() };
        page.hanging(before(), &format!("called from {}{more}", callers.join(", ")));
    }
    if let Some(remedy) = &explanation.remedy {
        page.hanging(before(), &format!("suggestion: {remedy}"));
    }
}

/// Remarks on how the lines add up to the benchmark's figures.
fn reconciled(measured: &Measured) -> Vec<String> {
    let sums = &measured.sums;
    let mut remarks = Vec::new();
    let nowhere = sums.counted - sums.on_lines;
    let mut sum = format!("{} allocs/op on these lines", number(sums.on_lines));
    if nowhere >= LEAST {
        sum += &format!(", {} by the runtime for itself (goroutines, timers), on no line", number(nowhere));
    }
    if sums.unseen >= LEAST {
        sum += &format!(", {} in blocks that small objects share, which no profile sees", number(sums.unseen));
    } else {
        sum += &beside(sums.counted, measured.allocs_per_op);
    }
    if sums.setup > 0.0 {
        sum += &format!(
            "; set-up while the timer runs, {} in all, is shared out to all operations: b.ResetTimer() after it leaves it out",
            number(sums.setup)
        );
    }
    if sums.first_operations > 0.0 {
        sum += &format!(
            "; what the first operations alone allocate, {} in all, is shared out to all: less with more operations",
            number(sums.first_operations)
        );
    }
    if sums.in_goroutines > 0.0 {
        sum += &format!(
            "; what the goroutines of b.RunParallel do once, {} in all, is shared out, too: less with more operations",
            number(sums.in_goroutines)
        );
    }
    if sums.growing >= LEAST {
        sum += &format!(
            "; of these {} by set-up that grows with b.N: b.ResetTimer() after it leaves it out",
            number(sums.growing)
        );
    }
    remarks.push(sum);
    if sums.untimed >= LEAST {
        let untimed = number(sums.untimed);
        remarks
            .push(format!("{untimed} allocs/op more while its timer is stopped, or before it is reset: no figure of the benchmark has them"));
    }
    remarks.extend(bytes(measured));
    if sums.shared_bytes >= 1.0 {
        remarks.push(format!(
            "{} B/op less than the blocks have: objects below 16 bytes without pointers share blocks",
            size(sums.shared_bytes)
        ));
    }
    remarks
}

/// The difference between the bytes of lines and the benchmark's figure. The runtime's own, as stacks of goroutines,
/// differ from run to run: a figure between both sums is explained.
fn bytes(measured: &Measured) -> Option<String> {
    let in_figures = measured.lines.iter().filter(|line| line.allocation.part != Part::Untimed);
    let on_lines: f64 = in_figures.map(|line| line.allocation.bytes).sum();
    let (all, figure) = (measured.sums.counted_bytes, measured.bytes_per_op);
    let differs = difference(figure.clamp(on_lines.min(all), all), figure, (2.0, 0.02));
    let nowhere = match all - on_lines {
        more if more >= 1.0 => format!(", {} by the runtime for itself, on no line", size(more)),
        _ => String::new(),
    };
    (!differs.is_empty()).then(|| format!("{} B/op on these lines{nowhere}{differs}", size(on_lines)))
}

/// Remark on a sum of allocations whose figure is another number on the screen. A fraction below 1000 shows by itself
/// what Go rounds down.
fn beside(counted: f64, figure: f64) -> String {
    let differs = difference(counted, figure, (1.0, 0.01));
    let rounded = (0.0..1.0).contains(&(counted - figure));
    let fraction = rounded && counted.round() < 1000.0;
    match number(figure) {
        _ if !differs.is_empty() => differs,
        shown if fraction || shown == number(counted) => String::new(),
        shown if rounded => format!("; Go rounds down, to {shown}"),
        shown => format!("; the timed run has {shown}"),
    }
}

/// The difference between the counted amount and a benchmark's figure. Empty where that is less than `least`, or than
/// `part` of the figure.
fn difference(counted: f64, figure: f64, (least, part): (f64, f64)) -> String {
    /// Allocations by operation that counted runs may have more than the timed one, by chance.
    const CHANCE: f64 = 0.05;
    let off = counted - figure;
    if off.abs() < least || off.abs() <= part * figure {
        return String::new();
    }
    let why = match off > 0.0 && off < 1.0 + CHANCE {
        true => format!("Go rounds down, all below {} to {}", number(figure + 1.0), number(figure)),
        false => "the difference is not explained".to_owned(),
    };
    format!("; the benchmark says {}: {why}", number(figure))
}

fn at(file: &str, line: u32) -> String {
    format!("{}:{line}", file.rsplit('/').next().unwrap_or(file))
}

#[cfg(test)]
mod tests {
    use mallow_golang::statistics::Summary;

    use super::{Explained, Measured, benchmark, beside, difference, has_details};
    use crate::go::fixture;
    use crate::go::measurement::Reconciliation;
    use crate::output::text::{Look, Page};

    fn of_lines(lines: Vec<Explained>) -> Measured {
        Measured {
            name: "BenchmarkCopy".to_owned(),
            operations: 20,
            runs: 1,
            ns_per_op: 1.0,
            time: Summary::of(&[1.0]),
            measurements: Vec::new(),
            bytes_per_op: 64_120.0,
            allocs_per_op: 1254.0,
            counted_operations: 20,
            sums: Reconciliation::default(),
            lines,
            error: None,
            profile: None,
        }
    }

    /// 108 kB an operation, in less than one allocation each, had no section.
    #[test]
    fn bytes_without_an_allocation_an_operation_are_explained_or_said_not_to_be() {
        let none = Measured { allocs_per_op: 0.0, bytes_per_op: 108_487.0, ..of_lines(Vec::new()) };
        assert!(has_details(&none));
        let mut page = Page::new(Look::default());
        benchmark(&none, 9, &Look::default(), &mut page);
        let shown = page.into_text();
        assert!(shown.contains("108,487") && shown.contains("not explained"), "{shown}");
        // What pools and the runtime lose.
        assert!(!has_details(&Measured { bytes_per_op: 63.0, ..none }));
    }

    #[test]
    fn lines_that_are_not_shown_have_their_bytes_in_the_sum() {
        let measured = of_lines(fixture::lines());
        let hidden: f64 = measured.lines[1..].iter().map(|line| line.allocation.bytes).sum();
        let mut page = Page::new(Look::default());
        benchmark(&measured, 1, &Look::default(), &mut page);
        let shown = page.into_text();
        assert_eq!(hidden, 16_120.0);
        assert!(shown.contains("and 3 lines more, 254 allocs/op, 16,120 B/op; --limit 0 shows all"), "{shown}");
    }

    #[test]
    fn a_sum_that_is_another_number_than_its_figure_has_a_word_why() {
        for (counted, figure, expected) in [
            (13.99, 13.0, ""),
            (13.0, 13.0, ""),
            (2203.2, 2203.0, ""),
            (2203.6, 2203.0, "; Go rounds down, to 2,203"),
            (2204.1, 2203.0, "; the timed run has 2,203"),
            (2195.0, 2203.0, "; the timed run has 2,203"),
            (12.5, 13.0, "; the timed run has 13"),
            (15.0, 13.0, "; the benchmark says 13: the difference is not explained"),
        ] {
            assert_eq!(beside(counted, figure), expected, "{counted}");
        }
    }

    #[test]
    fn go_rounds_down_and_no_more_than_that_is_known() {
        let allocations = |counted, figure| difference(counted, figure, (1.0, 0.01));
        for agrees in [(13.0, 13.0), (13.99, 13.0), (12.5, 13.0), (1009.0, 1000.0)] {
            assert_eq!(allocations(agrees.0, agrees.1), "");
        }
        for rounded in [14.0, 14.01] {
            assert_eq!(allocations(rounded, 13.0), "; the benchmark says 13: Go rounds down, all below 14 to 13");
        }
        for other in [14.5, 15.0, 11.0] {
            assert_eq!(allocations(other, 13.0), "; the benchmark says 13: the difference is not explained");
        }
    }
}
