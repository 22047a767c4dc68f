//! Flags of `timeline`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mallow_report::analysis::{HeapMoment, Over, POINTS_MAX};

use super::filters::TimeSpan;
use super::moment::At;
use super::views::RowFlags;

/// Flags of `timeline`.
#[derive(Debug, Args)]
pub struct TimelineFlags {
    /// Picture to write
    ///
    /// An SVG file for a browser or a printer; - is standard output. Default: a chart in the terminal. Example: -o
    /// heap.svg.
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    pub output: Option<PathBuf>,
    /// Quantity to show over time
    ///
    /// Each point has the most that was live within its time, so the highest point is the peak.
    #[arg(long, value_enum, default_value_t = OverTime::LiveBytes)]
    pub by: OverTime,
    /// Part of the recording to enlarge
    ///
    /// From the first moment up to the second, with a unit (ms, s, m, h) or in percent of the recording. Either end may
    /// be missing. Default: all of it. Example: --zoom 1.5s..2s.
    #[arg(long, value_name = "FROM..TO")]
    pub zoom: Option<TimeSpan>,
    /// Most points to divide the time into
    ///
    /// 1 to 2000. Default: the columns of the terminal; 500 in JSON and pictures. Example: --points 200.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=POINTS_MAX as i64))]
    pub points: Option<u16>,
    /// Show the heap at one moment
    ///
    /// What was live then, by function: a time with a unit, a percentage of the recording, peak or end. Default: the
    /// heap over time. Example: --at 950ms, --at peak.
    #[arg(long, value_name = "TIME", conflicts_with_all = ["output", "by", "zoom", "points"])]
    pub at: Option<At<HeapMoment>>,
    /// What to show, and how.
    #[command(flatten)]
    pub rows: RowFlags,
}

/// What is shown over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OverTime {
    /// Bytes that were live
    LiveBytes,
    /// Blocks that were live
    Live,
    /// Allocations a second
    Allocations,
}

impl From<OverTime> for Over {
    fn from(by: OverTime) -> Self {
        match by {
            OverTime::LiveBytes => Self::LiveBytes,
            OverTime::Live => Self::Live,
            OverTime::Allocations => Self::Allocations,
        }
    }
}
