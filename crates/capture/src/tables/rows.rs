//! All rows of a section of call frame information, in the order of their addresses.

use super::code;
use super::elf::Elf;
use super::error::TableError;
use super::layout::{CFA_END, FP, RULE_END, RULE_NONE, Rule, SAVED_UNDEFINED};
use super::row::{Converter, Reader, Storage};
use super::stats::TableStats;
use gimli::{BaseAddresses, CieOrFde, CommonInformationEntry, FrameDescriptionEntry, UnwindContext, UnwindSection};
use mallow_arch::context::{self, Context};
use mallow_arch::goroutine;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Bytes of entry code without call frame information that end the walk: the dynamic linker's or musl's `_start`, which
/// nobody calls.
const ENTRY_BYTES: u32 = 64;

/// Rule number `rule` holds from `pc` on, relative to the base, up to the next row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub pc: u32,
    pub rule: u32,
}

/// A function at `start..end`, relative to the base; `rows` are indexes in the list of rows beside its list of spans.
struct Span {
    start: u32,
    end: u32,
    rows: Range<usize>,
}

pub(super) struct Functions {
    spans: Vec<Span>,
    rows: Vec<Row>,
    rules: Vec<Rule>,
}

/// Rules, each held once: a number is an index in `all`.
pub(super) struct Rules {
    pub all: Vec<Rule>,
    index: FxHashMap<Rule, u32>,
    /// The latest rule of each [`slot`]: nearly every row finds its rule here.
    recent: Vec<u32>,
}

const RECENT_BITS: u32 = 12;

/// A hash that differs for most rules that a program has. One multiplication: a chain of them was the slowest step of
/// all.
fn slot(rule: &Rule) -> usize {
    let spread = |sum: u64, field: i32| sum.rotate_left(9).wrapping_add(u64::from(field as u32));
    let hash = rule.offset.into_iter().fold(u64::from(rule.cfa_reg), spread);
    (spread(hash, rule.cfa_offset).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RECENT_BITS)) as usize
}

impl Rules {
    fn new() -> Self {
        let all = vec![Rule::NONE, Rule::END];
        let index = [(Rule::NONE, RULE_NONE), (Rule::END, RULE_END)].into_iter().collect();
        Self { all, index, recent: vec![RULE_NONE; 1 << RECENT_BITS] }
    }

    fn intern(&mut self, rule: &Rule) -> u32 {
        let slot = slot(rule);
        let recent = self.recent[slot];
        if self.all[recent as usize] == *rule {
            return recent;
        }
        let number = *self.index.entry(*rule).or_insert_with(|| {
            self.all.push(*rule);
            (self.all.len() - 1) as u32
        });
        self.recent[slot] = number;
        number
    }
}

/// Where code may be: functions elsewhere are those that the linker dropped.
pub(super) struct Code {
    pub base: u64,
    pub executable: Vec<Range<u64>>,
    pub entry: u64,
}

impl Code {
    /// `start..end` relative to the base; None unless one executable segment has all of it.
    fn relative(&self, start: u64, end: u64) -> Option<Range<u32>> {
        let inside = start < end && self.executable.iter().any(|code| code.start <= start && end <= code.end);
        if !inside {
            return None;
        }
        Some(u32::try_from(start.checked_sub(self.base)?).ok()?..u32::try_from(end.checked_sub(self.base)?).ok()?)
    }
}

/// Reads the functions of a section, one after the other.
pub(super) struct Collector<'a, S> {
    section: &'a S,
    bases: &'a BaseAddresses,
    code: &'a Code,
    spans: Vec<Span>,
    rows: Vec<Row>,
    rules: Rules,
    stats: TableStats,
    /// Bytes of instructions that may still be evaluated: functions share the common part, so that a small hostile file
    /// could ask for much work.
    work_left: u64,
}

