//! `mallow rss`: what the memory of a process consists of, and what would make it smaller.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use mallow_profile::Profile;
use mallow_report::analysis::{PageMap, RssMoment, page_map, rss, shown_footprint};

use super::rss_text::{cause, text};
use crate::flags::RssFlags;
use crate::input::processes;
use crate::input::recording::Recording;
use crate::output::destination::Destination;
use crate::output::picture::{self, heap_map};
use crate::output::text::Stream;
use crate::output::{exit, stdio};

const UNNAMED: &str = "the recording names no process of this memory";

pub fn run(flags: &RssFlags) -> Result<ExitCode> {
    let path = Recording::path_or_newest(flags.file.as_deref())?;
    stdio::print(&show(&path, flags, Stream::Out)?)?;
    Ok(exit::OK)
}

/// The text, or the JSON, of the recording at this path. Nothing where a picture is written.
pub fn show(path: &Path, flags: &RssFlags, stream: Stream) -> Result<String> {
    let recording = Recording::read_with(path, &flags.names)?;
    if flags.view.json {
        return document(flags, &recording);
    }
    let profile = &recording.profile;
    let index = footprint(&recording, flags)?;
    let heap = recording.heap_map(index)?;
    let heading = recording.heading(&flags.view.look(stream));
    let limit = flags.view.limit(super::rss_text::PLACES);
    let report = rss(profile, index, heap.as_ref(), limit).context(UNNAMED)?;
    if let Some(output) = &flags.output {
        let (Some(heap), Some(footprint)) = (&heap, profile.footprints.get(index)) else {
            bail!("{}", without_pages(report.account.no_pages.as_deref()));
        };
        let map = page_map(profile, footprint, heap, heap_map::CELLS);
        let picture = heap_map::draw(&report, &map, cause(&report).as_deref());
        Destination::of(Some(output), recording.path(), "").write(&picture, picture::MARK)?;
        recording.warn_of_gaps();
        return Ok(String::new());
    }
    let other = Some(&flags.at).filter(|at| matches!(at.of(profile.duration_ms), Ok(RssMoment::Ms(_))));
    let text = text(&report, other.map(|at| at.text.as_str()), flags.view.limit.is_some(), &heading.below);
    Ok(heading.above(&text))
}

pub fn document(flags: &RssFlags, recording: &Recording) -> Result<String> {
    let index = footprint(recording, flags)?;
    let heap = recording.heap_map(index)?;
    let report = rss(&recording.profile, index, heap.as_ref(), flags.view.limit(usize::MAX));
    recording.json(&report.context(UNNAMED)?)
}

/// The map of the pages that the flags name. Fails where the recording has no pages of them.
pub fn map(flags: &RssFlags, recording: &Recording, cells: u64) -> Result<PageMap> {
    let profile = &recording.profile;
    let index = footprint(recording, flags)?;
    let (Some(heap), Some(footprint)) = (recording.heap_map(index)?, profile.footprints.get(index)) else {
        let why = rss(profile, index, None, 0).and_then(|report| report.account.no_pages);
        bail!("{}", without_pages(why.as_deref()));
    };
    Ok(page_map(profile, footprint, &heap, cells))
}

fn without_pages(why: Option<&str>) -> String {
    let why = why.unwrap_or("they were not read");
    format!("there is no map of this process, because its pages are not in the recording: {why}")
}

/// The footprint that the flags name.
fn footprint(recording: &Recording, flags: &RssFlags) -> Result<usize> {
    let profile = &recording.profile;
    if profile.footprints.is_empty() {
        if profile.processes.is_empty() && profile.origin.is_none() {
            bail!(
                "this recording has no memory of processes: it is read of those that allocate, and none did that Mallow saw"
            );
        }
        bail!(
            "this {} has no memory of processes: it was recorded with --no-rss or by another tool, is a part or a sum of recordings, \
             or the processes ended too soon; record it with mallow rss -- COMMAND",
            recording.kind()
        );
    }
    let at = flags.at.of(profile.duration_ms)?;
    let process = flags.process.as_deref().map(|wanted| process(profile, wanted)).transpose()?;
    shown_footprint(profile, process, at).context("the memory of this process was not read")
}

/// The number of the process that is meant: of several, the one with the highest RSS.
fn process(profile: &Profile, wanted: &str) -> Result<u32> {
    let meant = processes::find(profile, wanted)?;
    let of_wanted = profile.footprints.iter().filter(|footprint| meant.contains(&footprint.process.0));
    if let Some(footprint) = of_wanted.max_by_key(|footprint| footprint.totals.rss) {
        return Ok(footprint.process.0);
    }
    let mut pids: Vec<String> = Vec::new();
    for footprint in &profile.footprints {
        let pid = profile.processes.get(footprint.process.0 as usize).map(|process| process.pid.to_string());
        pids.extend(pid.filter(|pid| pids.last() != Some(pid)));
    }
    bail!("--process {wanted}: the memory of no such process was read; there is {}", pids.join(", "))
}
