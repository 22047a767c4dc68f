//! `mallow go profile`: every line that allocates in a heap profile, and why.

use std::process::ExitCode;

use anyhow::Result;
use mallow_golang::join::{Explained, ReasonSource};
use serde::Serialize;

use super::bench_text::rows;
use super::figures::Amounts;
use super::heap::Heap;
use crate::flags::{GoProfileFlags, ViewFlags};
use crate::output::progress::Spinner;
use crate::output::text::units::{bytes, count, of, percent};
use crate::output::text::{Line, Look, Page, Stream};
use crate::output::{exit, json, stdio};

/// Lines that are shown, where the number is not said.
const LINES: usize = 12;

/// The allocations in a heap profile, with reasons.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GoProfile {
    /// Version of Go whose compiler was asked.
    pub go: String,
    /// Path of the profile, as the command line has it.
    pub profile: String,
    /// True: the profile's live blocks (`inuse_*`) are counted. False: all allocations (`alloc_*`).
    pub live: bool,
    /// Sampling interval of the profile: one allocation in about so many bytes is in it; left out where all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled_bytes: Option<u64>,
    /// Sums of the profile, and how much of them has a line and a reason.
    pub sums: ProfileSums,
    /// Lines that allocate, the most bytes first.
    pub lines: Vec<Explained>,
    /// Sentences on what is not known, and why.
    pub notes: Vec<String>,
}

/// Sums over a profile.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProfileSums {
    /// Blocks of the whole profile, estimated from its samples.
    pub allocations: f64,
    /// Bytes of the whole profile, estimated from its samples.
    pub bytes: f64,
    /// Blocks with a source line.
    pub on_lines: f64,
    /// Blocks with a source line and a reason.
    pub with_reason: f64,
    /// Blocks of Go's runtime: no line outside of the runtime leads to them.
    pub of_runtime: f64,
    /// Bytes of the blocks in `of_runtime`.
    pub of_runtime_bytes: f64,
}

pub fn run(flags: &GoProfileFlags) -> Result<ExitCode> {
    let working = Spinner::new();
    let mut heap = Heap::read(&flags.profile, &flags.heap, flags.tool.tags.as_deref())?;
    let (mut lines, _) = heap.explain(&[], &working, |_| true)?;
    drop(working);
    lines.sort_by(|a, b| b.allocation.bytes.total_cmp(&a.allocation.bytes));
    let sum = |of: &dyn Fn(&Explained) -> f64| lines.iter().map(of).sum::<f64>();
    let on_lines = sum(&|line| line.allocation.allocations);
    let known = |line: &Explained| line.explanation.source != ReasonSource::None;
    let sums = ProfileSums {
        allocations: on_lines + heap.nowhere.allocations,
        bytes: sum(&|line| line.allocation.bytes) + heap.nowhere.bytes,
        on_lines,
        with_reason: sum(&|line| if known(line) { line.allocation.allocations } else { 0.0 }),
        of_runtime: heap.nowhere.allocations,
        of_runtime_bytes: heap.nowhere.bytes,
    };
    let report = GoProfile {
        go: heap.version().to_owned(),
        profile: flags.profile.display().to_string(),
        live: flags.heap.live,
        sampled_bytes: heap.sampled_bytes,
        sums,
        lines,
        notes: heap.notes,
    };
    let look = flags.view.look(Stream::Out);
    stdio::print(&match flags.view.json {
        true => json::document(&report)?,
        false => text(&report, &flags.view, &look),
    })?;
    Ok(exit::OK)
}

fn text(report: &GoProfile, view: &ViewFlags, look: &Look) -> String {
    let mut page = Page::new(*look);
    let what = if report.live { "is live" } else { "allocates" };
    page.line(
        Line::new()
            .strong(format!("Lines of {}", report.profile))
            .plain(format!(" by bytes, what {what} there and why, by {}", report.go)),
    );
    let sums = &report.sums;
    let amounts = Amounts { estimated: report.sampled_bytes.is_some() };
    let (whole, size) = (|number| amounts.whole(number), |number| amounts.size(number, look));
    let sampled = report.sampled_bytes.map(|n| format!("; estimates, from one in {}", bytes(n, false)));
    let about = if amounts.estimated { "about " } else { "" };
    let whole_of_it = format!(
        "{about}{}, {} in the profile{}; as of the last garbage collection",
        of(whole(sums.allocations), "allocation"),
        size(sums.bytes),
        sampled.unwrap_or_default()
    );
    page.hanging(Line::new(), &whole_of_it);
    if sums.of_runtime > 0.0 {
        let (allocations, bytes) = (whole(sums.of_runtime), size(sums.of_runtime_bytes));
        let own = if allocations == 1 {
            "is the runtime's own and has no row"
        } else {
            "are the runtime's own and have no row"
        };
        page.hanging(Line::new(), &format!("{about}{} of the allocations, {bytes}, {own}", count(allocations)));
    }
    const TINY: &str =
        "objects below 16 bytes without pointers share blocks, of which a heap profile has the first object alone";
    page.hanging(Line::new(), TINY);
    page.gap();
    let cells = |line: &Explained| {
        let allocation = &line.allocation;
        let plain = |number: f64| number.round().max(0.0) as u64;
        let share = percent(plain(allocation.bytes), plain(sums.bytes));
        [count(whole(allocation.allocations)), size(allocation.bytes), share]
    };
    let limit = view.limit(LINES).min(report.lines.len());
    let called = |number| count(whole(number));
    rows(&report.lines[..limit], ["allocations", "bytes", ""], (cells, called), look, &mut page);
    let rest: f64 = report.lines[limit..].iter().map(|line| line.allocation.bytes).sum();
    if limit < report.lines.len() {
        let more = of((report.lines.len() - limit) as u64, "line");
        page.line(Line::new().faint(format!("and {more} more, {}; --limit 0 shows all", size(rest))));
    }
    page.gap();
    for note in &report.notes {
        page.hanging(Line::new().warning("note: "), note);
    }
    page.into_text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::go::fixture;

    fn report(live: bool) -> GoProfile {
        GoProfile {
            go: "go1.26.8".to_owned(),
            profile: "mem.out".to_owned(),
            live,
            sampled_bytes: (!live).then_some(512 << 10),
            sums: ProfileSums {
                allocations: 1260.0,
                bytes: 64_200.0,
                on_lines: 1254.0,
                with_reason: 1251.0,
                of_runtime: 6.0,
                of_runtime_bytes: 200.0,
            },
            lines: fixture::lines(),
            notes: vec!["the program of the profile, /tmp/x.test, is not here: calls are not known".to_owned()],
        }
    }

    #[test]
    fn lines_with_their_reasons_and_what_is_not_known() {
        insta::assert_snapshot!(text(&report(false), &ViewFlags::default(), &Look::default()));
    }

    #[test]
    fn few_of_what_is_live_with_exact_numbers() {
        let view = ViewFlags { limit: Some(1), ..ViewFlags::default() };
        let look = Look { width: Some(72), exact: true, full_names: true, ..Look::default() };
        insta::assert_snapshot!(text(&GoProfile { notes: Vec::new(), ..report(true) }, &view, &look));
    }
}
