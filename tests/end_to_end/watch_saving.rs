//! `mallow watch --save-at`: evidence that is written once, before memory runs out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use harness::{Run, directory, mallow, program};
use serde_json::Value;

use crate::watch_harness::{Alive, until_or};

/// A watch of a command of the shell, in this directory.
fn watch(place: &Path, flags: &[&str], command: &str) -> Alive {
    let errors = fs::File::create(place.join("errors")).expect("a file");
    let mut watch = Command::new(mallow());
    watch.args(["watch", "--period", "16KiB"]).args(flags).args(["--", "sh", "-c", command]).current_dir(place);
    Alive::start(watch.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors))
}

/// Files with evidence, by name.
fn saved(place: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(place).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_one = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("saved-"));
    let mut found: Vec<PathBuf> = entries.filter(is_one).collect();
    found.sort();
    found
}

/// Waits until mallow says that it saved.
fn message(place: &Path) -> String {
    let said = || fs::read_to_string(place.join("errors")).unwrap_or_default();
    let look = || said().lines().find(|line| line.contains(": saved ")).map(str::to_owned);
    until_or(look, || panic!("nothing was saved: {}", said()))
}

/// What was live is in the snapshot, as other views see it.
fn shows_swell(place: &Path, snapshot: &Path) {
    let shown = Run::new(mallow(), place).args(["top", "--json"]).arg(snapshot).go();
    assert!(shown.status == 0 && shown.out().contains("\"swell\""), "{} {}", shown.out(), shown.err());
}

#[test]
fn evidence_is_saved_once_at_a_size() {
    let place = directory();
    let command = format!("exec {} 90", program("swells").display());
    let watch = watch(place.path(), &["--save-at", "60MiB", "--snapshots", "heap"], &command);
    let said = message(place.path());
    assert!(said.contains(" of RSS, ") && said.contains("62.9 MB, the size of --save-at"), "{said}");
    let files = saved(&place.path().join("heap"));
    let [snapshot, report] = &files[..] else { panic!("{files:?}") };
    assert!(snapshot.to_string_lossy().ends_with(".pb.gz"), "{files:?}");
    shows_swell(place.path(), snapshot);
    let report = fs::read_to_string(report).expect("a report");
    // With the whole call path, and memory beside it.
    assert!(report.contains("swell") && report.contains("main") && report.contains("RSS"), "{report}");
    // It grows on, and nothing more is saved.
    let status = format!("/proc/{}/task/{0}/children", watch.pid());
    let child = fs::read_to_string(status).expect("children").trim().to_owned();
    let rss = || {
        let status = fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    until_or(|| (rss() > 90 << 10).then_some(()), || panic!("{} kB", rss()));
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(saved(&place.path().join("heap")), files);
    drop(watch);
}

#[test]
fn evidence_is_saved_at_a_share_of_a_limit_of_the_process() {
    let place = directory();
    // 4 GB of addresses, of which Mallow's own take a part.
    let command = format!("ulimit -v 4000000; exec {} 400", program("swells").display());
    let watch = watch(place.path(), &["--save-at", "7%", "--json", "-o", "reports"], &command);
    let said = message(place.path());
    assert!(said.contains("RLIMIT_AS of process ") || said.contains("memory."), "{said}");
    let files = saved(place.path());
    let [report, snapshot] = &files[..] else { panic!("{files:?}") };
    assert!(report.to_string_lossy().ends_with(".json") && snapshot.to_string_lossy().ends_with(".pb.gz"), "{files:?}");
    let report: Value = harness::document(fs::read(report).expect("a report"));
    assert_eq!(report["occasion"], "save");
    drop(watch);
}
