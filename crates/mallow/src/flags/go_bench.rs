//! Flags of `mallow go bench`.

use std::path::PathBuf;

use clap::Args;

use super::go_tool::GoToolFlags;
use super::views::ViewFlags;

const BENCH_STATUS: &str = "\
Times, B/op and allocs/op are those of undisturbed runs. Allocations are
counted, each of them, in further runs of each benchmark alone, one with few
operations and one with up to 20,000: what the second allocates more, so that
set-up does not count. If that does not explain B/op and allocs/op, as of a
cache that is not full yet, as many operations are counted as were timed, or
as fit in three times the time. The number stands beside the benchmark's name.

Exit status:
  0  all went well
  1  a package does not compile, a benchmark failed, or Mallow did
  2  the command line makes no sense";

/// Flags of `go bench`.
#[derive(Debug, Args)]
#[command(after_long_help = BENCH_STATUS)]
pub struct GoBenchFlags {
    /// Packages to run, in the Go tool's syntax
    ///
    /// Those of the module in the current directory. Example: mallow go bench ./... for all.
    #[arg(value_name = "PACKAGES", default_value = ".")]
    pub packages: Vec<String>,
    /// File for the counted allocations, as pprof
    ///
    /// Holds what 1,000 operations of each benchmark allocate, by the mean of those that were counted, for mallow diff
    /// and all other views. Set-up is left out, unless it grows with b.N while the timer runs. Default: nothing is
    /// written. Example: --save before.pb.gz.
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Earlier run to compare with
    ///
    /// What mallow go bench --json wrote. Shows medians with 95 % intervals, changes with the p-value of the
    /// Mann-Whitney U-test, and geometric means, as benchstat does: from 4 runs on a difference can be significant,
    /// from 6 on there are intervals. Default: nothing is compared. Example: --base before.json --count 10.
    #[arg(long, value_name = "FILE")]
    pub base: Option<PathBuf>,
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
    /// Benchmarks to run
    ///
    /// A regular expression, as for go test -bench. Example: -bench 'Decode|Encode'.
    #[arg(long, value_name = "REGEX", default_value = ".")]
    pub bench: String,
    /// Timed runs of each benchmark
    ///
    /// The median of their times is shown. More runs make it steadier; allocations are counted in further runs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub count: u32,
    /// Length of a timed run
    ///
    /// A number of operations (100x), or a time (2s). Default: 1s, as go test has it. Example: -benchtime 100x.
    #[arg(long, value_name = "N", value_parser = bench_time)]
    pub benchtime: Option<String>,
    /// Flags for the Go tool.
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
    if good { Ok(text.to_owned()) } else { Err("give a number of operations (100x) or a time (2s)".to_owned()) }
}
/// Flags of `go why`.
#[derive(Debug, Args)]
pub struct GoWhyFlags {
    /// Source line or function to explain
    ///
    /// FILE:LINE, or a function by its name or the end of it. Example: stream.go:26, One, (*Buffer).grow, elvis.One.
    #[arg(value_name = "PLACE")]
    pub place: String,
    /// Packages whose benchmarks lead there
    ///
    /// As the Go tool names them. Example: ./... for all.
    #[arg(value_name = "PACKAGES", default_value = ".")]
    pub packages: Vec<String>,
    /// Benchmarks to run
    ///
    /// A regular expression, as for go test -bench. Example: -bench Stream.
    #[arg(long, value_name = "REGEX", default_value = ".", conflicts_with = "profile")]
    pub bench: String,
    /// Heap profile to read; runs no benchmark
    ///
    /// A file of pprof, or an address of net/http/pprof. Default: benchmarks are run. Example: --profile
    /// http://localhost:6060/debug/pprof/heap.
    #[arg(long, value_name = "FILE|URL")]
    pub profile: Option<PathBuf>,
    /// What it takes to read that.
    #[command(flatten)]
    pub heap: GoHeapFlags,
    /// Flags for the Go tool.
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
    /// Heap profile to explain
    ///
    /// A file of pprof, as go test -memprofile and pprof.WriteHeapProfile write it, or an address of net/http/pprof.
    /// Example: http://localhost:6060/debug/pprof/heap.
    #[arg(value_name = "FILE|URL")]
    pub profile: PathBuf,
    /// What it takes to read it.
    #[command(flatten)]
    pub heap: GoHeapFlags,
    /// Flags for the Go tool.
    #[command(flatten)]
    pub tool: GoToolFlags,
    /// How it looks.
    #[command(flatten)]
    pub view: ViewFlags,
}

/// How a heap profile is read.
#[derive(Debug, Default, Args)]
pub struct GoHeapFlags {
    /// Program that the profile is of
    ///
    /// Functions and types of the runtime's calls are read from it; it must be the same build. Default: the path that
    /// the profile has. Example: --binary ./server.
    #[arg(long, value_name = "FILE", requires = "profile")]
    pub binary: Option<PathBuf>,
    /// Show live memory instead of all allocations
    ///
    /// What was live at the last garbage collection before the profile was taken. Default: everything that was
    /// allocated since the program started.
    #[arg(long, requires = "profile")]
    pub live: bool,
}
