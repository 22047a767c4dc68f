//! Programs in pid and mount namespaces of their own: their ends are noticed, and what cannot be seen is named.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use harness::{Case, Outcome, Run, RunDirectories, directory, mallow, mount_namespace, not_run, number, program, root};

use crate::watch_harness::{Alive, quiet, until};

/// The options of `unshare` for a pid namespace in which the command is process 1. None, and said so, where nobody but
/// root may have one.
fn pid_namespace(test: &str) -> Option<&'static [&'static str]> {
    if root() {
        return Some(&["unshare", "-p", "--fork"]);
    }
    // Whoever may have a mount namespace may have this one.
    mount_namespace(test).map(|_| &["unshare", "-Urp", "--fork"][..])
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn under(place: &Path, way: &[&str], command: &[&str]) -> Outcome {
    Run::new(mallow(), place).args(way).arg("--").args(command).limit(Duration::from_secs(60)).go()
}

/// Of pid 1 of a namespace, whom the system's own pid 1 must not be taken for.
#[test]
fn the_end_of_pid_1_of_a_namespace_is_noticed() {
    let Some(unshare) = pid_namespace("the_end_of_pid_1_of_a_namespace_is_noticed") else { return };
    let place = directory();
    let command = [unshare, &["sh", "-c", "ls / > out; exit 3"]].concat();
    for way in [
        &["record", "--wait", "--no-report", "-o", "r.mallow"][..],
        &["record", "--no-report", "-o", "r.mallow"],
        &["watch", "-o", "w"],
    ] {
        let run = under(place.path(), way, &command);
        assert_eq!(run.status, 3, "{way:?}: {}", run.err());
        assert!(!run.err().contains("continued after"), "{way:?}: {}", run.err());
    }
}

/// Two processes with pid 1 at the same time: neither is taken for the next image of the other.
#[test]
fn two_namespaces_have_a_pid_1_each() {
    let Some(unshare) = pid_namespace("two_namespaces_have_a_pid_1_each") else { return };
    let busy = program("busy");
    // More threads than thread ids of another namespace are looked at for.
    let one = format!("{} {} 8 150", unshare.join(" "), busy.display());
    let script = format!("{one} & sleep 0.2; {one} & wait; exit 4");
    let case = Case::new("sh").args(["-c", &script]);
    let (stat, record) = (case.stat(), case.record());
    assert_eq!((stat.outcome.status, record.outcome.status), (4, 4));
    assert_eq!(record.losses(), (0, 0));
    assert_eq!(stat.counts(), record.counts());
}

/// Its mallow has no process here, and reads all the same.
#[test]
fn a_recording_under_way_in_another_namespace_is_not_left_behind() {
    const TEST: &str = "a_recording_under_way_in_another_namespace_is_not_left_behind";
    let Some(unshare) = pid_namespace(TEST) else { return };
    let place = directory();
    let mark = text(place.path());
    let mut command = Command::new(unshare[0]);
    command.arg("--kill-child").args(&unshare[1..]).arg(mallow()).args([
        "record",
        "--no-report",
        "-o",
        "r.mallow",
        "--",
    ]);
    command.arg(program("waits")).args(["60000", mark]).current_dir(place.path());
    let recording = Alive::start(quiet(&mut command));
    let run = until("the recording to begin", || RunDirectories::now().with_text(mark).pop());
    let refused = || Run::new(mallow(), place.path()).args(["recover", text(&run)]).go().err();
    until("its mallow to answer", || {
        refused().contains("in another pid namespace still records into it").then_some(())
    });
    let list = Run::new(mallow(), place.path()).args(["recover", "--json"]).go();
    assert!(!list.out().contains(text(&run)), "{}", list.out());
    drop(recording);
    // Whoever was killed is not there to answer.
    until("mallow's end", || {
        Run::new(mallow(), place.path()).args(["recover", "--json"]).go().out().contains(text(&run)).then_some(())
    });
    fs::remove_dir_all(run).expect("the run directory");
}

/// Programs that allocate a lot, and how they are hidden: each is counted, or named.
#[test]
fn no_program_in_a_mount_namespace_is_lost_without_a_word() {
    const TEST: &str = "no_program_in_a_mount_namespace_is_lost_without_a_word";
    let Some(unshare) = mount_namespace(TEST) else { return };
    let busy = program("busy");
    let busy = busy.to_str().expect("a plain path");
    let place = directory();
    let bare = Case::new(busy).args(["2", "50"]).stat().counts().allocations;
    let mount = "mount -t tmpfs none /dev/shm";
    let hidden = "mount -t tmpfs none /proc";
    let read_only = "mount -o bind,ro /dev/shm /dev/shm";
    let script = |before: &str, how: &str| format!("{before} && {{ {how}; }}");
    let plain = format!("{busy} 2 50; exit $?");
    let by_exec = format!("exec {busy} 2 50");
    // Perl takes -e for a script whose file is /dev/null.
    let by_spawn = format!("perl -e 'exit system({{\"{busy}\"}} \"busy\", 2, 50) >> 8'");
    let by_env = format!("env A=1 {busy} 2 50");
    let mut shapes: Vec<Vec<String>> = Vec::new();
    for before in [
        mount.to_owned(),
        format!("{mount} && {hidden}"),
        "mount -t tmpfs none /dev && : > /dev/null".to_owned(),
        read_only.to_owned(),
        format!("{read_only} && {hidden}"),
    ] {
        for how in [&plain, &by_exec, &by_spawn, &by_env] {
            let words = unshare.iter().map(|word| (*word).to_owned());
            shapes.push(words.chain(["sh".into(), "-c".into(), script(&before, how)]).collect());
        }
    }
    let bwrap_of = |root: &str, options: &[&str]| {
        let words = [&["bwrap", root, "/", "/"], options, &[busy, "2", "50"]].concat();
        words.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let bwrap = |options: &[&str]| bwrap_of("--dev-bind", options);
    let read_only_bwrap = |options: &[&str]| bwrap_of("--ro-bind", options);
    if Run::new("bwrap", place.path()).args(["--dev-bind", "/", "/", "true"]).go().status == 0 {
        shapes.extend([
            bwrap(&[]),
            bwrap(&["--dev", "/dev"]),
            bwrap(&["--tmpfs", "/dev/shm"]),
            bwrap(&["--dev", "/dev", "--unshare-pid", "--proc", "/proc"]),
            bwrap(&["--dev", "/dev", "--unshare-all"]),
            bwrap(&["--dev", "/dev", "--unshare-user"]),
            bwrap(&["--clearenv"]),
            bwrap(&["--dev", "/dev", "--clearenv"]),
            bwrap(&["--unsetenv", "MALLOW_DIR"]),
            bwrap(&["--unsetenv", "LD_PRELOAD"]),
            read_only_bwrap(&[]),
            read_only_bwrap(&["--unshare-user"]),
            read_only_bwrap(&["--unshare-all"]),
            read_only_bwrap(&["--dev", "/dev"]),
            read_only_bwrap(&["--tmpfs", "/proc"]),
        ]);
    } else {
        not_run(TEST, "bwrap may not make namespaces here: without it");
    }
    for shape in &shapes {
        let shape: Vec<&str> = shape.iter().map(String::as_str).collect();
        for way in [&["stat", "--json", "-o", "s"][..], &["record", "--no-report", "-o", "r.mallow"]] {
            let run = under(place.path(), way, &shape);
            assert_eq!(run.status, 0, "{way:?} {shape:?}: {}", run.err());
            assert!(run.out().starts_with("2 threads: "), "{way:?} {shape:?}: {}", run.out());
            let json = match way[0] {
                "stat" => std::fs::read(place.path().join("s")).expect("what stat wrote"),
                _ => Run::new(mallow(), place.path()).args(["report", "--json", "r.mallow"]).go().stdout,
            };
            let json = harness::document(json);
            let seen = number(&json, "allocations") >= bare;
            // By the program, or by the one that started it.
            let of = ["busy", "perl", "env"];
            let names = |line: &str| of.iter().any(|name| line.contains(&format!("{name}, with each process")));
            let named = run.err().lines().any(|line| line.contains(" not recorded: ") && names(line));
            assert!(seen != named, "{way:?} {shape:?}: seen {seen}, named {named}: {}", run.err());
        }
    }
}

/// A shell that looks for a program tries one directory after the other: what was not executed is not named.
#[test]
fn an_exec_that_fails_is_not_named() {
    let Some(unshare) = mount_namespace("an_exec_that_fails_is_not_named") else { return };
    let place = directory();
    let script = "mount -t tmpfs none /dev/shm && mount -t tmpfs none /proc && \
                  perl -e 'exec {\"/no/such/program\"} \"x\"; exit 6'";
    let command = [unshare, &["sh", "-c", script]].concat();
    let run = under(place.path(), &["stat", "-o", "s"], &command);
    assert_eq!(run.status, 6, "{}", run.err());
    assert!(run.err().contains("perl") && !run.err().contains("/no/such/program"), "{}", run.err());
}

/// Where the library is out of reach, the dynamic linker says nothing of it in the program's standard error, and the
/// program finds its own LD_PRELOAD. Mallow names it.
#[test]
fn a_program_without_the_library_has_its_own_environment() {
    const TEST: &str = "a_program_without_the_library_has_its_own_environment";
    let Some(unshare) = mount_namespace(TEST) else { return };
    let root = "mkdir -p root/usr && mount --bind /usr root/usr && \
                for d in bin lib lib64; do [ -e root/$d ] || ln -s usr/$d root/$d; done";
    let print = "/usr/bin/printenv";
    let by_exec = format!("exec chroot root {print} LD_PRELOAD");
    let python = |call: &str| format!("exec python3 -c 'import os; e = os.environ; p = \"{print}\"; {call}'");
    let by_spawn = python(
        "os.chroot(\"root\"); i = os.posix_spawn(p, [p, \"LD_PRELOAD\"], e); \
         raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(i, 0)[1]))",
    );
    let by_descriptor =
        python("os.chroot(\"root\"); f = os.open(p, os.O_RDONLY); os.execve(f, [p, \"LD_PRELOAD\"], e)");
    for how in [&by_exec, &by_spawn, &by_descriptor] {
        let script = format!("{root} && {how}");
        let command = [unshare, &["sh", "-c", &script]].concat();
        for (preload, output, status) in [(None, "", 1), (Some("libm.so.6"), "libm.so.6\n", 0)] {
            let place = directory();
            let run = |program: &Path, arguments: &[&str]| {
                Run::new(program, place.path()).args(arguments).env("LD_PRELOAD", preload).go()
            };
            let bare = run(Path::new(command[0]), &command[1..]);
            assert_eq!((bare.status, bare.out().as_str(), bare.err().as_str()), (status, output, ""), "{how}");
            for way in [&["stat", "-o", "s", "--"][..], &["record", "--no-report", "-o", "r.mallow", "--"]] {
                let seen = run(&mallow(), &[way, &command].concat());
                let err = seen.err();
                assert_eq!((seen.status, seen.out().as_str()), (status, output), "{way:?} {how}: {err}");
                assert!(err.lines().all(|line| line.starts_with("mallow: ")), "{way:?} {how}: {err}");
                assert_eq!(err.matches(&format!("{print}, with each process")).count(), 1, "{way:?} {how}: {err}");
            }
        }
    }
}

/// `system()` and `popen()` start a shell inside of the C library, where nobody notes it. One that lives for a while is
/// found.
#[test]
fn shells_of_the_c_library_are_found() {
    const TEST: &str = "shells_of_the_c_library_are_found";
    let Some(unshare) = mount_namespace(TEST) else { return };
    let busy = program("busy");
    let line = format!("{} 2 50; sleep 1; exit 0", busy.display());
    let mount = "mount(b\"none\", b\"/dev/shm\", b\"tmpfs\", 0, None)";
    let read_only = "mount(b\"/dev/shm\", b\"/dev/shm\", None, 4096, None) or \
                     mount(None, b\"/dev/shm\", None, 4096 | 32 | 1, None)";
    let hide = "mount(b\"none\", b\"/proc\", b\"tmpfs\", 0, None)";
    let by_system = "c.system(line)";
    let by_popen = "c.pclose(c.popen(line, b\"w\"))";
    let place = directory();
    for mount in [mount, read_only] {
        for call in [by_system, by_popen] {
            let python = format!(
                "import ctypes, sys; c = ctypes.CDLL(None); c.popen.restype = ctypes.c_void_p; \
                 c.pclose.argtypes = [ctypes.c_void_p]; mount = c.mount; line = sys.argv[1].encode(); \
                 sys.exit(({mount}) or ({hide}) or {call})"
            );
            let command = [unshare, &["python3", "-c", &python, &line]].concat();
            for way in [&["stat", "-o", "s"][..], &["record", "--no-report", "-o", "r.mallow"]] {
                let run = under(place.path(), way, &command);
                assert_eq!(run.status, 0, "{way:?} {mount} {call}: {}", run.err());
                let named = |line: &str| line.contains(" not recorded: ") && line.contains(", with each process");
                assert!(run.err().lines().any(named), "{way:?} {mount} {call}: {}", run.err());
            }
        }
    }
}
