//! Counting each allocation of a benchmark, until that explains what the benchmark says of itself.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use mallow_formats as formats;
use mallow_golang::join::{self, Allocation, Listed, OperationSums, Runs};
use mallow_golang::results::Benchmark;
use mallow_golang::tool::{ExactRun, Go, Profiled, TestBinary};
use mallow_profile::Profile;
use mallow_symbols::TINY;

use super::program_source::ProgramSource;

/// Operations whose allocations are saved: what happens once in a thousand of them is still there.
const SAVED: u64 = 1000;
/// Whether each round collects garbage: where the counts do not explain the benchmark's figures, they are taken again.
/// What is in pools is made anew after a collection, and a pool gives what was put into it on the same processor alone.
const ROUNDS: [bool; 3] = [true, false, true];

pub struct CountedBenchmark {
    /// Allocations of each line, by operation.
    pub allocations: Vec<Allocation>,
    /// Set-up, divided by the operations of the undisturbed run.
    pub setup: Vec<Allocation>,
    /// Sums of `allocations` and `setup` that no line leads to.
    pub nowhere: OperationSums,
    /// Number of operations that were counted.
    pub operations: u64,
    /// Bytes that small objects save by sharing blocks, taken off the lines that allocate these. None where the program
    /// whose allocations are all seen could not be made.
    pub shared_bytes: Option<f64>,
    /// Profile of [`SAVED`] operations.
    pub profile: Profile,
}

/// Counts the allocations of a benchmark. `program` is the one whose allocations are all seen.
pub fn count(
    go: &Go,
    binary: &TestBinary,
    program: &Path,
    benchmark: &Benchmark,
    own: &ProgramSource,
) -> Result<CountedBenchmark> {
    let says = BenchmarkFigures::of(benchmark);
    let mut nearest: Option<(Split, Profile, Profile, u64)> = None;
    for collecting in ROUNDS {
        let run = go.exact(binary, program, benchmark, collecting)?;
        let (few, many) = (profile(&run.few)?, profile(&run.many)?);
        let operations = run.many.operations - run.few.operations;
        let mut split = Split { each: join::each(&few, &many, operations, own), setup: Listed::default() };
        says.decide_timing(&mut split);
        if !says.is(&split) {
            let before = go.before(binary, program, benchmark, collecting, &run)?;
            split = says.nearest(split, with_setup(&before, (&few, &many), &run, &says, own)?);
        }
        if nearest.as_ref().is_none_or(|(nearest, ..)| says.off(&split) < says.off(nearest)) {
            nearest = Some((split, few, many, operations));
        }
        if nearest.as_ref().is_some_and(|(nearest, ..)| says.is_near(nearest)) {
            break;
        }
    }
    let (split, few, mut many, operations) = nearest.context("it was not counted")?;
    join::difference(&few, &mut many, operations, SAVED);
    let nowhere = split.each.nowhere.plus(split.setup.nowhere);
    let (mut allocations, setup) = (split.each.allocations, split.setup.allocations);
    let shared_bytes = match program == binary.path {
        true => None,
        false => Some(share(go, binary, benchmark, own, &mut allocations)?),
    };
    Ok(CountedBenchmark { allocations, setup, nowhere, operations, shared_bytes, profile: many })
}

/// Takes what small objects save by sharing blocks off the lines that allocate them, in equal parts as far as their
/// sizes are not known, and says how much it is by operation. It is measured: the unchanged program has a block in its
/// profile once, where its first object is allocated.
fn share(
    go: &Go,
    binary: &TestBinary,
    benchmark: &Benchmark,
    own: &ProgramSource,
    lines: &mut [Allocation],
) -> Result<f64> {
    if !lines.iter().any(may_share) {
        return Ok(0.0);
    }
    let run = go.exact(binary, &binary.path, benchmark, true)?;
    let (few, many) = (profile(&run.few)?, profile(&run.many)?);
    let blocks = join::each(&few, &many, run.many.operations - run.few.operations, own);
    let key = |allocation: &Allocation| (allocation.address, allocation.part);
    let mut small: HashMap<_, f64> = HashMap::new();
    for allocation in &blocks.allocations {
        *small.entry(key(allocation)).or_default() += allocation.small;
    }
    let saved = |line: &Allocation| line.small - small.get(&key(line)).copied().unwrap_or_default();
    Ok(take_off(lines, |line| BLOCK * saved(line)))
}

/// Bytes of a block that small objects share.
const BLOCK: f64 = TINY as f64;

/// Some of its objects may share blocks with others: they have no pointers, and blocks of the size that is shared. An
/// object of that size fills its block alone.
fn may_share(line: &Allocation) -> bool {
    let Some(call) = &line.call else { return false };
    let plain = call.of.as_ref().is_none_or(|of| !of.pointers) && call.callee != "runtime.convTstring";
    plain && call.size().is_none_or(|size| size < TINY) && line.small > 0.0
}

