//! What the binary prints of itself, and `make install`, which puts that where `man` and the shells look.

use std::fs;
use std::path::{Path, PathBuf};

use harness::{Run, directory, mallow, workspace};

fn files(place: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place).expect("a directory").flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path => found.push(path),
        }
    }
    found
}

#[test]
fn a_binary_its_pages_and_its_completions() {
    let place = directory();
    let binary = mallow();
    let outcome = Run::new("make", &workspace())
        .args(["--silent", "install", "PREFIX=/opt/some where"])
        .arg(format!("DESTDIR={}", place.path().display()))
        .arg(format!("MALLOW={}", binary.display()))
        // As it is: this tests no build.
        .arg(format!("--assume-old={}", binary.display()))
        .go();
    assert_eq!((outcome.status, outcome.err().as_str()), (0, ""), "{}", outcome.out());
    let installed: Vec<_> = files(place.path());
    let has = |path: &str| installed.contains(&place.path().join(path));
    for path in [
        "opt/some where/bin/mallow",
        "opt/some where/share/man/man1/mallow.1",
        "opt/some where/share/man/man1/mallow-record.1",
        "opt/some where/share/bash-completion/completions/mallow",
        "opt/some where/share/zsh/site-functions/_mallow",
        "opt/some where/share/fish/vendor_completions.d/mallow.fish",
    ] {
        assert!(has(path), "{path} is not among {installed:#?}");
    }
    assert!(installed.iter().all(|path| fs::metadata(path).is_ok_and(|file| file.len() > 100)), "{installed:#?}");
    // The binary needs none of the rest.
    let copy = place.path().join("alone");
    fs::rename(place.path().join("opt/some where/bin/mallow"), &copy).expect("the binary");
    fs::remove_dir_all(place.path().join("opt")).expect("the rest");
    let outcome = Run::new(&copy, place.path()).args(["record", "--", "true"]).go();
    assert_eq!(outcome.status, 0, "{}", outcome.err());
}

/// What a shell offers after these words.
fn offered(words: &[&str]) -> Vec<String> {
    let place = directory();
    let script = "source <(\"$1\" completions bash); shift; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); \
        registered=$(complete -p mallow | grep -o -- '-F [^ ]*' | cut -c4-); \
        $registered mallow \"${COMP_WORDS[COMP_CWORD]}\" \"${COMP_WORDS[COMP_CWORD - 1]}\"; printf '%s\\n' \"${COMPREPLY[@]}\"";
    let outcome = Run::new("bash", place.path()).args(["-c", script, "bash"]).arg(mallow()).args(words).go();
    assert_eq!((outcome.status, outcome.err().as_str()), (0, ""));
    outcome.out().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    assert_eq!(offered(&["mallow", "rec"]), ["record", "recover"]);
    assert_eq!(offered(&["mallow", "record", "--embed"]), ["--embed-symbols"]);
    assert_eq!(offered(&["mallow", "top", "--by", "p"]), ["peak"]);
    assert_eq!(offered(&["mallow", "completions", "f"]), ["fish"]);
    assert!(offered(&["mallow", "record", "--", "mkfif"]).contains(&"mkfifo".to_owned()));
    let own = std::process::id().to_string();
    assert!(offered(&["mallow", "watch", "-p", &own[..1]]).contains(&own));
}
