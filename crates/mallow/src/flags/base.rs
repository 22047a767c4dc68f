//! Flags of views that compare.

use std::path::PathBuf;

use clap::Args;
use mallow_report::analysis::diff::Rule;

/// What a view shows the difference to.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Comparison")]
pub struct BaseFlags {
    /// Show what changed since BEFORE, a recording or a profile of another tool; mallow diff shows the same by stack
    #[arg(long, value_name = "BEFORE")]
    pub base: Option<PathBuf>,
    /// With --base: compare without these rules of mallow diff: addresses, clones, hashes, …
    #[arg(long, value_name = "RULE", value_delimiter = ',', requires = "base")]
    pub no_rule: Vec<Rule>,
}
