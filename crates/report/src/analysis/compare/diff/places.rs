//! What two profiles differ in, by place: the line of the program's own function that a site is named by, as in the
//! report. Where some call paths of a line have more and others less, each is a place of its own: the caller that tells
//! them apart.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use mallow_profile::{Counts, Precisions, Profile, StackId, StringId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::one_way::{Changed, OneWay};
use super::report::{DiffPlace, DiffTotal, FormerFunction, State};
use crate::analysis::compare::changes::{Amount, Both, Change, ChangedPrecisions, difference};
use crate::analysis::numbers::Measure;
use crate::analysis::sampled::Estimate;
use crate::analysis::sampled::intervals::change_estimate;
use crate::analysis::stacks::branches::Branches;
use crate::analysis::stacks::callers::{Callers, caller};
use crate::analysis::stacks::functions::{FunctionId, Functions, Named};

/// One part in so many of all changes is the least that makes some of a line's call paths a place of their own.
const PARTS: u64 = 100;

pub(super) struct Places<'a> {
    functions: Functions<'a>,
    places: Vec<DiffSums>,
    changes: FxHashMap<StackId, Change>,
    precisions: Option<&'a ChangedPrecisions>,
    formerly: &'a FxHashMap<StackId, BTreeMap<String, Counts>>,
}

type Key = Option<(FunctionId, Option<StringId>, u32)>;

#[derive(Clone)]
struct DiffSums {
    named: Option<Named>,
    before: Counts,
    after: Counts,
    stacks: Vec<StackId>,
    /// Whether some stacks are of one side alone, so that their lines may be those of two builds.
    is_of_two_builds: bool,
    /// Index of the caller that tells these stacks from others of the line, from the line outwards; None: all stacks of
    /// the line.
    caller: Option<usize>,
    /// The precision of each side's numbers; None where they were counted.
    precisions: Option<Box<[Precisions; 2]>>,
    /// By measure, the largest change of a stack, and that stack.
    largest: [(u64, StackId); Measure::ALL.len()],
}

impl DiffSums {
    fn of(named: Option<Named>, stack: StackId, change: &Change, precisions: Option<&ChangedPrecisions>) -> Self {
        let changed = |by: Measure| {
            let [was, is] = change.values(by);
            (was.abs_diff(is), stack)
        };
        Self {
            named,
            before: change.before,
            after: change.after,
            stacks: vec![stack],
            is_of_two_builds: false,
            caller: None,
            precisions: precisions.and_then(|all| all.by_stack.get(&stack)).map(|two| Box::new(*two)),
            largest: Measure::ALL.map(changed),
        }
    }

    fn add(&mut self, other: &Self) {
        self.before += other.before;
        self.after += other.after;
        self.stacks.extend_from_slice(&other.stacks);
        if let Some(other) = &other.precisions {
            let [before, after] = &mut **self.precisions.get_or_insert_default();
            *before += other[0];
            *after += other[1];
        }
        for (best, other) in self.largest.iter_mut().zip(other.largest) {
            if other.0 > best.0 {
                *best = other;
            }
        }
    }

    fn values(&self, by: Measure) -> [u64; 2] {
        [self.before, self.after].map(|counts| by.of(&counts.into()))
    }
}

impl<'a> Places<'a> {
    /// Costs a walk over the inner functions of each stack.
    pub fn of(both: &'a Both, before: &Profile) -> Self {
        let functions = both.functions();
        let precisions = both.precisions.as_deref();
        let mut places: FxHashMap<Key, DiffSums> = FxHashMap::default();
        for &(stack, change) in &both.sites {
            let named = functions.named(stack);
            let one = DiffSums::of(named, stack, &change, precisions);
            match places.entry(named.map(|named| named.key())) {
                std::collections::hash_map::Entry::Occupied(mut known) => known.get_mut().add(&one),
                std::collections::hash_map::Entry::Vacant(new) => {
                    new.insert(one);
                }
            }
        }
        let mut places: Vec<DiffSums> = places.into_values().collect();
        places.sort_by_key(|place| place.named.map(|named| named.key()));
        let changes = both.sites.iter().copied().collect();
        Self { places: folded(places, &both.profile, before), changes, functions, precisions, formerly: &both.formerly }
    }

