//! Reports of a watch, as text.

use anyhow::Result;
use mallow_profile::program_name;
use mallow_report::analysis::sampled::{Estimate, Verdict};
use mallow_report::analysis::{
    MemoryPart, MemoryPartRow, Recent, Watched, WatchedMemory, WatchedPlace, WatchedProcess, Which,
};
use serde::Serialize;

use super::super::guard::errors::ErrorDocument;
use super::super::guard::text::one as one_error;
use super::headline::{attached, gaps, headline, part};
use crate::output::json;
use crate::output::text::estimates::{
    estimated_bytes, estimated_count, growth_in_full, not_enough, period, sampled_bytes,
};
use crate::output::text::gaps::show as show_gaps;
use crate::output::text::units::{bytes, of, range, share, span};
use crate::output::text::utc::moment;
use crate::output::text::{Line, Look, Page, described_by, stacked};
use crate::views::peak_text::since;

/// Blocks that were freed last.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RecentDocument<'a> {
    /// Occasion of the line: `recent`.
    pub occasion: &'static str,
    /// Frees and reallocs of sampled blocks, the latest first.
    pub recent: &'a [Recent],
}

/// A memory error of a program that is watched, in JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MemoryErrorDocument<'a> {
    /// Occasion of the line: `error`.
    pub occasion: &'static str,
    /// Memory error that was found in the watched program.
    pub error: &'a ErrorDocument,
}

/// A memory error, as text or as a line of JSON.
pub fn memory_error(error: &ErrorDocument, look: &Look, stacks: bool, as_json: bool) -> Result<String> {
    if as_json {
        return json::line(&MemoryErrorDocument { occasion: "error", error });
    }
    let mut page = Page::new(*look);
    one_error(error, look, stacks, &mut page);
    Ok(page.into_text())
}

/// A report. `before`: the place that the last headline named. `stacks`: those of all sites, whole. `more`: a higher
/// limit would show more places.
pub fn report(report: &Watched, before: Option<u64>, look: &Look, stacks: bool, more: bool) -> String {
    let mut page = Page::new(*look);
    page.line(title(report));
    show_gaps(gaps(report), &mut page);
    let running = report.processes.iter().any(|process| process.running);
    if (running || report.nothing_seen().is_some()) && report.which != Which::Peak {
        page.line(Line::new().plain("  ").strong(headline(report, before, look).text));
    }
    if let Some(unseen) = report.nothing_seen() {
        page.hanging(Line::new().plain("  "), &unseen.remedy);
    }
    if let Some(attached) = attached(report) {
        page.line(Line::new().plain("  ").plain(attached));
    }
    let labelled = |what: &str, text: String| Line::new().plain("  ").faint(format!("{what:<9}")).plain(text);
    page.line(labelled(
        "live",
        format!(
            "{}; {}",
            held(&report.live_bytes, &report.live, report.samples, look),
            period(report.period_bytes, look)
        ),
    ));
    if report.which == Which::Old || report.reported_samples < report.samples {
        let age = span(report.older_than_ms);
        let older = match report.which {
            Which::Old if grows(report) => format!("; growing, or allocated more than {age} ago"),
            Which::Old => format!("; allocated more than {age} ago"),
            _ => String::new(),
        };
        let of_them = format!("{}{older}", sampled_bytes(&report.reported_bytes, report.reported_samples, look));
        page.line(labelled("reported", of_them));
    }
    if let Some(memory) = &report.memory {
        for (name, text) in resident(memory, report, look) {
            page.line(labelled(name, text));
        }
    }
    let with = |verdict| report.places.places.iter().filter(move |place| place.growth.verdict == verdict);
    section("Growing significantly", with(Verdict::Growing), report, look, stacks, &mut page);
    section("Growing so far; too early to say whether it ends", with(Verdict::SoFar), report, look, stacks, &mut page);
    let title = match report.which {
        Which::Old => "Old, and still live",
        Which::Live => "Live",
        Which::Peak => "Live at the peak",
    };
    let rest = report.places.places.iter().filter(|place| place.growth.verdict < Verdict::SoFar);
    section(title, rest, report, look, stacks, &mut page);
    if report.places.places.is_empty() {
        page.line(Line::new().plain(match report.which {
            Which::Old => "  Nothing to report: no sample is that old, or all are known.",
            _ => "  Nothing to report: no sample is live, or all are known.",
        }));
    }
    if let Some(hidden) = &report.places.places_hidden {
        page.gap();
        let all = if more { "; --limit 0 shows all" } else { "" };
        let rest = format!("and {} more, with {}{all}", of(hidden.rows, "place"), of(hidden.sums.samples, "sample"));
        page.line(Line::new().faint(rest));
    }
    left_out(report, &mut page);
    page.gap();
    page.into_text()
}

