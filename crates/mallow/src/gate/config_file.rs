//! `mallow.toml`: the cases of a project.
//!
//! ```toml
//! label = "gcc-12"                # optional: keeps figures of toolchains apart
//!
//! [defaults]                      # what the cases do not say
//! runs = 10
//! warmup = 1
//!
//! [[case]]
//! name = "version"                # a whole command
//! command = "build/tool --version"
//!
//! [[case]]
//! command = "build/allocations"   # a program that measures regions: each is a case
//! regions = ["parse", "render"]   # or "all"
//! limits = { total_allocations = 75000 }
//! slack = { total_allocated_bytes = "5%" }
//!
//! [[case]]
//! kind = "go"                     # benchmarks of Go: each is a case
//! packages = "./..."
//! bench = "Decode|Encode"
//!
//! [limits]                        # by case, whichever program measures it
//! render = { total_allocations = 1200 }
//! find = { remaining_allocations = { min = -4, max = 4 } }
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mallow_report::analysis::gate::{Limit, Limits, Metric};
use serde::Deserialize;
use toml::Spanned;

use super::bounds::{self, Fault, LimitWords, SlackWords};
use super::config::{Benchmarks, Config, Ops, Program, QUIET_SECONDS, Regions};
use crate::output::sarif;

/// The most that it may say of that, and of the wait until nothing is unfreed.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// Operations of a run of a benchmark, unless the file says otherwise.
const OPERATIONS: u64 = 100;

/// Numbers of operations that `ops = "scale"` measures.
const SCALE: (u32, u32) = (10, 110);

