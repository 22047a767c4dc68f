//! A watched process of a fleet: its events in a ledger of its own.

use std::collections::{BTreeMap, HashSet};

use mallow_capture::footprint::resident;
use mallow_capture::watch::{Looked, Watch};
use mallow_fleet::push::Resource;
use mallow_profile::{Precision, Process, ProcessId, Profile, SampleEvent};
use mallow_report::analysis::sampled::{SampleLedger, Standings, snapshot, snapshot_since_known};
use mallow_report::analysis::{FleetProcess, WatchOptions, WatchState, Which, watched};

use super::super::watch::exclusions::Exclusions;
use super::super::watch::push::facts;

/// A process. Its profile is that of its run, which it shares with others that the same command started.
pub struct Member {
    /// Number among all members, from 0, in the order in which they came.
    pub number: u64,
    /// Number of the process in its run.
    pub process: ProcessId,
    pub pid: u32,
    pub program: String,
    pub command: Vec<String>,
    /// The process's number in mallow's `/proc`.
    here: Option<u32>,
    /// End of the warm-up, on CLOCK_MONOTONIC, with the process's bytes in memory at the first report after that.
    warm_ns: u64,
    rss_at_first: Option<u64>,
    /// Namespace, pod and container.
    labels: BTreeMap<&'static str, String>,
    pub ledger: SampleLedger,
    /// When the watching began, on CLOCK_MONOTONIC.
    pub began_ns: u64,
    /// Whether the ledger had events since the last verdict on growth.
    pub has_news: bool,
    /// Places that were announced as growing.
    pub announced: HashSet<u64>,
    /// Verdicts on growth of earlier looks.
    standings: Standings,
}

pub struct Request<'a> {
    /// Milliseconds that it had run when mallow attached to it.
    pub attached_ms: Option<u64>,
    /// Exclusions from the report.
    pub known: &'a Exclusions,
    /// Samples that the report covers.
    pub which: Which,
    /// Least age of the samples that [`Which::Old`] covers.
    pub older_than_ms: u64,
}

/// The program's name: that of the path that it was executed as, else its first argument.
pub fn program(process: &Process) -> String {
    let path = if process.executed_as.is_empty() { &process.executable } else { &process.executed_as };
    let name = path.rsplit('/').next().filter(|name| !name.is_empty());
    name.or(process.arguments.first().map(String::as_str)).unwrap_or("(unknown)").to_owned()
}

/// Bytes of a process in memory, by its number here.
fn rss(here: Option<u32>) -> Option<u64> {
    Some(resident(here?)?.rss)
}

impl Member {
    /// A process that began to be watched. `here` is its number in mallow's `/proc`.
    pub fn new(
        number: u64,
        (id, here): (ProcessId, Option<u32>),
        process: &Process,
        began_ns: u64,
        warm_up_ns: u64,
    ) -> Self {
        let mut ledger = SampleLedger::new();
        ledger.warm_up(warm_up_ns);
        Self {
            number,
            process: id,
            pid: process.pid,
            program: program(process),
            command: process.arguments.clone(),
            here,
            warm_ns: began_ns.saturating_add(warm_up_ns),
            rss_at_first: None,
            labels: Resource::of(&facts(here, process.pid, &process.executable)).workload(),
            ledger,
            began_ns,
            has_news: false,
            announced: HashSet::new(),
            standings: Standings::default(),
        }
    }

    pub fn feed(&mut self, event: &SampleEvent) {
        self.ledger.feed(event);
        self.has_news = true;
    }

    /// A report with names. `watch` is that of the member's run.
    pub fn report(&mut self, watch: &Watch, request: &Request<'_>) -> FleetProcess {
        let Looked { at_ns, unix_ms, .. } = watch.looked();
        let state = WatchState {
            unseen: None,
            profile: watch.profile(),
            ledger: &self.ledger,
            now_ns: at_ns,
            watched_ns: at_ns.saturating_sub(self.began_ns),
            at_unix_ms: unix_ms,
            attached_ms: request.attached_ms,
            period_bytes: Some(watch.control().period()),
            runs: &|process| process == self.process,
        };
        let options = WatchOptions {
            occasion: "",
            which: request.which,
            older_than_ms: request.older_than_ms,
            suppressions: &request.known.suppressions,
            baseline: request.known.baseline.as_ref(),
            muted: &|_| false,
            muted_place: &|_| false,
            limit: PLACES,
        };
        let watched = watched(&state, &options, &mut self.standings);
        let mut report = FleetProcess::of(self.pid, &self.program, &self.command, watched, &self.ledger);
        report.labels.clone_from(&self.labels);
        let rss = rss(self.here);
        if at_ns >= self.warm_ns {
            self.rss_at_first = self.rss_at_first.or(rss);
        }
        report.in_memory(rss, self.rss_at_first)
    }

    /// Allocations and live blocks of this process alone, with names.
    pub fn profile(&self, watch: &Watch) -> Profile {
        self.alone(watch, snapshot)
    }

    /// Allocations since the member has been known, and live blocks, with names.
    pub fn profile_since_known(&self, watch: &Watch) -> Profile {
        self.alone(watch, snapshot_since_known)
    }

    /// The profile of an ended process: allocations since it is known, and no live blocks.
    pub fn last_profile(&self, watch: &Watch) -> Profile {
        let mut last = self.profile_since_known(watch);
        for site in &mut last.sites {
            (site.counts.live, site.counts.live_bytes) = (0, 0);
            if let Some(precisions) = &mut site.precisions {
                (precisions.live, precisions.live_bytes) = (Precision::exact(0), Precision::exact(0));
            }
        }
        last
    }

    fn alone(&self, watch: &Watch, snapshot: fn(&SampleLedger, &Profile, u64, u64) -> Profile) -> Profile {
        let Looked { at_ns, unix_ms, .. } = watch.looked();
        let mut profile = snapshot(&self.ledger, watch.profile(), at_ns, unix_ms);
        let its = profile.processes.get(self.process.0 as usize).cloned();
        profile.processes = its.into_iter().collect();
        profile.sites.iter_mut().for_each(|site| site.process = ProcessId(0));
        profile
    }
}

/// Places, and sites, that a report of one process has: naming them is most of its cost.
const PLACES: usize = 20;
