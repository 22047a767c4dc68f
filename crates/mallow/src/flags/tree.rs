//! Flags of `tree`.

use clap::Args;

use super::base::BaseFlags;
use super::views::{By, RowFlags};

/// Flags of `tree`.
#[derive(Debug, Args)]
pub struct TreeFlags {
    /// Measure to sort by and show
    ///
    /// Default: allocations, or the first measure that the profile of another tool has. Example: --by peak.
    #[arg(long, value_enum)]
    pub by: Option<By>,
    /// Start from the functions that allocate
    ///
    /// Below each function stand its callers. Default: from main down to the functions that allocate.
    #[arg(long)]
    pub callers: bool,
    /// Levels of the tree to show
    ///
    /// 1 to 1000. Default: all in text, 60 in JSON. Example: --depth 5.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub depth: Option<u16>,
    /// Show every frame
    ///
    /// Allocating functions, containers, functions without a name and recursion are rows of their own. Default: they
    /// are folded into their callers.
    #[arg(long)]
    pub raw: bool,
    /// What to show, and how.
    #[command(flatten)]
    pub rows: RowFlags,
    /// What it is compared with.
    #[command(flatten)]
    pub base: BaseFlags,
}
