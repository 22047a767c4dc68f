//! Blocks that live shortly, together, or in several threads.

use super::call_paths::CallPath;
use super::containers::Container;
use super::growth::growth_steps;
use super::language::Language;
use super::worth::at_least;
use super::{Evidence, Savings};
use crate::names;

/// Largest block, in bytes, that may lie on the stack.
const ON_STACK: u64 = 1 << 10;
/// Largest mean size, in bytes, of blocks that gain from an arena.
const SMALL: u64 = 256;
/// Smallest mean length of a run that makes an arena worth its trouble.
const RUN: u64 = 64;

/// Finds one block after another, where one would do; None otherwise.
pub(super) fn temporary(
    path: &CallPath,
    through: Option<&str>,
    language: Language,
) -> Option<(Evidence, Savings, String)> {
    let (c, p) = (&path.counts, &path.patterns);
    let freed_before_next = p.alternating;
    if !at_least(freed_before_next, 90, c.allocations) || at_least(p.growth_steps, 10, c.allocations) {
        return None;
    }
    let evidence = Evidence::TemporaryBlock {
        allocations: c.allocations,
        freed_before_next,
        smallest_bytes: p.smallest,
        largest_bytes: p.largest,
        allocated_bytes: c.allocated_bytes,
        container: path.container.map(Container::name),
    };
    let remedy = match (path.container, through) {
        _ if language == Language::DropGlue => {
            "It is allocated while a value is dropped: drop fewer such values, or keep them for reuse.".to_owned()
        }
        (Some(container), _) if growth_steps(path) > 0 => container.remedy().to_owned(),
        (Some(container), _) => container.remedy_without_growth(path.call, through),
        // Who catches it may keep no block of it.
        (None, Some("__cxa_allocate_exception")) => {
            "An exception is thrown each time: return a value where failing is usual.".to_owned()
        }
        (None, Some(through)) => {
            format!(
                "{} allocates in each call: call it less often, or keep the block, if it returns that.",
                names::short(through)
            )
        }
        (None, None) if language == Language::Rust => "Keep one buffer outside of the loop, and reuse it.".to_owned(),
        (None, None) if p.smallest != p.largest => {
            "Keep one block outside of the loop, as large as it has to be.".to_owned()
        }
        (None, None) if p.largest <= ON_STACK => "Keep one outside of the loop, or take one on the stack.".to_owned(),
        (None, None) => "Keep one outside of the loop.".to_owned(),
    };
    // One container grows by several calls.
    let calls = if path.container.is_some() && growth_steps(path) > 0 { 1 } else { path.calls() };
    let paths = if path.is_gone_at_once() { 1 } else { path.sites };
    let remedy = for_each_call(remedy, calls, paths);
    Some((evidence, Savings { allocations: freed_before_next, ..Savings::default() }, remedy))
}

/// The remedy for several calls of one line: their blocks may be live at once, and one is too few. So may be those of
/// one call, where its callers keep what it makes: `paths` are all call paths, or 1 where no two blocks are live
/// together.
fn for_each_call(mut remedy: String, calls: u64, paths: u64) -> String {
    let what = ["Keep one block", "Keep one buffer", "Keep one"].into_iter().find(|what| remedy.starts_with(what));
    let Some(what) = what else { return remedy };
    if calls > 1 {
        remedy.insert_str(what.len(), &format!(" for each of {calls} call paths"));
    }
    if paths > calls {
        remedy.truncate(remedy.trim_end_matches('.').len());
        remedy.push_str(&format!("; one for each of {paths} call paths where they have one at once."));
    }
    remedy
}

