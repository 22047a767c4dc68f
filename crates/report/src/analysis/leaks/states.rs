//! Lost, reachable, not scanned: what is known of the blocks that were live when their process image ended.
//!
//! Each image has its own scan, whatever a filter leaves of a recording. A pid is no image: what it was before
//! exec and after it are two.

use mallow_profile::{LostBlocks, LostKind, ProcessId, Profile, ScanOutcome, Site, StackId};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

use super::cycles::{Cycle, cycles};
use super::sites::{LeakSite, Live};
use crate::analysis::stacks::functions::Functions;
use crate::analysis::stacks::runtimes::{RuleId, Runtimes};

/// What is known of a block that was live when its process image ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeakState {
    /// Nothing points to the block but lost blocks. It counts at the call path of the lost block that holds it.
    Lost,
    /// Something points to the block.
    Reachable,
    /// The memory of the block's process was not scanned.
    Unscanned,
    /// The image ended by exec, which gives back all memory: no leak.
    Exec,
}

impl LeakState {
    /// All states; each live block is in one.
    pub const ALL: [Self; 4] = [Self::Lost, Self::Reachable, Self::Unscanned, Self::Exec];
}

/// Division of the blocks that were live at the end. Lost, reachable, unscanned and live at exec add up to all.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeakStates {
    /// Lost blocks: nothing pointed to them at the end. Null: no process with live blocks was scanned, and some were
    /// not, so that it is not known.
    pub lost_blocks: Option<u64>,
    /// Requested bytes of the lost blocks; null where `lost_blocks` is.
    pub lost_bytes: Option<u64>,
    /// Blocks that something still pointed to at the end; null where `lost_blocks` is.
    pub reachable_blocks: Option<u64>,
    /// Requested bytes of the reachable blocks; null where `lost_blocks` is.
    pub reachable_bytes: Option<u64>,
    /// Processes that were not scanned, by the reason.
    pub unscanned: Vec<Unscanned>,
    /// Blocks that were live when their image called exec.
    pub live_at_exec_blocks: u64,
    /// Requested bytes of `live_at_exec_blocks`.
    pub live_at_exec_bytes: u64,
    /// Cycles of lost blocks: those of counted references first, then those with the most bytes.
    pub lost_cycles: Vec<Cycle>,
}

impl LeakStates {
    pub fn unscanned(&self) -> Live {
        let mut sum = Live::default();
        self.unscanned.iter().for_each(|unscanned| sum += unscanned.live);
        sum
    }

    /// Sum of the lost blocks; 0 where it is not known.
    pub fn lost(&self) -> Live {
        Live { live: self.lost_blocks.unwrap_or(0), live_bytes: self.lost_bytes.unwrap_or(0) }
    }

    /// Sum of the reachable blocks; 0 where it is not known.
    pub fn reachable(&self) -> Live {
        Live { live: self.reachable_blocks.unwrap_or(0), live_bytes: self.reachable_bytes.unwrap_or(0) }
    }

    /// Sum of the blocks that were live when their image called exec.
    pub fn at_exec(&self) -> Live {
        Live { live: self.live_at_exec_blocks, live_bytes: self.live_at_exec_bytes }
    }

    /// Whether any block was live in a process that was scanned.
    pub fn has_scan(&self) -> bool {
        self.lost().live > 0 || self.reachable().live > 0
    }
}

/// Live blocks of processes that were not scanned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unscanned {
    /// Reason why the processes were not scanned, in words.
    pub reason: String,
    /// Ids of the processes that were not scanned.
    pub pids: Vec<u32>,
    /// Live blocks of the processes that were not scanned.
    #[serde(flatten)]
    pub live: Live,
}

/// Lost blocks of a site.
#[derive(Clone, Copy, Debug, Default)]
struct LostSums {
    /// Lost blocks that were allocated at the site.
    own: Live,
    /// Lost blocks of the site that no other lost block holds.
    heads: Live,
    /// Lost blocks that the heads hold, wherever they were allocated.
    held: Live,
}

impl LostSums {
    /// The blocks that count at the site: its heads, with what they hold.
    fn counted(&self) -> Live {
        let mut counted = self.heads;
        counted += self.held;
        counted
    }
}

/// Lost blocks of a site by what their heads are.
#[derive(Clone, Copy, Debug, Default)]
struct LostOf {
    /// Lost blocks below CPython's immortal strings, whoever had them interned: no leak of the program.
    immortal: LostSums,
    other: LostSums,
}

