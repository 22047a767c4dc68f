//! `mallow stat`: counts, as `perf stat` does cycles.

use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use mallow_capture::rundir::directory::Mode;
use mallow_capture::rundir::results::{Kind, RegionResult};
use mallow_capture::session;
use mallow_report::analysis::{RegionKind, RegionRow, Stat, StatProcess, allocators_inside, custom_allocators};

use super::attached;
use super::exit_status;
use super::stat_text;
use super::unrecorded::{self, ObservedProcesses, Unrecorded};
use crate::flags::StatFlags;
use crate::output::destination;
use crate::output::stdio;
use crate::output::text::{Look, Stream};

/// Runs the command and shows what was counted, on standard error or in a file.
pub fn run(flags: &StatFlags) -> Result<ExitCode> {
    let create = |path: &PathBuf| {
        destination::is_somewhere(path)?;
        destination::create(path).with_context(|| format!("cannot write {}", path.display()))
    };
    let mut file = flags.output.as_ref().map(create).transpose()?;
    let mode = if flags.no_hook { Mode::Idle } else { Mode::Count };
    let limits = flags.attach.pid.map(attached::limits);
    let counted = match flags.attach.pid {
        Some(pid) => attached::with(pid, flags.attach.duration, flags.attach.timeout, session::measure_process),
        None => session::measure(&flags.run.command, mode, flags.regions.regions()),
    };
    let counted = match counted {
        Ok(counted) => counted,
        Err(error) => return exit_status::after_failure(error, flags.fail_on_write_error),
    };
    if let Some(limits) = &limits {
        stdio::notify(limits);
        counted.unwatched.iter().for_each(|sentence| stdio::notify(sentence));
    }
    let mut uncounted = Vec::new();
    if limits.is_none() && mode == Mode::Count {
        let command = counted.processes.iter().filter(|(process, ..)| process.pid == counted.command_pid).count();
        let (seen, failed) = (counted.processes.len(), counted.failed_processes);
        let unwatched = &counted.unwatched;
        let sight = ObservedProcesses { seen, command, failed, still_running: 0, unwatched, cut_short: None };
        let Unrecorded { missing, nothing } = unrecorded::warn(&flags.run.command, &sight);
        if let Some(why) = nothing {
            stdio::notify(&format!("nothing was recorded: {why}"));
        }
        uncounted = missing;
    }
    let stat = Stat {
        command: match flags.attach.pid {
            Some(pid) => {
                counted.processes.first().map_or_else(|| vec![format!("process {pid}")], |p| p.0.arguments.clone())
            }
            None => flags.run.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        },
        attached: limits.is_some(),
        wall_ns: counted.wall.as_nanos() as u64,
        exit_status: counted.exit_status,
        ended_by: counted.ended_by,
        custom_allocators: custom_allocators(&counted.custom_allocators, |number| {
            counted.processes.get(number).map(|(process, ..)| process.executable.as_str())
        }),
        allocators_inside: allocators_inside(&counted.allocators_inside),
        // Standard error has them already.
        uncounted: if flags.json || file.is_some() { uncounted } else { Vec::new() },
        lost: counted.processes.iter().fold(0, |sum, p| sum.saturating_add(p.2)),
        processes: counted
            .processes
            .into_iter()
            .map(|(process, families, _)| StatProcess {
                pid: process.pid,
                parent_pid: process.parent_pid,
                serial: process.serial,
                forked: process.forked,
                arguments: if process.arguments.is_empty() { vec![process.executable] } else { process.arguments },
                families,
            })
            .collect(),
        regions: counted.results.into_iter().map(region).collect(),
    };
    let look = if file.is_some() { Look::default() } else { Look::of(Stream::Err) };
    let written = stat_text::render(&stat, flags.per_process, flags.json, &look).and_then(|text| {
        match (&mut file, &flags.output) {
            (Some(file), Some(path)) => write(file, &text).with_context(|| format!("cannot write {}", path.display())),
            _ => {
                stdio::write_error(&text);
                Ok(())
            }
        }
    });
    let exit_status = if limits.is_some() { Some(0) } else { counted.exit_status };
    Ok(exit_status::after_command(exit_status, written, flags.fail_on_write_error))
}

/// Writes all of the text or nothing: half of the counts would look like all.
fn write(file: &mut File, text: &str) -> std::io::Result<()> {
    use std::io::Write;
    file.write_all(text.as_bytes()).inspect_err(|_| {
        // A device has no length.
        let _ = file.set_len(0);
    })
}

fn region(result: RegionResult) -> RegionRow {
    let kind = match result.kind {
        Kind::Begun => RegionKind::Begun,
        Kind::Warmup => RegionKind::Warmup,
        Kind::Measured => RegionKind::Measured,
        Kind::Check | Kind::Planted if result.proves_counting() => RegionKind::Proof,
        Kind::Check | Kind::Planted => RegionKind::FailedProof,
    };
    RegionRow {
        kind,
        pid: result.pid,
        name: result.name,
        run: result.run,
        number: result.number,
        operations: result.operations,
        allocations: result.allocations,
        allocated_bytes: result.allocated_bytes,
        frees: result.frees,
        unrecorded: result.unrecorded,
        leaked_fds: result.leaked_fds,
        this_thread: result.this_thread,
        restless: result.restless,
        name_cut: result.name_cut,
    }
}