    /// Lists at most `limit` places, those with the largest change by the measure.
    pub fn total(&self, by: Measure, totals: [u64; 2], limit: usize) -> DiffTotal {
        let at = by as usize;
        let places = self.divided(by);
        let mut changed: Vec<(u64, &DiffSums)> = places.iter().map(|place| (moved(place, by), &**place)).collect();
        changed.retain(|(moved, _)| *moved > 0);
        changed.sort_by_key(|(moved, place)| (Reverse(*moved), place.largest[at].1));
        let [before, after] = totals;
        let change = difference(before, after);
        let in_places = changed.iter().fold(0i64, |sum, (_, place)| {
            let [was, is] = place.values(by);
            sum.saturating_add(difference(was, is))
        });
        DiffTotal {
            by,
            before,
            after,
            change,
            estimate: self.estimate(
                by,
                totals,
                self.precisions.map(|all| all.tables.each_ref().map(|table| table.totals())),
            ),
            moved: changed.iter().fold(0, |sum: u64, (moved, _)| sum.saturating_add(*moved)),
            elsewhere: change.saturating_sub(in_places),
            places: changed.len() as u64,
            largest: changed.iter().take(limit).map(|(_, place)| self.place(place, by)).collect(),
        }
    }

    /// The places, with those lines divided of which some call paths have more and others less.
    fn divided(&self, by: Measure) -> Vec<Cow<'_, DiffSums>> {
        let mut callers = Callers::new(&self.functions);
        let least = self.least_part(by);
        self.places.iter().flat_map(|place| self.parts(place, by, least, &mut callers)).collect()
    }

    /// The least change that makes a part of a line a place.
    fn least_part(&self, by: Measure) -> u64 {
        let all = self.changes.values().map(|change| {
            let [was, is] = change.values(by);
            was.abs_diff(is)
        });
        (all.fold(0, u64::saturating_add) / PARTS).max(1)
    }

    fn parts<'s>(
        &'s self,
        place: &'s DiffSums,
        by: Measure,
        least: u64,
        callers: &mut Callers<'_, '_>,
    ) -> Vec<Cow<'s, DiffSums>> {
        let change = |stack: &StackId| self.changes.get(stack).copied().unwrap_or_default();
        let nothing = Counts::default();
        let is_gone = |change: &Change| change.after == nothing && change.before != nothing;
        let is_new = |change: &Change| change.before == nothing && change.after != nothing;
        let has = |of: &dyn Fn(&Change) -> bool| place.stacks.iter().any(|stack| of(&change(stack)));
        // Of two builds, nobody knows which of the call paths that one side alone has are the same.
        let is_unclear = place.is_of_two_builds && has(&is_gone) && has(&is_new);
        let is_divisible = |stack: &&StackId| !is_unclear || !is_gone(&change(stack)) && !is_new(&change(stack));
        let stacks: Vec<StackId> = place.stacks.iter().filter(is_divisible).copied().collect();
        let deltas = stacks.iter().map(|stack| change(stack).values(by)).map(|[was, is]| difference(was, is));
        let mut one_way = OneWay { deltas: deltas.collect(), least };
        if !one_way.goes_both_ways(&(0..stacks.len()).collect::<Vec<_>>()) {
            return vec![Cow::Borrowed(place)];
        }
        let paths: Vec<Vec<u64>> = stacks.iter().map(|stack| callers.of(*stack)).collect();
        let found = Branches::of(0, paths.iter().map(|path| &path[..])).find(&mut one_way);
        let sum = |stacks: &mut dyn Iterator<Item = StackId>| {
            let one = |stack: StackId| DiffSums::of(place.named, stack, &change(&stack), self.precisions);
            stacks.map(one).reduce(|mut sum, one| {
                sum.add(&one);
                sum
            })
        };
        let mut rest: FxHashSet<StackId> = place.stacks.iter().copied().collect();
        let mut parts = Vec::new();
        for Changed { paths, caller } in found {
            let of_part: Vec<StackId> = paths.iter().filter_map(|at| stacks.get(*at).copied()).collect();
            let Some(part) = sum(&mut of_part.iter().copied()) else { continue };
            let values = part.values(by);
            let estimate = self.estimate(by, values, part.precisions.as_ref().map(|two| two.each_ref()));
            // What may be chance tells nothing apart.
            if estimate.is_some_and(|estimate| estimate.may_be_zero()) {
                continue;
            }
            of_part.iter().for_each(|stack| {
                rest.remove(stack);
            });
            parts.push(Cow::Owned(DiffSums { caller, ..part }));
        }
        if parts.is_empty() {
            return vec![Cow::Borrowed(place)];
        }
        let mut left = place.stacks.iter().copied().filter(|stack| rest.contains(stack));
        parts.extend(sum(&mut left).map(Cow::Owned));
        parts
    }

    fn estimate(&self, by: Measure, numbers: [u64; 2], of: Option<[&Precisions; 2]>) -> Option<Estimate> {
        let by_measure = of?.map(|precisions| precisions.of(by.quantity()));
        change_estimate(&self.precisions?.tables, numbers, by_measure)
    }

    fn place(&self, place: &DiffSums, by: Measure) -> DiffPlace {
        let [before, after] = place.values(by);
        let stack = place.largest[by as usize].1;
        // Of the stack that is shown, so that the two agree.
        let through = self.functions.named(stack).and_then(|named| named.through);
        let line = place.named.map(|named| named.step);
        let caller = place.caller.and_then(|at| caller(&self.functions, stack, at)).copied();
        DiffPlace {
            frame: caller.or(line).map(|step| self.functions.frame(&step)),
            by: line.filter(|_| caller.is_some()).map(|line| self.functions.name(line.function)),
            through: through.map(|step| self.functions.name(step.function)),
            state: State::of(before, after),
            before,
            after,
            formerly: self.formerly(place, by),
            change: difference(before, after),
            estimate: self.estimate(by, [before, after], place.precisions.as_ref().map(|two| two.each_ref())),
            sites: place.stacks.len() as u64,
            stack: self.functions.stack(stack),
        }
    }
}

