//! `mallow watch --match`: processes of a name, as they come and go, under one mallow.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use harness::{directory, mallow, program, tool};
use serde_json::Value;

use crate::fleet::get;
use crate::go_pprof::pprof;
use crate::watch_harness::{Alive, maps_of, occasion, quiet, reports, until, until_or, wait_for};

/// A directory with programs of names that no other test has.
pub struct Fleet {
    /// It.
    pub place: tempfile::TempDir,
}

impl Fleet {
    /// An empty one.
    pub fn new() -> Self {
        Self { place: directory() }
    }

    /// A file of it.
    pub fn path(&self, file: &str) -> PathBuf {
        self.place.path().join(file)
    }

    /// The server by another name: its path is this test's alone.
    fn named(&self, name: &str) -> PathBuf {
        let link = self.path(name);
        if !link.exists() {
            symlink(program("server"), &link).expect("a link");
        }
        link
    }

    /// It under `mallow run`.
    pub fn start(&self, name: &str, how: &str) -> Alive {
        let started = Alive::start(quiet(Command::new(mallow()).args(["run", "--"]).arg(self.named(name)).arg(how)));
        until_executed(&started, name);
        started
    }

    /// It without mallow.
    fn start_alone(&self, name: &str, how: &str) -> Alive {
        let started = Alive::start(quiet(Command::new(self.named(name)).arg(how)));
        until_executed(&started, name);
        started
    }

    /// A mallow that watches what matches `/PLACE/NAMES$`, and writes reports to a file of that name.
    pub fn watch(&self, file: &str, names: &str, flags: &[&str]) -> Alive {
        let pattern = format!("^{}/({names})$", self.place.path().display());
        let errors = fs::File::create(self.path(&format!("{file}.errors"))).expect("a file");
        let mut command = Command::new(mallow());
        command.args(["watch", "--match", &pattern, "--json", "--every", "1s", "--period", "16KiB", "-o"]);
        command.arg(self.path(file)).args(flags);
        Alive::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors))
    }

    /// Where the mallow that writes to `file` answers scrapers.
    pub fn address(&self, file: &str) -> String {
        self.wait_for_line(file, "scrapers: ");
        let errors = self.errors(file);
        let mut addresses =
            errors.lines().filter_map(|line| Some(line.split_once("http://")?.1.split_once("/metrics")?.0));
        addresses.next().expect("an address").to_owned()
    }

    /// What it says on standard error.
    pub fn errors(&self, file: &str) -> String {
        fs::read_to_string(self.path(&format!("{file}.errors"))).unwrap_or_default()
    }

    /// Waits for a line on standard error of the mallow that writes to `file`.
    pub fn wait_for_line(&self, file: &str, text: &str) {
        let look = || self.errors(file).lines().any(|line| line.contains(text)).then_some(());
        until_or(look, || panic!("{text:?} is not in {}", self.errors(file)));
    }
}

fn until_executed(process: &Alive, name: &str) {
    let is_it = || {
        let command = fs::read_to_string(format!("/proc/{}/cmdline", process.pid())).unwrap_or_default();
        command.split('\0').next().is_some_and(|path| path.ends_with(&format!("/{name}"))).then_some(())
    };
    until("the program", is_it);
}

/// Its number.
pub fn pid(process: &Alive) -> u64 {
    process.child.id().into()
}

/// All processes in a report.
pub fn members(report: &Value) -> Vec<&Value> {
    let programs = report["programs"].as_array().expect("programs");
    programs.iter().flat_map(|program| program["members"].as_array().expect("members")).collect()
}

/// One of them.
pub fn member(report: &Value, pid: u64) -> Option<&Value> {
    members(report).into_iter().find(|member| member["pid"] == pid)
}

/// Those that run.
fn running(report: &Value) -> Vec<u64> {
    let running = members(report).into_iter().filter(|member| member["running"] == true);
    let mut pids: Vec<u64> = running.map(|member| member["pid"].as_u64().expect("a pid")).collect();
    pids.sort_unstable();
    pids
}

fn sorted(mut pids: Vec<u64>) -> Vec<u64> {
    pids.sort_unstable();
    pids
}

