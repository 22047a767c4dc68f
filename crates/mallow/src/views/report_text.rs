//! The whole report as text, and its parts.

use mallow_profile::Quantity;
use mallow_report::analysis::sampled::Estimate;
use mallow_report::analysis::{
    HighestRss, Largest, LeakCauses, LeakStates, Live, LiveMoment, Measure, Overview, ProcessRow, Totals,
};

use super::circumstances::circumstances;
use super::peak_text::{before_the_end, below, reached, since};
use super::report_document::{ReportDocument, has, is_over, merged_files};
use super::total_row::TotalRow;
use super::{insights, programs, verdict};
use crate::input::coverage;
use crate::output::text::estimates::margin;
use crate::output::text::units::{bytes, count, percent, rate, span};
use crate::output::text::{Align, Line, Look, Page, Table, amount, described, framed, gaps, heading};

/// Limit of files without source lines that are named.
const HINTS: usize = 2;
/// Limit of programs that are listed.
const PROGRAMS: usize = 10;

/// The whole report. `sums`: rows of a list that are not shown are one row. `blocks`: histograms and threads, for the
/// place before the verdict.
pub fn text(account: &ReportDocument, look: &Look, stacks: bool, sums: bool, blocks: &str) -> String {
    let look = &Look { modules: account.overview.has_several_programs(), ..*look };
    let ReportDocument { overview: report, insights, missing_names, .. } = account;
    let mut page = Page::new(*look);
    title(account, Line::new(), &mut page);
    page.gap();
    totals(account, (true, 2), look).onto(&mut page);
    show_unscanned(account, &mut page);
    if report.has_several_programs() {
        page.gap();
        programs::show(report, PROGRAMS, look, &mut page);
    }
    if report.processes.len() > 1 && has(report, Quantity::Processes) {
        page.gap();
        processes(report, look, &mut page);
    }
    for list in &report.largest {
        if !list.largest.is_empty() || list.hidden.is_some() {
            page.gap();
            let of = (account.live_moment, report.emergency_pool.as_ref());
            places(list, of, look, (stacks, sums), &mut page);
        }
    }
    insights::show(insights, look, &mut page);
    page.gap();
    if let Some(line) = report.origin.as_ref().and_then(coverage::missing) {
        page.sentence(line);
    }
    for hint in missing_names.iter().take(HINTS) {
        page.hanging(Line::new(), &hint.line());
    }
    page.text(blocks);
    page.gap();
    verdict::show(account, look, &mut page);
    page.into_text()
}

/// Command and circumstances; `more` goes behind them.
pub fn title(document: &ReportDocument, more: Line, page: &mut Page) {
    let report = &document.overview;
    let command = report.command.join(" ");
    page.line(if command.is_empty() { Line::new().faint("(command unknown)") } else { Line::new().strong(command) });
    page.sentence(circumstances(document).then(more));
    for phrase in gaps::inside(&report.allocators_inside) {
        page.hanging(Line::new().faint("Counted: "), &phrase);
    }
}

/// Totals as a table: `shown` says whether frees are among them, and how many rows RSS has, two at the most.
pub fn totals(document: &ReportDocument, shown: (bool, usize), look: &Look) -> Table {
    // Numbers that are estimates have a column of their intervals behind each of the two.
    let sampled = document.overview.estimates.is_some();
    let mut table = Table::new(match sampled {
        true => &[Align::Left, Align::Right, Align::Left, Align::Right, Align::Left, Align::Left],
        false => &[Align::Left, Align::Right, Align::Right, Align::Left],
    });
    for row in total_rows(document, shown, look) {
        let margin = |text| sampled.then(|| Line::new().plain(text));
        let cells = [
            Some(Line::new().strong(row.name)),
            Some(Line::new().plain(row.number)),
            margin(row.number_margin),
            Some(Line::new().plain(row.size)),
            margin(row.size_margin),
            Some(Line::new().faint(row.remark)),
        ];
        table.row(cells.into_iter().flatten());
    }
    table
}

