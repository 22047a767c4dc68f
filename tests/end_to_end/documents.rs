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
    let schemas = files(&workspace().join("docs/schemas"));
    assert!(schemas.len() > 30, "{schemas:#?}");
    for schema in schemas {
        let name = schema.file_name().expect("a name");
        let copy = place.path().join("opt/some where/share/mallow/schemas").join(name);
        assert_eq!(fs::read_to_string(copy).expect("the schema"), fs::read_to_string(&schema).expect("the schema"));
    }
    assert!(installed.iter().all(|path| fs::metadata(path).is_ok_and(|file| file.len() > 100)), "{installed:#?}");
    // The binary needs none of the rest.
    let copy = place.path().join("alone");
    fs::rename(place.path().join("opt/some where/bin/mallow"), &copy).expect("the binary");
    fs::remove_dir_all(place.path().join("opt")).expect("the rest");
    let outcome = Run::new(&copy, place.path()).args(["record", "--", "true"]).go();
    assert_eq!(outcome.status, 0, "{}", outcome.err());
}

/// Of each command that its help names, and of the documents of `--json`.
#[test]
fn help_prints_help_and_schemas() {
    let place = directory();
    let run = |words: &[&str]| Run::new(mallow(), place.path()).args(words).go();
    for (words, flags) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "record"], &["record", "--help"]),
        (&["help", "go", "bench"], &["go", "bench", "--help"]),
        (&["help", "help"], &["help", "--help"]),
    ] {
        let (help, flag) = (run(words), run(flags));
        assert_eq!((help.status, help.err(), help.out()), (0, String::new(), flag.out()), "{words:?}");
    }
    let list = run(&["help", "json"]).out();
    for schema in files(&workspace().join("docs/schemas")) {
        let name = schema.file_stem().expect("a name").to_string_lossy().into_owned();
        assert!(list.contains(&format!("\n  {name} ")), "{name} is not in {list}");
        let without_version = name.rsplit_once('-').expect("a version").0;
        for asked in [&name, without_version] {
            let printed = run(&["help", "json", asked]);
            assert_eq!((printed.status, printed.out()), (0, fs::read_to_string(&schema).expect("the schema")));
        }
    }
    for (words, expected) in [
        (&["help", "json", "reports"][..], "there is no document reports; mallow help json lists them"),
        (&["help", "recrod"], "there is no command recrod; mallow --help lists them, and mallow help json documents"),
        (&["help", "record", "--into", "x"], "--into is for all schemas: mallow help json --into DIR"),
        (&["help", "json", "top", "tree"], "a document has one name; tree is too many"),
    ] {
        let run = run(words);
        assert_eq!(
            (run.status, run.out(), run.err()),
            (2, String::new(), format!("mallow: {expected}\n")),
            "{words:?}"
        );
    }
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
