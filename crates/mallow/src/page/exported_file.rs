//! `mallow export --format html`: the page in one file, with a reduced model of the recording.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};
use mallow_capture::recording::Progress;
use mallow_report::analysis::{Least, ProfileViews};
use serde_json::{Map, Value};

use super::api::Api;
use super::subject::PageSubject;
use crate::flags::{ExportFlags, GoReasonsFlags, Table};
use crate::input::recording::Recording;
use crate::output::destination;
use crate::output::progress::Bar;
use crate::output::{exit, json, stdio};

/// The page, up to its numbers, and after them.
static HEAD: &str = include_str!(concat!(env!("OUT_DIR"), "/page_head.html"));
static TAIL: &str = include_str!(concat!(env!("OUT_DIR"), "/page_tail.html"));

/// Bytes of the whole file at the most.
const MOST: usize = 3_000_000;

struct Entry {
    /// The address that the page asks, without a limit; of each measure where it ends with `by=`.
    address: &'static str,
    /// Name of the document for the reader.
    name: &'static str,
    /// Shares of the room of documents that this one may take.
    share: usize,
    how: Reduction,
}

const SOURCE_LINES: &str = "source lines";

/// How a document is made small enough.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reduction {
    /// Fewer rows of each list, of so many at the most.
    Rows(usize),
    /// Narrow boxes are left out.
    Boxes,
    /// The document stays whole, or is left out.
    None,
}

/// Documents that the page asks for before a range or a filter is chosen. The most important first: what is left of a
/// share goes to the next.
const ENTRIES: [Entry; 14] = [
    Entry { address: "about", name: "processes", share: 5, how: Reduction::None },
    Entry { address: "time", name: "the heap over time", share: 6, how: Reduction::None },
    Entry { address: "report", name: "the overview", share: 14, how: Reduction::Rows(50) },
    Entry { address: "flame?by=", name: "flame graphs", share: 26, how: Reduction::Boxes },
    Entry { address: "top?by=", name: "functions", share: 10, how: Reduction::Rows(500) },
    Entry { address: "top?cum=1&by=", name: "functions", share: 10, how: Reduction::Rows(500) },
    Entry { address: "flame?callers=1&by=", name: "flame graphs of callers", share: 14, how: Reduction::Boxes },
    Entry { address: "list?function=.&by=", name: SOURCE_LINES, share: 12, how: Reduction::Rows(50) },
    Entry { address: "leaks", name: "leaks", share: 6, how: Reduction::Rows(200) },
    Entry { address: "rss", name: "memory", share: 6, how: Reduction::Rows(200) },
    Entry { address: "sizes", name: "sizes", share: 2, how: Reduction::None },
    Entry { address: "lifetimes", name: "lifetimes", share: 2, how: Reduction::None },
    Entry { address: "rss-map", name: "the map of the heap's pages", share: 4, how: Reduction::None },
    Entry { address: "threads", name: "threads", share: 4, how: Reduction::Rows(200) },
];

/// The narrowest box, in percent of the whole: each step until a graph fits.
const MINIMA: [f64; 8] = [0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0];

pub fn export(flags: &ExportFlags) -> Result<ExitCode> {
    if flags.by.is_some() {
        bail!("--by is for folded stacks alone: html holds all measures");
    }
    if flags.table != Table::Sites {
        bail!("--table is for csv and parquet alone");
    }
    let mut recording = Recording::open(&flags.source)?;
    if flags.no_arguments {
        recording.profile.remove_arguments();
    }
    recording.warn_of_gaps();
    let (model, has_sources) = model(recording, &flags.reasons, !flags.no_sources)?;
    destination::stream(flags.output.as_deref(), None, |mut out| {
        [HEAD, &model, TAIL].iter().try_for_each(|part| out.write_all(part.as_bytes()))?;
        Ok(out.flush()?)
    })?;
    if has_sources {
        stdio::notify("the page holds source lines; --no-sources leaves them out");
    }
    Ok(exit::OK)
}

