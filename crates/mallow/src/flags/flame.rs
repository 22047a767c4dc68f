//! Flags of `flame`.

use std::path::PathBuf;

use clap::Args;

use super::base::BaseFlags;
use super::threshold::LeastFlags;
use super::views::{By, SourceFlags};

/// Flags of `flame`.
#[derive(Debug, Args)]
pub struct FlameFlags {
    /// Write the picture to FILE; -: to standard output [default: NAME-MEASURE.svg, for the recording NAME.mallow]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Make boxes as wide as this says [default: allocations, or the first that another tool's file tells]
    #[arg(long, value_enum)]
    pub by: Option<By>,
    /// Begin with the functions that allocate; below each are those that called it
    #[arg(long)]
    pub callers: bool,
    /// Show each call: of allocating functions and containers, of functions without a name, and of functions by themselves
    #[arg(long)]
    pub raw: bool,
    /// What to show.
    #[command(flatten)]
    pub source: SourceFlags,
    /// What is worth a row.
    #[command(flatten)]
    pub least: LeastFlags,
    /// What it is compared with.
    #[command(flatten)]
    pub base: BaseFlags,
}
