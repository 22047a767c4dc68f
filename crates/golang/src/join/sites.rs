//! From two heap profiles of one program to what each instruction allocates by operation.

use mallow_profile::{FrameId, Profile, StackId, Word, Words};
use rustc_hash::FxHashMap;

use super::{Allocation, Call, Caller, Place};

/// What a program can be asked.
pub trait Seen {
    /// Link-time address and call of a frame.
    fn call(&self, frame: u64) -> (u64, Option<Call>);
    /// The place is a part of the runtime, and no allocating line of anybody's.
    fn is_runtime(&self, place: &Place) -> bool;
    /// The place is in the program's own code, not in a library's.
    fn is_own(&self, place: &Place) -> bool;
}

/// What was allocated by operation, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Allocations.
    pub allocations: f64,
    /// Bytes of blocks.
    pub bytes: f64,
}

type Counts = (u64, u64);

/// What `many` has more than `few`, by operation and by instruction, the most allocations first; and the sum of what no
/// line of a function leads to.
pub fn allocations(few: Option<&Profile>, many: &Profile, operations: u64, seen: &dyn Seen) -> (Vec<Allocation>, Sums) {
    let before = few.map(stacks).unwrap_or_default();
    let more = stacks(many).into_iter().map(|(stack, (count, bytes))| {
        let less = before.get(&stack).copied().unwrap_or_default();
        (stack, (count.saturating_sub(less.0), bytes.saturating_sub(less.1)))
    });
    by_instruction(more, operations, seen)
}

/// What `many` has once: neither `before` has it, nor does it grow with operations. `many` has `all` operations after those of
/// `before`, and `operations` more than `few`.
pub fn once(
    before: &Profile,
    few: &Profile,
    many: &Profile,
    (all, operations): (u64, u64),
    seen: &dyn Seen,
) -> (Vec<Allocation>, Sums) {
    let (before, few) = (stacks(before), stacks(few));
    let of_benchmark = stacks(many).into_iter().filter(|(stack, _)| in_benchmark(stack));
    let once = of_benchmark.map(|(stack, counts)| {
        let before = before.get(&stack).copied().unwrap_or_default();
        let few = few.get(&stack).copied().unwrap_or_default();
        let left = |many: u64, before: u64, few: u64| {
            let growing = many.saturating_sub(few) as f64 / operations.max(1) as f64 * all as f64;
            many.saturating_sub(before).saturating_sub(growing.round() as u64)
        };
        let once = (left(counts.0, before.0, few.0), left(counts.1, before.1, few.1));
        (stack, once)
    });
    let (mut allocations, sums) = by_instruction(once, 1, seen);
    for allocation in &mut allocations {
        allocation.setup = true;
    }
    (allocations, sums)
}

/// Code of a benchmark, not of Go's own that runs it: in goroutines of its own there is none of that.
fn in_benchmark(stack: &[FrameKey]) -> bool {
    let mut places = stack.iter().flat_map(|frame| &frame.places);
    places.find(|place| place.function.starts_with("testing.")).is_none_or(|place| {
        let runs = ["testing.(*B).runN", "testing.(*B).RunParallel"];
        runs.iter().any(|function| place.function.starts_with(function))
    })
}

fn by_instruction(
    stacks: impl Iterator<Item = (Vec<FrameKey>, Counts)>,
    operations: u64,
    seen: &dyn Seen,
) -> (Vec<Allocation>, Sums) {
    let mut found: FxHashMap<Option<FrameKey>, (Allocation, FxHashMap<Place, Counts>, Counts)> = FxHashMap::default();
    for (stack, counts) in stacks {
        if counts.0 == 0 {
            continue;
        }
        let leaf = stack.iter().position(|frame| frame.places.iter().any(|place| !seen.is_runtime(place)));
        let key = leaf.map(|at| stack[at].clone());
        let entry =
            found.entry(key.clone()).or_insert_with(|| (allocation(&stack, leaf, seen), FxHashMap::default(), (0, 0)));
        entry.2 = (entry.2.0.saturating_add(counts.0), entry.2.1.saturating_add(counts.1));
        let Some(leaf) = leaf else { continue };
        if entry.0.chain.iter().any(|place| seen.is_own(place)) {
            continue;
        }
        let mut outer = stack[leaf + 1..].iter().flat_map(|frame| &frame.places);
        if let Some(own) = outer.find(|place| seen.is_own(place)) {
            let sum = entry.1.entry(own.clone()).or_default();
            *sum = (sum.0.saturating_add(counts.0), sum.1.saturating_add(counts.1));
        }
    }
    let per = |n: u64| n as f64 / operations.max(1) as f64;
    let mut nowhere = Sums::default();
    let mut all = Vec::new();
    for (key, (mut allocation, callers, counts)) in found {
        (allocation.allocations, allocation.bytes) = (per(counts.0), per(counts.1));
        if key.is_none() {
            nowhere.allocations += allocation.allocations;
            nowhere.bytes += allocation.bytes;
            continue;
        }
        let mut callers: Vec<_> =
            callers.into_iter().map(|(place, counts)| Caller { place, allocations: per(counts.0) }).collect();
        callers.sort_by(|a, b| b.allocations.total_cmp(&a.allocations).then_with(|| a.place.cmp(&b.place)));
        allocation.callers = callers;
        all.push(allocation);
    }
    all.sort_by(|a, b| {
        let by = b.allocations.total_cmp(&a.allocations).then(b.bytes.total_cmp(&a.bytes));
        by.then_with(|| a.chain.cmp(&b.chain)).then(a.address.cmp(&b.address))
    });
    (all, nowhere)
}

