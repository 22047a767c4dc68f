//! Lost blocks, cycles of them, and what could not be divided into lost and reachable.

use mallow_report::analysis::{Cycle, CyclePlace, LeakState, LeakStates, Leaks, LiveMoment};

use crate::output::text::units::{bytes, of};
use crate::output::text::{Line, Look, Page, function, location};
use mallow_profile::Quantity;

/// Limit of process ids that are named.
const PIDS: usize = 5;

/// Words behind the blocks of a report: when they were live.
pub fn live(moment: LiveMoment) -> &'static str {
    match moment {
        LiveMoment::End => "live at the end",
        LiveMoment::Detached => "live at the end of the recording",
        LiveMoment::Snapshot => "live when the profile was taken",
    }
}

/// The sentence where no block of a state is reported.
pub fn nothing(report: &Leaks, state: Option<LeakState>) -> &'static str {
    let is_suppressed = report.suppressed > 0 || report.suppressed_bytes > 0;
    let states = report.states.as_ref();
    match state {
        None if is_suppressed => {
            "Nothing to report: all that was live at the end is suppressed, or kept as the next lines say."
        }
        None if states.is_some_and(|states| states.at_exec().live > 0) => {
            "No recorded block was live at the end of a process: all were freed, or given back by exec."
        }
        None if report.live_moment == LiveMoment::Snapshot => "No block was live when the profile was taken.",
        None => "No recorded block was live at the end: all were freed.",
        Some(LeakState::Lost) if is_suppressed => "Nothing to report: all lost blocks are suppressed.",
        Some(LeakState::Lost) if states.is_some_and(|states| states.lost_blocks.is_none()) => {
            "No process was scanned: whether a block was lost is not known."
        }
        Some(LeakState::Lost) if states.is_some_and(|states| !states.unscanned.is_empty()) => {
            "No block of the scanned processes was lost."
        }
        Some(LeakState::Lost) => "No block was lost.",
        Some(LeakState::Reachable) if is_suppressed => {
            "Nothing to report: all reachable blocks are suppressed, or kept as the next lines say."
        }
        Some(LeakState::Reachable) => "No block was still reachable at the end.",
        Some(LeakState::Unscanned) if is_suppressed => {
            "Nothing to report: all blocks of processes that were not scanned are suppressed."
        }
        Some(LeakState::Unscanned) => "No block was live at the end of a process that was not scanned.",
        Some(LeakState::Exec) => "No block was live when a process called exec.",
    }
}

pub fn at_exec(report: &Leaks, look: &Look, page: &mut Page) {
    let sum = report.states.as_ref().map(LeakStates::at_exec).unwrap_or_default();
    if sum.live > 0 || sum.live_bytes > 0 {
        page.gap();
        let size = amount(report, sum.live_bytes, sum.live, look);
        let text = format!(
            "No leak: {size} live when processes called exec, which gives back all memory; --only exec shows them"
        );
        page.sentence(Line::new().faint(text));
    }
}

/// A line for each kind of cycle.
pub fn cycles(report: &Leaks, look: &Look, page: &mut Page) {
    for cycle in report.states.iter().flat_map(|states| &states.lost_cycles) {
        page.gap();
        page.hanging(Line::new(), &line(cycle, look));
    }
}

/// `746 kB lost: 2,858 cycles of open_session session.cpp:9 ↔ connect session.cpp:10, kept alive only by each other
/// (shared_ptr)`
pub fn line(cycle: &Cycle, look: &Look) -> String {
    let place = |place: &CyclePlace| {
        let Some(frame) = &place.frame else { return "an unknown place".to_owned() };
        let name = function(&frame.function, look);
        let at = location(&frame.function, frame.file.as_deref(), frame.line, None, look);
        if at.is_empty() { name } else { format!("{name} {at}") }
    };
    let places: Vec<String> = cycle.places.iter().map(place).collect();
    let pointer = cycle.places.iter().find_map(|place| place.pointer);
    let how = match pointer {
        // What the language has for it.
        Some("Swift reference") => " (Swift reference cycle: make one of them weak, or capture [weak self])".to_owned(),
        Some(pointer) => format!(" ({pointer} cycle)"),
        None => String::new(),
    };
    let size = bytes(cycle.bytes, look.exact);
    let each = if cycle.count == 1 { "its blocks point" } else { "the blocks of each point" };
    // Blocks of one place: some may be a cycle of their own.
    let other = if cycle.places.len() == 1 { "themselves or each other" } else { "each other" };
    let what = match pointer {
        Some(_) if cycle.is_counted => format!("kept alive only by {other}{how}"),
        Some(pointer) => format!("{each} to {other}, and nothing else points to them; a {pointer} is among them"),
        None => format!("{each} to {other}, and nothing else points to them"),
    };
    format!("{size} lost: {} of {}, {what}", of(cycle.count, "cycle"), places.join(" ↔ "))
}

/// The note on blocks that are still reachable.
pub fn others(lost: &Leaks, reachable: &Leaks, look: &Look, page: &mut Page) {
    if reachable.reported == 0 && reachable.reported_bytes == 0 {
        return;
    }
    page.gap();
    let size = amount(reachable, reachable.reported_bytes, reachable.reported, look);
    let and = if lost.live > 0 { "In addition, " } else { "" };
    page.sentence(Line::new().plain(format!("{and}{size} still reachable at the end; --only reachable shows them")));
}

/// Processes that were not scanned, by the reason.
pub fn unscanned(report: &Leaks, others_were: bool, look: &Look, page: &mut Page) {
    for unscanned in report.states.iter().flat_map(|states| &states.unscanned) {
        let named: Vec<String> = unscanned.pids.iter().take(PIDS).map(u32::to_string).collect();
        let more = if unscanned.pids.len() > PIDS { ", …" } else { "" };
        let who = if unscanned.pids.len() == 1 { "process" } else { "processes" };
        let size = amount(report, unscanned.live.live_bytes, unscanned.live.live, look);
        let show = if others_were { "; --only unscanned shows them" } else { "" };
        page.gap();
        let text = format!(
            "Lost or reachable is not known of {size}: {who} {}{more} not scanned: {}{show}",
            named.join(", "),
            unscanned.reason
        );
        page.hanging(Line::new(), &text);
    }
}

/// Whether the quantity is known of these leaks.
pub fn has(report: &Leaks, quantity: Quantity) -> bool {
    report.origin.as_ref().is_none_or(|origin| origin.quantities.has(quantity))
}

/// An amount such as `192 B in 3 blocks`; the size alone where blocks were not counted.
pub fn amount(report: &Leaks, size: u64, blocks: u64, look: &Look) -> String {
    let size = bytes(size, look.exact);
    if has(report, Quantity::Live) { format!("{size} in {}", of(blocks, "block")) } else { size }
}
