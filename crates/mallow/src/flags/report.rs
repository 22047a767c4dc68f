//! Flags of `report`, `top` and `leaks`.

use std::path::PathBuf;

use clap::Args;

use super::base::BaseFlags;
use super::views::{By, RowFlags};

/// Flags of `report`.
#[derive(Debug, Args)]
pub struct ReportFlags {
    /// Show the whole stack of the largest site of each place
    #[arg(long)]
    pub stacks: bool,
    /// What to show, and how.
    #[command(flatten)]
    pub rows: RowFlags,
}

/// Flags of `top`.
#[derive(Debug, Args)]
pub struct TopFlags {
    /// Sort and measure by this [default: allocations, or the first that another tool's file tells]
    #[arg(long, value_enum)]
    pub by: Option<By>,
    /// Sort by what a function and all that it called allocated
    #[arg(long)]
    pub cum: bool,
    /// Show allocating functions and containers as functions of their own, not as part of their callers
    #[arg(long)]
    pub raw: bool,
    /// What to show, and how.
    #[command(flatten)]
    pub rows: RowFlags,
    /// What it is compared with.
    #[command(flatten)]
    pub base: BaseFlags,
}

/// Flags of `leaks`.
#[derive(Debug, Args)]
pub struct LeaksFlags {
    /// Leave out what the patterns of FILE match; the format is LeakSanitizer's
    #[arg(long, value_name = "FILE")]
    pub suppressions: Option<PathBuf>,
    /// Exit with status 3 where something is reported
    #[arg(long)]
    pub fail_on_leak: bool,
    /// Show whole stacks
    #[arg(long)]
    pub stacks: bool,
    /// What to show, and how.
    #[command(flatten)]
    pub rows: RowFlags,
}
