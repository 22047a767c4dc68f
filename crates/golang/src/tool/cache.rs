//! What is kept between calls: test binaries, and what the compiler said.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tempfile::TempDir;

use super::GoError;

/// Test binaries that are kept; each has some 10 MB.
const BINARIES: usize = 24;
/// Packages whose diagnostics are kept; each has some 100 kB.
const DIAGNOSTICS: usize = 2000;

#[derive(Debug)]
pub(super) struct Cache {
    root: PathBuf,
}

#[derive(Clone, Copy)]
pub(super) enum Shelf {
    Binaries,
    Diagnostics,
}

impl Shelf {
    fn name(self) -> &'static str {
        match self {
            Self::Binaries => "binaries",
            Self::Diagnostics => "diagnostics",
        }
    }

    fn room(self) -> usize {
        match self {
            Self::Binaries => BINARIES,
            Self::Diagnostics => DIAGNOSTICS,
        }
    }
}

impl Cache {
    /// The cache in `$XDG_CACHE_HOME/mallow/go`, or below `~/.cache`.
    pub fn for_user() -> Result<Self, GoError> {
        let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let caches = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
        let root = caches.ok_or(GoError::NoHome)?.join("mallow").join("go");
        for shelf in [Shelf::Binaries, Shelf::Diagnostics] {
            let path = root.join(shelf.name());
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(|error| GoError::Cache(path, error))?;
        }
        Ok(Self { root })
    }

    /// The entry's directory, if it is there. It counts as used now.
    pub fn find(&self, shelf: Shelf, name: &str) -> Option<PathBuf> {
        let path = self.root.join(shelf.name()).join(name);
        let directory = File::open(&path).ok()?;
        // An entry whose time cannot be set is used all the same.
        let _ = directory.set_modified(SystemTime::now());
        Some(path)
    }

    /// A directory to make an entry in; it vanishes unless it is kept.
    pub fn draft(&self) -> Result<TempDir, GoError> {
        tempfile::Builder::new().prefix("new-").tempdir_in(&self.root).map_err(|error| self.failed(error))
    }

    /// Makes `from` the entry `name`. Somebody else may have made the same meanwhile: then that one stays.
    pub fn keep(&self, shelf: Shelf, name: &str, from: &Path) -> Result<PathBuf, GoError> {
        let to = self.root.join(shelf.name()).join(name);
        match fs::rename(from, &to) {
            Ok(()) => {}
            Err(_) if to.is_dir() => {}
            Err(error) => return Err(GoError::Cache(to, error)),
        }
        self.prune(shelf);
        Ok(to)
    }

    /// Takes out what was not used for the longest time.
    fn prune(&self, shelf: Shelf) {
        let Ok(entries) = fs::read_dir(self.root.join(shelf.name())) else { return };
        let used = |entry: fs::DirEntry| Some((entry.metadata().ok()?.modified().ok()?, entry.path()));
        let mut entries: Vec<_> = entries.filter_map(|entry| used(entry.ok()?)).collect();
        entries.sort_unstable();
        let surplus = entries.len().saturating_sub(shelf.room());
        for (_, path) in entries.into_iter().take(surplus) {
            // Another process may be taking it out as well.
            let _ = fs::remove_dir_all(path);
        }
    }

    pub fn failed(&self, error: io::Error) -> GoError {
        GoError::Cache(self.root.clone(), error)
    }
}
