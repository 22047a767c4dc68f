//! The heap over time, as a chart and a table.

use mallow_report::analysis::{Band, Over, RssOverTime, Timeline};

use super::peak_text::{before_the_end, below, figure, reached};
use crate::output::text::chart::{Column, key, rows};
use crate::output::text::time_axis::{
    highest, highest_in_words, moment, named_ticks, on_scale, resolution, subject, value,
};
use crate::output::text::units::{bytes, of, span};
use crate::output::text::{Align, Line, Look, Page, Table, function, location};

/// Bands that the table lists, where nothing else is said.
pub const BANDS: usize = 6;
/// Columns of text where there is no terminal that has any.
const WIDTH: usize = 100;
/// Left of the chart: two spaces, a value, a line.
const SCALE: usize = 12;
/// Columns between times below the chart, at the least.
const APART: usize = 2;
/// Rows of a usual terminal.
const USUAL: usize = 24;
/// Rows of the chart, where nobody says how many there is room for.
const HEIGHT: usize = 12;

pub fn columns(look: &Look) -> usize {
    look.width.unwrap_or(WIDTH).saturating_sub(SCALE + 1).max(20)
}

/// The timeline. Precondition: it has at most as many points as the chart has columns.
pub fn text(report: &Timeline, look: &Look) -> String {
    let mut page = Page::new(*look);
    page.sentence(title(report, look));
    // A short screen has it in the table alone.
    if let Some(rss) = report.rss.as_ref().filter(|_| look.height.is_none_or(|rows| rows >= USUAL)) {
        page.sentence(resident(rss, look));
    }
    page.sentence(Line::new().faint(resolution(report)));
    page.gap();
    // The shell's prompt takes a row, and what the view says on standard error another.
    let below = report.bands.len() + 12 + if report.rss.is_some() { 2 } else { 0 };
    let height = look.height.map_or(HEIGHT, |h| h.saturating_sub(below).clamp(4, 24));
    chart(report, look, height, &mut page);
    if report.total > 0 {
        page.gap();
        moments(report, look).onto(&mut page);
        let more = report.bands_in_all - report.bands.len() as u64;
        if more > 0 {
            page.sentence(Line::new().faint(format!("  others are {}; --limit shows more", of(more, "function"))));
        }
    }
    page.into_text()
}

fn title(report: &Timeline, look: &Look) -> Line {
    let line = Line::new().strong(subject(report));
    match (report.by, report.at_end) {
        (Over::Allocations, _) => line.plain(format!(
            ": {}, at most {}",
            of(report.total, "allocation"),
            highest_in_words(report, look.exact)
        )),
        (_, at_end) => {
            let end = value(report, at_end.unwrap_or(0), look.exact);
            line.plain(format!(": at most {}, {end} at the end", highest(report, look.exact)))
        }
    }
}

/// RSS in a sentence: the gap between it and live bytes is what to look at.
fn resident(rss: &RssOverTime, look: &Look) -> Line {
    let sum = match rss.processes {
        1 => String::new(),
        processes => format!(", the sum of {processes} processes with shared pages in each"),
    };
    let since = if rss.attached { "; live bytes are of blocks allocated since mallow attached" } else { "" };
    let highest = bytes(rss.highest, look.exact);
    let looked = format!("{highest} at {}", span(rss.highest_ms));
    let Some((peak, below)) = rss.peak.and_then(|peak| Some((peak, below(rss.highest, &peak, look.exact)?))) else {
        let known = rss.peak.as_ref().and_then(before_the_end).map(|when| format!(", {when}")).unwrap_or_default();
        return Line::new().plain(format!("RSS: at most {looked}{known}{sum}{since}"));
    };
    let kernels = bytes(peak.peak_rss, look.exact);
    Line::new().plain(format!(
        "RSS: at most {kernels}, {}{}; looks found {looked}, {below}{since}",
        figure(&peak),
        reached(&peak)
    ))
}

