//! `mallow test`: a gate on allocations.

mod baseline;
mod bounds;
mod config;
mod explanation;
mod go_benchmarks;
mod import;
mod outputs;
mod package;
mod replacement;
mod rerun;
mod runner;
mod selection;
mod stack_table;
mod swiftnio;
mod text;
mod unique_map;
mod update;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use mallow_report::analysis::gate::{Check, Difference, Figures, Limits, Measured, Scale, Verdict, judge};
use serde::Serialize;

use self::baseline::Baseline;
use self::config::Config;
use self::explanation::Explanation;
use self::runner::{How, Ran};
use self::selection::Selection;
use self::update::Updated;
use crate::flags::TestFlags;
use crate::output::text::{Look, Stream};
use crate::output::{exit, stdio};

/// A case, judged.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// Its name.
    pub name: String,
    /// How it came out.
    pub verdict: Verdict,
    /// Why it is broken; null for others.
    pub why: Option<String>,
    /// What was counted; null where nothing could be.
    pub measured: Option<Measured>,
    /// The baseline's figures.
    pub baseline: Option<Figures>,
    /// Each metric.
    pub checks: Vec<Check>,
    /// The runs disagree.
    pub unstable: bool,
    /// What two numbers of operations tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale>,
    /// What a reader must know.
    pub warnings: Vec<String>,
    /// Which stacks changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
    /// Which stacks differ between runs; null where runs with stacks agree. Only where it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between_runs: Option<Option<Vec<Difference>>>,
    /// Its limits alone judge it; the baseline is what it is compared with.
    #[serde(skip)]
    alone: bool,
    #[serde(skip)]
    program: Option<usize>,
}

/// All cases, judged.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What the figures depend on.
    pub platform: String,
    /// The worst of the cases.
    pub verdict: Verdict,
    /// Nothing was counted.
    pub idle: bool,
    /// The cases, in their order.
    pub cases: Vec<Judged>,
    /// Paths of sources begin here.
    #[serde(skip)]
    root: PathBuf,
    /// Where the cases are, by the way from there.
    #[serde(skip)]
    file: PathBuf,
    /// What takes the figures into the baseline.
    #[serde(skip)]
    update: String,
}

/// What `--header` prints.
const HEADER: &str = include_str!("../../../../preload/include/mallow.h");

/// Runs the cases and judges them.
pub fn run(flags: &TestFlags) -> Result<ExitCode> {
    let code = status(flags)?;
    Ok(ExitCode::from(match code {
        exit::USAGE | exit::BROKEN if flags.bisect => exit::BISECT_SKIPS,
        exit::IMPROVED if flags.bisect => exit::PASSED,
        code => code,
    }))
}

