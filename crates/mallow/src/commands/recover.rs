//! `mallow recover`.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::flags::RecoverFlags;

/// Refuses: this build cannot do it.
pub fn run(_flags: &RecoverFlags) -> Result<ExitCode> {
    bail!("recover is not part of this build; use a later one")
}
