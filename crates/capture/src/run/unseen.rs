//! Why a command may have been invisible, found out from its file after the fact.

use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The file that a shell would run for `program`.
fn find(program: &OsStr) -> Option<PathBuf> {
    let named = Path::new(program);
    if named.components().count() > 1 {
        return Some(named.to_owned());
    }
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(named)).find(|p| p.is_file())
}

/// Why libmallow.so was not loaded into `program`, and what to do instead; None where its file does not tell.
pub fn why(program: &OsStr) -> Option<String> {
    let path = find(program)?;
    let shown = path.display();
    let status = fs::metadata(&path).ok()?;
    if status.permissions().mode() & 0o6000 != 0 && status.uid() != rustix::process::geteuid().as_raw() {
        return Some(format!(
            "{shown} runs with another user's rights (setuid), where the dynamic linker loads no foreign library; run it as that user"
        ));
    }
    let bytes = fs::read(&path).ok()?;
    let header = elf::FileHeader64::<Endianness>::parse(&*bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &*bytes).ok()?;
    let interpreter = segments.iter().find_map(|s| s.interpreter(endian, &*bytes).ok().flatten());
    match interpreter {
        None => Some(format!(
            "{shown} is statically linked: its allocator is inside it, out of reach; link it dynamically (without -static)"
        )),
        Some(path) if path.windows(7).any(|w| w == b"ld-musl") => {
            Some(format!("{shown} runs on musl, and this libmallow.so is built for glibc; build the program for glibc"))
        }
        Some(_) if header.e_machine.get(endian) != elf::EM_X86_64 => {
            Some(format!("{shown} is built for another processor; Mallow knows x86-64 alone so far"))
        }
        Some(_) => None,
    }
}
