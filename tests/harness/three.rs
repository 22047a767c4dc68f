//! The same program run three ways: bare, under `mallow stat`, under `mallow record`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::{Counts, Outcome, Run, document, mallow, nothing_left};

/// A command that must not notice Mallow.
#[derive(Clone, Debug)]
pub struct Case {
    pub(crate) command: Vec<OsString>,
    pub(crate) around: Vec<OsString>,
    options: Vec<OsString>,
    environment: Vec<(String, Option<OsString>)>,
    stdin: Option<PathBuf>,
    limit: Duration,
    own_errors: bool,
    prints_addresses: bool,
    may_say: Vec<String>,
}

/// What the three runs did.
#[derive(Debug)]
pub struct Three {
    /// Alone.
    pub bare: Outcome,
    /// Under `mallow stat`.
    pub stat: Stated,
    /// Under `mallow record`.
    pub record: Recorded,
}

/// A run under `mallow stat`.
#[derive(Debug)]
pub struct Stated {
    /// How it went.
    pub outcome: Outcome,
    /// What `--json` said.
    pub json: Value,
    /// Its working directory.
    pub directory: TempDir,
}

/// A run under `mallow record`.
#[derive(Debug)]
pub struct Recorded {
    /// How it went.
    pub outcome: Outcome,
    /// The recording.
    pub file: PathBuf,
    /// What `mallow report --json` says of it.
    pub json: Value,
    /// Its working directory.
    pub directory: TempDir,
}

/// Work for sqlite3: it fills a table with so many rows, makes an index and searches.
pub fn sql(rows: u32) -> String {
    format!(
        "create table t(a,b); \
         with recursive c(x) as (select 1 union all select x+1 from c where x<{rows}) \
         insert into t select x, x*7%1000||'text' from c; \
         create index i on t(b); select count(*), sum(a) from t where b like '1%';"
    )
}

impl Stated {
    /// Its sums.
    pub fn counts(&self) -> Counts {
        Counts::read(&self.json)
    }
}

impl Recorded {
    /// Its sums.
    pub fn counts(&self) -> Counts {
        Counts::read(&self.json)
    }

    /// `mallow` with these arguments and the recording, in its directory.
    pub fn view(&self, arguments: &[&str]) -> Outcome {
        Run::new(mallow(), self.directory.path()).args(arguments).arg(&self.file).go()
    }

    /// What such a view prints.
    ///
    /// # Panics
    /// When it fails, or has something to say on standard error.
    pub fn shown(&self, arguments: &[&str]) -> String {
        let view = self.view(arguments);
        assert_eq!((view.status, view.err().as_str()), (0, ""), "{arguments:?}");
        view.out()
    }

    /// The same of a view with `--json`, parsed.
    pub fn view_json(&self, arguments: &[&str]) -> Value {
        document(self.shown(&[arguments, &["--json"]].concat()))
    }

    /// Events that the recording lacks or could not read.
    pub fn losses(&self) -> (u64, u64) {
        (crate::counts::number(&self.json, "lost"), crate::counts::number(&self.json, "damaged"))
    }
}

impl Case {
    /// sqlite3 at real work, see [`sql`].
    pub fn sqlite(rows: u32) -> Self {
        Self::new("sqlite3").args([":memory:", &sql(rows)])
    }

