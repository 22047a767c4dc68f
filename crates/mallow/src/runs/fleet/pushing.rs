//! Members and their stores: each member is a source of its own, offered with a few others at a time.
//!
//! ```text
//! round begins ── all numbers ──▶ waiting ── some, each turn ──▶ profiles ──▶ maker
//! a member ends ───────────────▶ last profiles ─────────────────────────────▶
//! ```

use std::collections::{BTreeSet, VecDeque};

use anyhow::Result;

use super::super::watch::push::{Push, WatchedProfile};
use super::super::watch::pushing::finish;
use super::super::watch::signals::Signals;
use super::members::Members;

/// Profiles that are offered at one time: a copy of each, and of all that its frames refer to.
const OFFERED: usize = 16;

pub struct FleetPushing {
    push: Push,
    sources: Sources,
}

/// Members that the stores' thread was given, and those that are to be offered.
#[derive(Default)]
struct Sources {
    /// Members below this number were noticed.
    noticed: u64,
    /// Members that ended before they were noticed.
    missed: BTreeSet<u64>,
    /// Members of this round that were not offered yet.
    waiting: VecDeque<u64>,
}

impl FleetPushing {
    pub fn new(push: Push) -> Self {
        Self { push, sources: Sources::default() }
    }

    pub fn push(&self) -> &Push {
        &self.push
    }

    /// Between two turns: offers what it is time for. Returns what is new about the stores.
    pub fn look(&mut self, members: &mut Members<'_>) -> Vec<String> {
        let Self { push, sources } = self;
        sources.notice(push, members);
        if sources.waiting.is_empty() && push.is_due() {
            push.begin_round();
            sources.waiting = numbers(members);
        }
        if !push.is_busy()
            && let Some(some) = sources.next(push, members, false)
        {
            push.offer(some);
        }
        push.news()
    }

    /// Sends the last ones of all members, as the last look found them: a store has what the last report says. What
    /// became of all profiles, as a line of JSON.
    pub fn finish(self, members: &mut Members<'_>, signals: &Signals) -> Result<String> {
        let Self { mut push, mut sources } = self;
        sources.notice(&mut push, members);
        sources.waiting = numbers(members);
        finish(push, |push| sources.next(push, members, true), signals)
    }
}

impl Sources {
    /// Reads what is known of members that are new.
    fn notice(&mut self, push: &mut Push, members: &Members<'_>) {
        if members.seen == self.noticed {
            return;
        }
        let new = self.noticed..members.seen;
        self.noticed = members.seen;
        self.missed.extend(new.clone());
        for (run, member) in members.iter().filter(|(_, member)| new.contains(&member.number)) {
            self.missed.remove(&member.number);
            if let Some(process) = run.watch.profile().processes.get(member.process.0 as usize) {
                push.notice(member.number, run.watch.pid_here(member.process), process);
            }
        }
    }

    /// Up to [`OFFERED`] profiles, those of ended members first. `last`: those of running members are their last ones,
    /// too.
    fn next(&mut self, push: &mut Push, members: &mut Members<'_>, last: bool) -> Option<Vec<WatchedProfile>> {
        let mut some = Vec::new();
        if let Some(last_profiles) = &mut members.last_profiles {
            push.count_unsent(last_profiles.take_dropped());
            for (source, profile) in last_profiles.take(OFFERED) {
                if self.missed.remove(&source)
                    && let Some(process) = profile.processes.first()
                {
                    push.notice(source, None, process);
                }
                some.push(WatchedProfile { source, profile, running: vec![false], last: true });
            }
        }
        let offered = self.waiting.len().min(OFFERED.saturating_sub(some.len()));
        let chosen: Vec<u64> = self.waiting.drain(..offered).collect();
        if !chosen.is_empty() {
            let profiles = match last {
                true => members.profiles_as_looked(&chosen),
                false => members.profiles_since_known(&chosen),
            };
            some.extend(profiles.into_iter().map(|(source, profile)| WatchedProfile {
                source,
                profile,
                running: vec![true],
                last,
            }));
        }
        (!some.is_empty()).then_some(some)
    }
}

fn numbers(members: &Members<'_>) -> VecDeque<u64> {
    members.iter().map(|(_, member)| member.number).collect()
}
