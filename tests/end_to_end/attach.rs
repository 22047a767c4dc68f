//! `-p` of `stat` and `record`: a process that runs is attached to, seen, and left as it was.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness::{Run, directory, mallow, not_run, program, program_as, rounds, tool, tool_if_there};
use serde_json::Value;

use crate::attach_children::files_of;
use crate::attach_harness::{
    Target, attached, attaching, code, counted, ended_command, finished, interrupt, numbers, programs,
};
use crate::watch_harness::until;

/// A program that counts its own calls, between two moments that are both within the time of the attachment.
#[test]
fn calls_are_counted_exactly() {
    for (allocator, program) in [None, Some("jemalloc"), Some("jemalloc")].into_iter().zip(programs()) {
        calls_of_are_counted_exactly(&program, allocator);
    }
}

fn calls_of_are_counted_exactly(program: &Path, allocator: Option<&str>) {
    let place = directory();
    let mut target = Target::ready(Command::new(program).arg("calls"));
    let (text, condition) = (target.text(), target.condition());
    let mallow = attaching(&["stat", "--json", "-o", "counts.json"], target.pid(), place.path());
    let truth = target.ask();
    interrupt(&mallow);
    finished(mallow);
    let [allocations, frees, foreign] = numbers(&truth);
    let counted = harness::document(fs::read(place.path().join("counts.json")).expect("counts"));
    assert_eq!((&counted["allocations"], &counted["attached"]), (&allocations.into(), &true.into()), "{counted:#}");
    // Those of realloc count as frees.
    assert_eq!(counted["frees"], frees + foreign, "{counted:#}");
    assert_eq!(counted["allocators_inside"][0]["allocator"].as_str(), allocator, "{counted:#}");
    assert!(target.text() == text, "the code is as it was");
    assert_eq!(target.condition(), condition);
}

/// A process that waits for a table at its first call waits with all of its threads. So all that it has loaded have
/// theirs before.
#[test]
fn tables_are_made_before_the_first_call() {
    for program in programs() {
        let place = directory();
        let mut target = Target::ready(Command::new(&program).arg("calls"));
        let mallow = attaching(&["record", "--no-report", "-o", "calls.mallow"], target.pid(), place.path());
        let maps = fs::read_to_string(format!("/proc/{}/maps", target.pid())).unwrap();
        let control =
            maps.lines().find_map(|line| line.split_whitespace().nth(5).filter(|path| path.ends_with("/control")));
        let tables = Path::new(control.expect("it takes part in a run")).with_file_name("tables");
        let names =
            || -> BTreeSet<OsString> { fs::read_dir(&tables).unwrap().map(|one| one.unwrap().file_name()).collect() };
        let before = names();
        assert!(before.len() >= 4, "of the program, the C library, the library and the vdso: {before:?}");
        target.ask();
        assert_eq!(names(), before);
        interrupt(&mallow);
        finished(mallow);
    }
}

