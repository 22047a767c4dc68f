//! Why a case's figure is another one: its stacks, recorded now, beside those of the baseline; and, where runs
//! disagree, beside those of another run.

use std::ffi::OsString;
use std::path::Path;

use mallow_capture::recording::{Reader, Selection};
use mallow_profile::Profile;
use mallow_report::analysis::gate::{
    Difference, Figures, PlaceChange, SiteCount, Smaller, difference, difference_with_rest, places, sites,
};
use serde::Serialize;
use tempfile::TempPath;

use super::baseline::Entry;
use super::config::{Ops, Program, Regions};
use super::go_benchmarks;
use super::outcome::{CaseStacks, Reason};
use super::runner;
use crate::input::recording::Recording;

/// The stacks of one run of a case. Files below `root` are named relative to it.
pub fn stacks(program: &Program, case: &str, root: &Path) -> Result<CaseStacks, String> {
    if let Some(benchmarks) = &program.benchmarks {
        return go_benchmarks::stacks(program, benchmarks, case, root);
    }
    let recorded = Recorded::of(program, case, 1)?;
    // The first run that was measured: of a region that its program begins and ends itself there may be many.
    Ok(CaseStacks { sites: recorded.stacks(0, root)?, reasons: Vec::new() })
}

/// The stacks that differ between the runs with the least and with the most allocations; None where runs with stacks
/// agree.
pub fn between_runs(program: &Program, case: &str, root: &Path) -> Result<Option<Vec<Difference>>, String> {
    if program.benchmarks.is_some() {
        return Err("Go does not report the stacks of one run of a benchmark".to_owned());
    }
    let mut least: Option<(u64, Vec<SiteCount>)> = None;
    let mut most: Option<(u64, Vec<SiteCount>)> = None;
    let mut runs = 0;
    // A recording has all runs of a measured function, and one of everything else.
    while runs < program.runs {
        let recorded = Recorded::of(program, case, program.runs)?;
        for run in 0..recorded.runs.len().max(1) {
            let stacks = recorded.stacks(run, root)?;
            let total = stacks.iter().map(|site| site.allocations).sum();
            if least.as_ref().is_none_or(|(least, _)| total < *least) {
                least = Some((total, stacks.clone()));
            }
            if most.as_ref().is_none_or(|(most, _)| total > *most) {
                most = Some((total, stacks));
            }
            runs += 1;
        }
    }
    let differences = least.zip(most).map(|((_, least), (_, most))| difference(&least, &most));
    Ok(differences.filter(|differences| !differences.is_empty()))
}

/// A recording of a program that measures a case.
struct Recorded {
    out: TempPath,
    /// Numbers of the case's measured runs; none: it is the whole command.
    runs: Vec<u32>,
    last_words: String,
}

impl Recorded {
    fn of(program: &Program, case: &str, runs: u32) -> Result<Self, String> {
        let out = runner::scratch("mallow")?;
        let mut arguments: Vec<OsString> = vec!["record".into(), "--no-report".into()];
        arguments.extend(["--runs".into(), runs.to_string().into()]);
        arguments.extend(["--warmup".into(), program.warmup.to_string().into()]);
        arguments.extend(["-o".into(), out.as_os_str().to_owned()]);
        let ops = match program.ops {
            Ops::Scale(_, many) => Some(many),
            Ops::Reported | Ops::Fixed(_) => None,
        };
        let last_words = runner::run_mallow(program, arguments, ops)?.last_words();
        let mut recorded = Self { out, runs: Vec::new(), last_words };
        let (_, profile) = recorded.open()?;
        let of_case = profile.regions.iter().filter(|region| region.name == case && !region.warmup);
        recorded.runs = of_case.map(|region| region.number).collect();
        match (recorded.runs.is_empty(), &program.regions) {
            (false, _) | (true, Regions::None | Regions::IfAny) => Ok(recorded),
            (true, _) => Err(recorded.failed(&"the region did not run")),
        }
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> String {
        format!("no stacks: {error}; {}", self.last_words)
    }

    fn open(&self) -> Result<(Reader, Profile), String> {
        Reader::open(&self.out, &mut |_| {}).map_err(|error| self.failed(&error))
    }

    /// The stacks of one of the runs.
    fn stacks(&self, run: usize, root: &Path) -> Result<Vec<SiteCount>, String> {
        let (mut reader, profile) = self.open()?;
        let profile = match self.runs.get(run) {
            Some(&number) => {
                let selection = Selection { regions: Some(vec![number]), ..Selection::default() };
                reader.select(profile, &selection, &mut |_| {}).map_err(|error| self.failed(&error))?.0
            }
            None => profile,
        };
        Ok(sites(&Recording::of(profile).profile, &root.to_string_lossy()))
    }
}

/// Changes between a baseline and now, by stack.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Explanation {
    /// Stacks whose numbers differ, the largest change first.
    pub differences: Vec<Difference>,
    /// Sums of the stacks that the baseline has only together; left out where the baseline has each stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smaller: Option<Smaller>,
    /// Allocations now minus those of the baseline, by the figures.
    pub change: i64,
    /// Sum of the changes in `differences` and `smaller`, in allocations.
    pub explained: i64,
    /// Requested bytes now minus those of the baseline, by the figures.
    pub change_bytes: i64,
    /// Sum of the changes in `differences` and `smaller`, in requested bytes.
    pub explained_bytes: i64,
    /// The differences by the line of the program that they come from.
    pub places: Vec<PlaceChange>,
    /// Reasons of the allocations of which there are more; left out where none is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// The baseline holds no stacks: the differences are all stacks there are.
    pub without_baseline: bool,
}

pub fn explanation(found: CaseStacks, before: Option<&Entry>, figures: &Figures) -> Explanation {
    let stacks = before.map_or(&[][..], |entry| &entry.stacks);
    let rest = before.map(|entry| entry.rest).unwrap_or_default();
    let (differences, smaller) = difference_with_rest(stacks, &rest, &found.sites);
    let more = |reason: &Reason| differences.iter().any(|one| one.stack == reason.stack && one.now > one.before);
    let reasons = found.reasons.into_iter().filter(more).collect();
    let old = before.map(|entry| entry.figures).unwrap_or_default();
    Explanation {
        change: figures.total_allocations - old.total_allocations,
        explained: differences.iter().map(Difference::allocations).sum::<i64>()
            + smaller.as_ref().map_or(0, Smaller::allocations),
        change_bytes: figures.total_allocated_bytes - old.total_allocated_bytes,
        explained_bytes: differences.iter().map(Difference::bytes).sum::<i64>()
            + smaller.as_ref().map_or(0, Smaller::bytes),
        places: places(&differences),
        reasons,
        smaller,
        without_baseline: stacks.is_empty() && rest.is_none() && before.is_none_or(|_| old.total_allocations != 0),
        differences,
    }
}