/// Finds small blocks that are freed together. Several places may share an arena, so there is no remedy yet. `in_glibc`
/// says that the size of headers is known.
pub(super) fn together(path: &CallPath, in_glibc: bool) -> Option<(Evidence, Savings)> {
    let (c, p) = (&path.counts, &path.patterns);
    let average_bytes = average(path);
    if !at_least(p.freed_in_runs, 80, c.allocations) || p.freed_in_runs / RUN < p.runs || average_bytes > SMALL {
        return None;
    }
    // A block in a hundred that stays keeps its arena.
    if at_least(c.live, 1, c.allocations) {
        return None;
    }
    let allocated_overhead_bytes = if in_glibc { p.overhead_bytes } else { 0 };
    let evidence = Evidence::OneLifetime {
        allocations: c.allocations,
        allocated_bytes: c.allocated_bytes,
        freed_in_runs: p.freed_in_runs,
        runs: p.runs,
        overhead_bytes: share(allocated_overhead_bytes, c.peak, c.allocations),
        allocated_overhead_bytes,
        places: 1,
    };
    Some((evidence, Savings { allocations: c.allocations, ..Savings::default() }))
}

/// Finds blocks that go from thread to thread; as with [`together`], places are merged.
pub(super) fn handed_over(path: &CallPath) -> Option<(Evidence, Savings)> {
    let (c, p) = (&path.counts, &path.patterns);
    if !at_least(p.freed_by_others, 50, c.allocations) {
        return None;
    }
    let evidence =
        Evidence::FreedByOthers { allocations: c.allocations, freed_by_others: p.freed_by_others, places: 1 };
    Some((evidence, Savings { freed_by_others: p.freed_by_others, ..Savings::default() }))
}

/// Sums up evidence of one kind from several paths, with the number of the path that has the most.
pub(super) fn merged(all: Vec<(usize, Evidence, Savings)>) -> Option<(usize, Evidence, Savings)> {
    let weight = |saves: &Savings| (saves.allocations, saves.freed_by_others);
    let largest = all.iter().max_by_key(|(number, _, saves)| (weight(saves), std::cmp::Reverse(*number)))?.0;
    let (evidence, saves) = all.into_iter().map(|(_, evidence, saves)| (evidence, saves)).reduce(plus)?;
    Some((largest, evidence, saves))
}

fn plus((a, s): (Evidence, Savings), (b, t): (Evidence, Savings)) -> (Evidence, Savings) {
    let sum = |a: u64, b: u64| a.saturating_add(b);
    let evidence = match (a, b) {
        (
            Evidence::OneLifetime {
                allocations,
                allocated_bytes,
                freed_in_runs,
                runs,
                overhead_bytes,
                allocated_overhead_bytes,
                places,
            },
            Evidence::OneLifetime {
                allocations: n,
                allocated_bytes: bytes,
                freed_in_runs: freed,
                runs: more_runs,
                overhead_bytes: at_peak,
                allocated_overhead_bytes: overhead,
                places: more_places,
            },
        ) => Evidence::OneLifetime {
            allocations: sum(allocations, n),
            allocated_bytes: sum(allocated_bytes, bytes),
            freed_in_runs: sum(freed_in_runs, freed),
            runs: sum(runs, more_runs),
            overhead_bytes: sum(overhead_bytes, at_peak),
            allocated_overhead_bytes: sum(allocated_overhead_bytes, overhead),
            places: sum(places, more_places),
        },
        (
            Evidence::FreedByOthers { allocations, freed_by_others, places },
            Evidence::FreedByOthers { allocations: n, freed_by_others: freed, places: more },
        ) => Evidence::FreedByOthers {
            allocations: sum(allocations, n),
            freed_by_others: sum(freed_by_others, freed),
            places: sum(places, more),
        },
        // Only evidence of one kind is merged.
        (a, _) => return (a, s),
    };
    let saves = Savings {
        allocations: sum(s.allocations, t.allocations),
        copied_bytes: sum(s.copied_bytes, t.copied_bytes),
        freed_by_others: sum(s.freed_by_others, t.freed_by_others),
        large_bytes: sum(s.large_bytes, t.large_bytes),
        peak_bytes: sum(s.peak_bytes, t.peak_bytes),
    };
    (evidence, saves)
}

fn average(path: &CallPath) -> u64 {
    path.counts.allocated_bytes.checked_div(path.counts.allocations).unwrap_or(0)
}

/// `whole` in the proportion of `part` to `all`.
fn share(whole: u64, part: u64, all: u64) -> u64 {
    let product = u128::from(whole) * u128::from(part);
    product.checked_div(all.into()).map_or(0, |share| u64::try_from(share).unwrap_or(u64::MAX))
}
