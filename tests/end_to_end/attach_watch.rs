//! `mallow watch -p` of a process that was not started under mallow: it is sampled in place, and left as it was.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness::{RunDirectories, directory, mallow, not_run, program, program_as, rounds, tool, tool_if_there};
use serde_json::Value;

use crate::attach_harness::{Target, attached, code, ended_command, numbers, programs};
use crate::watch_harness::{Alive, Screen, ask_for, maps_of, occasion, quiet, reports, site, until, wait_for};

/// Attaches, and writes reports as JSON to a file.
fn watching(target: &Target, file: &Path, more: &[&str]) -> Alive {
    let mut command = Command::new(mallow());
    command.args(["watch", "-p", &target.pid().to_string(), "--json", "--older-than", "0", "-o"]).arg(file);
    Alive::start(quiet(command.args(more)))
}

fn server(how: &str) -> Target {
    let target = Target::start(Command::new(program("server")).arg(how));
    // It catches SIGUSR1 and SIGTERM first of all.
    until("the server's begin", || target.field("SigCgt:").ends_with("4200").then_some(()));
    target
}

fn verdict<'a>(report: &'a Value, function: &str) -> &'a str {
    site(report, function).and_then(|site| site["growth"]["verdict"].as_str()).unwrap_or("")
}

fn live_bytes(report: &Value, function: &str) -> f64 {
    site(report, function).and_then(|site| site["live_bytes"]["value"].as_f64()).unwrap_or(0.0)
}

/// A leak is named and grows; a program that frees what it allocates does not; both at once, as growth takes its time.
#[test]
fn a_leak_is_found_and_churn_is_none() {
    let place = directory();
    let [leaks, steady] = ["leak", "steady"].map(server);
    let was = [&leaks, &steady].map(|target| (target.text(), target.condition()));
    let [leaking, churning, snapshots] = ["leaking", "churning", "snapshots"].map(|name| place.path().join(name));
    let options = ["--period", "16KiB", "--warm-up", "6s", "--every", "1s"];
    let with_snapshots = [&options[..], &["--snapshots", snapshots.to_str().expect("a path")]].concat();
    let mut first = watching(&leaks, &leaking, &with_snapshots);
    let mut second = watching(&steady, &churning, &options);
    let grown = wait_for(&leaking, "growth", |report| verdict(report, "keep_request") == "growing");
    assert_eq!(verdict(&grown, "fill_cache"), verdict(&grown, "fill_cache").replace("growing", ""), "{grown:#}");
    let names: Vec<_> = site(&grown, "keep_request").expect("the site")["frames"]
        .as_array()
        .expect("frames")
        .iter()
        .map(|frame| frame["function"].as_str().unwrap_or("").to_owned())
        .collect();
    assert_eq!(names[..3], ["keep_request", "serve", "main"]);
    assert!(grown["attached_ms"].as_u64().is_some_and(|ms| 0 < ms && ms < 60_000), "{grown:#}");
    let late = |report: &Value| report["watched_ms"].as_u64() > Some(12_000);
    let last = wait_for(&churning, "a full cache", late);
    assert_eq!(last["growing"], 0, "{last:#}");
    assert!((1e6..4e6).contains(&live_bytes(&last, "fill_cache")), "2 MiB: {last:#}");
    assert!(live_bytes(&last, "work") < 2e5, "{last:#}");

    // As with a program that mallow started: the period changes, and one mallow watches.
    let pid = leaks.pid().to_string();
    let steered = Command::new(mallow()).args(["watch", "-p", &pid, "--period", "32KiB", "--set"]).status();
    assert!(steered.expect("mallow").success());
    wait_for(&leaking, "another period", |report| report["period_bytes"] == 32_768);
    let busy = ended_command(Command::new(mallow()).args(["watch", "-p", &pid]).stderr(Stdio::piped()));
    let said = String::from_utf8_lossy(&busy.stderr).into_owned();
    assert!(busy.status.code() == Some(1) && said.contains("attached to by another mallow"), "{said}");

    for (mallow, (target, file)) in
        [&mut first, &mut second].into_iter().zip([(&leaks, &leaking), (&steady, &churning)])
    {
        mallow.signal("TERM");
        assert_eq!(mallow.end(), 0);
        let last = wait_for(file, "the last report", occasion("leave"));
        assert_eq!((&last["lost"]["picks"], &last["lost"]["unsampled"]), (&0.into(), &0.into()), "{last:#}");
        assert!(!maps_of(&target.pid().to_string()).contains("/p-"), "its files are unmapped");
        assert!(mallow.run_directories().is_empty(), "the run's files are removed");
    }
    for (target, (text, condition)) in [leaks, steady].iter().zip(was) {
        assert!(target.text() == text, "the code is as it was");
        assert_eq!(target.condition(), condition);
    }
    let written = fs::read_dir(&snapshots).expect("snapshots").flatten().map(|entry| entry.path()).next();
    let top = Command::new(mallow()).arg("leaks").arg(written.expect("a snapshot")).output().expect("mallow");
    assert!(String::from_utf8_lossy(&top.stdout).contains("keep_request"), "{top:?}");
}

