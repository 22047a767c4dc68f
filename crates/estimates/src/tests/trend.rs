//! Whether what is said of growth holds: how often the interval has the true rate in it, and whether the verdict says
//! the same.

use crate::{Growth, Verdict};
use mallow_profile::StackId;

use crate::testing::server::{EVEN, Habit, LEAK, Life, Lifetime, Load, MEBIBYTE, SECOND, Server, habit};

/// When reports are made, in seconds.
const LOOKS: [u64; 5] = [40, 80, 122, 300, 600];
const CACHE: u32 = 30;

/// Of one program: a row a look, and contradictions.
type Outcome = ([Row; LOOKS.len()], Vec<String>);

/// What was said at one of the looks, over all runs.
#[derive(Clone, Copy, Default)]
struct Row {
    shown: u32,
    covered: u32,
    /// By verdict.
    said: [u32; VERDICTS.len()],
    /// Shown because they grow, and of these covered.
    growing: u32,
    growing_covered: u32,
}

const VERDICTS: [&str; 8] = ["unknown", "steady", "shrinking", "undecided", "uneven", "slowing", "so far", "growing"];

impl Row {
    fn add(&mut self, growth: &Growth, rate: f64) {
        self.said[growth.verdict as usize] += 1;
        let Some((low, high)) = growth.bytes_per_hour.interval() else { return };
        let covered = u32::from((low..=high).contains(&rate));
        self.shown += 1;
        self.covered += covered;
        if growth.verdict >= Verdict::SoFar {
            self.growing += 1;
            self.growing_covered += covered;
        }
    }
}

/// Verdict and interval say the same.
fn contradiction(growth: &Growth) -> Option<String> {
    let (low, high) = growth.bytes_per_hour.interval()?;
    let wrong = match growth.verdict {
        Verdict::Steady => low > 0.0 || high < 0.0,
        Verdict::SoFar | Verdict::Growing => low <= 0.0,
        Verdict::Shrinking => high >= 0.0,
        Verdict::Undecided => low <= 0.0 && high >= 0.0,
        _ => false,
    };
    wrong.then(|| format!("{:?} {:?}", growth.verdict, growth.bytes_per_hour))
}

struct Program {
    name: &'static str,
    habits: Vec<Habit>,
    period: u64,
    load: Load,
    /// The site that is looked at, and its true rate in bytes per hour.
    site: u32,
    rate: f64,
    /// From which look on: until then the site still fills.
    from: u64,
}

/// The mean load while the blocks were allocated that settled in the time that is looked at.
fn mean_load(load: Load, seconds: u64) -> f64 {
    // As the shortest clock has it, whose buckets become twice as wide when there are 24 of them.
    let width = (0..7).map(|doubled| 1 << doubled).find(|width| seconds < 24 * width).expect("it did not slide yet");
    let to = seconds / width;
    let from = to - 3 * (to / 4);
    let steps = 1000;
    let at =
        |step: u64| ((from - 1) * width) as f64 + (step as f64 + 0.5) / steps as f64 * ((to - from) * width) as f64;
    (0..steps).map(|step| load(at(step))).sum::<f64>() / steps as f64
}

/// All looks, and what contradicts itself.
fn run(program: &Program, runs: u64) -> ([Row; LOOKS.len()], Vec<String>) {
    let (mut rows, mut wrong) = ([Row::default(); LOOKS.len()], Vec::new());
    for seed in 0..runs {
        let mut server = Server::with_period(seed * 7919 + 13, &program.habits, program.period);
        (server.load, server.tick_ns) = (program.load, SECOND / 10);
        for (row, seconds) in rows.iter_mut().zip(LOOKS) {
            server.run_until(seconds);
            let mut sites: Vec<u32> = program.habits.iter().map(|habit| habit.stack).collect();
            sites.dedup();
            for site in sites {
                let growth = server.ledger.site(&[StackId(site)]).growth;
                if site == program.site {
                    row.add(&growth, program.rate * mean_load(program.load, seconds));
                }
                wrong.extend(contradiction(&growth).map(|said| format!("{} after {seconds} s: {said}", program.name)));
            }
        }
    }
    (rows, wrong)
}

