//! What a store has of a watch, and what it does not have yet.
//!
//! ```text
//! allocated so far   ───┬────────┬──────────────┬──▶ time
//! windows               │ 1      │ 2            │
//!                       └ taken  └ taken        └ not taken (the queue is full): window 3 begins where 2 ended
//! ```
//!
//! Each window begins where the last one that was taken ended, so the windows of a store add up to all that was
//! allocated.

use mallow_profile::{Counts, ProcessId, Profile, Site};
use rustc_hash::{FxHashMap, FxHashSet};

/// The processes that ended: a watch keeps one sum for all of them.
const ENDED: u32 = u32::MAX;

/// Allocations that were sent of each site of a watch, with their bytes.
#[derive(Clone, Debug, Default)]
pub struct PushLedger {
    sent: FxHashMap<(u32, u32), (u64, u64)>,
    /// Milliseconds since 1970 until which a process's windows go.
    until_ms: FxHashMap<u32, u64>,
    ended: FxHashSet<u32>,
}

/// What one process did in one window: what it allocated in it, and what was live at its end.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// The process; None: of several processes that ended, which have one sum.
    pub process: Option<ProcessId>,
    /// Allocations are those of the window.
    pub sites: Vec<Site>,
    /// Begin in milliseconds since 1970.
    pub began_ms: u64,
    /// End in milliseconds since 1970.
    pub ended_ms: u64,
    pub(super) now: Vec<((u32, u32), (u64, u64))>,
    /// Keys of the processes for which the next window begins where this one ends.
    pub(super) keys: Vec<u32>,
}

impl PushLedger {
    /// A window for each process with something new, in the order of the processes. `runs`: whether a process does. A
    /// window counts as sent only once [`PushLedger::take`] has it.
    pub fn windows(&mut self, profile: &Profile, runs: &dyn Fn(ProcessId) -> bool) -> Vec<Window> {
        let ended_ms = profile.started_unix_ms.saturating_add(profile.duration_ms);
        let over = self.settle(profile, runs);
        // What the only process that ended did last is its own.
        let last_words = match over[..] {
            [process] => Some(ProcessId(process)),
            _ => None,
        };
        let mut windows: Vec<(u32, Window)> = Vec::new();
        let mut places: FxHashMap<u32, usize> = FxHashMap::default();
        for site in &profile.sites {
            let key = key_of(profile, site.process);
            let place = *places.entry(key).or_insert_with(|| {
                let process = if key == ENDED { last_words } else { Some(site.process) };
                let since = process.map_or(key, |process| process.0);
                let began = self.until_ms.get(&since).copied();
                let began_ms =
                    began.unwrap_or_else(|| profile.started_unix_ms.saturating_add(start_of(profile, since)));
                let keys = if since == key { vec![key] } else { vec![key, since] };
                windows.push((key, Window { process, began_ms, ended_ms, keys, ..Window::default() }));
                windows.len() - 1
            });
            let now = (site.counts.allocations, site.counts.allocated_bytes);
            let sent = self.sent.get(&(key, site.stack.0)).copied().unwrap_or_default();
            let window = &mut windows[place].1;
            window.now.push(((key, site.stack.0), now));
            let counts = Counts {
                allocations: now.0.saturating_sub(sent.0),
                allocated_bytes: now.1.saturating_sub(sent.1),
                ..site.counts
            };
            if counts.allocations | counts.allocated_bytes | counts.live | counts.live_bytes != 0 {
                window.sites.push(Site { process: window.process.unwrap_or(site.process), counts, ..site.clone() });
            }
        }
        windows.sort_by_key(|(key, _)| *key);
        // Nothing of ended processes changes any more.
        windows.into_iter().filter(|(key, window)| *key != ENDED || !window.sites.is_empty()).map(|(_, w)| w).collect()
    }

    /// The window is on its way: the next one begins where it ends.
    pub fn take(&mut self, window: &Window) {
        for (key, now) in &window.now {
            let sent = self.sent.entry(*key).or_default();
            // The sum of many is rounded once, and what was sent of each of them was, too: the difference is made up
            // for later.
            *sent = if key.0 == ENDED { (sent.0.max(now.0), sent.1.max(now.1)) } else { *now };
        }
        for key in &window.keys {
            self.until_ms.insert(*key, window.ended_ms);
        }
    }

