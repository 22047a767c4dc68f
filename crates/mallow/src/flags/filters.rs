//! Flags that choose a part of a recording.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use mallow_capture::recording::{self, Span};
use mallow_formats::SampleType;
use mallow_report::analysis::{Narrowing, Pattern};

use super::names::NameFlags;
use super::quantities::{duration, number, size};

/// Which part of a recording a view shows. Each flag leaves less.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Filters")]
pub struct FilterFlags {
    /// Processes whose allocations to show
    ///
    /// By process id, or by the name of the program: whole, else its beginning, else a regular expression. Several are
    /// separated by commas. Default: all. Example: --process worker,4711.
    #[arg(long, value_name = "PID|NAME", value_delimiter = ',')]
    pub process: Vec<String>,
    /// Threads whose allocations to show
    ///
    /// By thread id, as in /proc and debuggers. Several are separated by commas. Default: all. Example: --thread
    /// 4712.
    #[arg(long, value_name = "TID", value_delimiter = ',')]
    pub thread: Vec<u32>,
    /// Measured regions whose allocations to show
    ///
    /// Names of regions that the program measures with mallow.h; warm-up runs do not count. Several are separated by
    /// commas. Default: the whole program. Example: --region parse.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub region: Vec<String>,
    /// Part of the recording to show
    ///
    /// From the first moment up to the second, since the recording began: with a unit (ms, s, m, h), or in percent of
    /// the recording. Either end may be missing. --when selects which blocks belong to it. Default: all of it.
    /// Example: --time 1.5s..2s, or --time 40%.. up to the end.
    #[arg(long, value_name = "FROM..TO")]
    pub time: Option<TimeSpan>,
    /// Event that must lie within --time
    ///
    /// Blocks count if they were allocated, were live, or were freed within the time. Default with --time: allocated.
    /// Example: --time 2s.. --when live.
    #[arg(
        long,
        value_enum,
        requires = "time",
        default_value_if("time", clap::builder::ArgPredicate::IsPresent, "allocated")
    )]
    pub when: Option<When>,
    /// Block sizes to show
    ///
    /// Requested bytes, from A up to but without B; one number is that size alone. k, M, G are powers of 1000, Ki,
    /// Mi, Gi of 1024. Default: all sizes. Example: --size 64..128, or --size 64Ki.. for large ones.
    #[arg(long, value_name = "A..B")]
    pub size: Option<SizeSpan>,
    /// Lifetimes of blocks to show
    ///
    /// Time from allocation to free, from A up to but without B, with a unit (ms, s, m, h). A block that was never
    /// freed lived until the end of the run. Default: all. Example: --lifetime ..1ms.
    #[arg(long, value_name = "A..B")]
    pub lifetime: Option<LifetimeSpan>,
    /// Show only stacks that match
    ///
    /// A regular expression that must match a function, a file or a module of the stack. Default: all stacks.
    /// Example: --focus 'Parser::'.
    #[arg(long, value_name = "REGEX")]
    pub focus: Option<Pattern>,
    /// Leave out stacks that match
    ///
    /// A regular expression on functions, files and modules of the stack; what matches is not counted. Default: none.
    /// Example: --ignore 'test_.*'.
    #[arg(long, value_name = "REGEX")]
    pub ignore: Option<Pattern>,
    /// Remove matching frames from stacks
    ///
    /// A regular expression on functions, files and modules. The stacks stay, and so do their numbers, with the rest
    /// of their frames. Default: none. Example: --hide '^std::'.
    #[arg(long, value_name = "REGEX")]
    pub hide: Option<Pattern>,
    /// Value of a pprof file to read
    ///
    /// For profiles whose types Mallow does not know, or has another word for: the name of a type, or its number (1 is
    /// the first), and whether its numbers are of what was allocated, is live, or was live at the peak. Its unit says
    /// whether they are bytes; else they are blocks. Other values are left out. May be given several times. Default:
    /// all whose names are known, and allocated. Example: --sample-type alloc_in_new_tlab_objects, or 2=live.
    #[arg(long, value_name = "NAME[=allocated|live|peak]")]
    pub sample_type: Vec<SampleType>,
    /// Where its names are.
    #[command(flatten)]
    pub names: NameFlags,
}

impl FilterFlags {
    /// What is asked of stacks.
    pub fn narrowing(&self) -> Narrowing {
        Narrowing { focus: self.focus.clone(), ignore: self.ignore.clone(), hide: self.hide.clone() }
    }

    /// True where something is asked of single blocks.
    pub fn selects(&self) -> bool {
        let whose = !self.process.is_empty() || !self.thread.is_empty() || !self.region.is_empty();
        whose || self.time.is_some() || self.size.is_some() || self.lifetime.is_some()
    }
}

/// What must happen to a block within a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// They were allocated then
    #[default]
    Allocated,
    /// They were live at a moment of it
    Live,
    /// They were freed then
    Freed,
}

impl From<When> for recording::When {
    fn from(when: When) -> Self {
        match when {
            When::Allocated => Self::Allocated,
            When::Live => Self::Live,
            When::Freed => Self::Freed,
        }
    }
}

/// A moment: milliseconds since the recording began, or a share of its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Time {
    /// Milliseconds.
    Ms(u64),
    /// Of the recording's duration.
    Percent(f64),
}

impl Time {
    /// In milliseconds of a recording of this duration.
    pub fn ms(self, duration_ms: u64) -> u64 {
        match self {
            Self::Ms(ms) => ms,
            Self::Percent(percent) => (duration_ms as f64 * percent / 100.0).round() as u64,
        }
    }
}

/// A part of the recording's time.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeSpan {
    /// As it was written.
    pub text: String,
    from: Option<Time>,
    to: Option<Time>,
}

