//! The report that fits the terminal: totals, the peak, leaks by cause and the best suggestion, and a verdict as the
//! last line. `report --all` has the rest.

use mallow_profile::Quantity;
use mallow_report::analysis::{Frame, Largest, LeakCause, Measure};

use super::report_document::{ReportDocument, has};
use super::report_text::{places, processes, show_unscanned, title, totals};
use super::{insights, programs, verdict};
use crate::input::coverage;
use crate::input::names::MissingNames;
use crate::output::text::units::{bytes, capitalized, count, of, percent};
use crate::output::text::{Align, Line, Look, Page, Table, described_by, heading};

/// Places of each list, at the most.
pub const PLACES: usize = 10;
/// Limit of insights in the summary.
pub const INSIGHTS: usize = 5;
/// Rows where there is no terminal that has any: who reads a file or a pipe gets what a usual terminal shows.
const ROWS: usize = 24;
/// The shell's prompt, and what mallow says about files.
const OTHER_ROWS: usize = 2;

/// Number of rows, or presence, of each part.
#[derive(Clone, Copy, Default)]
struct Parts {
    peak: usize,
    leaks: usize,
    insights: usize,
    allocations: usize,
    bytes: usize,
    temporary: usize,
    hints: usize,
    frees: bool,
    rss: usize,
    programs: bool,
    processes: bool,
}

/// Steps by which parts grow while there is room, the most important first.
const STEPS: &[fn(&mut Parts)] = &[
    |parts| parts.peak = 1,
    |parts| parts.leaks = 1,
    |parts| parts.programs = true,
    |parts| parts.insights = 1,
    |parts| parts.rss = 1,
    |parts| parts.peak = 3,
    |parts| parts.leaks = 3,
    |parts| parts.allocations = 3,
    |parts| parts.frees = true,
    |parts| parts.hints = parts.hints.max(1),
    |parts| parts.temporary = 3,
    |parts| parts.bytes = 3,
    |parts| parts.rss = 2,
    |parts| parts.insights = 2,
    |parts| parts.processes = true,
    |parts| parts.hints = 2,
    |parts| parts.insights = 3,
    |parts| (parts.peak, parts.leaks, parts.allocations) = (5, 5, 5),
    |parts| (parts.temporary, parts.bytes) = (5, 5),
    |parts| parts.insights = INSIGHTS,
    |parts| (parts.peak, parts.leaks, parts.allocations) = (PLACES, PLACES, PLACES),
    |parts| (parts.temporary, parts.bytes) = (PLACES, PLACES),
];

/// The report, as much as fits below what is on the screen already.
pub fn text(document: &ReportDocument, look: &Look) -> String {
    let look = &Look { modules: document.overview.has_several_programs(), ..*look };
    let rows = look.height.unwrap_or(ROWS).saturating_sub(OTHER_ROWS);
    // The answer is an address, and one command may make it a name.
    let command = |missing: &&MissingNames| missing.fetch.is_some() || missing.is_of_addresses(leading(document));
    let hinted = hints(document).next().filter(command).is_some();
    let mut parts = Parts { hints: usize::from(hinted), ..Parts::default() };
    let mut best = of_parts(document, look, &parts);
    for step in STEPS {
        let mut more = parts;
        step(&mut more);
        let text = of_parts(document, look, &more);
        if text.lines().count() <= rows {
            (parts, best) = (more, text);
        }
    }
    best
}

/// The first row of each list that the page begins with: what it is named by, and the functions without names that it
/// looks past.
fn leading(document: &ReportDocument) -> impl Iterator<Item = &Frame> {
    let lists = &document.overview.largest;
    let first = [Measure::Peak, Measure::Allocations].iter().find_map(|by| {
        let list = lists.iter().find(|list| list.by == *by && !list.largest.is_empty())?;
        let place = list.largest.first()?;
        Some(place.frame.iter().chain(place.largest_site.stack.looked_past_without_names()))
    });
    let leak = document.worst_leaks().0.leak_causes.first();
    let leak =
        leak.into_iter().flat_map(|cause| cause.frame.iter().chain(cause.largest_site.looked_past_without_names()));
    first.into_iter().flatten().chain(leak)
}

