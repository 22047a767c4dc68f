//! Blocks behind the stacks and the thread-local storage of threads that have ended, beside valgrind, and behind what
//! only looks so.

use std::collections::BTreeMap;
use std::time::Duration;

use harness::{Run, directory, mallow, program, program_as, tool};
use serde_json::Value;

use crate::guard_harness::{errors, functions, guarded};

/// Blocks by the function of the target that allocated them, and whether they are lost.
type Found = BTreeMap<(String, bool), u64>;

fn is_named(name: &&str) -> bool {
    name.starts_with("lost_") || name.starts_with("kept_")
}

fn recorded(options: &[&str], arguments: &[&str]) -> Found {
    let place = directory();
    let run = Run::new(mallow(), place.path()).args(["record", "--no-report", "--scan-all", "-o", "l.mallow"]);
    let run = run.args(options).arg("--").arg(program("ended_threads")).args(arguments).limit(Duration::from_secs(120));
    let run = run.go();
    assert_eq!(run.status, 0, "{}{}", run.out(), run.err());
    let mut found = Found::new();
    for (state, is_lost) in [("lost", true), ("reachable", false), ("unscanned", false)] {
        let leaks = ["leaks", "--json", "--limit", "0", "--only", state, "l.mallow"];
        let leaks = Run::new(mallow(), place.path()).args(leaks).go();
        let leaks: Value =
            serde_json::from_str(&leaks.out()).unwrap_or_else(|error| panic!("{error}: {}", leaks.err()));
        assert_eq!(leaks["unscanned"], serde_json::json!([]), "{arguments:?}");
        for site in leaks["sites"].as_array().expect("sites") {
            let frames = site["frames"].as_array().expect("frames");
            let name = frames.iter().filter_map(|frame| frame["function"].as_str()?.split('(').next()).find(is_named);
            let Some(name) = name else { continue };
            *found.entry((name.to_owned(), is_lost)).or_default() += site["live"].as_u64().expect("a number");
        }
    }
    found
}

/// "1,000 (…) bytes in 1 blocks are definitely lost in loss record 1 of 2", and the stack.
fn valgrind(arguments: &[&str]) -> Found {
    let place = directory();
    let run = Run::new(tool("valgrind"), place.path()).args(["--leak-check=full", "--show-leak-kinds=all"]);
    let run = run.arg(program("ended_threads")).args(arguments).limit(Duration::from_secs(240)).go();
    let text = run.err();
    let (mut found, mut record) = (Found::new(), None);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(at) = words.windows(2).position(|pair| pair == ["blocks", "are"]) {
            let blocks: u64 = words[at - 1].replace(',', "").parse().expect("a number");
            record = Some((blocks, words.contains(&"lost")));
        }
        let name = words.iter().position(|word| *word == "by" || *word == "at").and_then(|at| words.get(at + 2));
        let name = name.and_then(|name| name.split('(').next()).filter(is_named);
        if let (Some(name), Some((blocks, is_lost))) = (name, record) {
            *found.entry((name.to_owned(), is_lost)).or_default() += blocks;
            record = None;
        }
    }
    assert!(text.contains("HEAP SUMMARY"), "{text}");
    found
}

fn expected(rows: &[(&str, u64)]) -> Found {
    rows.iter().map(|&(name, blocks)| ((name.to_owned(), name.starts_with("lost_")), blocks)).collect()
}

/// The stacks of joined and of detached threads, which glibc keeps for the next ones; among them, those of threads that
/// it unmaps.
#[test]
fn blocks_behind_ended_threads_are_lost() {
    let cases: [(&str, &[(&str, u64)]); 5] = [
        ("one", &[("lost_behind_storage", 20)]),
        ("joined", &[("lost_behind_storage", 160)]),
        ("stack", &[("lost_on_stack", 20)]),
        ("detached", &[("lost_detached", 60)]),
        ("successors", &[("lost_behind_storage", 80), ("kept_by_argument", 4)]),
    ];
    for (what, rows) in cases {
        let expected = expected(rows);
        assert_eq!(valgrind(&[what]), expected, "{what}: valgrind");
        assert_eq!(recorded(&[], &[what]), expected, "{what}");
    }
}

