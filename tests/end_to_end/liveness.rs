//! A mallow that is killed or stopped at any moment: the command's processes, also those that come later, hardly wait.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use harness::{Run, directory, mallow, number, program, program_as, rounds, wire};

use crate::watch_harness::{control_page, until};

/// Processes that the command starts one after the other.
const PROCESSES: u32 = 100;

/// Each of them needs an unwind table that only mallow can make: without a build-id no two are known to be the same.
fn script() -> String {
    let program = program_as("busy", "busy-no-build-id", "cc", &["-Wl,--build-id=none"]);
    let each = format!("{} 0 1 > /dev/null", program.display());
    format!("echo > begun; i=0; while [ $i -lt {PROCESSES} ]; do {each}; i=$((i+1)); done; echo > ended")
}

/// Mallow in each of its roles in which processes of the command may wait for it.
const ROLES: [&[&str]; 3] =
    [&["record", "--no-report", "-o", "out"], &["stat", "-o", "out"], &["watch", "--lines", "--log", "log"]];

fn start(place: &Path, role: &[&str], script: &str) -> Child {
    Command::new(mallow())
        .args(role)
        .args(["--", "/bin/sh", "-c", script])
        .current_dir(place)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("mallow")
}

fn wait_for(file: &Path) {
    let patience = Instant::now() + Duration::from_secs(300);
    while !file.exists() {
        assert!(Instant::now() < patience, "{} was never made", file.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().expect("kill");
    assert!(sent.success(), "kill -s {name}");
}

/// Random moments, the same ones each time: xorshift, from a seed that is not 0.
struct Moments(u64);

impl Moments {
    fn next(&mut self, most: Duration) -> Duration {
        for (left, by) in [(true, 13), (false, 7), (true, 17)] {
            self.0 ^= if left { self.0 << by } else { self.0 >> by };
        }
        most.mul_f64((self.0 % 1000) as f64 / 1000.0)
    }
}

/// What the command takes alone, now.
fn alone() -> Duration {
    let place = directory();
    let begin = Instant::now();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &script()]).current_dir(place.path()).stdout(Stdio::null());
    assert!(command.status().expect("the command").success());
    begin.elapsed()
}

/// The time from a signal to mallow at a random moment until the command's end, and what it takes alone at that time:
/// the machine may have other things to do.
fn after_the_signal(role: &[&str], name: &str, moment: Duration) -> (Duration, Duration) {
    let place = directory();
    let mut child = start(place.path(), role, &script());
    wait_for(&place.path().join("begun"));
    std::thread::sleep(moment);
    let beside = std::thread::spawn(alone);
    let begin = Instant::now();
    signal(&child, name);
    wait_for(&place.path().join("ended"));
    let took = begin.elapsed();
    if name == "STOP" {
        signal(&child, "CONT");
        assert!(child.wait().expect("its end").success(), "{role:?}: mallow went on");
    } else {
        child.wait().expect("its end");
    }
    (took, beside.join().expect("the command alone"))
}

/// Each process waited half a second for the table of each of its modules, and one that had a full ring two more.
fn hardly_waits(name: &str, turns: u32, seed: u64) {
    let most = alone();
    let mut moments = Moments(seed);
    for turn in 0..turns {
        for role in ROLES {
            let moment = moments.next(most);
            let (took, alone) = after_the_signal(role, name, moment);
            let bound = 5 * alone + Duration::from_secs(2);
            assert!(
                took < bound,
                "{role:?}, {name} after {moment:?} (seed {seed}, turn {turn}): {took:?}, alone {alone:?}"
            );
        }
    }
}

#[test]
fn killed_at_any_moment() {
    hardly_waits("KILL", rounds(10), 0x5eed_0001);
}

#[test]
fn stopped_at_any_moment() {
    hardly_waits("STOP", rounds(5), 0x5eed_0002);
}