#[test]
fn processes_of_a_name_are_watched_as_they_come_and_go() {
    let fleet = Fleet::new();
    let mut one = fleet.start("alpha", "leak");
    let other = fleet.start("gamma", "leak");
    let mut watch = fleet.watch("reports", "alpha|beta", &[]);
    let file = fleet.path("reports");
    let enough = |member: &Value| member["samples"].as_u64() >= Some(20);
    wait_for(&file, "the first", |report| {
        running(report) == [pid(&one)] && member(report, pid(&one)).is_some_and(enough)
    });
    let two = fleet.start("beta", "steady");
    let both = wait_for(&file, "both", |report| {
        running(report) == sorted(vec![pid(&one), pid(&two)]) && member(report, pid(&two)).is_some_and(enough)
    });
    assert_eq!((both["processes"].as_u64(), both["programs_in_all"].as_u64()), (Some(2), Some(2)));
    let names: Vec<&str> = members(&both).iter().filter_map(|member| member["program"].as_str()).collect();
    assert!(names.contains(&"alpha") && names.contains(&"beta"), "{names:?}");

    // Its last numbers, once.
    one.signal("TERM");
    assert_eq!(one.end(), 0);
    let last =
        wait_for(&file, "its end", |report| member(report, pid(&one)).is_some_and(|one| one["running"] == false));
    let its = member(&last, pid(&one)).expect("it");
    assert_eq!(
        (its["abrupt"].as_bool(), last["ended"].as_u64(), last["ended_in_all"].as_u64()),
        (Some(false), Some(1), Some(1))
    );
    let place = &its["places"].as_array().expect("places")[0];
    assert_eq!(place["function"], "keep_request", "{its:#}");
    assert!(its["live_bytes"]["low"].as_f64() > Some(0.0), "{its:#}");
    let later = |report: &Value| report["at_unix_ms"].as_u64() > last["at_unix_ms"].as_u64();
    let later = wait_for(&file, "the next", later);
    assert_eq!((running(&later), member(&later, pid(&one))), (vec![pid(&two)], None));
    assert_eq!((later["ended"].as_u64(), later["ended_in_all"].as_u64()), (Some(0), Some(1)));

    // A signal ends it without its exit handlers.
    two.signal("KILL");
    let last =
        wait_for(&file, "its end", |report| member(report, pid(&two)).is_some_and(|two| two["running"] == false));
    assert_eq!(member(&last, pid(&two)).expect("it")["abrupt"], true);
    assert!(reports(&file).iter().all(|report| member(report, pid(&other)).is_none()), "another name");

    watch.signal("TERM");
    assert_eq!(watch.end(), 0);
    assert!(reports(&file).last().is_some_and(|report| occasion("end")(report)));
    // Where no process can come any more, nothing is left.
    assert_eq!(one.run_directories(), Vec::<PathBuf>::new());
}

#[test]
fn processes_come_and_go_by_the_dozen() {
    let fleet = Fleet::new();
    let watch = fleet.watch("reports", "many", &[]);
    let file = fleet.path("reports");
    const ROUNDS: u64 = 4;
    const EACH: u64 = 12;
    for round in 1..=ROUNDS {
        let all: Vec<Alive> = (0..EACH).map(|_| fleet.start("many", "leak")).collect();
        let wanted = sorted(all.iter().map(pid).collect());
        wait_for(&file, "all of a round", |report| running(report) == wanted);
        drop(all);
        wait_for(&file, "their ends", |report| report["ended_in_all"] == round * EACH && report["processes"] == 0);
    }
    let ends: u64 = reports(&file).iter().map(|report| report["ended"].as_u64().expect("a number")).sum();
    assert_eq!(ends, ROUNDS * EACH, "each one's end is reported once");
    let mapped = || maps_of(&watch.pid()).matches("/control").count();
    until_or(|| (mapped() == 0).then_some(()), || panic!("{} control pages are still mapped", mapped()));
}