/// Leaves in `many` what it has more than `few`, as so many allocations as `per` of its `operations` have.
pub fn difference(few: &Profile, many: &mut Profile, operations: u64, per: u64) {
    let before = stacks(few);
    let mut keys = FxHashMap::default();
    let scaled = |n: u64| (n as f64 * per as f64 / operations.max(1) as f64).round() as u64;
    let Profile { sites, .. } = many;
    let mut sites = std::mem::take(sites);
    let mut totals = mallow_profile::Counts::default();
    for site in &mut sites {
        let stack = stack_of(many, site.stack, &mut keys);
        let less = before.get(&stack).copied().unwrap_or_default();
        site.counts = mallow_profile::Counts {
            allocations: scaled(site.counts.allocations.saturating_sub(less.0)),
            allocated_bytes: scaled(site.counts.allocated_bytes.saturating_sub(less.1)),
            ..mallow_profile::Counts::default()
        };
        totals += site.counts;
    }
    sites.retain(|site| site.counts.allocations > 0);
    (many.sites, many.totals) = (sites, totals);
    for process in &mut many.processes {
        process.totals = totals;
    }
    if let Some(origin) = &mut many.origin {
        origin.tells = Words::of(&[Word::Allocations, Word::AllocatedBytes]);
        origin.sampled_bytes = None;
    }
}

/// A frame with its inlined functions, the innermost first.
#[derive(Clone, PartialEq, Eq, Hash)]
struct FrameKey {
    address: u64,
    places: Vec<Place>,
}

fn allocation(stack: &[FrameKey], leaf: Option<usize>, seen: &dyn Seen) -> Allocation {
    let mut chain = Vec::new();
    let (mut address, mut call) = (0, None);
    if let Some(at) = leaf {
        let places = &stack[at].places;
        let first = places.iter().position(|place| !seen.is_runtime(place)).unwrap_or(0);
        chain = places[first..].to_vec();
        (address, call) = seen.call(stack[at].address);
        // Code that cannot be read: the profile may have the runtime's function all the same.
        let inner = || stack[..at].last()?.places.last().or_else(|| places[..first].last());
        call = call.or_else(|| inner().map(|place| Call { callee: place.function.clone(), of: None }));
    }
    Allocation { chain, address, call, allocations: 0.0, bytes: 0.0, setup: false, callers: Vec::new() }
}

fn stacks(profile: &Profile) -> FxHashMap<Vec<FrameKey>, Counts> {
    let mut keys: FxHashMap<FrameId, FrameKey> = FxHashMap::default();
    let mut sums: FxHashMap<Vec<FrameKey>, Counts> = FxHashMap::default();
    for site in &profile.sites {
        let stack = stack_of(profile, site.stack, &mut keys);
        let sum = sums.entry(stack).or_default();
        sum.0 = sum.0.saturating_add(site.counts.allocations);
        sum.1 = sum.1.saturating_add(site.counts.allocated_bytes);
    }
    sums
}

fn stack_of(profile: &Profile, stack: StackId, keys: &mut FxHashMap<FrameId, FrameKey>) -> Vec<FrameKey> {
    let frames = profile.stacks.frames(stack);
    frames.map(|id| keys.entry(id).or_insert_with(|| key(profile, id)).clone()).collect()
}

fn key(profile: &Profile, id: FrameId) -> FrameKey {
    let Some(frame) = profile.frames.get(id.0 as usize) else { return FrameKey { address: 0, places: Vec::new() } };
    let place = |line: &mallow_profile::Line| Place {
        function: profile.strings.get(line.function).to_owned(),
        file: line.file.map(|file| profile.strings.get(file).to_owned()).unwrap_or_default(),
        line: line.line,
    };
    // What is kept of a call is, in some profiles, the address behind it.
    let address = frame.address.saturating_sub(u64::from(!frame.exact));
    FrameKey { address, places: frame.lines.iter().map(place).collect() }
}
