//! Buffers that grow: step by step, again and again, and larger than they need to be.

use super::call_paths::CallPath;
use super::containers::Container;
use super::language::Language;
use super::worth::at_least;
use super::{Evidence, Savings};

/// Bytes that the steps of a single growth may copy before it matters that these are so few.
const COPIED: u64 = 10 << 20;
/// Percentage of allocations below which blocks that take over from others do so by chance.
const CHANCE_PERCENT: u64 = 5;
/// Percentage of the allocations and of the bytes below which growth is not worth a capacity: that would save less than
/// a tenth of what the insight promises. By chance, eight in a hundred arrays of a font's glyphs, each sized once,
/// looked like the next step of another one, with four in a hundred of the bytes. Growth by doubling copies half of the
/// bytes.
const RESERVE_PERCENT: u64 = 10;
/// Percentage of the peak below which slack is not worth a copy of the block.
const SLACK_PERCENT: u64 = 5;

/// Whether most of the buffers that end here began here. A buffer whose first block is of another call is none of this
/// call's, and the path does not say how many such buffers there are.
pub(super) fn begin_here(path: &CallPath) -> bool {
    let begun = begun(path);
    begun > 0 && at_least(begun, 50, path.patterns.alternating)
}

/// Number of blocks that took over from no other one.
fn begun(path: &CallPath) -> u64 {
    let p = &path.patterns;
    path.counts.allocations.saturating_sub(p.growth_steps).max(p.grown_buffers)
}

/// Finds buffers that grow here, and nothing much else; None otherwise.
pub(super) fn growth(path: &CallPath, language: Language) -> Option<(Evidence, Savings, String)> {
    let (c, p) = (&path.counts, &path.patterns);
    let begin_here = begin_here(path);
    let steps_each = p.growth_steps / p.grown_buffers.max(1);
    let mostly = at_least(p.growth_steps.saturating_add(p.grown_buffers), 80, c.allocations);
    if p.growth_steps == 0
        || !mostly
        || (steps_each < 2 && p.copied_bytes < COPIED)
        || !is_growth(path)
        || !path.call.may_grow()
    {
        return None;
    }
    let container = path.container.map(Container::name);
    let begun = begun(path);
    // Each one is gone before the next one begins.
    if begin_here && steps_each >= 2 && p.alternating >= 100 && at_least(p.alternating, 80, begun) {
        // One that grows has a first block, here or at another call: who keeps the container is spared that one, too.
        let first_elsewhere = begun.saturating_sub(c.allocations.saturating_sub(p.growth_steps));
        let allocations = c.allocations.saturating_add(first_elsewhere);
        let evidence = Evidence::RebuiltContainer {
            times: begun,
            allocations,
            growth_steps: p.growth_steps,
            copied_bytes: p.copied_bytes,
            largest_bytes: p.largest,
            container,
        };
        let saves = Savings { allocations, copied_bytes: p.copied_bytes, ..Savings::default() };
        let clear = path
            .container
            .and_then(Container::clear)
            .map_or("clear it".to_owned(), |how| format!("clear it with {how}"));
        let remedy = format!("Keep it from one time to the next and {clear}: its memory stays.");
        return Some((evidence, saves, remedy));
    }
    // Nor is it known of those that began elsewhere how many steps each has had.
    let doubling = !begin_here || steps_each <= geometric_steps(p.smallest, p.largest);
    let evidence = Evidence::GrownBuffer {
        grown_buffers: begin_here.then_some(p.grown_buffers),
        growth_steps: p.growth_steps,
        copied_bytes: p.copied_bytes,
        smallest_bytes: p.smallest,
        largest_bytes: p.largest,
        doubling,
        container,
    };
    let reserve = path.container.map_or("Allocate the final size at once", Container::reserve);
    let remedy = match doubling || language != Language::Other {
        // Rust's containers grow by doubling: steps are smaller only where they are asked to be.
        true if !doubling => format!("{reserve}, or reserve ahead instead of reserve_exact."),
        true => format!("{reserve}."),
        false => format!("{reserve}, or double the size in each step."),
    };
    let saves = Savings { allocations: p.growth_steps, copied_bytes: p.copied_bytes, ..Savings::default() };
    Some((evidence, saves, remedy))
}

