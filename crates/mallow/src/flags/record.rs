//! Flags of `record` and `recover`.

use std::path::PathBuf;

use clap::Args;

use super::program::CommandFlags;
use super::regions::RegionFlags;
use super::views::ViewFlags;

/// Flags of `record`.
#[derive(Debug, Args)]
pub struct RecordFlags {
    /// Write the recording to FILE [default: COMMAND.mallow]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Keep at most N frames of each stack, those nearest to the allocation
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub max_depth: u32,
    /// Record the command alone, not the processes that it starts
    #[arg(long)]
    pub no_children: bool,
    /// Put names and sources into the recording, as pack does
    #[arg(long)]
    pub embed_symbols: bool,
    /// With --embed-symbols: leave source files out
    #[arg(long, requires = "embed_symbols")]
    pub no_sources: bool,
    /// Exit with 125 if mallow cannot write its own output
    #[arg(long)]
    pub fail_on_write_error: bool,
    /// Show no report at the end
    #[arg(long)]
    pub no_report: bool,
    /// Go on until all processes have ended, not the command alone
    #[arg(long)]
    pub wait: bool,
    /// How to show the report.
    #[command(flatten)]
    pub view: ViewFlags,
    /// How regions run.
    #[command(flatten)]
    pub regions: RegionFlags,
    /// What to run.
    #[command(flatten)]
    pub run: CommandFlags,
}

/// Flags of `recover`.
#[derive(Debug, Args)]
pub struct RecoverFlags {
    /// Write the recording to FILE [default: recovered.mallow]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// How to show the report.
    #[command(flatten)]
    pub view: ViewFlags,
    /// The run directory that was left behind [default: list those that there are]
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}
