//! A watched program: its ledger of samples, names and muted samples; reports of it.

use std::collections::{HashMap, HashSet};

use mallow_capture::watch::Watch;
use mallow_profile::{FrameId, ProcessId, Profile, SampleEvent, SampleKey};
use mallow_report::analysis::sampled::{Ended, SampleLedger, Standings};
use mallow_report::analysis::{
    Recent, Unseen, WatchOptions, WatchState, Watched, Which, name_emergency_pool, stack_of, watched,
};
use mallow_symbols::{Options, Symbolizer};

use super::super::guard::errors::Known;
use super::exclusions::Exclusions;
use crate::runs::attached::ForeignRoot;
use crate::runs::script_names::ScriptNames;

/// Limit of frees in a report.
const RECENT: usize = 20;

/// The ledger of samples, and what a report leaves out.
pub struct Session {
    pub ledger: SampleLedger,
    /// Why nothing of the command's own program can be sampled, where that is known.
    pub unseen: Option<Unseen>,
    known: Exclusions,
    muted_places: HashSet<u64>,
    muted_samples: HashSet<SampleKey>,
    /// Verdicts on growth of earlier looks.
    standings: Standings,
    symbolizer: Symbolizer,
    /// Open as long as names are looked up below it.
    _root: Option<ForeignRoot>,
    /// Frames whose names were looked up.
    named: usize,
    scripts: ScriptNames,
}

#[derive(Clone, Copy, Debug)]
pub struct ReportSubject<'a> {
    /// Reason for the report.
    pub occasion: &'a str,
    /// Samples that the report covers.
    pub which: Which,
    /// Least age of the samples that [`Which::Old`] covers.
    pub older_than_ms: u64,
    /// Limit of places, and of sites.
    pub limit: usize,
}

/// The moment that a report is about, and what else it needs.
#[derive(Clone, Copy, Debug)]
pub struct WatchMoment {
    /// The moment on CLOCK_MONOTONIC, in nanoseconds.
    pub now_ns: u64,
    /// Nanoseconds since the watching began; not counted in ticks, of which a short run may have none.
    pub watched_ns: u64,
    /// The moment in milliseconds since 1970.
    pub unix_ms: u64,
    /// The sampling period; None: nothing is sampled.
    pub period_bytes: Option<u64>,
    /// Milliseconds that the program had run when mallow attached to it.
    pub attached_ms: Option<u64>,
}

impl WatchMoment {
    /// The moment of the latest look: the ledger holds all events until then.
    pub fn of(watch: &Watch, attached_ms: Option<u64>) -> Self {
        let looked = watch.looked();
        Self {
            now_ns: looked.at_ns,
            watched_ns: looked.clock_ns.saturating_sub(watch.began_ns()),
            unix_ms: looked.unix_ms,
            period_bytes: watch.control().sampling().then(|| watch.control().period()),
            attached_ms,
        }
    }
}

impl Session {
    /// Memory errors that are not to be reported: taken out.
    pub fn known_errors(&mut self) -> Known {
        std::mem::take(&mut self.known.errors)
    }

    /// A session without samples so far.
    pub fn new(known: Exclusions, track_peak: bool, root: Option<ForeignRoot>) -> Self {
        let mut ledger = SampleLedger::new();
        if track_peak {
            ledger.track_peak();
        }
        Self {
            ledger,
            unseen: None,
            known,
            muted_places: HashSet::new(),
            muted_samples: HashSet::new(),
            standings: Standings::default(),
            symbolizer: Symbolizer::new(Options { root: root.as_ref().map(ForeignRoot::path), ..Options::default() }),
            _root: root,
            named: 0,
            scripts: ScriptNames::default(),
        }
    }

