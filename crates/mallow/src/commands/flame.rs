//! `mallow flame`: a flame graph, as a picture for a browser.

use std::process::ExitCode;

use anyhow::{Result, bail};
use mallow_report::analysis::{FlameOptions, Least, flame};

use super::source::Recording;
use super::written::Destination;
use crate::exit;
use crate::flags::{By, FlameFlags};
use crate::picture;
use crate::text::measured;

/// Draws the graph.
pub fn run(flags: &FlameFlags) -> Result<ExitCode> {
    let recording = Recording::open(&flags.source)?;
    let by = recording.measure(flags.by)?;
    let least = flags.least.min.unwrap_or(Least::Amount(0));
    let options = FlameOptions { by, callers: flags.callers, raw: flags.raw, parts: picture::flame::PARTS, least };
    let graph = flame(&recording.profile, options);
    if graph.sites == 0 {
        bail!("there is nothing to draw: {} are 0", measured(by));
    }
    let suffix = format!("{}{}.svg", By::from(by), if flags.callers { "-callers" } else { "" });
    let to = Destination::of(flags.output.as_deref(), recording.path(), &suffix);
    to.write(&picture::flame::draw(&graph, recording.filters.told().as_deref()), picture::MARK)?;
    recording.tell_lacks();
    Ok(exit::OK)
}
