//! `mallow go escape`: what the compiler puts into the heap.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use mallow_golang::escape::{Escapes, VERSION, name_of, rank};
use mallow_golang::read::Diagnostics;
use mallow_golang::tool::{Go, Unit};
use serde::Deserialize;

use super::escape_document::EscapeDocument;
use super::escape_text::text;
use super::generated;
use super::revision::Revision;
use crate::flags::GoEscapeFlags;
use crate::input::recording::Recording;
use crate::output::text::Stream;
use crate::output::{exit, json, stdio};

pub fn run(flags: &GoEscapeFlags) -> Result<ExitCode> {
    if flags.fail_on_new && flags.diff.is_none() && flags.base.is_none() {
        bail!("--fail-on-new needs --diff REV or --base FILE to compare with");
    }
    let here = std::env::current_dir().context("cannot find the current directory")?;
    // What needs no compiler comes first: a mistake there is reported at once.
    let base = flags.base.as_deref().map(read_base).transpose()?;
    let mut profile = flags.profile.as_deref().map(Recording::read).transpose()?;
    let mut escapes = of_directory(&here, flags)?;
    let ranked = profile.as_mut().map(|recording| {
        generated::beside_others(&mut recording.profile);
        rank(&mut escapes.sites, &recording.profile)
    });
    let mut shown = EscapeDocument { escapes, profile: ranked, base: None, comparison: None };
    if let Some(base) = base {
        let name = flags.base.as_deref().unwrap_or(Path::new("")).display().to_string();
        shown.compare(&base, name);
    } else if let Some(name) = &flags.diff {
        let revision = Revision::of(&here, name)?;
        let base = of_directory(&revision.directory, flags).with_context(|| format!("in {name}"))?;
        shown.compare(&base, name.clone());
    }
    let look = flags.view.look(Stream::Out);
    if let Some(path) = &flags.sarif {
        let text = format!("{:#}\n", shown.sarif(&here));
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    stdio::print(&match flags.view.json {
        true => json::document(&shown)?,
        false => text(&shown, flags.verbose, flags.view.limit(usize::MAX), &look),
    })?;
    let new = shown.comparison.as_ref().is_some_and(|comparison| !comparison.new.is_empty());
    Ok(if flags.fail_on_new && new { ExitCode::from(exit::CHANGED) } else { exit::OK })
}

/// Escapes of the packages as they are in a directory.
fn of_directory(directory: &Path, flags: &GoEscapeFlags) -> Result<Escapes> {
    let go = Go::find(directory, flags.tool.tags.as_deref())?;
    let packages = go.packages(&flags.packages)?;
    if let Some(broken) = packages.iter().find_map(|package| package.broken.as_ref().map(|why| (package, why))) {
        bail!("{}: {}", broken.0.import_path, broken.1);
    }
    let packages: Vec<String> = packages.into_iter().map(|package| package.import_path).collect();
    let mut found = diagnostics(&go, &packages)?;
    let mut escapes = Escapes::of(&go.version_text, &found, &packages, &go.directory().to_string_lossy());
    if flags.verbose || flags.view.json || flags.diff.is_some() || flags.base.is_some() {
        // Ways are shown, and go on in the libraries that are called.
        let names = escapes.leaking_packages();
        let called = |package: &String| names.contains(name_of(package)) && !packages.contains(package);
        let inputs = go.inputs(&packages, true, false)?;
        let called: BTreeSet<String> = inputs.into_iter().map(|input| input.package).filter(called).collect();
        if !called.is_empty() {
            found.extend(diagnostics(&go, &called.into_iter().collect::<Vec<_>>())?);
        }
        escapes.follow(&found);
    }
    Ok(escapes)
}

fn diagnostics(go: &Go, packages: &[String]) -> Result<Vec<Diagnostics>> {
    let read = |unit: &Unit| unit.read().context(unit.package.clone());
    go.diagnose(packages)?.iter().map(read).collect()
}

/// Reads a file of `mallow go escape --json`.
fn read_base(path: &Path) -> Result<Escapes> {
    #[derive(Deserialize)]
    struct Versioned {
        version: u32,
    }
    let name = path.display();
    let text = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
    let nonsense = || format!("{name} is not what mallow go escape --json writes");
    let Versioned { version } = serde_json::from_slice(&text).with_context(nonsense)?;
    if version > VERSION {
        bail!("{name} is from a newer mallow (version {version}, known up to {VERSION})");
    }
    serde_json::from_slice(&text).with_context(nonsense)
}
