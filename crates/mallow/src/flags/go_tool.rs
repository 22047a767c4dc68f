//! Flags that the Go tool gets.

use clap::Args;

/// Flags for the Go tool.
#[derive(Clone, Debug, Default, Args)]
pub struct GoToolFlags {
    /// Build tags of the Go tool
    ///
    /// Passed to go build and go test, as -tags is. Separated by commas. Default: none. Example: -tags integration.
    #[arg(long, value_name = "TAGS")]
    pub tags: Option<String>,
}
