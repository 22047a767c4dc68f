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
    #[arg(long)]
    pub json: bool,
    /// The command to look at, with its arguments; it is not run [default: look at this machine alone]
    #[arg(
        trailing_var_arg = true,
        value_name = "COMMAND",
        value_hint = clap::ValueHint::CommandWithArguments,
        help_heading = None::<&str>
    )]
    pub command: Vec<OsString>,
}
