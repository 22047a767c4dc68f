//! Live bytes over time, with both axes. Their ends are round numbers, so that the chart stands still while it fills.

use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::fit::faint;
use crate::output::text::Look;
use crate::output::text::time_axis::time_ticks;
use crate::output::text::units::{bytes, span};

/// Columns left of the chart: a number, and the axis.
const GUTTER: usize = 9;
/// Columns that a time and its tick take, at the least.
const TICK: usize = 12;
/// Ends of the time axis, in seconds; after the last one at whole days.
const ENDS: [u64; 14] = [30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800];
const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// The chart and its time axis, `height` lines of `width` columns; nothing where there is no room. `history`:
/// milliseconds since the watching began, and bytes.
pub fn chart(history: &[(u64, u64)], watched_ms: u64, width: usize, height: usize, look: &Look) -> Vec<Line<'static>> {
    let rows = height.saturating_sub(1);
    let columns = width.saturating_sub(GUTTER);
    if rows == 0 || columns < TICK {
        return Vec::new();
    }
    let highest = round_up(history.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0));
    let end_ms = end(watched_ms);
    let values = resample(history, watched_ms, end_ms, columns);
    let style = if look.colour { Style::new().fg(Color::Blue) } else { Style::new() };
    let mut lines: Vec<Line<'static>> = (0..rows)
        .rev()
        .map(|row| {
            // A number at the top, and one in the middle where there is one.
            let value = match row + 1 {
                top if top == rows => Some(highest),
                middle if middle * 2 == rows => Some(highest / 2),
                _ => None,
            };
            let drawn: String = values.iter().map(|value| cell(*value, highest, row, rows, look)).collect();
            Line::from(vec![
                Span::styled(gutter(value, if look.ascii { "|" } else { "┤" }), faint()),
                Span::styled(drawn, style),
            ])
        })
        .collect();
    lines.push(Line::styled(
        gutter(Some(0), if look.ascii { "+" } else { "┼" }) + &axis(end_ms, columns, look),
        faint(),
    ));
    lines
}

fn gutter(value: Option<u64>, axis: &str) -> String {
    let label = value.map(|value| bytes(value, false).replace(".00", "").replace(".0 ", " ")).unwrap_or_default();
    format!("{label:>width$} {axis}", width = GUTTER - 2)
}

/// The next 1, 2 or 5 with zeros.
fn round_up(value: u64) -> u64 {
    let mut power = 1u64;
    loop {
        for step in [1, 2, 5] {
            match power.checked_mul(step) {
                Some(round) if round >= value.max(1000) => return round,
                Some(_) => {}
                None => return u64::MAX,
            }
        }
        power = power.saturating_mul(10);
    }
}

fn end(watched_ms: u64) -> u64 {
    let ends = ENDS.iter().map(|seconds| seconds * 1000);
    ends.into_iter()
        .find(|&end| end >= watched_ms)
        .unwrap_or_else(|| watched_ms.div_ceil(DAY_MS).saturating_mul(DAY_MS))
}

/// The highest value of each column; None after now. A column without a point has the value of the one before.
fn resample(history: &[(u64, u64)], now_ms: u64, end_ms: u64, columns: usize) -> Vec<Option<u64>> {
    let column = |ms: u64| (u128::from(ms) * columns as u128 / u128::from(end_ms.max(1))) as usize;
    let mut highest: Vec<Option<u64>> = vec![None; columns];
    for &(ms, bytes) in history {
        if let Some(cell) = highest.get_mut(column(ms)) {
            *cell = Some(cell.map_or(bytes, |before| before.max(bytes)));
        }
    }
    let (mut last, now) = (None, column(now_ms));
    let carried = highest.into_iter().enumerate().map(|(at, value)| {
        last = value.or(last);
        last.filter(|_| at <= now)
    });
    carried.collect()
}