/// Where every block of some bytes is picked, what is live is known exactly: malloc, calloc, realloc of blocks from
/// before and of sampled ones, one that fails, aligned blocks. Also with an allocator inside of the program.
#[test]
fn each_function_begins_and_ends_samples() {
    for program in programs() {
        let place = directory();
        let file = place.path().join("reports");
        let mut target = Target::ready(Command::new(&program).arg("calls"));
        let text = target.text();
        let mut mallow = watching(&target, &file, &["--period", "1", "--every", "1h"]);
        ask_for(&mallow, "HUP", &file, |report| report["samples"] == 0);
        target.ask();
        let at = program.display();
        // Of the 6 bytes of a text, one in 400 is not picked.
        let live = ask_for(&mallow, "HUP", &file, |report| report["samples"].as_u64() >= Some(14));
        assert!(live["samples"].as_u64() <= Some(15), "{at}: {live:#}");
        let bytes = live["live_bytes"]["value"].as_f64().expect("bytes");
        assert!((102_519.0..=102_528.0).contains(&bytes), "{at}: {live:#}");
        assert_eq!(live["lost"]["picks"], 0, "{at}: {live:#}");
        let recent = ask_for(&mallow, "USR2", &file, |report| report["occasion"] == "recent");
        let recent = recent["recent"].as_array().expect("frees");
        let grew = |free: &&Value| free["how"] == "realloc" && free["size"] == 77;
        assert!(
            recent.iter().any(|free| grew(&free) && free["allocated"]["frames"][0]["function"] == "calls"),
            "{at}: {recent:#?}"
        );
        mallow.signal("INT");
        assert_eq!(mallow.end(), 0, "{at}");
        assert!(target.text() == text, "{at}: the code is as it was");
        target.child.stdin.take();
        assert!(target.child.wait().expect("its end").success(), "{at}: blocks that were samples are the allocator's");
    }
}

/// Waits until a program has worked on.
fn goes_on(target: &mut Target, at: &str) {
    let [before, failed] = numbers(&target.ask());
    assert!(failed == 0 || failed == libc::EINTR as u64, "{at}: a system call ended with error {failed}");
    let deadline = Instant::now() + Duration::from_secs(60);
    while numbers::<2>(&target.ask())[0] < before + 1000 {
        assert!(Instant::now() < deadline, "{at}: it allocates no more");
    }
}

/// Threads that allocate, reallocate and free without end, with most of their blocks sampled: what is live is what they
/// hold.
#[test]
fn a_storm_is_attached_to_and_left_again_and_again() {
    // So many threads hold 64 blocks of 900 bytes at the most.
    const HELD: f64 = 4.0 * 64.0 * 900.0;
    for program in programs() {
        let mut target = Target::ready(Command::new(&program).args(["storm", "4"]));
        let text = target.text();
        for round in 0..rounds(3).max(2) {
            let at = format!("{}, round {round}", program.display());
            let place = directory();
            let file = place.path().join("reports");
            let mut mallow = watching(&target, &file, &["--period", "512", "--every", "200ms"]);
            let seen = wait_for(&file, "samples", |report| {
                report["samples"].as_u64() > Some(50) && report["watched_ms"].as_u64() > Some(700)
            });
            assert!(seen["live_bytes"]["value"].as_f64() < Some(HELD), "{at}: {seen:#}");
            goes_on(&mut target, &at);
            mallow.signal("INT");
            assert_eq!(mallow.end(), 0, "{at}");
            assert!(target.text() == text, "{at}: the code is as it was");
            goes_on(&mut target, &at);
        }
    }
}

