//! The mappings of a process that is scanned.

use super::Failure;
use mallow_proc::{Mapping, mappings as lines, read_maps};
use std::io;

/// The first so many mappings are scanned: the list is the process's own affair, and each costs memory here.
const MOST: usize = 1 << 20;

/// The mappings of a process, by address.
pub fn mappings(pid: u32) -> Result<Vec<Mapping>, Failure> {
    let text = read_maps(pid).map_err(|error| failure(&error))?;
    let mut all: Vec<Mapping> = lines(&text).take(MOST).map(Mapping::into_owned).collect();
    all.sort_unstable_by_key(|mapping| mapping.start);
    Ok(all)
}

/// Why a file of `/proc/PID` cannot be read.
pub fn failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Failure::Forbidden,
        _ if error.raw_os_error() == Some(libc::EPERM) => Failure::Forbidden,
        _ => Failure::Gone,
    }
}
