//! `mallow watch` on programs that run: what it finds, signals, joining and leaving, crashes, and the live view.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use harness::{directory, mallow, mount_namespace, not_run, program, program_as, tool, tool_if_there, wire};
use serde_json::Value;

use crate::watch_harness::{
    Alive, Screen, ask_for, maps_of, occasion, quiet, reports, samples, signal, site, until, wait_for,
};

/// `server` under `mallow run`: its pid is mallow's own.
fn dormant(how: &str) -> Alive {
    let mut command = Command::new(mallow());
    let server = Alive::start(quiet(command.args(["run", "--"]).arg(program("server")).arg(how)));
    until("the server to take part", || joinable(&server.pid()).then_some(()));
    server
}

/// Whether it is the server, and no longer the mallow that starts it, and has its process file.
fn joinable(pid: &str) -> bool {
    let server = fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|program| program.ends_with("server"));
    server && maps_of(pid).contains(&format!("/p-{pid}-"))
}

fn watch(arguments: &[&str]) -> Output {
    let mut command = Command::new(mallow());
    command.arg("watch").args(arguments).env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).output().expect("mallow")
}

/// With one left, too.
#[test]
fn a_command_that_leaves_a_process_says_so() {
    let waits = program("waits");
    for (others, continues) in [("perl -e '@list = (1 .. 1000); sleep 4' &", true), ("", false)] {
        let done = watch(&["--", "sh", "-c", &format!("{others} {} 1500", waits.display())]);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(said.contains("the command has ended; processes that it started continue"), continues, "{said}");
    }
}

const FAST: [&str; 6] = ["--period", "16KiB", "--every", "1s", "--older-than", "1s"];

#[test]
fn sites_are_named_and_have_intervals() {
    let place = directory();
    let file = place.path().join("reports");
    let mut command = Command::new(mallow());
    command.arg("watch").args(FAST).args(["--json", "-o"]).arg(&file).arg("--").arg(program("server"));
    let mut watched = Alive::start(quiet(&mut command));
    let report = wait_for(&file, "many samples", |report| samples(report, "keep_request") >= 100);
    let first = site(&report, "keep_request").expect("the site");
    let names: Vec<_> = first["frames"].as_array().expect("frames").iter().map(|f| &f["function"]).collect();
    assert!(names.len() >= 3 && names[0] == "keep_request" && names[1] == "serve" && names[2] == "main", "{names:?}");
    // The interval holds what the program really keeps: 1000 bytes a block.
    let (bytes, blocks) = (&first["live_bytes"], &first["live"]);
    let ratio = bytes["value"].as_f64().expect("bytes") / blocks["value"].as_f64().expect("blocks");
    assert!((ratio - 1000.0).abs() < 1.0, "{ratio}");
    assert!(bytes["low"].as_f64() < bytes["value"].as_f64() && bytes["value"].as_f64() < bytes["high"].as_f64());
    for report in reports(&file) {
        let cache = site(&report, "fill_cache").and_then(|cache| cache["live_bytes"]["value"].as_f64()).unwrap_or(0.0);
        assert!(cache < 2.0 * 512.0 * 4096.0, "the cache has 2 MiB, and not {cache}");
    }

    // A signal to mallow reaches the command, and its status is mallow's; the last report shows what is live then.
    watched.signal("TERM");
    assert_eq!(watched.end(), 0);
    let all = reports(&file);
    assert_eq!(all.last().map(|report| &report["occasion"]), Some(&Value::from("end")));
    assert_eq!(all.last().map(|report| report["lost"]["picks"].as_u64()), Some(Some(0)));
}

