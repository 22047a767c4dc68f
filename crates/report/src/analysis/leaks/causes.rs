//! Leaks by cause: the line of the program that the blocks of one leak come from, whatever called it. Of lost blocks,
//! the caller of the line that tells them from blocks that others do not lose.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mallow_profile::{Profile, Site, StackId, StringId};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::emergency_pool::is_emergency_pool;
use super::losing_paths::losing_paths;
use super::sites::{LeakSite, Live, is_zero};
use super::states::{LeakState, LiveBlocks, divided};
use crate::analysis::numbers::LeftOut;
use crate::analysis::stacks::callers::{Callers, caller};
use crate::analysis::stacks::functions::{Frame, FunctionId, Functions, Named, Stack};
use crate::analysis::stacks::profile_views::ProfileViews;
use crate::analysis::stacks::runtimes::RuleId;
use crate::analysis::stacks::tell_apart::tell_apart;

/// Live blocks that are no leak, by design: libstdc++'s emergency pool, and what runtimes keep.
#[derive(Debug, Default)]
pub(in crate::analysis) struct ByDesign {
    pool: Option<Live>,
    kept: BTreeMap<RuleId, Live>,
}

impl ByDesign {
    /// Adds what is live of a stack if it is no leak by design, and says whether it did. `rule` is the runtime's rule
    /// that takes the blocks.
    pub fn takes(&mut self, functions: &Functions<'_>, stack: StackId, rule: Option<RuleId>, lives: &LeakSite) -> bool {
        // First the pool: it has its own row where an interpreter, which has a rule, loads the library.
        let sum = match rule {
            _ if is_emergency_pool(functions, stack) => self.pool.get_or_insert_default(),
            Some(rule) => self.kept.entry(rule).or_default(),
            None => return false,
        };
        *sum += Live::of(lives);
        true
    }

    /// Adds the rows of the blocks that are no leak to the causes of all others.
    pub fn beside(self, causes: LeakCauses) -> LeakCauses {
        LeakCauses { emergency_pool: self.pool, kept: Kept::rows(self.kept), ..causes }
    }
}

#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeakCauses {
    /// Causes, shown here or not.
    pub leak_causes_in_all: u64,
    /// Causes of live blocks, the most bytes first.
    pub leak_causes: Vec<LeakCause>,
    /// Sums of the causes that are not shown; null where all are.
    pub leak_causes_hidden: Option<LeftOut<Live>>,
    /// Memory that libstdc++ sets aside at its start for exceptions when memory is scarce. It is live at the end of
    /// each C++ program, and no leak. Left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emergency_pool: Option<Live>,
    /// Blocks that interpreters and libraries keep to their end by design, the largest first. No cause is named for
    /// them. Left out where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Kept>,
}

/// Blocks that an interpreter, a runtime or a library keeps to its end by design.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Kept {
    /// Interpreter or library that keeps the blocks.
    pub keeper: &'static str,
    /// Description of the blocks, for people.
    pub what: &'static str,
    /// Whether all blocks of the row are known to be kept by design. False of an interpreter: what its script keeps or
    /// leaks is among them.
    pub judged: bool,
    #[serde(flatten)]
    pub live: Live,
}

impl Kept {
    /// Rows, the largest first, of sums by rule.
    fn rows(sums: impl IntoIterator<Item = (RuleId, Live)>) -> Vec<Self> {
        let row = |(rule, live): (RuleId, Live)| Self {
            keeper: rule.keeper(),
            what: rule.what(),
            judged: rule.is_judged(),
            live,
        };
        let mut rows: Vec<Self> = sums.into_iter().map(row).collect();
        rows.sort_by_key(|row| (Reverse(row.live.live_bytes), row.keeper));
        rows
    }
}

/// Sum of all that a keeper keeps, whatever it is. None of it is judged where a part is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeeperSum {
    pub keeper: &'static str,
    pub judged: bool,
    pub live: Live,
}

impl LeakCauses {
    /// What each keeper has of [`Self::kept`], in the order of their largest rows.
    pub fn keepers(&self) -> Vec<KeeperSum> {
        let mut sums: Vec<KeeperSum> = Vec::new();
        for &Kept { keeper, judged, live, .. } in &self.kept {
            match sums.iter_mut().find(|sum| sum.keeper == keeper) {
                Some(sum) => {
                    sum.live += live;
                    sum.judged &= judged;
                }
                None => sums.push(KeeperSum { keeper, judged, live }),
            }
        }
        sums
    }

