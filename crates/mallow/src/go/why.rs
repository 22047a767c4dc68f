//! `mallow go why`: all that is known of one place.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use mallow_golang::join::{Allocation, AllocationLine, Compiled, Explained, Part};
use mallow_golang::model::{Diagnostic, Position, Verdict};
use mallow_golang::names::written;
use mallow_golang::tool::{Go, Timing};
use serde::Serialize;

use super::bench_text::{mark, place};
use super::figures::{Amounts, number};
use super::heap::Heap;
use super::measurement::Measurer;
use super::names::{compared, short};
use crate::flags::GoWhyFlags;
use crate::output::progress::Spinner;
use crate::output::text::units::{of, percent};
use crate::output::text::{Align, Line, Look, Page, Stream, Table};
use crate::output::{exit, json, stdio};

/// Lines of source around one that matters.
const AROUND: u32 = 2;

/// Steps of the way to the heap that say nothing beside the source.
const SMALL: [&str; 7] = ["spill", "assign", "assign-pair", "slice", "dot", "address-of", "reference"];

#[derive(Debug, PartialEq)]
enum Target {
    Line(String, u32),
    Function(String),
}

impl Target {
    fn of(text: &str) -> Self {
        match text.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?))) {
            Some((file, line)) if !file.is_empty() => Self::Line(file.trim_start_matches("./").to_owned(), line),
            _ => Self::Function(compared(text)),
        }
    }

    fn is(&self, place: &AllocationLine) -> bool {
        match self {
            Self::Line(file, line) => place.line == *line && ends(&place.file, file, &['/']),
            Self::Function(name) => is_function(&place.function, name),
        }
    }

    fn is_at(&self, position: &Position, function: Option<&str>) -> bool {
        match self {
            Self::Line(file, line) => position.line == *line && ends(&position.file, file, &['/']),
            Self::Function(name) => {
                function.is_some_and(|function| is_function(function, name) || ends(name, &compared(function), &['.']))
            }
        }
    }
}

/// Whether the function, or the one that its literals and bodies of loops are in, has this name. Types are not
/// compared: instances of a generic function are one function of the source.
fn is_function(function: &str, name: &str) -> bool {
    let is = |function: &str| ends(&compared(function), name, &['/', '.']);
    is(function) || is(&written(function))
}

/// Whether `whole` ends with `end`, a whole part of it.
fn ends(whole: &str, end: &str, between: &[char]) -> bool {
    whole.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with(between))
}

/// Allocations at a place, and their reasons.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GoWhy {
    /// The place as the command line has it: a file with a line, or a function.
    pub place: String,
    /// Allocations of a heap profile at the place; left out where benchmarks were run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileShare>,
    /// Benchmarks that allocate at the place; empty where a profile was read.
    pub benchmarks: Vec<LeadingCall>,
    /// Diagnostics of the compiler at the place, of allocations that ran or not.
    pub compiler: Vec<Diagnostic>,
}

/// A benchmark that allocates at the place.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LeadingCall {
    /// Import path of the benchmark's package.
    pub package: String,
    /// Name of the benchmark.
    pub name: String,
    /// Allocations of the whole benchmark, per operation.
    pub allocs_per_op: f64,
    /// Operations that set-up is divided by.
    #[serde(skip)]
    pub operations: u64,
    /// Allocations of the benchmark at the place.
    pub lines: Vec<Explained>,
}

/// Allocations of a heap profile at the place.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProfileShare {
    /// Path of the profile, as the command line has it.
    pub file: String,
    /// Sampling interval of the profile: one allocation in about so many bytes is in it, and numbers are estimates;
    /// left out where all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled_bytes: Option<u64>,
    /// Blocks of the whole profile, at the place or not, estimated from the samples.
    pub profile_allocations: f64,
    /// Allocations at the place, by line.
    pub lines: Vec<Explained>,
    /// Sentences on what is not known, and why.
    pub notes: Vec<String>,
}

pub fn run(flags: &GoWhyFlags) -> Result<ExitCode> {
    let wanted = Target::of(&flags.place);
    let report = match &flags.profile {
        Some(path) => in_profile(path, flags, &wanted)?,
        None => in_benchmarks(flags, &wanted)?,
    };
    let look = flags.view.look(Stream::Out);
    stdio::print(&match flags.view.json {
        true => json::document(&report)?,
        false => text(&report, &look),
    })?;
    Ok(exit::OK)
}

