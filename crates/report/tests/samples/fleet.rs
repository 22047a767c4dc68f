//! Sums over many processes and changes between two fleets: how often their intervals have the truth, and that files
//! carry them.

use mallow_formats::{pprof, read};
use mallow_profile::{
    Frame, FrameId, Line, Precision, Process, ProcessId, Profile, Sample, SampleEvent, SampleKey, StackId, Stacks,
};
use mallow_report::analysis::diff::{DiffOptions, Rules, diff};
use mallow_report::analysis::sampled::{Estimate, SampleLedger, Sum, snapshot};
use mallow_report::analysis::{Measure, Merger, TopOptions, top, total_estimates};
use proptest::prelude::*;

use mallow_estimates::testing::simulation::{Countdown, PERIOD, Random, sample};

/// The functions of sites, and main.
const NAMES: [&str; 4] = ["main", "leak", "parse", "cache"];

fn tables(pid: u32, sites: usize) -> Profile {
    let mut profile = Profile::default();
    for (number, name) in (0..).zip(&NAMES[..=sites]) {
        let lines = vec![Line { function: profile.strings.intern(name), file: None, line: 7 }];
        profile.frames.push(Frame { lines, ..Frame::new(None, 0x1000 * (number + 1), false) });
    }
    let main = profile.stacks.push(Stacks::ROOT, FrameId(0));
    for site in 0..sites as u32 {
        profile.stacks.push(main, FrameId(site + 1));
    }
    profile.processes.push(Process { pid, executable: "/bin/server".into(), ..Process::default() });
    profile
}

/// What mallow watches of one process, written and read again, and the live bytes of its sites.
fn watched(random: &mut Random, pid: u32, blocks: &[Vec<(u64, u64)>]) -> (Profile, Vec<Precision>) {
    let mut tables = tables(pid, blocks.len());
    let mut ledger = SampleLedger::new();
    let process = ProcessId(0);
    ledger.feed(&SampleEvent::ProcessBegan { process, at_ns: 1 });
    let mut countdown = Countdown::new(random, PERIOD);
    let (mut slot, mut sites) = (0, Vec::new());
    for (site, sizes) in (0..).zip(blocks) {
        // Below it are the two roots and main.
        let stack = StackId(3 + site);
        let mut sum = Sum::default();
        for &(size, count) in sizes {
            countdown.allocate_many(random, size, count, |_| {
                slot += 1;
                let key = SampleKey { process, slot, generation: 1 };
                let sample = Sample { at_ns: 2, stack, ..sample(size, PERIOD) };
                ledger.feed(&SampleEvent::Allocated { key, sample });
                sum.add_bytes(&sample);
            });
        }
        sites.push(sum.precision(sum.value().round() as u64));
    }
    ledger.advance(1_000_000_000);
    tables.started_unix_ms = random.word() >> 24;
    let profile = snapshot(&ledger, &tables, 1_000_000_000, tables.started_unix_ms);
    (written_and_read(&profile), sites)
}

fn written_and_read(profile: &Profile) -> Profile {
    let mut file = Vec::new();
    pprof::write(profile, &mut file).expect("a profile");
    let read = read(&file[..], None, &mut |_| {}).expect("a profile").profile;
    assert_eq!(read.check(), Ok(()));
    read
}

#[derive(Default)]
struct Coverage {
    shown: u32,
    below: u32,
    above: u32,
    sum: f64,
    rounds: u32,
}

impl Coverage {
    fn add(&mut self, estimate: Option<Estimate>, truth: f64) {
        self.rounds += 1;
        let Some(estimate) = estimate else { return };
        self.sum += estimate.value;
        let Some((low, high)) = estimate.interval() else { return };
        self.shown += 1;
        self.below += u32::from(high < truth);
        self.above += u32::from(low > truth);
    }

    fn covered(&self) -> f64 {
        100.0 * (1.0 - f64::from(self.below + self.above) / f64::from(self.shown))
    }

    /// Between 93 and 97 in a hundred, of enough of them.
    fn check(&self, what: &str, truth: f64) {
        println!(
            "{what:<30} shown {:>4} of {:>4}, covered {:.2} %, below {:>3}, above {:>3}, mean {:.4e}, truth {truth:.4e}",
            self.shown,
            self.rounds,
            self.covered(),
            self.below,
            self.above,
            self.sum / f64::from(self.rounds)
        );
        assert!(self.shown * 10 >= self.rounds * 9, "{what}: shown {} of {}", self.shown, self.rounds);
        assert!((93.0..=97.0).contains(&self.covered()), "{what}: {} %", self.covered());
    }
}

