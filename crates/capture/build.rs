//! Builds libmallow.so, which this crate embeds.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    let preload = PathBuf::from(env("CARGO_MANIFEST_DIR")).join("../../preload");
    let output = PathBuf::from(env("OUT_DIR")).join("libmallow.so");
    println!("cargo::rerun-if-changed={}", preload.display());
    println!("cargo::rerun-if-env-changed=CC");
    let script = preload.join("build.sh");
    let status = Command::new("sh").arg(&script).arg(&output).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{} failed: {status}; a C11 compiler (gcc or clang) is needed", script.display()),
        Err(error) => panic!("sh {}: {error}", script.display()),
    }
    println!("cargo::rustc-env=MALLOW_LIBRARY={}", output.display());
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}
