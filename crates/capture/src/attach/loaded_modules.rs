//! Allocators in libraries that a process loads while mallow is attached: patched when they are seen.

use super::error::AttachError;
use super::library::LoadedLibrary;
use super::patches::{ModuleKey, PatchedModule, STOP, TRIES, area_of, key_of, keys, place, write};
use super::target::Target;
use crate::inside::Finding;
use mallow_patch::{Draft, Gateway, Maps, Memory, Module, StopError, Stopped, stop};
use std::collections::HashSet;
use std::time::Duration;

/// How often a file is looked at that is mapped as no module: it may be one that is being loaded.
const LOOKS: u32 = 5;

/// What was mapped at the last look.
#[derive(Debug, Default)]
pub struct KnownModules {
    keys: HashSet<ModuleKey>,
    /// Since when there is one that could not be read.
    looks: u32,
}

impl KnownModules {
    /// Those that are mapped now.
    pub fn of(maps: &Maps) -> Self {
        Self { keys: keys(maps), looks: 0 }
    }

    /// Those that were unloaded, and loaded anew at the same address, are not known: their patches are gone.
    pub fn forget_reloaded(&mut self, patched: &[PatchedModule], memory: &Memory) {
        for key in patched.iter().filter(|one| one.placed.is_undone(memory)).filter_map(|one| one.key) {
            self.keys.remove(&key);
        }
    }
}

/// What came of a look at new modules.
pub struct NewModules {
    /// The process as it is now.
    pub target: Target,
    /// Their patches, which are written.
    pub patched: Vec<PatchedModule>,
    /// Allocators in them.
    pub findings: Vec<Finding>,
    /// How long all threads stood still.
    pub pause: Duration,
}

/// Patches allocators in modules that a process has loaded since `known`. None: there is no new one. `library` finds Mallow's own.
pub fn patch_new(
    pid: u32,
    known: &mut KnownModules,
    library: &dyn Fn() -> Result<Option<LoadedLibrary>, AttachError>,
) -> Result<Option<NewModules>, AttachError> {
    let now = keys(&Maps::read(pid)?);
    if now.is_subset(&known.keys) {
        *known = KnownModules { keys: now, looks: 0 };
        return Ok(None);
    }
    let (target, _) = Target::of(pid)?;
    let Some(library) = library()? else { return Ok(None) };
    let is_new = |key: &ModuleKey| !known.keys.contains(key);
    let key = |module: &Module| now.iter().copied().filter(|(start, _)| module.range.contains(start)).min();
    let read: HashSet<ModuleKey> = target.modules.iter().filter_map(key).collect();
    let is_unread = |key: &&ModuleKey| is_new(key) && !target.modules.iter().any(|m| m.range.contains(&key.0));
    // It may be one that is being loaded: it is looked at again.
    let waits = known.looks < LOOKS && now.iter().any(|key| is_unread(&key));
    let mut inside = target.inside(&library, true)?;
    let is_of_new = |module: &Module| key(module).is_some_and(|key| is_new(&key));
    inside.detours.retain(|one| is_of_new(&target.modules[one.module]));
    let paths: Vec<&String> = target.modules.iter().filter(|one| is_of_new(one)).map(|one| &one.path).collect();
    inside.findings.retain(|finding| paths.contains(&&finding.allocator.module));
    let mut patched = Vec::new();
    for draft in target.drafts(&[], &mut inside, false)? {
        match area_while_stopped(pid, &draft, &library, &target.memory)? {
            Some(area) => patched.push(PatchedModule { key: key_of(&draft, &now), placed: place(&draft, area)? }),
            None => fail(&mut inside.findings, &target, &draft),
        }
    }
    let pause = match patched.is_empty() {
        true => Duration::ZERO,
        false => write(pid, &target.memory, &patched)?,
    };
    *known = match waits {
        true => KnownModules { keys: known.keys.iter().chain(&read).copied().collect(), looks: known.looks + 1 },
        false => KnownModules { keys: now, looks: 0 },
    };
    Ok(Some(NewModules { target, patched, findings: inside.findings, pause }))
}

/// The area of a module's patches, mapped by any thread: a system call needs no lock. None: there is no room for it, or for more of
/// them.
fn area_while_stopped(
    pid: u32,
    draft: &Draft,
    library: &LoadedLibrary,
    memory: &Memory,
) -> Result<Option<u64>, AttachError> {
    let gateway = Gateway::find(pid)?;
    for _ in 0..TRIES {
        let maps = Maps::read(pid)?;
        if let Some(area) = area_of(draft, library, memory, &maps)? {
            return Ok(Some(area));
        }
        let Some(area) = maps.free_area_near(draft.module(), draft.bytes()) else { return Ok(None) };
        let rights = libc::PROT_READ | libc::PROT_EXEC;
        let mapped = stop(pid, STOP, |stopped: &mut Stopped| stopped.map(gateway, area, draft.bytes(), rights));
        match mapped {
            Ok(Ok(())) => return Ok(library.set_area(memory, draft.module().start, area)?.then_some(area)),
            // The process took the place first, or each thread was about to take a signal.
            Ok(Err(_)) | Err(StopError::Late { .. }) => std::thread::sleep(Duration::from_millis(2)),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// What is said of allocators in a module for whose patches there is no area.
fn fail(findings: &mut [Finding], target: &Target, draft: &Draft) {
    let module = target.modules.iter().find(|module| module.range.start == draft.module().start);
    if let Some(module) = module {
        crate::inside::fail_module(findings, module, "there is no room for patches of one more module");
    }
}