/// `2026-11-21 17:48:03 UTC  redis-server --port 0, pid 4711, watched for 10 min 00 s`; of imported events
/// `redis-server, pid 4711, events of 10 min 00 s`.
fn title(report: &Watched) -> Line {
    let (when, watched) = match report.at_unix_ms {
        0 => (String::new(), "events of"),
        at => (moment(at) + "  ", "watched for"),
    };
    let line = Line::new().plain(when).strong(report.command.join(" "));
    let command = report.command.first().map_or("", |name| program_name(name, ""));
    let pids: Vec<String> = report.processes.iter().map(|process| named(process, command)).collect();
    const SOME: usize = 6;
    let more = if pids.len() > SOME { format!(" and {} more", pids.len() - SOME) } else { String::new() };
    let pids = pids.iter().take(SOME).map(String::as_str).collect::<Vec<_>>().join(", ");
    let who = match (pids.is_empty(), report.nothing_seen()) {
        (false, _) => format!(", pid {pids}{more}"),
        (true, None) => ", ended".to_owned(),
        // Whether it runs is not known here.
        (true, Some(_)) => String::new(),
    };
    line.plain(format!("{who}, {watched} {}", span(report.watched_ms)))
}

/// `4711`; of another program than the command: `4712 as (ended)`.
fn named(process: &WatchedProcess, command: &str) -> String {
    // Executed by another name, as gcc, which is x86_64-linux-gnu-gcc-12, it is still the command.
    let program = base(&process.executable);
    let name = if program.is_empty() || program.contains(command) { String::new() } else { format!(" {program}") };
    let ended = if process.running { "" } else { " (ended)" };
    let pid = if process.pid > 0 { process.pid.to_string() } else { "unknown".to_owned() };
    format!("{pid}{name}{ended}")
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether something in the report grows, which is reported however young it is, and comes first.
fn grows(report: &Watched) -> bool {
    let place = report.places.places.first().map(|place| place.growth.verdict);
    place.max(report.sites.first().map(|site| site.growth.verdict)) >= Some(Verdict::SoFar)
}

/// Bytes and blocks, as far as there are enough samples, and how many there are.
fn held(bytes: &Estimate, blocks: &Estimate, samples: u64, look: &Look) -> String {
    match blocks.enough() && bytes.enough() {
        true => {
            let number = estimated_count(blocks, look);
            let noun = if number == "1" { "block" } else { "blocks" };
            format!("{}, {number} {noun}, in {}", estimated_bytes(bytes, look), of(samples, "sample"))
        }
        false => sampled_bytes(bytes, samples, look),
    }
}

fn section<'a>(
    title: &str,
    places: impl Iterator<Item = &'a WatchedPlace>,
    report: &Watched,
    look: &Look,
    stacks: bool,
    page: &mut Page,
) {
    let mut places = places.peekable();
    if places.peek().is_none() {
        return;
    }
    page.gap();
    page.line(Line::new().strong(title));
    for place in places {
        show(place, look, page);
        if stacks {
            show_sites(place, report, look, page);
        }
    }
}

fn show(place: &WatchedPlace, look: &Look, page: &mut Page) {
    // Of a handful of samples one thing is known: that they are there.
    let size = match place.live_bytes.interval() {
        None => not_enough(place.samples),
        Some(_) => held(&place.live_bytes, &place.live, place.samples, look),
    };
    let mut facts = Vec::new();
    if place.growth.verdict != Verdict::Unknown {
        facts.push(growth_in_full(&place.growth, look));
    }
    facts.push(format!("{} old", range(span(place.youngest_ms), &span(place.oldest_ms))));
    if place.byte_seconds.interval().is_some() {
        facts.push(format!("{} byte·seconds", estimated_count(&place.byte_seconds, look)));
    }
    if let Some(part) = place.freed_by_others.filter(|part| *part > 0.0) {
        facts.push(format!("{} of it freed by another thread", share(part)));
    }
    page.line(Line::new().plain("  ").strong(size).plain(format!("; {}", facts.join("; "))));
    let through = place.through.as_deref();
    let named =
        described_by(place.frame.as_ref(), place.sites, (place.by.as_deref(), through), &place.largest_site, look);
    page.line(Line::new().plain("    ").then(named));
}

/// From this part of RSS on, as a divisor, memory that is no live block is worth a recording.
const GAP_SHARE: u64 = 4;

