//! From processes to the report.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::process::add_losses;
use super::{FleetPlace, FleetProcess, FleetProgram, FleetReport, FleetSums, Unwatched};
use crate::analysis::numbers::LeftOut;
use crate::analysis::sampled::{Estimate, Sum, Verdict};
use crate::analysis::watched::{WatchLosses, WatchedPlace};

/// Most processes that are named for a place that grows in them.
const PIDS: usize = 10;

/// Most rows of each kind that are listed; sums cover the rest.
#[derive(Clone, Copy, Debug)]
pub struct FleetLimits {
    pub programs: usize,
    /// Most processes of each program.
    pub processes: usize,
    /// Most places of each program.
    pub places: usize,
}

/// Everything of a report but the processes.
#[derive(Clone, Debug)]
pub struct FleetOptions<'a> {
    /// The reason for the report, in a word.
    pub occasion: &'a str,
    /// Milliseconds since 1970 UTC.
    pub at_unix_ms: u64,
    pub watched_ms: u64,
    /// The pattern that chooses the processes.
    pub pattern: &'a str,
    /// Number of processes that have ended since mallow began to watch.
    pub ended_in_all: u64,
    /// By program, the allocations and allocated bytes of processes that have ended.
    pub former: &'a BTreeMap<String, (u64, u64)>,
    /// Processes that match and are not watched.
    pub unwatched: Vec<Unwatched>,
    /// Losses of processes that have ended, and those that belong to no process.
    pub lost: WatchLosses,
    pub limits: FleetLimits,
}

/// `processes` are the running ones, and those of the ended ones whose last numbers are new.
pub fn fleet(processes: Vec<FleetProcess>, options: FleetOptions<'_>) -> FleetReport {
    let mut by_program: BTreeMap<String, Vec<FleetProcess>> = BTreeMap::new();
    let (mut sums, mut lost) = (FleetSums::default(), options.lost);
    let grown_elsewhere = processes.iter().filter_map(FleetProcess::grown_elsewhere).max_by_key(|grown| grown.bytes);
    for process in processes {
        sums += process.sums();
        if process.running {
            add_losses(&mut lost, &process.lost);
        }
        by_program.entry(process.program.clone()).or_default().push(process);
    }
    let of = |(name, processes)| program(name, processes, &options);
    let mut programs: Vec<FleetProgram> = by_program.into_iter().map(of).collect();
    programs.sort_by(|a, b| {
        let by_growth = b.growth().partial_cmp(&a.growth()).unwrap_or(Ordering::Equal);
        by_growth.then(b.sums.live_bytes.value.total_cmp(&a.sums.live_bytes.value)).then(a.program.cmp(&b.program))
    });
    let programs_in_all = programs.len() as u64;
    let programs_hidden = LeftOut::after(options.limits.programs, programs.iter().map(|program| program.sums));
    programs.truncate(options.limits.programs);
    FleetReport {
        occasion: options.occasion.to_owned(),
        at_unix_ms: options.at_unix_ms,
        watched_ms: options.watched_ms,
        pattern: options.pattern.to_owned(),
        sums,
        grown_elsewhere,
        ended_in_all: options.ended_in_all,
        programs,
        programs_in_all,
        programs_hidden,
        unwatched: options.unwatched,
        lost,
    }
}

impl FleetProgram {
    /// The key that programs are sorted by: the verdict on the first place and the low end of its bytes per hour.
    fn growth(&self) -> (Verdict, f64) {
        let worst = self.places.first().filter(|place| place.verdict >= Verdict::SoFar);
        worst.map_or((Verdict::Unknown, 0.0), |place| (place.verdict, place.bytes_per_hour.low.unwrap_or(0.0)))
    }
}

