//! Modules, frames and stacks that events refer to by number.

use mallow_profile::{Frame, Module, Stacks};

/// Numbered lists: `ModuleId`, `FrameId` and `StackId` are indices into them.
#[derive(Debug, Default)]
pub struct Catalog {
    pub modules: Vec<Module>,
    pub frames: Vec<Frame>,
    pub stacks: Stacks,
}
