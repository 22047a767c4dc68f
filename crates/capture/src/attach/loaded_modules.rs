//! Allocators in libraries that a process loads while mallow is attached: patched when they are seen.

use super::error::AttachError;
use super::library::LoadedLibrary;
use super::patches::{ModuleKey, PatchedModule, STOP, TRIES, area_of, key_of, keys, place, write};
use super::sandbox;
use super::target::Target;
use crate::inside::{Finding, Planner};
use mallow_patch::{Draft, Gateway, LoadList, Mapping, Maps, Memory, Module, StopError, Stopped, stop};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// How often a file is looked at that is mapped as no module: it may be one that is being loaded.
const LOOKS: u32 = 5;

/// How often the mappings are read while the dynamic linker's list does not change: for modules that come without it.
const MAPPINGS: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct KnownModules {
    keys: HashSet<ModuleKey>,
    /// Looks in a row that saw a new file which could not be read as a module.
    looks: u32,
    /// None: the process has no list of a dynamic linker.
    list: Option<LoadList>,
    /// When the mappings were read last.
    read: Instant,
    /// The last look failed: what it saw as new is new to the next one, too.
    has_failed: bool,
}

impl KnownModules {
    /// The modules that `maps` shows count as known.
    pub fn of(target: &Target, maps: &Maps) -> Self {
        let list = LoadList::of(target.pid, &target.modules);
        Self { keys: candidates(maps), looks: 0, list, read: Instant::now(), has_failed: false }
    }

    /// The mappings, if there may be new modules.
    fn look(&mut self, pid: u32, patched: &[PatchedModule], memory: &Memory) -> Result<Option<Maps>, AttachError> {
        let has_forgotten = self.forget_reloaded(patched, memory);
        let is_same = self.list.as_ref().is_some_and(LoadList::is_same);
        let is_settled = self.looks == 0 && !self.has_failed;
        if is_same && !has_forgotten && is_settled && self.read.elapsed() < MAPPINGS {
            return Ok(None);
        }
        // Before the mappings: what comes in between is looked for again.
        if let Some(list) = self.list.as_mut().filter(|_| !is_same) {
            list.read(memory);
        }
        self.read = Instant::now();
        Ok(Some(Maps::read(pid)?))
    }

    /// Forgets modules that were unloaded, and loaded anew at the same address: their patches are gone. Returns whether
    /// there are any.
    fn forget_reloaded(&mut self, patched: &[PatchedModule], memory: &Memory) -> bool {
        let known = self.keys.len();
        for key in patched.iter().filter(|one| one.placed.is_undone(memory)).filter_map(|one| one.key) {
            self.keys.remove(&key);
        }
        self.keys.len() < known
    }
}

/// Mappings that may be of modules: not code that a runtime writes to files of its own, which have no path.
fn candidates(maps: &Maps) -> HashSet<ModuleKey> {
    let has_path = |one: &&Mapping| one.path.starts_with('/') && !one.path.starts_with("/memfd:") && !one.is_deleted();
    let code = maps.iter().filter(|mapping| mapping.executable && mapping.inode != 0).filter(has_path);
    code.map(|mapping| (mapping.start, mapping.inode)).collect()
}

/// What came of a look at new modules.
pub struct NewModules {
    /// Patches of new modules, which are written.
    pub patched: Vec<PatchedModule>,
    /// Allocators in new modules, patched or not.
    pub findings: Vec<Finding>,
    /// How long all threads stood still.
    pub pause: Duration,
}

/// Patches allocators in modules that a process has loaded since `known`. None: there is no new one. `library` finds
/// Mallow's library in the process.
pub fn patch_new(
    target: &mut Target,
    planner: &mut Planner,
    known: &mut KnownModules,
    patched: &[PatchedModule],
    library: &dyn Fn() -> Result<Option<LoadedLibrary>, AttachError>,
) -> Result<Option<NewModules>, AttachError> {
    let news = look_and_patch(target, planner, known, patched, library);
    known.has_failed = news.is_err();
    news
}

fn look_and_patch(
    target: &mut Target,
    planner: &mut Planner,
    known: &mut KnownModules,
    patched: &[PatchedModule],
    library: &dyn Fn() -> Result<Option<LoadedLibrary>, AttachError>,
) -> Result<Option<NewModules>, AttachError> {
    let pid = target.pid;
    let Some(maps) = known.look(pid, patched, &target.memory)? else { return Ok(None) };
    let now = candidates(&maps);
    if now.is_subset(&known.keys) {
        (known.keys, known.looks) = (now, 0);
        return Ok(None);
    }
    let Some(library) = library()? else { return Ok(None) };
    let addresses: Vec<u64> = now.difference(&known.keys).map(|(start, _)| *start).collect();
    let mut new = target.at(&maps, &addresses)?;
    new.modules.retain(|module| addresses.iter().any(|address| module.range.contains(address)));
    let is_unread = |address: &u64| !new.modules.iter().any(|module| module.range.contains(address));
    // It may be one that is being loaded: it is looked at again.
    let waits = known.looks < LOOKS && addresses.iter().any(is_unread);
    let mut inside = new.inside(planner, &library, true)?;
    let (mut patched, mapped) = (Vec::new(), keys(&maps));
    // A filter that was installed meanwhile.
    sandbox::check(pid)?;
    for draft in new.drafts(&[], &mut inside, false)? {
        match area_while_stopped(pid, &draft, &library, &new.memory)? {
            Some(area) => patched.push(PatchedModule { key: key_of(&draft, &mapped), placed: place(&draft, area)? }),
            None => fail(&mut inside.findings, &new, &draft),
        }
    }
    let pause = match patched.is_empty() {
        true => Duration::ZERO,
        false => write(pid, &new.memory, &patched)?,
    };
    // One that waits is not known.
    let is_read = |key: &ModuleKey| known.keys.contains(key) || !waits || !is_unread(&key.0);
    known.keys = now.iter().copied().filter(is_read).collect();
    known.looks = if waits { known.looks + 1 } else { 0 };
    let is_there = |module: &Module| mapped.iter().any(|(start, _)| module.range.contains(start));
    let is_new = |module: &Module| new.modules.iter().any(|one| one.range.contains(&module.range.start));
    target.modules.retain(|module| is_there(module) && !is_new(module));
    target.modules.append(&mut new.modules);
    Ok(Some(NewModules { patched, findings: inside.findings, pause }))
}

/// The area of a module's patches, mapped by any thread: a system call needs no lock. None: there is no room for it, or
/// for more of them.
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

/// Notes that the allocators in a module are not patched, as there is no area for it.
fn fail(findings: &mut [Finding], target: &Target, draft: &Draft) {
    let module = target.modules.iter().find(|module| module.range.start == draft.module().start);
    if let Some(module) = module {
        crate::inside::fail_module(findings, module, "there is no room for patches of one more module");
    }
}
