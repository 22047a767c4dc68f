//! Flags of `tree`.

use clap::Args;

use super::base::BaseFlags;
use super::views::{By, RowFlags};

/// Flags of `tree`.
#[derive(Debug, Args)]
pub struct TreeFlags {
    /// Sort and measure by this [default: allocations, or the first that another tool's file tells]
    #[arg(long, value_enum)]
    pub by: Option<By>,
    /// Begin with the functions that allocate; below each are those that called it
    #[arg(long)]
    pub callers: bool,
    /// Show at most N rows below one another [default: as many as there are; 60 in JSON]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub depth: Option<u16>,
    /// Show each call: of allocating functions and containers, of functions without a name, and of functions by themselves
    #[arg(long)]
    pub raw: bool,
    /// What to show, and how.
    #[command(flatten)]
    pub rows: RowFlags,
    /// What it is compared with.
    #[command(flatten)]
    pub base: BaseFlags,
}