/// Remedies for missing names, those of the leading rows first.
fn hints(document: &ReportDocument) -> impl Iterator<Item = &MissingNames> {
    let leads = |missing: &&MissingNames| missing.is_of_addresses(leading(document));
    let (first, others): (Vec<_>, Vec<_>) = document.missing_names.iter().partition(leads);
    first.into_iter().chain(others)
}

fn of_parts(document: &ReportDocument, look: &Look, parts: &Parts) -> String {
    let ReportDocument { overview: report, insights: all, .. } = document;
    let (leaks, _) = document.worst_leaks();
    let mut page = Page::new(*look);
    title(document, Line::new().faint("; --all shows more"), &mut page);
    totals(document, (parts.frees, parts.rss), look).onto(&mut page);
    show_unscanned(document, &mut page);
    if parts.programs && report.has_several_programs() {
        programs::line(report, look, &mut page);
    }
    if parts.processes && report.processes.len() > 1 && has(report, Quantity::Processes) {
        page.gap();
        processes(report, look, &mut page);
    }
    list(document, Measure::Peak, parts.peak, look, &mut page);
    if parts.leaks > 0 && leaks.leak_causes_in_all > 0 {
        page.gap();
        live(document, parts.leaks, look, &mut page);
    }
    let (listed, of) = insights::shown(all);
    let listed = listed.min(parts.insights);
    if listed > 0 {
        page.gap();
        let line = heading(if listed == 1 { "Best insight" } else { "Insights" }, listed, of);
        page.line(line.faint(format!("  what it may save, estimated{}", insights::condition(all))));
        insights::entries(all, listed, look, &mut page);
    }
    list(document, Measure::Allocations, parts.allocations, look, &mut page);
    list(document, Measure::Temporary, parts.temporary, look, &mut page);
    list(document, Measure::Bytes, parts.bytes, look, &mut page);
    page.gap();
    if let Some(line) = report.origin.as_ref().and_then(coverage::missing) {
        page.line(line);
    }
    for hint in hints(document).take(parts.hints) {
        page.hanging(Line::new(), &hint.line());
    }
    verdict::show_line(document, look, &mut page);
    page.into_text()
}

fn list(document: &ReportDocument, by: Measure, shown: usize, look: &Look, page: &mut Page) {
    let all = document.overview.largest.iter().find(|list| list.by == by && !list.largest.is_empty());
    let Some(all) = all.filter(|_| shown > 0) else { return };
    page.gap();
    let largest = all.largest.iter().take(shown).cloned().collect();
    let of = (document.live_moment, document.overview.emergency_pool.as_ref());
    places(&Largest { largest, ..all.clone() }, of, look, (false, false), page);
}

fn live(document: &ReportDocument, shown: usize, look: &Look, page: &mut Page) {
    let report = &document.overview;
    let (leaks, what) = document.worst_leaks();
    let all = leaks.live();
    let size = bytes(all.live_bytes, look.exact);
    let blocks = if has(report, Quantity::Live) { format!(" in {}", of(all.live, "block")) } else { String::new() };
    let shown = &leaks.leak_causes[..shown.min(leaks.leak_causes.len())];
    page.line(heading(
        &format!("{}, by cause: {size}{blocks}", capitalized(what)),
        shown.len(),
        leaks.leak_causes_in_all,
    ));
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Left]);
    for cause in shown {
        let LeakCause { frame, by, through, live, heads, sites, largest_site, .. } = cause;
        let called = (by.as_deref(), through.as_deref());
        let leaks = if *heads > 0 { *heads } else { live.live };
        // Bytes are those of all of them.
        let held = match live.live.saturating_sub(leaks) {
            0 => String::new(),
            held => format!(", {} held", count(held)),
        };
        let times = if has(report, Quantity::Live) { times(leaks) + &held } else { String::new() };
        table.row([
            Line::new().plain(percent(live.live_bytes, all.live_bytes)),
            Line::new().plain(bytes(live.live_bytes, look.exact)),
            Line::new().plain(times),
            described_by(frame.as_ref(), *sites, called, largest_site, look),
        ]);
    }
    table.onto(page);
}

