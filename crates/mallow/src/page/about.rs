//! What the page shows, before any number of it.

use mallow_profile::{Profile, Quantity};
use mallow_report::analysis::{LiveMoment, Measure};
use serde::Serialize;

use crate::flags::By;
use crate::input::coverage::MEASURES;
use crate::input::line_reasons::LineReasons;
use crate::input::recording::Recording;
use crate::input::sides;

/// The recording, and what can be asked of it.
#[derive(Debug, Serialize)]
pub struct About<'a> {
    version: &'static str,
    name: String,
    path: String,
    /// The tool that made the file; None for a recording of mallow's.
    format: Option<&'static str>,
    command: &'a [String],
    started_unix_ms: Option<u64>,
    duration_ms: Option<u64>,
    measures: Vec<String>,
    has_events: bool,
    has_rss: bool,
    processes: Vec<AboutProcess<'a>>,
    threads: usize,
    regions: Vec<AboutRegion<'a>>,
    /// Sentences before any view.
    notices: Vec<String>,
    compared: Option<Compared>,
    /// Its numbers are estimates of samples.
    sampled: bool,
    /// Moment at which the last blocks of the profile were live.
    live_moment: LiveMoment,
    /// The process that is watched; None for a file.
    live: Option<u32>,
    /// A file of reasons beside Go lines, where one is shown.
    go_reasons: Option<AboutReasons<'a>>,
}

#[derive(Debug, Serialize)]
struct AboutReasons<'a> {
    notes: &'a [String],
}

#[derive(Debug, Serialize)]
struct AboutProcess<'a> {
    number: usize,
    pid: u32,
    executable: &'a str,
}

#[derive(Debug, Serialize)]
struct AboutRegion<'a> {
    number: u32,
    name: &'a str,
    run: u32,
    warmup: bool,
}

/// The recording that it is compared with.
#[derive(Debug, Serialize)]
struct Compared {
    name: String,
    path: String,
    measures: Vec<String>,
    /// Its numbers are estimates of samples.
    sampled: bool,
}

impl<'a> About<'a> {
    /// Describes a recording, with the one before it and a file of reasons; or the state of the watched process `live`.
    pub fn of(
        recording: &'a Recording,
        before: Option<&Recording>,
        live: Option<u32>,
        reasons: Option<&'a LineReasons>,
    ) -> Self {
        let profile = &recording.profile;
        let has_times = profile.has(Quantity::Times);
        let process = |(number, process): (usize, &'a mallow_profile::Process)| AboutProcess {
            number,
            pid: process.pid,
            executable: &process.executable,
        };
        let region = |region: &'a mallow_profile::Region| AboutRegion {
            number: region.number,
            name: &region.name,
            run: region.run,
            warmup: region.warmup,
        };
        let (name, path) = named(recording);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            name,
            path,
            format: profile.origin.as_ref().map(|origin| origin.format),
            command: &profile.command,
            started_unix_ms: has_times.then_some(profile.started_unix_ms).filter(|&ms| ms > 0),
            duration_ms: has_times.then_some(profile.duration_ms),
            measures: measures(profile),
            has_events: profile.has(Quantity::Events),
            has_rss: !profile.footprints.is_empty(),
            processes: profile.processes.iter().enumerate().map(process).collect(),
            threads: profile.threads.len(),
            regions: profile.regions.iter().map(region).collect(),
            notices: match before {
                None => recording.notices(),
                Some(before) => sides::notices([before, recording]),
            },
            compared: before.map(|before| {
                let (name, path) = named(before);
                Compared { name, path, measures: measures(&before.profile), sampled: before.profile.is_sampled() }
            }),
            sampled: profile.is_sampled(),
            live_moment: LiveMoment::of(profile),
            live,
            go_reasons: reasons.map(|reasons| AboutReasons { notes: &reasons.notes }),
        }
    }
}

fn measures(profile: &Profile) -> Vec<String> {
    let has = |by: &By| profile.has(Measure::from(*by).quantity());
    MEASURES.into_iter().filter(has).map(|by| by.to_string()).collect()
}

fn named(recording: &Recording) -> (String, String) {
    let path = recording.path();
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    (name, path.display().to_string())
}
