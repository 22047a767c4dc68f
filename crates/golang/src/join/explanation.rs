//! Why something is allocated, and what may be done about it.

use serde::Serialize;

use crate::model::Diagnostic;

/// Who gives the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonSource {
    /// The compiler's diagnostics.
    Compiler,
    /// What the runtime is called for.
    Runtime,
    /// Nobody.
    None,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    pub what: String,
    /// Why, in a few words; empty where nobody knows.
    pub reason: String,
    /// Who says so.
    pub source: ReasonSource,
    /// The escape flow, a step each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// What a Go expert may do: a suggestion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// It is one of so many expressions of the line; the texts name all that differ. 1 where it is certain.
    pub one_of: usize,
    /// What the compiler says, as it says it, where it is certain.
    #[serde(skip)]
    pub diagnostic: Option<Diagnostic>,
}
