//! Flags of `report`, `top` and `leaks`.

use std::path::PathBuf;

use clap::Args;

use super::base::BaseFlags;
use super::views::{By, RowFlags};

/// Flags of `report`.
#[derive(Debug, Args)]
pub struct ReportFlags {
    /// Show all lists and insights
    ///
    /// Lists of 20 places by each measure, all insights, files without names. --limit, --min and --stacks imply it.
    /// Default: what fits on the terminal, or 24 rows elsewhere. Example: mallow report --all > report.txt.
    #[arg(long)]
    pub all: bool,
    /// Show whole stacks
    ///
    /// Of the largest site of each entry. Default: functions alone.
    #[arg(long)]
    pub stacks: bool,
    /// What to show, and how.
    #[command(flatten)]
    pub rows: RowFlags,
}

/// Flags of `top`.
#[derive(Debug, Args)]
pub struct TopFlags {
    /// Measure to sort by and show
    ///
    /// Default: allocations, or the first measure that the profile of another tool has. Example: --by peak.
    #[arg(long, value_enum)]
    pub by: Option<By>,
    /// Sort by the cumulative measure
    ///
    /// By what a function allocates including its callees. Default: by self, excluding callees.
    #[arg(long)]
    pub cum: bool,
    /// Show library frames as functions
    ///
    /// Allocating functions and containers are listed themselves. Default: they are part of their callers.
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
    /// File of leaks to leave out
    ///
    /// In LeakSanitizer's format: a line leak:PATTERN for each, which matches functions, files and modules. What was
    /// left out is one line at the end. Default: nothing is left out. Example: --suppressions known.supp.
    #[arg(long, value_name = "FILE")]
    pub suppressions: Option<PathBuf>,
    /// Show what is suppressed
    ///
    /// With the suppressions that take it: those of the file, and the built-in ones of what interpreters and libraries
    /// keep to their end by design (CPython, perl, ruby, Node.js, the JVM, bash, GLib, fontconfig). Default: what is
    /// reported.
    #[arg(long)]
    pub suppressed: bool,
    /// Report what runtimes keep, too
    ///
    /// Without the built-in suppressions. Default: what an interpreter or a library keeps to its end by design is
    /// suppressed.
    #[arg(long, conflicts_with = "suppressed")]
    pub no_built_in: bool,
    /// Fail if blocks are reported
    ///
    /// For CI: exits with status 3 if a block is reported; with --only lost, with 3 if one is lost, and with 4 if none
    /// is, but a process with live blocks was not scanned. Default: status 0.
    #[arg(long)]
    pub fail_on_leak: bool,
    /// Show only blocks in this state
    ///
    /// mallow record scans the memory of each process at its exit. A lost block is one that nothing points to any more;
    /// a reachable block, the program could still free. Default: lost blocks, and how much else there is; without a
    /// scan, all blocks that were live at the end.
    #[arg(long, value_name = "STATE")]
    pub only: Option<LeakState>,
    /// Show whole stacks
    ///
    /// Default: the innermost functions of each.
    #[arg(long)]
    pub stacks: bool,
    /// What to show, and how.
    #[command(flatten)]
    pub rows: RowFlags,
}

/// What is known of a block that was live at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LeakState {
    /// Nothing points to it.
    Lost,
    /// Something still points to it.
    Reachable,
    /// Its process was not scanned.
    Unscanned,
    /// It was live when its process image called exec, which gives back all memory.
    Exec,
    /// In any state, but for exec.
    All,
}
