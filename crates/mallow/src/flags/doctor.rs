//! Flags of `doctor`.

use std::ffi::OsString;

use clap::Args;

/// Flags of `doctor`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Exit status:
  0  it can be recorded; what is marked `partly` works, but for what is said
  1  Mallow failed
  2  the command line makes no sense
  3  nothing would be recorded: something is marked `fails`")]
pub struct DoctorFlags {
    /// Write JSON
    ///
    /// For scripts: the checks under machine and program, each with status, found and remedy, and the worst status as
    /// verdict. Default: a table.
    #[arg(long)]
    pub json: bool,
    /// Command to examine, with its arguments
    ///
    /// Its file is examined, and the interpreter where that is a script; it is not run. Default: this machine alone
    /// is examined. Example: mallow doctor -- ./program.
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        value_hint = clap::ValueHint::CommandWithArguments,
        help_heading = None::<&str>
    )]
    pub command: Vec<OsString>,
}