impl LostOf {
    fn of_kind(&mut self, kind: LostKind) -> &mut LostSums {
        match kind {
            LostKind::ImmortalString => &mut self.immortal,
            LostKind::Other => &mut self.other,
        }
    }

    /// Lost blocks that were allocated at the site.
    fn own(&self) -> Live {
        let mut own = self.other.own;
        own += self.immortal.own;
        own
    }
}

pub(in crate::analysis) struct States<'a> {
    lost: FxHashMap<(ProcessId, StackId), LostOf>,
    outcomes: FxHashMap<ProcessId, &'a ScanOutcome>,
    /// The reason why a process without a scan has none.
    no_scan: &'static str,
}

impl<'a> States<'a> {
    /// None for a file that knows no scans: one of another tool, or a merged one.
    pub fn of(profile: &'a Profile) -> Option<Self> {
        if profile.origin.is_some() {
            return None;
        }
        let mut lost: FxHashMap<_, LostOf> = FxHashMap::default();
        for scan in &profile.scans {
            for &LostBlocks { stack, head, kind, blocks, bytes } in &scan.lost {
                let sum = Live { live: blocks, live_bytes: bytes };
                let own = lost.entry((scan.process, stack)).or_default().of_kind(kind);
                own.own += sum;
                match head {
                    None => own.heads += sum,
                    Some(head) => lost.entry((scan.process, head)).or_default().of_kind(kind).held += sum,
                }
            }
        }
        let no_scan = match profile.ending.cut_short {
            Some(_) => "the end of the recording is missing",
            None => "recorded without a scan",
        };
        let outcomes = profile.scans.iter().map(|scan| (scan.process, &scan.outcome)).collect();
        Some(Self { lost, outcomes, no_scan })
    }

    /// The reason why the process of a site was not scanned; None if it was, or ended by exec.
    fn failure(&self, site: &Site) -> Option<&'a str> {
        match self.outcomes.get(&site.process) {
            Some(ScanOutcome::Failed(why)) => Some(why),
            Some(ScanOutcome::Scanned | ScanOutcome::Exec) => None,
            None => Some(self.no_scan),
        }
    }

    fn state_of_image(&self, site: &Site) -> Option<LeakState> {
        match self.outcomes.get(&site.process) {
            Some(ScanOutcome::Scanned) => None,
            Some(ScanOutcome::Exec) => Some(LeakState::Exec),
            Some(ScanOutcome::Failed(_)) | None => Some(LeakState::Unscanned),
        }
    }

    /// The blocks in this state that were allocated at a site: over all states and sites, all live blocks.
    fn own(&self, site: &Site, state: LeakState) -> Live {
        let all = Live { live: site.counts.live, live_bytes: site.counts.live_bytes };
        let lost = self.lost_of(site).own();
        match (self.state_of_image(site), state) {
            (Some(of_all), state) => {
                if of_all == state {
                    all
                } else {
                    Live::default()
                }
            }
            (None, LeakState::Lost) => lost,
            (None, LeakState::Reachable) => Live {
                live: all.live.saturating_sub(lost.live),
                live_bytes: all.live_bytes.saturating_sub(lost.live_bytes),
            },
            (None, LeakState::Unscanned | LeakState::Exec) => Live::default(),
        }
    }

    /// The blocks in a state that count at a site, of lost ones those that its heads hold, too; and the number of
    /// heads.
    fn counted(&self, site: &Site, state: LeakState) -> (Live, u64) {
        match (self.state_of_image(site), state) {
            (None, LeakState::Lost) => {
                let LostOf { immortal, other } = self.lost_of(site);
                let mut counted = other.counted();
                counted += immortal.counted();
                (counted, other.heads.live.saturating_add(immortal.heads.live))
            }
            _ => (self.own(site, state), 0),
        }
    }

    fn lost_of(&self, site: &Site) -> LostOf {
        self.lost.get(&(site.process, site.stack)).copied().unwrap_or_default()
    }

    /// The immortal strings among what counts at a site in a state, and the number of heads among them; None: in any
    /// state.
    fn immortal(&self, site: &Site, state: Option<LeakState>) -> (Live, u64) {
        let immortal = self.lost_of(site).immortal;
        match (self.state_of_image(site), state) {
            (None, Some(LeakState::Lost)) => (immortal.counted(), immortal.heads.live),
            (None, None) => (immortal.own, 0),
            _ => (Live::default(), 0),
        }
    }
}

