//! Flags of `rss`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use mallow_report::analysis::RssMoment;

use super::moment::At;
use super::names::NameFlags;
use super::views::ViewFlags;

/// Flags of `rss`.
#[derive(Debug, Args)]
pub struct RssFlags {
    /// Picture to write
    ///
    /// An SVG file for a browser or a printer: a map of the heap's pages, which are occupied, have holes, or are free;
    /// - is standard output. Default: text. Example: -o rss.svg.
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    pub output: Option<PathBuf>,
    /// Moment to show
    ///
    /// A recording has the pages of each process at its highest RSS and at its end. `highest`, `end`, or a time since
    /// the recording began, with a unit (ms, s, m, h) or in percent, which shows the nearer one of the two. Default:
    /// highest. Example: --at end.
    #[arg(long, value_name = "TIME", default_value = "highest")]
    pub at: At<RssMoment>,
    /// Process to show
    ///
    /// By process id, or by the name of the program: whole, else its beginning, else a regular expression. Default: the
    /// one with the highest RSS. Example: --process worker.
    #[arg(long, value_name = "PID|NAME")]
    pub process: Option<String>,
    /// How it looks.
    #[command(flatten)]
    pub view: ViewFlags,
    /// Recording to show
    ///
    /// One that mallow record made, unless with --no-rss. Default: the newest *.mallow in the current directory.
    #[arg(value_name = "RECORDING", conflicts_with = "command")]
    pub file: Option<PathBuf>,
    /// Command to record first
    ///
    /// Everything after -- belongs to the command, flags too. The recording is COMMAND.mallow, as mallow record makes
    /// it. Default: a recording is shown. Example: mallow rss -- ./program --its-flag.
    #[arg(last = true, value_name = "COMMAND", value_hint = clap::ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
    /// Where its names are.
    #[command(flatten)]
    pub names: NameFlags,
}
