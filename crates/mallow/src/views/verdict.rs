//! The last line of a report: what matters most, in one sentence.

use mallow_profile::Quantity;
use mallow_report::analysis::{Frame, Measure};

use super::report_document::{ReportDocument, has};
use crate::output::text::units::{bytes, percent, share};
use crate::output::text::{Line, Look, Page, function, location};

/// Columns where nobody says how many there are.
const WIDTH: usize = 120;
/// From this share of the cost or of the peak on, a suggestion comes before what leaked.
const INSIGHT: f64 = 0.1;
/// Leaks of this share of the peak, in percent, come first; smaller ones where there is no such suggestion.
const LEAK_PERCENT: u64 = 25;
const SMALL_LEAK_PERCENT: u64 = 5;

/// Adds it to the page.
pub fn show(document: &ReportDocument, look: &Look, page: &mut Page) {
    let mut said = String::new();
    let lead = if is_whole(document) { "Verdict: " } else { "Verdict: of what was recorded, " };
    let room = look.width.unwrap_or(WIDTH).saturating_sub(lead.len());
    let mut all = parts(document, look, true);
    if all.first().is_some_and(|part| part.chars().count() > room) {
        // The name says more than its line, which is in the lists.
        all = parts(document, look, false);
    }
    for part in all {
        let more = if said.is_empty() { part } else { format!("{said}; {part}") };
        if said.is_empty() || more.chars().count() <= room {
            said = more;
        }
    }
    page.sentence(Line::new().strong(lead).plain(said));
}

fn is_whole(document: &ReportDocument) -> bool {
    let report = &document.overview;
    let ending = &report.ending;
    let all_seen = report.custom_allocators.is_empty() && report.unrecorded.is_empty();
    all_seen && ending.cut_short.is_none() && ending.lost == 0 && ending.damaged == 0
}

/// What there is to say, what matters most first.
fn parts(document: &ReportDocument, look: &Look, lines: bool) -> Vec<String> {
    let totals = &document.overview.totals;
    if totals.allocations == 0 && totals.allocated_bytes == 0 && totals.leaked_bytes == 0 && totals.peak_bytes == 0 {
        return vec!["nothing was allocated".to_owned()];
    }
    let (leaks, what) = document.worst_leaks();
    let all = leaks.leaked();
    let lost_or_unknown = what != "still reachable";
    let much = |percent| all.leaked_bytes.saturating_mul(100) >= totals.peak_bytes.saturating_mul(percent);
    let best = document.insights.insights.first().map_or(0.0, |insight| insight.share);
    let (leak, insight, peak) =
        (leak(document, look, lines), insight(document, look, lines), peak(document, look, lines));
    let first = if best >= INSIGHT { LEAK_PERCENT } else { SMALL_LEAK_PERCENT };
    let order = match (lost_or_unknown && all.leaked_bytes > 0 && much(first), best >= INSIGHT) {
        (true, _) => [leak, insight, peak],
        (false, true) => [insight, peak, leak],
        (false, false) => [peak, leak, insight],
    };
    order.into_iter().flatten().collect()
}

fn leak(document: &ReportDocument, look: &Look, lines: bool) -> Option<String> {
    let report = &document.overview;
    if !has(report, Quantity::LeakedBytes) {
        return None;
    }
    let (leaks, what) = document.worst_leaks();
    let all = leaks.leaked();
    let Some(cause) = leaks.leak_causes.first() else {
        let totals = &report.totals;
        // What runtimes keep, or exec gave back, has no cause.
        let is_empty = totals.leaked == 0 && totals.leaked_bytes == 0;
        return is_empty.then(|| "nothing was live at the end".to_owned());
    };
    let size = bytes(all.leaked_bytes, look.exact);
    let part = part(cause.leaked.leaked_bytes, all.leaked_bytes);
    Some(format!("{size} {what}, {part} from {}", place(cause.frame.as_ref(), look, lines)))
}

fn insight(document: &ReportDocument, look: &Look, lines: bool) -> Option<String> {
    let best = document.insights.insights.first()?;
    let cost = best.saves.allocations > 0 || best.saves.copied_bytes > 0 || best.saves.freed_by_others > 0;
    let what = match (cost, best.saves.peak_bytes > 0) {
        // The share is the larger one of the two.
        (true, true) => "the cost, or of the peak,",
        (false, true) => "the peak",
        (_, false) => "the cost",
    };
    Some(format!(
        "up to {} of {what} can be saved in {}",
        share(best.share).trim(),
        place(Some(&best.frame), look, lines)
    ))
}

fn peak(document: &ReportDocument, look: &Look, lines: bool) -> Option<String> {
    let report = &document.overview;
    let by = report.largest.iter().find(|list| list.by == Measure::Peak && list.total > 0)?;
    let first = by.largest.first()?;
    let part = part(first.totals.peak_bytes, by.total);
    Some(format!(
        "{} at the peak, {part} from {}",
        bytes(by.total, look.exact),
        place(first.frame.as_ref(), look, lines)
    ))
}

fn part(part: u64, whole: u64) -> String {
    if part == whole { "all".to_owned() } else { percent(part, whole) }
}

/// `open_session srv.c:13`; the line is short, and modules are in the lists.
fn place(frame: Option<&Frame>, look: &Look, lines: bool) -> String {
    let Some(frame) = frame else { return "an unknown place".to_owned() };
    let name = function(&frame.function, look);
    let at = location(&frame.function, frame.file.as_deref(), frame.line, None, look);
    if at.is_empty() || !lines { name } else { format!("{name} {at}") }
}
