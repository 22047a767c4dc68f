//! Flags of `watch` and `import`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::choice::ChoiceFlags;
use super::fleet::ListenFlags;
use super::push::PushFlags;
use super::quantities::{number, size, time};
use super::run::period;
use super::views::ViewFlags;

/// When evidence is saved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SaveAt {
    /// At this share of a limit, above 0 and at most 1.
    Share(f64),
    /// At so many bytes of RSS.
    Bytes(u64),
}

/// Flags of `watch`.
#[derive(Debug, Args)]
#[command(after_long_help = KEYS_AND_SIGNALS, group = clap::ArgGroup::new("profiles").args(["listen", "push"]).multiple(true))]
pub struct WatchFlags {
    /// Process to attach to, or to join
    ///
    /// Mallow attaches to a process that was not started under mallow, and leaves it as it was; blocks allocated before
    /// are not included. It joins one that mallow run or mallow watch started, and the processes that it started.
    /// Example: -p $(pidof server).
    #[arg(short, long, value_name = "PID", conflicts_with = "command", value_parser = clap::value_parser!(u32).range(1..))]
    pub pid: Option<u32>,
    /// Processes whose program matches
    ///
    /// One mallow watches all processes under mallow run whose program's path or first argument matches, as they come
    /// and go: those of this user, as root those of all. Reports have each program, and the processes that grow or hold
    /// most. A second mallow leaves processes alone that one watches. Default: one program, that of -p or of the
    /// command. Example: --match 'worker|^/srv/'.
    #[arg(long = "match", value_name = "REGEX", value_parser = regex::Regex::new,
          conflicts_with_all = ["command", "pid", "set", "stop", "guard", "track_peak", "snapshots", "save_at", "log", "fail_on_write_error"])]
    pub pattern: Option<regex::Regex>,
    /// Which of them.
    #[command(flatten)]
    pub choice: ChoiceFlags,
    /// Attach to matching processes
    ///
    /// Those that were not started under mallow, too; needs --match. Attaching stops each process for some
    /// milliseconds, which a pattern that matches more than was meant should not do to a machine. Default: off, only
    /// processes under mallow run are watched. Example: --match nginx --attach.
    #[arg(long, requires = "pattern", conflicts_with_all = ["pid", "command"])]
    pub attach: bool,
    /// Bytes between samples, on average
    ///
    /// About one allocation in so many allocated bytes is sampled; k, M are powers of 1000, Ki, Mi of 1024. With -p
    /// it changes while the program runs. Default: 512KiB; what it was in a program that -p joins. Example: --period
    /// 64KiB.
    #[arg(long, value_name = "SIZE", value_parser = period)]
    pub period: Option<u32>,
    /// Change --period and leave
    ///
    /// For scripts; needs -p. Nothing is reported. Example: mallow watch -p 4711 --period 64KiB --set.
    #[arg(long, requires = "pid", requires = "period", conflicts_with_all = ["stop", "command"])]
    pub set: bool,
    /// Stop sampling and leave
    ///
    /// For scripts; needs -p. The program continues; --set or another watch -p start sampling again. Example: mallow
    /// watch -p 4711 --stop.
    #[arg(long, requires = "pid", conflicts_with_all = ["period", "command"])]
    pub stop: bool,
    /// Longest wait for a usable thread
    ///
    /// One that holds no lock has to load the library when mallow attaches; needs -p or --attach. With a unit (ms, s,
    /// m, h). Example: --timeout 1m.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time, conflicts_with = "command")]
    pub timeout: Duration,
    /// Interval between reports
    ///
    /// With a unit (ms, s, m, h), at least 100ms. Example: --every 1m.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time_above_0)]
    pub every: Duration,
    /// Catch memory errors in sampled blocks
    ///
    /// A wrong access to a sampled block, or a wrong free of one, is a report at once, as mallow guard has it; the
    /// program goes on. For a command that mallow starts, and with -p for one that mallow run or mallow watch started;
    /// mallow guard --help says what is found. Default: off. Example: mallow watch --guard -- ./server.
    #[arg(long, conflicts_with_all = ["set", "stop"])]
    pub guard: bool,
    /// Allow a signal handler in the program
    ///
    /// For --guard where userfaultfd is forbidden, as mallow guard has it. Default: off, --guard ends with 125 there.
    #[arg(long, requires = "guard")]
    pub signal_handler: bool,
    /// Age from which live blocks are reported
    ///
    /// Younger blocks may still be freed; places that grow are reported whatever their age. With a unit (ms, s, m, h).
    /// Default: 5m in reports; the live view shows all that is live, until o is pressed. Example: --older-than 1h.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub older_than: Option<Duration>,
    /// Shortest growth to report as a leak
    ///
    /// A place that has grown for less time is listed as growing so far: a cache may still fill up. With a unit (ms,
    /// s, m, h). Example: --warm-up 30m.
    #[arg(long, value_name = "TIME", default_value = "3m", value_parser = time)]
    pub warm_up: Duration,
    /// Report the peak at the end
    ///
    /// Keeps a copy of what was live when most was, which costs memory in mallow. Default: off.
    #[arg(long)]
    pub track_peak: bool,
    /// What is known, and not to be reported.
    #[command(flatten)]
    pub known: ExclusionFlags,
    /// Directory for pprof files of live memory
    ///
    /// One file with each report. All of the last hour stay, one an hour of the last day, one a day of the last
    /// month. Default: nothing is written. Example: --snapshots heap/.
    #[arg(long, value_name = "DIR")]
    pub snapshots: Option<PathBuf>,
    /// Save evidence before memory runs out
    ///
    /// Once, when the program comes to AMOUNT: a share of a limit in percent (the nearest of memory.max of its control
    /// groups, RLIMIT_AS and RLIMIT_DATA), or a size of RSS with a unit. Mallow writes what is live as pprof and as a
    /// report with call paths, saved-TIME.pb.gz and saved-TIME.txt (.json with --json), to the directory of
    /// --snapshots; else to the current one. Default: off. Example: --save-at 90%.
    #[arg(long, value_name = "AMOUNT", value_parser = save_at)]
    pub save_at: Option<SaveAt>,
    /// File to append reports to
    ///
    /// Each report is written whole or not at all. HUP opens the file anew: rotate it by moving it, then signal mallow.
    /// Default: standard error, or standard output with -p. Example: -o reports.jsonl --json.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Exit with 125 if writing fails
    ///
    /// If the last reports cannot be written, as on a full disk. Default: one line on standard error, and the
    /// command's own status.
    #[arg(long, conflicts_with = "pid")]
    pub fail_on_write_error: bool,
    /// File for the command's output
    ///
    /// Leaves the terminal to the live view. Default: the command keeps the terminal, and reports are lines. Example:
    /// --log server.log.
    #[arg(long, value_name = "FILE", conflicts_with = "pid")]
    pub log: Option<PathBuf>,
    /// Write reports as lines
    ///
    /// On a terminal, too. Default: the live view, where the terminal is free for it.
    #[arg(long)]
    pub lines: bool,
    /// Show whole stacks
    ///
    /// Of each call path of a place. Default: the place, and the functions that called it.
    #[arg(long)]
    pub stacks: bool,
    /// Where it answers scrapers.
    #[command(flatten)]
    pub endpoint: ListenFlags,
    /// Where it sends profiles.
    #[command(flatten)]
    pub push: PushFlags,
    /// How reports look.
    #[command(flatten)]
    pub view: ViewFlags,
    /// Command to run, with its arguments
    ///
    /// Everything after it belongs to the command, flags too. It continues after mallow has left. Example: mallow
    /// watch --every 1m -- ./server.
    #[arg(
        required_unless_present_any = ["pid", "pattern"],
        trailing_var_arg = true,
        value_name = "COMMAND",
        value_hint = clap::ValueHint::CommandWithArguments,
        help_heading = None::<&str>
    )]
    pub command: Vec<std::ffi::OsString>,
}

