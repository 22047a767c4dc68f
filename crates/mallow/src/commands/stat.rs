//! `mallow stat`.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::flags::StatFlags;

/// Refuses: this build cannot do it.
pub fn run(_flags: &StatFlags) -> Result<ExitCode> {
    bail!("stat is not part of this build; use a later one")
}
