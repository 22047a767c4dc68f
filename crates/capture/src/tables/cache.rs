//! Tables kept on disk, by build-id, in a directory of the user's own.
//!
//! The target trusts tables, so a directory into which somebody else can write is refused, and a file that was there
//! before is checked in whole before it is used.

use super::builder::{build, build_file, build_id, map};
use super::error::TableError;
use super::view::TableView;
use crate::wire::table_directory;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// More bytes than any build-id in use has (SHA-256: 32), and as hexadecimal still a file name.
const BUILD_ID_BYTES: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// Neither `XDG_CACHE_HOME` nor `HOME` is an absolute path.
    #[error("no cache directory: neither XDG_CACHE_HOME nor HOME is set to an absolute path")]
    NoHome,
    /// Another user owns the directory, or others can write to it, or it is no directory.
    #[error("{0} is not a directory that only its owner, this user, can write to")]
    Unsafe(PathBuf),
    /// The directory or a file in it cannot be made.
    #[error("{0}: {1}")]
    Io(PathBuf, #[source] io::Error),
    /// The build-id is empty or longer than any in use.
    #[error("a build-id of {0} bytes")]
    BuildId(usize),
    /// The file is not the one that the build-id was read from.
    #[error("{0} has another build-id than the module that was loaded from it")]
    Replaced(PathBuf),
    /// No table can be made of the file.
    #[error("{0}: {1}")]
    Table(PathBuf, #[source] TableError),
}

/// A directory of table files, each named by its build-id in hexadecimal.
#[derive(Clone, Debug)]
pub struct TableCache {
    dir: PathBuf,
}

impl TableCache {
    /// Opens `$XDG_CACHE_HOME/mallow/unwind-VERSION`, or that below `~/.cache`; what is missing is made.
    pub fn for_user() -> Result<Self, CacheError> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let caches = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
        let caches = caches.ok_or(CacheError::NoHome)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&caches).map_err(|e| CacheError::Io(caches.clone(), e))?;
        let own = caches.join("mallow");
        make_private(&own)?;
        Self::open(&own.join(table_directory()))
    }

    /// Opens `dir`, which is made if its parent exists.
    pub fn open(dir: &Path) -> Result<Self, CacheError> {
        make_private(dir)?;
        Ok(Self { dir: dir.to_owned() })
    }

    pub fn directory(&self) -> &Path {
        &self.dir
    }

    /// Path of the table of the module `path` with this build-id, made now if it is not there or is damaged.
    pub fn get_or_build(&self, build_id: &[u8], path: &Path) -> Result<PathBuf, CacheError> {
        self.get_or_make(build_id, || {
            let elf = map(path).map_err(|e| CacheError::Table(path.to_owned(), e))?;
            self::build_id(&elf)
                .is_some_and(|found| found == build_id)
                .then_some(())
                .ok_or_else(|| CacheError::Replaced(path.to_owned()))?;
            build(&elf).map_err(|e| CacheError::Table(path.to_owned(), e))
        })
    }

    /// [`get_or_build`](Self::get_or_build) for an image that is in no file, like the vdso.
    pub fn get_or_build_image(&self, build_id: &[u8], elf: &[u8]) -> Result<PathBuf, CacheError> {
        self.get_or_make(build_id, || build(elf).map_err(|e| CacheError::Table("[vdso]".into(), e)))
    }

    fn get_or_make(
        &self,
        build_id: &[u8],
        make: impl FnOnce() -> Result<Vec<u8>, CacheError>,
    ) -> Result<PathBuf, CacheError> {
        if build_id.is_empty() || build_id.len() > BUILD_ID_BYTES {
            return Err(CacheError::BuildId(build_id.len()));
        }
        let name: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = self.dir.join(name);
        if !is_sound(&path) {
            write_table(&path, &make()?)?;
        }
        Ok(path)
    }
}

/// Writes the table of a module that has no build-id into the file `to`.
pub fn build_to(elf: &Path, to: &Path) -> Result<(), CacheError> {
    let image = build_file(elf).map_err(|e| CacheError::Table(elf.to_owned(), e))?;
    write_table(to, &image)
}

/// Whether a directory of tables is lent to processes of another mount namespace or user: others may read it.
pub fn is_lent(tables: &Path) -> bool {
    fs::metadata(tables).is_ok_and(|status| status.mode() & 0o005 != 0)
}