impl<'a, 'data, S: UnwindSection<Reader<'data>>> Collector<'a, S> {
    pub fn new(section: &'a S, bases: &'a BaseAddresses, code: &'a Code, section_bytes: usize) -> Self {
        Self {
            section,
            bases,
            code,
            spans: Vec::new(),
            rows: Vec::new(),
            rules: Rules::new(),
            stats: TableStats::default(),
            work_left: 32 * section_bytes as u64 + (1 << 20),
        }
    }

    /// The rows of the section, and of the code that it leaves out: sorted, without overlaps or repetitions, beginning
    /// at 0. And their rules.
    pub fn collect(mut self, elf: &Elf<'_>) -> Result<(Vec<Row>, Rules, TableStats), TableError> {
        self.read()?;
        self.entry();
        self.sort();
        self.async_functions(elf);
        self.analyze(elf);
        self.sort();
        self.goroutines(elf);
        self.sort();
        let rows = self.merge();
        self.stats.rows = rows.len();
        self.stats.rules = self.rules.all.len();
        Ok((rows, self.rules, self.stats))
    }

    pub fn functions(mut self) -> Result<Functions, TableError> {
        self.read()?;
        Ok(Functions { spans: self.spans, rows: self.rows, rules: self.rules.all })
    }

    /// Adds functions of Go. Their call frame information leaves out where the frame pointer is: no rule has it then.
    pub fn add_go(&mut self, functions: &Functions) {
        for span in &functions.spans {
            let first = self.rows.len();
            for row in functions.rows.get(span.rows.clone()).unwrap_or_default() {
                let mut rule = functions.rules.get(row.rule as usize).copied().unwrap_or(Rule::NONE);
                if rule.cfa_kind > CFA_END {
                    rule.kind[FP] = SAVED_UNDEFINED;
                }
                self.rows.push(Row { pc: row.pc, rule: self.rules.intern(&rule) });
            }
            self.spans.push(Span { start: span.start, end: span.end, rows: first..self.rows.len() });
            self.stats.functions += 1;
        }
    }

