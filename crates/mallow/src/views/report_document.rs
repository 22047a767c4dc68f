//! What `mallow report` shows.

use std::collections::BTreeSet;

use mallow_profile::{Profile, Quantity};
use mallow_report::analysis::{
    Insights, Kept, LeakCauses, LeakState, LeakStates, LiveBlocks, LiveMoment, Measure, Overview, ProfileViews,
    Statement, Verdict, insights_of, leak_causes_of, leak_states, overview_of, verdict,
};
use serde::Serialize;

use crate::input::filters::Part;
use crate::input::names::MissingNames;
use crate::input::recording::Recording;

/// Report of a recording, as text and as JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(transform = pool_of_overview))]
pub struct ReportDocument {
    /// Totals, and the largest places.
    #[serde(flatten)]
    pub overview: Overview,
    #[serde(flatten)]
    pub leaks: LeakCauses,
    /// Division of live blocks into lost and reachable ones; without its keys where the profile knows nothing of scans.
    #[serde(flatten)]
    pub leak_states: Option<LeakStates>,
    /// The causes of lost blocks, where there are any, or where all processes were scanned.
    #[serde(skip)]
    pub lost: Option<LeakCauses>,
    /// Lost blocks that a runtime loses by design: they are in `lost_blocks`, and in no cause of lost blocks. Left out
    /// where there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost_kept: Vec<Kept>,
    /// Suggestions for costly allocation patterns.
    #[serde(flatten)]
    pub insights: Insights,
    /// Files with a place that is shown without its source line, and what would bring it.
    pub missing_names: Vec<MissingNames>,
    /// Moment of the blocks that the document calls live.
    pub live_moment: LiveMoment,
    #[serde(skip)]
    pub part: Part,
    /// Statements that sum up the recording, the one that matters most first.
    pub verdict: Verdict,
}

/// The pool of a report is the overview's: that of the causes is left out.
#[cfg(test)]
fn pool_of_overview(schema: &mut schemars::Schema) {
    if let Some(pool) = schema.pointer_mut("/properties/emergency_pool/anyOf/0/$ref") {
        *pool = "#/$defs/Totals".into();
    }
}

impl ReportDocument {
    /// The document with at most `places` places in each list, and `insights` insights.
    pub fn of(recording: &Recording, places: usize, insights: usize) -> Self {
        let asked = recording.ask_for_packages();
        let mut account = Self::without_hints(&recording.profile, places, insights);
        account.part = recording.filters.part();
        if !recording.filters.is_none() {
            // What malloc takes of the run is not what it takes of the allocations that are left.
            account.insights.malloc_time = None;
            account.verdict.statements.retain(|statement| !matches!(statement, Statement::TimeSaving { .. }));
        }
        let mut paths = account.nameless();
        if recording.profile.origin.is_none() {
            let without = recording.without_inlined();
            paths.extend(without.into_iter().filter(|path| !paths.contains(path)).collect::<Vec<_>>());
        }
        account.missing_names = recording.lacking_of(&paths, asked);
        account
    }

    /// [`ReportDocument::of`] of a profile alone, without remedies for missing names.
    pub fn without_hints(profile: &Profile, places: usize, insights: usize) -> Self {
        let states = leak_states(profile, places);
        let is_divided = states.as_ref().is_some_and(|states| states.lost().live > 0 || states.unscanned.is_empty());
        let views = ProfileViews::of(profile);
        let overview = overview_of(&views, places);
        let leaks = leak_causes_of(&views, None, places);
        let lost = is_divided.then(|| leak_causes_of(&views, Some(LeakState::Lost), places));
        let mut all_insights = insights_of(&views, usize::MAX);
        let unscanned = states.as_ref().map(LeakStates::unscanned);
        let verdict = verdict(&overview, &LiveBlocks { all: &leaks, lost: lost.as_ref(), unscanned }, &all_insights);
        // The verdict is of all of them, however many are listed: a page in a file has room for fewer.
        all_insights.insights.truncate(insights);
        Self {
            overview,
            // The overview has it, and more of it: JSON has a key once.
            leaks: LeakCauses { emergency_pool: None, ..leaks },
            leak_states: states,
            lost_kept: lost.as_ref().map_or_else(Vec::new, |lost| lost.kept.clone()),
            lost,
            insights: all_insights,
            missing_names: Vec::new(),
            live_moment: LiveMoment::of(profile),
            part: Part::All,
            verdict,
        }
    }

