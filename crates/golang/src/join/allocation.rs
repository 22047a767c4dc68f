//! What one instruction allocates, where, and by which call of the runtime.

use serde::Serialize;

/// A line of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// `example.com/elvis.One`.
    pub function: String,
    /// Its source file.
    pub file: String,
    /// From 1.
    pub line: u32,
}

/// The call of the runtime by which a place allocates.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Call {
    /// `runtime.growslice`.
    pub callee: String,
    /// The type that it is given.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub of: Option<Type>,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Type {
    /// `bytes.Buffer`.
    pub name: String,
    /// Bytes of a value.
    pub size: u64,
    /// It has pointers.
    pub pointers: bool,
}

/// A line of the program's own, on the call path to an allocation in a library.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Caller {
    /// Where.
    #[serde(flatten)]
    pub place: Place,
    /// Allocations by operation that come from there.
    pub allocations: f64,
}

/// What one instruction allocates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Allocation {
    /// The line, the innermost inlined function first; the last is the function that was compiled.
    pub chain: Vec<Place>,
    /// Link-time address of the call.
    #[serde(skip)]
    pub address: u64,
    /// What it calls.
    pub call: Option<Call>,
    /// By operation.
    pub allocations: f64,
    /// By operation.
    pub bytes: f64,
    /// Set-up: it happens once while the timer runs, and benchmarks divide it by their operations.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub setup: bool,
    /// Where the program's own code leads here, the most first; none where this is its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<Caller>,
}
