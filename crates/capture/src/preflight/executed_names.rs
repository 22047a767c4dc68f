//! Names by which processes were executed: a program may be one file with several names, and behave as its name says.

use super::search;
use mallow_profile::Process;
use rustc_hash::FxHashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Sets `executed_as` of processes, for some system calls for each program and name.
pub fn set(processes: &mut [Process]) {
    let mut known: FxHashMap<(String, String), String> = FxHashMap::default();
    for process in processes {
        let Some(name) = process.arguments.first() else { continue };
        let key = (process.executable.clone(), name.clone());
        process.executed_as = known.entry(key).or_insert_with(|| find(&process.executable, name)).clone();
    }
}

/// The path by which the first argument names the executable; empty: by none but its own, as a program may be given any
/// word there. A server may have written a title over it: `redis-server *:6379`, `nginx: worker process`.
pub(crate) fn find(executable: &str, name: &str) -> String {
    let command = name.split(' ').next().unwrap_or_default();
    let found = |name: &str| {
        let path = Path::new(name);
        if path.file_name().is_none_or(|file| Some(file) == Path::new(executable).file_name()) {
            return None;
        }
        let path: PathBuf = if name.contains('/') { path.to_owned() } else { search::find(OsStr::new(name)).ok()? };
        let leads = path.canonicalize().ok()? == Path::new(executable);
        std::path::absolute(path).ok().filter(|_| leads)
    };
    let found = found(name).or_else(|| found(command.strip_suffix(':').unwrap_or(command)));
    found.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn a_name_leads_to_the_executable() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().canonicalize().unwrap().join(name).to_str().unwrap().to_owned();
        std::fs::write(path("tool"), "").unwrap();
        std::os::unix::fs::symlink("tool", path("alias")).unwrap();
        for name in [path("alias"), path("alias") + " *:6379", path("alias") + ": worker process"] {
            assert_eq!(find(&path("tool"), &name), path("alias"), "{name}");
        }
        for other in [path("tool"), path("none"), String::new(), "/".to_owned(), "no-such-program".to_owned()] {
            assert_eq!(find(&path("tool"), &other), "", "{other}");
        }
        assert_eq!(find("/nowhere/tool", &path("alias")), "");
    }
}
