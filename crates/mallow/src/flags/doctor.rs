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
  3  nothing would be recorded: something is marked `fails`

With -p, the status is that of the process.")]
pub struct DoctorFlags {
    /// Write JSON
    ///
    /// For scripts: the checks under machine and program, each with status, found and remedy, and the worst status as
    /// verdict. With -p: the checks under process, and allocators with their entries. Default: a table.
    #[arg(long)]
    pub json: bool,
    /// Process to examine: could mallow attach to it?
    ///
    /// Reports what stands in the way, the allocators in the process, and which of their functions could be patched.
    /// The process is neither stopped nor changed. Default: no process. Example: mallow doctor -p $(pidof
    /// redis-server).
    #[arg(short, long, value_name = "PID", conflicts_with = "command", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
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
