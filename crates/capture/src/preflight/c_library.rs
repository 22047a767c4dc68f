//! The C library that a program would be run with, and its version.

use super::finding::Finding;
use crate::library::glibc_version;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(super) const C_LIBRARY: &str = "C library";

/// The oldest glibc that has each function of libmallow.so, which needs no versions of symbols (preload/link/libc.c):
/// clock_gettime came into the C library itself with this one.
const OLDEST: (u32, u32) = (2, 17);

/// Whether the C library that the dynamic linker comes with is one that libmallow.so can be loaded beside.
pub(super) fn check(path: &Path, linker: &Path) -> Finding {
    let shown = path.display();
    let Ok(real) = linker.canonicalize() else {
        return Finding::fails(
            C_LIBRARY,
            format!("{shown} needs the dynamic linker {}, which is not here", linker.display()),
            "install the C library that it was built for",
        );
    };
    if linker.as_os_str().as_bytes().windows(7).any(|w| w == b"ld-musl") {
        return Finding::works(C_LIBRARY, format!("musl, {}", linker.display()));
    }
    // glibc's linker looks there first of all that is not configured.
    let libc = real.with_file_name("libc.so.6");
    if !libc.exists() {
        return Finding::works(C_LIBRARY, format!("loaded by {}", linker.display()));
    }
    match glibc_version(&libc) {
        None => Finding::works(C_LIBRARY, "glibc of unknown version"),
        Some((major, minor)) if (major, minor) >= OLDEST => Finding::works(C_LIBRARY, format!("glibc {major}.{minor}")),
        Some((major, minor)) => Finding::fails(
            C_LIBRARY,
            format!("{shown} runs on glibc {major}.{minor}, and libmallow.so needs {}.{}", OLDEST.0, OLDEST.1),
            "run it on a newer system",
        ),
    }
}
