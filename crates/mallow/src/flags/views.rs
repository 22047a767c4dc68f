//! Flags that views share: which recording, which part of it, and how it looks.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mallow_report::analysis::Measure;

use super::filters::FilterFlags;
use super::threshold::ThresholdFlags;
use crate::output::text::{Look, Stream};

/// Which recording a view shows.
#[derive(Debug, Args)]
pub struct SourceFlags {
    /// Recording or profile to show
    ///
    /// A recording of mallow, or a file of another tool in any format that mallow reads. Default: the newest *.mallow
    /// in the current directory.
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Which part of it.
    #[command(flatten)]
    pub filters: FilterFlags,
}

/// How a view looks.
#[derive(Clone, Debug, Default, Args)]
pub struct ViewFlags {
    /// Write JSON
    ///
    /// For scripts: exact numbers, under the words of DEFINITIONS. Default: text.
    #[arg(long)]
    pub json: bool,
    /// Most entries of each list
    ///
    /// 0 shows all. Default: what fits on one screen; all in JSON, 20 for report. Example: --limit 50.
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Show bytes to the last digit
    ///
    /// Default: three digits and a unit, powers of 1000. Example: 1,234,567 B instead of 1.23 MB.
    #[arg(long)]
    pub exact: bool,
    /// Show whole names and paths
    ///
    /// Functions with arguments and template arguments, files with directories. Default: short names.
    #[arg(long)]
    pub full_names: bool,
}

impl ViewFlags {
    /// How text is to look on that stream with these flags.
    pub fn look(&self, stream: Stream) -> Look {
        Look { exact: self.exact, full_names: self.full_names, ..Look::of(stream) }
    }

    /// Entries of a list, where one screen has room for `screen`.
    pub fn limit(&self, screen: usize) -> usize {
        match self.limit {
            None => screen,
            Some(0) => usize::MAX,
            Some(n) => n,
        }
    }
}

/// What views of rows share.
#[derive(Debug, Args)]
pub struct RowFlags {
    /// How it looks.
    #[command(flatten)]
    pub view: ViewFlags,
    /// Of what.
    #[command(flatten)]
    pub source: SourceFlags,
    /// What is worth a row.
    #[command(flatten)]
    pub least: ThresholdFlags,
}

/// What `top` sorts by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Number of allocations
    Allocations,
    /// Allocated bytes
    Bytes,
    /// Bytes live at the peak
    Peak,
    /// Bytes live at the end
    Live,
    /// Number of allocations that were freed before their thread allocated again
    Temporary,
}

impl fmt::Display for By {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

impl From<By> for Measure {
    fn from(by: By) -> Self {
        match by {
            By::Allocations => Self::Allocations,
            By::Bytes => Self::Bytes,
            By::Peak => Self::Peak,
            By::Live => Self::Live,
            By::Temporary => Self::Temporary,
        }
    }
}

impl From<Measure> for By {
    fn from(by: Measure) -> Self {
        match by {
            Measure::Allocations => Self::Allocations,
            Measure::Bytes => Self::Bytes,
            Measure::Peak => Self::Peak,
            Measure::Live => Self::Live,
            Measure::Temporary => Self::Temporary,
        }
    }
}
