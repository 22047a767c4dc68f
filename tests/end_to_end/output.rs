//! What mallow writes itself: a failure of it is not the command's, and two recordings are never one file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use harness::{Outcome, Run, directory, json, mallow, mount_namespace, nothing_left, number, program};

use super::watch_harness::until;

/// `mallow WAY -o small/out` on a disk that its command fills: what mallow writes at its end finds no room.
fn on_a_disk_that_is_full_at_the_end(test: &str, way: &[&str]) -> Option<Outcome> {
    let unshare = mount_namespace(test)?;
    let place = directory();
    let script = "mkdir small && mount -t tmpfs -o size=64k none small && exec \"$@\"";
    let run = Run::new(unshare[0], place.path())
        .args(&unshare[1..])
        .args(["sh", "-c", script, "sh"])
        .arg(mallow())
        .args(way)
        .args(["-o", "small/out", "--", "sh", "-c"])
        .arg("\"$0\" 1 20; head -c 1000000 /dev/zero 2>/dev/null >small/fill; exit 7")
        .arg(program("busy"))
        .go();
    assert!(!run.err().contains("panicked"), "{way:?}: {}", run.err());
    nothing_left(test, &run);
    Some(run)
}

/// The command's status wins, and the fault is one line. Who wants a script to see it has a flag.
#[test]
fn a_disk_that_is_full_at_the_end_changes_no_status() {
    const TEST: &str = "a_disk_that_is_full_at_the_end_changes_no_status";
    let ways: [&[&str]; 4] =
        [&["stat"], &["stat", "--json"], &["record", "--no-report"], &["watch", "--json", "--every", "1h"]];
    for way in ways {
        let Some(run) = on_a_disk_that_is_full_at_the_end(TEST, way) else { return };
        assert_eq!(run.status, 7, "{way:?}: {}", run.err());
        let messages: Vec<_> =
            run.err().lines().filter(|line| line.starts_with("mallow: ")).map(str::to_owned).collect();
        let faults = messages.iter().filter(|line| line.contains("No space left")).count();
        assert_eq!(faults, 1, "{way:?}: {messages:?}");
        assert!(way[0] == "watch" || messages.len() == 1, "{way:?}: {messages:?}");

        let strict = [way, &["--fail-on-write-error"]].concat();
        let Some(run) = on_a_disk_that_is_full_at_the_end(TEST, &strict) else { return };
        assert_eq!(run.status, 125, "{strict:?}: {}", run.err());
    }
}

/// The flag changes nothing where all was written.
#[test]
fn the_flag_is_about_mallows_own_output_alone() {
    for way in ["stat", "record", "watch"] {
        let place = directory();
        let run = Run::new(mallow(), place.path())
            .args([way, "--fail-on-write-error", "-o", "out", "--", "sh", "-c", "ls / >/dev/null; exit 3"])
            .go();
        assert_eq!(run.status, 3, "{way}: {}", run.err());
    }
}

/// `mallow record` of a shell that goes on until somebody writes into the pipe `go`.
fn recording(place: &Path, flags: &[&str], rounds: u32, go: &str) -> Child {
    let script = format!("\"$0\" 1 {rounds}; echo > begun-{go}; read line <{go}");
    assert!(Command::new("mkfifo").arg(place.join(go)).status().expect("mkfifo").success());
    let mut command = Command::new(mallow());
    command.args(["record", "--no-report"]).args(flags).args(["--", "/bin/sh", "-c", &script]).arg(program("busy"));
    command.current_dir(place).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().expect("mallow");
    until("the recording to begin", || place.join(format!("begun-{go}")).exists().then_some(()));
    child
}

fn ended(place: &Path, child: Child, go: &str) -> String {
    fs::write(place.join(go), "\n").expect("a pipe");
    let out = child.wait_with_output().expect("its end");
    let err = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(0), "{err}");
    err
}

fn allocations(place: &Path, file: &str) -> u64 {
    let run = Run::new(mallow(), place).args(["report", "--json", file]).go();
    let report: serde_json::Value = json(&run);
    assert!(report["cut_short"].is_null(), "{file}: {report:#}");
    number(&report, "allocations")
}

fn files(place: &Path) -> Vec<String> {
    let mut all: Vec<_> = fs::read_dir(place)
        .expect("the place")
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    all.retain(|name| !name.contains("begun") && !name.contains("go"));
    all.sort();
    all
}

