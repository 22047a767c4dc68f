//! The baseline: the figures that a project holds itself to, in one file that is kept in version control.
//!
//! ```json
//! {
//!   "version": 2,
//!   "platforms": {
//!     "linux-x86_64-glibc-2.36": {
//!       "parse": {
//!         "remaining_allocations": 0,
//!         "total_allocations": 75001,
//!         "total_allocated_bytes": 4138056,
//!         "leaked_fds": 0,
//!         "operations": 1000,
//!         "tolerance": { "total_allocations": 12 },
//!         "program": "build/allocations",
//!         "frames": [ "main main (main.c:8)", "read_row read_row (parser.c:12)" ],
//!         "stacks": [ "75000 4138000 0 main read_row" ],
//!         "rest": { "stacks": 1, "allocations": 1, "allocated_bytes": 56, … }
//!       }
//!     }
//!   }
//! }
//! ```
//!
//! `stack_table.rs` says what frames and stacks are. Version 1 had each stack as an object with all of its functions;
//! it is read, and written as version 2.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

use mallow_capture::library::installed_glibc;
use mallow_report::analysis::gate::{Figures, Rest, SiteCount, Tolerance};
use serde::{Deserialize, Deserializer, Serialize};

use super::replacement;
use super::stack_table::{self, StackTable};
use super::unique_map::UniqueMap;

const VERSION: u32 = 2;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    version: u32,
    #[serde(deserialize_with = "platforms")]
    platforms: BTreeMap<String, BTreeMap<String, Entry>>,
}

/// The file in the version that is written, whichever was read.
#[derive(Serialize)]
struct BaselineFile<'a> {
    version: u32,
    platforms: &'a BTreeMap<String, BTreeMap<String, Entry>>,
}

/// A case that is there twice, as after a merge, would be compared with one of them.
fn platforms<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, BTreeMap<String, Entry>>, D::Error> {
    let UniqueMap(platforms) = UniqueMap::<UniqueMap<Entry>>::deserialize(from)?;
    Ok(platforms.into_iter().map(|(platform, UniqueMap(cases))| (platform, cases)).collect())
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredEntry", into = "StoredEntry")]
pub struct Entry {
    /// Figures that the case is held to.
    pub figures: Figures,
    /// Differences of the runs behind the figures.
    pub tolerance: Tolerance,
    /// The program that made the case, where its cases are known only after it ran.
    pub program: Option<String>,
    /// The stacks behind the figures; none where they were not recorded.
    pub stacks: Vec<SiteCount>,
    /// Sum of stacks that are too small to be kept.
    pub rest: Rest,
}

impl Entry {
    /// Adds the stacks behind its figures, and keeps the largest of them.
    pub fn with_stacks(self, sites: Vec<SiteCount>) -> Self {
        let (stacks, rest) = stack_table::keep(sites);
        Self { stacks, rest, ..self }
    }
}

/// A case as it stands in the file.
#[derive(Serialize, Deserialize)]
struct StoredEntry {
    #[serde(flatten)]
    figures: Figures,
    #[serde(default, skip_serializing_if = "Tolerance::is_none")]
    tolerance: Tolerance,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    frames: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stacks: Vec<Stack>,
    #[serde(default, skip_serializing_if = "Rest::is_none")]
    rest: Rest,
}

/// A stack in version 2 of the file, or in version 1.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Stack {
    Line(String),
    Whole(SiteCount),
}

impl TryFrom<StoredEntry> for Entry {
    type Error = String;

    fn try_from(kept: StoredEntry) -> Result<Self, String> {
        let mut table = StackTable { frames: kept.frames, stacks: Vec::new() };
        let mut stacks = Vec::new();
        for stack in kept.stacks {
            match stack {
                Stack::Line(line) => table.stacks.push(line),
                Stack::Whole(site) => stacks.push(site),
            }
        }
        stacks.extend(table.sites()?);
        let StoredEntry { figures, tolerance, program, rest, .. } = kept;
        Ok(Self { figures, tolerance, program, stacks, rest })
    }
}

