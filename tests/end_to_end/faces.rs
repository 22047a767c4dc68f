//! Measured regions from other languages: each face is built and counted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Run, mallow, not_run, program, tool, tool_if_there, workspace};
use serde_json::Value;

/// The least that the measured runs of each region had: name, allocations, remaining, operations.
fn regions(dir: &Path, command: &[&str], environment: &[(&str, &str)]) -> Vec<(String, i64, i64, u64)> {
    let mut run = Run::new(mallow(), dir).args(["test", "--json", "--runs", "3", "--"]).args(command);
    for (name, value) in environment {
        run = run.env(name, Some(value));
    }
    let done = run.go();
    // No baseline: broken, and counted all the same.
    assert_eq!(done.status, 4, "{}{}", done.out(), done.err());
    let report: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|e| panic!("{e}: {}", done.out()));
    let cases = report["cases"].as_array().expect("cases").iter();
    cases
        .map(|case| {
            let measured = &case["measured"];
            assert_eq!(measured["runs"].as_array().map(Vec::len), Some(3), "{case}");
            let number = |key: &str| measured[key].as_i64().unwrap_or_else(|| panic!("{key}: {case}"));
            let name = case["name"].as_str().expect("a name").to_owned();
            (name, number("total_allocations"), number("remaining_allocations"), number("operations") as u64)
        })
        .collect()
}

/// Which stacks allocate, as text: without a function of the face, and of the language's that the face goes through.
fn without_the_face(dir: &Path, program: &str, hidden: &[&str]) -> String {
    let done = Run::new(mallow(), dir).args(["test", "--runs", "1", "--explain", "-v", "--", program]).go();
    let out = done.out();
    let stacks = out.split_once("these are all that allocate now").unwrap_or_else(|| panic!("{out}")).1;
    for name in hidden {
        assert!(!stacks.contains(name), "{name}: {stacks}");
    }
    stacks.to_owned()
}

#[test]
fn cpp() {
    let dir = tempfile::tempdir().expect("a directory");
    let target = program("gate_faces");
    let cases = regions(dir.path(), &[target.to_str().expect("a path")], &[]);
    // Each run frees the vector of the one before: the measured ones leave as many as they found.
    assert_eq!(cases[0], ("vector".to_owned(), 1, 0, 100));
    assert_eq!(cases[1], ("nothing".to_owned(), 0, 0, 0));
    // The string, the exception and its text; freed within the scope but for those of the exception.
    assert_eq!((cases[2].0.as_str(), cases[2].3), ("scope", 3));
    assert!((2..6).contains(&cases[2].1), "{cases:?}");
    without_the_face(dir.path(), target.to_str().expect("a path"), &["measure", "mallow.h", "libmallow"]);
}

