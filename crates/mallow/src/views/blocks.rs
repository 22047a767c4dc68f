//! `mallow sizes`, `mallow lifetimes` and `mallow threads`: blocks one by one, and all three at the end of `report
//! --all`.

use std::process::ExitCode;

use anyhow::Result;
use mallow_profile::Quantity;
use mallow_report::analysis::{Lifetimes, LifetimesBuilder, Sizes, SizesBuilder, Threads, ThreadsBuilder};

use super::histogram;
use super::threads_text;
use crate::flags::{BlocksBy, HistogramFlags, ThreadsFlags};
use crate::input::recording::Recording;
use crate::output::json::JsonDocument;
use crate::output::text::{Look, Stream};
use crate::output::{exit, stdio};

const INSTEAD: &str = "mallow report shows what it has";

pub fn sizes(flags: &HistogramFlags) -> Result<ExitCode> {
    let recording = Recording::open(&flags.source)?;
    let sizes = sizes_of(&recording)?;
    show(&recording, flags, &sizes, |look| histogram::sizes(&sizes, flags.by, look))
}

pub fn sizes_document(recording: &Recording) -> Result<String> {
    recording.json(&sizes_of(recording)?)
}

fn sizes_of(recording: &Recording) -> Result<Sizes> {
    recording.require(Quantity::Events, INSTEAD)?;
    let mut sizes = SizesBuilder::default();
    recording.events_numbered(|_, _, event| sizes.event(&event))?;
    Ok(sizes.finish())
}

pub fn lifetimes(flags: &HistogramFlags) -> Result<ExitCode> {
    let recording = Recording::open(&flags.source)?;
    let lifetimes = lifetimes_of(&recording)?;
    show(&recording, flags, &lifetimes, |look| histogram::lifetimes(&lifetimes, flags.by, look))
}

pub fn lifetimes_document(recording: &Recording) -> Result<String> {
    recording.json(&lifetimes_of(recording)?)
}

fn lifetimes_of(recording: &Recording) -> Result<Lifetimes> {
    recording.require(Quantity::Events, INSTEAD)?;
    let mut lifetimes = LifetimesBuilder::default();
    recording.events_numbered(|number, at, event| lifetimes.event(number, at, &event))?;
    Ok(lifetimes.finish(&recording.profile))
}

fn show(
    recording: &Recording,
    flags: &HistogramFlags,
    report: &impl JsonDocument,
    text: impl FnOnce(&Look) -> String,
) -> Result<ExitCode> {
    if flags.json {
        stdio::print(&recording.json(report)?)?;
        recording.warn_of_gaps();
    } else {
        let heading = recording.heading(&flags.view().look(Stream::Out));
        let text = text(&heading.below);
        stdio::print(&heading.above(&text))?;
    }
    Ok(exit::OK)
}

pub fn threads(flags: &ThreadsFlags) -> Result<ExitCode> {
    let recording = Recording::open(&flags.source)?;
    let view = &flags.view;
    if view.json {
        stdio::print(&threads_document(flags, &recording)?)?;
        recording.warn_of_gaps();
        return Ok(exit::OK);
    }
    let heading = recording.heading(&view.look(Stream::Out));
    let below = heading.below;
    let screen = below.height.map_or(20, |h| (h.saturating_sub(8) / 2).max(3));
    let report = threads_of(&recording, view.limit(screen))?;
    stdio::print(&heading.above(&threads_text::text(&report, &below)))?;
    Ok(exit::OK)
}

pub fn threads_document(flags: &ThreadsFlags, recording: &Recording) -> Result<String> {
    recording.json(&threads_of(recording, flags.view.limit(usize::MAX))?)
}

fn threads_of(recording: &Recording, limit: usize) -> Result<Threads> {
    recording.require(Quantity::Events, INSTEAD)?;
    let mut threads = ThreadsBuilder::new(&recording.profile);
    recording.events_numbered(|number, at, event| threads.event(number, at, &event))?;
    Ok(threads.finish(limit))
}

/// Sizes, lifetimes and threads, for the whole report; empty where there are no events.
pub fn all(recording: &Recording, look: &Look) -> Result<String> {
    /// Limit of threads, and of pairs of them.
    const THREADS: usize = 20;
    let in_a_file = !recording.path().as_os_str().is_empty();
    if !in_a_file || !recording.profile.has(Quantity::Events) || recording.profile.totals.allocations == 0 {
        return Ok(String::new());
    }
    let mut sizes = SizesBuilder::default();
    let mut lifetimes = LifetimesBuilder::default();
    let mut threads = ThreadsBuilder::new(&recording.profile);
    recording.events_numbered(|number, at, event| {
        sizes.event(&event);
        lifetimes.event(number, at, &event);
        threads.event(number, at, &event);
    })?;
    let look = Look { height: None, ..*look };
    let threads = threads_text::text(&threads.finish(THREADS), &look);
    let parts = [
        histogram::sizes(&sizes.finish(), BlocksBy::Blocks, &look),
        histogram::lifetimes(&lifetimes.finish(&recording.profile), BlocksBy::Blocks, &look),
        threads,
    ];
    Ok(parts.map(|part| format!("\n{part}")).concat())
}
