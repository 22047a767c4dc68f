//! The live view, drawn: the finding, the program, what is live over time, places. Whatever comes from a target goes
//! through `clean`.

use mallow_report::analysis::sampled::Verdict;
use mallow_report::analysis::{Watched, Which};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::chart::chart;
use super::fit::{faint, fit, strong, warning, wrap};
use super::help::help;
use super::places::{detail, table};
use super::state::State;
use crate::output::text::estimates::{column_bytes, period};
use crate::output::text::units::{count, of, span};
use crate::output::text::{Look, clean};
use crate::runs::watch::headline::{attached, gaps, outlook, seconds};
use crate::runs::watch::text::resident_in_brief;

/// Less than this is no room for a table.
const NARROWEST: u16 = 20;
const LOWEST: u16 = 4;

pub fn draw(frame: &mut Frame, state: &mut State, look: &Look) {
    let area = frame.area();
    let width = usize::from(area.width);
    if area.width < NARROWEST || area.height < LOWEST {
        frame.render_widget(Paragraph::new("too small; q leaves"), area);
        return;
    }
    if state.help {
        let [body, foot] = Layout::vertical([Constraint::Min(1), Constraint::Length(1)]).areas(area);
        let lines = help(state.warm_up_ms, width);
        let most = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_sub(body.height);
        state.scrolled = state.scrolled.min(most);
        frame.render_widget(Paragraph::new(lines).scroll((state.scrolled, 0)), body);
        frame.render_widget(Paragraph::new(keys(state, width)).style(faint()), foot);
        return;
    }
    let report = state.report.clone();
    let head = report.as_ref().map_or_else(|| beginning(state, width), |report| heading(report, state, width, look));
    // A heading, rows and keys come first; the chart has what is left, up to its own height.
    let heading_height = if area.height >= 9 { head.len() as u16 } else { 1 };
    let chart_height = match area.height {
        28.. => 7,
        22.. => 5,
        14.. => 3,
        _ => 0,
    };
    let [heading_area, chart_area, body, foot] = Layout::vertical([
        Constraint::Length(heading_height),
        Constraint::Length(chart_height),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(head), heading_area);
    let watched_ms = report.as_ref().map_or(0, |report| report.watched_ms);
    let lines = chart(&state.history, watched_ms, width, usize::from(chart_height), look);
    frame.render_widget(Paragraph::new(lines), chart_area);
    match report {
        Some(_) if state.detail => detail(frame, body, state, look),
        Some(report) => table(frame, body, state, &report, look),
        None => {}
    }
    frame.render_widget(Paragraph::new(keys(state, width)).style(faint()), foot);
}

/// The lines before the first look.
fn beginning(state: &State, width: usize) -> Vec<Line<'static>> {
    let begins = format!("Waiting for the first samples. {}", state.period);
    vec![
        fit(vec![Span::styled("Too early to say what grows", strong())], width),
        fit(vec![Span::raw(begins)], width),
        Line::default(),
    ]
}

