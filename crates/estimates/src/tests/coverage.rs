//! How often intervals cover the truth, measured: each program is run thousands of times, and each of its bytes counted
//! down.

use crate::testing::simulation::{Countdown, PERIOD, Random, sample};
use crate::{Estimate, Sum};

const RUNS: u32 = 5000;

/// Some allocations of one size in a row.
#[derive(Clone, Copy)]
struct Batch {
    thread: usize,
    site: usize,
    size: u64,
    count: u64,
    period: u64,
}

const fn batch(site: usize, size: u64, count: u64) -> Batch {
    Batch { thread: 0, site, size, count, period: PERIOD }
}

struct Program {
    name: String,
    /// Every third block stays live, counted from a quarter of the number of its batch on.
    batches: Vec<Batch>,
}

/// What is estimated of each site.
const WORDS: [&str; 3] = ["bytes", "live bytes", "count"];

#[derive(Clone, Copy, Default)]
struct Row {
    shown: u32,
    known: u32,
    not_known: u32,
    below: u32,
    above: u32,
    truth: f64,
    sum: f64,
    squares: f64,
}

impl Row {
    /// `counted` is what the interval is for.
    fn add(&mut self, estimate: Estimate, truth: f64, counted: f64, slack: f64) {
        self.truth = truth;
        self.sum += estimate.value;
        self.squares += (estimate.value - truth) * (estimate.value - truth);
        let Some((low, high)) = estimate.interval() else { return };
        if low == high {
            self.known += 1;
            self.not_known += u32::from((low - counted).abs() > slack);
            return;
        }
        self.shown += 1;
        self.below += u32::from(high < counted);
        self.above += u32::from(low > counted);
    }

    /// Percent of the intervals shown.
    fn covered(&self) -> f64 {
        100.0 * (1.0 - f64::from(self.below + self.above) / f64::from(self.shown))
    }

    /// How far the mean estimate is from the truth, in percent of the truth, and its standard error.
    fn bias(&self) -> (f64, f64) {
        let runs = f64::from(RUNS);
        let of_truth = |x: f64| 100.0 * x / self.truth;
        (of_truth(self.sum / runs - self.truth), of_truth((self.squares / runs).sqrt() / runs.sqrt()))
    }
}

/// Runs a program and estimates, again and again.
fn measure(program: &Program, random: &mut Random) -> Vec<[Row; 3]> {
    let sites = 1 + program.batches.iter().map(|b| b.site).max().expect("a batch");
    let threads = 1 + program.batches.iter().map(|b| b.thread).max().expect("a batch");
    let mut rows = vec![[Row::default(); 3]; sites];
    let mut live_bytes = vec![0; sites];
    for (number, b) in (0..).zip(&program.batches) {
        live_bytes[b.site] += b.size * (0..b.count).filter(|index| (number / 4 + index) % 3 == 0).count() as u64;
    }
    for _ in 0..RUNS {
        let mut countdowns: Vec<Option<Countdown>> = (0..threads).map(|_| None).collect();
        let mut sums = vec![[Sum::default(); 3]; sites];
        let mut smallest = vec![u64::MAX; sites];
        for (number, b) in (0u64..).zip(&program.batches) {
            let countdown = &mut countdowns[b.thread];
            if countdown.as_ref().is_none_or(|c| c.period != b.period) {
                *countdown = Some(Countdown::new(random, b.period));
            }
            let countdown = countdown.as_mut().expect("made above");
            let ([bytes, live, count], s) = (&mut sums[b.site], sample(b.size, b.period));
            countdown.allocate_many(random, b.size, b.count, |index| {
                bytes.add_bytes(&s);
                count.add_count(&s);
                if (number / 4 + index).is_multiple_of(3) {
                    live.add_bytes(&s);
                }
                smallest[b.site] = smallest[b.site].min(b.size);
            });
        }
        for (site, (rows, sums)) in rows.iter_mut().zip(&sums).enumerate() {
            let of = program.batches.iter().filter(|b| b.site == site);
            let bytes: u64 = of.clone().map(|b| b.size * b.count).sum();
            let live = live_bytes[site];
            let count: u64 = of.clone().map(|b| b.count).sum();
            let counted: u64 = of.filter(|b| b.size >= smallest[site]).map(|b| b.count).sum();
            let draw = random.unit();
            let [a, b, c] = sums.map(|sum| sum.estimate(draw));
            // What is known may lack blocks that are too small to be picked within three periods.
            rows[0].add(a, bytes as f64, bytes as f64, 3.0 * PERIOD as f64);
            rows[1].add(b, live as f64, live as f64, 3.0 * PERIOD as f64);
            rows[2].add(c, count as f64, counted as f64, 0.5);
        }
    }
    rows
}

/// Sizes that are as often in each octave.
fn octaves(random: &mut Random, from: f64, octaves: f64, count: usize) -> Vec<u64> {
    (0..count).map(|_| (from * (octaves * random.unit()).exp2()) as u64).collect()
}