/// Two at once of one program have two names, each prints its own, and both are whole.
#[test]
fn two_recordings_of_one_program_at_once_are_two_files() {
    let place = directory();
    let place = place.path();
    let first = recording(place, &[], 100, "go-1");
    let second = recording(place, &[], 400, "go-2");
    let message = ended(place, first, "go-1");
    assert!(message.contains("recorded to sh.mallow"), "{message}");
    // It is not in the way of the next one, which has the first name again.
    let third = recording(place, &[], 800, "go-3");
    let message = ended(place, second, "go-2");
    assert!(message.contains("recorded to sh.2.mallow"), "{message}");
    let mut now = files(place);
    now.retain(|name| !name.ends_with(".spool"));
    assert_eq!(now, ["sh.2.mallow", "sh.mallow", "sh.mallow.partial"], "while one goes on");
    assert!((20_000..21_000).contains(&allocations(place, "sh.mallow")), "the first is there until the third is whole");
    let message = ended(place, third, "go-3");
    assert!(message.contains("recorded to sh.mallow, replacing the one of "), "{message}");
    assert_eq!(files(place), ["sh.2.mallow", "sh.mallow"]);
    assert!((80_000..81_000).contains(&allocations(place, "sh.2.mallow")));
    assert!((160_000..161_000).contains(&allocations(place, "sh.mallow")));
}

/// A name that the user chose is no other one: what would overwrite it is refused before it runs.
#[test]
fn a_named_recording_is_not_written_twice_at_once() {
    let place = directory();
    let place = place.path();
    let first = recording(place, &["-o", "out"], 100, "go-1");
    let run = Run::new(mallow(), place).args(["record", "-o", "out", "--", "sh", "-c", "echo ran"]).go();
    assert_eq!((run.status, run.out().as_str()), (125, ""), "{}", run.err());
    assert!(run.err().contains("out") && run.err().contains("-o"), "{}", run.err());
    ended(place, first, "go-1");
    assert_eq!(files(place), ["out"]);
    assert!((20_000..21_000).contains(&allocations(place, "out")));
}

/// Many at once, in one directory and by the same name.
#[test]
fn many_recordings_of_one_program_at_once() {
    const MANY: u64 = 8;
    let place = directory();
    let children: Vec<(u64, Child)> = (1..=MANY)
        .map(|n| {
            let mut command = Command::new(mallow());
            command.args(["record", "--no-report", "--"]).arg(program("busy")).args(["0", &(100 * n).to_string()]);
            command.current_dir(place.path()).stdout(Stdio::null()).stderr(Stdio::piped());
            (n, command.spawn().expect("mallow"))
        })
        .collect();
    for (_, child) in children {
        let out = child.wait_with_output().expect("its end");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    let all = files(place.path());
    assert!(
        all.iter().all(|name| name.starts_with("busy.") && name.ends_with(".mallow")),
        "nothing else stays: {all:?}"
    );
    for name in all {
        let found = allocations(place.path(), &name);
        let rounds = (found + 100) / 10_000;
        assert!((1..=MANY).contains(&rounds) && found - rounds * 10_000 < 100, "{name} is one of them, whole: {found}");
    }
}

/// A recording that fails before it begins costs none that was there.
#[test]
fn what_was_recorded_before_stays_until_there_is_another() {
    let place = directory();
    let record = |command: &[&str]| {
        Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", "out", "--"]).args(command).go()
    };
    let busy = program("busy");
    assert_eq!(record(&[busy.to_str().expect("a path"), "0", "100"]).status, 0);
    let before = fs::read(place.path().join("out")).expect("a recording");
    assert_eq!(record(&["no-such-command"]).status, 127);
    // Found, and refused by the kernel: its interpreter is not there.
    let script = place.path().join("script");
    fs::write(&script, "#!/no/such/interpreter\n").expect("a file");
    fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).expect("its mode");
    assert_eq!(record(&["./script"]).status, 127);
    assert!(fs::read(place.path().join("out")).expect("a recording") == before);
    assert_eq!(files(place.path()), ["out", "script"]);
}

