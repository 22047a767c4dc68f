//! The flag of views that show why Go lines allocate.

use std::path::PathBuf;

use clap::Args;

/// The flag of views that show why Go lines allocate.
#[derive(Clone, Debug, Default, Args)]
pub struct GoReasonsFlags {
    /// Reasons to show beside Go lines
    ///
    /// FILE is what mallow go escape --json or mallow go profile --json writes, or the output of go build
    /// -gcflags=-m=2. view and export never run the compiler themselves. Default: no reasons; list asks the compiler.
    /// Example: mallow go escape --json ./... > reasons.json, then --go-reasons reasons.json.
    #[arg(long, value_name = "FILE")]
    pub go_reasons: Option<PathBuf>,
}
