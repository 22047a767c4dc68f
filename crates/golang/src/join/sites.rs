//! From two heap profiles of one program to what each instruction allocates by operation.

use std::collections::BTreeSet;

use mallow_profile::Profile;
use rustc_hash::FxHashMap;

use super::runtime;
use super::seen::Seen;
use super::stacks::{Counts, FrameKey, leaf, stacks};
use super::{Allocation, AllocationLine, Call, Caller, Part};

/// Sums of allocations, by operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OperationSums {
    pub allocations: f64,
    /// Bytes of blocks, with the rounding of Go's size classes.
    pub bytes: f64,
}

impl OperationSums {
    pub fn plus(self, other: Self) -> Self {
        Self { allocations: self.allocations + other.allocations, bytes: self.bytes + other.bytes }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Listed {
    /// Allocations by instruction, those with the most first.
    pub allocations: Vec<Allocation>,
    /// The sum of what no line of a function leads to.
    pub nowhere: OperationSums,
}

impl Listed {
    /// Sum of the allocations in the benchmark's figures.
    pub fn sum(&self) -> OperationSums {
        let of =
            |allocation: &Allocation| OperationSums { allocations: allocation.allocations, bytes: allocation.bytes };
        let timed = self.allocations.iter().filter(|allocation| allocation.part != Part::Untimed);
        timed.map(of).fold(self.nowhere, OperationSums::plus)
    }

    /// The sum of what the source says to be in no figure.
    pub fn untimed(&self) -> OperationSums {
        let of =
            |allocation: &Allocation| OperationSums { allocations: allocation.allocations, bytes: allocation.bytes };
        let untimed = self.allocations.iter().filter(|allocation| allocation.part == Part::Untimed);
        untimed.map(of).fold(OperationSums::default(), OperationSums::plus)
    }

    /// Takes what the source says to be in no figure for operations: the figures contradict it.
    pub fn time_all(&mut self) {
        let untimed = self.allocations.iter_mut().filter(|allocation| allocation.part == Part::Untimed);
        untimed.for_each(|allocation| allocation.part = Part::Operation);
    }

    /// Divides all figures by so many operations.
    pub fn by(&mut self, operations: f64) {
        let by = |n: &mut f64| *n /= operations.max(1.0);
        by(&mut self.nowhere.allocations);
        by(&mut self.nowhere.bytes);
        for allocation in &mut self.allocations {
            by(&mut allocation.allocations);
            by(&mut allocation.bytes);
            by(&mut allocation.small);
            by(&mut allocation.shared);
            allocation.callers.iter_mut().for_each(|caller| by(&mut caller.allocations));
        }
    }
}

/// Allocations of one profile, not by operation.
pub fn allocations(profile: &Profile, seen: &dyn Seen) -> Listed {
    by_instruction(stacks(profile, Some((seen, true))).into_iter(), 1, seen, &|_, part| part)
}

/// Allocations of a benchmark that `many` has more than `few`, by operation.
pub fn each(few: &Profile, many: &Profile, operations: u64, seen: &dyn Seen) -> Listed {
    let stacks = |profile| stacks(profile, Some((seen, false)));
    let before = stacks(few);
    let of_benchmark = stacks(many).into_iter().filter(|(stack, _)| in_benchmark(stack));
    let more = of_benchmark.map(|(stack, counts)| {
        let more = counts.less(before.get(&stack).copied().unwrap_or_default());
        (stack, more)
    });
    by_instruction(more, operations, seen, &|_, part| part)
}

/// Profiles of one benchmark, each with the operations that it has after `before`.
pub struct Runs<'a> {
    /// The program's beginning, and the one operation that Go tries each benchmark with.
    pub before: &'a Profile,
    pub few: (&'a Profile, u64),
    pub many: (&'a Profile, u64),
}

pub struct Apart {
    /// Allocations that grow with the operations, by operation.
    pub each: Listed,
    /// Allocations of the run with few operations that do not grow with them; all of it is set-up.
    pub once_in_few: Listed,
    /// Allocations of the run with many operations that do not grow with them.
    pub once_in_many: Listed,
}

/// A stack with fewer allocations in the run with few may have them there or not by chance.
const SURE: f64 = 8.0;
/// A stack whose set-up is so many times what one run has more of it.
const SET_UP: f64 = 10.0;

impl Runs<'_> {
    /// Separates what each operation allocates from what happens once: perhaps in one of the two runs only, where a
    /// pool is empty in one and not in the other.
    pub fn apart(&self, seen: &dyn Seen) -> Apart {
        let stacks = |profile| stacks(profile, Some((seen, false)));
        let before = stacks(self.before);
        let (few, many) = (stacks(self.few.0), stacks(self.many.0));
        let more = self.many.1.saturating_sub(self.few.1).max(1);
        let (mut growing, mut in_few, mut in_many) = (Vec::new(), Vec::new(), Vec::new());
        let all = many.keys().chain(few.keys().filter(|stack| !many.contains_key(*stack)));
        for stack in all.filter(|stack| in_benchmark(stack)) {
            let of = |run: &FxHashMap<Vec<FrameKey>, Counts>| run.get(stack).copied().unwrap_or_default();
            let (few, many) = (of(&few).less(of(&before)), of(&many).less(of(&before)));
            let growth = growth((few, many), self.few.1, more);
            let grown = |operations: u64| growth.scaled(operations as f64 / more as f64);
            growing.push((stack.clone(), growth));
            in_few.push((stack.clone(), few.less(grown(self.few.1))));
            in_many.push((stack.clone(), many.less(grown(self.many.1))));
        }
        let once = |stacks: Vec<(Vec<FrameKey>, Counts)>| {
            by_instruction(stacks.into_iter(), 1, seen, &|stack, part| match part {
                Part::Untimed => Part::Untimed,
                _ if is_parallel(stack) => Part::OnceInGoroutine,
                _ if lines_of_benchmark(stack, seen).any(|place| seen.is_in_loop(place)) => Part::FirstOperations,
                _ => Part::Once,
            })
        };
        Apart {
            each: by_instruction(growing.into_iter(), more, seen, &|_, part| part),
            once_in_few: once(in_few),
            once_in_many: once(in_many),
        }
    }
}

/// What a stack has in the run with `more` operations beyond the one with `few_operations`, as far as it grows with
/// them. Both counts are without what comes before.
pub(super) fn growth((few, many): (Counts, Counts), few_operations: u64, more: u64) -> Counts {
    let growth = many.less(few);
    // What grows with operations is in the run with few as well.
    let expected = growth.allocations as f64 / more as f64 * few_operations as f64;
    if expected >= SURE && (few.allocations as f64) < expected / 2.0 {
        return Counts::default();
    }
    // The collector ran at another moment of the set-up: that does not grow.
    let set_up = few.allocations as f64 - expected;
    let grows = growth.allocations as f64;
    if grows < SURE && set_up >= SURE.max(SET_UP * grows) { Counts::default() } else { growth }
}

/// Code of a benchmark, not of Go's own that runs it: in goroutines of its own there is none of that. A benchmark that
/// runs others has them in goroutines of their own, and what is below its call is about their names and results. The
/// main goroutine has what packages do when the program begins.
pub(super) fn in_benchmark(stack: &[FrameKey]) -> bool {
    let places = || stack.iter().flat_map(|frame| &frame.places).map(|place| place.function.as_str());
    let runs =
        |function: &str| ["testing.(*B).runN", "testing.(*B).RunParallel"].iter().any(|f| function.starts_with(f));
    let of_testing = places().any(|function| function.starts_with("testing."));
    !of_testing && !places().any(|function| function == "runtime.main")
        || places().any(runs) && !places().any(|function| function == "testing.(*B).Run")
}

/// Lines of a benchmark's own function that lead to the allocation, and of the functions that it calls: one of them may
/// have the timer. From the benchmark inwards, up to what is not the program's own.
pub(super) fn lines_of_benchmark<'a>(
    stack: &'a [FrameKey],
    seen: &dyn Seen,
) -> impl Iterator<Item = &'a AllocationLine> {
    let runs = |frame: &FrameKey| frame.places.iter().any(|place| place.function.starts_with("testing.(*B).runN"));
    let run = stack.iter().position(runs).unwrap_or(0);
    let inwards = stack[..run].iter().rev().flat_map(|frame| frame.places.iter().rev());
    inwards.enumerate().take_while(|(at, place)| *at == 0 || seen.is_own(place)).map(|(_, place)| place)
}