/// Diagnostics of allocations at the place.
fn said(compiled: &Compiled, wanted: &Target) -> Vec<Diagnostic> {
    let is = |d: &&Diagnostic| {
        let positions = std::iter::once(&d.position).chain(&d.inlined_at);
        d.verdict != Verdict::DoesNotEscape && { positions }.any(|at| wanted.is_at(at, d.function.as_deref()))
    };
    compiled.all().iter().filter(is).cloned().collect()
}

fn in_profile(path: &Path, flags: &GoWhyFlags, wanted: &Target) -> Result<GoWhy> {
    let working = Spinner::new();
    let mut heap = Heap::read(path, &flags.heap, flags.tool.tags.as_deref())?;
    let all: f64 = heap.allocations.iter().map(|allocation| allocation.allocations).sum();
    let there = |allocation: &Allocation| allocation.chain.iter().any(|place| wanted.is(place));
    let (lines, compiled) = heap.explain(&flags.packages, &working, there)?;
    let compiler = said(&compiled, wanted);
    let file = path.display().to_string();
    if lines.is_empty() && compiler.is_empty() {
        heap.notes.iter().for_each(|note| stdio::notify(note));
        bail!(
            "nothing is allocated at {}, neither in {file} nor by what the compiler says of {}",
            flags.place,
            flags.packages.join(" ")
        );
    }
    let profile_allocations = all + heap.nowhere.allocations;
    let sampled_bytes = heap.sampled_bytes;
    let profile = ProfileShare { file, sampled_bytes, profile_allocations, lines, notes: heap.notes };
    Ok(GoWhy { place: flags.place.clone(), profile: Some(profile), benchmarks: Vec::new(), compiler })
}

fn in_benchmarks(flags: &GoWhyFlags, wanted: &Target) -> Result<GoWhy> {
    let working = Spinner::new();
    let go = Go::find(Path::new("."), flags.tool.tags.as_deref())?;
    let packages = go.packages(&flags.packages)?;
    // Times are of no interest.
    let timing = Timing { pattern: flags.bench.clone(), count: 1, time: Some("20x".to_owned()) };
    let mut report = GoWhy { place: flags.place.clone(), profile: None, benchmarks: Vec::new(), compiler: Vec::new() };
    let mut run = 0;
    for package in packages.iter().filter(|package| package.broken.is_some() || package.may_have_benchmarks()) {
        let measurer = Measurer { go: &go, package, working: &working };
        let (measured, compiled) = measurer.measure(&timing)?;
        run += measured.len();
        for benchmark in measured {
            let there = |line: &Explained| line.allocation.chain.iter().any(|place| wanted.is(place));
            let lines: Vec<Explained> = benchmark.lines.into_iter().filter(there).collect();
            if !lines.is_empty() {
                report.benchmarks.push(LeadingCall {
                    package: package.import_path.clone(),
                    name: benchmark.name,
                    allocs_per_op: benchmark.allocs_per_op,
                    operations: benchmark.operations,
                    lines,
                });
            }
        }
        report.compiler.extend(said(&compiled, wanted));
    }
    drop(working);
    if report.benchmarks.is_empty() && report.compiler.is_empty() {
        let packages = flags.packages.join(" ");
        match run {
            0 => bail!("no benchmark of {packages} matches {:?}", flags.bench),
            _ => bail!(
                "nothing is allocated at {}, neither by these benchmarks nor by what the compiler says of {packages}",
                flags.place
            ),
        }
    }
    Ok(report)
}

/// Benchmarks that allocate alike at a place, as one entry.
struct Entry<'a> {
    line: &'a Explained,
    /// Benchmarks, each with its numbers at the place.
    names: Vec<String>,
    /// The program's own lines that lead to it, in any of these.
    callers: Vec<&'a AllocationLine>,
}

impl<'a> Entry<'a> {
    fn new(line: &'a Explained, name: String) -> Self {
        Self { line, names: vec![name], callers: line.allocation.callers.iter().map(|caller| &caller.place).collect() }
    }

    /// All that is said of both is the same, but for names and callers.
    fn is_like(&self, other: &Self) -> bool {
        let said = |entry: &Self| {
            let Allocation { chain, call, symbol, .. } = &entry.line.allocation;
            (chain.clone(), call.clone(), symbol.clone())
        };
        said(self) == said(other) && self.line.explanation == other.line.explanation
    }

