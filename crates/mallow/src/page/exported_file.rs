//! `mallow export --format html`: the page in one file, with a reduced model of the recording.

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::{Map, Value};

use super::api::Api;
use super::subject::Subject;
use crate::flags::{ExportFlags, GoReasonsFlags, Table};
use crate::input::recording::Recording;
use crate::output::destination;
use crate::output::{exit, json};

/// The page, up to its numbers, and after them.
static HEAD: &str = include_str!(concat!(env!("OUT_DIR"), "/page_head.html"));
static TAIL: &str = include_str!(concat!(env!("OUT_DIR"), "/page_tail.html"));

/// Bytes of the whole file at the most.
const MOST: usize = 3_000_000;

/// A document of the file.
struct Entry {
    /// The address that the page asks, without a limit; of each measure where it ends with `by=`.
    address: &'static str,
    /// What the reader knows it as.
    name: &'static str,
    /// How much there is of it at the most: shares of the room that documents have.
    share: usize,
    how: Reduction,
}

/// How a document becomes small enough.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reduction {
    /// Fewer rows of each list, of so many at the most.
    Rows(usize),
    /// Narrow boxes are left out.
    Boxes,
    /// It is small, or it is left out.
    None,
}

/// What the page asks for, before a range or a filter is chosen. The most important first: what is left of a share goes to the next.
const ENTRIES: [Entry; 14] = [
    Entry { address: "about", name: "processes", share: 5, how: Reduction::None },
    Entry { address: "time", name: "the heap over time", share: 6, how: Reduction::None },
    Entry { address: "report", name: "the overview", share: 14, how: Reduction::Rows(50) },
    Entry { address: "flame?by=", name: "flame graphs", share: 26, how: Reduction::Boxes },
    Entry { address: "top?by=", name: "functions", share: 10, how: Reduction::Rows(500) },
    Entry { address: "top?cum=1&by=", name: "functions", share: 10, how: Reduction::Rows(500) },
    Entry { address: "flame?callers=1&by=", name: "flame graphs of callers", share: 14, how: Reduction::Boxes },
    Entry { address: "list?function=.&by=", name: "source lines", share: 12, how: Reduction::Rows(50) },
    Entry { address: "leaks", name: "leaks", share: 6, how: Reduction::Rows(200) },
    Entry { address: "rss", name: "memory", share: 6, how: Reduction::Rows(200) },
    Entry { address: "sizes", name: "sizes", share: 2, how: Reduction::None },
    Entry { address: "lifetimes", name: "lifetimes", share: 2, how: Reduction::None },
    Entry { address: "rss-map", name: "the map of the heap's pages", share: 4, how: Reduction::None },
    Entry { address: "threads", name: "threads", share: 4, how: Reduction::Rows(200) },
];

/// The narrowest box, in percent of the whole: each step until a graph fits.
const MINIMA: [&str; 8] = ["0.001", "0.01", "0.05", "0.1", "0.2", "0.5", "1", "5"];

/// Writes the file.
pub fn export(flags: &ExportFlags) -> Result<ExitCode> {
    if flags.by.is_some() {
        bail!("--by is for folded stacks alone: html holds all measures");
    }
    if flags.table != Table::Sites {
        bail!("--table is for csv and parquet alone");
    }
    let recording = Recording::open(&flags.source)?;
    recording.warn_of_gaps();
    let model = model(recording, &flags.reasons)?;
    destination::stream(flags.output.as_deref(), None, |mut out| {
        [HEAD, &model, TAIL].iter().try_for_each(|part| out.write_all(part.as_bytes()))?;
        Ok(out.flush()?)
    })?;
    Ok(exit::OK)
}

/// The documents that the page asks for, by their addresses, as JSON that ends no element of a page.
fn model(recording: Recording, reasons: &GoReasonsFlags) -> Result<String> {
    let api = Api::new(Subject::of_recording(recording)).with_reasons(reasons)?;
    let about: Value = serde_json::from_str(&api.ask("about")?)?;
    let measures = about["measures"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let measures: Vec<&str> = measures.collect();
    let room = MOST.saturating_sub(HEAD.len() + TAIL.len() + NOTES);
    let shares: usize = ENTRIES.iter().map(|entry| entry.share).sum();
    let (mut documents, mut left_out, mut unused) = (Map::new(), Vec::new(), 0);
    for entry in &ENTRIES {
        let addresses: Vec<String> = match entry.address.strip_suffix("by=") {
            Some(_) => measures.iter().map(|by| format!("{}{by}", entry.address)).collect(),
            None => vec![entry.address.to_owned()],
        };
        let most = room / shares * entry.share + unused;
        let each = most / addresses.len().max(1);
        let mut used = 0;
        for address in &addresses {
            // What the recording does not have, the page does not ask for, or shows as missing.
            let Some((document, size, note)) = smallest(&api, address, entry, each) else { continue };
            used += size;
            left_out.extend(note.filter(|note| !left_out.contains(note)));
            if let Some(document) = document {
                documents.insert(sorted(address), document);
            }
        }
        unused = most.saturating_sub(used);
    }
    left_out.push("ranges of time, filters and single functions are left out: mallow view answers them".to_owned());
    documents.insert("left_out".to_owned(), left_out.into());
    let text = json::line(&documents)?;
    let text = text.replace('<', "\\u003c");
    if HEAD.len() + text.len() + TAIL.len() > MOST {
        bail!("the page needs more than 3 MB: please report it");
    }
    Ok(text)
}

/// Bytes for what is left out.
const NOTES: usize = 20_000;

/// A document that is no larger than `most`: it, its size, and what it lacks. None: there is nothing like it.
fn smallest(api: &Api, address: &str, entry: &Entry, most: usize) -> Option<(Option<Value>, usize, Option<String>)> {
    let fits = |choice: &str| {
        let separator = if address.contains('?') { '&' } else { '?' };
        let whole = match choice {
            "" => address.to_owned(),
            choice => format!("{address}{separator}{choice}"),
        };
        let document: Value = serde_json::from_str(&api.ask(&whole).ok()?).ok()?;
        // As it will be written.
        let size = json::line(&document).ok()?.replace('<', "\\u003c").len() + address.len() + 8;
        Some((document, size))
    };
    let note = |how: String| Some(format!("{}: {how}", entry.name));
    match entry.how {
        Reduction::None => {
            let (document, size) = fits("")?;
            if size <= most {
                return Some((Some(document), size, None));
            }
        }
        Reduction::Rows(most_rows) => {
            let mut rows = most_rows;
            while rows > 0 {
                let (document, size) = fits(&format!("limit={rows}"))?;
                if size <= most {
                    let how = is_cut(&document).then(|| note("not all rows of each list".to_owned())).flatten();
                    return Some((Some(document), size, how));
                }
                // About as many as there is room for, and fewer in any case.
                rows = (rows * most / size).min(rows * 3 / 4);
            }
        }
        Reduction::Boxes => {
            let (document, size) = fits("")?;
            if size <= most {
                return Some((Some(document), size, None));
            }
            for min in MINIMA {
                let (document, size) = fits(&format!("min={min}%25"))?;
                if size <= most {
                    return Some((Some(document), size, note("not the narrowest boxes".to_owned())));
                }
            }
        }
    }
    Some((None, 0, note("all of it is left out".to_owned())))
}

/// Whether a list says that it has more.
fn is_cut(document: &Value) -> bool {
    match document {
        Value::Object(map) => {
            map.iter().any(|(key, value)| (key.ends_with("hidden") && value.is_object()) || is_cut(value))
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
