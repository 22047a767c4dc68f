//! Full disks, full tmpfs, few descriptors, little memory.

use std::fs;
use std::path::Path;
use std::time::Duration;

use harness::{Case, Outcome, Run, directory, mallow, mount_namespace, nothing_left, number, open_directory, program};

/// Whether mallow ran the command, or refused with one line before it ran.
fn ran_or_refused(what: &str, bare: &Outcome, run: &Outcome) -> bool {
    assert!(!run.err().contains("panicked"), "{what}: {}", run.err());
    if run.stdout.is_empty() && !bare.stdout.is_empty() {
        let lines: Vec<String> = run.err().lines().map(str::to_owned).collect();
        assert!(lines.len() == 1 && lines[0].starts_with("mallow: "), "{what}: refused with {lines:?}");
        assert_ne!(run.status, 0, "{what}");
        return false;
    }
    // Where no process could take part, there is no recording, and the status says so.
    let nothing = what.contains(" record ")
        && bare.status == 0
        && run.err().contains("mallow: nothing was recorded: no process of the command could");
    let status = if nothing { 125 } else { bare.status };
    assert_eq!((run.status, run.out()), (status, bare.out()), "{what}: {}", run.err());
    true
}

/// Under both commands, with mallow's own text allowed.
fn both(case: impl Fn(Run) -> Run, around: &[&str], command: &[&str]) -> Vec<(bool, Outcome)> {
    let place = directory();
    let bare = case(Run::new(command[0], place.path()).args(&command[1..])).go();
    let mut all = Vec::new();
    for way in ["stat", "record"] {
        let place = directory();
        let binary = mallow();
        let mut words: Vec<&str> = around.to_vec();
        words.extend([binary.to_str().expect("a plain path"), way, "-o", "out"]);
        if way == "record" {
            words.push("--no-report");
        }
        words.push("--");
        words.extend(command);
        let run = case(Run::new(words[0], place.path()).args(&words[1..])).go();
        let what = format!("{around:?} mallow {way} {command:?}");
        let ran = ran_or_refused(&what, &bare, &run);
        nothing_left(&what, &run);
        all.push((ran, run));
    }
    all
}

fn text(path: &Path) -> String {
    path.to_str().expect("a plain path").to_owned()
}

/// /dev/shm of so many KiB, in a mount namespace of the run's own.
#[test]
fn full_tmpfs() {
    let Some(unshare) = mount_namespace("full_tmpfs") else { return };
    let busy = text(&program("busy"));
    for kib in [16u32, 64, 256, 1024, 1200, 2048, 4096, 16384] {
        let mount = format!("mount -t tmpfs -o size={kib}k none /dev/shm && exec \"$@\"");
        let around: Vec<&str> = unshare.iter().copied().chain(["sh", "-c", &mount, "sh"]).collect();
        for command in [&[&*busy, "6", "300"][..], &["sh", "-c", "ls /; ls /usr | sort; exit 3"][..]] {
            for (ran, run) in both(|r| r.env("XDG_RUNTIME_DIR", None::<&str>), &around, command) {
                assert!(ran || kib <= 256, "{kib} KiB: {}", run.err());
            }
        }
    }
}

/// A small /dev/shm and many threads: rings shrink before threads go without one, and each event is recorded or counted
/// as lost.
#[test]
fn many_threads_on_a_small_tmpfs() {
    let Some(unshare) = mount_namespace("many_threads_on_a_small_tmpfs") else { return };
    let threads = text(&program("threads"));
    let record = |kib: u32| {
        let place = directory();
        let mount = format!("mount -t tmpfs -o size={kib}k none /dev/shm && exec \"$@\"");
        let run = Run::new(unshare[0], place.path())
            .args(&unshare[1..])
            .args(["sh", "-c", &mount, "sh"])
            .arg(mallow())
            .args(["record", "--no-report", "-o", "out", "--", &threads, "alive", "150"])
            .env("XDG_RUNTIME_DIR", None::<&str>)
            .go();
        assert_eq!(run.status, 0, "{kib} KiB: {}", run.err());
        let report = Run::new(mallow(), place.path()).args(["report", "--json", "out"]).go();
        let json: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
        let reallocs = number(&json, "reallocs_in_place") + number(&json, "reallocs_moved");
        (number(&json, "allocations") + number(&json, "frees") + reallocs, number(&json, "lost"))
    };
    let (all, none) = record(512 << 10);
    assert_eq!(none, 0, "there is room for all");
    assert_eq!(record(16 << 10), (all, 0), "150 rings of 128 KiB do not fit; smaller ones do");
    let (events, lost) = record(2 << 10);
    assert!(lost > 0 && events > all / 10, "{events} events, {lost} lost");
    assert_eq!(events + lost, all, "{lost} lost");
}

