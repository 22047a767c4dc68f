//! `mallow rss`: shows a recording, or records a command first.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::record;
use crate::flags::{Command, Flags, RssFlags};
use crate::output::stdio;
use crate::output::text::Stream;
use crate::views::rss as view;

/// Records the command, if there is one, then shows it.
pub fn run(flags: &RssFlags) -> Result<ExitCode> {
    let Some(program) = flags.command.first() else { return view::run(flags) };
    let path = recording_of(program);
    let words: [&OsStr; 6] = ["mallow", "record", "--no-report", "-o", "", "--"].map(OsStr::new);
    let mut line: Vec<OsString> = words.iter().map(|word| OsString::from(*word)).collect();
    line[4] = path.clone().into_os_string();
    line.extend(flags.command.iter().cloned());
    let Ok(Flags { command: Command::Record(recorded) }) = Flags::of_line(line) else {
        bail!("this command line cannot be recorded; use mallow record, then mallow rss");
    };
    let status = record::run(&recorded)?;
    // Standard output is the command's.
    if path.is_file() {
        let shown = view::show(&path, flags, Stream::Err).map(|text| stdio::write_error(&text));
        if let Err(error) = shown {
            stdio::notify(&format!("{error:#}"));
        }
    }
    Ok(status)
}

/// NAME.mallow in the current directory.
fn recording_of(program: &OsStr) -> PathBuf {
    let mut name = Path::new(program).file_name().unwrap_or(OsStr::new("command")).to_owned();
    name.push(".mallow");
    PathBuf::from(name)
}
