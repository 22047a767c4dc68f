//! What tests of `mallow guard` share: programs, reports, and commands that end after a while, whatever happens.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use harness::{Run, directory, mallow, program, program_as, tool};
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

/// How accesses are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By userfaultfd.
    Missing,
    /// By a signal handler: userfaultfd is forbidden to mallow and to all that it starts.
    Handler,
}

impl Way {
    /// The beginning of a command line, up to `guard` or another command.
    pub fn mallow(self) -> Vec<OsString> {
        let mallow = mallow().as_os_str().to_owned();
        match self {
            Self::Missing => vec![mallow],
            Self::Handler => vec![program("without_userfaultfd").as_os_str().to_owned(), mallow],
        }
    }

    /// Flags of `guard` and of `watch --guard`.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Missing => &[],
            Self::Handler => &["--signal-handler"],
        }
    }
}

/// The report of a guarded command, its status, and what it printed.
pub fn guarded(flags: &[&str], command: &[&str]) -> (Value, i32, String, String) {
    guarded_by(Way::Missing, flags, command)
}

/// The same in that way.
pub fn guarded_by(way: Way, flags: &[&str], command: &[&str]) -> (Value, i32, String, String) {
    let place = directory();
    let file = place.path().join("guard.json");
    let mallow = way.mallow();
    let run = Run::new(&mallow[0], place.path()).args(&mallow[1..]).args(["guard", "--json", "-o"]).arg(&file);
    let run = run.args(way.flags());
    let outcome = run.args(flags).arg("--").args(command).go();
    let text = fs::read(&file).unwrap_or_else(|error| panic!("{command:?}: {error}: {}", outcome.err()));
    (harness::document(text), outcome.status, outcome.out(), outcome.err())
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
pub fn churning(way: Way, flags: &[&str]) -> (Limited, u32) {
    let mallow = way.mallow();
    let mut command = Command::new(&mallow[0]);
    command.args(&mallow[1..]).arg("guard").args(way.flags()).args(flags).args([
        "--",
        "env",
        "PYTHONMALLOC=malloc",
        "/usr/bin/python3",
        "-c",
        CHURN,
    ]);
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

/// Each is found once, at the wrong access or call, with the stack of that and of the allocation, and goes on.
pub fn find_each_wrong_program(way: Way) {
    let wrong = wrong();
    let name = wrong.to_str().expect("a path");
    let all = count(&wrong);
    assert!(all >= 40, "{all}");
    let mut faults = Vec::new();
    for number in 0..all {
        let number = number.to_string();
        let kind = Command::new(&wrong).args(["name", &number]).output().expect("the corpus").stdout;
        let kind = String::from_utf8_lossy(&kind).trim().to_owned();
        let (report, status, out, err) = guarded_by(way, &[], &[name, &number]);
        let found = errors(&report);
        let place = found.first().map(|error| functions(&error["error"])).unwrap_or_default();
        let at = place.iter().any(|function| function.contains("culprit"));
        let by_block = found.first().is_some_and(|error| error["block"]["allocated"]["stack"]["frames"][0].is_object());
        let good = found.len() == 1 && found[0]["kind"] == *kind && (at || kind == "write-beside-block");
        if !(good && (by_block || kind == "foreign-free") && status == 3 && out.contains("went on")) {
            faults.push(format!("{number} {kind}: {status} {place:?} {found:?} {out} {err}"));
        }
    }
    assert!(faults.is_empty(), "{} of {all}: {faults:#?}", faults.len());
}

/// None of those that look alike is reported.
pub fn report_no_right_program(way: Way) {
    let right = right();
    let name = right.to_str().expect("a path");
    let all = count(&right);
    assert!(all >= 40, "{all}");
    let mut faults = Vec::new();
    for number in 0..all {
        let number = number.to_string();
        for place in ["end", "random"] {
            let (report, status, out, err) = guarded_by(way, &["--place", place], &[name, &number]);
            if !errors(&report).is_empty() || status != 0 || !out.contains("went on") || report["guarded"] == 0 {
                faults.push(format!("{number} {place}: {status} {report} {out} {err}"));
            }
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// They print what they print alone, and nothing is reported.
pub fn run_third_party_programs(way: Way) {
    let script = "import json,re; print(len(json.dumps([re.sub('a','b',str(i)) for i in range(3000)])))";
    let sql = "create table t(a,b); insert into t select value, hex(value) from generate_series(1,3000); \
               create index i on t(b); select count(*), sum(a) from t where b like '%3%';";
    let redis = "redis-server --port 0 --save '' --unixsocket ./s --daemonize no & p=$!; \
                 until redis-cli -s ./s ping 2>/dev/null | grep -q PONG; do sleep 0.05; done; \
                 for i in 1 2 3 4 5; do redis-cli -s ./s rpush l $i; done; redis-cli -s ./s shutdown nosave; wait $p; echo $?";
    let workspace = harness::workspace();
    let tree = workspace.to_str().expect("a path");
    let commands: [&[&str]; 5] = [
        &["/usr/bin/python3", "-c", script],
        &["env", "PYTHONMALLOC=malloc", "/usr/bin/python3", "-c", script],
        &["sqlite3", ":memory:", sql],
        &["git", "-C", tree, "log", "--oneline", "--stat", "-n", "30"],
        &["sh", "-c", redis],
    ];
    for command in commands {
        tool(if command[0] == "sh" { "redis-server" } else { command[0] });
        let place = directory();
        let alone = Run::new(command[0], place.path()).args(&command[1..]).go();
        let (report, status, out, err) = guarded_by(way, &[], command);
        assert_eq!(errors(&report).len(), 0, "{command:?}: {report}");
        assert_eq!(status, alone.status, "{command:?}: {err}");
        let without_pids =
            |text: &str| text.lines().filter(|line| !line.contains(':')).map(str::to_owned).collect::<Vec<_>>();
        match command[0] {
            "sh" => assert!(out.trim_end().ends_with('0') && !without_pids(&out).is_empty(), "{out}"),
            _ => assert_eq!(out, alone.out(), "{command:?}"),
        }
        assert!(report["guarded"].as_u64() > Some(500), "{command:?}: {report}");
    }
}
