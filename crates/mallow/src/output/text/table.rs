//! Columns.

use super::page::{Line, Page};

/// Side of a column to which cells are aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows of cells; a column is as wide as its widest cell. The last column gives way where the terminal is narrow.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Align>,
    rows: Vec<Vec<Line>>,
}

impl Table {
    pub fn new(columns: &[Align]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; cells that are missing are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Line>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Puts the table onto the page, indented by two columns, with two columns between its own.
    pub fn onto(self, page: &mut Page) {
        let width = |column: usize| self.rows.iter().filter_map(|r| r.get(column)).map(Line::width).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        for row in self.rows {
            let mut line = Line::new();
            let last = row.len();
            for (index, cell) in row.into_iter().enumerate() {
                let (Some(&align), Some(&width)) = (self.columns.get(index), widths.get(index)) else { break };
                let missing = " ".repeat(width - cell.width());
                line = line.plain("  ");
                line = match align {
                    Align::Right => line.plain(missing).then(cell),
                    Align::Left if index + 1 == last => line.then(cell),
                    Align::Left => line.then(cell).plain(missing),
                };
            }
            page.line(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Align, Table};
    use crate::output::text::{Line, Look, Page};

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&[Align::Right, Align::Left, Align::Left]);
        let cell = |text: &str| Line::new().plain(text);
        table.row([cell("1"), cell("a"), cell("first")]);
        table.row([cell("10,000"), cell("größer"), cell("second, and rather long")]);
        table.row([cell("7")]);
        let mut page = Page::new(Look { width: Some(40), ..Look::default() });
        table.onto(&mut page);
        assert_eq!(page.into_text(), "       1  a       first\n  10,000  größer  second, and rather lo…\n       7\n");
    }
}
