//! What was live at the end, by site.

use std::cmp::Reverse;

use mallow_profile::{Origin, Profile, StackId};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::emergency_pool::is_emergency_pool;
use super::functions::Functions;
use super::leak_causes::{LeakCauses, causes};
use super::leak_sites::{LeakSite, Leaked};
use super::leak_states::{LeakState, LeakStates, States, chosen as chosen_site, leak_states};
use super::numbers::{Ending, Least, LeftOut};
use super::suppressions::Suppressions;

/// Leaks, and how they add up: reported and suppressed together are all.
#[derive(Clone, Debug, Serialize)]
pub struct Leaks {
    /// Whose file it is; None for Mallow's own.
    #[serde(skip)]
    pub origin: Option<Origin>,
    /// The command line that was recorded.
    pub command: Vec<String>,
    /// How long the recording went on.
    pub duration_ms: u64,
    /// How it ended.
    #[serde(flatten)]
    pub ending: Ending,
    /// Blocks live at the end.
    pub leaked: u64,
    /// Their bytes.
    pub leaked_bytes: u64,
    /// Of them, those that no suppression matches.
    pub reported: u64,
    /// Their bytes.
    pub reported_bytes: u64,
    /// Those that a suppression matches, and libstdc++'s emergency pool.
    pub suppressed: u64,
    /// Their bytes.
    pub suppressed_bytes: u64,
    /// Sites with reported leaks, shown here or not.
    pub sites_in_all: u64,
    /// Those sites, the largest first.
    pub sites: Vec<LeakSite>,
    /// Those that are not shown.
    pub hidden: Option<LeftOut<Leaked>>,
    /// The same by cause.
    #[serde(flatten)]
    pub causes: LeakCauses,
    /// How they divide, where processes were scanned at their exit: those of the whole recording, suppressed or not.
    #[serde(flatten)]
    pub states: Option<LeakStates>,
    /// What each suppression matched; unused ones are here too, with nothing.
    pub suppressions: Vec<SuppressionUse>,
}

impl Leaks {
    /// Leaves sites with fewer leaked bytes out; a share is one of all that leaked.
    pub fn leave_out(&mut self, least: Least) {
        let min = least.of(self.leaked_bytes);
        LeftOut::small(&mut self.hidden, &mut self.sites, |site| site.leaked_bytes >= min, Leaked::of);
        self.causes.leave_out(min);
    }
}

/// What one line of the suppression file matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SuppressionUse {
    /// The pattern as written.
    pub pattern: String,
    /// Its line in the file.
    pub line: usize,
    /// Sites whose first matching pattern it is.
    pub sites: u64,
    /// Their blocks.
    pub leaked: u64,
    /// Their bytes.
    pub leaked_bytes: u64,
}

/// Kinds of cycles that are shown.
const CYCLES: usize = 10;

/// The leaks of a recording, with at most `limit` sites and causes.
///
/// Sites whose stacks read the same (two calls on one line, the same program in several processes) are one.
pub fn leaks(profile: &Profile, suppressions: &Suppressions, limit: usize) -> Leaks {
    leaks_in_state(profile, None, suppressions, limit)
}

/// The same of the blocks in one state; None: of all. Of a recording without scans, there are none in any state.
pub fn leaks_in_state(profile: &Profile, state: Option<LeakState>, suppressions: &Suppressions, limit: usize) -> Leaks {
    let functions = Functions::new(profile);
    let mut uses: Vec<SuppressionUse> = suppressions
        .patterns()
        .iter()
        .map(|p| SuppressionUse { pattern: p.text.clone(), line: p.line, sites: 0, leaked: 0, leaked_bytes: 0 })
        .collect();
    let mut all = (0, 0);
    let mut suppressed = (0, 0);
    let mut reported = Vec::new();
    let mut pool: Option<Leaked> = None;
    for (stack, site) in sites(profile, &functions, state) {
        all = add(all, &site);
        if is_emergency_pool(&functions, stack) {
            *pool.get_or_insert_default() += Leaked::of(&site);
            suppressed = add(suppressed, &site);
            continue;
        }
        match suppressed_by(&functions, suppressions, stack) {
            Some(index) => {
                suppressed = add(suppressed, &site);
                let used = &mut uses[index];
                used.sites += 1;
                (used.leaked, used.leaked_bytes) = add((used.leaked, used.leaked_bytes), &site);
            }
            None => reported.push((stack, site)),
        }
    }
    let sites_in_all = reported.len() as u64;
    reported.sort_by_key(|(stack, s)| (Reverse(s.leaked_bytes), Reverse(s.leaked), *stack));
    let causes = LeakCauses { emergency_pool: pool, ..causes(&functions, reported.iter().cloned(), limit) };
    let hidden = LeftOut::after(limit, reported.iter().map(|(_, site)| Leaked::of(site)));
    reported.truncate(limit);
    let sites = reported.into_iter().map(|(stack, s)| LeakSite { stack: functions.stack(stack), ..s }).collect();
    Leaks {
        origin: profile.origin.clone(),
        command: profile.command.clone(),
        duration_ms: profile.duration_ms,
        ending: Ending::of(profile),
        leaked: all.0,
        leaked_bytes: all.1,
        reported: all.0 - suppressed.0,
        reported_bytes: all.1 - suppressed.1,
        suppressed: suppressed.0,
        suppressed_bytes: suppressed.1,
        sites_in_all,
        sites,
        hidden,
        causes,
        states: leak_states(profile, CYCLES.min(limit)),
        suppressions: uses,
    }
}

