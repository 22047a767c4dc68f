//! The embedded libmallow.so: unpacked once to a place that nobody else can write to, verified each time.

mod empty;
mod glibc;
mod libdl;

use crate::wire::LIBRARY_NAME;
use mallow_arch::machine::{PLATFORMS, PLATFORMS_32};
use std::borrow::Cow;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

pub use glibc::{glibc_version, installed_glibc};

/// The library's bytes for any C library: libdl is among the libraries that it needs.
pub static LIBRARY: &[u8] = include_bytes!(env!("MALLOW_LIBRARY"));

/// The library's bytes for a C library that has dlopen and its kin inside.
pub fn without_libdl() -> Vec<u8> {
    libdl::without_libdl(LIBRARY)
}

/// The library's bytes for programs that are started on this machine. musl takes either form.
static OF_THIS_MACHINE: LazyLock<Cow<'static, [u8]>> = LazyLock::new(|| match installed_glibc() {
    Some(version) if version < libdl::ONE_FILE => LIBRARY.into(),
    _ => without_libdl().into(),
});

/// Why the library could not be put anywhere.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// Somebody else could change what the target will load.
    #[error(
        "{0} belongs to another user or can be written by others; remove it, or set XDG_CACHE_HOME to a directory of your own"
    )]
    NotPrivate(PathBuf),
    #[error("cannot unpack libmallow.so to {0}: {1}")]
    Io(PathBuf, io::Error),
    #[error(
        "no place for libmallow.so: {0} is mounted noexec, or its path has a space, a colon or a dollar in it; set XDG_CACHE_HOME to a directory of your own where that is not so"
    )]
    Unfit(PathBuf),
}

#[derive(Clone, Debug)]
pub struct Library {
    pub file: PathBuf,
    /// What LD_PRELOAD names: the dynamic linker replaces a part of it by the processor, so that each loads a library
    /// of its own kind: [`PLATFORMS`] and [`PLATFORMS_32`].
    pub preload: PathBuf,
    /// Every user can load the file: so can a program that gives up root's rights and then executes another.
    pub for_all: bool,
}

/// glibc's word for the processor in paths; musl takes it as it is.
const TOKEN: &str = "$PLATFORM";

/// A verified copy in the user's cache directory, or, where that cannot hold it, in `fallback`, a private directory, or
/// in one in the directory for temporary files. Root's copy lies where others can read it, if there is such a place:
/// `/var/cache` first. Fails where others can write to a directory of these.
pub fn unpack(fallback: &Path) -> Result<Library, LibraryError> {
    let user = rustix::process::geteuid();
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let own = caches.map(|caches| caches.join("mallow"));
    // Containers mount /dev/shm noexec, and services have no home.
    let temporary = std::env::temp_dir().join(format!("mallow-{}", user.as_raw()));
    if user.is_root() {
        let shared = [Some(Path::new("/var/cache/mallow")), own.as_deref(), Some(&temporary)];
        // Root of a user namespace finds there what belongs to root outside: another place will do.
        let usable = |place: &Path| unpack_for_all(place).ok().filter(|library| fits_ld_preload(&library.file));
        if let Some(library) = shared.into_iter().flatten().find_map(usable) {
            return Ok(library);
        }
    }
    match own.map(|own| unpack_into(&own, 0o700)) {
        Some(Ok(library)) if fits_ld_preload(&library.file) => return Ok(library),
        Some(Err(LibraryError::NotPrivate(path))) => return Err(LibraryError::NotPrivate(path)),
        _ => {}
    }
    let library = unpack_into(fallback, 0o700)?;
    if fits_ld_preload(&library.file) {
        return Ok(library);
    }
    let library = unpack_into(&temporary, 0o700)?;
    if fits_ld_preload(&library.file) { Ok(library) } else { Err(LibraryError::Unfit(temporary)) }
}

/// Whether LD_PRELOAD can name the path: the dynamic linker splits at spaces and colons, replaces what begins with a
/// dollar, and loads nothing from a file system mounted noexec.
fn fits_ld_preload(path: &Path) -> bool {
    let plain = !path.as_os_str().as_encoded_bytes().iter().any(|b| matches!(b, b' ' | b':' | b'\t' | b'\n' | b'$'));
    let noexec = rustix::fs::statvfs(path).is_ok_and(|fs| fs.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC));
    plain && !noexec
}

/// Puts a copy where every user can read it, whatever the umask is or was. Fails, and makes nothing, where that cannot
/// be: `directory` alone may be missing, or be closed to others, as a run under `umask 077` leaves it.
fn unpack_for_all(directory: &Path) -> Result<Library, LibraryError> {
    let io = |error| LibraryError::Io(directory.to_owned(), error);
    let parent = directory.parent().unwrap_or(directory).canonicalize().map_err(io)?;
    if !parent.ancestors().all(|above| has_mode(above, 0o011)) {
        return Err(io(io::ErrorKind::PermissionDenied.into()));
    }
    let library = unpack_into(directory, 0o755)?;
    if library.for_all { Ok(library) } else { Err(io(io::ErrorKind::PermissionDenied.into())) }
}

fn has_mode(path: &Path, mode: u32) -> bool {
    fs::metadata(path).is_ok_and(|there| there.mode() & mode == mode)
}

