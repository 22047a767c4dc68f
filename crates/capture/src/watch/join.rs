//! Finding the run directory of a program that runs.

use super::WatchError;
use crate::rundir::owner;
use crate::rundir::process_file::{Opened, ProcessFile};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The run directory that a process takes part in, by its mapped process file, or else by its environment.
pub fn directory_of(pid: u32) -> Result<PathBuf, WatchError> {
    let refused = |error: std::io::Error| match error.kind() {
        ErrorKind::PermissionDenied => WatchError::NotYours(pid),
        _ => WatchError::NoProcess(pid),
    };
    // Its process file is mapped, whatever became of its environment. A mallow that looks at what others left, and has
    // not become the command yet, may have one mapped that was written by somebody with its pid.
    let mapped = owner::own_files(pid).map_err(refused)?;
    let written =
        |path: &&PathBuf| matches!(ProcessFile::open(path), Ok(Opened::Ready(file)) if file.is_written_by(pid));
    if let Some(directory) = mapped.iter().filter(written).find_map(|path| run_directory(path)) {
        return Ok(directory);
    }
    let named = owner::directory_in_environment(pid).map_err(refused)?;
    named.filter(|path| path.join("control").is_file()).ok_or(WatchError::NotOurs(pid))
}

/// The run directory of a process file, `DIR/p-PID-SERIAL`; None: it lies in no run directory.
fn run_directory(path: &Path) -> Option<PathBuf> {
    let directory = path.parent()?;
    let ours = directory.file_name()?.as_bytes().starts_with(b"mallow-");
    (ours && directory.join("control").is_file()).then(|| directory.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{WatchError, directory_of, run_directory};

    #[test]
    fn a_process_file_names_its_directory() {
        let place = tempfile::Builder::new().prefix("mallow-").tempdir().unwrap();
        let file = place.path().join("p-1-0");
        assert_eq!(run_directory(&file), None);
        std::fs::write(place.path().join("control"), "").unwrap();
        assert_eq!(run_directory(&file).as_deref(), Some(place.path()));
    }

    #[test]
    fn a_process_that_cannot_be_joined_is_refused_with_a_reason() {
        assert!(matches!(directory_of(u32::MAX), Err(WatchError::NoProcess(u32::MAX))));
        // Not this process: other tests have run directories in it.
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = directory_of(other.id());
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(matches!(found, Err(WatchError::NotOurs(pid)) if pid == other.id()));
    }
}