/// Takes what is saved in all off the lines that may share blocks; says how much that is. `saved` is by line: a block
/// counts where its first object is allocated, so that lines that save nothing may be those of the first ones.
fn take_off(lines: &mut [Allocation], saved: impl Fn(&Allocation) -> f64) -> f64 {
    /// Runs differ by so small a part of what a line allocates.
    const CHANCE: f64 = 1e-3;
    let all: f64 = lines.iter().filter(|line| may_share(line)).map(&saved).sum::<f64>().max(0.0);
    let size = |line: &Allocation| line.call.as_ref().and_then(|call| call.size());
    // What its objects have at least; the empty one has no block.
    let least = |line: &Allocation| size(line).unwrap_or(1) as f64;
    // One whose size is not known and that saves nothing may be as large as a block, if the others can have saved it
    // all.
    let sure = |line: &Allocation| size(line).is_some() || saved(line) > CHANCE * BLOCK * line.small;
    let most = |line: &Allocation| line.small * (BLOCK - least(line));
    let of_sure: f64 = lines.iter().filter(|line| may_share(line) && sure(line)).map(most).sum();
    let enough = of_sure * (1.0 + CHANCE) >= all;
    let taking: Vec<usize> =
        (0..lines.len()).filter(|&at| may_share(&lines[at]) && (!enough || sure(&lines[at]))).collect();
    // Each object has the same, but no less than its size.
    let each = |level: f64, line: &Allocation| line.small * (BLOCK - least(line).max(level));
    let (mut low, mut high) = (0.0, BLOCK);
    for _ in 0..64 {
        let level = f64::midpoint(low, high);
        let taken: f64 = taking.iter().map(|&at| each(level, &lines[at])).sum();
        if taken > all { low = level } else { high = level }
    }
    let mut taken = 0.0;
    for at in taking {
        let line = &mut lines[at];
        line.shared = each(high, line);
        line.bytes -= line.shared;
        taken += line.shared;
    }
    taken
}

/// Allocations by operation, and set-up divided by the operations of the undisturbed run.
struct Split {
    each: Listed,
    setup: Listed,
}

impl Split {
    fn sum(&self) -> OperationSums {
        self.each.sum().plus(self.setup.sum())
    }
}

/// Figures of the benchmark's undisturbed run.
struct BenchmarkFigures {
    operations: f64,
    allocations: f64,
    bytes: f64,
}

impl BenchmarkFigures {
    fn of(benchmark: &Benchmark) -> Self {
        Self {
            operations: benchmark.median(|run| run.operations as f64),
            allocations: benchmark.median(|run| run.allocations),
            bytes: benchmark.median(|run| run.bytes),
        }
    }

    /// Takes untimed lines for timed ones where the figures fit better so: the source, which decides, is wrong then.
    fn decide_timing(&self, split: &mut Split) {
        let (timed, untimed) = (split.sum().allocations, split.each.untimed().allocations);
        if (timed + untimed - self.allocations).abs() < (timed - self.allocations).abs() {
            split.each.time_all();
        }
    }

    fn off(&self, split: &Split) -> f64 {
        (split.sum().allocations - self.allocations).abs()
    }

    /// Whether the split is near the benchmark's figure, which is a whole number.
    fn is_near(&self, split: &Split) -> bool {
        self.off(split) < 1.0 + 0.01 * self.allocations
    }

    /// The bytes are there too: a few large blocks are less than one allocation by operation.
    fn is(&self, split: &Split) -> bool {
        self.is_near(split) && split.sum().bytes + (TINY as f64) >= 0.99 * self.bytes
    }

    fn nearest(&self, linear: Split, others: Vec<Split>) -> Split {
        others.into_iter().fold(linear, |nearest, other| {
            let better = self.off(&other) < self.off(&nearest) || self.is(&other) && !self.is(&nearest);
            if better { other } else { nearest }
        })
    }
}

/// Splits with their set-up, in each of the two runs where the sum of both is the benchmark's figure for that run:
/// allocations while the timer is stopped are no part of either.
fn with_setup(
    before: &Profiled,
    (few, many): (&Profile, &Profile),
    run: &ExactRun,
    says: &BenchmarkFigures,
    own: &ProgramSource,
) -> Result<Vec<Split>> {
    let before = profile(before)?;
    let runs = Runs { before: &before, few: (few, run.few.operations), many: (many, run.many.operations) };
    let apart = runs.apart(own);
    let each = apart.each.sum();
    let of_run = |(run, mut once): (&Profiled, Listed)| {
        let found = once.sum();
        let (said, operations) = (run.said.as_ref()?, run.operations as f64);
        let explains = |said: f64, each: f64, found: f64, slack: f64| {
            let missing = (said - each) * operations;
            found >= 0.99 * missing - slack * operations && found <= 1.01 * missing + 2.0 * slack * operations
        };
        if !explains(said.allocations, each.allocations, found.allocations, 1.0)
            || !explains(said.bytes, each.bytes, found.bytes, TINY as f64)
        {
            return None;
        }
        once.by(says.operations);
        let mut split = Split { each: apart.each.clone(), setup: once };
        says.decide_timing(&mut split);
        Some(split)
    };
    Ok([(&run.many, apart.once_in_many), (&run.few, apart.once_in_few)].into_iter().filter_map(of_run).collect())
}

