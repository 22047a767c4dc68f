//! Names of frames in no module.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use mallow_profile::{FrameId, Line, ProcessId, Profile};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::perf_map::{PerfMap, PerfMapError};

/// What the map of one process brought.
#[derive(Debug)]
pub struct JitProcess {
    /// Whose.
    pub process: ProcessId,
    /// Its frames in no module.
    pub frames: u32,
    /// Those that the map names.
    pub named: u32,
    /// The map's malformed lines, or why it was not used.
    pub map: Result<u64, PerfMapError>,
}

/// Fills the lines of those of `frames` that are in no module and have none yet; returns how many. `map` is the map of
/// the process that `frames` belong to. A frame is shared by all processes that were at its address: where two of them
/// may have different code there, use [`symbolize_jit_all`].
pub fn symbolize_jit(profile: &mut Profile, map: &PerfMap, frames: &mut dyn Iterator<Item = FrameId>) -> u32 {
    let mut named = 0;
    for id in frames {
        let Some(frame) = profile.frames.get_mut(id.0 as usize) else { continue };
        if frame.module.is_some() || !frame.lines.is_empty() {
            continue;
        }
        // The code may end with the call, so look into it, as for code in modules.
        let address = frame.address.saturating_sub(u64::from(!frame.exact));
        if let Some(name) = map.find(address) {
            let function = profile.strings.intern(name);
            frame.lines.push(Line { function, file: None, line: 0 });
            named += 1;
        }
    }
    named
}

/// Reads `/tmp/perf-PID.map` of each process that was in code of no module, and names that code. A frame that two
/// processes name differently stays without a name. Returns the processes in question. Do this soon after the run:
/// the next process with the same id writes over the file.
pub fn symbolize_jit_all(profile: &mut Profile) -> Vec<JitProcess> {
    symbolize_jit_with(profile, |pid| PathBuf::from(format!("/tmp/perf-{pid}.map")))
}

fn symbolize_jit_with(profile: &mut Profile, path: impl Fn(u32) -> PathBuf) -> Vec<JitProcess> {
    // Frame → its name; None where two maps differ.
    let mut names: FxHashMap<FrameId, Option<String>> = FxHashMap::default();
    let mut processes = Vec::new();
    for (process, frames) in frames_without_module(profile) {
        let Some(of) = profile.processes.get(process.0 as usize) else { continue };
        // A second's grace: clocks of file systems are coarse.
        let begin = Duration::from_millis(profile.started_unix_ms.saturating_add(of.start_ms).saturating_sub(1000));
        let begin = SystemTime::UNIX_EPOCH.checked_add(begin);
        let mut summary = JitProcess { process, frames: frames.len() as u32, named: 0, map: Ok(0) };
        match PerfMap::read(&path(of.pid), None, begin) {
            Err(e) => summary.map = Err(e),
            Ok(map) => {
                summary.map = Ok(map.malformed());
                for id in frames {
                    let frame = &profile.frames[id.0 as usize];
                    let address = frame.address.saturating_sub(u64::from(!frame.exact));
                    let Some(name) = map.find(address) else { continue };
                    summary.named += 1;
                    let known = names.entry(id).or_insert_with(|| Some(name.to_string()));
                    if known.as_deref() != Some(name) {
                        *known = None;
                    }
                }
            }
        }
        processes.push(summary);
    }
    for (id, name) in names {
        let frame = &mut profile.frames[id.0 as usize];
        if let Some(name) = name
            && frame.lines.is_empty()
        {
            frame.lines.push(Line { function: profile.strings.intern(&name), file: None, line: 0 });
        }
    }
    processes
}

/// By process, in the order of processes: the frames in no module that its sites have.
fn frames_without_module(profile: &Profile) -> Vec<(ProcessId, Vec<FrameId>)> {
    let mut by_process: FxHashMap<ProcessId, FxHashSet<FrameId>> = FxHashMap::default();
    let mut seen = FxHashSet::default();
    for site in &profile.sites {
        let mut stack = site.stack;
        // Callers that this process was seen with are done.
        while seen.insert((site.process, stack)) {
            let Some((id, caller)) = profile.stacks.top(stack) else { break };
            if profile.frames.get(id.0 as usize).is_some_and(|frame| frame.module.is_none()) {
                by_process.entry(site.process).or_default().insert(id);
            }
            stack = caller;
        }
    }
    let sorted = |frames: FxHashSet<FrameId>| {
        let mut frames: Vec<_> = frames.into_iter().collect();
        frames.sort_unstable();
        frames
    };
    let mut all: Vec<_> = by_process.into_iter().map(|(process, frames)| (process, sorted(frames))).collect();
    all.sort_unstable_by_key(|(process, _)| *process);
    all
}
