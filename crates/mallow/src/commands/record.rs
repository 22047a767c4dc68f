//! `mallow record`.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::flags::RecordFlags;

/// Refuses: this build cannot do it.
pub fn run(_flags: &RecordFlags) -> Result<ExitCode> {
    bail!("record is not part of this build; use a later one")
}