#[test]
fn those_that_leak_are_named_with_their_function() {
    let fleet = Fleet::new();
    let leaking: Vec<Alive> = (0..3).map(|_| fleet.start("fleet", "leak")).collect();
    let steady: Vec<Alive> = (0..5).map(|_| fleet.start("fleet", "steady")).collect();
    let watch = fleet.watch("reports", "fleet", &["--warm-up", "4s", "--listen", "127.0.0.1:0"]);
    let file = fleet.path("reports");
    let wanted = sorted(leaking.iter().map(pid).collect());
    let growing = |report: &Value| {
        let all = members(report).into_iter().filter(|member| member["verdict"] == "growing");
        sorted(all.filter_map(|member| member["pid"].as_u64()).collect())
    };
    let report = wait_for(&file, "the three", |report| growing(report) == wanted);
    assert_eq!((report["processes"].as_u64(), report["growing_processes"].as_u64()), (Some(8), Some(3)));
    for leak in &leaking {
        let its = member(&report, pid(leak)).expect("it");
        assert_eq!(its["places"][0]["function"], "keep_request", "{its:#}");
    }
    let place = &report["programs"][0]["places"][0];
    let pids = sorted(place["growing_pids"].as_array().expect("pids").iter().filter_map(Value::as_u64).collect());
    assert_eq!(
        (place["function"].as_str(), place["verdict"].as_str(), pids),
        (Some("keep_request"), Some("growing"), wanted.clone())
    );
    let sum: f64 = leaking.iter().map(|leak| live_of(&report, pid(leak), "keep_request")).sum();
    let of_program = place["live_bytes"]["value"].as_f64().expect("bytes");
    assert!((sum - of_program).abs() <= 0.001 * sum, "{sum} {of_program}");

    // What scrapers read.
    let address = fleet.address("reports");
    let text = |path: &str| {
        let (status, body) = get(&address, path, "Host: localhost\r\n");
        let text = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(status, 200, "{path}: {text}");
        text
    };
    let metrics = until("series of the three", || {
        let metrics = text("/metrics");
        let series = |pid: &u64| {
            let labels = format!("{{program=\"fleet\",pid=\"{pid}\",function=\"keep_request\",");
            metrics.lines().any(|line| line.starts_with(&format!("mallow_place_growth_bytes_per_hour_low{labels}")))
        };
        wanted.iter().all(series).then_some(metrics)
    });
    assert!(metrics.contains("\nmallow_program_processes{program=\"fleet\"} 8\n"), "{metrics}");
    assert!(metrics.contains("\nmallow_live_bytes_low{program=\"fleet\"} "), "{metrics}");
    let checked = {
        let saved = fleet.path("metrics");
        fs::write(&saved, &metrics).expect("a file");
        let input = fs::File::open(saved).expect("the file");
        Command::new(tool("promtool")).args(["check", "metrics"]).stdin(input).output().expect("promtool")
    };
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let url = format!("http://{address}/debug/pprof/heap");
    let tags = pprof(fleet.place.path(), &["-tags", &url]);
    for pid in &wanted {
        assert!(tags.contains(&pid.to_string()), "{tags}");
    }
    let focus = format!("-tagfocus=pid={}", wanted[0]);
    let top = pprof(fleet.place.path(), &["-top", &focus, &url]);
    assert!(top.contains("keep_request"), "{top}");
    assert_eq!(text("/healthz"), "ok\n");
    drop((watch, steady));
}

/// A verdict is of those processes that have enough samples for one, and of sampled blocks: what a program maps itself
/// is said beside it.
#[test]
fn a_headline_says_what_no_verdict_covers() {
    let fleet = Fleet::new();
    let started = [fleet.start("maps", "maps"), fleet.start("maps", "steady")];
    let reports = fleet.path("text");
    let mut command = Command::new(mallow());
    command.args(["watch", "--match", &format!("^{}/maps$", fleet.place.path().display()), "--warm-up", "0s"]);
    command.args(["--every", "1s", "--period", "16KiB", "-o"]).arg(&reports);
    let watch = Alive::start(quiet(&mut command));
    let line = |wanted: &str| {
        let look = || {
            let text = fs::read_to_string(&reports).unwrap_or_default();
            text.lines().find(|line| line.contains(wanted)).map(str::to_owned)
        };
        until_or(look, || panic!("{wanted:?} is not in {}", fs::read_to_string(&reports).unwrap_or_default()))
    };
    line("  Too early to say what grows: that shows after ");
    let said = line(&format!("; maps {} has at least ", pid(&started[0])));
    assert!(said.contains(" more in memory than at first, outside of sampled blocks"), "{said}");
    line("  Too few samples to say what grows: a place needs 8 sampled blocks that settle; maps ");
    drop(started);
    line("  No process runs");
    drop(watch);
}

