//! The live view, drawn. Whatever comes from a target goes through `clean`.

use mallow_report::analysis::sampled::Verdict;
use mallow_report::analysis::{Watched, WatchedSite, Which};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::bar;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table};

use super::state::State;
use crate::output::text::estimates::{estimated_bytes, estimated_count, growth, growth_in_full, period};
use crate::output::text::units::{count, of, share, span};
use crate::output::text::{Look, clean, function, location};

/// Less than this is no room for a table.
const NARROWEST: u16 = 20;
const LOWEST: u16 = 4;

const LETTERS: bar::Set = bar::Set {
    full: "#",
    seven_eighths: "#",
    three_quarters: "#",
    five_eighths: "=",
    half: "=",
    three_eighths: "-",
    one_quarter: "-",
    one_eighth: "_",
    empty: " ",
};

/// Draws all of it.
pub fn draw(frame: &mut Frame, state: &mut State, look: &Look) {
    let area = frame.area();
    if area.width < NARROWEST || area.height < LOWEST {
        frame.render_widget(Paragraph::new("too small; q leaves"), area);
        return;
    }
    let chart = if area.height >= 16 { 3 } else { u16::from(area.height >= 9) };
    let [head, sparkline, body, foot] = Layout::vertical([
        Constraint::Length(if area.height >= 7 { 3 } else { 1 }),
        Constraint::Length(chart),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(area);
    let Some(report) = state.report.clone() else {
        frame.render_widget(Paragraph::new("waiting for the first samples…"), head);
        frame.render_widget(Paragraph::new(keys(state)), foot);
        return;
    };
    frame.render_widget(Paragraph::new(heading(&report, state, look)), head);
    history(frame, sparkline, state, look);
    if state.detail {
        detail(frame, body, state, look);
    } else {
        table(frame, body, state, &report, look);
    }
    frame.render_widget(Paragraph::new(keys(state)).style(faint()), foot);
}

fn strong() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn faint() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn warning(look: &Look) -> Style {
    if look.colour { Style::new().fg(Color::Yellow) } else { strong() }
}

fn heading(report: &Watched, state: &State, look: &Look) -> Vec<Line<'static>> {
    let pids: Vec<u32> = report.processes.iter().filter(|process| process.running).map(|process| process.pid).collect();
    let who = match pids[..] {
        [] => "ended".to_owned(),
        [pid] => format!("pid {pid}"),
        [pid, ..] => format!("pid {pid} and {} more", pids.len() - 1),
    };
    let mut first = vec![
        Span::styled(clean(&report.command.join(" ")).into_owned(), strong()),
        Span::raw(format!("  {who}  watched for {}", span(report.watched_ms))),
    ];
    let lost = report.lost;
    let gone = lost.events.saturating_add(lost.picks).saturating_add(lost.stacks).saturating_add(lost.damaged);
    if gone > 0 {
        first.push(Span::styled(format!("  {} lost", count(gone)), warning(look)));
    }
    let unseen = lost.left.saturating_add(lost.filtered).saturating_add(lost.unsampled);
    if unseen > 0 {
        first.push(Span::styled(format!("  {} sampled no more", of(unseen, "process")), warning(look)));
    }
    let second = vec![
        Span::raw("live "),
        Span::styled(estimated_bytes(&report.live_bytes, look), strong()),
        Span::raw(format!(
            ", blocks {}; {}; {}",
            estimated_count(&report.live, look),
            of(report.samples, "sample"),
            period(report.period_bytes, look)
        )),
    ];
    let mut third = match report.growing {
        0 => vec![Span::raw("no site grows significantly")],
        n => vec![Span::styled(format!("{} growing", of(n, "site")), warning(look))],
    };
    let shown = match report.which {
        Which::Old => format!("; shown: older than {}", span(report.older_than_ms)),
        Which::Live => "; shown: all live".to_owned(),
        Which::Peak => "; shown: the peak".to_owned(),
    };
    third.push(Span::raw(format!("{shown}, by {}", state.sort.name())));
    for (samples, how) in
        [(report.muted_samples, "muted"), (report.suppressed_samples, "suppressed"), (report.known_samples, "known")]
    {
        if samples > 0 {
            third.push(Span::styled(format!(", {} {how}", count(samples)), faint()));
        }
    }
    [first, second, third].into_iter().map(Line::from).collect()
}

fn history(frame: &mut Frame, area: Rect, state: &State, look: &Look) {
    if area.height == 0 {
        return;
    }
    let width = usize::from(area.width);
    let points = squeezed(&state.history, width);
    let mut sparkline = Sparkline::default().data(points.iter().copied());
    if look.ascii {
        sparkline = sparkline.bar_set(LETTERS);
    }
    if look.colour {
        sparkline = sparkline.style(Style::new().fg(Color::Blue));
    }
    frame.render_widget(sparkline, area);
}

/// At most `width` values, each the highest of as many neighbours.
fn squeezed(values: &[u64], width: usize) -> Vec<u64> {
    let step = values.len().div_ceil(width.max(1)).max(1);
    values.chunks(step).map(|some| some.iter().copied().max().unwrap_or(0)).collect()
}

fn table(frame: &mut Frame, area: Rect, state: &mut State, report: &Watched, look: &Look) {
    let room = usize::from(area.height.saturating_sub(1)).max(1);
    state.page = room;
    let chosen = state.choice().map_or(0, |(at, _)| at);
    let rows = state.rows();
    let top = state.top.min(rows.len().saturating_sub(room)).min(chosen).max((chosen + 1).saturating_sub(room));
    let columns = columns(area.width);
    let title = |column: &&Column| Cell::from(Line::from(column.title).right_aligned());
    let header = Row::new(columns.iter().map(title).chain([Cell::from("site")])).style(faint());
    let shown = rows.iter().enumerate().skip(top).take(room).map(|(at, site)| {
        let cells = columns.iter().map(|column| Cell::from(Line::from((column.cell)(site, look)).right_aligned()));
        let name = Line::from(named(site, look));
        let mut row = Row::new(cells.chain([Cell::from(name)]));
        if site.growth.verdict == Verdict::Growing {
            row = row.style(warning(look));
        }
        if at == chosen { row.style(Style::new().add_modifier(Modifier::REVERSED)) } else { row }
    });
    let widths = columns.iter().map(|column| Constraint::Length(column.width)).chain([Constraint::Min(10)]);
    if rows.is_empty() {
        let none = match (state.search.is_empty(), report.which) {
            (false, _) => "no site has that in its names; Esc shows all",
            (true, Which::Old) => "nothing that old is live; o shows all",
            (true, _) => "no sample is live",
        };
        frame.render_widget(Paragraph::new(none), area);
    } else {
        frame.render_widget(Table::new(shown, widths).header(header).column_spacing(2), area);
    }
    state.top = top;
}

struct Column {
    title: &'static str,
    width: u16,
    /// Shown where the screen is at least so wide.
    from: u16,
    cell: fn(&WatchedSite, &Look) -> String,
}

const COLUMNS: [Column; 5] = [
    Column { title: "live bytes", width: 20, from: 0, cell: |site, look| estimated_bytes(&site.live_bytes, look) },
    Column { title: "growth/h", width: 18, from: 64, cell: |site, look| growth(&site.growth, look) },
    Column { title: "blocks", width: 18, from: 128, cell: |site, look| estimated_count(&site.live, look) },
    Column { title: "oldest", width: 11, from: 84, cell: |site, _| span(site.oldest_ms) },
    Column { title: "samples", width: 7, from: 100, cell: |site, _| count(site.samples) },
];

fn columns(width: u16) -> Vec<&'static Column> {
    COLUMNS.iter().filter(|column| width >= column.from).collect()
}

