//! Sites of a watched program by place: the line of the program that the blocks come from, whatever called it.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use mallow_profile::{Sample, StackId};
use rustc_hash::{FxHashMap, FxHasher};

use super::{Samples, WatchedPlace, WatchedPlaces};
use crate::analysis::functions::{Functions, Named};
use crate::analysis::numbers::LeftOut;
use crate::analysis::sampled::{Estimate, Growth, SiteFigures, Sum, Verdict};

/// The fewest sampled frees for a meaningful share of them.
const LEAST_FREES: u64 = 8;

/// Live samples, summed up.
#[derive(Default)]
pub(super) struct Held {
    pub bytes: Sum,
    pub blocks: Sum,
    pub oldest_ms: u64,
    pub youngest_ms: u64,
    pub pids: Vec<u32>,
}

impl Held {
    pub fn add(&mut self, sample: &Sample, age_ms: u64, pid: u32) {
        self.youngest_ms = if self.bytes.samples() == 0 { age_ms } else { self.youngest_ms.min(age_ms) };
        self.oldest_ms = self.oldest_ms.max(age_ms);
        self.bytes.add_bytes(sample);
        self.blocks.add_count(sample);
        if !self.pids.contains(&pid) {
            self.pids.push(pid);
        }
    }

    /// Precondition: both hold samples.
    fn merge(&mut self, other: &Self) {
        self.youngest_ms =
            if self.bytes.samples() == 0 { other.youngest_ms } else { self.youngest_ms.min(other.youngest_ms) };
        self.oldest_ms = self.oldest_ms.max(other.oldest_ms);
        self.bytes += other.bytes;
        self.blocks += other.blocks;
        for &pid in &other.pids {
            if !self.pids.contains(&pid) {
                self.pids.push(pid);
            }
        }
    }
}

/// The sites of a place.
#[derive(Default)]
pub(super) struct PlaceGroup {
    /// Those of all its sites: growth is that of the place as a whole.
    pub stacks: Vec<StackId>,
    pub figures: SiteFigures,
    held: Held,
    sites: u64,
    /// The stack of the site that holds most, and how much.
    largest: Option<(f64, StackId)>,
}

impl PlaceGroup {
    /// A site that is reported.
    pub fn add(&mut self, stack: StackId, held: &Held) {
        self.held.merge(held);
        self.sites += 1;
        let bytes = held.bytes.value();
        // Equal ones by their number, so that the choice is the same in the next report.
        if self.largest.is_none_or(|(most, at)| bytes > most || bytes == most && stack < at) {
            self.largest = Some((bytes, stack));
        }
    }
}

/// The share of freed bytes that another thread freed; None where too few frees were seen.
pub(super) fn freed_by_others(figures: &SiteFigures) -> Option<f64> {
    (figures.freed_bytes.samples >= LEAST_FREES).then(|| figures.freed_by_others.value / figures.freed_bytes.value)
}

/// Names a place by what it reads as, so that it is the same in several processes and from report to report.
pub(super) fn place_id(functions: &Functions<'_>, named: Option<&Named>) -> u64 {
    let mut hasher = FxHasher::default();
    if let Some(Named { step, .. }) = named {
        functions.name(step.function).hash(&mut hasher);
        (step.file(), step.line).hash(&mut hasher);
    }
    // The hasher's low bits carry little information.
    hasher.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The places, at most `limit` of them in full. `lot` is the number that a place drew.
pub(super) fn watched_places(
    functions: &Functions<'_>,
    groups: FxHashMap<u64, PlaceGroup>,
    limit: usize,
    lot: impl Fn(u64) -> f64,
) -> WatchedPlaces {
    let mut rows: Vec<(StackId, WatchedPlace)> = Vec::new();
    for (id, group) in groups {
        let PlaceGroup { figures, mut held, sites, largest, .. } = group;
        let Some((_, stack)) = largest else { continue };
        held.pids.sort_unstable();
        rows.push((
            stack,
            WatchedPlace {
                frame: None,
                through: None,
                live_bytes: held.bytes.estimate(lot(id)),
                live: held.blocks.estimate(lot(id)),
                samples: held.bytes.samples(),
                growth: figures.growth,
                oldest_ms: held.oldest_ms,
                youngest_ms: held.youngest_ms,
                byte_seconds: figures.byte_seconds,
                freed_by_others: freed_by_others(&figures),
                pids: held.pids,
                sites,
                id,
                bytes: held.bytes,
                largest_site: Default::default(),
            },
        ));
    }
    rows.sort_by(|(a_stack, a), (b_stack, b)| {
        let by_growth = by_growth((&a.growth, &a.live_bytes), (&b.growth, &b.live_bytes));
        by_growth.then(a_stack.cmp(b_stack))
    });
    let hidden = LeftOut::after(limit, rows.iter().map(|(_, place)| Samples { samples: place.samples }));
    let growing = |verdict| rows.iter().filter(|(_, place)| place.growth.verdict == verdict).count() as u64;
    let (growing_places, places_growing_so_far, places_in_all) =
        (growing(Verdict::Growing), growing(Verdict::SoFar), rows.len() as u64);
    rows.truncate(limit);
    let name = |(stack, place): (StackId, WatchedPlace)| {
        let named = functions.named(stack);
        WatchedPlace {
            frame: named.map(|named| functions.frame(&named.step)),
            through: named.and_then(|named| named.through).map(|step| functions.name(step.function)),
            largest_site: functions.stack(stack),
            ..place
        }
    };
    let places = rows.into_iter().map(name).collect();
    WatchedPlaces { growing_places, places_growing_so_far, places_in_all, places, places_hidden: hidden }
}

/// What grows most surely first, then what holds most; of sites and of places.
pub fn by_growth(a: (&Growth, &Estimate), b: (&Growth, &Estimate)) -> Ordering {
    let ((a_verdict, a_surely), (b_verdict, b_surely)) = (a.0.rank(), b.0.rank());
    let by_growth = b_verdict.cmp(&a_verdict).then(b_surely.total_cmp(&a_surely));
    by_growth.then(b.1.value.total_cmp(&a.1.value))
}