fn chart(report: &Timeline, look: &Look, height: usize, page: &mut Page) {
    let wide = (columns(look) / report.points.len().max(1)).max(1);
    let column = |at: usize| Column {
        value: report.points[at].value,
        parts: report.bands.iter().map(|band| band.values[at]).collect(),
    };
    let all: Vec<Column> = (0..report.points.len()).flat_map(|at| vec![column(at); wide]).collect();
    let most = report.points.iter().map(|p| p.value).max().unwrap_or(0);
    marker(report, look, (report.highest_point * wide, wide), all.len(), page);
    let (edge, corner, line, tick) = if look.ascii { ("|", "+", "-", "+") } else { ("│", "└", "─", "┬") };
    let middle = height / 2;
    for (index, row) in rows(&all, most, height, look).into_iter().enumerate() {
        let label = match index {
            0 => on_scale(report, most),
            // The row's upper edge.
            _ if height - index == middle && height.is_multiple_of(2) => on_scale(report, most / 2),
            _ => String::new(),
        };
        page.line(Line::new().plain(format!("  {label:>8} ")).faint(edge).then(row));
    }
    let mut axis: Vec<&str> = vec![line; all.len()];
    let mut labels = String::new();
    let place = |ms: u64| {
        let at = report.point_of(ms) * wide;
        (at as f64, (at + span(ms).len() + APART) as f64)
    };
    for ms in named_ticks(report, all.len() / 14, (all.len() + APART) as f64, place) {
        let at = report.point_of(ms) * wide;
        axis[at] = tick;
        let gap = at.saturating_sub(labels.chars().count());
        labels.push_str(&(" ".repeat(gap) + &span(ms)));
    }
    page.line(Line::new().plain(format!("  {:>8} ", "0")).faint(corner).faint(axis.concat()));
    page.line(Line::new().plain(" ".repeat(SCALE)).faint(labels.trim_end()));
}

/// Above the chart, the highest point and what it is.
fn marker(report: &Timeline, look: &Look, (from, wide): (usize, usize), columns: usize, page: &mut Page) {
    if report.total == 0 {
        return;
    }
    let at = from + wide / 2;
    let sign = if look.ascii { "v" } else { "▼" };
    let text = highest(report, false);
    let line = if at + text.len() + 2 <= columns {
        format!("{}{sign} {text}", " ".repeat(at))
    } else {
        format!("{}{text} {sign}", " ".repeat(at.saturating_sub(text.len() + 1)))
    };
    page.line(Line::new().plain(" ".repeat(SCALE)).plain(line));
}

/// Amounts of the bands at some moments: at equal distances, and at the highest point.
fn moments(report: &Timeline, look: &Look) -> Table {
    let number = if look.width.is_some_and(|w| w < 90) { 3 } else { 5 };
    let last = report.points.len() - 1;
    let mut points: Vec<usize> = (1..=number).map(|n| last * n / (number + 1)).collect();
    points.push(report.highest_point);
    points.sort_unstable();
    points.dedup();
    let mut columns = vec![Align::Left];
    columns.extend(vec![Align::Right; points.len()]);
    columns.push(Align::Left);
    let mut table = Table::new(&columns);
    let row = |first: Line, values: &dyn Fn(usize) -> u64, last: Line| {
        let values = points.iter().map(|&at| Line::new().plain(value(report, values(at), look.exact)));
        std::iter::once(first).chain(values).chain([last]).collect::<Vec<_>>()
    };
    let time = |at: usize| {
        if at == report.highest_point {
            return Line::new().strong(span(report.highest_ms.unwrap_or(report.points[at].ms)));
        }
        Line::new().faint(moment(&report.points[at]))
    };
    let heads = points.iter().map(|&at| time(at));
    table.row(std::iter::once(Line::new()).chain(heads).chain([Line::new().faint("function")]));
    table.row(row(Line::new(), &|at| report.points[at].value, Line::new().strong("all")));
    if let Some(rss) = &report.rss {
        let cells = points.iter().map(|&at| match rss.values.get(at).copied().flatten() {
            Some(size) => Line::new().plain(bytes(size, look.exact)),
            None => Line::new(),
        });
        table.row(std::iter::once(Line::new()).chain(cells).chain([Line::new().strong("RSS")]));
    }
    for (index, band) in report.bands.iter().enumerate() {
        table.row(row(key(Some(index), look), &|at| band.values[at], named(band, look)));
    }
    if report.others.iter().any(|value| *value > 0) {
        table.row(row(key(None, look), &|at| report.others[at], Line::new().faint("others")));
    }
    table
}