/// The exit status, as scripts know it.
fn status(flags: &TestFlags) -> Result<u8> {
    if flags.header {
        return stdio::print(HEADER).map(|()| exit::PASSED);
    }
    if let Some(from) = &flags.import {
        return match import::run(from, flags) {
            Ok(tale) => stdio::print(&tale).map(|()| exit::PASSED),
            Err(error) => Ok(told(&error, exit::USAGE)),
        };
    }
    let config = match read_config(flags) {
        Ok(config) => config,
        Err(error) => return Ok(told(&error, exit::USAGE)),
    };
    if flags.list {
        stdio::print(&text::list(&config, &flags.filters))?;
        return Ok(exit::PASSED);
    }
    let path = flags.baseline.clone().unwrap_or_else(|| config.baseline.clone());
    let mut baseline = match Baseline::read(&path) {
        Ok(baseline) => baseline,
        Err(error) => return Ok(told(&error, exit::BROKEN)),
    };
    let platform = baseline::platform(flags.label.as_deref().or(config.label.as_deref()));
    let selection = selection::select(&config, &baseline, &flags.filters);
    let ran = run_all(&config, &selection, flags);
    let update = rerun::with(flags, "--update", &[]);
    selection.remarks(&config, &ran, &flags.filters, &update).iter().for_each(|remark| stdio::say(remark));
    let mut cases: Vec<Judged> = ran
        .into_iter()
        .filter(|ran| wanted(&flags.filters, &ran.name))
        .map(|ran| judged(ran, &config, &baseline, &platform, flags))
        .collect();
    let mut updated = Updated::default();
    if flags.update {
        updated = update::prune(&mut baseline, &cases, &platform, flags);
        update::measure_again(&mut cases, &config);
    }
    if !flags.no_hook {
        missing(&mut cases, &baseline, &platform, &config, flags);
    }
    if cases.is_empty() {
        let filters = flags.filters.join(", ");
        let list = rerun::with(flags, "--list", &[]);
        return Ok(told(&format!("no case matches {filters}; {list} names the cases"), exit::USAGE));
    }
    // What could not be written is told after what was measured, which took its time.
    let mut unwritten = Vec::new();
    if flags.update || flags.ratchet {
        update::update(&mut baseline, &platform, &mut cases, &config, flags, &mut updated);
        match if updated.is_none() { Ok(()) } else { baseline.write(&path) } {
            Ok(()) => updated.lines(&path).iter().for_each(|line| stdio::say(line)),
            Err(error) => unwritten.push(error),
        }
    } else if !flags.no_hook {
        explain_all(&mut cases, &config, &baseline, &platform, flags);
    }
    let verdict = cases.iter().map(|case| case.verdict).max().unwrap_or(Verdict::Broken);
    let file = below(&config.root, &flags.file);
    let update = rerun::with(flags, "--update", &flags.filters);
    let report = Report { platform, verdict, idle: flags.no_hook, cases, file, root: config.root, update };
    unwritten.extend(write_files(&report, flags).err());
    let look = Look::of(Stream::Out);
    stdio::print(&if flags.json {
        stdio::json(&report)?
    } else {
        text::text(&report, &baseline, flags.verbose, &look)
    })?;
    unwritten.iter().for_each(|error| stdio::say(error));
    Ok(if unwritten.is_empty() { exit::of_verdict(verdict) } else { exit::BROKEN })
}

/// Writes what other programs read.
fn write_files(report: &Report, flags: &TestFlags) -> Result<(), String> {
    let write = |path: &Option<PathBuf>, text: &dyn Fn() -> Result<String, String>| match path {
        Some(path) => {
            std::fs::write(path, text()?).map_err(|error| format!("cannot write {}: {error}", path.display()))
        }
        None => Ok(()),
    };
    write(&flags.junit, &|| outputs::junit(report))?;
    write(&flags.markdown, &|| Ok(outputs::markdown(report)))?;
    write(&flags.sarif, &|| Ok(format!("{:#}\n", outputs::sarif(report))))?;
    if flags.github {
        stdio::print(&outputs::github(report)).map_err(|error| format!("{error:#}"))?;
    }
    Ok(())
}

/// A file by its way from a directory that it lies below.
fn below(root: &Path, file: &Path) -> PathBuf {
    let whole = file.canonicalize().unwrap_or_default();
    whole.strip_prefix(root).map_or_else(|_| file.to_owned(), Path::to_owned)
}

fn told(error: &str, code: u8) -> u8 {
    stdio::say(error);
    code
}

fn read_config(flags: &TestFlags) -> Result<Config, String> {
    let mut config = match flags.command.is_empty() {
        true => config::read(&flags.file).map_err(|error| error.to_string())?,
        false => config::of_command(&flags.command),
    };
    for program in &mut config.programs {
        program.runs = flags.runs.unwrap_or(program.runs);
        program.warmup = flags.warmup.unwrap_or(program.warmup);
    }
    Ok(config)
}

fn wanted(filters: &[String], name: &str) -> bool {
    filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
}