/// The documents that the page asks for, by their addresses, as JSON that ends no element of a page; and whether source
/// lines are among them.
fn model(recording: Recording, reasons: &GoReasonsFlags, with_sources: bool) -> Result<(String, bool)> {
    let api = Api::new(PageSubject::of_recording(recording)).with_reasons(reasons)?;
    let views = api.views();
    let about: Value = serde_json::from_str(&api.ask("about", &views)?)?;
    let measures = about["measures"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let measures: Vec<&str> = measures.collect();
    let room = MOST.saturating_sub(HEAD.len() + TAIL.len() + NOTES);
    let shares: usize = ENTRIES.iter().map(|entry| entry.share).sum();
    let (mut documents, mut left_out, mut unused) = (Map::new(), Vec::new(), 0);
    let mut has_sources = false;
    let asked = Asked { api: &api, views: &views };
    let bar = Bar::of("making the page");
    for (done, entry) in ENTRIES.iter().enumerate() {
        bar.show(Progress { done: done as u64, all: ENTRIES.len() as u64 });
        if !with_sources && entry.name == SOURCE_LINES {
            left_out.push("source lines: left out by --no-sources".to_owned());
            continue;
        }
        let addresses: Vec<String> = match entry.address.strip_suffix("by=") {
            Some(_) => measures.iter().map(|by| format!("{}{by}", entry.address)).collect(),
            None => vec![entry.address.to_owned()],
        };
        let most = room / shares * entry.share + unused;
        let each = most / addresses.len().max(1);
        let mut used = 0;
        // What the recording does not have, the page does not ask for, or shows as missing.
        for (address, fitted) in addresses.iter().zip(all_smallest(&asked, &addresses, entry, each)) {
            let Some(Fitted { document, size, note, .. }) = fitted else { continue };
            used += size;
            left_out.extend(note.filter(|note| !left_out.contains(note)));
            if let Some(document) = document {
                has_sources |= entry.name == SOURCE_LINES && has_text(&document);
                documents.insert(sorted(address), document);
            }
        }
        unused = most.saturating_sub(used);
    }
    left_out.push("ranges of time, filters and single functions are left out: mallow view answers them".to_owned());
    documents.insert("left_out".to_owned(), left_out.into());
    let text = json::data(&documents)?;
    let text = text.replace('<', "\\u003c");
    if HEAD.len() + text.len() + TAIL.len() > MOST {
        bail!("the page needs more than 3 MB: please report it");
    }
    Ok((text, has_sources))
}

fn has_text(document: &Value) -> bool {
    let functions = document["functions"].as_array().into_iter().flatten();
    let mut lines = functions.filter_map(|function| function["lines"].as_array()).flatten();
    lines.any(|line| line["text"].is_string())
}

/// Bytes of the room for notes on what is left out.
const NOTES: usize = 20_000;

struct Asked<'a> {
    api: &'a Api,
    /// What all documents of rows have in common.
    views: &'a ProfileViews<'a>,
}

struct Fitted {
    /// None: the recording has no such document.
    document: Option<Value>,
    size: usize,
    note: Option<String>,
    /// Number of rows of each list that there was room for.
    rows: usize,
}

/// The documents of an entry, each no larger than `most`. They differ in their measure alone: about as many rows of the
/// others have room as of the first.
fn all_smallest(asked: &Asked<'_>, addresses: &[String], entry: &Entry, most: usize) -> Vec<Option<Fitted>> {
    let Some((first, others)) = addresses.split_first() else { return Vec::new() };
    let first = smallest(asked, first, entry, most, usize::MAX);
    let rows = first.as_ref().map_or(usize::MAX, |first| first.rows.saturating_add(first.rows / 4 + 1));
    let mut all = vec![first];
    let processors = std::thread::available_parallelism().map_or(1, Into::into);
    for some in others.chunks(processors) {
        std::thread::scope(|scope| {
            let made = some.iter().map(|address| scope.spawn(move || smallest(asked, address, entry, most, rows)));
            let made: Vec<_> = made.collect();
            // Analyses do not panic; one that does leaves its document out.
            all.extend(made.into_iter().map(|thread| thread.join().ok().flatten()));
        });
    }
    all
}

