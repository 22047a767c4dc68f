//! The heap at one moment, as text.

use mallow_report::analysis::HeapAt;

use crate::output::text::units::{bytes, count, of, percent, span};
use crate::output::text::{Align, Line, Look, Page, Table, described, heading};

/// Places by what was live of them.
/// `more`: a higher limit would show more places.
pub fn text(report: &HeapAt, look: &Look, more: bool) -> String {
    let mut page = Page::new(*look);
    let size = format!("{} in {}", bytes(report.live_bytes, look.exact), of(report.live, "block"));
    let title = format!("Live at {}: {size}", span(report.ms));
    page.line(heading(&title, report.places.len(), report.places_in_all));
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Left]);
    if !report.places.is_empty() {
        table.row(["", "bytes", "blocks", "place"].map(|t| Line::new().faint(t)));
    }
    for place in &report.places {
        table.row([
            Line::new().plain(percent(place.live_bytes, report.live_bytes)),
            Line::new().plain(bytes(place.live_bytes, look.exact)),
            Line::new().plain(count(place.live)),
            described(place.frame.as_ref(), place.sites, place.through.as_deref(), &place.largest_site.stack, look),
        ]);
    }
    if let Some(hidden) = &report.hidden {
        table.row([
            Line::new().plain(percent(hidden.sums.live_bytes, report.live_bytes)),
            Line::new().plain(bytes(hidden.sums.live_bytes, look.exact)),
            Line::new().plain(count(hidden.sums.live)),
            Line::new().faint(format!("… {} more", count(hidden.rows))),
        ]);
    }
    table.onto(&mut page);
    if report.hidden.is_some() && more {
        page.line(Line::new().faint("  --limit 0 shows all"));
    }
    page.into_text()
}
