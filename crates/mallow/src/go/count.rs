//! Counting each allocation of a benchmark, until that explains what the benchmark says of itself.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use mallow_formats as formats;
use mallow_golang::join::{self, Allocation, Listed, OperationSums, Part, Runs, SavedOperations};
use mallow_golang::results::Benchmark;
use mallow_golang::tool::{ExactRun, Go, Profiled, TestBinary, some_operations, timed_operations};
use mallow_profile::Profile;
use mallow_symbols::TINY;

use super::benchmark_figures::{BenchmarkFigures, Split};
use super::generated;
use super::program_source::ProgramSource;

/// Operations whose allocations are saved: what happens once in a thousand of them is still there.
const SAVED: u64 = 1000;
/// Whether each round collects garbage: where the counts do not explain the benchmark's figures, they are taken again.
/// What is in pools is made anew after a collection, and a pool gives what was put into it on the same processor alone.
const ROUNDS: [bool; 3] = [true, false, true];
/// Part of the timed operations that is worth another count: so many times those that were counted before.
const MANY_MORE: u64 = 2;
/// Operations by which what happens once, in pools and by the runtime, is divided by enough.
const ENOUGH: u64 = 100;

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
    let round = |collecting, operations| round(go, binary, program, (benchmark, &says), own, (collecting, operations));
    let some = some_operations(benchmark);
    let mut nearest: Option<Round> = None;
    for collecting in ROUNDS {
        let counted = round(collecting, some)?;
        if nearest.as_ref().is_none_or(|nearest| says.off(&counted.split) < says.off(&nearest.split)) {
            nearest = Some(counted);
        }
        if nearest.as_ref().is_some_and(|nearest| says.is_near(&nearest.split)) {
            break;
        }
    }
    let mut nearest = nearest.context("it was not counted")?;
    if !says.agrees(&nearest.split) {
        // A cache that fills up in thousands of operations does something else in a million of them.
        let timed = timed_operations(benchmark, nearest.split.all());
        if timed > MANY_MORE * some || timed != some && timed as f64 == says.operations() && timed >= ENOUGH {
            let counted = round(true, timed)?;
            // What the runtime allocates on a busy machine is in the figures of few operations, and in neither count.
            nearest = if says.gap(&counted.split) <= says.gap(&nearest.split) / 2.0 { counted } else { nearest };
        }
    }
    let Round { split, before, few, mut many, ran, operations } = nearest;
    let saved = SavedOperations {
        few: &few,
        before: before.as_ref(),
        few_operations: ran - operations,
        more: operations,
        per: SAVED,
        timed: if split.timed_all { None } else { Some(own) },
    };
    saved.leave_in(&mut many);
    let nowhere = split.each.nowhere.plus(split.setup.nowhere);
    let (mut allocations, setup) = (split.each.allocations, split.setup.allocations);
    let shared_bytes = match program == binary.path {
        true => None,
        false => Some(share(go, binary, (benchmark, ran), own, &mut allocations)?),
    };
    Ok(CountedBenchmark { allocations, setup, nowhere, operations, shared_bytes, profile: many })
}

/// One count, with few operations and with many.
struct Round {
    split: Split,
    /// What comes before all operations, where `split` is without it.
    before: Option<Profile>,
    few: Profile,
    many: Profile,
    /// Operations of the run with many.
    ran: u64,
    /// Operations that it has more than the one with few.
    operations: u64,
}

fn round(
    go: &Go,
    binary: &TestBinary,
    program: &Path,
    (benchmark, says): (&Benchmark, &BenchmarkFigures),
    own: &ProgramSource,
    (collecting, operations): (bool, u64),
) -> Result<Round> {
    let run = go.exact(binary, program, benchmark, collecting, operations)?;
    let (few, many) = (profile(&run.few, binary)?, profile(&run.many, binary)?);
    let (ran, operations) = (run.many.operations, run.many.operations - run.few.operations);
    let mut split = Split::linear(join::each(&few, &many, operations, own));
    let mut before = None;
    says.decide_timing(&mut split);
    if !says.is(&split) {
        let first = profile(&go.before(binary, program, benchmark, collecting, &run)?, binary)?;
        split = says.nearest(split, with_setup(&first, (&few, &many), &run, says, own));
        before = Some(first).filter(|_| split.apart);
    }
    Ok(Round { split, before, few, many, ran, operations })
}

/// Takes what small objects save by sharing blocks off the lines that allocate them, in equal parts as far as their
/// sizes are not known, and says how much it is by operation. It is measured: the unchanged program has a block in its
/// profile once, where its first object is allocated.
fn share(
    go: &Go,
    binary: &TestBinary,
    (benchmark, operations): (&Benchmark, u64),
    own: &ProgramSource,
    lines: &mut [Allocation],
) -> Result<f64> {
    if !lines.iter().any(may_share) {
        return Ok(0.0);
    }
    let run = go.exact(binary, &binary.path, benchmark, true, operations)?;
    let (few, many) = (profile(&run.few, binary)?, profile(&run.many, binary)?);
    let mut blocks = join::each(&few, &many, run.many.operations - run.few.operations, own);
    if !lines.iter().any(|line| line.part == Part::Untimed) {
        blocks.time_all();
    }
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

/// Splits with their set-up, in each of the two runs where the sum of both is the benchmark's figure for that run:
/// allocations while the timer is stopped are no part of either.
fn with_setup(
    before: &Profile,
    (few, many): (&Profile, &Profile),
    run: &ExactRun,
    says: &BenchmarkFigures,
    own: &ProgramSource,
) -> Vec<Split> {
    let runs = Runs { before, few: (few, run.few.operations), many: (many, run.many.operations) };
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
        once.by(says.operations());
        let mut split = Split { setup: once, apart: true, ..Split::linear(apart.each.clone()) };
        says.decide_timing(&mut split);
        Some(split)
    };
    [(&run.many, apart.once_in_many), (&run.few, apart.once_in_few)].into_iter().filter_map(of_run).collect()
}

fn profile(run: &Profiled, binary: &TestBinary) -> Result<Profile> {
    let file = File::open(&run.path)?;
    let length = file.metadata().ok().map(|metadata| metadata.len());
    let foreign = formats::read_samples(file, length).context("cannot read the profile of a benchmark")?;
    let mut profile = foreign.profile;
    generated::in_package(&mut profile, &binary.package, &binary.directory);
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use mallow_golang::join::{Appended, Call, Room, Type};

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
