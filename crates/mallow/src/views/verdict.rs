//! The last line of a report in words: what matters most.

use mallow_profile::Origin;
use mallow_report::analysis::{Frame, Held, KeptSum, LiveMoment, Measure, PeakProgram, Saving, Statement};
use serde::Serialize;

use super::report_document::ReportDocument;
use crate::input::filters::Part;
use crate::output::text::units::{bytes, of, percent, share};
use crate::output::text::{Line, Look, Page, function, location};

/// The verdict in words. Printed, lead and statements are one sentence.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VerdictSentence {
    /// Beginning of the sentence: `Verdict: `, or that with what limits it.
    pub lead: &'static str,
    /// Statements on the recording without full stops, the one that matters most first.
    pub statements: Vec<String>,
}

/// The verdict in words. `lines`: with the lines of the places.
pub fn words(document: &ReportDocument, look: &Look, lines: bool) -> VerdictSentence {
    let sampled = document.overview.origin.as_ref().is_some_and(Origin::is_sampled);
    // What filters leave out may be lost, or be more.
    let lead = match (document.verdict.whole, sampled, document.part != Part::All) {
        (true, false, false) => "Verdict: ",
        (true, false, true) => "Verdict: of these, ",
        (true, true, false) => "Verdict: by estimates, ",
        (true, true, true) => "Verdict: by estimates of these, ",
        (false, false, false) => "Verdict: of what was recorded, ",
        (false, false, true) => "Verdict: of what was recorded of these, ",
        (false, true, false) => "Verdict: by estimates of what was recorded, ",
        (false, true, true) => "Verdict: by estimates of what was recorded of these, ",
    };
    let statements = document.verdict.statements.iter().map(|statement| sentence(statement, document, look, lines));
    VerdictSentence { lead, statements: statements.collect() }
}

/// Adds all of it to the page: a terminal breaks it between words.
pub fn show(document: &ReportDocument, look: &Look, page: &mut Page) {
    let VerdictSentence { lead, statements } = words(document, look, true);
    page.sentence(Line::new().strong(lead).plain(statements.join("; ")));
}

/// Adds to the page as much of it as has room in a line of the terminal, and how many statements have none.
pub fn show_line(document: &ReportDocument, look: &Look, page: &mut Page) {
    let Some(width) = look.width else { return show(document, look, page) };
    let said = |lines: bool| {
        let all = words(document, look, lines);
        let room = width.saturating_sub(all.lead.len());
        let said = fitting(&all.statements, room);
        (said.chars().count() <= room, all.lead, said)
    };
    // The name says more than its line, which is in the lists.
    let (_, lead, said) = Some(said(true)).filter(|(fits, ..)| *fits).unwrap_or_else(|| said(false));
    page.sentence(Line::new().strong(lead).plain(said));
}

/// The statements that fit into so many columns, and how many do not. The first one is there in any case, the others
/// are left out from the first on that does not fit: they are in the order of what they matter.
fn fitting(statements: &[String], room: usize) -> String {
    let with = |shown: usize| {
        let said = statements[..shown].join("; ");
        match statements.len() - shown {
            0 => said,
            left => format!("{said}; {left} more: --all"),
        }
    };
    let fits = |said: &String| said.chars().count() <= room;
    let best = (1..=statements.len()).rev().map(with).find(fits);
    best.unwrap_or_else(|| with(statements.len().min(1)))
}