/// Runs the programs, as many side by side as the flags say; the cases come back in the programs' order.
fn run_all(config: &Config, selection: &Selection, flags: &TestFlags) -> Vec<Ran> {
    let chosen = &selection.chosen;
    let how = How { idle: flags.no_hook };
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Vec<Ran>)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..(flags.jobs as usize).min(chosen.len()) {
            scope.spawn(|| {
                while let Some(&index) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let ran = runner::run(index, &config.programs[index], how);
                    if let Ok(mut done) = done.lock() {
                        done.push((index, ran));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(index, _)| *index);
    let mut ran: Vec<Ran> = done.into_iter().flat_map(|(_, ran)| ran).collect();
    // Names in the file are unique; those that programs give to their regions need not be.
    let mut programs: BTreeMap<String, usize> = BTreeMap::new();
    for case in &mut ran {
        if *programs.entry(case.name.clone()).or_insert(case.program) != case.program {
            case.measured = Err("another case of this name was measured before".to_owned());
        }
    }
    ran
}

fn judged(ran: Ran, config: &Config, baseline: &Baseline, platform: &str, flags: &TestFlags) -> Judged {
    let entry = baseline.cases(platform).and_then(|cases| cases.get(&ran.name));
    let limits = limits(&ran.name, config.limits_of(&config.programs[ran.program], &ran.name));
    let mut case = Judged {
        name: ran.name,
        verdict: Verdict::Broken,
        why: None,
        measured: None,
        baseline: entry.map(|entry| entry.figures),
        checks: Vec::new(),
        unstable: false,
        scale: ran.scale,
        warnings: ran.warnings,
        explanation: None,
        between_runs: None,
        alone: limits.alone,
        program: Some(ran.program),
    };
    match ran.measured {
        Err(why) => case.why = Some(why),
        Ok(measured) => {
            if flags.no_hook {
                case.verdict = Verdict::Passed;
            } else {
                let tolerance = entry.map(|entry| entry.tolerance).unwrap_or_default();
                case.checks = judge(&measured.figures, case.baseline.as_ref(), &tolerance, &limits);
                case.verdict = case.checks.iter().map(|check| check.verdict).max().unwrap_or(Verdict::Broken);
                let broken = case.checks.iter().find(|check| check.verdict == Verdict::Broken);
                // A project that holds the case to a baseline elsewhere is not content with a limit here.
                let elsewhere = limits.outright.is_none() && baseline.has(&case.name);
                if limits.alone {
                    if !limits.absolute() {
                        case.verdict = Verdict::Broken;
                        case.why = Some("its limits alone judge it, and it has none".to_owned());
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

/// The limits of a case, with the one that the environment sets.
fn limits(name: &str, mut limits: Limits) -> Limits {
    let set = config::answers_to(name).find_map(|name| {
        let variable = format!("MAX_ALLOCS_ALLOWED_{name}");
        std::env::var(&variable).ok().map(|value| (variable, value))
    });
    if let Some((variable, value)) = set {
        match value.trim().parse() {
            Ok(max) => limits.outright = Some((format!("{variable}={value}"), max)),
            // A limit that cannot be read must not be one that passes.
            Err(_) => limits.outright = Some((format!("{variable}={value}, which is no number"), i64::MIN)),
        }
    }
    limits
}

/// Cases that the baseline has, or the file limits, and that did not run: something took them away.
fn missing(cases: &mut Vec<Judged>, baseline: &Baseline, platform: &str, config: &Config, flags: &TestFlags) {
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
        cases.push(Judged {
            name: name.clone(),
            verdict: Verdict::Broken,
            why: Some(why),
            measured: None,
            baseline: figures,
            checks: Vec::new(),
            unstable: false,
            scale: None,
            warnings: Vec::new(),
            explanation: None,
            between_runs: None,
            alone: false,
            program: None,
        });
    }
}

/// Looks at the stacks of what did not pass, or of all where the flags say so; there also at those that differ between runs.
fn explain_all(cases: &mut [Judged], config: &Config, baseline: &Baseline, platform: &str, flags: &TestFlags) {
    for case in cases {
        let failed = matches!(case.verdict, Verdict::Regressed | Verdict::Improved);
        let (Some(measured), Some(program)) = (&case.measured, case.program) else { continue };
        if flags.no_explain || !(failed || flags.explain) {
            continue;
        }
        let program = &config.programs[program];
        let before = baseline.cases(platform).and_then(|cases| cases.get(&case.name));
        match explanation::stacks(program, &case.name, &config.root) {
            Ok(now) => {
                case.explanation = Some(explanation::explanation(now, before, &measured.figures));
            }
            Err(why) => case.warnings.push(why),
        }
        if flags.explain && case.unstable {
            match explanation::between_runs(program, &case.name, &config.root) {
                Ok(differences) => case.between_runs = Some(differences),
                Err(why) => case.warnings.push(why),
            }
        }
    }
}
