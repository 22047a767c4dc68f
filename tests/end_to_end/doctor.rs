//! `mallow doctor`: what is in the way of recording is said before anything runs, and as `record` says it afterwards.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use harness::{
    Outcome, Run, directory, mallow, mount_namespace, not_run, open_directory, program, program_as, root, tool,
};
use serde_json::Value;

fn doctor(place: &Path, arguments: &[&str]) -> Outcome {
    Run::new(mallow(), place).arg("doctor").args(arguments).env("PYTHONMALLOC", None::<&str>).go()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Doctor's exit status and verdict for a command, and all checks that do not come out well, with what they found.
fn diagnose(command: &[&str]) -> (i32, String, Vec<(String, String)>) {
    let place = directory();
    let run = doctor(place.path(), &[&["--json", "--"], command].concat());
    assert_eq!(run.err(), "", "{command:?}");
    let json: Value = serde_json::from_slice(&run.stdout).expect("JSON");
    let word = |value: &Value| value.as_str().expect("text").to_owned();
    let checks = json["program"].as_array().expect("checks").iter();
    let bad = checks.filter(|check| check["status"] != "works");
    (run.status, word(&json["verdict"]), bad.map(|c| (word(&c["check"]), word(&c["found"]))).collect())
}

/// Nothing would be recorded; record, which is tried too, says the same.
fn fails(command: &[&str], check: &str, found: &str) {
    let (status, verdict, checks) = diagnose(command);
    assert_eq!((status, verdict.as_str()), (3, "fails"), "{command:?} {checks:?}");
    let said = checks.iter().find(|(name, text)| name == check && text.contains(found));
    let (_, said) = said.unwrap_or_else(|| panic!("{check} {found:?} is not said of {command:?}: {checks:?}"));
    let place = directory();
    let record = Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", "x", "--"]).args(command).go();
    assert!(record.err().contains(said.as_str()), "record says something else: {}", record.err());
}

#[test]
fn programs_that_are_out_of_sight() {
    let of = |name: &str, output: &str, compiler: &str, flags: &[&str]| program_as(name, output, compiler, flags);
    let static_busy = of("busy", "busy-static", "cc", &["-static"]);
    fails(&[text(&static_busy), "1", "1"], "program", "busy-static is statically linked");
    let asan = of("busy", "busy-asan", "cc", &["-fsanitize=address"]);
    fails(&[text(&asan), "1", "1"], "allocator", "busy-asan is built with a sanitizer (libasan.so");
    fails(&[text(&program("own_allocator"))], "allocator", "own_allocator has an allocator of its own, which");
    fails(&[text(&tool("go")), "version"], "program", "go is a Go program");
    fails(&["env", "-i", text(&program("busy")), "1", "1"], "environment", "env takes LD_PRELOAD");
}

/// Through scripts and env, to the interpreter.
#[test]
fn scripts_lead_to_what_reads_them() {
    let place = directory();
    let interpreter = program_as("nothing", "nothing-static", "cc", &["-static"]);
    let script = place.path().join("script");
    fs::write(&script, format!("#!/usr/bin/env -S A=1 {} -x\n", interpreter.display())).expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its mode");
    fails(&[text(&script)], "program", "nothing-static is statically linked");
    let run = doctor(place.path(), &["--", text(&script)]);
    let way = format!("\n{} → /usr/bin/env → {}\n", script.display(), interpreter.display());
    assert!(run.out().contains(&way) && run.status == 3, "{}", run.out());
}

#[test]
fn what_works_but_for_something() {
    let python = |command: &[&str]| diagnose(command).2.into_iter().find(|(check, _)| check == "runtime");
    let seen = python(&["/usr/bin/python3", "-c", "0"]).expect("a remark");
    assert!(seen.1.contains("arenas of its own"), "{seen:?}");
    assert_eq!(python(&["env", "PYTHONMALLOC=malloc", "/usr/bin/python3"]), None);
    let musl = program_as("busy", "busy-musl", "musl-gcc", &[]);
    let (_, _, checks) = diagnose(&[text(&musl)]);
    assert!(checks.iter().all(|(check, _)| check != "C library"), "{checks:?}");
    let bare = program_as("busy", "busy-g0-tsan", "cc", &["-g0", "-fsanitize=thread"]);
    let (status, verdict, checks) = diagnose(&[text(&bare)]);
    assert_eq!((status, verdict.as_str(), checks.len()), (0, "partly", 1), "{checks:?}");
    assert!(checks[0].1.contains("symbol table, no debug information"), "the runtime's own is not the program's");
    let plain = program_as("busy", "busy-without-tables", "cc", &["-g0"]);
    let stripped = plain.with_extension("stripped");
    let sections = ["--remove-section=.eh_frame", "--remove-section=.eh_frame_hdr"];
    assert!(
        Run::new("objcopy", plain.parent().expect("a directory")).args(sections).arg(&plain).arg(&stripped).go().status
            == 0
    );
    let (_, _, checks) = diagnose(&[text(&stripped)]);
    assert!(checks.iter().any(|(check, found)| check == "stacks" && found.contains("no unwind tables")), "{checks:?}");
}

#[test]
fn nothing_is_run_and_nothing_is_left() {
    let place = directory();
    let run = doctor(place.path(), &["--", "sh", "-c", "echo ran > here"]);
    assert_eq!(run.status, 0, "{}", run.out());
    assert!(run.out().ends_with(" above.\n") || run.out().ends_with("Everything works.\n"), "{}", run.out());
    assert_eq!(fs::read_dir(place.path()).expect("the directory").count(), 0);
    harness::nothing_left("doctor", &run);
    let (status, verdict, checks) = diagnose(&["no-such-command"]);
    assert_eq!((status, verdict.as_str(), checks[0].0.as_str()), (3, "fails", "command"));
    let usage = doctor(place.path(), &["--nonsense"]);
    assert_eq!((usage.status, usage.err().lines().count()), (2, 1), "{}", usage.err());
}

#[test]
fn machines_without_tmpfs_room_or_rights() {
    let Some(unshare) = mount_namespace("machines_without_tmpfs_room_or_rights") else { return };
    let place = directory();
    for (mount, around, check, status, code, found) in [
        ("mount -t tmpfs -o size=200k none /dev/shm", "", "run directory", "partly", 0, "/dev/shm has"),
        (
            "mount -t tmpfs -o size=4k none /dev/shm",
            "export TMPDIR=/proc/none;",
            "run directory",
            "fails",
            3,
            "cannot be made",
        ),
        ("mount -t ramfs none /dev/shm", "", "run directory", "partly", 0, "is not in memory"),
        ("true", "ulimit -f 16;", "limits", "fails", 3, "the size of files"),
        ("true", "ulimit -n 20;", "limits", "partly", 0, "20 descriptors"),
        ("true", "export LD_PRELOAD=/no/libasan.so.8;", "LD_PRELOAD", "fails", 3, "libasan.so.8 ends programs"),
        ("mount -t tmpfs -o ro none /var/cache", "export HOME=/proc/none;", "cache", "partly", 0, "made anew"),
    ] {
        let script = format!("{mount} && {{ {around} exec \"$0\" doctor --json 2> err; }}");
        let run = Run::new(unshare[0], place.path())
            .args(&unshare[1..])
            .args(["sh", "-c", &script])
            .arg(mallow())
            .env("XDG_RUNTIME_DIR", None::<&str>)
            .env("XDG_CACHE_HOME", None::<&str>)
            .go();
        let json: Value = serde_json::from_slice(&run.stdout).unwrap_or_else(|e| panic!("{mount}: {e}: {}", run.err()));
        let checks = json["machine"].as_array().expect("checks");
        let one = checks.iter().find(|c| c["check"] == check).unwrap_or_else(|| panic!("{mount}: {json:#}"));
        assert_eq!((&one["status"], run.status), (&status.into(), code), "{mount} {around}: {json:#}");
        assert!(one["found"].as_str().is_some_and(|text| text.contains(found)), "{mount} {around}: {json:#}");
    }
}

#[test]
fn set_user_id_is_reported() {
    if !root() {
        return not_run("set_user_id_is_reported", "it needs root");
    }
    let place = open_directory();
    let copy = |name: &str, mode| -> PathBuf {
        let path = place.path().join(name);
        fs::copy(program("privileges"), &path).expect("a copy");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
        path
    };
    let mallow = place.path().join("mallow");
    fs::copy(harness::mallow(), &mallow).expect("a copy that anybody may run");
    for (path, found) in [(copy("user", 0o4755), "(setuid)"), (copy("group", 0o2755), "(setgid)")] {
        let run = Run::new(program("with"), place.path())
            .args(["uid=65534", "--", text(&mallow), "doctor", "--", text(&path)])
            .env("HOME", Some("/proc/none"))
            .go();
        assert!(run.status == 3 && run.out().contains(found), "{} {}", run.out(), run.err());
    }
}