/// Live bytes of a function in a process; 0 of one that is not there.
fn live_of(report: &Value, pid: u64, function: &str) -> f64 {
    let places =
        member(report, pid).and_then(|member| member["places"].as_array()).map(Vec::as_slice).unwrap_or_default();
    let place = places.iter().find(|place| place["function"] == function);
    place.map_or(0.0, |place| place["live_bytes"]["value"].as_f64().expect("bytes"))
}

#[test]
fn a_pattern_that_matches_nothing_says_where_it_looked_and_waits() {
    let fleet = Fleet::new();
    let other = fleet.start("present", "steady");
    let watch = fleet.watch("reports", "absent", &[]);
    fleet.wait_for_line("reports", "no process matches");
    let said = fleet.errors("reports");
    assert!(said.contains("/absent") || said.contains("(absent)"), "{said}");
    assert!(said.contains("under mallow run: ") && said.contains("--attach"), "{said}");
    let shared = Path::new("/dev/shm");
    assert!(!shared.exists() || said.contains("/dev/shm"), "{said}");
    let come = fleet.start("absent", "steady");
    wait_for(&fleet.path("reports"), "one that came", |report| running(report) == [pid(&come)]);
    fleet.wait_for_line("reports", "watching 1 process that match");
    drop((watch, other));

    let refused = Command::new(mallow()).args(["watch", "--match", "("]).stdin(Stdio::null()).output().expect("mallow");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("--match"), "{said}");
}

#[test]
fn a_second_mallow_says_who_watches_and_takes_over_when_that_is_killed() {
    let fleet = Fleet::new();
    let targets = [fleet.start("kept", "leak"), fleet.start("kept", "steady")];
    let wanted = sorted(targets.iter().map(pid).collect());
    let first = fleet.watch("first", "kept", &[]);
    wait_for(&fleet.path("first"), "both", |report| running(report) == wanted);
    let second = fleet.watch("second", "kept", &[]);
    fleet.wait_for_line("second", &format!("process {} watches them", first.pid()));
    let refused = wait_for(&fleet.path("second"), "a reason", |report| {
        report["unwatched"][0]["reason"] == format!("process {} watches them", first.pid())
    });
    assert_eq!((refused["processes"].as_u64(), refused["unwatched"][0]["processes"].as_u64()), (Some(0), Some(2)));
    let mut first = first;
    first.signal("KILL");
    assert_eq!(first.end(), 128 + 9);
    let taken = wait_for(&fleet.path("second"), "both", |report| running(report) == wanted);
    assert_eq!(taken["unwatched"], serde_json::json!([]));
    // What was sampled for the first one is still known.
    let leak = pid(&targets[0]);
    wait_for(&fleet.path("second"), "what is live", |report| live_of(report, leak, "keep_request") > 0.0);
    for mut target in targets {
        target.signal("TERM");
        assert_eq!(target.end(), 0, "it goes on, and ends in order");
    }
    drop(second);
}

/// A mallow that is attached to a process alone.
fn attached(fleet: &Fleet, file: &str, process: &Alive) -> Alive {
    let mut command = Command::new(mallow());
    command.args(["watch", "-p", &process.pid(), "--json", "--every", "1s", "--period", "16KiB", "-o"]);
    let watch = Alive::start(quiet(command.arg(fleet.path(file))));
    wait_for(&fleet.path(file), "samples", |report| report["samples"].as_u64() >= Some(5));
    watch
}

#[test]
fn a_process_that_a_killed_mallow_was_attached_to_is_watched_once() {
    let fleet = Fleet::new();
    let mut target = fleet.start_alone("orphan", "leak");
    let mut first = attached(&fleet, "first", &target);
    first.signal("KILL");
    assert_eq!(first.end(), 128 + 9);

    // It was not started under mallow, and nobody asked for attaching.
    let mut watch = fleet.watch("plain", "orphan", &[]);
    let reason = "the mallow that was attached to it was killed; --attach attaches anew";
    wait_for(&fleet.path("plain"), "why it is not watched", |report| {
        running(report).is_empty() && report["unwatched"] == serde_json::json!([{ "reason": reason, "processes": 1 }])
    });
    watch.signal("TERM");
    assert_eq!(watch.end(), 0);

    let mut watch = fleet.watch("anew", "orphan", &["--attach"]);
    let file = fleet.path("anew");
    wait_for(&file, "samples", |report| live_of(report, pid(&target), "keep_request") > 0.0);
    let before = reports(&file).len();
    let all = until("later reports", || Some(reports(&file)).filter(|all| all.len() >= before + 5));
    for report in &all {
        assert!(members(report).len() <= 1, "{report:#}");
        assert_eq!((report["ended"].as_u64(), report["ended_in_all"].as_u64()), (Some(0), Some(0)), "{report:#}");
        assert_eq!(report["unwatched"], serde_json::json!([]), "{report:#}");
    }
    let last = &all[all.len() - 1];
    assert_eq!((running(last), last["processes"].as_u64()), (vec![pid(&target)], Some(1)));
    assert_eq!(member(last, pid(&target)).expect("it")["attached"], true);
    watch.signal("TERM");
    assert_eq!(watch.end(), 0);
    assert!(!maps_of(&target.pid()).contains("/mallow-"), "it was left as it was: {}", maps_of(&target.pid()));
    target.signal("TERM");
    assert_eq!(target.end(), 0);
}

