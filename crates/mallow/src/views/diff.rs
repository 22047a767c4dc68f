//! `mallow diff`: two recordings, or profiles of other tools, stack by stack.

use std::process::ExitCode;

use anyhow::Result;
use mallow_report::analysis::Measure;
use mallow_report::analysis::diff::{Diff, DiffOptions, DiffSide, Rule, Rules, diff_with_progress};
use serde::Serialize;
use serde_json::Value;

use super::diff_answer::PlaceLimits;
use super::diff_numbers::{Names, Numbers};
use super::diff_text::{self, Detail};
use crate::flags::{By, DiffFlags};
use crate::input::coverage;
use crate::input::filters::Filters;
use crate::input::program_functions::each_function;
use crate::input::recording::Recording;
use crate::input::sides;
use crate::output::exit::UsageError;
use crate::output::progress::Bar;
use crate::output::text::Stream;
use crate::output::{exit, json, stdio};

/// Comparison of two profiles, as the view shows it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DiffDocument<'a> {
    /// Paths of the two files: before, and after.
    pub files: [String; 2],
    /// Divisor that the command line asks for (`--per`). The numbers of the document are not divided. Left out without
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per: Option<f64>,
    /// Rules for matching stacks that were switched off (`--no-rule`).
    pub rules_off: Vec<Rule>,
    /// Filters by which both profiles were read; left out where there is none.
    #[serde(skip_serializing_if = "Filters::is_none")]
    pub filters: &'a Filters,
    /// Totals of the first profile. Quantities that its format lacks are left out.
    #[cfg_attr(test, schemars(with = "DiffSide"))]
    pub before: Value,
    /// Totals of the second profile. Quantities that its format lacks are left out.
    #[cfg_attr(test, schemars(with = "DiffSide"))]
    pub after: Value,
    /// What the numbers or the call paths of either side lack, a sentence each, with the side's file or "both"; left
    /// out where nothing is known to be missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<String>,
    #[serde(flatten)]
    pub diff: &'a Diff,
}

/// Places of a list where the output has no height.
const ROWS: usize = 15;
/// Number of lines that filters take.
const FILTERS: usize = 1;
/// Number of lines that a gap takes, about.
const GAP_LINES: usize = 2;

pub fn run(flags: &DiffFlags) -> Result<ExitCode> {
    let [before, after] = Recording::pair([&flags.before, &flags.after], &flags.filters)?;
    after.warn_of_unmatched();
    let by = measure(&before, &after, flags.by)?;
    let look = flags.view.look(Stream::Out);
    let screen = match look.height {
        _ if flags.view.json => usize::MAX,
        None => 10,
        Some(height) => (height / 12).clamp(3, 10),
    };
    let whole = flags.all || flags.view.json;
    let stacks = flags.stacks || flags.markdown || whole;
    // A line names some of the places that are not shown.
    const NAMED: usize = 8;
    let rows = flags.view.limit(if whole { usize::MAX } else { look.height.unwrap_or(ROWS) });
    let places = if flags.view.json { rows } else { rows.saturating_add(NAMED) };
    let limit = if stacks { flags.view.limit(if flags.all { usize::MAX } else { screen }) } else { 0 };
    let options = options(flags, by, limit, places);
    let min = options.min;
    let diff = compared(&before, &after, options);
    let files = [&before, &after].map(|recording| recording.path().display().to_string());
    if flags.view.json {
        json::print(&json_of(flags, &before, &after, &diff)?)?;
    } else {
        let names = Names::of(&files);
        let numbers = Numbers { by, per: flags.per, more: limit, look };
        let lacking = sides::incomplete([&before, &after]);
        let fit = !whole && !flags.stacks && flags.view.limit.is_none();
        let floor = !whole && flags.view.limit.is_none() && flags.min.is_none();
        let detail = Detail {
            places: PlaceLimits { rows, min, floor },
            fit,
            taken: if after.filters.is_none() { 0 } else { FILTERS } + lacking.len() * GAP_LINES,
            stacks: flags.stacks,
            all: flags.all,
            depth: flags.depth,
        };
        stdio::print(&match flags.markdown {
            true => diff_text::markdown_gaps(&lacking) + &diff_text::markdown(&diff, &names, &numbers, flags.depth),
            false => {
                let text = diff_text::text(&diff, &names, &numbers, &detail);
                after.filters.first_lines(lacking, &look) + &text
            }
        })?;
    }
    let per = per_of(flags, by).unwrap_or(1.0);
    let Some(most) = flags.fail_above else { return Ok(exit::OK) };
    if most.is_exceeded(diff.before.value, diff.change, per) {
        return Ok(ExitCode::from(exit::CHANGED));
    }
    let unknown = sides::incomplete_totals([&before, &after]);
    if unknown.is_empty() || flags.allow_incomplete {
        return Ok(exit::OK);
    }
    stdio::notify(&format!(
        "the change that is seen is not above --fail-above, and numbers are incomplete: {}; --allow-incomplete takes \
         them as they are",
        unknown.join("; ")
    ));
    Ok(ExitCode::from(exit::CHANGE_UNKNOWN))
}