/// Totals as rows, with the flags of [`totals`].
pub fn total_rows(document: &ReportDocument, (frees, rss): (bool, usize), look: &Look) -> Vec<TotalRow> {
    let report = &document.overview;
    let t = &report.totals;
    let estimates = report.estimates.unwrap_or_default();
    let mut rows = Vec::new();
    let mut row = |name: &'static str, (number, size): (u64, u64), quantities: (Quantity, Quantity), remark: String| {
        let (numbers, sizes) = (has(report, quantities.0), has(report, quantities.1));
        let cell = |known: bool, text: String| if known { text } else { String::new() };
        let margins = match quantities.0 {
            Quantity::Allocations => [estimates.allocations, estimates.allocated_bytes],
            Quantity::Live => [estimates.live, estimates.live_bytes],
            _ => [None, None],
        };
        if numbers || sizes {
            let by = match quantities.0 {
                Quantity::Allocations => Some(Measure::Allocations),
                Quantity::Temporary => Some(Measure::Temporary),
                Quantity::Peak => Some(Measure::Peak),
                Quantity::Live => Some(Measure::Live),
                _ => None,
            };
            rows.push(TotalRow {
                name,
                by,
                number: cell(numbers, count(number)),
                number_margin: margins[0].map_or(String::new(), |estimate| margin(&estimate, look, count)),
                size: cell(sizes, bytes(size, look.exact)),
                size_margin: margins[1]
                    .map_or(String::new(), |estimate| margin(&estimate, look, |n| bytes(n, look.exact))),
                remark,
            });
        }
    };
    let called: Vec<_> = report.families.iter().map(|f| format!("{} {}", f.family, count(f.allocations))).collect();
    let called = Some(called.join(", ")).filter(|_| has(report, Quantity::Families));
    let speed = rate(t.allocations, report.window_ms).filter(|_| has(report, Quantity::Times));
    let how = [speed, called].into_iter().flatten().filter(|s| !s.is_empty()).collect::<Vec<_>>().join("; ");
    row("allocations", (t.allocations, t.allocated_bytes), (Quantity::Allocations, Quantity::AllocatedBytes), how);
    let reallocs = match t.reallocs_in_place + t.reallocs_moved {
        0 => String::new(),
        _ => format!("reallocs: {} in place, {} moved", count(t.reallocs_in_place), count(t.reallocs_moved)),
    };
    // Inherited by a fork, or older than the recording: of no known size and no site.
    let foreign = report.processes.iter().fold(0u64, |sum, process| sum.saturating_add(process.foreign_frees));
    let foreign = (foreign > 0).then(|| format!("{} more of blocks that were not recorded", count(foreign)));
    if frees {
        let remark = [foreign.unwrap_or_default(), reallocs].into_iter().filter(|part| !part.is_empty());
        let remark = remark.collect::<Vec<_>>().join("; ");
        row("frees", (t.frees, t.freed_bytes), (Quantity::Frees, Quantity::FreedBytes), remark);
    }
    let share = percent(t.temporary, t.allocations);
    let share = if share.is_empty() { share } else { format!("{share} of allocations") };
    row("temporary", (t.temporary, t.temporary_bytes), (Quantity::Temporary, Quantity::TemporaryBytes), share);
    let when = match percent(report.peak_ms.min(report.duration_ms), report.duration_ms) {
        share if share.is_empty() || !has(report, Quantity::Times) => String::new(),
        share => format!("at {}, {share} of the recording", span(report.peak_ms)),
    };
    // The sums beside it are of all files, and may be higher.
    let when = match merged_files(report) {
        0 | 1 => when,
        files => format!("in one of {files} files, the highest: peaks do not add up"),
    };
    row("live at peak", (t.peak, t.peak_bytes), (Quantity::Peak, Quantity::PeakBytes), document.part.peak_remark(when));
    let pool =
        report.emergency_pool.as_ref().filter(|pool| pool.live > 0).map_or(String::new(), |pool| {
            format!("{} of it libstdc++'s own, no leak", bytes(pool.live_bytes, look.exact))
        });
    let kept: Vec<String> = (document.leaks.keepers().into_iter())
        .map(|kept| {
            let how = if kept.judged { "no leak" } else { "not judged" };
            format!("{} of it kept by {}, {how}", bytes(kept.live.live_bytes, look.exact), kept.keeper)
        })
        .collect();
    // Without what a runtime loses by design: the remarks behind it name that as its own.
    let lost = document.lost.as_ref().map(LeakCauses::live).unwrap_or_default();
    let states = document.leak_states.as_ref().map_or(String::new(), |states| divided(states, &lost, look));
    let (name, of) = match document.live_moment {
        LiveMoment::End => ("live at end", ""),
        LiveMoment::Detached => ("live at end", "of the recording"),
        LiveMoment::Snapshot => ("live", "when the profile was taken"),
    };
    let parts =
        [of, &states, pool.as_str()].into_iter().chain(kept.iter().map(String::as_str)).filter(|part| !part.is_empty());
    let remark = parts.collect::<Vec<_>>().join("; ");
    let live = if t.live == 0 && t.live_bytes == 0 { String::new() } else { remark };
    row(name, (t.live, t.live_bytes), (Quantity::Live, Quantity::LiveBytes), live);
    if let Some(highest) = report.highest_rss.as_ref().filter(|_| rss > 0) {
        resident(highest, rss == 1, look, &mut rows);
    }
    rows
}

