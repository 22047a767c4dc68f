//! The views of a real recording, through the built binary: what they say, where they say it, and how they exit.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use serde_json::Value;
use tempfile::TempDir;

const MALLOW: &str = env!("CARGO_BIN_EXE_mallow");

/// A directory with `leak`, built of the example whose allocations can be counted by hand, and `leak.mallow`.
static PLACE: LazyLock<TempDir> = LazyLock::new(|| {
    let place = tempfile::tempdir().expect("a directory");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/c/leak.c");
    let built = Command::new("cc").args(["-O1", "-g", "-o", "leak"]).arg(source).current_dir(&place).status();
    assert!(built.expect("a C compiler").success());
    let recorded = Command::new(MALLOW).args(["record", "--no-report", "--", "./leak"]).current_dir(&place).output();
    let recorded = recorded.expect("mallow runs");
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    place
});

fn mallow(arguments: &[&str]) -> Output {
    let output = Command::new(MALLOW).args(arguments).current_dir(&*PLACE).stdin(Stdio::null()).output();
    output.expect("mallow runs")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

fn json(arguments: &[&str]) -> Value {
    let output = mallow(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The line of the example's only call that reads like this.
fn line_of(call: &str) -> usize {
    let source = include_str!("../../../examples/c/leak.c");
    let mut lines = source.lines().zip(1..).filter(|(line, _)| line.contains(call)).map(|(_, number)| number);
    let line = lines.next().expect("leak.c has it");
    assert_eq!(lines.next(), None, "{call} is in leak.c once");
    line
}

#[test]
fn the_report_names_functions_and_lines() {
    let output = mallow(&["report", "leak.mallow"]);
    let report = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let places = [("scratch", "malloc(32)"), ("build_table", "malloc(4096)"), ("read_config", "malloc(64)")]
        .map(|(function, call)| format!("{function} leak.c:{}", line_of(call)));
    for expected in places.iter().map(String::as_str).chain(["./leak\n", "← main", "\n  live at end"]) {
        assert!(report.contains(expected), "{expected:?} is not in\n{report}");
    }
    assert!(!report.contains('\x1b'), "colours in a pipe");
}

#[test]
fn json_counts_what_can_be_counted_by_hand() {
    let report = json(&["report", "--json", "leak.mallow"]);
    let numbers = ["allocations", "frees", "remaining", "live", "live_bytes", "peak_bytes"].map(|k| report[k].as_i64());
    assert_eq!(numbers, [1112, 1109, 3, 3, 192, 409_792].map(Some));
    let top = json(&["top", "--json", "--by", "temporary", "leak.mallow"]);
    assert_eq!(top["functions"][0]["function"], "scratch");
    assert_eq!(top["functions"][0]["self"]["temporary"], 1000);
    let leaks = json(&["leaks", "--json", "leak.mallow"]);
    assert_eq!((leaks["sites"][0]["live"].as_u64(), leaks["reported_bytes"].as_u64()), (Some(3), Some(192)));
}

#[test]
fn top_sorts_by_the_chosen_measure() {
    for (arguments, first) in [
        (&["top", "leak.mallow"][..], "scratch leak.c"),
        (&["top", "--by", "peak", "leak.mallow"], "build_table leak.c"),
        (&["top", "--by", "live", "leak.mallow"], "read_config leak.c"),
        (&["top", "--cum", "leak.mallow"], "main leak.c"),
    ] {
        let output = mallow(arguments);
        let row = text(&output.stdout).lines().nth(2).unwrap_or_default();
        assert!(row.ends_with(first), "{arguments:?}: {row}");
    }
}

#[test]
fn fail_on_leak_is_for_scripts() {
    assert_eq!(mallow(&["leaks", "leak.mallow"]).status.code(), Some(0));
    assert_eq!(mallow(&["leaks", "--fail-on-leak", "leak.mallow"]).status.code(), Some(3));
    std::fs::write(PLACE.path().join("known.supp"), "# ours\nleak:read_config\nleak:nobody\n").expect("a file");
    let output = mallow(&["leaks", "--fail-on-leak", "--suppressions", "known.supp", "leak.mallow"]);
    assert_eq!(output.status.code(), Some(0));
    let report = text(&output.stdout);
    assert!(
        report.contains("all that was live at the end is suppressed")
            && report.contains("Unused suppression: leak:nobody (line 3)"),
        "{report}"
    );

    std::fs::write(PLACE.path().join("bad.supp"), "leak:a\nnonsense\n").expect("a file");
    let output = mallow(&["leaks", "--suppressions", "bad.supp", "leak.mallow"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), ""));
    let message = text(&output.stderr);
    assert!(
        message.starts_with("mallow: bad.supp") && message.contains("line 2") && message.lines().count() == 1,
        "{message}"
    );
}

#[test]
fn the_newest_recording_is_shown_and_named() {
    let output = mallow(&["top"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "mallow: showing leak.mallow, the newest recording here\n");
    let empty = tempfile::tempdir().expect("a directory");
    let output = Command::new(MALLOW).arg("report").current_dir(&empty).output().expect("mallow runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("mallow: no recording"), "{}", text(&output.stderr));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    // The pipe's other end is closed before anything is written.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(MALLOW);
    command.args(["report", "--json", "leak.mallow"]).current_dir(&*PLACE).stdout(writer).stderr(Stdio::piped());
    let output = command.output().expect("mallow runs");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
}

#[test]
fn a_full_disk_is_a_failure_in_one_line() {
    let full = File::options().write(true).open("/dev/full").expect("/dev/full");
    let mut command = Command::new(MALLOW);
    command.args(["top", "leak.mallow"]).current_dir(&*PLACE).stdout(full).stderr(Stdio::piped());
    let output = command.output().expect("mallow runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("mallow: cannot write to standard output"), "{}", text(&output.stderr));
}

#[test]
fn mistakes_on_the_command_line_exit_with_2() {
    for arguments in [&["top", "--by", "size"][..], &["record"], &["stat", "--", ""][..1], &["report", "a", "b"]] {
        let output = mallow(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let message = text(&output.stderr);
        assert!(message.starts_with("mallow: ") && message.lines().count() == 1, "{message}");
    }
}