/// Starts to record with nothing in the cache of tables, and sends Ctrl-C when the first table is there. What mallow
/// ends with, and says.
fn interrupted_at_the_first_table(pid: u32, place: &Path) -> (Option<i32>, String) {
    let cache = tempfile::tempdir_in(place).expect("a cache");
    let mut command = Command::new(mallow());
    command.args(["record", "-p", &pid.to_string()]).current_dir(place);
    command.env("XDG_CACHE_HOME", cache.path()).stdout(Stdio::null()).stderr(Stdio::piped());
    // A mallow that was killed leaves its directory, and another one may have its process id.
    let names = || fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|one| one.file_name());
    let earlier: BTreeSet<OsString> = names().collect();
    let mallow = command.spawn().expect("mallow");
    let run = format!("mallow-{:07}-", mallow.id());
    let begun = || {
        let mut directories = fs::read_dir("/dev/shm").ok()?.flatten();
        let is_new = |name: &OsString| name.to_string_lossy().starts_with(&run) && !earlier.contains(name);
        let run = directories.find(|one| is_new(&one.file_name()))?;
        fs::read_dir(run.path().join("tables")).ok()?.next()
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while begun().is_none() {
        assert!(Instant::now() < deadline, "no table is made");
    }
    interrupt(&mallow);
    let ended = mallow.wait_with_output().expect("its end");
    (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
}

/// Ctrl-C ends the making of tables, and mallow leaves the process as it was, also to the next one.
#[test]
fn making_tables_is_given_up_for_ctrl_c() {
    let place = directory();
    let mut program = Command::new(&programs()[0]);
    let mut target = Target::ready(program.arg("calls").env("LD_PRELOAD", "libstdc++.so.6"));
    let (text, condition) = (target.text(), target.condition());
    // Where this test gets no processor meanwhile, all tables are there before its signal, and mallow has attached.
    let ended = (0..20).find_map(|_| {
        let (status, said) = interrupted_at_the_first_table(target.pid(), place.path());
        (status != Some(0)).then_some((status, said))
    });
    assert_eq!(ended, Some((Some(125), "mallow: interrupted before the process was attached to\n".to_owned())));
    assert!(target.text() == text, "the code is as it was");
    assert_eq!(target.condition(), condition);
    target.ask();
    let next = attached(&["record", "--for", "100ms"], target.pid(), place.path());
    assert_eq!(next.status, 0, "{}", next.err());
}

/// Threads whose rings are full wait for one thread of mallow, which must not wait for its turn among them.
#[test]
fn rings_are_read_before_others_work() {
    if !rustix::process::geteuid().is_root() {
        return not_run("rings_are_read_before_others_work", "only root's threads may go first");
    }
    let place = directory();
    let target = Target::ready(Command::new(&programs()[0]).arg("calls"));
    let mallow = attaching(&["record", "--no-report", "-o", "calls.mallow"], target.pid(), place.path());
    // proc_pid_stat(5): field 41 is the scheduling policy, 39 after the name.
    let policy = |path: &Path| {
        let stat = fs::read_to_string(path.join("stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(38)?.parse::<i32>().ok()
    };
    let threads = fs::read_dir(format!("/proc/{}/task", mallow.id())).unwrap();
    let policies: Vec<i32> = threads.filter_map(|one| policy(&one.unwrap().path())).collect();
    assert_eq!(policies.iter().filter(|&&policy| policy == libc::SCHED_FIFO).count(), 1, "{policies:?}");
    interrupt(&mallow);
    finished(mallow);
}

/// A server has many names, and writes a title over its arguments: what it was executed as is its name, and no padding
/// is shown.
#[test]
fn a_recording_is_named_as_the_process_was_executed() {
    let place = directory();
    let name = place.path().canonicalize().unwrap().join("served");
    std::os::unix::fs::symlink(program("attached"), &name).unwrap();
    let title = format!("{} *:6379", name.display());
    let target = Target::ready(Command::new(&name).arg0(&title).args(["calls", "", "", "", ""]));
    let run = attached(&["record", "--for", "100ms"], target.pid(), place.path());
    assert_eq!(run.status, 0, "{}", run.err());
    assert!(
        run.err().ends_with("mallow: recorded to served.mallow; mallow view served.mallow opens it\n"),
        "{}",
        run.err()
    );
    let report = Run::new(mallow(), place.path()).args(["report", "served.mallow"]).go().out();
    assert!(report.lines().any(|line| line == format!("{title} calls")), "{report}");
}

/// Blocks from before the attachment are nobody's; stacks begin at the caller.
#[test]
fn events_are_recorded_exactly() {
    for program in programs() {
        events_of_are_recorded_exactly(&program);
    }
}

fn events_of_are_recorded_exactly(program: &Path) {
    let place = directory();
    let mut target = Target::ready(Command::new(program).arg("calls"));
    let (text, condition) = (target.text(), target.condition());
    let mallow = attaching(&["record", "-o", "x.mallow"], target.pid(), place.path());
    let truth = target.ask();
    interrupt(&mallow);
    let said = finished(mallow);
    assert!(said.contains("blocks allocated before are not included"), "{said}");
    let [allocations, frees, _] = numbers(&truth);
    let report = Run::new(harness::mallow(), place.path()).args(["report", "--json", "x.mallow"]).go();
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(report["allocations"], allocations, "{report:#}");
    assert_eq!(report["frees"], frees, "{report:#}");
    // The time that attaching took is no part of the run, and the rate is of the run.
    let [duration, begin, ran] = ["duration_ms", "run_begin_ms", "ran_ms"].map(|key| report[key].as_u64().expect(key));
    assert_eq!((Some(begin), ran), (report["processes"][0]["start_ms"].as_u64(), duration - begin), "{report:#}");
    let text_report = Run::new(harness::mallow(), place.path()).args(["report", "x.mallow"]).go().out();
    let leaks = Run::new(harness::mallow(), place.path()).args(["leaks", "x.mallow"]).go().out();
    for text in [&said, &text_report, &leaks] {
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains(": attached after ")).collect();
        assert!(!lines.iter().any(|line| line.contains("leak")), "the process went on: {text}");
    }
    for text in [&said, &text_report] {
        assert!(text.contains("\n  live at end ") && text.contains("\nrecorded for "), "{text}");
        // Times are those of the recording, which began with attaching.
        let began = report["processes"][0]["start_ms"].as_u64().expect("a time");
        let seconds = format!("{:.2} s", began as f64 / 1000.0);
        let from = if began < 1000 { format!("{began} ms") } else { seconds };
        assert!(began == 0 || text.contains(&format!(", from {from} on")), "{text}");
    }
    let doctor = Run::new(harness::mallow(), place.path()).args(["doctor", "-p", &target.pid().to_string()]).go();
    assert!(doctor.status == 0 && !doctor.out().contains("memfd"), "{}", doctor.out());
    let top = Run::new(harness::mallow(), place.path()).args(["top", "--by", "allocations", "x.mallow"]).go().out();
    assert!(top.contains("calls attached.c") && !top.contains("late_") && !top.contains("libmallow"), "{top}");
    assert!(target.text() == text, "the code is as it was");
    assert_eq!(target.condition(), condition);
    target.child.stdin.take();
    assert!(target.child.wait().unwrap().success());
}

/// Threads that allocate, threads that come and go, and threads in system calls that a stop could end: 200 times with
/// all rounds. All of 64 threads that never sleep reach their stop when they get a processor, which takes a second or
/// more.
#[test]
fn a_storm_is_attached_to_again_and_again() {
    let place = directory();
    let [program, with_jemalloc, _] = programs();
    for (program, threads, rounds) in
        [(&program, "64", 5), (&program, "2", rounds(95)), (&with_jemalloc, "2", rounds(100))]
    {
        let mut target = Target::ready(Command::new(program).args(["storm", threads]));
        let (text, mut mappings) = (target.text(), 0);
        for round in 0..rounds {
            // Where no processor is free, mallow has a small share of one to write what 64 threads did meanwhile.
            let mode: &[&str] = match round % 20 {
                0 if threads != "64" => &["record", "--for", "20ms", "-o", "x.mallow", "--no-report"],
                _ => &["stat", "--for", "20ms"],
            };
            let at = format!("{}, {threads} threads, round {round}", program.display());
            let seen = attached(mode, target.pid(), place.path());
            assert_eq!(seen.status, 0, "{at}: {}", seen.err());
            assert!(target.text() == text, "{at}: the code is as it was");
            let [before, failed] = numbers(&target.ask());
            assert_eq!(failed, 0, "{at}: a system call ended with this error");
            let deadline = Instant::now() + Duration::from_secs(60);
            while numbers::<2>(&target.ask())[0] == before {
                assert!(Instant::now() < deadline, "{at}: it allocates no more");
            }
            // Each thread that allocates may take an arena at any time: the first rounds bring the library and its
            // memory.
            match round {
                0..4 => mappings = mappings.max(target.mappings()),
                _ => assert!(target.mappings() <= mappings + 70, "{at}: mappings are left"),
            }
        }
        assert_eq!(target.field("TracerPid:"), "TracerPid:\t0");
    }
}

/// Mallow is killed after each seventh of its requests to the process (each 21st, with fewer rounds), and each time by
/// another mode: the program goes on, and the next mallow leaves it as it was. Most of the programs are fresh, the
/// others were left by a killed mallow.
#[test]
fn a_mallow_killed_at_any_request_leaves_a_program_that_goes_on() {
    let place = directory();
    let modes: [(&[&str], i32); 3] = [
        (&["stat", "--for", "0ms"], 1),
        (&["record", "-o", "x.mallow", "--no-report", "--for", "0ms"], 2),
        // It leaves when it has been attached for a while.
        (&["watch", "--json", "-o", "reports"], 3),
    ];
    // The least number of kills is in proportion to them.
    let parts = rounds(3);
    let sparse = 4 - parts as usize;
    let mut kills = 0;
    for ((mode, first), attached_to) in modes.into_iter().zip(programs()) {
        let start = || {
            let target = Target::ready(Command::new(&attached_to).args(["storm", "1"]));
            let descriptors = target.descriptors().into_iter().filter(|name| !name.ends_with("[eventpoll]")).collect();
            (target, descriptors)
        };
        let (mut target, mut descriptors): (Target, Vec<String>) = start();
        let text = target.text();
        for (round, request) in (first..).step_by(7 * sparse).enumerate() {
            let mut command = Command::new(program("killed"));
            command.arg(request.to_string()).arg(mallow()).args(mode);
            if mode[0] == "watch" {
                command.env("KILLED_IDLE", "1");
            }
            command.args(["-p", &target.pid().to_string()]).current_dir(place.path());
            command.env("KILLED_AFTER_US", ["0", "50", "2000"][round % 3]);
            let seen = ended_command(command.stderr(Stdio::null()));
            let ended = String::from_utf8_lossy(&seen.stdout).trim_end().ends_with("ended 0");
            assert!(ended || seen.stdout.ends_with(b"killed\n"), "request {request}: {seen:?}");
            let [before, failed] = numbers(&target.ask());
            // A mallow that is killed within microseconds of interrupting a thread cannot hide that.
            assert!(failed == 0 || failed == libc::EINTR as u64, "a system call ended with error {failed}");
            let deadline = Instant::now() + Duration::from_secs(60);
            while numbers::<2>(&target.ask())[0] < before + 100 {
                assert!(Instant::now() < deadline, "{mode:?}, request {request}: it allocates no more");
            }
            let blocked = target.field("SigBlk:");
            assert_eq!(blocked, "SigBlk:\t0000000000000000", "{mode:?}, request {request}");
            let _ = fs::remove_file(place.path().join("x.mallow"));
            if ended {
                break;
            }
            kills += 1;
            match round % 8 {
                3 => {
                    let last = attached(&["stat", "--for", "0ms"], target.pid(), place.path());
                    assert_eq!(last.status, 0, "{mode:?}, request {request}: {}", last.err());
                    assert!(target.text() == text, "{mode:?}, request {request}: the code is as it was");
                    // The program opens its epoll descriptor at any time after it was ready.
                    let left = target.descriptors().into_iter().filter(|name| !name.ends_with("[eventpoll]"));
                    assert_eq!(left.collect::<Vec<_>>(), descriptors, "{mode:?}, request {request}");
                }
                7 => {}
                _ => (target, descriptors) = start(),
            }
        }
    }
    assert!(kills > 40 * parts / 3, "{kills} requests");
}

/// The same at moments that no request marks, while several threads allocate: some of them while mallow is attached.
#[test]
fn a_killed_mallow_leaves_a_program_that_goes_on() {
    let place = directory();
    let script = "import sys, threading\ndef work():\n    while True: l = [bytes(600 + i) for i in range(200)]\nthreading.Thread(target=work, daemon=True).start()\nprint('ready', flush=True)\nfor n, line in enumerate(sys.stdin): print(n * 1000000, 0, flush=True)\n";
    let [_, with_jemalloc, _] = programs();
    let storm = Target::ready(Command::new(with_jemalloc).args(["storm", "4"]));
    let python = Target::ready(Command::new(tool("python3")).args(["-c", script]));
    for mut target in [storm, python] {
        let text = target.text();
        let started = Instant::now();
        let whole = attached(&["stat", "--for", "0ms"], target.pid(), place.path());
        assert_eq!(whole.status, 0, "{}", whole.err());
        let span = started.elapsed();
        let rounds = rounds(20);
        for round in 0..rounds {
            let mode: &[&str] = if round % 2 == 0 { &["stat"] } else { &["record", "-o", "x.mallow", "--no-report"] };
            let mut command = Command::new(mallow());
            command.args(mode).args(["-p", &target.pid().to_string()]).current_dir(place.path());
            let mut mallow = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("mallow");
            std::thread::sleep(span * (round * 20 / rounds) / 18);
            mallow.kill().expect("it can be killed");
            mallow.wait().expect("its end");
            let [before, failed] = numbers(&target.ask());
            // A mallow that is killed within microseconds of interrupting a thread cannot hide that.
            assert!(failed == 0 || failed == libc::EINTR as u64, "a system call ended with error {failed}");
            let deadline = Instant::now() + Duration::from_secs(60);
            while numbers::<2>(&target.ask())[0] < before + 1000 {
                assert!(Instant::now() < deadline, "round {round}: it allocates no more");
            }
            let _ = fs::remove_file(place.path().join("x.mallow"));
        }
        let last = attached(&["stat", "--for", "100ms"], target.pid(), place.path());
        assert_eq!(last.status, 0, "{}", last.err());
        assert!(target.text() == text, "the code is as it was");
    }
}

/// A shared allocator in place of the C library's.
#[test]
fn shared_allocators_are_seen() {
    const ALL: [&str; 3] = ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"];
    let libraries = Path::new("/usr/lib/x86_64-linux-gnu");
    for name in ALL {
        let library = libraries.join(name);
        if !library.exists() {
            not_run("shared_allocators_are_seen", &format!("{name} is not here"));
            continue;
        }
        let place = directory();
        let mut target = Target::ready(Command::new(program("attached")).arg("calls").env("LD_PRELOAD", &library));
        let text = target.text();
        let mut mallow = Command::new(mallow());
        let pid = target.pid().to_string();
        mallow.args(["stat", "--json", "-o", "counts.json", "-p", &pid]).current_dir(place.path());
        let mallow = mallow.stderr(Stdio::piped()).spawn().expect("mallow");
        let deadline = Instant::now() + Duration::from_secs(60);
        while target.text() == text {
            assert!(Instant::now() < deadline, "mallow does not attach");
            std::thread::sleep(Duration::from_millis(5));
        }
        let truth = target.ask();
        interrupt(&mallow);
        finished(mallow);
        let [allocations, frees, foreign] = numbers(&truth);
        let counted = harness::document(fs::read(place.path().join("counts.json")).expect("counts"));
        assert_eq!(counted["allocations"], allocations, "{name}: {counted:#}");
        assert_eq!(counted["frees"], frees + foreign, "{name}: {counted:#}");
        assert!(target.text() == text, "{name}: the code is as it was");
    }
}

/// Programs as they are: one at a fixed address, whose own table of jumps stands for malloc; one with a shared
/// jemalloc.
#[test]
fn programs_of_the_system_are_attached_to() {
    let place = directory();
    let script = "import time\nprint('ready', flush=True)\nwhile True:\n    l = [bytes(600 + i) for i in range(200)]\n    time.sleep(0.002)\n";
    let python = Target::ready(Command::new(tool("python3")).args(["-c", script]));
    let text = python.text();
    let seen = attached(&["stat", "--for", "500ms"], python.pid(), place.path());
    assert_eq!(seen.status, 0, "{}", seen.err());
    assert!(seen.err().contains("calloc") || seen.err().contains("malloc"), "{}", seen.err());
    let recorded = attached(&["record", "--for", "500ms", "-o", "x.mallow"], python.pid(), place.path());
    assert_eq!(recorded.status, 0, "{}", recorded.err());
    assert!(recorded.err().contains("1 process"), "{}", recorded.err());
    assert!(python.text() == text, "the code is as it was");

    let sqlite = tool("sqlite3");
    let mut sqlite = Target::start(Command::new(sqlite).arg(":memory:"));
    sqlite.child.stdin.as_mut().unwrap().write_all(b"select 'ready';\n").unwrap();
    assert_eq!(sqlite.line(), "ready");
    let text = sqlite.text();
    let mallow = attaching(&["stat"], sqlite.pid(), place.path());
    sqlite
        .child
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"create table t(x); insert into t values(1); select 'done';\n")
        .unwrap();
    assert_eq!(sqlite.line(), "done");
    interrupt(&mallow);
    assert!(finished(mallow).contains("malloc"));
    assert!(sqlite.text() == text, "the code is as it was");

    let Some(redis) = tool_if_there("redis-server") else {
        return not_run("programs_of_the_system_are_attached_to", "no redis-server");
    };
    let socket = place.path().join("redis");
    let mut command = Command::new(redis);
    command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket).current_dir(place.path());
    let mut redis = Target::start(&mut command);
    let mut last = redis.line();
    while !last.contains("eady to accept") && !socket.exists() {
        assert!(!last.is_empty() || redis.child.try_wait().expect("a child").is_none(), "redis ended");
        last = redis.line();
    }
    let text = redis.text();
    let seen = attached(&["stat", "--for", "1s"], redis.pid(), place.path());
    assert_eq!(seen.status, 0, "{}", seen.err());
    assert!(redis.text() == text, "the code is as it was");
}

