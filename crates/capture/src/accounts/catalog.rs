//! Modules, frames and stacks that events refer to by number.

use mallow_profile::{Frame, Module, Stacks};

/// See the module's text.
#[derive(Debug, Default)]
pub struct Catalog {
    /// Loaded files.
    pub modules: Vec<Module>,
    /// Instructions in them, or outside of all of them.
    pub frames: Vec<Frame>,
    pub stacks: Stacks,
}