fn sentence(statement: &Statement, document: &ReportDocument, look: &Look, lines: bool) -> String {
    let size = |n: u64| bytes(n, look.exact);
    let held = |what: &str, held: &Held| {
        let place = place(held.place.as_ref(), look, lines);
        let program = held.program.as_ref().map(|program| format!(" in {program}")).unwrap_or_default();
        // Of these alone: more of what a library keeps may be in another state.
        let beside = held.kept.as_ref().map(|kept| format!(", beside {}", keeps(kept, " of such blocks", look)));
        let beside = beside.unwrap_or_default();
        let part = part(held.place_bytes, held.bytes);
        format!("{} {what}, {part} from {place}{program}{beside}", size(held.bytes))
    };
    let saved = |what: &str, saving: &Saving| {
        let place = place(Some(&saving.place), look, lines);
        let others = match saving.places.saturating_sub(1) {
            0 => String::new(),
            others => format!(" and {}", of(others, "other place")),
        };
        format!("{} of {what} can be saved in {place}{others}", share(saving.of_whole))
    };
    match statement {
        Statement::NothingAllocated => "nothing was allocated".to_owned(),
        Statement::Lost(blocks) => held("lost", blocks),
        Statement::AtPeak { held: blocks, in_memory_bytes, program } => {
            let in_memory = in_memory_bytes.map(|most| format!(" (at most {} of it in memory)", size(most)));
            let in_program = program.as_ref().map(|PeakProgram { program, program_bytes }| {
                format!(", {} in {program}", part(*program_bytes, blocks.bytes))
            });
            held(&format!("at the peak{}{}", in_memory.unwrap_or_default(), in_program.unwrap_or_default()), blocks)
        }
        Statement::Reachable(blocks) => held("still reachable at the end", blocks),
        Statement::LiveLast(blocks) if document.is_unscanned() => {
            held("live at the end (not scanned for lost blocks)", blocks)
        }
        Statement::LiveLast(blocks) => held(live(document.live_moment), blocks),
        Statement::NotScanned { bytes } => format!("{} live at the end were not scanned for lost blocks", size(*bytes)),
        Statement::NoneLost { kept: None } => "no block was lost".to_owned(),
        Statement::NoneLost { kept: Some(kept) } => format!("no block was lost but {}", keeps(kept, "", look)),
        Statement::Kept(kept) => format!("nothing was {} but {}", live(document.live_moment), keeps(kept, "", look)),
        Statement::Allocated { by, total, place_total, place: frame } => {
            let sum = match by {
                Measure::Bytes => format!("{} allocated", size(*total)),
                _ => of(*total, "allocation"),
            };
            format!("{sum}, {} from {}", part(*place_total, *total), place(frame.as_ref(), look, lines))
        }
        Statement::NothingLive => format!("nothing was {}", live(document.live_moment)),
        Statement::PeakSaving(saving) => format!("up to {}", saved("the peak", saving)),
        Statement::TimeSaving { saving, of_run } => match of_run.map(malloc_time) {
            // No bound: a remedy may spare what other call paths allocate, too.
            Some(takes) => format!("{takes}, about {}", saved("that", saving)),
            None => format!("about {}", saved("malloc's time", saving)),
        },
    }
}

/// The part of the run's CPU time that malloc takes, from the least and the most. One of the two says something where
/// there is a statement: the most is two hundred times the least, or all.
fn malloc_time([least, most]: [f64; 2]) -> String {
    let how = match most < 0.1 {
        true => format!("at most {}", share(most)),
        false => format!("at least {}", share(least)),
    };
    format!("malloc takes {how} of the run's CPU time")
}

/// When the last blocks of a profile were live.
pub fn live(moment: LiveMoment) -> &'static str {
    match moment {
        LiveMoment::End => "live at the end",
        LiveMoment::Detached => "live at the end of the recording",
        LiveMoment::Snapshot => "live",
    }
}

/// `1.14 MB that perl keeps (not judged)`, `2.10 kB that fontconfig keeps by design`
fn keeps(kept: &KeptSum, of: &str, look: &Look) -> String {
    let (keepers, keep) = match &kept.keepers[..] {
        [one] => ((*one).to_owned(), "keeps"),
        [all @ .., last] => (format!("{} and {last}", all.join(", ")), "keep"),
        [] => ("a library".to_owned(), "keeps"),
    };
    let how = if kept.judged { "by design" } else { "(not judged)" };
    format!("{}{of} that {keepers} {keep} {how}", bytes(kept.kept_bytes, look.exact))
}

fn part(part: u64, whole: u64) -> String {
    if part == whole { "all".to_owned() } else { percent(part, whole) }
}

/// `open_session srv.c:13`; the line is short, and modules are in the lists.
fn place(frame: Option<&Frame>, look: &Look, lines: bool) -> String {
    let Some(frame) = frame else { return "an unknown place".to_owned() };
    let name = function(&frame.function, look);
    let at = location(&frame.function, frame.file.as_deref(), frame.line, None, look);
    if at.is_empty() || !lines { name } else { format!("{name} {at}") }
}

#[cfg(test)]
mod tests {
    use super::{fitting, malloc_time};

    #[test]
    fn what_has_no_room_is_counted() {
        let statements =
            ["1 kB lost, all from f", "2 MB at the peak, 9 % from g", "up to 5 % can be saved in h"].map(str::to_owned);
        for (room, expected) in [
            (200, "1 kB lost, all from f; 2 MB at the peak, 9 % from g; up to 5 % can be saved in h"),
            (80, "1 kB lost, all from f; 2 MB at the peak, 9 % from g; up to 5 % can be saved in h"),
            (79, "1 kB lost, all from f; 2 MB at the peak, 9 % from g; 1 more: --all"),
            (66, "1 kB lost, all from f; 2 MB at the peak, 9 % from g; 1 more: --all"),
            (65, "1 kB lost, all from f; 2 more: --all"),
            (5, "1 kB lost, all from f; 2 more: --all"),
        ] {
            assert_eq!(fitting(&statements, room), expected);
        }
        assert_eq!(fitting(&statements[..1], 5), "1 kB lost, all from f");
        assert_eq!(fitting(&[], 5), "");
    }

    #[test]
    fn what_malloc_takes_is_between_two_bounds() {
        assert_eq!(malloc_time([0.03, 1.0]), "malloc takes at least 3.0 % of the run's CPU time");
        assert_eq!(malloc_time([0.0001, 0.02]), "malloc takes at most 2.0 % of the run's CPU time");
    }
}
