use super::{Chain, ChainFile};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn why(command: &[OsString]) -> Option<String> {
    super::why(&Chain::of(command))
}

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn nothing_is_in_the_way_of_an_ordinary_program() {
    assert_eq!(why(&["sh".into()]), None);
    assert_eq!(why(&["no-such-program".into()]), None);
    assert_eq!(why(&["/etc/passwd".into()]), None);
}

/// A script that names itself, and one that leads to another processor's program.
#[test]
fn scripts_lead_to_their_interpreters() {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("script");
    write(&script, format!("#!{}\n", script.display()).as_bytes());
    assert_eq!(why(&[script.clone().into()]), None);
    let other = place.path().join("other");
    write(&other, b"\x7fELF\x01\x01\x01 and so on");
    write(&script, format!("#!{} -x\n", other.display()).as_bytes());
    let direct = why(&[script.clone().into()]).expect("a reason");
    assert!(direct.contains("other is a 32-bit program"), "{direct}");
    write(&script, format!("#!/usr/bin/env -S A=1 {} -x\n", other.display()).as_bytes());
    assert_eq!(why(&[script.clone().into()]), Some(direct));
    let chain = Chain::of(&[script.clone().into()]);
    let steps = [ChainFile::Script(script), ChainFile::Program("/usr/bin/env".into()), ChainFile::Program(other)];
    assert_eq!(chain.steps, steps);
}

/// The ELF headers of a program for this machine, with one change.
fn changed(at: usize, value: &[u8]) -> Option<String> {
    let place = tempfile::tempdir().unwrap();
    let path: PathBuf = place.path().join("program");
    let mut bytes = fs::read("/proc/self/exe").unwrap();
    bytes[at..at + value.len()].copy_from_slice(value);
    write(&path, &bytes);
    why(&[path.into()])
}

#[test]
fn headers_show_what_is_out_of_sight() {
    assert_eq!(changed(0, b"\x7fELF"), None);
    assert!(changed(18, &[183, 0]).is_some_and(|why| why.contains("another processor (aarch64)")));
    // A shell reads it.
    assert_eq!(changed(0, b"MZ"), None);
    assert!(changed(32, &[0xff; 8]).is_some_and(|why| why.contains("a damaged ELF file")));
}

/// It has no interpreter, and loads libmallow.so into the program that is its argument.
#[test]
fn the_dynamic_linker_is_no_static_program() {
    let maps = mallow_proc::read_maps(std::process::id()).unwrap();
    let path = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let linker = mallow_proc::mappings(&maps).map(|one| path(one.path)).find(|path| path.contains("/ld-"));
    assert_eq!(why(&[linker.expect("a path").into(), "/bin/true".into()]), None);
}

/// A script may start a static program, which is not recorded.
#[test]
fn nothing_is_promised_of_what_a_script_starts() {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("script");
    write(&script, b"#!/bin/sh\n./static\n");
    let chain = Chain::of(&[script.clone().into()]);
    let findings = chain.findings();
    let found = findings.iter().find(|finding| finding.check == "script").unwrap();
    let starts =
        "what it starts is not looked at here, and is recorded too where mallow doctor finds nothing against it";
    assert_eq!(found.found, format!("{} is read by /bin/sh; {starts}", script.display()));
}

#[test]
fn a_missing_program_of_a_script_is_named() {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("script");
    write(&script, b"#!/no/such/interpreter\n");
    let chain = Chain::of(&[script.clone().into()]);
    assert_eq!(
        (chain.steps, chain.missing.map(|m| m.0)),
        (vec![ChainFile::Script(script)], Some("/no/such/interpreter".into()))
    );
}
