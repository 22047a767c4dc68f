//! Flags of `mallow test`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// Exit codes of `mallow test`, which scripts rely on.
const TEST_EXIT_CODES: &str = "\
A mallow.toml, beside what it builds:
  [[case]]
  name = \"version\"
  command = \"build/tool --version\"

  [[case]]
  command = \"build/allocations\"   # measures regions: see --header
  regions = \"all\"

  [[case]]
  kind = \"go\"                     # benchmarks of Go: each is a case
  packages = \"./...\"

Exit status:
  0  all cases passed
  1  a case regressed
  2  the command line or mallow.toml makes no sense
  3  a case improved beyond its slack: lower the baseline
  4  a case is broken: it could not be judged
Where cases differ, 4 comes before 1, and 1 before 3. With --bisect it is 0 for 3, and 125 for 2 and 4.

Environment:
  MAX_ALLOCS_ALLOWED_NAME=N  stands above all limits of NAME's total_allocations, and of test_NAME's";

/// Flags of `test`.
#[derive(Debug, Args)]
#[command(after_long_help = TEST_EXIT_CODES)]
pub struct TestFlags {
    /// Run the cases whose names contain one of these; all where there is none
    #[arg(value_name = "FILTER")]
    pub filters: Vec<String>,
    /// Read the cases from FILE
    #[arg(short, long, value_name = "FILE", default_value = Self::FILE)]
    pub file: PathBuf,
    /// Compare with the figures in FILE [default: what the cases' file says, or mallow.baseline.json beside it]
    #[arg(short, long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Write the figures into the baseline, with the stacks behind them and the tolerance that runs need which disagree
    #[arg(long, conflicts_with_all = ["ratchet", "no_hook"])]
    pub update: bool,
    /// Lower the baseline where figures are lower; never raise it
    #[arg(long, conflicts_with = "no_hook")]
    pub ratchet: bool,
    /// Take over what SwiftNIO's tests are held to, of all cases or those of FILTER: thresholds in JSON and
    /// MAX_ALLOCS_ALLOWED variables become limits in the cases' file, which is made where there is none; the lines of a run become
    /// figures in the baseline; - reads standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["update", "ratchet", "explain", "list", "no_hook", "json", "command"])]
    pub import: Option<PathBuf>,
    /// Tell which stacks changed, of cases that passed too; and which ones differ between runs, where runs disagree
    #[arg(long, conflicts_with = "no_hook")]
    pub explain: bool,
    /// Tell of a failure without running the case again with stacks
    #[arg(long, conflicts_with = "explain")]
    pub no_explain: bool,
    /// Measure each case N times [default: what the cases say, or 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: Option<u32>,
    /// Run each case N times before that [default: what the cases say, or 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub warmup: Option<u32>,
    /// Run N cases side by side
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: u32,
    /// Run everything and count nothing, so that another tool can look
    #[arg(short = 'n', long)]
    pub no_hook: bool,
    /// Exit as `git bisect run` wants it: a commit that improved is good, and one that cannot be judged is passed over
    #[arg(long, conflicts_with_all = ["update", "ratchet", "import"])]
    pub bisect: bool,
    /// Name the cases and end
    #[arg(long)]
    pub list: bool,
    /// Print mallow.h, with which programs measure regions
    #[arg(long, exclusive = true)]
    pub header: bool,
    /// Print every run of each case too, and stacks as they are: all of them, with all functions
    #[arg(short, long)]
    pub verbose: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "verbose")]
    pub json: bool,
    /// Write a JUnit report to FILE
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Write a summary in Markdown to FILE
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// Write SARIF 2.1.0 to FILE
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,
    /// Print GitHub's workflow commands too, which show failures at their lines
    #[arg(long, conflicts_with = "json")]
    pub github: bool,
    /// Keep the baseline's figures under this name besides the platform's, for toolchains that differ
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Test this command, in the place of the file's cases
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl TestFlags {
    /// Where the cases are, unless it is said.
    pub const FILE: &str = "mallow.toml";
}
