//! The report of `guard` as text.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use mallow_arch::registers::ROWS;
use mallow_report::analysis::Stack;

use super::crashes::CrashDocument;
use super::errors::{ErrorDocument, Report};
use super::steps::OperationDocument;
use super::words;

use crate::output::text::units::{count, of, span};
use crate::output::text::{Line, Look, Page, framed, gaps};

/// Frames of each stack, where not all are shown.
const FRAMES: usize = 4;
/// Reasons why processes are not guarded that are shown.
const REASONS: usize = 5;

pub fn report(report: &Report<'_>, look: &Look, stacks: bool, limit: usize) -> String {
    let mut page = Page::new(*look);
    let errors = report.errors;
    // Of a program that was not looked at, "no error" would be said of nothing.
    let title = match errors.len() {
        0 if report.out_of_reach.is_some() => "Nothing was guarded, so no memory error could be found.".to_owned(),
        0 if !report.crashes.is_empty() => {
            format!("{} found, and no memory error before", of(report.crashes.len() as u64, "crash"))
        }
        0 if let Some(signal) = &report.ended_by => {
            format!("{signal} ended the command, and no memory error was found before.")
        }
        0 => {
            let whole = if report.is_whole() { "" } else { " in what was guarded" };
            let left_out = if report.suppressed > 0 { " but those left out" } else { "" };
            format!("No memory error was found{whole}{left_out}.")
        }
        n if report.crashes.is_empty() => format!("{} found", of(n as u64, "memory error")),
        n => {
            let crashes = of(report.crashes.len() as u64, "crash");
            format!("{} and {crashes} found", of(n as u64, "memory error"))
        }
    };
    page.sentence(Line::new().strong(title).plain(guarded(report)));
    for error in errors.iter().take(limit) {
        page.gap();
        one(error, look, stacks, &mut page);
    }
    if errors.len() > limit {
        page.gap();
        page.sentence(
            Line::new().faint(format!("… {} more; --limit 0 shows all", count((errors.len() - limit) as u64))),
        );
    }
    for error in report.crashes.iter().take(limit) {
        page.gap();
        crash(error, look, stacks, &mut page);
    }
    if let Some(signal) = report.crash_unseen() {
        page.gap();
        let what = format!("No stack of the crash ({signal})");
        page.sentence(Line::new().warning(what).plain(format!(": {}", words::UNSEEN)));
    }
    if let Some(why) = &report.out_of_reach {
        page.gap();
        page.sentence(Line::new().warning("Out of reach").plain(format!(": {why}")));
    }
    if let Some(why) = &report.too_little {
        page.gap();
        page.sentence(Line::new().warning("Too little was guarded").plain(format!(": {why}")));
    }
    if !report.custom_allocators.is_empty() {
        page.gap();
        gaps::show(gaps::allocators(&report.custom_allocators, report.processes), &mut page);
    }
    for (reason, pids) in report.unsearched.iter().take(REASONS) {
        page.gap();
        let who = format!("Not searched for leaks: {}", images(report, reason, *pids));
        page.sentence(Line::new().faint(format!("{who}: {reason}")));
    }
    for (reason, pids) in report.refused.iter().take(REASONS) {
        page.gap();
        let who = format!("Not guarded: {}", images(report, reason, *pids));
        page.sentence(Line::new().warning(who).plain(format!(": {reason}")));
    }
    for (reason, pids) in report.ended.iter().take(REASONS) {
        page.gap();
        let who = format!("Guarded only in part: {}", images(report, reason, *pids));
        page.sentence(Line::new().warning(who).plain(format!(": {reason}")));
    }
    for (reason, pids) in report.handled.iter().take(REASONS) {
        page.gap();
        let who = format!("Guarded by a signal handler: {}", images(report, reason, *pids));
        page.sentence(Line::new().faint(format!("{who}: {reason}")));
    }
    for (reason, pids) in report.uncompared.iter().take(REASONS) {
        page.gap();
        let who = format!("Mismatched frees were not looked for: {}", images(report, reason, *pids));
        page.sentence(Line::new().faint(format!("{who}: {reason}")));
    }
    if let Some((side, place)) = report.beyond.filter(|_| report.guarded > 0 && errors.is_empty()) {
        page.gap();
        page.sentence(Line::new().faint(format!("Accesses {side} blocks: --place {place} finds them")));
    }
    if report.unsure > 0 {
        page.gap();
        let frees = of(report.unsure, "free");
        let why = "by another operation than the allocation's may be right: modules without imported operators may have their own";
        page.sentence(Line::new().faint(format!("{frees} {why}")));
    }
    if report.lost > 0 {
        page.gap();
        let were = if report.lost == 1 { "was" } else { "were" };
        page.sentence(Line::new().warning(format!("{} more {were} not looked at: too many", count(report.lost))));
    }
    if report.suppressed > 0 {
        page.gap();
        page.sentence(Line::new().faint(format!("{} left out by --suppressions", count(report.suppressed))));
    }
    if !errors.is_empty() {
        page.gap();
        page.sentence(Line::new().strong(sum(errors)));
    }
    page.into_text()
}