    /// Leaves out causes with less than `min` live bytes.
    pub(in crate::analysis) fn leave_out(&mut self, min: u64) {
        let sums = |cause: &LeakCause| cause.live;
        let worth = |cause: &LeakCause| cause.live.live_bytes >= min;
        LeftOut::small(&mut self.leak_causes_hidden, &mut self.leak_causes, worth, sums);
    }

    /// Sum over all causes, those that are hidden, too.
    pub fn live(&self) -> Live {
        let mut sum = self.leak_causes_hidden.map(|hidden| hidden.sums).unwrap_or_default();
        self.leak_causes.iter().for_each(|cause| sum += cause.live);
        sum
    }
}

/// The blocks that one line of the program left live.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeakCause {
    /// The function; without its keys where the place's sites have no frames.
    #[serde(flatten)]
    pub frame: Option<Frame>,
    /// Function by which the line's function allocates, where other call paths of it lose nothing; null: the line
    /// itself allocates.
    pub by: Option<String>,
    /// Function that the line called to get its memory; null where that is an allocating function.
    pub through: Option<String>,
    #[serde(flatten)]
    pub live: Live,
    /// Lost blocks that no other lost block holds: each is a leak of its own. Left out where 0, as for blocks that are
    /// not lost.
    #[serde(skip_serializing_if = "is_zero")]
    pub heads: u64,
    /// Age of the oldest block at the end of its process, in milliseconds.
    pub oldest_ms: u64,
    /// Age of the youngest block at the end of its process, in milliseconds.
    pub youngest_ms: u64,
    /// Ids of the processes with live blocks of the place.
    pub pids: Vec<u32>,
    /// Call sites of the place.
    pub sites: u64,
    /// Stack of the call site with the most live bytes.
    pub largest_site: Stack,
}

pub fn leak_causes(profile: &Profile, limit: usize) -> LeakCauses {
    leak_causes_of(&ProfileViews::of(profile), None, limit)
}

/// [`leak_causes`] of the blocks in one state, of a profile of which more is asked; None: of those in any state but
/// [`LeakState::Exec`]. A file that knows no scans has no blocks in any state.
pub fn leak_causes_of(views: &ProfileViews<'_>, state: Option<LeakState>, limit: usize) -> LeakCauses {
    let ProfileViews { profile, functions, .. } = views;
    let live = LiveBlocks::new(profile, functions, state, true);
    let mut by_design = ByDesign::default();
    let parts = profile.sites.iter().flat_map(|site| live.of(site).map(|(lives, rule)| (site.stack, lives, rule)));
    let sites = parts.filter_map(|(stack, lives, rule)| {
        (!by_design.takes(functions, stack, rule, &lives)).then_some((stack, lives))
    });
    let requests = if state == Some(LeakState::Lost) { divided(profile) } else { Vec::new() };
    let causes = causes(functions, sites, &requests, limit);
    by_design.beside(causes)
}

struct Cause {
    named: Option<Named>,
    /// Index of the caller of the line that loses the blocks, from the line outwards.
    caller: Option<usize>,
    lives: LeakSite,
    sites: u64,
    largest: (u64, StackId),
}

impl Cause {
    /// There must be sites.
    fn of<'s>(
        named: Option<Named>,
        caller: Option<usize>,
        sites: impl Iterator<Item = &'s (StackId, LeakSite)>,
    ) -> Self {
        let lives = LeakSite { youngest_ms: u64::MAX, ..LeakSite::default() };
        let mut cause = Self { named, caller, lives, sites: 0, largest: (0, StackId::default()) };
        for (stack, site) in sites {
            cause.lives.add(site);
            if cause.sites == 0 || site.live_bytes > cause.largest.0 {
                cause.largest = (site.live_bytes, *stack);
            }
            cause.sites += 1;
        }
        cause
    }
}

type Key = Option<(FunctionId, Option<StringId>, u32)>;

