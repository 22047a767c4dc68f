//! `mallow guard --leaks`: guarded blocks that nothing points to at the exit, beside valgrind and `mallow leaks`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use harness::{Run, directory, mallow, program, tool};
use serde_json::{Value, json};

use crate::guard_harness::{Way, churning, errors, functions, guarded, kill, rest, wrong};
use crate::watch_harness::until;

/// Blocks that were lost, those that others of them hold with them, and their bytes.
fn sums(report: &Value) -> (u64, u64) {
    let number = |value: &Value| value.as_u64().expect("a number");
    errors(report).iter().fold((0, 0), |(blocks, bytes), error| {
        let leak = &error["leak"];
        let (held, held_bytes) = (number(&leak["held"]), number(&leak["held_bytes"]));
        (blocks + number(&error["count"]) + held, bytes + number(&leak["bytes"]) + held_bytes)
    })
}

/// The same in valgrind's words: "definitely lost: 8,325 bytes in 30 blocks".
fn valgrind(command: &[&str]) -> (u64, u64) {
    let place = directory();
    let text = Run::new(tool("valgrind"), place.path()).arg("--leak-check=full").args(command).go().err();
    let mut sum = (0, 0);
    for line in text.lines().filter(|line| line.contains("definitely lost:") || line.contains("indirectly lost:")) {
        let numbers: Vec<u64> =
            line.split_whitespace().skip(1).filter_map(|word| word.replace(',', "").parse().ok()).collect();
        let [bytes, blocks] = numbers[..] else { panic!("{line}") };
        sum = (sum.0 + blocks, sum.1 + bytes);
    }
    assert!(text.contains("HEAP SUMMARY"), "{text}");
    sum
}

#[test]
fn perl_leaks_what_valgrind_finds() {
    let perl = tool("perl");
    let command = [perl.to_str().expect("a path"), "-e", "1"];
    let (report, status, ..) = guarded(&["--leaks"], &command);
    let expected = valgrind(&command);
    assert!(expected.0 > 0, "{expected:?}");
    assert_eq!((sums(&report), status), (expected, 3), "{report}");
    assert!(errors(&report).iter().all(|error| error["kind"] == "leak"), "{report}");
}

/// Blocks by the function of the target that allocated them, of the functions that it names by what is to be found.
fn by_function(report: &Value) -> BTreeMap<String, (u64, u64)> {
    let mut found = BTreeMap::new();
    for error in errors(report) {
        let names = functions(&error["error"]);
        let named = |name: &&str| ["lost_", "kept_", "open_"].iter().any(|start| name.starts_with(start));
        let name = names.iter().filter_map(|name| name.split('(').next()).find(named).expect("a name").to_owned();
        let number = |value: &Value| value.as_u64().expect("a number");
        let sum: &mut (u64, u64) = found.entry(name).or_default();
        *sum = (sum.0 + number(&error["count"]), sum.1 + number(&error["leak"]["held"]));
    }
    found
}

fn lost(arguments: &[&str], flags: &[&str]) -> (Value, i32, String) {
    let program = program("lost");
    let command: Vec<&str> = [program.to_str().expect("a path")].into_iter().chain(arguments.iter().copied()).collect();
    let flags: Vec<&str> = ["--leaks"].into_iter().chain(flags.iter().copied()).collect();
    let (report, status, _, err) = guarded(&flags, &command);
    (report, status, err)
}

/// As `mallow leaks` has it of a recording: the heap, globals, a thread's storage, the stack, an inner pointer, a page
/// of a mapping of 1 TB hold a block; what only a lost block holds counts with that.
#[test]
fn blocks_leak_where_nothing_points_to_them() {
    let (report, status, err) = lost(&["lose", "keep"], &[]);
    let expected = [("lost_alone", (5, 0)), ("lost_destructor", (1, 0)), ("lost_list", (1, 19))];
    assert_eq!(by_function(&report), expected.map(|(name, sum)| (name.to_owned(), sum)).into(), "{err}");
    assert_eq!((status, sums(&report)), (3, (26, 5 * 100 + 20 * 48 + 310)), "{report}");
    // The largest one first.
    assert_eq!(errors(&report)[0]["leak"], json!({ "cycles": 0, "bytes": 48, "held": 19, "held_bytes": 19 * 48 }));
    assert_eq!((&report["searched"], &report["unsearched"]), (&json!(1), &json!({})));
}