/// Number of processes that a reason is true of, with their programs: of a process that went through exec, the image
/// that is meant.
fn images(report: &Report<'_>, reason: &str, pids: u64) -> String {
    /// Limit of names that are shown.
    const NAMES: usize = 3;
    let all: Vec<&str> = report.programs.get(reason).into_iter().flatten().map(String::as_str).collect();
    let more = if all.len() > NAMES { ", …" } else { "" };
    match &all[..all.len().min(NAMES)] {
        [] => of(pids, "process"),
        names => format!("{} ({}{more})", of(pids, "process"), names.join(", ")),
    }
}

/// Number of errors of each kind, the most first.
fn sum(errors: &[ErrorDocument]) -> String {
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for error in errors {
        *kinds.entry(error.kind).or_default() += 1;
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, n)| Reverse(*n));
    let kinds: Vec<String> =
        kinds.into_iter().map(|(kind, n)| format!("{} ({})", kind.replace('-', " "), count(n))).collect();
    format!("{}: {}", of(errors.len() as u64, "memory error"), kinds.join(", "))
}

fn guarded(report: &Report<'_>) -> String {
    let all = report.guarded.saturating_add(report.unguarded).saturating_add(report.unfit);
    let mut text = format!("  {} of {} guarded", count(report.guarded), of(all, "allocation"));
    if report.unguarded > 0 {
        text += &format!("; {} came while --memory was used up or no slot was ready", count(report.unguarded));
    }
    if report.unfit > 0 {
        text += &format!("; {} too large for a slot, or too aligned", count(report.unfit));
    }
    text
}

pub fn crash(crash: &CrashDocument, look: &Look, stacks: bool, page: &mut Page) {
    let access = crash.access.map(|access| format!(", {access}")).unwrap_or_default();
    let times = if crash.count > 1 { format!(", {} times", count(crash.count)) } else { String::new() };
    let place = match &crash.address {
        Some(address) => format!(": {address} is {}", crash.place),
        None => format!(": {}", crash.place),
    };
    page.sentence(Line::new().strong(format!("crash ({}{access})", crash.signal)).plain(place).faint(times));
    step("crashed", &crash.error, false, (look, stacks), page);
    if let Some(reason) = &crash.without_stack {
        page.sentence(Line::new().faint(format!("    {reason}")));
    }
    if let Some(block) = &crash.block {
        if let Some(freed) = &block.freed {
            step("freed", freed, true, (look, stacks), page);
        }
        step(&format!("allocated ({})", block.family), &block.allocated, true, (look, stacks), page);
    }
    for four in ROWS {
        let values = four.iter().filter_map(|name| Some(format!("{name} {}", crash.registers.get(name)?)));
        page.line(Line::new().faint(format!("  {}", values.collect::<Vec<_>>().join("  "))));
    }
    page.sentence(Line::new().plain(format!("  {}", crash.advice)));
}

pub fn one(error: &ErrorDocument, look: &Look, stacks: bool, page: &mut Page) {
    let kind = error.kind.replace('-', " ");
    if let (words::LEAK, Some(block)) = (error.kind, &error.block) {
        page.sentence(Line::new().strong(kind).plain(format!(": {}", error.place)));
        let verb = format!("allocated ({})", block.family);
        step(&verb, &error.error, false, (look, stacks), page);
        let first = format!("  The first is at {}, {} old.", error.address, span(error.error.before_ms));
        page.sentence(Line::new().faint(first));
        page.sentence(Line::new().plain(format!("  {}", error.advice)));
        return;
    }
    let access = error.access.map(|access| format!(" ({access})")).unwrap_or_default();
    let times = if error.count > 1 { format!(", {} times", count(error.count)) } else { String::new() };
    let line = Line::new().strong(format!("{kind}{access}")).plain(format!(": {} is {}", error.address, error.place));
    page.sentence(line.faint(times));
    let verb = match (error.access, error.kind) {
        (Some("write"), _) => "written",
        (Some(_), _) => "read",
        (None, "write-beside-block") if error.error.stack.frames.is_empty() => "found at the exit, allocated",
        (None, "write-beside-block") => "found at the free",
        (None, _) => "freed",
    };
    let by_kernel = error.call.map(|call| format!("{verb} by the kernel for {call},"));
    step(by_kernel.as_deref().unwrap_or(verb), &error.error, false, (look, stacks), page);
    if let Some(reason) = &error.without_stack {
        page.sentence(Line::new().faint(format!("    {reason}")));
    }
    if let Some(block) = &error.block {
        if let Some(freed) = &block.freed {
            step("freed", freed, true, (look, stacks), page);
        }
        step(&format!("allocated ({})", block.family), &block.allocated, true, (look, stacks), page);
    }
    if !error.bytes.is_empty() {
        let what = match error.kind {
            "overflow" => "last bytes of the block",
            "underflow" => "first bytes of the block",
            _ => "bytes found there",
        };
        page.sentence(Line::new().faint(format!("  {what}: {}", error.bytes)));
    }
    page.sentence(Line::new().plain(format!("  {}", error.advice)));
}