impl TimeSpan {
    /// In milliseconds of a recording of this duration. Its end is in what goes up to it.
    pub fn of(&self, duration_ms: u64) -> Span {
        let ms = |time: Time| time.ms(duration_ms);
        let to = self.to.filter(|to| *to != Time::Percent(100.0));
        Span { from: self.from.map_or(0, ms), to: to.map(ms) }
    }
}

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "a time has two ends, of which one may be missing: 1.5s..2s, ..200ms, 40%..";
        let (from, to) = ends(text, |end| time(end, FORMS))?.ok_or(FORMS)?;
        let known = |time: Option<Time>| match time {
            Some(Time::Percent(percent)) => Some((true, percent)),
            Some(Time::Ms(ms)) => Some((false, ms as f64)),
            None => None,
        };
        if let (Some((a, from)), Some((b, to))) = (known(from), known(to))
            && a == b
            && from >= to
        {
            return Err(EMPTY.to_owned());
        }
        Ok(Self { text: text.to_owned(), from, to })
    }
}

/// Sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeSpan {
    /// As it was written.
    pub text: String,
    /// What it means.
    pub span: Span,
}

impl FromStr for SizeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "sizes are N or A..B, of which one may be missing: 24, 64..128, ..4k, 1Mi..";
        Ok(Self { text: text.to_owned(), span: span(text, |end| size(end, FORMS))? })
    }
}

/// Lifetimes in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifetimeSpan {
    /// As it was written.
    pub text: String,
    /// What it means.
    pub span: Span,
}

impl FromStr for LifetimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "lifetimes are A..B with units, of which one may be missing: ..1ms, 200ms..1.5s, 2m..";
        Ok(Self { text: text.to_owned(), span: span(text, |end| duration(end, FORMS))? })
    }
}

const EMPTY: &str = "it ends before it begins";

/// Both ends; None for one that is open.
type Ends<T> = (Option<T>, Option<T>);

/// Both ends of `A..B`, either may be missing; None where there is no `..`.
fn ends<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<Ends<T>>, String> {
    let Some((from, to)) = text.split_once("..") else { return Ok(None) };
    let end = |text: &str| match text.trim() {
        "" => Ok(None),
        text => read(text).map(Some),
    };
    Ok(Some((end(from)?, end(to)?)))
}

/// `A..B`, or `A` for that number alone.
fn span(text: &str, read: impl Fn(&str) -> Result<u64, String>) -> Result<Span, String> {
    let (from, to) = match ends(text, &read)? {
        Some((from, to)) => (from.unwrap_or(0), to),
        None => {
            let number = read(text.trim())?;
            (number, number.checked_add(1))
        }
    };
    if to.is_some_and(|to| to <= from) {
        return Err(EMPTY.to_owned());
    }
    Ok(Span { from, to })
}

/// A time, or a share of the recording. `forms` is what the flag allows.
pub(super) fn time(text: &str, forms: &str) -> Result<Time, String> {
    match text.strip_suffix('%') {
        Some(percent) => match number(percent, forms)? {
            percent if percent <= 100.0 => Ok(Time::Percent(percent)),
            _ => Err("a recording has 100%".to_owned()),
        },
        None => duration(text, forms).map(Time::Ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_decimal_without_a_binary_suffix() {
        for (text, from, to) in [
            ("64..128", 64, Some(128)),
            ("4k..1M", 4000, Some(1_000_000)),
            ("4KiB..", 4096, None),
            ("..1.5kB", 0, Some(1500)),
            ("..", 0, None),
            ("24", 24, Some(25)),
            ("18446744073709551615", u64::MAX, None),
            ("2gi..1T", 1 << 31, Some(1_000_000_000_000)),
            (" 1 .. 2 ", 1, Some(2)),
        ] {
            assert_eq!(text.parse::<SizeSpan>().map(|size| size.span), Ok(Span { from, to }), "{text}");
        }
        for text in ["", "x", "1..1", "5..4", "-1..", "1e400", "4q", "1..2..3", "nan..", "inf", "99999999999999999999G"]
        {
            assert!(text.parse::<SizeSpan>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_units_and_shares() {
        for (text, from, to) in [
            ("1.5s..2s", 1500, Some(2000)),
            ("..200ms", 0, Some(200)),
            ("40%..", 4000, None),
            ("0..2m", 0, Some(120_000)),
            ("50%..100%", 5000, None),
            ("12.345%..1h", 1235, Some(3_600_000)),
            ("99%..1min", 9900, Some(60_000)),
        ] {
            assert_eq!(text.parse::<TimeSpan>().map(|span| span.of(10_000)), Ok(Span { from, to }), "{text}");
        }
        for text in ["1s", "1..2", "101%..", "2s..1s", "40%..40%", "1d..", "%..", "s..", "1..%", "-1s.."] {
            assert!(text.parse::<TimeSpan>().is_err(), "{text}");
        }
        for text in ["..1ms", "0"] {
            let lifetime = text.parse::<LifetimeSpan>().map(|lifetime| lifetime.span);
            assert_eq!(lifetime, Ok(Span { from: 0, to: Some(1) }), "{text}");
        }
    }

    /// Shares that follow each other leave nothing out and count nothing twice.
    #[test]
    fn shares_of_a_run_join() {
        for duration in [0, 1, 7, 999, 15_165] {
            let shares =
                ["..33.3%", "33.3%..66.6%", "66.6%..100%"].map(|text| text.parse::<TimeSpan>().unwrap().of(duration));
            assert_eq!((shares[0].from, shares[2].to), (0, None));
            assert_eq!((shares[0].to, shares[1].to), (Some(shares[1].from), Some(shares[2].from)));
        }
    }
}
