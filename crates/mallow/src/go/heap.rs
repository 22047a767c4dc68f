//! The allocations in a heap profile of a Go program, with reasons: of any run of the program, a server's too.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail};
use mallow_golang::join::{self, Allocation, Compiled, Explained, Listed, OperationSums};
use mallow_golang::tool::{Go, TestBinary};
use mallow_profile::{Counts, Profile, Quantity};
use mallow_symbols::GoProgram;

use super::generated;
use super::measurement::{self, package};
use super::program_source::ProgramSource;
use crate::flags::GoHeapFlags;
use crate::input::recording::Recording;
use crate::output::progress::Spinner;
use crate::output::text::units::of;

/// Packages that are named where several cannot be looked at.
const NAMED: usize = 3;

/// A heap profile, and what it takes to explain it.
pub struct Heap {
    go: Go,
    /// Allocations by instruction, the most first.
    pub allocations: Vec<Allocation>,
    /// Sum of allocations that no line leads to.
    pub nowhere: OperationSums,
    /// Mean distance in bytes between sampled allocations; None: all are in the profile.
    pub sampled_bytes: Option<u64>,
    /// Remarks on what is not known, and why, a line each.
    pub notes: Vec<String>,
    /// The test programs that it may be of, built anew.
    tests: Vec<TestBinary>,
    /// Directories with sources of the program's own package.
    mains: BTreeSet<String>,
}

/// The program of the profile: the one in `named`, which must be it; else the one that the profile names, the one of
/// that name here (`go test -memprofile` leaves it here), or a test program that was built anew and came out the same.
fn program(
    profile: &Profile,
    named: Option<&Path>,
    tests: &[TestBinary],
    notes: &mut Vec<String>,
) -> Result<Option<GoProgram>> {
    if let Some(path) = named {
        let name = path.display();
        std::fs::metadata(path).with_context(|| format!("cannot read {name}"))?;
        let Some(program) = GoProgram::open(path) else { bail!("{name} is no program of Go's for linux/amd64") };
        if !fits(&program, profile) {
            bail!("{name} is not the program of the profile: its functions are elsewhere, or it has no symbols (-s)");
        }
        return Ok(Some(program));
    }
    let recorded = || profile.modules.iter().map(|module| Path::new(&module.path));
    let here = || recorded().filter_map(|path| path.file_name()).map(Path::new);
    let candidates = recorded().chain(here()).chain(tests.iter().map(|test| test.path.as_path()));
    let found = candidates.filter_map(GoProgram::open).find(|program| fits(program, profile));
    if found.is_none() {
        let missing = match recorded().find(|path| path.is_absolute()) {
            Some(path) if path.exists() => {
                format!("{} is not the program of the profile any more, or has no symbols", path.display())
            }
            Some(path) => format!("the program of the profile, {}, is not here", path.display()),
            None => "the profile does not name its program".to_owned(),
        };
        let advice = "mallow go profile --binary FILE names it";
        notes.push(format!(
            "{missing}: reasons are the compiler's for the line, and calls of the runtime are not known; {advice}"
        ));
    }
    Ok(found)
}

/// Whether functions are where the profile has them. Those of C may have other names.
fn fits(program: &GoProgram, profile: &Profile) -> bool {
    let (mut right, mut wrong) = (0_u64, 0_u64);
    let plain = |name: &str| name.split('[').next().unwrap_or_default().to_owned();
    for frame in profile.frames.iter().filter(|frame| frame.address > 0) {
        let Some(line) = frame.lines.last() else { continue };
        let inside = frame.address.saturating_sub(u64::from(!frame.exact));
        let found = program.function(program.address(inside).unwrap_or(inside));
        match found.is_some_and(|found| plain(&found) == plain(profile.strings.get(line.function))) {
            true => right += 1,
            false => wrong += 1,
        }
    }
    right > 9 * wrong
}

/// Whether the profile is of a Go program and names the source lines of its allocations.
pub fn is_go(profile: &Profile) -> bool {
    let is_source = |line: &mallow_profile::Line| line.file.is_some_and(|at| profile.strings.get(at).ends_with(".go"));
    profile.origin.is_some() && profile.frames.iter().flat_map(|frame| &frame.lines).any(is_source)
}

impl Heap {
    /// Reads a profile; a file, or an address.
    pub fn read(path: &Path, flags: &GoHeapFlags, tags: Option<&str>) -> Result<Self> {
        let recording = Recording::read(path)?;
        if !is_go(&recording.profile) {
            bail!("{} is no heap profile of a Go program", path.display());
        }
        let mut profile = recording.profile;
        if flags.live {
            live(&mut profile);
        } else if !profile.has(Quantity::Allocations) {
            bail!("{} holds only what is live: --live shows it", path.display());
        }
        generated::beside_others(&mut profile);
        Self::of(&profile, flags.binary.as_deref(), tags)
    }

