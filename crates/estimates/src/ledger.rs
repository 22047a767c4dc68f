//! The ledger of a watched program's samples. Its memory is proportional to the live samples and sites, not to the time
//! watched.

use std::collections::VecDeque;

use mallow_profile::{Lost, ProcessId, Release, Sample, SampleEvent, SampleKey, StackId};
use rustc_hash::FxHashMap;

use super::estimate::{Estimate, Sum};
use super::growth::{Asked, Growth, Lives, Said, Verdict, WARM_UP_NS};
use super::history::History;
use super::lives::{CLOCKS, Clock, Traffic};
use super::site::{Site, SiteSums, seconds, weight};
use super::standing::Evidence;

/// A sample that was freed or reallocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub key: SampleKey,
    pub sample: Sample,
    /// The free or realloc: thread, time and stack.
    pub release: Release,
    /// Whether realloc ended the block, not free.
    pub reallocated: bool,
}

/// Tests for each site: the callers of n sites are a tree with 2 n - 1 branches at the most.
const BRANCHES: usize = 2;

/// Figures of a site, or of several together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SiteFigures {
    /// Number of live blocks.
    pub live: Estimate,
    pub live_bytes: Estimate,
    /// Number of allocations since the watching began.
    pub allocations: Estimate,
    pub allocated_bytes: Estimate,
    pub freed_bytes: Estimate,
    /// Bytes of blocks that another thread freed than the one that allocated them.
    pub freed_by_others: Estimate,
    /// Bytes times the seconds for which these were live.
    pub byte_seconds: Estimate,
    /// Growth of the live bytes, as this look alone has it.
    pub growth: Growth,
    pub evidence: Evidence,
    /// CLOCK_MONOTONIC at which the oldest live sample was allocated; 0 without one.
    pub oldest_ns: u64,
    pub youngest_ns: u64,
}

/// A site whose live memory grows and grows.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    pub stack: StackId,
    pub growth: Growth,
}

/// Live samples, sums by site, history and losses of a watched program.
#[derive(Debug, Default)]
pub struct SampleLedger {
    pub(super) now_ns: u64,
    pub(super) began_ns: Option<u64>,
    /// None until [`SampleLedger::advance`] has a sample: the oldest one sets when the watching begins.
    pub(super) clocks: Option<[Clock; CLOCKS]>,
    /// Indexed as `clocks`.
    pub(super) traffic: [Traffic; CLOCKS],
    pub(super) waiting: Vec<SampleEvent>,
    pub(super) processes: FxHashMap<ProcessId, Running>,
    pub(super) sites: FxHashMap<StackId, FxHashMap<ProcessId, Site>>,
    pub(super) kept_apart: usize,
    pub(super) fold_above: usize,
    /// By process, slot, and whether the sample was reported after a younger one of that slot.
    pub(super) live: FxHashMap<(ProcessId, u32, bool), (SampleKey, StackId)>,
    /// Estimated; in whole bytes, so that the sum comes back to 0.
    pub(super) live_bytes: u64,
    /// Number of sites that were given up to bound the memory, and their sums.
    pub(super) folded: (u64, SiteSums),
    pub(super) recent: VecDeque<Ended>,
    pub(super) history: History,
    pub(super) peak: Option<Peak>,
    pub(super) lost: Lost,
    pub(super) longest_period: u64,
    warm_up_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    /// CLOCK_MONOTONIC from which on all samples of the process are known.
    pub(super) known_ns: u64,
    /// CLOCK_MONOTONIC at which the first sample after `known_ns` was picked.
    pub(super) since_ns: u64,
    pub(super) ended: bool,
}

/// The live samples at the moment with most live bytes.
#[derive(Clone, Debug, Default)]
pub struct Peak {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub at_ns: u64,
    pub live_bytes: u64,
    pub live: Vec<(SampleKey, Sample)>,
}

/// The time at which the sample of an event was allocated; None for other events.
fn began(event: &SampleEvent) -> Option<u64> {
    match event {
        SampleEvent::Allocated { sample, .. } => Some(sample.at_ns),
        _ => None,
    }
}

/// The draw of the site with the lowest process number; None without sites.
fn draw(sites: &[(&ProcessId, &Site)]) -> Option<f64> {
    sites.iter().min_by_key(|(process, _)| process.0).map(|(_, site)| site.draw)
}

impl SampleLedger {
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets for how long growth must go on before it is more than growth so far, in place of [`WARM_UP_NS`].
    pub fn warm_up(&mut self, warm_up_ns: u64) {
        self.warm_up_ns = Some(warm_up_ns);
    }

    /// Keeps the samples that were live at the highest footprint, at the cost of a copy of the live samples for each
    /// percent by which it rises.
    pub fn track_peak(&mut self) {
        self.peak.get_or_insert_default();
    }