/// The loader's table of a thread's storage and the storage itself wait for the next thread; what the storage has is
/// lost.
#[test]
fn blocks_behind_the_storage_of_a_library_are_lost_with_the_thread() {
    let plugin = program_as("ended_plugin", "ended_plugin.so", "cc", &["-shared", "-fPIC"]);
    let plugin = plugin.to_str().expect("a path");
    let expected = expected(&[("lost_in_plugin", 20)]);
    assert_eq!(valgrind(&["plugin", plugin]), expected, "valgrind");
    assert_eq!(recorded(&[], &["plugin", plugin]), expected);
}

/// Threads that live, in the C library's eyes or the kernel's; a result that can still be had; memory that was a stack
/// once.
#[test]
fn blocks_are_reachable_where_a_stack_may_be_in_use() {
    let cases: [(&str, &[(&str, u64)]); 6] = [
        ("living", &[("kept_behind_storage", 60), ("kept_on_stack", 3)]),
        ("result", &[("kept_by_result", 1)]),
        ("own-stack", &[("kept_below_stack", 1)]),
        ("old-stack", &[("kept_on_old_stack", 3)]),
        ("coroutines", &[("kept_by_coroutine", 1), ("kept_by_running_coroutine", 1)]),
        ("clone", &[("kept_by_clone", 1)]),
    ];
    for (what, rows) in cases {
        assert_eq!(recorded(&[], &[what]), expected(rows), "{what}");
    }
}

/// glibc gives the stacks of the parent's threads to those of the child; the threads live on in the parent.
#[test]
fn a_forked_child_has_no_threads_of_its_parent() {
    let rows = [("lost_behind_storage", 40), ("lost_in_child", 20), ("kept_behind_storage", 60), ("kept_on_stack", 3)];
    assert_eq!(recorded(&[], &["fork"]), expected(&rows));
}

/// The process lives, and is scanned, as long as any of its threads lives.
#[test]
fn a_process_outlives_its_first_thread() {
    assert_eq!(recorded(&[], &["main-ends"]), expected(&[("kept_by_main", 1), ("kept_after_main", 20)]));
    let (report, _, _, err) = guarded(&["--leaks"], &[program("ended_threads").to_str().expect("a path"), "main-ends"]);
    assert_eq!((errors(&report).len(), &report["searched"]), (0, &serde_json::json!(1)), "{report} {err}");
}

#[test]
fn guard_finds_what_ended_threads_left() {
    let target = program("ended_threads");
    let target = target.to_str().expect("a path");
    let cases: [(&str, &[(&str, u64)]); 8] = [
        ("one", &[("lost_behind_storage", 20)]),
        ("joined", &[("lost_behind_storage", 160)]),
        ("detached", &[("lost_detached", 60)]),
        ("living", &[]),
        ("result", &[]),
        ("own-stack", &[]),
        ("old-stack", &[]),
        ("coroutines", &[]),
    ];
    for (what, rows) in cases {
        let (report, _, _, err) = guarded(&["--leaks"], &[target, what]);
        let mut found = Found::new();
        for error in errors(&report) {
            let names = functions(&error["error"]);
            let name = names.iter().filter_map(|name| name.split('(').next()).find(is_named);
            let blocks = error["count"].as_u64().zip(error["leak"]["held"].as_u64()).map(|(count, held)| count + held);
            let name = name.unwrap_or_else(|| panic!("{what}: {error}"));
            *found.entry((name.to_owned(), true)).or_default() += blocks.expect("numbers");
        }
        assert_eq!(found, expected(rows), "{what}: {err}");
    }
}
