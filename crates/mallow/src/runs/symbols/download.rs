//! One debug file from one server, within limits.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use mallow_capture::recording::Progress;
use mallow_symbols::{DebugCache, NewDebugFile, hex};
use ureq::Agent;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{ConnectProxyConnector, Connector, TcpConnector};

use super::servers::{Client, Limits, PACE, Server};
use crate::output::progress::Bar;

#[derive(Debug)]
pub enum Answer {
    /// The file, verified and in the cache.
    File { path: PathBuf, bytes: u64 },
    /// The server has no such file.
    Missing,
}

/// Asks a server. What it sends is in the cache whole, or not at all.
pub fn download(server: &Server, build_id: &[u8], cache: &DebugCache, limits: &Limits, bar: &Bar) -> Result<Answer> {
    let cannot = || format!("cannot write to {}", cache.directory().display());
    let mut file = cache.begin(build_id).with_context(cannot)?;
    let arrived = match server.client {
        Client::Mallow => by_mallow(&server.url, build_id, limits, bar, &mut file),
        Client::DebuginfodFind => by_debuginfod_find(&server.url, build_id, cache, limits, bar, &mut file),
    }?;
    let Some(bytes) = arrived else { return Ok(Answer::Missing) };
    Ok(Answer::File { path: file.keep()?, bytes })
}

enum Piece {
    Missing,
    Length(u64),
    Bytes(Vec<u8>),
    End,
}

/// The length of what arrived; None where the server has nothing.
fn by_mallow(url: &str, build_id: &[u8], limits: &Limits, bar: &Bar, file: &mut NewDebugFile) -> Result<Option<u64>> {
    let (send, pieces) = mpsc::sync_channel(4);
    let url = format!("{url}/buildid/{}/debuginfo", hex(build_id));
    let time = limits.time;
    // A thread waits for the server, and this one for the clock. The thread ends when nobody receives, or with mallow.
    let reader = thread::Builder::new().name("download".to_owned()).spawn(move || read(&url, time, &send))?;
    let arrived = receive(&pieces, limits, bar, file)?;
    match arrived {
        Some(arrived) => Ok(arrived),
        None => match reader.join() {
            Ok(Err(error)) => Err(error),
            _ => bail!("the download ended early"),
        },
    }
}