fn cell(value: Option<u64>, highest: u64, row: usize, rows: usize, look: &Look) -> char {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    const LETTERS: [char; 9] = [' ', '_', '-', '-', '=', '=', '#', '#', '#'];
    let Some(value) = value.filter(|value| *value > 0) else { return ' ' };
    let steps = (u128::from(value) * (rows * 8) as u128).div_ceil(u128::from(highest.max(1))) as usize;
    let eighths = steps.saturating_sub(row * 8).min(8);
    if look.ascii { LETTERS[eighths] } else { BLOCKS[eighths] }
}

/// The time axis: `0 s ──────┬10 s ─────`.
fn axis(end_ms: u64, columns: usize, look: &Look) -> String {
    let (dash, tick) = if look.ascii { ('-', '+') } else { ('─', '┬') };
    let mut cells = vec![dash; columns];
    let mut free = 0;
    for ms in time_ticks(0, end_ms, (columns / TICK).max(1)) {
        let at = (u128::from(ms) * columns as u128 / u128::from(end_ms)) as usize;
        let label = format!("{} ", time(ms));
        let label: Vec<char> =
            if at == 0 { label.chars().collect() } else { std::iter::once(tick).chain(label.chars()).collect() };
        if at >= free && at + label.len() <= columns {
            cells[at..at + label.len()].copy_from_slice(&label);
            free = at + label.len() + 1;
        }
    }
    let caption = " time watched";
    let start = columns.saturating_sub(caption.chars().count());
    if start > free {
        for (cell, letter) in cells[start..].iter_mut().zip(caption.chars()) {
            *cell = letter;
        }
    }
    cells.into_iter().collect()
}

/// A round time, short: `10 s`, `5 min`, `2 h`, `3 days`.
fn time(ms: u64) -> String {
    const RULES: [(u64, &str); 3] = [(HOUR_MS, "h"), (60_000, "min"), (1000, "s")];
    if ms == 0 {
        return "0".to_owned();
    }
    if ms.is_multiple_of(DAY_MS) && ms > DAY_MS {
        return format!("{} days", ms / DAY_MS);
    }
    if ms > HOUR_MS && !ms.is_multiple_of(HOUR_MS) {
        return span(ms);
    }
    let rule = RULES.iter().find(|(unit, _)| ms.is_multiple_of(*unit));
    rule.map_or_else(|| span(ms), |(unit, name)| format!("{} {name}", ms / unit))
}

#[cfg(test)]
mod tests {
    use super::{chart, end, round_up, time};
    use crate::output::text::Look;

    fn drawn(history: &[(u64, u64)], watched_ms: u64, width: usize, height: usize) -> String {
        let lines = chart(history, watched_ms, width, height, &Look::default());
        lines.iter().map(|line| line.to_string().trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn axes_end_at_round_numbers() {
        let values = [0, 1, 1001, 2000, 4_100_000, u64::MAX].map(round_up);
        assert_eq!(values, [1000, 1000, 2000, 2000, 5_000_000, u64::MAX]);
        assert_eq!([0, 30_000, 30_001, 200 * 86_400_000 + 1].map(end), [30_000, 30_000, 60_000, 201 * 86_400_000]);
        assert_eq!(
            [0, 10_000, 120_000, 5_400_000, 172_800_000].map(time),
            ["0", "10 s", "2 min", "1 h 30 min", "2 days"]
        );
    }

    #[test]
    fn a_chart_has_units_on_both_axes_and_fills_from_the_left() {
        let history: Vec<_> = (0..=20).map(|second| (second * 1000, second * 25_000_000)).collect();
        let expected = [
            " 500 MB ┤                  ▁▁▂▂▃▄▄▄▄▅▆▆▇▇███",
            " 250 MB ┤ ▁▁▂▂▃▄▄▄▄▅▆▆▇▇████████████████████",
            "    0 B ┼0 ───────────────┬10 s ───────────┬20 s ───────────",
        ];
        assert_eq!(drawn(&history, 20_000, 60, 3).lines().collect::<Vec<_>>(), expected);
        assert_eq!(drawn(&[], 0, 60, 1), "");
        assert_eq!(drawn(&[(0, 7)], 0, 10, 9), "");
    }
}
