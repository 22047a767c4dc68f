//! `mallow test --import`: what other tests of allocations are held to, taken over.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use mallow_report::analysis::gate::{Bounds, Metric};
use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};

use super::baseline::{self, Baseline, Entry};
use super::config::{Config, Regions, answers_to};
use super::package::{BUILT, Package};
use super::selection::wanted;
use super::{config_file, replacement, swiftnio};
use crate::flags::TestFlags;
use crate::output::text::units::count;

/// A log that is larger is no log of tests.
const LARGEST: u64 = 256 << 20;

/// Takes limits into the cases' file and figures into the baseline. Returns a summary of the changes; an error is one
/// line, and changes nothing.
pub fn run(from: &Path, flags: &TestFlags) -> Result<String, String> {
    let wanted = |case: &str| wanted(&flags.filters, case);
    let values = swiftnio::read(&read(from)?, &wanted).map_err(|fault| {
        let line = fault.line.map(|line| format!(":{line}")).unwrap_or_default();
        format!("{}{line}: {}", from.display(), fault.what)
    })?;
    // Figures alone need no file of cases; limits make one where there is none.
    let config = match flags.file.exists() {
        false if values.limits.is_empty() || flags.file.as_os_str() == TestFlags::FILE => None,
        _ => Some(config_file::read(&flags.file).map_err(|error| error.to_string())?),
    };
    let mut package = None;
    let limited = match (&config, values.limits.is_empty()) {
        (_, true) => None,
        (Some(config), false) => {
            let text = config_file::text(&flags.file).map_err(|error| error.to_string())?;
            let document = text.trim_end().parse().map_err(|error| format!("{}: {error}", flags.file.display()))?;
            Some(with_limits(document, &flags.file, &values.limits, Some(config))?)
        }
        (None, false) => {
            let home = flags.file.parent().unwrap_or(Path::new(""));
            let found = package.insert(Package::of(values.limits.keys(), from, home));
            Some(with_limits(found.cases(from), &flags.file, &values.limits, None)?)
        }
    };
    let mut summary = String::new();
    if !values.figures.is_empty() {
        let default = config.as_ref().map_or_else(|| "mallow.baseline.json".into(), |config| config.baseline.clone());
        let path = flags.baseline.clone().unwrap_or(default);
        let mut baseline = Baseline::read(&path)?;
        let label = flags.label.as_deref().or(config.as_ref().and_then(|config| config.label.as_deref()));
        let platform = baseline::platform(label);
        let mut changed = 0;
        for (case, figures) in &values.figures {
            let old = baseline.cases(&platform).and_then(|cases| cases.get(case)).cloned().unwrap_or_default();
            let figures = mallow_report::analysis::gate::Figures { operations: old.figures.operations, ..*figures };
            // Stacks are of the figures that they add up to.
            let entry = if old.figures == figures { old.clone() } else { Entry { figures, ..Entry::default() } };
            changed += usize::from(entry != old);
            baseline.set(&platform, case, entry);
        }
        if changed > 0 {
            baseline.write(&path)?;
        }
        summary += &sentence("figures", values.figures.len(), changed, &path);
        summary += &format!(
            "They are those of {platform}; a run that passes adds the stacks behind them, to compare a failure with\n"
        );
    }
    if let Some((text, changed)) = limited {
        if changed > 0 {
            replacement::write(&flags.file, &text)?;
        }
        summary += &sentence("limits", values.limits.len(), changed, &flags.file);
        summary += &package.map(|package| described(&package)).unwrap_or_default();
    }
    Ok(summary)
}

fn sentence(what: &str, cases: usize, changed: usize, path: &Path) -> String {
    let plural = if cases == 1 { "case" } else { "cases" };
    let changed = if changed == cases { String::new() } else { format!(", {} of them changed", count(changed as u64)) };
    format!("{}: {what} of {} {plural}{changed}\n", path.display(), count(cases as u64))
}

