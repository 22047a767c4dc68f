//! Why something is allocated, and what may be done about it.

use serde::Serialize;

use crate::model::Diagnostic;

/// Origin of a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReasonSource {
    /// The reason is from the compiler's diagnostics.
    Compiler,
    /// The reason is from the function of Go's runtime that is called.
    Runtime,
    /// No reason is known.
    None,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// The expression that allocates, as the source or the compiler has it; empty where it is not known.
    pub what: String,
    /// Reason of the allocation in a few words; empty where none is known.
    pub reason: String,
    /// Origin of `reason`: the compiler, or what Mallow knows of Go's runtime.
    pub source: ReasonSource,
    /// Steps of the escape flow, a text each; left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Suggestion how to avoid the allocation, a sentence; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Number of expressions of the line of which this may be any; the texts name those that differ. 1 where it is
    /// certain.
    pub one_of: usize,
    /// Diagnostic of the compiler, where it is certain which one it is.
    #[serde(skip)]
    pub diagnostic: Option<Diagnostic>,
}
