//! What was live at the end, by site.

use std::cmp::Reverse;

use mallow_profile::{Origin, Profile, StackId};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::causes::{ByDesign, LeakCauses, causes};
use super::sites::{LeakSite, Live};
use super::states::{LeakState, LeakStates, LiveBlocks, divided, leak_states_with};
use super::suppressions::Suppressions;
use crate::analysis::numbers::{Ending, Least, LeftOut};
use crate::analysis::stacks::functions::Functions;
use crate::analysis::stacks::runtimes::RuleId;
use crate::analysis::time::live_moment::LiveMoment;

/// Blocks that were live at the end, and how they add up: those reported, those suppressed, and of all states those
/// that were live at an exec, together are all.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Leaks {
    /// Tool that the file is of; None for Mallow's own.
    #[serde(skip)]
    pub origin: Option<Origin>,
    /// Moment at which the blocks were live.
    #[serde(skip)]
    pub live_moment: LiveMoment,
    /// The command line that was recorded.
    pub command: Vec<String>,
    /// Milliseconds from the begin of the recording to its end.
    pub duration_ms: u64,
    #[serde(flatten)]
    pub ending: Ending,
    /// Blocks live at the end of their process image.
    pub live: u64,
    /// Requested bytes of the blocks in `live`.
    pub live_bytes: u64,
    /// Live blocks that no suppression matches.
    pub reported: u64,
    /// Requested bytes of the blocks in `reported`.
    pub reported_bytes: u64,
    /// Live blocks that a suppression matches or a runtime keeps, and libstdc++'s emergency pool.
    pub suppressed: u64,
    /// Requested bytes of the blocks in `suppressed`.
    pub suppressed_bytes: u64,
    /// Sites with reported leaks, shown here or not.
    pub sites_in_all: u64,
    /// Call sites with reported blocks, the most bytes first.
    pub sites: Vec<LeakSite>,
    /// Sums of the call sites that are not shown; null where all are.
    pub hidden: Option<LeftOut<Live>>,
    /// Reported blocks by cause.
    #[serde(flatten)]
    pub causes: LeakCauses,
    /// Division of all live blocks of the recording, suppressed or not; without its keys where the profile knows
    /// nothing of scans.
    #[serde(flatten)]
    pub states: Option<LeakStates>,
    /// Matches of each suppression; unused ones are here too, with 0.
    pub suppressions: Vec<SuppressionUse>,
}

impl Leaks {
    /// Leaves sites with fewer live bytes out; a share is one of all that is live.
    pub fn leave_out(&mut self, least: Least) {
        let min = least.of(self.live_bytes);
        LeftOut::small(&mut self.hidden, &mut self.sites, |site| site.live_bytes >= min, Live::of);
        self.causes.leave_out(min);
    }
}

/// Matches of one line of the suppression file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SuppressionUse {
    /// Pattern of the suppression, as written.
    pub pattern: String,
    /// Line of the suppression in the file, from 1.
    pub line: usize,
    /// Sites of which this is the first pattern that matches.
    pub sites: u64,
    /// Live blocks of the sites in `sites`.
    pub live: u64,
    /// Requested bytes of the blocks in `live`.
    pub live_bytes: u64,
}

/// Most kinds of cycles that are listed.
const CYCLES: usize = 10;

#[derive(Clone, Copy, Debug)]
pub struct LeakOptions<'a> {
    /// The state of the blocks; None: any but [`LeakState::Exec`], of which there are sums alone. A file that knows no
    /// scans has no blocks in any state.
    pub state: Option<LeakState>,
    pub suppressions: &'a Suppressions,
    /// Whether what runtimes keep is suppressed.
    pub built_in: bool,
    /// Whether sites and causes are those that are suppressed, in place of those that are reported.
    pub of_suppressed: bool,
    /// Most sites, and most causes, that are listed.
    pub limit: usize,
}

/// The leaks of a recording, with at most `limit` sites and causes.
///
/// Sites whose stacks read the same (two calls on one line, the same program in several processes) are one.
pub fn leaks(profile: &Profile, suppressions: &Suppressions, limit: usize) -> Leaks {
    leaks_with(profile, &LeakOptions { state: None, suppressions, built_in: true, of_suppressed: false, limit })
}

