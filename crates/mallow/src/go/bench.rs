//! `mallow go bench`: benchmarks, with every line that allocates.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use mallow_formats::pprof;
use mallow_golang::tool::{Go, Timing};
use mallow_report::analysis::Merger;

use super::bench_compare::EarlierRuns;
use super::bench_document::{GoBench, MeasuredPackage};
use super::bench_text::text;
use super::measurement::Measurer;
use crate::flags::GoBenchFlags;
use crate::output::destination;
use crate::output::progress::Spinner;
use crate::output::text::Stream;
use crate::output::{exit, json, stdio};

/// Writes all that was counted as one profile.
fn save(report: &GoBench, path: &Path) -> Result<()> {
    destination::may_be_written(path)?;
    let mut merger = Merger::default();
    for benchmark in report.packages.iter().flat_map(|package| &package.benchmarks) {
        if let Some(profile) = &benchmark.profile {
            merger.add(&benchmark.name, profile);
        }
    }
    let profile = merger.finish().profile;
    destination::stream(Some(path), Some("pprof"), |out| Ok(pprof::write(&profile, out)?))
}

pub fn run(flags: &GoBenchFlags) -> Result<ExitCode> {
    let working = Spinner::new();
    let go = Go::find(Path::new("."), flags.run.tool.tags.as_deref())?;
    working.at("looking for packages");
    let packages = go.packages(&flags.packages)?;
    // A file that cannot be compared with is reported before anything runs.
    let base = flags.base.as_deref().map(EarlierRuns::read).transpose()?;
    let timing = Timing { pattern: flags.run.bench.clone(), count: flags.run.count, time: flags.run.benchtime.clone() };
    let mut report = GoBench { go: go.version_text.clone(), packages: Vec::new(), comparison: None };
    for package in &packages {
        if package.broken.is_none() && !package.may_have_benchmarks() {
            continue;
        }
        let measured = Measurer { go: &go, package, working: &working }.measure(&timing);
        let (benchmarks, error) = match measured {
            Ok((benchmarks, _)) if benchmarks.is_empty() => continue,
            Ok((benchmarks, _)) => (benchmarks, None),
            Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        };
        report.packages.push(MeasuredPackage { package: package.import_path.clone(), error, benchmarks });
    }
    drop(working);
    if report.packages.is_empty() {
        let names = flags.packages.join(" ");
        match packages.iter().any(|package| package.may_have_benchmarks()) {
            true => bail!("no benchmark of {names} matches {:?}", flags.run.bench),
            false => bail!("there are no benchmarks in {names}: a file that ends with _test.go has them"),
        }
    }
    let failed = report.packages.iter().any(|p| p.error.is_some() || p.benchmarks.iter().any(|b| b.error.is_some()));
    if let Some(path) = &flags.save {
        save(&report, path)?;
    }
    let name = flags.base.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
    let all = report.packages.iter().flat_map(|p| p.benchmarks.iter().map(|one| (p.package.as_str(), one)));
    report.comparison = base.map(|base| base.compare(all, name));
    let look = flags.view.look(Stream::Out);
    stdio::print(&match flags.view.json {
        true => json::document(&report)?,
        false => text(&report, &flags.view, &look),
    })?;
    for package in &report.packages {
        if let Some(error) = &package.error {
            stdio::notify(error);
        }
    }
    Ok(if failed { ExitCode::from(exit::FAILED) } else { exit::OK })
}
