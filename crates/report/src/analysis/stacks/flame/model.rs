//! What a flame graph is made of.

use crate::analysis::numbers::{Ending, Least, Measure, Totals};

#[derive(Clone, Copy, Debug)]
pub struct FlameOptions {
    /// The measure that is the width of boxes.
    pub by: Measure,
    /// Whether boxes go from the functions that allocate to their callers, and not from `main` to the functions called.
    pub callers: bool,
    /// Whether every function of each stack is a box.
    pub raw: bool,
    /// Boxes below one part in so many of the whole are left out.
    pub parts: u64,
    /// The least width of a box, beside `parts`.
    pub least: Least,
}

/// Boxes. Equal functions called by the same function are one; what is folded without `raw` is what
/// [`crate::analysis::tree()`] folds.
#[derive(Clone, Debug)]
pub struct Flame {
    pub command: Vec<String>,
    pub by: Measure,
    /// Whether boxes go from the functions that allocate to their callers.
    pub callers: bool,
    /// Whether every function of each stack is a box.
    pub raw: bool,
    pub totals: Totals,
    /// Milliseconds from the beginning of the recording to the peak.
    pub peak_ms: u64,
    pub ending: Ending,
    /// Number of stacks where the measure is above 0.
    pub sites: u64,
    /// Number of boxes that were too small.
    pub left_out: u64,
    /// None where no other profile is compared with.
    pub base: Option<FlameBase>,
    /// Functions whose calls are gone and that are no boxes, with what those calls had in the other profile; the
    /// largest first.
    pub gone: Vec<(String, u64)>,
    /// Width below which boxes are left out, as [`FlameOptions::least`] has it.
    pub min: u64,
    pub functions: Vec<FlameFunction>,
    /// What functions are coloured by; the largest cumulative value first.
    pub groups: Vec<FlameGroup>,
    /// Path of the module that functions allocate most in, where its functions are grouped by source file.
    pub by_file_in: Option<String>,
    /// Boxes after the one that they stand on; siblings side by side, the largest first. The first one is the whole.
    pub boxes: Vec<FlameBox>,
}

/// The profile that a graph is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlameBase {
    /// The whole of that profile, by the measure.
    pub before: u64,
    /// The whole of the graph less `before`.
    pub change: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlameFunction {
    pub label: Label,
    /// Demangled name, or `module+0xoffset`; empty for what is no function.
    pub name: String,
    pub file: Option<String>,
    /// Path of the ELF file; None for generated code, and for what is no function.
    pub module: Option<String>,
    /// Index in [`Flame::groups`]; None for what is no function.
    pub group: Option<usize>,
    /// Whether the function only passes the request on, so that other reports look past it.
    pub looked_past: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Label {
    /// All of the recording.
    Whole,
    Function,
    /// The outer frames of a stack that was cut.
    MissingFrames,
    NoStack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlameBox {
    /// Index of the box that this one stands on: its caller, or with `callers` its callee. None for the whole.
    pub parent: Option<usize>,
    /// Number of boxes below this one.
    pub depth: usize,
    /// Distance from the left end, in the unit of the measure.
    pub start: u64,
    /// Width, in the unit of the measure.
    pub value: u64,
    /// Part of `value` that stands on no other box: what the function itself allocated.
    pub own: u64,
    /// `value` in the profile that is compared with; 0 without one.
    pub before: u64,
    /// Change of what stands on no other box: own, and calls that are no boxes. All boxes together add up to the whole
    /// change.
    pub change: i64,
    /// Part of `change` that calls had that are gone.
    pub gone: u64,
    pub function: usize,
    /// Whether the compiler put the function into its caller.
    pub inlined: bool,
    /// Whether calls of the function by itself are folded into this box.
    pub recursive: bool,
}

/// Functions that have one colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlameGroup {
    pub kind: GroupKind,
    /// Whether the functions belong to the language, not to the program.
    pub runtime: bool,
    /// What the group's functions themselves allocated, by the measure.
    pub own: u64,
    /// What the group's functions and their callees allocated, each stack once: never above the whole.
    pub cum: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupKind {
    /// A source file of the module that dominates, by its path.
    File(String),
    /// An ELF file, by its path; of a module that is grouped by file, what no source file is known of.
    Module(String),
    /// Code that no file has.
    Generated,
}