/// A goroutine of `b.RunParallel` does it.
fn is_parallel(stack: &[FrameKey]) -> bool {
    let places = || stack.iter().flat_map(|frame| &frame.places);
    places().any(|place| place.function.starts_with("testing.(*B).RunParallel"))
}

/// Allocations by instruction and part of the benchmark: `part_of` is the part of a stack, given what the source shows.
fn by_instruction(
    stacks: impl Iterator<Item = (Vec<FrameKey>, Counts)>,
    operations: u64,
    seen: &dyn Seen,
    part_of: &dyn Fn(&[FrameKey], Part) -> Part,
) -> Listed {
    type Callers = FxHashMap<AllocationLine, (Counts, BTreeSet<String>)>;
    type Found = (Allocation, Callers, Counts);
    let mut found: FxHashMap<(Option<FrameKey>, Part), Found> = FxHashMap::default();
    let mut parts: FxHashMap<AllocationLine, Part> = FxHashMap::default();
    for (stack, counts) in stacks {
        if counts.allocations == 0 {
            continue;
        }
        let leaf = leaf(&stack, seen);
        let mut shown = lines_of_benchmark(&stack, seen).map(|place| match parts.get(place) {
            Some(&part) => part,
            None => *parts.entry(place.clone()).or_insert_with(|| seen.part(place)),
        });
        let part = part_of(&stack, shown.find(|part| !part.is_operation()).unwrap_or_default());
        let key = (leaf.map(|at| stack[at].clone()), part);
        let new = || (Allocation { part, ..allocation(&stack, leaf, seen) }, FxHashMap::default(), Counts::default());
        let entry = found.entry(key).or_insert_with(new);
        entry.2 = entry.2.plus(counts);
        let Some(leaf) = leaf else { continue };
        entry.0.called_back |= is_called_back(&stack, leaf, seen);
        if entry.0.chain.iter().any(|place| seen.is_own(place)) {
            continue;
        }
        let places = || stack[leaf..].iter().flat_map(|frame| &frame.places);
        let calls = places().zip(places().skip(1));
        if let Some((callee, own)) = calls.into_iter().find(|(_, place)| seen.is_own(place)) {
            let (sum, callees) = entry.1.entry(own.clone()).or_default();
            *sum = sum.plus(counts);
            callees.insert(callee.function.clone());
        }
    }
    let per = |n: u64| n as f64 / operations.max(1) as f64;
    let mut nowhere = OperationSums::default();
    let mut all = Vec::new();
    for (key, (mut allocation, callers, counts)) in found {
        (allocation.allocations, allocation.bytes) = (per(counts.allocations), per(counts.bytes));
        allocation.small = per(counts.small);
        if key.0.is_none() {
            nowhere.allocations += allocation.allocations;
            nowhere.bytes += allocation.bytes;
            continue;
        }
        let caller = |(place, (counts, callees)): (AllocationLine, (Counts, BTreeSet<String>))| {
            let callees = callees.into_iter().collect();
            Caller { place, allocations: per(counts.allocations), callees }
        };
        let mut callers: Vec<_> = callers.into_iter().map(caller).collect();
        callers.sort_by(|a, b| b.allocations.total_cmp(&a.allocations).then_with(|| a.place.cmp(&b.place)));
        allocation.callers = callers;
        all.push(allocation);
    }
    all.sort_by(|a, b| {
        let by = b.allocations.total_cmp(&a.allocations).then(b.bytes.total_cmp(&a.bytes));
        by.then_with(|| a.chain.cmp(&b.chain)).then(a.address.cmp(&b.address))
    });
    Listed { allocations: all, nowhere }
}

