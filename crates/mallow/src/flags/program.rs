//! The command that mallow runs.

use std::ffi::OsString;

use clap::Args;

/// The command that `stat` and `record` run. Its own flags stay its own.
#[derive(Debug, Args)]
pub struct CommandFlags {
    /// Command to run, with its arguments
    ///
    /// Everything after it belongs to the command, flags too. Example: mallow record -- ./program --its-flag.
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_name = "COMMAND",
        value_hint = clap::ValueHint::CommandWithArguments,
        help_heading = None::<&str>
    )]
    pub command: Vec<OsString>,
}