fn program(name: String, mut processes: Vec<FleetProcess>, options: &FleetOptions<'_>) -> FleetProgram {
    let mut sums = FleetSums::default();
    let (mut allocations, mut allocated_bytes) = options.former.get(&name).copied().unwrap_or_default();
    for process in &processes {
        sums += process.sums();
        // Those of ended ones are among the former ones.
        if process.running {
            allocations += process.allocations;
            allocated_bytes += process.allocated_bytes;
        }
    }
    let mut places = places(&processes);
    let places_in_all = places.len() as u64;
    places.truncate(options.limits.places);
    processes.sort_by(|a, b| {
        let order = b.running.cmp(&a.running).then(b.growing().cmp(&a.growing()));
        let order = order.then(b.surely().total_cmp(&a.surely()));
        order.then(b.live_bytes.value.total_cmp(&a.live_bytes.value)).then(a.pid.cmp(&b.pid))
    });
    // Last numbers are said once: a few of those that ended are shown, whatever runs.
    let running = processes.iter().filter(|process| process.running).count();
    let ended: Vec<FleetProcess> = processes.split_off(running);
    let limit = options.limits.processes;
    let hidden = |rows: &[FleetProcess]| rows.iter().skip(limit).map(FleetProcess::sums).collect::<Vec<_>>();
    let rest = [hidden(&processes), hidden(&ended)].concat();
    processes.truncate(limit);
    processes.extend(ended.into_iter().take(limit));
    FleetProgram {
        program: name,
        sums,
        allocations,
        allocated_bytes,
        places,
        places_in_all,
        processes,
        processes_hidden: LeftOut::after(0, rest.into_iter()),
    }
}

/// The places of running processes, one for all that read the same.
fn places(processes: &[FleetProcess]) -> Vec<FleetPlace> {
    let mut groups: FxHashMap<u64, Vec<(u32, &WatchedPlace)>> = FxHashMap::default();
    for process in processes.iter().filter(|process| process.running) {
        for place in &process.places {
            groups.entry(place.id).or_default().push((process.pid, place));
        }
    }
    let mut all: Vec<FleetPlace> = groups.into_values().filter_map(|group| place(&group)).collect();
    all.sort_by(|a, b| {
        let rank = |place: &FleetPlace| match place.verdict {
            verdict @ (Verdict::Growing | Verdict::SoFar) => (verdict, place.bytes_per_hour.low.unwrap_or(0.0)),
            _ => (Verdict::Unknown, 0.0),
        };
        let ((a_verdict, a_surely), (b_verdict, b_surely)) = (rank(a), rank(b));
        let order = b_verdict.cmp(&a_verdict).then(b_surely.total_cmp(&a_surely));
        order.then(b.live_bytes.value.total_cmp(&a.live_bytes.value)).then(a.id.cmp(&b.id))
    });
    all
}

fn place(group: &[(u32, &WatchedPlace)]) -> Option<FleetPlace> {
    let (_, first) = group.first()?;
    let mut bytes = Sum::default();
    group.iter().for_each(|(_, place)| bytes += place.bytes);
    let mut growing: Vec<&(u32, &WatchedPlace)> =
        group.iter().filter(|(_, place)| place.growth.verdict >= Verdict::SoFar).collect();
    growing.sort_by(|(a_pid, a), (b_pid, b)| b.growth.surely().total_cmp(&a.growth.surely()).then(a_pid.cmp(b_pid)));
    let worst = group.iter().map(|(_, place)| place.growth.verdict).max().unwrap_or_default();
    Some(FleetPlace {
        frame: first.frame.clone(),
        by: first.by.clone(),
        through: first.through.clone(),
        live_bytes: bytes.estimate(0.5),
        samples: bytes.samples(),
        processes: group.len() as u64,
        verdict: worst,
        grows_in: growing.len() as u64,
        bytes_per_hour: Estimate::sum(growing.iter().map(|(_, place)| &place.growth.bytes_per_hour)),
        growing_pids: growing.iter().take(PIDS).map(|(pid, _)| *pid).collect(),
        id: first.id,
    })
}
