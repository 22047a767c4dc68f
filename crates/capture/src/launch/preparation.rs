//! Unwind tables made before a command starts, for runs in which nobody may be there to make them.

use crate::preflight::Chain;
use crate::tables;
use crate::tables::supply::put_all;
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{ElfFile, ProgramHeader};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Makes the tables of what `command` loads at its start, of the library and of the vdso, in `tables`.
pub fn make(command: &[OsString], tables: &Path) {
    let mut files = BTreeSet::new();
    for program in Chain::of(command).programs() {
        files.extend(loaded(program));
    }
    put_all(files, tables, &mut || false);
}

/// The program and what its dynamic linker would load with it. The linker lists that; it runs nothing of the program.
fn loaded(program: &Path) -> Vec<PathBuf> {
    let Some(linker) = linker(program) else { return Vec::new() };
    let listed =
        Command::new(&linker).arg("--list").arg(program).env_remove("LD_PRELOAD").stderr(Stdio::null()).output();
    let text = listed.map(|output| output.stdout).unwrap_or_default();
    let words = text.split(|byte| byte.is_ascii_whitespace());
    let mut files: Vec<PathBuf> =
        words.filter(|word| word.starts_with(b"/")).map(|word| PathBuf::from(OsStr::from_bytes(word))).collect();
    files.extend([program.to_owned(), linker]);
    files
}

fn linker(program: &Path) -> Option<PathBuf> {
    let bytes = tables::map(program).ok()?;
    let file = ElfFile::<FileHeader64<Endianness>>::parse(&*bytes).ok()?;
    let endian = file.endian();
    let path = file.elf_program_headers().iter().find_map(|s| s.interpreter(endian, &*bytes).ok().flatten())?;
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_leads_to_its_interpreters_libraries() {
        let place = tempfile::tempdir().unwrap();
        let made = place.path().join("tables");
        std::fs::create_dir(&made).unwrap();
        let script = place.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        make(&[script.into()], &made);
        let shell = Path::new("/bin/sh").canonicalize().unwrap();
        let name = |path: &Path| -> String {
            tables::build_id(&tables::map(path).unwrap()).unwrap().iter().map(|byte| format!("{byte:02x}")).collect()
        };
        let libc = loaded(&shell).into_iter().find(|path| path.to_string_lossy().contains("libc.so")).unwrap();
        for file in [&shell, &libc] {
            let table = std::fs::read(made.join(name(file))).unwrap();
            assert!(tables::TableView::parse(&table).is_ok(), "{}", file.display());
        }
    }
}
