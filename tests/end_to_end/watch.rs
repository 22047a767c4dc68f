//! `mallow watch` on programs that run: what it finds, signals, joining and leaving, crashes, and the live view.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use harness::{RunDirectories, directory, mallow, not_run, program, tool, tool_if_there};
use serde_json::Value;

/// A process that is killed when the test is over, however it ends.
struct Alive(Child);

impl Alive {
    fn start(command: &mut Command) -> Self {
        Self(command.env("LC_ALL", "C.UTF-8").spawn().expect("it starts"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    fn signal(&self, name: &str) {
        signal(&self.pid(), name);
    }

    fn end(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        let patience = Instant::now() + Duration::from_secs(30);
        while Instant::now() < patience {
            if let Some(status) = self.0.try_wait().expect("a child") {
                return status.code().or_else(|| status.signal().map(|signal| 128 + signal)).expect("a status");
            }
            pause(10);
        }
        panic!("it does not end");
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

fn signal(pid: &str, name: &str) {
    let sent = Command::new("kill").args(["-s", name, pid]).status().expect("kill");
    assert!(sent.success(), "kill -s {name} {pid}");
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

/// `server` under `mallow run`: its pid is mallow's own.
fn dormant(how: &str) -> Alive {
    let mut command = Command::new(mallow());
    let server = Alive::start(quiet(command.args(["run", "--"]).arg(program("server")).arg(how)));
    let patience = Instant::now() + Duration::from_secs(20);
    while !joinable(&server.pid()) {
        assert!(Instant::now() < patience, "the server never took part");
        pause(10);
    }
    server
}

fn joinable(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.contains(&format!("/p-{pid}-")))
}

fn watch(arguments: &[&str]) -> Output {
    let mut command = Command::new(mallow());
    command.arg("watch").args(arguments).env("LC_ALL", "C.UTF-8").stdin(Stdio::null()).output().expect("mallow")
}

/// Reports in a file of JSON lines, up to its last whole line.
fn reports(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Waits until some report is as it should be.
fn wait_for(file: &Path, what: &str, good: impl Fn(&Value) -> bool) -> Value {
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let all = reports(file);
        if let Some(found) = all.iter().find(|report| good(report)) {
            return found.clone();
        }
        assert!(Instant::now() < patience, "no report with {what}: {:#?}", all.last());
        pause(50);
    }
}

fn occasion<'a>(name: &'a str) -> impl Fn(&Value) -> bool + 'a {
    move |report| report["occasion"] == name
}

/// The site that allocates in this function itself.
fn site<'a>(report: &'a Value, function: &str) -> Option<&'a Value> {
    report["sites"].as_array()?.iter().find(|site| site["frames"][0]["function"] == function)
}

fn samples(report: &Value, function: &str) -> u64 {
    site(report, function).map_or(0, |site| site["samples"].as_u64().expect("a number"))
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

    // A signal to mallow reaches the command, and its status is mallow's; at the end stands what is live then.
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

    // One mallow watches. Another one is told which.
    let second = watch(&["-p", &pid]);
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1));
    assert!(told.contains(&format!("process {} watches it already", first.0.id())), "{told}");

    first.signal("INT");
    assert_eq!(first.end(), 0);
    let left = wait_for(&file, "the last report", occasion("leave"));
    let (kept, all) = (samples(&left, "keep_request"), left["samples"].as_u64().expect("a number"));

    // Dormant: nothing new is sampled, whatever the program allocates.
    pause(500);
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

