//! Runs that sample. Their processes need nobody that reads.

use super::attached::{self, AttachedProcess};
use super::command::{create, prepare, spawn};
use super::error::{RunError, not_executed};
use super::leftovers;
use crate::attach::{self, Attachment};
use crate::launch::{command as launch, preparation, signals};
use crate::library::{self, Library};
use crate::preflight::search;
use crate::rundir::directory::{Mode, Regions, RunDirectory, Scans, Settings};
use std::ffi::OsString;
use std::process::Child;

/// Starts `command` to be sampled, or to wait for it in [`Mode::Dormant`]; `period` is in bytes. No process of it needs
/// a reader: [`RunDirectory::leave_to`] lets a watch read them.
pub fn start_sampled(command: &[OsString], mode: Mode, period: u32) -> Result<(RunDirectory, Child), RunError> {
    start_sampled_with(command, mode, period, &mut |_| Ok(()))
}

/// [`start_sampled`] that calls `prepare` with the run directory before the command starts.
pub fn start_sampled_with(
    command: &[OsString],
    mode: Mode,
    period: u32,
    prepare: &mut dyn FnMut(&RunDirectory) -> std::io::Result<()>,
) -> Result<(RunDirectory, Child), RunError> {
    let (run, library) = sampled(command, mode, period)?;
    prepare(&run).map_err(RunError::Directory)?;
    let child = spawn(&run, &library, command, &[])?;
    Ok((run, child))
}

/// Becomes `command`, as [`start_sampled`] starts it: no process of mallow's remains. Returns only where that fails.
pub fn become_sampled(command: &[OsString], mode: Mode, period: u32) -> RunError {
    match sampled(command, mode, period) {
        Ok((mut run, library)) => {
            run.read_no_more();
            let error = launch::become_command(&run, &library, command);
            signals::stop().map_or_else(|| not_executed(command, error), RunError::NotStarted)
        }
        Err(error) => error,
    }
}

/// Attaches to a process, to sample it every `period` bytes; its blocks of before are unknown. The caller detaches.
/// [`RunDirectory::leave_to`] lets a watch read it.
pub fn attach_sampled(process: &AttachedProcess, period: u32) -> Result<(RunDirectory, Attachment), RunError> {
    attach_in(process, period, prepare)
}

/// [`attach_sampled`] for a caller that watches signals by itself, and other processes meanwhile: no signal ends it.
pub fn attach_sampled_too(process: &AttachedProcess, period: u32) -> Result<(RunDirectory, Attachment), RunError> {
    attach_in(process, period, create)
}

fn attach_in(
    process: &AttachedProcess,
    period: u32,
    make: fn(&Settings, &[OsString]) -> Result<RunDirectory, RunError>,
) -> Result<(RunDirectory, Attachment), RunError> {
    if let Some(obstacle) = attach::obstacle(process.pid) {
        return Err(obstacle.into());
    }
    leftovers::sweep();
    let run = make(&settings(Mode::Sample), &attached::command_line(process.pid))?;
    run.sample(Mode::Sample, period);
    // SIGHUP asks a watch for a report.
    let attachment = attached::attach(process, &run, signals::asked_to_end)?;
    Ok((run, attachment))
}

fn settings(mode: Mode) -> Settings {
    Settings {
        mode,
        max_depth: SAMPLED_DEPTH,
        children: true,
        regions: Regions::default(),
        scan: Scans::None,
        memory: false,
        arguments: true,
    }
}

fn sampled(command: &[OsString], mode: Mode, period: u32) -> Result<(RunDirectory, Library), RunError> {
    leftovers::sweep();
    let program = command.first().map(OsString::as_os_str).unwrap_or_default();
    search::find(program).map_err(|error| not_executed(command, error))?;
    let run = prepare(&settings(mode), command)?;
    run.sample(mode, period);
    let library = library::unpack(run.path())?;
    if mode == Mode::Sample {
        preparation::make(command, &run.tables());
    }
    Ok((run, library))
}

/// Most frames that a sample's stack keeps: those nearest to the allocation.
const SAMPLED_DEPTH: u32 = 512;