/// Code that nobody in the process may change, mallow's library included: it is written from outside.
#[test]
fn sealed_code_is_patched_and_restored() {
    const TEST: &str = "sealed_code_is_patched_and_restored";
    let flags = ["-l:libjemalloc.a", "-lm", "-ldl", "-lstdc++", "-fno-builtin"];
    for program in [program("sealed"), program_as("sealed", "sealed-with-jemalloc", "cc", &flags)] {
        let place = directory();
        let mut target = Target::start(&mut Command::new(program));
        match target.line().as_str() {
            "ready" => {}
            "no mseal" => return not_run(TEST, "the kernel has no mseal (Linux 6.10)"),
            other => panic!("{other}"),
        }
        let (text, condition) = (target.text(), target.condition());
        for mode in [&["stat", "--json", "-o", "counts.json"][..], &["record", "-o", "x.mallow"]] {
            let mallow = attaching(mode, target.pid(), place.path());
            let [allocations, frees] = numbers(&target.ask());
            interrupt(&mallow);
            let said = finished(mallow);
            let counted = counted(mode, place.path());
            assert_eq!((&counted["allocations"], &counted["frees"]), (&allocations.into(), &frees.into()), "{said}");
            assert!(target.text() == text, "the code is as it was");
            assert_eq!(target.condition(), condition);
        }
        let again: [u64; 2] = numbers(&target.ask());
        assert_eq!(again, [1000, 1000]);
    }
}

