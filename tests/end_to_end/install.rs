//! `make install`, and the installed binary in the hands of somebody else.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use harness::{Run, directory, mallow, not_run, number, open_directory, program, root, tool, workspace};

/// The user that owns nothing, on Debian and elsewhere.
const NOBODY: u32 = 65534;

/// Bytes that the installed command may have: its code and the names of its own functions.
const LARGEST: u64 = 25_000_000;

#[test]
fn the_installed_binary_serves_another_user() {
    let place = open_directory();
    let built = mallow().canonicalize().expect("its path");
    // -o: what is tested is the binary as it is, whatever the sources' dates.
    let make = Run::new("make", &workspace())
        .arg("-o")
        .arg(&built)
        .arg("install")
        .arg(format!("MALLOW={}", built.display()))
        .arg(format!("DESTDIR={}", place.path().display()))
        .arg("PREFIX=/opt/some where")
        .go();
    assert_eq!(make.status, 0, "{}{}", make.out(), make.err());
    let installed = place.path().join("opt/some where/bin/mallow");
    if built.parent().is_some_and(|directory| directory.ends_with("release")) {
        let bytes = fs::metadata(&installed).expect("the installed binary").len();
        assert!(bytes <= LARGEST, "{bytes} bytes are installed");
    }
    let work = place.path().join("work");
    fs::create_dir(&work).expect("a directory");
    let mut around = vec![program("with").into_os_string()];
    if root() {
        chown(&work, Some(NOBODY), Some(NOBODY)).expect("giving it away");
        around.push(format!("uid={NOBODY}").into());
    } else {
        not_run("the_installed_binary_serves_another_user", "it needs root to be another user; it is run by this one");
    }
    around.push("--".into());
    let run = |words: &[&str]| {
        Run::new(&around[0], &work)
            .args(&around[1..])
            .arg(&installed)
            .args(words)
            .env("HOME", None::<&str>)
            .env("XDG_CACHE_HOME", None::<&str>)
            .env("XDG_RUNTIME_DIR", None::<&str>)
            .go()
    };
    let recorded = run(&["record", "--", "sh", "-c", "ls / | sort > list; wc -l < list; exit 4"]);
    assert_eq!(recorded.status, 4, "{}", recorded.err());
    assert!(
        recorded.err().ends_with("mallow: recorded to sh.mallow; mallow view sh.mallow opens it\n"),
        "{}",
        recorded.err()
    );
    let report = run(&["report", "--json"]);
    assert_eq!(report.status, 0, "{}", report.err());
    let json: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert!(json["processes"].as_array().is_some_and(|all| all.len() >= 4), "{json:#}");
    assert!(number(&json, "allocations") > 20, "{json:#}");
    let counted = run(&["stat", "true"]);
    assert_eq!((counted.status, counted.out().as_str()), (0, ""), "{}", counted.err());
    let mut files: Vec<_> = fs::read_dir(&work).expect("the place").flatten().map(|entry| entry.file_name()).collect();
    files.sort();
    assert_eq!(files, ["list", "sh.mallow"]);
}

/// Where there is nothing but the command, it starts.
#[test]
fn the_built_command_needs_no_library() {
    let built = mallow().canonicalize().expect("its path");
    if !built.parent().is_some_and(|directory| directory.ends_with("release")) {
        not_run("the_built_command_needs_no_library", "this one was built for tests, and is dynamic");
        return;
    }
    let headers = Run::new("readelf", &workspace()).args(["--wide", "--segments", "--dynamic"]).arg(&built).go().out();
    assert!(!headers.contains("INTERP") && !headers.contains("NEEDED"), "{headers}");
    if !root() {
        not_run("the_built_command_needs_no_library", "it needs root to change the root directory; its header is read");
        return;
    }
    let place = directory();
    fs::copy(&built, place.path().join("mallow")).expect("a copy");
    let run = Run::new("chroot", place.path()).arg(place.path()).args(["/mallow", "--version"]).go();
    assert_eq!((run.status, run.err().as_str()), (0, ""), "{}", run.out());
}

/// Who is not root gets no package: what is missing is named, and that is the end.
#[test]
fn what_the_tests_lack_is_named() {
    let place = open_directory();
    let script = place.path().join("prerequisites");
    fs::copy(workspace().join("tests/prerequisites"), &script).expect("a copy");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its mode");
    let programs = place.path().join("bin");
    fs::create_dir(&programs).expect("a directory");
    for name in ["bash", "id", "sort", "git", "make"] {
        symlink(tool(name), programs.join(name)).expect("a link");
    }
    let mut around = vec![program("with").into_os_string()];
    if root() {
        around.push(format!("uid={NOBODY}").into());
    }
    around.push("--".into());
    let run = Run::new(&around[0], place.path())
        .args(&around[1..])
        .arg(tool("bash"))
        .arg(&script)
        .env("PATH", Some(&programs))
        .env("HOME", None::<&str>)
        .go();
    assert_eq!((run.status, run.out().as_str()), (1, ""), "{}", run.err());
    let err = run.err();
    assert!(err.starts_with("prerequisites: missing; as root: apt-get install ") && err.lines().count() == 1, "{err}");
    for (package, missing) in [("sqlite3", true), ("redis-server", true), ("git", false), ("make", false)] {
        assert_eq!(err.split_whitespace().any(|word| word == package), missing, "{package}: {err}");
    }
}
