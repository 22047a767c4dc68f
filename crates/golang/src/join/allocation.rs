//! What one instruction allocates, where, and by which call of the runtime.

use std::ops::Range;

use serde::Serialize;

use super::room::{Map, Room};

/// A line of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AllocationLine {
    /// Name of the function, with the import path of its package: `example.com/elvis.One`.
    pub function: String,
    /// Absolute path of the source file.
    pub file: String,
    /// Line in `file`, from 1.
    pub line: u32,
}

/// The call of the runtime by which a place allocates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Call {
    /// Name of the function that is called: `runtime.growslice`.
    pub callee: String,
    /// Type that the call is given; left out where there is none, or it is not known.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub of: Option<Type>,
    /// Elements that a slice has room for; None where it is no slice, or the code has no constant.
    #[serde(skip)]
    pub elements: Option<u64>,
    /// The function that the code calls next.
    #[serde(skip)]
    pub next: Option<String>,
    /// Whether the call is given no type: it is for several small variables, in one block.
    #[serde(skip)]
    pub combined: bool,
}

impl Call {
    /// Bytes of the one object that each such call makes, where the code shows them.
    pub fn size(&self) -> Option<u64> {
        let of = self.of.as_ref().map(|of| of.size);
        match self.callee.strip_prefix("runtime.")? {
            "newobject" | "convT" | "convTnoptr" => of,
            name if name.starts_with("mallocgc") => of,
            name if name.starts_with("makeslice") => of?.checked_mul(self.elements?),
            "convT16" => Some(2),
            "convT32" => Some(4),
            "convT64" => Some(8),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Type {
    /// Name of the type: `bytes.Buffer`.
    pub name: String,
    /// Size of a value in bytes.
    pub size: u64,
    /// Values of the type contain pointers.
    pub pointers: bool,
    /// Names of the structs and arrays that a value contains, not of what it points to.
    #[serde(skip)]
    pub parts: Vec<String>,
    /// A value points to others of its type: a node of a list or tree.
    #[serde(skip)]
    pub links_itself: bool,
    #[serde(skip)]
    pub map: Option<Map>,
}

/// What becomes of the slice of an append, as its source shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Appended {
    /// The slice has no more room: it grows.
    #[default]
    Grows,
    /// The append makes a new slice by its expression, a copy: there is one block of the right size anyway.
    Copies,
    /// The front of the slice is cut off elsewhere: no capacity lasts.
    Queue,
    /// Several appends on one line differ.
    Unclear,
    /// A buffer of the standard library grows.
    Buffer,
}

/// Part of a benchmark that an allocation belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The operations of the benchmark.
    #[default]
    Operation,
    /// Set-up that grows with the operations, while the timer runs: what is made of `b.N`.
    Growing,
    /// Set-up that happens once while the timer runs. Benchmarks divide it by their operations.
    Once,
    /// What the first operations allocate, and no more after them, as where a pool or a buffer fills.
    FirstOperations,
    /// What each goroutine of `b.RunParallel` does once, whatever its operations: the timer runs, and no reset can come
    /// after it.
    OnceInGoroutine,
    /// The timer is stopped, or reset later: no figure of the benchmark has it.
    Untimed,
}

impl Part {
    pub fn is_operation(&self) -> bool {
        *self == Self::Operation
    }
}

/// A line of the program's own, on the call path to an allocation in a library.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Caller {
    #[serde(flatten)]
    pub place: AllocationLine,
    /// Allocations from this line: per operation of a benchmark, or of the whole profile.
    pub allocations: f64,
    /// The functions of libraries that it calls on the way there, in the order of their names.
    #[serde(skip)]
    pub callees: Vec<String>,
}

/// Allocations of one instruction.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Allocation {
    /// Lines of the allocation: that of the innermost inlined function first, that of the function that was compiled
    /// last.
    pub chain: Vec<AllocationLine>,
    /// The innermost function is a library's: it is not the program's to change, though it may be inlined there.
    #[serde(skip)]
    pub of_library: bool,
    /// Link-time address of the call.
    #[serde(skip)]
    pub address: u64,
    /// Function of Go's runtime that allocated, and the type that it was given; null where neither is known.
    pub call: Option<Call>,
    /// The calls of its line that put values into interfaces or into blocks of their own, in the order of code: itself,
    /// and those that allocated nothing. Empty where the program does not show them.
    #[serde(skip)]
    pub calls_of_line: Vec<(Range<u64>, Call)>,
    /// The function that was compiled, as the program's symbols name it: of a generic one with the types that it was
    /// compiled for. None where the program is not known.
    #[serde(skip)]
    pub symbol: Option<String>,
    /// Allocations: per operation of a benchmark, or of the whole profile.
    pub allocations: f64,
    /// Bytes: per operation of a benchmark, or of the whole profile.
    pub bytes: f64,
    /// Blocks of 16 bytes in `allocations`, per operation, where the profile distinguishes sizes: those that small
    /// objects may share.
    #[serde(skip)]
    pub small: f64,
    /// Bytes per operation by which `bytes` is below the blocks, since small objects share some.
    #[serde(skip)]
    pub shared: f64,
    /// Form of the append, where the allocation is one.
    #[serde(skip)]
    pub appended: Appended,
    /// Purpose of the allocation, where a map makes it for a key.
    #[serde(skip)]
    pub room: Room,
    /// The map is its function's own, and gone when that returns.
    #[serde(skip)]
    pub in_own_map: bool,
    /// A library calls its function: by a value, or through an interface.
    #[serde(skip)]
    pub called_back: bool,
    /// Part of the benchmark that allocated; left out where that is its operations, and for a profile.
    #[serde(skip_serializing_if = "Part::is_operation")]
    pub part: Part,
    /// Lines of the program's own code that lead to the allocation, the most allocations first; left out where the
    /// allocation is on such a line itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub callers: Vec<Caller>,
}
