//! The JSON Schemas of what `--json` prints: the name and the version of each document, and what `mallow help json`
//! shows. `docs/schemas/` holds the schemas, made from the documents' types and their comments; a test says when they
//! are out of date.

#[cfg(test)]
mod descriptions;
#[cfg(test)]
mod generated;
#[cfg(test)]
mod units;

use std::io::Read;

use anyhow::{Context, Result};
use lzma_rust2::XzReader;
use mallow_report::analysis::{
    Changed, FleetReport, HeapAt, Leaks, Lifetimes, List, Rss, Sizes, StatReport, Threads, Timeline, Top, Tree, Watched,
};
use serde_json::{Map, Value};

use crate::gate::Report as GateReport;
use crate::go::{EscapeDocument, GoBench, GoProfile, GoWhy};
use crate::output::json::{self, JsonDocument};
use crate::runs::doctor::{Diagnosis, ProcessDiagnosis};
use crate::runs::guard::errors::Report as GuardReport;
use crate::runs::recover::Leftovers;
use crate::runs::symbols::Listing;
use crate::runs::watch::pushing::LastWords;
use crate::runs::watch::text::{MemoryErrorDocument, RecentDocument};
use crate::views::diff::DiffDocument;
use crate::views::report::ReportWithSentences;

/// Implements [`JsonDocument`] for each document, and lists them. A document of a recording also has the fields of
/// [`crate::input::coverage`], one of two recordings those of [`crate::views::changes`].
macro_rules! documents {
    ($($kind:ident $name:literal, $title:literal: $document:ty;)+) => {
        $(impl JsonDocument for $document {
            const SCHEMA: &'static str = $name;
        })+

        /// The name of each schema, and which command prints what document.
        const SCHEMAS: &[(&str, &str)] = &[$(($name, $title)),+];

        /// Each schema as the types have it.
        #[cfg(test)]
        fn of_types() -> Vec<(&'static str, &'static str, schemars::Schema)> {
            vec![$(($name, $title, documents!(@$kind $document))),+]
        }
    };
    (@plain $document:ty) => { generated::schema::<$document>() };
    (@recording $document:ty) => { generated::schema::<generated::OfRecording<'_, $document>>() };
    (@pair $document:ty) => { generated::schema::<crate::views::changes::ChangesDocument<'_, $document>>() };
    (@watch $document:ty) => { generated::schema::<crate::runs::watch::pushing::WithPush<'_, $document>>() };
}

documents! {
    recording "report-1", "mallow report, record and recover DIR: the overview of a recording": ReportWithSentences<'_>;
    recording "top-1", "mallow top: functions": Top;
    recording "tree-1", "mallow tree: call paths": Tree;
    recording "list-1", "mallow list: functions line by line": List;
    recording "leaks-1", "mallow leaks: what was live at the end": Leaks;
    recording "timeline-1", "mallow timeline: the heap over time": Timeline;
    recording "moment-1", "mallow timeline --at: the heap at one moment": HeapAt;
    recording "rss-1", "mallow rss: what the memory of a process consists of": Rss;
    recording "sizes-1", "mallow sizes: blocks by size": Sizes;
    recording "lifetimes-1", "mallow lifetimes: blocks by how long they lived": Lifetimes;
    recording "threads-1", "mallow threads: who allocates, and who frees": Threads;
    pair "top-changes-1", "mallow top --base: functions, before and after": Top<Changed>;
    pair "tree-changes-1", "mallow tree --base: call paths, before and after": Tree<Changed>;
    pair "list-changes-1", "mallow list --base: lines, before and after": List<Changed>;
    plain "diff-1", "mallow diff: two recordings or profiles compared": DiffDocument<'_>;
    plain "stat-1", "mallow stat: what was counted": StatReport;
    plain "test-1", "mallow test: cases and their verdicts": GateReport;
    plain "guard-1", "mallow guard: memory errors of a command": GuardReport<'_>;
    watch "watch-1", "mallow watch, import, and recover DIR of samples: a report, one a line": Watched;
    watch "fleet-1", "mallow watch --match: a report on all processes, one a line": FleetReport;
    plain "recent-1", "mallow watch, and recover DIR of samples: what was freed last": RecentDocument<'_>;
    plain "memory-error-1", "mallow watch --guard: a memory error": MemoryErrorDocument<'_>;
    plain "push-1", "mallow watch --push: the last line, what became of the profiles": LastWords<'_>;
    plain "recover-1", "mallow recover: what interrupted runs left behind": Leftovers<'_>;
    plain "symbols-1", "mallow symbols: the files that names come from": Listing;
    plain "doctor-1", "mallow doctor: what this machine can record": Diagnosis;
    plain "doctor-process-1", "mallow doctor -p: what can be had of a process": ProcessDiagnosis;
    plain "go-bench-1", "mallow go bench: what benchmarks allocate, and why": GoBench;
    plain "go-profile-1", "mallow go profile: what a heap profile holds, and why": GoProfile;
    plain "go-why-1", "mallow go why: all that is known of a place": GoWhy;
    plain "go-escape-1", "mallow go escape: what the compiler puts into the heap": EscapeDocument;
}

/// All schemas of `docs/schemas/`, by name, as one object of JSON: xz.
const EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/schemas.json.xz"));

/// Commands whose JSON has no schema here, and why.
const OTHERS: &[(&str, &str)] = &[
    ("mallow export, and --sarif of test, guard and go escape", "formats with schemas of their own"),
    ("mallow test --update", "the baseline, a file for mallow; docs/guide/ci.md describes it"),
    ("mallow view", "/api/about, time, flame, rss-map and live, for its page alone; the rest of /api is as above"),
];

/// The schemas by name, each as text in JSON that ends with a line end.
pub fn all() -> Result<Vec<(&'static str, String)>> {
    let schemas = unpacked()?;
    SCHEMAS.iter().map(|(name, _)| Ok((*name, json::pretty(&schemas[*name])?))).collect()
}

/// The schema of a document as text in JSON; None where there is none of that name, with or without its version.
pub fn of(name: &str) -> Result<Option<String>> {
    let is = |known: &str| known == name || known.rsplit_once('-').is_some_and(|(word, _)| word == name);
    let Some((name, _)) = SCHEMAS.iter().find(|(known, _)| is(known)) else { return Ok(None) };
    json::pretty(&unpacked()?[*name]).map(Some)
}

fn unpacked() -> Result<Map<String, Value>> {
    let mut text = String::new();
    XzReader::new(EMBEDDED, false).read_to_string(&mut text).context("the schemas are damaged")?;
    serde_json::from_str(&text).context("the schemas are damaged")
}

/// The documents for people: a line each, with the commands that print it.
pub fn list() -> String {
    let width = SCHEMAS.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let rows = SCHEMAS.iter().map(|(name, title)| format!("  {name:<width$}  {title}\n"));
    let others = OTHERS.iter().map(|(command, why)| format!("  {command}: {why}\n"));
    format!(
        "Each document that --json prints begins with the name and the version of its schema:\n\
         \"schema\": \"report-1\". A field that goes, or comes to mean something else, makes the next\n\
         version; a new field does not.\n\n\
         {}\nJSON without a schema here:\n{}\n\
         mallow help json NAME prints a schema: each field with its meaning, and the unit of each number.\n",
        rows.collect::<String>(),
        others.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_document_has_one_line_and_its_schema() {
        let list = super::list();
        for (name, schema) in super::all().expect("the schemas") {
            assert_eq!(list.lines().filter(|line| line.starts_with(&format!("  {name} "))).count(), 1, "{name}");
            let schema: serde_json::Value = serde_json::from_str(&schema).expect("JSON");
            assert_eq!(schema["properties"]["schema"]["const"], name);
        }
        insta::assert_snapshot!(list);
    }

    #[test]
    fn a_name_needs_no_version() {
        let whole = super::of("top-1").expect("the schemas").expect("the schema");
        assert_eq!(super::of("top").expect("the schemas"), Some(whole));
        assert_eq!(super::of("top-2").expect("the schemas"), None);
    }
}
