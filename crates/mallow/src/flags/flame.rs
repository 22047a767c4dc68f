//! Flags of `flame`.

use std::path::PathBuf;

use clap::Args;

use super::base::BaseFlags;
use super::threshold::ThresholdFlags;
use super::views::{By, SourceFlags};

/// Flags of `flame`.
#[derive(Debug, Args)]
pub struct FlameFlags {
    /// Picture to write
    ///
    /// An SVG file for a browser; - is standard output. Default: NAME-MEASURE.svg in the current directory, for the
    /// recording NAME.mallow. Example: -o peak.svg.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Measure that the widths show
    ///
    /// Default: allocations, or the first measure that the profile of another tool has. Example: --by peak.
    #[arg(long, value_enum)]
    pub by: Option<By>,
    /// Start from the functions that allocate
    ///
    /// The picture is inverted: callers stand on the functions that allocate. Default: from main up to the functions
    /// that allocate.
    #[arg(long)]
    pub callers: bool,
    /// Show every frame
    ///
    /// Allocating functions, containers, functions without a name and recursion are frames of their own. Default:
    /// they are folded into their callers.
    #[arg(long)]
    pub raw: bool,
    /// What to show.
    #[command(flatten)]
    pub source: SourceFlags,
    /// What is worth a row.
    #[command(flatten)]
    pub least: ThresholdFlags,
    /// What it is compared with.
    #[command(flatten)]
    pub base: BaseFlags,
}
