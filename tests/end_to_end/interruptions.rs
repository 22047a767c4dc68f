//! Signals to mallow, and its sudden death.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::watch_harness::until;
use harness::{Run, RunDirectories, directory, mallow, nothing_left, number, program};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};

/// A command under mallow that writes `begun`, goes on until there is a file `go` (or for more than a minute), and then
/// writes `ended`.
const SCRIPT: &str = "\"$0\" 2 300; echo > begun; i=0; \
    while [ ! -e go ] && [ $i -lt 600 ]; do sleep 0.1; \"$0\" 1 20; i=$((i+1)); done; \"$0\" 1 20; echo > ended; exit 9";

fn start(way: &str, place: &Path) -> Child {
    let mut command = Command::new(mallow());
    command.arg(way).args(["-o", "out"]);
    if way == "record" {
        command.arg("--no-report");
    }
    command.args(["--", "/bin/sh", "-c", SCRIPT]).arg(program("busy"));
    command.current_dir(place).process_group(0).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().expect("mallow");
    wait_for(&place.join("begun"));
    child
}

fn wait_for(file: &Path) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !file.exists() {
        assert!(Instant::now() < patience, "{} was never made", file.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(to: &str, name: &str) {
    let sent = Command::new("kill").args(["-s", name, "--", to]).status().expect("kill");
    assert!(sent.success(), "kill -s {name} -- {to}");
}

fn end(child: Child) -> (ExitStatus, String) {
    let out = child.wait_with_output().expect("mallow's end");
    (out.status, String::from_utf8_lossy(&out.stderr).into_owned())
}

fn report(place: &Path, file: &str) -> serde_json::Value {
    let run = Run::new(mallow(), place).args(["report", "--json", file]).go();
    assert_eq!(run.status, 0, "{}", run.err());
    serde_json::from_slice(&run.stdout).expect("JSON")
}

/// `docker kill -s USR1` is for the command. It ended mallow, and the recording with it.
#[test]
fn signals_for_the_command_reach_it_and_end_nothing() {
    const SCRIPT: &str = "for signal in USR1 USR2 ALRM PROF WINCH 40; do trap \"echo $signal >> got\" $signal; done; \
        echo > begun; i=0; while [ ! -e go ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done; exit 9";
    for (way, signals) in [
        ("record", &["USR1", "USR2", "ALRM", "PROF", "WINCH", "40"][..]),
        ("stat", &["USR1", "USR2", "ALRM", "PROF", "WINCH", "40"]),
        // HUP, USR1 and USR2 ask it for reports.
        ("watch", &["ALRM", "PROF", "WINCH", "40"]),
    ] {
        let place = directory();
        let mut command = Command::new(mallow());
        command.arg(way);
        if way == "record" {
            command.args(["--no-report", "-o", "out"]);
        }
        command.args(["--", "/bin/sh", "-c", SCRIPT]).current_dir(place.path()).process_group(0);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("mallow");
        wait_for(&place.path().join("begun"));
        let got = || fs::read_to_string(place.path().join("got")).unwrap_or_default();
        for (number, name) in signals.iter().enumerate() {
            signal(&child.id().to_string(), name);
            until(name, || (got().lines().count() > number).then_some(()));
        }
        fs::write(place.path().join("go"), "").expect("a file");
        let (status, said) = end(child);
        assert_eq!(got().lines().collect::<Vec<_>>(), signals, "{way}: {said}");
        assert_eq!(status.code(), Some(9), "{way}: {said}");
    }
}

/// As a terminal does: to the command and to mallow. The recording ends in good order.
#[test]
fn ctrl_c() {
    for way in ["stat", "record"] {
        let place = directory();
        let child = start(way, place.path());
        signal(&format!("-{}", child.id()), "INT");
        let (status, err) = end(child);
        assert_eq!(status.code(), Some(130), "{way}: {err}");
        assert!(!place.path().join("ended").exists(), "the command has ended, too");
        assert!(!err.contains("panicked"), "{err}");
        if way == "record" {
            let json = report(place.path(), "out");
            assert!(number(&json, "allocations") > 60_000, "{json:#}");
            assert_eq!(json["exit_status"].as_i64(), Some(130));
        } else {
            let text = fs::read_to_string(place.path().join("out")).expect("the counts");
            assert!(text.contains("malloc"), "{text}");
        }
    }
}

/// A signal for mallow alone is for the command, which may have its own view of it.
#[test]
fn terminated() {
    for way in ["stat", "record"] {
        let place = directory();
        let child = start(way, place.path());
        signal(&child.id().to_string(), "TERM");
        let (status, err) = end(child);
        assert_eq!(status.code(), Some(143), "{way}: {err}");
    }
}

/// A pipe that takes nothing more, and that nobody reads while the reader lives.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let flags = fcntl_getfl(&writer).expect("flags");
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("no waiting");
    while writer.write(&[b'x'; 4096]).is_ok() {}
    fcntl_setfl(&writer, flags).expect("waiting");
    (reader, writer)
}

/// Ends as soon as the signal has reached the command, whoever reads.
#[test]
fn a_watch_whose_output_nobody_reads_ends_at_a_signal() {
    for (name, status) in [("TERM", 143), ("INT", 130)] {
        let place = directory();
        let (reader, writer) = full_pipe();
        let mut command = Command::new(mallow());
        command.args(["watch", "--every", "100ms", "--period", "64B", "--", "/bin/sh", "-c"]);
        // Nothing that it starts keeps the shell from ending.
        command.arg("echo > begun; while :; do \"$0\" 1 20 2> err; done").arg(program("busy"));
        command.current_dir(place.path()).process_group(0).stdout(Stdio::null()).stderr(writer);
        let mut child = command.spawn().expect("mallow");
        wait_for(&place.path().join("begun"));
        signal(&format!("-{}", child.id()), name);
        let patience = Instant::now() + Duration::from_secs(60);
        let ended = loop {
            match child.try_wait().expect("mallow's end") {
                Some(ended) => break ended,
                None if Instant::now() < patience => std::thread::sleep(Duration::from_millis(20)),
                None => {
                    child.kill().expect("a signal");
                    panic!("SIG{name}: mallow writes for ever");
                }
            }
        };
        assert_eq!(ended.code(), Some(status), "SIG{name}");
        drop(reader);
    }
}

/// What `mallow recover` lists of a directory.
fn listed(place: &Path, directory: &Path) -> Option<serde_json::Value> {
    let run = Run::new(mallow(), place).args(["recover", "--json"]).go();
    assert_eq!(run.status, 0, "{}", run.err());
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let all = json["left_behind"].as_array().expect("a list").clone();
    all.into_iter().find(|row| row["directory"].as_str().map(Path::new) == Some(directory))
}

/// Mallow is killed: the command goes on to its end as if nothing had happened, and what was recorded can be recovered.
#[test]
fn killed() {
    for way in ["stat", "record"] {
        let place = directory();
        let before = RunDirectories::now();
        let child = start(way, place.path());
        let mallow_pid = child.id();
        let made = before.new_of(mallow_pid);
        assert_eq!(made.len(), 1, "{way}: {made:?}");
        let made = &made[0];
        let recover = || Run::new(mallow(), place.path()).args(["recover", "-o", "recovered"]).arg(made).go();
        assert_eq!(listed(place.path(), made), None, "{way}: it is in use");
        let refused = recover();
        assert_eq!(refused.status, 1, "{way}: {}", refused.err());
        assert!(refused.err().contains(&format!("process {mallow_pid} still records")), "{way}: {}", refused.err());

        signal(&mallow_pid.to_string(), "KILL");
        assert!(!place.path().join("ended").exists(), "{way}: the command goes on");
        fs::write(place.path().join("go"), "").expect("go");
        end(child);
        wait_for(&place.path().join("ended"));
        assert_eq!(&before.new_of(mallow_pid), std::slice::from_ref(made), "{way}: the run directory stays");
        let row = listed(place.path(), made).expect("it is listed");
        assert_eq!(row["recoverable"], way == "record", "{row:#}");
        assert_eq!(row["command"][0], "/bin/sh", "{row:#}");
        let run = recover();
        if way == "record" {
            assert_eq!(run.status, 0, "{}", run.err());
            let json = report(place.path(), "recovered");
            // Two threads and the main one, 300 rounds of 100: all before mallow's death.
            assert!(number(&json, "allocations") >= 90_000, "{json:#}");
            assert!(!json["cut_short"].is_null(), "it says that it is not whole: {json:#}");
            // Nothing is left after what it says to do.
            let err = run.err();
            let command = err.lines().last().and_then(|line| line.split_once("was made of: ")).expect("what to do").1;
            assert!(Command::new("sh").args(["-c", command]).status().expect("sh").success(), "{command}");
            let mut files: Vec<_> =
                fs::read_dir(place.path()).expect("the place").flatten().map(|entry| entry.file_name()).collect();
            files.sort();
            assert_eq!(files, ["begun", "ended", "go", "recovered"]);
        } else {
            assert_eq!(run.status, 1, "{}", run.err());
            assert!(run.err().contains("made by mallow stat"), "{}", run.err());
            fs::remove_dir_all(made).expect("removing what was left");
        }
        assert_eq!(before.new_of(mallow_pid), Vec::<PathBuf>::new(), "{way}");
    }
}

/// The command has ended, and a signal ends mallow before it is done with what the command left: nothing is lost.
///
/// The recording is written to a pipe that nobody reads until then, so mallow has work left, however fast it is.
#[test]
fn terminated_after_the_command() {
    const ROUNDS: u64 = 1000;
    let place = directory();
    let before = RunDirectories::now();
    let pipe = place.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo");
    assert!(made.success(), "a named pipe");
    // Without waiting for a writer.
    let mut reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).expect("the pipe");
    let mut command = Command::new(mallow());
    command.args(["record", "--no-report", "-o", "pipe", "--"]).arg(program("busy")).args(["3", &ROUNDS.to_string()]);
    command.current_dir(place.path()).env("TMPDIR", place.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("mallow");
    let pid = child.id();
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("the command's last word");
    assert!(line.starts_with("3 threads: "), "{line}");
    let children = || fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    until("the command's end", || children().is_ok_and(|children| children.is_empty()).then_some(()));
    kill_process(Pid::from_child(&child), Signal::TERM).expect("a signal");
    let mut part = vec![0; 1 << 16];
    let mut read = 0;
    let status = until("mallow's end", || {
        while let Ok(bytes @ 1..) = reader.read(&mut part) {
            read += bytes;
        }
        child.try_wait().expect("its status")
    });
    let (_, err) = end(child);
    assert_eq!(status.code(), Some(143), "{err}");
    assert!(read > 0, "it is a part of the recording");
    let run_directory =
        err.split_once("mallow recover ").and_then(|(_, rest)| rest.split_once(" makes it")).expect("what to do").0;
    assert_eq!(before.new_of(pid), [PathBuf::from(run_directory)], "{err}");

    let run = Run::new(mallow(), place.path()).args(["recover", "-o", "recovered", run_directory]).go();
    assert_eq!(run.status, 0, "{}", run.err());
    let json = report(place.path(), "recovered");
    // Three threads and the main one, rounds of 100, and what the C library allocates.
    let least = 4 * 100 * ROUNDS;
    assert!((least..least + 100).contains(&number(&json, "allocations")), "{json:#}");
    fs::remove_dir_all(run_directory).expect("removing what was left");
}

/// The letter that the kernel gives a process's state.
fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Mallow is stopped for longer than the patience of a waiting thread: the command ends as ever, and mallow
/// reports what was not recorded.
#[test]
fn stopped() {
    let place = directory();
    let mut command = Command::new(mallow());
    command.args(["record", "--no-report", "-o", "out", "--", "/bin/sh", "-c"]);
    command.arg("echo > begun; read go; \"$0\" 2 2000; echo > ended; exit 9").arg(program("busy"));
    command.current_dir(place.path()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("mallow");
    wait_for(&place.path().join("begun"));
    signal(&child.id().to_string(), "STOP");
    until("the stop", || (state(child.id()) == Some('T')).then_some(()));
    drop(child.stdin.take());
    wait_for(&place.path().join("ended"));
    signal(&child.id().to_string(), "CONT");
    let (status, err) = end(child);
    assert_eq!(status.code(), Some(9), "{err}");
    let json = report(place.path(), "out");
    assert!(number(&json, "lost") > 0, "600,000 events cannot have been kept: {json:#}");
}

/// What two users' recordings, or two of one, do at the same time is nobody else's affair.
#[test]
fn many_at_once() {
    let place = directory();
    let runs: Vec<(PathBuf, Child)> = (0..12)
        .map(|n| {
            let file = place.path().join(format!("out-{n}"));
            let child = Command::new(mallow())
                .args(["record", "--no-report", "-o"])
                .arg(&file)
                .arg("--")
                .arg(program("busy"))
                .args(["1", &format!("{}", 10 + n)])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("mallow");
            (file, child)
        })
        .collect();
    for (n, (file, mut child)) in runs.into_iter().enumerate() {
        assert!(child.wait().expect("its end").success());
        let json = report(place.path(), file.to_str().expect("a plain path"));
        let rounds = 10 + n as u64;
        assert!((2 * rounds * 100..2 * rounds * 100 + 10).contains(&number(&json, "allocations")), "{json:#}");
    }
}

/// A recording in the middle of a recording: each reports its own.
#[test]
fn mallow_under_mallow() {
    let place = directory();
    let run = Run::new(mallow(), place.path())
        // The inner one may be static, and out of reach: what starts it is not.
        .args(["record", "--no-report", "-o", "outer", "--", "sh", "-c", "\"$@\"; exit $?", "sh"])
        .arg(mallow())
        .args(["stat", "--json", "-o", "inner.json", "--"])
        .arg(program("busy"))
        .args(["1", "50"])
        .go();
    assert_eq!(run.status, 0, "{}", run.err());
    assert!(run.out().starts_with("1 threads: "), "{}", run.out());
    let inner = fs::read(place.path().join("inner.json")).expect("the inner counts");
    let inner = harness::document(inner);
    assert!(number(&inner, "allocations") >= 10_000, "{inner:#}");
    assert!(number(&report(place.path(), "outer"), "allocations") > 0);
    nothing_left("mallow under mallow", &run);
}