impl WatchFlags {
    /// Age from which live blocks are reported.
    pub fn least_age(&self) -> Duration {
        const LEAST_AGE: Duration = Duration::from_secs(300);
        self.older_than.unwrap_or(LEAST_AGE)
    }
}

/// Flags of `import`.
#[derive(Debug, Args)]
#[command(after_long_help = PROBES)]
pub struct ImportFlags {
    /// Bytes between samples, on average
    ///
    /// Must be the period that the program was sampled with, or all estimates are off by the same factor. Example:
    /// --period 64KiB.
    #[arg(long, value_name = "SIZE", default_value = "512KiB", value_parser = period)]
    pub period: u32,
    /// Age from which live blocks are reported
    ///
    /// Before the end of the events, with a unit (ms, s, m, h); 0 reports all that is live then. Example:
    /// --older-than 5m.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = time)]
    pub older_than: Duration,
    /// What is known, and not to be reported.
    #[command(flatten)]
    pub known: ExclusionFlags,
    /// File for live memory, as pprof
    ///
    /// What is live at the end, for every other view. Default: nothing is written. Example: -o live.pb.gz.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show whole stacks
    ///
    /// Of each call path of a place. Default: the place, and the functions that called it.
    #[arg(long)]
    pub stacks: bool,
    /// How the report looks.
    #[command(flatten)]
    pub view: ViewFlags,
    /// Text of the probes' events
    ///
    /// As perf script, perf trace or bpftrace write it; - is standard input.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// What is not to be reported.
#[derive(Debug, Args)]
pub struct ExclusionFlags {
    /// File of sites to leave out
    ///
    /// In LeakSanitizer's format: a line leak:PATTERN for each, which matches functions, files and modules. With
    /// --guard, lines guard:PATTERN leave out memory errors. Default: nothing is left out. Example: --suppressions
    /// known.supp.
    #[arg(long, value_name = "FILE")]
    pub suppressions: Option<PathBuf>,
    /// Leave out what was already live
    ///
    /// In FILE, a snapshot or a recording. A site is reported again if it has grown significantly since. Default:
    /// nothing is left out. Example: --baseline snapshots/heap-20261121T060000.pb.gz.
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
}

const KEYS_AND_SIGNALS: &str = "\
Numbers are estimates from the allocations that were picked, each with its 95 %
interval: 1.20 GB ±8 % is true 95 times in 100.

Keys of the live view:
  ?        list all keys
  ↑ ↓      choose a place         Enter  its call paths and figures; Esc: back
  s        sort by the next       /      search in names
  m        mute the place         u      mute nothing any more
  + -      sample more, less      d      stop sampling, or begin again
  o        old ones alone, or all r      report now
  q        leave: the program goes on

Signals to mallow:
  HUP   open the file of -o anew, as logrotate wants it, and report all live
        samples
  USR1  report the old ones once more, and mute them from then on
  USR2  report the latest frees and reallocs, for a use after free
  TERM, INT  print a summary, and leave; a command that mallow started gets them
             too

The program is left running, and dormant: it samples nothing, and costs next to
nothing. mallow watch -p PID joins it again, and sees what is still live of the
samples of before. A program that mallow attached to is left as it was, without
samples; mallow watch -p PID attaches to it again.

Examples:
  mallow watch --every 1m -- ./server          reports on standard error
  mallow run -- ./server                       dormant, to be joined later
  mallow watch -p $(pidof server)              live view on a terminal
  mallow watch --match 'worker|api'            all of them, as they come and go
  mallow watch --match . --match-env POD_NAMESPACE=shop
  mallow watch -p 4711 --period 64KiB --set    for scripts
  mallow watch -p 4711 --stop";

const PROBES: &str = "\
The program must have been sampled: started by mallow watch, or by mallow run and
joined. Its probes, for perf and bpftrace alike, are in the libmallow.so that
/proc/PID/maps names; LIB stands for it here.