fn programs() -> Vec<Program> {
    const KIB: u64 = 1 << 10;
    let cache = |size, mib: f64, lifetime| habit(CACHE, size, mib * MEBIBYTE, Life::Cache(lifetime));
    let steady = |name, period, size, mib, lifetime| Program {
        name,
        habits: vec![cache(size, mib, lifetime)],
        period,
        load: EVEN,
        site: CACHE,
        rate: 0.0,
        from: 0,
    };
    // 36 MB/h among other traffic.
    let leak = habit(LEAK, 100, 1e4, Life::Forever);
    let traffic = habit(12, 30_000, 2.0 * MEBIBYTE, Life::Short(1.0));
    let leaking = |name, period, more: &[Habit]| Program {
        name,
        habits: [more, &[leak, traffic]].concat(),
        period,
        load: EVEN,
        site: LEAK,
        rate: 36e6,
        from: 0,
    };
    let sessions = habit(13, 4000, 0.5 * MEBIBYTE, Life::Short(20.0));
    let doubles: Load = |seconds| if seconds < 150.0 { 1.0 } else { 2.0 };
    use Lifetime::{Exponential, Fixed, Lognormal};
    vec![
        steady("cache, 1 kB blocks", 64 * KIB, 1000, 8.0, Exponential(4.0)),
        steady("cache, 16 KiB blocks", 64 * KIB, 16 * KIB, 8.0, Exponential(4.0)),
        steady("cache, 64 KiB blocks", 64 * KIB, 64 * KIB, 8.0, Exponential(4.0)),
        steady("cache, 256 KiB blocks", 64 * KIB, 256 * KIB, 32.0, Exponential(4.0)),
        steady("cache, 16 KiB, fixed lifetimes", 64 * KIB, 16 * KIB, 8.0, Fixed(4.0)),
        steady("cache, 16 KiB, lognormal", 64 * KIB, 16 * KIB, 8.0, Lognormal(4.0)),
        steady("cache, 64 KiB, lognormal", 64 * KIB, 64 * KIB, 8.0, Lognormal(4.0)),
        steady("cache, 64 KiB, 512 KiB period", 512 * KIB, 64 * KIB, 64.0, Exponential(4.0)),
        leaking("leak of 36 MB/h", 64 * KIB, &[]),
        leaking("leak of 36 MB/h, 512 KiB period", 512 * KIB, &[]),
        leaking("leak of 36 MB/h, sessions", 64 * KIB, &[sessions]),
        Program { load: doubles, ..leaking("leak, load doubles", 64 * KIB, &[sessions]) },
        Program { site: 12, rate: 0.0, ..leaking("traffic beside the leak", 64 * KIB, &[]) },
        Program { site: 13, rate: 0.0, from: 300, ..leaking("sessions beside the leak", 64 * KIB, &[sessions]) },
        leaking(
            "leak beside a cache on its stack",
            64 * KIB,
            &[Habit { stack: LEAK, ..cache(16 * KIB, 1.0, Exponential(4.0)) }],
        ),
    ]
}

/// How often the truth was within what was shown.
#[derive(Clone, Copy, Default)]
struct Pool {
    shown: u32,
    covered: u32,
}

impl Pool {
    fn add(&mut self, shown: u32, covered: u32) {
        self.shown += shown;
        self.covered += covered;
    }

    fn percent(&self) -> f64 {
        100.0 * f64::from(self.covered) / f64::from(self.shown.max(1))
    }

    /// Not below 95 in a hundred by more than three standard errors.
    fn holds(&self) -> bool {
        let error = 100.0 * (0.95 * 0.05 / f64::from(self.shown.max(1))).sqrt();
        self.shown == 0 || self.percent() >= 95.0 - 3.0 * error
    }
}

impl std::fmt::Display for Pool {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{:.1} % of {}", self.percent(), self.shown)
    }
}

/// Runs all programs and prints a table. What does not hold.
pub fn measure(runs: u64) -> Vec<String> {
    let programs = programs();
    let mut all: Vec<(usize, Outcome)> = std::thread::scope(|scope| {
        let work = |worker: usize| {
            let programs = &programs;
            scope.spawn(move || {
                let mine = (worker..programs.len()).step_by(2);
                mine.map(|at| (at, run(&programs[at], runs))).collect::<Vec<_>>()
            })
        };
        let workers = [0, 1].map(work);
        workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
    });
    all.sort_by_key(|(at, _)| *at);
    let (mut wrong, mut of_all, mut of_growing) = (Vec::new(), Pool::default(), Pool::default());
    println!("{:<36} {:>5} {:>6} {:>8}  {:<14} {VERDICTS:?}", "", "s", "shown", "covered", "of growing");
    for (at, (rows, contradictions)) in all {
        let program = &programs[at];
        let mut of_program = Pool::default();
        for (row, seconds) in rows.iter().zip(LOOKS) {
            let percent = 100.0 * f64::from(row.covered) / f64::from(row.shown.max(1));
            let growing = format!("{}/{}", row.growing_covered, row.growing);
            println!("{:<36} {seconds:>5} {:>6} {percent:>8.1}  {growing:<14} {:?}", program.name, row.shown, row.said);
            if seconds >= program.from {
                of_program.add(row.shown, row.covered);
                of_growing.add(row.growing, row.growing_covered);
            }
        }
        of_all.add(of_program.shown, of_program.covered);
        if !of_program.holds() {
            wrong.push(format!("{}: covered {of_program}", program.name));
        }
        wrong.extend(contradictions);
    }
    println!("covered: {of_all}; of those called growing or growing so far: {of_growing}");
    if !of_all.holds() || !of_growing.holds() {
        wrong.push(format!("covered {of_all}, of what grows {of_growing}"));
    }
    wrong
}

#[test]
fn verdict_and_interval_of_growth_say_the_same_and_the_interval_covers() {
    let wrong = measure(20);
    assert!(wrong.is_empty(), "{} faults, such as {:#?}", wrong.len(), &wrong[..wrong.len().min(9)]);
}
