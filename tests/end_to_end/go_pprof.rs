//! Go, and what its pprof makes of a profile.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use harness::{Run, tool, workspace};

use crate::other_tools::ran;

/// `go`, with a cache that does not depend on a home: since Go 1.25 even `go tool pprof` is built when it is first
/// called, which may take minutes.
pub fn go(place: &Path) -> Run {
    with_cache(place, cache())
}

fn with_cache(place: &Path, cache: &Path) -> Run {
    Run::new(tool("go"), place).env("GOCACHE", Some(cache)).limit(Duration::from_secs(600))
}

/// The cache of all tests, with Go's own packages: tests that begin together would build them once each.
pub fn cache() -> &'static Path {
    static CACHE: OnceLock<PathBuf> = OnceLock::new();
    CACHE.get_or_init(|| {
        let root = workspace().canonicalize().expect("its path");
        let cache = root.join("build/go-cache");
        ran(with_cache(&root, &cache).args(["build", "testing"]));
        cache
    })
}

/// `go tool pprof` on a profile.
pub fn pprof(place: &Path, arguments: &[&str]) -> String {
    ran(go(place).args(["tool", "pprof"]).args(arguments)).out()
}

/// A profile as `go tool pprof -raw` prints it.
#[derive(Debug)]
pub struct Raw {
    /// Sample types, in their order.
    pub types: Vec<String>,
    /// Functions of each stack, the innermost first, and the values.
    pub samples: Vec<(Vec<String>, Vec<i64>)>,
}

impl Raw {
    /// Has it printed.
    pub fn of(place: &Path, file: &str) -> Self {
        Self::with(place, &[file])
    }

    /// The same with flags of `pprof`, and then a file.
    pub fn with(place: &Path, arguments: &[&str]) -> Self {
        let text = pprof(place, &[&["-raw"], arguments].concat());
        let mut types = Vec::new();
        let mut stacks: Vec<(Vec<u64>, Vec<i64>)> = Vec::new();
        let mut locations: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        let (mut part, mut last) = ("", 0);
        for line in text.lines() {
            match line {
                "Samples:" | "Locations" | "Mappings" => part = line,
                _ if part == "Samples:" && types.is_empty() => {
                    types =
                        line.split_whitespace().map(|t| t.split('/').next().unwrap_or_default().to_owned()).collect();
                }
                // Labels stand below their sample, indented deeper and with their key.
                _ if part == "Samples:" => {
                    if let Some((values, ids)) = line.split_once(": ")
                        && let Ok(values) = values.split_whitespace().map(str::parse).collect::<Result<Vec<_>, _>>()
                    {
                        stacks.push((ids.split_whitespace().map(|id| id.parse().expect("an id")).collect(), values));
                    } else if let Some(values) = line.strip_suffix(':').or(line.strip_suffix(": "))
                        && let Ok(values) = values.split_whitespace().map(str::parse).collect::<Result<Vec<_>, _>>()
                    {
                        stacks.push((Vec::new(), values));
                    }
                }
                // `1: 0x4a1b2c M=1 function file:line:column s=0`, then inlined ones without an id.
                _ if part == "Locations" => {
                    let mut rest = line.trim_start();
                    if let Some((id, more)) = rest.split_once(": 0x") {
                        last = id.parse().expect("an id");
                        locations.insert(last, Vec::new());
                        let more = more.split_once(' ').map_or("", |(_, more)| more);
                        rest = more.strip_prefix("M=").and_then(|m| m.split_once(' ')).map_or("", |(_, more)| more);
                    }
                    // The function ends before the place, which ends with `s=0`; names have spaces.
                    if let Some((before, _)) = rest.trim_end().rsplit_once(" s=") {
                        let function = before.rsplit_once(' ').map_or(before, |(function, _)| function);
                        let function = function.trim_end_matches("[F]").trim_end();
                        locations.get_mut(&last).expect("a location").push(function.to_owned());
                    }
                }
                _ => {}
            }
        }
        // A location without a name is a function all the same.
        locations.values_mut().filter(|functions| functions.is_empty()).for_each(|f| f.push(String::new()));
        let named = |ids: &[u64]| ids.iter().flat_map(|id| locations[id].clone()).collect();
        Self { types, samples: stacks.iter().map(|(ids, values)| (named(ids), values.clone())).collect() }
    }

    /// The sum of a sample type, which is not below zero.
    pub fn sum(&self, name: &str) -> u64 {
        let sum = self.signed_sum(name);
        u64::try_from(sum).unwrap_or_else(|_| panic!("{name}: {sum}"))
    }

    /// The sum of a sample type.
    pub fn signed_sum(&self, name: &str) -> i64 {
        let at = self.types.iter().position(|t| t == name || (t.starts_with(name) && t.contains("[dflt]")));
        let at = at.unwrap_or_else(|| panic!("no {name} in {:?}", self.types));
        self.samples.iter().map(|(_, values)| values[at]).sum()
    }
}
