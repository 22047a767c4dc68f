//! `mallow test`: runs the cases, decides on them, and writes what was asked for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use mallow_report::analysis::gate::Verdict;

use super::baseline::Baseline;
use super::case_verdict::{CaseVerdict, Report, decide_case, missing};
use super::config::Config;
use super::outcome::CaseRun;
use super::runner::RunOptions;
use super::selection::{Selection, wanted};
use super::update::BaselineChanges;
use super::{
    baseline, config, config_file, explanation, import, outputs, rerun, runner, selection, swift_package, text, update,
};
use crate::flags::TestFlags;
use crate::output::text::units::count;
use crate::output::text::{Look, Stream};
use crate::output::{exit, json, stdio};

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
        return stdio::print(swift_package::HEADER).map(|()| exit::PASSED);
    }
    if let Some(directory) = &flags.swift_package {
        return match swift_package::write(directory) {
            Ok(summary) => stdio::print(&summary).map(|()| exit::PASSED),
            Err(error) => Ok(report_error(&error, exit::USAGE)),
        };
    }
    if let Some(from) = &flags.import {
        return match import::run(from, flags) {
            Ok(summary) => stdio::print(&summary).map(|()| exit::PASSED),
            Err(error) => Ok(report_error(&error, exit::USAGE)),
        };
    }
    let config = match read_config(flags) {
        Ok(config) => config,
        Err(error) => return Ok(report_error(&error, exit::USAGE)),
    };
    if flags.list {
        stdio::print(&text::list(&config, &flags.filters))?;
        return Ok(exit::PASSED);
    }
    let path = flags.baseline.clone().unwrap_or_else(|| config.baseline.clone());
    let mut baseline = match Baseline::read(&path) {
        Ok(baseline) => baseline,
        Err(error) => return Ok(report_error(&error, exit::BROKEN)),
    };
    let platform = baseline::platform(flags.label.as_deref().or(config.label.as_deref()));
    let selection = selection::select(&config, &baseline, &flags.filters);
    let ran = run_all(&config, &selection, flags);
    let update = rerun::with(flags, "--update", &[]);
    selection.remarks(&config, &ran, &flags.filters, &update).iter().for_each(|remark| stdio::notify(remark));
    let mut cases: Vec<CaseVerdict> = ran
        .into_iter()
        .filter(|ran| wanted(&flags.filters, &ran.name))
        .map(|ran| decide_case(ran, &config, &baseline, &platform, flags))
        .collect();
    let mut updated = BaselineChanges::default();
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
        return Ok(report_error(&format!("no case matches {filters}; {list} names the cases"), exit::USAGE));
    }
    // Write errors are reported after the results: measuring them took time.
    let mut unwritten = Vec::new();
    if flags.update || flags.ratchet {
        update::update(&mut baseline, &platform, &mut cases, &config, flags, &mut updated);
        match if updated.is_none() { Ok(()) } else { baseline.write(&path) } {
            Ok(()) => updated.lines(&path).iter().for_each(|line| stdio::notify(line)),
            Err(error) => unwritten.push(error),
        }
    } else if !flags.no_hook {
        explain_all(&mut cases, &config, &baseline, &platform, flags);
        if !flags.no_explain && !flags.bisect {
            keep_stacks(&mut baseline, &path, &platform, &mut cases, &config);
        }
    }
    let verdict = cases.iter().map(|case| case.verdict).max().unwrap_or(Verdict::Broken);
    let file = below(&config.root, &flags.file);
    let update = rerun::with(flags, "--update", &flags.filters);
    let report = Report { platform, verdict, idle: flags.no_hook, cases, file, root: config.root, update };
    unwritten.extend(write_files(&report, flags).err());
    let look = Look::of(Stream::Out);
    stdio::print(&if flags.json {
        json::document(&report)?
    } else {
        text::text(&report, &baseline, flags.verbose, &look)
    })?;
    unwritten.iter().for_each(|error| stdio::notify(error));
    Ok(if unwritten.is_empty() { exit::of_verdict(verdict) } else { exit::BROKEN })
}

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

/// A file relative to a directory that it lies below.
fn below(root: &Path, file: &Path) -> PathBuf {
    let whole = file.canonicalize().unwrap_or_default();
    whole.strip_prefix(root).map_or_else(|_| file.to_owned(), Path::to_owned)
}

fn report_error(error: &str, code: u8) -> u8 {
    stdio::notify(error);
    code
}

fn read_config(flags: &TestFlags) -> Result<Config, String> {
    let mut config = match flags.command.is_empty() {
        true => config_file::read(&flags.file).map_err(|error| error.to_string())?,
        false => config::of_command(&flags.command),
    };
    for program in &mut config.programs {
        program.runs = flags.runs.unwrap_or(program.runs);
        program.warmup = flags.warmup.unwrap_or(program.warmup);
    }
    Ok(config)
}

/// Runs the programs, as many side by side as the flags say; the cases come back in the programs' order.
fn run_all(config: &Config, selection: &Selection, flags: &TestFlags) -> Vec<CaseRun> {
    let chosen = &selection.chosen;
    let how = RunOptions { idle: flags.no_hook };
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Vec<CaseRun>)>> = Mutex::new(Vec::new());
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
    let mut ran: Vec<CaseRun> = done.into_iter().flat_map(|(_, ran)| ran).collect();
    // Names in the file are unique; those that programs give to their regions need not be.
    let mut programs: BTreeMap<String, usize> = BTreeMap::new();
    for case in &mut ran {
        if *programs.entry(case.name.clone()).or_insert(case.program) != case.program {
            case.measured = Err("another case of this name was measured before".to_owned());
        }
    }
    ran
}

/// Completes a baseline that was imported, from cases that pass. A baseline that cannot be written holds for
/// this run as before.
fn keep_stacks(baseline: &mut Baseline, path: &Path, platform: &str, cases: &mut [CaseVerdict], config: &Config) {
    let kept = update::keep_stacks(baseline, platform, cases, config);
    let plural = if kept.len() == 1 { "case" } else { "cases" };
    match if kept.is_empty() { return } else { baseline.write(path) } {
        Ok(()) => stdio::notify(&format!(
            "wrote {}: the stacks of {} {plural}, to compare a failure with; the figures stay",
            path.display(),
            count(kept.len() as u64)
        )),
        Err(error) => stdio::notify(&format!("{error}; a failure has no stacks to be compared with")),
    }
}

/// Looks at the stacks of what did not pass, or of all where the flags say so; there also at those that differ between
/// runs.
fn explain_all(cases: &mut [CaseVerdict], config: &Config, baseline: &Baseline, platform: &str, flags: &TestFlags) {
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
