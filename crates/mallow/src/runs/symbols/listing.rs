//! The files of a recording with where their names come from, as text and as JSON.

use std::path::Path;

use mallow_symbols::{NameSource, hex};
use serde::Serialize;

use super::servers;
use crate::input::names::{self, MissingNames, fetch_command};
use crate::input::recording::Recording;
use crate::output::text::units::{count, of};
use crate::output::text::{Line, Look, Page};

/// What `mallow symbols` shows.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Listing {
    /// The recording carries its names.
    packed: bool,
    /// ELF files with functions on recorded call paths.
    modules: Vec<ModuleRow>,
    /// Debug files that were asked for (`--fetch`); left out where none were.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fetched: Vec<Download>,
}

/// A file with functions on recorded call paths.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ModuleRow {
    /// Path of the ELF file.
    module: String,
    /// Build id in hexadecimal; empty where the file has none.
    build_id: String,
    /// Source of the names, in words.
    found: String,
    /// Path of the separate debug file that names come from; null where there is none.
    debug_file: Option<String>,
    /// Code addresses of the module on call paths.
    addresses: u32,
    /// Addresses with a function name.
    named: u32,
    /// Addresses with a source line.
    located: u32,
    /// Names that are missing, and how to get them; null where none are.
    missing: Option<MissingNames>,
}

/// Outcome of asking servers for a debug file.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Download {
    /// Path of the ELF file whose names are missing.
    pub module: String,
    /// Build id of the debug file, in hexadecimal.
    pub build_id: String,
    /// URL of the server that had the debug file; null where none had it.
    pub server: Option<String>,
    /// Size of the debug file; null where no server has it.
    pub bytes: Option<u64>,
    /// Path of the downloaded file; null where no server has it.
    pub path: Option<String>,
    /// URLs of the servers that do not have the debug file.
    pub missing_at: Vec<String>,
}

impl Listing {
    /// Files that lack most come first.
    pub fn of(recording: &Recording, fetched: Vec<Download>) -> Self {
        let lacking = recording.lacking_all();
        let row = |(module, summary): (&mallow_profile::Module, &mallow_symbols::ModuleSummary)| ModuleRow {
            module: module.path.clone(),
            build_id: hex(&module.build_id),
            found: match &summary.found {
                NameSource::DebugInformation => "debug information".to_owned(),
                found => found.to_string(),
            },
            debug_file: summary.debug_file.as_ref().map(|path| path.display().to_string()),
            addresses: summary.frames,
            named: summary.named,
            located: summary.located,
            missing: names::lacks(summary)
                .then(|| lacking.iter().find(|missing| missing.module == module.path).cloned())
                .flatten(),
        };
        let mut modules: Vec<_> = recording.modules().map(row).collect();
        modules.sort_by_key(|row| (row.missing.is_none(), std::cmp::Reverse(row.addresses - row.located)));
        Self { packed: recording.is_packed(), modules, fetched }
    }

    fn missing(&self) -> usize {
        self.modules.iter().filter(|row| row.missing.is_some()).count()
    }
}

/// A paragraph for each file, and what to do at the end.
pub fn text(listing: &Listing, recording: &Recording, path: &Path, look: &Look) -> String {
    let mut page = Page::from_text(recording.first_lines(look), *look);
    for row in &listing.modules {
        page.line(Line::new().strong(&row.module));
        let mut field = |name: &str, value: &str| page.hanging(Line::new().faint(format!("  {name:<9} ")), value);
        field("build-id", if row.build_id.is_empty() { "none" } else { &row.build_id });
        let from = row.debug_file.as_ref().map_or_else(String::new, |file| format!(" of {file}"));
        field("names", &format!("{}{from}", row.found));
        field(
            "found",
            &format!(
                "functions at {} of {}, source lines at {}",
                count(row.named.into()),
                of(row.addresses.into(), "address"),
                count(row.located.into())
            ),
        );
        if let Some(missing) = &row.missing {
            field("missing", &missing.lack_and_remedy());
        }
    }
    if listing.modules.is_empty() {
        page.line(Line::new().plain("No file has functions on a call path, or the names are in the file itself."));
    }
    page.gap();
    page.hanging(Line::new(), &verdict(listing, path));
    page.into_text()
}

fn verdict(listing: &Listing, path: &Path) -> String {
    let all = listing.modules.len();
    let missing = listing.missing();
    let files = of(all as u64, "file");
    match missing {
        0 => format!("All names and source lines of {files} are here."),
        _ if listing.packed => {
            format!("Names are missing in {missing} of {files}; the recording carries the names that it has.")
        }
        _ if servers::configured().is_empty() => format!(
            "Names are missing in {missing} of {files}. With DEBUGINFOD_URLS set to the distribution's server, {} downloads \
             debug files.",
            fetch_command(path)
        ),
        _ if listing.fetched.is_empty() => {
            format!(
                "Names are missing in {missing} of {files}. {} asks the servers of DEBUGINFOD_URLS.",
                fetch_command(path)
            )
        }
        _ => format!("Names are missing in {missing} of {files}."),
    }
}