#[test]
fn who_leaves_and_joins_again_sees_the_samples_of_before() {
    let server = dormant("leak");
    let place = directory();
    let file = place.path().join("first");
    let path = file.to_str().expect("a path");
    let mut arguments = vec!["-p", "PID", "--json", "-o", path];
    let pid = server.pid();
    arguments[1] = &pid;
    arguments.extend(FAST);
    let mut first = Alive::start(quiet(Command::new(mallow()).arg("watch").args(&arguments)));
    wait_for(&file, "old samples", |report| samples(report, "keep_request") >= 20);

    // One mallow watches. A second one fails with the process id of the first.
    let second = watch(&["-p", &pid]);
    let errors = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1));
    assert!(errors.contains(&format!("process {} watches it already", first.child.id())), "{errors}");

    first.signal("INT");
    assert_eq!(first.end(), 0);
    let left = wait_for(&file, "the last report", occasion("leave"));
    let (kept, all) = (samples(&left, "keep_request"), left["samples"].as_u64().expect("a number"));

    // Dormant: nothing new is sampled, whatever the program allocates.
    let live = |name: &str, more: &[&str]| {
        let file = place.path().join(name);
        let path = file.to_str().expect("a path").to_owned();
        let mut arguments = vec!["-p", &pid, "--json", "-o", &path, "--every", "200ms", "--older-than", "0"];
        arguments.extend(more);
        let mut joined = Alive::start(quiet(Command::new(mallow()).arg("watch").args(&arguments)));
        let report = wait_for(&file, "samples", |report| samples(report, "keep_request") > 0);
        joined.signal("INT");
        joined.end();
        report
    };
    let again = live("second", &["--period", "1GiB"]);
    let now = samples(&again, "keep_request");
    assert!(now >= kept && now <= all, "{kept} old ones of {all} when it left, {now} when it came again");
    assert_eq!(again["period_bytes"], 1u64 << 30);

    // For scripts: the period, and off.
    assert!(watch(&["-p", &pid, "--period", "64KiB", "--set"]).status.success());
    let stopped = watch(&["-p", &pid, "--stop"]);
    assert!(String::from_utf8_lossy(&stopped.stderr).contains("dormant"), "{stopped:?}");
    assert!(joinable(&pid), "the server goes on");
    assert_eq!(live("third", &[])["period_bytes"], 65_536);
}

/// What a killed process left, when its pid was given to another one: to the server itself, and to one that has nothing
/// to do with mallow.
#[test]
fn files_of_earlier_processes_with_the_same_pids_are_not_taken_for_living_ones() {
    let server = dormant("leak");
    let stranger = Alive::start(quiet(Command::new("sleep").arg("600")));
    let [run] = &server.run_directories()[..] else { panic!("no run directory") };
    let pid = server.pid();
    let own = fs::read(run.join(format!("p-{pid}-0"))).expect("the server's file");
    for (name, its) in [(format!("p-{pid}-9"), &server), (format!("p-{}-0", stranger.pid()), &stranger)] {
        let mut stale = own.clone();
        stale[wire::field("process.pid")].copy_from_slice(&its.child.id().to_le_bytes());
        stale[wire::field("process.start_ns")].copy_from_slice(&1u64.to_le_bytes());
        fs::write(run.join(name), stale).expect("a file");
    }
    let place = directory();
    let file = place.path().join("reports");
    let mut command = Command::new(mallow());
    let mut watched = Alive::start(quiet(command.args(["watch", "-p", &pid, "--json", "-o"]).arg(&file).args(FAST)));
    let report = wait_for(&file, "samples", |report| samples(report, "keep_request") > 0);
    let running: Vec<_> = report["processes"].as_array().expect("processes").iter().collect();
    assert_eq!(running.len(), 1, "{report:#}");
    assert_eq!((running[0]["pid"].to_string(), &running[0]["running"]), (pid, &Value::from(true)));
    // The server is all that it waits for.
    server.signal("TERM");
    assert_eq!(watched.end(), 0);
    assert!(maps_of(&stranger.pid()).contains("sleep"), "the other one goes on");
}