/// A limit of the target's data: Mallow takes little of it, so that a program that runs without it runs with it, too.
/// What it has no room to record is counted.
#[test]
fn little_data() {
    let busy = text(&program("busy"));
    let bare = |limit: &str| Case::new("prlimit").args([limit, &busy, "0", "20"]).bare();
    for (limit, recorded) in [("--data=1000000", false), ("--data=64000000", true)] {
        let bare = bare(limit);
        assert_eq!(bare.status, 0, "{}", bare.err());
        for role in [&["stat"][..], &["record"], &["run"], &["watch", "--lines", "--log", "log"]] {
            let place = directory();
            let mut run = Run::new(mallow(), place.path()).args(role);
            if matches!(role[0], "stat" | "record") {
                run = run.args(["--json", "-o", "out"]);
            }
            let run = run.args(["--", "prlimit", limit, &busy, "0", "20"]).go();
            let what = format!("{role:?} {limit}");
            assert_eq!(run.status, 0, "{what}: {}", run.err());
            let report = match role[0] {
                "stat" => fs::read(place.path().join("out")).expect("the counts"),
                "record" => Run::new(mallow(), place.path()).args(["report", "--json", "out"]).go().stdout,
                _ => continue,
            };
            let json: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
            let counted = role[0] == "stat" || recorded;
            assert_eq!(number(&json, "lost") == 0, counted, "{what}: {json:#}");
            assert_eq!(number(&json, "allocations") >= 2000, counted, "{what}: {json:#}");
        }
    }
}

/// No room for the recording at all: the fault is reported, and changes the status of a command that ran only where
/// that is asked for.
#[test]
fn full_disk() {
    let busy = text(&program("busy"));
    let bare = Case::new(&busy).args(["2", "100"]).bare();
    for (way, flag) in [("stat", None), ("stat", Some("--fail-on-write-error")), ("record", None)] {
        let place = directory();
        let run = Run::new(mallow(), place.path())
            .arg(way)
            .args(flag)
            .args(["-o", "/dev/full", "--", &busy, "2", "100"])
            .go();
        assert!(!run.err().contains("panicked"), "{way}: {}", run.err());
        assert!(run.err().lines().any(|l| l.starts_with("mallow: ")), "{way}: {:?}", run.err());
        // Refused before it ran, or run to its end.
        assert!(run.stdout.is_empty() || run.stdout == bare.stdout, "{way}: {}", run.out());
        let expected = if run.stdout.is_empty() || flag.is_some() { 125 } else { bare.status };
        assert_eq!(run.status, expected, "{way} {flag:?}: {}", run.err());
        nothing_left(way, &run);
    }
}

