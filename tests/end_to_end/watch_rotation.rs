//! `mallow watch -o FILE` beside logrotate: HUP opens the file anew, and no report is lost, cut or doubled.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use harness::{directory, mallow, program};
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::Value;

use crate::fleet_match::Fleet;
use crate::watch_harness::{Alive, occasion, quiet, reports, until, until_it_listens, until_or, wait_for};

/// A mallow that writes reports to `reports` in a directory, and its standard error to `errors`.
struct Reporter {
    place: tempfile::TempDir,
    watch: Alive,
}

impl Reporter {
    /// A command that it starts, with a report each 200 ms.
    fn start() -> Self {
        let place = directory();
        let errors = fs::File::create(place.path().join("errors")).expect("a file");
        let mut command = Command::new(mallow());
        command.args(["watch", "--period", "16KiB", "--every", "200ms", "--json", "-o"]);
        command.arg(place.path().join("reports")).arg("--").arg(program("server"));
        let watch = Alive::start(quiet(&mut command).stderr(errors));
        until_it_listens(&watch);
        Self { place, watch }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn move_away(&self) -> PathBuf {
        let old = self.path("reports.1");
        fs::rename(self.path("reports"), &old).expect("the file");
        old
    }

    fn wait_for_error(&self, text: &str) {
        let errors = || fs::read_to_string(self.path("errors")).unwrap_or_default();
        until_or(|| errors().contains(text).then_some(()), || panic!("{text:?} is not in {:?}", errors()));
    }

    fn end(&mut self) {
        self.watch.signal("TERM");
        assert_eq!(self.watch.end(), 0);
    }
}

/// Waits until there are more reports in a file than so many.
fn until_more(file: &Path, than: usize) {
    until("a further report", || (reports(file).len() > than).then_some(()));
}

/// The reports of all files, which follow each other; each line of the files is whole.
fn all(files: &[&Path]) -> Vec<Value> {
    let mut all = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).expect("a file");
        assert!(text.is_empty() || text.ends_with('\n'), "{}: {text:?}", file.display());
        all.extend(reports(file));
    }
    let times: Vec<u64> = all.iter().filter_map(|report| report["watched_ms"].as_u64()).collect();
    assert!(times.is_sorted(), "they follow each other: {times:?}");
    // One for HUP may have the millisecond of one that was due.
    let twice = all.windows(2).find(|pair| pair[0] == pair[1]);
    assert!(twice.is_none(), "none comes twice: {twice:?}");
    all
}

fn count(all: &[Value], name: &str) -> usize {
    all.iter().filter(|report| occasion(name)(report)).count()
}

#[test]
fn hup_opens_a_file_that_was_moved_away_anew() {
    let mut reporter = Reporter::start();
    let file = reporter.path("reports");
    until_more(&file, 2);
    let old = reporter.move_away();
    // Until the signal, reports go on in the file that was moved.
    until_more(&old, reports(&old).len());
    assert!(!file.exists());
    reporter.watch.signal("HUP");
    let first = until("a new file", || reports(&file).into_iter().next());
    assert_eq!(first["occasion"], "hup", "what the signal asks for is in the new one");
    let complete = fs::read(&old).expect("the old one");
    until_more(&file, 3);
    assert_eq!(fs::read(&old).expect("the old one"), complete, "nothing more comes to it");
    reporter.end();
    let all = all(&[&old, &file]);
    assert_eq!((count(&all, "hup"), count(&all, "end")), (1, 1));
    assert_eq!(fs::read_to_string(reporter.path("errors")).expect("a file").matches("cannot").count(), 0);
}

#[test]
fn a_fleet_opens_its_file_anew_too() {
    let fleet = Fleet::new();
    let _one = fleet.start("rotated", "leak");
    let mut watch = fleet.watch("reports", "rotated", &[]);
    let (file, old) = (fleet.path("reports"), fleet.path("reports.1"));
    wait_for(&file, "a process", |report| report["processes"] == 1);
    fs::rename(&file, &old).expect("the file");
    watch.signal("HUP");
    let first = until("a new file", || reports(&file).into_iter().next());
    assert_eq!(first["occasion"], "hup");
    let complete = fs::read(&old).expect("the old one");
    until_more(&file, 2);
    assert_eq!(fs::read(&old).expect("the old one"), complete);
    watch.signal("TERM");
    assert_eq!(watch.end(), 0);
    let all = all(&[&old, &file]);
    assert_eq!((count(&all, "hup"), count(&all, "end")), (1, 1));
}

