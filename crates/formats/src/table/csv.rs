//! Comma-separated values, as RFC 4180 has them.

use std::borrow::Cow;
use std::io::{self, Write};

use super::{Cell, Column, Rows};
use crate::frames::plain;

/// Writes rows. Texts of a list are joined by line ends. A text that a spreadsheet would take for a formula gets an
/// apostrophe in front: names are data.
pub struct Csv<W> {
    out: W,
    line: String,
}

impl<W: Write> Csv<W> {
    /// Writes the names of the columns.
    pub fn new(columns: &[Column], mut out: W) -> io::Result<Self> {
        let names: Vec<_> = columns.iter().map(|column| column.name).collect();
        writeln!(out, "{}\r", names.join(","))?;
        Ok(Self { out, line: String::new() })
    }

    fn text(&mut self, text: &str) {
        let text = harmless(text);
        if text.contains([',', '"', '\n', '\r']) {
            self.line.push('"');
            self.line.push_str(&text.replace('"', "\"\""));
            self.line.push('"');
        } else {
            self.line.push_str(&text);
        }
    }
}

/// Adds an apostrophe to a cell that Excel, LibreOffice and Google's sheets would compute.
fn harmless(text: &str) -> Cow<'_, str> {
    match text.trim_start().starts_with(['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}']) {
        true => Cow::Owned(format!("'{text}")),
        false => Cow::Borrowed(text),
    }
}

impl<W: Write> Rows for Csv<W> {
    fn row(&mut self, cells: Vec<Cell>) -> io::Result<()> {
        self.line.clear();
        for (index, cell) in cells.iter().enumerate() {
            if index > 0 {
                self.line.push(',');
            }
            match cell {
                Cell::Empty => {}
                Cell::Number(number) => self.line.push_str(&number.to_string()),
                Cell::Text(text) => self.text(&plain(text)),
                Cell::Texts(texts) => {
                    let texts: Vec<_> = texts.iter().map(|text| plain(text)).collect();
                    self.text(&texts.join("\n"));
                }
                Cell::Truth(truth) => self.line.push_str(if *truth { "true" } else { "false" }),
            }
        }
        self.line.push_str("\r\n");
        self.out.write_all(self.line.as_bytes())
    }

    fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cell, Kind, Rows};
    use super::*;

    #[test]
    fn names_are_data() {
        let columns = [Column { name: "a", kind: Kind::Text }, Column { name: "b", kind: Kind::Texts }];
        let mut out = Vec::new();
        let mut csv = Csv::new(&columns, &mut out).expect("begins");
        let text = |text: &str| Cell::Text(text.to_owned().into());
        for cells in [
            vec![text("plain"), Cell::Empty],
            vec![text("f(int, \"x\")"), Cell::Texts(vec!["f".to_owned(), "g\nh".to_owned()])],
            vec![text("=1+1"), Cell::Texts(vec!["-[NSObject init]".to_owned()])],
            vec![text(" @SUM(A1)"), Cell::Texts(vec!["\t=x\u{1b}[2J".to_owned()])],
            vec![text("operator+"), Cell::Number(7)],
        ] {
            csv.row(cells).expect("written");
        }
        csv.finish().expect("ends");
        let expected = "a,b\r\nplain,\r\n\"f(int, \"\"x\"\")\",\"f\ng h\"\r\n'=1+1,'-[NSObject init]\r\n' @SUM(A1),' =x [2J\r\noperator+,7\r\n";
        assert_eq!(String::from_utf8(out).expect("text"), expected);
    }
}