#[test]
fn a_cycle_leaks_as_one_block_with_all_that_it_holds() {
    let (report, ..) = lost(&["cycles"], &[]);
    let found = by_function(&report);
    assert_eq!(
        found.iter().filter(|(name, _)| name.starts_with("open_")).map(|(_, sum)| *sum).collect::<Vec<_>>(),
        [(100, 200)]
    );
    // Each of its blocks is pointed to, by the other one.
    let is_cycle = |error: &&Value| error["leak"]["cycles"] == error["count"];
    let cycle = errors(&report).iter().find(is_cycle).expect("cycles").clone();
    assert_eq!(cycle["count"], 100, "{cycle:#}");
    let place = cycle["place"].as_str().expect("a sentence");
    assert!(place.contains(" that nothing points to but cycles through themselves"), "{place}");
    assert!(cycle["advice"].as_str().expect("advice").contains("make one of them weak"), "{cycle:#}");
}

/// Also those whose stack pointer, or a register, is all that has it.
#[test]
fn stacks_of_threads_hold_blocks() {
    let (report, ..) = lost(&["threads"], &[]);
    assert!(!by_function(&report).contains_key("kept_thread_stack"), "{report}");
}

#[test]
fn third_party_programs_leak_nothing() {
    let sql = "create table t(a,b); insert into t select value, hex(value) from generate_series(1,1000); select count(*) from t;";
    let tree = harness::workspace();
    let script = "import json, threading; print(len(json.dumps(list(range(1000)))))";
    let commands: [&[&str]; 4] = [
        &["/usr/bin/python3", "-c", script],
        &["env", "PYTHONMALLOC=malloc", "/usr/bin/python3", "-c", script],
        &["sqlite3", ":memory:", sql],
        &["git", "-C", tree.to_str().expect("a path"), "log", "--oneline", "-n", "30"],
    ];
    for command in commands {
        tool(command[0]);
        let (report, status, _, err) = guarded(&["--leaks"], command);
        assert_eq!((errors(&report).len(), status), (0, 0), "{command:?}: {report} {err}");
        assert!(report["searched"].as_u64() >= Some(1), "{command:?}: {report}");
    }
}

#[test]
fn a_process_that_is_not_searched_is_named() {
    let seccomp = program("seccomp");
    let lost = program("lost");
    let (seccomp, lost) = (seccomp.to_str().expect("a path"), lost.to_str().expect("a path"));
    let script = format!("exec {lost}");
    let commands: [(&[&str], &str, u64); 5] = [
        (&[lost, "_exit"], "ended by _exit", 0),
        (&[lost, "kill"], "ended by a signal", 0),
        (&[lost, "fork"], "forked, with blocks of its parent", 1),
        (&["sh", "-c", &script], "became another program by exec", 1),
        (&[seccomp, "no-wait"], "a seccomp filter may forbid the wait at exit", 0),
    ];
    for (command, reason, searched) in commands {
        let (report, .., err) = guarded(&["--leaks"], command);
        let reasons = report["unsearched"].as_object().expect("reasons");
        assert!(
            reasons.len() == 1 && reasons.iter().all(|(why, n)| why.starts_with(reason) && *n == 1),
            "{report} {err}"
        );
        assert_eq!(report["searched"], searched, "{command:?}: {report}");
    }
}

/// It was "1 process: became another program by exec" of a command whose last image had been searched: the first one
/// had not, and nobody named it.
#[test]
fn the_image_that_is_not_searched_is_named() {
    let lost = program("lost");
    let script = format!("exec {}", lost.display());
    let (report, .., err) = guarded(&["--leaks"], &["sh", "-c", &script]);
    let shell = fs::canonicalize(tool("sh")).expect("a shell");
    let shell = shell.file_name().and_then(|name| name.to_str()).expect("a name");
    let reason = "became another program by exec";
    assert_eq!(report["programs"], json!({ reason: [shell] }), "{report} {err}");
    let place = directory();
    let screen = Run::new(mallow(), place.path()).args(["guard", "--leaks", "--", "sh", "-c", &script]).go();
    let expected = format!("Not searched for leaks: 1 process ({shell}): {reason}");
    assert!(screen.err().contains(&expected), "{}", screen.err());
}

fn is_gone(pid: u32) -> Option<()> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    (stat.is_empty() || stat.contains(") Z ")).then_some(())
}

/// The target's process: the child of mallow that is not its keeper.
fn target(mallow: u32, keeper: u32) -> u32 {
    until("the target", || {
        let children = fs::read_to_string(format!("/proc/{mallow}/task/{mallow}/children")).unwrap_or_default();
        children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(|pid| *pid != keeper)
    })
}

/// It waits for nobody who is stopped or gone, and the report says that it was not searched.
#[test]
fn a_target_exits_whatever_becomes_of_its_keeper() {
    for signal in ["STOP", "KILL"] {
        let (mut child, keeper) = churning(Way::Missing, &["--leaks"]);
        let target = target(child.id(), keeper);
        kill(keeper, signal);
        drop(child.stdin.take());
        until("the target's end", || is_gone(target));
        if signal == "STOP" {
            kill(keeper, "CONT");
        }
        let (out, err, status) = rest(child);
        assert!(out.ends_with("whole\n") && status.success(), "{signal}: {out}{err}");
        if signal == "STOP" {
            let line = err.lines().find(|line| line.contains(": mallow was stopped, or did not answer"));
            assert!(line.is_some_and(|line| line.starts_with("Not searched for leaks: 1 process (python3")), "{err}");
        }
    }
}