/// Its place is taken by a directory, then by a pipe that nobody reads: the old file goes on, and mallow neither ends
/// nor waits.
#[test]
fn a_file_that_cannot_be_opened_anew_leaves_the_old_one() {
    let mut reporter = Reporter::start();
    let file = reporter.path("reports");
    until_more(&file, 0);
    let old = reporter.move_away();
    let asked = |hups: usize| {
        // Two reports are told apart by their milliseconds.
        sleep(Duration::from_millis(2));
        reporter.watch.signal("HUP");
        until("the report in the old file", || (count(&reports(&old), "hup") == hups).then_some(()));
    };
    fs::create_dir(&file).expect("a directory");
    asked(1);
    reporter.wait_for_error("Is a directory");
    fs::remove_dir(&file).expect("the directory");
    mkfifoat(CWD, &file, Mode::RUSR | Mode::WUSR).expect("a pipe");
    asked(2);
    reporter.wait_for_error("No such device or address");
    reporter.wait_for_error("reports continue in the file that is open");
    fs::remove_file(&file).expect("the pipe");
    reporter.watch.signal("HUP");
    until_more(&file, 0);
    reporter.end();
    let all = all(&[&old, &file]);
    assert_eq!((count(&all, "hup"), count(&all, "end")), (3, 1));
}

/// A file that nobody moved stays open: HUP asks for a report, as ever.
#[test]
fn hup_without_a_rotation_reports_to_the_same_file() {
    let mut reporter = Reporter::start();
    let file = reporter.path("reports");
    until_more(&file, 0);
    let its = fs::metadata(&file).expect("the file").ino();
    reporter.watch.signal("HUP");
    wait_for(&file, "the answer", occasion("hup"));
    assert_eq!(fs::metadata(&file).expect("the file").ino(), its);
    reporter.end();
    assert_eq!(count(&all(&[&file]), "hup"), 1);
}

/// With these directives, and forced.
fn logrotate(reporter: &Reporter, directives: &str) {
    let config = reporter.path("config");
    fs::write(&config, format!("{} {{\n{directives}\n}}\n", reporter.path("reports").display())).expect("a file");
    let mut rotate = Command::new("/usr/sbin/logrotate");
    let ended = rotate.args(["--force", "--state"]).arg(reporter.path("state")).arg(&config).output();
    let ended = ended.expect("logrotate: tests/prerequisites lists what to install");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn logrotate_moves_reports_and_signals() {
    let mut reporter = Reporter::start();
    let file = reporter.path("reports");
    let pid = reporter.watch.pid();
    let directives =
        format!("rotate 9\ncreate 0640\ncompress\ndelaycompress\npostrotate\nkill -s HUP {pid}\nendscript");
    for turn in 1..=3 {
        until_more(&file, 2);
        logrotate(&reporter, &directives);
        until("the new file", || (count(&reports(&file), "hup") == 1).then_some(()));
        assert!(reporter.path("reports.1").exists(), "{turn}");
        assert_eq!(fs::metadata(&file).expect("the file").mode() & 0o777, 0o640);
    }
    reporter.end();
    let unpack = Command::new("gunzip").arg(reporter.path("reports.3.gz")).arg(reporter.path("reports.2.gz")).status();
    assert!(unpack.expect("gunzip").success());
    let files = ["reports.3", "reports.2", "reports.1", "reports"].map(|name| reporter.path(name));
    let all = all(&files.each_ref().map(PathBuf::as_path));
    assert_eq!((count(&all, "hup"), count(&all, "end")), (3, 1));
}

/// Mallow appends: a file that was emptied begins at its begin, without a hole, and needs no signal.
#[test]
fn logrotate_copies_and_truncates() {
    let mut reporter = Reporter::start();
    let file = reporter.path("reports");
    until_more(&file, 2);
    logrotate(&reporter, "rotate 9\ncopytruncate");
    until_more(&file, 2);
    reporter.end();
    let all = all(&[&reporter.path("reports.1"), &file]);
    assert_eq!((count(&all, "hup"), count(&all, "end")), (0, 1));
}
