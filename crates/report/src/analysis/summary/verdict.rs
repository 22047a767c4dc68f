//! What a recording comes to: statements, the one that matters most first. Views put them into words.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mallow_profile::Quantity;
use serde::Serialize;

use super::overview::Overview;
use super::processes::ProcessRow;
use crate::analysis::insights::{Insight, Insights};
use crate::analysis::leaks::causes::LeakCauses;
use crate::analysis::leaks::sites::Live;
use crate::analysis::numbers::Measure;
use crate::analysis::stacks::functions::Frame;

/// Percentage of the peak from which on what was live at the end is worth a statement before what may be saved.
const MUCH_PERCENT: u64 = 25;
/// Percentage of the peak from which on a program is the only one that matters.
const NEARLY_ALL_PERCENT: u64 = 99;
/// Share of the peak from which on a suggestion is worth a statement.
const PEAK_SHARE: f64 = 0.1;
/// Share of the run's CPU time from which on a suggestion is worth a statement; of malloc's time where the run's is not
/// known.
const RUN_SHARE: f64 = 0.01;
/// An interval of malloc's time that ends here or above, at [`WIDE`] times its beginning or more, is from what few look
/// at to what is worth work: it decides nothing.
const MUCH_OF_RUN: f64 = 0.1;
const WIDE: f64 = 20.0;
const MALLOC_SHARE: f64 = 0.1;

/// Verdict on a recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// All that the program allocated was recorded; else the statements are of what was.
    pub whole: bool,
    /// Statements on the recording, the one that matters most first.
    pub statements: Vec<Statement>,
}

/// One statement on a recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Statement {
    /// The program allocated nothing.
    NothingAllocated,
    /// Blocks that nothing points to.
    Lost(Held),
    /// Bytes live at the peak.
    AtPeak {
        /// Live bytes of all processes together.
        #[serde(flatten)]
        held: Held,
        /// The most bytes of those at the peak that can have been in memory: no more than each process's highest RSS.
        /// Left out where that is not known, or is half of them or more.
        #[serde(skip_serializing_if = "Option::is_none")]
        in_memory_bytes: Option<u64>,
        /// Program with most of the bytes; without its keys where one program allocated, or one has nearly all.
        #[serde(flatten)]
        program: Option<PeakProgram>,
    },
    /// Blocks that were live last, of which it is not known whether they are lost.
    LiveLast(Held),
    /// Blocks that were live last, and that something points to.
    Reachable(Held),
    /// Saving of bytes live at the peak, at the most.
    PeakSaving(Saving),
    /// Saving of malloc's time, at the most.
    TimeSaving {
        /// Share of malloc's time, and the place.
        #[serde(flatten)]
        saving: Saving,
        /// The least and the most that malloc takes of the run's CPU time, from 0 to 1; null where that is not known.
        of_run: Option<[f64; 2]>,
    },
    /// Blocks of processes that were not scanned, beside others that were.
    NotScanned {
        /// Live bytes of the processes that were not scanned.
        bytes: u64,
    },
    /// No block is lost but what interpreters and libraries lose by design: all processes were scanned.
    NoneLost {
        /// Blocks that interpreters and libraries lose by design; null where there are none.
        kept: Option<KeptSum>,
    },
    /// Nothing was live last.
    NothingLive,
    /// Only interpreters and libraries have blocks that were live last, and keep them by design.
    Kept(KeptSum),
    /// The place that allocated most, of a profile that knows nothing of live blocks.
    Allocated {
        /// Measure of `total` and `place_total`: allocations or bytes.
        by: Measure,
        /// Total of the recording, by the measure `by`.
        total: u64,
        /// Total of the place, by the measure `by`.
        place_total: u64,
        /// The function of the place; without its keys where no stack is known.
        #[serde(flatten)]
        place: Option<Frame>,
    },
}

/// Bytes, and the place that has most of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Held {
    /// Requested bytes that the statement is about.
    pub bytes: u64,
    /// Requested bytes of the largest place.
    pub place_bytes: u64,
    /// The function of the place; without its keys where no stack is known.
    #[serde(flatten)]
    pub place: Option<Frame>,
    /// Program of all processes of the place, where several programs allocated and it is one; left out elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Blocks beside `bytes` that interpreters and libraries keep by design; left out where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptSum>,
}