/// A document that is no larger than `most`, with so many rows of each list at first. None: there is nothing like it.
fn smallest(asked: &Asked<'_>, address: &str, entry: &Entry, most: usize, first_rows: usize) -> Option<Fitted> {
    let Asked { api, views } = asked;
    // As it will be written.
    let fitted = |document: &str| {
        let document: Value = serde_json::from_str(document).ok()?;
        let size = json::data(&document).ok()?.replace('<', "\\u003c").len() + address.len() + 8;
        Some(Fitted { document: Some(document), size, note: None, rows: usize::MAX })
    };
    let note = |how: &str| Some(format!("{}: {how}", entry.name));
    match entry.how {
        Reduction::None => {
            let fitted = fitted(&api.ask(address, views).ok()?)?;
            if fitted.size <= most {
                return Some(fitted);
            }
        }
        Reduction::Rows(most_rows) => {
            let separator = if address.contains('?') { '&' } else { '?' };
            let mut rows = most_rows.min(first_rows);
            while rows > 0 {
                let fitted = fitted(&api.ask(&format!("{address}{separator}limit={rows}"), views).ok()?)?;
                if fitted.size <= most {
                    let cut = fitted.document.as_ref().is_some_and(is_cut);
                    let note = cut.then(|| note("not all rows of each list")).flatten();
                    return Some(Fitted { note, rows, ..fitted });
                }
                // About as many as there is room for, and fewer in any case.
                rows = (rows * most / fitted.size).min(rows * 3 / 4);
            }
        }
        Reduction::Boxes => {
            let fits = |document: &str| fitted(document).is_some_and(|fitted| fitted.size <= most);
            if let Some((document, steps)) = api.ask_fitting(address, views, &MINIMA.map(Least::Percent), &fits).ok()? {
                let note = if steps > 0 { note("not the narrowest boxes") } else { None };
                return Some(Fitted { note, ..fitted(&document)? });
            }
        }
    }
    Some(Fitted { document: None, size: 0, note: note("all of it is left out"), rows: usize::MAX })
}

/// Whether a list has fewer rows than it says there are in all.
fn is_cut(document: &Value) -> bool {
    match document {
        Value::Object(map) => {
            let has_more = |key: &str| {
                let all = key.strip_suffix("_in_all").and_then(|rows| map.get(rows)?.as_array().map(Vec::len));
                all.is_some_and(|shown| map[key].as_u64().is_some_and(|all| all > shown as u64))
            };
            let is_more = |key: &str, value: &Value| (key.ends_with("hidden") && value.is_object()) || has_more(key);
            map.iter().any(|(key, value)| is_more(key, value) || is_cut(value))
        }
        Value::Array(all) => all.iter().any(is_cut),
        _ => false,
    }
}

/// The address as the page writes it: choices by their names.
fn sorted(address: &str) -> String {
    let Some((view, query)) = address.split_once('?') else { return address.to_owned() };
    let mut choices: Vec<&str> = query.split('&').collect();
    choices.sort_unstable();
    format!("{view}?{}", choices.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_is_cut_where_it_says_that_it_has_more() {
        assert!(!is_cut(&json!({"insights": [1, 2], "insights_in_all": 2, "cut_in_all": 7})));
        assert!(is_cut(&json!([{"insights": [1, 2], "insights_in_all": 3}])));
        assert!(is_cut(&json!({"leaks": {"causes_hidden": {"live": 3}}})) && !is_cut(&json!({"causes_hidden": null})));
    }
}
