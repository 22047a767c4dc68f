//! Where to look for names, and how to show them.

use std::path::PathBuf;
use std::sync::Arc;

use crate::given::Given;

#[derive(Clone, Debug)]
pub struct Options {
    /// Directories with separate debug files, as `debug-file-directory` of gdb has them: searched in this order, for
    /// `.build-id/xx/rest.debug` and for what `.gnu_debuglink` names.
    pub debug_directories: Vec<PathBuf>,
    /// Cache of `debuginfod-find` and of tools with a client: `BUILDID/debuginfo`.
    pub debuginfod_cache: Option<PathBuf>,
    /// The root directory of the processes, as found from here, if they have another one.
    pub root: Option<PathBuf>,
    /// Files that the user named: they come before all others.
    pub given: Option<Arc<Given>>,
    /// Keep the hash at the end of Rust names.
    pub rust_hashes: bool,
}

impl Default for Options {
    fn default() -> Self {
        let debug_directories = vec![PathBuf::from("/usr/lib/debug")];
        Self { debug_directories, debuginfod_cache: debuginfod_cache(), root: None, given: None, rust_hashes: false }
    }
}

/// The directory that debuginfod's client uses: DEBUGINFOD_CACHE_PATH, else the one that older clients made in the home
/// directory, else one in the user's cache.
pub(crate) fn debuginfod_cache() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    set("DEBUGINFOD_CACHE_PATH").or_else(|| {
        let home = set("HOME").filter(|path| path.is_absolute());
        if let Some(old) = home.as_ref().map(|home| home.join(".debuginfod_client_cache")).filter(|old| old.is_dir()) {
            return Some(old);
        }
        let cache = set("XDG_CACHE_HOME").filter(|path| path.is_absolute()).or_else(|| Some(home?.join(".cache")))?;
        Some(cache.join("debuginfod_client"))
    })
}
