//! `mallow recover`: a recording of what a killed `mallow record` left behind, or a list of what there is.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use mallow_capture::rundir::directory::unix_ms;
use mallow_capture::session::leftovers::{Leftover, files_elsewhere, leftovers};
use mallow_capture::session::recover;
use mallow_capture::watch::{Control, Watch};
use mallow_report::analysis::Which;
use serde::Serialize;

use super::record;
use super::recording_file::{RecordingFile, orphans};
use super::watch::exclusions::Exclusions;
use super::watch::session::{ReportSubject, Session, WatchMoment};
use super::watch::text as watched;
use crate::flags::RecoverFlags;
use crate::output::text::units::{of, span};
use crate::output::text::{Align, Line, Look, Page, Stream, Table};
use crate::output::{exit, json, stdio};

/// Recovers the run directory that the flags name, or lists those that there are.
pub fn run(flags: &RecoverFlags) -> Result<ExitCode> {
    match &flags.dir {
        Some(dir) if Control::open(dir).is_ok() => samples(dir, flags),
        Some(dir) => one(dir, flags),
        None => list(flags),
    }
}

/// Reads the run directory, writes the recording, and reports.
fn one(dir: &Path, flags: &RecoverFlags) -> Result<ExitCode> {
    let mut file = match &flags.output {
        Some(path) => RecordingFile::named(path),
        None => RecordingFile::usual(OsStr::new("recovered")),
    }?;
    let recorded = recover(dir, |options| file.writer(options))?;
    record::finish(recorded, file, None, Some((&flags.view, flags.all)))?;
    stdio::notify(&format!("when the recording is as you want it, remove what it was made of: {}", removal(dir)));
    Ok(exit::OK)
}

/// Reports what a sampled program left behind: what was live, and what it freed last.
fn samples(dir: &Path, flags: &RecoverFlags) -> Result<ExitCode> {
    if flags.output.is_some() {
        bail!("{} holds samples and no recording: -o is for recordings, and there is a report", dir.display());
    }
    let mut watch = Watch::left(dir)?;
    let mut session = Session::new(Exclusions::default(), false, None);
    session.poll(&mut watch);
    session.name(watch.profile_mut());
    let moment = WatchMoment::of(&watch, None);
    let limit = flags.view.limit(if flags.view.json { usize::MAX } else { 10 });
    let subject = ReportSubject { occasion: "recover", which: Which::Live, older_than_ms: 0, limit };
    let report = session.report(watch.profile(), &moment, &|_| false, &subject);
    let recent = session.recent(watch.profile(), moment.now_ns);
    if flags.view.json {
        stdio::print(&json::line(&report)?)?;
        stdio::print(&json::line(&watched::RecentDocument { occasion: "recent", recent: &recent })?)?;
    } else {
        let look = flags.view.look(Stream::Out);
        stdio::print(&watched::report(&report, None, &look, true, report.places.places.len() == limit))?;
        stdio::print(&watched::recent(&recent, &look, true))?;
    }
    stdio::notify(&format!("when you have seen enough, remove what it was made of: {}", removal(dir)));
    Ok(exit::OK)
}

/// A command that removes a run directory, and what lies elsewhere of it.
fn removal(dir: &Path) -> String {
    let all = std::iter::once(dir.to_owned()).chain(files_elsewhere(dir));
    let words = all.map(|path| quoted(&path.to_string_lossy()));
    format!("rm -r {}", words.collect::<Vec<_>>().join(" "))
}

/// A word as a shell wants it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.,:=@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Directories and files that interrupted and ended runs left on this machine.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Leftovers<'a> {
    /// Run directories that a killed mallow left behind, recorded or counted.
    left_behind: Vec<&'a Row>,
    /// Run directories of sampled programs that did not end in order.
    ended_by_signal: Vec<&'a Row>,
    /// Files of recordings that were never finished, in the current directory.
    unfinished_files: &'a [PathBuf],
}

/// A run directory, as it is listed.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Row {
    /// Path of the run directory.
    directory: String,
    /// The command line of the run.
    command: Vec<String>,
    /// Start of the run, in milliseconds since 1970 UTC.
    started_unix_ms: u64,
    /// True: the run was recorded or sampled. False: it was only counted, and nothing can be recovered.
    recoverable: bool,
    /// Processes of the run that still run.
    still_running: u32,
    /// True: the directory holds samples. False: it holds events, or counts where it is not `recoverable`.
    sampled: bool,
    #[serde(skip)]
    removal: String,
}

impl Row {
    fn of(left: &Leftover) -> Self {
        Self {
            directory: left.path.to_string_lossy().into_owned(),
            command: left.about.command.clone(),
            started_unix_ms: left.about.started_unix_ms,
            recoverable: left.traced || left.sampled,
            still_running: left.still_running,
            sampled: left.sampled,
            removal: removal(&left.path),
        }
    }
}

fn list(flags: &RecoverFlags) -> Result<ExitCode> {
    if flags.output.is_some() {
        bail!(
            "-o names a recording to make, so name the directory to make it of, too; mallow recover alone lists them"
        );
    }
    // A program that goes on was left by nobody: mallow watch joins it. What ended by itself goes with the next mallow
    // run.
    let was_left = |left: &&Leftover| !left.sampled || (left.still_running == 0 && !left.in_order);
    let rows: Vec<Row> = leftovers().iter().filter(was_left).map(Row::of).collect();
    let orphans = orphans(Path::new("."));
    if flags.view.json {
        // SIGTERM is how services are stopped: nobody left behind what a signal ended.
        let (ended_by_signal, left_behind): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.sampled);
        let lists = Leftovers { left_behind, ended_by_signal, unfinished_files: &orphans };
        stdio::print(&json::document(&lists)?)?;
        return Ok(exit::OK);
    }
    stdio::print(&text(&rows, &orphans, unix_ms(), &flags.view.look(Stream::Out)))?;
    Ok(exit::OK)
}