    fn add(&mut self, other: Self) {
        self.names.extend(other.names);
        for caller in other.callers {
            if !self.callers.contains(&caller) {
                self.callers.push(caller);
            }
        }
    }
}

fn text(report: &GoWhy, look: &Look) -> String {
    let mut page = Page::new(*look);
    let mut marks = Marks::default();
    let mut listed: Vec<Entry> = Vec::new();
    for benchmark in &report.benchmarks {
        for line in &benchmark.lines {
            let entry = Entry::new(line, of_benchmark(benchmark, line));
            match listed.iter_mut().find(|known| known.is_like(&entry)) {
                Some(known) => known.add(entry),
                None => listed.push(entry),
            }
        }
    }
    let lines = report.profile.iter().flat_map(|profile| &profile.lines);
    listed.extend(lines.map(|line| Entry::new(line, of_profile(report, line, look))));
    for Entry { line, names, callers } in &listed {
        page.gap();
        page.line(place(line, true, look));
        page.hanging(Line::new().plain("  in "), &names.join(", "));
        let allocation = &line.allocation;
        if let Some(call) = &allocation.call {
            let of = call.of.as_ref().map_or(String::new(), |of| match is_of_references(&call.callee) {
                true => format!(" of {}", of.name),
                false => format!(" of {} ({} B)", of.name, of.size),
            });
            page.line(Line::new().plain("  by ").plain(&call.callee).plain(of));
        }
        let why = if line.explanation.reason.is_empty() { "not known" } else { &line.explanation.reason };
        page.hanging(Line::new().plain("  why: "), why);
        for step in &line.explanation.steps {
            page.hanging(Line::new().plain("    → "), step);
        }
        for caller in callers {
            let at = format!("{}:{}", caller.file, caller.line);
            page.line(Line::new().plain("  called from ").plain(short(&caller.function, look)).plain(format!(" {at}")));
        }
        if let Some(remedy) = &line.explanation.remedy {
            page.hanging(Line::new().plain("  suggestion: "), remedy);
        }
        marks.allocation(line);
    }
    if listed.is_empty() {
        let who = report
            .profile
            .as_ref()
            .map_or("No benchmark allocates".to_owned(), |profile| format!("In {} nothing is allocated", profile.file));
        page.line(Line::new().plain(format!("{who} at {}. The compiler says of it:", report.place)));
        for diagnostic in &report.compiler {
            page.gap();
            let at = diagnostic.inlined_at.last().unwrap_or(&diagnostic.position);
            page.line(Line::new().strong(format!("{}:{}", at.file, at.line)).plain(": ").plain(&diagnostic.what));
            page.hanging(Line::new().plain("  why: "), &diagnostic.reason.words());
            for step in diagnostic.chain() {
                page.hanging(Line::new().plain("    → "), &step);
            }
            marks.diagnostic(diagnostic, "allocated here");
        }
    }
    marks.onto(&mut page);
    for note in report.profile.iter().flat_map(|profile| &profile.notes) {
        page.gap();
        page.hanging(Line::new().warning("note: "), note);
    }
    page.into_text()
}

/// `BenchmarkRun (12 allocs/op)`; what happens once is no part of an operation: `BenchmarkRun (240 allocations, set-up,
/// once)`.
fn of_benchmark(benchmark: &LeadingCall, line: &Explained) -> String {
    let Allocation { allocations, part, .. } = line.allocation;
    let amount = match part {
        Part::Once | Part::FirstOperations | Part::OnceInGoroutine => {
            of((allocations * benchmark.operations as f64).round() as u64, "allocation")
        }
        _ => format!("{} allocs/op", number(allocations)),
    };
    let mark = mark(part).map_or(String::new(), |mark| format!(", {mark}"));
    format!("{} ({amount}{mark})", benchmark.name)
}

