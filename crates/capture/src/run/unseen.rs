//! Why a command may have been invisible, found out from its file after the fact.

use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, elf};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
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

/// The program that the first line of a script names.
fn interpreter(script: &[u8]) -> Option<OsString> {
    let line = script.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?.trim_ascii();
    line.split(|b| b.is_ascii_whitespace()).next().map(|word| OsStr::from_bytes(word).to_owned())
}

/// Why no call of `program` reached libmallow.so, and what to do instead. None where nothing is in the way: then it
/// made no allocation.
pub fn why(program: &OsStr) -> Option<String> {
    let mut path = find(program)?;
    // A script's interpreter may be a script, too; the kernel follows five at the most.
    for _ in 0..5 {
        let bytes = fs::read(&path).ok()?;
        let Some(next) = interpreter(&bytes) else { return why_file(&path, &bytes) };
        path = PathBuf::from(next);
    }
    None
}

fn why_file(path: &Path, bytes: &[u8]) -> Option<String> {
    let shown = path.display();
    let status = fs::metadata(path).ok()?;
    if status.permissions().mode() & 0o6000 != 0 && status.uid() != rustix::process::geteuid().as_raw() {
        return Some(format!(
            "{shown} runs with another user's rights (setuid), where the dynamic linker loads no foreign library; run it as that user"
        ));
    }
    if bytes.get(..5) == Some(b"\x7fELF\x01") {
        return Some(format!("{shown} is a 32-bit program; Mallow knows x86-64 alone so far: build it without -m32"));
    }
    let header = elf::FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, bytes).ok()?;
    let linker = segments.iter().find_map(|s| s.interpreter(endian, bytes).ok().flatten());
    let Some(linker) = linker else {
        return Some(format!(
            "{shown} is statically linked: its allocator is inside it, out of reach; link it dynamically (without -static)"
        ));
    };
    if header.e_machine.get(endian) != elf::EM_X86_64 {
        return Some(format!("{shown} is built for another processor; Mallow knows x86-64 alone so far"));
    }
    if linker.windows(7).any(|w| w == b"ld-musl") {
        return Some(format!(
            "{shown} runs on musl, and this libmallow.so is built for glibc; build the program for glibc"
        ));
    }
    defines_malloc(bytes).then(|| {
        format!(
            "{shown} has an allocator of its own, which its calls never leave; build it without that, or link the allocator as a shared library, which Mallow sees"
        )
    })
}

/// Whether the program offers its own `malloc` to the libraries that it loads. The dynamic linker looks there first.
fn defines_malloc(bytes: &[u8]) -> bool {
    let Ok(file) = ElfFile64::<Endianness>::parse(bytes) else { return false };
    file.dynamic_symbols().any(|symbol| symbol.is_definition() && symbol.name_bytes() == Ok(b"malloc"))
}

#[cfg(test)]
mod tests {
    use super::{interpreter, why};
    use std::ffi::OsStr;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_first_line_names_the_interpreter() {
        for (script, program) in [
            ("#!/bin/sh\necho\n", Some("/bin/sh")),
            ("#! /usr/bin/env -S python3\n", Some("/usr/bin/env")),
            ("#!/bin/sh", Some("/bin/sh")),
            ("#!\n/bin/sh\n", None),
            ("echo\n", None),
        ] {
            let found = interpreter(script.as_bytes()).filter(|program| !program.is_empty());
            assert_eq!(found.as_deref(), program.map(OsStr::new), "{script:?}");
        }
    }

    #[test]
    fn nothing_is_in_the_way_of_an_ordinary_program() {
        assert_eq!(why(OsStr::new("sh")), None);
        assert_eq!(why(OsStr::new("no-such-program")), None);
        assert_eq!(why(OsStr::new("/etc/passwd")), None);
    }

    /// A script that names itself, and one that leads to another processor's program.
    #[test]
    fn scripts_lead_to_their_interpreters() {
        let place = tempfile::tempdir().unwrap();
        let script = place.path().join("script");
        std::fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert_eq!(why(script.as_os_str()), None);
        let other = place.path().join("other");
        std::fs::write(&other, b"\x7fELF\x01\x01\x01 and so on").unwrap();
        std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(&script, format!("#!{} -x\n", other.display())).unwrap();
        let why = why(script.as_os_str()).expect("a reason");
        assert!(why.contains("other is a 32-bit program"), "{why}");
    }
}
