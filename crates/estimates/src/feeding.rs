//! Applies events to the ledger.

use mallow_profile::{ProcessId, Release, Sample, SampleEvent, SampleKey, Stacks};

use super::ledger::{Ended, Running, SampleLedger};
use super::lives::{CLOCKS, Clock};
use super::site::{Site, weight};

/// Most ended samples that are remembered whole.
const RECENT: usize = 1000;
/// Most sites that are kept apart.
const SITES: usize = 16 << 10;
/// Number under which the sums of ended processes are kept.
const FORMER: ProcessId = ProcessId(u32::MAX);

impl SampleLedger {
    pub(super) fn apply(&mut self, event: &SampleEvent, clocks: &[Clock; CLOCKS]) {
        match *event {
            SampleEvent::ProcessBegan { process, at_ns } => {
                self.drop_ended();
                self.processes.insert(process, Running { known_ns: at_ns, since_ns: u64::MAX, ended: false });
            }
            SampleEvent::Allocated { key, sample } => self.allocate(key, sample, clocks),
            SampleEvent::Freed { key, release } => self.end(key, release, Some(false), clocks),
            SampleEvent::Reallocated { key, release, .. } => self.end(key, release, Some(true), clocks),
            SampleEvent::Gone { key, after_ns, before_ns } => {
                // Nobody knows when; the middle is wrong by the least.
                let at_ns = after_ns + before_ns.saturating_sub(after_ns) / 2;
                self.end(key, Release { thread: 0, at_ns, stack: Stacks::ROOT }, None, clocks);
            }
            SampleEvent::Lost { .. } => {}
            SampleEvent::ProcessEnded { process, .. } => {
                if let Some(running) = self.processes.get_mut(&process) {
                    running.ended = true;
                }
                if self.processes.values().any(|p| !p.ended) {
                    self.drop_ended();
                }
            }
        }
    }

    fn allocate(&mut self, key: SampleKey, sample: Sample, clocks: &[Clock; CLOCKS]) {
        if sample.size == 0 {
            return;
        }
        // A sample that came and went between two looks is reported after the next one that took its slot.
        let late = self
            .live
            .get(&(key.process, key.slot, false))
            .is_some_and(|(newest, _)| newest.generation.wrapping_sub(key.generation) as i32 > 0);
        let place = (key.process, key.slot, late);
        match self.live.get(&place).copied() {
            Some((old, _)) if old == key => return,
            Some((old, stack)) => {
                // The slot has another use. Within a look beginnings come first, so the end of what was there may be
                // still to come; two that wait for their ends are one too many, and that of the older one is in no
                // event.
                let waits = (key.process, key.slot, true);
                if let Some(&(older, _)) = self.live.get(&waits) {
                    self.end(older, Release { thread: 0, at_ns: sample.at_ns, stack: Stacks::ROOT }, None, clocks);
                }
                if !late {
                    self.live.remove(&place);
                    self.live.insert(waits, (old, stack));
                }
            }
            None => {}
        }
        let Some(running) = self.processes.get_mut(&key.process) else { return };
        let known_ns = running.known_ns;
        if sample.at_ns >= known_ns {
            running.since_ns = running.since_ns.min(sample.at_ns);
        }
        self.longest_period = self.longest_period.max(sample.period);
        for (clock, traffic) in clocks.iter().zip(&mut self.traffic) {
            traffic.add(clock.bucket(sample.at_ns));
        }
        let processes = self.sites.entry(sample.stack).or_default();
        let before = processes.len();
        processes.entry(key.process).or_insert_with(|| Site::new(&sample)).allocate(key, sample, known_ns);
        self.kept_apart += processes.len() - before;
        self.live.insert(place, (key, sample.stack));
        self.live_bytes = self.live_bytes.saturating_add(weight(&sample).value as u64);
        if self.kept_apart > SITES.max(self.fold_above) {
            self.fold();
        }
    }

    /// Ends a live sample. `reallocated` says whether realloc did; None where nobody saw how.
    fn end(&mut self, key: SampleKey, release: Release, reallocated: Option<bool>, clocks: &[Clock; CLOCKS]) {
        let Some(sample) = self.forget(key) else { return };
        let since_ns = self.processes.get(&key.process).map_or(0, |p| p.known_ns);
        if let Some(site) = self.sites.get_mut(&sample.stack).and_then(|sites| sites.get_mut(&key.process)) {
            site.free(&sample, &release, reallocated.is_some(), since_ns, clocks);
        }
        let Some(reallocated) = reallocated else { return };
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(Ended { key, sample, release, reallocated });
    }

    /// Takes a sample out of the live ones.
    fn forget(&mut self, key: SampleKey) -> Option<Sample> {
        let mut places = [false, true].map(|late| (key.process, key.slot, late)).into_iter();
        let place = places.find(|place| self.live.get(place).is_some_and(|(live, _)| *live == key))?;
        let &(_, stack) = self.live.get(&place)?;
        self.live.remove(&place);
        let sample = self.sites.get_mut(&stack)?.get_mut(&key.process)?.live.remove(&key)?;
        self.live_bytes = self.live_bytes.saturating_sub(weight(&sample).value as u64);
        Some(sample)
    }

    /// Adds up the sums of processes that ended, by stack; what was live there is no longer.
    fn drop_ended(&mut self) {
        let ended = |processes: &rustc_hash::FxHashMap<ProcessId, Running>, process: &ProcessId| {
            processes.get(process).is_some_and(|p| p.ended)
        };
        if !self.processes.values().any(|p| p.ended) {
            return;
        }
        for sites in self.sites.values_mut() {
            let gone: Vec<_> = sites.keys().filter(|process| ended(&self.processes, process)).copied().collect();
            for process in gone {
                let Some(site) = sites.remove(&process) else { continue };
                for sample in site.live.values() {
                    self.live_bytes = self.live_bytes.saturating_sub(weight(sample).value as u64);
                }
                let former = sites.entry(FORMER).or_insert_with(|| Site { draw: site.draw, ..Site::default() });
                former.sums += site.sums;
            }
        }
        self.live.retain(|(process, ..), _| !ended(&self.processes, process));
        self.processes.retain(|_, p| !p.ended);
        self.kept_apart = self.sites.values().map(|sites| sites.len()).sum();
    }

    /// Gives up half of the sites: those without live samples that allocated least.
    fn fold(&mut self) {
        let mut idle: Vec<_> = self
            .sites
            .iter()
            .flat_map(|(stack, sites)| sites.iter().map(move |(process, site)| (*stack, *process, site)))
            .filter(|(_, _, site)| site.live.is_empty())
            .map(|(stack, process, site)| (site.sums.allocated_bytes.value(), stack, process))
            .collect();
        idle.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, stack, process) in idle.into_iter().take(SITES / 2) {
            let Some(sites) = self.sites.get_mut(&stack) else { continue };
            if let Some(site) = sites.remove(&process) {
                self.folded.0 += 1;
                self.folded.1 += site.sums;
                self.kept_apart -= 1;
            }
            if sites.is_empty() {
                self.sites.remove(&stack);
            }
        }
        // Where nearly all are live, looking again and again would find nothing.
        self.fold_above = self.kept_apart + SITES / 8;
    }
}