impl Places<'_> {
    /// The functions that requested the place's memory in the first profile, where they are others.
    fn formerly(&self, place: &DiffSums, by: Measure) -> Vec<FormerFunction> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (function, counts) in place.stacks.iter().filter_map(|stack| self.formerly.get(stack)).flatten() {
            let sum = sums.entry(function).or_default();
            *sum = sum.saturating_add(by.of(&(*counts).into()));
        }
        let former = |(function, before): (&str, u64)| FormerFunction { function: function.to_owned(), before };
        let mut all: Vec<FormerFunction> = sums.into_iter().filter(|(_, sum)| *sum > 0).map(former).collect();
        all.sort_by_key(|former| Reverse(former.before));
        all
    }
}

fn moved(place: &DiffSums, by: Measure) -> u64 {
    let [before, after] = place.values(by);
    before.abs_diff(after)
}

/// Lines of one function, some in one build and others in the other: nobody knows which of them are the same, so they
/// are one place, at the largest line of the second. Of one build each line is what it is.
fn folded(mut places: Vec<DiffSums>, profile: &Profile, before: &Profile) -> Vec<DiffSums> {
    let builds: FxHashSet<&[u8]> =
        before.modules.iter().map(|module| &module.build_id[..]).filter(|id| !id.is_empty()).collect();
    let same_build = |named: &Named| {
        let module = named.step.module.and_then(|id| profile.modules.get(id.0 as usize));
        module.is_some_and(|module| builds.contains(&module.build_id[..]))
    };
    for place in &mut places {
        place.is_of_two_builds = place.named.is_some_and(|named| !same_build(&named));
    }
    let function = |place: &DiffSums| place.named.filter(|_| place.is_of_two_builds).map(|named| named.step.function);
    let nothing = Counts::default();
    let mut out: Vec<DiffSums> = Vec::with_capacity(places.len());
    // Places are in the order of their functions.
    for of_function in places.chunk_by(|a, b| function(a).is_some() && function(a) == function(b)) {
        let one_sided = |place: &&DiffSums| (place.before == nothing) != (place.after == nothing);
        let largest = of_function
            .iter()
            .filter(|place| place.before == nothing && one_sided(place))
            .max_by_key(|place| (place.after.allocations, place.after.allocated_bytes, Reverse(place.largest[0].1)));
        let gone = of_function.iter().any(|place| place.after == nothing && one_sided(&place));
        match largest.filter(|_| gone) {
            None => out.extend_from_slice(of_function),
            Some(largest) => {
                let (stacks, precisions) = (Vec::new(), None);
                let mut sum = DiffSums { before: nothing, after: nothing, stacks, precisions, ..largest.clone() };
                for place in of_function {
                    if one_sided(&place) {
                        sum.add(place);
                    } else {
                        out.push(place.clone());
                    }
                }
                out.push(sum);
            }
        }
    }
    out
}
