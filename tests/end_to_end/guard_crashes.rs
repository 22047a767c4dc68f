//! `mallow guard` of programs that a signal ends: what it was, where, and that a program's own handlers go on as ever.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use harness::{Run, directory, mallow, program_as};
use serde_json::Value;

use crate::guard_harness::{Way, errors, functions, guarded_by};

fn crash() -> PathBuf {
    program_as("guard/crash", "guard-crash", "cc", &["-w", "-O1", "-g", "-fno-builtin", "-pthread"])
}

/// What it prints alone, and its status as a shell has it.
fn alone(how: &str) -> (String, i32) {
    let output = Command::new(crash()).arg(how).output().expect("it starts");
    let status = output.status.code().or_else(|| output.status.signal().map(|signal| 128 + signal));
    (String::from_utf8_lossy(&output.stdout).into_owned(), status.expect("a status"))
}

fn crashes(report: &Value) -> &Vec<Value> {
    report["crashes"].as_array().expect("crashes")
}

const WAYS: [Way; 2] = [Way::Missing, Way::Handler];

/// They were "No memory error was found."
#[test]
fn a_crash_is_reported_with_its_signal_address_stack_and_registers() {
    let cases = [
        ("first", "SIGSEGV", "culprit", Some("write"), "a null pointer plus 16 bytes"),
        ("null", "SIGSEGV", "culprit", Some("write"), "a null pointer plus 16 bytes"),
        ("behind", "SIGSEGV", "culprit_far", Some("write"), "bytes behind the end of a block of"),
        (
            "divide",
            "SIGFPE",
            "culprit_divides",
            None,
            "an integer division by zero, or one whose quotient does not fit",
        ),
        ("quotient", "SIGFPE", "culprit_overflows", None, "by zero, or one whose quotient does not fit"),
        ("number", "SIGFPE", "culprit_without_result", None, "a floating-point operation without a result"),
        ("misaligned", "SIGSEGV", "culprit_misaligned", None, "or not aligned as a vector instruction needs it"),
        ("forbidden", "SIGSYS", "culprit_is_forbidden", None, "a system call that a filter (seccomp) forbids"),
        ("used-up", "SIGSEGV", "culprit_recurses", Some("write"), "the end of the thread's stack, which is used up"),
        ("abort", "SIGABRT", "main", None, "the program sent it to itself"),
        ("readonly", "SIGSEGV", "culprit", Some("write"), "where writing is forbidden"),
        ("invalid", "SIGSEGV", "culprit", None, "a general protection fault"),
        ("thread", "SIGSEGV", "culprit", Some("write"), "a null pointer plus 16 bytes"),
    ];
    for (how, signal, function, access, place) in cases {
        // All of the range is guarded by the handler: see below.
        for way in WAYS.into_iter().filter(|way| how != "behind" || *way == Way::Missing) {
            let name = crash();
            let (report, status, out, err) = guarded_by(way, &[], &[name.to_str().expect("a path"), how]);
            let case = format!("{how} {way:?}: {report} {err}");
            assert_eq!((out.clone(), status), alone(how), "{case}");
            assert_eq!((errors(&report).len(), crashes(&report).len()), (0, 1), "{case}");
            let crash = &crashes(&report)[0];
            assert!(functions(&crash["error"]).iter().any(|name| name == function), "{case}");
            assert_eq!((crash["signal"].as_str(), crash["access"].as_str()), (Some(signal), access), "{case}");
            assert!(crash["place"].as_str().is_some_and(|text| text.contains(place)), "{case}");
            let registers = crash["registers"].as_object().expect("registers");
            assert!(registers.len() == 17 && registers["rip"] != "0x0", "{case}");
            assert_eq!(crash["block"].is_object(), how == "behind", "{case}");
            assert_eq!(report["ended_by"], signal, "{case}");
        }
    }
}

#[test]
fn a_wild_access_names_the_nearest_block() {
    let name = crash();
    let (report, status, ..) = guarded_by(Way::Handler, &[], &[name.to_str().expect("a path"), "behind"]);
    let error = &errors(&report)[0];
    assert_eq!((error["kind"].as_str(), status), (Some("wild-access"), 3), "{report}");
    let place = error["place"].as_str().expect("words");
    assert!(place.contains("bytes behind the end of a block of 48 bytes"), "{report}");
    assert_eq!(error["block"]["size"], 48, "{report}");
}

