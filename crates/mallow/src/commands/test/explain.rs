//! Why a case's figure is another one: its stacks, recorded now, beside those of the baseline.

use std::ffi::OsString;

use mallow_capture::recording::{Reader, Selection};
use mallow_report::analysis::gate::{Difference, SiteCount, difference, sites};
use serde::Serialize;

use super::baseline::Entry;
use super::config::{Ops, Program, Regions};
use super::runner;
use crate::commands::source::Recording;

/// The stacks of one run of a case.
pub fn stacks(program: &Program, case: &str) -> Result<Vec<SiteCount>, String> {
    let out = runner::scratch("mallow")?;
    let mut arguments: Vec<OsString> = vec!["record".into(), "--no-report".into(), "--runs".into(), "1".into()];
    arguments.extend(["--warmup".into(), program.warmup.to_string().into()]);
    arguments.extend(["-o".into(), out.as_os_str().to_owned()]);
    let ops = match program.ops {
        Ops::Scale(_, many) => Some(many),
        Ops::Told | Ops::Fixed(_) => None,
    };
    let done = runner::run_mallow(program, arguments, ops)?;
    let failed = |error: &dyn std::fmt::Display| format!("no stacks: {error}; {}", done.last_words());
    let (mut reader, profile) = Reader::open(&out, &mut |_| {}).map_err(|error| failed(&error))?;
    // The first run that was measured: of a region that its program begins and ends itself there may be many.
    let run = profile.regions.iter().find(|region| region.name == case && !region.warmup).map(|region| region.number);
    let profile = match (run, &program.regions) {
        (Some(run), _) => {
            let selection = Selection { regions: Some(vec![run]), ..Selection::default() };
            reader.select(profile, &selection, &mut |_| {}).map_err(|error| failed(&error))?.0
        }
        (None, Regions::None | Regions::IfAny) => profile,
        (None, _) => return Err(failed(&"the region did not run")),
    };
    let base = program.directory.canonicalize().unwrap_or_default();
    Ok(sites(&Recording::of(profile).profile, &base.to_string_lossy()))
}

/// What changed between a baseline and now.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// Stacks whose numbers differ, the largest change first.
    pub differences: Vec<Difference>,
    /// Allocations more than the baseline, by the figures.
    pub change: i64,
    /// What the differences add up to.
    pub explained: i64,
    /// The baseline holds no stacks: the differences are all stacks there are.
    pub without_baseline: bool,
}

/// Compares `now` with the baseline's stacks.
pub fn explanation(now: &[SiteCount], before: Option<&Entry>, figure: i64) -> Explanation {
    let stacks = before.map_or(&[][..], |entry| &entry.stacks);
    let differences = difference(stacks, now);
    let explained = differences.iter().map(Difference::allocations).sum();
    let without_baseline = stacks.is_empty() && before.is_none_or(|entry| entry.figures.total_allocations != 0);
    let change = figure - before.map_or(0, |entry| entry.figures.total_allocations);
    Explanation { differences, change, explained, without_baseline }
}
