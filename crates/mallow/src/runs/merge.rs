//! `mallow merge`: recordings and profiles of other tools, added up.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use mallow_formats::pprof;
use mallow_profile::{Profile, Quantities, Quantity};
use mallow_report::analysis::sampled::Estimate;
use mallow_report::analysis::{Measure, Merged, Merger, total_estimates};

use crate::flags::MergeFlags;
use crate::input::coverage;
use crate::input::recording::Recording;
use crate::output::destination;
use crate::output::text::Look;
use crate::output::text::estimates::estimated_bytes;
use crate::output::text::gaps::INCOMPLETE;
use crate::output::text::units::{bytes, of, processes_in_images};
use crate::output::{exit, stdio};

/// Whether two paths lead to one file, by name, or by device and inode.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    one == other || identity(one).is_some_and(|identity_of_one| Some(identity_of_one) == identity(other))
}

/// Writes the sum, and says what it is not.
pub fn run(flags: &MergeFlags) -> Result<ExitCode> {
    destination::may_be_written(&flags.output)?;
    for (at, path) in flags.files.iter().enumerate() {
        match flags.files[..at].iter().find(|before| is_same_file(before, path)) {
            Some(before) if before == path => bail!("{} is named twice: it would count twice", path.display()),
            Some(before) => {
                bail!("{} and {} are one file: it would count twice", before.display(), path.display())
            }
            None => {}
        }
    }
    let mut merger = Merger::default();
    let mut lacks = Vec::new();
    for path in &flags.files {
        let recording = Recording::read(path)?;
        let name = path.display().to_string();
        for sentence in recording.incomplete() {
            let sentence = format!("{name}: {sentence}");
            stdio::notify(&format!("{INCOMPLETE}{sentence}"));
            lacks.push(sentence);
        }
        for inside in sources(&recording.profile).filter(|inside| flags.files.iter().any(|file| file == inside)) {
            stdio::notify(&format!("{} is in {name} already, and counts twice", inside.display()));
        }
        merger.add(&name, &recording.profile);
    }
    let Merged { mut profile, peak_of, left_out, some_have } = merger.finish();
    profile.unrecorded = lacks;
    if !Measure::ALL.iter().any(|measure| profile.has(measure.quantity())) {
        bail!("no measure is in all of these files: {}", lacking(&left_out));
    }
    if !left_out.is_empty() {
        stdio::notify(&format!("left out: {}", lacking(&left_out)));
    }
    destination::stream(Some(&flags.output), Some("pprof"), |out| Ok(pprof::write(&profile, out)?))?;
    // What is missing in some files was reported already.
    let carried = left_out.iter().fold(Quantities::of(&pprof::carries()), |all, (quantity, _)| all.with(*quantity));
    let lost = coverage::lost(|quantity| some_have.has(quantity), carried);
    if !lost.is_empty() {
        stdio::notify(&format!("a sum does not carry: {}", lost.join(", ")));
    }
    if let Some(name) = peak_of {
        let peak = bytes(profile.totals.peak_bytes, false);
        stdio::notify(&format!(
            "the peak is that of {name}, {peak}, the highest: peaks of different runs do not add up"
        ));
    }
    let live = total_estimates(&profile).and_then(|estimates| estimates.live_bytes);
    if let Some(live) = live.filter(Estimate::enough) {
        stdio::notify(&format!("live in all of them: {}", estimated_bytes(&live, &Look::default())));
    }
    stdio::notify(&format!(
        "added up {}: {}",
        of(flags.files.len() as u64, "file"),
        processes_in_images(profile.processes_in_all(), profile.processes.len())
    ));
    Ok(exit::OK)
}

/// The files that were merged into it.
fn sources(profile: &Profile) -> impl Iterator<Item = &Path> {
    let all: BTreeSet<_> = profile.processes.iter().map(|process| process.source.as_str()).collect();
    all.into_iter().filter(|source| !source.is_empty()).map(Path::new)
}

/// `live blocks, live bytes (missing in heap.txt); frees (missing in b.pb.gz)`
fn lacking(left_out: &[(Quantity, String)]) -> String {
    let mut files: Vec<(&str, Vec<String>)> = Vec::new();
    for (quantity, file) in left_out {
        match files.iter_mut().find(|(known, _)| known == file) {
            Some((_, quantities)) => quantities.push(quantity.to_string()),
            None => files.push((file, vec![quantity.to_string()])),
        }
    }
    let parts = files.iter().map(|(file, quantities)| format!("{} (missing in {file})", quantities.join(", ")));
    parts.collect::<Vec<_>>().join("; ")
}
