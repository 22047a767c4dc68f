//! `mallow guard --signal-handler`: where userfaultfd is forbidden.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use harness::{Run, directory, mallow, program, program_as};
use serde_json::Value;

use crate::guard_harness::{
    Way, churning, errors, find_each_wrong_program, functions, guarded_by, kill, report_no_right_program, rest,
    run_third_party_programs, wrong,
};

fn own_handler() -> PathBuf {
    program_as("guard/own_handler", "guard-own-handler", "cc", &["-w", "-O0", "-fno-builtin", "-pthread"])
}

#[test]
fn every_wrong_program_of_the_corpus_is_found_by_a_signal_handler() {
    find_each_wrong_program(Way::Handler);
}

#[test]
fn no_right_program_of_the_corpus_is_reported_by_a_signal_handler() {
    report_no_right_program(Way::Handler);
}

#[test]
fn third_party_programs_run_as_ever_with_the_handler() {
    run_third_party_programs(Way::Handler);
}

#[test]
fn without_the_flag_mallow_says_what_there_is() {
    let place = directory();
    for flags in [&["guard"][..], &["watch", "--guard"]] {
        let run = Run::new(program("without_userfaultfd"), place.path()).arg(mallow()).args(flags);
        let outcome = run.args(["--", "true"]).go();
        assert_ne!(outcome.status, 0, "{}", outcome.err());
        let said = outcome.err();
        assert!(said.contains("userfaultfd is forbidden") && said.contains("--signal-handler"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// The report says so, in text and in JSON; with userfaultfd the flag changes nothing.
#[test]
fn the_report_says_which_way_was_used() {
    let wrong = wrong();
    let command = [wrong.to_str().expect("a path"), "0"];
    let (report, status, ..) = guarded_by(Way::Handler, &[], &command);
    let handled = report["handled"].as_object().expect("reasons");
    assert!(status == 3 && handled.len() == 1 && handled.keys().all(|why| why.contains("userfaultfd")), "{report}");
    let (report, ..) = guarded_by(Way::Missing, &["--signal-handler"], &command);
    assert_eq!(report["handled"], serde_json::json!({}), "{report}");
    let place = directory();
    let run = Run::new(program("without_userfaultfd"), place.path()).arg(mallow());
    let outcome = run.args(["guard", "--signal-handler", "--"]).args(command).go();
    assert!(outcome.err().contains("Guarded by a signal handler: 1 process"), "{}", outcome.err());
}

/// What is not guarding's is the program's handler's, as if nobody stood between.
#[test]
fn a_programs_own_handler_gets_what_is_its_own() {
    let program = own_handler();
    let name = program.to_str().expect("a path");
    for (how, culprits) in [("early", 2), ("late", 2), ("stack", 2), ("sent", 2)] {
        let alone = Command::new(&program).arg(how).output().expect("it starts");
        let alone = String::from_utf8_lossy(&alone.stdout).into_owned();
        assert!(alone.starts_with("handler saw 1, blocked 1, "), "{how}: {alone}");
        let (report, status, out, err) = guarded_by(Way::Handler, &[], &[name, how]);
        assert!(out.starts_with("handler saw 1, blocked 1, "), "{how}: {out} {err}");
        let found: u64 = errors(&report).iter().map(|error| error["count"].as_u64().expect("a count")).sum();
        assert_eq!((status, found), (3, culprits), "{how}: {report}");
        assert!(errors(&report).iter().all(|error| functions(&error["error"])[0] == "culprit"), "{how}: {report}");
    }
    // Without one it ends as it would alone.
    let (report, status, out, _) = guarded_by(Way::Handler, &[], &[name, "none"]);
    assert_eq!((&report["exit_status"], status, out.as_str()), (&Value::from(139), 3, ""), "{report}");
}

#[test]
fn a_command_that_fails_fast_ends_with_the_registers_of_its_error() {
    let wrong = wrong();
    for number in ["0", "23"] {
        let command = [wrong.to_str().expect("a path"), number];
        let (report, status, out, _) = guarded_by(Way::Handler, &["--fail-fast"], &command);
        assert_eq!((errors(&report).len(), &report["exit_status"], status), (1, &Value::from(134), 3), "{report}");
        assert!(!out.contains("went on"), "{out}");
    }
}

#[test]
fn the_target_goes_on_when_nobody_answers_its_handler() {
    for signal in ["KILL", "STOP"] {
        let (child, keeper) = churning(Way::Handler, &[]);
        kill(keeper, signal);
        // After that an access to a freed block waits for nobody.
        if signal == "STOP" {
            std::thread::sleep(std::time::Duration::from_millis(200));
            kill(keeper, "CONT");
        }
        let (out, err, status) = rest(child);
        assert!(out == "whole\n" && status.success(), "{signal}: {out} {err}");
    }
    // The keeper is gone before the error.
    let wrong = wrong();
    let script = format!("read go; exec {} 0", wrong.display());
    let mallow = Way::Handler.mallow();
    let mut command = Command::new(&mallow[0]);
    command.args(&mallow[1..]).args(["guard", "--signal-handler", "--", "sh", "-c", &script]);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = crate::guard_harness::Limited::start(piped);
    kill(crate::guard_harness::descendant(child.id(), "mallow-keeper"), "KILL");
    drop(child.stdin.take());
    let mut out = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut out).expect("text");
    assert_eq!(out, "went on\n");
    assert!(child.wait().expect("mallow").success());
}

/// A process may have 65,530 mappings: the program finds some for itself, and what is not guarded is counted.
#[test]
fn mappings_are_left_for_the_program() {
    let script = "import mmap; blocks = [bytearray(700) for _ in range(60000)]; \
                  own = [mmap.mmap(-1, 4096) for _ in range(10000)]; print(len(blocks), len(own))";
    let command = ["env", "PYTHONMALLOC=malloc", "/usr/bin/python3", "-c", script];
    let (report, status, out, err) = guarded_by(Way::Handler, &[], &command);
    assert_eq!((status, out.as_str(), errors(&report).len()), (0, "60000 10000\n", 0), "{err}");
    let number = |name: &str| report[name].as_u64().expect("a number");
    assert!(number("guarded") >= 24_000 && number("unguarded") > 20_000, "{report}");
}

#[test]
fn a_watch_guards_samples_by_a_signal_handler() {
    let wrong = wrong();
    let mallow = Way::Handler.mallow();
    let place = directory();
    let run = Run::new(&mallow[0], place.path()).args(&mallow[1..]);
    let run = run.args(["watch", "--guard", "--signal-handler", "--period", "1", "--lines", "--"]);
    let outcome = run.arg(&wrong).arg("4").go();
    let text = outcome.err();
    assert!(text.contains("use after free (read)") && text.contains("culprit_read"), "{text}");
    assert!(text.contains("guarded by a signal handler: userfaultfd is forbidden"), "{text}");
    assert_eq!((outcome.status, outcome.out().as_str()), (0, "went on\n"), "{text}");
}
