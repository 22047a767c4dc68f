//! Why something is allocated, and what may be done about it.

use serde::Serialize;

use crate::model::Diagnostic;

/// Who gives the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explanation {
    /// The expression that allocates, as the source or the compiler has it; empty where it is not known.
    pub what: String,
    /// Why, in a few words; empty where nobody knows.
    pub reason: String,
    /// Origin of `reason`: the compiler, or what Mallow knows of Go's runtime.
    pub source: ReasonSource,
    /// The escape flow, a step each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Suggestion how to avoid the allocation, a sentence; null where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Number of expressions of the line of which this may be any; the texts name those that differ. 1 where it is
    /// certain.
    pub one_of: usize,
    /// What the compiler says, as it says it, where it is certain.
    #[serde(skip)]
    pub diagnostic: Option<Diagnostic>,
}
