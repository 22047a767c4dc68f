//! Compiles `targets/*.c` and `*.cpp`, each once, and again when what it is made of has changed.
//!
//! The first line of a source may hold `build: FLAGS`. A flag `NAME.so` there is a library from the same directory.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use crate::{Run, tool};

/// The program of `targets/NAME.c` or `.cpp`.
pub fn program(name: &str) -> PathBuf {
    program_as(name, name, if source(name).extension().is_some_and(|e| e == "c") { "cc" } else { "c++" }, &[])
}

/// The shared library of `targets/NAME.c`, built with more flags as `output`.
pub fn library(name: &str, output: &str, flags: &[&str]) -> PathBuf {
    program_as(name, &format!("{output}.so"), "cc", flags)
}

/// The program of `targets/NAME`, by another compiler or with more flags, as `output`.
///
/// # Panics
/// When it cannot be compiled.
pub fn program_as(name: &str, output: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    static BUILT: OnceLock<Mutex<HashMap<String, Arc<OnceLock<PathBuf>>>>> = OnceLock::new();
    let cell = {
        let mut built = BUILT.get_or_init(Mutex::default).lock().unwrap_or_else(|e| e.into_inner());
        Arc::clone(built.entry(output.to_owned()).or_default())
    };
    cell.get_or_init(|| compile(&source(name), output, compiler, flags)).clone()
}

/// Where the programs of `targets/PACKAGE` are, a package of cargo's own with crates of others, built.
///
/// # Panics
/// When it cannot be built.
pub fn programs_with_crates(package: &str) -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets").join(package).join("Cargo.toml");
    let target = place().join("crates");
    let build = Run::new(tool("cargo"), &target).args(["build", "--quiet", "--locked", "--manifest-path"]);
    fs::create_dir_all(&target).expect("a directory for programs");
    let built = build.arg(manifest).arg("--target-dir").arg(&target).limit(Duration::from_secs(600)).go();
    assert_eq!(built.status, 0, "{}", built.err());
    target.join("debug")
}

fn source(name: &str) -> PathBuf {
    let stem = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets").join(name);
    let c = stem.with_extension("c");
    if c.is_file() { c } else { stem.with_extension("cpp") }
}

/// Where the programs are: one directory for all test binaries, away from the sources.
fn place() -> PathBuf {
    let place = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| crate::workspace().join("target"), PathBuf::from)
        .join("test-targets");
    fs::create_dir_all(&place).expect("a directory for the targets");
    place.canonicalize().expect("its path")
}

fn compile(source: &Path, output: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    let text = fs::read_to_string(source).unwrap_or_else(|e| panic!("{}: {e}", source.display()));
    let own_flags = text.lines().next().and_then(|l| l.split_once("build: ")).map_or("", |(_, f)| f);
    let mut command = Command::new(compiler);
    command.args(["-O2", "-g", "-fomit-frame-pointer", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    // A pair of calls that nothing comes of must not be optimised away.
    command.args(["-fno-builtin-malloc", "-fno-builtin-calloc", "-fno-builtin-realloc", "-fno-allocation-dce"]);
    command.arg(source);
    for flag in own_flags.trim_end_matches(" */").split_whitespace() {
        match flag.strip_suffix(".so") {
            Some(name) => command.arg(library(name, name, &[])),
            None => command.arg(flag),
        };
    }
    command.args(flags);
    let path = place().join(output);
    let record = place().join(format!("{output}.made-of"));
    let how = format!("{command:?}\n");
    if fs::read_to_string(&record).is_ok_and(|made| is_current(&made, &how)) {
        return path;
    }
    // Written elsewhere first: another test binary may be running the old one, or making a new one.
    let beside = |what: &str| place().join(format!("{output}.{}{what}", std::process::id()));
    let (fresh, headers, linked) = (beside(""), beside(".headers"), beside(".linked"));
    command.arg("-o").arg(&fresh).arg("-MD").arg("-MF").arg(&headers);
    command.arg(format!("-Wl,--dependency-file={}", linked.display()));
    let built =
        command.output().unwrap_or_else(|e| panic!("{compiler}: {e}: tests/prerequisites lists what to install"));
    assert!(built.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&built.stderr));
    let mut made = how;
    // What the compiler handed to the linker is gone.
    let inputs = [&headers, &linked].into_iter().flat_map(|list| prerequisites(list)).flat_map(|p| p.canonicalize());
    for input in inputs.chain([crate::tool(compiler)]) {
        writeln!(made, "{} {}", stamp(&input), input.display()).expect("a line");
    }
    for list in [&headers, &linked] {
        fs::remove_file(list).expect("removing what was read");
    }
    fs::rename(&fresh, &path).expect("the new target in its place");
    // Last, and with the target's own stamp: of two that were made at once the record may be the other's.
    writeln!(made, "{} {}", stamp(&path), path.display()).expect("a line");
    let fresh = beside(".made-of");
    fs::write(&fresh, made).and_then(|()| fs::rename(&fresh, &record)).expect("what it was made of");
    path
}

/// Whether a target was made by this command, of files that are as they were.
fn is_current(made: &str, how: &str) -> bool {
    let lines = made.strip_prefix(how).unwrap_or_default();
    !lines.is_empty()
        && lines.lines().all(|line| {
            line.split_once(' ').is_some_and(|(stamped, input)| stamp(Path::new(input)).to_string() == stamped)
        })
}

/// Files that a list for make has as prerequisites.
fn prerequisites(list: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(list).unwrap_or_else(|e| panic!("{}: {e}", list.display()));
    let rules = text.replace("\\\n", " ");
    let of_first = rules.lines().next().and_then(|rule| rule.split_once(':')).map_or("", |(_, files)| files);
    of_first.split_whitespace().map(PathBuf::from).collect()
}

/// Of a file of the workspace: what is in it, as a checkout gives it a new time. Of others and of what was made of
/// them: its length and time, which no new version leaves as they were.
fn stamp(file: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    if file.starts_with(crate::workspace().canonicalize().expect("its path")) && !file.starts_with(place()) {
        fs::read(file).unwrap_or_default().hash(&mut hasher);
    } else {
        fs::metadata(file).ok().map(|about| (about.len(), about.modified().ok())).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_target_is_made_again_when_what_it_is_made_of_has_changed_and_only_then() {
        let sources = tempfile::tempdir().expect("a directory");
        let at = |name: &str| sources.path().join(name);
        fs::write(at("main.c"), "#include \"answer.h\"\nint main(void) { return ANSWER + MORE; }\n").expect("a source");
        let output = format!("made-again-{}", std::process::id());
        let header = |answer: &str| fs::write(at("answer.h"), format!("#define ANSWER {answer}\n")).expect("a header");
        let made = |more: &str| {
            let path = compile(&at("main.c"), &output, "cc", &[more]);
            let status = Command::new(&path).status().expect("a program").code();
            (status.expect("a status"), fs::metadata(&path).expect("its file").ino())
        };
        header("3");
        let first = made("-DMORE=1");
        assert_eq!((first.0, made("-DMORE=1")), (4, first), "nothing changed");
        header("20");
        assert_eq!(made("-DMORE=1").0, 21, "another header");
        assert_eq!(made("-DMORE=2").0, 22, "another flag");
        fs::write(place().join(&output), "not a program").expect("another file in its place");
        assert_eq!(made("-DMORE=2").0, 22, "another file in its place");
        for name in [output.clone(), format!("{output}.made-of")] {
            fs::remove_file(place().join(name)).expect("what was made");
        }
    }
}
