//! Flags of `sizes`, `lifetimes` and `threads`.

use clap::{Args, ValueEnum};

use super::views::{SourceFlags, ViewFlags};

/// Flags of `sizes` and `lifetimes`.
#[derive(Debug, Args)]
pub struct HistogramFlags {
    /// Measure that the bars show
    ///
    /// Each row has both numbers. Example: --by bytes shows which sizes make up most of the memory.
    #[arg(long, value_enum, default_value_t = BlocksBy::Blocks)]
    pub by: BlocksBy,
    /// Write JSON
    ///
    /// For scripts: exact numbers, under the words of DEFINITIONS. Default: text.
    #[arg(long)]
    pub json: bool,
    /// Show bytes to the last digit
    ///
    /// Default: three digits and a unit, powers of 1000. Example: 1,234,567 B instead of 1.23 MB.
    #[arg(long)]
    pub exact: bool,
    /// What to show.
    #[command(flatten)]
    pub source: SourceFlags,
}

impl HistogramFlags {
    /// As the flags of other views.
    pub fn view(&self) -> ViewFlags {
        ViewFlags { json: self.json, exact: self.exact, ..ViewFlags::default() }
    }
}

/// What bars of histograms show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BlocksBy {
    /// Number of blocks
    #[default]
    Blocks,
    /// Their bytes
    Bytes,
}

/// Flags of `threads`.
#[derive(Debug, Args)]
pub struct ThreadsFlags {
    /// How it looks.
    #[command(flatten)]
    pub view: ViewFlags,
    /// What to show.
    #[command(flatten)]
    pub source: SourceFlags,
}
