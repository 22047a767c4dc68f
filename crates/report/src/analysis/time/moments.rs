//! Two moments of many programs, for what changed between them.
//!
//! ```text
//! numbers of programs    before   now
//!        7                 x       x     what changed
//!        8                 x             ended: what was live is gone, and what was allocated stays
//!        9                         x     new: all of it
//! ```

use std::collections::{BTreeMap, BTreeSet};

use mallow_profile::{Counts, Origin, Profile, Quantity, Site};

use crate::analysis::compare::merge::Merger;
use crate::analysis::stacks::narrow::add_up;

/// Profiles of one moment, by a number of the program that stays the same between moments.
pub type ProgramProfiles = BTreeMap<u64, Profile>;

/// Returns the sum of each moment. Processes, frames and stacks have the same numbers in both, so that either can be
/// written as what changed since the other. A program that ended keeps its last numbers, and a new one has nothing
/// before. All are expected to have the same quantities.
pub fn merge_moments(before: &ProgramProfiles, now: &ProgramProfiles) -> (Profile, Profile) {
    let numbers: BTreeSet<u64> = before.keys().chain(now.keys()).copied().collect();
    let nothing = |of: &Profile| Profile { sites: Vec::new(), ..of.clone() };
    let add_all = |merger: &mut Merger, of: &ProgramProfiles, stand_in: &dyn Fn(u64) -> Option<Profile>| {
        for number in &numbers {
            match of.get(number) {
                Some(known) => merger.add("", known),
                None => stand_in(*number).iter().for_each(|profile| merger.add("", profile)),
            }
        }
    };
    let mut merger = Merger::default();
    add_all(&mut merger, now, &|number| before.get(&number).map(ended));
    let now_sites = merger.take_sites();
    add_all(&mut merger, before, &|number| now.get(&number).map(nothing));
    let mut common = merger.finish().profile;
    let before_sites = std::mem::take(&mut common.sites);
    let quantities = common.origin.as_ref().map(|origin| origin.quantities).unwrap_or_default();
    let until = |of: &ProgramProfiles| of.values().map(|one| one.started_unix_ms.saturating_add(one.duration_ms)).max();
    let with = |mut sites: Vec<Site>, until: Option<u64>| {
        sites.iter_mut().for_each(|site| site.counts = site.counts.of(quantities));
        let duration_ms = until.unwrap_or_default().saturating_sub(common.started_unix_ms);
        let origin =
            common.origin.clone().map(|origin| Origin { quantities: quantities.with(Quantity::Times), ..origin });
        let mut profile = Profile { sites, duration_ms, origin, ..common.clone() };
        add_up(&mut profile);
        profile
    };
    (with(before_sites, until(before)), with(now_sites, until(now)))
}

fn ended(before: &Profile) -> Profile {
    let mut last = before.clone();
    for site in &mut last.sites {
        let Counts { allocations, allocated_bytes, .. } = site.counts;
        site.counts = Counts {
            allocations,
            allocated_bytes,
            frees: allocations,
            freed_bytes: allocated_bytes,
            ..Counts::default()
        };
        site.precisions = None;
    }
    last
}

#[cfg(test)]
mod tests {
    use mallow_profile::{Counts, Profile};

    use super::{ProgramProfiles, merge_moments};
    use crate::testing::{Builder, blocks};

    fn program(pid: u32, function: &str, counts: Counts) -> Profile {
        let mut b = Builder::default();
        let process = b.process(pid, &["a"], 10);
        b.site(process, &[function, "main"], counts);
        b.profile
    }

    /// By pid and innermost function: allocations, and blocks that are live.
    fn rows(profile: &Profile) -> Vec<(u32, String, u64, u64)> {
        assert_eq!(profile.check(), Ok(()));
        let mut rows: Vec<_> = profile
            .sites
            .iter()
            .map(|site| {
                let frame = profile.stacks.frames(site.stack).next().expect("a frame");
                let function = profile.frames[frame.0 as usize].lines[0].function;
                let pid = profile.processes[site.process.0 as usize].pid;
                (pid, profile.strings.get(function).to_owned(), site.counts.allocations, site.counts.live)
            })
            .collect();
        rows.sort();
        rows
    }

    #[test]
    fn programs_keep_their_numbers_as_others_come_and_go() {
        let before: ProgramProfiles =
            [(3, program(30, "f", blocks(5, 50, 2, 4))), (4, program(40, "f", blocks(9, 90, 1, 3)))].into();
        let now: ProgramProfiles =
            [(4, program(40, "g", blocks(12, 120, 2, 5))), (5, program(50, "h", blocks(7, 70, 0, 7)))].into();
        let (first, second) = merge_moments(&before, &now);
        let row = |pid, function: &str, allocations, live| (pid, function.to_owned(), allocations, live);
        assert_eq!(rows(&first), [row(30, "f", 5, 4), row(40, "f", 9, 3)]);
        // The first one has ended.
        assert_eq!(rows(&second), [row(30, "f", 5, 0), row(40, "g", 12, 5), row(50, "h", 7, 7)]);
        // The same numbers mean the same.
        let pids = |of: &Profile| -> Vec<u32> { of.processes.iter().map(|process| process.pid).collect() };
        assert_eq!((pids(&first), pids(&second)), (vec![30, 40, 50], vec![30, 40, 50]));
        assert_eq!((first.stacks.len(), first.frames.len()), (second.stacks.len(), second.frames.len()));
    }

    #[test]
    fn nothing_changed_is_no_difference() {
        let one: ProgramProfiles = [(3, program(30, "f", blocks(5, 50, 2, 4)))].into();
        let (before, now) = merge_moments(&one, &one);
        assert_eq!(rows(&before), rows(&now));
        let (before, now) = merge_moments(&ProgramProfiles::new(), &ProgramProfiles::new());
        assert!(before.sites.is_empty() && now.sites.is_empty());
    }
}
