//! How long a recording is, how it ended, and how many took part.

use mallow_profile::Quantity;
use mallow_report::analysis::Overview;

use super::report_document::{ReportDocument, has, is_over};
use crate::input::coverage;
use crate::output::text::Line;
use crate::output::text::units::{of, processes_in_images, span};

/// The time that the processes waited for mallow, where it is a hundredth of the recording's time or more.
fn waits(report: &Overview) -> String {
    let matters = |ms: u64| ms > 0 && ms.saturating_mul(100) >= report.duration_ms;
    let own = Some(report.ending.exit_wait_ms).filter(|&ms| matters(ms));
    let others = Some(report.ending.other_waits_ms).filter(|&ms| matters(ms));
    // Rates are of the time without it.
    let of_rates = |ms: u64| ms > 0 && ms.saturating_mul(20) >= report.ran_ms;
    let tables = match Some(report.ending.table_wait_ms).filter(|&ms| of_rates(ms)) {
        Some(tables) => format!(", of it {} waiting for Mallow's unwind tables", span(tables)),
        None => String::new(),
    };
    tables
        + &match (own, others) {
            (None, None) => String::new(),
            (Some(own), None) => format!(", waited {} for mallow at its exit", span(own)),
            (None, Some(others)) => format!(", its processes waited {} in all for mallow at their exits", span(others)),
            (Some(own), Some(others)) => {
                format!(
                    ", waited {} for mallow at its exit, other processes {} in all at theirs",
                    span(own),
                    span(others)
                )
            }
        }
}

/// Circumstances of the run, and the tool that made the file.
pub fn circumstances(document: &ReportDocument) -> Line {
    let report = &document.overview;
    let status = match report.ending.exit_status {
        None => "ending unknown".to_owned(),
        // Which of the two, the recording does not say.
        Some(status @ 129..=192) => format!("exit status {status} (signal {}, or the program's own)", status - 128),
        Some(status) => format!("exit status {status}"),
    };
    let mut parts = Vec::new();
    let mut part = |quantity, text: String| {
        if has(report, quantity) {
            parts.push(text);
        }
    };
    // All times begin where the recording began: with mallow's preparations, or with attaching.
    let begin = report.run_begin_ms;
    if is_over(report) {
        let from = if begin.saturating_mul(50) >= report.ran_ms && begin > 0 {
            format!(" from {} on", span(begin))
        } else {
            String::new()
        };
        part(Quantity::Times, format!("ran {}{from}{}", span(report.ran_ms), waits(report)));
        part(Quantity::ExitStatus, status);
    } else if report.processes.is_empty() {
        // When the attachment was made stands with what the process did. A command's recording ends like this where
        // mallow was killed.
        let attaching = if report.ending.cut_short.is_some() { "" } else { ", attaching included" };
        part(Quantity::Times, format!("recorded for {}{attaching}", span(report.duration_ms)));
    } else {
        let from = if begin > 0 { format!(", from {} on", span(begin)) } else { String::new() };
        let recorded = span(report.duration_ms.saturating_sub(begin));
        part(Quantity::Times, format!("recorded for {recorded}{from}{}", waits(report)));
    }
    let mut people = Vec::new();
    if has(report, Quantity::Processes) {
        people.push(processes_in_images(report.processes_in_all, report.processes.len()));
    }
    if has(report, Quantity::Threads) {
        people.push(of(report.threads_in_all, "thread"));
    }
    // What neither allocates nor frees is in no recording. Of other tools' files nobody knows what is missing.
    let people = people.join(", ");
    let people = if people.is_empty() || report.origin.is_some() { people } else { people + " used malloc" };
    let said = [parts.join(", "), people].into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>();
    match &report.origin {
        None => Line::new().plain(said.join("; ")),
        Some(origin) if said.is_empty() => coverage::provenance(origin),
        Some(origin) => coverage::provenance(origin).plain("; ").plain(said.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use mallow_report::testing::{Builder, blocks};

    use super::circumstances;
    use crate::views::report_document::ReportDocument;

    /// An attached process waits, too.
    #[test]
    fn what_an_attached_process_waited_is_named() {
        let mut b = Builder::default();
        let process = b.process(1, &["server"], 10_000);
        b.site(process, &["work@a.c:1", "main@a.c:9"], blocks(10, 100, 0, 10));
        (b.profile.duration_ms, b.profile.processes[0].attached) = (10_000, true);
        for (ms, is_named) in [(1800, true), (18, false)] {
            b.profile.processes[0].table_wait_ms = ms;
            let shown = circumstances(&ReportDocument::without_hints(&b.profile, 5, 5)).text();
            assert!(shown.contains("recorded for 10.00 s"), "{shown}");
            assert_eq!(shown.contains(", of it 1.80 s waiting for Mallow's unwind tables"), is_named, "{shown}");
        }
    }
}
