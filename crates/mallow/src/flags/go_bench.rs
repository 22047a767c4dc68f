//! Flags of `mallow go bench`.

use std::path::PathBuf;

use clap::Args;

use super::go_tool::GoToolFlags;
use super::views::ViewFlags;

const BENCH_STATUS: &str = "\
Times are measured in an undisturbed run. Allocations are counted, each of
them, in further runs of each benchmark alone: what some hundred operations
more have allocated, so that set-up does not count.

Exit status:
  0  all went well
  1  a package does not compile, a benchmark failed, or Mallow did
  2  the command line makes no sense";

/// Flags of `go bench`.
#[derive(Debug, Args)]
#[command(after_long_help = BENCH_STATUS)]
pub struct GoBenchFlags {
    /// The packages, as the Go tool names them
    #[arg(value_name = "PACKAGES", default_value = ".")]
    pub packages: Vec<String>,
    /// Write what 1,000 operations of each benchmark allocate to FILE, as pprof: for mallow diff and all other views
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// How the benchmarks are run.
    #[command(flatten)]
    pub run: GoRunFlags,
    /// How it looks.
    #[command(flatten)]
    pub view: ViewFlags,
}

/// Which benchmarks, and how.
#[derive(Clone, Debug, Args)]
pub struct GoRunFlags {
    /// Run the benchmarks that match, as go test -bench does
    #[arg(long, value_name = "REGEX", default_value = ".")]
    pub bench: String,
    /// Measure the time of each benchmark so often, and show the median
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub count: u32,
    /// Measure the time of so many operations (100x), or for so long (2s) [default: 1s]
    #[arg(long, value_name = "N", value_parser = bench_time)]
    pub benchtime: Option<String>,
    /// What the Go tool is told.
    #[command(flatten)]
    pub tool: GoToolFlags,
}

/// `100x`, `2s`, `1m30s`.
fn bench_time(text: &str) -> Result<String, String> {
    let number = |text: &str| text.parse::<u64>().is_ok_and(|n| n > 0);
    let good = match text.strip_suffix('x') {
        Some(times) => number(times),
        None => text.ends_with(['s', 'm', 'h']) && text.starts_with(|c: char| c.is_ascii_digit()),
    };
    if good { Ok(text.to_owned()) } else { Err("say how many operations (100x) or how long (2s)".to_owned()) }
}
/// Flags of `go why`.
#[derive(Debug, Args)]
pub struct GoWhyFlags {
    /// FILE:LINE, or a function: its name, or the end of it (One, (*Buffer).grow, elvis.One)
    #[arg(value_name = "PLACE")]
    pub place: String,
    /// The packages whose benchmarks lead there
    #[arg(value_name = "PACKAGES", default_value = ".")]
    pub packages: Vec<String>,
    /// Run the benchmarks that match, as go test -bench does
    #[arg(long, value_name = "REGEX", default_value = ".", conflicts_with = "profile")]
    pub bench: String,
    /// Run nothing: look into this heap profile, of pprof; http://HOST:PORT/debug/pprof/heap is one too
    #[arg(long, value_name = "FILE|URL")]
    pub profile: Option<PathBuf>,
    /// What it takes to read that.
    #[command(flatten)]
    pub heap: GoHeapFlags,
    /// What the Go tool is told.
    #[command(flatten)]
    pub tool: GoToolFlags,
    /// How it looks.
    #[command(flatten)]
    pub view: ViewFlags,
}

const PROFILE_STATUS: &str = "\
Run it in the directory of the program's module: the compiler is asked about
the sources that are there. A heap profile has one allocation in 512 kB, unless
the program sets runtime.MemProfileRate; numbers are estimates from these.

Exit status:
  0  all went well
  1  the profile cannot be read, is not Go's, or the Go tool failed
  2  the command line makes no sense";

/// Flags of `go profile`.
#[derive(Debug, Args)]
#[command(after_long_help = PROFILE_STATUS)]
pub struct GoProfileFlags {
    /// The heap profile: a file of pprof (go test -memprofile, pprof.WriteHeapProfile), or http://HOST:PORT/debug/pprof/heap
    #[arg(value_name = "FILE|URL")]
    pub profile: PathBuf,
    /// What it takes to read it.
    #[command(flatten)]
    pub heap: GoHeapFlags,
    /// What the Go tool is told.
    #[command(flatten)]
    pub tool: GoToolFlags,
    /// How it looks.
    #[command(flatten)]
    pub view: ViewFlags,
}

/// How a heap profile is read.
#[derive(Debug, Default, Args)]
pub struct GoHeapFlags {
    /// The program that the profile is of [default: where the profile says that it was]
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub binary: Option<PathBuf>,
    /// Show what was live when the profile was taken, in the place of all that was allocated
    #[arg(long, requires = "profile")]
    pub live: bool,
}