    /// Takes in an event. No event may be later than the next [`SampleLedger::advance`].
    pub fn feed(&mut self, event: &SampleEvent) {
        // Has no time, and may be all there is.
        if let SampleEvent::Lost { lost, .. } = event {
            self.lost += *lost;
            return;
        }
        // The first look finds samples in no order. The oldest of them sets when the time begins.
        match self.clocks {
            Some(clocks) => self.apply(event, &clocks),
            None => self.waiting.push(*event),
        }
    }

    /// Moves the clock on. All events until then must have been fed.
    pub fn advance(&mut self, now_ns: u64) {
        self.now_ns = now_ns.max(self.now_ns);
        if self.clocks.is_none() {
            let Some(first) = self.waiting.iter().filter_map(began).min() else { return };
            let first = first.min(self.now_ns);
            self.began_ns = Some(first);
            let clocks = Clock::all(first);
            self.clocks = Some(clocks);
            self.turn();
            for event in std::mem::take(&mut self.waiting) {
                self.feed(&event);
            }
        }
        self.turn();
        self.history.add(self.now_ns, self.live_bytes);
        let higher = self.peak.as_ref().is_some_and(|peak| self.live_bytes / 101 * 100 > peak.live_bytes);
        if higher {
            let live = self.live().map(|(key, sample)| (key, *sample)).collect();
            self.peak = Some(Peak { at_ns: self.now_ns, live_bytes: self.live_bytes, live });
        }
    }

    /// Live samples. When the last process has ended, those that were live then stay.
    pub fn live(&self) -> impl Iterator<Item = (SampleKey, &Sample)> {
        self.sites.values().flat_map(FxHashMap::values).flat_map(|site| &site.live).map(|(key, sample)| (*key, sample))
    }

    /// The samples that ended last, the latest one last.
    pub fn recent(&self) -> impl DoubleEndedIterator<Item = &Ended> {
        self.recent.iter()
    }

    /// Live blocks of all sites, and their bytes.
    pub fn heap(&self) -> (Estimate, Estimate) {
        let (blocks, bytes) = self.heap_sums();
        (blocks.estimate(0.5), bytes.estimate(0.5))
    }

    /// Live blocks and bytes as sums, which add up over ledgers; [`SampleLedger::heap`] has their estimates.
    pub fn heap_sums(&self) -> (Sum, Sum) {
        let (mut blocks, mut bytes) = (Sum::default(), Sum::default());
        for (_, sample) in self.live() {
            blocks.add_count(sample);
            bytes.add_bytes(sample);
        }
        (blocks, bytes)
    }

    /// Blocks and bytes that were allocated since the watching began, by all processes: they never become less.
    pub fn allocated(&self) -> (Estimate, Estimate) {
        let mut sums = self.folded.1;
        for (_, _, of) in self.sums() {
            sums += *of;
        }
        (sums.allocations.estimate(0.5), sums.allocated_bytes.estimate(0.5))
    }

    /// Estimated live bytes over time: CLOCK_MONOTONIC and bytes, 240 points at the most.
    pub fn history(&self) -> &[(u64, u64)] {
        self.history.points()
    }

    /// None unless [`Self::track_peak`] was called.
    pub fn peak(&self) -> Option<&Peak> {
        self.peak.as_ref()
    }

    /// Events that could not be reported, over all processes.
    pub fn losses(&self) -> Lost {
        self.lost
    }

    /// Number of sites that were given up to bound the memory, and the bytes that they had allocated. They had no live
    /// samples.
    pub fn folded(&self) -> (u64, Estimate) {
        (self.folded.0, self.folded.1.allocated_bytes.estimate(0.5))
    }

    /// CLOCK_MONOTONIC at which the first sample was picked; None before that.
    pub fn began_ns(&self) -> Option<u64> {
        self.began_ns
    }

    /// The longest period that a sample was picked with.
    pub fn longest_period(&self) -> u64 {
        self.longest_period
    }

    /// Sums over all samples that each site of each process ever had.
    pub fn sums(&self) -> impl Iterator<Item = (ProcessId, StackId, &SiteSums)> {
        self.sites.iter().flat_map(|(stack, of)| of.iter().map(|(process, site)| (*process, *stack, &site.sums)))
    }