fn profile(run: &Profiled) -> Result<Profile> {
    let file = File::open(&run.path)?;
    let length = file.metadata().ok().map(|metadata| metadata.len());
    let foreign = formats::read_samples(file, length).context("cannot read the profile of a benchmark")?;
    Ok(foreign.profile)
}

#[cfg(test)]
mod tests {
    use mallow_golang::join::{Appended, Call, Part, Room, Type};

    use super::*;

    /// One allocation by operation, of so many bytes without pointers.
    fn line(address: u64, callee: &str, size: Option<u64>) -> Allocation {
        let of = size.map(|size| Type { name: "T".to_owned(), size, pointers: false, ..Type::default() });
        Allocation {
            chain: Vec::new(),
            of_library: false,
            address,
            call: Some(Call { callee: callee.to_owned(), of, ..Call::default() }),
            calls_of_line: Vec::new(),
            symbol: None,
            allocations: 1.0,
            bytes: 16.0,
            small: 1.0,
            shared: 0.0,
            appended: Appended::Grows,
            in_own_map: false,
            called_back: false,
            room: Room::default(),
            part: Part::Operation,
            callers: Vec::new(),
        }
    }

    /// What lines have in the end, of which each saves so much by its own blocks.
    fn left(lines: &[(Allocation, f64)]) -> (f64, Vec<f64>) {
        let mut all: Vec<Allocation> = lines.iter().map(|(line, _)| line.clone()).collect();
        let saved = |line: &Allocation| lines.iter().find(|(one, _)| one.address == line.address).map_or(0.0, |l| l.1);
        let exactly = |bytes: f64| (bytes * 1e6).round() / 1e6;
        let sum = take_off(&mut all, saved);
        (exactly(sum), all.iter().map(|line| exactly(line.bytes)).collect())
    }

    #[test]
    fn what_fills_a_block_shares_none() {
        let closure = line(1, "runtime.newobject", Some(16));
        assert_eq!(left(&[(closure.clone(), 8.0)]), (0.0, vec![16.0]));
        let number = |address| line(address, "runtime.newobject", Some(8));
        // A block of two: it counts where the first of them is.
        assert_eq!(left(&[(number(1), 0.0), (number(2), 16.0), (closure, 0.0)]), (16.0, vec![8.0, 8.0, 16.0]));
        let mut pointers = number(1);
        pointers.call.as_mut().and_then(|call| call.of.as_mut()).expect("a type").pointers = true;
        assert_eq!(left(&[(pointers, 8.0)]), (0.0, vec![16.0]));
    }

    /// `make([]int, n)` of one element, and `make([]int, 2)`.
    #[test]
    fn slices_of_one_type_share_by_their_sizes_not_by_those_of_their_elements() {
        let slice = |address, elements| {
            let mut line = line(address, "runtime.makeslice", Some(8));
            line.call.as_mut().expect("a call").elements = elements;
            line
        };
        assert_eq!(left(&[(slice(1, None), 8.0), (slice(2, Some(2)), 0.0)]), (8.0, vec![8.0, 16.0]));
        // Without the constant, what saves nothing fills its block; the other saves a little more by chance.
        let by_chance = left(&[(slice(1, None), 8.001), (slice(2, None), 0.001)]).1;
        assert!((by_chance[0] - 8.0).abs() < 0.01 && by_chance[1] == 16.0, "{by_chance:?}");
        // What the first of a block saves counts for the second: neither has less than its size.
        let (long, short) = (slice(3, Some(1)), line(4, "runtime.newobject", Some(1)));
        assert_eq!(left(&[(long, 0.0), (short, 16.0)]), (16.0, vec![8.0, 8.0]));
        let (long, short) = (slice(3, Some(1)), line(4, "runtime.newobject", Some(4)));
        let uneven = Allocation { allocations: 2.0, bytes: 32.0, small: 2.0, ..short };
        assert_eq!(left(&[(long, 4.0), (uneven, 28.0)]), (32.0, vec![8.0, 8.0]));
    }

    /// `s += w` makes a short string and longer ones.
    #[test]
    fn a_line_with_larger_blocks_shares_its_small_ones() {
        let grows = Allocation { allocations: 4.0, bytes: 128.0, ..line(1, "runtime.concatstring2", None) };
        assert_eq!(left(&[(grows.clone(), 8.0)]), (8.0, vec![120.0]));
        let large = Allocation { small: 0.0, ..grows };
        assert_eq!(left(&[(large, 8.0)]), (0.0, vec![128.0]));
    }

    #[test]
    fn what_has_an_unknown_size_and_saves_nothing_fills_its_block() {
        let text = |address| line(address, "runtime.slicebytetostring", None);
        assert_eq!(left(&[(text(1), 0.0), (text(2), 8.0)]), (8.0, vec![16.0, 8.0]));
        // One line cannot have saved it all: an object has a byte at least.
        assert_eq!(left(&[(text(1), 0.0), (text(2), 16.0)]), (16.0, vec![8.0, 8.0]));
    }
}
