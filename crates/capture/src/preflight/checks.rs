//! The checks of a command, of its programs, and of programs that ran.

use super::chain::Chain;
use super::finding::{Finding, Status};
use super::purpose::Purpose;
use super::{c_library, program};
use mallow_profile::{AllocatorInside, AllocatorKind, CustomAllocator, FrameId, Module, ProcessId, Profile};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ffi::OsString;
use std::path::Path;

/// What prevents recording a command, program by program. For a program that executes another, as `env` does, only
/// obstacles are reported.
pub fn command(chain: &Chain) -> Vec<Finding> {
    let mut all: Vec<Finding> = chain.findings();
    let programs: Vec<_> = chain.programs().collect();
    for (index, path) in programs.iter().enumerate() {
        let last = index + 1 == programs.len() && chain.missing.is_none();
        all.extend(program::check(path, &chain.settings).into_iter().filter(|found| last || found.is_fatal()));
    }
    all
}

/// Why no call of a command reached libmallow.so, and what to do instead, as a sentence. None: nothing is in the way,
/// so the command made no allocation.
pub fn why(chain: &Chain) -> Option<String> {
    let all = command(chain);
    let doubtful = |finding: &&Finding| {
        [c_library::C_LIBRARY, program::ALLOCATOR].contains(&finding.check) && finding.status == Status::Partly
    };
    all.iter().find(|finding| finding.is_fatal()).or_else(|| all.iter().find(doubtful)).map(Finding::sentence)
}

/// Why libmallow.so cannot be loaded into a command's program, as its headers show, and what to do instead.
pub fn out_of_reach(chain: &Chain) -> Option<Finding> {
    program::out_of_reach(chain.programs().last()?)
}

/// A sentence about the allocator inside of a command's program, none of whose blocks are picked.
pub fn unpicked(chain: &Chain, purpose: Purpose) -> Option<String> {
    program::unpicked(chain.programs().last()?, purpose)
}

/// Drops Python's arenas from processes that did not start Python. A program that is linked with Python starts it only
/// through functions that allocate by malloc, too: where no stack of the process leads through Python's library, it was
/// not started.
pub(crate) fn settle_linked(profile: &mut Profile) {
    let may_start = |one: &CustomAllocator| one.found == program::LINKED_PYTHON;
    if !profile.custom_allocators.iter().any(may_start) {
        return;
    }
    let is_python = |module: &Module| module.path.rsplit('/').next().is_some_and(|name| name.starts_with("libpython"));
    let modules: Vec<bool> = profile.modules.iter().map(is_python).collect();
    let in_python = |frame: FrameId| {
        let module = profile.frames.get(frame.0 as usize).and_then(|frame| frame.module);
        module.is_some_and(|module| modules.get(module.0 as usize).copied().unwrap_or(false))
    };
    let through = profile.sites.iter().filter(|site| profile.stacks.frames(site.stack).any(in_python));
    let started: FxHashSet<ProcessId> = through.map(|site| site.process).collect();
    profile.custom_allocators.retain(|one| !may_start(one) || started.contains(&one.process));
}

/// Allocators above malloc that process images use, as far as their executables say. `images` are, by process number,
/// their executable, their arguments, and what their environment says of allocators (`wire::SETTING_…`); `inside` are
/// the allocators in their files that were patched, or could not be.
pub(crate) fn custom_allocators<'a>(
    images: impl Iterator<Item = (&'a str, &'a [String], u32)>,
    inside: &[AllocatorInside],
) -> Vec<CustomAllocator> {
    let mut known: FxHashMap<&str, Option<program::Facts>> = FxHashMap::default();
    let mut all = Vec::new();
    for (number, (executable, arguments, settings)) in images.enumerate() {
        let path = Path::new(executable);
        let facts = known.entry(executable).or_insert_with(|| program::Facts::of_file(path));
        let of_image: Vec<_> = inside.iter().filter(|one| one.program == executable && !one.is_library).collect();
        for allocator in of_image.iter().filter(|allocator| allocator.functions == 0) {
            let (process, remedy) = (ProcessId(number as u32), allocator.remedy.clone());
            all.push(CustomAllocator { process, kind: AllocatorKind::Other, found: not_seen(allocator), remedy });
        }
        let Some(facts) = facts else { continue };
        let found = program::above_malloc(path, facts, arguments, settings, of_image.is_empty());
        all.extend(found.into_iter().map(|finding| above_malloc(ProcessId(number as u32), finding)));
    }
    all
}

/// Runtimes that allocate past malloc, by executable. An allocator inside counts as one in a process that was started
/// to be sampled: a mallow that attaches, or that records, patches its functions.
#[derive(Default)]
pub(crate) struct Runtimes {
    known: FxHashMap<String, Option<program::Facts>>,
    purpose: Purpose,
}

impl Runtimes {
    pub fn set_purpose(&mut self, purpose: Purpose) {
        self.purpose = purpose;
    }

    /// The runtimes of a process image, as [`custom_allocators`] has them.
    pub fn of(
        &mut self,
        process: ProcessId,
        executable: &str,
        arguments: &[String],
        (settings, attached): (u32, bool),
    ) -> Vec<CustomAllocator> {
        let path = Path::new(executable);
        let facts = self.known.entry(executable.to_owned()).or_insert_with(|| program::Facts::of_file(path));
        let found = facts.iter().flat_map(|facts| program::above_malloc(path, facts, arguments, settings, false));
        let inside = facts.as_ref().and_then(program::Facts::allocator_inside).filter(|_| !attached);
        let (why, remedy) = self.purpose.inside(facts.as_ref().is_some_and(program::Facts::hides_allocator));
        let inside = inside.map(|name| CustomAllocator {
            process,
            kind: AllocatorKind::Other,
            found: format!("{name} inside {executable} is not {}{why}", self.purpose.done()),
            remedy: remedy.to_owned(),
        });
        inside.into_iter().chain(found.map(|finding| above_malloc(process, finding))).collect()
    }
}

fn above_malloc(process: ProcessId, Finding { allocator, found, remedy, .. }: Finding) -> CustomAllocator {
    CustomAllocator { process, kind: allocator, found, remedy: remedy.unwrap_or_default() }
}

/// A clause: why calls of an allocator inside are missing.
pub(crate) fn not_seen(allocator: &AllocatorInside) -> String {
    let AllocatorInside { name, module, problem, .. } = allocator;
    format!("{name} inside {module} is not counted: {problem}")
}

/// What prevents recording the program of this file, as its headers show.
pub fn file(path: &Path) -> Option<Finding> {
    program::out_of_reach(path)
}

/// A language whose runtime allocates past malloc, as far as the program's file says. `set` gives the value of a
/// variable in the program's environment, empty where there is none.
pub fn language(path: &Path, set: &dyn Fn(&str) -> OsString) -> Option<Finding> {
    program::runtime_of(path, set)
}

/// A sentence: why nothing of a program that is running is seen. None in doubt. `patched`: allocators inside are, at
/// the start.
pub(crate) fn why_program(path: &Path, patched: bool) -> Option<String> {
    program::out_of_sight(path, patched).as_ref().map(Finding::sentence)
}