#[test]
fn rust() {
    let dir = tempfile::tempdir().expect("a directory");
    let face = workspace().join("faces/rust");
    let build = |arguments: &[&str]| {
        let done = Command::new("rustc")
            .args(["--edition", "2024", "-O", "-g"])
            .args(arguments)
            .current_dir(dir.path())
            .output();
        let done = done.expect("rustc");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    let path = |part: &str| face.join(part).to_str().expect("a path").to_owned();
    build(&["--crate-type", "rlib", "--crate-name", "mallow_measure", &path("src/lib.rs")]);
    build(&["--extern", "mallow_measure=libmallow_measure.rlib", &path("examples/regions.rs")]);
    let cases = regions(dir.path(), &["./regions"], &[]);
    assert_eq!(cases[0], ("join".to_owned(), 1000, 0, 1000));
    assert_eq!((cases[1].0.as_str(), cases[1].2, cases[1].3), ("push", 0, 1000));
    assert!(cases[1].1 > 1000, "{cases:?}");
    let stacks = without_the_face(dir.path(), "./regions", &["measure", "libmallow"]);
    let own = stacks.split("std::rt::lang_start").next().unwrap_or_default();
    assert!(own.contains("regions::main (") && !own.contains("catch_unwind"), "{own}");
    assert!(stacks.contains("regions::main::{{closure}} (regions.rs:"), "{stacks}");
    let alone = Command::new(dir.path().join("regions")).status().expect("the program");
    assert!(alone.success());
}

/// The example's benchmark of divan, and its test of `cargo test`, as they are started by hand.
#[test]
fn rust_benchmarks_and_tests() {
    let dir = tempfile::tempdir().expect("a directory");
    let example = workspace().join("examples/benches").canonicalize().expect("the example");
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("benches");
    for arguments in [["bench", "--no-run", "--locked"], ["test", "--no-run", "--locked"]] {
        let mut cargo = Command::new("cargo");
        let done = cargo.args(arguments).current_dir(&example).env("CARGO_TARGET_DIR", &built).output().expect("cargo");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let toml = example.join("mallow.toml");
    let baseline = dir.path().join("baseline.json");
    let run = |arguments: &[&str]| {
        let run = Run::new(mallow(), dir.path()).args(["test", "--runs", "3", "-f"]).arg(&toml);
        run.arg("--baseline").arg(&baseline).args(arguments).env("CARGO_TARGET_DIR", Some(&built)).go()
    };
    let updated = run(&["--update"]);
    assert_eq!(updated.status, 0, "{}{}", updated.out(), updated.err());
    let done = run(&["--json"]);
    assert_eq!(done.status, 0, "{}{}", done.out(), done.err());
    let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let cases: Vec<_> = report["cases"].as_array().expect("cases").iter().map(|case| (&case["name"], case)).collect();
    for ((name, case), (expected, allocations, remaining, unstable)) in
        cases.iter().zip([("words", 1000, 0, false), ("letters", 0, 0, false), ("words_once", 10, 9, false)])
    {
        let measured = &case["measured"];
        let actual = (*name, &measured["total_allocations"], &measured["remaining_allocations"], &case["unstable"]);
        assert_eq!(actual, (&expected.into(), &allocations.into(), &remaining.into(), &unstable.into()), "{case}");
        assert_eq!(measured["runs"].as_array().map(Vec::len), Some(3), "{case}");
    }
    assert_eq!(cases.len(), 3);
}

#[test]
fn python() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(
        dir.path().join("cases.py"),
        "import mallow\n\
         def lists():\n    return len([[i] for i in range(100)])\n\
         mallow.measure('lists', lists)\n\
         with mallow.region('bytes') as region:\n    keep = bytes(5000)\n    region.operations = mallow.operations(7)\n",
    )
    .expect("a file");
    let python = tool("python3");
    let path: PathBuf = workspace().join("faces/python").canonicalize().expect("the face");
    let environment =
        [("PYTHONPATH", path.to_str().expect("a path")), ("PYTHONMALLOC", "malloc"), ("PYTHONDONTWRITEBYTECODE", "1")];
    let cases = regions(dir.path(), &[python.to_str().expect("a path"), "cases.py"], &environment);
    assert_eq!((cases[0].0.as_str(), cases[0].3), ("lists", 100));
    assert!(cases[0].1 >= 100, "{cases:?}");
    assert_eq!((cases[1].0.as_str(), cases[1].3), ("bytes", 7));
    assert!(cases[1].1 >= 1, "{cases:?}");
    let mut alone = Command::new(&python);
    alone.arg("cases.py").current_dir(dir.path()).envs(environment);
    assert!(alone.status().expect("python").success());
    // What a measured function raises comes out.
    fs::write(dir.path().join("raises.py"), "import mallow\nmallow.measure('x', lambda: 1 // 0)\n").expect("a file");
    let raised = Run::new(mallow(), dir.path())
        .args(["stat", "--runs", "3", "--"])
        .args([python.to_str().expect("a path"), "raises.py"])
        .env("PYTHONPATH", Some(&path))
        .go();
    assert!(raised.status == 1 && raised.err().contains("ZeroDivisionError"), "{}", raised.err());
}

#[test]
fn swift() {
    let Some(swiftc) = tool_if_there("swiftc") else {
        return not_run("faces::swift", "there is no swiftc; swift.org has one, and so has Debian 13: swiftlang");
    };
    let dir = tempfile::tempdir().expect("a directory");
    let sources = workspace().join("faces/swift/Sources").canonicalize().expect("the face");
    let build = |arguments: &[&str], files: &[&str]| {
        let mut command = Command::new(&swiftc);
        command.args(["-O", "-g", "-I", "."]).arg("-I").arg(sources.join("CMallow")).args(arguments);
        let done = command.args(files.iter().map(|file| sources.join(file))).current_dir(dir.path()).output();
        let done = done.expect("swiftc");
        let errors = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success() && !errors.contains("warning: "), "{errors}");
    };
    let library = ["-emit-library", "-static", "-emit-module", "-parse-as-library", "-module-name", "MallowMeasure"];
    build(&[&library[..], &["-o", "libMallowMeasure.a"]].concat(), &["MallowMeasure/Measure.swift"]);
    let files = ["JoinWords/main.swift", "JoinWords/test_join_words.swift"];
    build(&["-o", "JoinWords", "-L", ".", "-lMallowMeasure"], &files);
    let cases = regions(dir.path(), &["./JoinWords"], &[]);
    // A string that outgrows its first storage once.
    assert_eq!(cases[0], ("test_join_words".to_owned(), 2000, 0, 1000));
    // The same without a task, though descriptors are named as SwiftNIO's tests do.
    assert_eq!(cases[1], ("test_join_words.fds".to_owned(), 2, 0, 1));
    // The words are those of the other; the task is the runtime's, and keeps some of it for the next.
    assert_eq!((cases[2].0.as_str(), cases[2].3), ("test_join_words.task", 1));
    assert!((3..30).contains(&cases[2].1), "{cases:?}");
    assert_eq!(cases[3], ("keep".to_owned(), 1, 1, 1));
    without_the_face(dir.path(), "./JoinWords", &["MallowMeasure", "mallow_measure", "libmallow"]);
    assert!(Command::new(dir.path().join("JoinWords")).status().expect("the program").success());
}

