use std::collections::BTreeMap;

use mallow_profile::{Sample, StackId};

use super::process::worst;
use super::{FleetLimits, FleetOptions, FleetProcess, FleetReport, fleet};
use crate::analysis::sampled::{Estimate, Growth, Sum, Verdict};
use crate::analysis::watched::{WatchLosses, WatchedPlace};

const PERIOD: u64 = 1000;

fn sum(samples: u64) -> Sum {
    let mut sum = Sum::default();
    let sample = Sample {
        process: Default::default(),
        thread: 0,
        family: mallow_profile::Family(0),
        size: 100,
        period: PERIOD,
        address: 0,
        at_ns: 0,
        stack: StackId(0),
    };
    (0..samples).for_each(|_| sum.add_bytes(&sample));
    sum
}

fn place(id: u64, samples: u64, verdict: Verdict, rate: f64) -> WatchedPlace {
    let bytes_per_hour = Estimate { value: rate, low: Some(rate * 0.7), high: Some(rate * 1.3), samples: 9 };
    let growth = Growth { verdict, bytes_per_hour, ..Growth::default() };
    WatchedPlace {
        id,
        growth,
        samples,
        bytes: sum(samples),
        live_bytes: sum(samples).estimate(0.5),
        ..Default::default()
    }
}

fn process(pid: u32, program: &str, places: Vec<WatchedPlace>) -> FleetProcess {
    let samples = places.iter().map(|place| place.samples).sum();
    FleetProcess {
        pid,
        program: program.to_owned(),
        command: Vec::new(),
        labels: Default::default(),
        running: true,
        abrupt: false,
        attached: false,
        at_unix_ms: 0,
        watched_ms: 0,
        live_bytes: sum(samples).estimate(0.5),
        live: Estimate::default(),
        samples,
        allocations: 5,
        allocated_bytes: 500,
        verdict: worst(&places),
        growing_places: 0,
        places_growing_so_far: 0,
        places_judged: places.iter().filter(|place| place.growth.verdict != Verdict::Unknown).count() as u64,
        places_grown_unsteadily: 0,
        rss: None,
        rss_grown_bytes: None,
        places_in_all: places.len() as u64,
        places,
        lost: WatchLosses { events: 1, ..WatchLosses::default() },
        bytes: sum(samples),
        blocks: Sum::default(),
    }
}

fn report(processes: Vec<FleetProcess>, limits: FleetLimits) -> FleetReport {
    let former = BTreeMap::from([("worker".to_owned(), (100, 10_000))]);
    let options = FleetOptions {
        occasion: "every",
        at_unix_ms: 1,
        watched_ms: 2,
        pattern: "w",
        ended_in_all: 1,
        former: &former,
        unwatched: Vec::new(),
        lost: WatchLosses { events: 10, ..WatchLosses::default() },
        limits,
    };
    fleet(processes, options)
}

const ALL: FleetLimits = FleetLimits { programs: 9, processes: 9, places: 9 };

#[test]
fn a_process_that_is_known_to_be_steady_is_not_unknown() {
    let of = |verdicts: &[Verdict]| {
        let places: Vec<_> = verdicts.iter().map(|verdict| place(1, 9, *verdict, 0.0)).collect();
        worst(&places)
    };
    assert_eq!(of(&[Verdict::Unknown, Verdict::Steady]), Verdict::Steady);
    assert_eq!(of(&[Verdict::Steady, Verdict::Growing, Verdict::SoFar]), Verdict::Growing);
    assert_eq!((of(&[]), of(&[Verdict::Unknown])), (Verdict::Unknown, Verdict::Unknown));
}

