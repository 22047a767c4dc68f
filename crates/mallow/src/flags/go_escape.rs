//! Flags of `mallow go escape`.

use std::path::PathBuf;

use clap::Args;

use super::go_tool::GoToolFlags;
use super::views::ViewFlags;

const ESCAPE_EXIT_CODES: &str = "\
Exit status:
  0  all went well
  1  Mallow failed: go is missing, a package does not compile, a file cannot be read
  2  the command line makes no sense
  3  with --fail-on-new: something is in the heap that was not before";

/// Flags of `go escape`.
#[derive(Debug, Args)]
#[command(after_long_help = ESCAPE_EXIT_CODES)]
pub struct GoEscapeFlags {
    /// The packages, as the Go tool names them
    #[arg(value_name = "PACKAGES", default_value = ".")]
    pub packages: Vec<String>,
    /// Sort by what a heap profile says: a file of pprof, or what another format tells by line
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Show what is in the heap now and was not in this revision of git; its files are looked at beside, and nothing of yours is touched
    #[arg(long, value_name = "REV", conflicts_with = "base")]
    pub diff: Option<String>,
    /// The same, compared with what --json wrote before
    #[arg(long, value_name = "FILE")]
    pub base: Option<PathBuf>,
    /// Exit with status 3 where something is new
    #[arg(long)]
    pub fail_on_new: bool,
    /// Show the way to the heap of each, and what may be done; of what is new it is always shown
    #[arg(short, long)]
    pub verbose: bool,
    /// Write SARIF 2.1.0 to FILE: of what is new where something is compared, else of all
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,
    /// What the Go tool is told.
    #[command(flatten)]
    pub tool: GoToolFlags,
    /// How it looks.
    #[command(flatten)]
    pub view: ViewFlags,
}