/// RSS by its parts. Which pages belong to which site is not known: samples lie in pages of their own, or among all
/// other blocks.
fn resident(memory: &WatchedMemory, report: &Watched, look: &Look) -> Vec<(&'static str, String)> {
    let size = |size| bytes(size, look.exact);
    let swap = if memory.swap > 0 { format!(", and {} in swap", size(memory.swap)) } else { String::new() };
    let whose = match report.processes.iter().filter(|process| process.running).count() {
        0 | 1 => String::new(),
        processes => format!(", of {} with shared pages in each", of(processes as u64, "process")),
    };
    let gap = format!("{}{swap}{whose}; {}", size(memory.rss), heap_of(memory, report, look));
    let parts = memory.parts.iter().filter(|row| row.bytes > 0);
    let parts: Vec<String> = parts.map(|row| format!("{} {}", amount_of(row, look), part(row.part))).collect();
    let mut lines = vec![("RSS", gap), ("", parts.join(", "))];
    if let Some(row) = memory.parts.iter().find(|row| Some(row.part) == memory.grows) {
        let grown = size(u64::try_from(row.grown_bytes).unwrap_or_default());
        let by = if row.low == row.high { "" } else { ", by estimates" };
        lines.push(("", format!("{} grew most: {grown} since the first reading{by}", part(row.part))));
    }
    let free = memory.parts.iter().find(|row| row.part == MemoryPart::OtherAnonymous).map_or(0, |row| row.bytes);
    // Objects of an allocator that is not sampled lie there, and nothing need be free.
    if !report.custom_allocators.is_empty() {
        lines
            .push(("", format!("what is not seen (Incomplete, above) counts as {}", part(MemoryPart::OtherAnonymous))));
    } else if free > memory.rss / GAP_SHARE {
        lines.push(("", "sampling cannot say which sites pin free memory: a recording can".to_owned()));
    }
    lines
}

/// The part of RSS that is live heap, or is not; where older blocks are not known, only how much of the heap is known.
pub fn heap_of(memory: &WatchedMemory, report: &Watched, look: &Look) -> String {
    let size = |size| bytes(size, look.exact);
    match (memory.gap, memory.older_blocks) {
        (Some(gap), _) if memory.gap_is_least => {
            format!("at least {} of it is not live heap: more is live than in memory, untouched or in swap", size(gap))
        }
        (Some(gap), _) => {
            // What is not seen may be live.
            let seen = if report.custom_allocators.is_empty() { "" } else { " that is seen" };
            // Live blocks may have pages that were never touched.
            match memory.gap_low {
                Some(_) => {
                    let gap = within(gap, memory.gap_low, memory.gap_high, look);
                    format!("at least {gap} of it is not live heap{seen}")
                }
                None => format!("{} to say how much of it is live heap", too_few(report.samples)),
            }
        }
        (None, older) => {
            let since = older.map(since).unwrap_or_default();
            let live = size(report.live_bytes.value.max(0.0) as u64);
            format!("{live} of it live heap {since}, {}", UNKNOWN)
        }
    }
}

/// A number of samples without an interval: no bound is known.
fn too_few(samples: u64) -> String {
    match samples {
        0 => "there is no sample".to_owned(),
        _ => format!("{} {} too few", of(samples, "sample"), if samples == 1 { "is" } else { "are" }),
    }
}

/// Note on blocks that were allocated before mallow attached, or while nothing was sampled.
const UNKNOWN: &str = "older blocks are not known";

/// Memory in one line: RSS, the gap, and the part that grows.
pub fn resident_in_brief(memory: &WatchedMemory, report: &Watched, look: &Look) -> String {
    let size = |size| bytes(size, look.exact);
    let gap = match memory.gap {
        Some(_) if !memory.gap_is_least && memory.gap_low.is_none() => {
            format!("{}, {}", size(memory.rss), too_few(report.samples))
        }
        Some(gap) => {
            let gap = match memory.gap_is_least {
                true => size(gap),
                false => within(gap, memory.gap_low, memory.gap_high, look),
            };
            let seen = if report.custom_allocators.is_empty() { "" } else { ", of what is seen" };
            // In 80 columns, with what grew.
            format!("{}, ≥ {gap} not live{seen}", size(memory.rss))
        }
        None => format!("{}, {UNKNOWN}", size(memory.rss)),
    };
    match memory.parts.iter().find(|row| Some(row.part) == memory.grows) {
        Some(row) => {
            let grown = size(u64::try_from(row.grown_bytes).unwrap_or_default());
            format!("{gap}; {} +{grown}", part(row.part))
        }
        None => gap,
    }
}

/// The bytes of a part, as a bound or an estimate where they are one.
pub fn amount_of(row: &MemoryPartRow, look: &Look) -> String {
    // Too few samples are no bound.
    let bound = if row.low.is_some() { bound(row.part) } else { "" };
    format!("{bound}{}", within(row.bytes, row.low, row.high, look))
}