fn programs() -> Vec<Program> {
    let mut all = Vec::new();
    let mut program = |name: String, batches| all.push(Program { name, batches });
    for (size, expected) in [(1, 6), (1, 9), (100, 12), (100, 20), (16 << 10, 40), (100, 400), (24, 1500)] {
        let batches = vec![batch(0, size, expected * PERIOD / size)];
        program(format!("{size} B each, {expected} picked on average"), batches);
    }
    let large = [(PERIOD / 4, 40), (PERIOD, 12), (PERIOD, 60), (2 * PERIOD, 100), (5 * PERIOD, 60), (5 * PERIOD, 400)];
    for (size, count) in large.into_iter().chain([(1 << 30, 50)]) {
        program(format!("{count} of {} KiB each", size >> 10), vec![batch(0, size, count)]);
    }
    for (tiny, huge, count) in
        [(64 << 10, 1 << 30, 120), (16, 1 << 30, 500), (64 << 10, 1 << 20, 120), (16, 1 << 20, 300)]
    {
        let batches = (0..count).flat_map(|_| [batch(0, tiny, 1), batch(0, huge, 1)]).collect();
        program(format!("{tiny} B and {} MiB in turn", huge >> 20), batches);
    }
    let mut random = Random(1);
    let sizes = octaves(&mut random, 1.0, 30.0, 600);
    program("1 B to 1 GiB, as often in each octave".into(), sizes.iter().map(|&size| batch(0, size, 1)).collect());
    let sizes = octaves(&mut random, 1.0, 30.0, 300);
    let batches = sizes.iter().map(|&size| batch(0, size, (PERIOD / 8).div_ceil(size))).collect();
    program("1 B to 1 GiB, as many bytes in each octave".into(), batches);
    for picked in [15, 100] {
        let sizes = octaves(&mut random, 16.0, 8.0, 40);
        let batches = sizes.iter().map(|&size| batch(0, size, picked * PERIOD / 40 / size)).collect();
        program(format!("16 B to 4 KiB, {picked} picked on average"), batches);
    }
    // Each site has a size, and all take turns.
    let sites = [(24, 12), (48, 30), (4000, 10), (70_000, 25), (300_000, 15), (900_000, 30)];
    let turns = (0..50).flat_map(|turn| {
        let of = |(site, (size, picked)): (usize, (u64, u64))| {
            let count = picked * PERIOD / size;
            batch(site, size, count / 50 + u64::from(count % 50 > turn))
        };
        sites.into_iter().enumerate().map(of).collect::<Vec<_>>()
    });
    program("a size for each site".into(), turns.collect());
    for (threads, size) in [(400, 32 << 10), (60, 400_000)] {
        let batches = (0..threads).map(|thread| Batch { thread, ..batch(0, size, 1) }).collect();
        program(format!("{threads} threads allocate {size} B once"), batches);
    }
    let longer = Batch { period: 4 * PERIOD, ..batch(0, 1000, 60 * PERIOD / 1000) };
    program("a period, and then four times that".into(), vec![batch(0, 1000, 10 * PERIOD / 1000), longer]);
    all
}

/// The rows of all programs. Each has random numbers of its own, so that one more program changes none of the others.
fn measured() -> Vec<(String, Row)> {
    let programs = programs();
    let workers: Vec<Vec<usize>> = (0..2).map(|w| (w..programs.len()).step_by(2).collect()).collect();
    let mut rows: Vec<(usize, Vec<[Row; 3]>)> = std::thread::scope(|scope| {
        let run = |indices: Vec<usize>| {
            let programs = &programs;
            scope.spawn(move || {
                let measure = |index: usize| (index, measure(&programs[index], &mut Random(index as u64 * 1_000_003)));
                indices.into_iter().map(measure).collect::<Vec<_>>()
            })
        };
        let handles: Vec<_> = workers.into_iter().map(run).collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("no panic")).collect()
    });
    rows.sort_by_key(|(index, _)| *index);
    let mut named = Vec::new();
    for (index, sites) in rows {
        for (site, rows) in sites.iter().enumerate() {
            let site = if sites.len() > 1 { format!(" {}", site + 1) } else { String::new() };
            let name = |word: &str| format!("{}{site}: {word}", programs[index].name);
            named.extend(WORDS.iter().zip(rows).map(|(word, row)| (name(word), *row)));
        }
    }
    named
}

#[test]
fn estimates_are_unbiased_and_intervals_cover_95_in_a_hundred() {
    println!("{:<62} {:>7} {:>6} {:>6} {:>8} {:>6} {:>6}", "", "bias %", "shown", "known", "covered", "below", "above");
    let mut faults = Vec::new();
    for (name, row) in measured() {
        let percent = |n: u32| 100.0 * f64::from(n) / f64::from(RUNS);
        let (bias, error) = row.bias();
        let covered = if row.shown > 0 { format!("{:.1}", row.covered()) } else { "-".into() };
        let (below, above) = (percent(row.below), percent(row.above));
        let (shown, known) = (percent(row.shown), percent(row.known));
        println!("{name:<62} {bias:>7.2} {shown:>6.1} {known:>6.1} {covered:>8} {below:>6.1} {above:>6.1}");
        if bias.abs() > 4.0 * error {
            faults.push(format!("{name}: {bias:.2} % of bias"));
        }
        // The fewer are shown, the less sure is what was measured: three standard errors more.
        let noise = 300.0 * (0.95f64 * 0.05 / f64::from(row.shown.max(1))).sqrt();
        let band = if row.shown > RUNS / 2 { 1.0 } else { noise.max(1.0) };
        if row.shown > RUNS / 100 && (row.covered() - 95.0).abs() > band {
            faults.push(format!("{name}: {covered} % covered"));
        }
        if row.not_known * 20 > RUNS {
            faults.push(format!("{name}: {} of {RUNS} are not what was known", row.not_known));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