/// The disk is full in the middle of the recording: what was written is readable.
fn fills_up(spool_elsewhere: bool) {
    let Some(unshare) = mount_namespace("fills_up") else { return };
    let script = "mkdir small; mount -t tmpfs -o size=1m none small; export $1; shift; \
                  \"$0\" record --no-report -o small/x -- \"$@\"; echo status $?; ls small; \
                  \"$0\" report --json small/x > ../report.json || cat ../report.json";
    let place = directory();
    let inner = place.path().join("inner");
    fs::create_dir(&inner).expect("a directory");
    let setting = if spool_elsewhere { "ANY=thing" } else { "TMPDIR=small" };
    let run = Run::new(unshare[0], &inner)
        .args(&unshare[1..])
        .args(["sh", "-c", script])
        .arg(mallow())
        .args([setting, &text(&program("busy")), "2", "2000"])
        .go();
    assert!(run.out().starts_with("2 threads: 504285288\n"), "{}{}", run.out(), run.err());
    assert!(run.out().ends_with("\nx\n"), "nothing but the recording stays: {}{}", run.out(), run.err());
    assert!(!run.err().contains("panicked"), "{}", run.err());
    let report = fs::read(place.path().join("report.json")).expect("a report");
    let json: serde_json::Value =
        serde_json::from_slice(&report).unwrap_or_else(|e| panic!("{e}: {}{}", run.out(), run.err()));
    assert!(number(&json, "allocations") > 0, "{}{}", run.out(), run.err());
    assert!(!json["cut_short"].is_null(), "{}{}", run.out(), run.err());
    let full = if spool_elsewhere { "what it holds can be read: No space left" } else { "spool could not be written" };
    let messages = run.err() + json["cut_short"].as_str().unwrap_or_default();
    assert!(messages.contains(full), "{messages}");
}

/// A few KiB are left of the disk when the command starts. It runs to its end, and there is nothing to keep.
#[test]
fn disk_that_is_full_from_the_start() {
    let Some(unshare) = mount_namespace("disk_that_is_full_from_the_start") else { return };
    let script = "mkdir small; mount -t tmpfs -o size=1m none small; dd if=/dev/zero of=small/filler bs=1k count=$1 2>&-; shift; \
                  TMPDIR=small \"$0\" record --no-report -o small/x -- \"$@\"; echo status $?; ls small";
    for kib in ["960", "1000", "1016"] {
        let place = directory();
        let run = Run::new(unshare[0], place.path())
            .args(&unshare[1..])
            .args(["sh", "-c", script])
            .arg(mallow())
            .args([kib, &text(&program("busy")), "2", "200000"])
            .limit(Duration::from_secs(60))
            .go();
        assert!(run.out().contains("\nstatus 125\nfiller\n"), "{kib}: {}{}", run.out(), run.err());
        assert!(run.err().contains("nothing was recorded: the spool could not be written"), "{kib}: {}", run.err());
        assert!(!run.err().contains("allocated nothing"), "{kib}: {}", run.err());
    }
}

#[test]
fn disk_that_fills_up() {
    fills_up(true);
}

#[test]
fn disk_that_fills_up_with_the_spool() {
    fills_up(false);
}

/// As in a container: the first directories for the library are mounted noexec. Where all are, mallow says so before it
/// runs the command.
#[test]
fn noexec_file_systems() {
    let Some(unshare) = mount_namespace("noexec_file_systems") else { return };
    let noexec = "for place in /dev/shm /var/cache; do mount -t tmpfs -o noexec none $place || exit; done; exec \"$@\"";
    for way in ["stat", "record"] {
        for ran in [true, false] {
            let place = directory();
            let run = Run::new(unshare[0], place.path())
                .args(&unshare[1..])
                .args(["sh", "-c", noexec, "sh"])
                .arg(mallow())
                .args([way, "-o", "out", "--", "sh", "-c", "ls -d /; exit 3"])
                .env("XDG_CACHE_HOME", Some("/var/cache"))
                .env("XDG_RUNTIME_DIR", None::<&str>)
                .env("TMPDIR", Some(if ran { place.path() } else { Path::new("/dev/shm") }))
                .go();
            let what = format!("{way}, {}", if ran { "one place is left" } else { "none is left" });
            assert!(!run.err().contains("ld.so"), "{what}: {}", run.err());
            let expected = if ran { (3, "/\n") } else { (125, "") };
            assert_eq!((run.status, run.out().as_str()), expected, "{what}: {}", run.err());
            assert!(ran || run.err().contains("is mounted noexec"), "{what}: {}", run.err());
            assert!(!run.err().contains("nothing was recorded"), "{what}: {}", run.err());
            nothing_left(&what, &run);
        }
    }
}