/// Blocks that interpreters, runtimes and libraries keep by design.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KeptSum {
    /// Requested bytes that are kept by design.
    pub kept_bytes: u64,
    /// Whether all of `kept_bytes` are known to be kept by design; of an interpreter they are not.
    pub judged: bool,
    /// Interpreters and libraries that keep the blocks, the one with most first.
    pub keepers: Vec<&'static str>,
}

/// The program that had most at a peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PeakProgram {
    /// Name of the program.
    pub program: String,
    /// Requested bytes of all processes of the program.
    pub program_bytes: u64,
}

/// Saving of a suggestion.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Saving {
    /// Share that is saved, from 0 to 1: of the bytes live at the peak, or of malloc's time.
    pub of_whole: f64,
    #[serde(flatten)]
    pub place: Frame,
    /// Places at which it is saved; the function of the statement is that of the largest.
    pub places: u64,
}

impl Saving {
    fn new(of_whole: f64, insight: &Insight) -> Self {
        Self { of_whole, place: insight.frame.clone(), places: insight.evidence.places() }
    }
}

/// The blocks that were live last.
#[derive(Clone, Copy, Debug)]
pub struct LiveBlocks<'a> {
    pub all: &'a LeakCauses,
    /// Causes of lost blocks; None where no process was scanned, or none is lost and some processes were not scanned.
    pub lost: Option<&'a LeakCauses>,
    /// Blocks of processes that were not scanned; None where it is not known which were.
    pub unscanned: Option<Live>,
}

pub fn verdict(report: &Overview, live: &LiveBlocks<'_>, insights: &Insights) -> Verdict {
    let ending = &report.ending;
    let all_seen = report.custom_allocators.is_empty() && report.unrecorded.is_empty();
    let whole = all_seen && ending.cut_short.is_none() && ending.lost == 0 && ending.damaged == 0;
    Verdict { whole, statements: statements(report, live, insights) }
}

fn statements(report: &Overview, live: &LiveBlocks<'_>, insights: &Insights) -> Vec<Statement> {
    let totals = &report.totals;
    if totals.allocations == 0 && totals.allocated_bytes == 0 && totals.live_bytes == 0 && totals.peak_bytes == 0 {
        return vec![Statement::NothingAllocated];
    }
    let has = |quantity| report.origin.as_ref().is_none_or(|origin| origin.quantities.has(quantity));
    let lost = live.lost.and_then(|causes| held(report, causes));
    let is_any_lost = lost.is_some();
    // Blocks without bytes are lost, and in the list; they are no verdict.
    let lost = lost.filter(|held| held.bytes > 0);
    let last = held(report, live.all).filter(|_| has(Quantity::LiveBytes));
    let is_much = |held: &Held| held.bytes.saturating_mul(100) >= totals.peak_bytes.saturating_mul(MUCH_PERCENT);
    let is_divided = live.lost.is_some() && live.unscanned.is_some_and(|unscanned| unscanned == Live::default());
    let (much, little) = match last {
        _ if is_any_lost => (None, None),
        Some(held) if is_divided => (None, Some(Statement::Reachable(held))),
        // Of a compiler that exits, what it leaves to the kernel matters least.
        Some(held) if is_much(&held) && !is_of_short_processes(report, live.all) => {
            (Some(Statement::LiveLast(held)), None)
        }
        held => (None, held.map(Statement::LiveLast)),
    };
    let unscanned = live.unscanned.filter(|unscanned| is_any_lost && *unscanned != Live::default());
    let nothing = match &little {
        _ if !has(Quantity::LiveBytes) || is_any_lost || much.is_some() => None,
        None => Some(kept(live.all).map_or(Statement::NothingLive, Statement::Kept)),
        Some(_) if is_divided => Some(Statement::NoneLost { kept: live.lost.and_then(kept) }),
        Some(_) => None,
    };
    let (lost_first, lost_later) = match lost.map(Statement::Lost) {
        lost if live.lost.is_some_and(|causes| is_of_short_processes(report, causes)) => (None, lost),
        lost => (lost, None),
    };
    let all = [
        lost_first,
        at_peak(report),
        lost_later,
        much,
        peak_saving(insights),
        time_saving(insights),
        unscanned.map(|unscanned| Statement::NotScanned { bytes: unscanned.live_bytes }),
        nothing,
        little,
    ];
    let mut all: Vec<Statement> = all.into_iter().flatten().collect();
    if all.is_empty() {
        all.extend(allocated(report));
    }
    all
}

