//! Files that were removed or replaced, in the processes that still have them mapped.

use std::path::{Path, PathBuf};

use mallow_proc::{DELETED, mappings, read_maps};
use mallow_profile::Module;

use crate::image::{Image, is_same};

/// The module's file, of one of these processes. Its build-id shows that it is the one: another process may have the
/// number by now, so a module without a build-id is not looked for.
pub(crate) fn image(module: &Module, pids: &[u32]) -> Option<Image> {
    if module.build_id.is_empty() {
        return None;
    }
    let is_it = |image: &Image| image.build_id().is_ok_and(|id| !id.is_empty() && is_same(&module.build_id, &id));
    let paths = pids.iter().filter(|pid| **pid > 0).flat_map(|&pid| candidates(module, pid));
    let image = paths.filter_map(|path| Image::open(&path).ok()).find(is_it)?;
    Some(image.known_as(Path::new(&module.path)))
}

/// The executable, and what a process has mapped of a file that had this path.
fn candidates(module: &Module, pid: u32) -> impl Iterator<Item = PathBuf> {
    let text = read_maps(pid).unwrap_or_default();
    let path = module.path.strip_suffix(DELETED).unwrap_or(&module.path);
    let is_it = |file: &[u8]| file.strip_suffix(DELETED.as_bytes()).is_some_and(|file| file.ends_with(path.as_bytes()));
    let mapped = mappings(&text).find(|mapping| is_it(mapping.path)).map(|mapping| mapping.map_file(pid));
    std::iter::once(PathBuf::from(format!("/proc/{pid}/exe"))).chain(mapped)
}
