//! An explanation of the compiler, before it is known what came of it.

use crate::model::{FlowStep, Position};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MessageSubject {
    /// Why an expression, or a variable, is in the heap.
    Allocation(String),
    /// Flow of a parameter out of its function.
    Leak { parameter: String, to: String, derefs: u32 },
}

#[derive(Clone, Debug)]
pub struct Block {
    /// The outermost position first: where the function that was compiled has it, then into the inlined bodies.
    pub at: Vec<Position>,
    pub subject: MessageSubject,
    pub function: Option<String>,
    /// `at` has all positions, not the outermost one alone.
    pub placed: bool,
    pub flows: Vec<String>,
    pub steps: Vec<FlowStep>,
}

impl Block {
    pub fn new(position: Position, subject: MessageSubject, function: Option<&str>) -> Self {
        let function = function.map(str::to_owned);
        Self { at: vec![position], subject, function, placed: false, flows: Vec::new(), steps: Vec::new() }
    }

    /// Key by which an explanation in text and one in JSON are the same. A position in text has the outermost one
    /// alone, as JSON has it first.
    pub fn key(&self) -> (&Position, &MessageSubject, &[String]) {
        (&self.at[0], &self.subject, &self.flows)
    }

    /// All positions: its own, and those of its steps.
    pub fn positions(&mut self, mut each: impl FnMut(&mut Position)) {
        self.at.iter_mut().for_each(&mut each);
        for step in &mut self.steps {
            each(&mut step.position);
            step.inlined_at.iter_mut().for_each(&mut each);
        }
    }

    /// Position of the code, and the calls that inlined it, the innermost first.
    pub fn innermost(&self) -> (Position, Vec<Position>) {
        innermost(&self.at)
    }
}

/// Positions from the outermost inward, the other way round.
pub fn innermost(at: &[Position]) -> (Position, Vec<Position>) {
    let mut outward = at.iter().rev().cloned();
    (outward.next().unwrap_or_default(), outward.collect())
}
