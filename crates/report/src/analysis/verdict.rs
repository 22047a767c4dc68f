//! What a recording comes to: statements, the one that matters most first. Views put them into words.

use mallow_profile::{Profile, Quantity};
use serde::Serialize;

use super::functions::Frame;
use super::insights::Insights;
use super::leak_causes::LeakCauses;
use super::leak_sites::Leaked;
use super::numbers::Measure;
use super::overview::Overview;

/// From this share of the peak on, in percent, what was live at the end is worth a statement before what may be saved.
const MUCH_PERCENT: u64 = 25;
/// From this share of the peak on, a suggestion is worth a statement.
const PEAK_SHARE: f64 = 0.1;
/// From this share of the run's CPU time on; of malloc's time where the run's is not known.
const RUN_SHARE: f64 = 0.01;
const MALLOC_SHARE: f64 = 0.1;

/// When the blocks were live that a profile has as the last ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveMoment {
    /// At the end of their process.
    End,
    /// At the end of the recording: the process went on.
    Detached,
    /// When the profile was taken of a process that ran.
    Snapshot,
}

impl LiveMoment {
    /// That of a profile.
    pub fn of(profile: &Profile) -> Self {
        const SNAPSHOTS: [&str; 4] = ["pprof", "jemalloc", "gperftools", "mallow watch"];
        match &profile.origin {
            Some(origin) if SNAPSHOTS.contains(&origin.format) => Self::Snapshot,
            _ if profile.processes.iter().any(|process| process.attached) => Self::Detached,
            _ => Self::End,
        }
    }
}

/// What a recording comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// All that the program allocated was recorded; else the statements are of what was.
    pub whole: bool,
    /// What there is to say, what matters most first.
    pub statements: Vec<Statement>,
}

/// One thing to know.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Statement {
    /// Nothing was allocated.
    NothingAllocated,
    /// Blocks that nothing points to.
    Lost(Held),
    /// Bytes live at the peak.
    AtPeak(Held),
    /// Blocks that were live last, of which it is not known whether they are lost.
    LiveLast(Held),
    /// Blocks that were live last, and that something points to.
    Reachable(Held),
    /// What may be saved of the bytes live at the peak, at the most.
    PeakSaving(Saving),
    /// What may be saved of malloc's time, at the most.
    TimeSaving {
        /// Where, and how much of malloc's time.
        #[serde(flatten)]
        saving: Saving,
        /// The least and the most that malloc takes of the run's CPU time, from 0 to 1; null where that is not known.
        of_run: Option<[f64; 2]>,
    },
    /// Blocks of processes that were not scanned, beside others that were.
    NotScanned {
        /// Their bytes.
        bytes: u64,
    },
    /// All processes were scanned, and no block is lost.
    NoneLost,
    /// Nothing was live last.
    NothingLive,
    /// Who allocated most, of a profile that knows nothing of live blocks.
    Allocated {
        /// By what: allocations or bytes.
        by: Measure,
        /// The whole.
        total: u64,
        /// What of it is of the place.
        place_total: u64,
        /// The place; its keys are missing where no stack is known.
        #[serde(flatten)]
        place: Option<Frame>,
    },
}

/// Bytes, and the place that has most of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Held {
    /// All of them.
    pub bytes: u64,
    /// Those of the place.
    pub place_bytes: u64,
    /// The place; its keys are missing where no stack is known.
    #[serde(flatten)]
    pub place: Option<Frame>,
}

/// What a suggestion may save.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Saving {
    /// The share, from 0 to 1.
    pub of_whole: f64,
    /// Where.
    #[serde(flatten)]
    pub place: Frame,
}

/// What is known of the blocks that were live last.
#[derive(Clone, Copy, Debug)]
pub struct LiveBlocks<'a> {
    /// All of them.
    pub all: &'a LeakCauses,
    /// The lost ones. None: no process was scanned, or there are none and some were not.
    pub lost: Option<&'a LeakCauses>,
    /// Those of processes that were not scanned. None: it is not known which were.
    pub unscanned: Option<Leaked>,
}

/// The verdict on a recording.
pub fn verdict(report: &Overview, live: &LiveBlocks<'_>, insights: &Insights) -> Verdict {
    let ending = &report.ending;
    let all_seen = report.custom_allocators.is_empty() && report.unrecorded.is_empty();
    let whole = all_seen && ending.cut_short.is_none() && ending.lost == 0 && ending.damaged == 0;
    Verdict { whole, statements: statements(report, live, insights) }
}

