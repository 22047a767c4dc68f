//! The command that mallow runs.

use std::ffi::OsString;

use clap::Args;

/// The command that mallow runs. Its own flags stay its own.
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

/// The command that `stat` runs, unless it attaches.
#[derive(Debug, Args)]
pub struct CountedCommandFlags {
    /// Command to run, with its arguments
    ///
    /// Everything after it belongs to the command, flags too. Example: mallow stat -- ./program --its-flag.
    #[arg(
        required_unless_present = "pid",
        trailing_var_arg = true,
        value_name = "COMMAND",
        value_hint = clap::ValueHint::CommandWithArguments,
        help_heading = None::<&str>
    )]
    pub command: Vec<OsString>,
}

/// The command that `record` runs: any, or Python's.
#[derive(Debug, Args)]
pub struct RecordedCommandFlags {
    /// Run Python, and name its functions
    ///
    /// What follows is Python's: a script, or -m and a module, with their arguments. The interpreter is python3, unless
    /// the first word is another one. A script that starts it (pyenv's shims) is asked once for its path, and is not
    /// recorded. Sets PYTHONMALLOC=malloc, so that each object is recorded, and PYTHONPERFSUPPORT=1, so that functions
    /// of scripts are named (CPython 3.12 or later). Default: the command is run as it is. Example: mallow record
    /// --python script.py
    /// --its-flag.
    #[arg(long, num_args = 0.., allow_hyphen_values = true, value_name = "ARGUMENT", value_hint = clap::ValueHint::FilePath)]
    pub python: Option<Vec<OsString>>,
    /// Command to run, with its arguments
    ///
    /// Everything after it belongs to the command, flags too. Example: mallow record -- ./program --its-flag.
    #[arg(
        required_unless_present_any = ["python", "pid"],
        trailing_var_arg = true,
        value_name = "COMMAND",
        value_hint = clap::ValueHint::CommandWithArguments,
        help_heading = None::<&str>
    )]
    pub command: Vec<OsString>,
}
