//! What a report says in sentences, as one document: the terminal prints them, and the page, the exported file and JSON
//! have the same ones.

use serde::Serialize;

use super::insights::{self, InsightSentence};
use super::report_document::ReportDocument;
use super::report_text::{self, TotalRow};
use super::verdict::{self, VerdictSentence};
use crate::input::coverage;
use crate::output::text::{Look, gaps};

/// So many files without source lines are named.
const HINTS: usize = 2;

/// The sentences of a report.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sentences {
    /// What the numbers lack, and which part of the recording they are of: the first lines of any view.
    pub notices: Vec<String>,
    /// How the run went, whose file it is, and whether its numbers are estimates.
    pub circumstances: String,
    /// Allocators inside of programs whose calls are counted.
    pub counted: Vec<String>,
    /// What was counted, each with a remark.
    pub totals: Vec<TotalRow>,
    /// The highest RSS of a single process and its moment, as the row of `totals` has them, for a chart of RSS: that of
    /// several processes is their sum. None: it is not known.
    pub highest_rss: Option<String>,
    /// Why nothing is known of lost blocks.
    pub not_scanned: Option<String>,
    /// What a profile of another tool does not have.
    pub absent: Option<String>,
    /// What would bring names that are missing.
    pub hints: Vec<String>,
    /// Suggestions for costly allocation patterns.
    pub suggestions: Vec<InsightSentence>,
    /// What is said of suggestions that are not worth one of these.
    pub small_suggestions: Option<String>,
    /// What there are no suggestions for.
    pub without_suggestions: Option<String>,
    /// What matters most.
    pub verdict: VerdictSentence,
}

impl Sentences {
    /// Those of a document. `notices`: see [`crate::input::recording::Recording::notices`].
    pub fn of(document: &ReportDocument, notices: Vec<String>, look: &Look) -> Self {
        let report = &document.overview;
        let single = report.highest_rss.as_ref().filter(|highest| highest.processes == 1);
        Self {
            notices,
            circumstances: report_text::circumstances(document).text(),
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