fn statements(report: &Overview, live: &LiveBlocks<'_>, insights: &Insights) -> Vec<Statement> {
    let totals = &report.totals;
    if totals.allocations == 0 && totals.allocated_bytes == 0 && totals.leaked_bytes == 0 && totals.peak_bytes == 0 {
        return vec![Statement::NothingAllocated];
    }
    let has = |quantity| report.origin.as_ref().is_none_or(|origin| origin.quantities.has(quantity));
    let lost = live.lost.and_then(held);
    let is_any_lost = lost.is_some();
    let peak = report.largest.iter().find(|list| list.by == Measure::Peak && list.total > 0);
    let peak = peak.and_then(|list| {
        let first = list.largest.first()?;
        Some(Held { bytes: list.total, place_bytes: first.totals.peak_bytes, place: first.frame.clone() })
    });
    let last = held(live.all).filter(|_| has(Quantity::LeakedBytes));
    let is_much = |held: &Held| held.bytes.saturating_mul(100) >= totals.peak_bytes.saturating_mul(MUCH_PERCENT);
    let is_divided = live.lost.is_some() && live.unscanned.is_some_and(|unscanned| unscanned == Leaked::default());
    let (much, little) = match last {
        _ if is_any_lost => (None, None),
        Some(held) if is_divided => (None, Some(Statement::Reachable(held))),
        Some(held) if is_much(&held) => (Some(Statement::LiveLast(held)), None),
        held => (None, held.map(Statement::LiveLast)),
    };
    let unscanned = live.unscanned.filter(|unscanned| is_any_lost && *unscanned != Leaked::default());
    let nothing = match &little {
        _ if !has(Quantity::LeakedBytes) || is_any_lost || much.is_some() => None,
        None => Some(Statement::NothingLive),
        Some(_) if is_divided => Some(Statement::NoneLost),
        Some(_) => None,
    };
    let all = [
        lost.map(Statement::Lost),
        peak.map(Statement::AtPeak),
        much,
        peak_saving(insights),
        time_saving(insights),
        unscanned.map(|unscanned| Statement::NotScanned { bytes: unscanned.leaked_bytes }),
        nothing,
        little,
    ];
    let mut all: Vec<Statement> = all.into_iter().flatten().collect();
    if all.is_empty() {
        all.extend(allocated(report));
    }
    all
}

/// Who allocated most, by bytes if these are known.
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

fn held(causes: &LeakCauses) -> Option<Held> {
    let first = causes.leak_causes.first()?;
    Some(Held {
        bytes: causes.leaked().leaked_bytes,
        place_bytes: first.leaked.leaked_bytes,
        place: first.frame.clone(),
    })
}

fn peak_saving(insights: &Insights) -> Option<Statement> {
    let best = insights.insights.iter().max_by(|a, b| a.peak_share.total_cmp(&b.peak_share))?;
    let saving = Saving { of_whole: best.peak_share, place: best.frame.clone() };
    (best.peak_share >= PEAK_SHARE).then_some(Statement::PeakSaving(saving))
}

fn time_saving(insights: &Insights) -> Option<Statement> {
    let best = insights.insights.iter().max_by(|a, b| a.malloc_share.total_cmp(&b.malloc_share))?;
    let is_worth = match best.run_share {
        Some(share) => share >= RUN_SHARE,
        None => best.malloc_share >= MALLOC_SHARE,
    };
    let saving = Saving { of_whole: best.malloc_share, place: best.frame.clone() };
    let of_run = insights.malloc_time.map(|time| [time.least, time.most]);
    is_worth.then_some(Statement::TimeSaving { saving, of_run })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{insights, leak_causes, overview};
    use crate::testing::{Builder, blocks, parser};

    fn of(profile: &Profile, lost: Option<&LeakCauses>, unscanned: Option<Leaked>) -> Vec<Statement> {
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

    #[test]
    fn lost_blocks_come_first_and_then_the_peak_and_then_time() {
        let mut profile = parser();
        profile.cpu_us = Some(1_700_000);
        let all = leak_causes(&profile, 3);
        let nothing = Leaked::default();
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
        let some = Leaked { leaked: 1, leaked_bytes: 8 };
        assert_eq!(kinds(&of(&profile, Some(&all), Some(some))), ["lost", "at_peak", "time_saving", "not_scanned"]);
        let mut b = Builder::default();
        let process = b.process(1, &["a"], 10);
        b.site(process, &["f@a.c:1", "main@a.c:9"], blocks(10, 100, 0, 10));
        assert_eq!(kinds(&of(&b.profile, None, None)), ["at_peak", "live_last"]);
        b.profile.sites[0].counts = blocks(10, 100, 0, 0);
        assert_eq!(kinds(&of(&b.profile, None, None)).last().map(String::as_str), Some("nothing_live"));
    }

    #[test]
    fn next_to_nothing_of_the_run_is_not_worth_a_statement() {
        let mut profile = parser();
        profile.cpu_us = Some(1 << 50);
        assert_eq!(kinds(&of(&profile, None, None)), ["at_peak", "live_last"]);
        assert_eq!(kinds(&of(&Profile::default(), None, None)), ["nothing_allocated"]);
    }

    #[test]
    fn a_profile_of_a_running_process_says_what_is_live() {
        let mut profile = parser();
        assert_eq!(LiveMoment::of(&profile), LiveMoment::End);
        profile.processes[0].attached = true;
        assert_eq!(LiveMoment::of(&profile), LiveMoment::Detached);
        let quantities = mallow_profile::Quantities::of(&[Quantity::LeakedBytes]);
        profile.origin = Some(mallow_profile::Origin { format: "pprof", quantities, sampled_bytes: None });
        assert_eq!(LiveMoment::of(&profile), LiveMoment::Snapshot);
        assert_eq!(kinds(&of(&profile, None, None)), ["live_last"]);
        let quantities = mallow_profile::Quantities::of(&[Quantity::Allocations]);
        profile.origin = Some(mallow_profile::Origin { format: "folded", quantities, sampled_bytes: None });
        assert_eq!(kinds(&of(&profile, None, None)), ["allocated"]);
    }
}