#[test]
fn the_swift_package_is_written_from_what_mallow_has() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |directory: &str| Run::new(mallow(), dir.path()).args(["test", "--swift-package", directory]).go();
    for _ in 0..2 {
        let done = write("deep/mallow-measure");
        assert!(
            done.status == 0 && done.out().contains("path: \"deep/mallow-measure\""),
            "{}{}",
            done.out(),
            done.err()
        );
    }
    let package = dir.path().join("deep/mallow-measure");
    for (written, source) in [
        ("Sources/CMallow/mallow.h", "preload/include/mallow.h"),
        ("Sources/CMallow/module.modulemap", "faces/swift/Sources/CMallow/module.modulemap"),
        ("Sources/MallowMeasure/Measure.swift", "faces/swift/Sources/MallowMeasure/Measure.swift"),
    ] {
        let read = |path: PathBuf| fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(read(package.join(written)) == read(workspace().join(source)), "{written}");
    }
    // What is there is somebody's.
    fs::create_dir_all(dir.path().join("other")).expect("a directory");
    fs::write(dir.path().join("other/Package.swift"), "// mine\n").expect("a file");
    let refused = write("other");
    assert!(refused.status == 2 && refused.err().contains("is there already, with other text"), "{}", refused.err());
    assert!(!dir.path().join("other/Sources").exists());
    let Some(swift) = tool_if_there("swift") else {
        return not_run("faces::the_swift_package…", "there is no swift to build it with");
    };
    let built = Command::new(swift).arg("build").current_dir(&package).output().expect("swift");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stdout));
}