/// The live blocks that a view is about.
pub(in crate::analysis) struct LiveBlocks<'a> {
    profile: &'a Profile,
    states: Option<States<'a>>,
    /// The state of the blocks; None: any but [`LeakState::Exec`].
    state: Option<LeakState>,
    /// Whether what runtimes keep is marked as theirs.
    has_rules: bool,
    /// None without rules, and where no runtime is there.
    runtimes: Option<Runtimes<'a>>,
}

impl<'a> LiveBlocks<'a> {
    /// `has_rules` says whether what runtimes keep is marked as theirs.
    pub fn new(profile: &'a Profile, functions: &'a Functions<'a>, state: Option<LeakState>, has_rules: bool) -> Self {
        let runtimes = if has_rules { Runtimes::of(profile, functions) } else { None };
        Self { profile, states: States::of(profile), state, has_rules, runtimes }
    }

    /// The live blocks of a site in up to three parts: immortal strings, what a runtime keeps by a rule, and all
    /// others.
    pub fn of(&self, site: &Site) -> impl Iterator<Item = (LeakSite, Option<RuleId>)> + use<> {
        let Some(all) = self.chosen(site) else { return [None, None, None].into_iter().flatten() };
        let runtimes = self.runtimes.as_ref();
        let rule = runtimes.and_then(|runtimes| runtimes.rule_of(site));
        let states = self.states.as_ref();
        let (immortal, heads) = match self.has_rules {
            true => states.map(|states| states.immortal(site, self.state)).unwrap_or_default(),
            false => Default::default(),
        };
        let rest = Live::of(&all).less(immortal);
        let lost = match (rule, self.state) {
            (Some(rule), _) if rule.may_lose() => Live::default(),
            (Some(_), Some(LeakState::Lost)) => rest,
            (Some(_), None) => states.map(|s| s.own(site, LeakState::Lost).less(immortal)).unwrap_or_default(),
            _ => Live::default(),
        };
        let part = |Live { live, live_bytes }, heads, rule| {
            (live > 0 || live_bytes > 0).then(|| (LeakSite { live, live_bytes, heads, ..all.clone() }, rule))
        };
        let others = all.heads.saturating_sub(heads);
        let parts = [
            part(immortal, heads, Some(RuleId::CPYTHON)),
            part(lost, others, None),
            part(rest.less(lost), others, rule),
        ];
        parts.into_iter().flatten()
    }

    fn chosen(&self, site: &Site) -> Option<LeakSite> {
        if site.counts.live == 0 && site.counts.live_bytes == 0 {
            return None;
        }
        let mut chosen = LeakSite::of(self.profile, site);
        let states = self.states.as_ref();
        if let Some(state) = self.state {
            let (Live { live, live_bytes }, heads) = states?.counted(site, state);
            chosen = LeakSite { live, live_bytes, heads, ..chosen };
        } else if states.is_some_and(|states| states.state_of_image(site) == Some(LeakState::Exec)) {
            return None;
        }
        (chosen.live > 0 || chosen.live_bytes > 0).then_some(chosen)
    }
}

/// The sites of which it is known how much is lost: in a process that was not scanned, those with nothing live.
pub(in crate::analysis) fn divided(profile: &Profile) -> Vec<&Site> {
    let Some(states) = States::of(profile) else { return Vec::new() };
    let is_known = |site: &&Site| {
        let is_live = site.counts.live > 0 || site.counts.live_bytes > 0;
        !is_live || states.state_of_image(site).is_none()
    };
    profile.sites.iter().filter(is_known).collect()
}

/// Divides the blocks that were live at the end by their state, with at most `limit` kinds of cycles; None for a file
/// that knows no scans.
pub fn leak_states(profile: &Profile, limit: usize) -> Option<LeakStates> {
    leak_states_with(profile, limit, true)
}