    /// Stacks that allocated, but for those of sites that were given up.
    pub fn stacks(&self) -> impl Iterator<Item = StackId> + '_ {
        self.sites.keys().copied()
    }

    /// By stack, the estimated allocations, and their mean size in bytes. Sites that were given up are missing.
    pub fn requests(&self) -> impl Iterator<Item = (StackId, u64, u64)> + '_ {
        self.sites.iter().map(|(stack, processes)| {
            let mut sums = SiteSums::default();
            for site in processes.values() {
                sums += site.sums;
            }
            let (number, bytes) = (sums.allocations.value(), sums.allocated_bytes.value());
            (*stack, number.round() as u64, if number > 0.0 { (bytes / number).round() as u64 } else { 0 })
        })
    }

    fn of_stacks(&self, stacks: &[StackId]) -> Vec<(&ProcessId, &Site)> {
        stacks.iter().filter_map(|stack| self.sites.get(stack)).flatten().collect()
    }

    /// What these stacks show of their growth, in all processes together.
    pub fn evidence_of(&self, stacks: &[StackId]) -> Evidence {
        let of = self.of_stacks(stacks);
        draw(&of).map_or(Evidence::default(), |draw| self.evidence(&of, draw))
    }

    /// Figures of these stacks, which read the same, in all processes together.
    pub fn site(&self, stacks: &[StackId]) -> SiteFigures {
        let of = self.of_stacks(stacks);
        let Some(draw) = draw(&of) else {
            return SiteFigures::default();
        };
        let (mut blocks, mut bytes, mut sums) = (Sum::default(), Sum::default(), SiteSums::default());
        let (mut oldest_ns, mut youngest_ns) = (u64::MAX, 0);
        for (process, site) in &of {
            sums += site.sums;
            let since_ns = self.since_ns(**process);
            for sample in site.live.values() {
                blocks.add_count(sample);
                bytes.add_bytes(sample);
                let seconds = seconds(sample, since_ns, self.now_ns);
                sums.byte_seconds.add(sample, sample.size as f64 * seconds, 0.0);
                (oldest_ns, youngest_ns) = (oldest_ns.min(sample.at_ns), youngest_ns.max(sample.at_ns));
            }
        }
        // A block may have been live all the time without being seen.
        let watched = of.iter().map(|(process, _)| self.now_ns.saturating_sub(self.since_ns(**process))).max();
        sums.byte_seconds.may_miss(self.longest_period as f64 * watched.unwrap_or(0) as f64 * 1e-9);
        let evidence = self.evidence(&of, draw);
        SiteFigures {
            live: blocks.estimate(draw),
            live_bytes: bytes.estimate(draw),
            allocations: sums.allocations.estimate(draw),
            allocated_bytes: sums.allocated_bytes.estimate(draw),
            freed_bytes: sums.freed_bytes.estimate(draw),
            freed_by_others: sums.freed_by_others.estimate(draw),
            byte_seconds: sums.byte_seconds.estimate(draw),
            growth: evidence.growth,
            evidence,
            oldest_ns: if youngest_ns > 0 { oldest_ns } else { 0 },
            youngest_ns,
        }
    }

    /// Sites that grow and grow, those that surely grow most first.
    pub fn findings(&self) -> Vec<Finding> {
        let of = |(stack, processes): (&StackId, &FxHashMap<ProcessId, Site>)| {
            let sites: Vec<_> = processes.iter().collect();
            Finding { stack: *stack, growth: self.evidence(&sites, 0.5).growth }
        };
        let mut findings: Vec<_> = self.sites.iter().map(of).filter(|f| f.growth.verdict == Verdict::Growing).collect();
        findings.sort_by(|a, b| b.growth.surely().total_cmp(&a.growth.surely()).then(a.stack.cmp(&b.stack)));
        findings
    }

    /// The findings of the clocks about these sites together.
    fn evidence(&self, sites: &[(&ProcessId, &Site)], draw: f64) -> Evidence {
        let Some(clocks) = &self.clocks else { return Evidence::default() };
        let running = || sites.iter().filter(|(process, _)| self.processes.contains_key(process));
        let Some(since_ns) = running().map(|(process, _)| self.since_ns(**process)).min() else {
            return Evidence { growth: Growth { chance: 1.0, ..Growth::default() }, ..Evidence::default() };
        };
        // A site is looked at again and again: about as often as its time doubled anew. So is each branch of their
        // callers.
        let watched = self.now_ns.saturating_sub(since_ns) as f64 * 1e-9;
        let asked = Asked {
            since_ns,
            now_ns: self.now_ns,
            tests: (self.kept_apart.max(1) * BRANCHES * CLOCKS) as f64 * (watched + 2.0).log2(),
            heaviest: self.longest_period as f64,
            draw,
            warm_up_ns: self.warm_up_ns.unwrap_or(WARM_UP_NS),
        };
        let said = std::array::from_fn(|number| {
            let (clock, mut lives) = (&clocks[number], Lives::default());
            for (_, site) in running() {
                lives.deaths.merge(&site.deaths[number]);
                for sample in site.live.values() {
                    lives.live[clock.bucket(sample.at_ns) as usize] += weight(sample);
                }
            }
            lives.growth(clock, &self.traffic[number], &asked)
        });
        Evidence { growth: Said::together(said), said, since_ns, tests: asked.tests }
    }

    fn since_ns(&self, process: ProcessId) -> u64 {
        self.processes.get(&process).map_or(self.now_ns, |p| p.since_ns.min(self.now_ns))
    }

    fn turn(&mut self) {
        let Some(clocks) = &mut self.clocks else { return };
        for (number, clock) in clocks.iter_mut().enumerate() {
            while let Some(step) = clock.step(self.now_ns) {
                self.traffic[number].step(step);
                for site in self.sites.values_mut().flat_map(FxHashMap::values_mut) {
                    site.deaths[number].step(step);
                }
            }
        }
    }
}