/// `read_query server.c:35 ← serve ← main`
fn named(site: &WatchedSite, look: &Look) -> Vec<Span<'static>> {
    let own = site.stack.own();
    let Some(first) = own.first() else { return vec![Span::styled("(no stack is known)", faint())] };
    let text = |name: &str| clean(&function(name, look)).into_owned();
    let at = location(&first.function, first.file.as_deref(), first.line, first.module.as_deref(), look);
    let arrow = if look.ascii { " <- " } else { " ← " };
    let mut spans = vec![Span::styled(text(&first.function), strong()), Span::raw(format!(" {}", clean(&at)))];
    for caller in site.stack.callers_of(first).iter().take(8) {
        spans.push(Span::styled(format!("{arrow}{}", text(&caller.function)), faint()));
    }
    spans
}

fn detail(frame: &mut Frame, area: Rect, state: &mut State, look: &Look) {
    let Some((_, site)) = state.choice() else { return };
    let mut lines = vec![
        Line::from(format!("live      {}", estimated_bytes(&site.live_bytes, look))),
        Line::from(format!("blocks    {}", estimated_count(&site.live, look))),
        Line::from(format!("samples   {}", count(site.samples))),
        Line::from(format!(
            "growth    {}{}",
            growth_in_full(&site.growth, look),
            if site.growth.verdict == Verdict::Growing { ", significant" } else { "" }
        )),
        Line::from(format!("age       {} to {}", span(site.youngest_ms), span(site.oldest_ms))),
        Line::from(format!("held      {} byte·seconds since it is watched", estimated_count(&site.byte_seconds, look))),
        Line::from(format!(
            "frees     {}",
            site.freed_by_others
                .map_or("too few were seen".to_owned(), |part| format!("{} by another thread", share(part)))
        )),
        Line::from(format!("pids      {}", site.pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" "))),
        Line::default(),
    ];
    for step in &site.stack.frames {
        let at = location(&step.function, step.file.as_deref(), step.line, step.module.as_deref(), look);
        let style = if step.looked_past { faint() } else { strong() };
        let name = clean(&function(&step.function, look)).into_owned();
        lines.push(Line::from(vec![Span::raw("  "), Span::styled(name, style), Span::raw(format!(" {}", clean(&at)))]));
    }
    if site.stack.cut {
        lines.push(Line::styled("  … outer frames are missing", faint()));
    }
    let most = (lines.len() as u16).saturating_sub(area.height);
    let scrolled = state.scrolled.min(most);
    frame.render_widget(Paragraph::new(lines).scroll((scrolled, 0)), area);
    state.scrolled = scrolled;
    state.page = usize::from(area.height);
}

fn keys(state: &State) -> Line<'static> {
    if state.searching {
        return Line::from(format!("/{}▏  Enter: done  Esc: all", clean(&state.search)));
    }
    if let Some(message) = &state.message {
        return Line::from(clean(message).into_owned());
    }
    let search = if state.search.is_empty() { String::new() } else { format!("  [{}]", clean(&state.search)) };
    let keys = match state.detail {
        true => "Esc back  ↑↓ scroll  m mute  q leave",
        false => "q leave  Enter stack  s sort  / search  m mute  u unmute  + - period  d dormant  o old/all  r report",
    };
    Line::from(format!("{keys}{search}"))
}
