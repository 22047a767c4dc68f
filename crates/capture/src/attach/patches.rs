//! Patches of modules: laid out, written, and known by their modules, which a process may unload.

use super::error::AttachError;
use super::library::LoadedLibrary;
use mallow_patch::{Draft, Maps, Memory, Placed, StopError, Stopped, WriteError, stop};
use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

/// How long all threads together may take to stop.
pub const STOP: Duration = Duration::from_secs(2);
/// How often the writing of patches is tried: a thread may be at an entry, below a signal handler.
pub const TRIES: u32 = 200;

/// Start of a module's code, and inode of its file. Another module may be at the same address once it is gone.
pub type ModuleKey = (u64, u64);

#[derive(Debug)]
pub struct PatchedModule {
    /// None: the module's file is not known.
    pub key: Option<ModuleKey>,
    pub placed: Placed,
}

/// The modules that are mapped.
pub fn keys(maps: &Maps) -> HashSet<ModuleKey> {
    let code = maps.iter().filter(|mapping| mapping.executable && mapping.inode != 0);
    code.map(|mapping| (mapping.start, mapping.inode)).collect()
}

/// The key of the module of `draft`; None: no mapping of it has a file.
pub fn key_of(draft: &Draft, keys: &HashSet<ModuleKey>) -> Option<ModuleKey> {
    keys.iter().copied().filter(|(start, _)| draft.module().contains(start)).min()
}

/// The patches of modules that are still there.
pub fn present(patched: &[PatchedModule], maps: &Maps) -> Vec<Placed> {
    let now = keys(maps);
    let is_there = |one: &&PatchedModule| one.key.is_none_or(|key| now.contains(&key));
    patched.iter().filter(is_there).map(|one| one.placed.clone()).collect()
}

pub fn place(draft: &Draft, area: u64) -> Result<Placed, AttachError> {
    draft.place(area).map_err(|why| AttachError::Unsupported(format!("the patches cannot be laid out: {why}")))
}

/// Where the code of a module's patches is from an earlier attachment. None: there is none, or it is too small.
pub fn area_of(draft: &Draft, library: &LoadedLibrary, memory: &Memory, maps: &Maps) -> io::Result<Option<u64>> {
    let area = library.area(memory, draft.module().start)?;
    Ok(area.filter(|&area| {
        let has_room = |m: &mallow_patch::Mapping| {
            m.executable && m.path.is_empty() && m.start <= area && area + draft.bytes() <= m.end
        };
        maps.iter().any(has_room)
    }))
}

/// Writes patches. Returns how long all threads stood still.
pub fn write(pid: u32, memory: &Memory, patched: &[PatchedModule]) -> Result<Duration, AttachError> {
    let placed: Vec<Placed> = patched.iter().map(|one| one.placed.clone()).collect();
    let mut tries = 0;
    loop {
        let mut pause = Duration::ZERO;
        let written = stop(pid, STOP, |stopped: &mut Stopped| {
            let start = Instant::now();
            let written = stopped.write_patches(memory, &placed);
            pause = start.elapsed();
            written
        });
        tries += 1;
        match written {
            Ok(Err(WriteError::Interrupted(_))) | Err(StopError::Late { .. }) if tries < TRIES => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Ok(written) => return Ok(written.map(|()| pause)?),
            Err(error) => return Err(error.into()),
        }
    }
}