/// A site by its live bytes.
fn by_site(profile: &Profile, name: &str) -> Option<Estimate> {
    let options = TopOptions { by: Measure::Live, cum: false, raw: true, limit: usize::MAX };
    top(profile, options).functions.into_iter().find(|row| row.function == name)?.self_estimate
}

const PROCESSES: u32 = 40;

/// The blocks of each of forty processes at three sites. Of the second a process has one sample in two on average: none
/// of them has an interval alone.
fn blocks(number: u32) -> Vec<Vec<(u64, u64)>> {
    let more = u64::from(number % 5);
    vec![vec![(1000, 1500 + 500 * more), (90_000, 4 + more)], vec![(200, 1300)], vec![(3 * PERIOD, 2)]]
}

fn bytes(blocks: impl IntoIterator<Item = (u64, u64)>) -> f64 {
    blocks.into_iter().map(|(size, count)| (size * count) as f64).sum()
}

/// What files carry is what the samples say.
#[test]
fn a_merged_file_has_the_intervals_of_all_samples() {
    let mut random = Random(20);
    for _ in 0..8 {
        let mut merger = Merger::default();
        let mut sums = [Precision::default(); 3];
        for number in 0..PROCESSES {
            // All containers have a process 1.
            let (profile, sites) = watched(&mut random, 1, &blocks(number));
            sums.iter_mut().zip(sites).for_each(|(sum, site)| *sum += site);
            merger.add(&format!("host {number}"), &profile);
        }
        let merged = written_and_read(&merger.finish().profile);
        let all = sums.into_iter().reduce(|mut all, sum| {
            all += sum;
            all
        });
        let shown = NAMES[1..].iter().map(|name| by_site(&merged, name)).zip(sums);
        let total = total_estimates(&merged).and_then(|all| all.live_bytes);
        for (shown, sum) in shown.chain([(total, all.expect("sites"))]) {
            let shown = shown.expect("its precision is known");
            assert_eq!((shown.value, shown.samples), (sum.value, sum.samples as u64));
            let (low, high) = shown.interval().expect("many samples");
            // The draw between two whole numbers of samples is the file's.
            let limits = [0.0, 1.0].map(|draw| Estimate::of(&sum, draw).interval().expect("many samples"));
            let (lows, highs) = (limits.map(|limits| limits.0), limits.map(|limits| limits.1));
            let within = |of: f64, [one, other]: [f64; 2]| one.min(other) * 0.999 <= of && of <= one.max(other) * 1.001;
            assert!(within(low, lows) && within(high, highs), "{shown:?} {limits:?}");
        }
        // The same through a change, beside a profile that was counted.
        let options = DiffOptions {
            by: Measure::Live,
            rules: Rules::ALL,
            min: 0,
            limit: 0,
            any_measure: false,
            places: usize::MAX,
        };
        let found = diff(&merged, &merged, options);
        let total = found.totals.iter().find(|total| total.by == Measure::Live).expect("the measure");
        assert!(total.estimate.is_some_and(|change| change.value == 0.0 && change.may_be_zero()), "{total:?}");
        // Numbers whose samples nobody knows have no interval, and neither has a sum with them.
        let mut unknown = merged.clone();
        unknown.sites.iter_mut().for_each(|site| site.precisions = None);
        let mut merger = Merger::default();
        merger.add("known", &merged);
        merger.add("unknown", &unknown);
        assert_eq!(total_estimates(&written_and_read(&merger.finish().profile)), None);
    }
}