#[test]
fn signals_ask_for_reports() {
    let server = dormant("leak");
    let place = directory();
    let file = place.path().join("reports");
    let pid = server.pid();
    let mut command = Command::new(mallow());
    command.args(["watch", "-p", &pid, "--json", "--period", "16KiB", "--every", "1h", "--older-than", "1s", "-o"]);
    let mut watched = Alive::start(quiet(command.arg(&file)));
    let live = ask_for(&watched, "HUP", &file, |report| {
        report["occasion"] == "hup" && samples(report, "keep_request") > 0 && samples(report, "fill_cache") > 0
    });
    assert_eq!((&live["which"], live["muted_samples"].as_u64()), (&Value::from("live"), Some(0)));

    let recent = ask_for(&watched, "USR2", &file, |report| {
        report["occasion"] == "recent" && report["recent"].as_array().is_some_and(|frees| !frees.is_empty())
    });
    for free in recent["recent"].as_array().expect("frees") {
        let names = [&free["freed"]["frames"][0]["function"], &free["allocated"]["frames"][0]["function"]];
        assert!(names.iter().all(|name| *name == "work" || *name == "fill_cache"), "{free:#}");
        assert_eq!(free["how"], "free");
    }

    // The old ones once more, and not again.
    let old = |report: &Value| report["occasion"] == "usr1" && samples(report, "keep_request") > 0;
    let once_more = ask_for(&watched, "USR1", &file, old);
    let old = samples(&once_more, "keep_request");
    watched.signal("TERM");
    assert_eq!(watched.end(), 0);
    let last = wait_for(&file, "the last report", occasion("leave"));
    assert!(last["muted_samples"].as_u64().expect("a number") >= old, "{last:#}");
}

#[test]
fn a_crash_leaves_what_was_live_and_freed() {
    let place = directory();
    let file = place.path().join("reports");
    let mut command = Command::new(mallow());
    command.arg("watch").args(FAST).args(["--track-peak", "--json", "-o"]).arg(&file).arg("--").arg(program("server"));
    let mut watched = Alive::start(quiet(&mut command));
    let report = wait_for(&file, "a process", |report| !report["processes"][0]["pid"].is_null());
    signal(&report["processes"][0]["pid"].to_string(), "USR1");
    assert_eq!(watched.end(), 128 + 6);
    let all = reports(&file);
    let occasions: Vec<_> = all.iter().rev().take(3).map(|report| report["occasion"].as_str().unwrap_or("")).collect();
    assert_eq!(occasions, ["recent", "peak", "end"]);
    let peak = &all[all.len() - 2];
    assert!(samples(peak, "keep_request") > 0 && peak["which"] == "peak", "{peak:#}");
    assert!(!all[all.len() - 1]["recent"].as_array().expect("frees").is_empty());
}