#[test]
fn a_process_that_another_mallow_is_attached_to_is_watched_once_that_has_left() {
    let fleet = Fleet::new();
    let target = fleet.start_alone("taken", "leak");
    let mut first = attached(&fleet, "first", &target);
    let watch = fleet.watch("second", "taken", &["--attach"]);
    let file = fleet.path("second");
    let refused = wait_for(&file, "who watches", |report| {
        report["unwatched"][0]["reason"] == format!("process {} watches them", first.pid())
    });
    assert_eq!(
        (running(&refused), refused["unwatched"].as_array().map(Vec::len)),
        (Vec::new(), Some(1)),
        "{refused:#}"
    );
    first.signal("TERM");
    assert_eq!(first.end(), 0);
    let taken = wait_for(&file, "samples", |report| live_of(report, pid(&target), "keep_request") > 0.0);
    assert_eq!((running(&taken), taken["unwatched"].clone()), (vec![pid(&target)], serde_json::json!([])));
    drop(watch);
}

#[test]
fn processes_that_were_not_started_under_mallow_are_attached_to_where_that_is_asked_for() {
    let fleet = Fleet::new();
    let mut alone = fleet.start_alone("alone", "leak");
    let under = fleet.start("alone", "leak");
    let mut watch = fleet.watch("plain", "alone", &[]);
    wait_for(&fleet.path("plain"), "the one under mallow run", |report| running(report) == [pid(&under)]);
    watch.signal("TERM");
    assert_eq!(watch.end(), 0);
    assert!(!maps_of(&alone.pid()).contains("libmallow"), "nothing was attached to");
    assert!(reports(&fleet.path("plain")).iter().all(|report| member(report, pid(&alone)).is_none()));

    let mut watch = fleet.watch("attached", "alone", &["--attach"]);
    let both = sorted(vec![pid(&alone), pid(&under)]);
    let sampled = |report: &Value| live_of(report, pid(&alone), "keep_request") > 0.0;
    let report = wait_for(&fleet.path("attached"), "both", |report| running(report) == both && sampled(report));
    let attached = |process: &Alive| member(&report, pid(process)).expect("it")["attached"].as_bool();
    assert_eq!((attached(&alone), attached(&under)), (Some(true), Some(false)));
    // One that comes later, and one that a shell becomes when mallow has seen the shell.
    let later = fleet.start_alone("alone", "steady");
    let line = format!("read line; exec {} steady", fleet.named("alone").display());
    let mut becomes = Alive::start(Command::new("sh").args(["-c", &line]).stdin(Stdio::piped()).stdout(Stdio::null()));
    wait_for(&fleet.path("attached"), "a third", |report| running(report).contains(&pid(&later)));
    let looks = reports(&fleet.path("attached")).len();
    until("looks at the shell", || (reports(&fleet.path("attached")).len() > looks + 3).then_some(()));
    let mut stdin = becomes.child.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut stdin, b"\n").expect("it reads");
    wait_for(&fleet.path("attached"), "a fourth", |report| running(report).contains(&pid(&becomes)));
    watch.signal("TERM");
    assert_eq!(watch.end(), 0);
    assert!(!maps_of(&alone.pid()).contains("/mallow-"), "it was left as it was: {}", maps_of(&alone.pid()));
    alone.signal("TERM");
    assert_eq!(alone.end(), 0);
}
