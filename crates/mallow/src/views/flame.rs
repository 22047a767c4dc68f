//! `mallow flame`: a flame graph, as a picture for a browser.

use std::process::ExitCode;

use anyhow::{Result, bail};
use mallow_report::analysis::{Flame, FlameOptions, Least, flame, flame_changes};

use super::changes::Pair;
use crate::flags::{By, FlameFlags};
use crate::input::recording::Recording;
use crate::output::destination::Destination;
use crate::output::exit;
use crate::output::picture;
use crate::output::text::measured;

pub fn run(flags: &FlameFlags) -> Result<ExitCode> {
    let least = flags.least.min.unwrap_or(Least::Amount(0));
    let options = |by| FlameOptions { by, callers: flags.callers, raw: flags.raw, parts: picture::flame::PARTS, least };
    if let Some(before) = &flags.base.base {
        let pair = Pair::open(before, &flags.base, &flags.source, flags.by)?;
        let notes = [Some(pair.describe()), pair.after.filters.describe()].into_iter().flatten().collect::<Vec<_>>();
        write(flags, &flame_changes(&pair.both, options(pair.by)), &pair.after, "-change", Some(notes.join("; ")))?;
        pair.warn_of_gaps();
        return Ok(exit::OK);
    }
    let recording = Recording::open(&flags.source)?;
    let by = recording.measure(flags.by)?;
    write(flags, &flame(&recording.profile, options(by)), &recording, "", recording.filters.describe())?;
    recording.warn_of_gaps();
    Ok(exit::OK)
}

fn write(flags: &FlameFlags, graph: &Flame, of: &Recording, suffix: &str, caption: Option<String>) -> Result<()> {
    if graph.sites == 0 {
        bail!("there is nothing to draw: {} are 0", measured(graph.by));
    }
    let callers = if flags.callers { "-callers" } else { "" };
    let suffix = format!("{}{callers}{suffix}.svg", By::from(graph.by));
    let to = Destination::of(flags.output.as_deref(), of.path(), &suffix);
    to.write(&picture::flame::draw(graph, caption.as_deref()), picture::MARK)
}