/// Bytes with the interval that they lie in, where they are an estimate.
fn within(size: u64, low: Option<u64>, high: Option<u64>, look: &Look) -> String {
    match low.zip(high) {
        Some((low, high)) => {
            let limits = (Some(low as f64), Some(high as f64));
            let estimate = Estimate { value: size as f64, low: limits.0, high: limits.1, ..Estimate::default() };
            estimated_bytes(&estimate, look)
        }
        None => format!("roughly {}", bytes(size, look.exact)),
    }
}

/// Live blocks count as if they were in memory, to their last page.
fn bound(part: MemoryPart) -> &'static str {
    match part {
        MemoryPart::LiveHeap => "up to ",
        MemoryPart::OtherAnonymous => "at least ",
        _ => "",
    }
}

/// The stacks of a place's sites; that of the largest one where the report has none of them.
fn show_sites(place: &WatchedPlace, report: &Watched, look: &Look, page: &mut Page) {
    let mut none = true;
    for site in report.sites.iter().filter(|site| site.place == place.id) {
        none = false;
        page.line(Line::new().plain(format!("    {} on this call path", of(site.samples, "sample"))));
        stacked(&site.stack, look, true, page);
    }
    if none {
        stacked(&place.largest_site, look, true, page);
    }
}

fn left_out(report: &Watched, page: &mut Page) {
    let parts: Vec<String> = [
        (report.muted_samples, "muted"),
        (report.suppressed_samples, "suppressed"),
        (report.known_samples, "of sites that the baseline has"),
    ]
    .into_iter()
    .filter(|(samples, _)| *samples > 0)
    .map(|(samples, how)| format!("{} {how}", of(samples, "sample")))
    .collect();
    if !parts.is_empty() {
        page.gap();
        page.line(Line::new().plain(format!("Left out: {}", parts.join(", "))));
    }
    for unused in &report.unused_suppressions {
        page.line(Line::new().warning(format!("Unused suppression: leak:{unused}")));
    }
}

/// The latest frees and reallocs of sampled blocks, the last one first.
pub fn recent(all: &[Recent], look: &Look, stacks: bool) -> String {
    let mut page = Page::new(*look);
    if all.is_empty() {
        page.line(Line::new().strong("No sampled block has been freed while it was watched."));
    } else {
        page.line(
            Line::new()
                .strong(format!("The latest {} of sampled blocks, the last one first", of(all.len() as u64, "free"))),
        );
    }
    for free in all {
        page.gap();
        let head = format!("{} of {} at {}", free.how, bytes(free.size, look.exact), free.address);
        let tail = format!(
            ", pid {}, {} ago by thread {}, {} after thread {} had allocated it",
            free.pid,
            span(free.ago_ms),
            free.freed_by,
            span(free.lived_ms),
            free.allocated_by
        );
        page.line(Line::new().strong(head).plain(tail));
        stacked(&free.freed, look, stacks, &mut page);
        page.line(Line::new().plain("  allocated by"));
        stacked(&free.allocated, look, stacks, &mut page);
    }
    page.gap();
    page.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::screen::tests::report;

    /// One sample of half a megabyte is no bound of what is live.
    #[test]
    fn too_few_samples_bound_nothing() {
        let look = Look::default();
        let mut report = report();
        report.custom_allocators.clear();
        let known = report.memory.take().expect("its memory");
        assert!(resident_in_brief(&known, &report, &look).contains(", ≥ 300 MB not live"));
        assert!(amount_of(&known.parts[0], &look).starts_with("up to "));
        let row = |row: &MemoryPartRow| MemoryPartRow { low: None, high: None, ..*row };
        let parts = known.parts.iter().map(row).collect();
        let unknown = WatchedMemory { gap_low: None, gap_high: None, parts, grows: None, ..known };
        for (samples, said) in [(0, "there is no sample"), (1, "1 sample is too few"), (3, "3 samples are too few")] {
            report.samples = samples;
            let all = heap_of(&unknown, &report, &look);
            assert_eq!(all, format!("{said} to say how much of it is live heap"));
            assert_eq!(resident_in_brief(&unknown, &report, &look), format!("1.60 GB, {said}"));
        }
        assert_eq!(amount_of(&unknown.parts[1], &look), "roughly 300 MB");
    }

    #[test]
    fn a_process_of_another_program_is_named() {
        let shown = |executable: &str, running: bool| {
            named(&WatchedProcess { pid: 7, executable: executable.to_owned(), running }, "gcc")
        };
        assert_eq!(shown("/usr/bin/x86_64-linux-gnu-gcc-12", true), "7");
        assert_eq!(shown("/usr/bin/x86_64-linux-gnu-as", false), "7 x86_64-linux-gnu-as (ended)");
    }
}
