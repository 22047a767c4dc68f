//! What `mallow report` shows.

use mallow_profile::{Profile, Word};
use mallow_report::analysis::{self, Insights, LeakCauses, Overview, leak_causes, overview};
use serde::Serialize;

use crate::input::names::MissingNames;
use crate::input::recording::Recording;

/// What the view shows, as text and as JSON.
#[derive(Debug, Serialize)]
pub struct ReportDocument {
    /// Totals, and the largest places.
    #[serde(flatten)]
    pub overview: Overview,
    /// Leaks by cause.
    #[serde(flatten)]
    pub leaks: LeakCauses,
    /// Suggestions.
    #[serde(flatten)]
    pub insights: Insights,
    /// Files of which a place is shown without its source line, and what would bring it.
    pub missing_names: Vec<MissingNames>,
}

impl ReportDocument {
    /// At most so many places in each list, and so many insights.
    pub fn of(recording: &Recording, places: usize, insights: usize) -> Self {
        let asked = recording.ask_for_packages();
        let mut account = Self::without_hints(&recording.profile, places, insights);
        let mut paths = account.nameless();
        if recording.profile.origin.is_none() {
            let without = recording.without_inlined();
            paths.extend(without.into_iter().filter(|path| !paths.contains(path)).collect::<Vec<_>>());
        }
        account.missing_names = recording.lacking_of(&paths, asked);
        account
    }

    /// As [`ReportDocument::of`], of a profile alone.
    pub fn without_hints(profile: &Profile, places: usize, insights: usize) -> Self {
        Self {
            overview: overview(profile, places),
            leaks: leak_causes(profile, places),
            insights: analysis::insights(profile, insights),
            missing_names: Vec::new(),
        }
    }

    /// Files of which a place is shown without its source line.
    fn nameless(&self) -> Vec<&str> {
        let mut paths: Vec<&str> = Vec::new();
        if self.overview.origin.is_some() {
            // Its names are in the file, or were looked up in files of today.
            return paths;
        }
        let places = self.overview.largest.iter().flat_map(|l| &l.largest).filter_map(|p| p.frame.as_ref());
        for frame in places.chain(self.insights.insights.iter().map(|insight| &insight.frame)) {
            paths.extend(frame.module.as_deref().filter(|m| frame.file.is_none() && !paths.contains(m)));
        }
        paths
    }
}

/// Is the word known of this recording?
pub fn tells(report: &Overview, word: Word) -> bool {
    report.origin.as_ref().is_none_or(|origin| origin.tells.has(word))
}
