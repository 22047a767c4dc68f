//! Flags that views share: which recording, which part of it, and how it looks.

use std::fmt;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mallow_report::analysis::Measure;

use super::filters::FilterFlags;
use super::threshold::LeastFlags;
use crate::output::text::{Look, Stream};

/// Which recording a view shows.
#[derive(Debug, Args)]
pub struct SourceFlags {
    /// The recording, or a profile of another tool [default: the newest *.mallow here]
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Which part of it.
    #[command(flatten)]
    pub filters: FilterFlags,
}

/// How a view looks.
#[derive(Clone, Debug, Default, Args)]
pub struct ViewFlags {
    /// Write JSON, with exact numbers
    #[arg(long)]
    pub json: bool,
    /// Show at most N entries of each list; 0: all [default: one screen; all in JSON, 20 for report]
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Show bytes to the last digit
    #[arg(long)]
    pub exact: bool,
    /// Show names with arguments and templates, and paths with directories
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
    pub least: LeastFlags,
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
    Leaked,
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
            By::Leaked => Self::Leaked,
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
            Measure::Leaked => Self::Leaked,
            Measure::Temporary => Self::Temporary,
        }
    }
}