    /// Takes what happened since the last look.
    pub fn poll(&mut self, watch: &mut Watch) {
        let (ledger, muted) = (&mut self.ledger, &mut self.muted_samples);
        watch.poll(&mut |event| {
            if let SampleEvent::Freed { key, .. }
            | SampleEvent::Reallocated { key, .. }
            | SampleEvent::Gone { key, .. } = event
            {
                muted.remove(&key);
            }
            ledger.feed(&event);
        });
        self.ledger.advance(watch.looked().at_ns);
    }

    /// Looks up the names of frames that are new.
    pub fn name(&mut self, profile: &mut Profile) {
        let all = profile.frames.len();
        if self.named < all {
            let new = self.named as u32..all as u32;
            self.symbolizer.symbolize(profile, &mut new.map(FrameId));
            name_emergency_pool(profile);
            self.named = all;
        }
    }

    /// Looks up the names of frames that are new, those of code that a runtime made as well, and what runtimes there
    /// are.
    pub fn name_all(&mut self, watch: &mut Watch) {
        watch.find_runtimes();
        self.name(watch.profile_mut());
        let pids: HashMap<ProcessId, u32> = (0..watch.profile().processes.len() as u32)
            .filter_map(|process| Some((ProcessId(process), watch.pid_here(ProcessId(process))?)))
            .collect();
        let stacks = || self.ledger.sums().map(|(process, stack, _)| (process, stack));
        self.scripts.fill(watch.profile_mut(), &|process| pids.get(&process).copied(), stacks);
    }

    /// A report. The profile's frames have their names.
    pub fn report(
        &mut self,
        profile: &Profile,
        moment: &WatchMoment,
        runs: &dyn Fn(ProcessId) -> bool,
        subject: &ReportSubject<'_>,
    ) -> Watched {
        let state = WatchState {
            profile,
            ledger: &self.ledger,
            now_ns: moment.now_ns,
            watched_ns: moment.watched_ns,
            at_unix_ms: moment.unix_ms,
            attached_ms: moment.attached_ms,
            unseen: self.unseen.as_ref(),
            period_bytes: moment.period_bytes,
            runs,
        };
        let options = WatchOptions {
            occasion: subject.occasion,
            which: subject.which,
            older_than_ms: subject.older_than_ms,
            suppressions: &self.known.suppressions,
            baseline: self.known.baseline.as_ref(),
            muted: &|key: SampleKey| self.muted_samples.contains(&key),
            muted_place: &|place: u64| self.muted_places.contains(&place),
            limit: subject.limit,
        };
        watched(&state, &options, &mut self.standings)
    }

    /// The latest frees and reallocs, the last one first. The profile's frames have their names.
    pub fn recent(&self, profile: &Profile, now_ns: u64) -> Vec<Recent> {
        let ms = |from: u64, to: u64| to.saturating_sub(from) / 1_000_000;
        let of = |ended: &Ended| Recent {
            pid: profile.processes.get(ended.sample.process.0 as usize).map_or(0, |process| process.pid),
            how: if ended.reallocated { "realloc" } else { "free" },
            address: format!("{:#x}", ended.sample.address),
            size: ended.sample.size,
            ago_ms: ms(ended.release.at_ns, now_ns),
            lived_ms: ms(ended.sample.at_ns, ended.release.at_ns),
            freed_by: ended.release.thread,
            allocated_by: ended.sample.thread,
            freed: stack_of(profile, ended.release.stack),
            allocated: stack_of(profile, ended.sample.stack),
        };
        self.ledger.recent().rev().take(RECENT).map(of).collect()
    }

    pub fn mute_place(&mut self, place: u64) {
        self.muted_places.insert(place);
    }

    /// Mutes the live samples that were allocated before a moment.
    pub fn mute_older(&mut self, before_ns: u64) {
        let old = self.ledger.live().filter(|(_, sample)| sample.at_ns <= before_ns).map(|(key, _)| key);
        self.muted_samples.extend(old);
    }

    pub fn unmute(&mut self) {
        self.muted_places.clear();
        self.muted_samples.clear();
    }
}
