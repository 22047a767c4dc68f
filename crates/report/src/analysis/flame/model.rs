//! What a flame graph is made of.

use crate::analysis::numbers::{Ending, Least, Measure, Totals};

#[derive(Clone, Copy, Debug)]
pub struct FlameOptions {
    /// Boxes are as wide as this says.
    pub by: Measure,
    /// From the functions that allocate to their callers, and not from `main` to the functions called.
    pub callers: bool,
    /// Every function of each stack is a box.
    pub raw: bool,
    /// Boxes below one part in so many of the whole are left out.
    pub parts: u64,
    /// And those with less than this.
    pub least: Least,
}

/// Boxes. Equal functions called by the same function are one; what is folded without `raw` is what
/// [`crate::analysis::tree()`] folds.
#[derive(Clone, Debug)]
pub struct Flame {
    /// The command line that was recorded.
    pub command: Vec<String>,
    pub by: Measure,
    /// It begins at the functions that allocate.
    pub callers: bool,
    /// Every function of each stack is a box.
    pub raw: bool,
    /// Sums over the recording.
    pub totals: Totals,
    /// When the peak was, milliseconds since the recording began.
    pub peak_ms: u64,
    /// How the recording ended.
    pub ending: Ending,
    /// Stacks where the measure is above 0.
    pub sites: u64,
    /// Boxes that were too small.
    pub left_out: u64,
    /// Where another profile is compared with: what that had.
    pub base: Option<FlameBase>,
    /// Functions whose calls are gone and that are no boxes, with what those calls had there; the largest first.
    pub gone: Vec<(String, u64)>,
    /// The least that was asked for.
    pub min: u64,
    /// The functions of the boxes.
    pub functions: Vec<FlameFunction>,
    /// What functions are coloured by; the largest cumulative value first.
    pub groups: Vec<FlameGroup>,
    /// The module that functions allocate most in, where its functions are grouped by source file.
    pub by_file_in: Option<String>,
    /// Each box after the one that it stands on; siblings side by side, the largest first. The first one is the whole.
    pub boxes: Vec<FlameBox>,
}

/// The profile that a graph is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlameBase {
    /// All of it, by the measure.
    pub before: u64,
    /// How much more there is now.
    pub change: i64,
}

/// One function of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlameFunction {
    /// What it stands for.
    pub label: Label,
    /// Demangled name, or `module+0xoffset`; empty for what is no function.
    pub name: String,
    pub file: Option<String>,
    /// Path of the ELF file; None for generated code, and for what is no function.
    pub module: Option<String>,
    /// Index in [`Flame::groups`]; None for what is no function.
    pub group: Option<usize>,
    /// It only passes the request on, and other reports look past it.
    pub looked_past: bool,
}

/// What a box stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Label {
    /// Everything.
    Whole,
    /// A function.
    Function,
    /// The outer frames of a stack that was cut.
    MissingFrames,
    /// Allocations without a stack.
    NoStack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlameBox {
    /// The one that it stands on: its caller, or with `callers` its callee. The whole has none.
    pub parent: Option<usize>,
    /// How many boxes are below it.
    pub depth: usize,
    /// How much of the measure stands to its left.
    pub start: u64,
    /// How wide it is.
    pub value: u64,
    /// What of this stands on no other box: what the function allocated itself.
    pub own: u64,
    /// How much there was before; 0 where nothing is compared.
    pub before: u64,
    /// How what stands on no other box has changed: own, and calls that are no boxes. Adds up to all that changed.
    pub change: i64,
    /// Of this, what calls had that are gone.
    pub gone: u64,
    /// Index in [`Flame::functions`].
    pub function: usize,
    /// The compiler put it into its caller.
    pub inlined: bool,
    /// Its calls of itself are folded into it.
    pub recursive: bool,
}

/// Functions of one colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlameGroup {
    /// What they have in common.
    pub kind: GroupKind,
    /// They belong to the language, not to the program.
    pub runtime: bool,
    /// What they allocated themselves.
    pub own: u64,
    /// The same with their callees, each stack once: never above the whole.
    pub cum: u64,
}

/// What the functions of a group have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupKind {
    /// A source file of the module that dominates, by its path.
    File(String),
    /// An ELF file, by its path; of a module that is grouped by file, what no source file is known of.
    Module(String),
    /// Code in no file.
    Generated,
}