/// [`leak_states`]; with `has_rules`, without cycles that a runtime loses by design.
pub(in crate::analysis) fn leak_states_with(profile: &Profile, limit: usize, has_rules: bool) -> Option<LeakStates> {
    let states = States::of(profile)?;
    let mut sums = LeakStates::default();
    let leaking = profile.sites.iter().filter(|s| s.counts.live > 0 || s.counts.live_bytes > 0);
    let mut all = [Live::default(); LeakState::ALL.len()];
    for site in leaking {
        for (sum, state) in all.iter_mut().zip(LeakState::ALL) {
            *sum += states.own(site, state);
        }
        if let Some(reason) = states.failure(site) {
            let at = sums.unscanned.iter().position(|known| known.reason == reason).unwrap_or_else(|| {
                sums.unscanned.push(Unscanned { reason: reason.to_owned(), ..Unscanned::default() });
                sums.unscanned.len() - 1
            });
            let known = &mut sums.unscanned[at];
            known.live += states.own(site, LeakState::Unscanned);
            if let Some(process) = profile.processes.get(site.process.0 as usize)
                && !known.pids.contains(&process.pid)
            {
                known.pids.push(process.pid);
            }
        }
    }
    let [lost, reachable, _, exec] = all;
    let is_known = sums.unscanned.is_empty() || lost.live > 0 || reachable.live > 0;
    let known = |number: u64| is_known.then_some(number);
    (sums.lost_blocks, sums.lost_bytes) = (known(lost.live), known(lost.live_bytes));
    (sums.reachable_blocks, sums.reachable_bytes) = (known(reachable.live), known(reachable.live_bytes));
    (sums.live_at_exec_blocks, sums.live_at_exec_bytes) = (exec.live, exec.live_bytes);
    if profile.scans.iter().any(|scan| !scan.cycles.is_empty()) {
        let functions = Functions::new(profile);
        let blocks = LiveBlocks::new(profile, &functions, Some(LeakState::Lost), has_rules);
        let listed = profile.sites.iter().filter(|site| blocks.of(site).any(|(_, rule)| rule.is_none()));
        let listed: FxHashSet<StackId> = listed.map(|site| site.stack).collect();
        sums.lost_cycles = cycles(profile, &functions, limit, |stack| listed.contains(&stack));
    }
    Some(sums)
}

#[cfg(test)]
mod tests {
    use mallow_profile::{LostBlocks, LostCycle, LostKind, Profile, Scan, ScanOutcome, StackId};
    use proptest::prelude::*;

    use super::{LeakState, LeakStates, leak_states};
    use crate::analysis::{LeakOptions, Leaks, Live, Narrowing, Suppressions, leaks_with, narrow};
    use crate::testing::{Builder, blocks};

    fn of(states: &LeakStates) -> [Live; 4] {
        [states.lost(), states.reachable(), states.unscanned(), states.at_exec()]
    }

    fn leaks_in_state(profile: &Profile, state: Option<LeakState>) -> Leaks {
        let suppressions = &Suppressions::default();
        leaks_with(
            profile,
            &LeakOptions { state, suppressions, built_in: true, of_suppressed: false, limit: usize::MAX },
        )
    }

    fn add(sums: &mut [Live; 4], more: [Live; 4]) {
        sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }

    fn lost(stack: StackId, head: Option<StackId>, blocks: u64) -> LostBlocks {
        LostBlocks { stack, head, kind: LostKind::Other, blocks, bytes: 10 * blocks }
    }

    /// CPython's immortal strings are its own, whoever had them interned; what else an extension loses is not.
    #[test]
    fn immortal_strings_are_no_leak_of_who_had_them_interned() {
        let mut b = Builder::default();
        let python = b.process(7, &["python3"], 10);
        let frames = ["PyUnicode_New!python3.12", "exec!ext.so", "load@t.py:0!", "Py_BytesMain!python3.12"];
        b.site(python, &frames, blocks(9, 10, 0, 9));
        let stack = b.profile.sites[0].stack;
        let string = |head, blocks| LostBlocks { kind: LostKind::ImmortalString, ..lost(stack, head, blocks) };
        let all = vec![lost(stack, None, 2), string(None, 5), string(Some(stack), 1)];
        b.profile.scans = vec![Scan { process: python, lost: all, ..Scan::default() }];
        for state in [Some(LeakState::Lost), None] {
            let leaks = leaks_in_state(&b.profile, state);
            let kept: Vec<_> = leaks.causes.kept.iter().map(|kept| (kept.keeper, kept.live.live)).collect();
            assert_eq!(kept, [("CPython", 6)], "{state:?}");
            let reported = if state.is_some() { 2 } else { 3 };
            assert_eq!((leaks.reported, leaks.causes.leak_causes[0].live.live), (reported, reported), "{state:?}");
        }
        assert_eq!(leaks_in_state(&b.profile, Some(LeakState::Lost)).causes.leak_causes[0].heads, 2);
        let suppressions = &Suppressions::default();
        let options =
            LeakOptions { state: Some(LeakState::Lost), suppressions, built_in: false, of_suppressed: false, limit: 9 };
        assert_eq!(leaks_with(&b.profile, &options).reported, 8);
    }

