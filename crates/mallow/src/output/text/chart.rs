//! Charts of columns: blocks of eighths on terminals that can show them, letters elsewhere.

use anstyle::{Ansi256Color, Color, Style};

use super::look::Look;
use super::page::Line;

/// Colours of parts, which can be distinguished on dark and on light; then what is left.
const COLOURS: [u8; 8] = [33, 208, 35, 133, 220, 167, 37, 176];
const REST: u8 = 245;

/// One column: its value, and the parts of it that have a place of their own. What they leave is the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Height of the column.
    pub value: u64,
    /// Heights of the parts, the lowest first.
    pub parts: Vec<u64>,
}

/// Index of the part that a cell shows; None: the rest.
type Part = Option<usize>;

/// The sign by which a part is found in the chart: its colour, or its letter, or nothing where the chart shows none.
pub fn key(part: Part, look: &Look) -> Line {
    match (look.colour, look.ascii) {
        (true, false) => Line::new().styled(Style::new().fg_color(Some(colour(part))), "█"),
        (_, true) => Line::new().styled(style(part, look), letter(part).to_string()),
        (false, false) => Line::new(),
    }
}

/// Rows of the chart, the highest first. `highest` is what the highest row reaches up to.
pub fn rows(columns: &[Column], highest: u64, height: usize, look: &Look) -> Vec<Line> {
    let steps = if look.ascii { 1 } else { 8 };
    let filled: Vec<Vec<Part>> = columns.iter().map(|column| fill(column, highest, height * steps)).collect();
    let row = |row: usize| {
        let mut line = Line::new();
        for column in &filled {
            let from = (row * steps).min(column.len());
            let cell = &column[from..(from + steps).min(column.len())];
            line = if look.ascii { letters(line, cell, look) } else { blocks(line, cell, look) };
        }
        line
    };
    (0..height).rev().map(row).collect()
}

/// The parts of a column from the lowest step up. What is more than nothing has a step at least.
fn fill(column: &Column, highest: u64, steps: usize) -> Vec<Part> {
    let scaled = |value: u64| {
        let exact = u128::from(value.min(highest)) * steps as u128;
        (exact + u128::from(highest / 2)).checked_div(u128::from(highest)).unwrap_or(0) as usize
    };
    let top = scaled(column.value).max(usize::from(column.value > 0)).min(steps);
    let mut filled = vec![None; top];
    let (mut sum, mut from) = (0u64, 0);
    for (index, part) in column.parts.iter().enumerate() {
        sum = sum.saturating_add(*part);
        let to = scaled(sum).min(top);
        filled[from..to.max(from)].fill(Some(index));
        from = to.max(from);
    }
    filled
}

fn letters(line: Line, cell: &[Part], look: &Look) -> Line {
    match cell.first() {
        Some(&part) => line.styled(style(part, look), letter(part).to_string()),
        None => line.plain(" "),
    }
}

/// A cell of up to eight steps. It has room for two colours: what begins it, and what most of the rest is.
fn blocks(line: Line, cell: &[Part], look: &Look) -> Line {
    const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let Some(&low) = cell.first() else { return line.plain(" ") };
    if !look.colour {
        return line.plain(EIGHTHS[cell.len()]);
    }
    let split = cell.iter().position(|part| *part != low).unwrap_or(cell.len());
    let style = Style::new().fg_color(Some(colour(low)));
    let above = &cell[split..];
    let Some(most) = above.iter().max_by_key(|part| above.iter().filter(|p| p == part).count()) else {
        return line.styled(style, EIGHTHS[split]);
    };
    if cell.len() < 8 {
        // The cell's end is the column's: a background would fill it up.
        let larger = if above.len() > split { *most } else { low };
        return line.styled(Style::new().fg_color(Some(colour(larger))), EIGHTHS[cell.len()]);
    }
    line.styled(style.bg_color(Some(colour(*most))), EIGHTHS[split])
}

fn colour(part: Part) -> Color {
    let index = part.map_or(REST, |part| COLOURS[part % COLOURS.len()]);
    Ansi256Color(index).into()
}

fn style(part: Part, look: &Look) -> Style {
    if look.colour { Style::new().fg_color(Some(colour(part))) } else { Style::new() }
}

fn letter(part: Part) -> char {
    part.map_or('.', |part| char::from(b'A' + (part % 26) as u8))
}

#[cfg(test)]
mod tests {
    use super::{Column, key, rows};
    use crate::output::text::{Look, Page};

    fn drawn(columns: &[Column], highest: u64, height: usize, look: Look) -> String {
        let mut page = Page::new(look);
        rows(columns, highest, height, &look).into_iter().for_each(|line| page.line(line));
        page.into_text()
    }

    fn column(value: u64, parts: &[u64]) -> Column {
        Column { value, parts: parts.to_vec() }
    }

    #[test]
    fn columns_are_as_high_as_their_values() {
        let values: Vec<_> = (0..=16).map(|value| column(value, &[])).collect();
        let text = drawn(&values, 16, 2, Look::default());
        assert_eq!(text, "         ▁▂▃▄▅▆▇█\n ▁▂▃▄▅▆▇█████████\n");
        let tiny = [column(1, &[]), column(0, &[]), column(u64::MAX, &[])];
        assert_eq!(drawn(&tiny, u64::MAX, 2, Look::default()), "  █\n▁ █\n");
        assert_eq!(drawn(&tiny, 0, 1, Look::default()), "▁ ▁\n");
        assert_eq!(drawn(&[], 7, 1, Look::default()), "\n");
    }

    #[test]
    fn parts_have_letters_where_there_are_no_blocks() {
        let look = Look { ascii: true, ..Look::default() };
        let columns = [column(4, &[2, 1]), column(3, &[0, 3]), column(1, &[1, 0]), column(2, &[])];
        assert_eq!(drawn(&columns, 4, 4, look), ".\nBB\nAB .\nABA.\n");
        let line = key(Some(1), &look);
        let mut page = Page::new(look);
        page.line(line);
        page.line(key(None, &look));
        assert_eq!(page.into_text(), "B\n.\n");
    }

    #[test]
    fn parts_have_colours_and_a_cell_has_two_of_them() {
        let look = Look { colour: true, ..Look::default() };
        // Three eighths of the first part, the others of the second.
        let text = drawn(&[column(8, &[3, 5])], 8, 1, look);
        assert_eq!(text, "\u{1b}[38;5;33m\u{1b}[48;5;208m▃\u{1b}[0m\n");
        // The end of a column has the colour of what most of it is.
        let text = drawn(&[column(6, &[2, 4])], 8, 1, look);
        assert_eq!(text, "\u{1b}[38;5;208m▆\u{1b}[0m\n");
        let text = drawn(&[column(8, &[])], 8, 1, look);
        assert_eq!(text, "\u{1b}[38;5;245m█\u{1b}[0m\n");
    }
}
