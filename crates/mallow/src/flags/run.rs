//! Flags of `run`.

use clap::Args;

use super::program::CommandFlags;
use super::quantities::{SIZES, size};

/// Flags of `run`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
No process of mallow's remains: it becomes the command, which is sampled from when mallow watch -p PID joins, as often as you
like, until it leaves again. Up to then nothing is recorded. The processes that the command starts take part.

What watch needs lies in a directory of your own in $XDG_RUNTIME_DIR, /dev/shm or $TMPDIR; the next mallow run or mallow
watch removes those in which no process lives any more. What a crash left stays for a day, the latest 64 MiB of it.

Examples:
  mallow run -- redis-server redis.conf
  mallow watch -p $(pidof redis-server)")]
pub struct RunFlags {
    /// Bytes between samples, on average
    ///
    /// About one allocation in so many allocated bytes is sampled; k, M are powers of 1000, Ki, Mi of 1024. Smaller
    /// periods see smaller sites and cost more. mallow watch can change it. Example: --period 64KiB.
    #[arg(long, value_name = "SIZE", default_value = "512KiB", value_parser = period)]
    pub period: u32,
    /// Sample from the start
    ///
    /// Default: nothing is sampled until mallow watch joins.
    #[arg(long)]
    pub sample: bool,
    /// What to run.
    #[command(flatten)]
    pub run: CommandFlags,
}

/// A period: 1 byte to 4 GiB.
pub(super) fn period(text: &str) -> Result<u32, String> {
    let bytes = size(text, SIZES)?;
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "periods are 1 to 4294967295 bytes: 64KiB, 1M".to_owned())
}
