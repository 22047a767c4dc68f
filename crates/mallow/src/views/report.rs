//! `mallow report`: the overview of a recording. `record` and `recover` end with the same text.

use std::process::ExitCode;

use anyhow::Result;
use mallow_report::analysis::Least;
use serde::Serialize;

use super::report_document::ReportDocument;
use super::sentences::Sentences;
use super::{blocks, report_text, summary};
use crate::flags::{ReportFlags, ViewFlags};
use crate::input::recording::Recording;
use crate::output::text::{Look, Stream};
use crate::output::{exit, stdio};

/// Places of each list of the whole report, and of JSON.
const PLACES: usize = 20;

pub fn run(flags: &ReportFlags) -> Result<ExitCode> {
    let recording = Recording::open(&flags.rows.source)?;
    let how = ReportOptions {
        view: &flags.rows.view,
        all: flags.all,
        stacks: flags.stacks,
        least: flags.rows.least.min,
        stream: Stream::Out,
    };
    stdio::print(&render(&recording, &how)?)?;
    Ok(exit::OK)
}

/// The report as JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReportWithSentences<'a> {
    #[serde(flatten)]
    document: &'a ReportDocument,
    /// The sentences that the text output prints.
    sentences: Sentences,
}

/// Form of the report.
pub struct ReportOptions<'a> {
    /// Flags that all views have.
    pub view: &'a ViewFlags,
    /// Whether the whole report is shown, and not only what fits on a screen.
    pub all: bool,
    /// Whether each place has the whole stack of its largest site.
    pub stacks: bool,
    /// Amount below which places are left out.
    pub least: Option<Least>,
    pub stream: Stream,
}

/// The report of a recording: text, or JSON where the flags say so. What needs more than a screen asks for all.
pub fn render(recording: &Recording, how: &ReportOptions<'_>) -> Result<String> {
    let &ReportOptions { view, all, stacks, least, stream } = how;
    let look = view.look(stream);
    if !view.json && !all && !stacks && least.is_none() && view.limit.is_none() {
        let document = ReportDocument::of(recording, summary::PLACES, summary::INSIGHTS);
        let heading = recording.heading(&look);
        let text = summary::text(&document, &heading.below);
        return Ok(heading.above(&text));
    }
    let mut document = ReportDocument::of(recording, view.limit(PLACES), view.limit(usize::MAX));
    let lists = document.overview.largest.iter_mut();
    lists.for_each(|list| least.into_iter().for_each(|least| list.leave_out(least)));
    if view.json {
        let sentences = Sentences::of(&document, recording.notices(), &Look::default());
        return recording.json(&ReportWithSentences { document: &document, sentences });
    }
    // Another pass over the events, and not about places.
    let blocks = if all { blocks::all(recording, &look)? } else { String::new() };
    Ok(recording.above(&report_text::text(&document, &look, stacks, least.is_some(), &blocks), &look))
}