fn allocation(stack: &[FrameKey], leaf: Option<usize>, seen: &dyn Seen) -> Allocation {
    let mut chain = Vec::new();
    let (mut address, mut call, mut symbol) = (0, None, None);
    if let Some(at) = leaf {
        let places = &stack[at].places;
        let first = places.iter().position(|place| !seen.is_runtime(place)).unwrap_or(0);
        chain = places[first..].to_vec();
        (address, call) = seen.call(stack[at].address);
        symbol = seen.symbol(address);
        // Code that cannot be read: the profile may have the runtime's function all the same.
        let inner = || stack[..at].last()?.places.last().or_else(|| places[..first].last());
        call = call.or_else(|| inner().map(|place| Call { callee: place.function.clone(), ..Call::default() }));
    }
    let puts = call.as_ref().is_some_and(runtime::puts_values);
    let calls_of_line = if puts { seen.calls_of_line(address) } else { Vec::new() };
    // Without the program it may be an append.
    let appends = call.as_ref().is_none_or(|call| call.callee.starts_with("runtime.growslice"));
    let appended = chain.first().filter(|_| appends).map(|place| seen.appended(place)).unwrap_or_default();
    let in_own_map = chain.first().is_some_and(|place| seen.in_own_map(place));
    Allocation {
        appended,
        in_own_map,
        called_back: false,
        room: leaf.map(|at| stack[at].room).unwrap_or_default(),
        of_library: chain.first().is_some_and(|place| !seen.is_own(place)),
        chain,
        address,
        call,
        calls_of_line,
        symbol,
        allocations: 0.0,
        bytes: 0.0,
        small: 0.0,
        shared: 0.0,
        part: Part::Operation,
        callers: Vec::new(),
    }
}