fn at_peak(report: &Overview) -> Option<Statement> {
    let list = report.largest.iter().find(|list| list.by == Measure::Peak && list.total > 0)?;
    let first = list.largest.first()?;
    let (bytes, place_bytes, place) = (list.total, first.totals.peak_bytes, first.frame.clone());
    let mut programs: BTreeMap<&str, u64> = BTreeMap::new();
    for process in &report.processes {
        let sum = programs.entry(process.program()).or_default();
        *sum = sum.saturating_add(process.totals.peak_bytes);
    }
    let most = programs.into_iter().max_by_key(|(name, bytes)| (*bytes, Reverse(*name)));
    let is_nearly_all = |of_it: u64| of_it.saturating_mul(100) >= bytes.saturating_mul(NEARLY_ALL_PERCENT);
    let program = most.filter(|(_, of_it)| report.has_several_programs() && !is_nearly_all(*of_it));
    let program = program.map(|(name, program_bytes)| PeakProgram { program: name.to_owned(), program_bytes });
    let never_in_memory =
        |process: &ProcessRow| process.totals.peak_bytes.saturating_sub(process.peak_rss.unwrap_or(u64::MAX));
    let absent = report.processes.iter().map(never_in_memory).fold(0, u64::saturating_add);
    let in_memory = bytes.saturating_sub(absent);
    let in_memory_bytes = Some(in_memory).filter(|most| *most < bytes / 2);
    let held = Held { bytes, place_bytes, place, program: None, kept: None };
    Some(Statement::AtPeak { held, in_memory_bytes, program })
}

/// Whether all processes with the blocks of the largest cause ended within half of the run's duration, and the run had
/// several programs.
fn is_of_short_processes(report: &Overview, causes: &LeakCauses) -> bool {
    let Some(first) = causes.leak_causes.first() else { return false };
    let is_short = |pid: &u32| {
        let images = report.processes.iter().filter(|process| process.pid == *pid);
        images.map(|process| process.end_ms.saturating_sub(process.start_ms)).all(|ms| ms <= report.duration_ms / 2)
    };
    report.has_several_programs() && first.pids.iter().all(is_short)
}

/// The program of all these processes, where a run has several programs.
fn program(report: &Overview, pids: &[u32]) -> Option<String> {
    let of_pids = report.processes.iter().filter(|process| pids.contains(&process.pid));
    let mut names = of_pids.filter(|process| process.totals.allocations > 0).map(ProcessRow::program);
    let first = names.next().filter(|_| report.has_several_programs())?;
    names.all(|name| name == first).then(|| first.to_owned())
}