fn named(band: &Band, look: &Look) -> Line {
    let Some(name) = &band.function else { return Line::new().faint("(no stack is known)") };
    let at = location(name, band.file.as_deref(), None, band.module.as_deref(), look);
    Line::new().strong_name(function(name, look)).plain(" ").faint(at)
}

#[cfg(test)]
mod tests {
    use mallow_profile::{Call, Event, Moment, Profile};
    use mallow_report::analysis::{HeapAtBuilder, HeapMoment, Over, TimelineBuilder, TimelineOptions};
    use mallow_report::testing::{Builder, parser};

    use super::{columns, text};
    use crate::output::text::Look;
    use crate::output::text::time_axis::testing::{parser_timeline, story};
    use crate::views::heap_moment;

    #[test]
    fn the_heap_as_a_chart() {
        let look = Look::default();
        insta::assert_snapshot!(text(&parser_timeline(Over::LiveBytes, columns(&look), 3), &look));
    }

    #[test]
    fn letters_on_a_narrow_terminal_without_unicode() {
        let look = Look { width: Some(60), height: Some(22), ascii: true, exact: true, ..Look::default() };
        insta::assert_snapshot!(text(&parser_timeline(Over::Live, columns(&look), 6), &look));
    }

    #[test]
    fn allocations_by_second() {
        let look = Look { width: Some(80), full_names: true, ..Look::default() };
        let mut report = parser_timeline(Over::Allocations, columns(&look), 2);
        report.ending.cut_short = Some("the disk is full".to_owned());
        insta::assert_snapshot!(text(&report, &look));
    }

    /// A hundred allocations at these milliseconds.
    fn short_run(ms: impl Fn(u64) -> u64, duration_ms: u64, width: usize) -> String {
        let mut b = Builder::default();
        let process = b.process(1, &["a"], duration_ms);
        b.site(process, &["f@a.c:1", "main"], Default::default());
        b.profile.duration_ms = duration_ms;
        let look = Look { width: Some(width), height: Some(16), ..Look::default() };
        let options = TimelineOptions { by: Over::LiveBytes, window: (0, None), points: columns(&look), bands: 3 };
        let mut builder = TimelineBuilder::new(&b.profile, options);
        let at = |n: u64| Moment { process: 0, thread: 0, ms: ms(n) };
        (0..100).for_each(|n| builder.count(at(n)));
        builder.counted();
        for n in 0..100 {
            builder.event(at(n), &Event::Allocate(Call { family: 0, site: 0, size: 10 + n % 7 }));
        }
        text(&builder.finish(), &look)
    }

    #[test]
    fn short_runs_by_the_order_of_their_events() {
        insta::assert_snapshot!(short_run(|n| if n < 20 { 1 } else { 2 }, 3, 50));
    }

    #[test]
    fn times_below_the_chart_do_not_run_together() {
        let text = short_run(|n| if n < 8 { n } else { 22 }, 25, 100);
        let axis = text.lines().skip_while(|line| !line.contains('└')).nth(1).expect("times").trim();
        let times: Vec<_> = axis.split("  ").map(str::trim).filter(|time| !time.is_empty()).collect();
        let is_time = |time: &&str| time.strip_suffix(" ms").is_some_and(|ms| ms.parse::<u64>().is_ok());
        assert!(times.len() > 1 && times.iter().all(is_time), "{text}");
    }

    #[test]
    fn the_heap_at_one_moment() {
        let profile = parser();
        let mut builder = HeapAtBuilder::new(&profile, HeapMoment::Ms(1300));
        story().iter().for_each(|(at, event)| builder.event(*at, event));
        insta::assert_snapshot!(heap_moment::text(&builder.finish(4), &Look::default(), true));
    }

    #[test]
    fn nothing_fits_on_any_terminal() {
        let nothing = Profile::default();
        for width in [40, 41, 300] {
            let look = Look { width: Some(width), height: Some(5), ..Look::default() };
            let options = TimelineOptions { by: Over::LiveBytes, window: (0, None), points: columns(&look), bands: 3 };
            let mut builder = TimelineBuilder::new(&nothing, options);
            builder.counted();
            let text = text(&builder.finish(), &look);
            assert!(text.starts_with("Live bytes over 0 ms of recording:"), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            let full = super::text(&parser_timeline(Over::Live, columns(&look), 6), &look);
            assert!(full.lines().all(|line| line.chars().count() <= width), "{full}");
        }
    }
}