#[test]
fn a_program_is_the_sum_of_its_processes_and_the_growing_ones_come_first() {
    let quiet = |pid| process(pid, "worker", vec![place(1, 50, Verdict::Steady, 0.0)]);
    let leaks = |pid, rate| {
        process(pid, "worker", vec![place(2, 30, Verdict::Growing, rate), place(1, 50, Verdict::Steady, 0.0)])
    };
    let ended = process(9, "worker", vec![place(2, 900, Verdict::Growing, 1e9)]).ended(true);
    let large = process(5, "large", vec![place(7, 5000, Verdict::Unknown, 0.0)]);
    let all = report(vec![quiet(1), leaks(2, 1e6), ended, leaks(3, 2e6), large, quiet(4)], ALL);
    assert_eq!(all.sums.processes, 5);
    assert_eq!((all.sums.ended, all.sums.growing_processes, all.sums.samples), (1, 2, 260 + 5000));
    let [worker, large] = &all.programs[..] else { panic!("{:?}", all.programs) };
    assert_eq!((&*worker.program, &*large.program), ("worker", "large"));
    assert_eq!((worker.allocations, worker.allocated_bytes), (100 + 4 * 5, 10_000 + 4 * 500));
    // Not that of one that has ended.
    assert_eq!(all.lost.events, 10 + 5);
    let pids: Vec<u32> = worker.processes.iter().map(|process| process.pid).collect();
    assert_eq!(pids, [3, 2, 1, 4, 9]);
    let [grows, steady] = &worker.places[..] else { panic!("{:?}", worker.places) };
    assert_eq!((grows.id, grows.grows_in, grows.processes, &grows.growing_pids[..]), (2, 2, 2, &[3, 2][..]));
    assert_eq!((grows.samples, grows.bytes_per_hour.value), (60, 3e6));
    assert_eq!((steady.id, steady.processes, steady.samples), (1, 4, 200));
    // The interval of the sum is that of all samples: half as wide as those of a quarter of them.
    let width = |estimate: Estimate| (estimate.high.unwrap() - estimate.low.unwrap()) / estimate.value;
    let ratio = width(sum(50).estimate(0.5)) / width(steady.live_bytes);
    assert!((1.7..2.3).contains(&ratio), "{ratio}");
}

/// RSS that grew by more than sampled blocks may hold, and by enough to be named.
#[test]
fn growth_outside_of_sampled_blocks_is_found() {
    const MB: u64 = 1_000_000;
    let with = |pid, rss, before| {
        process(pid, "worker", vec![place(1, 50, Verdict::Steady, 0.0)]).in_memory(Some(rss), Some(before))
    };
    let live = sum(50).estimate(0.5).high.unwrap() as u64;
    let ended = with(9, 900 * MB, MB).ended(false);
    let all = report(vec![with(1, 60 * MB, 10 * MB), with(2, 80 * MB, 10 * MB), with(3, 11 * MB, 10 * MB), ended], ALL);
    let grown = all.grown_elsewhere.expect("it grew");
    assert_eq!((grown.pid, grown.bytes, all.sums.processes_grown_elsewhere), (2, 70 * MB - live, 2));
    // What sampled blocks hold, and what was given back, is no such growth.
    let all = report(vec![with(1, 10 * MB + live, 10 * MB), with(2, MB, 10 * MB)], ALL);
    assert_eq!((all.grown_elsewhere, all.sums.processes_judged), (None, 2));
}

/// 300 MB that came in steps, in one process of two.
#[test]
fn growth_in_steps_is_counted_of_those_that_run() {
    let with = |pid, unsteady| {
        let one = process(pid, "worker", vec![place(1, 50, Verdict::Steady, 0.0)]);
        FleetProcess { places_grown_unsteadily: unsteady, ..one }
    };
    let all = report(vec![with(1, 3), with(2, 0), with(3, 1).ended(false)], ALL);
    assert_eq!(all.sums.processes_grown_unsteadily, 1);
}

#[test]
fn what_is_not_shown_is_summed_up() {
    let processes = (0..30).flat_map(|n| {
        let name = format!("p{}", n % 10);
        [
            process(2 * n, &name, vec![place(1, 20, Verdict::Unknown, 0.0)]),
            process(2 * n + 1, &name, Vec::new()).ended(false),
        ]
    });
    let limits = FleetLimits { programs: 4, processes: 2, places: 1 };
    let report = report(processes.collect(), limits);
    assert_eq!((report.programs.len(), report.programs_in_all), (4, 10));
    let hidden = report.programs_hidden.expect("six programs");
    assert_eq!((hidden.rows, hidden.sums.processes, hidden.sums.ended, hidden.sums.samples), (6, 18, 18, 360));
    let program = &report.programs[0];
    assert_eq!(program.processes.iter().filter(|process| process.running).count(), 2);
    let hidden = program.processes_hidden.as_ref().expect("one of each");
    assert_eq!((hidden.rows, hidden.sums.processes, hidden.sums.ended, program.processes.len()), (2, 1, 1, 4));
    assert_eq!((report.sums.processes, report.sums.samples), (30, 600));
}

#[test]
fn independent_estimates_add_up_as_deviations_do() {
    let one = Estimate { value: 100.0, low: Some(70.0), high: Some(140.0), samples: 5 };
    let sum = Estimate::sum(&[one; 4]);
    assert_eq!(sum, Estimate { value: 400.0, low: Some(340.0), high: Some(480.0), samples: 20 });
    assert_eq!(Estimate::sum(&[one, Estimate { low: None, ..one }]).low, None);
}
