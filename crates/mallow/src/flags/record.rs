//! Flags of `record` and `recover`.

use std::path::PathBuf;

use clap::Args;

use super::attach::AttachFlags;
use super::program::RecordedCommandFlags;
use super::regions::RegionFlags;
use super::views::ViewFlags;

/// Flags of `record`.
#[derive(Debug, Args)]
pub struct RecordFlags {
    /// Recording to write
    ///
    /// Default: COMMAND.mallow in the current directory; the latest recording replaces the one before. Example: -o
    /// before.mallow.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Frames to keep of each stack
    ///
    /// The innermost ones are kept: those nearest to the allocation. Deeper stacks cost time in the target. 1 to
    /// 4096.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub max_depth: u32,
    /// Record only the command's own process
    ///
    /// Processes that it starts are not recorded. Default: all of them are, through fork, posix_spawn and exec.
    #[arg(long)]
    pub no_children: bool,
    /// Do not look for lost blocks at exit
    ///
    /// Default: each process waits at its exit while mallow reads its memory, and leaks are divided into lost blocks,
    /// to which nothing points, and reachable ones. The command is let go after a second and a tenth of the run's time,
    /// and so are all other processes in sum. Forked children and sandboxed processes do not wait.
    #[arg(long, conflicts_with = "scan_all")]
    pub no_scan: bool,
    /// Look for lost blocks in every process
    ///
    /// In forked children, too, and without a limit of the time that exits take. Default: see --no-scan. Example:
    /// mallow record
    /// --scan-all ./server.
    #[arg(long)]
    pub scan_all: bool,
    /// Do not read the kernel's account of memory
    ///
    /// Default: mallow reads the mappings and pages of each process at each new maximum of its RSS, for at most 1 % of
    /// the process's time, and once more while it waits at its exit. mallow report and mallow timeline show RSS beside
    /// live bytes.
    #[arg(long)]
    pub no_rss: bool,
    /// Leave arguments of command lines out
    ///
    /// They may hold passwords. Of each process, its command line's first word is kept, in the recording and in what an
    /// interrupted mallow leaves. Default: arguments are in it, as processes show them at their end. Example: mallow
    /// record --no-arguments mysql
    /// -psecret.
    #[arg(long)]
    pub no_arguments: bool,
    /// Make the recording self-contained
    ///
    /// Puts names and sources into it, as mallow pack does, so that it can be read on another machine. Default: names
    /// are looked up when it is shown.
    #[arg(long)]
    pub embed_symbols: bool,
    /// Leave source files out
    ///
    /// Of what --embed-symbols puts into the recording. Default: the sources of functions on recorded stacks are in
    /// it.
    #[arg(long, requires = "embed_symbols")]
    pub no_sources: bool,
    /// Exit with 125 if writing fails
    ///
    /// If mallow cannot write its own output, as on a full disk. Default: one line on standard error, and the
    /// command's own status.
    #[arg(long)]
    pub fail_on_write_error: bool,
    /// Print no report at the end
    ///
    /// For scripts that read the recording later. Default: the report goes to standard error when the command ends.
    #[arg(long)]
    pub no_report: bool,
    /// Record until all processes have ended
    ///
    /// For programs that become daemons. Default: until the command has ended.
    #[arg(long)]
    pub wait: bool,
    /// Print all lists and insights
    ///
    /// As mallow report --all. Default: what fits on the terminal, or 24 rows elsewhere.
    #[arg(long)]
    pub all: bool,
    /// How to show the report.
    #[command(flatten)]
    pub view: ViewFlags,
    /// How regions run.
    #[command(flatten)]
    pub regions: RegionFlags,
    /// What to attach to.
    #[command(flatten)]
    pub attach: AttachFlags,
    /// What to run.
    #[command(flatten)]
    pub run: RecordedCommandFlags,
}

/// Flags of `recover`.
#[derive(Debug, Args)]
pub struct RecoverFlags {
    /// Recording to write
    ///
    /// Default: recovered.mallow in the current directory. Example: -o crash.mallow.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print all lists and insights
    ///
    /// As mallow report --all. Default: what fits on the terminal, or 24 rows elsewhere.
    #[arg(long)]
    pub all: bool,
    /// How to show the report.
    #[command(flatten)]
    pub view: ViewFlags,
    /// Run directory to recover
    ///
    /// A directory that an interrupted mallow left behind. Default: list those that exist. Example: mallow recover
    /// /dev/shm/mallow-0004711-c0ffee.
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}
