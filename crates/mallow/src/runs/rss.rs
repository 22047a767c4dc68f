//! `mallow rss`: shows a recording, or records a command first.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, bail};
use mallow_capture::preflight::{self, Chain};

use super::record;
use crate::flags::{Command, Flags, RssFlags};
use crate::output::destination::may_be_written;
use crate::output::stdio;
use crate::output::text::Stream;
use crate::views::rss as view;

/// Records the command, if there is one, then shows it.
pub fn run(flags: &RssFlags) -> Result<ExitCode> {
    if flags.command.is_empty() {
        return view::run(flags);
    }
    // Before anything is recorded, which may replace a recording of this name.
    if let Some(output) = &flags.output {
        may_be_written(output)?;
    }
    let words = ["mallow", "record", "--no-report", "--"].map(OsString::from);
    let line = words.into_iter().chain(flags.command.iter().cloned()).collect();
    let Ok(Flags { command: Command::Record(recording) }) = Flags::of_line(line) else {
        bail!("this command line cannot be recorded; use mallow record, then mallow rss");
    };
    if let Some(why) = preflight::out_of_reach(&Chain::of(&flags.command)).map(|finding| finding.sentence()) {
        stdio::notify(&format!(
            "what {} has in memory cannot be divided: {why}",
            flags.command.first().map_or("it".into(), |name| name.to_string_lossy())
        ));
    }
    let recorded = record::record(&recording)?;
    // Standard output is the command's.
    if let Some(path) = recorded.path {
        let shown = view::show(&path, flags, Stream::Err).map(|text| stdio::write_error(&text));
        if let Err(error) = shown {
            stdio::notify(&format!("{error:#}"));
        }
    }
    Ok(recorded.status)
}
