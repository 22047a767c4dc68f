//! Flags that the Go tool gets.

use clap::Args;

/// What the Go tool is told.
#[derive(Clone, Debug, Default, Args)]
pub struct GoToolFlags {
    /// Build with these tags too
    #[arg(long, value_name = "TAGS")]
    pub tags: Option<String>,
}
