//! Flags of views that compare.

use std::path::PathBuf;

use clap::Args;
use mallow_report::analysis::diff::Rule;

/// What a view shows the difference to.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Comparison")]
pub struct BaseFlags {
    /// Show what changed since this recording or profile
    ///
    /// BEFORE and the file that is shown may be of different formats. Stacks are matched by the rules of mallow diff,
    /// which shows the same changes stack by stack. The largest change comes first. Default: the file alone. Example:
    /// mallow top --base before.mallow after.mallow.
    #[arg(long, value_name = "BEFORE")]
    pub base: Option<PathBuf>,
    /// Match stacks without these rules
    ///
    /// For builds whose differences matter: each rule makes equal what compilers change from build to build. Needs
    /// --base; mallow diff --help lists the rules. Default: all rules are on. Example: --no-rule lines,inlining.
    #[arg(long, value_name = "RULE", value_delimiter = ',', requires = "base")]
    pub no_rule: Vec<Rule>,
}
