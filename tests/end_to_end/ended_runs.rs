//! What sampled programs leave when no mallow is beside them, and what is said of it.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use harness::{Run, RunDirectories, directory, mallow, program, samples};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The lists of `mallow recover --json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    LeftBehind,
    EndedBySignal,
}

/// The command under `mallow run --sample`, and in which list of `mallow recover` it is.
fn list_of(command: &[&str], status: i32) -> Option<List> {
    let place = directory();
    let run = Run::new(mallow(), place.path()).args(["run", "--sample", "--period", "4KiB", "--"]).args(command).go();
    assert_eq!(run.status, status, "{command:?}: {}", run.err());
    let left = run.before.new_of(run.pid);
    let [left] = &left[..] else { panic!("{command:?} left {left:?}") };
    let taken: u64 = fs::read_dir(left).expect("it").flatten().map(|entry| samples(&entry.path())).sum();
    assert!(taken > 0, "{command:?} was not sampled");
    let listed = listed(place.path(), left);
    let _ = fs::remove_dir_all(left);
    listed
}

fn listed(place: &Path, directory: &Path) -> Option<List> {
    let run = Run::new(mallow(), place).args(["recover", "--json"]).go();
    let json: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let in_list = |name: &str| {
        let rows = json[name].as_array().unwrap_or_else(|| panic!("no {name}: {json:#}")).clone();
        rows.iter().any(|row| row["directory"].as_str().map(PathBuf::from).as_deref() == Some(directory))
    };
    match (in_list("left_behind"), in_list("ended_by_signal")) {
        (true, false) => Some(List::LeftBehind),
        (false, true) => Some(List::EndedBySignal),
        (false, false) => None,
        (true, true) => panic!("{} is in both lists", directory.display()),
    }
}

fn endings() -> String {
    program("endings").to_str().expect("a plain path").to_owned()
}

/// Nobody was killed: there is nothing to recover, and the next run takes it away.
#[test]
fn who_ended_by_itself_left_nothing_behind() {
    for (how, status) in [("exit", 18), ("_exit", 19), ("exit_group", 20), ("quick_exit", 21), ("main_leaves", 0)] {
        assert_eq!(list_of(&[&endings(), how, "2000"], status), None, "{how}");
    }
    let python = "import os; x = [bytes(9000) for i in range(2000)]; os._exit(3)";
    assert_eq!(list_of(&["/usr/bin/env", "PYTHONMALLOC=malloc", "python3", "-c", python], 3), None, "python");
}

/// An image that another one replaced is no crash, however small the other one is.
#[test]
fn who_became_another_program_left_nothing_behind() {
    let python = "import os; x = [bytes(9000) for i in range(2000)]; os.execv('/bin/true', ['true'])";
    let set = ["/usr/bin/env", "PYTHONMALLOC=malloc", "python3", "-c"];
    assert_eq!(list_of(&[&set[..], &[python]].concat(), 0), None, "exec");
    let forks = "import os; x = [bytes(9000) for i in range(2000)]
for i in range(4):
    if os.fork() == 0:
        y = [bytes(9000) for i in range(2000)]
        os.execv('/bin/sh', ['sh', '-c', 'exit 0']) if i < 2 else os._exit(0)
    os.wait()";
    assert_eq!(list_of(&[&set[..], &[forks]].concat(), 0), None, "children");
}

/// What a signal ended stays. Which one it was nobody knows once the process is gone: it may be a crash, and SIGTERM is how services
/// are stopped. So no mallow is said to have left it behind.
#[test]
fn who_was_killed_left_its_samples() {
    for (how, status) in [("kill", 137), ("segv", 139), ("abort", 134), ("term", 143)] {
        assert_eq!(list_of(&[&endings(), how, "2000"], status), Some(List::EndedBySignal), "{how}");
    }
    // The child of a process that goes on, and of one that ends after it.
    let child = format!("\"{}\" kill 2000; exit 0", endings());
    assert_eq!(list_of(&["/bin/sh", "-c", &child], 0), Some(List::EndedBySignal), "a child");
}

/// A program that goes on was left behind by nobody.
#[test]
fn who_goes_on_is_not_listed() {
    let place = directory();
    let mut command = std::process::Command::new(mallow());
    command.args(["run", "--sample", "--period", "4KiB", "--"]).arg(program("server"));
    let mut server = super::watching::Alive::start(super::watching::quiet(&mut command));
    super::watching::until("samples", || {
        let directories = server.run_directories();
        let files = directories.iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
        files.map(|entry| samples(&entry.path())).find(|&taken| taken > 0)
    });
    let [left] = &server.run_directories()[..] else { panic!("no directory") };
    assert_eq!(listed(place.path(), left), None, "it goes on");
    server.signal("KILL");
    server.end();
    assert_eq!(listed(place.path(), left), Some(List::EndedBySignal), "it was killed");
    let _ = fs::remove_dir_all(left);
}

/// SIGTERM to mallow at any moment of its start: either it has no run directory any more, or the command was started. It is never
/// lost: mallow ends by it, or the command does.
#[test]
fn nothing_is_left_where_mallow_was_ended_before_the_command() {
    let place = directory();
    for way in [
        &["run", "--sample"][..],
        &["stat", "-o", "s"],
        &["record", "--no-report", "-o", "r.mallow"],
        &["watch", "-o", "w"],
    ] {
        let (mut before_the_command, mut empty) = (0, Vec::new());
        for pause_us in (0..40).map(|turn| turn * 100) {
            let started = place.path().join("started");
            let _ = fs::remove_file(&started);
            let (pid, left) = ended_early(way, pause_us, place.path());
            if started.exists() {
                let sampled = matches!(way[0], "run" | "watch");
                assert!(left.is_empty() || sampled, "{way:?}, after {pause_us} us: {left:?} of {pid}");
            } else {
                before_the_command += 1;
                assert!(left.iter().all(|left| listed(place.path(), left).is_none()), "{way:?}: {left:?} is listed");
                empty.extend(left.clone());
            }
            left.iter().for_each(|left| drop(fs::remove_dir_all(left)));
        }
        assert!(before_the_command > 0, "{way:?}: each signal came too late");
        // Between mallow's last look and exec there are a few instructions.
        assert!(empty.len() <= usize::from(way[0] == "run"), "{way:?} left {empty:?}");
    }
}

/// Starts a shell under mallow, and sends mallow SIGTERM so long after it has made its run directory. Mallow's pid, and its run
/// directories.
fn ended_early(way: &[&str], pause_us: u64, place: &Path) -> (u32, Vec<PathBuf>) {
    let before = RunDirectories::now();
    let mut command = std::process::Command::new(mallow());
    command.args(way).args(["--", "/bin/sh", "-c", ": > started; exec sleep 20"]).current_dir(place);
    let mut child = super::watching::quiet(&mut command).spawn().expect("mallow");
    let pid = child.id();
    let patience = Instant::now() + Duration::from_secs(60);
    while before.new_of(pid).is_empty() {
        assert!(Instant::now() < patience, "{way:?}: no run directory");
        assert!(child.try_wait().expect("its status").is_none(), "{way:?}: it ended by itself");
    }
    std::thread::sleep(Duration::from_micros(pause_us));
    kill_process(Pid::from_child(&child), Signal::TERM).expect("a signal");
    let status = child.wait().expect("its end");
    let status = status.code().or(status.signal().map(|signal| 128 + signal));
    assert_eq!(status, Some(143), "{way:?}, after {pause_us} us");
    (pid, before.new_of(pid))
}