impl From<Entry> for StoredEntry {
    fn from(entry: Entry) -> Self {
        let StackTable { frames, stacks } = StackTable::of(&entry.stacks);
        let Entry { figures, tolerance, program, rest, .. } = entry;
        Self { figures, tolerance, program, frames, stacks: stacks.into_iter().map(Stack::Line).collect(), rest }
    }
}

impl Default for Baseline {
    fn default() -> Self {
        Self { version: VERSION, platforms: BTreeMap::new() }
    }
}

impl Baseline {
    /// Reads it; an empty one where there is no file. An error is one line.
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

    /// True where the file is of an older version than what is written.
    pub fn older(&self) -> bool {
        self.version < VERSION
    }

    pub fn cases(&self, platform: &str) -> Option<&BTreeMap<String, Entry>> {
        self.platforms.get(platform)
    }

    /// The cases that a program made, on whichever platform; each of them as often as platforms have it.
    pub fn made_by(&self, program: &str) -> impl Iterator<Item = &str> {
        let all = self.platforms.values().flatten();
        all.filter(move |(_, entry)| entry.program.as_deref() == Some(program)).map(|(name, _)| name.as_str())
    }

    pub fn platforms(&self) -> impl Iterator<Item = &str> {
        self.platforms.keys().map(String::as_str)
    }

    /// True where some platform has this case.
    pub fn has(&self, case: &str) -> bool {
        self.platforms.values().any(|cases| cases.contains_key(case))
    }

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

    /// Writes it, of this version; the old one is not lost where that fails.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(&BaselineFile { version: VERSION, platforms: &self.platforms });
        let mut text = text.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        text.push('\n');
        replacement::write(path, &text)
    }
}

/// Key of a platform, by all that figures depend on: system, processor, C library and its version, and the project's
/// own label.
pub fn platform(label: Option<&str>) -> String {
    let mut key = format!("{}-{}-{}", std::env::consts::OS, std::env::consts::ARCH, libc_version());
    if let Some(label) = label {
        key.push('-');
        key.push_str(label);
    }
    key
}

fn libc_version() -> String {
    installed_glibc().map_or_else(|| "libc".to_owned(), |(major, minor)| format!("glibc-{major}.{minor}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(allocations: i64) -> Entry {
        Entry {
            figures: Figures { total_allocations: allocations, leaked_fds: Some(0), ..Figures::default() },
            tolerance: Tolerance { total_allocations: 7, total_allocated_bytes: 0 },
            program: Some("./parse".to_owned()),
            stacks: vec![SiteCount { stack: vec!["f (a.c:1)".to_owned()], allocations: 3, allocated_bytes: 30 }],
            rest: Rest { stacks: 2, allocations: 2, ..Rest::default() },
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
        assert_eq!(read.made_by("./parse").collect::<Vec<_>>(), ["parse", "parse"]);
        assert_eq!(read.made_by("parse").count(), 0);
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 1);
    }

    #[test]
    fn errors_name_their_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("b.json");
        let case = |more: &str| {
            let figures = "\"remaining_allocations\": 0, \"total_allocations\": 1, \"total_allocated_bytes\": 8";
            format!("{{\"version\": 2, \"platforms\": {{\"a\": {{\"b\": {{{figures}, {more}}}}}}}}}")
        };
        for (text, expected) in [
            ("", "b.json:1: no baseline: "),
            ("{\n\"platforms\": {}}", "b.json:2: no baseline: missing field `version`"),
            ("{\"version\": 3, \"else\": 1}", "b.json is from a newer mallow (version 3, known up to 2)"),
            (
                &case("\"frames\": [\"f f\"], \"stacks\": [\"1 8 1 f\"]"),
                "b.json:1: no baseline: \"1 8 1 f\" is no stack",
            ),
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