/// A mallow that is killed while it attaches, or while it watches: the program goes on, and the next mallow begins
/// anew.
#[test]
fn a_killed_mallow_leaves_a_program_that_goes_on() {
    let [plain, with_jemalloc, _] = programs();
    let place = directory();
    for program in [plain, with_jemalloc] {
        let mut target = Target::ready(Command::new(&program).args(["storm", "2"]));
        let text = target.text();
        let before = RunDirectories::now();
        let mut span = None;
        let mut left = Vec::new();
        for round in (0..=5).rev() {
            let at = format!("{}, round {round}", program.display());
            let file = place.path().join("killed");
            let _ = fs::remove_file(&file);
            let started = Instant::now();
            let mut command = Command::new(mallow());
            command.args([
                "watch",
                "-p",
                &target.pid().to_string(),
                "--period",
                "512",
                "--every",
                "100ms",
                "--json",
                "-o",
            ]);
            let mut mallow = quiet(command.arg(&file)).spawn().expect("mallow");
            match span {
                // The first one is killed while it watches.
                None => {
                    wait_for(&file, "samples", |report| report["samples"].as_u64() > Some(0));
                    span = Some(started.elapsed());
                }
                Some(span) => std::thread::sleep(span * round / 6),
            }
            mallow.kill().expect("it can be killed");
            mallow.wait().expect("its end");
            left.push(mallow.id());
            goes_on(&mut target, &at);
        }
        let file = place.path().join("last");
        let _ = fs::remove_file(&file);
        let mut mallow = watching(&target, &file, &["--period", "512", "--every", "100ms"]);
        wait_for(&file, "samples", |report| report["samples"].as_u64() > Some(0));
        mallow.signal("INT");
        assert_eq!(mallow.end(), 0);
        assert!(target.text() == text, "the code is as it was");
        goes_on(&mut target, "after the last one");
        for directory in left.into_iter().flat_map(|pid| before.new_of(pid)) {
            let _ = fs::remove_dir_all(directory);
        }
    }
}

/// Handlers that allocate interrupt the work on a sample, on its stack and on another one. The program checks its
/// blocks.
#[test]
fn signal_handlers_may_interrupt_the_work_on_a_sample() {
    let flags = ["-O2", "-shared", "-fPIC", "-fno-stack-protector"];
    let allocator = program_as("cells", "cells.so", "cc", &flags);
    let ticks = |target: &Target| -> u64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", target.pid())).expect("it runs");
        let fields = stat.rsplit_once(')').expect("its name").1;
        fields.split_whitespace().nth(11).expect("its time").parse().expect("a number")
    };
    for how in ["plain", "altstack"] {
        let place = directory();
        let file = place.path().join("reports");
        let mut command = Command::new(program("signal_storm"));
        let mut target = Target::start(command.args([how, "100000"]).env("LD_PRELOAD", &allocator));
        until("signals", || (ticks(&target) > 5).then_some(()));
        let text = target.text();
        let mut mallow = watching(&target, &file, &["--period", "64", "--every", "100ms"]);
        // What handlers allocate while a sample is worked on is not sampled.
        wait_for(&file, "samples that handlers interrupt", |report| report["lost"]["picks"].as_u64() > Some(0));
        mallow.signal("INT");
        assert_eq!(mallow.end(), 0, "{how}");
        assert!(target.text() == text, "{how}: the code is as it was");
        let before = ticks(&target);
        until("it to go on", || (ticks(&target) > before + 20).then_some(()));
        assert!(target.child.try_wait().expect("a child").is_none(), "{how}: it goes on");
    }
}