/// The place for all users is not root's alone: nothing is loaded from there, and the next one serves.
#[test]
fn cache_of_somebody_else() {
    let Some(unshare) = mount_namespace("cache_of_somebody_else") else { return };
    let place = open_directory();
    let open = "mount -t tmpfs none /var/cache && mkdir -m 777 /var/cache/mallow && exec \"$@\"";
    let run = Run::new(unshare[0], place.path())
        .args(&unshare[1..])
        .args(["sh", "-c", open, "sh"])
        .arg(mallow())
        .args(["stat", "--json", "-o", "out", "--", "sh", "-c", "ls -d /; exit 3"])
        .env("XDG_CACHE_HOME", Some(place.path()))
        .go();
    assert_eq!((run.status, run.out().as_str(), run.err().as_str()), (3, "/\n", ""));
    let json = harness::document(fs::read(place.path().join("out")).expect("counts"));
    assert!(number(&json, "allocations") > 0, "{json:#}");
    assert!(place.path().join("mallow").is_dir(), "the user's own cache serves");
}

/// The command has no standard input, output or error.
#[test]
fn closed_standard_descriptors() {
    for set in [&["close=0"][..], &["close=1"], &["close=2"], &["close=0", "close=1", "close=2"]] {
        for command in ["descriptors", "fork_storm"] {
            let case = Case::target(command).with(set);
            let case = if command == "fork_storm" { case.arg("10") } else { case };
            let three = case.three_ways();
            assert!(three.stat.counts().allocations > 10_000, "{command} {set:?}");
            assert!(three.record.counts().allocations > 10_000, "{command} {set:?}");
        }
        // And mallow itself: no file of its own may become the command's output.
        Case::target("busy").args(["2", "50"]).all_with(set).three_ways();
    }
}

#[test]
fn descriptors_are_the_programs_own() {
    let three = Case::target("descriptors").three_ways();
    assert!(three.bare.out().starts_with("start: 3 4 5\n"), "{}", three.bare.out());
    assert_eq!(three.stat.counts().sums(), three.record.counts().sums());
}

#[test]
fn few_descriptors() {
    for count in ["nofile=4", "nofile=5", "nofile=8"] {
        let three = Case::target("busy").args(["4", "50"]).with([count]).three_ways();
        assert!(three.record.counts().allocations > 20_000, "{count}: {:?}", three.record.counts());
    }
}

/// The program itself needs 3 MB. Where there is not much more, it may go unseen, but never fail.
#[test]
fn little_address_space() {
    for mib in [4u64, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 1024] {
        let limit = format!("as={}", mib << 20);
        let three = Case::target("busy").args(["0", "200"]).with([&limit]).may_say("process").three_ways();
        assert_eq!(three.bare.status, 0, "{limit}: {}", three.bare.err());
        if mib >= 256 {
            assert!(three.record.counts().allocations >= 20_000, "{limit}: {:?}", three.record.counts());
        }
    }
}

/// What goes over this limit is a signal that kills.
#[test]
fn little_file_size() {
    for bytes in [0u64, 200, 4096, 65536, 1 << 20, 2 << 20, 16 << 20] {
        let limit = format!("fsize={bytes}");
        let with = text(&program("with"));
        let busy = text(&program("busy"));
        // Where it is too little for the process's file, there is no recording to compare.
        match bytes {
            ..65536 => both(|r| r, &[], &[&with, &limit, "--", &busy, "4", "100"]),
            _ => {
                Case::target("busy").args(["4", "100"]).with([&limit]).may_say("process").three_ways();
                Vec::new()
            }
        };
        // For mallow, too. What it says goes to a file here, which has to have room for that.
        if bytes > 0 {
            both(|r| r, &[&with, &limit, "--"], &[&busy, "4", "100"]);
        }
    }
}

#[test]
fn mallow_with_little_of_everything() {
    let with = text(&program("with"));
    let busy = text(&program("busy"));
    for limit in ["nofile=4", "nofile=6", "nofile=10", "nofile=16", "as=200000000", "as=2000000000"] {
        both(|r| r, &[&with, limit, "--"], &[&busy, "1", "100"]);
    }
}
