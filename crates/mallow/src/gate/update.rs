//! `mallow test --update` and `--ratchet`: figures, their tolerance and stacks become the baseline.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use mallow_report::analysis::gate::{Figures, Measured, Metric, Tolerance, Verdict};

use super::baseline::{Baseline, Entry};
use super::case_verdict::CaseVerdict;
use super::config::{Config, Regions};
use super::explanation;
use super::go_benchmarks;
use super::outcome::CaseStacks;
use super::runner::{self, RunOptions};
use super::selection;
use crate::flags::TestFlags;
use crate::output::text::units::{count, of, signed};

/// Names of cases by what was done with them.
#[derive(Debug, Default)]
pub struct BaselineChanges {
    added: Vec<String>,
    changed: Vec<String>,
    removed: Vec<String>,
    tolerances: Vec<String>,
    /// Benchmarks of Go by what their runs may differ by, in bytes by operation.
    noise: BTreeMap<u64, u64>,
    /// Whether the baseline was of an older version.
    rewritten: bool,
}

impl BaselineChanges {
    /// True where there is nothing to write.
    pub fn is_none(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty() && !self.rewritten
    }

    /// Report of what was written, in one line or a few.
    pub fn lines(&self, path: &Path) -> Vec<String> {
        /// Limit of cases that are named.
        const NAMED: usize = 5;
        if self.is_none() {
            return vec![format!("{} stays as it is", path.display())];
        }
        let kinds = [("added", &self.added), ("changed", &self.changed), ("removed", &self.removed)];
        let kinds = kinds.iter().filter(|(_, names)| !names.is_empty()).map(|(done, names)| {
            let more = if names.len() > NAMED { format!(", and {} more", names.len() - NAMED) } else { String::new() };
            format!("{done} {}{more}", names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", "))
        });
        let mut kinds: Vec<String> = kinds.collect();
        if self.rewritten {
            kinds.push("in the form of this version".to_owned());
        }
        let first = format!("wrote {}: {}", path.display(), kinds.join("; "));
        let noise = self.noise.iter().map(|(bytes, &cases)| {
            format!("tolerates {bytes} B/op in {}: Go's runtime allocates for itself", of(cases, "benchmark"))
        });
        std::iter::once(first).chain(self.tolerances.iter().cloned()).chain(noise).collect()
    }
}

/// Takes cases out of the baseline that are no more. Only where all cases were measured: of a program that failed
/// nobody knows which it has.
pub fn prune(baseline: &mut Baseline, cases: &[CaseVerdict], platform: &str, flags: &TestFlags) -> BaselineChanges {
    let all = flags.command.is_empty() && flags.filters.is_empty() && cases.iter().all(|case| case.measured.is_some());
    let mut updated = BaselineChanges { rewritten: baseline.older(), ..BaselineChanges::default() };
    if all && !cases.is_empty() {
        let there: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        updated.removed = baseline.retain(platform, |case| there.contains(case));
    }
    updated
}

/// Runs of a whole command that show by how much it differs from run to run, where a few disagree.
const TELLING_RUNS: u32 = 10;

/// Measures again the programs whose runs disagreed: those with regions once more, as only this shows what differs from
/// process to process, and whole commands until they ran [`TELLING_RUNS`] times.
pub fn measure_again(cases: &mut [CaseVerdict], config: &Config) {
    let unstable: BTreeSet<usize> = cases.iter().filter(|case| case.unstable).filter_map(|case| case.program).collect();
    for index in unstable {
        let program = &config.programs[index];
        let is_whole = |case: &CaseVerdict| case.program == Some(index) && case.name == runner::name_of_whole(program);
        let rounds = match program.regions {
            _ if program.benchmarks.is_some() => 0,
            Regions::All | Regions::Named(_) => 1,
            // Its runs are processes of their own.
            Regions::None | Regions::IfAny if cases.iter().any(is_whole) => {
                TELLING_RUNS.div_ceil(program.runs).saturating_sub(1)
            }
            Regions::None | Regions::IfAny => 1,
        };
        let measured = (0..rounds).flat_map(|_| runner::run(index, program, RunOptions { idle: false }));
        for again in measured {
            let same = |case: &&mut CaseVerdict| case.program == Some(index) && case.name == again.name;
            let Some(case) = cases.iter_mut().find(same) else { continue };
            if let (Some(measured), Ok(again)) = (&mut case.measured, again.measured)
                && let Some(both) = Measured::of(&[&measured.runs[..], &again.runs[..]].concat())
            {
                *measured = both;
            }
        }
    }
}

