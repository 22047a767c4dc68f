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
    /// Packages to analyse, in the Go tool's syntax
    ///
    /// Those of the module in the current directory. Example: mallow go escape ./... for all.
    #[arg(value_name = "PACKAGES", default_value = ".")]
    pub packages: Vec<String>,
    /// Profile to rank the lines by
    ///
    /// A heap profile of pprof, or any format that has numbers by line: the lines that cost most come first. Default:
    /// in the order of the sources. Example: --profile heap.pb.gz.
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Show only what is new since a revision
    ///
    /// A revision of git. Its files are checked out in a temporary directory; your working tree stays as it is.
    /// Default: everything is shown. Example: --diff main.
    #[arg(long, value_name = "REV", conflicts_with = "base")]
    pub diff: Option<String>,
    /// Show only what is new since FILE
    ///
    /// FILE is what --json wrote before. Default: everything is shown. Example: --base before.json.
    #[arg(long, value_name = "FILE")]
    pub base: Option<PathBuf>,
    /// Fail if something new escapes
    ///
    /// For CI: exits with status 3. Needs --diff or --base. Default: status 0.
    #[arg(long)]
    pub fail_on_new: bool,
    /// Show each path to the heap
    ///
    /// Each step from the value to the heap, and a suggestion where there is one. What is new always has them.
    /// Default: one line for each.
    #[arg(short, long)]
    pub verbose: bool,
    /// SARIF file to write
    ///
    /// For code scanning, in version 2.1.0: what is new where something is compared, else everything. Default:
    /// nothing is written. Example: --sarif escapes.sarif.
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,
    /// Flags for the Go tool.
    #[command(flatten)]
    pub tool: GoToolFlags,
    /// How it looks.
    #[command(flatten)]
    pub view: ViewFlags,
}
