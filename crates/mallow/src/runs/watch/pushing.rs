//! A watch and its stores: when profiles are offered, and how it went, in reports and in numbers for Prometheus.

use anyhow::Result;
use mallow_capture::watch::Watch;
use mallow_fleet::{PushCounts, push_metrics};
use mallow_profile::ProcessId;
use mallow_report::analysis::Watched;
use mallow_report::analysis::sampled::snapshot_since_known;
use serde::Serialize;

use super::push::{Push, PushFigures, WatchedProfile};
use super::session::{Moment, Session};
use super::signals::Signals;
use crate::output::{json, stdio};

/// A report in JSON.
#[derive(Serialize)]
struct WithPush<'a> {
    #[serde(flatten)]
    report: &'a Watched,
    /// Missing where nothing is pushed.
    #[serde(skip_serializing_if = "Option::is_none")]
    push: Option<PushFigures>,
}

/// The last line of JSON, behind the last report.
#[derive(Serialize)]
struct LastWords<'a> {
    occasion: &'a str,
    push: &'a PushFigures,
}

/// Between two looks: offers profiles when it is time. Returns what is new about the stores.
pub fn look(push: &mut Push, session: &mut Session, watch: &mut Watch, moment: &Moment) -> Vec<String> {
    push.notice(0, watch);
    if push.is_due() && watch.running() > 0 {
        push.offer(vec![watched_profile(session, watch, moment)]);
    }
    push.news()
}

/// The last profiles, and what became of all of them, which is printed and returned as a line of JSON. A second signal to end ends the
/// waiting.
pub fn finish(
    mut push: Push,
    session: &mut Session,
    watch: &mut Watch,
    moment: &Moment,
    signals: &Signals,
) -> Result<String> {
    push.notice(0, watch);
    let last = vec![watched_profile(session, watch, moment)];
    let (before, _) = signals.ends();
    let figures = push.finish(last, &|| signals.ends().0 > before);
    figures.lines().iter().for_each(|line| stdio::notify(line));
    json::line(&LastWords { occasion: "push", push: &figures })
}

fn watched_profile(session: &mut Session, watch: &mut Watch, moment: &Moment) -> WatchedProfile {
    session.name(watch.profile_mut());
    let profile = snapshot_since_known(&session.book, watch.profile(), moment.now_ns, moment.unix_ms);
    let processes = (0..profile.processes.len() as u32).map(ProcessId);
    WatchedProfile { watch: 0, running: processes.map(|process| watch.runs(process)).collect(), profile }
}

/// A report as a line of JSON.
pub fn line(report: &Watched, push: Option<&Push>) -> Result<String> {
    json::line(&WithPush { report, push: push.map(Push::figures) })
}

/// Series for `/metrics`.
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