/// [`leaks`] with all options.
pub fn leaks_with(profile: &Profile, options: &LeakOptions<'_>) -> Leaks {
    let &LeakOptions { state, suppressions, built_in, of_suppressed, limit } = options;
    let functions = Functions::new(profile);
    let mut uses: Vec<SuppressionUse> = suppressions
        .patterns()
        .iter()
        .map(|p| SuppressionUse { pattern: p.text.clone(), line: p.line, sites: 0, live: 0, live_bytes: 0 })
        .collect();
    let states = leak_states_with(profile, CYCLES.min(limit), built_in);
    let at_exec = states.as_ref().filter(|_| state.is_none()).map(LeakStates::at_exec).unwrap_or_default();
    let mut suppressed = (0, 0);
    let mut of_state = (0, 0);
    let mut shown = Vec::new();
    let mut by_design = ByDesign::default();
    for (stack, site, rule) in sites(profile, &functions, state, built_in) {
        of_state = add(of_state, &site);
        let is_by_design = by_design.takes(&functions, stack, rule, &site);
        let pattern = if is_by_design { None } else { suppressed_by(&functions, suppressions, stack) };
        if let Some(index) = pattern {
            let used = &mut uses[index];
            used.sites += 1;
            (used.live, used.live_bytes) = add((used.live, used.live_bytes), &site);
        }
        let is_suppressed = is_by_design || pattern.is_some();
        if is_suppressed {
            suppressed = add(suppressed, &site);
        }
        if is_suppressed == of_suppressed {
            shown.push((stack, site));
        }
    }
    let sites_in_all = shown.len() as u64;
    shown.sort_by_key(|(stack, s)| (Reverse(s.live_bytes), Reverse(s.live), *stack));
    let requests = if state == Some(LeakState::Lost) && !of_suppressed { divided(profile) } else { Vec::new() };
    let causes = causes(&functions, shown.iter().cloned(), &requests, limit);
    let causes = by_design.beside(causes);
    let hidden = LeftOut::after(limit, shown.iter().map(|(_, site)| Live::of(site)));
    shown.truncate(limit);
    let sites = shown.into_iter().map(|(stack, s)| LeakSite { stack: functions.stack(stack), ..s }).collect();
    Leaks {
        origin: profile.origin.clone(),
        live_moment: LiveMoment::of(profile),
        command: profile.command.clone(),
        duration_ms: profile.duration_ms,
        ending: Ending::of(profile),
        live: of_state.0.saturating_add(at_exec.live),
        live_bytes: of_state.1.saturating_add(at_exec.live_bytes),
        reported: of_state.0.saturating_sub(suppressed.0),
        reported_bytes: of_state.1.saturating_sub(suppressed.1),
        suppressed: suppressed.0,
        suppressed_bytes: suppressed.1,
        sites_in_all,
        sites,
        hidden,
        causes,
        states,
        suppressions: uses,
    }
}

fn add(sum: (u64, u64), site: &LeakSite) -> (u64, u64) {
    (sum.0.saturating_add(site.live), sum.1.saturating_add(site.live_bytes))
}

/// Merges the live blocks of stacks that read the same; with each is one of these stacks, and the rule by which a
/// runtime keeps the blocks.
fn sites(
    profile: &Profile,
    functions: &Functions<'_>,
    state: Option<LeakState>,
    built_in: bool,
) -> Vec<(StackId, LeakSite, Option<RuleId>)> {
    let live = LiveBlocks::new(profile, functions, state, built_in);
    let parts = |site| live.of(site).map(move |(lives, rule)| (site, lives, rule));
    let mut order: Vec<_> = profile.sites.iter().flat_map(parts).collect();
    order.sort_by_key(|(s, _, rule)| (s.stack, s.process, *rule));
    let mut by_text: FxHashMap<(Vec<_>, _), usize> = FxHashMap::default();
    let mut by_stack: FxHashMap<(StackId, _), usize> = FxHashMap::default();
    let mut merged: Vec<(StackId, LeakSite, Option<RuleId>)> = Vec::new();
    for (site, lives, rule) in order {
        let at = *by_stack.entry((site.stack, rule)).or_insert_with(|| {
            let cut = profile.stacks.is_cut(site.stack);
            let text = functions.steps(site.stack).map(|s| s.text_key(cut)).collect();
            *by_text.entry((text, rule)).or_insert_with(|| {
                merged.push((site.stack, LeakSite { youngest_ms: u64::MAX, ..LeakSite::default() }, rule));
                merged.len() - 1
            })
        });
        merged[at].1.add(&lives);
    }
    merged
}

/// Index of the first pattern that matches a name, a file or a module of the stack.
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
        let rows: Vec<_> = report.sites.iter().map(|s| (s.live, s.live_bytes, s.oldest_ms, s.youngest_ms)).collect();
        assert_eq!(rows, [(12, 12_000, 1700, 60), (3, 3600, 200, 200)]);
        assert_eq!(report.sites[1].pids, [4712]);
        assert_eq!((report.live, report.live_bytes), (15, 15_600));
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
        let uses: Vec<_> = report.suppressions.iter().map(|u| (u.pattern.as_str(), u.sites, u.live_bytes)).collect();
        assert_eq!(uses, [("ld-linux", 1, 3600), ("nothing", 0, 0)]);
        assert_eq!(report.reported_bytes + report.suppressed_bytes, report.live_bytes);
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
            (site.live_oldest_ms, site.live_youngest_ms) = (oldest, oldest);
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
        let rows: Vec<_> = report.sites.iter().map(|s| (s.live, s.oldest_ms, s.pids.as_slice())).collect();
        assert_eq!(rows, [(3, 60, &[1, 2][..]), (1, 99, &[1])]);
    }
}
