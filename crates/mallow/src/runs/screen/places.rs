//! The table of places, and one place with its call paths.

use mallow_report::analysis::sampled::Verdict;
use mallow_report::analysis::{Stack, Watched, WatchedPlace, WatchedSite, Which};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use unicode_width::UnicodeWidthStr;

use super::fit::{faint, fit, strong, warning};
use super::state::State;
use crate::output::text::estimates::{COLUMN, column_bytes, estimated_bytes, estimated_count, growth_in_full, verdict};
use crate::output::text::units::{count, of, range, share};
use crate::output::text::{Look, clean, elided, function, function_of, location, passed};
use crate::runs::watch::headline::seconds;

/// Columns between two columns of the table.
const GAP: usize = 2;
/// Width from which a line has room for the function through which a place allocates.
const WIDE: usize = 100;

struct Column {
    title: &'static str,
    width: usize,
    /// Shown where the screen is at least so wide.
    from: usize,
    cell: fn(&WatchedPlace, &Look) -> String,
}

/// Columns of the table. Each width holds the longest text that a cell can have.
const COLUMNS: [Column; 6] = [
    Column { title: "live bytes", width: COLUMN, from: 72, cell: |place, look| column_bytes(&place.live_bytes, look) },
    Column { title: "growth", width: 9, from: 0, cell: |place, _| verdict(place.growth.verdict).to_owned() },
    Column { title: "per hour", width: COLUMN + 1, from: 48, cell: per_hour },
    Column { title: "oldest", width: 12, from: 100, cell: |place, _| seconds(place.oldest_ms) },
    Column { title: "samples", width: 9, from: 120, cell: |place, _| count(place.samples) },
    Column { title: "call paths", width: 10, from: 160, cell: |place, _| count(place.sites) },
];

fn per_hour(place: &WatchedPlace, look: &Look) -> String {
    match place.growth.verdict {
        Verdict::Growing | Verdict::SoFar => format!("+{}", column_bytes(&place.growth.bytes_per_hour, look)),
        _ => String::new(),
    }
}

pub fn table(frame: &mut Frame, area: Rect, state: &mut State, report: &Watched, look: &Look) {
    let room = usize::from(area.height.saturating_sub(1)).max(1);
    let width = usize::from(area.width);
    state.page = room;
    let chosen = state.choice().map_or(0, |(at, _)| at);
    let rows = state.rows();
    let top = state.top.min(rows.len().saturating_sub(room)).min(chosen).max((chosen + 1).saturating_sub(room));
    if rows.is_empty() {
        let none = match (state.search.is_empty(), report.which) {
            (false, _) => "no place has that in its names; Esc shows all",
            (true, Which::Old) => "nothing that old is live; o shows all",
            (true, _) if report.period_bytes.is_none() => "no sample is live; d starts sampling",
            (true, _) => "no sample is live yet",
        };
        frame.render_widget(Paragraph::new(fit(vec![Span::raw(none)], width)), area);
    } else {
        let columns: Vec<&Column> = COLUMNS.iter().filter(|column| width >= column.from).collect();
        let cell = |column: &Column, text: String| {
            // Wider with --exact alone.
            Span::raw(format!("{text:>width$}{:GAP$}", "", width = column.width))
        };
        let titles = columns.iter().map(|column| cell(column, column.title.to_owned()));
        let mut lines = vec![fit(titles.chain([Span::raw("place")]).collect(), width).style(faint())];
        for (at, place) in rows.iter().enumerate().skip(top).take(room) {
            let mut spans: Vec<Span<'static>> =
                columns.iter().map(|column| cell(column, (column.cell)(place, look))).collect();
            spans.extend(named(place, report, width, look));
            let mut line = fit(spans, width);
            if place.growth.verdict == Verdict::Growing {
                line = line.style(warning(look));
            }
            if at == chosen {
                let rest = width.saturating_sub(line.width());
                line.push_span(Span::raw(" ".repeat(rest)));
                line = line.patch_style(Modifier::REVERSED);
            }
            lines.push(line);
        }
        frame.render_widget(Paragraph::new(lines), area);
    }
    state.top = top;
}

