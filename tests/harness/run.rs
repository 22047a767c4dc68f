//! One program run with a time limit.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::RunDirectories;

/// A program that is going to run.
#[derive(Clone, Debug)]
pub struct Run {
    arguments: Vec<OsString>,
    environment: Vec<(OsString, Option<OsString>)>,
    directory: PathBuf,
    stdin: Option<PathBuf>,
    limit: Duration,
    mark: String,
    keeps_directory: bool,
}

/// How it went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// All of its standard output, and that of its descendants.
    pub stdout: Vec<u8>,
    /// The same of its standard error.
    pub stderr: Vec<u8>,
    /// As a shell shows it: 128 + signal for an end by signal.
    pub status: i32,
    /// The process's id while it ran.
    pub pid: u32,
    /// Value of `HARNESS_MARK` in its environment.
    pub mark: String,
    /// Run directories that were there before it.
    pub before: RunDirectories,
    /// Of the run directory that it leaves.
    _keeper: Option<Arc<Keeper>>,
}

/// A process that has a run directory in its environment, as those of the run have: the mallow of another test, which
/// removes directories of ended runs when it starts, leaves this one alone.
#[derive(Debug)]
struct Keeper(Child);

impl Keeper {
    fn of(directory: &Path) -> Self {
        let mut sleep = Command::new("sleep");
        sleep.arg("600").env("MALLOW_DIR", directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(sleep.spawn().expect("sleep"))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Outcome {
    /// Standard output as text.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

static RUNS: AtomicU32 = AtomicU32::new(0);

impl Run {
    /// `program` run in `directory`, which also takes what it prints.
    pub fn new(program: impl AsRef<OsStr>, directory: &Path) -> Self {
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        Self {
            arguments: vec![program.as_ref().into()],
            environment: Vec::new(),
            directory: directory.into(),
            stdin: None,
            limit: Duration::from_secs(180),
            mark: format!("{:08}-{number:08}", std::process::id()),
            keeps_directory: false,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().into());
        self
    }

    /// Adds arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|a| a.as_ref().into()));
        self
    }

    /// Sets an environment variable, or takes it away.
    pub fn env<V: AsRef<OsStr>>(mut self, name: &str, value: Option<V>) -> Self {
        self.environment.push((name.into(), value.map(|v| v.as_ref().into())));
        self
    }

    /// What it reads on its standard input; nothing by default.
    pub fn stdin(mut self, file: &Path) -> Self {
        self.stdin = Some(file.into());
        self
    }

    /// The time after which it has failed.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Its run directory is there as long as its outcome, whatever other mallows start meanwhile.
    pub fn keep_directory(mut self) -> Self {
        self.keeps_directory = true;
        self
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When it cannot be started or does not end in time; then all its processes are killed. When it prints a document
    /// of mallow that is not as its schema says.
    pub fn go(self) -> Outcome {
        let out = tempfile::NamedTempFile::new().expect("a file for its output");
        let err = tempfile::NamedTempFile::new().expect("a file for its errors");
        let stdin = self.stdin.as_ref().map_or(Stdio::null(), |f| File::open(f).expect("its input").into());
        let mut command = Command::new(&self.arguments[0]);
        command
            .args(&self.arguments[1..])
            .current_dir(&self.directory)
            .env("HARNESS_MARK", &self.mark)
            .env("LC_ALL", "C.UTF-8")
            .stdin(stdin)
            .stdout(out.reopen().expect("its output"))
            .stderr(err.reopen().expect("its errors"))
            .process_group(0);
        for (name, value) in &self.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let before = RunDirectories::now();
        let mut child = command.spawn().unwrap_or_else(|e| panic!("cannot start {:?}: {e}", self.arguments));
        let pid = child.id();
        let end = Instant::now() + self.limit;
        // Nobody removes a directory within the first ten seconds of a run.
        let mut keeps_from = self.keeps_directory.then(|| Instant::now() + Duration::from_secs(2));
        let mut keeper = None;
        let process = Pid::from_raw(pid as i32).expect("a pid");
        let process = pidfd_open(process, PidfdFlags::empty()).expect("a descriptor of the process");
        let status = loop {
            if let Some(status) = child.try_wait().expect("waiting for it") {
                break status;
            }
            if keeps_from.is_some_and(|from| Instant::now() > from) {
                keeps_from = None;
                keeper = before.new_of(pid).first().map(|directory| Arc::new(Keeper::of(directory)));
            }
            if Instant::now() > end {
                let where_it_hangs = crate::leftovers::describe(&self.mark);
                crate::leftovers::kill_all(&self.mark);
                let _ = child.wait();
                panic!(
                    "{:?} did not end within {:?}\n{where_it_hangs}stdout:\n{}\nstderr:\n{}",
                    self.arguments,
                    self.limit,
                    tail(out.path()),
                    tail(err.path())
                );
            }
            let until = keeps_from.unwrap_or(end).min(end).saturating_duration_since(Instant::now());
            let until = Timespec::try_from(until).expect("a time");
            // A signal may end it early.
            let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&until));
        };
        let stdout = fs::read(out.path()).expect("its output");
        crate::documents::check_all(&stdout);
        Outcome {
            stdout,
            stderr: fs::read(err.path()).expect("its errors"),
            status: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            pid,
            mark: self.mark,
            before,
            _keeper: keeper,
        }
    }
}

fn tail(file: &Path) -> String {
    let text = fs::read(file).unwrap_or_default();
    String::from_utf8_lossy(&text[text.len().saturating_sub(2000)..]).into_owned()
}
