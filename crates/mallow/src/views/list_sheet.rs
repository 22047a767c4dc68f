//! The rows of `mallow list`: numbers, line or address, text.

use mallow_profile::Quantity;
use mallow_report::analysis::{List, ListFunction, ListLine, Measure, Shown, Totals};

use super::list_code::{Block, Body, Row, around};
use crate::output::text::units::{bytes, count, percent};
use crate::output::text::{Align, Line, Look, Page, Table, amount, function, location};

/// A pair of columns: self and cum of a number.
pub struct Column {
    titles: [&'static str; 2],
    of: fn(&Totals) -> u64,
    bytes: bool,
}

/// Columns of number and size for a measure: both where there is room and both are known.
pub fn columns(by: Measure, look: &Look, has: &dyn Fn(Quantity) -> bool) -> Vec<Column> {
    type Number = (Quantity, fn(&Totals) -> u64);
    let (blocks, size): (Number, Number) = match by {
        Measure::Allocations | Measure::Bytes => {
            ((Quantity::Allocations, |t| t.allocations), (Quantity::AllocatedBytes, |t| t.allocated_bytes))
        }
        Measure::Peak => ((Quantity::Peak, |t| t.peak), (Quantity::PeakBytes, |t| t.peak_bytes)),
        Measure::Live => ((Quantity::Live, |t| t.live), (Quantity::LiveBytes, |t| t.live_bytes)),
        Measure::Temporary => {
            ((Quantity::Temporary, |t| t.temporary), (Quantity::TemporaryBytes, |t| t.temporary_bytes))
        }
    };
    const WIDE: usize = 100;
    let narrow = look.width.is_some_and(|width| width < WIDE);
    let mut columns = Vec::new();
    if has(blocks.0) && (!by.is_bytes() || !narrow) {
        columns.push(Column { titles: ["self", "cum"], of: blocks.1, bytes: false });
    }
    if has(size.0) && (by.is_bytes() || !narrow) {
        columns.push(Column { titles: ["self bytes", "cum bytes"], of: size.1, bytes: true });
    }
    columns
}

pub struct Columns<'a, T> {
    pub titles: Vec<&'static str>,
    /// Cells of self and cum; empty ones where there are none.
    pub cells: Box<Cells<'a, T>>,
    /// The self of rows that are left out, in words.
    pub self_sums: Box<dyn Fn(&T) -> String + 'a>,
    /// The part of the whole that a function's cum is, in words.
    pub share: Box<dyn Fn(&T) -> String + 'a>,
}

pub type Cells<'a, T> = dyn Fn(Option<(&T, &T)>) -> Vec<Line> + 'a;

impl<'a> Columns<'a, Totals> {
    pub fn of(columns: &'a [Column], report: &List, look: &'a Look) -> Self {
        let by = report.by;
        let total = by.of(&report.totals);
        let cell = |column: &Column, totals: &Totals| match (column.of)(totals) {
            0 => Line::new().faint("."),
            n if column.bytes => Line::new().plain(bytes(n, look.exact)),
            n => Line::new().plain(count(n)),
        };
        let cells = move |numbers: Option<(&Totals, &Totals)>| {
            let cells = columns.iter().map(|column| match numbers {
                Some((self_sums, cum)) => [cell(column, self_sums), cell(column, cum)],
                None => [Line::new(), Line::new()],
            });
            cells.flatten().collect()
        };
        let titles = columns.iter().flat_map(|c| c.titles).collect();
        let self_sums = move |sums: &Totals| amount(by, by.of(sums), look);
        let share = move |cum: &Totals| format!(" cum {}", percent(by.of(cum), total));
        Self { titles, cells: Box::new(cells), self_sums: Box::new(self_sums), share: Box::new(share) }
    }
}

pub struct Sheet<'a, T> {
    by: Measure,
    table: Table,
    columns: &'a Columns<'a, T>,
    look: &'a Look,
}

impl<'a, T: Shown> Sheet<'a, T> {
    /// A sheet that has only the titles of its columns.
    pub fn new(by: Measure, columns: &'a Columns<'a, T>, look: &'a Look) -> Self {
        let mut align = vec![Align::Right; columns.titles.len() + 1];
        align.push(Align::Left);
        let mut table = Table::new(&align);
        table.row(columns.titles.iter().copied().chain(["", ""]).map(|t| Line::new().faint(t)));
        Self { by, table, columns, look }
    }

    pub fn function(&mut self, function: &ListFunction<T>, body: &Body) {
        self.function_row(function);
        match body {
            Body::Source(lines) => self.source(function, lines),
            Body::Code(blocks) => self.code(function, blocks),
            Body::Lines => self.lines(&function.lines),
        }
    }

    pub fn separator(&mut self) {
        self.table.row([]);
    }

    pub fn onto(self, page: &mut Page) {
        self.table.onto(page);
    }

