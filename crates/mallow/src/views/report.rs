//! `mallow report`: the overview of a recording. `record` and `recover` end with the same text.

use std::process::ExitCode;

use anyhow::Result;
use mallow_profile::{Profile, Word};
use mallow_report::analysis::{self, Ending, Insights, Largest, Least, Measure, Overview, ProcessRow, overview};
use serde::Serialize;

use super::{incomplete, insights};
use crate::flags::{ReportFlags, ViewFlags};
use crate::input::coverage;
use crate::input::names::MissingNames;
use crate::input::recording::Recording;
use crate::output::text::units::{bytes, count, of, percent, rate, span};
use crate::output::text::{Align, Line, Look, Page, Stream, Table, amount, described, framed, heading, lacks};
use crate::output::{exit, stdio};

/// So many files without source lines are told of.
const HINTS: usize = 2;

/// What the view tells.
#[derive(Debug, Serialize)]
pub struct ReportDocument {
    #[serde(flatten)]
    overview: Overview,
    #[serde(flatten)]
    insights: Insights,
    /// Files of which a place is shown without its source line, and what would bring it.
    missing_names: Vec<MissingNames>,
}

/// Shows the overview.
pub fn run(flags: &ReportFlags) -> Result<ExitCode> {
    let recording = Recording::open(&flags.rows.source)?;
    let how = ReportOptions {
        view: &flags.rows.view,
        stacks: flags.stacks,
        least: flags.rows.least.min,
        stream: Stream::Out,
    };
    stdio::print(&render(&recording, &how)?)?;
    Ok(exit::OK)
}

/// How the report is shown.
pub struct ReportOptions<'a> {
    /// What all views know.
    pub view: &'a ViewFlags,
    /// With the whole stack of the largest site of each place.
    pub stacks: bool,
    /// Without places that have less.
    pub least: Option<Least>,
    /// Where.
    pub stream: Stream,
}

/// The report of a recording: text, or JSON where the flags say so.
pub fn render(recording: &Recording, how: &ReportOptions<'_>) -> Result<String> {
    let &ReportOptions { view, stacks, least, stream } = how;
    let account = |places: &dyn Fn(&Insights) -> usize, insights| {
        let mut account = ReportDocument::of(recording, places, insights);
        let lists = account.overview.largest.iter_mut();
        lists.for_each(|list| least.into_iter().for_each(|least| list.leave_out(least)));
        account
    };
    if view.json {
        return recording.json(&account(&|_| view.limit(20), view.limit(usize::MAX)));
    }
    let look = view.look(stream);
    let places = |insights: &Insights| view.limit(screen(&look, insights::lines(insights)));
    let account = account(&places, view.limit(insights::screen(&look)));
    Ok(recording.filters.above(text(&account, &look, stacks, least.is_some()), &look))
}

impl ReportDocument {
    /// At most so many places in each list, which may depend on the insights, and so many insights.
    fn of(recording: &Recording, places: impl Fn(&Insights) -> usize, insights: usize) -> Self {
        let asked = recording.ask_for_packages();
        let mut account = Self::without_hints(&recording.profile, places, insights);
        let mut paths = account.nameless();
        if recording.profile.origin.is_none() {
            let without = recording.without_inlined();
            paths.extend(without.into_iter().filter(|path| !paths.contains(path)).collect::<Vec<_>>());
        }
        account.missing_names = recording.lacking_of(&paths, asked);
        account
    }

    /// As [`ReportDocument::of`], of a profile alone.
    pub fn without_hints(profile: &Profile, places: impl Fn(&Insights) -> usize, insights: usize) -> Self {
        let insights = analysis::insights(profile, insights);
        Self { overview: overview(profile, places(&insights)), insights, missing_names: Vec::new() }
    }

    /// Files of which a place is shown without its source line.
    fn nameless(&self) -> Vec<&str> {
        let mut paths: Vec<&str> = Vec::new();
        if self.overview.origin.is_some() {
            // Its names are in the file, or were looked up in files of today.
            return paths;
        }
        let places = self.overview.largest.iter().flat_map(|l| &l.largest).filter_map(|p| p.frame.as_ref());
        for frame in places.chain(self.insights.insights.iter().map(|insight| &insight.frame)) {
            paths.extend(frame.module.as_deref().filter(|m| frame.file.is_none() && !paths.contains(m)));
        }
        paths
    }
}