    /// A cycle is lost in the words of the list, too: one of blocks that are left out of it is none.
    #[test]
    fn cycles_of_what_a_runtime_keeps_are_not_listed() {
        let mut b = Builder::default();
        let python = b.process(7, &["python3"], 10);
        b.site(python, &["PyUnicode_New!python3.12", "Py_BytesMain!python3.12"], blocks(9, 10, 0, 9));
        b.site(python, &["make@ext.c:3!ext.so", "Py_BytesMain!python3.12"], blocks(9, 10, 0, 9));
        let [strings, others] = [0, 1].map(|site| b.profile.sites[site].stack);
        let cycle = |stacks| LostCycle { count: 1, blocks: 2, bytes: 20, stacks };
        let immortal = LostBlocks { kind: LostKind::ImmortalString, ..lost(strings, None, 5) };
        let cycles = vec![cycle(vec![strings]), cycle(vec![others]), cycle(vec![strings, others])];
        let all = vec![immortal, lost(others, None, 4)];
        b.profile.scans = vec![Scan { process: python, lost: all, cycles, ..Scan::default() }];
        let cycles = |has_rules| super::leak_states_with(&b.profile, 9, has_rules).expect("a recording").lost_cycles;
        assert_eq!((cycles(true).len(), cycles(false).len()), (2, 3));
    }

    /// Two images of one pid: the first one ended by exec, or lost nothing; the second one lost blocks.
    #[test]
    fn images_that_share_a_pid_have_states_of_their_own_scans() {
        let mut b = Builder::default();
        let shell = b.process(7, &["sh"], 10);
        let program = b.process(7, &["pf"], 20);
        b.site(shell, &["cfg@a.c:1", "main@a.c:9"], blocks(4, 10, 0, 4));
        b.site(program, &["cfg@a.c:1", "main@a.c:9"], blocks(6, 10, 0, 6));
        let stack = b.profile.sites[0].stack;
        let scan = |process, outcome, lost| Scan { process, outcome, lost, cycles: Vec::new() };
        b.profile.scans = vec![
            scan(shell, ScanOutcome::Exec, Vec::new()),
            scan(program, ScanOutcome::Scanned, vec![lost(stack, None, 6)]),
        ];
        let states = leak_states(&b.profile, 9).expect("a recording");
        assert_eq!((states.lost_blocks, states.reachable_blocks, states.live_at_exec_blocks), (Some(6), Some(0), 4));
        assert!(states.unscanned.is_empty());
        let all = leaks_in_state(&b.profile, None);
        assert_eq!((all.live, all.reported, all.causes.leak_causes_in_all), (10, 6, 1));
        let exec = leaks_in_state(&b.profile, Some(LeakState::Exec));
        assert_eq!((exec.live, exec.sites.len()), (4, 1));
    }

    /// Unknown is not absent.
    #[test]
    fn nothing_is_said_of_what_was_not_scanned() {
        let mut b = Builder::default();
        let process = b.process(7, &["a"], 10);
        b.site(process, &["f", "main"], blocks(4, 10, 0, 4));
        let states = leak_states(&b.profile, 9).expect("a recording");
        assert_eq!((states.lost_blocks, states.reachable_bytes), (None, None));
        assert_eq!(
            (states.unscanned[0].reason.as_str(), states.unscanned[0].live.live),
            ("recorded without a scan", 4)
        );
        b.profile.ending.cut_short = Some("the disk is full".to_owned());
        let cut = leak_states(&b.profile, 9).expect("a recording");
        assert_eq!(cut.unscanned[0].reason, "the end of the recording is missing");
        // What was live nowhere was lost nowhere.
        let nothing = leak_states(&Builder::default().profile, 9).expect("a recording");
        assert_eq!((nothing.lost_blocks, nothing.reachable_blocks), (Some(0), Some(0)));
    }

    /// Places of a random profile: one function of these calls another one.
    const PLACES: [&str; 4] = ["f0@a.c:1", "f1@a.c:2", "f2@b.c:3", "f3!libx.so"];

    /// Of each site (process, two places, live blocks, lost heads, lost blocks that another site's head holds).
    type Row = (u8, (usize, usize), u64, u64, u64);

