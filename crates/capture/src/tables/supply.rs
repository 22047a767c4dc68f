//! Putting tables where targets look for them, and finding the files that they are made of.

use super::builder::{base_svma, build, build_id, map};
use super::cache::{TableCache, is_lent, write_table};
use crate::chunk::ModuleStart;
use crate::library::LIBRARY;
use mallow_proc::{mappings, read_maps, vdso};
use memmap2::Mmap;
use rustc_hash::FxHashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The ELF file that a table is made of.
pub enum TableInput<'a> {
    File(&'a Path),
    /// The bytes of a file.
    Image(&'a [u8]),
}

/// Puts the table of an ELF file with this build-id into `tables`, by way of the cache where there is one. None: no
/// table can be made, or the file has another build-id.
pub fn put(build_id: &[u8], elf: TableInput, tables: &Path, cache: Option<&TableCache>) -> Option<()> {
    let name: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let target = tables.join(name);
    // What was made before the directory was lent is for mallow's own user.
    let is_theirs = |file: std::fs::Metadata| !is_lent(tables) || file.is_file() && file.mode() & 0o004 != 0;
    if target.symlink_metadata().is_ok_and(|file| target.exists() && is_theirs(file)) {
        return Some(());
    }
    let cached = cache.and_then(|cache| match &elf {
        TableInput::Image(elf) => cache.get_or_build_image(build_id, elf).ok(),
        TableInput::File(path) => cache.get_or_build(build_id, path).ok(),
    });
    match cached {
        // The cache may be out of their reach.
        Some(cached) if is_lent(tables) => return write_table(&target, &std::fs::read(cached).ok()?).ok(),
        Some(cached) => return std::os::unix::fs::symlink(cached, target).ok(),
        None => {}
    }
    let mapped;
    let elf = match elf {
        TableInput::Image(elf) => elf,
        TableInput::File(path) => {
            mapped = map(path).ok()?;
            &*mapped
        }
    };
    // Of a file that was replaced meanwhile the table would be another's.
    (self::build_id(elf)? == build_id).then_some(())?;
    write_table(&target, &build(elf).ok()?).ok()
}

/// Puts the tables of these files, of the library and of the vdso into `tables`, for processes that then need not wait
/// for them. What cannot be read, or has no build-id, is left out: such a table is made when a process asks for it.
/// Ends before the next file once `is_over`.
pub fn put_all(files: impl IntoIterator<Item = PathBuf>, tables: &Path, is_over: &mut dyn FnMut() -> bool) {
    let cache = TableCache::for_user().ok();
    for file in files {
        if is_over() {
            return;
        }
        let Some(id) = map(&file).ok().and_then(|elf| build_id(&elf)) else { continue };
        // One that is there already, or cannot be: nothing is lost.
        let _ = put(&id, TableInput::File(&file), tables, cache.as_ref());
    }
    for (id, image) in known_images() {
        let _ = put(&id, TableInput::Image(image), tables, cache.as_ref());
    }
}

/// Build-ids and bytes of ELF files that processes map and that this process may be unable to open: the vdso and the
/// library.
pub fn known_images() -> impl Iterator<Item = (Vec<u8>, &'static [u8])> {
    vdso().ok().flatten().into_iter().chain([LIBRARY]).filter_map(|image| Some((build_id(image)?, image)))
}

/// The file of a module: as its process names it, or below that process's own root directory, where another file may
/// have the same path: the build-id distinguishes them. A file that was removed or replaced is still there while the
/// process lives. `pid` gives the process's number here; it is called only where the name does not do.
pub fn module_file(module: &ModuleStart, pid: impl FnOnce() -> u32) -> Option<PathBuf> {
    let is_it = |path: &Path| {
        module.build_id.is_empty()
            || map(path).is_ok_and(|elf| build_id(&elf).is_some_and(|found| found == module.build_id))
    };
    let plain = PathBuf::from(&module.path);
    if plain.is_file() && is_it(&plain) {
        return Some(plain);
    }
    let pid = pid();
    let inside = PathBuf::from(format!("/proc/{pid}/root{}", module.path));
    if inside.is_file() && is_it(&inside) {
        return Some(inside);
    }
    if let Some(mapped) = mapped_file(pid, module).filter(|path| is_it(path)) {
        return Some(mapped);
    }
    [inside, plain].into_iter().find(|path| path.is_file())
}

/// The file that a process has mapped where this module begins, whatever its path leads to now.
fn mapped_file(pid: u32, module: &ModuleStart) -> Option<PathBuf> {
    let text = read_maps(pid).ok()?;
    let mapping = mappings(&text).find(|mapping| mapping.start == module.start)?;
    let executable = PathBuf::from(format!("/proc/{pid}/exe"));
    let is_executable = executable.metadata().is_ok_and(|file| file.ino() == mapping.inode);
    Some(if is_executable { executable } else { mapping.map_file(pid) })
}

/// Link-time addresses of modules' first pages, remembered by path.
#[derive(Default)]
pub struct Bases(FxHashMap<(String, Vec<u8>), u64>);

impl Bases {
    /// `base_svma` of a module whose process has the number `pid` here; 0 where its file cannot be read.
    pub fn of(&mut self, module: &ModuleStart, pid: impl FnOnce() -> u32) -> u64 {
        *self.0.entry((module.path.clone(), module.build_id.clone())).or_insert_with(|| {
            let map = module_file(module, pid)
                .and_then(|path| File::open(path).ok())
                // SAFETY: read only, and only its headers are looked at; a file that changes meanwhile yields other
                // numbers. One that is truncated meanwhile could raise SIGBUS: loaded files are busy or replaced whole.
                .and_then(|file| unsafe { Mmap::map(&file).ok() });
            map.map_or(0, |elf| base_svma(&elf))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_executable() -> (PathBuf, Vec<u8>) {
        let path = std::env::current_exe().unwrap();
        let id = build_id(&map(&path).unwrap()).unwrap();
        (path, id)
    }

    #[test]
    fn without_a_cache_too_a_file_makes_no_table_of_another() {
        let place = tempfile::tempdir().unwrap();
        let (own, id) = own_executable();
        let other = vec![7; id.len()];
        assert_eq!(put(&other, TableInput::File(&own), place.path(), None), None);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        assert_eq!(put(&id, TableInput::File(&own), place.path(), None), Some(()));
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }

    #[test]
    fn no_table_is_begun_once_it_is_over() {
        let place = tempfile::tempdir().unwrap();
        put_all([own_executable().0], place.path(), &mut || true);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
