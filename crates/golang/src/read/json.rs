//! What `-json=0,DIR` writes: a file of lines for each source.

use serde::Deserialize;

use super::block::{Block, MessageSubject, innermost};
use super::diagnostics::{ReadError, UnknownLines};
use super::line::{self, Line};
use super::paths;
use crate::model::{FlowStep, Position};

/// Version of the JSON that is known here.
const VERSION: u64 = 0;
/// Lines before those of the source in what cgo makes of it.
const CGO_HEADER: u32 = 3;
/// Lines are as long as the escape flows in them; nobody wrote a source for these.
const LONGEST_LINE: usize = 64 << 20;

#[derive(Deserialize)]
struct Header {
    version: u64,
    file: String,
}

#[derive(Deserialize)]
struct Entry {
    range: Range,
    code: String,
    #[serde(default)]
    message: String,
    #[serde(default, rename = "relatedInformation")]
    related: Vec<Related>,
}

#[derive(Deserialize)]
struct Range {
    start: Start,
}

#[derive(Deserialize)]
struct Start {
    line: u32,
    character: u32,
}

#[derive(Deserialize)]
struct Related {
    location: Location,
    message: String,
}

#[derive(Deserialize)]
struct Location {
    uri: String,
    range: Range,
}

#[derive(Default)]
pub struct Json {
    /// Sources of the package's own that something is said of.
    pub files: Vec<String>,
    pub blocks: Vec<Block>,
    /// Positions of expressions that are allocated in the heap; variables are not among these.
    pub decided: Vec<Vec<Position>>,
}

impl Json {
    pub fn positions(&mut self, mut each: impl FnMut(&mut Position)) {
        self.blocks.iter_mut().for_each(|block| block.positions(&mut each));
        self.decided.iter_mut().flatten().for_each(each);
    }
}

pub fn read(text: &str, found: &mut Json, counted: &mut UnknownLines) -> Result<(), ReadError> {
    let mut lines = text.lines().enumerate();
    let (_, first) = lines.next().ok_or_else(|| ReadError::new(0, "it is empty"))?;
    let header: Header = serde_json::from_str(first).map_err(|error| ReadError::new(1, &error))?;
    if header.version != VERSION {
        let what = format!("its version is {}, known is {VERSION}", header.version);
        return Err(ReadError::new(1, &what));
    }
    found.files.push(header.file.clone());
    for (index, line) in lines {
        if line.len() > LONGEST_LINE {
            return Err(ReadError::new(index + 1, "the line is too long"));
        }
        let entry: Entry = serde_json::from_str(line).map_err(|error| ReadError::new(index + 1, &error))?;
        take(entry, &header.file, found, counted);
    }
    Ok(())
}

fn take(entry: Entry, file: &str, found: &mut Json, counted: &mut UnknownLines) {
    let outermost = entry.range.start.at(file.to_owned());
    match entry.code.as_str() {
        "escape" | "escapes" if entry.message.is_empty() => found.decided.push(positions(outermost, &entry.related).0),
        "escape" | "escapes" | "leak" => {
            let subject = match line::message(&entry.message) {
                Some(Line::Escapes(what)) => MessageSubject::Allocation(what.to_owned()),
                Some(Line::Leak { parameter, to, derefs, .. }) => {
                    MessageSubject::Leak { parameter: parameter.to_owned(), to: to.to_owned(), derefs }
                }
                _ => return counted.pass_over(&entry.message),
            };
            let (at, mut rest) = positions(outermost.clone(), &entry.related);
            let mut block = Block { at, ..Block::new(outermost, subject, None) };
            while let Some((one, others)) = rest.split_first() {
                let parsed = one.message.strip_prefix("escflow: ").and_then(line::message);
                let (at, after) = positions(one.location.range.start.at(paths::of_uri(&one.location.uri)), others);
                rest = after;
                match parsed {
                    Some(Line::Flow { to, from }) => block.flows.push(format!("{to} ← {from}")),
                    Some(Line::From { expression, how, .. }) => {
                        let (position, inlined_at) = innermost(&at);
                        let flow = block.flows.last().cloned().unwrap_or_default();
                        let (how, expression) = (how.to_owned(), expression.to_owned());
                        block.steps.push(FlowStep {
                            position,
                            inlined_at,
                            flow,
                            how,
                            expression,
                            callee: None,
                            unknown_callee: false,
                        });
                    }
                    _ => counted.pass_over(&one.message),
                }
            }
            found.blocks.push(block);
        }
        // Known by name: what is inlined, and which tests the program makes.
        "canInlineFunction"
        | "cannotInlineFunction"
        | "cannotInlineCall"
        | "inlineCall"
        | "nilcheck"
        | "isInBounds"
        | "isSliceInBounds"
        | "copy" => {}
        code if code.starts_with("iteration-variable-to-") || code.starts_with("loop-modified-") => {}
        code => counted.pass_over(code),
    }
}

/// A position with those that it was inlined from, which come after it.
fn positions(outermost: Position, related: &[Related]) -> (Vec<Position>, &[Related]) {
    let inner = related.iter().take_while(|related| related.message == "inlineLoc");
    let mut at = vec![outermost];
    at.extend(inner.map(|inner| inner.location.range.start.at(paths::of_uri(&inner.location.uri))));
    let rest = &related[at.len() - 1..];
    (at, rest)
}

impl Start {
    fn at(&self, file: String) -> Position {
        // What cgo rewrote begins with lines of its own, and has the source's own lines behind them.
        let own = if paths::before_cgo(&file).is_some() { CGO_HEADER } else { 0 };
        Position { file, line: self.line.saturating_sub(own), column: self.character }
    }
}
