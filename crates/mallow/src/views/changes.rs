//! What views show of two recordings, or profiles of other tools: `--base`.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use mallow_report::analysis::diff::{Rule, Rules};
use mallow_report::analysis::{Both, Changed, Least, Measure, Shown, Totals};
use serde::Serialize;
use serde_json::Value;

use super::diff::measure;
use super::diff_numbers::{Names, Reconciled, reconciled};
use crate::flags::{BaseFlags, By, SourceFlags};
use crate::input::coverage;
use crate::input::filters::Filters;
use crate::input::program_functions::each_function;
use crate::input::recording::Recording;
use crate::input::sides;
use crate::output::json::JsonDocument;
use crate::output::progress::Bar;
use crate::output::stdio;
use crate::output::text::{Line, Look, Page, amount, change, change_style, measured};

#[derive(Debug)]
pub struct Pair {
    before: Arc<Recording>,
    /// The one whose functions, sources and stacks are shown.
    pub after: Arc<Recording>,
    pub by: Measure,
    /// Both recordings as one, by which rows are compared.
    pub both: Both,
    files: [String; 2],
    rules_off: Vec<Rule>,
    totals: Changed,
}

/// Sums that a view shows, those that it leaves out, and what is in neither.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct RowSums {
    /// Sum of the changes in the shown rows, by the measure `by`.
    pub shown: i64,
    /// Sum of the changes in the rows that are not shown, by the measure `by`.
    #[serde(rename = "hidden_change")]
    pub hidden: i64,
    /// Change of the totals that is in no stack, by the measure `by`.
    pub elsewhere: i64,
    /// Rows that are not shown.
    #[serde(skip)]
    pub rows: u64,
}

/// A report as JSON.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum PairDocument<'a, R> {
    Whole(ChangesDocument<'a, R>),
    /// Without the quantities that one of the two lacks.
    Covered(Value),
}

/// A report, and what it is of.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ChangesDocument<'a, R> {
    /// Paths of the two files: before, and after.
    files: &'a [String; 2],
    /// Formats of the two files, by their tools; null for a recording of Mallow.
    formats: [Option<&'static str>; 2],
    /// Rules for matching stacks that were switched off (`--no-rule`).
    rules_off: &'a [Rule],
    /// Filters by which both profiles were read; left out where there is none.
    #[serde(skip_serializing_if = "Filters::is_none")]
    filters: &'a Filters,
    /// What the numbers or the call paths of either side lack, a sentence each, with the side's file or "both"; left
    /// out where nothing is known to be missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    incomplete: Vec<String>,
    #[serde(flatten)]
    report: &'a R,
    #[serde(flatten)]
    sums: Option<RowSums>,
}

impl<R: JsonDocument> JsonDocument for PairDocument<'_, R> {
    const SCHEMA: &'static str = R::SCHEMA;
}

impl Pair {
    /// Reads both, and compares the quantities that both have.
    pub fn open(before: &Path, flags: &BaseFlags, source: &SourceFlags, by: Option<By>) -> Result<Self> {
        let after = Recording::path_of(source)?;
        let [before, after] = Recording::pair([before, &after], &source.filters)?;
        after.warn_of_unmatched();
        Self::of([before, after].map(Arc::new), by, &flags.no_rule)
    }

    /// Compares the quantities that both have.
    pub fn of([before, after]: [Arc<Recording>; 2], by: Option<By>, rules_off: &[Rule]) -> Result<Self> {
        let by = measure(&before, &after, by)?;
        let bar = Bar::of("comparing stacks");
        let rules = Rules::without(rules_off);
        let sides = [&*before, &*after];
        let both = Both::with_progress(
            &before.profile,
            &after.profile,
            by,
            rules,
            &|side, modules, each| each_function(sides, side, modules, each),
            &|part| bar.show_part(part),
        );
        drop(bar);
        let files = [&before, &after].map(|recording| recording.path().display().to_string());
        let totals = both.totals(by);
        Ok(Self { before, after, by, both, files, rules_off: rules_off.to_vec(), totals })
    }

    /// The least that gets a row: a share is one of all that changed.
    pub fn least(&self, least: Option<Least>) -> u64 {
        least.map_or(0, |least| least.of(self.both.moved()))
    }

