//! Verdicts of cases: their figures against limits and the baseline.

use std::collections::BTreeSet;
use std::path::PathBuf;

use mallow_report::analysis::gate::{Check, Difference, Figures, Measured, Scale, Verdict, decide};
use serde::Serialize;

use super::baseline::Baseline;
use super::config::{self, Config};
use super::explanation::Explanation;
use super::outcome::CaseRun;
use super::rerun;
use super::selection::wanted;
use crate::flags::TestFlags;

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CaseVerdict {
    /// Name of the case, from the configuration or the benchmark.
    pub name: String,
    /// Result of the case: the worst of its checks.
    pub verdict: Verdict,
    /// Reason why the case is broken, in words; null where it is not.
    pub why: Option<String>,
    /// Counts of the case over its runs; null where nothing could be counted.
    pub measured: Option<Measured>,
    /// Figures that the baseline has of the case; null where it has none.
    pub baseline: Option<Figures>,
    /// Comparison of each metric with its limits; empty where nothing was counted.
    pub checks: Vec<Check>,
    /// The runs of the case disagree in one figure or more.
    pub unstable: bool,
    /// Costs of one operation, from measuring with two numbers of operations; left out where that was not done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
    /// Figures are those of one operation, which Go rounds down; left out where they are not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rounded_down: bool,
    /// Sentences that limit what the verdict means.
    pub warnings: Vec<String>,
    /// Stacks that changed since the baseline; left out where nobody looked at stacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// Stacks that differ between runs, where runs disagree and `--explain` asks for it; null where runs with stacks
    /// agree. Left out elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between_runs: Option<Option<Vec<Difference>>>,
    /// The case's limits alone decide; the baseline is there for comparison.
    #[serde(skip)]
    pub alone: bool,
    #[serde(skip)]
    pub program: Option<usize>,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Report {
    /// Platform that the figures depend on: processor, C library, versions.
    pub platform: String,
    /// Worst verdict of the cases.
    pub verdict: Verdict,
    /// Everything ran, and nothing was counted (`--no-hook`).
    pub idle: bool,
    /// Verdicts of the cases, in their order.
    pub cases: Vec<CaseVerdict>,
    /// Directory in which paths of sources begin.
    #[serde(skip)]
    pub root: PathBuf,
    /// File that has the cases, relative to `root`.
    #[serde(skip)]
    pub file: PathBuf,
    /// Command that takes the figures into the baseline.
    #[serde(skip)]
    pub update: String,
}

pub fn decide_case(
    ran: CaseRun,
    config: &Config,
    baseline: &Baseline,
    platform: &str,
    flags: &TestFlags,
) -> CaseVerdict {
    let entry = baseline.cases(platform).and_then(|cases| cases.get(&ran.name));
    let mut limits = config.limits_of(&config.programs[ran.program], &ran.name);
    // A limit that cannot be read must not be one that passes.
    let unreadable = match limit_of_environment(&ran.name) {
        Ok(limit) => {
            limits.outright = limit.or(limits.outright);
            None
        }
        Err(why) => Some(why),
    };
    let rounded_down = config.programs[ran.program].benchmarks.is_some();
    // Baselines of earlier versions have a 0 of benchmarks that nobody counted.
    let known = |figures: &Figures| Figures {
        remaining_allocations: figures.remaining_allocations.filter(|_| !rounded_down),
        ..*figures
    };
    let mut case = CaseVerdict {
        name: ran.name,
        verdict: Verdict::Broken,
        why: None,
        measured: None,
        baseline: entry.map(|entry| known(&entry.figures)),
        checks: Vec::new(),
        unstable: false,
        scale: ran.scale,
        rounded_down,
        warnings: ran.warnings,
        explanation: None,
        between_runs: None,
        alone: limits.alone || unreadable.is_some(),
        program: Some(ran.program),
    };
    match ran.measured {
        Err(why) => case.why = Some(why),
        Ok(measured) => {
            if flags.no_hook {
                case.verdict = Verdict::Passed;
            } else if unreadable.is_some() {
                case.why = unreadable;
            } else {
                let tolerance = entry.map(|entry| entry.tolerance).unwrap_or_default();
                case.checks = decide(&measured.figures, case.baseline.as_ref(), &tolerance, &limits);
                case.verdict = case.checks.iter().map(|check| check.verdict).max().unwrap_or(Verdict::Broken);
                let broken = case.checks.iter().find(|check| check.verdict == Verdict::Broken);
                // A project that holds the case to a baseline elsewhere is not content with a limit here.
                let elsewhere = limits.outright.is_none() && baseline.has(&case.name);
                if limits.alone {
                    if !limits.absolute() {
                        case.verdict = Verdict::Broken;
                        case.why = Some("its limits alone decide, and it has none".to_owned());
                    }
                } else if case.baseline.is_none() && (elsewhere || !limits.absolute()) {
                    case.verdict = Verdict::Broken;
                    case.why = Some(format!(
                        "no baseline for {platform}; {} makes one",
                        rerun::with(flags, "--update", &flags.filters)
                    ));
                }
                if let (None, Some(check)) = (&case.why, broken) {
                    let why = check.why.as_deref().unwrap_or_default();
                    case.why = Some(format!("{}: {why}", check.metric.key()));
                }
            }
            case.unstable = measured.unstable();
            case.measured = Some(measured);
        }
    }
    case
}

/// The limit of a case that the environment sets, and its text; a sentence where it is no number.
fn limit_of_environment(name: &str) -> Result<Option<(String, i64)>, String> {
    let set = config::answers_to(name).find_map(|name| {
        let variable = format!("MAX_ALLOCS_ALLOWED_{name}");
        std::env::var_os(&variable).map(|value| (variable, value))
    });
    let Some((variable, value)) = set else { return Ok(None) };
    let value = value.to_string_lossy();
    let text = format!("{variable}={value}");
    match value.trim().parse() {
        Ok(max) => Ok(Some((text, max))),
        Err(_) => Err(format!("{text} is no whole number, and no limit")),
    }
}

/// Cases that the baseline has, or the file limits, and that did not run: something took them away.
pub fn missing(cases: &mut Vec<CaseVerdict>, baseline: &Baseline, platform: &str, config: &Config, flags: &TestFlags) {
    if !flags.command.is_empty() {
        return;
    }
    let there: BTreeSet<String> = cases.iter().map(|case| case.name.clone()).collect();
    let of_baseline = baseline.cases(platform).into_iter().flatten();
    let gone = of_baseline.filter(|(name, _)| !there.contains(*name)).map(|(name, entry)| {
        let update = rerun::with(flags, "--update", &[]);
        let why = format!("the baseline has it, and nothing measured it; {update} takes it out if that is meant");
        (name, why, Some(entry.figures))
    });
    let unlimited = config.limits.keys().filter(|name| {
        let answers = |case: &String| config::answers_to(case).any(|answer| answer == *name);
        !there.iter().any(answers) && !baseline.cases(platform).into_iter().flatten().any(|(case, _)| answers(case))
    });
    let unlimited = unlimited.map(|name| {
        let file = flags.file.display();
        (name, format!("{file} limits it, and nothing measured it; remove it there if that is meant"), None)
    });
    let gone: Vec<_> = gone.chain(unlimited).filter(|(name, ..)| wanted(&flags.filters, name)).collect();
    for (name, why, figures) in gone {
        cases.push(CaseVerdict {
            name: name.clone(),
            verdict: Verdict::Broken,
            why: Some(why),
            measured: None,
            baseline: figures,
            checks: Vec::new(),
            unstable: false,
            scale: None,
            rounded_down: false,
            warnings: Vec::new(),
            explanation: None,
            between_runs: None,
            alone: false,
            program: None,
        });
    }
}
