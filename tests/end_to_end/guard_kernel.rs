//! What the kernel reads and writes for a guarded program, and processes in other pid namespaces.

use harness::{Run, directory, mallow, mount_namespace, not_run, program_as, root};

use crate::guard_harness::{Way, errors, functions, guarded, guarded_by};

/// Each call whose buffer is looked at, and whether the kernel writes to it.
const CALLS: [(&str, bool); 18] = [
    ("read", true),
    ("write", false),
    ("pread", true),
    ("pread64", true),
    ("pwrite", false),
    ("pwrite64", false),
    ("readv", true),
    ("writev", false),
    ("preadv", true),
    ("preadv64", true),
    ("pwritev", false),
    ("pwritev64", false),
    ("recv", true),
    ("send", false),
    ("recvfrom", true),
    ("sendto", false),
    ("recvmsg", true),
    ("sendmsg", false),
];

/// They failed with EFAULT, and nothing was reported.
#[test]
fn buffers_of_system_calls_are_errors_of_the_program() {
    let program = program_as("guard/kernel", "guard-kernel", "cc", &["-w", "-g", "-O0", "-fno-builtin"]);
    let name = program.to_str().expect("a path");
    for (call, writes) in CALLS {
        for (how, kind) in [("behind", Some("overflow")), ("freed", Some("use-after-free")), ("right", None)] {
            let (report, _, out, err) = guarded(&[], &[name, call, how]);
            assert_eq!(out, "whole\n", "{call} {how} goes on: {report} {err}");
            let found = errors(&report);
            assert_eq!(found.len(), usize::from(kind.is_some()), "{call} {how}: {report} {err}");
            let Some(kind) = kind else { continue };
            assert_eq!((&found[0]["kind"], &found[0]["call"]), (&kind.into(), &call.into()), "{how}: {report}");
            assert_eq!(found[0]["access"], if writes { "write" } else { "read" }, "{call} {how}: {report}");
            assert_eq!(functions(&found[0]["error"])[0], "culprit", "{call} {how}: {report}");
        }
    }
    let (report, _, out, _) = guarded_by(Way::Handler, &[], &[name, "read", "behind"]);
    assert_eq!((out.as_str(), &report["errors"][0]["call"]), ("whole\n", &"read".into()), "{report}");
    let screen = Run::new(mallow(), directory().path()).args(["guard", "--", name, "read", "behind"]).go();
    assert!(screen.err().contains("  written by the kernel for read, by thread"), "{}", screen.err());
}

/// A read of 35 bytes into 30 was two errors: one "2 bytes behind the end", as the missing page begins there, and at
/// the free one of bytes that "somebody" had written. A call that ended in these two bytes was the second one alone,
/// and none where it only read.
#[test]
fn a_buffer_that_is_too_small_is_one_error_from_its_first_byte_on() {
    let program = program_as("guard/kernel", "guard-kernel", "cc", &["-w", "-g", "-O0", "-fno-builtin"]);
    let name = program.to_str().expect("a path");
    for (call, writes) in [("read", true), ("write", false), ("readv", true), ("recv", true), ("sendmsg", false)] {
        for how in ["odd", "one"] {
            for (way, place) in [(Way::Missing, "end"), (Way::Missing, "begin"), (Way::Handler, "end")] {
                let (report, _, out, err) = guarded_by(way, &["--place", place], &[name, call, how]);
                let case = format!("{call} {how} {way:?} {place}: {report} {err}");
                assert_eq!((out.as_str(), errors(&report).len()), ("whole\n", 1), "{case}");
                let error = &errors(&report)[0];
                assert_eq!((&error["kind"], &error["call"]), (&"overflow".into(), &call.into()), "{case}");
                assert_eq!(error["access"], if writes { "write" } else { "read" }, "{case}");
                assert_eq!(error["place"], "right behind a block of 30 bytes", "{case}");
                assert_eq!(functions(&error["error"])[0], "culprit", "{case}");
            }
        }
    }
}

/// "there is no process N" was said of one that ran, and its stack was missing.
#[test]
fn a_process_in_another_pid_namespace_has_its_stack() {
    // Whoever may have a mount namespace may have this one.
    if !root() && mount_namespace("a_process_in_another_pid_namespace_has_its_stack").is_none() {
        return;
    }
    let wrong = crate::guard_harness::wrong();
    let unshare = if root() { "-fp" } else { "-Ufpr" };
    let (report, status, out, err) = guarded(&[], &["unshare", unshare, wrong.to_str().expect("a path"), "0"]);
    let found = errors(&report);
    assert_eq!((found.len(), status, out.as_str()), (1, 3, "went on\n"), "{report} {err}");
    assert!(found[0]["without_stack"].is_null(), "{report}");
    assert!(functions(&found[0]["error"]).iter().any(|name| name.starts_with("culprit_read")), "{report}");
    assert_eq!(found[0]["error"]["tid"], 1, "its number in its own namespace: {report}");
}

/// Pages of Mallow's own are not filled by the lock: what comes behind a block is missing.
#[test]
fn memory_that_is_locked_before_the_first_allocation_is_guarded() {
    let program = program_as("guard/locked_first", "guard-locked-first", "cc", &["-w", "-g", "-O0", "-fno-builtin"]);
    let (report, _, out, err) = guarded(&["--memory", "8MiB"], &[program.to_str().expect("a path")]);
    if out == "not locked\n" {
        not_run("memory_that_is_locked_before_the_first_allocation_is_guarded", "mlockall is forbidden");
        return;
    }
    let kinds: Vec<_> = errors(&report).iter().map(|error| error["kind"].as_str().unwrap_or_default()).collect();
    assert_eq!((kinds, out.as_str()), (vec!["overflow", "use-after-free"], "went on\n"), "{report} {err}");
}
