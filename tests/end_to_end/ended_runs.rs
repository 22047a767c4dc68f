//! What sampled programs leave when no mallow is beside them, and what is said of it.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use harness::{Run, RunDirectories, directory, mallow, program, rounds, samples};
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
    assert!(taken(left) > 0, "{command:?} was not sampled");
    let listed = listed(place.path(), left);
    let _ = fs::remove_dir_all(left);
    listed
}

/// Samples in a run directory.
fn taken(directory: &Path) -> u64 {
    fs::read_dir(directory).expect("a run directory").flatten().map(|entry| samples(&entry.path())).sum()
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

/// What a signal ended stays. Which one it was nobody knows once the process is gone: it may be a crash, and SIGTERM is
/// how services are stopped. So no mallow is said to have left it behind.
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
    let mut server = super::watch_harness::Alive::start(super::watch_harness::quiet(&mut command));
    super::watch_harness::until("samples", || {
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

/// SIGTERM to mallow at any moment of its start: either it has no run directory any more, or the command was started.
/// It is never lost: mallow ends by it, or the command does. `mallow run` becomes the command: a signal that finds it
/// at exec, or the command before its first line, ends what cannot remove the directory any more. The next run removes
/// it.
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
        // At moments of 4 ms, and at the first one until a signal has come before the command.
        let moments = rounds(40);
        let pauses_us = (0..moments).map(|turn| u64::from(turn * 4000 / moments)).chain([0; 400]);
        for (turn, pause_us) in pauses_us.enumerate() {
            if turn >= moments as usize && before_the_command > 0 {
                break;
            }
            let started = place.path().join("started");
            let _ = fs::remove_file(&started);
            let (pid, mallow_ended, left) = ended_early(way, pause_us, place.path());
            // A shell that is sampled allocates before its first line.
            let was_sampled = || left.iter().any(|left| taken(left) > 0);
            if started.exists() || way[0] == "run" && was_sampled() {
                let sampled = matches!(way[0], "run" | "watch");
                assert!(left.is_empty() || sampled, "{way:?}, after {pause_us} us: {left:?} of {pid}");
            } else {
                before_the_command += 1;
                assert!(left.iter().all(|left| listed(place.path(), left).is_none()), "{way:?}: {left:?} is listed");
                if mallow_ended {
                    empty.extend(left.clone());
                }
            }
            assert!(mallow_ended || way[0] == "run", "{way:?}, after {pause_us} us: mallow was killed");
            left.iter().for_each(|left| drop(fs::remove_dir_all(left)));
        }
        assert!(before_the_command > 0, "{way:?}: each signal came too late");
        assert!(empty.is_empty(), "{way:?} left {empty:?}");
    }
}

/// Starts a shell under mallow, and sends mallow SIGTERM so long after it has made its run directory. Mallow's pid,
/// whether it ended in good order and not by the signal itself, and its run directories.
fn ended_early(way: &[&str], pause_us: u64, place: &Path) -> (u32, bool, Vec<PathBuf>) {
    let before = RunDirectories::now();
    let mut command = std::process::Command::new(mallow());
    command.args(way).args(["--", "/bin/sh", "-c", ": > started; exec sleep 20"]).current_dir(place);
    let mut child = super::watch_harness::quiet(&mut command).spawn().expect("mallow");
    let pid = child.id();
    let patience = Instant::now() + Duration::from_secs(60);
    while before.new_of(pid).is_empty() {
        assert!(Instant::now() < patience, "{way:?}: no run directory");
        assert!(child.try_wait().expect("its status").is_none(), "{way:?}: it ended by itself");
    }
    std::thread::sleep(Duration::from_micros(pause_us));
    kill_process(Pid::from_child(&child), Signal::TERM).expect("a signal");
    let status = child.wait().expect("its end");
    let shown = status.code().or(status.signal().map(|signal| 128 + signal));
    assert_eq!(shown, Some(143), "{way:?}, after {pause_us} us");
    (pid, status.code().is_some(), before.new_of(pid))
}

/// Above all numbers of processes that Linux gives.
const NOBODY: u32 = 9_999_999;

/// Makes a file or a directory older than any mallow's start takes.
fn age(path: &Path) {
    let an_hour_ago = std::time::SystemTime::now() - Duration::from_secs(3600);
    fs::File::open(path).expect("it").set_modified(an_hour_ago).expect("its time");
}

/// A mallow that was killed while it made its run directory leaves one that nobody lists, at any of these moments. The
/// next run removes it, and nothing else.
#[test]
fn what_was_killed_at_its_start_is_swept() {
    let place = directory();
    let made = |name: String, files: &[(&str, usize)]| {
        let path = place.path().join(name);
        fs::create_dir(&path).expect("a directory");
        for &(file, bytes) in files {
            fs::write(path.join(file), vec![0; bytes]).expect("a file");
        }
        path
    };
    let moments = [
        &[][..],
        &[("control", 0)],
        &[("control", 100)],
        &[("control", 4096), ("about", 0)],
        &[("control", 4096), ("about", 9)],
    ];
    let kept = [
        // Of a process that lives, with something of somebody else's in it, and of other names.
        made(format!("mallow-{:07}-abcdef", std::process::id()), &[]),
        made(format!("mallow-{NOBODY:07}-abcdee"), &[("letters", 1)]),
        made("mallow-0".to_owned(), &[]),
        made(format!("mallow-{NOBODY:07}-mine"), &[]),
    ];
    kept.iter().for_each(|path| age(path));
    let young = made(format!("mallow-{NOBODY:07}-abcded"), &[]);
    for way in [&["stat"][..], &["record", "--no-report", "-o", "r.mallow"], &["run", "--sample"]] {
        let unfinished: Vec<PathBuf> = moments
            .iter()
            .zip(0..)
            .map(|(files, number)| made(format!("mallow-{NOBODY:07}-00000{number}"), files))
            .collect();
        unfinished.iter().for_each(|path| age(path));
        let run =
            Run::new(mallow(), place.path()).args(way).args(["--", "true"]).env("TMPDIR", Some(place.path())).go();
        assert_eq!(run.status, 0, "{way:?}: {}", run.err());
        run.before.new_of(run.pid).iter().for_each(|left| drop(fs::remove_dir_all(left)));
        assert!(unfinished.iter().all(|path| !path.exists()), "{way:?}: {unfinished:?}");
    }
    for path in kept.iter().chain([&young]) {
        assert!(path.exists(), "{} is gone", path.display());
    }
}

/// Spools without a run directory are of no use: the next recording of that name removes them.
#[test]
fn spools_that_nobody_needs_are_swept() {
    let place = directory();
    let file = |name: String, contents: &[u8]| {
        let path = place.path().join(name);
        fs::write(&path, contents).expect("a file");
        age(&path);
        path
    };
    let alive = std::process::id();
    let gone = [
        file(format!("out.mallow.{NOBODY}.spool"), b""),
        file(format!("out.mallow.{NOBODY}-2.spool"), b"LALSPOOL and more"),
    ];
    let kept = [
        file(format!("other.mallow.{NOBODY}.spool"), b""),
        file(format!("out.mallow.{alive}.spool"), b""),
        file("out.mallow.x.spool".to_owned(), b""),
        file(format!("out.mallow.{}.spool", NOBODY - 1), b"a letter of mine"),
        // That of a run directory which can still be recovered.
        file(format!("out.mallow.{}.spool", NOBODY - 2), b""),
        // That of a mallow in another pid namespace.
        file(format!("out.mallow.{}.spool", NOBODY - 3), b""),
    ];
    let needed = place.path().join(format!("mallow-{:07}-abcdef", NOBODY - 2));
    fs::create_dir(&needed).expect("a directory");
    let whole = kept[4].canonicalize().expect("it is there");
    std::os::unix::fs::symlink(whole, needed.join("spool")).expect("a link");
    let locked = fs::File::open(&kept[5]).expect("it is there");
    locked.lock().expect("nobody has it");
    let run = Run::new(mallow(), place.path())
        .args(["record", "--no-report", "-o", "out.mallow", "--", "true"])
        .env("TMPDIR", Some(place.path()))
        .go();
    assert_eq!(run.status, 0, "{}", run.err());
    assert!(gone.iter().all(|path| !path.exists()), "{gone:?}");
    for path in &kept {
        assert!(path.exists(), "{} is gone", path.display());
    }
}

/// Kills a mallow that records a command, once that has begun. The run directory that it leaves.
fn killed_at_work(place: &Path) -> PathBuf {
    let before = RunDirectories::now();
    let _ = fs::remove_file(place.join("begun"));
    let mut command = std::process::Command::new(mallow());
    command.args(["record", "--no-report", "-o", "out.mallow", "--", "/bin/sh", "-c", "echo > begun; read go"]);
    command.current_dir(place).stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().expect("mallow");
    super::watch_harness::until("the command", || place.join("begun").exists().then_some(()));
    kill_process(Pid::from_child(&child), Signal::KILL).expect("a signal");
    child.wait().expect("its end");
    let [left] = &before.new_of(child.id())[..] else { panic!("one run directory") };
    left.clone()
}

/// Of two recordings of one name that were killed, the second one took over the file in the making: only that one's
/// command removes it.
#[test]
fn what_to_remove_is_the_runs_own() {
    let place = directory();
    let partial = place.path().join("out.mallow.partial");
    let killed = || killed_at_work(place.path());
    let (first, second) = (killed(), killed());
    let removal = |directory: &Path| {
        let run = Run::new(mallow(), place.path()).args(["recover", "-o", "recovered.mallow"]).arg(directory).go();
        assert_eq!(run.status, 0, "{}", run.err());
        run.err().lines().last().and_then(|line| line.split_once("was made of: ")).expect("what to do").1.to_owned()
    };
    let partial = partial.to_str().expect("a plain path");
    for (directory, its_own) in [(&first, false), (&second, true)] {
        let removal = removal(directory);
        assert!(removal.contains(".spool"), "{removal}");
        assert_eq!(removal.contains(partial), its_own, "{removal}");
        let done = std::process::Command::new("sh").args(["-c", &removal]).status().expect("sh");
        assert!(done.success() && !directory.exists(), "{removal}");
    }
    assert_eq!(fs::read_dir(place.path()).expect("it").flatten().count(), 2, "begun and recovered.mallow");
}

/// Somebody else can make a directory that looks like a run's: what is in it may be links, pipes and devices.
#[test]
fn what_somebody_else_left_is_not_recovered() {
    let place = directory();
    let recover = |directory: &Path| {
        let run = Run::new(mallow(), place.path()).args(["recover", "-o", "x.mallow"]).arg(directory);
        let run = run.limit(std::time::Duration::from_secs(60)).go();
        assert!(!place.path().join("x.mallow").exists() && run.status != 0, "{}", run.err());
        run.err()
    };
    // Its files are pipes, which nobody writes to, or links.
    let made = place.path().join("made");
    fs::create_dir(&made).expect("a directory");
    for file in ["about", "control", "results", "p-1-0"] {
        let pipe = std::process::Command::new("mkfifo").arg(made.join(file)).status().expect("mkfifo");
        assert!(pipe.success());
    }
    let error = recover(&made);
    assert!(error.contains("about is no regular file"), "{error}");
    fs::remove_file(made.join("about")).expect("it is there");
    std::os::unix::fs::symlink("/dev/zero", made.join("about")).expect("a link");
    recover(&made);
    // A real one.
    let left = &killed_at_work(place.path());
    let spool = fs::read_link(left.join("spool")).expect("a link");
    let relink = |to: &Path| {
        fs::remove_file(left.join("spool")).expect("it is there");
        std::os::unix::fs::symlink(to, left.join("spool")).expect("a link");
    };
    relink(Path::new("/dev/zero"));
    let error = recover(left);
    assert!(error.contains("/dev/zero is no regular file"), "{error}");
    relink(&spool);
    if harness::root() {
        std::os::unix::fs::chown(left, Some(65534), Some(65534)).expect("giving it away");
        let error = recover(left);
        assert!(error.contains("it is of user 65534, who alone can recover it"), "{error}");
        std::os::unix::fs::chown(left, Some(0), Some(0)).expect("taking it back");
    } else {
        harness::not_run("what_somebody_else_left_is_not_recovered: another user's", "it needs root");
    }
    let run = Run::new(mallow(), place.path()).args(["recover", "-o", "x.mallow"]).arg(left).go();
    assert_eq!(run.status, 0, "{}", run.err());
    fs::remove_dir_all(left).expect("it is there");
    fs::remove_file(&spool).expect("it is there");
}

/// 61 kills left 55 directories in memory. Those of a killed `mallow stat`, and of a recording whose spool is gone, are
/// of no use.
#[test]
fn what_nothing_can_be_made_of_is_swept() {
    let place = directory();
    let killed = |way: &[&str]| {
        let before = RunDirectories::now();
        let _ = fs::remove_file(place.path().join("begun"));
        let mut command = std::process::Command::new(mallow());
        command.args(way).args(["--", "/bin/sh", "-c", "echo > begun; read go"]);
        command.current_dir(place.path()).stdin(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
        let mut child = command.spawn().expect("mallow");
        super::watch_harness::until("the command", || place.path().join("begun").exists().then_some(()));
        kill_process(Pid::from_child(&child), Signal::KILL).expect("a signal");
        // Its standard input ends with this, and so does the command.
        child.wait().expect("its end");
        let [left] = &before.new_of(child.id())[..] else { panic!("one run directory") };
        left.clone()
    };
    // The first line of `about` is when it began, in ms since 1970 and in ns of the monotonic clock.
    let began_before = |directory: &Path, hours: u64| {
        let about = fs::read(directory.join("about")).expect("what it is");
        let space = about.iter().position(|&byte| byte == b' ').expect("two numbers");
        let ms: u64 = std::str::from_utf8(&about[..space]).expect("digits").parse().expect("a number");
        let earlier = [(ms - hours * 3_600_000).to_string().as_bytes(), &about[space..]].concat();
        fs::write(directory.join("about"), earlier).expect("it is there");
    };
    let record = ["record", "--no-report", "-o", "out.mallow"];
    let (counted, counted_now) = (killed(&["stat"]), killed(&["stat"]));
    let (whole, hollow, hollow_now) = (killed(&record), killed(&record), killed(&record));
    for directory in [&whole, &hollow] {
        began_before(directory, 25);
    }
    began_before(&counted, 1);
    for directory in [&hollow, &hollow_now] {
        fs::remove_file(fs::read_link(directory.join("spool")).expect("a link")).expect("its spool");
    }
    // The commands see the end of their input.
    super::watch_harness::until("the directories to be swept", || {
        let run = Run::new(mallow(), place.path()).args(["stat", "--", "true"]).go();
        assert_eq!(run.status, 0, "{}", run.err());
        (!counted.exists() && !hollow.exists()).then_some(())
    });
    for directory in [&counted_now, &whole, &hollow_now] {
        assert!(directory.exists(), "{} is gone", directory.display());
        fs::remove_dir_all(directory).expect("it is there");
    }
}