    /// Explains a profile, as `binary` or test programs that are built anew show its code.
    pub fn of(profile: &Profile, binary: Option<&Path>, tags: Option<&str>) -> Result<Self> {
        let mut notes = Vec::new();
        let go = Go::find(Path::new("."), tags)?;
        let (mut tested, mut mains) = (BTreeSet::new(), BTreeSet::new());
        for line in profile.frames.iter().flat_map(|frame| &frame.lines) {
            let file = line.file.map_or("", |file| profile.strings.get(file));
            let package = package(profile.strings.get(line.function));
            let directory = file.rsplit_once('/').map_or("", |(directory, _)| directory);
            if file.ends_with("_test.go") {
                tested.insert(package.strip_suffix("_test").unwrap_or(&package).to_owned());
            } else if package == "main" && directory != "." && !file.ends_with("_testmain.go") {
                mains.insert(directory.to_owned());
            }
        }
        let tests = tests(&go, tested, &mut notes)?;
        let program = program(profile, binary, &tests, &mut notes)?;
        let own = ProgramSource::new(program.as_ref(), &go.root, go.directory());
        let Listed { allocations, nowhere } = join::allocations(profile, &own);
        let sampled_bytes = profile.origin.as_ref().and_then(|origin| origin.sampled_bytes);
        Ok(Self { go, allocations, nowhere, sampled_bytes, notes, tests, mains })
    }

    /// The version of Go whose compiler is asked.
    pub fn version(&self) -> &str {
        &self.go.version_text
    }

    /// Leaves those allocations, and gives them their reasons; `more` are packages to ask the compiler about anyway.
    pub fn explain(
        &mut self,
        more: &[String],
        working: &Spinner,
        leave: impl Fn(&Allocation) -> bool,
    ) -> Result<(Vec<Explained>, Compiled)> {
        let mut allocations = std::mem::take(&mut self.allocations);
        allocations.retain(|allocation| leave(allocation));
        working.at("asking the compiler for reasons");
        let compiled = self.compiled(&allocations, more)?;
        Ok((join::merge(join::explain(allocations, &compiled)), compiled))
    }

    fn compiled(&mut self, allocations: &[Allocation], more: &[String]) -> Result<Compiled> {
        let mut list = Vec::new();
        let mut wanted: BTreeSet<String> =
            allocations.iter().filter_map(|a| a.chain.last()).map(|place| package(&place.function)).collect();
        for binary in &self.tests {
            let inside: BTreeSet<String> = wanted
                .iter()
                .filter(|name| binary.inputs.iter().any(|input| input.package == **name))
                .cloned()
                .collect();
            wanted.retain(|name| !inside.contains(name));
            list.extend(measurement::diagnostics(&self.go, binary, inside)?);
        }
        if wanted.remove("main") {
            wanted.extend(self.mains.iter().cloned());
        }
        wanted.extend(more.iter().cloned());
        if wanted.is_empty() {
            return Ok(Compiled::new(list));
        }
        let packages = self.go.packages(&wanted.into_iter().collect::<Vec<_>>())?;
        let (broken, good): (Vec<_>, Vec<_>) = packages.into_iter().partition(|package| package.broken.is_some());
        if let [first, ..] = broken.as_slice() {
            let names: Vec<&str> = broken.iter().take(NAMED).map(|package| package.import_path.as_str()).collect();
            let others = broken.len().saturating_sub(NAMED);
            let others =
                if others > 0 { format!(" and {}", of(others as u64, "other package")) } else { String::new() };
            let why = first.broken.as_deref().unwrap_or_default();
            self.notes.push(format!(
                "the compiler cannot be asked about {}{others} from this directory: {why}",
                names.join(", ")
            ));
        }
        let names: Vec<String> = good.into_iter().map(|package| package.import_path).collect();
        if !names.is_empty() {
            for unit in self.go.diagnose(&names)? {
                list.extend(unit.read()?.list);
            }
        }
        Ok(Compiled::new(list))
    }
}

fn tests(go: &Go, tested: BTreeSet<String>, notes: &mut Vec<String>) -> Result<Vec<TestBinary>> {
    let mut tests = Vec::new();
    if tested.is_empty() {
        return Ok(tests);
    }
    for package in go.packages(&tested.into_iter().collect::<Vec<_>>())? {
        match &package.broken {
            Some(broken) => notes.push(format!("{}: {broken}", package.import_path)),
            None => match go.test_binary(&package) {
                Ok(binary) => tests.push(binary),
                Err(error) => notes.push(error.to_string()),
            },
        }
    }
    Ok(tests)
}

/// Counts what is live in the place of what was allocated.
fn live(profile: &mut Profile) {
    let counts =
        |counts: &Counts| Counts { allocations: counts.live, allocated_bytes: counts.live_bytes, ..Counts::default() };
    for site in &mut profile.sites {
        site.counts = counts(&site.counts);
    }
    profile.totals = counts(&profile.totals);
}