/// `heap.pb.gz (1,200 allocations, 3.2 MB, 12.5 % of all allocations)`; estimates are `about 1,200 allocations`.
fn of_profile(report: &GoWhy, line: &Explained, look: &Look) -> String {
    let Some(profile) = &report.profile else { return String::new() };
    let amounts = Amounts { estimated: profile.sampled_bytes.is_some() };
    let allocations = line.allocation.allocations;
    let [part, all] = [allocations, profile.profile_allocations].map(|n| n.round().max(0.0) as u64);
    format!(
        "{} ({}{}, {}, {} of all allocations{})",
        profile.file,
        if amounts.estimated { "about " } else { "" },
        of(amounts.whole(allocations), "allocation"),
        amounts.size(line.allocation.bytes, look),
        percent(part, all),
        mark(line.allocation.part).map_or(String::new(), |mark| format!(", {mark}"))
    )
}

/// Texts for the margin of the source, by file and line.
#[derive(Default)]
struct Marks(BTreeMap<String, BTreeMap<u32, Vec<String>>>);

impl Marks {
    fn add(&mut self, file: &str, line: u32, note: String) {
        let notes = self.0.entry(file.to_owned()).or_default().entry(line).or_default();
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    fn allocation(&mut self, line: &Explained) {
        for (at, place) in line.allocation.chain.iter().enumerate() {
            let note = match at {
                0 => format!("allocates {}: {}", line.explanation.what, line.explanation.reason),
                _ => format!("{} is inlined here", short_name(&line.allocation.chain[at - 1].function)),
            };
            self.add(&place.file, place.line, note);
        }
        if let Some(diagnostic) = &line.explanation.diagnostic {
            self.flow(diagnostic);
        }
    }

    fn diagnostic(&mut self, diagnostic: &Diagnostic, note: &str) {
        let at = diagnostic.inlined_at.last().unwrap_or(&diagnostic.position);
        self.add(&at.file, at.line, format!("{}: {note}", diagnostic.what));
        self.flow(diagnostic);
    }

    fn flow(&mut self, diagnostic: &Diagnostic) {
        for step in diagnostic.flow.iter().filter(|step| !SMALL.contains(&step.how.as_str())) {
            let at = step.inlined_at.last().unwrap_or(&step.position);
            self.add(&at.file, at.line, step.how.clone());
        }
    }

    /// The sources, with the notes beside the lines.
    fn onto(self, page: &mut Page) {
        for (file, notes) in self.0 {
            let Ok(source) = std::fs::read_to_string(&file) else {
                page.gap();
                page.line(Line::new().faint(format!("{file} cannot be read: its source is not shown")));
                continue;
            };
            page.gap();
            page.line(Line::new().strong(&file));
            let mut table = Table::new(&[Align::Right, Align::Left]);
            let near = |n: u32| notes.range(n.saturating_sub(AROUND)..=n + AROUND).next().is_some();
            let mut last = 0;
            for (number, text) in (1..).zip(source.lines()).filter(|(number, _)| near(*number)) {
                if last > 0 && number > last + 1 {
                    table.row([Line::new().faint("…")]);
                }
                last = number;
                let text = text.replace('\t', "    ");
                let Some(notes) = notes.get(&number) else {
                    table.row([Line::new().faint(number.to_string()), Line::new().faint(text)]);
                    continue;
                };
                let indent = text.len() - text.trim_start().len();
                table.row([Line::new().plain(number.to_string()), Line::new().plain(text)]);
                table.row([Line::new(), Line::new().strong(format!("{}↑ {}", " ".repeat(indent), notes.join("; ")))]);
            }
            table.onto(page);
        }
    }
}

fn short_name(function: &str) -> &str {
    function.rsplit('/').next().unwrap_or(function)
}

/// Whether values of the types that this function of the runtime makes are references: their size is none of what is
/// allocated.
fn is_of_references(callee: &str) -> bool {
    ["runtime.makemap", "runtime.mapassign", "runtime.makechan"].iter().any(|begin| callee.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::go::fixture;
    use mallow_golang::join::AllocationLine;

    #[test]
    fn a_place_in_a_profile() {
        let lines = fixture::lines();
        let notes = vec!["no source of example.com/b is here".to_owned()];
        let profile =
            ProfileShare { file: "mem.out".to_owned(), sampled_bytes: None, profile_allocations: 2000.0, lines, notes };
        let report = GoWhy {
            place: "stream.go:9".to_owned(),
            profile: Some(profile),
            benchmarks: Vec::new(),
            compiler: Vec::new(),
        };
        insta::assert_snapshot!(text(&report, &Look::default()));
        let json = serde_json::to_value(&report).expect("JSON");
        assert_eq!(
            (&json["profile"]["profile_allocations"], &json["profile"]["allocations"]),
            (&2000.0.into(), &().into())
        );
    }

    #[test]
    fn estimates_of_a_profile_are_said_to_be_some() {
        let mut lines = fixture::lines();
        lines.truncate(1);
        (lines[0].allocation.allocations, lines[0].allocation.bytes) = (32_774.0, 524_384.0);
        let profile = ProfileShare {
            file: "mem.out".to_owned(),
            sampled_bytes: Some(512 << 10),
            profile_allocations: 65_548.0,
            lines,
            notes: Vec::new(),
        };
        let place = "stream.go:9".to_owned();
        let report = GoWhy { place, profile: Some(profile), benchmarks: Vec::new(), compiler: Vec::new() };
        let shown = text(&report, &Look::default());
        assert!(
            shown.contains("  in mem.out (about 33,000 allocations, 520 kB, 50.0 % of all allocations)"),
            "{shown}"
        );
    }

    /// A line that one benchmark has in its set-up and another in each operation.
    #[test]
    fn set_up_of_one_benchmark_is_none_of_another() {
        let leading = |name: &str, part, allocations, caller: u32| {
            let mut line = fixture::lines().remove(1);
            (line.allocation.part, line.allocation.allocations) = (part, allocations);
            line.allocation.callers.truncate(1);
            line.allocation.callers[0].place.line = caller;
            let (package, name) = ("example.com/a".to_owned(), name.to_owned());
            LeadingCall { package, name, allocs_per_op: 620.0, operations: 20, lines: vec![line] }
        };
        let report = GoWhy {
            place: "list.go:30".to_owned(),
            profile: None,
            benchmarks: vec![
                leading("BenchmarkIndex", Part::Once, 1.05, 12),
                leading("BenchmarkCompile", Part::Operation, 12.0, 14),
            ],
            compiler: Vec::new(),
        };
        let shown = text(&report, &Look::default());
        let lines: Vec<&str> = shown.lines().take(2).collect();
        assert!(lines[0].starts_with("list.go:30 ") && !lines[0].contains("set-up"), "{shown}");
        assert_eq!(lines[1], "  in BenchmarkIndex (21 allocations, set-up, once), BenchmarkCompile (12 allocs/op)");
        for caller in ["stream.go:12\n", "stream.go:14\n"] {
            assert_eq!(shown.matches(caller).count(), 1, "{shown}");
        }
    }

    #[test]
    fn places_are_named_by_their_ends() {
        let place =
            |function: &str, file: &str, line| AllocationLine { function: function.into(), file: file.into(), line };
        let grow = place("bytes.(*Buffer).grow", "/go/src/bytes/buffer.go", 151);
        for (text, is) in [
            ("buffer.go:151", true),
            ("./bytes/buffer.go:151", true),
            ("uffer.go:151", false),
            ("buffer.go:15", false),
            ("(*Buffer).grow", true),
            ("grow", true),
            ("bytes.(*Buffer).grow", true),
            ("row", false),
        ] {
            assert_eq!(Target::of(text).is(&grow), is, "{text}");
        }
    }

    #[test]
    fn generic_functions_are_named_without_their_types() {
        let place = |function: &str| AllocationLine { function: function.into(), file: "/p/gen.go".into(), line: 1 };
        for (text, function, is) in [
            ("Map", "example.com/gen.Map[...]", true),
            ("gen.Map", "example.com/gen.Map[...]", true),
            ("Map[…]", "example.com/gen.Map[...]", true),
            ("(*List).Grow", "example.com/gen.(*List[...]).Grow", true),
            ("gen.(*List[…]).Grow", "example.com/gen.(*List[...]).Grow", true),
            ("List.Grow", "example.com/gen.(*List[...]).Grow", true),
            ("Filter", "example.com/gen.Filter[...].func1", true),
            ("InLoop", "example.com/gen.InLoop-range1", true),
            ("Grow", "example.com/gen.Map[...]", false),
            ("Pairs", "example.com/gen.MapPairs[...]", false),
        ] {
            assert_eq!(Target::of(text).is(&place(function)), is, "{text}");
        }
        let at = Position { file: "/p/gen.go".into(), line: 1, column: 1 };
        assert!(Target::of("gen.(*List[…]).Grow").is_at(&at, Some("(*List[go.shape.int]).Grow")));
    }
}
