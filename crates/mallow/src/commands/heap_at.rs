//! The heap at one moment, as text.

use mallow_report::analysis::HeapAt;

use super::report::{described, heading, lacks};
use crate::text::units::{bytes, count, of, percent, span};
use crate::text::{Align, Line, Look, Page, Table};

/// Places by what was live of them.
pub fn text(report: &HeapAt, look: &Look) -> String {
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
    table.onto(&mut page);
    let more = report.places_in_all - report.places.len() as u64;
    if more > 0 {
        page.line(Line::new().faint(format!("  and {} more; --limit 0 shows all", count(more))));
    }
    lacks(&report.ending, &mut page);
    page.into_text()
}
