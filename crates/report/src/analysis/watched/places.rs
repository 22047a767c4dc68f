//! Sites of a watched program by place: the line of the program that the blocks come from, whatever called it. Where
//! some of its call paths grow and others do not, what grows is a place of its own: the caller that tells them apart.

use std::cmp::Ordering;

use mallow_profile::{Sample, StackId};

use super::{Samples, WatchedPlace, WatchedPlaces};
use crate::analysis::numbers::LeftOut;
use crate::analysis::sampled::{
    CallPath, Estimate, Growth, SampleLedger, SiteFigures, Standings, Sum, Verdict, growing_paths,
};
use crate::analysis::stacks::callers::caller;
use crate::analysis::stacks::functions::Functions;
use crate::analysis::stacks::tell_apart::{Row, Shown, tell_apart};

/// Fewest sampled frees for a meaningful share of them.
const LEAST_FREES: u64 = 8;

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

    /// Both must hold samples.
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

#[derive(Default)]
pub(super) struct PlaceGroup {
    /// A hash of the line and its callers, the same from report to report.
    pub id: u64,
    /// Index of the caller that tells these sites from others of the line, from the line outwards; None: all sites of
    /// the line.
    caller: Option<usize>,
    /// Figures of all sites together: growth is that of the place as a whole.
    pub figures: SiteFigures,
    held: Held,
    sites: u64,
    /// Most bytes of a site, and that site's stack.
    largest: Option<(f64, StackId)>,
}

impl PlaceGroup {
    /// Adds a site that is reported.
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

/// The places of a line with these call paths, and for each path the index of its place. `line` names the line.
pub(super) fn places_of(
    ledger: &SampleLedger,
    line: u64,
    paths: &[CallPath],
    standings: &mut Standings,
) -> (Vec<PlaceGroup>, Vec<usize>) {
    let mut places = Vec::new();
    // None: it is of those that are left.
    let mut of_paths: Vec<Option<usize>> = vec![None; paths.len()];
    for growing in growing_paths(ledger, line, paths, standings) {
        for at in growing.paths {
            of_paths[at] = Some(places.len());
        }
        let (id, caller, figures) = (growing.id, growing.caller, growing.figures);
        places.push(PlaceGroup { id, caller, figures, ..PlaceGroup::default() });
    }
    let rest = places.len();
    let stacks: Vec<StackId> = (of_paths.iter().zip(paths))
        .filter(|(place, _)| place.is_none())
        .flat_map(|(_, path)| path.stacks.iter().copied())
        .collect();
    if !stacks.is_empty() {
        let mut figures = ledger.site(&stacks);
        // Only whole branches of callers are tested for growth.
        if figures.growth.verdict >= Verdict::SoFar {
            figures.growth.verdict = Verdict::Undecided;
        }
        let id = if places.is_empty() { line } else { rest_of(line) };
        places.push(PlaceGroup { id, figures, ..PlaceGroup::default() });
    }
    (places, of_paths.into_iter().map(|place| place.unwrap_or(rest)).collect())
}

/// Names the sites of a line that are left where some call paths are places of their own.
fn rest_of(line: u64) -> u64 {
    line.rotate_left(32) ^ 0x517c_c1b7_2722_0a95
}

/// The share of freed bytes that another thread freed; None where too few frees were seen.
pub(super) fn freed_by_others(figures: &SiteFigures) -> Option<f64> {
    (figures.freed_bytes.samples >= LEAST_FREES).then(|| figures.freed_by_others.value / figures.freed_bytes.value)
}

/// Lists at most `limit` places in full. `draw` gives the uniform number of a place by its id.
pub(super) fn watched_places(
    functions: &Functions<'_>,
    groups: Vec<PlaceGroup>,
    limit: usize,
    draw: impl Fn(u64) -> f64,
) -> WatchedPlaces {
    let mut rows: Vec<((StackId, Option<usize>), WatchedPlace)> = Vec::new();
    let growths = || groups.iter().map(|group| &group.figures.growth);
    let places_judged = growths().filter(|growth| growth.verdict != Verdict::Unknown).count() as u64;
    let is_unsteady = |growth: &&Growth| matches!(growth.verdict, Verdict::Uneven | Verdict::Slowing);
    let places_grown_unsteadily = growths().filter(is_unsteady).count() as u64;
    let unknown = growths().filter(|growth| growth.verdict == Verdict::Unknown);
    let settled_samples = unknown.map(|growth| growth.bytes_per_hour.samples).max().unwrap_or(0);
    for group in groups {
        let PlaceGroup { id, caller, figures, mut held, sites, largest } = group;
        let Some((_, stack)) = largest else { continue };
        held.pids.sort_unstable();
        rows.push((
            (stack, caller),
            WatchedPlace {
                frame: None,
                by: None,
                through: None,
                live_bytes: held.bytes.estimate(draw(id)),
                live: held.blocks.estimate(draw(id)),
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
    let name = |((stack, at), place): ((StackId, Option<usize>), WatchedPlace)| {
        let named = functions.named(stack);
        let line = named.map(|named| named.step);
        let caller = at.and_then(|at| caller(functions, stack, at)).copied();
        WatchedPlace {
            frame: caller.or(line).map(|step| functions.frame(&step)),
            by: line.filter(|_| caller.is_some()).map(|line| functions.name(line.function)),
            through: named.and_then(|named| named.through).map(|step| functions.name(step.function)),
            largest_site: functions.stack(stack),
            ..place
        }
    };
    let mut places: Vec<WatchedPlace> = rows.into_iter().map(name).collect();
    tell_apart(places.iter_mut());
    WatchedPlaces {
        growing_places,
        places_growing_so_far,
        places_in_all,
        places,
        places_judged,
        places_grown_unsteadily,
        settled_samples,
        places_hidden: hidden,
    }
}

impl Row for WatchedPlace {
    fn shown(&self) -> Option<Shown<'_>> {
        Some(Shown { by: self.by.as_deref(), ..self.frame.as_ref()?.shown()? })
    }

    fn keep_arguments(&mut self) {
        self.frame.iter_mut().for_each(Row::keep_arguments);
    }
}

/// Orders sites or places: what grows most surely first, then what holds most.
pub fn by_growth(a: (&Growth, &Estimate), b: (&Growth, &Estimate)) -> Ordering {
    let ((a_verdict, a_surely), (b_verdict, b_surely)) = (a.0.rank(), b.0.rank());
    let by_growth = b_verdict.cmp(&a_verdict).then(b_surely.total_cmp(&a_surely));
    by_growth.then(b.1.value.total_cmp(&a.1.value))
}
