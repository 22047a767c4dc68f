//! Flags of `pack`.

use std::path::PathBuf;

use clap::Args;

use super::names::NameFlags;

/// Flags of `pack`.
#[derive(Debug, Args)]
pub struct PackFlags {
    /// File to write; keeps the recording unchanged
    ///
    /// Default: the recording itself is replaced. Example: -o packed.mallow.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Leave source files out
    ///
    /// For recordings that leave the house. A recording that has sources loses them. Default: the sources of all
    /// functions on recorded stacks are packed.
    #[arg(long)]
    pub no_sources: bool,
    /// Leave arguments of command lines out
    ///
    /// For recordings that leave the house. Of each process, its command line's first word is kept. Default: the
    /// recording keeps them.
    #[arg(long)]
    pub no_arguments: bool,
    /// Directory to search for sources
    ///
    /// For sources that are not where the compiler saw them: the longest end of their path that exists below DIR is
    /// taken. May be given several times. Default: the paths of the debug information.
    #[arg(long, value_name = "DIR")]
    pub source_dir: Vec<PathBuf>,
    /// Recording to pack
    ///
    /// A recording of mallow. It is replaced unless -o names another file.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where names are.
    #[command(flatten)]
    pub names: NameFlags,
}