/// `once`, or as `2,858 times`.
fn times(blocks: u64) -> String {
    if blocks == 1 { "once".to_owned() } else { format!("{} times", count(blocks)) }
}

#[cfg(test)]
mod tests {
    use mallow_report::testing::{Builder, blocks, habits, parser};

    use super::{INSIGHTS, MissingNames, PLACES, text};
    use crate::output::text::Look;
    use crate::views::report_document::ReportDocument;

    #[test]
    fn a_usual_terminal_has_the_answer() {
        let look = Look { width: Some(80), height: Some(24), ..Look::default() };
        for (name, profile) in [("parser", parser()), ("habits", habits())] {
            let document = ReportDocument::without_hints(&profile, PLACES, INSIGHTS);
            insta::assert_snapshot!(name, text(&document, &look));
        }
    }

    #[test]
    fn it_fits_every_terminal_and_ends_with_the_verdict() {
        let mut b = Builder::default();
        let process = b.process(7, &["a"], 10);
        for line in 1..40 {
            b.site(process, &[&format!("f@a.c:{line}")], blocks(4, 8, 1, 1));
        }
        for profile in [b.profile, parser(), habits()] {
            let document = ReportDocument::without_hints(&profile, PLACES, INSIGHTS);
            for height in 18..100 {
                for width in [60, 80, 200] {
                    let look = Look { width: Some(width), height: Some(height), ..Look::default() };
                    let text = text(&document, &look);
                    assert!(text.lines().count() <= height - 2, "{width}x{height}:\n{text}");
                    assert!(text.lines().all(|line| line.chars().count() <= width), "{width}x{height}:\n{text}");
                    // A verdict that is wider than the terminal goes on below.
                    let (_, verdict) = text.rsplit_once("\nVerdict: ").expect("a verdict");
                    assert!(!verdict.trim_end().contains("\n\n"), "{text}");
                    assert!(width < 80 || verdict.lines().count() == 1, "{text}");
                }
            }
            let piped = text(&document, &Look::default());
            assert!(piped.lines().count() <= 22, "{piped}");
        }
    }

    #[test]
    fn what_brings_names_is_on_the_screen_if_the_answer_is_an_address() {
        let shown = |functions: &[&str]| {
            let mut b = Builder::default();
            let process = b.process(7, &["git"], 10);
            for site in 1..40 {
                let functions: Vec<String> = functions.iter().map(|f| f.replace('*', &site.to_string())).collect();
                let functions: Vec<&str> = functions.iter().map(String::as_str).collect();
                b.site(process, &[&functions[..], &["main"]].concat(), blocks(4, 8, 1, 1));
            }
            let mut document = ReportDocument::without_hints(&b.profile, PLACES, INSIGHTS);
            document.missing_names = vec![MissingNames {
                module: "/usr/lib/git".to_owned(),
                without_functions: true,
                some_functions: true,
                without_inlined: false,
                without_split: false,
                found: "dynamic symbols alone".to_owned(),
                remedy: Some("apt install git-dbgsym".to_owned()),
                fetch: None,
            }];
            text(&document, &Look { width: Some(80), height: Some(17), ..Look::default() })
        };
        let (address, name) = (shown(&["+0x*00!git"]), shown(&["f*!git"]));
        assert!(address.contains("apt install git-dbgsym") && address.contains("Most bytes live"), "{address}");
        assert!(address.lines().count() <= 15, "{address}");
        assert!(!name.contains("git-dbgsym"), "{name}");
        // Nor is the answer the name of what called the functions that allocate.
        let past = shown(&["+0x*00!git", "f*!git"]);
        assert!(past.contains("via 1 function without a name") && past.contains("git-dbgsym"), "{past}");
    }
}
