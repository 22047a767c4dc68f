//! Known memory errors in crates of others, and how many errors are found of a program where one allocation in many is
//! guarded.

use harness::{program_as, programs_with_crates, tool};

use crate::guard_harness::{errors, functions, guarded};

/// Each by its CVE, at the wrong access, with the crate's function that freed or made the block.
#[test]
fn known_errors_of_crates_are_found() {
    let programs = programs_with_crates("known_bugs");
    let known = [
        ("insert_many", "overflow", "write", "insert_many", "SmallVec"),
        ("iterate", "use-after-free", "read", "iterate::main", "put"),
        ("remove", "overflow", "read", "remove::main", "with_capacity"),
    ];
    for (name, kind, access, function, maker) in known {
        let program = programs.join(name);
        let (report, status, out, err) = guarded(&[], &[program.to_str().expect("a path")]);
        // What a wrong write changed beside its block is found at the free, too.
        let found: Vec<_> = errors(&report).iter().filter(|error| error["kind"] != "write-beside-block").collect();
        assert_eq!((found.len(), status), (1, 3), "{name}: {report} {err}");
        assert_eq!((&found[0]["kind"], &found[0]["access"]), (&kind.into(), &access.into()), "{name}: {report}");
        let has = |step: &serde_json::Value, part: &str| functions(step).iter().any(|function| function.contains(part));
        assert!(has(&found[0]["error"], function), "{name}: {report}");
        assert!(has(&found[0]["block"]["allocated"], maker), "{name}: {report}");
        if kind == "use-after-free" {
            assert!(has(&found[0]["block"]["freed"], "pop"), "{name}: {report}");
        }
        assert_eq!(out.lines().count(), 1, "{name} goes on: {out}");
    }
}

/// What they were is "crash, no error", or nothing at all.
#[test]
fn a_free_of_no_block_says_what_the_address_is() {
    let first =
        program_as("guard/first_free", "guard-first-free", "cc", &["-w", "-O0", "-g", "-fno-builtin", "-pthread"]);
    let name = first.to_str().expect("a path");
    for (how, region, function) in [
        ("static", "file", "culprit"),
        ("stack", "stack", "culprit"),
        ("thread", "stack", "culprit"),
        ("mapped", "mapped", "culprit"),
        ("inside", "mapped", "culprit"),
        ("unmapped", "unmapped", "culprit"),
        ("small", "unmapped", "culprit"),
        ("realloc", "file", "culprit_realloc"),
        ("reallocarray", "stack", "culprit_reallocarray"),
    ] {
        let (report, status, out, err) = guarded(&[], &[name, how]);
        let found = errors(&report);
        assert_eq!((found.len(), status, out.as_str()), (1, 3, "went on\n"), "{how}: {report} {err}");
        assert_eq!(
            (&found[0]["kind"], &found[0]["region"]),
            (&"foreign-free".into(), &region.into()),
            "{how}: {report}"
        );
        assert!(functions(&found[0]["error"]).iter().any(|name| name == function), "{how}: {report}");
    }
}

/// Most blocks are the allocator's own here: none of them is taken for something else.
#[test]
fn blocks_that_are_not_guarded_are_no_errors() {
    let script = "import json; print(len(json.dumps(list(range(30000)))))";
    let python = ["env", "PYTHONMALLOC=malloc", "/usr/bin/python3", "-c", script];
    let sql = "select sum(length(hex(value))) from generate_series(1,3000);";
    for command in [&python[..], &["sqlite3", ":memory:", sql], &["perl", "-e", "print map { $_ x 9 } 1..999"]] {
        tool(command[0]);
        let (report, status, _, err) = guarded(&["--memory", "64KiB"], command);
        assert_eq!((errors(&report).len(), status), (0, 0), "{command:?}: {report} {err}");
        assert!(report["unguarded"].as_u64() > Some(100), "{report}");
    }
}

/// musl's functions that call each other by public names give each block once, from a slot.
#[test]
fn programs_with_musl_are_guarded() {
    let right = program_as("exact", "exact-musl", "musl-gcc", &["-Dpvalloc=valloc"]);
    let right = right.to_str().expect("a path");
    for case in ["calloc", "realloc", "reallocarray", "aligned_alloc", "memalign", "posix_memalign", "valloc"] {
        let (report, status, _, err) = guarded(&[], &[right, case, "300"]);
        assert_eq!((errors(&report).len(), status), (0, 0), "{case}: {report} {err}");
        assert!(report["guarded"].as_u64() >= Some(300), "{case}: {report}");
    }
    let wrong = program_as("guard/errors", "guard-errors-musl", "musl-gcc", &["-fno-builtin"]);
    let (report, status, out, err) = guarded(&[], &[wrong.to_str().expect("a path"), "50", "100"]);
    let found: u64 = errors(&report).iter().map(|error| error["count"].as_u64().expect("a number")).sum();
    assert_eq!((found, status, out.as_str()), (50, 3, "went on\n"), "{report} {err}");
}

/// A block of SIZE bytes is guarded with the probability 1 - exp(-SIZE / period), and then its error is found. Five
/// standard deviations are exceeded once in 1.7 million runs.
#[test]
fn errors_are_found_as_often_as_blocks_are_sampled() {
    const COUNT: f64 = 1000.0;
    let program = program_as("guard/errors", "guard-errors", "cc", &["-fno-builtin"]);
    let program = program.to_str().expect("a path");
    for (size, flag, period) in [("1024", "8KiB", 8192.0), ("1024", "2KiB", 2048.0), ("4096", "8KiB", 8192.0)] {
        let (report, status, out, err) = guarded(&["--sample", flag], &[program, "1000", size]);
        let found: u64 = errors(&report).iter().map(|error| error["count"].as_u64().expect("a number")).sum();
        let chance = 1.0 - (-size.parse::<f64>().expect("a number") / period).exp();
        let deviation = (COUNT * chance * (1.0 - chance)).sqrt();
        // Of these no slot was ready: they are not guarded, and counted.
        let missed = report["unguarded"].as_u64().expect("a number");
        let (least, most) = (COUNT * chance - 5.0 * deviation, COUNT * chance + 5.0 * deviation);
        assert!(
            (found + missed) as f64 >= least && found as f64 <= most,
            "{size} {flag}: {found} of {least}..{most}: {report}"
        );
        assert!(found > missed && status == 3 && out == "went on\n", "{report} {err}");
    }
}