/// A forked child has the patches of its parent: it is recorded, and freed from them.
#[test]
fn forked_children_are_recorded_and_left_as_they_were() {
    let place = directory();
    let script = "import os, time\nprint('ready', flush=True)\ninput()\nif os.fork() == 0:\n    l = []\n    for i in range(100000):\n        l = [bytes(700) for j in range(100)]\n        time.sleep(0.001)\nprint('forked', flush=True)\ntime.sleep(1000)\n";
    let mut python = Target::ready(Command::new(tool("python3")).args(["-c", script]));
    let (text, clean) = (python.text(), code(python.pid()));
    let mallow = attaching(&["record", "-o", "x.mallow"], python.pid(), place.path());
    assert_eq!(python.ask(), "forked");
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", python.pid())).expect("its children");
    let child: u32 = children.trim().parse().expect("a child");
    until("the child's allocations", || (!files_of(child, mallow.id()).is_empty()).then_some(()));
    interrupt(&mallow);
    let said = finished(mallow);
    assert!(said.contains("2 processes"), "{said}");
    assert!(code(child) == clean, "the child's code is as it was");
    assert!(python.text() == text, "the code is as it was");
    // SAFETY: a system call without pointers.
    unsafe { libc::kill(child as i32, libc::SIGKILL) };
}

