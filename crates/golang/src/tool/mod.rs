//! The Go tool, as the user's environment has it. The one room here that runs programs and touches files; it writes
//! into Mallow's cache alone, never into the user's tree.

mod bench;
mod build;
mod cache;
mod diagnose;
mod error;
mod packages;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde::Deserialize;

pub use bench::{ExactRun, Profiled, Timing, only, some_operations, timed_operations};
pub use build::TestBinary;
pub use diagnose::{Unit, source};
pub use error::GoError;
pub use packages::{Input, Package};

use cache::Cache;

/// The oldest version with known diagnostics and test binaries.
const OLDEST: (u32, u32) = (1, 22);

/// The `go` of this directory's module or workspace.
#[derive(Debug)]
pub struct Go {
    directory: PathBuf,
    /// `(1, 26)` of `go1.26.8`.
    pub version: (u32, u32),
    /// Name of the version: `go1.26.8`.
    pub version_text: String,
    pub root: PathBuf,
    /// Flags of each `go` command, such as build tags.
    flags: Vec<String>,
    /// Variables that are added to the environment of every command.
    environment: BTreeMap<String, String>,
    /// A run of benchmarks that takes longer is ended.
    limit: Option<Duration>,
    cache: Cache,
}

#[derive(Deserialize)]
#[serde(rename_all = "UPPERCASE")]
struct Environment {
    goversion: String,
    goroot: PathBuf,
    goos: String,
    goarch: String,
}

impl Go {
    /// Finds it. `tags` are build tags beside those of the environment.
    pub fn find(directory: &Path, tags: Option<&str>) -> Result<Self, GoError> {
        Self::find_with(directory, tags, BTreeMap::new(), None)
    }

    /// Finds `go` with additional variables for all that is run, and a limit for each run of benchmarks.
    pub fn find_with(
        directory: &Path,
        tags: Option<&str>,
        environment: BTreeMap<String, String>,
        limit: Option<Duration>,
    ) -> Result<Self, GoError> {
        let mut flags = vec!["-race=false".to_owned()];
        flags.extend(tags.map(|tags| format!("-tags={tags}")));
        let output = start(Command::new("go").envs(&environment).current_dir(directory).args([
            "env",
            "-json",
            "GOVERSION",
            "GOROOT",
            "GOOS",
            "GOARCH",
        ]))?;
        if !output.status.success() {
            return Err(GoError::says("go env", &output.stderr));
        }
        let env: Environment =
            serde_json::from_slice(&output.stdout).map_err(|error| GoError::Answer("go env", error.to_string()))?;
        let version = version(&env.goversion).ok_or_else(|| GoError::Version(env.goversion.clone()))?;
        if version < OLDEST {
            return Err(GoError::Old(env.goversion));
        }
        if (env.goos.as_str(), env.goarch.as_str()) != ("linux", "amd64") {
            return Err(GoError::Platform(format!("{}/{}", env.goos, env.goarch)));
        }
        let cache = Cache::for_user()?;
        let directory = std::path::absolute(directory).map_err(GoError::Start)?;
        Ok(Self { directory, version, version_text: env.goversion, root: env.goroot, flags, environment, limit, cache })
    }

    /// Directory in which `go` is run: relative names in its output begin there.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Runs `go VERB FLAGS… MORE…`.
    fn run(&self, verb: &[&str], more: &[String]) -> Result<Output, GoError> {
        let mut command = Command::new("go");
        command.envs(&self.environment).current_dir(&self.directory);
        start(command.args(verb).args(&self.flags).args(more))
    }
}

fn start(command: &mut Command) -> Result<Output, GoError> {
    let output = mallow_children::output(command, None).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => GoError::Missing,
        _ => GoError::Start(error),
    })?;
    // Only a limit leaves none.
    output.ok_or_else(|| GoError::Start(std::io::ErrorKind::TimedOut.into()))
}

/// Major and minor version of `go1.26.8`, `go1.25rc1` or `devel go1.27-abcdef …`.
fn version(text: &str) -> Option<(u32, u32)> {
    let at = text.find("go1.")?;
    let mut parts = text[at + 2..].split('.');
    let major = parts.next()?.parse().ok()?;
    let minor: String = parts.next()?.chars().take_while(char::is_ascii_digit).collect();
    Some((major, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions() {
        for (text, expected) in [
            ("go1.26.8", Some((1, 26))),
            ("go1.22", Some((1, 22))),
            ("go1.25rc1", Some((1, 25))),
            ("devel go1.27-0123abcd Mon Nov 2 10:00:00 2026", Some((1, 27))),
            ("devel", None),
        ] {
            assert_eq!(version(text), expected, "{text}");
        }
    }
}