/// The keeper answers alone.
#[test]
fn a_target_is_searched_while_mallow_is_stopped_or_killed() {
    for signal in ["STOP", "KILL"] {
        let (mut child, keeper) = churning(Way::Missing, &["--leaks"]);
        let target = target(child.id(), keeper);
        kill(child.id(), signal);
        drop(child.stdin.take());
        until("the target's end", || is_gone(target));
        if signal == "STOP" {
            kill(child.id(), "CONT");
            let (out, err, status) = rest(child);
            assert!(out.ends_with("whole\n") && err.contains("No memory error") && status.success(), "{out}{err}");
            assert!(!err.contains("did not answer"), "{err}");
        } else {
            until("the keeper's end", || is_gone(keeper));
        }
    }
}

#[test]
fn the_report_names_kinds_and_their_sum() {
    let place = directory();
    let (junit, sarif) = (place.path().join("j.xml"), place.path().join("s.sarif"));
    let run = Run::new(mallow(), &harness::workspace()).args(["guard", "--leaks", "--github", "--junit"]).arg(&junit);
    let outcome = run.arg("--sarif").arg(&sarif).arg("--").arg(program("lost")).arg("lose").go();
    let (text, annotations) = (outcome.err(), outcome.out());
    for part in [
        "leak: 5 blocks, 500 bytes, that nothing points to\n",
        "leak: 1 block, 48 bytes, that nothing points to, and 19 blocks of 912 bytes that they hold\n",
        "allocated (malloc) by thread",
        "lost_alone lost.cpp:",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.ends_with("\n3 memory errors: leak (3)\n"), "{text}");
    assert!(annotations.contains("::error file=tests/targets/lost.cpp,line="), "{annotations}");
    let xml = fs::read_to_string(junit).expect("JUnit");
    assert!(xml.contains("failures=\"3\"") && xml.contains("leak: 5 blocks, 500 bytes"), "{xml}");
    let sarif: Value = serde_json::from_str(&fs::read_to_string(sarif).expect("SARIF")).expect("JSON");
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!(result["ruleId"], "leak");
    let uri = &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
    assert_eq!(uri, "tests/targets/lost.cpp");
    assert_eq!(outcome.status, 3);
}

#[test]
fn an_error_and_a_leak_are_both_reported() {
    let wrong = wrong();
    let script = format!("{} 0; {} lose", wrong.display(), program("lost").display());
    let place = directory();
    let text = Run::new(mallow(), place.path()).args(["guard", "--leaks", "--", "sh", "-c", &script]).go().err();
    assert!(text.contains("\n4 memory errors: leak (3), use after free (1)\n"), "{text}");
    assert!(text.find("use after free") < text.find("leak:"), "{text}");
}

#[test]
fn leaks_are_left_out_by_suppressions() {
    let place = directory();
    let file = place.path().join("known");
    fs::write(&file, "guard:lost_list\nleak:lost_alone\nleak:lost_d*r\n").expect("a file");
    let (report, status, _) = lost(&["lose"], &["--suppressions", file.to_str().expect("a path")]);
    assert_eq!(by_function(&report).into_keys().collect::<Vec<_>>(), ["lost_list"]);
    assert_eq!((&report["suppressed"], status), (&json!(2), 3), "{report}");
}

#[test]
fn blocks_that_hold_no_aligned_pointers_are_not_searched() {
    let run = |alignment: &str| {
        let mut command = Command::new(mallow());
        command.args(["guard", "--leaks", "--alignment", alignment, "--", "true"]).output().expect("mallow")
    };
    let refused = run("4");
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && text.contains("--alignment 8 or more"), "{text}");
    assert!(run("8").status.success());
}

/// A sample that is guarded leaks, too, and what holds it may be no sample.
#[test]
fn samples_leak_and_the_rest_of_the_heap_holds_them() {
    let (report, status, err) = lost(&["lose", "keep"], &["--sample", "1B"]);
    assert!(by_function(&report).keys().all(|name| name.starts_with("lost_")), "{report}");
    assert!(status == 3 && sums(&report).0 > 10, "{report} {err}");
    let place = Path::new("/usr/bin/python3");
    let (report, status, ..) =
        guarded(&["--leaks", "--sample", "256B"], &[place.to_str().expect("a path"), "-c", "import json"]);
    assert!(errors(&report).is_empty() && status == 0 && report["searched"] == 1, "{report}");
}