/// A process that cannot be attached to is refused with a reason, and nothing of it changes.
#[test]
fn what_cannot_be_attached_to_is_named() {
    let place = directory();
    let gone = attached(&["stat"], 4_194_300, place.path());
    assert_eq!(gone.status, 125, "{}", gone.err());
    assert!(gone.err().contains("there is no process 4194300"), "{}", gone.err());
    let mut command = Command::new(mallow());
    command.args(["stat", "--"]).arg(program("attached")).arg("calls").current_dir(place.path());
    let mut outer = Target::ready(command.stderr(Stdio::null()));
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", outer.pid())).expect("its children");
    let inner: u32 = children.split_whitespace().next().expect("a child").parse().expect("a pid");
    let refused = attached(&["record", "-o", "x.mallow"], inner, place.path());
    assert_eq!(refused.status, 125, "{}", refused.err());
    assert!(refused.err().contains("runs under mallow already"), "{}", refused.err());
    outer.ask();
    outer.child.stdin.take();
    let _ = outer.child.wait();
    let stripped = ["-l:libjemalloc.a", "-lm", "-ldl", "-lstdc++", "-fno-builtin", "-s"];
    let stripped = program_as("attached", "attached-with-stripped-jemalloc", "cc", &stripped);
    let fixed = program_as("attached", "attached-static", "cc", &["-static"]);
    for (program, reason) in
        [(stripped, "its allocator is inside of the executable, which is stripped"), (fixed, "static")]
    {
        let mut target = Target::ready(Command::new(program).arg("calls"));
        let (text, condition) = (target.text(), target.condition());
        let refused = attached(&["stat"], target.pid(), place.path());
        assert!(refused.status == 125 && refused.err().contains(reason), "{}", refused.err());
        assert!(target.text() == text && target.condition() == condition, "it is as it was");
        target.ask();
    }
    let busy = Target::ready(Command::new(program("attached")).args(["storm", "2"]));
    let first = attaching(&["stat"], busy.pid(), place.path());
    let second = attached(&["stat"], busy.pid(), place.path());
    assert!(second.status == 125 && second.err().contains("another mallow"), "{}", second.err());
    interrupt(&first);
    finished(first);
}