/// `mode` is that of the directory, and of its parents where they are missing.
fn unpack_into(directory: &Path, mode: u32) -> Result<Library, LibraryError> {
    let io = |error| LibraryError::Io(directory.to_owned(), error);
    let all = mode & 0o055 == 0o055;
    DirBuilder::new().recursive(!all).mode(mode).create(directory).or_else(exists).map_err(io)?;
    opened(directory, all)?;
    let library = &**OF_THIS_MACHINE;
    let version = directory.join(format!("libmallow-{}-{:016x}", env!("CARGO_PKG_VERSION"), fingerprint(library)));
    let foreign = version.join("ia32");
    for place in [&version, &foreign] {
        DirBuilder::new().mode(0o755).create(place).or_else(exists).map_err(io)?;
        opened(place, true)?;
    }
    let file = version.join(LIBRARY_NAME);
    for (place, path, bytes) in [(&version, &file, library), (&foreign, &foreign.join(LIBRARY_NAME), &empty::library())]
    {
        if !is_ours(path, bytes) {
            write(place, path, bytes).map_err(io)?;
        }
    }
    // And for a dynamic linker that does not replace the word.
    PLATFORMS.iter().chain([&TOKEN]).try_for_each(|name| link(&version.join(name), Path::new("."))).map_err(io)?;
    // 32-bit programs: libmallow.so is none of theirs, and glibc would complain into their standard error.
    PLATFORMS_32.iter().try_for_each(|name| link(&version.join(name), Path::new("ia32"))).map_err(io)?;
    let for_all = file.canonicalize().is_ok_and(|file| file.ancestors().skip(1).all(|above| has_mode(above, 0o011)));
    Ok(Library { preload: version.join(TOKEN).join(LIBRARY_NAME), file, for_all })
}

fn exists(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(error) }
}

/// Fails where the directory is a link, another user's, or open to writes of others. Opens it for all to read, where
/// `all` says so.
fn opened(directory: &Path, all: bool) -> Result<(), LibraryError> {
    const FOR_ALL: u32 = 0o055;
    let io = |error| LibraryError::Io(directory.to_owned(), error);
    // A link is none, wherever it leads.
    let flags = libc::O_NOFOLLOW | libc::O_DIRECTORY;
    let Ok(handle) = OpenOptions::new().read(true).custom_flags(flags).open(directory) else {
        return Err(LibraryError::NotPrivate(directory.to_owned()));
    };
    let status = handle.metadata().map_err(io)?;
    if status.uid() != rustix::process::geteuid().as_raw() || status.mode() & 0o022 != 0 {
        return Err(LibraryError::NotPrivate(directory.to_owned()));
    }
    if all && status.mode() & FOR_ALL != FOR_ALL {
        handle.set_permissions(fs::Permissions::from_mode(status.mode() & 0o7777 | FOR_ALL)).map_err(io)?;
    }
    Ok(())
}

fn link(path: &Path, to: &Path) -> io::Result<()> {
    if fs::read_link(path).is_ok_and(|leads| leads == to) {
        return Ok(());
    }
    let _ = fs::remove_file(path);
    std::os::unix::fs::symlink(to, path).or_else(exists)
}

/// FNV-1a: distinguishes builds. Whether a file may be used is decided by comparing its bytes.
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn is_ours(path: &Path, bytes: &[u8]) -> bool {
    let Ok(mut file) = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path) else { return false };
    let Ok(status) = file.metadata() else { return false };
    let mut found = Vec::new();
    status.is_file()
        && status.uid() == rustix::process::geteuid().as_raw()
        && status.mode() & 0o066 == 0o044
        && status.len() == bytes.len() as u64
        && file.read_to_end(&mut found).is_ok()
        && found == bytes
}

/// Writes aside, then renames: a process that starts meanwhile loads the old file or the new one, whole.
fn write(directory: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let aside = directory.join(format!(".libmallow-{}.so", std::process::id()));
    let _ = fs::remove_file(&aside);
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o755).open(&aside)?;
    let readable = || file.set_permissions(fs::Permissions::from_mode(0o755));
    let written = readable().and_then(|()| file.write_all(bytes)).and_then(|()| fs::rename(&aside, path));
    if written.is_err() {
        let _ = fs::remove_file(&aside);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_was_tampered_with_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let path = unpack_into(&home.path().join("mallow"), 0o700).unwrap().file;
        let mut bytes = fs::read(&path).unwrap();
        assert_eq!(bytes, **OF_THIS_MACHINE);
        bytes[4000] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let haswell = path.with_file_name("haswell");
        fs::remove_file(&haswell).unwrap();
        std::os::unix::fs::symlink("/tmp", &haswell).unwrap();
        assert_eq!(unpack_into(&home.path().join("mallow"), 0o700).unwrap().file, path);
        assert_eq!(fs::read(&path).unwrap(), **OF_THIS_MACHINE);
        assert_eq!(fs::read(haswell.join(LIBRARY_NAME)).unwrap(), **OF_THIS_MACHINE);
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("mallow");
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(unpack_into(&directory, 0o700), Err(LibraryError::NotPrivate(_))));
        let link = home.path().join("link");
        std::os::unix::fs::symlink(home.path(), &link).unwrap();
        assert!(matches!(unpack_into(&link, 0o700), Err(LibraryError::NotPrivate(_))));
    }

    /// What a run under `umask 077` made is opened, and nothing is made below what others cannot enter.
    #[test]
    fn a_copy_for_all_can_be_read_by_all() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("mallow");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert!(unpack_for_all(&directory).is_err() && !directory.exists());
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        if !home.path().ancestors().all(|above| has_mode(above, 0o011)) {
            return; // the directory for temporary files is this user's alone
        }
        let private = unpack_into(&directory, 0o700).unwrap();
        assert!(!private.for_all);
        fs::set_permissions(&private.file, fs::Permissions::from_mode(0o700)).unwrap();
        let library = unpack_for_all(&directory).unwrap();
        assert!(library.for_all && has_mode(&library.file, 0o044) && library.file == private.file);
        assert!(library.preload.exists(), "for those that take the path as it is");
        assert!(unpack_into(&directory, 0o700).unwrap().for_all, "it stays so");
    }
}
