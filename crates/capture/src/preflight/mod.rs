//! What of a command Mallow would see, and whether this machine lets it look: found out from files and limits. Nothing
//! is run. What `stat` and `record` say of a command that was out of sight comes from here, too.

mod chain;
mod machine;
mod program;
mod rights;

pub use chain::{Chain, Step};
pub use machine::machine;

use mallow_profile::{CustomAllocator, ProcessId};
use rustc_hash::FxHashMap;
use std::path::Path;

/// How much of what a check is about works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// All of it.
    Works,
    /// Something of it is not seen, or costs more than it should.
    Partly,
    /// Nothing would be recorded.
    Fails,
}

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// How much works.
    pub status: Status,
    /// What was found, and what that means.
    pub found: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Finding {
    /// All is well.
    pub fn works(check: &'static str, found: impl Into<String>) -> Self {
        Self { check, status: Status::Works, found: found.into(), remedy: None }
    }

    /// Something is not.
    pub fn partly(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, status: Status::Partly, found: found.into(), remedy: Some(remedy.into()) }
    }

    /// Nothing is.
    pub fn fails(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, status: Status::Fails, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn is_fatal(&self) -> bool {
        self.status == Status::Fails
    }

    /// As one sentence.
    fn sentence(&self) -> String {
        let remedy = self.remedy.iter().map(|remedy| format!("; {remedy}")).collect::<String>();
        format!("{}{remedy}", self.found)
    }
}

/// What stands in the way of recording a command, program by program. Of one that executes another, as `env` does, only
/// what stands in the way is told.
pub fn command(chain: &Chain) -> Vec<Finding> {
    let mut all: Vec<Finding> = chain.findings();
    let programs: Vec<_> = chain.programs().collect();
    for (index, path) in programs.iter().enumerate() {
        let last = index + 1 == programs.len() && chain.missing.is_none();
        all.extend(program::check(path, &chain.settings).into_iter().filter(|found| last || found.is_fatal()));
    }
    all
}

/// Why no call of a command reached libmallow.so, and what to do instead. None where nothing is in the way: then it
/// made no allocation.
pub fn why(chain: &Chain) -> Option<String> {
    let all = command(chain);
    let doubtful = |finding: &&Finding| finding.check == program::C_LIBRARY && finding.status == Status::Partly;
    all.iter().find(|finding| finding.is_fatal()).or_else(|| all.iter().find(doubtful)).map(Finding::sentence)
}

/// Allocators above malloc that process images use, as far as their executables say. Of each image, in the order of their
/// numbers: its executable, its arguments, and what its environment says of allocators.
pub(crate) fn custom_allocators<'a>(
    images: impl Iterator<Item = (&'a str, &'a [String], u32)>,
) -> Vec<CustomAllocator> {
    let mut known: FxHashMap<&str, Option<program::Facts>> = FxHashMap::default();
    let mut all = Vec::new();
    for (number, (executable, arguments, settings)) in images.enumerate() {
        let path = Path::new(executable);
        let facts = known.entry(executable).or_insert_with(|| program::Facts::of_file(path));
        let Some(facts) = facts else { continue };
        for Finding { found, remedy, .. } in program::above_malloc(path, facts, arguments, settings) {
            let remedy = remedy.unwrap_or_default();
            all.push(CustomAllocator { process: ProcessId(number as u32), found, remedy });
        }
    }
    all
}

/// Why nothing of a program that is running is seen, as far as that is sure.
pub(crate) fn why_program(path: &Path) -> Option<String> {
    program::out_of_sight(path).as_ref().map(Finding::sentence)
}

#[cfg(test)]
mod tests;