/// Sums stay at their highest where a damaged recording drives them beyond.
fn add(sum: (u64, u64), site: &LeakSite) -> (u64, u64) {
    (sum.0.saturating_add(site.leaked), sum.1.saturating_add(site.leaked_bytes))
}

/// Sites with leaks, without their stacks, each with one of the stacks that read as it does.
fn sites(profile: &Profile, functions: &Functions<'_>, state: Option<LeakState>) -> Vec<(StackId, LeakSite)> {
    let states = States::of(profile);
    let chosen = |site| Some((site, chosen_site(profile, site, states.as_ref(), state)?));
    let mut order: Vec<_> = profile.sites.iter().filter_map(chosen).collect();
    order.sort_by_key(|(s, _)| (s.stack, s.process));
    let mut by_text: FxHashMap<Vec<_>, usize> = FxHashMap::default();
    let mut by_stack: FxHashMap<StackId, usize> = FxHashMap::default();
    let mut merged: Vec<(StackId, LeakSite)> = Vec::new();
    for (site, lives) in order {
        let at = *by_stack.entry(site.stack).or_insert_with(|| {
            let cut = profile.stacks.is_cut(site.stack);
            let text = functions.steps(site.stack).map(|s| s.text_key(cut)).collect();
            *by_text.entry(text).or_insert_with(|| {
                merged.push((site.stack, LeakSite { youngest_ms: u64::MAX, ..LeakSite::default() }));
                merged.len() - 1
            })
        });
        merged[at].1.add(&lives);
    }
    merged
}

/// The first pattern that matches a name, a file or a module of the stack.
pub(crate) fn suppressed_by(functions: &Functions<'_>, suppressions: &Suppressions, stack: StackId) -> Option<usize> {
    if suppressions.patterns().is_empty() {
        return None;
    }
    let names: Vec<String> = functions
        .stack(stack)
        .frames
        .into_iter()
        .flat_map(|f| [Some(f.function), f.file, f.module].into_iter().flatten())
        .collect();
    suppressions.find(&names)
}

#[cfg(test)]
mod tests {
    use super::{Leaks, leaks};
    use crate::analysis::Suppressions;
    use crate::testing::{Builder, blocks, parser};

    fn with(suppressions: &str) -> Leaks {
        leaks(&parser(), &Suppressions::parse(suppressions).expect("a good file"), usize::MAX)
    }

    #[test]
    fn sites_come_largest_first_with_their_age() {
        let report = with("");
        let rows: Vec<_> =
            report.sites.iter().map(|s| (s.leaked, s.leaked_bytes, s.oldest_ms, s.youngest_ms)).collect();
        assert_eq!(rows, [(12, 12_000, 1700, 60), (3, 3600, 200, 200)]);
        assert_eq!(report.sites[1].pids, [4712]);
        assert_eq!((report.leaked, report.leaked_bytes), (15, 15_600));
        assert_eq!((report.reported, report.suppressed), (15, 0));
    }

    #[test]
    fn reported_and_suppressed_are_all() {
        // By function, by an outer frame's file, by module; the second has nothing left to match.
        for pattern in ["leak:Cache::put", "leak:^/src/app/load.cc$", "leak:^app::Cache\nleak:cache.h"] {
            let report = with(pattern);
            assert_eq!((report.suppressed, report.suppressed_bytes), (12, 12_000), "{pattern}");
            assert_eq!((report.reported, report.reported_bytes), (3, 3600), "{pattern}");
            assert_eq!((report.sites.len(), report.sites_in_all), (1, 1), "{pattern}");
            assert_eq!(report.suppressions[0].sites, 1, "{pattern}");
        }
        let report = with("leak:ld-linux\nleak:nothing\n");
        let uses: Vec<_> = report.suppressions.iter().map(|u| (u.pattern.as_str(), u.sites, u.leaked_bytes)).collect();
        assert_eq!(uses, [("ld-linux", 1, 3600), ("nothing", 0, 0)]);
        assert_eq!(report.reported_bytes + report.suppressed_bytes, report.leaked_bytes);
    }

    #[test]
    fn stacks_that_read_the_same_are_one_site() {
        let mut b = Builder::default();
        let first = b.process(1, &["a"], 100);
        let second = b.process(2, &["a"], 50);
        for (process, stack, oldest) in [
            (first, ["operator new | make@a.c:3", "main@a.c:9"], 40),
            (second, ["operator new | make@a.c:3", "main@a.c:9"], 5),
            (first, ["operator new | make@a.c:4", "main@a.c:9"], 1),
        ] {
            let site = b.site(process, &stack, blocks(1, 8, 0, 1));
            (site.leaked_oldest_ms, site.leaked_youngest_ms) = (oldest, oldest);
        }
        // Another call on the same line: another address, the same text.
        let main = b.stack(&["main@a.c:9"]);
        let mut again = b.profile.sites[0].clone();
        let (first_call, _) = b.profile.stacks.top(again.stack).expect("a frame");
        let twin = mallow_profile::Frame { address: 9, ..b.profile.frames[first_call.0 as usize].clone() };
        b.profile.frames.push(twin);
        again.stack = b.profile.stacks.push(main, mallow_profile::FrameId(b.profile.frames.len() as u32 - 1));
        b.profile.sites.push(again);

        let report = leaks(&b.profile, &Suppressions::default(), usize::MAX);
        let rows: Vec<_> = report.sites.iter().map(|s| (s.leaked, s.oldest_ms, s.pids.as_slice())).collect();
        assert_eq!(rows, [(3, 60, &[1, 2][..]), (1, 99, &[1])]);
    }
}
