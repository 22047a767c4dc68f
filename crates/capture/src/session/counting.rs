//! Runs that count.

use super::attached::{self, AttachedProcess};
use super::command::{CommandEnd, prepare, spawn, wait};
use super::error::RunError;
use super::executed::ExecutedPrograms;
use crate::attach;
use crate::chunk::ProcessStart;
use crate::inside;
use crate::launch::blind_spots::BlindSpots;
use crate::launch::signals;
use crate::library;
use crate::preflight;
use crate::rundir::directory::{Mode, Regions, RunDirectory, Scans, Settings};
use crate::rundir::process_file::process_files;
use crate::rundir::results::{self, RegionResult};
use mallow_profile::{AllocatorInside, CustomAllocator, FamilyCounts};
use std::ffi::OsString;
use std::time::{Duration, Instant};

#[derive(Clone, Debug, Default)]
pub struct CountingOutcome {
    pub command_pid: u32,
    /// Time from the start of the command to its end, or from attaching to detaching.
    pub wall: Duration,
    /// Exit status as a shell shows it. None: the command still ran when counting ended.
    pub exit_status: Option<i32>,
    pub ended_by: Option<i32>,
    /// Process images, in the order of their start: what they said, their counters, and calls that were not counted.
    pub processes: Vec<(ProcessStart, FamilyCounts, u64)>,
    /// Allocators above malloc; their processes are indices in `processes`.
    pub custom_allocators: Vec<CustomAllocator>,
    pub allocators_inside: Vec<AllocatorInside>,
    pub failed_processes: u32,
    /// Sentences: why programs that the command started were out of sight.
    pub unwatched: Vec<String>,
    /// What measured regions wrote, in the order of their ends.
    pub results: Vec<RegionResult>,
}

/// Runs `command` and counts, or only runs its measured regions in [`Mode::Idle`]. The mode must not be
/// [`Mode::Trace`].
pub fn measure(command: &[OsString], mode: Mode, regions: Regions) -> Result<CountingOutcome, RunError> {
    let settings =
        Settings { mode, max_depth: 1, children: true, regions, scan: Scans::None, memory: false, arguments: true };
    let run = prepare(&settings, command)?;
    let library = library::unpack(run.path())?;
    let inside = (mode == Mode::Count).then(|| inside::Server::begin(&run)).transpose().map_err(RunError::Directory)?;
    let start = Instant::now();
    let mut child = spawn(&run, &library, command, &[])?;
    let mut blind_spots = BlindSpots::default();
    let ended = wait(&mut child, &mut blind_spots, &run, &mut || signals::interrupts() >= 2);
    let wall = start.elapsed();
    run.end();
    let allocators_inside = inside.map(inside::Server::end).unwrap_or_default();
    let unwatched = blind_spots.sentences(&run);
    Ok(outcome(run, mode, child.id(), wall, ended, unwatched, allocators_inside))
}

/// Attaches to a process, counts, and detaches.
pub fn measure_process(process: &AttachedProcess) -> Result<CountingOutcome, RunError> {
    if let Some(obstacle) = attach::obstacle(process.pid) {
        return Err(obstacle.into());
    }
    let regions = Regions::default();
    let settings = Settings {
        mode: Mode::Count,
        max_depth: 1,
        children: true,
        regions,
        scan: Scans::None,
        memory: false,
        arguments: true,
    };
    let run = prepare(&settings, &attached::command_line(process.pid))?;
    let executed = ExecutedPrograms::of(process.pid, run.path());
    let mut attachment = attached::attach(process, &run, attached::is_stopped)?;
    let start = Instant::now();
    let unwatched = attached::wait(process, &mut attachment, executed, &mut || false);
    let allocators_inside = attachment.allocators().to_vec();
    let detached = attached::detach(process, &run, attachment);
    run.end();
    let wall = detached?.saturating_duration_since(start);
    Ok(outcome(run, Mode::Count, process.pid, wall, None, unwatched, allocators_inside))
}

/// Calls that all processors together can have made in this time: each takes a nanosecond at the least.
fn most_calls(wall: Duration) -> u64 {
    /// Nanoseconds of calls that were counted before the clock starts, and after it ends.
    const MORE: u64 = 1_000_000_000;
    let processors = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let processors = processors.lines().filter(|line| line.starts_with("processor")).count().max(1) as u64;
    u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX).saturating_add(MORE).saturating_mul(processors)
}

/// A clause: the counts, in memory of a process which may write anything there, cannot be true.
fn impossible(pid: u32, executable: &str) -> String {
    let name = executable.rsplit('/').next().unwrap_or_default();
    format!(
        "process {pid} ({name}) has counts that no process can reach in this time: something in it wrote over them, and what is shown of it is not what it did"
    )
}

fn outcome(
    run: RunDirectory,
    mode: Mode,
    command_pid: u32,
    wall: Duration,
    ended: Option<CommandEnd>,
    mut unwatched: Vec<String>,
    allocators_inside: Vec<AllocatorInside>,
) -> CountingOutcome {
    let most = most_calls(wall);
    let mut processes: Vec<_> = process_files(run.path())
        .into_iter()
        .map(|source| {
            let (mut families, lost) = source.counters();
            let process = source.process(0, 0);
            if families.clamp(most) {
                unwatched.push(impossible(process.pid, &process.executable));
            }
            (process, families, lost)
        })
        .collect();
    processes.sort_by_key(|(process, ..)| (process.start_ms, process.pid, process.serial));
    let custom_allocators = match mode {
        Mode::Count => preflight::custom_allocators(
            processes.iter().map(|(p, ..)| (&*p.executable, &*p.arguments, p.settings)),
            &allocators_inside,
        ),
        _ => Vec::new(),
    };
    let results = results::read(run.path());
    let failed_processes = run.failed_processes();
    unwatched.extend(inside::unseen(&allocators_inside, processes.iter().map(|(process, ..)| &*process.executable)));
    drop(run);
    signals::unwatch();
    CountingOutcome {
        command_pid,
        wall,
        exit_status: ended.as_ref().map(|end| end.status),
        ended_by: ended.and_then(|end| end.signal),
        processes,
        custom_allocators,
        allocators_inside,
        failed_processes,
        unwatched,
        results,
    }
}