/// Takes pieces until the end. None: the reader failed, and knows why.
fn receive(
    pieces: &Receiver<Piece>,
    limits: &Limits,
    bar: &Bar,
    file: &mut NewDebugFile,
) -> Result<Option<Option<u64>>> {
    let began = Instant::now();
    // When the pace was looked at, and how much was here.
    let (mut looked, mut before) = (began, 0);
    let (mut bytes, mut length) = (0u64, 0);
    loop {
        let patience = limits.timeout.saturating_sub(looked.elapsed()).min(limits.time.saturating_sub(began.elapsed()));
        match pieces.recv_timeout(patience) {
            Ok(Piece::Missing) => return Ok(Some(None)),
            Ok(Piece::End) => return Ok(Some(Some(bytes))),
            Ok(Piece::Length(claimed)) => length = claimed,
            Ok(Piece::Bytes(piece)) => {
                bytes += piece.len() as u64;
                file.write_all(&piece).context("cannot write to the cache")?;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
        if bytes.max(length) > limits.size {
            bail!("the file has more than {} bytes (DEBUGINFOD_MAXSIZE)", limits.size);
        }
        if bytes - before >= PACE {
            (looked, before) = (Instant::now(), bytes);
        }
        let seconds = |time: Duration| time.as_secs();
        if looked.elapsed() >= limits.timeout {
            bail!("{} bytes arrived in {} s (DEBUGINFOD_TIMEOUT)", bytes - before, seconds(limits.timeout));
        }
        if began.elapsed() >= limits.time {
            bail!("the file was not whole after {} s (DEBUGINFOD_MAXTIME): {bytes} bytes", seconds(limits.time));
        }
        bar.show_bytes(Progress { done: bytes, all: length });
    }
}

fn read(url: &str, time: Duration, to: &SyncSender<Piece>) -> Result<()> {
    const REDIRECTS: u32 = 5;
    const PIECE: usize = 64 << 10;
    let config = Agent::config_builder()
        .timeout_global(Some(time))
        .max_redirects(REDIRECTS)
        .http_status_as_error(false)
        .user_agent(concat!("mallow/", env!("CARGO_PKG_VERSION")))
        .build();
    // Without TLS: debuginfod-find asks servers with https, and a server that redirects there is to be named so.
    let plain = ().chain(ConnectProxyConnector::default()).chain(TcpConnector::default());
    let agent = Agent::with_parts(config, plain, DefaultResolver::default());
    let mut answer = agent.get(url).call().map_err(|error| match error {
        ureq::Error::TooManyRedirects => anyhow!("the server redirects more than {REDIRECTS} times"),
        ureq::Error::TlsRequired => anyhow!("the server redirects to https://: name that address"),
        other => other.into(),
    })?;
    match answer.status().as_u16() {
        200 => {}
        404 => {
            let _ = to.send(Piece::Missing);
            return Ok(());
        }
        _ => bail!("the server answers {}", answer.status()),
    }
    if let Some(length) = answer.body().content_length()
        && to.send(Piece::Length(length)).is_err()
    {
        return Ok(());
    }
    let mut body = answer.body_mut().as_reader();
    loop {
        let mut piece = vec![0; PIECE];
        let read = body.read(&mut piece).context("the connection broke")?;
        piece.truncate(read);
        let piece = if read == 0 { Piece::End } else { Piece::Bytes(piece) };
        // Who received has seen enough.
        if to.send(piece).is_err() || read == 0 {
            return Ok(());
        }
    }
}

/// Fetches the file by elfutils' program, which has TLS, in a cache of its own: mallow verifies what it brings.
fn by_debuginfod_find(
    url: &str,
    build_id: &[u8],
    cache: &DebugCache,
    limits: &Limits,
    bar: &Bar,
    file: &mut NewDebugFile,
) -> Result<Option<u64>> {
    const PROGRAM: &str = "debuginfod-find";
    let place = tempfile::Builder::new().prefix(".mallow-").tempdir_in(cache.directory())?;
    let number = |time: Duration| time.as_secs().to_string();
    let mut command = Command::new(PROGRAM);
    command.args(["debuginfo", &hex(build_id)]);
    command.env("DEBUGINFOD_URLS", url).env("DEBUGINFOD_CACHE_PATH", place.path()).env("LC_ALL", "C");
    command.env("DEBUGINFOD_TIMEOUT", number(limits.timeout)).env("DEBUGINFOD_MAXTIME", number(limits.time));
    command.env("DEBUGINFOD_MAXSIZE", limits.size.to_string());
    command.env_remove("DEBUGINFOD_PROGRESS").env_remove("DEBUGINFOD_VERBOSE");
    let mut errors = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors.try_clone()?);
    let entry = place.path().join(hex(build_id));
    let mut observe = || {
        let here = largest(&entry);
        bar.show_bytes(Progress { done: here, all: 0 });
        here <= limits.size
    };
    let remove = || drop(fs::remove_dir_all(place.path()));
    let status = mallow_children::run_observed(&mut command, Some(limits.time), &mut observe, remove);
    let status = status.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            anyhow!("mallow itself reads http:// alone: install {PROGRAM} (package debuginfod) for this server")
        }
        _ => anyhow!("{PROGRAM}: {error}"),
    })?;
    let Some(status) = status else { bail!("{PROGRAM} was ended: the file is too large, or takes too long") };
    let found = entry.join("debuginfo");
    if !status.success() {
        let mut said = String::new();
        io::Seek::rewind(&mut errors)?;
        let _ = errors.take(4096).read_to_string(&mut said);
        if said.contains("No such file or directory") {
            return Ok(None);
        }
        bail!("{PROGRAM}: {}", said.trim().trim_start_matches("Server query failed: "));
    }
    let found = File::open(&found).with_context(|| format!("{PROGRAM} left no file"))?;
    let copied = io::copy(&mut found.take(limits.size.saturating_add(1)), file)?;
    if copied > limits.size {
        bail!("the file has more than {} bytes (DEBUGINFOD_MAXSIZE)", limits.size);
    }
    Ok(Some(copied))
}

/// The size of the largest file of a directory.
fn largest(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|file| file.len()).max().unwrap_or(0)
}