/// Takes figures into the baseline. Broken cases stay as they are, and broken, unless all that they lacked was a
/// baseline.
pub fn update(
    baseline: &mut Baseline,
    platform: &str,
    cases: &mut [CaseVerdict],
    config: &Config,
    flags: &TestFlags,
    updated: &mut BaselineChanges,
) {
    for case in cases {
        let (Some(measured), Some(program)) = (&case.measured, case.program) else { continue };
        let program = &config.programs[program];
        let old = baseline.cases(platform).and_then(|cases| cases.get(&case.name)).cloned();
        let mut figures = measured.figures;
        if figures.remaining_allocations.is_some_and(|n| n < 0) || figures.leaked_fds.is_some_and(|n| n < 0) {
            continue;
        }
        let of_runs = Tolerance::of(measured);
        let noise = program.benchmarks.as_ref().map_or(0, go_benchmarks::noise);
        let mut tolerance = of_runs;
        tolerance.total_allocated_bytes = tolerance.total_allocated_bytes.max(noise);
        let made_by = (program.regions == Regions::All && program.benchmarks.is_none())
            .then(|| selection::program_name(&program.command));
        if flags.ratchet {
            let Some(old) = &old else { continue };
            figures = lower(&old.figures, &figures, &old.tolerance);
            tolerance = old.tolerance;
        }
        let kept = old.as_ref().is_some_and(|old| match flags.ratchet {
            true => old.figures == figures,
            // Figures that stay as they are keep their stacks, unless there are none.
            false => stays(old, &figures, &tolerance) && old.program == made_by && !old.stacks.is_empty(),
        });
        if !kept {
            if !of_runs.is_none() && !flags.ratchet {
                updated.tolerances.push(tolerance_line(&case.name, measured, &tolerance));
            } else if noise > 0 && !flags.ratchet {
                *updated.noise.entry(noise).or_default() += 1;
            }
            let found = explanation::stacks(program, &case.name, &config.root).unwrap_or_else(|why| {
                case.warnings.push(format!("{why}; the baseline has its figures alone"));
                CaseStacks::default()
            });
            let entry = Entry { figures, tolerance, program: made_by, ..Entry::default() };
            baseline.set(platform, &case.name, entry.with_stacks(found.sites));
            if old.is_some() { &mut updated.changed } else { &mut updated.added }.push(case.name.clone());
        }
        // Limits that decide alone are not those of the baseline.
        if !case.alone && (flags.update || case.verdict == Verdict::Improved) {
            case.baseline = Some(figures);
            case.verdict = Verdict::Passed;
            case.why = None;
            case.checks.clear();
        }
    }
}

/// Adds stacks to entries that have figures alone, as those that were imported, from cases that passed with these very
/// figures. Returns the names of those cases.
pub fn keep_stacks(baseline: &mut Baseline, platform: &str, cases: &mut [CaseVerdict], config: &Config) -> Vec<String> {
    let mut kept = Vec::new();
    for case in cases.iter_mut().filter(|case| case.verdict == Verdict::Passed && !case.unstable) {
        let (Some(measured), Some(program)) = (&case.measured, case.program) else { continue };
        let Some(entry) = baseline.cases(platform).and_then(|cases| cases.get(&case.name)).cloned() else { continue };
        let sums = |figures: &Figures| (figures.total_allocations, figures.total_allocated_bytes);
        let (allocations, bytes) = sums(&entry.figures);
        if !entry.stacks.is_empty()
            || !entry.rest.is_none()
            || allocations == 0
            || sums(&measured.figures) != (allocations, bytes)
        {
            continue;
        }
        match explanation::stacks(&config.programs[program], &case.name, &config.root) {
            Ok(found) => {
                let now: u64 = found.sites.iter().map(|site| site.allocations).sum();
                if i64::try_from(now) == Ok(allocations) {
                    baseline.set(platform, &case.name, entry.with_stacks(found.sites));
                    kept.push(case.name.clone());
                } else {
                    let (now, before) = (of(now, "time"), signed(allocations));
                    case.warnings.push(format!(
                        "run with stacks, it allocates {now}, not {before}: the baseline has its figures alone"
                    ));
                }
            }
            Err(why) => case.warnings.push(format!("{why}; the baseline has its figures alone")),
        }
    }
    kept
}

/// True where an entry says of these runs all that there is to say: an update that changes nothing is nothing to
/// review.
fn stays(old: &Entry, figures: &Figures, tolerance: &Tolerance) -> bool {
    let covered = !tolerance.is_none()
        && Metric::ALL.into_iter().all(|metric| tolerance.get(metric) <= old.tolerance.get(metric))
        && old.tolerance.covers(&old.figures, figures);
    covered || (old.figures == *figures && old.tolerance == *tolerance)
}

/// The lower of each figure; what is within the tolerance is as low as it was.
fn lower(old: &Figures, new: &Figures, tolerance: &Tolerance) -> Figures {
    let mut figures = *old;
    for metric in Metric::ALL {
        if let (Some(old), Some(new)) = (old.get(metric), new.get(metric)) {
            let most = i64::try_from(tolerance.get(metric)).unwrap_or(i64::MAX);
            figures.set(metric, Some(if new < old.saturating_sub(most) { new } else { old }));
        }
    }
    if old.leaked_fds.is_none() {
        figures.leaked_fds = new.leaked_fds;
    }
    figures
}

/// The tolerance of a case's figures, and the runs behind it.
fn tolerance_line(case: &str, measured: &Measured, tolerance: &Tolerance) -> String {
    let of = |metric: Metric| {
        let [least, most] = [&measured.figures, &measured.most].map(|figures| figures.get(metric).unwrap_or_default());
        let (key, least, most) = (metric.key(), signed(least), signed(most));
        format!("{key} {least} ±{} (runs {least} to {most})", count(tolerance.get(metric)))
    };
    let metrics = Metric::ALL.into_iter().filter(|metric| tolerance.get(*metric) > 0).map(of);
    format!("tolerance of {case}: {}", metrics.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratchet_lowers_what_is_below_the_tolerance() {
        let figures = |allocations, remaining, fds| Figures {
            total_allocations: allocations,
            remaining_allocations: Some(remaining),
            leaked_fds: fds,
            ..Figures::default()
        };
        let tolerance = Tolerance { total_allocations: 5, total_allocated_bytes: 0 };
        let old = figures(100, 2, None);
        for (new, expected) in [
            (figures(95, 3, Some(1)), figures(100, 2, Some(1))),
            (figures(94, 1, None), figures(94, 1, None)),
            (figures(101, 0, None), figures(100, 0, None)),
        ] {
            assert_eq!(lower(&old, &new, &tolerance), expected);
        }
    }
}
