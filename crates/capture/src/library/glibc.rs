//! Which glibc programs of this machine are run with.

use mallow_arch::machine::DYNAMIC_LINKER;
use memchr::memmem;
use std::fs;
use std::path::Path;

/// The version of the glibc that programs of this machine are run with: not of the one that this command may have
/// inside. None: there is none, or it does not say.
pub fn installed_glibc() -> Option<(u32, u32)> {
    glibc_version(&Path::new(DYNAMIC_LINKER).canonicalize().ok()?.with_file_name("libc.so.6"))
}

/// What `libc.so.6` says of itself when it is executed: `GNU C Library (…) stable release version 2.36.`
pub fn glibc_version(path: &Path) -> Option<(u32, u32)> {
    const BEFORE: &[u8] = b" release version ";
    let bytes = fs::read(path).ok()?;
    let at = memmem::find(&bytes, BEFORE)? + BEFORE.len();
    let version = bytes.get(at..)?.split(|byte| !matches!(byte, b'0'..=b'9' | b'.')).next()?;
    let mut numbers = std::str::from_utf8(version).ok()?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