fn heading(report: &Watched, state: &State, width: usize, look: &Look) -> Vec<Line<'static>> {
    let grows = state.headline.verdict >= Verdict::SoFar;
    let mut first =
        vec![Span::styled(clean(&state.headline.text).into_owned(), if grows { warning(look) } else { strong() })];
    if let Some(outlook) = outlook(&state.headline, report.watched_ms, state.warm_up_ms) {
        first.push(Span::raw(format!("; {outlook}")));
    }
    let pids: Vec<u32> = report.processes.iter().filter(|process| process.running).map(|process| process.pid).collect();
    let who = match pids[..] {
        [] => "ended".to_owned(),
        [pid] => format!("pid {pid}"),
        [pid, ..] => format!("pid {pid} and {} more", pids.len() - 1),
    };
    let time = seconds(report.watched_ms);
    let since = match (report.attached_ms, state.joined) {
        (Some(_), _) => format!("attached {time} ago"),
        (None, true) => format!("joined {time} ago: older blocks if sampled"),
        (None, false) => format!("{time} from its start"),
    };
    let facts = format!("  {who}, {since}; {}", period(report.period_bytes, look));
    let second = vec![Span::styled(name(&report.command, width, facts.chars().count()), strong()), Span::raw(facts)];
    let shown = match report.which {
        Which::Old => format!("older than {}", span(report.older_than_ms)),
        Which::Live => "all live".to_owned(),
        Which::Peak => "the peak".to_owned(),
    };
    let mut third = vec![
        Span::raw("live "),
        Span::styled(format!("{:<15}", column_bytes(&report.live_bytes, look)), strong()),
        Span::raw(format!(" shown: {shown}, by {}; {}", state.sort.name(), of(report.samples, "sample"))),
    ];
    for (samples, how) in
        [(report.muted_samples, "muted"), (report.suppressed_samples, "suppressed"), (report.known_samples, "known")]
    {
        if samples > 0 {
            third.push(Span::styled(format!(", {} {how}", count(samples)), faint()));
        }
    }
    let mut lines: Vec<Line<'static>> = [first, second, third].map(|spans| fit(spans, width)).to_vec();
    if let Some(memory) = &report.memory {
        lines.push(fit(vec![Span::raw(format!("RSS  {}", resident_in_brief(memory, report, look)))], width));
    }
    lines.extend(attached(report).map(|text| fit(vec![Span::styled(text, faint())], width)));
    let unseen = report.nothing_seen().map(|unseen| format!("{}; {}", unseen.found, unseen.remedy));
    let gaps: Vec<String> = unseen.into_iter().chain(gaps(report)).collect();
    if let [loss, more @ ..] = &gaps[..] {
        let more =
            if more.is_empty() { String::new() } else { format!(" (and {} more)", of(more.len() as u64, "gap")) };
        let text = format!("Incomplete: {loss}{more}");
        let rows = wrap(&text, width);
        let rest = rows.get(1..).unwrap_or_default().join(" ");
        let rows = rows.first().cloned().into_iter().chain((!rest.is_empty()).then_some(rest));
        lines.extend(rows.map(|row| fit(vec![Span::styled(row, warning(look))], width)));
    }
    lines
}

/// The command line beside so many columns of facts: without the path where there is no room for it.
fn name(command: &[String], width: usize, facts: usize) -> String {
    const LEAST: usize = 12;
    let room = width.saturating_sub(facts).max(LEAST);
    let whole = clean(&command.join(" ")).into_owned();
    if whole.chars().count() <= room {
        return whole;
    }
    let program = command.first().map_or("", |path| path.rsplit('/').next().unwrap_or(path));
    let arguments = command.iter().skip(1).map(String::as_str);
    let short = std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ");
    fit(vec![Span::raw(clean(&short).into_owned())], room).to_string()
}

/// As many keys as fit, those first that lead to the others.
fn keys(state: &State, width: usize) -> Line<'static> {
    if state.searching {
        return fit(vec![Span::raw(format!("/{}▏  Enter: done  Esc: all", clean(&state.search)))], width);
    }
    if let Some(message) = &state.message {
        return fit(vec![Span::raw(clean(message).into_owned())], width);
    }
    let search = if state.search.is_empty() { String::new() } else { format!("  [{}]", clean(&state.search)) };
    let keys: &[&str] = match (state.help, state.detail) {
        (true, _) => &["? close", "↑↓ scroll", "q leave"],
        (_, true) => &["? help", "Esc back", "↑↓ scroll", "m mute", "q leave"],
        _ => &[
            "? help",
            "q leave",
            "Enter call paths",
            "s sort",
            "/ search",
            "o old/all",
            "m mute",
            "+ - samples",
            "u unmute",
            "d dormant",
            "r report",
        ],
    };
    let mut line = String::new();
    for key in keys {
        let gap = if line.is_empty() { "" } else { "  " };
        if line.chars().count() + gap.len() + key.chars().count() + search.chars().count() > width {
            break;
        }
        line.push_str(gap);
        line.push_str(key);
    }
    fit(vec![Span::raw(line + &search)], width)
}
