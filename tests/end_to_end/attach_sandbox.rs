//! Attaching to processes whose system calls a seccomp filter restricts: where it allows what is needed, and never with
//! harm.

use std::process::Command;

use harness::{Run, directory, mallow, not_run, program, root, tool_if_there};

use serde_json::Value;

use crate::attach_harness::{Target, attaching, code, ended, interrupt};
use crate::attach_obstacles::{doctor, is_refused, mallow_for_all, refused};

const OTHERWISE: &str = "start the command under mallow: mallow watch -- COMMAND";

fn filtered(how: &str) -> Target {
    Target::ready(Command::new(program("filtered")).arg(how))
}

fn can_read(test: &str) -> bool {
    if !root() {
        not_run(test, "root alone may read filters");
    }
    root()
}

/// Whether it is refused for this reason, by both commands, and lives on as it was.
fn is_left_alone(how: &str, why: &str, remedy: &str) {
    let mut target = filtered(how);
    let (clean, condition) = (code(target.pid()), target.condition());
    refused(target.pid(), why, remedy);
    assert!(code(target.pid()) == clean && target.condition() == condition, "{how}: it is as it was");
    assert_eq!(target.ask(), "1000", "{how}: it lives");
}

/// As in Docker and Kubernetes: the profile forbids nothing that mallow needs.
#[test]
fn a_process_under_the_profile_of_containers_is_attached_to() {
    if !can_read("a_process_under_the_profile_of_containers_is_attached_to") {
        return;
    }
    let place = directory();
    for command in ["stat", "record"] {
        let mut target = filtered("default");
        let (clean, condition) = (code(target.pid()), target.condition());
        let file = place.path().join("recording.mallow");
        let mut arguments = vec![command];
        if command == "record" {
            arguments.extend(["-o", file.to_str().expect("a path")]);
        }
        let attached = attaching(&arguments, target.pid(), place.path());
        assert_eq!(target.ask(), "1000");
        interrupt(&attached);
        let output = ended(attached);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(code(target.pid()) == clean && target.condition() == condition, "{command}: it is as it was");
        assert_eq!(target.ask(), "1000", "{command}: it lives");
        if command == "record" {
            let file = file.to_str().expect("a path");
            let report = Run::new(mallow(), place.path()).args(["report", "--json", file]).go();
            let report: Value = serde_json::from_str(&report.out()).expect("JSON");
            assert_eq!(report["allocations"], 1000, "{report}");
        }
    }
    let target = filtered("default");
    let doctor = doctor(target.pid());
    assert!(doctor.status == 0 && doctor.out().contains("it allows what mallow needs"), "{}", doctor.out());
}

/// The calls are named, with what production can do.
#[test]
fn calls_that_a_filter_forbids_are_named() {
    if !can_read("calls_that_a_filter_forbids_are_named") {
        return;
    }
    is_left_alone("kill", "a seccomp filter forbids memfd_create, which mallow needs in it", "allow it in the profile");
    is_left_alone("tight", "forbids sched_yield, mprotect, memfd_create, close, openat,", OTHERWISE);
    // At which address a file is mapped, and from where on, is not known.
    is_left_alone("argument", "a seccomp filter forbids mmap with some arguments, which", OTHERWISE);
}

/// The thread would be stopped, and go on by a call that ends its process.
#[test]
fn a_thread_that_must_not_restart_its_call_is_not_harmed() {
    if !can_read("a_thread_that_must_not_restart_its_call_is_not_harmed") {
        return;
    }
    is_left_alone("restart", "a seccomp filter forbids restart_syscall, which", OTHERWISE);
}

/// Filters belong to threads. The first thread of this process has none.
#[test]
fn the_filter_of_one_thread_counts() {
    if !can_read("the_filter_of_one_thread_counts") {
        return;
    }
    is_left_alone("thread", "a seccomp filter forbids memfd_create, which", OTHERWISE);
}

#[test]
fn strict_mode_is_named() {
    is_left_alone(
        "strict",
        "a thread of it is in seccomp's strict mode, which allows read, write and exit alone",
        OTHERWISE,
    );
}

/// Who may not read a filter does not try it out.
#[test]
fn what_a_filter_forbids_is_unknown_to_those_who_may_not_read_it() {
    let Some(setpriv) = tool_if_there("setpriv").filter(|_| root()) else {
        is_left_alone("default", "what it forbids is not known: root alone may read it", "as root with CAP_SYS_ADMIN");
        return;
    };
    let place = directory();
    let copy = mallow_for_all(place.path());
    let mut target = filtered("restart");
    let setpriv = setpriv.to_str().expect("a path");
    let weak = [setpriv, "--bounding-set=-sys_admin"];
    is_refused(
        &weak,
        &copy,
        target.pid(),
        "not known: root alone may read it",
        "run mallow as root with CAP_SYS_ADMIN",
    );
    assert_eq!(target.ask(), "1000", "it lives");
    // A mallow in a container has the filter of that.
    let script = "import ctypes, os, struct, sys\nc = ctypes.CDLL(None)\nf = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0x7fff0000))\np = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', 1, ctypes.addressof(f)))\nassert c.prctl(38, 1, 0, 0, 0) == 0 and c.prctl(22, 2, p, 0, 0) == 0\nos.execv(sys.argv[1], sys.argv[1:])\n";
    let python = harness::tool("python3");
    let inside = [python.to_str().expect("a path"), "-c", script];
    is_refused(&inside, &copy, target.pid(), "mallow has a filter itself", "seccompProfile Unconfined");
    assert_eq!(target.ask(), "1000", "it lives");
}

/// A filter that comes while mallow is attached: neither the library nor mallow makes a call then that it punishes.
#[test]
fn a_filter_that_comes_later_is_seen() {
    let place = directory();
    for command in ["stat", "record", "watch"] {
        let mut target = filtered("later");
        let clean = code(target.pid());
        let file = place.path().join(format!("{command}.mallow"));
        let file = file.to_str().expect("a path");
        let arguments = match command {
            "record" => vec!["record", "-o", file],
            "watch" => vec!["watch", "--period", "4KiB", "--json", "-o", file],
            _ => vec!["stat"],
        };
        let attached = attaching(&arguments, target.pid(), place.path());
        assert_eq!(target.ask(), "301000", "{command}: it lives");
        interrupt(&attached);
        let output = ended(attached);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {error}");
        assert!(
            error.contains("has installed a seccomp filter that may forbid what gives the memory"),
            "{command}: {error}"
        );
        assert!(code(target.pid()) == clean, "{command}: its code is as it was");
        assert_eq!(target.ask(), "1000", "{command}: it lives");
    }
}

/// The same of programs that mallow starts: a call path that is new after the filter needs memory for tables.
#[test]
fn a_filter_that_the_command_installs_is_obeyed() {
    let place = directory();
    for command in ["stat", "record", "watch"] {
        let file = place.path().join(format!("{command}.mallow"));
        let file = file.to_str().expect("a path");
        let flags = match command {
            "watch" => vec!["--period", "4KiB", "--json", "-o", file],
            _ => vec!["-o", file],
        };
        let mut started = Command::new(mallow());
        started.arg(command).args(flags).arg("--").arg(program("filtered")).arg("later").current_dir(place.path());
        let mut target = Target::ready(&mut started);
        assert_eq!(target.ask(), "301000", "{command}: it lives");
        assert_eq!(target.ask(), "1000", "{command}: it lives");
    }
}