    fn row(&mut self, numbers: Option<(&T, &T)>, place: Line, text: Line) {
        let mut cells = (self.columns.cells)(numbers);
        cells.extend([place, text]);
        self.table.row(cells);
    }

    fn gap(&mut self) {
        self.row(None, Line::new().faint("…"), Line::new());
    }

    fn function_row(&mut self, f: &ListFunction<T>) {
        let mut name = Line::new().strong_name(function(&f.function, self.look));
        if f.counts_lines_twice(self.by) {
            name = name.faint(" ↻");
        }
        let at = location(&f.function, f.file.as_deref(), None, f.module.as_deref(), self.look);
        if !at.is_empty() {
            name = name.plain(" ").faint(at);
        }
        let share = (self.columns.share)(&f.cum);
        self.row(Some((&f.self_sums, &f.cum)), Line::new(), name.faint(share));
    }

    fn source(&mut self, f: &ListFunction<T>, source: &[String]) {
        let has = |line: &ListLine<T>| !line.gone && line.line.is_some_and(|n| n as usize <= source.len());
        let (known, bare): (Vec<_>, Vec<_>) = f.lines.iter().cloned().partition(has);
        self.lines(&bare);
        let known: Vec<_> = known.into_iter().filter(|line| self.counts(line)).collect();
        let numbers: Vec<usize> = known.iter().filter_map(|line| line.line).map(|n| n as usize).collect();
        let blank = |n: usize| source[n - 1].trim().is_empty();
        let parts: Vec<_> = around(&numbers, 1, source.len() + 1)
            .into_iter()
            .map(|mut part| {
                // The lines with numbers stay, blank or not.
                let counted = |n: usize| numbers.binary_search(&n).is_ok();
                while part.start < part.end && blank(part.start) && !counted(part.start) {
                    part.start += 1;
                }
                while part.start < part.end && blank(part.end - 1) && !counted(part.end - 1) {
                    part.end -= 1;
                }
                part
            })
            .collect();
        // Code that is nested deeply has its room to the left.
        let shown = || parts.iter().flat_map(|part| part.clone()).map(|n| source[n - 1].as_str());
        let blanks = |text: &str| text.len() - text.trim_start_matches(' ').len();
        let margin = shown().filter(|text| !text.trim().is_empty()).map(blanks).min().unwrap_or(0);
        let mut known = known.into_iter().peekable();
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                self.gap();
            }
            for number in part.clone() {
                let text = source[number - 1].get(margin..).unwrap_or_default();
                let place = Line::new().faint(number.to_string());
                match known.next_if(|line| line.line == Some(number as u32)) {
                    Some(line) => {
                        self.row(Some((&line.self_sums, &line.cum)), place, Line::new().plain(text));
                        let indent = text.len() - text.trim_start().len();
                        for reason in &line.reasons {
                            self.row(
                                None,
                                Line::new(),
                                Line::new().strong(format!("{}↑ {reason}", " ".repeat(indent))),
                            );
                        }
                    }
                    None => self.row(None, place, Line::new().faint(text)),
                }
            }
        }
    }

    /// Whether the line has a number above 0 of the measure.
    fn counts(&self, line: &ListLine<T>) -> bool {
        line.cum.rank(self.by) > 0 || line.self_sums.rank(self.by) > 0
    }

    fn lines(&mut self, lines: &[ListLine<T>]) {
        let counted: Vec<_> = lines.iter().filter(|line| self.counts(line)).collect();
        for line in counted {
            let (place, text) = match line.line {
                Some(number) if line.gone => (number.to_string(), "(a line of BEFORE)"),
                Some(number) => (number.to_string(), ""),
                None => ("?".to_owned(), "(no line is known)"),
            };
            self.row(Some((&line.self_sums, &line.cum)), Line::new().faint(place), Line::new().faint(text));
        }
    }

    fn code(&mut self, f: &ListFunction<T>, blocks: &[Block]) {
        for block in blocks {
            if let Some(inside) = &block.inside {
                let inside = function(inside, self.look);
                self.row(None, Line::new(), Line::new().faint(format!("in {inside}:")));
            }
            for row in &block.rows {
                match row {
                    Row::Gap => self.gap(),
                    Row::Instruction { address, text, target, counted } => {
                        let place = Line::new().faint(address);
                        let target = target.as_ref().map(|name| format!(" <{}>", function(name, self.look)));
                        let target = target.unwrap_or_default();
                        let Some(i) = counted.and_then(|index| f.instructions.get(index)) else {
                            self.row(None, place, Line::new().faint(text).faint(target));
                            continue;
                        };
                        let line = i.line.map(|_| location("", f.file.as_deref(), i.line, None, self.look));
                        let line = line.map_or(String::new(), |line| format!("  # {line}"));
                        self.row(
                            Some((&i.self_sums, &i.cum)),
                            place,
                            Line::new().plain(text).plain(target).faint(line),
                        );
                    }
                }
            }
        }
    }
}
