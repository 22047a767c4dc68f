//! Flags of `stat`.

use std::path::PathBuf;

use clap::Args;

use super::program::CommandFlags;
use super::regions::RegionFlags;

/// Flags of `stat`.
#[derive(Debug, Args)]
pub struct StatFlags {
    /// Show each process too
    #[arg(long)]
    pub per_process: bool,
    /// Write JSON
    #[arg(long)]
    pub json: bool,
    /// Write to FILE, not to standard error
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Exit with 125 if mallow cannot write its own output
    #[arg(long)]
    pub fail_on_write_error: bool,
    /// Count nothing, and run the measured regions all the same
    #[arg(short = 'n', long)]
    pub no_hook: bool,
    /// How regions run.
    #[command(flatten)]
    pub regions: RegionFlags,
    /// What to run.
    #[command(flatten)]
    pub run: CommandFlags,
}
