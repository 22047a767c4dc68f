//! The embedded libmallow.so: unpacked once to a private place of the user's own, verified each time.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The library as it was built with this crate.
pub const LIBRARY: &[u8] = include_bytes!(env!("MALLOW_LIBRARY"));

/// Why the library could not be put anywhere.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// Somebody else could change what the target will load.
    #[error(
        "{0} belongs to another user or can be written by others; remove it, or set XDG_CACHE_HOME to a directory of your own"
    )]
    NotPrivate(PathBuf),
    /// The file system said no.
    #[error("cannot unpack libmallow.so to {0}: {1}")]
    Io(PathBuf, io::Error),
    /// The dynamic linker would not take it from any place that there is.
    #[error(
        "no place for libmallow.so: {0} is mounted noexec, or its path has a space or a colon in it; set XDG_CACHE_HOME to a directory of your own where that is not so"
    )]
    Unfit(PathBuf),
}

/// Path of a verified copy of the library: in the user's cache directory, or, where that cannot hold it, in `fallback`,
/// a private directory, or in one in the directory for temporary files. A directory that others can write to is refused.
///
/// Root's copy lies in `/var/cache`, where others can read it: a program that gives up root's rights and then executes
/// another loads it as somebody else, and the dynamic linker would complain into the program's own standard error.
pub fn unpack(fallback: &Path) -> Result<PathBuf, LibraryError> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let for_all = rustix::process::geteuid().is_root().then(|| PathBuf::from("/var/cache"));
    let own = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    for (cache, mode) in [(for_all, 0o755), (own, 0o700)] {
        let Some(cache) = cache else { continue };
        match unpack_into(&cache.join("mallow"), mode) {
            Ok(path) if fits_ld_preload(&path) => return Ok(path),
            // Root of a user namespace finds there what belongs to root outside: another place will do.
            Err(LibraryError::NotPrivate(path)) if mode == 0o700 => return Err(LibraryError::NotPrivate(path)),
            Ok(_) | Err(_) => {}
        }
    }
    let path = unpack_into(fallback, 0o700)?;
    if fits_ld_preload(&path) {
        return Ok(path);
    }
    // Containers mount /dev/shm noexec, and services have no home.
    let own = std::env::temp_dir().join(format!("mallow-{}", rustix::process::geteuid().as_raw()));
    let path = unpack_into(&own, 0o700)?;
    if fits_ld_preload(&path) { Ok(path) } else { Err(LibraryError::Unfit(own)) }
}

/// The dynamic linker splits LD_PRELOAD at spaces and colons, and loads nothing from a file system mounted noexec.
fn fits_ld_preload(path: &Path) -> bool {
    let plain = !path.as_os_str().as_encoded_bytes().iter().any(|b| matches!(b, b' ' | b':' | b'\t' | b'\n'));
    let noexec = rustix::fs::statvfs(path).is_ok_and(|fs| fs.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC));
    plain && !noexec
}

fn unpack_into(directory: &Path, mode: u32) -> Result<PathBuf, LibraryError> {
    let io = |error| LibraryError::Io(directory.to_owned(), error);
    DirBuilder::new().recursive(true).mode(mode).create(directory).map_err(io)?;
    let status = fs::symlink_metadata(directory).map_err(io)?;
    if !status.is_dir() || status.uid() != rustix::process::geteuid().as_raw() || status.mode() & 0o022 != 0 {
        return Err(LibraryError::NotPrivate(directory.to_owned()));
    }
    let path = directory.join(format!("libmallow-{}-{:016x}.so", env!("CARGO_PKG_VERSION"), fingerprint(LIBRARY)));
    if !is_ours(&path) {
        write(directory, &path).map_err(io)?;
    }
    Ok(path)
}

/// FNV-1a: tells builds apart. Whether a file may be used is decided by comparing its bytes.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn is_ours(path: &Path) -> bool {
    let Ok(mut file) = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path) else { return false };
    let Ok(status) = file.metadata() else { return false };
    let mut found = Vec::new();
    status.is_file()
        && status.uid() == rustix::process::geteuid().as_raw()
        && status.mode() & 0o022 == 0
        && status.len() == LIBRARY.len() as u64
        && file.read_to_end(&mut found).is_ok()
        && found == LIBRARY
}

/// Written aside, then renamed: a process that starts meanwhile loads the old file or the new one, whole.
fn write(directory: &Path, path: &Path) -> io::Result<()> {
    let aside = directory.join(format!(".libmallow-{}.so", std::process::id()));
    let _ = fs::remove_file(&aside);
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o755).open(&aside)?;
    let written = file.write_all(LIBRARY).and_then(|()| fs::rename(&aside, path));
    if written.is_err() {
        let _ = fs::remove_file(&aside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_copy_that_was_tampered_with_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let path = unpack_into(&home.path().join("mallow"), 0o700).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        assert_eq!(bytes, LIBRARY);
        bytes[4000] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(unpack_into(&home.path().join("mallow"), 0o700).unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), LIBRARY);
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("mallow");
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(unpack_into(&directory, 0o700), Err(LibraryError::NotPrivate(_))));
    }
}