/// A recording counts what it has: beside it, the interval is as wide as before.
#[test]
fn what_was_counted_adds_no_uncertainty() {
    let mut random = Random(23);
    let (sampled, _) = watched(&mut random, 1, &[vec![(1000, 20_000)]]);
    let mut counted = sampled.clone();
    counted.origin = None;
    counted.sites.iter_mut().for_each(|site| site.precisions = None);
    let interval = |profile: &Profile| {
        let bytes = total_estimates(profile).and_then(|all| all.live_bytes).expect("it is known");
        (bytes.value, bytes.interval().expect("samples"))
    };
    let (value, (low, high)) = interval(&sampled);
    for order in [[&sampled, &counted], [&counted, &sampled]] {
        let mut merger = Merger::default();
        order.iter().zip(["a", "b"]).for_each(|(profile, name)| merger.add(name, profile));
        let (sum, (sum_low, sum_high)) = interval(&written_and_read(&merger.finish().profile));
        assert_eq!(sum, 2.0 * value);
        assert!((sum_low - value - low).abs() < 0.05 * (high - low), "{sum_low} {low}");
        assert!((sum_high - value - high).abs() < 0.05 * (high - low), "{sum_high} {high}");
    }
}

const ROUNDS: u32 = 4000;

/// The samples of a site over processes, where each counts its bytes down by itself.
fn site_of(random: &mut Random, processes: u32, blocks: impl Fn(u32) -> Vec<(u64, u64)>) -> Precision {
    let mut all = Precision::default();
    for number in 0..processes {
        let mut countdown = Countdown::new(random, PERIOD);
        let mut sum = Sum::default();
        for (size, count) in blocks(number) {
            countdown.allocate_many(random, size, count, |_| sum.add_bytes(&sample(size, PERIOD)));
        }
        all += sum.precision(sum.value().round() as u64);
    }
    all
}

#[test]
fn live_bytes_of_a_site_over_forty_processes_have_intervals_that_cover() {
    let mut random = Random(21);
    for (site, what) in ["two sizes, in 40 processes", "0.5 samples a process", "3 periods each"].iter().enumerate() {
        let truth = bytes((0..PROCESSES).flat_map(|number| blocks(number)[site].clone()));
        let mut coverage = Coverage::default();
        for _ in 0..ROUNDS {
            let sum = site_of(&mut random, PROCESSES, |number| blocks(number)[site].clone());
            coverage.add(Some(Estimate::of(&sum, random.unit())), truth);
        }
        coverage.check(what, truth);
    }
}

/// What is called a significant change though nothing changed is no more than one in twenty.
#[test]
fn changes_have_intervals_that_cover_and_chance_is_not_significant() {
    let mut random = Random(22);
    type Case<'a> = (&'a str, [(u32, u64, u64); 2]);
    let cases: [Case<'_>; 7] = [
        ("no change", [(3, 1000, 8000), (4, 1000, 6000)]),
        ("no change, of few samples", [(3, 1000, 2000), (4, 1000, 1500)]),
        ("no change, of larger blocks", [(3, PERIOD / 2, 20), (4, PERIOD / 2, 15)]),
        ("twice as much", [(3, 700, 9000), (4, 700, 13_500)]),
        ("new", [(3, 5000, 0), (4, 5000, 800)]),
        ("a third less", [(3, 64, 60_000), (4, 64, 30_000)]),
        ("forty processes each", [(40, 1000, 3000), (40, 1000, 3100)]),
    ];
    for (what, sides) in cases {
        let of = |(processes, size, count): (u32, u64, u64)| bytes([(size, u64::from(processes) * count)]);
        let truth = of(sides[1]) - of(sides[0]);
        let mut coverage = Coverage::default();
        for _ in 0..ROUNDS {
            let [before, after] =
                sides.map(|(processes, size, count)| site_of(&mut random, processes, |_| vec![(size, count)]));
            coverage.add(Some(Estimate::of_change(&before, &after, random.unit())), truth);
        }
        coverage.check(what, truth);
    }
}

proptest! {
    /// Files may say anything.
    #[test]
    fn nonsense_has_limits_or_none(numbers in proptest::array::uniform16(number()), draw in 0.0..1.0f64) {
        let [before, after] = [&numbers[..8], &numbers[8..]].map(|of| Precision {
            value: of[0],
            samples: of[1],
            seen: of[2],
            missed: of[3],
            variance: of[4],
            third: of[5],
            common: of[6],
            heaviest: of[7],
        });
        for estimate in [Estimate::of(&before, draw), Estimate::of_change(&before, &after, draw)] {
            if let Some((low, high)) = estimate.interval() {
                prop_assert!(low <= high || low.is_nan() || high.is_nan(), "{:?}", estimate);
            }
        }
    }
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(1.0), Just(1e-9), 0.0..1e6f64, 1e6..1e18f64, Just(1e36), Just(f64::INFINITY)]
}
