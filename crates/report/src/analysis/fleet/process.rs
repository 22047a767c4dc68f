//! One process of a fleet.

use super::{FleetProcess, FleetSums, GrownElsewhere};
use crate::analysis::sampled::{SampleLedger, Verdict};
use crate::analysis::watched::{WatchLosses, Watched, WatchedPlace, is_notable_growth};

/// Most places of a process that are kept: those that grow, and a few that hold most.
const PLACES: usize = 10;

impl FleetProcess {
    /// `report` has all live samples of the process, and `ledger` is the one it was made from.
    pub fn of(pid: u32, program: &str, command: &[String], report: Watched, ledger: &SampleLedger) -> Self {
        let (blocks, bytes) = ledger.heap_sums();
        let (allocations, allocated_bytes) = ledger.allocated();
        let verdict = worst(&report.places.places);
        let mut places = report.places.places;
        places.truncate(PLACES);
        Self {
            pid,
            program: program.to_owned(),
            command: command.to_vec(),
            labels: Default::default(),
            running: true,
            abrupt: false,
            attached: report.attached_ms.is_some(),
            at_unix_ms: report.at_unix_ms,
            watched_ms: report.watched_ms,
            live_bytes: report.live_bytes,
            live: report.live,
            samples: report.samples,
            allocations: allocations.value.round() as u64,
            allocated_bytes: allocated_bytes.value.round() as u64,
            verdict,
            growing_places: report.places.growing_places,
            places_growing_so_far: report.places.places_growing_so_far,
            places_judged: report.places.places_judged,
            places_grown_unsteadily: report.places.places_grown_unsteadily,
            rss: None,
            rss_grown_bytes: None,
            places,
            places_in_all: report.places.places_in_all,
            lost: report.lost,
            bytes,
            blocks,
        }
    }

    /// Marks the process as ended.
    pub fn ended(self, abrupt: bool) -> Self {
        Self { running: false, abrupt, ..self }
    }

    /// Adds the RSS now, in bytes, and the growth since `at_first`, the RSS when the process began to be watched.
    pub fn in_memory(self, rss: Option<u64>, at_first: Option<u64>) -> Self {
        let signed = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        Self { rss, rss_grown_bytes: rss.zip(at_first).map(|(now, then)| signed(now) - signed(then)), ..self }
    }

    /// The growth of RSS beyond all that sampled blocks may hold; None where it is not notable, or not known.
    pub(super) fn grown_elsewhere(&self) -> Option<GrownElsewhere> {
        // All that is live, whatever the report covers.
        let live = self.bytes.estimate(0.5);
        let live = live.high.unwrap_or(live.value).max(0.0) as u64;
        let bytes = u64::try_from(self.rss_grown_bytes?).ok()?.checked_sub(live)?;
        let is_it = self.running && is_notable_growth(bytes, self.rss?);
        is_it.then(|| GrownElsewhere { program: self.program.clone(), pid: self.pid, bytes })
    }

    /// The verdict, where the process grows: those that do not are in no order by it.
    pub fn growing(&self) -> Verdict {
        if self.verdict >= Verdict::SoFar { self.verdict } else { Verdict::Unknown }
    }

    /// The bytes an hour by which the process's places surely grow, together.
    pub fn surely(&self) -> f64 {
        let growing = self.places.iter().filter(|place| place.growth.verdict >= Verdict::SoFar);
        growing.map(|place| place.growth.surely()).sum()
    }

    /// Counts the process in the sums of a fleet. What was live in one that has ended is no longer.
    pub(super) fn sums(&self) -> FleetSums {
        let mut sums = FleetSums::default();
        let (live, grows) = (self.running, |verdict| u64::from(self.running && self.verdict == verdict));
        sums += FleetSums {
            processes: u64::from(live),
            ended: u64::from(!live),
            growing_processes: grows(Verdict::Growing),
            processes_growing_so_far: grows(Verdict::SoFar),
            processes_judged: u64::from(live && self.places_judged > 0),
            processes_grown_unsteadily: u64::from(live && self.places_grown_unsteadily > 0),
            processes_grown_elsewhere: u64::from(self.grown_elsewhere().is_some()),
            bytes: if live { self.bytes } else { Default::default() },
            blocks: if live { self.blocks } else { Default::default() },
            ..FleetSums::default()
        };
        sums
    }
}

/// The verdict on the place that grows worst.
pub(super) fn worst(places: &[WatchedPlace]) -> Verdict {
    places.iter().map(|place| place.growth.verdict).max().unwrap_or_default()
}

pub(super) fn add_losses(all: &mut WatchLosses, one: &WatchLosses) {
    let WatchLosses { events, picks, stacks, damaged, left, filtered, foreign, unsampled } = *one;
    for (sum, number) in [
        (&mut all.events, events),
        (&mut all.picks, picks),
        (&mut all.stacks, stacks),
        (&mut all.damaged, damaged),
        (&mut all.left, left),
        (&mut all.filtered, filtered),
        (&mut all.foreign, foreign),
        (&mut all.unsampled, unsampled),
    ] {
        *sum = sum.saturating_add(number);
    }
}
