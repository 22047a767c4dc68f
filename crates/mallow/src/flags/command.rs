//! The command line: what to do.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use super::blocks::{HistogramFlags, ThreadsFlags};
use super::diff::DiffFlags;
use super::doctor::DoctorFlags;
use super::documents::{CompletionsFlags, HelpFlags, ManFlags};
use super::export::{ExportFlags, MergeFlags};
use super::flame::FlameFlags;
use super::go;
use super::go::GoFlags;
use super::guard::GuardFlags;
use super::list::ListFlags;
use super::pack::PackFlags;
use super::record::{RecordFlags, RecoverFlags};
use super::report::{LeaksFlags, ReportFlags, TopFlags};
use super::rss::RssFlags;
use super::run::RunFlags;
use super::stat::StatFlags;
use super::symbols::SymbolsFlags;
use super::test::TestFlags;
use super::timeline::TimelineFlags;
use super::tree::TreeFlags;
use super::view::PageFlags;
use super::watch::{ImportFlags, WatchFlags};
use crate::output::stdio;

/// Allocation debugging for native programs: who allocates, what was live at the peak, what was lost.
#[derive(Debug, Parser)]
#[command(name = "mallow", version, max_term_width = 110, after_long_help = EXIT_CODES, disable_help_subcommand = true)]
pub struct Flags {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit status:
  stat, record and run exit as the command did: 128 + signal where one ended it;
  127 where it was not found, 126 where it could not be executed,
  125 where Mallow failed before that. What Mallow cannot write is a line on
  standard error; --fail-on-write-error exits with 125 then.
  The others exit with 0; with 1 where Mallow failed; with 3 where
  leaks --fail-on-leak found leaks, diff --fail-above a larger change,
  or doctor something that fails. guard exits as the command did, and with 3
  where it found an error.
  All exit with 2 where the command line makes no sense.

Environment:
  NO_COLOR  no colours on terminals; in pipes and files there are none";

/// The commands as `mallow --help` groups them.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Count and record", &["stat", "record", "run", "recover"]),
    (
        "Look at a recording",
        &[
            "view",
            "report",
            "top",
            "tree",
            "list",
            "leaks",
            "flame",
            "timeline",
            "rss",
            "sizes",
            "lifetimes",
            "threads",
            "symbols",
        ],
    ),
    ("Compare, and test in CI", &["diff", "test", "guard"]),
    ("Watch a running program", &["watch", "import"]),
    ("Explain Go", &["go"]),
    ("Convert, check, document", &["merge", "export", "pack", "doctor", "completions", "man", "help"]),
];

const EXAMPLES: &str = "\
Examples:
  mallow record -- ./program    record it, and print what it allocated
  mallow leaks                  show what the newest recording had live at its end
  mallow diff old.mallow new.mallow
  mallow watch -- ./server      show what a server holds, and what grows
  mallow test --update          write the baseline that mallow test checks in CI
  mallow guard -- ./tests       catch uses after free, overflows, double frees";

impl Flags {
    /// Reads the command line. Help and version are printed, mistakes are reported in one line; both end here,
    /// with the status to exit with.
    pub fn from_command_line() -> Result<Self, ExitCode> {
        Self::parse(std::env::args_os()).map_err(|error| {
            let status = error.exit_code();
            match error.kind() {
                // A closed pipe or a full disk: nobody reads a message.
                ErrorKind::DisplayHelp
                | ErrorKind::DisplayVersion
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => drop(error.print()),
                _ => stdio::notify(&mistake(error, std::env::args().nth(1).as_deref())),
            }
            ExitCode::from(status as u8)
        })
    }

    /// A command line that mallow makes for itself.
    /// A mistake in it is one line.
    pub fn of_line(line: Vec<OsString>) -> Result<Self, String> {
        Self::parse(line.into_iter()).map_err(|error| one_line(&error))
    }

    /// Prints the help of the command that the words name: that of mallow without a word. The error is the first word
    /// that is no command.
    pub fn print_help(words: &[String]) -> Result<(), &str> {
        let mut whole = grouped(Self::command());
        whole.build();
        let mut command = &mut whole;
        for word in words {
            command = command.find_subcommand_mut(word).ok_or(word.as_str())?;
        }
        // A closed pipe or a full disk: nobody reads a message.
        drop(command.print_long_help());
        Ok(())
    }

    fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let matches = grouped(Self::command()).try_get_matches_from(go::as_written(arguments))?;
        Self::from_arg_matches(&matches)
    }
}

/// The command with its subcommands in groups: clap has groups of flags only.
fn grouped(command: clap::Command) -> clap::Command {
    let about = |name: &str| command.find_subcommand(name).and_then(|inner| inner.get_about());
    let summary = |name: &str| about(name).map(ToString::to_string).unwrap_or_default();
    let mut groups = String::new();
    for (title, names) in GROUPS {
        groups += &format!("{title}:\n");
        names.iter().for_each(|name| groups += &format!("  {name:<12} {}\n", summary(name)));
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\n{EXAMPLES}\n\nOptions:\n{{options}}{{after-help}}"
    ))
}

/// clap's paragraphs, without those that repeat the usage, as one line. `first` is the line's first word: the command,
/// if there is one of that name.
fn mistake(mut error: clap::Error, first: Option<&str>) -> String {
    let whole = Flags::command();
    let subcommand = first.and_then(|name| whole.find_subcommand(name));
    let command = subcommand.map(|inner| format!(" {}", inner.get_name())).unwrap_or_default();
    suggest_closest(&mut error, first.unwrap_or_default());
    let other =
        OTHER_WORDS.iter().find(|(word, _)| error.kind() == ErrorKind::InvalidSubcommand && first == Some(word));
    if let Some((word, command)) = other {
        return format!(
            "unrecognized subcommand '{word}'; mallow {command} does that; mallow --help shows what there is"
        );
    }
    let mut message = one_line(&error);
    if error.kind() == ErrorKind::MissingRequiredArgument {
        subcommand
            .into_iter()
            .flat_map(|inner| inner.get_arguments())
            .for_each(|flag| message += &missing_values(&error, flag));
    }
    format!("{message}; mallow{command} --help shows what there is")
}

/// clap's paragraphs, without those on usage, in one line.
fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let paragraphs = text.split("\n\n").map(|p| p.split_whitespace().collect::<Vec<_>>().join(" "));
    let useful =
        paragraphs.filter(|p| !p.is_empty() && !p.starts_with("Usage:") && !p.starts_with("For more information"));
    let mut message = useful.collect::<Vec<_>>().join("; ");
    for (theirs, ours) in NUMBERS {
        message = message.replace(theirs, ours);
    }
    message.strip_prefix("error: ").map(str::to_owned).unwrap_or(message)
}

/// Of the commands that clap takes for the meant one, those with the fewest letters typed wrong. A swap of two is one.
fn suggest_closest(error: &mut clap::Error, typed: &str) {
    let Some(ContextValue::Strings(names)) = error.get(ContextKind::SuggestedSubcommand) else { return };
    let distance = |name: &String| strsim::damerau_levenshtein(name, typed);
    let least = names.iter().map(distance).min();
    let closest = names.iter().filter(|name| Some(distance(name)) == least).cloned().collect();
    error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(closest));
}

/// The values of a flag that is missing, if it has a fixed set of them.
fn missing_values(error: &clap::Error, flag: &clap::Arg) -> String {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return String::new() };
    let Some(long) =
        flag.get_long().filter(|long| missing.iter().any(|m| m.split(' ').next() == Some(&format!("--{long}"))))
    else {
        return String::new();
    };
    let values: Vec<_> = flag.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
    if values.is_empty() { String::new() } else { format!("; --{long} is one of {}", values.join(", ")) }
}

/// Words that other tools have for what commands of mallow do.
const OTHER_WORDS: [(&str, &str); 9] = [
    ("attach", "watch -p PID"),
    ("compare", "diff"),
    ("heap", "report"),
    ("insights", "report --all"),
    ("memory", "rss"),
    ("peak", "report"),
    ("profile", "record"),
    ("summary", "report"),
    ("trace", "record"),
];