/// The sum of what is kept by design, libstdc++'s pool included; None without such blocks.
fn kept(causes: &LeakCauses) -> Option<KeptSum> {
    let pool = causes.emergency_pool.map(|pool| ("libstdc++", pool.live_bytes));
    let mut all: Vec<(&'static str, u64)> =
        causes.kept.iter().map(|kept| (kept.keeper, kept.live.live_bytes)).chain(pool).collect();
    all.sort_by_key(|(_, bytes)| Reverse(*bytes));
    let mut keepers: Vec<&str> = Vec::new();
    for (keeper, _) in &all {
        if !keepers.contains(keeper) {
            keepers.push(keeper);
        }
    }
    let kept_bytes = all.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
    let judged = causes.kept.iter().all(|kept| kept.judged);
    (!all.is_empty()).then_some(KeptSum { kept_bytes, judged, keepers })
}

/// The place that allocated most, by bytes if these are known.
fn allocated(report: &Overview) -> Option<Statement> {
    let by = |by| report.largest.iter().find(|list| list.by == by && list.total > 0);
    let list = by(Measure::Bytes).or_else(|| by(Measure::Allocations))?;
    let first = list.largest.first()?;
    Some(Statement::Allocated {
        by: list.by,
        total: list.total,
        place_total: list.by.of(&first.totals),
        place: first.frame.clone(),
    })
}

fn held(report: &Overview, causes: &LeakCauses) -> Option<Held> {
    let first = causes.leak_causes.first()?;
    Some(Held {
        bytes: causes.live().live_bytes,
        place_bytes: first.live.live_bytes,
        place: first.frame.clone(),
        program: program(report, &first.pids),
        kept: kept(causes),
    })
}

fn peak_saving(insights: &Insights) -> Option<Statement> {
    let known = insights.insights.iter().filter(|insight| !insight.is_of_unknown_peak());
    // Of equal ones the first: it is what is shown.
    let best = known.rev().max_by(|a, b| a.peak_share.total_cmp(&b.peak_share))?;
    let saving = Saving::new(best.peak_share, best);
    (best.peak_share >= PEAK_SHARE).then_some(Statement::PeakSaving(saving))
}

fn time_saving(insights: &Insights) -> Option<Statement> {
    let best = insights.insights.iter().rev().max_by(|a, b| a.malloc_share.total_cmp(&b.malloc_share))?;
    let is_worth = match best.run_share {
        Some(share) => share >= RUN_SHARE,
        None => best.malloc_share >= MALLOC_SHARE,
    };
    let saving = Saving::new(best.malloc_share, best);
    let of_run = insights.malloc_time.map(|time| [time.least, time.most]);
    let says_nothing = of_run.is_some_and(|[least, most]| most >= MUCH_OF_RUN && most >= WIDE * least);
    (is_worth && !says_nothing && !insights.has_python_malloc).then_some(Statement::TimeSaving { saving, of_run })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::insights::Evidence;
    use mallow_profile::{PeakRss, ProcessId, Profile, RssPoint, RssSeries};

    use crate::analysis::leaks::states::LeakState;
    use crate::analysis::{LiveMoment, ProfileViews, insights, leak_causes, leak_causes_of, overview};
    use crate::testing::{Builder, blocks, parser};

    fn of(profile: &Profile, lost: Option<&LeakCauses>, unscanned: Option<Live>) -> Vec<Statement> {
        let all = leak_causes(profile, 3);
        let live = LiveBlocks { all: &all, lost, unscanned };
        verdict(&overview(profile, 3), &live, &insights(profile, 3)).statements
    }

    fn kinds(statements: &[Statement]) -> Vec<String> {
        let kind = |statement: &Statement| {
            let json = serde_json::to_value(statement).expect("JSON");
            json["kind"].as_str().expect("a kind").to_owned()
        };
        statements.iter().map(kind).collect()
    }

    /// malloc(0) of a helper of R's start script.
    #[test]
    fn blocks_without_bytes_are_no_verdict() {
        let profile = parser();
        let mut lost = leak_causes(&profile, 3);
        for cause in &mut lost.leak_causes {
            cause.live.live_bytes = 0;
        }
        let none = of(&profile, Some(&lost), Some(Live::default()));
        assert!(
            !kinds(&none).iter().any(|kind| ["lost", "none_lost", "reachable"].contains(&kind.as_str())),
            "{none:?}"
        );
    }

    /// The verdict names what the list of insights begins with.
    #[test]
    fn of_equal_savings_the_first_is_named() {
        let profile = parser();
        let mut all = insights(&profile, 3);
        let first = all.insights[0].clone();
        let mut second = first.clone();
        second.frame.function = "another".to_owned();
        all.insights = vec![first.clone(), second];
        let Some(Statement::TimeSaving { saving, .. }) = time_saving(&all) else { panic!("{all:?}") };
        assert_eq!((saving.place, saving.places), (first.frame.clone(), 1));
        // What several places save together is not one's.
        all.insights[0].evidence = Evidence::FreedByOthers { allocations: 9, freed_by_others: 9, places: 5 };
        let Some(Statement::TimeSaving { saving, .. }) = time_saving(&all) else { panic!("{all:?}") };
        assert_eq!((saving.place, saving.places), (first.frame, 5));
    }

    #[test]
    fn lost_blocks_come_first_and_then_the_peak_and_then_time() {
        let mut profile = parser();
        // 83 ns for each allocation: malloc has a sixteenth of it, or more.
        profile.cpu_us = Some(profile.totals.allocations / 12);
        let all = leak_causes(&profile, 3);
        let nothing = Live::default();
        let found = of(&profile, Some(&all), Some(nothing));
        assert_eq!(kinds(&found), ["lost", "at_peak", "time_saving"]);
        let Statement::TimeSaving { saving, of_run: Some([least, most]) } = &found[2] else { panic!("{found:?}") };
        assert!(saving.of_whole > 0.5 && *least > 0.0 && least < most, "{found:?}");
        // Reachable, or unknown: little of the peak comes last, and much of it before what may be saved.
        let none = LeakCauses::default();
        assert_eq!(
            kinds(&of(&profile, Some(&none), Some(nothing))),
            ["at_peak", "time_saving", "none_lost", "reachable"]
        );
        assert_eq!(kinds(&of(&profile, None, None)), ["at_peak", "time_saving", "live_last"]);
        let some = Live { live: 1, live_bytes: 8 };
        assert_eq!(kinds(&of(&profile, Some(&all), Some(some))), ["lost", "at_peak", "time_saving", "not_scanned"]);
        let mut b = Builder::default();
        let process = b.process(1, &["a"], 10);
        b.site(process, &["f@a.c:1", "main@a.c:9"], blocks(10, 100, 0, 10));
        assert_eq!(kinds(&of(&b.profile, None, None)), ["at_peak", "live_last"]);
        b.profile.sites[0].counts = blocks(10, 100, 0, 0);
        assert_eq!(kinds(&of(&b.profile, None, None)).last().map(String::as_str), Some("nothing_live"));
    }

    #[test]
    fn what_an_interpreter_keeps_is_said_to_be_its_own() {
        let mut b = Builder::default();
        let process = b.process(1, &["perl"], 10);
        b.site(process, &["Perl_safesysmalloc!perl", "perl_parse!perl", "main!perl"], blocks(10, 100, 0, 10));
        let kept = Some(KeptSum { kept_bytes: 1000, judged: false, keepers: vec!["perl"] });
        let found = of(&b.profile, None, None);
        assert_eq!(kinds(&found), ["at_peak", "kept"]);
        assert_eq!(found.last(), kept.clone().map(Statement::Kept).as_ref());
        let nothing = leak_causes_of(&ProfileViews::of(&b.profile), Some(LeakState::Lost), 3);
        assert_eq!(kinds(&of(&b.profile, Some(&nothing), Some(Live::default()))), ["at_peak", "kept"]);
        // Beside the program's own.
        b.site(process, &["XS_load!Own.so", "Perl_pp_entersub!perl", "perl_run!perl"], blocks(10, 90, 0, 10));
        let found = of(&b.profile, None, None);
        let Some(Statement::LiveLast(held)) = found.iter().find(|one| matches!(one, Statement::LiveLast(_))) else {
            panic!("{found:?}")
        };
        assert_eq!((held.bytes, &held.kept), (900, &kept));
    }

    #[test]
    fn of_many_short_processes_the_peak_is_what_matters() {
        let mut b = Builder::default();
        for (pid, program, from, to, size) in
            [(1, "make", 0, 1000, 10), (2, "cc1", 10, 200, 500), (3, "as", 210, 300, 90)]
        {
            let process = b.process(pid, &[program], to);
            b.profile.processes[process.0 as usize].start_ms = from;
            b.site(process, &[&format!("f_{program}"), "main"], blocks(10, size, 0, 10));
        }
        b.profile.duration_ms = 1000;
        let found = of(&b.profile, None, None);
        let Statement::AtPeak { held, program: Some(program), .. } = &found[0] else { panic!("{found:?}") };
        assert_eq!((program.program.as_str(), program.program_bytes, held.bytes), ("cc1", 5000, 6000));
        let Some(Statement::LiveLast(live)) = found.last() else { panic!("{found:?}") };
        assert_eq!(live.program.as_deref(), Some("cc1"));
        // Lost blocks of a compiler that exits come behind it; those of a server that ran all the time do not.
        let lost = leak_causes(&b.profile, 9);
        assert_eq!(kinds(&of(&b.profile, Some(&lost), Some(Live::default())))[..2], ["at_peak", "lost"]);
        b.profile.processes[1].end_ms = 1000;
        assert_eq!(kinds(&of(&b.profile, Some(&lost), Some(Live::default())))[..2], ["lost", "at_peak"]);
    }

    #[test]
    fn next_to_nothing_of_the_run_is_not_worth_a_statement() {
        let mut profile = parser();
        profile.cpu_us = Some(1 << 50);
        assert_eq!(kinds(&of(&profile, None, None)), ["at_peak", "live_last"]);
        assert_eq!(kinds(&of(&Profile::default(), None, None)), ["nothing_allocated"]);
    }

    /// A reservation is live, and not in memory. The bound is of the life of each process that is known whole.
    #[test]
    fn what_was_never_in_memory_is_no_memory() {
        let mut b = Builder::default();
        let (first, second) = (b.process(1, &["a"], 100), b.process(2, &["b"], 100));
        b.site(first, &["reserve", "main"], blocks(1, 900, 0, 1));
        b.site(second, &["reserve", "main"], blocks(1, 100, 0, 1));
        let bound = |profile: &Profile| match &of(profile, None, None)[..] {
            [Statement::AtPeak { held, in_memory_bytes, .. }, ..] => (held.bytes, *in_memory_bytes),
            other => panic!("{other:?}"),
        };
        assert_eq!(bound(&b.profile), (1000, None));
        let series = |process: ProcessId, bytes| RssSeries {
            process,
            points: vec![RssPoint { ms: 50, rss: 8, live_bytes: 0 }],
            peak: Some(PeakRss { bytes, is_final: true, ..PeakRss::default() }),
        };
        b.profile.rss = vec![series(first, 30), series(second, 400)];
        assert_eq!(bound(&b.profile), (1000, Some(130)));
        b.profile.rss[0] = series(first, 400);
        assert_eq!(bound(&b.profile), (1000, None), "half of it, or more");
        b.profile.rss[0].peak = Some(PeakRss { bytes: 30, ..PeakRss::default() });
        assert_eq!(bound(&b.profile), (1000, None), "it may have come after the last reading");
    }

    /// 5 ns and 1 µs for each allocation are from next to nothing of the run to a good part of it, or all.
    #[test]
    fn an_interval_that_decides_nothing_is_left_out() {
        let mut profile = parser();
        let allocations = profile.totals.allocations;
        let mut says = |ns: u64| {
            profile.cpu_us = Some(allocations * ns / 1000);
            kinds(&of(&profile, None, None)).contains(&"time_saving".to_owned())
        };
        assert_eq!([80, 200, 2_000, 9_000, 50_000].map(&mut says), [true, false, false, false, true]);
        // What is true of Python without its arenas is not of Python.
        assert!(says(80));
        profile.processes[0].executable = "/usr/bin/python3".to_owned();
        assert_eq!(kinds(&of(&profile, None, None)), ["at_peak", "live_last"]);
    }

    #[test]
    fn a_profile_of_a_running_process_says_what_is_live() {
        let mut profile = parser();
        assert_eq!(LiveMoment::of(&profile), LiveMoment::End);
        profile.processes[0].attached = true;
        assert_eq!(LiveMoment::of(&profile), LiveMoment::Detached);
        let quantities = mallow_profile::Quantities::of(&[Quantity::LiveBytes]);
        profile.origin = Some(mallow_profile::Origin { format: "pprof", quantities, sampled_bytes: None });
        assert_eq!(LiveMoment::of(&profile), LiveMoment::Snapshot);
        let origin = profile.origin.as_mut().expect("an origin");
        origin.format = "massif";
        assert_eq!(LiveMoment::of(&profile), LiveMoment::Snapshot, "its last snapshot comes before the end");
        assert_eq!(kinds(&of(&profile, None, None)), ["live_last"]);
        let quantities = mallow_profile::Quantities::of(&[Quantity::Allocations]);
        profile.origin = Some(mallow_profile::Origin { format: "folded", quantities, sampled_bytes: None });
        assert_eq!(kinds(&of(&profile, None, None)), ["allocated"]);
    }
}