/// All that happens while mallow is stopped is recorded or counted as lost, to the last event.
#[test]
fn what_a_stopped_mallow_missed_is_counted() {
    let events = |file: &str, place: &Path| {
        let run = Run::new(mallow(), place).args(["report", "--json", file]).go();
        assert_eq!(run.status, 0, "{}", run.err());
        let json: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
        let reallocs = number(&json, "reallocs_in_place") + number(&json, "reallocs_moved");
        let text = Run::new(mallow(), place).args(["report", file]).go().out();
        (number(&json, "allocations") + number(&json, "frees") + reallocs, number(&json, "lost"), text)
    };
    let busy = program("busy");
    // The shell does the same each time, however long it has to wait.
    let script = format!("echo > begun; read line < go; {} 0 500; echo > ended", busy.display());
    let role = ["record", "--no-report", "-o", "out"];
    let mut seen = Vec::new();
    for stopped in [false, true] {
        let place = directory();
        assert!(Command::new("mkfifo").arg(place.path().join("go")).status().expect("mkfifo").success());
        let mut child = start(place.path(), &role, &script);
        wait_for(&place.path().join("begun"));
        if stopped {
            signal(&child, "STOP");
        }
        fs::write(place.path().join("go"), "\n").expect("go");
        wait_for(&place.path().join("ended"));
        signal(&child, "CONT");
        assert!(child.wait().expect("its end").success());
        seen.push(events("out", place.path()));
    }
    assert_eq!(seen[0].1, 0, "nothing is lost by one that reads");
    assert!(seen[1].1 > 10_000, "100,000 events cannot have been kept: {seen:?}");
    assert_eq!(seen[0].0, seen[1].0 + seen[1].1, "{seen:?}");
    // Its frees are among what is lost, and its exit was one.
    let text = &seen[1].2;
    assert!(text.contains("totals are higher, and blocks that seem live may be freed"), "{text}");
    assert!(
        text.contains("Not scanned for lost blocks: mallow did not answer: it was stopped, or got no processor\n"),
        "{text}"
    );
    assert!(!text.contains("ended by a signal"), "{text}");
}

/// Whose unwind table comes too late goes on without it: its call paths end where the table was needed.
#[test]
fn tables_that_came_too_late_are_reported() {
    let busy = program_as("busy", "busy-no-build-id", "cc", &["-Wl,--build-id=none"]);
    let script = format!("echo > begun; read line < go; {} 0 1; echo > ended", busy.display());
    let late = "Incomplete: unwind tables were not ready in time, or out of the program's reach, for 1 of 2 processes";
    for stopped in [false, true] {
        let place = directory();
        assert!(Command::new("mkfifo").arg(place.path().join("go")).status().expect("mkfifo").success());
        let mut child = start(place.path(), &["record", "--no-report", "-o", "out"], &script);
        wait_for(&place.path().join("begun"));
        if stopped {
            signal(&child, "STOP");
        }
        fs::write(place.path().join("go"), "\n").expect("go");
        wait_for(&place.path().join("ended"));
        signal(&child, "CONT");
        assert!(child.wait().expect("its end").success());
        let run = Run::new(mallow(), place.path()).args(["report", "out"]).go();
        assert_eq!(run.status, 0, "{}", run.err());
        assert_eq!(run.out().contains(late), stopped, "{}", run.out());
        let stacks = Run::new(mallow(), place.path()).args(["report", "--stacks", "out"]).go();
        assert_eq!(stacks.out().contains("outer frames are missing"), stopped, "{}", stacks.out());
    }
}

/// A recording that goes on after a stop records the processes that come after it.
#[test]
fn a_mallow_that_goes_on_records_on() {
    let place = directory();
    let busy = program("busy");
    let script = format!(
        "echo > begun; while [ ! -e go ]; do :; done; {0} 0 1; echo > first; while [ ! -e on ]; do :; done; {0} 0 50",
        busy.display()
    );
    let mut child = start(place.path(), &["record", "--no-report", "-o", "out"], &script);
    wait_for(&place.path().join("begun"));
    signal(&child, "STOP");
    fs::write(place.path().join("go"), "").expect("go");
    wait_for(&place.path().join("first"));
    let control = control_page(child.id());
    let epoch = || wire::number(&fs::read(&control).expect("the control page"), 0, "control.epoch");
    let stopped_at = epoch();
    signal(&child, "CONT");
    until("mallow to read on", || (epoch() != stopped_at).then_some(()));
    fs::write(place.path().join("on"), "").expect("on");
    assert!(child.wait().expect("its end").success());
    let run = Run::new(mallow(), place.path()).args(["report", "--json", "out"]).go();
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let after = json["processes"].as_array().and_then(|all| all.last()).expect("the processes");
    assert_eq!((number(after, "allocations"), number(after, "lost")), (50 * 100, 0), "{json:#}");
}
