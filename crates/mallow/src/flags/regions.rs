//! Flags of commands that run programs with measured regions.

use clap::Args;
use mallow_capture::rundir::directory::Regions;

use super::quantities::{TIMES, duration};

/// How the regions that a program measures with mallow.h run.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Measured regions")]
pub struct RegionFlags {
    /// Measured runs of each region
    ///
    /// Functions that the program passes to mallow_measure run so often. Each run is reported.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub runs: u32,
    /// Runs before the measured ones
    ///
    /// Warm-up runs fill caches and lazily built tables; they are not counted.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=100_000))]
    pub warmup: u32,
    /// Operations per run
    ///
    /// For programs that ask with mallow_operations. Default: the program decides. Example: --ops 1000.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub ops: u32,
    /// Longest wait for other threads
    ///
    /// Before and after each measured run mallow waits until no other thread allocates, for at most this time, with a
    /// unit (ms, s, m); at most 600s. Example: --quiet 500ms.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = quiet)]
    pub quiet: u32,
    /// Longest wait for late frees
    ///
    /// After each measured run mallow waits until as much was freed as was allocated, for at most this time, with a
    /// unit; at most 600s. For frees that other threads do later. Default: 0, no wait. Example: --settle 5s.
    #[arg(long, value_name = "TIME", default_value = "0", hide_default_value = true, value_parser = quiet)]
    pub settle: u32,
    /// Verify at start that calls are counted
    ///
    /// Each process makes a few known calls and compares the counters. mallow test always does. Default: off.
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
            settle_ms: self.settle,
            self_check: self.self_check,
        }
    }
}

/// A time in milliseconds.
fn quiet(text: &str) -> Result<u32, String> {
    const LONGEST: u32 = 600_000;
    match u32::try_from(duration(text, TIMES)?) {
        Ok(ms) if ms <= LONGEST => Ok(ms),
        _ => Err("at most 600s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::quiet;

    #[test]
    fn a_time_to_wait_has_a_unit() {
        assert_eq!(["0", "250ms", "1.5s", "10min"].map(quiet), [Ok(0), Ok(250), Ok(1500), Ok(600_000)]);
        assert!(quiet("1000").is_err_and(|why| why.contains("times have a unit")));
        assert!(["601s", "-1s", "s", ""].iter().all(|text| quiet(text).is_err()));
    }
}