/// Groups the live blocks of some sites by their cause. `requests` are, for lost blocks, the sites of which it is known
/// how much is lost: they show which callers of a line lose nothing.
pub(in crate::analysis) fn causes(
    functions: &Functions<'_>,
    sites: impl Iterator<Item = (StackId, LeakSite)>,
    requests: &[&Site],
    limit: usize,
) -> LeakCauses {
    type Line = (Option<Named>, Vec<(StackId, LeakSite)>);
    let mut lines: FxHashMap<Key, Line> = FxHashMap::default();
    for (stack, site) in sites {
        let named = functions.named(stack);
        lines.entry(named.map(|named| named.key())).or_insert_with(|| (named, Vec::new())).1.push((stack, site));
    }
    let mut requested: FxHashMap<Key, BTreeMap<StackId, u64>> = FxHashMap::default();
    for site in requests {
        let key = functions.named(site.stack).map(|named| named.key());
        if lines.contains_key(&key) {
            *requested.entry(key).or_default().entry(site.stack).or_default() += site.counts.allocations;
        }
    }
    let mut callers = Callers::new(functions);
    let mut causes: Vec<Cause> = Vec::with_capacity(lines.len());
    for (key, (named, sites)) in lines {
        let losing =
            requested.get(&key).map(|requests| losing_paths(requests, &sites, &mut callers)).unwrap_or_default();
        match losing.iter().any(|paths| paths.caller.is_some()) {
            false => causes.push(Cause::of(named, None, sites.iter())),
            true => causes.extend(losing.iter().map(|paths| {
                Cause::of(named, paths.caller, sites.iter().filter(|(stack, _)| paths.stacks.contains(stack)))
            })),
        }
    }
    causes.sort_by_key(|c| (Reverse(c.lives.live_bytes), Reverse(c.lives.live), c.largest.1));
    let leak_causes_in_all = causes.len() as u64;
    let leak_causes_hidden = LeftOut::after(limit, causes.iter().map(|cause| Live::of(&cause.lives)));
    causes.truncate(limit);
    let cause = |cause: Cause| {
        let (_, stack) = cause.largest;
        let through = functions.named(stack).and_then(|named| named.through);
        let line = cause.named.map(|named| named.step);
        let caller = cause.caller.and_then(|at| caller(functions, stack, at)).copied();
        LeakCause {
            frame: caller.or(line).map(|step| functions.frame(&step)),
            by: line.filter(|_| caller.is_some()).map(|line| functions.name(line.function)),
            through: through.map(|step| functions.name(step.function)),
            live: Live::of(&cause.lives),
            heads: cause.lives.heads,
            oldest_ms: cause.lives.oldest_ms,
            youngest_ms: cause.lives.youngest_ms,
            pids: cause.lives.pids,
            sites: cause.sites,
            largest_site: functions.stack(stack),
        }
    };
    let mut leak_causes: Vec<LeakCause> = causes.into_iter().map(cause).collect();
    tell_apart(leak_causes.iter_mut().filter_map(|cause| cause.frame.as_mut()));
    LeakCauses { leak_causes_in_all, leak_causes, leak_causes_hidden, ..LeakCauses::default() }
}

#[cfg(test)]
mod tests {
    use mallow_profile::{LostBlocks, LostKind, ProcessId, Scan, ScanOutcome};

    use super::{KeeperSum, LeakState, Live, ProfileViews, leak_causes, leak_causes_of};
    use crate::analysis::Suppressions;
    use crate::testing::{Builder, blocks};