/// A handler that recovers is no crash; one that gives up is, with the status that it has alone.
#[test]
fn a_programs_own_handlers_are_as_they_are_alone() {
    for (how, found) in [("handled", 0), ("restored", 1), ("chained", 1), ("ignored", 0)] {
        for way in WAYS {
            let name = crash();
            let (report, status, out, err) = guarded_by(way, &[], &[name.to_str().expect("a path"), how]);
            assert_eq!(out, alone(how).0, "{how} {way:?}: {err}");
            assert!(out.starts_with("default\n"), "{how}: {out}");
            assert_eq!((status, crashes(&report).len()), (alone(how).1, found), "{how} {way:?}: {report} {err}");
        }
    }
}

#[test]
fn a_child_that_crashes_is_reported_and_its_parent_goes_on() {
    let name = crash();
    let (report, status, out, _) = guarded_by(Way::Missing, &[], &[name.to_str().expect("a path"), "child"]);
    assert_eq!((out.clone(), status), alone("child"), "{report}");
    assert!(out.ends_with("child ended by 11\n"), "{out}");
    assert_eq!((crashes(&report).len(), &report["ended_by"]), (1, &Value::Null), "{report}");
}

/// The screen does not say that nothing was found.
#[test]
fn the_first_line_says_that_the_command_did_not_end_well() {
    let place = directory();
    for (how, parts) in [
        (
            "null",
            &["1 crash found, and no memory error before", "crash (SIGSEGV, write): 0x10 is a null", "rip 0x"][..],
        ),
        ("recurse", &["SIGSEGV ended the command, and no memory error was found before", "endless recursion"]),
        ("terminate", &["SIGTERM ended the command, and no memory error was found before"]),
    ] {
        let run = Run::new(mallow(), place.path()).args(["guard", "--junit", "guard.xml", "--"]);
        let outcome = run.arg(crash()).arg(how).go();
        assert_eq!(outcome.status, alone(how).1, "{}", outcome.err());
        for part in parts {
            assert!(outcome.err().contains(part), "{how}: {part}: {}", outcome.err());
        }
        let junit = std::fs::read_to_string(place.path().join("guard.xml")).expect("a report");
        assert_eq!(junit.contains("failures=\"0\""), how == "terminate", "{how}: {junit}");
    }
}

/// "Check the pointer for NULL before it is used" was said of a pointer that is never NULL: guard answers a read of
/// freed memory with zeros, and so made the NULL itself.
#[test]
fn a_crash_by_what_guard_answered_names_the_wrong_access_before() {
    let program =
        program_as("guard/crash_after", "guard-crash-after", "cc", &["-w", "-O1", "-g", "-fno-builtin", "-pthread"]);
    let name = program.to_str().expect("a path");
    let cases = [
        ("freed", "SIGSEGV", "use-after-free", "culprit", "The pointer may come from there."),
        ("behind", "SIGSEGV", "overflow", "culprit_behind", "The pointer may come from there."),
        ("divisor", "SIGFPE", "use-after-free", "culprit_divides", "The divisor may come from there."),
        ("checked", "SIGABRT", "use-after-free", "culprit_checks", "What the program found wrong may come from there."),
        ("threads", "SIGSEGV", "use-after-free", "read_session", "The pointer may come from there."),
    ];
    for (how, signal, kind, function, end) in cases {
        for way in WAYS {
            let (report, status, _, err) = guarded_by(way, &[], &[name, how]);
            let case = format!("{how} {way:?}: {report} {err}");
            assert_eq!((errors(&report).len(), crashes(&report).len(), status), (1, 1, 3), "{case}");
            let (error, crash) = (&errors(&report)[0], &crashes(&report)[0]);
            assert_eq!((crash["signal"].as_str(), error["kind"].as_str()), (Some(signal), Some(kind)), "{case}");
            let after = &crash["after"];
            assert_eq!([&after["kind"], &after["access"]], [&error["kind"], &error["access"]], "{case}");
            assert_eq!(after["same_thread"], how != "threads", "{case}");
            assert_eq!(functions(&after["error"]).first().map(String::as_str), Some(function), "{case}");
            let advice = crash["advice"].as_str().expect("words");
            let who = if how == "threads" { "by thread" } else { "by this thread" };
            for part in [&format!("(read) in {function} (crash_after.c:"), who, "zeros", end] {
                assert!(advice.contains(part), "{part}: {case}");
            }
            assert!(!advice.contains("NULL"), "{case}");
        }
    }
}

/// Nothing was answered with zeros before: the remedy is that of the crash.
#[test]
fn a_crash_without_a_wrong_access_before_names_none() {
    let name = crash();
    let (report, ..) = guarded_by(Way::Missing, &[], &[name.to_str().expect("a path"), "null"]);
    assert_eq!(crashes(&report)[0]["after"], Value::Null, "{report}");
    assert_eq!(crashes(&report)[0]["advice"], "Check the pointer for NULL before it is used.", "{report}");
}
