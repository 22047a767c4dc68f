//! Arguments of command lines, which may be passwords: what a process has wiped is in no recording, and nothing is with
//! `--no-arguments`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness::{Outcome, Run, RunDirectories, directory, mallow, program, workspace};
use serde_json::Value;

const SECRET: &str = "-pHunter2Hunter2";

fn wipes() -> String {
    program("wipes").to_str().expect("a plain path").to_owned()
}

fn run(place: &Path, arguments: &[&str]) -> Outcome {
    Run::new(mallow(), place).args(arguments).go()
}

fn report(place: &Path, recording: &str) -> Value {
    let run = run(place, &["report", "--json", recording]);
    assert_eq!(run.status, 0, "{}", run.err());
    serde_json::from_slice(&run.stdout).expect("JSON")
}

/// All that the blocks of a recording hold, unpacked by the reader that mallow's authors did not use.
fn unpacked(recording: &Path) -> Vec<u8> {
    let script = "import sys; sys.path.insert(0, sys.argv[1]); import mallow_format as f
for block in f.read_blocks(open(sys.argv[2], 'rb').read())[0]:
    for column in block.columns: sys.stdout.buffer.write(column)";
    let readers = workspace().join("tests/readers");
    let run = Command::new("python3").args(["-c", script]).arg(readers).arg(recording).output().expect("python3");
    assert!(run.status.success() && !run.stdout.is_empty(), "{}", String::from_utf8_lossy(&run.stderr));
    run.stdout
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// mysql and psql overwrite a password on their command lines: a recording had it all the same.
#[test]
fn what_a_process_has_wiped_is_not_in_the_recording() {
    let place = directory();
    let wiped = "x".repeat(SECRET.len());
    for (how, flags) in [("exit", &[][..]), ("exit", &["--no-scan", "--no-rss"]), ("kill", &[])] {
        let command = ["--", &wipes(), SECRET, how];
        let recorded = run(place.path(), &[&["record", "--no-report", "-o", "r.mallow"], flags, &command].concat());
        assert_eq!(recorded.status, if how == "kill" { 137 } else { 0 }, "{}", recorded.err());
        let report = report(place.path(), "r.mallow");
        let shown = serde_json::json!([wipes(), wiped, how]);
        assert_eq!(report["command"], shown, "{how} {flags:?}");
        assert_eq!(report["processes"][0]["arguments"], shown, "{how} {flags:?}");
        assert!(!contains(&unpacked(&place.path().join("r.mallow")), "Hunter2"), "{how} {flags:?}");
    }
}

/// What a program does not wipe stays, and a title takes the place of all arguments, as ps shows it.
#[test]
fn arguments_are_those_that_a_process_shows_at_its_end() {
    let place = directory();
    for (how, shown) in [
        ("keeps", serde_json::json!([wipes(), SECRET, "keeps", "a b", ""])),
        ("title", serde_json::json!(["wipes: at work"])),
        ("name", serde_json::json!(["wiper"])),
    ] {
        let recorded =
            run(place.path(), &["record", "--no-report", "-o", "r.mallow", "--", &wipes(), SECRET, how, "a b", ""]);
        assert_eq!(recorded.status, 0, "{}", recorded.err());
        let report = report(place.path(), "r.mallow");
        assert_eq!((&report["command"], &report["processes"][0]["arguments"]), (&shown, &shown), "{how}");
    }
}

#[test]
fn a_recording_without_arguments_has_the_names_of_programs_alone() {
    let place = directory();
    let child = format!("'{}' {SECRET} keeps; exit 0", wipes());
    let command = ["--", "/bin/sh", "-c", &child];
    let flags = ["record", "--no-report", "--no-arguments", "-o", "r.mallow"];
    let recorded = run(place.path(), &[&flags[..], &command].concat());
    assert_eq!(recorded.status, 0, "{}", recorded.err());
    assert!(!contains(&unpacked(&place.path().join("r.mallow")), "Hunter2"));
    let report = report(place.path(), "r.mallow");
    assert_eq!(report["command"], serde_json::json!(["/bin/sh"]));
    let processes = report["processes"].as_array().expect("processes");
    let of_child: Vec<_> = processes.iter().filter(|process| process["arguments"][0] == wipes()).collect();
    assert!(of_child.len() == 1 && processes.iter().all(|p| p["arguments"].as_array().is_some_and(|a| a.len() == 1)));
}

/// Also what a killed mallow leaves, and what is recovered of it.
#[test]
fn what_a_killed_mallow_leaves_has_no_arguments_either() {
    let place = directory();
    let file = place.path().join("go");
    let before = RunDirectories::now();
    let mut child = Command::new(mallow())
        .args(["record", "--no-report", "--no-arguments", "-o", "r.mallow", "--", &wipes(), SECRET, "waits"])
        .arg(&file)
        .current_dir(place.path())
        .stderr(Stdio::null())
        .spawn()
        .expect("mallow");
    let patience = Instant::now() + Duration::from_secs(60);
    let left = loop {
        assert!(Instant::now() < patience, "no process was recorded");
        std::thread::sleep(Duration::from_millis(20));
        let is_spooled = |dir: &std::path::PathBuf| {
            let names = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
            names.into_iter().any(|name| name.as_encoded_bytes().starts_with(b"p-"))
                && fs::metadata(dir.join("spool")).is_ok_and(|spool| spool.len() > 0)
        };
        if let Some(left) = before.new_of(child.id()).into_iter().find(is_spooled) {
            break left;
        }
    };
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    let files =
        || fs::read_dir(&left).expect("it is there").flatten().map(|entry| entry.path()).filter(|p| p.is_file());
    assert!(files().count() >= 3, "about, the spool, a process");
    for path in files().filter(|path| !path.ends_with("libmallow.so")) {
        assert!(!contains(&fs::read(&path).expect("a file"), "Hunter2"), "{}", path.display());
    }
    fs::write(&file, "").expect("a file");
    let recovered = run(place.path(), &["recover", left.to_str().expect("a plain path"), "-o", "again.mallow"]);
    assert_eq!(recovered.status, 0, "{}", recovered.err());
    assert_eq!(report(place.path(), "again.mallow")["command"], serde_json::json!([wipes()]));
    assert!(!contains(&unpacked(&place.path().join("again.mallow")), "Hunter2"));
}

#[test]
fn a_recording_loses_its_arguments_when_it_is_packed_or_exported() {
    let place = directory();
    let recorded = run(place.path(), &["record", "--no-report", "-o", "r.mallow", "--", &wipes(), SECRET, "keeps"]);
    assert_eq!(recorded.status, 0, "{}", recorded.err());
    assert!(contains(&unpacked(&place.path().join("r.mallow")), "Hunter2"));
    for format in ["pprof", "folded", "dhat", "speedscope", "firefox", "dtrace", "heaptrack", "html", "csv", "parquet"]
    {
        let exported = run(place.path(), &["export", "--no-arguments", "--format", format, "-o", "out", "r.mallow"]);
        assert_eq!(exported.status, 0, "{format}: {}", exported.err());
        let mut written = fs::read(place.path().join("out")).expect("a file");
        if written.starts_with(&[0x1f, 0x8b]) {
            written = Command::new("gzip").args(["-dc"]).arg(place.path().join("out")).output().expect("gzip").stdout;
        }
        assert!(!written.is_empty() && !contains(&written, "Hunter2"), "{format}");
    }
    // Twice, and of one that is packed already.
    for (from, to) in [("r.mallow", "packed.mallow"), ("packed.mallow", "packed.mallow"), ("r.mallow", "r.mallow")] {
        let packed = run(place.path(), &["pack", "--no-arguments", "-o", to, from]);
        assert_eq!(packed.status, 0, "{}", packed.err());
        assert!(!contains(&unpacked(&place.path().join(to)), "Hunter2"), "{to}");
        let report = report(place.path(), to);
        assert_eq!(
            (&report["command"], &report["allocations"]),
            (&serde_json::json!([wipes()]), &serde_json::json!(2))
        );
    }
}