    #[test]
    fn one_line_is_one_cause_whoever_called_it() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 100);
        for (caller, n, oldest, youngest) in [("serve@srv.c:40", 2000, 1, 50), ("retry@srv.c:60", 858, 20, 90)] {
            let site = b.site(p, &["open_session@srv.c:13", caller, "main@srv.c:90"], blocks(n, 100, 0, n));
            (site.live_oldest_ms, site.live_youngest_ms) = (oldest, youngest);
        }
        b.site(p, &["parse@srv.c:7", "main@srv.c:91"], blocks(1, 64, 0, 1));
        b.site(p, &["parse@srv.c:8", "main@srv.c:91"], blocks(1, 64, 0, 0));
        b.profile.duration_ms = 100;
        let report = leak_causes(&b.profile, 1);
        assert_eq!((report.leak_causes_in_all, report.leak_causes.len()), (2, 1));
        let cause = &report.leak_causes[0];
        assert_eq!(cause.frame.as_ref().map(|f| f.function.as_str()), Some("open_session"));
        assert_eq!((cause.live.live, cause.live.live_bytes, cause.sites), (2858, 285_800, 2));
        assert_eq!((cause.oldest_ms, cause.youngest_ms, cause.pids.as_slice()), (99, 10, &[1][..]));
        assert_eq!((report.live().live, report.leak_causes_hidden.map(|h| h.rows)), (2859, Some(1)));
    }

    #[test]
    fn of_a_helper_the_caller_that_loses_its_blocks_is_the_cause() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 100);
        let helper = "make_payload@srv.c:5";
        let all = [
            ("cache_put@srv.c:7", "serve@srv.c:30", 0),
            ("note@srv.c:21", "serve@srv.c:31", 900),
            ("note@srv.c:21", "retry@srv.c:60", 80),
        ];
        for (caller, outer, lost) in all {
            b.site(p, &[helper, caller, outer, "main@srv.c:90"], blocks(1000, 10, 0, lost));
        }
        b.profile.scans.push(scan_of(&b.profile));
        let by = |report: &super::LeakCauses| {
            let row = |cause: &super::LeakCause| {
                let function = cause.frame.as_ref().map(|frame| frame.function.clone()).unwrap_or_default();
                (function, cause.by.clone(), cause.live.live, cause.sites)
            };
            report.leak_causes.iter().map(row).collect::<Vec<_>>()
        };
        let lost = leak_causes_of(&ProfileViews::of(&b.profile), Some(LeakState::Lost), 9);
        assert_eq!(by(&lost), [("note".to_owned(), Some("make_payload".to_owned()), 980, 2)]);
        // All that is live, whoever holds it, is the line's.
        assert_eq!(by(&leak_causes(&b.profile, 9)), [("make_payload".to_owned(), None, 980, 2)]);
        // Most who call it lose what they get: it is the line, whoever called it.
        b.profile.sites[0].counts = blocks(100, 10, 0, 0);
        let lost = leak_causes_of(&ProfileViews::of(&b.profile), Some(LeakState::Lost), 9);
        assert_eq!(by(&lost), [("make_payload".to_owned(), None, 980, 2)]);
    }

    /// What another process has live by another caller may be lost as well: nobody looked.
    #[test]
    fn a_caller_in_a_process_that_was_not_scanned_loses_no_less() {
        let mut b = Builder::default();
        let (image, child) = (b.process(1, &["a"], 100), b.process(2, &["a"], 100));
        let helper = "child_leak@a.c:11";
        b.site(image, &[helper, "main@a.c:14"], blocks(70, 10, 0, 70));
        b.profile.scans.push(scan_of(&b.profile));
        b.site(child, &[helper, "main@a.c:16"], blocks(70, 10, 0, 70));
        let named = |b: &Builder| {
            let lost = leak_causes_of(&ProfileViews::of(&b.profile), Some(LeakState::Lost), 9);
            let row = |cause: &super::LeakCause| (cause.frame.as_ref().and_then(|frame| frame.line), cause.by.clone());
            lost.leak_causes.iter().map(row).collect::<Vec<_>>()
        };
        assert_eq!(named(&b), [(Some(11), None)]);
        // One that has nothing live loses nothing, scanned or not.
        b.profile.sites[1].counts = blocks(70, 10, 0, 0);
        assert_eq!(named(&b), [(Some(14), Some("child_leak".to_owned()))]);
    }

    /// All that is live is lost.
    fn scan_of(profile: &mallow_profile::Profile) -> Scan {
        let lost = profile.sites.iter().filter(|site| site.counts.live > 0).map(|site| LostBlocks {
            stack: site.stack,
            head: None,
            kind: LostKind::Other,
            blocks: site.counts.live,
            bytes: site.counts.live_bytes,
        });
        Scan { process: ProcessId(0), outcome: ScanOutcome::Scanned, lost: lost.collect(), cycles: Vec::new() }
    }

    #[test]
    fn the_pool_of_libstdcxx_is_no_leak() {
        let mut b = Builder::default();
        let p = b.process(1, &["a"], 100);
        let loader =
            ["call_init!ld-linux-x86-64.so.2", "_dl_init!ld-linux-x86-64.so.2", "_dl_start_user!ld-linux-x86-64.so.2"];
        b.site(p, &[&["+0xa7a1a!libstdc++.so.6"], &loader[..]].concat(), blocks(1, 72_704, 0, 1));
        b.site(p, &[&["_Znwm!libstdc++.so.6", "init@a.cc:1"], &loader[..]].concat(), blocks(1, 8, 0, 1));
        b.site(p, &["operator new!libstdc++.so.6", "main@a.cc:1"], blocks(1, 9, 0, 1));
        let report = leak_causes(&b.profile, 9);
        assert_eq!(report.emergency_pool.map(|pool| (pool.live, pool.live_bytes)), Some((1, 72_704)));
        // Linked statically, it is in the program.
        let start = ["call_init!libc.so.6", "__libc_start_main_impl!libc.so.6", "_start"];
        b.site(p, &[&["_GLOBAL__sub_I_eh_alloc.cc"], &start[..]].concat(), blocks(1, 73_728, 0, 1));
        b.site(p, &[&["_GLOBAL__sub_I_main.cc"], &start[..]].concat(), blocks(1, 30, 0, 0));
        let report = leak_causes(&b.profile, 9);
        assert_eq!(report.emergency_pool.map(|pool| (pool.live, pool.live_bytes)), Some((2, 146_432)));
        assert_eq!((report.leak_causes_in_all, report.live().live_bytes), (2, 17));
        // The program runs initialisers itself; the stack is cut; the other name of the initialiser, cut behind it.
        b.site(p, &["_GLOBAL__sub_I_eh_alloc.cc!node", "__libc_csu_init!node"], blocks(1, 73_000, 0, 1));
        b.site(p, &["+0xa7a1a!libstdc++.so.6"], blocks(1, 72_704, 0, 1));
        b.site(p, &["_GLOBAL__sub_I__ZN9__gnu_cxx9__freeresEv!node"], blocks(1, 72_000, 0, 1));
        // A named function of the library is not known to be the initialiser.
        b.site(p, &["std::locale::locale()!libstdc++.so.6"], blocks(1, 50, 0, 1));
        let report = leak_causes(&b.profile, 9);
        assert_eq!(report.emergency_pool.map(|pool| (pool.live, pool.live_bytes)), Some((5, 364_136)));
        assert_eq!((report.leak_causes_in_all, report.live().live_bytes), (3, 67));
    }

    /// What an interpreter keeps to its end is not known of one that runs on.
    #[test]
    fn nothing_is_kept_to_the_end_of_a_process_that_runs_on() {
        let mut b = Builder::default();
        let p = b.process(1, &["python3"], 100);
        b.site(p, &["PyObject_Malloc!python3", "Py_BytesMain!python3"], blocks(1, 500, 0, 1));
        let found = |b: &Builder| {
            let causes = leak_causes(&b.profile, 9);
            (causes.kept.len(), causes.live().live_bytes)
        };
        assert_eq!(found(&b), (1, 0));
        b.profile.processes[0].attached = true;
        assert_eq!(found(&b), (0, 500));
    }

    #[test]
    fn what_a_library_keeps_for_several_reasons_is_one_sum() {
        let mut b = Builder::default();
        let p = b.process(1, &["clock"], 100);
        b.site(p, &["malloc!libc.so.6", "_IO_file_doallocate!libc.so.6", "main"], blocks(1, 4096, 0, 1));
        b.site(
            p,
            &["malloc!libc.so.6", "tzset_internal!libc.so.6", "localtime!libc.so.6", "main"],
            blocks(2, 26, 0, 2),
        );
        let causes = leak_causes(&b.profile, 9);
        assert_eq!(causes.kept.len(), 2, "{causes:?}");
        let sum = KeeperSum { keeper: "glibc", judged: true, live: Live { live: 3, live_bytes: 4148 } };
        assert_eq!(causes.keepers(), [sum]);
    }

    #[test]
    fn the_pool_of_a_library_that_an_interpreter_loads_is_not_the_interpreters() {
        let mut b = Builder::default();
        let p = b.process(1, &["python3"], 100);
        let python = ["dlopen!libc.so.6", "PyInit!python3", "Py_BytesMain!python3"];
        let loader = ["call_init!ld-linux-x86-64.so.2", "_dl_init!ld-linux-x86-64.so.2"];
        b.site(p, &[&["+0xa7a1a!libstdc++.so.6"], &loader[..], &python[..]].concat(), blocks(1, 72_704, 0, 1));
        b.site(p, &["PyObject_Malloc!python3", "Py_BytesMain!python3"], blocks(1, 500, 0, 1));
        let causes = leak_causes(&b.profile, 9);
        let leaks = crate::analysis::leaks(&b.profile, &Suppressions::default(), 9).causes;
        for report in [causes, leaks] {
            assert_eq!(report.emergency_pool.map(|pool| pool.live_bytes), Some(72_704));
            assert_eq!(report.kept.iter().map(|kept| kept.live.live_bytes).collect::<Vec<_>>(), [500]);
        }
    }
}