/// A library calls the function of the program's own that allocates. The runtime, which starts goroutines, is none.
fn is_called_back(stack: &[FrameKey], leaf: usize, seen: &dyn Seen) -> bool {
    let mut places = stack[leaf..].iter().flat_map(|frame| &frame.places).filter(|place| !seen.is_runtime(place));
    let is_own = places.next().is_some_and(|place| seen.is_own(place));
    is_own && places.next().is_some_and(|caller| !seen.is_own(caller))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{Known, Stack, profile};
    use super::super::saved::SavedOperations;
    use super::*;

    /// Where something was allocated, and how often.
    fn rates_of(listed: &Listed) -> Vec<(&str, f64)> {
        let mut all: Vec<_> =
            listed.allocations.iter().map(|a| (a.chain[0].function.as_str(), a.allocations)).collect();
        all.sort_by_key(|(function, _)| *function);
        all
    }

    /// All that a run has `more` operations for than the one with few.
    fn saved(few: &Profile, per: u64, more: u64) -> SavedOperations<'_> {
        SavedOperations { few, before: None, few_operations: 10, more, per, timed: None }
    }

    const LOOP: (u64, &str) = (90, "testing.(*B).runN");

    #[test]
    fn a_place_is_the_innermost_that_is_no_part_of_the_runtime() {
        let profile = profile(&[
            (&[(1, "runtime.newobject"), (2, "lib.New in own.F"), (3, "own.G")], 5, 80),
            // The same instruction, called from elsewhere.
            (&[(1, "runtime.newobject"), (2, "lib.New in own.F"), (4, "own.H")], 2, 32),
            // The runtime's function is inlined.
            (&[(5, "runtime.alloc in lib.Get"), (6, "lib.More"), (7, "own.F in own.G")], 1, 8),
            (&[(8, "runtime.main")], 4, 64),
        ]);
        let listed = allocations(&profile, &Known);
        assert_eq!(listed.nowhere, OperationSums { allocations: 4.0, bytes: 64.0 });
        assert_eq!(listed.sum(), OperationSums { allocations: 12.0, bytes: 184.0 });
        let [new, get] = &listed.allocations[..] else { panic!("{listed:?}") };
        let chain: Vec<_> = new.chain.iter().map(|place| place.function.as_str()).collect();
        assert_eq!((chain, new.address, new.allocations), (vec!["lib.New", "own.F"], 1002, 7.0));
        assert!(new.callers.is_empty(), "the line itself is the program's own");
        let [caller] = &get.callers[..] else { panic!("{get:?}") };
        assert_eq!((get.chain[0].function.as_str(), get.chain.len()), ("lib.Get", 1));
        assert_eq!((caller.place.function.as_str(), caller.allocations), ("own.F", 1.0));
        assert_eq!(caller.callees, ["lib.More"], "what the program's own line calls");
    }

    #[test]
    fn operations_are_what_one_profile_has_more_than_the_other() {
        let stack = |at| [(at, "own.F"), LOOP];
        let few = profile(&[(&stack(1), 10, 160), (&stack(2), 7, 7), (&stack(3), 9, 9)]);
        let many = profile(&[(&stack(1), 30, 480), (&stack(2), 7, 7), (&stack(3), 5, 5), (&stack(4), 5, 40)]);
        let listed = each(&few, &many, 10, &Known);
        let lines: Vec<_> = listed.allocations.iter().map(|a| (a.address, a.allocations, a.bytes)).collect();
        assert_eq!(lines, [(1001, 2.0, 32.0), (1004, 0.5, 4.0)]);
        let mut many = many;
        many.processes.push(mallow_profile::Process::default());
        saved(&few, 1000, 10).leave_in(&mut many);
        assert_eq!(many.check(), Ok(()), "of two processes, one without sites");
        let sites: Vec<_> = many.sites.iter().map(|s| (s.counts.allocations, s.counts.allocated_bytes)).collect();
        assert_eq!(sites, [(2000, 32_000), (500, 4000)]);
        assert_eq!((many.totals.allocations, many.totals.allocated_bytes), (2500, 36_000));
    }

    /// `before` has one operation, `few` 10 more and `many` 100 more; by each run what a stack has.
    fn apart(stacks: &[(&str, [u64; 3])]) -> Apart {
        let of = |run: usize| {
            let frames: Vec<_> = (1..).zip(stacks).map(|(at, (name, _))| [(at, *name), LOOP]).collect();
            let rows = frames.iter().zip(stacks).map(|(f, (_, n))| (&f[..], n[run], 16 * n[run]));
            let rows: Vec<_> = rows.filter(|row| row.1 > 0).collect();
            profile(&rows)
        };
        let (before, few, many) = (of(0), of(1), of(2));
        Runs { before: &before, few: (&few, 10), many: (&many, 100) }.apart(&Known)
    }

    #[test]
    fn set_up_is_what_does_not_grow_with_operations() {
        let apart = apart(&[
            ("each", [2, 22, 202]),
            ("seldom", [0, 0, 9]),
            ("before", [300, 300, 300]),
            ("set_up", [300, 600, 600]),
            ("set_up_and_each", [300, 610, 700]),
        ]);
        assert_eq!(rates_of(&apart.each), [("each", 2.0), ("seldom", 0.1), ("set_up_and_each", 1.0)]);
        let once = [("set_up", 300.0), ("set_up_and_each", 300.0)];
        assert_eq!(rates_of(&apart.once_in_many), once);
        assert_eq!(rates_of(&apart.once_in_few), once);
        assert!(apart.once_in_many.allocations.iter().all(|allocation| allocation.part == Part::Once));
        assert!(apart.each.allocations.iter().all(|allocation| allocation.part.is_operation()));
    }

    /// No reset of the timer leaves that out.
    #[test]
    fn what_the_loop_allocates_at_first_is_no_set_up() {
        let loops = [(9, "own.InLoop"), LOOP];
        let of = |n| profile(&[(&[&[(1, "fill")][..], &loops].concat()[..], n, 16 * n)]);
        let (before, few, many) = (of(2), of(300), of(300));
        let apart = Runs { before: &before, few: (&few, 10), many: (&many, 100) }.apart(&Known);
        let [allocation] = &apart.once_in_many.allocations[..] else { panic!("{:?}", apart.once_in_many.allocations) };
        assert_eq!((allocation.part, allocation.allocations), (Part::FirstOperations, 298.0));
    }

    #[test]
    fn a_handful_that_one_run_has_more_of_its_set_up_is_set_up() {
        let apart = apart(&[("more", [300, 600, 604]), ("less", [300, 604, 600]), ("append", [0, 4, 8])]);
        assert_eq!(rates_of(&apart.once_in_many), [("append", 4.0), ("less", 300.0), ("more", 304.0)]);
        assert_eq!(rates_of(&apart.once_in_few), [("append", 4.0), ("less", 304.0), ("more", 300.0)]);
        assert_eq!(rates_of(&apart.each), [("append", 4.0 / 90.0)]);
    }

    #[test]
    fn what_the_timer_does_not_see_is_in_no_sum() {
        let stack = |benchmark: &'static str| [(1, "own.F"), (2, benchmark), LOOP];
        let (timed, untimed) = (stack("own.Benchmark"), stack("own.Untimed"));
        let few = profile(&[(&timed, 10, 160), (&untimed, 10, 160)]);
        let many = profile(&[(&timed, 30, 480), (&untimed, 50, 800)]);
        let mut listed = each(&few, &many, 20, &Known);
        assert_eq!((listed.sum(), listed.untimed()), (sums(1.0, 16.0), sums(2.0, 32.0)));
        assert_eq!(listed.allocations.len(), 2, "one instruction, from two lines of benchmarks");
        listed.time_all();
        assert_eq!((listed.sum(), listed.untimed()), (sums(3.0, 48.0), OperationSums::default()));
    }

    fn sums(allocations: f64, bytes: f64) -> OperationSums {
        OperationSums { allocations, bytes }
    }

    #[test]
    fn what_only_one_of_two_runs_sets_up_grows_with_nothing() {
        // A pool was empty in the run with many, and then in the one with few.
        let empty_in_many = apart(&[("fill", [5000, 5000, 10_000]), ("each", [1, 11, 101])]);
        assert_eq!(rates_of(&empty_in_many.each), [("each", 1.0)]);
        assert_eq!(rates_of(&empty_in_many.once_in_many), [("fill", 5000.0)]);
        assert_eq!(rates_of(&empty_in_many.once_in_few), []);
        let empty_in_few = apart(&[("fill", [5000, 10_000, 5000]), ("each", [1, 11, 101])]);
        assert_eq!(rates_of(&empty_in_few.each), [("each", 1.0)]);
        assert_eq!(rates_of(&empty_in_few.once_in_few), [("fill", 5000.0)]);
        assert_eq!(rates_of(&empty_in_few.once_in_many), []);
        let in_few_alone = apart(&[("fill", [0, 70, 0])]);
        assert_eq!((rates_of(&in_few_alone.once_in_few), rates_of(&in_few_alone.each)), (vec![("fill", 70.0)], vec![]));
    }

    #[test]
    fn code_that_runs_benchmarks_is_no_part_of_them() {
        let stacks: [Stack; 7] = [
            &[(1, "own.F"), (9, "testing.(*B).runN")],
            &[(2, "own.F"), (9, "testing.(*B).RunParallel.func1")],
            &[(3, "own.F"), (8, "own.goroutine")],
            &[(4, "testing.(*common).Logf"), (8, "own.F"), (9, "testing.(*B).runN")],
            &[(5, "fmt.Sprintf"), (7, "testing.(*B).Run"), (8, "own.F"), (9, "testing.(*B).runN")],
            &[(6, "own.TestMain"), (9, "testing.(*M).Run")],
            &[(7, "own.map.init.0"), (8, "own.init"), (9, "runtime.main")],
        ];
        let run = |n: u64| profile(&stacks.map(|stack| (stack, n, n)));
        let (before, few, many) = (run(1), run(11), run(101));
        let addresses = |listed: &Listed| {
            let mut all: Vec<u64> = listed.allocations.iter().map(|a| a.address - 1000).collect();
            all.sort_unstable();
            all
        };
        let runs = Runs { before: &before, few: (&few, 10), many: (&many, 100) };
        assert_eq!(addresses(&each(&few, &many, 90, &Known)), [1, 2, 3, 4]);
        assert_eq!(addresses(&runs.apart(&Known).each), [1, 2, 3, 4]);
        let mut kept = run(101);
        saved(&few, 90, 90).leave_in(&mut kept);
        assert_eq!(kept.totals.allocations, 4 * 90);
        let runs = Runs { before: &before, few: (&many, 10), many: (&many, 100) };
        assert_eq!(addresses(&runs.apart(&Known).once_in_many), [1, 2, 3, 4]);
    }

    #[test]
    fn shares_of_operations_are_of_everything() {
        let mut listed =
            allocations(&profile(&[(&[(1, "lib.F"), (2, "own.G")], 30, 60), (&[(3, "runtime.x")], 6, 6)]), &Known);
        listed.by(3.0);
        assert_eq!(listed.nowhere, OperationSums { allocations: 2.0, bytes: 2.0 });
        let one = &listed.allocations[0];
        assert_eq!((one.allocations, one.bytes, one.callers[0].allocations), (10.0, 20.0, 10.0));
    }
}
