//! What running a case brings: its figures, its stacks and their reasons.

use mallow_report::analysis::gate::{Measured, Scale, SiteCount};
use serde::Serialize;

#[derive(Debug)]
pub struct CaseRun {
    pub name: String,
    /// Index in [`super::config::Config::programs`].
    pub program: usize,
    /// Figures, or why no verdict is possible.
    pub measured: Result<Measured, String>,
    /// Result of measuring with two numbers of operations.
    pub scale: Option<Scale>,
    /// Warnings for the reader of the figures, a sentence each.
    pub warnings: Vec<String>,
}

/// The stacks of one run of a case.
#[derive(Debug, Default)]
pub struct CaseStacks {
    /// Stacks with their figures.
    pub sites: Vec<SiteCount>,
    /// Why they allocate, where that is known.
    pub reasons: Vec<Reason>,
}

/// An allocation of a benchmark, and its reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reason {
    /// Stack of the allocation, as the explanation has it.
    #[serde(skip)]
    pub stack: Vec<String>,
    /// File and line of the allocation: `stream.go:26`.
    pub place: String,
    /// Allocations of the line, by operation.
    pub allocations: f64,
    /// The expression that allocates.
    pub what: String,
    /// Reason of the allocation in a few words; empty where none is known.
    pub reason: String,
    /// Steps of the escape flow, a text each; empty where there are none.
    pub steps: Vec<String>,
    /// Suggestion how to avoid the allocation, a sentence; null where there is none.
    pub suggestion: Option<String>,
}

impl Reason {
    /// The allocation and its reason.
    pub fn line(&self) -> String {
        let reason = if self.reason.is_empty() { "no reason is known" } else { &self.reason };
        format!("{}: {reason}", self.what)
    }
}