pub fn document(flags: &DiffFlags, before: &Recording, after: &Recording) -> Result<String> {
    let rows = flags.view.limit(usize::MAX);
    let options = options(flags, measure(before, after, flags.by)?, rows, rows);
    json::line(&json_of(flags, before, after, &compared(before, after, options))?)
}

/// The divisor of a measure's amounts. None for a peak, which is no sum of what operations do.
fn per_of(flags: &DiffFlags, by: Measure) -> Option<f64> {
    flags.per.filter(|_| by != Measure::Peak)
}

/// Options for at most `limit` stacks and `places` places.
fn options(flags: &DiffFlags, by: Measure, limit: usize, places: usize) -> DiffOptions {
    DiffOptions {
        by,
        rules: Rules::without(&flags.no_rule),
        min: flags.min.map_or(0, |least| least.times(per_of(flags, by))),
        limit,
        // Who says how much is too much, or much, says it of one measure.
        any_measure: flags.by.is_none()
            && flags.min.is_none()
            && flags.per.is_none()
            && flags.fail_above.is_none()
            && !flags.stacks
            && !flags.markdown,
        places,
    }
}

fn compared(before: &Recording, after: &Recording, options: DiffOptions) -> Diff {
    let bar = Bar::of("comparing stacks");
    let sides = [before, after];
    diff_with_progress(
        &before.profile,
        &after.profile,
        options,
        &|side, modules, each| each_function(sides, side, modules, each),
        &|part| bar.show_part(part),
    )
}

fn json_of<'a>(
    flags: &DiffFlags,
    before: &Recording,
    after: &'a Recording,
    diff: &'a Diff,
) -> Result<DiffDocument<'a>> {
    let files = [before, after].map(|recording| recording.path().display().to_string());
    let sides = [to_json(&diff.before, before)?, to_json(&diff.after, after)?];
    let incomplete = sides::incomplete([before, after]);
    let (filters, rules_off, [before, after]) = (&after.filters, flags.no_rule.clone(), sides);
    Ok(DiffDocument { files, per: flags.per, rules_off, filters, before, after, incomplete, diff })
}

fn to_json(side: &DiffSide, recording: &Recording) -> Result<Value> {
    let mut value = serde_json::to_value(side)?;
    coverage::strip_missing(&mut value, &recording.profile);
    Ok(value)
}

/// A heap profile as Go's runtime writes it, of one moment of a program: recordings that were exported know their peak.
fn is_snapshot(recording: &Recording) -> bool {
    let profile = &recording.profile;
    profile.origin.as_ref().is_some_and(|origin| matches!(origin.format, "pprof" | "Go text"))
        && !profile.has(mallow_profile::Quantity::Peak)
}

/// The measure to compare: the one asked for, which both must have, or else the first that both have. Fails with what
/// to do.
pub fn measure(before: &Recording, after: &Recording, by: Option<By>) -> Result<Measure, UsageError> {
    let has = |recording: &Recording, by: By| recording.profile.has(Measure::from(by).quantity());
    let common: Vec<By> = coverage::MEASURES.into_iter().filter(|&by| has(before, by) && has(after, by)).collect();
    let names = |measures: &[By]| measures.iter().map(By::to_string).collect::<Vec<_>>().join(", ");
    let both = match common.is_empty() {
        true => "both have no measure in common: record both with mallow, or with the same tool".to_owned(),
        false => format!("both have --by {}", names(&common)),
    };
    let Some(by) = by else {
        let all =
            |recording: &Recording| coverage::MEASURES.into_iter().filter(|&by| has(recording, by)).collect::<Vec<_>>();
        // A heap profile of a program that goes on: what is live in it comes before what it ever allocated.
        let preferred = common.iter().find(|&&by| by == By::Live && [before, after].into_iter().all(is_snapshot));
        return preferred.or(common.first()).map(|&by| by.into()).ok_or_else(|| {
            let what = |recording: &Recording| format!("a {} that has {}", recording.kind(), names(&all(recording)));
            UsageError(format!("BEFORE is {}, AFTER is {}; {both}", what(before), what(after)))
        });
    };
    let measure = Measure::from(by);
    for (side, recording) in [("BEFORE", before), ("AFTER", after)] {
        if !has(recording, by) {
            let file = recording.path().display();
            let what = recording.kind();
            return Err(UsageError(format!("{side}, {file}, is a {what} and has no {}; {both}", measure.quantity())));
        }
    }
    Ok(measure)
}
