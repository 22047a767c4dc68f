//! One function of a stack.

use mallow_profile::{FrameId, ModuleId, StringId};

use super::function_kind::FunctionKind;

/// Index of a function in [`super::functions::Functions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FunctionId(pub u32);

/// One function of a stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub function: FunctionId,
    pub kind: FunctionKind,
    /// Whether only the address is known, and no name.
    pub nameless: bool,
    pub(in crate::analysis) name: Option<StringId>,
    pub module: Option<ModuleId>,
    pub(in crate::analysis) file: Option<StringId>,
    pub line: u32,
    pub frame: FrameId,
    pub inlined: bool,
}

impl Step {
    /// Whether the compiler put the function into the next one of the stack.
    pub fn inlined(&self) -> bool {
        self.inlined
    }

    pub fn frame(&self) -> FrameId {
        self.frame
    }

    /// None where only the address is known.
    pub fn name(&self) -> Option<StringId> {
        self.name
    }

    pub fn file(&self) -> Option<StringId> {
        self.file
    }

    /// Equal for steps that read the same.
    pub fn text_key(&self, cut: bool) -> (FunctionId, Option<StringId>, u32, bool) {
        (self.function, self.file, self.line, cut)
    }
}
