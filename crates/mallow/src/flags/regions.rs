//! Flags of commands that run programs with measured regions.

use clap::Args;
use mallow_capture::run::directory::Regions;

/// How the regions that a program measures with mallow.h run.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Measured regions")]
pub struct RegionFlags {
    /// Run each measured function N times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: u32,
    /// Run it N times before that
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub warmup: u32,
    /// Operations that a run is to perform, for programs that ask [default: as the program likes]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub ops: u32,
    /// Wait at most MS milliseconds for other threads before and after a run
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(..=600_000))]
    pub quiet: u32,
    /// Let each process prove at its start that its calls are counted
    #[arg(long)]
    pub self_check: bool,
}

impl RegionFlags {
    /// As the run directory has it.
    pub fn regions(&self) -> Regions {
        Regions {
            warmups: self.warmup,
            runs: self.runs,
            operations: self.ops,
            quiet_ms: self.quiet,
            self_check: self.self_check,
        }
    }
}
