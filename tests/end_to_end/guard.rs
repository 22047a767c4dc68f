//! `mallow guard`: a corpus of wrong programs and of right ones that look alike, third-party programs, and all that may
//! happen to mallow, its keeper and the target meanwhile.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness::{Run, directory, mallow, program, program_as};
use serde_json::Value;

use crate::guard_harness::{
    Limited, Watchdog, Way, churning, count, descendant, errors, find_each_wrong_program, functions, guarded, kill,
    report_no_right_program, rest, right, run_third_party_programs, wrong,
};
use crate::watch_harness::{Alive, quiet, reports, until, until_it_listens};

#[test]
fn every_wrong_program_of_the_corpus_is_found_at_its_error() {
    find_each_wrong_program(Way::Missing);
}

#[test]
fn no_right_program_of_the_corpus_is_reported() {
    report_no_right_program(Way::Missing);
}

#[test]
fn third_party_programs_run_as_ever_and_nothing_is_reported() {
    run_third_party_programs(Way::Missing);
}

#[test]
fn the_first_screen_has_all_three_stacks() {
    let wrong = wrong();
    let place = directory();
    let outcome = Run::new(mallow(), place.path()).args(["guard", "--"]).arg(&wrong).arg("0").go();
    let text = outcome.err();
    assert!(text.lines().count() <= 24, "{text}");
    for part in [
        "use after free (read)",
        "the beginning of a block of 48 bytes",
        "culprit_read wrong.cpp:",
        "freed by thread",
        "{lambda}::operator()",
        "allocated (malloc)",
        "block wrong.cpp:",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(outcome.status, 3);
}

#[test]
fn an_error_is_reported_once_for_its_place_and_counted() {
    let script = "for i in 1 2 3; do $0 0; done";
    let wrong = wrong();
    let (report, ..) = guarded(&[], &["sh", "-c", script, wrong.to_str().expect("a path")]);
    assert_eq!((errors(&report).len(), &report["errors"][0]["count"]), (1, &Value::from(3)), "{report}");
}

#[test]
fn a_command_that_fails_fast_ends_by_a_signal_at_its_error() {
    let wrong = wrong();
    let name = wrong.to_str().expect("a path");
    let numbers = ["0", "23", "37", "46"];
    for number in numbers {
        let (report, status, out, _) = guarded(&["--fail-fast"], &[name, number]);
        assert_eq!((errors(&report).len(), &report["exit_status"], status), (1, &Value::from(134), 3), "{report}");
        assert!(!out.contains("went on"), "{out}");
    }
}

#[test]
fn errors_are_left_out_by_suppressions() {
    let place = directory();
    let file = place.path().join("known");
    fs::write(&file, "# ours\nguard:culprit_read\nleak:drop\n").expect("a file");
    let wrong = wrong();
    let name = wrong.to_str().expect("a path");
    let flags = ["--suppressions", file.to_str().expect("a path")];
    let (report, status, ..) = guarded(&flags, &[name, "0"]);
    assert_eq!((errors(&report).len(), &report["suppressed"], status), (0, &Value::from(1), 0), "{report}");
    let (report, status, ..) = guarded(&flags, &[name, "1"]);
    assert_eq!((errors(&report).len(), status), (1, 3), "{report}");
    // Found three times, it would be one error.
    let (report, ..) = guarded(&flags, &["sh", "-c", "for i in 1 2 3; do $0 0; done", name]);
    assert_eq!((errors(&report).len(), &report["suppressed"]), (0, &Value::from(1)), "{report}");
}

#[test]
fn ci_gets_its_files() {
    let place = directory();
    let (junit, sarif) = (place.path().join("j.xml"), place.path().join("s.sarif"));
    let run = Run::new(mallow(), &harness::workspace())
        .args(["guard", "--github", "--junit"])
        .arg(&junit)
        .arg("--sarif")
        .arg(&sarif);
    let outcome = run.arg("--").arg(wrong()).arg("0").go();
    assert!(outcome.out().contains("::error file=tests/targets/guard/wrong.cpp,line="), "{}", outcome.out());
    let xml = fs::read_to_string(junit).expect("JUnit");
    assert!(xml.contains("failures=\"1\"") && xml.contains("use-after-free"), "{xml}");
    let sarif: Value = serde_json::from_str(&fs::read_to_string(sarif).expect("SARIF")).expect("JSON");
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!(result["ruleId"], "use-after-free");
    let uri = &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
    assert_eq!(uri, "tests/targets/guard/wrong.cpp");
}

#[test]
fn sides_and_alignments_are_as_asked() {
    let wrong = wrong();
    let name = wrong.to_str().expect("a path");
    let all = count(&wrong);
    // Writes one byte behind an odd size: by the pattern at the free, or at once.
    let number = all - 4;
    let (report, ..) = guarded(&["--alignment", "1"], &[name, &number.to_string()]);
    assert_eq!(report["errors"][0]["kind"], "overflow", "{report}");
    let (report, ..) = guarded(&["--place", "begin"], &[name, &(all - 3).to_string()]);
    assert_eq!(report["errors"][0]["kind"], "underflow", "{report}");
}

/// A write within a block's pages is found again, with the stack of the access, by the flags that its report names.
#[test]
fn a_write_beside_a_block_is_found_with_the_flags_that_its_report_names() {
    let (wrong, place) = (wrong(), directory());
    let guard = |flags: &[&str], number: &str| {
        Run::new(mallow(), place.path()).arg("guard").args(flags).arg("--").arg(&wrong).arg(number).go().err()
    };
    let is_beside = |number: &String| {
        let kind = Command::new(&wrong).args(["name", number]).output().expect("the corpus").stdout;
        kind.trim_ascii() == b"write-beside-block"
    };
    let numbers: Vec<_> = (0..count(&wrong)).map(|number| number.to_string()).filter(is_beside).collect();
    assert!(numbers.len() >= 4, "{numbers:?}");
    for number in &numbers {
        let text = guard(&[], number);
        // What it found ends with the block's page: the next one is missing.
        let (_, at) = text.split_once("write beside block: 0x").unwrap_or_else(|| panic!("{number}: {text}"));
        let (_, bytes) = text.split_once("bytes found there: ").unwrap_or_else(|| panic!("{number}: {text}"));
        let at = u64::from_str_radix(at.split(' ').next().unwrap_or_default(), 16).expect("an address");
        let bytes = bytes.lines().next().unwrap_or_default().len() as u64 / 2;
        assert!(bytes > 0 && at % 4096 + bytes <= 4096, "{number}: {text}");
        let (_, rest) = text.split_once("while the block lived: ").unwrap_or_else(|| panic!("{number}: {text}"));
        let (flags, _) = rest.split_once(" finds who").unwrap_or_else(|| panic!("{number}: {text}"));
        let found = guard(&flags.split(' ').collect::<Vec<_>>(), number);
        assert!(found.contains("written by thread") && found.contains("culprit_write"), "{number} {flags}: {found}");
    }
}

#[test]
fn memory_beyond_the_limit_is_not_guarded_and_counted() {
    let right = right();
    let name = right.to_str().expect("a path");
    let number = (count(&right) - 5).to_string();
    let (report, status, ..) = guarded(&["--memory", "4MiB"], &[name, &number]);
    let unguarded = report["unguarded"].as_u64().expect("a number");
    assert!(unguarded > 15_000 && status == 0 && errors(&report).is_empty(), "{report}");
}

#[test]
fn the_target_goes_on_when_the_keeper_is_killed() {
    let (child, keeper) = churning(Way::Missing, &[]);
    kill(keeper, "KILL");
    let (out, err, status) = rest(child);
    assert_eq!(out, "whole\n", "{err}");
    assert!(err.contains("nothing is guarded any more") && status.success(), "{err}");
}

#[test]
fn the_target_goes_on_when_mallow_is_killed() {
    let (mut child, keeper) = churning(Way::Missing, &[]);
    kill(child.id(), "KILL");
    drop(child.stdin.take());
    let mut out = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut out).expect("text");
    assert_eq!(out, "whole\n");
    assert_eq!(child.wait().expect("mallow").signal(), Some(9));
    let limit = Instant::now() + Duration::from_secs(60);
    while Path::new(&format!("/proc/{keeper}")).exists() {
        assert!(Instant::now() < limit, "the keeper stays");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_target_goes_on_when_mallow_is_stopped() {
    let (mut child, _) = churning(Way::Missing, &[]);
    kill(child.id(), "STOP");
    drop(child.stdin.take());
    // Mallow has the same standard output: it does not end.
    let mut out = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut out).expect("text");
    assert_eq!(out, "whole\n");
    kill(child.id(), "CONT");
    assert!(child.wait().expect("mallow").success());
}

/// A wrong access while mallow is stopped waits for the keeper alone; the report has it once mallow goes on.
#[test]
fn an_error_is_found_while_mallow_is_stopped() {
    let script = format!("read line; {} 0; echo over", wrong().display());
    let mut command = Command::new(mallow());
    command.args(["guard", "--", "sh", "-c", &script]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Limited::start(&mut command);
    descendant(child.id(), "sh");
    kill(child.id(), "STOP");
    drop(child.stdin.take());
    let mut out = String::new();
    let mut lines = BufReader::new(child.stdout.as_mut().expect("a pipe"));
    while !out.ends_with("over\n") {
        assert!(lines.read_line(&mut out).expect("text") > 0, "{out}");
    }
    kill(child.id(), "CONT");
    let (_, err, status) = rest(child);
    assert!(out.contains("went on") && err.contains("use after free") && status.code() == Some(3), "{out}{err}");
}

#[test]
fn programs_under_filters_of_system_calls_go_on() {
    let seccomp = program("seccomp");
    for how in ["kill", "refuse", "threads"] {
        let place = directory();
        let alone = Run::new(&seccomp, place.path()).arg(how).go();
        let (report, status, out, err) = guarded(&[], &[seccomp.to_str().expect("a path"), how]);
        assert_eq!((status, out), (alone.status, alone.out()), "{how}: {err}");
        assert!(errors(&report).is_empty(), "{report}");
    }
}

/// libseccomp makes such calls when it starts: they fail, and nothing is forbidden.
#[test]
fn probes_for_filters_of_system_calls_change_nothing() {
    let probes = program_as("guard/probes", "guard-probes", "cc", &[]);
    for how in ["strict", "filter", "prctl"] {
        let (report, _, out, err) = guarded(&[], &[probes.to_str().expect("a path"), how]);
        let kinds: Vec<_> = errors(&report).iter().map(|error| error["kind"].as_str().expect("a kind")).collect();
        assert_eq!((out.as_str(), kinds), ("over\n", vec!["overflow", "use-after-free"]), "{how}: {err} {report}");
        assert!(report["ended"].as_object().is_some_and(serde_json::Map::is_empty), "{report}");
    }
}

/// Where a filter that the program installed ends the guarding, the report says so in its first lines.
#[test]
fn a_filter_that_ends_the_guarding_is_reported() {
    let seccomp = program("seccomp");
    let place = directory();
    let report = place.path().join("report");
    let mut command = Command::new(mallow());
    let output = command.args(["guard", "-o"]).arg(&report).arg("--").arg(&seccomp).arg("kill").output();
    assert_eq!(output.expect("mallow").status.code(), Some(3));
    let text = fs::read_to_string(&report).expect("a report");
    assert!(text.starts_with("No memory error was found in what was guarded."), "{text}");
    let reason =
        "Guarded only in part: 1 process (seccomp): it installed a filter of system calls that forbids guarding";
    assert!(text.contains(reason), "{text}");
}

#[test]
fn programs_that_take_all_descriptors_and_fork_go_on() {
    for name in ["descriptors", "fork_storm", "signal_storm"] {
        let program = program(name);
        let place = directory();
        let alone = Run::new(&program, place.path()).go();
        let (report, status, out, err) = guarded(&[], &[program.to_str().expect("a path")]);
        assert_eq!(status, alone.status, "{name}: {err}");
        assert!(errors(&report).is_empty(), "{report}");
        if name == "descriptors" {
            assert_eq!(out, alone.out());
        }
    }
}

#[test]
fn one_allocation_in_many_is_guarded_with_sample() {
    let right = right();
    let name = right.to_str().expect("a path");
    let number = (count(&right) - 4).to_string();
    let (report, status, ..) = guarded(&["--sample", "1KiB"], &[name, &number]);
    let number = |name: &str| report[name].as_u64().expect("a number");
    let (guarded, picked) = (number("guarded"), number("guarded") + number("unguarded"));
    // 70,000 of 16 bytes each: 1,094 of them, and some of the C++ library's. They come faster than slots become ready.
    assert!((700..3000).contains(&picked) && guarded > 10 && status == 0 && errors(&report).is_empty(), "{report}");
}

/// A program that was started by `mallow run` and serves requests; its standard input and output.
fn served() -> (Alive, Watchdog, impl FnMut(&str)) {
    let mut command = Command::new(mallow());
    command.args(["run", "--"]).arg(program_as("guard/served", "guard-served", "cc", &[]));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut server = Alive::start(&mut command);
    let dog = Watchdog::of(server.child.id());
    let mut requests = server.child.stdin.take().expect("a pipe");
    let mut answers = BufReader::new(server.child.stdout.take().expect("a pipe")).lines();
    assert_eq!(answers.next().expect("a line").expect("text"), "ready");
    let ask = move |request: &str| {
        writeln!(requests, "{request}").expect("the server reads");
        assert_eq!(answers.next().expect("a line").expect("text"), "answered");
    };
    (server, dog, ask)
}

/// Again and again: each watch has a keeper of its own. What goes wrong between two of them harms nobody and is not
/// reported.
#[test]
fn a_watch_guards_a_program_that_runs() {
    let (server, _dog, mut ask) = served();
    let place = directory();
    ask("u");
    for round in 0..3 {
        let file = place.path().join(format!("{round}.json"));
        let mut command = Command::new(mallow());
        command.args(["watch", "--guard", "--period", "1", "--json", "--lines", "-p", &server.pid(), "-o"]).arg(&file);
        let mut watch = Alive::start(quiet(&mut command));
        until_it_listens(&watch);
        // Guarding begins with the first looks at the control file.
        let error = until("a report of the error", || {
            ask("u");
            reports(&file).into_iter().find(|report| report["occasion"] == "error")
        });
        assert_eq!(error["error"]["kind"], "use-after-free", "{error}");
        assert!(functions(&error["error"]["error"]).contains(&"culprit_read".to_owned()), "{error}");
        watch.signal(if round == 1 { "KILL" } else { "TERM" });
        assert_eq!(watch.end(), if round == 1 { 137 } else { 0 });
        ask("u");
        let again = reports(&file).into_iter().filter(|report| report["occasion"] == "error").count();
        assert_eq!(again, 1, "{round}");
    }
}

#[test]
fn a_watch_does_not_guard_a_program_that_it_attaches_to() {
    let mut command = Command::new(program("server"));
    let server = Alive::start(quiet(command.arg("60")));
    let place = directory();
    let outcome = Run::new(mallow(), place.path()).args(["watch", "--guard", "-p", &server.pid()]).go();
    assert_eq!(outcome.status, 1, "{}", outcome.err());
    assert!(outcome.err().contains("was not started under mallow") && outcome.err().contains("mallow run"));
}

/// A sample is guarded, too: the error is a report of its own, between the others.
#[test]
fn a_watch_reports_errors_in_guarded_samples() {
    let wrong = wrong();
    for (json, expected) in [(true, "\"kind\":\"use-after-free\""), (false, "use after free (read)")] {
        let place = directory();
        let run = Run::new(mallow(), place.path()).args(["watch", "--guard", "--period", "1", "--lines"]);
        let run = if json { run.arg("--json") } else { run };
        let outcome = run.arg("--").arg(&wrong).arg("4").go();
        let text = outcome.err();
        assert!(text.contains(expected) && text.contains("culprit_read"), "{text}");
        assert_eq!((outcome.status, outcome.out().as_str()), (0, "went on\n"), "{text}");
    }
}

/// mlockall fills what is mapped, and keeps the kernel from giving memory back in the usual way.
#[test]
fn a_program_that_locks_its_memory_is_guarded() {
    let locked = program_as("guard/locked", "guard-locked", "cc", &["-fno-builtin"]);
    // As few slots as there can be: each is used three times.
    let (report, status, out, err) = guarded(&["--memory", "8MiB"], &[locked.to_str().expect("a path")]);
    if out == "not locked\n" {
        let own = fs::metadata("/proc/self").expect("itself");
        assert_ne!(std::os::unix::fs::MetadataExt::uid(&own), 0, "root may lock memory: {err}");
        return;
    }
    assert_eq!((out.as_str(), status, errors(&report).len()), ("bad: 0\n", 3, 1), "{report} {err}");
    assert_eq!(report["errors"][0]["kind"], "use-after-free");
}

/// More of them than a ring of slots has room for, before the keeper answers.
#[test]
fn bursts_of_large_blocks_get_blocks_of_their_own() {
    let large = program_as("guard/large", "guard-large", "cc", &["-O1", "-fno-builtin"]);
    let place = directory();
    let run =
        Run::new(mallow(), place.path()).args(["watch", "--guard", "--period", "1KiB", "--json", "-o", "reports"]);
    let outcome = run.arg("--").arg(&large).args(["400", "20"]).go();
    assert_eq!((outcome.status, outcome.out().as_str()), (0, "changed 0, same 0\n"), "{}", outcome.err());
    let all = reports(&place.path().join("reports"));
    assert!(all.iter().all(|report| report["occasion"] != "error"), "{all:#?}");
}

#[test]
fn programs_out_of_reach_are_named() {
    let wrong = wrong();
    let script = format!("exec env -u LD_PRELOAD {} 0", wrong.display());
    let (report, _, out, err) = guarded(&[], &["sh", "-c", &script]);
    let unreached = report["unreached"].as_array().expect("clauses");
    assert!(out.contains("went on") && unreached.len() == 1, "{report}");
    assert!(unreached[0].as_str().is_some_and(|why| why.contains("guard-wrong")), "{report}");
    assert!(err.contains("started by the command, and not guarded: "), "{err}");
    let fixed = program_as("guard/crash", "guard-static", "cc", &["-w", "-static", "-pthread"]);
    let script = format!("{} nothing; true", fixed.display());
    let place = directory();
    let run = Run::new(mallow(), place.path()).args(["guard", "--require-guarded=1%", "--", "sh", "-c", &script]).go();
    let err = run.err();
    assert_eq!(run.status, 4, "{err}");
    assert!(err.contains(&format!("not guarded: {} is statically linked", fixed.display())), "{err}");
    assert!(err.contains("No memory error was found in what was guarded."), "{err}");
}

/// A run that guarded nothing was as good as one without an error.
#[test]
fn a_run_that_guards_too_little_fails_where_that_is_asked_for() {
    let right = right();
    let right = right.to_str().expect("a path");
    let fixed = program_as("guard/crash", "guard-static", "cc", &["-w", "-static", "-pthread"]);
    let fixed = fixed.to_str().expect("a path");
    for (flags, command, expected) in [
        (&[][..], &[fixed, "nothing"][..], 0),
        (&["--require-guarded"], &[fixed, "nothing"], 4),
        (&["--require-guarded"], &[right, "0"], 0),
        (&["--require-guarded=100%"], &[right, "0"], 0),
        (&["--require-guarded=60%", "--memory", "4KiB"], &["perl", "-e", "print map { $_ x 9 } 1..999"], 4),
        (&["--require-guarded", "--memory", "4KiB"], &["perl", "-e", "exit 7"], 7),
        (&["--require-guarded=50%", "--memory", "4KiB"], &["perl", "-e", "exit 7"], 4),
    ] {
        let (report, status, _, err) = guarded(flags, command);
        assert_eq!(status, expected, "{flags:?} {command:?}: {report} {err}");
        assert_eq!(report["too_little"].is_string(), expected == 4, "{report}");
    }
    let wrong = wrong();
    let (report, status, ..) =
        guarded(&["--require-guarded=100%", "--memory", "4KiB"], &[wrong.to_str().expect("a path"), "0"]);
    assert_eq!((errors(&report).len(), status), (1, 3), "{report}");
}

/// Names had addresses of blocks, threads and milliseconds in them: each run was another test.
#[test]
fn an_error_has_the_same_identity_in_each_run() {
    let two =
        program_as("guard/two_errors", "guard-two-errors", "cc", &["-w", "-O0", "-g", "-fno-builtin", "-pthread"]);
    let place = directory();
    let run = |number: u32| {
        let (junit, sarif) = (place.path().join(format!("{number}.xml")), place.path().join(format!("{number}.sarif")));
        let run = Run::new(mallow(), harness::workspace().as_path()).args(["guard", "--json", "--junit"]).arg(&junit);
        let outcome = run.arg("--sarif").arg(&sarif).arg("--").arg(&two).go();
        assert_eq!(outcome.status, 3, "{}", outcome.err());
        let xml = fs::read_to_string(junit).expect("JUnit");
        let names: Vec<String> = xml
            .split("<testcase name=\"")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap_or_default().to_owned())
            .collect();
        let sarif: Value = serde_json::from_str(&fs::read_to_string(sarif).expect("SARIF")).expect("JSON");
        (names, sarif, outcome.err())
    };
    let ((first, sarif, _), (second, other, err)) = (run(1), run(2));
    assert_eq!(first, second, "{err}");
    assert!(first.len() == 2 && first[0] != first[1], "{first:?}");
    assert!(first[0].starts_with("use-after-free in culprit_one (two_errors.c:"), "{first:?}");
    assert!(first[1].starts_with("use-after-free in culprit_two (two_errors.c:"), "{first:?}");
    let results = |sarif: &Value| sarif["runs"][0]["results"].as_array().expect("results").clone();
    for (number, (one, same)) in results(&sarif).iter().zip(results(&other)).enumerate() {
        let fingerprint = one["partialFingerprints"]["mallow/v1"].as_str().expect("a number");
        assert_eq!(one["partialFingerprints"], same["partialFingerprints"], "{one}");
        assert!(fingerprint.len() == 16 && first[number].contains(fingerprint), "{one}");
        let related = one["relatedLocations"].as_array().expect("places");
        let messages: Vec<_> =
            related.iter().map(|place| place["message"]["text"].as_str().unwrap_or_default()).collect();
        assert_eq!(messages, ["the block was allocated here", "the block was freed here"], "{one}");
    }
    let rule = &sarif["runs"][0]["tool"]["driver"]["rules"][0];
    assert_eq!(rule["properties"]["tags"], serde_json::json!(["security", "external/cwe/cwe-416"]), "{rule}");
}
