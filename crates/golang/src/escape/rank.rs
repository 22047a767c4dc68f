//! What a profile says of the places.

use std::cmp::Reverse;
use std::collections::HashMap;

use mallow_profile::Profile;
use serde::Serialize;

use super::Site;

/// The lines of an inlined call and of those around it, the innermost first.
type Lines = Vec<(String, u32)>;

/// Gives places what the profile says of them, and sorts them by it, those with the most allocations first.
///
/// A place is identified by its whole inline chain; a profile has the chain's lines. Several on one line, or on lines
/// of one number in several files of a grammar, have the sum.
pub fn rank(sites: &mut [Site], profile: &Profile) -> Ranked {
    let mut by_lines: HashMap<Lines, (u64, u64, bool)> = HashMap::new();
    let mut ranked = Ranked::default();
    for site in &profile.sites {
        let mut frames = profile.stacks.frames(site.stack).filter_map(|id| profile.frames.get(id.0 as usize));
        let name = |line: &mallow_profile::Line| profile.strings.get(line.function);
        // What the runtime does for the program's own line.
        let frame = frames.find(|frame| frame.lines.iter().any(|line| !name(line).starts_with("runtime.")));
        let (allocations, bytes) = (site.counts.allocations, site.counts.allocated_bytes);
        ranked.allocations += allocations;
        ranked.allocated_bytes += bytes;
        let Some(frame) = frame else { continue };
        let lines = frame.lines.iter().skip_while(|line| name(line).starts_with("runtime."));
        let file = |line: &mallow_profile::Line| line.file.map_or("", |file| profile.strings.get(file));
        let lines: Lines = lines.map(|line| (written_in(file(line)), line.line)).collect();
        let sum = by_lines.entry(lines).or_default();
        sum.0 += allocations;
        sum.1 += bytes;
    }
    let mut places: HashMap<Lines, u64> = HashMap::new();
    for site in sites.iter() {
        *places.entry(lines_of(site)).or_default() += 1;
    }
    for site in sites.iter_mut() {
        let lines = lines_of(site);
        let sum = by_lines.get_mut(&lines).map(|sum| {
            sum.2 = true;
            (sum.0, sum.1)
        });
        let (allocations, bytes) = sum.unwrap_or_default();
        site.allocations = Some(allocations);
        site.allocated_bytes = Some(bytes);
        site.shared_with = places.get(&lines).map_or(0, |n| n - 1);
    }
    for (allocations, bytes, found) in by_lines.into_values() {
        if found {
            ranked.found += allocations;
            ranked.found_bytes += bytes;
        }
    }
    sites.sort_by_key(|site| Reverse((site.allocations, site.allocated_bytes)));
    ranked
}

fn lines_of(site: &Site) -> Lines {
    site.positions.iter().map(|position| (written_in(&position.file), position.line)).collect()
}

/// The file, or the directory of one that is no source of Go: a profile has one file for each function, and `//line`
/// directives, as goyacc writes them, name several in one.
fn written_in(file: &str) -> String {
    match file.rsplit_once('/') {
        Some((directory, name)) if !name.ends_with(".go") => directory.to_owned(),
        _ => file.to_owned(),
    }
}

/// Sums of a profile, and what of them is at listed places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ranked {
    /// Allocations of the whole profile.
    pub allocations: u64,
    /// Allocated bytes of the whole profile.
    pub allocated_bytes: u64,
    /// Allocations of the profile at listed places.
    pub found: u64,
    /// Allocated bytes of the profile at listed places.
    pub found_bytes: u64,
}
