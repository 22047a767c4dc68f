//! The same program in sampling mode, as `mallow run` leaves it: no mallow is beside it.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use crate::{Case, Outcome, directory, mallow, wire};

/// Small enough for every program to have samples.
const PERIOD: &str = "4KiB";

/// A run under `mallow run --sample`.
#[derive(Debug)]
pub struct Sampled {
    /// How it went.
    pub outcome: Outcome,
    /// Process images that made their file.
    pub processes: usize,
    /// Samples that they took.
    pub samples: u64,
}

impl Case {
    /// Runs it under `mallow run --sample`, and removes the run directory that stays.
    ///
    /// # Panics
    /// When something else is left behind.
    pub fn sampled(&self) -> Sampled {
        let directory = directory();
        let options = ["run", "--sample", "--period", PERIOD, "--"].map(OsString::from);
        let mut all: Vec<OsString> = self.around.clone();
        all.push(mallow().into_os_string());
        all.extend(options);
        all.extend(self.command.iter().cloned());
        let outcome = self.prepared(all.iter(), directory.path()).keep_directory().go();
        let mut sampled = Sampled { processes: 0, samples: 0, outcome };
        for left in sampled.outcome.before.new_of(sampled.outcome.pid) {
            for entry in fs::read_dir(&left).into_iter().flatten().flatten() {
                if entry.file_name().as_encoded_bytes().starts_with(b"p-") {
                    sampled.processes += 1;
                    sampled.samples += samples(&entry.path());
                }
            }
            let _ = fs::remove_dir_all(left);
        }
        crate::nothing_left(&format!("mallow run {:?}", self.command), &sampled.outcome);
        sampled
    }
}

/// Samples that the process took whose file this is; 0 where it is none.
pub fn samples(file: &Path) -> u64 {
    begun_and_ended(file).unwrap_or_default().0
}

/// Those of them that are live.
pub fn live_samples(file: &Path) -> u64 {
    let (begun, ended) = begun_and_ended(file).unwrap_or_default();
    begun - ended
}

/// `begun` and `ended` of the file's `struct mallow_sampling`.
fn begun_and_ended(file: &Path) -> Option<(u64, u64)> {
    let bytes = fs::read(file).unwrap_or_default();
    let sampling = usize::try_from(wire::number(&bytes, 0, "process.sampling")?).ok()?;
    Some((wire::number(&bytes, sampling, "sampling.begun")?, wire::number(&bytes, sampling, "sampling.ended")?))
}
