//! What a project tests: programs, the cases that they make, limits.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mallow_report::analysis::gate::{Bounds, Limits, Metric};

use crate::output::sarif;

#[derive(Debug)]
pub struct Config {
    /// Programs in the order of the file.
    pub programs: Vec<Program>,
    pub baseline: PathBuf,
    pub label: Option<String>,
    /// Directory in which paths of sources begin: that under version control, or that of the cases' file.
    pub root: PathBuf,
    pub limits: BTreeMap<String, Vec<(Metric, Bounds)>>,
}

impl Config {
    /// Limits of a case of this program.
    pub fn limits_of(&self, program: &Program, case: &str) -> Limits {
        let mut limits = program.limits.clone();
        let own = answers_to(case).find_map(|name| self.limits.get(name)).map_or(&[][..], Vec::as_slice);
        for &(metric, bounds) in own {
            limits.set_bounds(metric, bounds);
        }
        limits
    }
}

/// The names under which a case is looked for where limits are: its own, and without the `test_` that SwiftNIO's limits
/// leave out.
pub fn answers_to(case: &str) -> impl Iterator<Item = &str> {
    std::iter::once(case).chain(case.strip_prefix("test_"))
}

/// One command, and the cases that it makes.
#[derive(Clone, Debug)]
pub struct Program {
    /// Name of the one case, where the whole command is one.
    pub name: Option<String>,
    /// Program and arguments; none where these are benchmarks.
    pub command: Vec<OsString>,
    /// Benchmarks of Go, in the place of a command.
    pub benchmarks: Option<Benchmarks>,
    /// Regions that are cases.
    pub regions: Regions,
    pub runs: u32,
    /// Runs before the counted ones.
    pub warmup: u32,
    pub ops: Ops,
    pub limits: Limits,
    /// Variables that are added to the environment.
    pub environment: BTreeMap<String, String>,
    pub directory: PathBuf,
    /// A run that takes longer is broken.
    pub timeout: Duration,
    /// Time limit of waiting for other threads, before a run and after it.
    pub quiet: Duration,
    /// Time limit of waiting at the end of a measured run until all of it is freed.
    pub settle: Duration,
    /// Exit status of a good run.
    pub exit_status: i32,
}

/// The measured regions that are cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Regions {
    /// The whole command is the case.
    None,
    /// Every region that the program measures is a case.
    All,
    /// Regions with these names are cases.
    Named(Vec<String>),
    /// All that the program measures; where it measures none, the whole command.
    IfAny,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ops {
    /// The number that the program reports, if it does.
    Reported,
    /// A fixed number, whatever the program reports.
    Fixed(u64),
    /// Measured with both numbers, so that what an operation costs is separated from what comes before.
    Scale(u32, u32),
}

/// Benchmarks of a project that are cases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Benchmarks {
    /// Patterns of packages, as the Go tool takes them.
    pub packages: Vec<String>,
    /// Pattern of benchmarks, as `go test -bench` understands it.
    pub pattern: String,
    pub tags: Option<String>,
    /// Operations of a run: a fixed number, as what the first ones allocate more has a share in what is divided by
    /// them.
    pub operations: u64,
}

impl Benchmarks {
    pub fn display(&self) -> String {
        self.packages.join(" ")
    }
}

/// Time limit, in seconds, of waiting for other threads, unless the file has another one.
pub const QUIET_SECONDS: u64 = 1;

/// The one program of `mallow test -- COMMAND`.
pub fn of_command(command: &[OsString]) -> Config {
    let name = command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    let program = Program {
        name: Some(name.to_string_lossy().into_owned()),
        command: command.to_vec(),
        benchmarks: None,
        regions: Regions::IfAny,
        runs: 10,
        warmup: 1,
        ops: Ops::Reported,
        limits: Limits::default(),
        environment: BTreeMap::new(),
        directory: PathBuf::from("."),
        timeout: Duration::from_secs(600),
        quiet: Duration::from_secs(QUIET_SECONDS),
        settle: Duration::ZERO,
        exit_status: 0,
    };
    let baseline = PathBuf::from("mallow.baseline.json");
    Config {
        programs: vec![program],
        baseline,
        label: None,
        root: sarif::root(Path::new(".")),
        limits: BTreeMap::new(),
    }
}