    /// Moves what was sent of processes that ended to the sum that all of them have together. Returns the processes
    /// that ended since the last call.
    fn settle(&mut self, profile: &Profile, runs: &dyn Fn(ProcessId) -> bool) -> Vec<u32> {
        let still: FxHashSet<(u32, u32)> =
            profile.sites.iter().map(|site| (key_of(profile, site.process), site.stack.0)).collect();
        let mut gone: Vec<(u32, u32)> = self.sent.keys().filter(|key| !still.contains(key)).copied().collect();
        // Sums of all that ended come first: one that the watch gave up to bound its memory begins anew.
        gone.sort_unstable_by_key(|key| std::cmp::Reverse(*key));
        for key in gone {
            let Some(sent) = self.sent.remove(&key) else { continue };
            // And so does one of a process that runs.
            if key.0 != ENDED && !runs(ProcessId(key.0)) {
                let all = self.sent.entry((ENDED, key.1)).or_default();
                *all = (all.0.saturating_add(sent.0), all.1.saturating_add(sent.1));
            }
        }
        let all = (0..profile.processes.len() as u32).map(ProcessId).filter(|id| key_of(profile, *id) != ENDED);
        all.filter(|process| !runs(*process)).map(|process| process.0).filter(|key| self.ended.insert(*key)).collect()
    }
}

fn key_of(profile: &Profile, process: ProcessId) -> u32 {
    match profile.processes.get(process.0 as usize) {
        Some(known) if known.pid > 0 => process.0,
        _ => ENDED,
    }
}

fn start_of(profile: &Profile, process: u32) -> u64 {
    profile.processes.get(process as usize).map_or(0, |process| process.start_ms.min(profile.duration_ms))
}

#[cfg(test)]
mod tests {
    use mallow_profile::{Process, ProcessId, Profile};
    use mallow_report::testing::parser;

    use super::{PushLedger, Window};

    fn bytes(windows: &[Window]) -> Vec<(Option<u32>, u64)> {
        let sum = |window: &Window| window.sites.iter().map(|site| site.counts.allocated_bytes).sum();
        windows.iter().map(|window| (window.process.map(|process| process.0), sum(window))).collect()
    }

    fn all(profile: &Profile) -> u64 {
        profile.sites.iter().map(|site| site.counts.allocated_bytes).sum()
    }

    #[test]
    fn windows_add_up_whatever_was_not_taken() {
        let mut profile = parser();
        let mut ledger = PushLedger::default();
        let mut sum = 0;
        for round in 0..7u64 {
            let windows = ledger.windows(&profile, &|_| true);
            // The queue is full now and then.
            if round % 3 != 1 {
                windows.iter().for_each(|window| ledger.take(window));
                sum += bytes(&windows).iter().map(|(_, bytes)| bytes).sum::<u64>();
            }
            if round < 6 {
                profile.sites[0].counts.allocated_bytes += 100 + round;
                profile.duration_ms += 1000;
            }
        }
        assert_eq!(sum, all(&profile));
        assert_eq!(bytes(&ledger.windows(&profile, &|_| true)).iter().map(|(_, bytes)| bytes).sum::<u64>(), 0);
    }

    #[test]
    fn a_window_begins_where_the_last_one_ended() {
        let mut profile = parser();
        let mut ledger = PushLedger::default();
        let first = ledger.windows(&profile, &|_| true);
        first.iter().for_each(|window| ledger.take(window));
        profile.duration_ms += 15_000;
        let second = ledger.windows(&profile, &|_| true);
        assert_eq!(second[0].began_ms, first[0].ended_ms);
        assert_eq!(second[0].ended_ms - second[0].began_ms, 15_000);
    }

    /// Two processes with the sites of one each; the second one ends, and its sums become those of all that ended.
    #[test]
    fn what_a_process_did_last_is_its_own_and_comes_once() {
        let mut profile = parser();
        profile.processes.truncate(1);
        profile.processes.push(Process { pid: 4712, ..Process::default() });
        profile.sites.truncate(2);
        profile.sites[0].process = ProcessId(0);
        profile.sites[1].process = ProcessId(1);
        let mut ledger = PushLedger::default();
        let first = ledger.windows(&profile, &|_| true);
        first.iter().for_each(|window| ledger.take(window));
        profile.processes.push(Process::default());
        profile.sites[1].process = ProcessId(2);
        profile.sites[1].counts.allocated_bytes += 77;
        let last = ledger.windows(&profile, &|process| process.0 == 0);
        assert_eq!(bytes(&last), [(Some(0), 0), (Some(1), 77)]);
        assert_eq!(last[1].began_ms, first[1].ended_ms);
        last.iter().for_each(|window| ledger.take(window));
        let nothing = ledger.windows(&profile, &|process| process.0 == 0);
        assert_eq!(bytes(&nothing).iter().map(|(_, bytes)| bytes).sum::<u64>(), 0);
    }

    #[test]
    fn a_site_that_was_given_up_begins_anew() {
        let mut profile = parser();
        let mut ledger = PushLedger::default();
        ledger.windows(&profile, &|_| true).iter().for_each(|window| ledger.take(window));
        let mut given_up = profile.sites.remove(0);
        ledger.windows(&profile, &|_| true).iter().for_each(|window| ledger.take(window));
        given_up.counts.allocated_bytes = 5;
        given_up.counts.allocations = 1;
        profile.sites.insert(0, given_up);
        let again = ledger.windows(&profile, &|_| true);
        assert_eq!(bytes(&again).iter().map(|(_, bytes)| bytes).sum::<u64>(), 5);
    }
}
