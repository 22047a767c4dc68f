//! Flags that say where names are.

use std::path::PathBuf;

use clap::Args;

/// Files to read names from.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Names")]
pub struct NameFlags {
    /// File to read names from
    ///
    /// For files that are not where they were: a build with symbols, a copy from another machine. A directory means all
    /// files below it. A file serves the module with its build-id, and one of its name where a profile has no build-id.
    /// May be given several times. Default: recorded paths alone. Example: --binary build/server.
    #[arg(long, value_name = "FILE|DIR")]
    pub binary: Vec<PathBuf>,
    /// Directory to find recorded paths below
    ///
    /// The root directory of another system: an unpacked image, a mounted disk. Files of other builds are not used.
    /// Default: this system. Example: --symfs /mnt/image.
    #[arg(long, value_name = "DIR")]
    pub symfs: Option<PathBuf>,
}
