//! What tests of `mallow guard` share: programs, reports, and commands that end after a while, whatever happens.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use harness::{Run, directory, mallow, program_as};
use serde_json::Value;

/// After this a command hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// Kills a process group after a while: who reads what its processes print reads no more then.
pub struct Watchdog(Option<Sender<()>>, u32);

impl Watchdog {
    /// Of the group that this process leads.
    pub fn of(leader: u32) -> Self {
        let (alive, over) = channel();
        std::thread::spawn(move || {
            if over.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                eprintln!("process group {leader} did not end within {LIMIT:?}");
                end_group(leader);
            }
        });
        Self(Some(alive), leader)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0 = None;
        end_group(self.1);
    }
}

fn end_group(leader: u32) {
    let group = format!("-{leader}");
    let mut kill = Command::new("kill");
    let _ = kill.args(["-s", "KILL", "--", &group]).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// A command in a process group of its own, which ends with the test, and after [`LIMIT`].
pub struct Limited {
    child: Child,
    _dog: Watchdog,
}

impl Limited {
    pub fn start(command: &mut Command) -> Self {
        let child = command.process_group(0).spawn().expect("it starts");
        let dog = Watchdog::of(child.id());
        Self { child, _dog: dog }
    }
}

impl Deref for Limited {
    type Target = Child;
    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for Limited {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

pub fn wrong() -> PathBuf {
    program_as("guard/wrong", "guard-wrong", "c++", &["-w"])
}

pub fn right() -> PathBuf {
    program_as("guard/right", "guard-right", "c++", &["-w"])
}

/// The report of a guarded command, its status, and what it printed.
pub fn guarded(flags: &[&str], command: &[&str]) -> (Value, i32, String, String) {
    let place = directory();
    let file = place.path().join("guard.json");
    let run = Run::new(mallow(), place.path()).args(["guard", "--json", "-o"]).arg(&file);
    let outcome = run.args(flags).arg("--").args(command).go();
    let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{command:?}: {error}: {}", outcome.err()));
    (serde_json::from_str(&text).expect("JSON"), outcome.status, outcome.out(), outcome.err())
}

pub fn count(program: &Path) -> u32 {
    let output = Command::new(program).arg("count").output().expect("the corpus");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

pub fn errors(report: &Value) -> &Vec<Value> {
    report["errors"].as_array().expect("errors")
}

pub fn functions(step: &Value) -> Vec<String> {
    let frames = step["stack"]["frames"].as_array().expect("frames");
    frames.iter().map(|frame| frame["function"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A program that allocates until its standard input ends, and prints a line then.
const CHURN: &str = "import sys,threading\nprint('ready', flush=True)\nstop=[]\n\
                     def work():\n  while not stop: json=[bytearray(600) for _ in range(100)]\n\
                     t=threading.Thread(target=work); t.start(); sys.stdin.read(); stop.append(1); t.join(); print('whole')";

/// mallow guards it; returns mallow, once the program works, and the number of the keeper.
pub fn churning(flags: &[&str]) -> (Limited, u32) {
    let mut command = Command::new(mallow());
    command.arg("guard").args(flags).args(["--", "env", "PYTHONMALLOC=malloc", "/usr/bin/python3", "-c", CHURN]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Limited::start(&mut command);
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    let keeper = descendant(child.id(), "mallow-keeper");
    (child, keeper)
}

/// The child process that has this first word.
pub fn descendant(pid: u32, word: &str) -> u32 {
    let limit = Instant::now() + Duration::from_secs(60);
    while Instant::now() < limit {
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        for child in children.split_whitespace() {
            let line = fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
            if line.starts_with(word.as_bytes()) {
                return child.parse().expect("a number");
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{pid} has no child {word}");
}

/// Sends a signal, which must arrive.
pub fn kill(pid: u32, signal: &str) {
    let sent = Command::new("kill").args(["-s", signal, &pid.to_string()]).status().expect("kill");
    assert!(sent.success(), "kill -s {signal} {pid}");
}

/// Closes its input; all that it still prints, and its status.
pub fn rest(mut child: Limited) -> (String, String, std::process::ExitStatus) {
    drop(child.stdin.take());
    let (mut out, mut err) = (String::new(), String::new());
    child.stdout.take().expect("a pipe").read_to_string(&mut out).expect("text");
    let status = child.wait().expect("mallow");
    child.stderr.take().expect("a pipe").read_to_string(&mut err).expect("text");
    (out, err, status)
}
