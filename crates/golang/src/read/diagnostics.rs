//! What the compiler says of a package, and what of it was not understood.

use serde::Serialize;

use crate::model::{Diagnostic, FlowStep, Position};

const EXAMPLES: usize = 5;

#[derive(Debug, Default)]
pub struct Diagnostics {
    /// Each allocation once, and what is not in the heap.
    pub list: Vec<Diagnostic>,
    /// Flows of parameters out of their functions.
    pub leaks: Vec<Leak>,
    /// Calls whose bodies are inside of their callers.
    pub inlined: Vec<InlinedCall>,
    /// Number of lines that are not known.
    pub passed_over: u64,
    /// The first few lines that are not known.
    pub examples: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Leak {
    pub package: String,
    /// The function of the parameter, as the compiler names it.
    pub function: Option<String>,
    pub parameter: String,
    /// `{heap}`, a result's name, or `{storage for …}`.
    pub to: String,
    /// 0: itself; 1: what it refers to; and so on.
    pub derefs: u32,
    pub position: Position,
    /// Escape flow of the parameter.
    pub flow: Vec<FlowStep>,
}

/// A call whose body is inside of its caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InlinedCall {
    /// The outermost one: code that is inlined twice is at the outer call.
    pub position: Position,
    /// The function, as the compiler names it.
    pub callee: String,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the compiler's JSON makes no sense at line {line}: {what}")]
pub struct ReadError {
    line: usize,
    what: String,
}

impl ReadError {
    pub(super) fn new(line: usize, what: &(impl ToString + ?Sized)) -> Self {
        Self { line, what: what.to_string() }
    }
}

#[derive(Default)]
pub(super) struct UnknownLines {
    pub passed_over: u64,
    pub examples: Vec<String>,
}

impl UnknownLines {
    pub fn pass_over(&mut self, line: &str) {
        const LONGEST: usize = 200;
        self.passed_over += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(line.chars().take(LONGEST).collect());
        }
    }
}