  perf buildid-cache --add LIB; perf probe 'sdt_mallow:*'
  perf record -e 'sdt_mallow:*' --call-graph dwarf -p PID -- sleep 60
  perf script -F +pid,+ip,+sym,+dso | mallow import -

bpftrace writes the same with examples/probes.bt of Mallow's sources, but of
programs without frame pointers it knows the innermost functions alone.

  perf trace -T -e 'sdt_mallow:*' --call-graph dwarf -p PID 2> trace.txt
  mallow import trace.txt

What had been allocated before they were attached is not in what they write.";

fn save_at(text: &str) -> Result<SaveAt, String> {
    const FORMS: &str = "it is a share of a limit, above 0% and at most 100% (90%), or a size of RSS (512M, 2GiB)";
    let Some(percent) = text.strip_suffix('%') else { return size(text, FORMS).map(SaveAt::Bytes) };
    match number(percent, FORMS)? {
        percent if percent > 0.0 && percent <= 100.0 => Ok(SaveAt::Share(percent / 100.0)),
        _ => Err(FORMS.to_owned()),
    }
}

fn time_above_0(text: &str) -> Result<Duration, String> {
    match time(text)? {
        time if time >= Duration::from_millis(100) => Ok(time),
        _ => Err("at least 100ms: 500ms, 10s, 10m".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{SaveAt, save_at, time_above_0};
    use crate::flags::{Command, Flags};

    fn parsed(line: &str) -> Result<super::WatchFlags, String> {
        match Flags::try_parse_from(line.split(' ')) {
            Ok(Flags { command: Command::Watch(flags) }) => Ok(*flags),
            Ok(_) => Err("another command".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_program_is_started_or_joined() {
        let started = parsed("mallow watch --period 64KiB -- server -p 80").expect("a command line");
        assert_eq!((started.pid, started.period, started.command.len()), (None, Some(65_536), 3));
        assert_eq!((started.every.as_secs(), started.least_age().as_secs()), (600, 300));
        let joined = parsed("mallow watch -p 4711 --stop").expect("a command line");
        assert_eq!((joined.pid, joined.stop, joined.command.len()), (Some(4711), true, 0));
        for wrong in [
            "mallow watch",
            "mallow watch -p 0",
            "mallow watch -p 1 -- server",
            "mallow watch --stop -- server",
            "mallow watch -p 1 --set",
            "mallow watch -p 1 --stop --period 1M",
            "mallow watch -p 1 --log x",
            "mallow watch --match x -p 1",
            "mallow watch --match x -- server",
            "mallow watch --match (",
            "mallow watch --match x --guard",
            "mallow watch --attach -p 1",
        ] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn evidence_is_saved_at_a_share_or_a_size() {
        assert_eq!(save_at("90%"), Ok(SaveAt::Share(0.9)));
        assert_eq!(save_at("2GB"), Ok(SaveAt::Bytes(2_000_000_000)));
        for wrong in ["0%", "101%", "x%", "NaN%", "lots"] {
            assert!(save_at(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_bounds() {
        assert!(time_above_0("10m").is_ok() && time_above_0("0").is_err());
    }
}
