//! Finding the run directory of a program that runs.

use super::WatchError;
use crate::wire;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The run directory that a process takes part in.
pub fn directory_of(pid: u32) -> Result<PathBuf, WatchError> {
    let read = |file: &str| fs::read(format!("/proc/{pid}/{file}"));
    let refused = |error: std::io::Error| match error.kind() {
        ErrorKind::PermissionDenied => WatchError::NotYours(pid),
        _ => WatchError::NoProcess(pid),
    };
    // Its process file is mapped, whatever became of its environment.
    let maps = read("maps").map_err(refused)?;
    let mapped = maps.split(|&byte| byte == b'\n').filter_map(mapped_file).find_map(run_directory);
    if let Some(directory) = mapped {
        return Ok(directory);
    }
    let environment = read("environ").map_err(refused)?;
    let mut variables = environment.split(|&byte| byte == 0);
    let prefix = [wire::DIR_VARIABLE.as_bytes(), b"="].concat();
    let told = variables.find_map(|variable| variable.strip_prefix(&prefix[..]));
    let directory =
        told.map(|path| PathBuf::from(OsStr::from_bytes(path))).filter(|path| path.join("control").is_file());
    directory.ok_or(WatchError::NotOurs(pid))
}

/// The path at the end of a line of /proc/PID/maps.
fn mapped_file(line: &[u8]) -> Option<&Path> {
    let at = line.iter().position(|&byte| byte == b'/')?;
    Some(Path::new(OsStr::from_bytes(&line[at..])))
}

/// The directory of a process file, `DIR/p-PID-SERIAL`.
fn run_directory(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.as_bytes();
    let directory = path.parent()?;
    let ours = name.starts_with(b"p-") && directory.file_name()?.as_bytes().starts_with(b"mallow-");
    (ours && directory.join("control").is_file()).then(|| directory.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{WatchError, directory_of, mapped_file, run_directory};
    use std::path::Path;

    #[test]
    fn a_process_file_names_its_directory() {
        let line = b"7f00-7f10 rw-s 00000000 00:1a 4711   /dev/shm/mallow-0004711-c0ffee/p-4711-0";
        assert_eq!(mapped_file(line), Some(Path::new("/dev/shm/mallow-0004711-c0ffee/p-4711-0")));
        assert_eq!(mapped_file(b"7f00-7f10 rw-p 00000000 00:00 0"), None);
        let place = tempfile::Builder::new().prefix("mallow-").tempdir().unwrap();
        let file = place.path().join("p-1-0");
        assert_eq!(run_directory(&file), None);
        std::fs::write(place.path().join("control"), "").unwrap();
        assert_eq!(run_directory(&file).as_deref(), Some(place.path()));
        assert_eq!(run_directory(&place.path().join("control")), None);
    }

    #[test]
    fn who_cannot_be_joined_is_told_why() {
        assert!(matches!(directory_of(u32::MAX), Err(WatchError::NoProcess(u32::MAX))));
        // Not this process: other tests have run directories in it.
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let told = directory_of(other.id());
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(matches!(told, Err(WatchError::NotOurs(pid)) if pid == other.id()));
    }
}