/// `remember server.c:35 (3 paths) via std::string ← serve ← main`: of several call paths those callers that all have,
/// since the largest path is another one with every look.
fn named(place: &WatchedPlace, report: &Watched, width: usize, look: &Look) -> Vec<Span<'static>> {
    const CALLERS: usize = 8;
    /// Columns of a name, at the least.
    const NAME: usize = 12;
    let Some(first) = &place.frame else { return vec![Span::styled("(no stack is known)", faint())] };
    let text = |name: &str| clean(&function(name, look)).into_owned();
    let at = location(&first.function, first.file.as_deref(), first.line, first.module.as_deref(), look);
    let arrow = if look.ascii { " <- " } else { " ← " };
    let at = if at.is_empty() { at } else { format!(" {}", clean(&at)) };
    let name = elided(&clean(&function_of(first, look)), width.saturating_sub(at.width()).max(NAME));
    let mut spans = vec![Span::styled(name, strong()), Span::raw(at)];
    if let Some(by) = &place.by {
        spans.push(Span::raw(format!(", by {}", text(by))));
    }
    if place.sites > 1 {
        spans.push(Span::styled(format!(" ({} paths)", count(place.sites)), faint()));
    }
    if let Some(passed) = passed(place.largest_site.nameless_below(first)) {
        spans.push(Span::styled(format!(" via {passed}"), faint()));
    }
    // Where there is little room, callers are worth more.
    if let Some(through) = place.through.as_ref().filter(|_| width >= WIDE && place.by.is_none()) {
        spans.push(Span::styled(format!(" via {}", text(through)), faint()));
    }
    let sites: Vec<&WatchedSite> = report.sites.iter().filter(|site| site.place == place.id).collect();
    let on_all = |(caller, _): &(&mallow_report::analysis::Frame, bool)| {
        sites.iter().all(|site| site.stack.frames.iter().any(|frame| frame.function == caller.function))
    };
    for (caller, gap) in place.largest_site.callers_and_gaps(first).into_iter().filter(on_all).take(CALLERS) {
        if gap {
            spans.push(Span::styled(format!("{arrow}{}", if look.ascii { "..." } else { "…" }), faint()));
        }
        spans.push(Span::styled(format!("{arrow}{}", text(&caller.function)), faint()));
    }
    spans
}

/// Draws the chosen place, and its call paths.
pub fn detail(frame: &mut Frame, area: Rect, state: &mut State, look: &Look) {
    let Some((_, place)) = state.choice() else { return };
    let width = usize::from(area.width);
    let significant = if place.growth.verdict == Verdict::Growing { ", significant" } else { "" };
    let figures = [
        ("place", state.report.as_ref().map(|report| named(place, report, WIDE, look)).unwrap_or_default()),
        ("live", vec![Span::raw(estimated_bytes(&place.live_bytes, look))]),
        ("blocks", vec![Span::raw(estimated_count(&place.live, look))]),
        ("samples", vec![Span::raw(count(place.samples))]),
        ("growth", vec![Span::raw(format!("{}{significant}", growth_in_full(&place.growth, look)))]),
        ("age", vec![Span::raw(range(seconds(place.youngest_ms), &seconds(place.oldest_ms)))]),
        (
            "held",
            vec![Span::raw(format!("{} byte·seconds since it is watched", estimated_count(&place.byte_seconds, look)))],
        ),
        (
            "frees",
            vec![Span::raw(
                place
                    .freed_by_others
                    .map_or("too few were seen".to_owned(), |part| format!("{} by another thread", share(part))),
            )],
        ),
        ("pids", vec![Span::raw(place.pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" "))]),
    ];
    let figure = |(name, text): (&str, Vec<Span<'static>>)| {
        fit([Span::raw(format!("{name:<10}"))].into_iter().chain(text).collect(), width)
    };
    let mut lines: Vec<Line<'static>> = figures.into_iter().map(figure).collect();
    let sites: Vec<&WatchedSite> = match &state.report {
        Some(report) => report.sites.iter().filter(|site| site.place == place.id).collect(),
        None => Vec::new(),
    };
    lines.push(Line::default());
    lines.push(Line::styled(of(sites.len() as u64, "call path"), strong()));
    for site in &sites {
        let live = format!("  {} in {}", estimated_bytes(&site.live_bytes, look), of(site.samples, "sample"));
        lines.push(fit(vec![Span::raw(live)], width));
        lines.extend(stack(&site.stack, width, look));
    }
    if sites.is_empty() {
        lines.extend(stack(&place.largest_site, width, look));
    }
    let most = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_sub(area.height);
    let scrolled = state.scrolled.min(most);
    frame.render_widget(Paragraph::new(lines).scroll((scrolled, 0)), area);
    state.scrolled = scrolled;
    state.page = usize::from(area.height);
}

fn stack(stack: &Stack, width: usize, look: &Look) -> Vec<Line<'static>> {
    let step = |step: &mallow_report::analysis::Frame| {
        let at = location(&step.function, step.file.as_deref(), step.line, step.module.as_deref(), look);
        let style = if step.looked_past { faint() } else { strong() };
        let name = clean(&function(&step.function, look)).into_owned();
        fit(vec![Span::raw("    "), Span::styled(name, style), Span::raw(format!(" {}", clean(&at)))], width)
    };
    let mut lines: Vec<Line<'static>> = stack.frames.iter().map(step).collect();
    if stack.cut {
        lines.push(fit(vec![Span::styled("    … outer frames are missing", faint())], width));
    }
    lines
}
