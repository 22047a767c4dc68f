//! Mappings, divided where ranges of known owners begin or end.
//!
//! The kernel joins anonymous mappings with their neighbours. The sizes of a part are shared out by the pages that
//! exist in it; those of all parts together remain what the kernel says of the whole.

use super::Failure;
use super::pagemap::{PAGE, Pagemap};
use super::smaps::is_anonymous;
use mallow_profile::{Mapping, MemorySizes, PageRun, PageState};
use std::ops::Range;

/// The kernel's sizes are multiples of this, and those of a recording: what is shown while it is recorded is what is
/// shown of the file.
const UNIT: u64 = 1024;

/// Gives each of these ranges, as far as private memory of no file lies in it, a mapping of its own, and calls `label`
/// with that. Precondition: ranges are by address, do not overlap, and are of whole pages. A mapping whose pages are
/// not all known remains as it is.
pub fn divide(
    ranges: &[Range<u64>],
    pagemap: &mut Pagemap,
    mappings: &mut Vec<Mapping>,
    mut label: impl FnMut(&mut Mapping),
) -> Result<(), Failure> {
    if ranges.is_empty() {
        return Ok(());
    }
    let mut divided = Vec::with_capacity(mappings.len() + ranges.len());
    for mut mapping in mappings.drain(..) {
        let parts = if is_anonymous(&mapping) { parts(ranges, &mapping) } else { Vec::new() };
        match &parts[..] {
            [] | [(_, false)] => divided.push(mapping),
            [(_, true)] => {
                label(&mut mapping);
                divided.push(mapping);
            }
            _ => match cut(pagemap, &mapping, &parts)? {
                None => divided.push(mapping),
                Some(all) => divided.extend(all.into_iter().zip(&parts).map(|(mut part, (_, is_in_range))| {
                    if *is_in_range {
                        label(&mut part);
                    }
                    part
                })),
            },
        }
    }
    *mappings = divided;
    Ok(())
}

/// What a mapping consists of, and whether that is in one of the ranges.
fn parts(ranges: &[Range<u64>], mapping: &Mapping) -> Vec<(Range<u64>, bool)> {
    let (mut parts, mut at) = (Vec::new(), mapping.start);
    let first = ranges.partition_point(|range| range.end <= mapping.start);
    for range in ranges[first..].iter().take_while(|range| range.start < mapping.end) {
        let (start, end) = (range.start.max(at), range.end.min(mapping.end));
        if at < start {
            parts.push((at..start, false));
        }
        parts.push((start..end, true));
        at = end;
    }
    if at < mapping.end {
        parts.push((at..mapping.end, false));
    }
    parts
}

/// The parts of a mapping as mappings of its kind. None: its pages are not all known. Precondition: there are two parts
/// at least.
fn cut(pagemap: &mut Pagemap, whole: &Mapping, parts: &[(Range<u64>, bool)]) -> Result<Option<Vec<Mapping>>, Failure> {
    let first = pagemap.runs.len();
    let is_known = pagemap.read(whole)?;
    let runs = pagemap.runs.split_off(first);
    if !is_known {
        return Ok(None);
    }
    let count = |range: &Range<u64>, state: u8| {
        let of_run = |run: &PageRun| {
            let (start, end) = (run.start.max(range.start), (run.start + PAGE * run.pages).min(range.end));
            if run.state.has(state) { end.saturating_sub(start) } else { 0 }
        };
        runs.iter().map(of_run).sum::<u64>()
    };
    let states = [PageState::RESIDENT, PageState::SWAPPED, PageState::HUGE];
    let counted: Vec<[u64; 3]> = parts.iter().map(|(range, _)| states.map(|state| count(range, state))).collect();
    let sums: [u64; 3] = std::array::from_fn(|at| counted.iter().map(|part| part[at]).sum());
    let mut rest = whole.sizes;
    let mut divided = Vec::with_capacity(parts.len());
    for (at, (range, _)) in parts.iter().enumerate() {
        let is_last = at + 1 == parts.len();
        let sizes = if is_last { rest } else { share(&whole.sizes, range.end - range.start, counted[at], sums) };
        let (taken, left) = (sizes.all(), rest.all());
        // No more than is left, so that the parts add up to the whole whatever the pages were meanwhile.
        let sizes = MemorySizes::of(std::array::from_fn(|field| taken[field].min(left[field])));
        rest = MemorySizes::of(std::array::from_fn(|field| left[field] - taken[field].min(left[field])));
        divided.push(Mapping { start: range.start, end: range.end, sizes, ..whole.clone() });
    }
    Ok(Some(divided))
}

/// The sizes of a part of `bytes` with so many resident, swapped and huge ones.
fn share(whole: &MemorySizes, bytes: u64, part: [u64; 3], sums: [u64; 3]) -> MemorySizes {
    let of = |size: u64, at: usize| {
        let share = u128::from(size) * u128::from(part[at]) / u128::from(sums[at].max(1));
        u64::try_from(share).unwrap_or(size) / UNIT * UNIT
    };
    let resident = MemorySizes::of(whole.all().map(|size| of(size, 0)));
    MemorySizes {
        size: bytes,
        huge: of(whole.huge, 2),
        swap: of(whole.swap, 1),
        swap_pss: of(whole.swap_pss, 1),
        hugetlb: 0,
        ..resident
    }
}
