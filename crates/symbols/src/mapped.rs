//! Files that were removed or replaced, in the processes that still have them mapped.

use std::fs;
use std::path::{Path, PathBuf};

use mallow_profile::Module;

use crate::image::{Image, is_same};

/// What the kernel puts behind the path of a file that is no longer there.
const DELETED: &str = " (deleted)";

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
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let path = module.path.strip_suffix(DELETED).unwrap_or(&module.path);
    let of_it = maps.lines().filter(|line| line.strip_suffix(DELETED).is_some_and(|line| line.ends_with(path)));
    let range = of_it.filter_map(|line| line.split_ascii_whitespace().next()).next();
    let mapped = range.map(|range| PathBuf::from(format!("/proc/{pid}/map_files/{range}")));
    std::iter::once(PathBuf::from(format!("/proc/{pid}/exe"))).chain(mapped)
}
