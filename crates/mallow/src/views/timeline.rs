//! `mallow timeline`: the heap over time, as text, as a picture, and at one moment.

use std::process::ExitCode;

use anyhow::{Result, bail};
use mallow_profile::Quantity;
use mallow_report::analysis::{HeapAt, HeapAtBuilder, HeapMoment, Timeline, TimelineBuilder, TimelineOptions};

use super::heap_moment;
use super::timeline_text::{self, text};
use crate::flags::{At, TimelineFlags};
use crate::input::recording::Recording;
use crate::output::destination::Destination;
use crate::output::picture;
use crate::output::text::Stream;
use crate::output::text::units::span;
use crate::output::{exit, stdio};

const INSTEAD: &str = "mallow report shows what it has";

pub fn run(flags: &TimelineFlags) -> Result<ExitCode> {
    let recording = Recording::open(&flags.rows.source)?;
    recording.require(Quantity::Events, INSTEAD)?;
    if flags.rows.view.json {
        stdio::print(&document(flags, &recording)?)?;
        return Ok(exit::OK);
    }
    let heading = recording.heading(&flags.rows.view.look(Stream::Out));
    let look = heading.below;
    if let Some(at) = &flags.at {
        let limit = flags.rows.view.limit(look.height.map_or(20, |h| h.saturating_sub(5).max(5)));
        let mut report = heap_at(&recording, at, limit)?;
        if let Some(least) = flags.rows.least.min {
            report.leave_out(least);
        }
        stdio::print(&heading.above(&heap_moment::text(&report, &look, report.places.len() == limit)))?;
        return Ok(exit::OK);
    }
    if let Some(path) = &flags.output {
        let report = timeline(&recording, flags, picture::timeline::POINTS, picture::timeline::BANDS)?;
        let picture = picture::timeline::draw(&report, recording.filters.describe().as_deref());
        Destination::of(Some(path), recording.path(), "").write(&picture, picture::MARK)?;
        recording.warn_of_gaps();
        return Ok(exit::OK);
    }
    let report = timeline(&recording, flags, timeline_text::columns(&look), timeline_text::BANDS)?;
    stdio::print(&heading.above(&text(&report, &look)))?;
    Ok(exit::OK)
}

/// The JSON of a recording: its heap over time, or at one moment.
pub fn document(flags: &TimelineFlags, recording: &Recording) -> Result<String> {
    recording.require(Quantity::Events, INSTEAD)?;
    let Some(at) = &flags.at else { return recording.json(&timeline(recording, flags, 500, 20)?) };
    let mut report = heap_at(recording, at, flags.rows.view.limit(usize::MAX))?;
    if let Some(least) = flags.rows.least.min {
        report.leave_out(least);
    }
    recording.json(&report)
}

/// The timeline, with so many points and bands unless the flags say otherwise.
fn timeline(recording: &Recording, flags: &TimelineFlags, points: usize, bands: usize) -> Result<Timeline> {
    let duration_ms = recording.profile.duration_ms;
    let window = flags.zoom.as_ref().map(|zoom| zoom.of(duration_ms));
    if let (Some(window), Some(zoom)) = (window, &flags.zoom)
        && (window.from > duration_ms || window.to.is_some_and(|to| to <= window.from))
    {
        let took = span(duration_ms);
        bail!("--zoom {}: outside this recording, which took {took}; its clock ticks in milliseconds", zoom.text);
    }
    let options = TimelineOptions {
        by: flags.by.into(),
        window: window.map_or((0, None), |window| (window.from, window.to)),
        points: flags.points.map_or(points, usize::from),
        bands: flags.rows.view.limit(bands),
    };
    let mut builder = TimelineBuilder::new(&recording.profile, options);
    if builder.wants_counting() {
        recording.events_by_clock(|at, _| builder.count(at))?;
        builder.counted();
    }
    recording.events_by_clock(|at, event| builder.event(at, &event))?;
    let mut report = builder.finish();
    if let Some(least) = flags.rows.least.min {
        report.leave_out(least);
    }
    Ok(report)
}

fn heap_at(recording: &Recording, at: &At<HeapMoment>, limit: usize) -> Result<HeapAt> {
    let moment = at.of(recording.profile.duration_ms)?;
    let mut builder = HeapAtBuilder::new(&recording.profile, moment);
    recording.events_by_clock(|at, event| builder.event(at, &event))?;
    Ok(builder.finish(limit))
}
