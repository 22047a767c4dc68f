//! A watch and its stores: when profiles are offered, and how it went, in reports and in numbers for Prometheus.

use anyhow::Result;
use mallow_capture::watch::Watch;
use mallow_fleet::{PushCounts, push_metrics};
use mallow_profile::ProcessId;
use mallow_report::analysis::sampled::snapshot_since_known;
use serde::Serialize;

use super::push::{Push, PushFigures, WatchedProfile};
use super::session::{Session, WatchMoment};
use super::signals::Signals;
use crate::output::json::{self, JsonDocument};
use crate::output::stdio;

/// A report in JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WithPush<'a, R> {
    #[serde(flatten)]
    report: &'a R,
    /// Figures of the stores that profiles are pushed to; left out where nothing is pushed.
    #[serde(skip_serializing_if = "Option::is_none")]
    push: Option<PushFigures>,
}

impl<R: JsonDocument> JsonDocument for WithPush<'_, R> {
    const SCHEMA: &'static str = R::SCHEMA;
}

/// The last line of JSON, behind the last report.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LastWords<'a> {
    /// Occasion of the line: `push`.
    occasion: &'a str,
    /// Figures of the stores when mallow ended.
    push: &'a PushFigures,
}

/// The watch of one program, and its stores.
pub struct Pushing {
    push: Push,
    /// Number of processes that were noticed.
    noticed: usize,
}

/// The number of the only watch.
const SOURCE: u64 = 0;

impl Pushing {
    pub fn new(push: Push) -> Self {
        Self { push, noticed: 0 }
    }

    pub fn push(&self) -> &Push {
        &self.push
    }

    /// Between two looks: offers profiles when it is time. Returns what is new about the stores.
    pub fn look(&mut self, session: &mut Session, watch: &mut Watch, moment: &WatchMoment) -> Vec<String> {
        self.notice(watch);
        if self.push.is_due() && !self.push.is_busy() && watch.running() > 0 {
            self.push.begin_round();
            self.push.offer(vec![watched_profile(session, watch, moment, false)]);
        }
        self.push.news()
    }

    /// The last profiles, and what became of all of them.
    pub fn finish(
        mut self,
        session: &mut Session,
        watch: &mut Watch,
        moment: &WatchMoment,
        signals: &Signals,
    ) -> Result<String> {
        self.notice(watch);
        let mut last = Some(vec![watched_profile(session, watch, moment, true)]);
        finish(self.push, |_| last.take(), signals)
    }

    fn notice(&mut self, watch: &Watch) {
        for (index, process) in watch.profile().processes.iter().enumerate().skip(self.noticed) {
            self.push.notice(SOURCE, watch.pid_here(ProcessId(index as u32)), process);
            self.noticed = index + 1;
        }
    }
}

/// Sends what is last, and waits for the stores; a second signal to end ends the waiting. What became of all profiles
/// is printed, and returned as a line of JSON.
pub fn finish(
    push: Push,
    last: impl FnMut(&mut Push) -> Option<Vec<WatchedProfile>>,
    signals: &Signals,
) -> Result<String> {
    let (before, _) = signals.ends();
    let figures = push.finish(last, &|| signals.ends().0 > before);
    figures.lines().iter().for_each(|line| stdio::notify(line));
    json::line(&LastWords { occasion: "push", push: &figures })
}

fn watched_profile(session: &mut Session, watch: &mut Watch, moment: &WatchMoment, last: bool) -> WatchedProfile {
    session.name_all(watch);
    let profile = snapshot_since_known(&session.ledger, watch.profile(), moment.now_ns, moment.unix_ms);
    let processes = (0..profile.processes.len() as u32).map(ProcessId);
    WatchedProfile { source: SOURCE, running: processes.map(|process| watch.runs(process)).collect(), profile, last }
}

/// A report as a line of JSON.
pub fn line(report: &impl JsonDocument, push: Option<&Push>) -> Result<String> {
    json::line(&WithPush { report, push: push.map(Push::figures) })
}

/// Series of the stores for `/metrics`; empty without stores.
pub fn series(push: Option<&Push>) -> String {
    let Some(figures) = push.map(Push::figures) else { return String::new() };
    let results: Vec<_> = figures
        .stores
        .iter()
        .map(|of| [("sent", of.sent), ("rejected", of.rejected), ("unknown", of.unknown), ("unsent", of.unsent)])
        .collect();
    let counts = figures.stores.iter().zip(&results).map(|(of, results)| PushCounts {
        store: of.store,
        url: &of.url,
        results,
        waiting: of.waiting,
    });
    push_metrics(&counts.collect::<Vec<_>>())
}
