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
  MAX_ALLOCS_ALLOWED_NAME=N  overrides all limits of NAME's total_allocations, and of test_NAME's";

/// Flags of `test`.
#[derive(Debug, Args)]
#[command(after_long_help = TEST_EXIT_CODES)]
pub struct TestFlags {
    /// Cases to run
    ///
    /// A case runs if its name contains one of the filters. Default: all cases. Example: mallow test parse.
    #[arg(value_name = "FILTER")]
    pub filters: Vec<String>,
    /// File that lists the cases
    ///
    /// Its commands run in its own directory. Example: -f ci/mallow.toml.
    #[arg(short, long, value_name = "FILE", default_value = Self::FILE)]
    pub file: PathBuf,
    /// Baseline to compare with
    ///
    /// Figures and stacks of earlier runs, by platform. Default: the file that the cases' file names, or
    /// mallow.baseline.json beside it. Example: -b /tmp/good.json.
    #[arg(short, long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Write the figures into the baseline
    ///
    /// With the stacks behind them, and with a tolerance where runs disagree. Cases that no longer exist are removed
    /// if all cases ran. Default: the baseline is only read.
    #[arg(long, conflicts_with_all = ["ratchet", "no_hook"])]
    pub update: bool,
    /// Lower the baseline to lower figures
    ///
    /// Figures that are higher than the baseline stay as they are, and fail. Default: the baseline is only read.
    #[arg(long, conflicts_with = "no_hook")]
    pub ratchet: bool,
    /// Take over SwiftNIO's limits and figures
    ///
    /// Thresholds in JSON and MAX_ALLOCS_ALLOWED variables become limits in the cases' file, which is created if it
    /// is missing. The output of a run becomes figures in the baseline. Filters choose cases; - is standard input.
    /// Example: --import Thresholds/6.0.json.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["update", "ratchet", "explain", "list", "no_hook", "json", "command"])]
    pub import: Option<PathBuf>,
    /// Show the stacks that changed
    ///
    /// Of cases that passed, too; and where runs disagree, the stacks that differ between the runs with the fewest
    /// and the most allocations. Default: of cases that failed.
    #[arg(long, conflicts_with = "no_hook")]
    pub explain: bool,
    /// Report failures without recording their stacks
    ///
    /// Default: a case that fails is run again with stacks, and compared with those of the baseline.
    #[arg(long, conflicts_with = "explain")]
    pub no_explain: bool,
    /// Measured runs of each case
    ///
    /// The figure of a case is the minimum of its runs. Default: what the case has, or 10 (3 for Go). Example: --runs
    /// 3.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: Option<u32>,
    /// Runs before the measured ones
    ///
    /// Warm-up runs are not counted. Default: what the case has, or 1. Example: --warmup 0.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub warmup: Option<u32>,
    /// Cases to run at the same time
    ///
    /// Counts do not depend on it; timeouts may. Example: -j 4.
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub jobs: u32,
    /// Run everything, count nothing
    ///
    /// So that another tool can look at the same runs. Figures mean nothing then. Default: calls are counted.
    #[arg(short = 'n', long)]
    pub no_hook: bool,
    /// Exit as git bisect run expects
    ///
    /// A commit that improved is good (0), one that cannot be judged is skipped (125). Example: git bisect run sh -c
    /// 'make || exit 125; mallow test --bisect -b /tmp/good.json parse'.
    #[arg(long, conflicts_with_all = ["update", "ratchet", "import"])]
    pub bisect: bool,
    /// List the cases
    ///
    /// Runs none of them. Regions that only a run makes known are one line for their program.
    #[arg(long)]
    pub list: bool,
    /// Print mallow.h
    ///
    /// The header with which C and C++ programs measure regions. No library is needed. Example: mallow test --header
    /// > mallow.h.
    #[arg(long, exclusive = true)]
    pub header: bool,
    /// Write the Swift package for regions
    ///
    /// Into DIR, which is made: the package mallow-measure, with which Swift programs measure regions. SwiftPM takes it
    /// by its path; no sources of mallow are needed. Default: none is written. Example: mallow test --swift-package
    /// Dependencies/mallow-measure.
    #[arg(long, value_name = "DIR", exclusive = true)]
    pub swift_package: Option<PathBuf>,
    /// Show every run and whole stacks
    ///
    /// Each run of each case, and all stacks with all their functions. Default: the minimum of the runs, and the
    /// largest stacks.
    #[arg(short, long)]
    pub verbose: bool,
    /// Write JSON
    ///
    /// For scripts: exact numbers, checks and stacks. Default: text.
    #[arg(long, conflicts_with = "verbose")]
    pub json: bool,
    /// JUnit report to write
    ///
    /// For CI servers: a test for each case. Default: nothing is written. Example: --junit allocations.xml.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
    /// Markdown summary to write
    ///
    /// A table of the cases, and why some failed. Default: nothing is written. Example: --markdown
    /// "$GITHUB_STEP_SUMMARY".
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
    /// SARIF file to write
    ///
    /// For code scanning, in version 2.1.0: failures at the lines that allocate. Default: nothing is written.
    /// Example: --sarif allocations.sarif.
    #[arg(long, value_name = "FILE")]
    pub sarif: Option<PathBuf>,
    /// Print GitHub workflow commands
    ///
    /// So that GitHub shows failures at the lines that allocate. Default: off.
    #[arg(long, conflicts_with = "json")]
    pub github: bool,
    /// Name that keeps figures apart
    ///
    /// Added to the platform in the baseline, for toolchains that allocate differently. Default: the label of the
    /// cases' file, or none. Example: --label gcc-14.
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Command to test instead of the cases
    ///
    /// Its regions are the cases; a command that measures none is one case. No file is needed. Example: mallow test
    /// -- build/tool --version.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

impl TestFlags {
    /// Where the cases are, unless it is said.
    pub const FILE: &str = "mallow.toml";
}
