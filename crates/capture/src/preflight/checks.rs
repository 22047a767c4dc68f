//! The checks of a command, of its programs, and of programs that ran.

use super::chain::Chain;
use super::finding::{Finding, Status};
use super::program;
use mallow_profile::{CustomAllocator, ProcessId};
use rustc_hash::FxHashMap;
use std::path::Path;

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
