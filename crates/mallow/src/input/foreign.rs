//! Profiles of other tools, made into what a recording is to views.

use std::fs::File;
use std::path::Path;

use anyhow::Result;
use mallow_capture::recording::Progress;
use mallow_formats::{self as formats, Addresses, Foreign, InputFormat, SampleType};
use mallow_profile::Profile;
use mallow_report::analysis::name_emergency_pool;
use mallow_symbols::{Options, Summary, Symbolizer, adopt, rename};

use crate::output::progress::Bar;
use crate::output::stdio;

/// Reads a profile of another tool, and looks up the names that it lacks. What a person has to know of it is printed
/// on standard error.
pub fn read(path: &Path, options: &Options, chosen: &[SampleType]) -> Result<(Profile, Summary)> {
    let file = File::open(path)?;
    // A pipe has no length, and neither has a file of the kernel's.
    let length = file.metadata().ok().map(|metadata| metadata.len()).filter(|&length| length > 0);
    let waiting = Bar::of("reading");
    let show = &mut |progress: formats::Progress| {
        if let Some(all) = progress.all {
            waiting.show(Progress { done: progress.done, all });
        }
    };
    let Foreign { mut profile, addresses, remarks } = formats::read_chosen(file, length, chosen, show)?;
    drop(waiting);
    for remark in remarks {
        stdio::notify(&remark);
    }
    let mut names = Summary::default();
    if addresses != Addresses::Opaque {
        adopt(&mut profile, addresses == Addresses::FileOffsets, options);
        names = Symbolizer::new(options.clone()).symbolize_all(&mut profile);
    }
    // Go's names are whole.
    let whole = profile.origin.as_ref().is_some_and(|origin| InputFormat::has_go_names(origin.format));
    rename(&mut profile, whole);
    name_emergency_pool(&mut profile);
    formats::trim(&mut profile);
    Ok((profile, names))
}
