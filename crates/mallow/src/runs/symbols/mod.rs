//! `mallow symbols`: where the names of a recording's files come from, and with `--fetch` the debug files that are
//! missing.

mod download;
mod listing;
mod servers;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use mallow_symbols::{DebugCache, hex, missing_debug_file};

use crate::flags::{NameFlags, SymbolsFlags};
use crate::input::recording::Recording;
use crate::output::progress::Bar;
use crate::output::text::units::bytes;
use crate::output::text::{Look, Stream};
use crate::output::{exit, json, stdio};
use download::{Answer, download};
use listing::Download;
pub use listing::Listing;
use servers::{Limits, Server};

/// Lists the files; fetches first where the flags ask for that.
pub fn run(flags: &SymbolsFlags) -> Result<ExitCode> {
    let path = Recording::path_or_newest(flags.file.as_deref())?;
    let mut recording = Recording::read_with(&path, &flags.names)?;
    let (mut fetched, mut failed) = (Vec::new(), false);
    if flags.fetch {
        if recording.is_packed() {
            stdio::notify(&format!("{} carries its names: views look for no others", path.display()));
        } else {
            (fetched, failed) = fetch_all(&mut recording, &path, &flags.names)?;
        }
    }
    let listing = Listing::of(&recording, fetched);
    match flags.json {
        true => stdio::print(&json::document(&listing)?)?,
        false => stdio::print(&listing::text(&listing, &recording, &path, &Look::of(Stream::Out)))?,
    }
    Ok(if failed { ExitCode::from(exit::FAILED) } else { exit::OK })
}

/// Fetches what is missing. A debug file may refer to one that it shares with others: that is missing then, too.
/// Returns what the servers answered, and true where one of them failed.
fn fetch_all(recording: &mut Recording, path: &Path, names: &NameFlags) -> Result<(Vec<Download>, bool)> {
    let mut servers = servers::configured();
    if servers.is_empty() {
        bail!("DEBUGINFOD_URLS names no server; example: DEBUGINFOD_URLS=https://debuginfod.debian.net");
    }
    let limits = Limits::of_environment();
    let cache = DebugCache::of_user().context("there is no home directory for a cache: set DEBUGINFOD_CACHE_PATH")?;
    let mut asked = BTreeSet::new();
    let mut downloads = Vec::new();
    loop {
        let wanted: Vec<(String, Vec<u8>)> = recording
            .modules()
            .filter_map(|(module, summary)| Some((module.path.clone(), missing_debug_file(module, summary)?)))
            .filter(|(_, build_id)| asked.insert(build_id.clone()))
            .collect();
        if wanted.is_empty() {
            break;
        }
        let mut more = false;
        for (at, (module, build_id)) in wanted.iter().enumerate() {
            let bar = Bar::of(format!("fetching {} of {}", at + 1, wanted.len()));
            let download = fetch(module, build_id, &mut servers, &cache, &limits, &bar)?;
            more |= download.path.is_some();
            downloads.push(download);
        }
        if !more {
            break;
        }
        *recording = Recording::read_with(path, names)?;
    }
    if downloads.is_empty() {
        stdio::notify("no debug file is missing that a server could have");
    }
    Ok((downloads, servers.iter().any(|server| server.failures > 0)))
}

fn fetch(
    module: &str,
    build_id: &[u8],
    servers: &mut [Server],
    cache: &DebugCache,
    limits: &Limits,
    bar: &Bar,
) -> Result<Download> {
    let mut outcome = Download { module: module.to_owned(), build_id: hex(build_id), ..Download::default() };
    for server in servers.iter_mut().filter(|server| server.is_usable()) {
        match download(server, build_id, cache, limits, bar) {
            Ok(Answer::File { path, bytes: size }) => {
                outcome.bytes = Some(size);
                outcome.path = Some(path.display().to_string());
                outcome.server = Some(server.url.clone());
                stdio::notify(&format!("fetched {} for {module} from {}", bytes(size, false), server.url));
                return Ok(outcome);
            }
            Ok(Answer::Missing) => outcome.missing_at.push(server.url.clone()),
            Err(error) => {
                server.failures += 1;
                stdio::notify(&format!("{}, asked for {module}: {error:#}", server.url));
            }
        }
    }
    if !outcome.missing_at.is_empty() {
        stdio::notify(&format!("no debug file for {module} at {}", outcome.missing_at.join(", ")));
    }
    Ok(outcome)
}
