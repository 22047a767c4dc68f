//! Flags of `mallow go`.

use clap::{Args, Subcommand};

pub use super::go_bench::{GoBenchFlags, GoWhyFlags};
pub use super::go_escape::GoEscapeFlags;

/// Flags of `go`.
#[derive(Debug, Args)]
pub struct GoFlags {
    /// What to do.
    #[command(subcommand)]
    pub command: GoCommand,
}

/// What to do with a Go program.
#[derive(Debug, Subcommand)]
pub enum GoCommand {
    /// Run benchmarks, and show every line that allocates, what, how much, and why
    Bench(GoBenchFlags),
    /// Show all that is known of one place: what is allocated there, the whole way to the heap, the source
    Why(GoWhyFlags),
    /// Show every allocation in the heap that the compiler sees, and why; and which ones are new
    Escape(GoEscapeFlags),
}

/// What the Go tool is told.
#[derive(Clone, Debug, Default, Args)]
pub struct GoToolFlags {
    /// Build with these tags too
    #[arg(long, value_name = "TAGS")]
    pub tags: Option<String>,
}
