//! What two profiles differ in, by place: the line of the program's own function that a site is named by, as in the report.

use std::cmp::Reverse;

use mallow_profile::{Counts, Precisions, Profile, StackId, StringId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::report::{DiffPlace, DiffTotal, State};
use crate::analysis::changes::{Both, ChangedPrecisions, difference};
use crate::analysis::functions::{FunctionId, Functions, Named};
use crate::analysis::intervals::change_estimate;
use crate::analysis::numbers::Measure;
use crate::analysis::sampled::Estimate;

/// All places of two profiles, with what each has in them.
pub(super) struct Places<'a> {
    functions: Functions<'a>,
    places: Vec<Sums>,
    precisions: Option<&'a ChangedPrecisions>,
}

type Key = Option<(FunctionId, Option<StringId>, u32)>;

#[derive(Clone)]
struct Sums {
    named: Option<Named>,
    before: Counts,
    after: Counts,
    sites: u64,
    /// None where numbers were counted.
    precisions: Option<Box<[Precisions; 2]>>,
    /// For each measure, the stack that changed most, and by how much.
    largest: [(u64, StackId); Measure::ALL.len()],
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.before += other.before;
        self.after += other.after;
        self.sites += other.sites;
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
        let mut places: FxHashMap<Key, Sums> = FxHashMap::default();
        for &(stack, change) in &both.sites {
            let named = functions.named(stack);
            let changed = |by: Measure| {
                let [was, is] = [change.before, change.after].map(|counts| by.of(&counts.into()));
                (was.abs_diff(is), stack)
            };
            let one = Sums {
                named,
                before: change.before,
                after: change.after,
                sites: 1,
                precisions: both.precisions.as_ref().and_then(|all| all.by_stack.get(&stack)).map(|two| Box::new(*two)),
                largest: Measure::ALL.map(changed),
            };
            match places.entry(named.map(|named| named.key())) {
                std::collections::hash_map::Entry::Occupied(mut known) => known.get_mut().add(&one),
                std::collections::hash_map::Entry::Vacant(new) => {
                    new.insert(one);
                }
            }
        }
        let mut places: Vec<Sums> = places.into_values().collect();
        places.sort_by_key(|place| place.named.map(|named| named.key()));
        Self { places: folded(places, &both.profile, before), functions, precisions: both.precisions.as_deref() }
    }

    /// What changed by a measure: the largest places, at most `limit` of them.
    pub fn total(&self, by: Measure, totals: [u64; 2], limit: usize) -> DiffTotal {
        let at = by as usize;
        let mut changed: Vec<(u64, &Sums)> = self.places.iter().map(|place| (moved(place, by), place)).collect();
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

    fn estimate(&self, by: Measure, numbers: [u64; 2], of: Option<[&Precisions; 2]>) -> Option<Estimate> {
        let by_measure = of?.map(|precisions| precisions.of(by.quantity()));
        change_estimate(&self.precisions?.tables, numbers, by_measure)
    }

    fn place(&self, place: &Sums, by: Measure) -> DiffPlace {
        let [before, after] = place.values(by);
        let stack = place.largest[by as usize].1;
        // Of the stack that is shown, so that the two agree.
        let through = self.functions.named(stack).and_then(|named| named.through);
        DiffPlace {
            frame: place.named.map(|named| self.functions.frame(&named.step)),
            through: through.map(|step| self.functions.name(step.function)),
            state: State::of(before, after),
            before,
            after,
            change: difference(before, after),
            estimate: self.estimate(by, [before, after], place.precisions.as_ref().map(|two| two.each_ref())),
            sites: place.sites,
            stack: self.functions.stack(stack),
        }
    }
}

fn moved(place: &Sums, by: Measure) -> u64 {
    let [before, after] = place.values(by);
    before.abs_diff(after)
}

/// Lines of one function, some in one build and others in the other: nobody knows which of them are the same, so they
/// are one place, at the largest line of the second. Of one build each line is what it is.
fn folded(places: Vec<Sums>, profile: &Profile, before: &Profile) -> Vec<Sums> {
    let builds: FxHashSet<&[u8]> =
        before.modules.iter().map(|module| &module.build_id[..]).filter(|id| !id.is_empty()).collect();
    let same_build = |named: &Named| {
        let module = named.step.module.and_then(|id| profile.modules.get(id.0 as usize));
        module.is_some_and(|module| builds.contains(&module.build_id[..]))
    };
    let function = |place: &Sums| place.named.filter(|named| !same_build(named)).map(|named| named.step.function);
    let nothing = Counts::default();
    let mut out: Vec<Sums> = Vec::with_capacity(places.len());
    // Places are in the order of their functions.
    for of_function in places.chunk_by(|a, b| function(a).is_some() && function(a) == function(b)) {
        let one_sided = |place: &&Sums| (place.before == nothing) != (place.after == nothing);
        let largest = of_function
            .iter()
            .filter(|place| place.before == nothing && one_sided(place))
            .max_by_key(|place| (place.after.allocations, place.after.allocated_bytes, Reverse(place.largest[0].1)));
        let gone = of_function.iter().any(|place| place.after == nothing && one_sided(&place));
        match largest.filter(|_| gone) {
            None => out.extend_from_slice(of_function),
            Some(largest) => {
                let mut sum = Sums { before: nothing, after: nothing, sites: 0, precisions: None, ..largest.clone() };
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
