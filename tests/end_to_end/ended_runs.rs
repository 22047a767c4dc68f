//! What sampled programs leave when no mallow is beside them, and what is said of it.

use std::fs;
use std::path::{Path, PathBuf};

use harness::{Run, directory, mallow, program, samples};
use serde_json::Value;

/// The command under `mallow run --sample`, and whether `mallow recover` lists what it left.
fn is_listed(command: &[&str], status: i32) -> bool {
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

fn listed(place: &Path, directory: &Path) -> bool {
    let run = Run::new(mallow(), place).args(["recover", "--json"]).go();
    let json: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let rows = json["left_behind"].as_array().expect("a list").clone();
    rows.iter().any(|row| row["directory"].as_str().map(PathBuf::from).as_deref() == Some(directory))
}

fn endings() -> String {
    program("endings").to_str().expect("a plain path").to_owned()
}

/// Nobody was killed: there is nothing to recover, and the next run takes it away.
#[test]
fn who_ended_by_itself_left_nothing_behind() {
    for (how, status) in [("exit", 18), ("_exit", 19), ("exit_group", 20), ("quick_exit", 21), ("main_leaves", 0)] {
        assert!(!is_listed(&[&endings(), how, "2000"], status), "{how}");
    }
    let python = "import os; x = [bytes(9000) for i in range(2000)]; os._exit(3)";
    assert!(!is_listed(&["/usr/bin/env", "PYTHONMALLOC=malloc", "python3", "-c", python], 3), "python");
}

/// An image that another one replaced is no crash, however small the other one is.
#[test]
fn who_became_another_program_left_nothing_behind() {
    let python = "import os; x = [bytes(9000) for i in range(2000)]; os.execv('/bin/true', ['true'])";
    let set = ["/usr/bin/env", "PYTHONMALLOC=malloc", "python3", "-c"];
    assert!(!is_listed(&[&set[..], &[python]].concat(), 0), "exec");
    let forks = "import os; x = [bytes(9000) for i in range(2000)]
for i in range(4):
    if os.fork() == 0:
        y = [bytes(9000) for i in range(2000)]
        os.execv('/bin/sh', ['sh', '-c', 'exit 0']) if i < 2 else os._exit(0)
    os.wait()";
    assert!(!is_listed(&[&set[..], &[forks]].concat(), 0), "children");
}

/// A crash stays, and is called one.
#[test]
fn who_was_killed_left_its_samples() {
    for (how, status) in [("kill", 137), ("segv", 139), ("abort", 134), ("term", 143)] {
        assert!(is_listed(&[&endings(), how, "2000"], status), "{how}");
    }
    // The child of a process that goes on, and of one that ends after it.
    let child = format!("\"{}\" kill 2000; exit 0", endings());
    assert!(is_listed(&["/bin/sh", "-c", &child], 0), "a child");
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
    assert!(!listed(place.path(), left), "it goes on");
    server.signal("KILL");
    server.end();
    assert!(listed(place.path(), left), "it was killed");
}