/// What Rust says of a text that is no number, and what a person wants to hear.
const NUMBERS: [(&str, &str); 3] = [
    (": invalid digit found in string", ": a whole number is wanted"),
    (": cannot parse integer from empty string", ": a whole number is wanted"),
    (": number too large to fit in target type", ": the number is too large"),
];

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Count the allocations of a command, by function and process
    Stat(StatFlags),
    /// Record every allocation of a command, and report
    Record(RecordFlags),
    /// Run a command that mallow watch can join
    Run(RunFlags),
    /// Look at a recording in the browser
    View(PageFlags),
    /// Show the overview of a recording
    Report(ReportFlags),
    /// Show the functions that allocate most
    Top(TopFlags),
    /// Show call paths to allocations as a tree
    Tree(TreeFlags),
    /// Show functions line by line, as sources or machine code
    List(ListFlags),
    /// Show what was live at the end
    Leaks(LeaksFlags),
    /// Draw a flame graph, for a browser
    Flame(FlameFlags),
    /// Show the heap over time, or at one moment
    Timeline(TimelineFlags),
    /// Show why the process is so large, and what helps
    Rss(Box<RssFlags>),
    /// Show how large blocks are
    Sizes(HistogramFlags),
    /// Show how long blocks lived
    Lifetimes(HistogramFlags),
    /// Show which threads allocate, and which free
    Threads(ThreadsFlags),
    /// Compare two recordings or profiles, stack by stack
    Diff(DiffFlags),
    /// Add up recordings and profiles of runs or hosts
    Merge(MergeFlags),
    /// Write a recording in another tool's format
    Export(ExportFlags),
    /// Compare the allocations of cases with a baseline
    Test(TestFlags),
    /// Catch memory errors of a command: wrong accesses, wrong frees
    Guard(Box<GuardFlags>),
    /// Show what Go code allocates, and why
    Go(GoFlags),
    /// Watch a program in production: samples, estimates, growth
    Watch(Box<WatchFlags>),
    /// Report probe events that perf or bpftrace wrote
    Import(ImportFlags),
    /// Make a recording self-contained, for another machine
    Pack(PackFlags),
    /// Show where names come from; download missing debug files
    Symbols(SymbolsFlags),
    /// Recover what an interrupted mallow left behind
    Recover(RecoverFlags),
    /// Check whether this machine can record a command
    Doctor(DoctorFlags),
    /// Print completions for a shell
    Completions(CompletionsFlags),
    /// Print a manual page
    Man(ManFlags),
    /// Print the help of a command, or of JSON
    Help(HelpFlags),
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::{Command, Flags, GROUPS, OTHER_WORDS, grouped, mistake};

    #[test]
    fn flags_are_consistent() {
        Flags::command().debug_assert();
    }

    /// Every flag and operand, those of subcommands too, with the command that has it.
    fn flags(command: &clap::Command, name: &str) -> Vec<(String, clap::Arg)> {
        let own = command.get_arguments().filter(|flag| !["help", "version"].contains(&flag.get_id().as_str()));
        let mut all: Vec<_> = own.map(|flag| (name.to_owned(), flag.clone())).collect();
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            all.extend(flags(inner, &format!("{name} {}", inner.get_name())));
        }
        all
    }

    /// `-h` is read at a glance; `--help` adds the reason, the unit, the default and an example.
    #[test]
    fn every_flag_has_a_short_and_a_long_help() {
        const WORDS: usize = 8;
        /// What one of several flags must give.
        const NO_DEFAULT: [&str; 2] = ["mallow watch pid", "mallow test import"];
        let mut whole = Flags::command();
        whole.build();
        let all = flags(&whole, "mallow");
        assert!(all.len() > 150 && all.iter().any(|(name, _)| name == "mallow go escape"), "{} flags", all.len());
        let mut faults = Vec::new();
        for (command, flag) in all {
            let name = format!("{command} {}", flag.get_id());
            let [short, long] = [flag.get_help(), flag.get_long_help()].map(|help| help.map(ToString::to_string));
            let (short, long) = (short.unwrap_or_default(), long.unwrap_or_default());
            let words = short.split_whitespace().count();
            if !(1..=WORDS).contains(&words) {
                faults.push(format!("{name}: {words} words in {short:?}"));
            }
            if long.strip_prefix(&short).is_none_or(|more| more.split_whitespace().count() < 3) {
                faults.push(format!("{name}: no more than the short help in {long:?}"));
            }
            let takes_value = flag.get_long().is_some() && flag.get_action().takes_values() && !flag.is_required_set();
            let default = long.contains("Default") || !flag.get_default_values().is_empty();
            if takes_value && !default && !NO_DEFAULT.contains(&&*name) {
                faults.push(format!("{name}: no default in {long:?}"));
            }
        }
        assert!(faults.is_empty(), "{faults:#?}");
    }

    #[test]
    fn words_of_other_tools_lead_to_commands() {
        let whole = Flags::command();
        let is_command = |name: &str| whole.find_subcommand(name).is_some();
        for (word, line) in OTHER_WORDS {
            assert!(!is_command(word) && line.split(' ').next().is_some_and(is_command), "{word}: {line}");
        }
    }

    #[test]
    fn every_command_has_one_summary() {
        let mut whole = Flags::command();
        whole.build();
        for command in whole.get_subcommands() {
            let summary = command.get_about().map(ToString::to_string).unwrap_or_default();
            let words = summary.split_whitespace().count();
            assert!((1..=10).contains(&words), "mallow {}: {summary:?}", command.get_name());
        }
    }

    #[test]
    fn a_mistake_is_one_line_that_helps() {
        for (line, expected) in [
            (
                "mallow top --cun",
                "unexpected argument '--cun' found; tip: a similar argument exists: '--cum'; mallow top",
            ),
            ("mallow record", "the following required arguments were not provided: <COMMAND>...; mallow record"),
            ("mallow top --limit ten", "invalid value 'ten' for '--limit <N>': a whole number is wanted; mallow top"),
            (
                "mallow top --limit 99999999999999999999",
                "invalid value '99999999999999999999' for '--limit <N>': the number is too large; mallow top",
            ),
            ("mallow diff --depth= a b", "invalid value '' for '--depth <N>': a whole number is wanted; mallow diff"),
            (
                "mallow record --max-depth x a",
                "invalid value 'x' for '--max-depth <N>': a whole number is wanted; mallow record",
            ),
            ("mallow tap", "unrecognized subcommand 'tap'; tip: a similar subcommand exists: 'top'; mallow"),
            ("mallow recrod", "unrecognized subcommand 'recrod'; tip: a similar subcommand exists: 'record'; mallow"),
            ("mallow insights", "unrecognized subcommand 'insights'; mallow report --all does that; mallow"),
            ("mallow completions", "the following required arguments were not provided: <SHELL>; mallow completions"),
        ] {
            let message = mistake(Flags::try_parse_from(line.split(' ')).unwrap_err(), line.split(' ').nth(1));
            assert_eq!(message, format!("{expected} --help shows what there is"));
        }
    }

    #[test]
    fn a_missing_format_lists_the_formats() {
        let message = mistake(Flags::try_parse_from(["mallow", "export"]).unwrap_err(), Some("export"));
        assert!(message.contains("--format is one of pprof, folded, "), "{message}");
    }

    /// Each command stands in one group of the help, with its summary.
    #[test]
    fn the_help_groups_every_command() {
        let mut named: Vec<_> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let help = grouped(Flags::command()).render_long_help().to_string();
        let whole = Flags::command();
        for command in whole.get_subcommands() {
            let line = format!("\n  {:<12} {}\n", command.get_name(), command.get_about().unwrap_or_default());
            assert_eq!(help.matches(&line).count(), 1, "{line:?} in {help}");
            named.retain(|&name| name != command.get_name());
        }
        assert!(named.is_empty(), "{named:?}");
        assert!(
            help.contains("\nExamples:\n") && help.contains("\nOptions:\n") && help.contains("\nExit status:\n"),
            "{help}"
        );
    }

    #[test]
    fn the_commands_own_flags_stay_its_own() {
        for line in ["mallow record -o f -- prog -o g --json", "mallow record -o f prog -o g --json"] {
            let Command::Record(flags) = Flags::parse_from(line.split(' ')).command else { panic!("not record") };
            assert_eq!(flags.run.command, ["prog", "-o", "g", "--json"]);
            assert_eq!((flags.output, flags.view.json, flags.max_depth), (Some("f".into()), false, 512));
        }
    }
}
