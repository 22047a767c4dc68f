//! Flags of `stat`.

use std::path::PathBuf;

use clap::Args;

use super::attach::AttachFlags;
use super::program::CountedCommandFlags;
use super::regions::RegionFlags;

/// Flags of `stat`.
#[derive(Debug, Args)]
pub struct StatFlags {
    /// Show each process
    ///
    /// With its own numbers, below the totals. Default: totals of all processes.
    #[arg(long)]
    pub per_process: bool,
    /// Write JSON
    ///
    /// For scripts: exact numbers, under the words of DEFINITIONS. Default: text.
    #[arg(long)]
    pub json: bool,
    /// File to write
    ///
    /// Default: standard error, so that the command's own output stays apart. Example: -o counts.json.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Exit with 125 if writing fails
    ///
    /// If mallow cannot write its own output, as on a full disk. Default: one line on standard error, and the
    /// command's own status.
    #[arg(long)]
    pub fail_on_write_error: bool,
    /// Run measured regions without counting
    ///
    /// So that another tool can look at the same runs. Default: calls are counted.
    #[arg(short = 'n', long)]
    pub no_hook: bool,
    /// How regions run.
    #[command(flatten)]
    pub regions: RegionFlags,
    /// What to attach to.
    #[command(flatten)]
    pub attach: AttachFlags,
    /// What to run.
    #[command(flatten)]
    pub run: CountedCommandFlags,
}