/// Places of each list, where all of it is to fit onto the terminal, with `more` lines besides.
fn screen(look: &Look, more: usize) -> usize {
    const SUMMARY: usize = 12;
    const AROUND_LIST: usize = 2;
    match look.height {
        None => 5,
        Some(height) => {
            (height.saturating_sub(SUMMARY + more) / Measure::ALL.len()).saturating_sub(AROUND_LIST).clamp(2, 10)
        }
    }
}

/// `sums`: what is not shown of a list is told as one row.
fn text(account: &ReportDocument, look: &Look, stacks: bool, sums: bool) -> String {
    let ReportDocument { overview: report, insights, missing_names } = account;
    let mut page = Page::new(*look);
    incomplete::show(&report.custom_allocators, report.processes.len(), &mut page);
    let command = report.command.join(" ");
    page.line(if command.is_empty() { Line::new().faint("(command unknown)") } else { Line::new().strong(command) });
    page.line(circumstances(report));
    page.gap();
    totals(report, look).onto(&mut page);
    if report.processes.len() > 1 && tells(report, Word::Processes) {
        page.gap();
        processes(report, look, &mut page);
    }
    for list in &report.largest {
        if list.total > 0 {
            page.gap();
            places(list, look, (stacks, sums), &mut page);
        }
    }
    insights::show(insights, look, &mut page);
    warnings(report, &mut page);
    page.gap();
    if let Some(line) = report.origin.as_ref().and_then(coverage::missing) {
        page.line(line);
    }
    for hint in missing_names.iter().take(HINTS).map(MissingNames::line) {
        page.line(Line::new().faint(hint));
    }
    page.into_text()
}

fn circumstances(report: &Overview) -> Line {
    let status = match report.ending.exit_status {
        None => "ending unknown".to_owned(),
        Some(status @ 129..=192) => format!("exit status {status} (signal {})", status - 128),
        Some(status) => format!("exit status {status}"),
    };
    let threads: u64 = report.processes.iter().map(|p| u64::from(p.threads)).sum();
    let mut parts = Vec::new();
    let mut part = |word, text: String| {
        if tells(report, word) {
            parts.push(text);
        }
    };
    part(Word::Times, format!("ran {}", span(report.duration_ms)));
    part(Word::ExitStatus, status);
    let mut people = Vec::new();
    if tells(report, Word::Processes) {
        people.push(of(report.processes.len() as u64, "process"));
    }
    if tells(report, Word::Threads) {
        people.push(of(threads, "thread"));
    }
    let said = [parts.join(", "), people.join(", ")].into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>();
    match &report.origin {
        None => Line::new().plain(said.join("; ")),
        Some(origin) if said.is_empty() => coverage::provenance(origin),
        Some(origin) => coverage::provenance(origin).plain("; ").plain(said.join("; ")),
    }
}

fn tells(report: &Overview, word: Word) -> bool {
    report.origin.as_ref().is_none_or(|origin| origin.tells.has(word))
}

fn totals(report: &Overview, look: &Look) -> Table {
    let t = &report.totals;
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Left]);
    let mut row = |name: &str, (number, size): (u64, u64), words: (Word, Word), remark: String| {
        let (numbers, sizes) = (tells(report, words.0), tells(report, words.1));
        let cell = |told: bool, text: String| Line::new().plain(if told { text } else { String::new() });
        if numbers || sizes {
            table.row([
                Line::new().strong(name),
                cell(numbers, count(number)),
                cell(sizes, bytes(size, look.exact)),
                Line::new().faint(remark),
            ]);
        }
    };
    let called: Vec<_> = report.families.iter().map(|f| format!("{} {}", f.family, count(f.allocations))).collect();
    let called = Some(called.join(", ")).filter(|_| tells(report, Word::Families));
    let speed = rate(t.allocations, report.window_ms).filter(|_| tells(report, Word::Times));
    let how = [speed, called].into_iter().flatten().filter(|s| !s.is_empty()).collect::<Vec<_>>().join("; ");
    row("allocations", (t.allocations, t.allocated_bytes), (Word::Allocations, Word::AllocatedBytes), how);
    let reallocs = match t.reallocs_in_place + t.reallocs_moved {
        0 => String::new(),
        _ => format!("reallocs: {} in place, {} moved", count(t.reallocs_in_place), count(t.reallocs_moved)),
    };
    row("frees", (t.frees, t.freed_bytes), (Word::Frees, Word::FreedBytes), reallocs);
    let share = percent(t.temporary, t.allocations);
    let share = if share.is_empty() { share } else { format!("{share} of allocations") };
    row("temporary", (t.temporary, t.temporary_bytes), (Word::Temporary, Word::TemporaryBytes), share);
    let when = match percent(report.peak_ms, report.duration_ms) {
        share if share.is_empty() || !tells(report, Word::Times) => String::new(),
        share => format!("at {}, {share} of the run", span(report.peak_ms)),
    };
    row("live at peak", (t.peak, t.peak_bytes), (Word::Peak, Word::PeakBytes), when);
    let leaked = if t.leaked == 0 && t.leaked_bytes == 0 { String::new() } else { "live at the end".to_owned() };
    row("leaked", (t.leaked, t.leaked_bytes), (Word::Leaked, Word::LeakedBytes), leaked);
    table
}

