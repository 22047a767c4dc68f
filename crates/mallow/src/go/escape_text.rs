//! `mallow go escape` for people.

use mallow_golang::escape::Site;
use mallow_golang::model::Kind;

use super::escape_document::EscapeDocument;
use super::names::shortened;
use crate::output::text::units::{bytes, count, of, percent, plural};
use crate::output::text::{Align, Line, Look, Page, Table, heading};

/// The document as text of at most `limit` places.
pub fn text(shown: &EscapeDocument, verbose: bool, limit: usize, look: &Look) -> String {
    let mut page = Page::new(*look);
    let sites = shown.reported_sites();
    let count_of = |sites: &[Site]| of(sites.len() as u64, "place");
    let packages = match shown.escapes.packages.as_slice() {
        [one] => one.clone(),
        several => of(several.len() as u64, "package"),
    };
    let listed = sites.len().min(limit);
    let title = match (&shown.base, &shown.comparison) {
        (Some(base), Some(comparison)) => format!(
            "New in the heap since {base}: {} of {packages}, {} no longer; {} as before",
            count_of(sites),
            count(comparison.gone.len() as u64),
            count(comparison.same),
        ),
        _ => format!("In the heap by {}: {} of {packages}", shown.escapes.go, count_of(sites)),
    };
    page.line(heading(&title, listed, sites.len() as u64));
    if let Some(ranked) = &shown.profile {
        let share = percent(ranked.found, ranked.allocations);
        let all = count(ranked.allocations);
        page.line(Line::new().faint(format!("{share} of the profile's {all} allocations were at lines of these")));
    }
    if verbose || shown.comparison.is_some() {
        for site in &sites[..listed] {
            page.gap();
            whole(site, look, &mut page);
        }
    } else {
        rows(&sites[..listed], shown.profile.is_some(), look, &mut page);
    }
    if let Some(comparison) = shown.comparison.as_ref().filter(|comparison| !comparison.gone.is_empty()) {
        page.gap();
        page.line(Line::new().strong("No longer in the heap"));
        rows(&comparison.gone, false, look, &mut page);
    }
    if shown.escapes.passed_over > 0 {
        page.gap();
        let lines = of(shown.escapes.passed_over, "line");
        let first = shown.escapes.examples.first().map(String::as_str).unwrap_or_default();
        page.line(Line::new().warning(format!("{lines} of the compiler not understood and passed over: {first}")));
    }
    page.into_text()
}

fn rows(sites: &[Site], profiled: bool, look: &Look, page: &mut Page) {
    let counts = [Align::Right, Align::Right];
    let columns = [Align::Left; 4];
    let all: Vec<Align> = if profiled { counts.into_iter().chain(columns).collect() } else { columns.to_vec() };
    let mut table = Table::new(&all);
    let titles = ["allocations", "bytes", "place", "function", "what", "why"];
    let skipped = if profiled { 0 } else { counts.len() };
    table.row(titles[skipped..].iter().map(|title| Line::new().faint(title)));
    for site in sites {
        let figures = profiled.then(|| figures(site, look)).into_iter().flatten();
        let inlined = site.inlined_place().map(|at| format!("; inlined from {at}")).unwrap_or_default();
        table.row(figures.chain([
            Line::new().plain(site.place()),
            Line::new().strong(shortened(function(site), look)),
            Line::new().plain(what(site, look)),
            Line::new().plain(shortened(&site.why, look)).faint(inlined),
        ]));
    }
    table.onto(page);
}

/// Allocations and bytes; the mark says that other places of the line have a part in them.
fn figures(site: &Site, look: &Look) -> [Line; 2] {
    let mark = if site.shared_with > 0 && site.allocations > Some(0) { "≤ " } else { "" };
    let shown = |number: String| Line::new().plain(format!("{mark}{number}"));
    match (site.allocations, site.allocated_bytes) {
        (Some(0), _) => [Line::new().faint("."), Line::new().faint(".")],
        (allocations, size) => {
            [shown(count(allocations.unwrap_or_default())), shown(bytes(size.unwrap_or_default(), look.exact))]
        }
    }
}

/// A place with all that is known of it.
fn whole(site: &Site, look: &Look, page: &mut Page) {
    let mut line = Line::new().plain(site.place()).plain("  ").strong(shortened(function(site), look));
    line = line.plain("  ").plain(what(site, look));
    if let Some(at) = site.inlined_place() {
        line = line.faint(format!("  inlined from {at}"));
    }
    if site.allocations > Some(0) {
        let [allocations, size] = figures(site, look);
        let noun = plural(site.allocations.unwrap_or_default(), "allocation");
        line = line.plain("  ").then(allocations).plain(format!(" {noun}, ")).then(size);
    }
    page.line(line);
    let label = |text: &str| Line::new().faint(format!("    {text:<12}"));
    page.hanging(label("why"), &shortened(&site.why, look));
    if let Some(flow) = site.flow_line() {
        page.hanging(label("path"), &shortened(&flow, look));
    }
    if let Some(suggestion) = &site.suggestion {
        page.hanging(label("suggestion"), suggestion);
    }
}

fn function(site: &Site) -> &str {
    site.function.as_deref().unwrap_or("?")
}

fn what(site: &Site, look: &Look) -> String {
    let what = shortened(&site.what, look);
    match site.kind {
        Kind::Boxed => format!("{what} in an interface"),
        Kind::Variable => format!("variable {what}"),
        Kind::MethodValue => format!("{what} as a value"),
        Kind::Variadic => "slice of the arguments ...".to_owned(),
        _ => what,
    }
}
