//! Compiles `targets/*.c` and `*.cpp`, each once.
//!
//! The first line of a source may hold `build: FLAGS`. A flag `NAME.so` there is a library from the same directory.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

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
    let path = place().join(output);
    // Written elsewhere first: another test binary may be running the old one.
    let fresh = place().join(format!("{output}.{}", std::process::id()));
    let mut command = Command::new(compiler);
    command.args(["-O2", "-g", "-fomit-frame-pointer", "-Wall", "-Wextra", "-Werror", "-pthread"]);
    // A pair of calls that nothing comes of must not be optimised away.
    command.args(["-fno-builtin-malloc", "-fno-builtin-calloc", "-fno-builtin-realloc", "-fno-allocation-dce"]);
    command.arg(source).arg("-o").arg(&fresh);
    for flag in own_flags.trim_end_matches(" */").split_whitespace() {
        match flag.strip_suffix(".so") {
            Some(name) => command.arg(library(name, name, &[])),
            None => command.arg(flag),
        };
    }
    command.args(flags);
    let built =
        command.output().unwrap_or_else(|e| panic!("{compiler}: {e}: tests/prerequisites lists what to install"));
    assert!(built.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&built.stderr));
    fs::rename(&fresh, &path).expect("the new target in its place");
    path
}
