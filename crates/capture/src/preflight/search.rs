//! The file that a command's name stands for.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// The file that is executed as `program`, by the rules of execvp.
pub fn find(program: &OsStr) -> io::Result<PathBuf> {
    let executable = |path: &Path| match path.metadata()?.is_dir() {
        true => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
        false => rustix::fs::access(path, rustix::fs::Access::EXEC_OK).map_err(io::Error::from),
    };
    let named = Path::new(program);
    if program.as_encoded_bytes().contains(&b'/') {
        return executable(named).map(|()| named.to_owned());
    }
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    for directory in std::env::split_paths(&path) {
        let path = directory.join(named);
        match executable(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => refused = error,
            Err(_) => {}
        }
    }
    Err(refused)
}
