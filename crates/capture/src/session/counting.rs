//! Runs that count.

use super::command::{prepare, spawn, wait};
use super::error::RunError;
use crate::chunk::ProcessStart;
use crate::launch::blind_spots::BlindSpots;
use crate::launch::signals;
use crate::library;
use crate::preflight;
use crate::rundir::directory::{Mode, Regions, Settings};
use crate::rundir::process_file::process_files;
use crate::rundir::results::{self, RegionResult};
use mallow_profile::{CustomAllocator, FamilyCounts};
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// What a counting run came to.
#[derive(Clone, Debug, Default)]
pub struct CountingOutcome {
    /// The command's process id.
    pub command_pid: u32,
    /// From start to end of the command.
    pub wall: Duration,
    /// As a shell shows it. None: it still ran when counting ended.
    pub exit_status: Option<i32>,
    /// Process images, in the order of their start: what they said, their counters, and calls that were not counted.
    pub processes: Vec<(ProcessStart, FamilyCounts, u64)>,
    /// Allocators above malloc; their processes are indices in `processes`.
    pub custom_allocators: Vec<CustomAllocator>,
    /// Images that could not take part.
    pub failed_processes: u32,
    /// Why programs that the command started were out of sight, each a sentence.
    pub unwatched: Vec<String>,
    /// What measured regions wrote, in the order of their ends.
    pub results: Vec<RegionResult>,
}

/// Runs `command` and counts, or does as if. Precondition: the mode is not [`Mode::Trace`].
pub fn measure(command: &[OsString], mode: Mode, regions: Regions) -> Result<CountingOutcome, RunError> {
    let settings = Settings { mode, max_depth: 1, children: true, regions };
    let run = prepare(&settings, command)?;
    let library = library::unpack(run.path())?;
    let start = Instant::now();
    let mut child = spawn(&run, &library, command)?;
    let mut blind_spots = BlindSpots::default();
    let exit_status = wait(&mut child, &mut blind_spots, &run, &mut || signals::interrupts() >= 2);
    let wall = start.elapsed();
    run.end();
    let mut processes: Vec<_> = process_files(run.path())
        .into_iter()
        .map(|source| {
            let (families, lost) = source.counters();
            (source.process(0, 0), families, lost)
        })
        .collect();
    processes.sort_by_key(|(process, ..)| (process.start_ms, process.pid, process.serial));
    let custom_allocators = match mode {
        Mode::Count => {
            preflight::custom_allocators(processes.iter().map(|(p, ..)| (&*p.executable, &*p.arguments, p.settings)))
        }
        _ => Vec::new(),
    };
    let results = results::read(run.path());
    let (command_pid, failed_processes) = (child.id(), run.failed_processes());
    let unwatched = blind_spots.sentences(&run);
    drop(run);
    signals::unwatch();
    Ok(CountingOutcome {
        command_pid,
        wall,
        exit_status,
        processes,
        custom_allocators,
        failed_processes,
        unwatched,
        results,
    })
}