/// Links lead to where they led, devices are written to, and a killed recording's remains are no recording to show.
#[test]
fn what_a_recording_is_written_to_stays_what_it_is() {
    let place = directory();
    let at = |name: &str| place.path().join(name);
    fs::write(at("real"), "").expect("a file");
    fs::set_permissions(at("real"), PermissionsExt::from_mode(0o600)).expect("its mode");
    std::os::unix::fs::symlink("real", at("link")).expect("a link");
    std::os::unix::fs::symlink("later", at("dangling")).expect("a link");
    for to in ["link", "dangling", "/dev/null"] {
        let run = Run::new(mallow(), place.path())
            .args(["record", "--no-report", "-o", to, "--"])
            .arg(program("busy"))
            .args(["0", "100"])
            .go();
        assert_eq!(run.status, 0, "{to}: {}", run.err());
    }
    assert_eq!(fs::read_link(at("link")).ok(), Some(PathBuf::from("real")));
    assert_eq!(fs::metadata(at("real")).expect("it").permissions().mode() & 0o777, 0o600);
    assert!(allocations(place.path(), "real") >= 10_000 && allocations(place.path(), "later") >= 10_000);
    assert_eq!(files(place.path()), ["dangling", "later", "link", "real"]);

    fs::write(at("x.mallow.partial"), "half").expect("a file");
    let run = Run::new(mallow(), place.path()).arg("report").go();
    assert!(run.err().contains("no recording (*.mallow) is here"), "{}", run.err());
}

/// Recordings and what is made of them hold command lines, paths and sources. With a umask of 000 anybody could write
/// them.
#[test]
fn new_files_are_their_owners_alone() {
    let place = directory();
    for umask in ["umask=000", "umask=022"] {
        let mallow_with = |arguments: &[&str]| {
            let run = Run::new(program("with"), place.path()).args([umask, "--"]).arg(mallow()).args(arguments).go();
            assert_eq!(run.status, 0, "{arguments:?}: {}", run.err());
        };
        let calls = program("calls");
        let calls = calls.to_str().expect("a plain path");
        mallow_with(&["record", "--no-report", "-o", "x.mallow", "--", calls]);
        mallow_with(&["stat", "-o", "stat.txt", "--", calls]);
        mallow_with(&["pack", "-o", "packed.mallow", "x.mallow"]);
        mallow_with(&["export", "--format", "html", "-o", "x.html", "x.mallow"]);
        mallow_with(&["export", "--format", "folded", "-o", "x.folded", "x.mallow"]);
        mallow_with(&["flame", "-o", "x.svg", "x.mallow"]);
        for name in ["x.mallow", "stat.txt", "packed.mallow", "x.html", "x.folded", "x.svg"] {
            let path = place.path().join(name);
            let mode = fs::metadata(&path).expect("a file").permissions().mode() & 0o7777;
            assert_eq!(mode, 0o600, "{umask}: {name}: {mode:o}");
            fs::remove_file(path).expect("it is there");
        }
    }
}

/// A page holds source lines, also of a recording that was packed without them.
#[test]
fn an_exported_page_says_that_it_holds_source_lines() {
    let place = directory();
    let calls = program("calls");
    let calls = calls.to_str().expect("a plain path");
    let of = |arguments: &[&str]| Run::new(mallow(), place.path()).args(arguments).go();
    assert_eq!(of(&["record", "--no-report", "-o", "x.mallow", "--", calls]).status, 0);
    assert_eq!(of(&["pack", "--no-sources", "x.mallow"]).status, 0);
    const LINE: &str = "free(keep(malloc(10)))";
    let with = of(&["export", "--format", "html", "-o", "with.html", "x.mallow"]);
    let without = of(&["export", "--format", "html", "--no-sources", "-o", "without.html", "x.mallow"]);
    let page = |name: &str| fs::read_to_string(place.path().join(name)).expect("a page");
    assert!(with.err().contains("the page holds source lines; --no-sources leaves them out"), "{}", with.err());
    assert!(page("with.html").contains(LINE) && !page("without.html").contains(LINE));
    assert!(without.status == 0 && !without.err().contains("source lines"), "{}", without.err());
    assert!(page("without.html").contains("source lines: left out by --no-sources"));
    let folded = of(&["export", "--format", "folded", "--no-sources", "x.mallow"]);
    assert!(folded.status != 0 && folded.err().contains("--no-sources is for html alone"), "{}", folded.err());
}
