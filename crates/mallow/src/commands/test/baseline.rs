//! The baseline: the figures that a project holds itself to, in one file that is kept in version control.
//!
//! ```json
//! {
//!   "version": 1,
//!   "platforms": {
//!     "linux-x86_64-glibc-2.36": {
//!       "parse": {
//!         "remaining_allocations": 0,
//!         "total_allocations": 75001,
//!         "total_allocated_bytes": 4138056,
//!         "leaked_fds": 0,
//!         "operations": 1000,
//!         "stacks": [ { "stack": ["read_row (parser.c:12)", "main (main.c:8)"], "allocations": 75000, … } ]
//!       }
//!     }
//!   }
//! }
//! ```

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io::ErrorKind;
use std::path::Path;

use mallow_report::analysis::gate::{Figures, SiteCount};
use serde::{Deserialize, Deserializer, Serialize};

use super::aside;
use super::unique::Unique;

/// The version that is written.
const VERSION: u32 = 1;

/// See the module's text.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    version: u32,
    #[serde(deserialize_with = "platforms")]
    platforms: BTreeMap<String, BTreeMap<String, Entry>>,
}

/// A case that is there twice, as after a merge, would be judged by one of them.
fn platforms<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, BTreeMap<String, Entry>>, D::Error> {
    let Unique(platforms) = Unique::<Unique<Entry>>::deserialize(from)?;
    Ok(platforms.into_iter().map(|(platform, Unique(cases))| (platform, cases)).collect())
}

/// One case on one platform.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// What it is held to.
    #[serde(flatten)]
    pub figures: Figures,
    /// The stacks behind them; none where they were not recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stacks: Vec<SiteCount>,
}

impl Default for Baseline {
    fn default() -> Self {
        Self { version: VERSION, platforms: BTreeMap::new() }
    }
}

impl Baseline {
    /// Reads it; an empty one where there is no file. What cannot be read is told in one line.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let nonsense = |error: serde_json::Error| format!("{}:{}: no baseline: {error}", path.display(), error.line());
        let Versioned { version } = serde_json::from_str(&text).map_err(nonsense)?;
        if version > VERSION {
            let newer = "is from a newer mallow";
            return Err(format!("{} {newer} (version {version}, known up to {VERSION})", path.display()));
        }
        serde_json::from_str(&text).map_err(nonsense)
    }

    /// The cases of a platform.
    pub fn cases(&self, platform: &str) -> Option<&BTreeMap<String, Entry>> {
        self.platforms.get(platform)
    }

    /// The platforms that it has.
    pub fn platforms(&self) -> impl Iterator<Item = &str> {
        self.platforms.keys().map(String::as_str)
    }

    /// True where some platform has this case.
    pub fn has(&self, case: &str) -> bool {
        self.platforms.values().any(|cases| cases.contains_key(case))
    }

    /// Sets a case.
    pub fn set(&mut self, platform: &str, case: &str, entry: Entry) {
        self.platforms.entry(platform.to_owned()).or_default().insert(case.to_owned(), entry);
    }

    /// Keeps the cases of a platform that `keep` wants; returns the names of the others.
    pub fn retain(&mut self, platform: &str, keep: impl Fn(&str) -> bool) -> Vec<String> {
        let Some(cases) = self.platforms.get_mut(platform) else { return Vec::new() };
        let gone = cases.keys().filter(|name| !keep(name)).cloned().collect();
        cases.retain(|name, _| keep(name));
        gone
    }

    /// Writes it; the old one is not lost where that fails.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self);
        let mut text = text.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        text.push('\n');
        aside::write(path, &text)
    }
}

/// What figures depend on: system, processor, C library and its version, and the project's own label.
pub fn platform(label: Option<&str>) -> String {
    let mut key = format!("{}-{}-{}", std::env::consts::OS, std::env::consts::ARCH, libc_version());
    if let Some(label) = label {
        key.push('-');
        key.push_str(label);
    }
    key
}

#[cfg(target_env = "gnu")]
fn libc_version() -> String {
    // SAFETY: the function takes nothing and returns a constant string of the C library.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    format!("glibc-{}", version.to_string_lossy())
}

#[cfg(not(target_env = "gnu"))]
fn libc_version() -> String {
    "libc".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(allocations: i64) -> Entry {
        Entry {
            figures: Figures { total_allocations: allocations, leaked_fds: Some(0), ..Figures::default() },
            stacks: vec![SiteCount { stack: vec!["f (a.c:1)".to_owned()], allocations: 3, allocated_bytes: 30 }],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("b.json");
        let mut baseline = Baseline::read(&path).expect("an empty one");
        assert_eq!(baseline.platforms().count(), 0);
        baseline.set("linux", "parse", entry(5));
        baseline.set("mac", "parse", entry(6));
        baseline.write(&path).expect("a file");
        let read = Baseline::read(&path).expect("a baseline");
        assert_eq!(read.cases("linux").and_then(|cases| cases.get("parse")), Some(&entry(5)));
        assert_eq!(read.platforms().collect::<Vec<_>>(), ["linux", "mac"]);
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1);
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_place() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("b.json");
        for (text, expected) in [
            ("", "b.json:1: no baseline: "),
            ("{\n\"platforms\": {}}", "b.json:2: no baseline: missing field `version`"),
            ("{\"version\": 2, \"else\": 1}", "b.json is from a newer mallow (version 2, known up to 1)"),
            ("{\"version\": 1,\n\"platforms\": [\n]}", "b.json:2: no baseline: invalid type"),
            ("{\"version\": 1, \"platforms\": {\"a\": {},\n\"a\": {}}}", "b.json:2: no baseline: a is there twice"),
        ] {
            std::fs::write(&path, text).expect("a file");
            let error = Baseline::read(&path).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn an_unwritable_place_keeps_the_old_one() {
        let path = Path::new("/proc/mallow.baseline.json");
        let error = Baseline::default().write(path).expect_err("no place");
        assert!(error.starts_with("cannot write /proc/mallow.baseline.json: "), "{error}");
    }

    #[test]
    fn the_platform_names_what_figures_depend_on() {
        let key = platform(Some("gcc-12"));
        assert!(key.starts_with("linux-") && key.ends_with("-gcc-12"), "{key}");
    }
}
