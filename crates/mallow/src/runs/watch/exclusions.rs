//! What is not to be reported, from files.

use std::path::Path;

use anyhow::{Result, bail};
use mallow_profile::Quantity;
use mallow_report::analysis::{Baseline, Suppressions};

use super::super::guard::errors::Known;
use crate::flags::ExclusionFlags;
use crate::input::recording::Recording;
use crate::views::leaks;

#[derive(Debug, Default)]
pub struct Exclusions {
    pub suppressions: Suppressions,
    pub errors: Known,
    /// Sites of an earlier time, which are left out.
    pub baseline: Option<Baseline>,
}

impl Exclusions {
    pub fn read(flags: &ExclusionFlags) -> Result<Self> {
        let suppressions = flags.suppressions.as_deref().map(leaks::read).transpose()?.unwrap_or_default();
        let errors = flags.suppressions.as_deref().map(Known::read).transpose()?.unwrap_or_default();
        Ok(Self { suppressions, errors, baseline: flags.baseline.as_deref().map(baseline).transpose()? })
    }
}

fn baseline(path: &Path) -> Result<Baseline> {
    let recording = Recording::read(path)?;
    if !recording.profile.has(Quantity::LiveBytes) {
        bail!(
            "{} does not hold what was live; a snapshot of mallow watch does, and so does a recording",
            path.display()
        );
    }
    Ok(Baseline::of(&recording.profile))
}