/// Parts of the blocks that were live at the end: `384 B of it lost, 12.8 kB not scanned, 1.02 kB given back by exec`.
fn divided(states: &LeakStates, lost: &Live, look: &Look) -> String {
    let unscanned = states.unscanned();
    let size = |sum: Live| bytes(sum.live_bytes, look.exact);
    let is_some = |sum: Live| sum.live > 0 || sum.live_bytes > 0;
    let lost = match (is_some(*lost), states.has_scan()) {
        (true, _) => Some(format!("{} of it lost", size(*lost))),
        (false, true) => Some("none lost".to_owned()),
        (false, false) => None,
    };
    let not_scanned = match (is_some(unscanned), &lost, is_some(states.at_exec())) {
        (false, ..) => None,
        // All of it.
        (true, None, false) => Some("not scanned for lost blocks".to_owned()),
        (true, ..) => Some(format!("{} not scanned for lost blocks", size(unscanned))),
    };
    let lost = lost.map(|lost| {
        if lost == "none lost" && not_scanned.is_some() { format!("{lost} of what was scanned") } else { lost }
    });
    let at_exec = is_some(states.at_exec()).then(|| match (&lost, &not_scanned) {
        (None, None) => "all given back by exec".to_owned(),
        _ => format!("{} given back by exec", size(states.at_exec())),
    });
    [lost, not_scanned, at_exec].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The highest RSS, and what of it was live heap, in a row of its own or as a remark.
fn resident(highest: &HighestRss, in_one_row: bool, look: &Look, rows: &mut Vec<TotalRow>) {
    let size = |size| bytes(size, look.exact);
    let peak = highest.peak.peak_rss;
    let whose = if highest.processes > 1 { format!(" of pid {}", highest.pid) } else { String::new() };
    // The kernel counts each page at any time, and mallow looks now and then.
    let below = below(highest.rss, &highest.peak, look.exact);
    let swapped = highest.swap.filter(|&swap| swap > 0);
    let swap = swapped.map(|swap| format!("; {} more in swap", size(swap))).unwrap_or_default();
    let mut row = |name, number, amount, remark| {
        rows.push(TotalRow { name, number, size: size(amount), remark, ..TotalRow::default() });
    };
    let (when, of) = match &below {
        None => (format!("{}{swap}", standing(highest, &whose)), "it"),
        Some(below) => {
            let before = if highest.peak.peak_is_older { reached(&highest.peak) } else { String::new() };
            let read = format!("{} at {}, {below}{swap}", size(highest.rss), span(highest.ms));
            (format!("the kernel's maximum{whose}{}{before}; {read}", known(highest, " ")), "that")
        }
    };
    let own = highest.mallow_bytes.filter(|&own| own > 0);
    let own = own.map(|own| format!("; {} of {of} Mallow's own", size(own))).unwrap_or_default();
    if in_one_row {
        row("highest RSS", String::new(), peak, format!("{when}; {}{own}", live_heap(highest, of, look)));
        return;
    }
    row("highest RSS", String::new(), peak, format!("{when}{own}"));
    let blocks = highest.live.map(count).unwrap_or_default();
    row("live then", blocks, highest.recorded_live_bytes, live_then(highest, look));
}

/// The kernel's maximum and its moment: that of the reading where the two are the same to the reader.
pub fn highest_at(highest: &HighestRss, look: &Look) -> String {
    let peak = bytes(highest.peak.peak_rss, look.exact);
    match below(highest.rss, &highest.peak, look.exact) {
        None => format!("{peak} {}", standing(highest, "")),
        Some(_) => peak + &known(highest, ", ") + &reached(&highest.peak),
    }
}

/// Up to when the kernel's figure is known, behind this; nothing: it is that of the process's whole life.
fn known(highest: &HighestRss, before: &str) -> String {
    before_the_end(&highest.peak).map(|when| format!("{before}{when}")).unwrap_or_default()
}

/// The time of the highest RSS of the process `whose`. Where it was reached long before it was read, both times: blocks
/// that were live may be gone.
fn standing(highest: &HighestRss, whose: &str) -> String {
    /// Longest difference of two times, in milliseconds, that are one moment.
    const MOMENT: u64 = 100;
    let read = format!("{}{whose}{}", span(highest.ms), known(highest, ", the highest "));
    match highest.peak.peak_by_ms.filter(|_| !highest.peak.peak_is_older) {
        Some(by) if by + MOMENT < highest.ms => format!("by {}, and still at {read}", span(by)),
        _ => format!("at {read}"),
    }
}

/// The part of RSS that was live heap, as a remark on RSS. Memory that was never touched is live, and in no RSS.
fn live_heap(highest: &HighestRss, of: &str, look: &Look) -> String {
    let live = bytes(highest.recorded_live_bytes, look.exact);
    let known = highest.older_blocks.map(since).map(|since| format!(" {since}")).unwrap_or_default();
    let unknown = if known.is_empty() { "" } else { ", older blocks are not known" };
    match highest.live_resident_bytes {
        Some(resident) => {
            let size = bytes(resident, look.exact);
            // Of what is not known in full, a share says nothing.
            let share = match highest.older_blocks {
                None => format!(", {}", percent(resident, highest.rss)),
                Some(_) => String::new(),
            };
            let absent = absent(highest, look).map(|absent| format!("; {absent} more of live heap not in memory"));
            format!("{size} of {of} live heap{known}{share}{unknown}{}", absent.unwrap_or_default())
        }
        None if highest.recorded_live_bytes > highest.rss => {
            format!("live heap{known} was {live}, not all of it in memory{unknown}")
        }
        None => format!("live heap{known} was {live}, how much of it in memory is not known{unknown}"),
    }
}

/// The part of live bytes that was in RSS, as a remark on a row of live bytes.
fn live_then(highest: &HighestRss, look: &Look) -> String {
    let known = highest.older_blocks.map(since).map(|since| format!("allocated {since}; ")).unwrap_or_default();
    let unknown = if known.is_empty() { "" } else { "; older blocks are not known" };
    let of_rss = match (highest.live_resident_bytes, absent(highest, look)) {
        (Some(resident), _) if highest.older_blocks.is_some() => {
            format!("{} of it in memory", bytes(resident, look.exact))
        }
        (Some(resident), None) => format!("{} of RSS then", percent(resident, highest.rss)),
        (Some(resident), Some(_)) => {
            let size = bytes(resident, look.exact);
            format!("{size} of it in memory, {} of RSS then", percent(resident, highest.rss))
        }
        (None, _) if highest.recorded_live_bytes > highest.rss => "not all of it in memory".to_owned(),
        (None, _) => "how much of it in memory is not known".to_owned(),
    };
    format!("{known}{of_rss}{unknown}")
}

/// Live bytes in no memory; None: there are none that a reader sees.
fn absent(highest: &HighestRss, look: &Look) -> Option<String> {
    let (live, resident) = (highest.recorded_live_bytes, highest.live_resident_bytes?);
    let is_seen = bytes(resident, look.exact) != bytes(live, look.exact);
    (is_seen && resident < live).then(|| bytes(live - resident, look.exact))
}

/// Why nothing is known of lost blocks, of a program that has ended: of the processes with the most live bytes.
pub fn unscanned(document: &ReportDocument) -> Option<String> {
    let states = document.leak_states.as_ref().filter(|states| !states.has_scan() && is_over(&document.overview));
    let most = states.and_then(|states| states.unscanned.iter().max_by_key(|unscanned| unscanned.live.live_bytes));
    let most = most.filter(|most| most.live.live > 0)?;
    Some(format!("{UNSCANNED}{}", most.reason))
}

const UNSCANNED: &str = "Not scanned for lost blocks: ";

/// Prints the sentence of [`unscanned`] below the totals.
pub fn show_unscanned(document: &ReportDocument, page: &mut Page) {
    if let Some(reason) = unscanned(document).as_deref().and_then(|sentence| sentence.strip_prefix(UNSCANNED)) {
        page.hanging(Line::new().plain(format!("  {UNSCANNED}")), reason);
    }
}

/// The processes with the most allocations.
pub fn processes(report: &Overview, look: &Look, page: &mut Page) {
    const SHOWN: usize = 6;
    let mut order: Vec<_> = report.processes.iter().collect();
    order.sort_by_key(|p| std::cmp::Reverse(p.totals.allocations));
    page.sentence(heading("Processes", order.len().min(SHOWN), order.len() as u64));
    // Of processes of other tools' files, or of merged ones, less is known.
    type Column = (&'static str, bool, fn(&ProcessRow, &Look) -> String);
    let columns: [Column; 5] =
        [
            ("pid", report.processes.iter().any(|p| p.pid > 0), |p, _| {
                if p.pid > 0 { p.pid.to_string() } else { String::new() }
            }),
            ("allocations", has(report, Quantity::Allocations), |p, _| count(p.totals.allocations)),
            ("own peak", programs::has_own_peaks(report), |p, look| bytes(p.own_peak_bytes.unwrap_or(0), look.exact)),
            ("live at end", has(report, Quantity::LiveBytes), |p, look| bytes(p.totals.live_bytes, look.exact)),
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

/// Moment of the last blocks, and sums of libstdc++'s own, which have no row.
pub type ListContext<'a> = (LiveMoment, Option<&'a Totals>);

/// A list of places. `sums`: what is not shown of it is one row.
pub fn places(
    list: &Largest,
    (moment, pool): ListContext<'_>,
    look: &Look,
    (stacks, sums): (bool, bool),
    page: &mut Page,
) {
    let title = match list.by {
        Measure::Allocations => "Most allocations",
        Measure::Bytes => "Most allocated bytes",
        Measure::Peak => "Most bytes live at the peak",
        Measure::Live if moment == LiveMoment::Snapshot => "Most bytes live",
        Measure::Live => "Most bytes live at the end",
        Measure::Temporary => "Most temporary allocations",
    };
    let own = pool.map_or(0, |pool| list.by.of(pool));
    let own = if own >= list.total.div_ceil(20).max(1) {
        format!("  without {} of libstdc++'s own", amount(list.by, own, look))
    } else {
        String::new()
    };
    page.sentence(heading(title, list.largest.len(), list.places).faint(own));
    let sampled = list.largest.iter().any(|place| place.estimate.is_some());
    let columns = if sampled { 4 } else { 3 };
    let mut align = vec![Align::Right; columns];
    align[columns - 1] = Align::Left;
    let mut table = Table::new(&align);
    let sum = |value: u64, estimate: Option<&Estimate>| {
        let number = |n| amount(list.by, n, look);
        let margin = sampled.then(|| estimate.map_or(String::new(), |estimate| margin(estimate, look, number)));
        let cells = [Some(percent(value, list.total)), Some(number(value)), margin];
        cells.into_iter().flatten().map(|text| Line::new().plain(text))
    };
    let below = |line: Line| vec![Line::new(); columns - 1].into_iter().chain([line]);
    for place in &list.largest {
        let value = list.by.of(&place.totals);
        let name =
            described(place.frame.as_ref(), place.sites, place.through.as_deref(), &place.largest_site.stack, look);
        table.row(sum(value, place.estimate.as_ref()).chain([name]));
        if stacks {
            for frame in &place.largest_site.stack.frames {
                table.row(below(Line::new().plain("  ").then(framed(frame, look))));
            }
            if place.largest_site.stack.cut {
                table.row(below(Line::new().faint("  … outer frames are missing")));
            }
        }
    }
    if let Some(hidden) = list.hidden.as_ref().filter(|_| sums) {
        let value = list.by.of(&hidden.sums);
        table.row(sum(value, None).chain([Line::new().faint(format!("… {} more", count(hidden.rows)))]));
    }
    table.onto(page);
}

#[cfg(test)]
mod tests {
    use mallow_profile::{Origin, Profile, Quantities, Quantity};
    use mallow_report::analysis::{HeapMoment, Merger};
    use mallow_report::testing::{Builder, blocks, parser};

    use super::text;
    use crate::flags::At;
    use crate::input::names::MissingNames;
    use crate::input::recording::Recording;
    use crate::output::text::Look;
    use crate::views::report_document::ReportDocument;

    fn shown(profile: &Profile) -> String {
        text(&ReportDocument::without_hints(profile, 5, 5), &Look::default(), false, false, "")
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
        insta::assert_snapshot!(text(&ReportDocument::without_hints(&parser(), 1, 1), &look, true, false, ""));
    }

    #[test]
    fn what_is_missing_is_reported() {
        let mut b = Builder::default();
        let process = b.process(7, &["a"], 10);
        b.site(process, &[], blocks(1, 8, 0, 1));
        b.profile.command = vec!["a\x1b[2J".to_owned()];
        b.profile.duration_ms = 10;
        b.profile.ending.exit_status = Some(139);
        b.profile.ending.cut_short = Some("the disk is full".to_owned());
        b.profile.ending.lost = 12;
        b.profile.ending.damaged = 1;
        let shown = |profile| {
            let recording = Recording::of(profile);
            recording.above(&shown(&recording.profile), &Look::default())
        };
        insta::assert_snapshot!("what_is_missing_is_reported", shown(b.profile));
        let nothing = shown(Builder::default().profile);
        assert!(nothing.starts_with("Incomplete: no allocation was seen; "), "{nothing}");
    }

    #[test]
    fn the_share_of_the_peaks_moment_is_one_that_flags_read() {
        let mut profile = parser();
        (profile.duration_ms, profile.run_ms, profile.peak_ms) = (980, Some(324..868), 853);
        assert!(shown(&profile).contains("at 853 ms, 87.0 % of the recording\n"), "{}", shown(&profile));
        let moment = "87.0%".parse::<At<HeapMoment>>().expect("a share").of(980).expect("a moment");
        assert_eq!(moment, HeapMoment::Ms(853));
    }

    #[test]
    fn a_profile_of_another_tool_shows_what_it_holds() {
        let mut profile = parser();
        let quantities = Quantities::of(&[Quantity::Allocations, Quantity::AllocatedBytes, Quantity::LiveBytes]);
        profile.origin = Some(Origin { format: "pprof", quantities, sampled_bytes: Some(524_288) });
        insta::assert_snapshot!(shown(&profile));
    }

    #[test]
    fn modules_without_source_lines_are_named() {
        let recording = Recording::of(parser());
        let account = ReportDocument::of(&recording, 5, 5);
        let hints: Vec<_> = account.missing_names.iter().map(MissingNames::line).collect();
        assert_eq!(hints.len(), 2, "{hints:?}");
        let expected =
            "No names of /usr/lib/libplugin.so: not readable: No such file or directory (os error 2); --binary FILE";
        assert!(hints.iter().any(|hint| hint.starts_with(expected)), "{hints:?}");
        let text = text(&account, &Look::default(), false, false, "");
        assert!(text.contains(&format!("\n\n{}\n{}\n\nVerdict: ", hints[0], hints[1])), "{text}");
    }
}
