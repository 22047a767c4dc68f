//! What `-m=2` prints.

use super::block::{Block, MessageSubject};
use super::diagnostics::{InlinedCall, UnknownLines};
use super::line::{self, Line};
use super::paths;
use crate::model::{FlowStep, Position, Verdict};
use crate::names::without_types;

/// Final verdict on an expression or a variable.
pub struct Last {
    pub position: Position,
    pub what: String,
    pub verdict: Verdict,
}

/// Functions that call each other, which the compiler looks at together: first the escape flows, then what it decided.
#[derive(Default)]
pub struct Batch {
    pub blocks: Vec<Block>,
    pub last: Vec<Last>,
}

#[derive(Default)]
pub struct Text {
    pub batches: Vec<Batch>,
    pub inlined: Vec<InlinedCall>,
    /// First positions of the package's functions, closures left out.
    pub functions: Vec<(Position, String)>,
}

/// Reads it. Relative names start at `directory`.
pub fn read(text: &str, directory: &str, counted: &mut UnknownLines) -> Text {
    let mut found = Text::default();
    let mut batch = Batch::default();
    let mut flow = String::new();
    // Whether flows belong to the last block.
    let mut open = false;
    for line in text.lines() {
        // Of the Go tool: which package this is.
        if line.is_empty() || line.starts_with("# ") {
            continue;
        }
        // Of what is nowhere in the source the last word has no place at all.
        let (file, number, column, message) = line::placed(line).unwrap_or((line::NOWHERE, 0, 0, line));
        let position = || Position { file: paths::absolute(directory, file), line: number, column };
        let Some(message) = line::message(message) else {
            counted.pass_over(line);
            continue;
        };
        match message {
            Line::Escape { what, function } => {
                begin(&mut batch, &mut found.batches);
                batch.blocks.push(Block::new(position(), MessageSubject::Allocation(what.to_owned()), function));
                open = true;
            }
            Line::Leak { parameter, to, function, derefs } => {
                begin(&mut batch, &mut found.batches);
                let subject = MessageSubject::Leak { parameter: parameter.to_owned(), to: to.to_owned(), derefs };
                batch.blocks.push(Block::new(position(), subject, function));
                open = true;
            }
            Line::Flow { to, from } if open => {
                flow = format!("{to} ← {from}");
                if let Some(block) = batch.blocks.last_mut() {
                    block.flows.push(flow.clone());
                }
            }
            Line::From { expression, how, at: Some(at) } if open => {
                let Some((file, line, column)) = line::place(at) else {
                    counted.pass_over(text_of(expression, how));
                    continue;
                };
                let step = FlowStep {
                    position: Position { file: paths::absolute(directory, file), line, column },
                    inlined_at: Vec::new(),
                    flow: flow.clone(),
                    how: how.to_owned(),
                    expression: expression.to_owned(),
                    callee: None,
                    unknown_callee: false,
                };
                if let Some(block) = batch.blocks.last_mut() {
                    block.steps.push(step);
                }
            }
            Line::Flow { .. } | Line::From { .. } => counted.pass_over(line),
            Line::Truncated => {}
            Line::Escapes(what) => batch.last.push(last(position(), what, Verdict::Escapes)),
            Line::Moved(what) => batch.last.push(last(position(), what, Verdict::Moved)),
            Line::Stays(what) => batch.last.push(last(position(), what, Verdict::DoesNotEscape)),
            Line::Inlined(callee) => {
                found.inlined.push(InlinedCall { position: position(), callee: callee.to_owned() });
            }
            Line::Function(name) => {
                if !closure(name) {
                    found.functions.push((position(), name.to_owned()));
                }
            }
            Line::Unrelated => {}
        }
    }
    found.batches.push(batch);
    found.functions.sort();
    found
}

/// Flows after decisions are those of the next functions.
fn begin(batch: &mut Batch, batches: &mut Vec<Batch>) {
    if !batch.last.is_empty() {
        batches.push(std::mem::take(batch));
    }
}

fn last(position: Position, what: &str, verdict: Verdict) -> Last {
    Last { position, what: what.to_owned(), verdict }
}

fn text_of<'a>(expression: &'a str, how: &'a str) -> &'a str {
    if expression.is_empty() { how } else { expression }
}

/// The name of a function literal: `F.func1`, `F.func1.2`, `glob..func1`, `F-range1`.
fn closure(name: &str) -> bool {
    let last = name.rsplit(']').next().unwrap_or(name);
    let numbered = |mark: &str| {
        last.match_indices(mark).any(|(at, _)| last[at + mark.len()..].starts_with(|c: char| c.is_ascii_digit()))
    };
    numbered(".func") || numbered("-range") || numbered(".gowrap") || numbered(".deferwrap")
}

impl Text {
    pub fn positions(&mut self, mut each: impl FnMut(&mut Position)) {
        for batch in &mut self.batches {
            batch.blocks.iter_mut().for_each(|block| block.positions(&mut each));
            batch.last.iter_mut().for_each(|last| each(&mut last.position));
        }
        self.inlined.iter_mut().for_each(|call| each(&mut call.position));
        self.functions.iter_mut().for_each(|(begin, _)| each(begin));
        self.functions.sort();
    }

    /// The function that has this line, from where functions begin. Instances of a generic function begin at the
    /// same place: their types are left out.
    pub fn function(&self, at: &Position) -> Option<String> {
        let after = self.functions.partition_point(|(begin, _)| begin <= at);
        let last = after.checked_sub(1)?;
        let (begin, name) = self.functions.get(last).filter(|(begin, _)| begin.file == at.file)?;
        let another = last.checked_sub(1).is_some_and(|other| self.functions[other].0 == *begin);
        Some(if another { without_types(name) } else { name.clone() })
    }
}