/// A forked child has its parent's samples and its patches: what it frees is live in the parent still, and both are
/// left as they were.
#[test]
fn forked_children_are_watched_and_left_as_they_were() {
    let place = directory();
    let file = place.path().join("reports");
    let script = "import os, time\nprint('ready', flush=True)\ninput()\nkept = [bytes(9000) for i in range(300)]\nif os.fork() == 0:\n    kept = None\n    while True:\n        more = [bytearray(7000) for j in range(100)]\n        time.sleep(0.005)\nprint('forked', flush=True)\ntime.sleep(1000)\n";
    let mut python = Target::ready(Command::new(tool("python3")).args(["-c", script]));
    let (text, clean) = (python.text(), code(python.pid()));
    let mut mallow = watching(&python, &file, &["--period", "16KiB", "--every", "200ms"]);
    wait_for(&file, "a report", |_| true);
    assert_eq!(python.ask(), "forked");
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", python.pid())).expect("its children");
    let child: u32 = children.trim().parse().expect("a child");
    let parents = |report: &Value| -> f64 {
        let sites = report["sites"].as_array().expect("sites").iter();
        let own = sites.filter(|site| site["pids"] == serde_json::json!([python.pid()]));
        own.filter_map(|site| site["live_bytes"]["value"].as_f64()).sum()
    };
    let is_child = |process: &Value| process["pid"] == child && process["running"] == true;
    let seen = wait_for(&file, "the child, and what its parent holds", |report| {
        report["processes"].as_array().expect("processes").iter().any(is_child) && parents(report) > 2e6
    });
    assert!(parents(&seen) < 4e6, "300 blocks of 9000 bytes: {seen:#}");
    mallow.signal("INT");
    assert_eq!(mallow.end(), 0);
    assert!(code(child) == clean && python.text() == text, "the code is as it was");
    // SAFETY: a system call without pointers.
    unsafe { libc::kill(child as i32, libc::SIGKILL) };
}

/// Programs as they are: Python at a fixed address, and Debian's redis with its shared jemalloc, whose keys come and
/// go.
#[test]
fn programs_of_the_system_are_watched() {
    let Some((redis, client)) = tool_if_there("redis-server").zip(tool_if_there("redis-cli")) else {
        return not_run("programs_of_the_system_are_watched", "no redis-server");
    };
    let place = directory();
    let (socket, file) = (place.path().join("redis"), place.path().join("reports"));
    let mut command = Command::new(redis);
    command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket).current_dir(place.path());
    let redis = Target::start(&mut command);
    until("redis", || socket.exists().then_some(()));
    let ask = |words: &[&str]| {
        let output = ended_command(Command::new(&client).arg("-s").arg(&socket).args(words));
        assert!(output.status.success(), "{output:?}");
    };
    let text = redis.text();
    let mut mallow = watching(&redis, &file, &["--period", "8KiB", "--every", "100ms"]);
    wait_for(&file, "a report", |_| true);
    let live = |report: &Value| report["live_bytes"]["value"].as_f64().unwrap_or(0.0);
    let fill = "for i = 1, 5000 do redis.call('set', 'key' .. i, string.rep('x', 1000)) end";
    ask(&["eval", fill, "0"]);
    wait_for(&file, "the keys", |report| live(report) > 4e6);
    ask(&["flushall", "sync"]);
    let full = reports(&file).len();
    until("the keys to be gone", || reports(&file).iter().skip(full).any(|report| live(report) < 2e6).then_some(()));
    mallow.signal("INT");
    assert_eq!(mallow.end(), 0);
    assert!(redis.text() == text, "the code is as it was");
}

