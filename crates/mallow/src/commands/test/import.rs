//! `mallow test --import`: what other tests of allocations are held to, taken over.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use mallow_report::analysis::gate::Metric;
use toml_edit::{DocumentMut, Item, Table, Value};

use super::baseline::{self, Baseline, Entry};
use super::{aside, config, nio, wanted};
use crate::flags::TestFlags;
use crate::text::units::count;

/// A log that is larger is no log of tests.
const LARGEST: u64 = 256 << 20;

/// Takes limits into the cases' file and figures into the baseline. Tells what it did; what makes no sense is one line,
/// and changes nothing.
pub fn run(from: &Path, flags: &TestFlags) -> Result<String, String> {
    let wanted = |case: &str| wanted(&flags.filters, case);
    let told = nio::read(&read(from)?, &wanted).map_err(|fault| {
        let line = fault.line.map(|line| format!(":{line}")).unwrap_or_default();
        format!("{}{line}: {}", from.display(), fault.what)
    })?;
    let config = match told.limits.is_empty() && !flags.file.exists() {
        // Figures alone need none.
        true => None,
        false => Some(config::read(&flags.file).map_err(|error| error.to_string())?),
    };
    let limited = match told.limits.is_empty() {
        true => None,
        false => Some(with_limits(&flags.file, &told.limits)?),
    };
    let mut tale = String::new();
    if !told.figures.is_empty() {
        let default = config.as_ref().map_or_else(|| "mallow.baseline.json".into(), |config| config.baseline.clone());
        let path = flags.baseline.clone().unwrap_or(default);
        let mut baseline = Baseline::read(&path)?;
        let label = flags.label.as_deref().or(config.as_ref().and_then(|config| config.label.as_deref()));
        let platform = baseline::platform(label);
        let mut changed = 0;
        for (case, figures) in &told.figures {
            let old = baseline.cases(&platform).and_then(|cases| cases.get(case)).cloned().unwrap_or_default();
            let figures = mallow_report::analysis::gate::Figures { operations: old.figures.operations, ..*figures };
            // Stacks are of the figures that they add up to.
            let stacks = if old.figures == figures { old.stacks.clone() } else { Vec::new() };
            let entry = Entry { figures, stacks };
            changed += usize::from(entry != old);
            baseline.set(&platform, case, entry);
        }
        if changed > 0 {
            baseline.write(&path)?;
        }
        tale += &sentence("figures", told.figures.len(), changed, &path);
        tale += &format!("They are those of {platform}; mallow test --update adds the stacks behind them\n");
    }
    if let Some((text, changed)) = limited {
        if changed > 0 {
            aside::write(&flags.file, &text)?;
        }
        tale += &sentence("limits", told.limits.len(), changed, &flags.file);
    }
    Ok(tale)
}

fn sentence(what: &str, cases: usize, changed: usize, path: &Path) -> String {
    let plural = if cases == 1 { "case" } else { "cases" };
    let changed = if changed == cases { String::new() } else { format!(", {} of them changed", count(changed as u64)) };
    format!("{}: {what} of {} {plural}{changed}\n", path.display(), count(cases as u64))
}

/// `-` is standard input.
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

/// The cases' file with these limits, everything else as it stands; and how many are new to it.
fn with_limits(path: &Path, limits: &BTreeMap<String, i64>) -> Result<(String, usize), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = config::text(path).map_err(|error| error.to_string())?;
    let mut document: DocumentMut = text.trim_end().parse().map_err(|error| failed(&error))?;
    let table = document.entry("limits").or_insert_with(|| {
        let mut table = Table::new();
        table.decor_mut().set_prefix("\n");
        Item::Table(table)
    });
    let table = table.as_table_like_mut().ok_or_else(|| failed(&"limits is no table"))?;
    let key = Metric::TotalAllocations.key();
    let mut changed = 0;
    for (case, &limit) in limits {
        let of_case = table.entry(case).or_insert_with(|| Value::InlineTable(Default::default()).into());
        let of_case = of_case.as_table_like_mut().ok_or_else(|| failed(&format!("limits.{case} is no table")))?;
        if of_case.get(key).and_then(Item::as_integer) != Some(limit) {
            of_case.insert(key, toml_edit::value(limit));
            changed += 1;
        }
    }
    let text = format!("{}\n", document.to_string().trim_end());
    // What is written must be read again.
    config::parse(&text, path).map_err(|error| error.to_string())?;
    Ok((text, changed))
}
