//! Recordings that travel: packed, and read where nothing of the program is left.

use std::fs;
use std::path::Path;

use harness::{Case, Outcome, Run, directory, mallow, program, root, tool};

fn views(file: &Path, around: &[&str], place: &Path) -> Vec<String> {
    let views: [&[&str]; 4] = [
        &["report", "--stacks", "--full-names", "--limit", "0"],
        &["report", "--json"],
        &["top", "--cum", "--full-names", "--limit", "0"],
        &["leaks", "--json"],
    ];
    let run = |view: &&[&str]| {
        let mallow = mallow();
        let command = [mallow.to_str().expect("a plain path")];
        let all: Vec<&str> = around.iter().chain(&command).chain(view.iter()).copied().collect();
        let outcome = Run::new(all[0], place).args(&all[1..]).arg(file).go();
        assert_eq!(outcome.status, 0, "{}", outcome.err());
        outcome.out()
    };
    views.iter().map(run).collect()
}

/// A mount namespace in which neither programs, libraries nor debug files are where they were: as on another machine, where
/// mallow itself is all that there is. It is one that the tests can write to, and so a copy.
fn elsewhere(place: &Path) -> Vec<String> {
    let away = place.join("away");
    fs::create_dir_all(&away).expect("a directory");
    let unshare: &[&str] = if root() { &["unshare", "-m"] } else { &["unshare", "-Urm"] };
    let targets = program("busy").parent().expect("a directory").to_owned();
    let hidden =
        ["/usr/lib/debug".to_owned(), targets.display().to_string(), harness::workspace().display().to_string()];
    let hide: Vec<String> =
        hidden.iter().filter(|p| Path::new(p).is_dir()).map(|p| format!("mount -t tmpfs none '{p}'")).collect();
    let copy = place.join("mallow");
    fs::copy(mallow(), &copy).expect("a copy of mallow");
    let script = format!("{} && shift && exec '{}' \"$@\"", hide.join(" && "), copy.display());
    unshare.iter().map(|w| (*w).to_owned()).chain(["sh".to_owned(), "-c".to_owned(), script, "sh".to_owned()]).collect()
}

#[test]
fn a_packed_recording_reads_the_same_on_a_machine_without_its_files() {
    let cases = [
        Case::target("exact_new"),
        Case::new("/usr/bin/python3")
            .args(["-c", "import json; json.dumps(list(range(999)))"])
            .env("PYTHONMALLOC", "malloc"),
        Case::new(tool("sqlite3")).args([":memory:", "create table t(a); insert into t values (1); select * from t"]),
    ];
    for case in cases {
        let record = case.record();
        let place = record.directory.path();
        let before = views(&record.file, &[], place);
        let packed = place.join("packed.mallow");
        let outcome = Run::new(mallow(), place).arg("pack").arg(&record.file).arg("-o").arg(&packed).go();
        assert_eq!(outcome.status, 0, "{}", outcome.err());
        let around = elsewhere(place);
        let around: Vec<&str> = around.iter().map(String::as_str).collect();
        assert_eq!(views(&packed, &around, place), before);
    }
    // And without packing, something is missing there: else the test above would show nothing.
    let record = Case::target("busy").args(["2", "100"]).record();
    let place = record.directory.path();
    let around = elsewhere(place);
    let around: Vec<&str> = around.iter().map(String::as_str).collect();
    assert_ne!(views(&record.file, &around, place), views(&record.file, &[], place));
}

#[test]
fn a_full_disk_leaves_the_old_recording_whole() {
    let record = Case::target("exact_new").record();
    let place = directory();
    let script = "mkdir small && mount -t tmpfs -o size=64k none small && cp \"$2\" small/x.mallow && \
        head -c 100000 /dev/zero > small/filler 2> /dev/null; \"$1\" pack small/x.mallow; status=$?; \
        cmp \"$2\" small/x.mallow && ls -A small; exit $status";
    let unshare: &[&str] = if root() { &["-m"] } else { &["-Urm"] };
    let outcome: Outcome = Run::new("unshare", place.path())
        .args(unshare)
        .args(["sh", "-c", script, "sh"])
        .arg(mallow())
        .arg(&record.file)
        .go();
    assert_eq!((outcome.status, outcome.out().as_str()), (1, "filler\nx.mallow\n"), "{}", outcome.err());
    let err = outcome.err();
    assert!(err.starts_with("mallow: cannot write small/x.mallow: No space left") && err.lines().count() == 1, "{err}");
}