fn step(verb: &str, step: &OperationDocument, ago: bool, (look, stacks): (&Look, bool), page: &mut Page) {
    if verb.starts_with("found at the exit") {
        return;
    }
    let when = if ago { format!(", {} before", span(step.before_ms)) } else { String::new() };
    let thread = format!("  {verb} by thread {}{}{when}", step.tid, words::named(&step.thread));
    page.sentence(Line::new().plain(thread));
    frames(&step.stack, look, stacks, page);
}

fn frames(stack: &Stack, look: &Look, stacks: bool, page: &mut Page) {
    if stack.frames.is_empty() {
        page.line(Line::new().faint("    (no stack is known)"));
    }
    let named: Vec<_> = if stacks { stack.frames.iter().collect() } else { stack.own() };
    let most = if stacks { usize::MAX } else { FRAMES };
    for frame in named.iter().take(most) {
        page.line(Line::new().plain("    ").then(framed(frame, look)));
    }
    if named.len() > most {
        page.line(Line::new().faint(format!("    … {} more; --stacks shows all", named.len() - most)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Report, report};
    use crate::output::text::Look;

    fn nothing() -> Report<'static> {
        Report {
            command: vec!["gofmt".to_owned()],
            exit_status: Some(0),
            ended_by: None,
            errors: &[],
            crashes: &[],
            suppressed: 0,
            lost: 0,
            guarded: 0,
            unguarded: 0,
            unfit: 0,
            refused: BTreeMap::new(),
            handled: BTreeMap::new(),
            ended: BTreeMap::new(),
            custom_allocators: Vec::new(),
            processes: 1,
            unreached: Vec::new(),
            out_of_reach: None,
            too_little: None,
            beyond: Some(("before", "begin")),
            uncompared: BTreeMap::new(),
            unsure: 0,
            searched: 0,
            unsearched: BTreeMap::new(),
            programs: BTreeMap::new(),
        }
    }

    #[test]
    fn what_is_not_known_is_not_enough() {
        let run = Report { guarded: 95, unguarded: 3, unfit: 2, ..nothing() };
        assert_eq!([run.shortfall(0.0), run.shortfall(95.0)], [None, None]);
        let why = run.shortfall(95.5).expect("a sentence");
        assert!(why.starts_with("95 of 100 allocations were guarded, fewer than the 95.5 %"), "{why}");
        let unreached = vec!["x is statically linked".to_owned()];
        let run = Report { unreached, ..run };
        assert_eq!(run.shortfall(0.0), None);
        assert!(run.shortfall(50.0).is_some_and(|why| why.contains("1 process was guarded is not known")));
        assert!(nothing().shortfall(0.0).is_some_and(|why| why.starts_with("Nothing was guarded")));
    }

    /// It was "No memory error was found." of a program that nobody looked at.
    #[test]
    fn a_program_out_of_reach_is_not_said_to_have_no_error() {
        let why = Some("gofmt is statically linked".to_owned());
        let text = report(&Report { out_of_reach: why, ..nothing() }, &Look::default(), false, 9);
        assert!(
            text.starts_with("Nothing was guarded, so no memory error could be found.  0 of 0 allocations"),
            "{text}"
        );
        assert!(text.contains("Out of reach: gofmt is statically linked"), "{text}");
        let text = report(&Report { guarded: 9, ..nothing() }, &Look::default(), false, 9);
        assert!(text.starts_with("No memory error was found.  9 of 9 allocations guarded"), "{text}");
        assert!(text.contains("\nAccesses before blocks: --place begin finds them\n"), "{text}");
    }

    #[test]
    fn what_was_not_guarded_is_not_said_to_have_no_error() {
        let first = |run: Report<'_>| {
            let text = report(&run, &Look { width: None, ..Look::default() }, false, 9);
            text.lines().next().unwrap_or_default().to_owned()
        };
        let run = || Report { guarded: 7, ..nothing() };
        let in_part = "No memory error was found in what was guarded.";
        assert_eq!(
            first(Report { unfit: 2, ..run() }),
            format!("{in_part}  7 of 9 allocations guarded; 2 too large for a slot, or too aligned")
        );
        let unreached = vec!["x is statically linked".to_owned()];
        assert!(first(Report { unreached, ..run() }).starts_with(in_part));
        assert!(first(Report { suppressed: 1, ..run() }).starts_with("No memory error was found but those left out."));
    }
}