/// Reads a file, or standard input for `-`.
fn read(from: &Path) -> Result<String, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", from.display());
    let input: Box<dyn Read> = match from == Path::new("-") {
        true => Box::new(std::io::stdin()),
        false => Box::new(File::open(from).map_err(|error| failed(&error))?),
    };
    let mut bytes = Vec::new();
    input.take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    if bytes.len() as u64 > LARGEST {
        return Err(failed(&"too large for what a test prints"));
    }
    // A byte that is no text may stand in a log's other lines.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Beginning of the message about a new file of cases.
fn described(package: &Package) -> String {
    let programs = package.programs.len();
    let plural = if programs == 1 { "program" } else { "programs" };
    let sources = package.sources.as_ref().map(|place| format!(", from the tests in {}", place.display()));
    let mut text = format!("It is new, for {programs} {plural} in {BUILT}{}\n", sources.unwrap_or_default());
    if !package.assumed.is_empty() {
        let assumed = package.assumed.join(", ");
        text += &format!("Treated as separate programs, as no source was found for {assumed}\n");
    }
    text + "Build them with swift build -c release; mallow test --update keeps their stacks, to compare with\n"
}

/// SwiftNIO's gates of a case with a threshold: above its threshold less a thousand the number of allocations passes,
/// and so do five blocks more or less, exclusive; no descriptor stays.
fn gates(limit: i64) -> [(Metric, Bounds); 3] {
    let bounds = |min, max| Bounds { min, max: Some(max) };
    [
        (Metric::TotalAllocations, bounds(Some(limit - 999).filter(|min| *min > 0), limit)),
        (Metric::RemainingAllocations, bounds(Some(-4), 4)),
        (Metric::LeakedFds, bounds(None, 0)),
    ]
}

/// The cases' file with these limits, everything else as it stands; and how many are new to it.
fn with_limits(
    mut document: DocumentMut,
    path: &Path,
    limits: &BTreeMap<String, i64>,
    config: Option<&Config>,
) -> Result<(String, usize), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let table = document.entry("limits").or_insert_with(|| {
        let mut table = Table::new();
        table.decor_mut().set_prefix("\n");
        Item::Table(table)
    });
    let table = table.as_table_like_mut().ok_or_else(|| failed(&"limits is no table"))?;
    let mut changed = 0;
    for (case, &limit) in limits {
        let of_case = table.entry(case).or_insert_with(|| Value::InlineTable(Default::default()).into());
        let of_case = of_case.as_table_like_mut().ok_or_else(|| failed(&format!("limits.{case} is no table")))?;
        // What a whole command leaves behind at its end is not what SwiftNIO's gates are about.
        let whole = config.is_some_and(|config| whole_command(config, case));
        let mut new = false;
        for (metric, bounds) in gates(limit) {
            new |= match whole {
                true if metric != Metric::TotalAllocations => false,
                true => set(of_case, metric, Bounds { min: None, ..bounds }),
                false => set(of_case, metric, bounds),
            };
        }
        changed += usize::from(new);
    }
    let text = format!("{}\n", document.to_string().trim_end());
    // What is written must be read again.
    config_file::parse(&text, path).map_err(|error| error.to_string())?;
    Ok((text, changed))
}

fn whole_command(config: &Config, limit: &str) -> bool {
    let whole = config.programs.iter().filter(|program| program.regions == Regions::None);
    let mut names = whole.filter_map(|program| program.name.as_deref());
    names.any(|name| answers_to(name).any(|answer| answer == limit))
}

/// Sets a limit; true where it was another one.
fn set(of_case: &mut dyn TableLike, metric: Metric, bounds: Bounds) -> bool {
    let key = metric.key();
    let there = of_case.get(key);
    let inner = |name: &str| there.and_then(Item::as_table_like)?.get(name)?.as_integer();
    let old = match there.and_then(Item::as_integer) {
        Some(max) => Bounds { min: None, max: Some(max) },
        None => Bounds { min: inner("min"), max: inner("max") },
    };
    if old == bounds {
        return false;
    }
    let item = match bounds {
        Bounds { min: Some(min), max: Some(max) } => {
            let mut range = InlineTable::new();
            range.insert("min", min.into());
            range.insert("max", max.into());
            toml_edit::value(range)
        }
        Bounds { max, .. } => toml_edit::value(max.unwrap_or_default()),
    };
    of_case.insert(key, item);
    true
}