fn text(rows: &[Row], orphans: &[PathBuf], now_unix_ms: u64, look: &Look) -> String {
    let mut page = Page::new(*look);
    let (sampled, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.sampled);
    let (recorded, counted): (Vec<&Row>, Vec<&Row>) = others.into_iter().partition(|row| row.recoverable);
    if recorded.is_empty() && sampled.is_empty() && orphans.is_empty() {
        page.line(Line::new().plain("Nothing to recover: no recording of yours was left behind."));
    }
    if !recorded.is_empty() {
        page.line(Line::new().strong("Recordings that a killed mallow left behind"));
        rows_onto(&recorded, now_unix_ms, &mut page);
        page.gap();
        page.line(Line::new().plain("To make a recording of one:"));
        page.line(Line::new().plain("  mallow recover -o FILE.mallow DIRECTORY"));
    }
    if !sampled.is_empty() {
        if !recorded.is_empty() {
            page.gap();
        }
        page.line(Line::new().strong(
            "Samples of programs that a signal ended (SIGTERM, a crash, kill), or that became another program",
        ));
        rows_onto(&sampled, now_unix_ms, &mut page);
        page.gap();
        page.line(Line::new().plain("To see what was live, and what was freed last:"));
        page.line(Line::new().plain("  mallow recover DIRECTORY"));
    }
    if let Some(first) = orphans.first() {
        if !recorded.is_empty() || !sampled.is_empty() {
            page.gap();
        }
        page.line(Line::new().strong("Recordings in this directory whose mallow was killed while it finished them"));
        for path in orphans {
            page.line(Line::new().plain("  ").plain(path.to_string_lossy()));
        }
        page.gap();
        page.line(Line::new().plain("All views read them, as they are or renamed:"));
        page.line(Line::new().plain("  mallow report ").plain(quoted(&first.to_string_lossy())));
    }
    if !counted.is_empty() {
        page.gap();
        page.line(Line::new().plain("Left by mallow stat, with nothing to recover:"));
        for row in counted {
            page.line(Line::new().plain("  ").plain(&row.removal));
        }
    }
    page.into_text()
}

fn rows_onto(rows: &[&Row], now_unix_ms: u64, page: &mut Page) {
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
    for row in rows {
        let ago = format!("{} ago", span(now_unix_ms.saturating_sub(row.started_unix_ms)));
        let mut command = Line::new().plain(row.command.join(" "));
        if row.still_running > 0 {
            command = command.faint(format!(
                "; {} still {}",
                of(row.still_running.into(), "process"),
                if row.still_running == 1 { "runs" } else { "run" }
            ));
        }
        table.row([Line::new().plain(&row.directory), Line::new().plain(ago), command]);
    }
    table.onto(page);
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Row, quoted, text};
    use crate::output::text::Look;

    fn row(number: u32, recoverable: bool, still_running: u32) -> Row {
        let directory = format!("/dev/shm/mallow-{number:07}-c0ffee");
        let command = vec!["redis-server".to_owned(), "--port\n0".to_owned()];
        let removal = format!("rm -r {directory}");
        Row { directory, command, started_unix_ms: 1_000_000, recoverable, still_running, sampled: false, removal }
    }

    #[test]
    fn what_was_left_behind_and_what_to_type() {
        let rows = [row(4711, true, 0), row(12, false, 0), row(815, true, 2)];
        insta::assert_snapshot!(text(&rows, &[], 8_303_000, &Look::default()));
    }

    #[test]
    fn samples_are_no_recordings() {
        let sampled = Row { sampled: true, ..row(4711, true, 0) };
        let printed = text(&[sampled], &[], 8_303_000, &Look::default());
        assert!(printed.starts_with("Samples of programs that a signal ended"), "{printed}");
        assert!(!printed.contains("killed mallow") && printed.contains("  mallow recover DIRECTORY\n"), "{printed}");
    }

    #[test]
    fn nothing_was_left_behind() {
        let printed = text(&[row(12, false, 0)], &[], 8_303_000, &Look::default());
        assert!(printed.starts_with("Nothing to recover: no recording of yours was left behind.\n"), "{printed}");
        assert!(printed.contains("\n  rm -r /dev/shm/mallow-0000012-c0ffee\n"), "{printed}");
    }

    #[test]
    fn files_of_killed_recordings_are_something() {
        let printed = text(&[], &[PathBuf::from("./a b.mallow.partial")], 8_303_000, &Look::default());
        assert!(printed.contains("\n  ./a b.mallow.partial\n") && !printed.contains("Nothing"), "{printed}");
        assert!(printed.ends_with("  mallow report './a b.mallow.partial'\n"), "{printed}");
    }

    #[test]
    fn words_for_a_shell() {
        for (word, expected) in [("/a/b-1.c", "/a/b-1.c"), ("", "''"), ("a b", "'a b'"), ("it's", r"'it'\''s'")] {
            assert_eq!(quoted(word), expected);
        }
    }
}
