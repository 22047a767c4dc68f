//! `mallow watch` as its users see it: the finding first, rows by place, axes, help, and one screen at the end.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Run, directory, mallow, not_run, program, tool_if_there, wire};
use serde_json::Value;

use crate::watch_harness::{Alive, Screen, control_page, quiet, signal, until, until_it_listens, until_or, wait_for};

/// The server, where there is `script` for a terminal.
fn terminal(test: &str) -> Option<(PathBuf, PathBuf)> {
    let script = tool_if_there("script");
    if script.is_none() {
        not_run(test, "it needs script, of bsdutils");
    }
    script.map(|script| (script, program("leaky_server")))
}

/// The live view of the server, on a terminal.
fn live_view(script: &Path, server: &Path, size: (usize, usize), place: &Path) -> (Alive, Screen) {
    let log = place.join("log");
    let arguments = format!("watch --period 16KiB --log {} -- {}", log.display(), server.display());
    Screen::of(script, size, &arguments)
}

/// The finding in the first line, one row for a line of the program, both axes, and nothing that is cut unseen.
#[test]
fn the_live_view_names_what_grows_in_its_first_line() {
    let Some((script, server)) = terminal("the_live_view_names_what_grows_in_its_first_line") else { return };
    for size in [(80, 24), (200, 50)] {
        let place = directory();
        // A path that leaves no room beside it in 80 columns.
        let deep = place.path().join("d".repeat(60));
        symlink(server.parent().expect("its directory"), &deep).expect("a link");
        let server = deep.join(server.file_name().expect("its name"));
        let (mut shown, screen) = live_view(&script, &server, size, place.path());
        let first_line = || screen.shown().lines().next().unwrap_or_default().trim().to_owned();
        let grows = || {
            let line = first_line();
            (line.starts_with("remember leaky_server.cpp:") && line.contains(" grows ") && line.contains("/h"))
                .then_some(line)
        };
        let headline = until_or(grows, || panic!("{}", screen.shown()));
        assert!(headline.contains(" so far"), "{headline}");
        screen.wait_for("growth");
        let text = screen.shown();
        let row = |line: &&str| line.contains("so far") && line.contains("remember leaky_server.cpp:");
        let rows: Vec<&str> = text.lines().skip(1).filter(row).collect();
        assert!(!rows.is_empty(), "{text}");
        let line_of = |row: &str| row.split("leaky_server.cpp:").nth(1).map(|rest| rest.chars().take(2).collect());
        let lines: Vec<Option<String>> = rows.iter().map(|row| line_of(row)).collect();
        let mut different = lines.clone();
        different.sort();
        different.dedup();
        assert_eq!(lines.len(), different.len(), "a place has one row: {text}");
        for expected in ["B ┤", " 0 B ┼0 ", "time watched", "? help", "from its start; a sample in", "all live"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        // The axis is as long as the watch, which takes as long as the machine needs until something grows.
        let ticks = text.split('┬').skip(1).filter(|label| label.starts_with(|digit: char| digit.is_ascii_digit()));
        assert!(ticks.count() >= 1, "{text}");
        for line in text.lines().map(str::trim_end).filter(|line| line.chars().count() == size.0) {
            let whole = ["…", "─", "watched", "on average"].iter().any(|end| line.ends_with(end));
            // The finding may fill its line to the last column.
            let whole =
                whole || line.starts_with("remember ") && line.contains("; verdict in ") && line.ends_with(" s");
            assert!(whole, "cut: {line:?}\n{text}");
        }
        let mut keys = shown.child.stdin.take().expect("a pipe");
        keys.write_all(b"?").expect("a key");
        screen.wait_for("? or Esc closes");
        keys.write_all(b"?").expect("a key");
        screen.wait_for("? help");
        keys.write_all(b"\r").expect("a key");
        screen.wait_for("3 call paths");
        // What is asked of mallow is asked of the command, too, which then ends: no crash.
        let _ = Command::new("kill").args(["-s", "TERM", &mallow_of(&shown)]).status();
        shown.end();
        until("the summary", || screen.written().contains("Next: ").then_some(()));
        let end = screen.written();
        let summary = &end[end.rfind("\x1b[?1049l").expect("the terminal is given back")..];
        assert!(summary.contains("ended by SIGTERM") && summary.contains("Verdict: "), "{summary}");
        assert!(summary.contains("remember leaky_server.cpp:") && summary.lines().count() <= size.1, "{summary}");
        assert!(!summary.contains("freed last"), "{summary}");
    }
}

/// A terminal window that is closed ends nothing but the view: mallow goes on watching, and ends with the command.
#[test]
fn a_closed_terminal_ends_the_view_alone() {
    let Some((script, server)) = terminal("a_closed_terminal_ends_the_view_alone") else { return };
    let place = directory();
    let (mut shown, screen) = live_view(&script, &server, (80, 24), place.path());
    screen.wait_for("growth");
    let watching = mallow_of(&shown);
    let control = control_page(watching.parse().expect("a pid"));
    let command = fs::read_to_string(format!("/proc/{watching}/task/{watching}/children")).expect("its command");
    shown.child.kill().expect("script to be killed");
    shown.child.wait().expect("script");
    let epoch = || wire::number(&fs::read(&control).expect("the control page"), 0, "control.epoch");
    let mut last = epoch();
    for _ in 0..20 {
        until("another look", || (epoch() != last).then_some(()));
        last = epoch();
    }
    signal(command.trim(), "KILL");
    until("mallow to end", || fs::read_link(format!("/proc/{watching}/exe")).is_err().then_some(()));
}

/// The process that `script` started.
fn mallow_of(script: &Alive) -> String {
    let path = format!("/proc/{0}/task/{0}/children", script.pid());
    let children = fs::read_to_string(path).expect("children of script");
    children.split_whitespace().next().expect("a child").to_owned()
}

/// Watches the server, and returns what mallow printed and its status.
fn lines_of(mode: &[&str], options: &[&str], wait: Option<&str>) -> (String, i32) {
    let place = directory();
    let log = place.path().join("log");
    let mut command = Command::new(mallow());
    command.args(["watch", "--period", "16KiB", "--every", "1h"]).args(options).arg("--");
    command.arg(program("leaky_server")).args(mode);
    let errors = fs::File::create(&log).expect("a file");
    let mut watched = Alive::start(quiet(&mut command).stderr(errors));
    let text = || fs::read_to_string(&log).unwrap_or_default();
    if let Some(wanted) = wait {
        until_or(|| text().contains(wanted).then_some(()), || panic!("{wanted}: {}", text()));
        until_it_listens(&watched);
        watched.signal("USR1");
        until_or(|| text().contains("\n  reported ").then_some(()), || panic!("no report: {}", text()));
        watched.signal("TERM");
    }
    let status = watched.end();
    (text(), status)
}

/// What grows is printed when it is found, and not with the report in an hour; a SIGTERM to mallow is a normal stop.
#[test]
fn growth_is_printed_at_once_and_a_stop_is_no_crash() {
    for (mode, status, outcome) in [(&[][..], 128 + 15, "ended by SIGTERM"), (&["tidy"], 0, "ended with status 0")] {
        let (text, ended) = lines_of(mode, &[], Some(" so far"));
        assert_eq!(ended, status, "{text}");
        // The report of old samples has what grows, which is young.
        assert!(text.contains(" samples; growing, or allocated more than 5 min 00 s ago\n"), "{text}");
        let news = text.lines().find(|line| line.starts_with("mallow: after ")).expect("news");
        assert!(news.contains("remember leaky_server.cpp:") && news.contains(" grows "), "{news}");
        let at = text.find("Watched for ").unwrap_or_else(|| panic!("no summary: {text}"));
        let summary = &text[at..];
        assert!(summary.lines().count() <= 22, "{summary}");
        assert!(summary.contains(outcome) && !text.contains("freed last") && !text.contains("allocated by"), "{text}");
        // What it freed at its end grew all the same.
        let verdict = summary.lines().find(|line| line.starts_with("Verdict: ")).expect("a verdict");
        assert!(verdict.contains("remember leaky_server.cpp:") && verdict.contains("so far"), "{summary}");
        assert!(summary.contains("\nGrowing\n") && summary.contains("(3 sites)"), "{summary}");
        assert!(summary.lines().last().is_some_and(|line| line.starts_with("Next: ")), "{summary}");
    }
}

#[test]
fn a_run_of_a_moment_was_not_watched_for_nothing() {
    let place = directory();
    let run = Run::new(mallow(), place.path()).args(["watch", "--", "true"]).go();
    assert!(run.status == 0 && run.err().contains("Watched for "), "{}", run.err());
    assert!(!run.err().contains("Watched for 0"), "{}", run.err());
}

/// A place is all its call paths, and so is its growth.
#[test]
fn reports_list_places() {
    let place = directory();
    let file = place.path().join("reports");
    let mut command = Command::new(mallow());
    command.args(["watch", "--period", "16KiB", "--every", "1s", "--json", "-o"]).arg(&file);
    let _watched = Alive::start(quiet(command.arg("--").arg(program("leaky_server"))));
    let grows =
        |report: &Value| report["places"][0]["sites"] == 3 && report["places"][0]["growth"]["verdict"] == "so_far";
    let report = wait_for(&file, "a place that grows", grows);
    let first = &report["places"][0];
    assert!(first["function"].as_str().is_some_and(|name| name.contains("::remember(")), "{first:#}");
    assert_eq!(first["looked_past"], false);
    assert!(report["places_growing_so_far"].as_u64() >= Some(1) && report["growing_places"] == 0, "{report:#}");
    let sites = report["sites"].as_array().expect("sites").iter();
    let of_it = sites.filter(|site| {
        let own = site["frames"].as_array().expect("frames").iter().find(|frame| frame["looked_past"] == false);
        own.is_some_and(|frame| frame["function"] == first["function"] && frame["line"] == first["line"])
    });
    let (mut bytes, mut count) = (0.0, 0);
    for site in of_it {
        bytes += site["live_bytes"]["value"].as_f64().expect("a number");
        count += 1;
    }
    assert_eq!(count, 3, "{report:#}");
    let whole = first["live_bytes"]["value"].as_f64().expect("a number");
    assert!((bytes - whole).abs() < 1.0, "{bytes} {whole}");
}

/// After a fault, what was freed last follows.
#[test]
fn recent_frees_follow_a_crash() {
    let (text, status) = lines_of(&["crash"], &[], None);
    assert_eq!(status, 128 + 11, "{text}");
    for expected in ["ended by SIGSEGV", "the command crashed (SIGSEGV); what it freed last:", "allocated by"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}