/// Number of growth steps of containers whose size the program can reserve; 0 where that is not worth it. Fewer than
/// one in twenty are chance, and those within a call that returns a new container are the library's.
pub(super) fn growth_steps(path: &CallPath) -> u64 {
    let c = &path.counts;
    // A step is an allocation, and no block more.
    let most = if path.container.is_some_and(Container::reallocates) { reallocs(path) } else { c.allocations };
    let steps = path.patterns.growth_steps.min(most);
    let is_growth = path.call.may_grow()
        && at_least(steps, CHANCE_PERCENT, c.allocations)
        && is_worth_reserving(steps, path.patterns.copied_bytes, c.allocations, c.allocated_bytes);
    if is_growth { steps } else { 0 }
}

/// Whether the steps, and what they copied, are enough of all allocations, or of all bytes.
pub(super) fn is_worth_reserving(steps: u64, copied_bytes: u64, allocations: u64, allocated_bytes: u64) -> bool {
    steps > 0
        && (at_least(steps, RESERVE_PERCENT, allocations) || at_least(copied_bytes, RESERVE_PERCENT, allocated_bytes))
}

/// Whether a block that takes over from a smaller one is the same buffer, grown: realloc says so, and so does a call
/// that fills a container which does without it. Else it may be the next one of a series, each larger than the last.
fn is_growth(path: &CallPath) -> bool {
    let moves = |container: Container| container.grows() && !container.reallocates();
    path.container.is_some_and(moves) && path.call.may_grow()
        || at_least(reallocs(path), 80, path.patterns.growth_steps)
}

fn reallocs(path: &CallPath) -> u64 {
    path.counts.reallocs_in_place.saturating_add(path.counts.reallocs_moved)
}

/// Most steps that take a buffer from one size to the other where each step adds half of the size or more.
fn geometric_steps(smallest: u64, largest: u64) -> u64 {
    let doublings = (largest / smallest.max(1)).checked_ilog2().unwrap_or(0);
    2 * u64::from(doublings) + 2
}

/// Finds large blocks that may be larger than they need to be, and those that were copied at the peak; None otherwise.
pub(super) fn slack(path: &CallPath, peak_bytes: u64, language: Language) -> Option<(Evidence, Savings, String)> {
    if !is_growth(path) {
        return None;
    }
    growing_at_peak(path, peak_bytes).or_else(|| kept_slack(path, peak_bytes, language))
}

fn growing_at_peak(path: &CallPath, peak_bytes: u64) -> Option<(Evidence, Savings, String)> {
    let growing = &path.large.growing;
    let old_bytes = growing.bytes.saturating_sub(growing.slack);
    if !path.call.may_grow() || growing.number == 0 || !at_least(old_bytes, SLACK_PERCENT, peak_bytes) {
        return None;
    }
    let evidence = Evidence::GrowingAtPeak { growing: growing.number, growing_bytes: growing.bytes, old_bytes };
    let reserve = path.container.map_or("Allocate the final size at once", Container::reserve);
    let old = if growing.number == 1 { "the old block is" } else { "the old blocks are" };
    // A size that is right may also be below the one that growth arrives at.
    let unused = if path.container.is_some_and(Container::doubles_alone) { 0 } else { growing.slack };
    let saves = Savings { peak_bytes: old_bytes.saturating_add(unused), ..Savings::default() };
    Some((evidence, saves, format!("{reserve}: {old} not there then, and the next highest moment is the peak.")))
}

fn kept_slack(path: &CallPath, peak_bytes: u64, language: Language) -> Option<(Evidence, Savings, String)> {
    let complete = &path.large.complete;
    let slack = complete.slack.min(path.counts.peak_bytes);
    // A hash table grows because it is full: the next smaller one does not hold what it has.
    let is_hash = path.container.is_some_and(Container::is_hash);
    if complete.number == 0 || is_hash || !at_least(slack, SLACK_PERCENT, peak_bytes) {
        return None;
    }
    let evidence =
        Evidence::KeptSlack { kept: complete.number, kept_bytes: complete.bytes, kept_slack: complete.slack };
    let usual = if language == Language::Other { "realloc to the size in use" } else { "shrink_to_fit()" };
    let shrink = path.container.and_then(Container::shrink).unwrap_or(usual);
    let remedy = format!("Once complete, {shrink} gives back what is not used.");
    Some((evidence, Savings { peak_bytes: slack, ..Savings::default() }, remedy))
}