/// A file that makes no sense, in one line that names the place.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(String);

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    label: Option<String>,
    baseline: Option<PathBuf>,
    #[serde(default)]
    defaults: Entry,
    #[serde(default, rename = "case")]
    cases: Vec<Spanned<Entry>>,
    #[serde(default)]
    limits: BTreeMap<String, LimitWords>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    kind: Option<Spanned<String>>,
    packages: Option<Spanned<Words>>,
    bench: Option<String>,
    tags: Option<String>,
    name: Option<Spanned<String>>,
    command: Option<Spanned<Words>>,
    regions: Option<Spanned<RegionNames>>,
    runs: Option<Spanned<u32>>,
    warmup: Option<u32>,
    ops: Option<Spanned<OpsWord>>,
    #[serde(default)]
    limits: LimitWords,
    #[serde(default)]
    slack: SlackWords,
    judge: Option<Spanned<String>>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    directory: Option<PathBuf>,
    timeout: Option<Spanned<f64>>,
    quiet: Option<Spanned<f64>>,
    settle: Option<Spanned<f64>>,
    exit_status: Option<i32>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Words {
    Line(String),
    List(Vec<String>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum RegionNames {
    Word(String),
    List(Vec<String>),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum OpsWord {
    Number(u64),
    Word(String),
    Pair([u32; 2]),
}

pub fn read(path: &Path) -> Result<Config, ConfigError> {
    parse(&text(path)?, path)
}

pub fn text(path: &Path) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|error| {
        ConfigError(format!("{}: {error}; mallow test -- COMMAND tests one without a file", path.display()))
    })
}

/// Reads the cases of a text; `path` is the file for messages and relative paths.
pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
    let at = |span: Option<Range<usize>>, what: &str| {
        let line = span.map(|span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        ConfigError(format!("{}{line}: {what}", path.display()))
    };
    let file: File =
        toml::from_str(text).map_err(|error| at(error.span(), error.message().lines().next().unwrap_or_default()))?;
    let base = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Some(name) = &file.defaults.name {
        return Err(at(Some(name.span()), "defaults have no name; it belongs to a [[case]]"));
    }
    if file.cases.is_empty() {
        return Err(at(None, "no [[case]] is in it"));
    }
    let mut programs = Vec::new();
    let mut names: Vec<(String, Range<usize>)> = Vec::new();
    for entry in &file.cases {
        let program = program(entry, &file.defaults, base).map_err(|(span, what)| at(Some(span), &what))?;
        let own = program.name.iter().chain(match &program.regions {
            Regions::Named(names) => names.as_slice(),
            _ => &[],
        });
        for name in own {
            if names.iter().any(|(there, _)| there == name) {
                return Err(at(Some(entry.span()), &format!("two cases are named {name}")));
            }
            names.push((name.clone(), entry.span()));
        }
        programs.push(program);
    }
    let baseline = file.baseline.unwrap_or_else(|| PathBuf::from("mallow.baseline.json"));
    let mut limits = BTreeMap::new();
    for (case, of_case) in &file.limits {
        limits.insert(case.clone(), bounds::bounds(of_case).map_err(|(span, what)| at(Some(span), &what))?);
    }
    let baseline = path.parent().unwrap_or(Path::new("")).join(baseline);
    Ok(Config { programs, baseline, label: file.label, root: sarif::root(base), limits })
}

fn program(entry: &Spanned<Entry>, defaults: &Entry, base: &Path) -> Result<Program, Fault> {
    let whole = entry.span();
    let entry = entry.get_ref();
    match entry.kind.as_ref().or(defaults.kind.as_ref()) {
        Some(kind) if kind.get_ref() == "go" => return benchmarks(entry, defaults, base, &whole),
        Some(kind) if kind.get_ref() != "command" => {
            return Err((kind.span(), "kind is \"command\" or \"go\"".to_owned()));
        }
        _ => {}
    }
    if entry.packages.is_some() || entry.bench.is_some() || entry.tags.is_some() {
        return Err((whole, "packages, bench and tags are those of kind = \"go\"".to_owned()));
    }
    let command = entry.command.as_ref().or(defaults.command.as_ref());
    let command = command.ok_or((whole.clone(), "a case without a command".to_owned()))?;
    let words = words(command)?;
    if words.first().is_none_or(String::is_empty) {
        return Err((command.span(), "an empty command".to_owned()));
    }
    let regions = match entry.regions.as_ref().or(defaults.regions.as_ref()) {
        None => Regions::None,
        Some(names) => match names.get_ref() {
            RegionNames::Word(word) if word == "all" => Regions::All,
            RegionNames::Word(word) => Regions::Named(vec![word.clone()]),
            RegionNames::List(list) if list.is_empty() => {
                return Err((names.span(), "no region is named; \"all\" takes all".to_owned()));
            }
            RegionNames::List(list) => Regions::Named(list.clone()),
        },
    };
    let name = entry.name.as_ref().map(|name| name.get_ref().clone());
    if name.as_deref().is_some_and(|name| name.trim().is_empty() || name.chars().any(char::is_control)) {
        return Err((whole, "a name that nobody can type".to_owned()));
    }
    if name.is_none() && regions == Regions::None {
        return Err((whole, "a case without a name; or name its regions".to_owned()));
    }
    let runs = runs(entry, defaults, 10)?;
    let timeout = seconds(&entry.timeout, &defaults.timeout, 600)?;
    let quiet = wait("quiet", &entry.quiet, &defaults.quiet, QUIET_SECONDS)?;
    let settle = wait("settle", &entry.settle, &defaults.settle, 0)?;
    if let Some(settle) = entry.settle.as_ref().filter(|_| regions == Regions::None) {
        return Err((settle.span(), "settle is for measured regions; a whole command has an end".to_owned()));
    }
    Ok(Program {
        // Cases of regions have their own names.
        name: name.filter(|_| regions == Regions::None),
        command: words.into_iter().map(OsString::from).collect(),
        benchmarks: None,
        regions,
        runs,
        warmup: entry.warmup.or(defaults.warmup).unwrap_or(1),
        ops: entry.ops.as_ref().or(defaults.ops.as_ref()).map_or(Ok(Ops::Reported), ops)?,
        limits: limits(entry, defaults)?,
        environment: environment(entry, defaults),
        directory: base.join(entry.directory.as_ref().or(defaults.directory.as_ref()).unwrap_or(&PathBuf::new())),
        timeout,
        quiet,
        settle,
        exit_status: entry.exit_status.or(defaults.exit_status).unwrap_or(0),
    })
}

fn seconds(own: &Option<Spanned<f64>>, default: &Option<Spanned<f64>>, otherwise: u64) -> Result<Duration, Fault> {
    own.as_ref().or(default.as_ref()).map_or(Ok(Duration::from_secs(otherwise)), |seconds| {
        Duration::try_from_secs_f64(*seconds.get_ref()).map_err(|error| (seconds.span(), error.to_string()))
    })
}

/// A time that a run may wait.
fn wait(
    key: &str,
    own: &Option<Spanned<f64>>,
    default: &Option<Spanned<f64>>,
    otherwise: u64,
) -> Result<Duration, Fault> {
    let wait = seconds(own, default, otherwise)?;
    match own.as_ref().or(default.as_ref()).filter(|_| wait > LONGEST_WAIT) {
        Some(long) => Err((long.span(), format!("{key} is at most {} s", LONGEST_WAIT.as_secs()))),
        None => Ok(wait),
    }
}

fn environment(entry: &Entry, defaults: &Entry) -> BTreeMap<String, String> {
    let mut environment = defaults.environment.clone();
    environment.extend(entry.environment.clone());
    environment
}

fn words(words: &Spanned<Words>) -> Result<Vec<String>, Fault> {
    match words.get_ref() {
        Words::Line(line) => shell_words::split(line).map_err(|error| (words.span(), error.to_string())),
        Words::List(list) => Ok(list.clone()),
    }
}

/// A case of `kind = "go"`: all benchmarks that match.
fn benchmarks(entry: &Entry, defaults: &Entry, base: &Path, whole: &Range<usize>) -> Result<Program, Fault> {
    let foreign = [
        ("name", entry.name.is_some()),
        ("command", entry.command.is_some()),
        ("regions", entry.regions.is_some()),
        ("quiet", entry.quiet.is_some()),
        ("settle", entry.settle.is_some()),
        ("exit_status", entry.exit_status.is_some()),
    ];
    if let Some((key, _)) = foreign.iter().find(|(_, there)| *there) {
        return Err((whole.clone(), format!("{key} has no meaning where kind is \"go\": each benchmark is a case")));
    }
    let packages = entry.packages.as_ref().or(defaults.packages.as_ref()).map_or(Ok(vec![".".to_owned()]), words)?;
    let operations = match entry.ops.as_ref().map(|word| (self::ops(word), word.span())) {
        None => OPERATIONS,
        Some((Ok(Ops::Fixed(operations)), _)) => operations,
        Some((Err(fault), _)) => return Err(fault),
        Some((Ok(_), span)) => return Err((span, "ops is a number where kind is \"go\"".to_owned())),
    };
    let benchmarks = Benchmarks {
        packages,
        pattern: entry.bench.clone().or(defaults.bench.clone()).unwrap_or_else(|| ".".to_owned()),
        tags: entry.tags.clone().or(defaults.tags.clone()),
        operations,
    };
    Ok(Program {
        name: None,
        command: Vec::new(),
        benchmarks: Some(benchmarks),
        regions: Regions::All,
        runs: runs(entry, defaults, 3)?,
        warmup: entry.warmup.or(defaults.warmup).unwrap_or(1),
        ops: Ops::Reported,
        limits: limits(entry, defaults)?,
        environment: environment(entry, defaults),
        directory: base.join(entry.directory.as_ref().or(defaults.directory.as_ref()).unwrap_or(&PathBuf::new())),
        timeout: seconds(&entry.timeout, &defaults.timeout, 600)?,
        quiet: Duration::ZERO,
        settle: Duration::ZERO,
        exit_status: 0,
    })
}

fn runs(entry: &Entry, defaults: &Entry, otherwise: u32) -> Result<u32, Fault> {
    entry.runs.as_ref().or(defaults.runs.as_ref()).map_or(Ok(otherwise), |n| match *n.get_ref() {
        0 => Err((n.span(), "at least one run".to_owned())),
        n => Ok(n),
    })
}

fn ops(word: &Spanned<OpsWord>) -> Result<Ops, Fault> {
    match word.get_ref() {
        OpsWord::Number(0) => Err((word.span(), "at least one operation".to_owned())),
        OpsWord::Number(n) => Ok(Ops::Fixed(*n)),
        OpsWord::Word(word) if word == "scale" => Ok(Ops::Scale(SCALE.0, SCALE.1)),
        OpsWord::Word(_) => Err((word.span(), "ops is a number, \"scale\" or two numbers to scale between".to_owned())),
        OpsWord::Pair([few, many]) if 0 < *few && few < many => Ok(Ops::Scale(*few, *many)),
        OpsWord::Pair(_) => Err((word.span(), "two numbers of operations, the smaller one first".to_owned())),
    }
}

fn limits(entry: &Entry, defaults: &Entry) -> Result<Limits, Fault> {
    let mut of: BTreeMap<Metric, Limit> = BTreeMap::new();
    for part in [defaults, entry] {
        for (metric, bounds) in bounds::bounds(&part.limits)? {
            of.entry(metric).or_default().bounds = bounds;
        }
        bounds::set_slack(&mut of, &part.slack)?;
    }
    let alone = match entry.judge.as_ref().or(defaults.judge.as_ref()) {
        None => false,
        Some(word) => match word.get_ref().as_str() {
            "baseline" => false,
            "limits" => true,
            _ => return Err((word.span(), "judge is \"baseline\" or \"limits\"".to_owned())),
        },
    };
    Ok(Limits { of: of.into_iter().collect(), outright: None, alone })
}

#[cfg(test)]
mod tests {
    use mallow_report::analysis::gate::{Bounds, Slack};

    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        parse(text, Path::new("dir/mallow.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn cases_take_what_they_do_not_say_from_the_defaults() {
        let config = read(
            "label = 'x'\n[defaults]\nruns = 3\nslack = { total_allocations = 7 }\nenvironment = { A = '1' }\n\
             [[case]]\nname = 'one'\ncommand = \"a 'b c'\"\nwarmup = 0\ntimeout = 1.5\n\
             [[case]]\ncommand = ['d']\nregions = ['r', 's']\nruns = 5\nops = 'scale'\n\
             limits = { total_allocations = 9 }\n\
             slack = { total_allocated_bytes = '2.5%', leaked_fds = { up = 1, down = '50%' } }\n",
        )
        .expect("a config");
        assert_eq!((config.label.as_deref(), &*config.baseline), (Some("x"), Path::new("dir/mallow.baseline.json")));
        let [one, two] = &config.programs[..] else { panic!("two cases") };
        assert_eq!(one.command, ["a", "b c"]);
        assert_eq!((one.name.as_deref(), one.runs, one.warmup), (Some("one"), 3, 0));
        assert_eq!((one.timeout, &one.environment["A"][..]), (Duration::from_millis(1500), "1"));
        assert_eq!(two.regions, Regions::Named(vec!["r".into(), "s".into()]));
        assert_eq!((two.name.as_deref(), two.runs, two.warmup, two.ops), (None, 5, 1, Ops::Scale(10, 110)));
        let limit = |metric| two.limits.get(metric);
        assert_eq!(
            limit(Metric::TotalAllocations),
            Limit {
                bounds: Bounds { min: None, max: Some(9) },
                up: Some(Slack::Absolute(7)),
                down: Some(Slack::Absolute(7))
            }
        );
        assert_eq!(limit(Metric::TotalAllocatedBytes).up, Some(Slack::Percent(2.5)));
        assert_eq!(limit(Metric::LeakedFds).down, Some(Slack::Percent(50.0)));
    }

    #[test]
    fn limits_by_case_stand_above_those_of_its_program() {
        let config = read(
            "[[case]]\ncommand = 'c'\nregions = 'all'\nlimits = { total_allocations = 9, leaked_fds = 3 }\n\
             [limits]\na = { total_allocations = 5 }\ntest_b = { total_allocations = 6 }\n",
        )
        .expect("a config");
        let max = |case, metric| config.limits_of(&config.programs[0], case).get(metric).bounds.max;
        let total = |case| max(case, Metric::TotalAllocations);
        assert_eq!((total("a"), total("test_a"), total("test_b"), total("b")), (Some(5), Some(5), Some(6), Some(9)));
        assert_eq!(max("a", Metric::LeakedFds), Some(3));
    }

    #[test]
    fn a_limit_may_be_a_range_and_decide_alone() {
        let config = read(
            "[defaults]\njudge = 'limits'\nsettle = 5\n[[case]]\ncommand = 'c'\nregions = 'all'\n\
             limits = { remaining_allocations = { min = -4, max = 4 } }\n\
             [[case]]\nname = 'd'\ncommand = 'd'\njudge = 'baseline'\n\
             [limits]\na = { total_allocations = { min = 5 } }\n",
        )
        .expect("a config");
        let [all, one] = &config.programs[..] else { panic!("two programs") };
        assert!(all.limits.alone && !one.limits.alone);
        assert_eq!((all.settle, one.settle), (Duration::from_secs(5), Duration::from_secs(5)));
        let limits = config.limits_of(all, "a");
        assert_eq!(limits.get(Metric::RemainingAllocations).bounds, Bounds { min: Some(-4), max: Some(4) });
        assert_eq!(limits.get(Metric::TotalAllocations).bounds, Bounds { min: Some(5), max: None });
    }

    #[test]
    fn a_mistake_is_one_line_with_its_place() {
        for (text, expected) in [
            ("", "dir/mallow.toml: no [[case]] is in it"),
            ("[[case]]\nname = 'a'\n", "dir/mallow.toml:1: a case without a command"),
            ("[[case]]\ncommand = 'a'\n", "dir/mallow.toml:1: a case without a name; or name its regions"),
            ("[[case]]\nname = 'a'\ncommand = ''\n", "dir/mallow.toml:3: an empty command"),
            ("[[case]]\nname = 'a'\ncommand = 'a'\nruns = 0\n", "dir/mallow.toml:4: at least one run"),
            ("[[case]]\nname = 'a'\ncommand = 'a'\nops = 0\n", "dir/mallow.toml:4: at least one operation"),
            ("[[case]]\nname = 'a'\ncommand = 'a'\nquiet = 601\n", "dir/mallow.toml:4: quiet is at most 600 s"),
            (
                "[[case]]\nname = 'a'\ncommand = 'a'\nsettle = 1\n",
                "dir/mallow.toml:4: settle is for measured regions; a whole command has an end",
            ),
            (
                "[[case]]\nname = 'a'\ncommand = 'a'\njudge = 'me'\n",
                "dir/mallow.toml:4: judge is \"baseline\" or \"limits\"",
            ),
            (
                "[[case]]\nname = 'a'\ncommand = 'a'\nlimits = { leaked_fds = { min = 2, max = 1 } }\n",
                "dir/mallow.toml:4: nothing is between 2 and 1",
            ),
            (
                "[[case]]\nname = 'a'\ncommand = 'a'\nlimits = { leaked_fds = {} }\n",
                "dir/mallow.toml:4: a limit without min and max",
            ),
            ("[defaults]\nname = 'a'\n", "dir/mallow.toml:2: defaults have no name; it belongs to a [[case]]"),
            (
                "[[case]]\nname = 'a'\ncommand = 'a'\n[[case]]\nname = 'a'\ncommand = 'b'\n",
                "dir/mallow.toml:4: two cases are named a",
            ),
            (
                "[[case]]\nname = 'a'\ncommand = 'a'\nslack = { total_allocations = '5' }\n",
                "dir/mallow.toml:4: slack is a number or a share such as \"5%\"",
            ),
            (
                "[[case]]\nname = 'a'\ncommand = 'a'\nlimits = { allocs = 5 }\n",
                "dir/mallow.toml:4: allocs is none of remaining_allocations, total_allocations, total_allocated_bytes, leaked_fds",
            ),
        ] {
            assert_eq!(read(text).expect_err(text), expected);
        }
        let unlimited = read("[[case]]\nname = 'a'\ncommand = 'a'\n[limits]\na = { allocations = 5 }\n").expect_err("");
        assert!(unlimited.starts_with("dir/mallow.toml:5: allocations is none of "), "{unlimited}");
        let unknown = read("[[case]]\nname = 'a'\ncommand = 'a'\nrun = 3\n").expect_err("an unknown key");
        assert!(unknown.starts_with("dir/mallow.toml:4: unknown field `run`"), "{unknown}");
        let syntax = read("[[case]\n").expect_err("no TOML");
        assert!(syntax.starts_with("dir/mallow.toml:1: "), "{syntax}");
    }
}