#[test]
fn signals_ask_for_reports() {
    let server = dormant("leak");
    let place = directory();
    let file = place.path().join("reports");
    let pid = server.pid();
    let mut command = Command::new(mallow());
    command.args(["watch", "-p", &pid, "--json", "--period", "16KiB", "--every", "1h", "--older-than", "1s", "-o"]);
    let mut mallow = Alive::start(quiet(command.arg(&file)));
    pause(3000);
    mallow.signal("HUP");
    let live = wait_for(&file, "all live samples", occasion("hup"));
    assert_eq!((&live["which"], live["muted_samples"].as_u64()), (&Value::from("live"), Some(0)));
    assert!(samples(&live, "keep_request") > 0 && samples(&live, "fill_cache") > 0, "{live:#}");

    mallow.signal("USR1");
    let once_more = wait_for(&file, "the old ones", occasion("usr1"));
    let old = samples(&once_more, "keep_request");
    assert!(old > 0, "{once_more:#}");
    fs::remove_file(&file).expect("the reports");
    // The file is the one that mallow opened: what follows goes there all the same, so it is asked anew.
    mallow.signal("TERM");
    assert_eq!(mallow.end(), 0);

    let mut command = Command::new(harness::mallow());
    command.args(["watch", "-p", &pid, "--json", "--period", "16KiB", "--every", "1h", "--older-than", "500ms", "-o"]);
    let mut mallow = Alive::start(quiet(command.arg(&file)));
    pause(1500);
    mallow.signal("USR1");
    wait_for(&file, "the old ones", occasion("usr1"));
    mallow.signal("USR2");
    let recent = wait_for(&file, "the latest frees", occasion("recent"));
    let frees = recent["recent"].as_array().expect("frees");
    assert!(!frees.is_empty());
    for free in frees {
        let names = [&free["freed"]["frames"][0]["function"], &free["allocated"]["frames"][0]["function"]];
        assert!(names.iter().all(|name| *name == "work" || *name == "fill_cache"), "{free:#}");
        assert_eq!(free["how"], "free");
    }
    mallow.signal("TERM");
    assert_eq!(mallow.end(), 0);
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
    let before = RunDirectories::now();
    let mut command = Command::new(mallow());
    command.arg("watch").args(FAST).args(["--json", "-o"]).arg(&file).arg("--").arg(program("server"));
    let mut watched = Alive::start(quiet(&mut command));
    let report = wait_for(&file, "a process", |report| samples(report, "keep_request") > 0);
    let pid = report["processes"][0]["pid"].to_string();
    watched.signal("KILL");
    watched.end();
    pause(200);
    signal(&pid, "USR1");
    let patience = Instant::now() + Duration::from_secs(10);
    while Path::new(&format!("/proc/{pid}")).exists() && Instant::now() < patience {
        pause(10);
    }
    let [dir] = &before.new_of(watched.0.id())[..] else { panic!("no run directory is left") };

    let recover = |arguments: &[&str]| {
        let output = Command::new(mallow()).arg("recover").args(arguments).arg(dir).output().expect("mallow");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let lines: Vec<Value> =
        recover(&["--json"]).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(samples(&lines[0], "keep_request") > 0, "{:#}", lines[0]);
    assert!(!lines[1]["recent"].as_array().expect("frees").is_empty());
    let text = recover(&[]);
    for expected in ["keep_request", "← ", "allocated by"].iter().filter(|text| !text.starts_with('←')) {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    fs::remove_dir_all(dir).expect("the run directory");
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
    let patience = Instant::now() + Duration::from_secs(60);
    while files().len() < 4 {
        assert!(Instant::now() < patience, "{:?}", files());
        pause(100);
    }
    watched.signal("TERM");
    watched.end();
    let all = files();
    let (first, last) = (&all[0], &all[all.len() - 2]);
    let shown = |arguments: &[&str], files: &[&Path]| {
        let output = Command::new(mallow()).args(arguments).args(files).output().expect("mallow");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let diff = shown(&["diff", "--by", "leaked", "--json"], &[first, last]);
    let diff: Value = serde_json::from_str(&diff).expect("JSON");
    assert!(diff["change"].as_i64().expect("a change") > 0, "{diff:#}");
    assert!(shown(&["leaks"], &[last]).contains("keep_request"));
    let go = Command::new(tool("go")).args(["tool", "pprof", "-top", "-sample_index=inuse_space"]).arg(last).output();
    let go = go.expect("go");
    let text = String::from_utf8_lossy(&go.stdout).into_owned();
    assert!(text.contains("keep_request"), "{text}{}", String::from_utf8_lossy(&go.stderr));
    // What is known is left out.
    let output = Command::new(mallow()).args(["import", "--baseline"]).arg(last).arg("/dev/null").output();
    let told = String::from_utf8_lossy(&output.expect("mallow").stderr).into_owned();
    assert!(told.contains("cannot read /dev/null") && told.lines().count() == 1, "{told}");
}

#[test]
fn the_live_view_draws_and_gives_the_terminal_back() {
    let Some(script) = tool_if_there("script") else {
        return not_run("the_live_view_draws_and_gives_the_terminal_back", "it needs script, of bsdutils");
    };
    let server = dormant("leak");
    let pid = server.pid();
    let line = format!("stty rows 24 cols 100; {} watch -p {pid} --period 16KiB --older-than 0", mallow().display());
    let mut command = Command::new(script);
    command.args(["-qfec", &line, "/dev/null"]).env("TERM", "xterm").env("SHELL", "/bin/sh");
    let mut shown = Alive::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut keys = shown.0.stdin.take().expect("a pipe");
    let mut out = shown.0.stdout.take().expect("a pipe");
    pause(3000);
    for key in [&b"s"[..], b"\x1b[B", b"\r", b"+", b"q"] {
        keys.write_all(key).expect("a key");
        pause(400);
    }
    assert_eq!(shown.end(), 0);
    let mut text = String::new();
    let mut bytes = Vec::new();
    out.read_to_end(&mut bytes).expect("its output");
    text.push_str(&String::from_utf8_lossy(&bytes));
    let (enter, leave) = ("\x1b[?1049h", "\x1b[?1049l");
    assert_eq!((text.matches(enter).count(), text.matches(leave).count()), (1, 1), "{text:?}");
    assert!(text.find(enter) < text.find(leave) && text.contains("\x1b[?25h"), "{text:?}");
    for expected in ["keep_request", "samples", "mallow: left"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(joinable(&pid), "the server goes on");
    // + halved the period.
    let again = watch(&["-p", &pid, "--stop"]);
    assert!(again.status.success());
}

#[test]
fn what_cannot_be_watched_is_told_in_a_line() {
    let own = std::process::id().to_string();
    let place = directory();
    let garbage = place.path().join("garbage");
    fs::write(&garbage, [7u8; 5000]).expect("a file");
    let garbage = garbage.to_str().expect("a path");
    for (arguments, status, expected) in [
        (vec!["-p", &own], 1, "was not started by mallow run or mallow watch"),
        (vec!["-p", "4194304"], 1, "there is no process"),
        (vec!["--suppressions", garbage, "--", "true"], 1, "suppression"),
        (vec!["--baseline", garbage, "--", "true"], 1, "garbage"),
        (vec!["--", "/nowhere/nobody"], 127, "not found"),
        (vec!["--every", "0", "--", "true"], 2, "100ms at the least"),
    ] {
        let output = watch(&arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {told}");
        assert!(told.contains(expected) && told.lines().count() == 1, "{arguments:?}: {told}");
    }
}
