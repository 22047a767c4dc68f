//! Processes of a command that were not recorded.

use std::ffi::OsString;

use mallow_capture::launch::outsiders::WITHOUT;
use mallow_capture::preflight::{self, Chain};

use crate::output::stdio;
use crate::output::text::units::of;

/// Counts of a command's processes that were recorded, and that were not.
pub struct ObservedProcesses<'a> {
    /// Process images that were seen.
    pub seen: usize,
    /// Process images of the command itself: what it executes in its own place is another one.
    pub command: usize,
    /// Images that could not take part.
    pub failed: u32,
    /// Processes that ran on after the recording.
    pub still_running: u32,
    /// Why programs that the command started were out of sight.
    pub unwatched: &'a [String],
    /// Why the recording ended before the command did.
    pub cut_short: Option<&'a str>,
}

/// The number of unrecorded programs that are named.
const UNWATCHED: usize = 3;

/// Notes that views of a recording repeat: programs without which its numbers are not those of the whole command.
#[derive(Default)]
pub struct Unrecorded {
    /// A sentence each, without a full stop.
    pub missing: Vec<String>,
    /// Why there is no recording at all, and what to do instead.
    pub nothing: Option<String>,
}

/// Reports on standard error what was not recorded, but for the reason why nothing was.
pub fn warn(command: &[OsString], sight: &ObservedProcesses<'_>) -> Unrecorded {
    let (mut missing, mut nothing) = (Vec::new(), None);
    let mut warn_missing = |text: String| {
        stdio::notify(&text);
        missing.push(text);
    };
    let &ObservedProcesses { seen, failed, still_running, .. } = sight;
    let chain = Chain::of(command);
    let mut unwatched = sight.unwatched.to_vec();
    if let Some(why) = sight.cut_short {
        // Who is missing may have come after the cut.
        nothing = (seen == 0).then(|| why.to_owned());
    } else if sight.command < chain.programs().count().max(1) && failed == 0 {
        let program = command.first().map(OsString::as_os_str).unwrap_or_default();
        let name = program.to_string_lossy();
        match (preflight::why(&chain), seen) {
            (Some(why), 0) => nothing = Some(why),
            (Some(why), _) if sight.command > 0 => {
                let last = chain.programs().last().map_or(name, |program| program.to_string_lossy());
                // By the name that it was executed by, or its path: the same program, for the same reason.
                let base = last.rsplit('/').next().unwrap_or(&last).to_owned();
                let rest = why.strip_prefix(&*last).unwrap_or(WITHOUT);
                let name = |reason: &str| reason.strip_suffix(WITHOUT).or(reason.strip_suffix(rest)).map(str::to_owned);
                unwatched.retain(|reason| name(reason).is_none_or(|name| name.rsplit('/').next() != Some(&base)));
                warn_missing(format!("{last} was not recorded, only what led to it: {why}"));
            }
            (Some(why), _) => warn_missing(format!("{name} itself was not recorded, only what it started: {why}")),
            (None, 0) => {
                // It was in sight, and allocated nothing: that is a recording. Where something was out of sight, it may
                // have been that.
                let is_seen = unwatched.is_empty();
                let what = if is_seen { "allocated nothing" } else { "made no allocation that Mallow sees" };
                let why = format!("{name} {what}; what it started without LD_PRELOAD and MALLOW_DIR is not seen");
                if is_seen { stdio::notify(&why) } else { nothing = Some(why) }
            }
            // It allocated nothing, and what it started did.
            (None, _) => {}
        }
    }
    warn_programs(&unwatched, "recorded");
    if failed > 0 {
        let processes = of(failed.into(), "process");
        warn_missing(format!(
            "{processes} went unrecorded for want of memory, file size, descriptors or permission (ulimit -v, -f or -n, a change of user or root directory)"
        ));
    }
    if failed > 0 && seen == 0 {
        nothing = Some("no process of the command could take part".to_owned());
    }
    missing.extend(unwatched.iter().map(|why| started(why, "recorded")));
    if still_running > 0 {
        let processes = of(still_running.into(), "process");
        stdio::notify(&format!("{processes} continued after the recording ended; --wait records until all have ended"));
    }
    Unrecorded { missing, nothing }
}

fn started(why: &str, how: &str) -> String {
    format!("started by the command, and not {how}: {why}")
}

/// Names programs that the command started and that were out of sight. `how`: what they were not.
pub fn warn_programs(unwatched: &[String], how: &str) {
    for why in unwatched.iter().take(UNWATCHED) {
        stdio::notify(&started(why, how));
    }
    if unwatched.len() > UNWATCHED {
        let more = of((unwatched.len() - UNWATCHED) as u64, "program");
        stdio::notify(&format!("and so were {more} more"));
    }
}