    /// Whether the program ended, and no process of it was scanned for lost blocks.
    pub fn is_unscanned(&self) -> bool {
        self.live_moment == LiveMoment::End && self.leak_states.as_ref().is_some_and(|states| !states.has_scan())
    }

    /// The most important leaks, and their state: lost blocks, where there are any. Blocks that were live at an exec
    /// are in neither.
    pub fn worst_leaks(&self) -> (&LeakCauses, &'static str) {
        match &self.lost {
            Some(lost) if lost.leak_causes_in_all > 0 => (lost, "lost"),
            Some(_) => (&self.leaks, "still reachable"),
            None if self.live_moment == LiveMoment::Snapshot => (&self.leaks, "live"),
            None => (&self.leaks, "live at the end"),
        }
    }

    /// Files with a place that is shown without its source line, or that looks past functions without names; those
    /// first whose places have most, by the first list. What a place looks past is of its own file.
    fn nameless(&self) -> Vec<&str> {
        let mut paths: Vec<&str> = Vec::new();
        if self.overview.origin.is_some() {
            // Its names are in the file, or were looked up in files of today.
            return paths;
        }
        let places = self.overview.largest.iter().flat_map(|l| &l.largest).filter_map(|p| p.frame.as_ref());
        for frame in places.chain(self.insights.insights.iter().map(|insight| &insight.frame)) {
            let lacks = |m: &&str| (frame.file.is_none() || frame.nameless > 0) && !paths.contains(m);
            paths.extend(frame.module.as_deref().filter(lacks));
        }
        let list = self.overview.largest.iter().find(|list| list.by == Measure::Peak && !list.largest.is_empty());
        if let Some(list) = list.or(self.overview.largest.first()) {
            let of = |path: &str| {
                let rows = list
                    .largest
                    .iter()
                    .filter(|row| row.frame.as_ref().is_some_and(|frame| frame.module.as_deref() == Some(path)));
                rows.fold(0u64, |sum, row| sum.saturating_add(list.by.of(&row.totals)))
            };
            paths.sort_by_cached_key(|path| std::cmp::Reverse(of(path)));
        }
        paths
    }
}

/// Whether blocks that were live at the end have leaked. Not where mallow had attached: the process went on.
pub fn is_over(report: &Overview) -> bool {
    match report.processes.is_empty() {
        // Nothing was allocated. Mallow knows how a command ended that it started.
        true => report.ending.exit_status.is_some() || report.origin.is_some(),
        false => !report.processes.iter().any(|process| process.attached),
    }
}

/// Files that were merged into the one that was read; 0: it was not merged.
pub fn merged_files(report: &Overview) -> usize {
    let sources = report.processes.iter().map(|process| process.source.as_str()).filter(|source| !source.is_empty());
    sources.collect::<BTreeSet<_>>().len()
}

/// Whether the quantity is known of this recording.
pub fn has(report: &Overview, quantity: Quantity) -> bool {
    report.origin.as_ref().is_none_or(|origin| origin.quantities.has(quantity))
}

#[cfg(test)]
mod tests {
    use mallow_report::testing::{Builder, blocks, habits};

    use super::ReportDocument;

    #[test]
    fn the_verdict_does_not_depend_on_how_much_is_listed() {
        let profile = habits();
        let all = ReportDocument::without_hints(&profile, 9, usize::MAX);
        for insights in 0..3 {
            let few = ReportDocument::without_hints(&profile, 1, insights);
            assert_eq!(few.insights.insights.len(), insights);
            assert_eq!(few.verdict, all.verdict, "with {insights}");
        }
    }

    #[test]
    fn files_without_names_come_in_the_order_of_their_places_bytes() {
        let mut b = Builder::default();
        let process = b.process(1, &["a"], 10);
        b.site(process, &["+0x10!libsmall.so", "main@a.c:1"], blocks(100, 1, 0, 0));
        // Many small blocks lead the list of allocations; the bytes are another file's, whose functions are looked
        // past.
        b.site(process, &["+0x10!liblarge.so", "open@l.c:2!liblarge.so", "main@a.c:1"], blocks(2, 4096, 0, 0));
        let document = ReportDocument::without_hints(&b.profile, 9, 9);
        assert_eq!(document.nameless(), ["/usr/lib/liblarge.so", "/usr/lib/libsmall.so"]);
    }
}
