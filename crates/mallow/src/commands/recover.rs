//! `mallow recover`: a recording of what a killed `mallow record` left behind.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use mallow_capture::recording::Writer;
use mallow_capture::run::recover::recover;

use super::{launched, record};
use crate::flags::RecoverFlags;
use crate::{exit, output};

/// Reads the run directory, writes the recording, and reports.
pub fn run(flags: &RecoverFlags) -> Result<ExitCode> {
    let path = flags.output.clone().unwrap_or_else(|| PathBuf::from("recovered.mallow"));
    let there_before = path.symlink_metadata().is_ok();
    let recorded = match recover(&flags.dir, |options| Writer::create(&path, options)) {
        Ok(recorded) => recorded,
        Err(error) => {
            if !there_before {
                let _ = std::fs::remove_file(&path);
            }
            return Err(error.into());
        }
    };
    launched::warn(&[], recorded.profile.processes.len().max(1), recorded.failed_processes, 0);
    record::finish(recorded, &path, None, Some(&flags.view))?;
    output::say(&format!("{} is no longer needed; rm -r it when the recording is as you want it", flags.dir.display()));
    Ok(exit::OK)
}