/// `q` leaves the live view and the process.
#[test]
fn the_live_view_of_an_attached_process_is_left() {
    let Some(script) = tool_if_there("script") else {
        return not_run("the_live_view_of_an_attached_process_is_left", "it needs script, of bsdutils");
    };
    let target = server("leak");
    let text = target.text();
    let arguments = format!("watch -p {} --period 16KiB --older-than 0", target.pid());
    let (mut shown, screen) = Screen::of(&script, (100, 24), &arguments);
    screen.wait_for("keep_request");
    screen.wait_for("blocks allocated before are not included");
    shown.child.stdin.take().expect("a pipe").write_all(b"q").expect("a key");
    assert_eq!(shown.end(), 0);
    until("the last words", || screen.written().contains("mallow: detached").then_some(()));
    assert!(screen.written().contains("attaches again"), "{}", screen.written());
    assert!(target.text() == text, "the code is as it was");
}

/// What cannot be watched is refused by name, and nothing of it changes.
#[test]
fn what_cannot_be_watched_is_named() {
    let place = directory();
    let fixed = program_as("attached", "attached-static", "cc", &["-static"]);
    let stripped = ["-l:libjemalloc.a", "-lm", "-ldl", "-lstdc++", "-fno-builtin", "-s"];
    let stripped = program_as("attached", "attached-with-stripped-jemalloc", "cc", &stripped);
    for (program, reason) in
        [(fixed, "static"), (stripped, "its allocator is inside of the executable, which is stripped")]
    {
        let mut target = Target::ready(Command::new(program).arg("calls"));
        let (text, condition) = (target.text(), target.condition());
        let refused = attached(&["watch"], target.pid(), place.path());
        assert!(refused.status == 1 && refused.err().contains(reason), "{}", refused.err());
        assert!(target.text() == text && target.condition() == condition, "it is as it was");
        target.ask();
    }
    let target = Target::ready(Command::new(program("attached")).arg("calls"));
    let unsampled = attached(&["watch", "--stop"], target.pid(), place.path());
    assert!(
        unsampled.status == 1 && unsampled.err().contains("is not sampled: mallow watch -p"),
        "{}",
        unsampled.err()
    );
    let mut gone = Command::new("true").stdout(Stdio::null()).spawn().expect("true");
    gone.wait().expect("its end");
    let refused = attached(&["watch"], gone.id(), place.path());
    assert!(refused.status == 1 && refused.err().contains("there is no process"), "{}", refused.err());
}

/// What was allocated before mallow attached, or while nothing was sampled, is unknown: it is not "not live heap".
#[test]
fn older_blocks_are_not_known() {
    let foreign = server("steady");
    let joined = Target::start(Command::new(mallow()).args(["run", "--"]).arg(program("server")).arg("steady"));
    until("the server's begin", || joined.field("SigCgt:").ends_with("4200").then_some(()));
    let place = directory();
    for (target, older, words) in [
        (&foreign, "attached", " of it live heap since mallow attached, older blocks are not known"),
        (&joined, "unsampled", " of it live heap while it was sampled, older blocks are not known"),
    ] {
        let [json, text] = ["json", "text"].map(|name| place.path().join(format!("{older}-{name}")));
        let mut watch = watching(target, &json, &["--every", "1s"]);
        let memory = wait_for(&json, "memory", |report| report["memory"].is_object())["memory"].clone();
        watch.signal("TERM");
        assert_eq!(watch.end(), 0);
        assert_eq!((&memory["gap"], &memory["older_blocks"]), (&Value::Null, &older.into()), "{memory:#}");
        let parts = memory["parts"].as_array().expect("parts");
        let sum: u64 = parts.iter().filter_map(|row| row["bytes"].as_u64()).sum();
        assert_eq!((Some(sum), &parts[0]["part"]), (memory["rss"].as_u64(), &"anonymous".into()), "{memory:#}");

        let pid = target.pid().to_string();
        let mut command = Command::new(mallow());
        let mut watch = Alive::start(quiet(command.args(["watch", "-p", &pid, "--every", "1s", "-o"]).arg(&text)));
        let report = until("a report", || {
            let report = fs::read_to_string(&text).ok()?;
            report.contains("  RSS ").then_some(report)
        });
        watch.signal("TERM");
        assert_eq!(watch.end(), 0);
        assert!(report.contains(words) && report.contains(" heap or mapped by the program"), "{report}");
        assert!(!report.contains("not live heap") && !report.contains("free or mapped"), "{report}");
    }
}
