//! Which moment the last live blocks of a profile are of.

use mallow_profile::Profile;
use serde::Serialize;

/// Moment of the last blocks that a profile knows as live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LiveMoment {
    /// The end of the process that has the blocks.
    End,
    /// The end of the recording: the process went on.
    Detached,
    /// The moment at which the profile was taken of a process that ran. massif takes its last snapshot before the end,
    /// too.
    Snapshot,
}

impl LiveMoment {
    pub fn of(profile: &Profile) -> Self {
        const SNAPSHOTS: [&str; 7] =
            ["massif", "pprof", "jemalloc", "gperftools", "php-memprof", "Go text", "mallow watch"];
        match &profile.origin {
            Some(origin) if SNAPSHOTS.contains(&origin.format) => Self::Snapshot,
            _ if profile.processes.iter().any(|process| process.attached) => Self::Detached,
            _ => Self::End,
        }
    }
}
