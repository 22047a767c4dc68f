//! Flags of commands that attach to a process.

use std::time::Duration;

use clap::Args;

use super::quantities::time;

/// A process to attach to, in place of a command.
#[derive(Debug, Args)]
pub struct AttachFlags {
    /// Process to attach to
    ///
    /// A process that runs and was not started under mallow. It is left as it was. Default: COMMAND is started.
    /// Example: -p $(pidof server).
    #[arg(short, long, value_name = "PID", conflicts_with = "command", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
    /// Time to stay attached
    ///
    /// With a unit (ms, s, m, h); needs -p. Default: until Ctrl-C, or until the process ends. Example: --for 30s.
    #[arg(long = "for", value_name = "TIME", value_parser = time, requires = "pid")]
    pub duration: Option<Duration>,
    /// Longest wait for a usable thread
    ///
    /// One that holds no lock has to load the library; needs -p. With a unit (ms, s, m, h). Example: --timeout 1m.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time, requires = "pid")]
    pub timeout: Duration,
}
