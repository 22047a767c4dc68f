//! Flags of `pack`.

use std::path::PathBuf;

use clap::Args;

/// Flags of `pack`.
#[derive(Debug, Args)]
pub struct PackFlags {
    /// Write to FILE, and leave the recording as it is
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Leave source files out; a recording that has some loses them
    #[arg(long)]
    pub no_sources: bool,
    /// Look for source files below DIR too, by the longest end of their paths
    #[arg(long, value_name = "DIR")]
    pub source_dir: Vec<PathBuf>,
    /// The recording
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}
