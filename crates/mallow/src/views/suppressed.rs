//! Blocks that `mallow leaks` does not report: what suppressions take, and what runtimes keep.

use mallow_report::analysis::{Leaks, Live};

use super::leak_states::{amount, has, live};
use crate::output::text::units::{bytes, count};
use crate::output::text::{Align, Line, Look, Page, Table, heading};
use mallow_profile::Quantity;

/// A rule that takes blocks from the report, with their sum.
struct Taker {
    name: String,
    sum: Live,
}

/// Takers of any blocks: the built-in ones first.
fn takers(report: &Leaks) -> Vec<Taker> {
    let taker = |name: String, sum| Taker { name, sum };
    let pool =
        report.causes.emergency_pool.map(|sum| taker("libstdc++: the emergency pool of exceptions".to_owned(), sum));
    let kept = report.causes.kept.iter().map(|kept| taker(format!("{}: {}", kept.keeper, kept.what), kept.live));
    let of_file = report.suppressions.iter().filter(|used| used.sites > 0).map(|used| {
        let sum = Live { live: used.live, live_bytes: used.live_bytes };
        taker(format!("leak:{} (line {})", used.pattern, used.line), sum)
    });
    pool.into_iter().chain(kept).chain(of_file).collect()
}

/// The blocks that are suppressed, by suppression.
pub fn show(report: &Leaks, look: &Look, page: &mut Page) {
    if report.suppressed == 0 && report.suppressed_bytes == 0 {
        page.sentence(Line::new().strong("Nothing is suppressed."));
        return unused(report, page);
    }
    let size = amount(report, report.suppressed_bytes, report.suppressed, look);
    let shown = &report.causes.leak_causes;
    page.sentence(heading(&format!("{size} suppressed"), shown.len(), report.causes.leak_causes_in_all));
    page.gap();
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Left]);
    for Taker { name, sum } in takers(report) {
        let blocks = if has(report, Quantity::Live) { count(sum.live) } else { String::new() };
        let cells = [blocks, bytes(sum.live_bytes, look.exact)].map(|text| Line::new().plain(text));
        table.row(cells.into_iter().chain([Line::new().plain(name)]));
    }
    table.onto(page);
    unused(report, page);
}

/// Notes on blocks that the report leaves out.
pub fn notes(report: &Leaks, look: &Look, page: &mut Page) {
    let mut rest = Live { live: report.suppressed, live_bytes: report.suppressed_bytes };
    let mut take = |sum: Live| {
        rest.live = rest.live.saturating_sub(sum.live);
        rest.live_bytes = rest.live_bytes.saturating_sub(sum.live_bytes);
    };
    let mut note = |begin: &str, sum: Live, what: &str, page: &mut Page| {
        if sum.live_bytes > 0 || sum.live > 0 {
            page.gap();
            let size = amount(report, sum.live_bytes, sum.live, look);
            page.sentence(Line::new().faint(format!("{begin}: {size} that {what}")));
        }
        take(sum);
    };
    let pool = report.causes.emergency_pool.unwrap_or_default();
    note("No leak", pool, "libstdc++ keeps for exceptions when memory is scarce", page);
    for kept in report.causes.keepers() {
        let (begin, how) = match kept.judged {
            true => ("No leak", "by design"),
            false => ("Not judged", "with all that its script keeps or leaks there"),
        };
        let what = format!("{} keeps to its end {how}; --suppressed shows them", kept.keeper);
        note(begin, kept.live, &what, page);
    }
    if rest.live > 0 || rest.live_bytes > 0 {
        page.gap();
        let size = amount(report, rest.live_bytes, rest.live, look);
        let all = if has(report, Quantity::Live) { count(report.live) } else { bytes(report.live_bytes, look.exact) };
        let live = live(report.live_moment);
        page.sentence(Line::new().plain(format!("Suppressed: {size}, of {all} {live} in all")));
    }
    unused(report, page);
}

fn unused(report: &Leaks, page: &mut Page) {
    for unused in report.suppressions.iter().filter(|s| s.sites == 0) {
        page.sentence(
            Line::new().warning(format!("Unused suppression: leak:{} (line {})", unused.pattern, unused.line)),
        );
    }
}
