//! Clients that the watch serves between two looks: scrapers, the page, stores.

use anyhow::Result;
use mallow_report::analysis::{Watched, Which};

use super::super::endpoint::{Answer, ScrapeSubject};
use super::super::headline::{attached, gaps, headline};
use super::super::pushing::{self, Pushing};
use super::super::text::{amount_of, heap_of};
use super::Watcher;
use crate::output::stdio;
use crate::output::text::Look;
use crate::page::live::{LiveLook, LivePage, LiveSentences};

/// Sentences of a report for the page, as the terminal has them.
fn sentences(report: &Watched, look: &Look) -> LiveSentences {
    let memory = report.memory.as_ref();
    LiveSentences {
        attached: attached(report),
        incomplete: gaps(report),
        heap: memory.map(|memory| heap_of(memory, report, look)),
        parts: memory.map_or_else(Vec::new, |memory| memory.parts.iter().map(|row| amount_of(row, look)).collect()),
    }
}

impl Watcher<'_> {
    pub(super) fn answer_scrapers(&mut self) {
        let Some(mut endpoint) = self.endpoint.take() else { return };
        for question in endpoint.take() {
            let answer = match question.subject {
                ScrapeSubject::Profile | ScrapeSubject::Moment => Answer::Profile(Box::new(self.profile().0)),
                ScrapeSubject::Metrics => {
                    let numbers = endpoint.metrics(&self.shown("metrics", Which::Live), &self.session.ledger);
                    Answer::Metrics(numbers + &pushing::series(self.push.as_ref().map(Pushing::push)))
                }
            };
            question.answer(answer);
        }
        self.endpoint = Some(endpoint);
    }

    pub(super) fn answer_page(&mut self) {
        let questions: Vec<_> = self.page.iter().flat_map(LivePage::take).collect();
        for question in questions {
            let report = self.shown("page", Which::Live);
            let headline = headline(&report, self.headline_place, &self.look).text;
            let sentences = sentences(&report, &self.look);
            question.answer(LiveLook {
                headline,
                sentences,
                history: self.history(),
                profile: self.profile().0,
                report,
            });
        }
    }

    pub(super) fn push_profiles(&mut self) {
        let (moment, Some(push)) = (self.moment(), &mut self.push) else { return };
        for text in push.look(&mut self.session, &mut self.watch, &moment) {
            if self.screen.is_some() { self.state.message = Some(text) } else { stdio::notify(&text) }
        }
    }

    pub(super) fn finish_push(&mut self) -> Result<()> {
        let (moment, Some(push)) = (self.moment(), self.push.take()) else { return Ok(()) };
        let line = push.finish(&mut self.session, &mut self.watch, &moment, &self.signals)?;
        if self.flags.view.json { self.write(&line) } else { Ok(()) }
    }
}
