//! `mallow run`: becomes a command that `mallow watch` can join.

use std::process::ExitCode;

use anyhow::Result;
use mallow_capture::rundir::directory::Mode;
use mallow_capture::session;

use super::exit_status;
use crate::flags::RunFlags;

/// Returns only where the command could not be executed.
pub fn run(flags: &RunFlags) -> Result<ExitCode> {
    let mode = if flags.sample { Mode::Sample } else { Mode::Dormant };
    exit_status::after_failure(session::become_sampled(&flags.run.command, mode, flags.period), false)
}
