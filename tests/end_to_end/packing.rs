//! Recordings that travel: packed, and read where nothing of the program is left.

use std::fs;
use std::path::Path;

use harness::{Case, Outcome, Run, Viewer, directory, mallow, program, root, tool};

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

/// A mount namespace in which neither programs, libraries nor debug files are where they were: as on another machine,
/// where mallow itself is all that there is. It is one that the tests can write to, and so a copy.
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

/// A program that was moved has its names by its build-id: from a file, from a directory, below the root of another
/// system. What was packed so needs no file.
#[test]
fn names_come_from_files_that_the_user_names() {
    let place = directory();
    let at = |name: &str| place.path().join(name);
    let source = "#include <stdlib.h>\nvoid *volatile kept;\n__attribute__((noinline)) static void hold(void) { kept = malloc(1000); }\n\
        int main(void) { for (int i = 0; i < 50; i++) hold(); return 0; }\n";
    fs::write(at("app.c"), source).expect("a source");
    let build = |name: &str, more: &[&str]| {
        let outcome = Run::new(tool("cc"), place.path())
            .args(["-O1", "-no-pie", "-Wl,--build-id", "app.c", "-o", name])
            .args(more)
            .go();
        assert_eq!(outcome.status, 0, "{}", outcome.err());
    };
    build("app", &[]);
    let mallow = |arguments: &[&str]| {
        let outcome = Run::new(mallow(), place.path()).args(arguments).go();
        assert_eq!(outcome.status, 0, "{arguments:?}: {}", outcome.err());
        outcome
    };
    mallow(&["record", "--no-report", "-o", "run.mallow", "--", "./app"]);
    let below = at("image").join(place.path().strip_prefix("/").expect("a whole path"));
    fs::create_dir_all(&below).expect("a directory");
    fs::create_dir_all(at("old/deep")).expect("a directory");
    fs::copy(at("app"), below.join("app")).expect("a copy");
    fs::rename(at("app"), at("old/deep/renamed")).expect("it is moved");
    mallow(&["record", "--no-report", "-o", "other.mallow", "--", "ls"]);
    let has_names = |outcome: &Outcome| outcome.out().contains("hold");
    assert!(!has_names(&mallow(&["tree", "run.mallow"])));
    for flags in [["--binary", "old/deep/renamed"], ["--binary", "old"], ["--symfs", "image"]] {
        for view in [
            &["tree"][..],
            &["report"],
            &["list", "hold"],
            &["export", "--format", "folded", "-o", "-"],
            &["rss", "--at", "end", "--limit", "0"],
            &["diff", "other.mallow"],
        ] {
            let seen = mallow(&[view, &flags, &["run.mallow"]].concat());
            assert!(has_names(&seen), "{view:?} {flags:?}: {}{}", seen.out(), seen.err());
        }
        // Of some sizes, too, for which it is read anew; and in the page that compares two.
        for files in [&["run.mallow"][..], &["other.mallow", "run.mallow"]] {
            let viewer = Viewer::start(place.path(), &[&flags[..], files].concat());
            let changes = if files.len() == 2 { "/api/diff?size=500.." } else { "/api/top" };
            for request in ["/api/top?raw=1", "/api/top?raw=1&size=500..", changes] {
                let answer = viewer.get(request);
                assert!(
                    answer.status == 200 && answer.text().contains("hold"),
                    "{flags:?} {request}: {}",
                    answer.text()
                );
            }
        }
        mallow(&["pack", flags[0], flags[1], "-o", "packed.mallow", "run.mallow"]);
        assert!(has_names(&mallow(&["tree", "packed.mallow"])), "{flags:?}");
    }
    // Another build, of whatever name, has other functions at these addresses.
    build("other", &["-O0"]);
    let seen = mallow(&["tree", "--binary", "other", "run.mallow"]);
    assert!(!has_names(&seen) && seen.err().contains("has no call path through it"), "{}{}", seen.out(), seen.err());
    let packed = mallow(&["tree", "--binary", "old", "packed.mallow"]);
    assert!(packed.err().contains("carries its names"), "{}", packed.err());
    let missing = Run::new(harness::mallow(), place.path()).args(["tree", "--binary", "none", "run.mallow"]).go();
    assert!(missing.status == 1 && missing.err().contains("cannot read names from none"), "{}", missing.err());
}

/// A profile of another tool has no build-id: the file's name is what there is.
#[test]
fn a_profile_without_build_ids_takes_names_from_a_file_of_the_same_name() {
    let place = directory();
    fs::create_dir(place.path().join("build")).expect("a directory");
    let app = place.path().join("build/app");
    fs::write(place.path().join("app.c"), "int hold(void) { return 3; }\nint main(void) { return hold(); }\n")
        .expect("a source");
    let cc = Run::new(tool("cc"), place.path()).args(["-O0", "-no-pie", "app.c", "-o"]).arg(&app).go();
    assert_eq!(cc.status, 0, "{}", cc.err());
    let symbols = Run::new(tool("nm"), place.path()).arg(&app).go().out();
    let line = symbols.lines().find(|line| line.ends_with(" T hold")).expect("a symbol");
    let start = u64::from_str_radix(&line[..16], 16).expect("an address");
    // The file is mapped at 0x400000, as it is.
    let text = format!(
        "heap profile: 1: 8 [1: 8] @ heapprofile\n1: 8 [1: 8] @ {:#x}\n\nMAPPED_LIBRARIES:\n\
         {start:x}-{:x} r-xp {:08x} 00:00 0 /nowhere/app\n",
        start + 5,
        start + 64,
        start - 0x40_0000
    );
    fs::write(place.path().join("a.heap"), text).expect("a profile");
    let top = |flags: &[&str]| Run::new(mallow(), place.path()).arg("top").args(flags).arg("a.heap").go();
    assert!(!top(&[]).out().contains("hold"), "{}", top(&[]).out());
    for flags in [["--binary", "build/app"], ["--binary", "build"]] {
        let seen = top(&flags);
        assert!(seen.out().contains("hold"), "{}{}", seen.out(), seen.err());
    }
}
