//! A profile from the ledger, which every view reads and every writer writes. Numbers are the estimates; each site has
//! what their intervals need.

use std::collections::BTreeMap;

use mallow_estimates::{SampleLedger, Sum};
use mallow_profile::{Counts, Origin, Precisions, Process, ProcessId, Profile, Quantities, Quantity, Site, StackId};

#[derive(Clone, Copy, Default)]
struct Figures {
    allocations: Sum,
    allocated_bytes: Sum,
    live: Sum,
    live_bytes: Sum,
    peak: Sum,
    peak_bytes: Sum,
    oldest_ns: Option<u64>,
    youngest_ns: u64,
}

/// The allocations so far and the live blocks, and what was live at the highest footprint if the ledger tracks it.
/// `tables` are those that the samples' stacks and processes belong to; `unix_ms` is the wall clock's time now, at
/// which the profile ends.
pub fn snapshot(ledger: &SampleLedger, tables: &Profile, now_ns: u64, unix_ms: u64) -> Profile {
    // What was live before everything was known was allocated too.
    made(ledger, tables, (now_ns, unix_ms), true)
}

/// [`snapshot`] without allocations from before everything was known, even of live blocks: allocated sums never
/// decrease.
pub fn snapshot_since_known(ledger: &SampleLedger, tables: &Profile, now_ns: u64, unix_ms: u64) -> Profile {
    made(ledger, tables, (now_ns, unix_ms), false)
}

/// `live_too` says that each live block counts as allocated.
fn made(ledger: &SampleLedger, tables: &Profile, (now_ns, unix_ms): (u64, u64), live_too: bool) -> Profile {
    let mut profile = Profile { sites: Vec::new(), ..tables.clone() };
    // Sums of processes that ended have no number of a process any more.
    let former = ProcessId(profile.processes.len() as u32);
    let place = |process: ProcessId, stack: StackId| (process.0.min(former.0), stack.0);
    let mut sites: BTreeMap<(u32, u32), Figures> = BTreeMap::new();
    for (process, stack, sums) in ledger.sums() {
        let site = sites.entry(place(process, stack)).or_default();
        site.allocations += sums.allocations;
        site.allocated_bytes += sums.allocated_bytes;
    }
    for (_, sample) in ledger.live() {
        let site = sites.entry(place(sample.process, sample.stack)).or_default();
        site.live.add_count(sample);
        site.live_bytes.add_bytes(sample);
        site.oldest_ns = Some(site.oldest_ns.map_or(sample.at_ns, |oldest| oldest.min(sample.at_ns)));
        site.youngest_ns = site.youngest_ns.max(sample.at_ns);
    }
    for (_, sample) in ledger.peak().iter().flat_map(|peak| &peak.live) {
        let site = sites.entry(place(sample.process, sample.stack)).or_default();
        site.peak.add_count(sample);
        site.peak_bytes.add_bytes(sample);
    }
    if sites.keys().any(|(process, _)| *process == former.0) {
        profile.processes.push(Process { executable: "(ended)".to_owned(), ..Process::default() });
    }
    let began_ns = ledger.began_ns().unwrap_or(now_ns);
    let ms = |ns: u64| ns.saturating_sub(began_ns) / 1_000_000;
    profile.duration_ms = ms(now_ns);
    profile.started_unix_ms = unix_ms.saturating_sub(profile.duration_ms);
    profile.peak_ms = ledger.peak().map_or(0, |peak| ms(peak.at_ns));
    for ((process, stack), figures) in sites {
        let counts = figures.rounded(live_too);
        profile.totals += counts;
        if let Some(of) = profile.processes.get_mut(process as usize) {
            of.totals += counts;
            of.end_ms = profile.duration_ms;
        }
        profile.sites.push(Site {
            process: ProcessId(process),
            stack: StackId(stack),
            counts,
            patterns: Default::default(),
            live_oldest_ms: figures.oldest_ns.map_or(0, ms),
            live_youngest_ms: ms(figures.youngest_ns),
            precisions: Some(Box::new(figures.precisions(&counts, live_too))),
        });
    }
    profile.ending.lost = ledger.losses().events;
    profile.ending.damaged = ledger.losses().damaged;
    profile.origin = Some(Origin {
        format: "mallow watch",
        quantities: sampled_quantities(ledger.peak().is_some()),
        sampled_bytes: Some(ledger.longest_period()),
    });
    profile
}

/// The quantities that samples have, and a profile can hold.
fn sampled_quantities(peak: bool) -> Quantities {
    let quantities = Quantities::of(&[
        Quantity::Allocations,
        Quantity::AllocatedBytes,
        Quantity::Frees,
        Quantity::FreedBytes,
        Quantity::Live,
        Quantity::LiveBytes,
        Quantity::Times,
        Quantity::Ages,
        Quantity::Started,
        Quantity::Processes,
    ]);
    if peak { quantities.with(Quantity::Peak).with(Quantity::PeakBytes) } else { quantities }
}

impl Figures {
    fn rounded(&self, live_too: bool) -> Counts {
        let whole = |number: f64| number.round() as u64;
        let (live, live_bytes) = (whole(self.live.value()), whole(self.live_bytes.value()));
        let least = |live: u64| if live_too { live } else { 0 };
        let allocations = whole(self.allocations.value()).max(least(live));
        let allocated_bytes = whole(self.allocated_bytes.value()).max(least(live_bytes));
        Counts {
            allocations,
            allocated_bytes,
            frees: allocations.saturating_sub(live),
            freed_bytes: allocated_bytes.saturating_sub(live_bytes),
            live,
            live_bytes,
            peak: whole(self.peak.value()),
            peak_bytes: whole(self.peak_bytes.value()),
            ..Counts::default()
        }
    }

    fn precisions(&self, counts: &Counts, live_too: bool) -> Precisions {
        let largest = |all: &Sum, live: &Sum, number| match live_too && all.value() < live.value() {
            true => live.precision(number),
            false => all.precision(number),
        };
        Precisions {
            allocations: largest(&self.allocations, &self.live, counts.allocations),
            allocated_bytes: largest(&self.allocated_bytes, &self.live_bytes, counts.allocated_bytes),
            live: self.live.precision(counts.live),
            live_bytes: self.live_bytes.precision(counts.live_bytes),
        }
    }
}
