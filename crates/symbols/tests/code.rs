//! Machine code as objdump reads it, and functions as nm and the unwind tables have them.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use mallow_profile::{Module, ModuleId, NameSource, Profile};
use mallow_symbols::{Code, CodeError, Symbolizer};
use object::{Object, ObjectSymbol, SymbolKind};
use support::{compile, nowhere, profile, run, symbol};

fn code(path: &Path) -> Code {
    Symbolizer::new(nowhere()).code(&profile(path), ModuleId(0)).unwrap()
}

/// Address → text of all that objdump makes of `.text`.
fn objdump(path: &Path) -> BTreeMap<u64, String> {
    let text = run(Command::new("objdump").args(["-d", "-w", "-C", "--no-show-raw-insn", "-j", ".text"]).arg(path));
    let text = String::from_utf8(text).unwrap();
    let row = |line: &str| {
        let (address, text) = line.split_once(":\t")?;
        Some((u64::from_str_radix(address.trim(), 16).ok()?, text.to_owned()))
    };
    text.lines().filter_map(row).collect()
}

/// Functions with a size, by address.
fn functions(path: &Path) -> Vec<(u64, u64, String)> {
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let functions = file.symbols().filter(|s| s.kind() == SymbolKind::Text && s.size() > 0);
    functions.map(|s| (s.address(), s.address() + s.size(), s.name().unwrap().to_owned())).collect()
}

fn compare(path: &Path) {
    let (code, theirs) = (code(path), objdump(path));
    let mut compared = 0;
    for (start, end, name) in functions(path).into_iter().filter(|f| theirs.contains_key(&f.0)) {
        assert_eq!(code.function(end - 1), Some(start..end), "{name}");
        let ours = code.instructions(start..end);
        let addresses: Vec<u64> = ours.iter().map(|i| i.address()).collect();
        assert_eq!(addresses, theirs.range(start..end).map(|(&at, _)| at).collect::<Vec<_>>(), "{name}");
        assert!(ours.windows(2).all(|pair| pair[0].next() == pair[1].address()));
        for instruction in &ours {
            let theirs = &theirs[&instruction.address()];
            // The mnemonic without its size suffix.
            let word = |text: &str| {
                text.split_whitespace().find(|w| !["bnd", "notrack", "rep"].contains(w)).map(str::to_owned)
            };
            let (a, b) = (word(&instruction.text()).unwrap(), word(theirs).unwrap());
            let alike = a.starts_with(&b) || b.starts_with(&a) || a[..2] == b[..2];
            assert!(alike, "{name}: {} and {theirs}", instruction.text());
            if let (true, Some((target, 0))) = (theirs.starts_with("call"), code.target(instruction)) {
                let stem = target.split(['(', '<', ' ']).next().unwrap().rsplit("::").next().unwrap().to_owned();
                assert!(theirs.contains(stem.trim_end_matches("@plt")), "{target} and {theirs}");
                compared += 1;
            }
        }
    }
    assert!(compared > 3, "{compared} calls");
}

#[test]
fn instructions_and_functions_are_those_of_objdump_and_nm() {
    let folder = tempfile::tempdir().unwrap();
    for (program, flags) in
        [("plain.c", ["-O2", "-fcf-protection"]), ("shapes.cpp", ["-O1", "-g"]), ("plain.c", ["-O2", "-fno-plt"])]
    {
        compare(&compile(folder.path(), program, &flags));
    }
}

#[test]
fn a_stripped_function_is_known_by_its_unwind_information() {
    let folder = tempfile::tempdir().unwrap();
    let path = compile(folder.path(), "plain.c", &["-O2"]);
    let internal = symbol(&path, "internal");
    let whole = code(&path).function(internal + 5).unwrap();
    assert_eq!(whole.start, internal);
    run(Command::new("strip").arg(&path));
    let stripped = code(&path);
    assert_eq!(stripped.name(internal), None);
    assert_eq!(stripped.function(internal + 5), Some(whole.clone()));
    // Without the index, the entries themselves.
    run(Command::new("objcopy").args(["--remove-section", ".eh_frame_hdr"]).arg(&path));
    assert_eq!(code(&path).function(internal + 5), Some(whole));
    let calls = stripped.instructions(stripped.function(internal).unwrap());
    let names: Vec<_> = calls.iter().filter_map(|i| stripped.target(i)).collect();
    assert!(names.iter().any(|(name, _)| name.contains("printf")), "{names:?}");
}

#[test]
fn a_function_without_unwind_information_is_known_by_its_symbol() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["-O2", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    let path = compile(folder.path(), "plain.c", &flags);
    for (start, end, _) in functions(&path).into_iter().filter(|f| ["main", "internal"].contains(&f.2.as_str())) {
        assert_eq!(code(&path).function(start), Some(start..end));
    }
}

#[test]
fn what_is_no_code_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = compile(folder.path(), "plain.c", &["-O2"]);
    let of = |path: &Path, build_id: Vec<u8>| {
        let module = Module { path: path.to_str().unwrap().to_owned(), build_id };
        let profile = Profile { modules: vec![module], ..Profile::default() };
        assert_eq!(
            Symbolizer::new(nowhere()).code(&profile, ModuleId(1)).err(),
            Some(CodeError::Module(NameSource::Nothing))
        );
        Symbolizer::new(nowhere()).code(&profile, ModuleId(0)).err()
    };
    assert!(matches!(of(&folder.path().join("gone"), vec![1]), Some(CodeError::Module(NameSource::FileGone(_)))));
    assert!(matches!(of(&path, vec![1]), Some(CodeError::Module(NameSource::BuildIdDiffers { .. }))));
    let other = folder.path().join("other");
    let mut bytes = std::fs::read(&path).unwrap();
    // e_machine: AArch64.
    bytes[18..20].copy_from_slice(&183u16.to_le_bytes());
    std::fs::write(&other, bytes).unwrap();
    assert_eq!(of(&other, profile(&path).modules[0].build_id.clone()), Some(CodeError::Machine));
    let code = code(&path);
    assert_eq!(code.function(0), None);
    assert!(code.instructions(1 << 40..(1 << 40) + 100).is_empty());
    let (start, end) = (symbol(&path, "main"), u64::MAX);
    assert!(code.instructions(start..end).len() < 100_000);
}