#[test]
fn when_mallow_was_killed_too_the_rest_can_be_recovered() {
    let place = directory();
    let file = place.path().join("reports");
    let mut command = Command::new(mallow());
    command.arg("watch").args(FAST).args(["--json", "-o"]).arg(&file).arg("--").arg(program("server"));
    let mut watched = Alive::start(quiet(&mut command));
    let report = wait_for(&file, "a process", |report| samples(report, "keep_request") > 0);
    let pid = report["processes"][0]["pid"].to_string();
    watched.signal("KILL");
    watched.end();
    signal(&pid, "USR1");
    until("the server to crash", || maps_of(&pid).is_empty().then_some(()));
    let [dir] = &watched.run_directories()[..] else { panic!("no run directory is left") };

    let recover = |arguments: &[&str]| {
        let output = Command::new(mallow()).arg("recover").args(arguments).arg(dir).output().expect("mallow");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let lines: Vec<Value> = harness::documents(&recover(&["--json"]));
    assert!(samples(&lines[0], "keep_request") > 0, "{:#}", lines[0]);
    assert!(!lines[1]["recent"].as_array().expect("frees").is_empty());
    let text = recover(&[]);
    for expected in ["keep_request", "← ", "allocated by"].iter().filter(|text| !text.starts_with('←')) {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn snapshots_are_read_by_views_and_by_go() {
    let place = directory();
    let snapshots = place.path().join("snapshots");
    let mut command = Command::new(mallow());
    command.arg("watch").args(FAST).arg("--snapshots").arg(&snapshots).arg("--").arg(program("server"));
    let mut watched = Alive::start(quiet(&mut command));
    let files = || -> Vec<PathBuf> {
        let mut all: Vec<_> = fs::read_dir(&snapshots).into_iter().flatten().flatten().map(|e| e.path()).collect();
        all.retain(|path| path.extension().is_some_and(|end| end == "gz"));
        all.sort();
        all
    };
    until("four snapshots", || (files().len() >= 4).then_some(()));
    watched.signal("TERM");
    watched.end();
    let all = files();
    let (first, last) = (&all[0], &all[all.len() - 2]);
    let shown = |arguments: &[&str], files: &[&Path]| {
        let output = Command::new(mallow()).args(arguments).args(files).output().expect("mallow");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let diff = shown(&["diff", "--by", "live", "--json"], &[first, last]);
    let diff = harness::document(&diff);
    assert!(diff["change"].as_i64().expect("a change") > 0, "{diff:#}");
    assert!(shown(&["leaks"], &[last]).contains("keep_request"));
    let go = Command::new(tool("go")).args(["tool", "pprof", "-top", "-sample_index=inuse_space"]).arg(last).output();
    let go = go.expect("go");
    let text = String::from_utf8_lossy(&go.stdout).into_owned();
    assert!(text.contains("keep_request"), "{text}{}", String::from_utf8_lossy(&go.stderr));
    // What is known is left out.
    let output = Command::new(mallow()).args(["import", "--baseline"]).arg(last).arg("/dev/null").output();
    let errors = String::from_utf8_lossy(&output.expect("mallow").stderr).into_owned();
    assert!(errors.contains("cannot read /dev/null") && errors.lines().count() == 1, "{errors}");
}

#[test]
fn the_live_view_draws_and_gives_the_terminal_back() {
    let Some(script) = tool_if_there("script") else {
        return not_run("the_live_view_draws_and_gives_the_terminal_back", "it needs script, of bsdutils");
    };
    let server = dormant("leak");
    let pid = server.pid();
    let arguments = format!("watch -p {pid} --period 16KiB --older-than 0");
    let (mut shown, screen) = Screen::of(&script, (100, 24), &arguments);
    let mut keys = shown.child.stdin.take().expect("a pipe");
    let mut press = |key: &[u8]| keys.write_all(key).expect("a key");
    screen.wait_for("keep_request");
    screen.wait_for("shown: older than 0 ms, by growing first");
    press(b"s");
    screen.wait_for("by live bytes");
    press(b"o");
    screen.wait_for("shown: all live");
    press(b"\x1b[B\r");
    screen.wait_for("age       ");
    press(b"\x1b");
    screen.wait_for("by live bytes");
    press(b"/keep\r");
    screen.wait_for("keep_request");
    press(b"m");
    screen.wait_for(" muted");
    press(b"+");
    screen.wait_for("a sample in 8.19 kB");
    press(b"d");
    screen.wait_for("dormant");
    press(b"q");
    assert_eq!(shown.end(), 0);
    until("the terminal to be given back", || screen.written().contains("mallow: left").then_some(()));
    let text = screen.written();
    let (enter, leave) = ("\x1b[?1049h", "\x1b[?1049l");
    assert_eq!((text.matches(enter).count(), text.matches(leave).count()), (1, 1), "{text:?}");
    assert!(text.find(enter) < text.find(leave) && text.contains("\x1b[?25h"), "{text:?}");
    for expected in ["samples", "mallow: left"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(joinable(&pid), "the server goes on");
}

/// No report can be written: the watching goes on, and mallow reports at the end what it saw.
#[test]
fn a_full_disk_ends_no_watching() {
    let place = directory();
    let log = place.path().join("log");
    let mut command = Command::new(mallow());
    command.args(["watch", "--period", "16KiB", "--every", "200ms", "--fail-on-write-error", "-o", "/dev/full", "--"]);
    command.arg(program("server"));
    let errors = fs::File::create(&log).expect("a file");
    let mut watched = Alive::start(quiet(&mut command).stderr(errors));
    let log_text = || fs::read_to_string(&log).unwrap_or_default();
    until("the fault to be reported", || log_text().contains("No space left").then_some(()));
    // It still looks, some reports later: its clock goes on.
    let [dir] = &watched.run_directories()[..] else { panic!("no run directory") };
    let epoch = || wire::number(&fs::read(dir.join("control")).expect("the control page"), 0, "control.epoch");
    let then = epoch();
    until("the watching to go on", || (epoch() != then).then_some(()));
    until("samples", || {
        let files = fs::read_dir(dir).expect("the directory").flatten();
        files.map(|entry| harness::live_samples(&entry.path())).find(|&live| live > 100)
    });
    assert_eq!(log_text().matches("No space left").count(), 1, "{}", log_text());
    watched.signal("TERM");
    assert_eq!(watched.end(), 125, "it shows in scripts, as was asked for");
    // The last report has nowhere else to go.
    assert!(log_text().contains("keep_request"), "{}", log_text());
    assert!(!dir.exists(), "the directory stays");
}

/// When there is room again, reports are whole again, and none of before was cut short.
#[test]
fn reports_go_on_when_there_is_room_again() {
    let Some(unshare) = mount_namespace("reports_go_on_when_there_is_room_again") else { return };
    const SCRIPT: &str = "\
        mkdir small; mount -t tmpfs -o size=64k none small; head -c 60000 /dev/zero > small/fill
        \"$@\" watch --json --limit 1 --every 100ms --older-than 0 --period 16KiB --snapshots small \
            -o small/reports -- $PROGRAM 2> log & watch=$!
        until grep -q 'No space' log || ! kill -0 $watch; do sleep 0.05; done
        before=$(wc -l < small/reports); rm small/fill
        until [ $(wc -l < small/reports) -gt $((before + 2)) ] || ! kill -0 $watch; do sleep 0.05; done
        kill $watch; wait $watch; echo $?; cat small/reports";
    let place = directory();
    let mut command = Command::new(unshare[0]);
    command.args(&unshare[1..]).args(["sh", "-c", SCRIPT, "sh"]).arg(mallow()).current_dir(place.path());
    let output = command.env("PROGRAM", program("server")).stderr(Stdio::null()).output().expect("unshare");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines();
    let log = fs::read_to_string(place.path().join("log")).unwrap_or_default();
    assert!(lines.next().is_some(), "{log}");
    let all: Vec<Value> = lines.map(harness::document).collect();
    assert!(all.len() >= 3, "{log}");
}

/// A process that shuts itself in is sampled no more, and that is said.
#[test]
fn the_end_of_sampling_is_reported() {
    let place = directory();
    let file = place.path().join("reports");
    let report_of = |how: &str, json: &[&str]| {
        let mut command = Command::new(mallow());
        command.args(["watch", "--period", "4KiB"]).args(json).arg("-o").arg(&file).arg("--").arg(program("seccomp"));
        let output = command.arg(how).output().expect("mallow");
        assert!(output.status.code().is_some_and(|status| status < 10), "{output:?}");
        let report = fs::read_to_string(&file).expect("reports");
        fs::remove_file(&file).expect("reports");
        report
    };
    let text = report_of("kill", &[]);
    assert!(
        text.contains("1 process sampled no more: a filter of system calls that it installed forbids it"),
        "{text}"
    );
    let last = |text: String| -> Value { harness::document(text.lines().last().expect("a report")) };
    assert_eq!(last(report_of("kill", &["--json"]))["lost"]["filtered"], 1);
    for how in ["threads", "probe"] {
        assert_eq!(last(report_of(how, &["--json"]))["lost"]["filtered"], 0, "{how}");
    }
}

/// A program may give blocks of malloc to functions of its allocator that Mallow does not see. Then nothing is sampled,
/// as these functions know nothing of samples, and that is said.
#[test]
fn a_program_that_frees_by_functions_of_its_allocator_is_left_alone() {
    let program = program_as("foreign", "foreign", "cc", &["-ljemalloc"]);
    let sentence =
        "1 process not sampled: blocks of malloc are freed by functions of its allocator that Mallow does not see";
    let mut watch = Command::new(mallow());
    let output =
        watch.args(["watch", "--period", "16KiB", "--every", "1h", "--"]).arg(&program).output().expect("mallow");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout == b"done\n", "{output:?}");
    assert!(said.contains(sentence) && said.contains("no sample\n"), "{said}");
    let mut run = Command::new(mallow());
    let output = run.args(["run", "--sample", "--period", "16KiB", "--"]).arg(&program).output().expect("mallow");
    assert!(output.status.success() && output.stdout == b"done\n", "{output:?}");
}

/// Where a process has no room for its file, it runs all the same, and that is said.
#[test]
fn a_process_that_cannot_be_sampled_is_reported() {
    let place = directory();
    let file = place.path().join("reports");
    let mut command = Command::new("sh");
    command.args(["-c", "\"$0\" watch --json -o \"$1\" -- sh -c 'ulimit -f 8; \"$0\" 2 200; exit 3' \"$2\""]);
    let output = command.arg(mallow()).arg(&file).arg(program("busy")).output().expect("sh");
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("2 threads: "), "{output:?}");
    let all = reports(&file);
    assert_eq!(all.last().map(|report| report["lost"]["unsampled"].clone()), Some(Value::from(1)), "{all:#?}");
}

/// All of the last hour, the first of each hour of the last day, the first of each day of the last month.
#[test]
fn old_snapshots_are_thinned_and_others_stay() {
    let place = directory();
    let snapshots = place.path().join("snapshots");
    fs::create_dir(&snapshots).expect("a directory");
    let hour: u64 = 3600;
    // Midday a week ago, and two hours ago, each three times; half an hour ago twice; two months ago.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let (day, two_hours) = (now / (24 * hour) * 24 * hour - 6 * 24 * hour, now / hour * hour - 2 * hour);
    let stay = [day + 60, two_hours + 5, now - hour / 2, now - hour / 2 + 1];
    let go = [day + 5 * hour, day + 23 * hour, two_hours + 1800, two_hours + 3599, now - 60 * 24 * hour];
    let name = |time: &u64| {
        let stamp = Command::new("date").args(["-u", "+%Y%m%dT%H%M%SZ", "-d"]).arg(format!("@{time}")).output();
        let stamp = String::from_utf8(stamp.expect("date").stdout).expect("a time");
        snapshots.join(format!("heap-{}.pb.gz", stamp.trim()))
    };
    let other = snapshots.join("heap-of-mine.pb.gz");
    for path in stay.iter().chain(&go).map(name).chain([other.clone()]) {
        fs::write(path, "").expect("a file");
    }
    let mut command = Command::new(mallow());
    command.arg("watch").args(FAST).arg("--snapshots").arg(&snapshots).arg("--").arg(program("server"));
    let _watched = Alive::start(quiet(&mut command));
    until("the first to go", || go.iter().map(name).all(|path| !path.exists()).then_some(()));
    assert!(stay.iter().map(name).chain([other]).all(|path| path.exists()), "{:?}", fs::read_dir(&snapshots));
}

#[test]
fn an_unwatchable_target_is_an_error_of_one_line() {
    let own = std::process::id().to_string();
    let place = directory();
    let garbage = place.path().join("garbage");
    fs::write(&garbage, [7u8; 5000]).expect("a file");
    let garbage = garbage.to_str().expect("a path");
    for (arguments, status, expected) in [
        (vec!["-p", &own, "--stop"], 1, "is not sampled: mallow watch -p"),
        (vec!["-p", "4194304"], 1, "there is no process"),
        (vec!["--suppressions", garbage, "--", "true"], 1, "suppression"),
        (vec!["--baseline", garbage, "--", "true"], 1, "garbage"),
        (vec!["--", "/nowhere/nobody"], 127, "not found"),
        (vec!["--every", "0", "--", "true"], 2, "at least 100ms"),
    ] {
        let output = watch(&arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {errors}");
        assert!(errors.contains(expected) && errors.lines().count() == 1, "{arguments:?}: {errors}");
    }
}
