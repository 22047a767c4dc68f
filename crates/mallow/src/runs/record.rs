//! `mallow record`: runs a command, records all it allocates, and reports.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use mallow_capture::recording::Writer;
use mallow_capture::rundir::directory::{Mode, Scans, Settings};
use mallow_capture::session::{self, Recording, RecordingOutcome};
use mallow_symbols::{symbolize_jit_all, symbolize_jit_in};

use super::attached::{self, ForeignRoot};
use super::exit_status;
use super::pack::{self, Sources};
use super::recording_file::RecordingFile;
use super::script::Script;
use super::script_names::ProcessTmp;
use super::status_line::StatusLine;
use super::unrecorded::{self, ObservedProcesses, Unrecorded};
use crate::flags::{RecordFlags, ViewFlags};
use crate::input::recording;
use crate::output::stdio;
use crate::output::text::Stream;
use crate::views::report::{self, ReportOptions};

/// A recording that was made, or not.
pub struct Recorded {
    /// Exit status of mallow.
    pub status: ExitCode,
    /// None: the recording could not be written to its end.
    pub path: Option<PathBuf>,
}

pub fn run(flags: &RecordFlags) -> Result<ExitCode> {
    record(flags).map(|recorded| recorded.status)
}

/// Records, then shows the report on standard error: standard output is the command's.
pub fn record(flags: &RecordFlags) -> Result<Recorded> {
    let Script { command, environment, name } = match flags.attach.pid {
        Some(pid) => Script { command: Vec::new(), environment: Vec::new(), name: attached::name(pid) },
        None => Script::of(&flags.run),
    };
    let mut file = match &flags.output {
        Some(path) => RecordingFile::named(path),
        None => RecordingFile::usual(&name),
    }?;
    let (spool, partial) = (beside(file.path()), file.partial().map(Path::to_owned));
    let how = Recording {
        environment: &environment,
        settings: Settings {
            mode: Mode::Trace,
            max_depth: flags.max_depth,
            children: !flags.no_children,
            regions: flags.regions.regions(),
            scan: match (flags.no_scan, flags.scan_all) {
                (true, _) => Scans::None,
                (_, true) => Scans::All,
                _ => Scans::Cheap,
            },
            memory: !flags.no_rss,
            arguments: !flags.no_arguments,
        },
        wait: flags.wait,
        spool: &spool,
        partial: partial.as_deref(),
    };
    let line = StatusLine::new();
    let limits = flags.attach.pid.map(attached::limits);
    let root = flags.attach.pid.and_then(ForeignRoot::of);
    let tmp = flags.attach.pid.and_then(ProcessTmp::of);
    let recorded = match flags.attach.pid {
        Some(pid) => attached::with(pid, flags.attach.duration, flags.attach.timeout, |process| {
            session::record_process(process, &how, |options| file.writer(options), &mut |tick| line.show(tick))
        }),
        None => session::record(&command, &how, |options| file.writer(options), &mut |tick| line.show(tick)),
    };
    let mut recorded = match recorded {
        Ok(recorded) => recorded,
        Err(error) => {
            let status = exit_status::after_failure(error, flags.fail_on_write_error)?;
            return Ok(Recorded { status, path: None });
        }
    };
    line.clear();
    let exit_status = if limits.is_some() { Some(0) } else { recorded.exit_status };
    let processes = &recorded.profile.processes;
    let sight = ObservedProcesses {
        seen: processes.len(),
        command: processes.iter().filter(|process| Some(process.pid) == recorded.command_pid).count(),
        failed: recorded.failed_processes,
        still_running: recorded.still_running,
        cut_short: recorded.profile.ending.cut_short.as_deref(),
        // Children were not to be recorded.
        unwatched: if flags.no_children { &[] } else { &recorded.unwatched },
    };
    let Unrecorded { missing, nothing } = match limits {
        Some(limits) => {
            let all: Vec<String> = [limits].into_iter().chain(recorded.unwatched.iter().cloned()).collect();
            all.iter().for_each(|sentence| stdio::notify(sentence));
            // One that allocates nothing meanwhile is recorded all the same.
            Unrecorded { missing: all, nothing: None }
        }
        None => unrecorded::warn(&command, &sight),
    };
    recorded.profile.unrecorded = missing;
    if let Some(why) = nothing.filter(|_| sight.seen == 0) {
        stdio::notify(&format!("nothing was recorded: {why}; {}", file.abandon()));
        return Ok(Recorded { status: exit_status::after_nothing(exit_status), path: None });
    }
    // Its files are hardly where they are now when the recording is read.
    let embed = (flags.embed_symbols || root.is_some()).then(|| Embedding {
        sources: !flags.no_sources && root.is_none(),
        root: root.as_ref().map(ForeignRoot::path),
    });
    // Before anybody else looks for names: a map that lies elsewhere is out of reach later.
    if let Some(tmp) = &tmp {
        symbolize_jit_in(&mut recorded.profile, &|_| Some(tmp.place()));
    }
    let report = !flags.no_report;
    let cut_short = recorded.profile.ending.cut_short.clone();
    let path = file.path().to_owned();
    let finished = finish(recorded, file, embed.as_ref(), report.then_some((&flags.view, flags.all)));
    let path = finished.is_ok().then_some(path);
    let written = finished.and_then(|()| cut_short.map_or(Ok(()), |why| bail!("the recording is cut short: {why}")));
    Ok(Recorded { status: exit_status::after_command(exit_status, written, flags.fail_on_write_error), path })
}