    /// Sums of changes: of the rows that are shown, of those left out, and of the rest of the totals.
    pub fn sums(&self, shown: impl Iterator<Item = Changed>, hidden: Option<(u64, Changed)>) -> RowSums {
        let shown = shown.fold(0i64, |sum, row| sum.saturating_add(row.change));
        let (rows, hidden) = hidden.map_or((0, 0), |(rows, sums)| (rows, sums.change));
        let elsewhere = self.totals.change.saturating_sub(shown).saturating_sub(hidden);
        RowSums { shown, hidden, elsewhere, rows }
    }

    /// `Functions by allocations, a.mallow → b.mallow; self: …; 1,610 → 2,410, +800 in all`
    pub fn heading(&self, what: &str, order: &str, look: &Look) -> Line {
        let names = Names::of(&self.files);
        let Changed { before, after, .. } = &self.totals;
        let [was, is] = [before, after].map(|totals| amount(self.by, self.by.of(totals), look));
        let change = change(self.by, self.totals.change, look);
        Line::new()
            .strong(format!("{what} by {}", measured(self.by)))
            .plain(format!(", {} → {}{order}; {was} → {is}, {change} in all", names.before, names.after))
    }

    /// The files that are compared, as one line for a picture.
    pub fn describe(&self) -> String {
        let names = Names::of(&self.files);
        format!("{} compared with {}", names.after, names.before)
    }

    /// The line at the end, which adds up.
    pub fn total(&self, sums: &RowSums, noun: &str, page: &mut Page) {
        let sums = Reconciled {
            by: self.by,
            shown: sums.shown,
            hidden: (sums.hidden, sums.rows),
            elsewhere: sums.elsewhere,
            change: self.totals.change,
        };
        page.line(Line::new().strong(reconciled(&sums, noun)));
    }

    /// Prints a view below what the numbers of either side lack.
    pub fn print(&self, text: String, look: &Look) -> Result<()> {
        stdio::print(&(self.after.filters.first_lines(self.incomplete(), look) + &text))
    }

    /// What either side lacks, a sentence each.
    pub fn incomplete(&self) -> Vec<String> {
        sides::incomplete([&self.before, &self.after])
    }

    /// A report for JSON, without what is missing in a side.
    pub fn document<'a, R: Serialize>(&'a self, report: &'a R, sums: Option<RowSums>) -> Result<PairDocument<'a, R>> {
        let formats = [&self.before, &self.after].map(|r| r.profile.origin.as_ref().map(|origin| origin.format));
        let (files, rules_off, filters) = (&self.files, &self.rules_off[..], &self.after.filters);
        let incomplete = self.incomplete();
        let account = ChangesDocument { files, formats, rules_off, filters, incomplete, report, sums };
        if [&self.before, &self.after].iter().all(|recording| recording.profile.missing().next().is_none()) {
            return Ok(PairDocument::Whole(account));
        }
        let mut value = serde_json::to_value(&account)?;
        coverage::strip_sides(&mut value, [&self.before.profile, &self.after.profile]);
        Ok(PairDocument::Covered(value))
    }

    /// Says on standard error what either side lacks: for pictures.
    pub fn warn_of_gaps(&self) {
        self.incomplete().iter().for_each(|text| stdio::notify(text));
    }
}

/// Columns of numbers before and after, and of the change.
pub fn cells(by: Measure, numbers: &Changed, look: &Look) -> [Line; 3] {
    let value = |totals: &Totals| match by.of(totals) {
        0 => Line::new().faint("."),
        n => Line::new().plain(amount(by, n, look)),
    };
    [value(&numbers.before), value(&numbers.after), cell(by, numbers, look)]
}

/// A column of the change alone.
pub fn cell(by: Measure, numbers: &Changed, look: &Look) -> Line {
    match numbers.rank(by) {
        0 => Line::new().faint("."),
        _ => Line::new().styled(change_style(numbers.change), change(by, numbers.change, look)),
    }
}

#[cfg(test)]
pub mod testing {
    use std::sync::Arc;

    use mallow_profile::Profile;
    use mallow_report::analysis::Measure;
    use mallow_report::testing::{parser, parser_later};

    use super::{Pair, Recording};

    /// Two profiles, compared.
    pub fn pair(before: Profile, after: Profile, by: Measure) -> Pair {
        let sides = [before, after].map(|profile| Arc::new(Recording::of(profile)));
        let mut pair = Pair::of(sides, Some(by.into()), &[]).expect("both have it");
        pair.files = ["old/run.mallow", "new/other.mallow"].map(str::to_owned);
        pair
    }

    /// Rows are parsed twice as often, and a way to reload is gone.
    pub fn parsers(by: Measure) -> Pair {
        pair(parser(), parser_later(), by)
    }
}