    /// `program` without arguments.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            command: vec![program.as_ref().into()],
            around: Vec::new(),
            options: Vec::new(),
            environment: Vec::new(),
            stdin: None,
            limit: Duration::from_secs(180),
            own_errors: false,
            prints_addresses: false,
            may_say: Vec::new(),
        }
    }

    /// The target of that name.
    pub fn target(name: &str) -> Self {
        Self::new(crate::program(name))
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.push(argument.as_ref().into());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.command.extend(arguments.into_iter().map(|a| a.as_ref().into()));
        self
    }

    /// Changes the command's world, and not mallow's: `targets/with.c` lists the settings.
    pub fn with<A: AsRef<OsStr>>(mut self, settings: impl IntoIterator<Item = A>) -> Self {
        let mut command = vec![crate::program("with").into_os_string()];
        command.extend(settings.into_iter().map(|a| a.as_ref().into()));
        command.push("--".into());
        command.append(&mut self.command);
        self.command = command;
        self
    }

    /// Changes mallow's world, and so the command's too.
    pub fn all_with<A: AsRef<OsStr>>(mut self, settings: impl IntoIterator<Item = A>) -> Self {
        self.around = vec![crate::program("with").into_os_string()];
        self.around.extend(settings.into_iter().map(|a| a.as_ref().into()));
        self.around.push("--".into());
        self
    }

    /// Runs mallow, and so the command, by another program.
    pub fn all_by<A: AsRef<OsStr>>(mut self, program: impl IntoIterator<Item = A>) -> Self {
        self.around = program.into_iter().map(|a| a.as_ref().into()).collect();
        self
    }

    /// Adds an option of `mallow stat` and `mallow record`.
    pub fn option(mut self, option: impl AsRef<OsStr>) -> Self {
        self.options.push(option.as_ref().into());
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), Some(value.as_ref().into())));
        self
    }

    /// What it reads on its standard input.
    pub fn stdin(mut self, file: &Path) -> Self {
        self.stdin = Some(file.into());
        self
    }

    /// The time after which it has failed.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Its standard error differs from run to run by itself (times, pids): it is not compared.
    pub fn own_errors(mut self) -> Self {
        self.own_errors = true;
        self
    }

    /// It prints where its blocks lie, or whether realloc moved them: a sample lies elsewhere.
    pub fn prints_addresses(mut self) -> Self {
        self.prints_addresses = true;
        self
    }

    /// Mallow may say a line with this text on standard error. No other line of its own is allowed.
    pub fn may_say(mut self, text: &str) -> Self {
        self.may_say.push(text.into());
        self
    }

    /// Runs it alone in `directory`.
    pub fn bare_in(&self, directory: &Path) -> Outcome {
        self.run(self.around.iter().chain(&self.command), directory)
    }

    /// Runs it alone.
    pub fn bare(&self) -> Outcome {
        self.bare_in(directory().path())
    }

    /// Runs it under `mallow stat`.
    ///
    /// # Panics
    /// When mallow's answer is not there, or something is left behind.
    pub fn stat(&self) -> Stated {
        let (outcome, directory) = self.under("stat", &["--json", "-o", "stat.json"]);
        let json = read_json(&std::fs::read(directory.path().join("stat.json")).unwrap_or_default(), &outcome);
        std::fs::remove_file(directory.path().join("stat.json")).expect("removing what was read");
        Stated { outcome, json, directory }
    }

    /// Runs it under `mallow record`, and reads the recording with `mallow report`.
    ///
    /// # Panics
    /// As [`Case::stat`].
    pub fn record(&self) -> Recorded {
        let (outcome, directory) = self.under("record", &["--no-report", "-o", "run.mallow"]);
        let file = directory.path().join("run.mallow");
        if is_nothing(&outcome) {
            assert!(!file.exists(), "a recording of nothing: {}", outcome.err());
            return Recorded { json: nothing_recorded(), outcome, file, directory };
        }
        let elsewhere = crate::three::directory();
        let report = Run::new(mallow(), elsewhere.path()).args(["report", "--json"]).arg(&file).go();
        assert_eq!(report.status, 0, "mallow report: {}\nmallow record: {}", report.err(), outcome.err());
        Recorded { json: read_json(&report.stdout, &report), outcome, file, directory }
    }

    fn under(&self, command: &str, options: &[&str]) -> (Outcome, TempDir) {
        let directory = directory();
        let mallow = mallow().into_os_string();
        let mut all: Vec<OsString> = self.around.clone();
        all.extend([mallow, command.into()]);
        all.extend(options.iter().map(OsString::from));
        all.extend(self.options.iter().cloned());
        all.push("--".into());
        all.extend(self.command.iter().cloned());
        let outcome = self.run(all.iter(), directory.path());
        nothing_left(&format!("mallow {command} {:?}", self.command), &outcome);
        (outcome, directory)
    }

    pub(crate) fn run<'a>(&self, command: impl Iterator<Item = &'a OsString>, directory: &Path) -> Outcome {
        self.prepared(command, directory).go()
    }

    /// A command with its environment, input and limit.
    pub(crate) fn prepared<'a>(&self, mut command: impl Iterator<Item = &'a OsString>, directory: &Path) -> Run {
        let program = command.next().expect("a program");
        let mut run = Run::new(program, directory).args(command).limit(self.limit);
        for (name, value) in &self.environment {
            run = run.env(name, value.as_ref());
        }
        if let Some(stdin) = &self.stdin {
            run = run.stdin(stdin);
        }
        run
    }

    /// Runs it all three ways, and in sampling mode as well.
    ///
    /// # Panics
    /// When one way can be distinguished from another.
    pub fn three_ways(&self) -> Three {
        let bare = self.bare();
        assert_ne!(bare.status, 99, "the target itself fails:\n{}{}", bare.out(), bare.err());
        let stat = self.stat();
        self.same("stat", &bare, &stat.outcome);
        let record = self.record();
        self.same("record", &bare, &record.outcome);
        if !self.prints_addresses {
            self.same("run", &bare, &self.sampled().outcome);
        }
        Three { bare, stat, record }
    }

    /// Fails when `other` can be distinguished from `bare`.
    ///
    /// # Panics
    /// See above.
    pub fn same(&self, way: &str, bare: &Outcome, other: &Outcome) {
        let what = format!("mallow {way} {:?}", self.command);
        // Of a command that did well, a recording of nothing is a failure.
        let expected = if way == "record" && bare.status == 0 && is_nothing(other) { 125 } else { bare.status };
        assert_eq!(other.status, expected, "{what}: exit status\nout:\n{}err:\n{}", other.out(), other.err());
        assert!(
            other.stdout == bare.stdout,
            "{what}: other output.\nbare:\n{}\nunder mallow:\n{}",
            bare.out(),
            other.out()
        );
        let (own, rest): (Vec<String>, Vec<String>) =
            other.err().lines().map(str::to_owned).partition(|l| l.starts_with("mallow: "));
        let recorded = "mallow: recorded to run.mallow; mallow view run.mallow opens it";
        for line in own.iter().filter(|line| *line != recorded && !is_progress(line)) {
            assert!(self.may_say.iter().any(|t| line.contains(t)), "{what}: mallow says: {line}");
        }
        if !self.own_errors {
            let bare_lines: Vec<String> = bare.err().lines().map(str::to_owned).collect();
            assert_eq!(rest, bare_lines, "{what}: other errors");
        }
    }
}

/// Whether a line says how far `mallow record` is in reading what is left: it says so where that takes longer than 10
/// s, as on a busy machine.
fn is_progress(line: &str) -> bool {
    line.starts_with("mallow: reading what was recorded, ")
}

/// Whether `mallow record` says that there is no recording, because it saw nothing.
fn is_nothing(outcome: &Outcome) -> bool {
    outcome.err().lines().any(|line| line.starts_with("mallow: nothing was recorded: "))
}

/// Where no call was seen, there is no recording: none of each, and nothing lost.
fn nothing_recorded() -> Value {
    let keys = ["allocations", "allocated_bytes", "frees", "reallocs_in_place", "reallocs_moved", "lost", "damaged"];
    keys.into_iter().map(|key| (key.to_owned(), Value::from(0))).collect::<serde_json::Map<_, _>>().into()
}

/// A new directory for one run.
pub fn directory() -> TempDir {
    tempfile::Builder::new().prefix("mallow-test-").tempdir().expect("a temporary directory")
}

fn read_json(text: &[u8], from: &Outcome) -> Value {
    assert!(!text.is_empty(), "no JSON\nstatus {}\nout:\n{}\nerr:\n{}", from.status, from.out(), from.err());
    document(text)
}