/// Content that a recording is to carry for other machines.
#[derive(Clone, Debug)]
pub struct Embedding {
    pub sources: bool,
    /// The root directory of the process, if it has another one.
    pub root: Option<PathBuf>,
}

/// Closes the recording, says where it is, and shows the report, or all of it, where there is to be one. Of what fails
/// the rest is done all the same.
pub fn finish(
    recorded: RecordingOutcome<Writer>,
    file: RecordingFile,
    embed: Option<&Embedding>,
    view: Option<(&ViewFlags, bool)>,
) -> Result<()> {
    let RecordingOutcome { mut profile, sink, .. } = recorded;
    let path = file.path().to_owned();
    let shown = path.display().to_string();
    // A recording has its name as soon as it is closed: looking up names for the report can take seconds, and mallow
    // may be killed.
    let (recording, closed, completed, carries) = match embed {
        None => {
            // What a JIT made has names only as long as its map lies in /tmp: they are kept in the recording.
            symbolize_jit_all(&mut profile);
            let closed = sink.and_then(|writer| writer.finish(&profile));
            let completed = file.complete();
            (view.map(|_| recording::Recording::of(profile).at(&path)), closed, completed, String::new())
        }
        Some(embed) => {
            let mut recording = recording::Recording::below(profile, embed.root.as_deref());
            recording.keep_names();
            let sources = if embed.sources { Sources::of(&recording.profile, &[]) } else { Sources::default() };
            let carries = format!(", with {}", pack::contents(&recording.profile, &sources));
            let closed = sink.and_then(|writer| writer.finish_with(&recording.profile, &mut sources.found.into_iter()));
            (Some(recording), closed, file.complete(), carries)
        }
    };
    let mut reported = Ok(());
    if let (Some(recording), Some((view, all))) = (recording, view) {
        let how = ReportOptions { view, all, stacks: false, least: None, stream: Stream::Err };
        // What was not recorded was reported above.
        reported = report::render(&recording.with_gaps_reported(), &how).map(|text| stdio::write_error(&text));
    }
    closed.with_context(|| format!("{shown} could not be written to its end; what it holds can be read"))?;
    let completed = completed?;
    // A device, or a pipe, is no file to look at.
    let next = match path.is_file() {
        true => format!("; mallow view {} opens it", shell_words::quote(&shown)),
        false => String::new(),
    };
    stdio::notify(&format!("recorded to {completed}{carries}{next}"));
    reported
}

/// Path of a recording's spool, without its suffix: beside the recording, on a disk, unless that is a device, or there
/// is little room and more elsewhere.
fn beside(path: &Path) -> PathBuf {
    const LITTLE: u64 = 1 << 30;
    let room = |path: &Path| rustix::fs::statvfs(path).map_or(0, |disk| disk.f_bavail.saturating_mul(disk.f_frsize));
    let elsewhere = std::env::temp_dir();
    let directory = match path.parent() {
        _ if path.metadata().is_ok_and(|there| !there.is_file()) => &elsewhere,
        Some(directory) if directory.as_os_str().is_empty() => Path::new("."),
        Some(directory) => directory,
        None => &elsewhere,
    };
    let here = room(directory);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    if here < LITTLE && here < room(&elsewhere) { elsewhere.join(name) } else { directory.join(name) }
}
