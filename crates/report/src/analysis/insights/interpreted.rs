//! Code that advice cannot be given for: scripts, and the interpreters that run them. What a script allocates is its
//! interpreter's way to have objects, and no block that somebody could keep; who runs an interpreter does not write it.

use mallow_profile::Profile;

use super::call_paths::CallPaths;
use crate::analysis::stacks::functions::{Functions, Step};
use crate::analysis::stacks::runtimes::is_interpreter;

/// Tells functions of scripts and of their interpreters from others.
pub(super) struct Interpreted<'a> {
    functions: &'a Functions<'a>,
    /// By module, whether it is an interpreter.
    modules: Vec<bool>,
}

impl<'a> Interpreted<'a> {
    pub fn of(profile: &Profile, functions: &'a Functions<'a>) -> Self {
        Self { functions, modules: profile.modules.iter().map(|module| is_interpreter(&module.path)).collect() }
    }

    /// Whether the step is a function of a script, which a perf map names, or one of an interpreter.
    pub fn is(&self, step: &Step) -> bool {
        match step.module {
            Some(module) => self.modules.get(module.0 as usize).copied().unwrap_or(false),
            None => self.functions.is_script(step),
        }
    }

    /// Allocations of all roots that are such functions.
    pub fn allocations(&self, paths: &CallPaths) -> u64 {
        let roots = paths.roots().map(|root| paths.get(root)).filter(|path| self.is(&path.step));
        roots.fold(0, |sum, path| sum.saturating_add(path.counts.allocations))
    }
}
