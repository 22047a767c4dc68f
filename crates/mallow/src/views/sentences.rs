//! What a report says in sentences, as one document: the terminal prints them, and the page, the exported file and JSON
//! have the same ones.

use serde::Serialize;

use super::circumstances::circumstances;
use super::insights::{self, InsightSentence};
use super::report_document::ReportDocument;
use super::report_text;
use super::total_row::TotalRow;
use super::verdict::{self, VerdictSentence};
use crate::input::coverage;
use crate::output::text::{Look, gaps};

/// Limit of files without source lines that are named.
const HINTS: usize = 2;

/// The sentences of a report.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sentences {
    /// Limits of the numbers, and the part of the recording that they are of: the first lines of any view.
    pub notices: Vec<String>,
    /// Duration and end of the run, format of the file, and whether numbers are estimates.
    pub circumstances: String,
    /// Allocators inside of programs whose calls are counted.
    pub counted: Vec<String>,
    /// Rows of the totals.
    pub totals: Vec<TotalRow>,
    /// The highest RSS of a single process and its moment, for a chart of RSS, which shows the sum of several; null:
    /// not known.
    pub highest_rss: Option<String>,
    /// Reason why nothing is known of lost blocks; null where something is, or the program has not ended.
    pub not_scanned: Option<String>,
    /// Quantities that a profile of another tool does not have; null for a recording.
    pub absent: Option<String>,
    /// Notes on files whose names are missing, and how to get them; at most two.
    pub hints: Vec<String>,
    /// Suggestions for costly allocation patterns.
    pub suggestions: Vec<InsightSentence>,
    /// Note on suggestions that are too small to be listed; null where there are none.
    pub small_suggestions: Option<String>,
    /// Note on allocations for which there are no suggestions; null where there are none.
    pub without_suggestions: Option<String>,
    /// Verdict on the recording, in words.
    pub verdict: VerdictSentence,
}

impl Sentences {
    /// Sentences of a document. `notices`: see [`crate::input::recording::Recording::notices`].
    pub fn of(document: &ReportDocument, notices: Vec<String>, look: &Look) -> Self {
        let report = &document.overview;
        let single = report.highest_rss.as_ref().filter(|highest| highest.processes == 1);
        Self {
            notices,
            circumstances: circumstances(document).text(),
            counted: gaps::inside(&report.allocators_inside).map(|phrase| format!("Counted: {phrase}")).collect(),
            totals: report_text::total_rows(document, (true, 2), look),
            highest_rss: single.map(|highest| report_text::highest_at(highest, look)),
            not_scanned: report_text::unscanned(document),
            absent: report.origin.as_ref().and_then(coverage::missing).map(|line| line.text()),
            hints: document.missing_names.iter().take(HINTS).map(|hint| hint.line()).collect(),
            suggestions: insights::sentences(&document.insights, look),
            small_suggestions: insights::small(&document.insights),
            without_suggestions: insights::left_out(&document.insights),
            verdict: verdict::words(document, look, true),
        }
    }
}
