//! Flags of `rss`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use mallow_report::analysis::RssOptions;

use super::filters::{Time, time};
use super::views::ViewFlags;

/// Flags of `rss`.
#[derive(Debug, Args)]
pub struct RssFlags {
    /// Picture to write
    ///
    /// An SVG file for a browser or a printer: a map of the heap's pages, which are occupied, have holes, or are free; - is
    /// standard output. Default: text. Example: -o rss.svg.
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    pub output: Option<PathBuf>,
    /// Moment to show
    ///
    /// A recording has the pages of each process at its highest RSS and at its end. `highest`, `end`, or a time since the
    /// recording began, with a unit (ms, s, m, h) or in percent, which shows the nearer one of the two. Default: highest.
    /// Example: --at end.
    #[arg(long, value_name = "TIME", default_value = "highest")]
    pub at: RssAt,
    /// Process to show
    ///
    /// By process id, or by the name of the program. Default: the one with the highest RSS. Example: --process worker.
    #[arg(long, value_name = "PID|NAME")]
    pub process: Option<String>,
    /// How it looks.
    #[command(flatten)]
    pub view: ViewFlags,
    /// Recording to show
    ///
    /// One that mallow record made, unless with --no-rss. Default: the newest *.mallow in the current directory.
    #[arg(value_name = "RECORDING", conflicts_with = "command")]
    pub file: Option<PathBuf>,
    /// Command to record first
    ///
    /// Everything after -- belongs to the command, flags too. The recording is COMMAND.mallow, as mallow record makes it.
    /// Default: a recording is shown. Example: mallow rss -- ./program --its-flag.
    #[arg(last = true, value_name = "COMMAND", value_hint = clap::ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}

/// A moment, as it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct RssAt {
    /// As it was written.
    pub text: String,
    what: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    Highest,
    End,
    Time(Time),
}

impl RssAt {
    /// Which moment that is of a run that took so long; None for one after its end.
    pub fn of(&self, duration_ms: u64) -> Option<RssOptions> {
        match self.what {
            Moment::Highest => Some(RssOptions::Highest),
            Moment::End => Some(RssOptions::End),
            Moment::Time(time) => Some(time.ms(duration_ms)).filter(|ms| *ms <= duration_ms).map(RssOptions::Ms),
        }
    }
}

impl FromStr for RssAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let what = match text.trim() {
            "highest" => Moment::Highest,
            "end" => Moment::End,
            text => Moment::Time(time(text)?),
        };
        Ok(Self { text: text.to_owned(), what })
    }
}

#[cfg(test)]
mod tests {
    use super::{RssAt, RssOptions};

    #[test]
    fn moments_are_times_shares_and_two_words() {
        for (text, expected) in [
            ("highest", Some(RssOptions::Highest)),
            (" end ", Some(RssOptions::End)),
            ("950ms", Some(RssOptions::Ms(950))),
            ("40%", Some(RssOptions::Ms(400))),
            ("1.5s", None),
        ] {
            assert_eq!(text.parse::<RssAt>().map(|at| at.of(1000)), Ok(expected), "{text}");
        }
        for text in ["", "950", "peak", "-1s", "101%"] {
            assert!(text.parse::<RssAt>().is_err(), "{text}");
        }
    }
}
