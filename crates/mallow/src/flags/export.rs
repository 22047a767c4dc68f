//! Flags of `export` and `merge`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::go_reasons::GoReasonsFlags;
use super::views::{By, SourceFlags};

/// Flags of `export`.
#[derive(Debug, Args)]
pub struct ExportFlags {
    /// Format to write
    ///
    /// What a format cannot hold is reported on standard error.
    #[arg(long, value_enum)]
    pub format: ExportFormat,
    /// File to write
    ///
    /// Compressed if its name ends with .gz or .zst. Default: standard output. Example: -o heap.pb.gz.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Measure to write as folded stacks
    ///
    /// Folded stacks hold one measure, the other formats all that they know. Default: allocations, or the first
    /// measure that the profile of another tool has. Example: --by peak.
    #[arg(long, value_enum)]
    pub by: Option<By>,
    /// Rows of csv and parquet
    ///
    /// Sites have sums; events are every allocation and free, and make large files.
    #[arg(long, value_enum, default_value_t = Table::Sites)]
    pub table: Table,
    /// Leave the source lines out of html
    ///
    /// The page holds the source lines that list shows, as far as the files are found here or in the recording. Other
    /// formats hold none.
    #[arg(long)]
    pub no_sources: bool,
    /// Leave arguments of command lines out
    ///
    /// Of each process, its command line's first word is written. Default: what the format has room for is written.
    #[arg(long)]
    pub no_arguments: bool,
    /// Reasons beside Go lines, in html.
    #[command(flatten)]
    pub reasons: GoReasonsFlags,
    /// What to export.
    #[command(flatten)]
    pub source: SourceFlags,
}

/// A format that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// For go tool pprof, parca, Grafana and others; gzipped
    Pprof,
    /// One stack a line, with a number, for flame graphs
    Folded,
    /// JSON of valgrind's DHAT, for dh_view.html and the Firefox Profiler
    Dhat,
    /// For speedscope.app
    Speedscope,
    /// For profiler.firefox.com
    Firefox,
    /// Allocations by stack, as dtrace's scripts print them; for SwiftNIO's stackdiff
    Dtrace,
    /// For heaptrack_gui and heaptrack_print; of one process
    Heaptrack,
    /// The page of mallow view in one file of at most 3 MB, for any browser
    Html,
    /// A table
    Csv,
    /// A table for DuckDB, Spark, pandas and others
    Parquet,
}

impl ExportFormat {
    /// As the flag has it.
    pub fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
    }

    /// No text: a terminal would show nonsense.
    pub fn is_binary(self) -> bool {
        matches!(self, Self::Pprof | Self::Parquet)
    }
}

/// What a row of a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Table {
    /// Sites: stacks with their sums
    Sites,
    /// Events: each allocation and free, in their order
    Events,
}

/// Flags of `merge`.
#[derive(Debug, Args)]
pub struct MergeFlags {
    /// Recordings, profiles and addresses to add up
    ///
    /// Of any formats that mallow reads, mixed as you like. What one of them lacks is left out of the sum, and
    /// reported. Estimates of watched programs (http://HOST:PORT/debug/pprof/heap) keep their 95 % intervals.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// File to write, as pprof
    ///
    /// Every view reads it, and so does go tool pprof. Compressed; - is standard output. Example: -o week.pb.gz.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}
