//! Flags of `export` and `merge`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::views::{By, SourceFlags};

/// Flags of `export`.
#[derive(Debug, Args)]
pub struct ExportFlags {
    /// What to write
    #[arg(long, value_enum)]
    pub format: ExportFormat,
    /// Write to FILE, packed where its name ends with .gz or .zst [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// For folded, which holds one measure: this one [default: allocations, or the first that another tool's file tells]
    #[arg(long, value_enum)]
    pub by: Option<By>,
    /// For csv and parquet: a row for each of these
    #[arg(long, value_enum, default_value_t = Table::Sites)]
    pub table: Table,
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
    /// For heaptrack_gui and heaptrack_print; of one process
    Heaptrack,
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
    /// Recordings and other tools' profiles, in any mixture
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write the sum to FILE, a pprof profile that all views read; - is standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
}