fn processes(report: &Overview, look: &Look, page: &mut Page) {
    const SHOWN: usize = 6;
    let mut order: Vec<_> = report.processes.iter().collect();
    order.sort_by_key(|p| std::cmp::Reverse(p.totals.allocations));
    page.line(heading("Processes", order.len().min(SHOWN), order.len() as u64));
    // Of processes of other tools' files, or of merged ones, less is known.
    type Column = (&'static str, bool, fn(&ProcessRow, &Look) -> String);
    let columns: [Column; 5] =
        [
            ("pid", report.processes.iter().any(|p| p.pid > 0), |p, _| {
                if p.pid > 0 { p.pid.to_string() } else { String::new() }
            }),
            ("allocations", tells(report, Word::Allocations), |p, _| count(p.totals.allocations)),
            ("own peak", tells(report, Word::Times), |p, look| bytes(p.own_peak_bytes, look.exact)),
            ("leaked", tells(report, Word::LeakedBytes), |p, look| bytes(p.totals.leaked_bytes, look.exact)),
            ("file", report.processes.iter().any(|p| !p.source.is_empty()), |p, _| p.source.clone()),
        ];
    let columns: Vec<Column> = columns.into_iter().filter(|(_, shown, _)| *shown).collect();
    let mut align: Vec<Align> =
        columns.iter().map(|(title, ..)| if *title == "file" { Align::Left } else { Align::Right }).collect();
    align.push(Align::Left);
    let mut table = Table::new(&align);
    table.row(columns.iter().map(|(title, ..)| *title).chain(["command"]).map(|title| Line::new().faint(title)));
    for p in order.into_iter().take(SHOWN) {
        let command = if p.arguments.is_empty() { p.executable.clone() } else { p.arguments.join(" ") };
        let cells = columns.iter().map(|(.., cell)| Line::new().plain(cell(p, look)));
        table.row(cells.chain([Line::new().plain(command).faint(if p.forked { " (forked)" } else { "" })]));
    }
    table.onto(page);
}

fn places(list: &Largest, look: &Look, (stacks, sums): (bool, bool), page: &mut Page) {
    let title = match list.by {
        Measure::Allocations => "Most allocations",
        Measure::Bytes => "Most allocated bytes",
        Measure::Peak => "Most bytes live at the peak",
        Measure::Leaked => "Most bytes leaked",
        Measure::Temporary => "Most temporary allocations",
    };
    page.line(heading(title, list.largest.len(), list.places));
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Left]);
    for place in &list.largest {
        let value = list.by.of(&place.totals);
        table.row([
            Line::new().plain(percent(value, list.total)),
            Line::new().plain(amount(list.by, value, look)),
            described(place.frame.as_ref(), place.sites, place.through.as_deref(), &place.largest_site.stack, look),
        ]);
        if stacks {
            for frame in &place.largest_site.stack.frames {
                table.row([Line::new(), Line::new(), Line::new().plain("  ").then(framed(frame, look))]);
            }
            if place.largest_site.stack.cut {
                table.row([Line::new(), Line::new(), Line::new().faint("  … outer frames are missing")]);
            }
        }
    }
    if let Some(hidden) = list.hidden.as_ref().filter(|_| sums) {
        let value = list.by.of(&hidden.sums);
        table.row([
            Line::new().plain(percent(value, list.total)),
            Line::new().plain(amount(list.by, value, look)),
            Line::new().faint(format!("… {} more", count(hidden.rows))),
        ]);
    }
    table.onto(page);
}

