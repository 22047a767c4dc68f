//! The kernel's own module, which is in no file.

use std::io;

use crate::maps::{mappings, read_maps};
use crate::task::Task;

/// Path of the vDSO in `/proc/PID/maps`.
pub const VDSO: &str = "[vdso]";

/// More than any kernel's vdso has (two to four pages today), in bytes.
const LIMIT: u64 = 1 << 20;

/// The ELF file that the kernel maps into this process, and into all others of the machine until that boots another
/// kernel. It lives as long as the process. None: this process has none. Fails where `/proc` cannot be read.
pub fn vdso() -> io::Result<Option<&'static [u8]>> {
    let text = read_maps(Task::Own)?;
    let is_it = |path: &[u8], bytes: u64| path == VDSO.as_bytes() && bytes <= LIMIT;
    let Some(found) = mappings(&text).find(|one| one.readable && is_it(one.path, one.end - one.start)) else {
        return Ok(None);
    };
    let (start, bytes) = (found.start as usize as *const u8, (found.end - found.start) as usize);
    // SAFETY: paths of files begin with a slash and names that programs give with `[anon`, so this mapping is the
    // kernel's. It is readable, stays for the life of the process, and nothing writes to it.
    Ok(Some(unsafe { std::slice::from_raw_parts(start, bytes) }))
}