/// Writes a table file under another name first: whoever finds `to` finds it whole.
pub fn write_table(to: &Path, image: &[u8]) -> Result<(), CacheError> {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed)));
    let temporary = to.with_file_name(name);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| {
            file.write_all(image)?;
            match to.parent().is_some_and(is_lent) {
                true => file.set_permissions(fs::Permissions::from_mode(0o644)),
                false => Ok(()),
            }
        })
        .and_then(|()| fs::rename(&temporary, to));
    written.map_err(|e| {
        // The name was this process's own; nothing is left to do about a file that cannot be removed.
        let _ = fs::remove_file(&temporary);
        CacheError::Io(to.to_owned(), e)
    })
}

fn is_sound(path: &Path) -> bool {
    let own = fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && is_private(&found));
    own && map(path).is_ok_and(|data| TableView::parse(&data).and_then(|table| table.check()).is_ok())
}

fn make_private(dir: &Path) -> Result<(), CacheError> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(CacheError::Io(dir.to_owned(), e)),
        _ => {}
    }
    let found = fs::symlink_metadata(dir).map_err(|e| CacheError::Io(dir.to_owned(), e))?;
    (found.is_dir() && is_private(&found)).then_some(()).ok_or_else(|| CacheError::Unsafe(dir.to_owned()))
}

fn is_private(found: &fs::Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn own_executable() -> (PathBuf, Vec<u8>) {
        let path = std::env::current_exe().expect("own path");
        let id = build_id(&fs::read(&path).expect("own file")).expect("test programs have build-ids");
        (path, id)
    }

    #[test]
    fn a_table_is_built_once() {
        let dir = tempfile::tempdir().expect("directory");
        let cache = TableCache::open(&dir.path().join("unwind")).expect("new directory");
        let (path, id) = own_executable();
        let table = cache.get_or_build(&id, &path).expect("table");
        let image = fs::read(&table).expect("file");
        assert_eq!(image, build_file(&path).expect("table"));
        let first = fs::metadata(&table).expect("file").ino();
        assert_eq!(cache.get_or_build(&id, Path::new("/nowhere")).expect("cached"), table);
        assert_eq!(fs::metadata(&table).expect("file").ino(), first);
        assert_eq!(fs::read_dir(&cache.dir).expect("directory").count(), 1, "no temporary file stays");
        assert_eq!(fs::metadata(&cache.dir).expect("directory").mode() & 0o777, 0o700);
    }

    #[test]
    fn damaged_tables_are_built_again() {
        let dir = tempfile::tempdir().expect("directory");
        let cache = TableCache::open(dir.path()).expect("directory");
        let (path, id) = own_executable();
        let table = cache.get_or_build(&id, &path).expect("table");
        let good = fs::read(&table).expect("file");
        let mut other_version = good.clone();
        other_version[4] ^= 1;
        let mut bad_row = good.clone();
        bad_row[64] = 1;
        for bad in [&good[..good.len() - 1], &other_version, &bad_row, b""] {
            fs::write(&table, bad).expect("write");
            assert_eq!(fs::read(cache.get_or_build(&id, &path).expect("table")).expect("file"), good);
        }
        fs::remove_file(&table).expect("remove");
        symlink(&path, &table).expect("link");
        cache.get_or_build(&id, &path).expect("table");
        assert!(fs::symlink_metadata(&table).expect("file").is_file());
    }

    #[test]
    fn another_file_under_the_same_path_makes_no_table() {
        let dir = tempfile::tempdir().expect("directory");
        let cache = TableCache::open(dir.path()).expect("directory");
        let (path, mut id) = own_executable();
        id[0] ^= 1;
        assert!(matches!(cache.get_or_build(&id, &path), Err(CacheError::Replaced(_))));
        assert!(matches!(cache.get_or_build(&[], &path), Err(CacheError::BuildId(0))));
        assert!(matches!(cache.get_or_build(&[1; 65], &path), Err(CacheError::BuildId(65))));
        assert!(matches!(cache.get_or_build(&[1], Path::new("/dev/null")), Err(CacheError::Table(..))));
    }

    #[test]
    fn directories_that_others_can_write_to_are_refused() {
        let dir = tempfile::tempdir().expect("directory");
        let open = dir.path().join("open");
        fs::create_dir(&open).expect("directory");
        for mode in [0o720, 0o702, 0o777] {
            fs::set_permissions(&open, fs::Permissions::from_mode(mode)).expect("mode");
            assert!(matches!(TableCache::open(&open), Err(CacheError::Unsafe(_))), "{mode:o}");
        }
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).expect("mode");
        assert!(TableCache::open(&open).is_ok());
        let link = dir.path().join("link");
        symlink(&open, &link).expect("link");
        assert!(matches!(TableCache::open(&link), Err(CacheError::Unsafe(_))));
        assert!(matches!(TableCache::open(&dir.path().join("no/such")), Err(CacheError::Io(..))));
    }
}