    fn profile(rows: &[Row], outcomes: &[u8; 4]) -> Profile {
        let mut b = Builder::default();
        // Two images share each pid.
        let processes: Vec<_> = (0..4).map(|number| b.process(100 + number / 2, &["a"], 10)).collect();
        let mut scans: Vec<Scan> = Vec::new();
        for (&process, outcome) in processes.iter().zip(outcomes) {
            let outcome = match outcome {
                0 | 1 => ScanOutcome::Scanned,
                2 => ScanOutcome::Exec,
                _ => ScanOutcome::Failed("killed".to_owned()),
            };
            scans.push(Scan { process, outcome, ..Scan::default() });
        }
        for &(process, (inner, outer), live, heads, held) in rows {
            let process = usize::from(process) % processes.len();
            let stack = b.stack(&[PLACES[inner], PLACES[outer], "main@a.c:9"]);
            if b.profile.sites.iter().any(|site| (site.process, site.stack) == (processes[process], stack)) {
                continue;
            }
            b.site(processes[process], &[PLACES[inner], PLACES[outer], "main@a.c:9"], blocks(live + 1, 10, 0, live));
            let (heads, holder) = (heads.min(live), scans[process].lost.first().map(|lost| lost.stack));
            let held = held.min(live - heads);
            if scans[process].outcome == ScanOutcome::Scanned {
                let rows = [(None, heads), (holder, if holder.is_some() { held } else { 0 })];
                let rows = rows.into_iter().filter(|(_, blocks)| *blocks > 0);
                scans[process].lost.extend(rows.map(|(head, blocks)| lost(stack, head, blocks)));
                scans[process].cycles.push(LostCycle { count: 1, blocks: 2, bytes: 20, stacks: vec![stack] });
            }
        }
        for scan in &mut scans {
            scan.lost = mallow_profile::sum_lost(std::mem::take(&mut scan.lost));
        }
        b.profile.scans = scans;
        b.profile
    }

    proptest! {
        /// States add up to what is live, and stacks with a function and those without it to the whole; with functions
        /// hidden, nothing changes.
        #[test]
        fn parts_add_up_to_the_whole(
            rows in prop::collection::vec((0u8..4, (0usize..4, 0usize..4), 0u64..9, 0u64..5, 0u64..5), 0..12),
            outcomes in any::<[u8; 4]>(),
            pattern in 0usize..4,
        ) {
            let whole = profile(&rows, &outcomes.map(|outcome| outcome % 4));
            prop_assert_eq!(whole.check(), Ok(()));
            let expected = of(&leak_states(&whole, 9).expect("a recording"));
            let sum: u64 = expected.iter().map(|sum| sum.live).sum();
            prop_assert_eq!(sum, whole.totals.live);
            let by = |make: fn(&mut Narrowing, crate::analysis::Pattern)| {
                let mut narrowing = Narrowing::default();
                make(&mut narrowing, format!("f{pattern}").parse().expect("a pattern"));
                let narrowed = narrow(whole.clone(), &narrowing).profile;
                assert_eq!(narrowed.check(), Ok(()));
                narrowed
            };
            let with = by(|narrowing, pattern| narrowing.focus = Some(pattern));
            let without = by(|narrowing, pattern| narrowing.ignore = Some(pattern));
            let hidden = by(|narrowing, pattern| narrowing.hide = Some(pattern));
            let mut parts = [Live::default(); 4];
            for part in [&with, &without] {
                let states = of(&leak_states(part, 9).expect("a recording"));
                prop_assert_eq!(states.iter().map(|sum| sum.live).sum::<u64>(), part.totals.live);
                add(&mut parts, states);
            }
            prop_assert_eq!(parts, expected);
            prop_assert_eq!(of(&leak_states(&hidden, 9).expect("a recording")), expected);
            // Sites of a state add up to it, too.
            for part in [&whole, &with, &without, &hidden] {
                let states = of(&leak_states(part, 9).expect("a recording"));
                for (state, sum) in LeakState::ALL.into_iter().zip(states) {
                    let report = leaks_in_state(part, Some(state));
                    prop_assert_eq!((report.live, report.live_bytes), (sum.live, sum.live_bytes));
                    let rows: u64 = report.sites.iter().map(|site| site.live).sum();
                    prop_assert_eq!(rows, sum.live);
                }
            }
        }
    }
}