    fn read(&mut self) -> Result<(), TableError> {
        let mut context = UnwindContext::<usize, Storage>::new_in();
        let mut entries = self.section.entries(self.bases);
        let mut cie: Option<(S::Offset, CommonInformationEntry<Reader<'data>>)> = None;
        while let Some(entry) = entries.next()? {
            let CieOrFde::Fde(partial) = entry else { continue };
            let parsed = partial.parse(|section, bases, offset| {
                if let Some((known, cie)) = &cie
                    && *known == offset
                {
                    return Ok(cie.clone());
                }
                let parsed = section.cie_from_offset(bases, offset)?;
                cie = Some((offset, parsed.clone()));
                Ok(parsed)
            });
            match parsed {
                Ok(fde) => self.function(&fde, &mut context)?,
                Err(_) => self.stats.unreadable_functions += 1,
            }
        }
        Ok(())
    }

    fn function(
        &mut self,
        fde: &FrameDescriptionEntry<Reader<'data>>,
        context: &mut UnwindContext<usize, Storage>,
    ) -> Result<(), TableError> {
        let Some(range) = self.code.relative(fde.initial_address(), fde.end_address()) else {
            self.stats.functions_elsewhere += 1;
            return Ok(());
        };
        let cie = fde.cie();
        let work = (cie.entry_len() + fde.entry_len()) as u64;
        self.work_left = self.work_left.checked_sub(work).ok_or(TableError::TooLarge)?;

        let converter =
            Converter { section: self.section, encoding: cie.encoding(), signal_frame: cie.is_signal_trampoline() };
        let first = self.rows.len();
        let mut pc = range.start;
        let mut readable = false;
        if let Ok(mut table) = fde.rows(self.section, self.bases, context) {
            readable = loop {
                let row = match table.next_row() {
                    Ok(Some(row)) => row,
                    Ok(None) => break true,
                    Err(_) => break false,
                };
                let rule = converter.rule(row);
                let end = row.end_address().saturating_sub(self.code.base);
                let end = u32::try_from(end).unwrap_or(range.end).min(range.end);
                if end <= pc {
                    continue;
                }
                self.stats.unrepresentable_rows += usize::from(rule.is_none());
                let rule = rule.unwrap_or(Rule::NONE);
                self.rows.push(Row { pc, rule: self.rules.intern(&rule) });
                pc = end;
            };
        }
        if pc < range.end {
            self.rows.push(Row { pc, rule: RULE_NONE });
        }
        self.stats.functions += 1;
        self.stats.unreadable_functions += usize::from(!readable);
        self.spans.push(Span { start: range.start, end: range.end, rows: first..self.rows.len() });
        Ok(())
    }

    /// Ends walks in entry code that no function of the section has, for [`ENTRY_BYTES`] at the most.
    fn entry(&mut self) {
        let Some(Range { start, .. }) = self.code.relative(self.code.entry, self.code.entry.saturating_add(1)) else {
            return;
        };
        if self.code.entry == 0 || self.spans.iter().any(|span| span.start <= start && start < span.end) {
            return;
        }
        let next = self.spans.iter().map(|span| span.start).filter(|&next| next > start).min();
        let end = start.saturating_add(ENTRY_BYTES).min(next.unwrap_or(u32::MAX));
        self.rows.push(Row { pc: start, rule: RULE_END });
        self.spans.push(Span { start, end, rows: self.rows.len() - 1..self.rows.len() });
    }

    fn sort(&mut self) {
        if !self.spans.is_sorted_by_key(|span| span.start) {
            self.spans.sort_by_key(|span| span.start);
        }
    }

    /// Adds to the rows of Swift's async functions where their context is. `spans` must be in order.
    fn async_functions(&mut self, elf: &Elf<'_>) {
        let base = self.code.base;
        let by_symbol = elf.async_functions();
        let mut work_left = code::WORK_LIMIT;
        for code in elf.code() {
            let first = self.spans.partition_point(|span| base + u64::from(span.start) < code.start);
            for number in first..self.spans.len() {
                let Span { start, end, .. } = self.spans[number];
                let Some(function) = code.part(base + u64::from(start)..base + u64::from(end)) else { break };
                let relative = |address: u64| u32::try_from(address - base).unwrap_or(u32::MAX);
                if let Some(from) = context::framed_from(function.data) {
                    let from = start.saturating_add(u32::try_from(from).unwrap_or(u32::MAX)).min(end);
                    self.add_contexts(number, &[(from..end, Context::Framed)]);
                } else if by_symbol.binary_search_by_key(&function.start, |function| function.start).is_ok() {
                    let known = code::contexts(&function, &mut work_left);
                    let known = known
                        .into_iter()
                        .map(|known| (relative(known.range.start)..relative(known.range.end).min(end), known.context));
                    self.add_contexts(number, &known.collect::<Vec<_>>());
                }
            }
        }
    }

    /// Splits the rows of a span where contexts begin and end. `contexts` must be in order, not overlap, and lie in the
    /// span.
    fn add_contexts(&mut self, number: usize, contexts: &[(Range<u32>, Context)]) {
        let Span { end, ref rows, .. } = self.spans[number];
        let old = self.rows.get(rows.clone()).unwrap_or_default().to_vec();
        let first = self.rows.len();
        for (i, row) in old.iter().enumerate() {
            let row_end = old.get(i + 1).map_or(end, |next| next.pc);
            let mut pc = row.pc;
            let from = contexts.partition_point(|(range, _)| range.end <= row.pc);
            for (range, context) in contexts[from..].iter().take_while(|(range, _)| range.start < row_end) {
                let (from, to) = (range.start.max(row.pc), range.end.min(row_end));
                if pc < from {
                    self.rows.push(Row { pc, rule: row.rule });
                }
                let rule = context.add_to(self.rules.all[row.rule as usize]);
                self.rows.push(Row { pc: from, rule: self.rules.intern(&rule) });
                pc = to;
            }
            if pc < row_end {
                self.rows.push(Row { pc, rule: row.rule });
            }
        }
        self.spans[number].rows = first..self.rows.len();
    }

    /// Adds rows of the code between the functions of the section. `spans` must be in order.
    fn analyze(&mut self, elf: &Elf<'_>) {
        let base = self.code.base;
        let mut gaps = Vec::new();
        for code in elf.code() {
            let first = self.spans.partition_point(|span| base + u64::from(span.start) < code.start);
            let before = self.spans[..first].iter().rev().take(1);
            let mut from = before.map(|span| base + u64::from(span.end)).max().unwrap_or(0).max(code.start);
            for span in &self.spans[first..] {
                let start = base + u64::from(span.start);
                if start >= code.end() {
                    break;
                }
                gaps.extend(code.part(from..start).filter(|gap| !code::is_padding(gap)));
                from = from.max(base + u64::from(span.end));
            }
            gaps.extend(code.part(from..code.end()).filter(|gap| !code::is_padding(gap)));
        }
        if gaps.is_empty() {
            return;
        }
        for known in code::rules(&gaps, &elf.starts()) {
            let Some(range) = self.code.relative(known.range.start, known.range.end) else { continue };
            let rule = self.rules.intern(&known.rule);
            self.stats.analyzed_instructions += 1;
            match self.spans.last_mut() {
                Some(last) if last.end == range.start && last.rows.end == self.rows.len() => {
                    last.end = range.end;
                    last.rows.end += 1;
                }
                _ => {
                    let rows = self.rows.len()..self.rows.len() + 1;
                    self.spans.push(Span { start: range.start, end: range.end, rows });
                }
            }
            self.rows.push(Row { pc: range.start, rule });
        }
    }

    /// Adds rows where Go's runtime calls C code. `spans` must be in order.
    fn goroutines(&mut self, elf: &Elf<'_>) {
        for call in elf.code().iter().flat_map(|code| goroutine::calls(code.data, code.start)) {
            let Some(range) = self.code.relative(call.return_address - 1, call.return_address) else { continue };
            let rule = self.rules.intern(&call.rule);
            // What follows the call in its function keeps its rules: a span that begins later counts to its own end.
            let around = self.spans.iter().rev().find(|span| span.start <= range.start && range.end < span.end);
            let (end, rows) = around.map_or((range.end, 0..0), |span| (span.end, span.rows.clone()));
            let first = self.rows.len();
            self.rows.push(Row { pc: range.start, rule });
            let later = rows.start + self.rows[rows.clone()].partition_point(|row| row.pc <= range.end);
            if let Some(behind) = self.rows[rows.start..later].last().copied() {
                self.rows.push(Row { pc: range.end, ..behind });
            }
            self.rows.extend_from_within(later..rows.end);
            self.spans.push(Span { start: range.start, end, rows: first..self.rows.len() });
            self.sort();
        }
    }

    fn merge(&self) -> Vec<Row> {
        let mut merged = Merged(Vec::with_capacity(self.rows.len() + 2));
        merged.push(Row { pc: 0, rule: RULE_NONE });
        let mut covered = 0;
        for (i, span) in self.spans.iter().enumerate() {
            // As with the C library's search: of two functions that overlap, the one that begins later counts.
            let end = self.spans.get(i + 1).map_or(span.end, |next| next.start.min(span.end));
            if span.start >= end {
                continue;
            }
            if span.start > covered {
                merged.push(Row { pc: covered, rule: RULE_NONE });
            }
            let rows = self.rows.get(span.rows.clone()).unwrap_or_default();
            rows.iter().take_while(|row| row.pc < end).for_each(|row| merged.push(*row));
            covered = end;
        }
        merged.push(Row { pc: covered, rule: RULE_NONE });
        merged.0
    }
}

/// Rows in order; a row with the rule of the one before is part of it.
struct Merged(Vec<Row>);

impl Merged {
    fn push(&mut self, row: Row) {
        if self.0.last().is_some_and(|last| last.pc == row.pc) {
            self.0.pop();
        }
        if self.0.last().is_none_or(|last| last.rule != row.rule) {
            self.0.push(row);
        }
    }
}