fn warnings(report: &Overview, page: &mut Page) {
    warn(&report.ending, page);
    if report.totals.allocations == 0 && report.ending.cut_short.is_none() && report.origin.is_none() {
        page.gap();
        page.line(Line::new().warning(
            "No allocation was seen: the program made none, or its allocator is out of sight (a static program, or one with an allocator of its own).",
        ));
    }
}

/// What a recording lacks.
pub fn warn(ending: &Ending, page: &mut Page) {
    for text in lacks(ending.cut_short.as_deref(), ending.lost, ending.damaged) {
        page.gap();
        page.line(Line::new().warning(text));
    }
}

#[cfg(test)]
mod tests {
    use mallow_profile::{Origin, Profile, Word, Words};
    use mallow_report::analysis::Merger;
    use mallow_report::testing::{Builder, blocks, parser};

    use super::{MissingNames, Recording, ReportDocument, screen, text};
    use crate::output::text::Look;

    fn shown(profile: &Profile) -> String {
        text(&ReportDocument::without_hints(profile, |_| 5, 5), &Look::default(), false, false)
    }

    #[test]
    fn the_overview_reads_at_first_sight() {
        insta::assert_snapshot!(shown(&parser()));
    }

    /// Of whom a file is, and no more of each than is known.
    #[test]
    fn files_that_were_merged() {
        let mut merger = Merger::default();
        let mut sampled = parser();
        sampled.processes.iter_mut().for_each(|process| process.pid = 0);
        merger.add("a.mallow", &parser());
        merger.add("host b/heap.pb.gz", &sampled);
        insta::assert_snapshot!(shown(&merger.finish().profile));
    }

    #[test]
    fn narrow_terminals_exact_numbers_and_whole_stacks() {
        let look = Look { width: Some(72), exact: true, ..Look::default() };
        insta::assert_snapshot!(text(&ReportDocument::without_hints(&parser(), |_| 1, 1), &look, true, false));
    }

    #[test]
    fn what_is_missing_is_told() {
        let mut b = Builder::default();
        let process = b.process(7, &["a"], 10);
        b.site(process, &[], blocks(1, 8, 0, 1));
        b.profile.command = vec!["a\x1b[2J".to_owned()];
        b.profile.duration_ms = 10;
        b.profile.ending.exit_status = Some(139);
        b.profile.ending.cut_short = Some("the disk is full".to_owned());
        b.profile.ending.lost = 12;
        b.profile.ending.damaged = 1;
        insta::assert_snapshot!(shown(&b.profile));
        let nothing = shown(&Builder::default().profile);
        assert!(nothing.contains("No allocation was seen"), "{nothing}");
    }

    #[test]
    fn a_profile_of_another_tool_shows_what_it_tells() {
        let mut profile = parser();
        let tells = Words::of(&[Word::Allocations, Word::AllocatedBytes, Word::LeakedBytes]);
        profile.origin = Some(Origin { format: "pprof", tells, sampled_bytes: Some(524_288) });
        insta::assert_snapshot!(shown(&profile));
    }

    #[test]
    fn modules_without_source_lines_are_told() {
        let recording = Recording::of(parser());
        let account = ReportDocument::of(&recording, |_| 5, 5);
        let hints: Vec<_> = account.missing_names.iter().map(MissingNames::line).collect();
        assert_eq!(hints.len(), 2, "{hints:?}");
        let told =
            "No names of /usr/lib/libplugin.so: not readable: No such file or directory (os error 2); record --embed";
        assert!(hints.iter().any(|hint| hint.starts_with(told)), "{hints:?}");
        let text = text(&account, &Look::default(), false, false);
        assert!(text.ends_with(&format!("\n\n{}\n{}\n", hints[0], hints[1])), "{text}");
    }

    #[test]
    fn a_screen_holds_the_whole_overview() {
        for height in 24..80 {
            let look = Look { height: Some(height), ..Look::default() };
            let limit = screen(&look, 0);
            let mut b = Builder::default();
            let process = b.process(7, &["a"], 10);
            for line in 1..20 {
                b.site(process, &[&format!("f@a.c:{line}")], blocks(4, 8, 1, 1));
            }
            let lines =
                text(&ReportDocument::without_hints(&b.profile, |_| limit, 5), &look, false, false).lines().count();
            assert!(lines <= height || limit == 2, "{lines} lines on {height}");
        }
    }
}
