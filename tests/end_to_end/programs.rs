//! Programs that load others, bring their own unwinder or allocator, or another C library.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use harness::{Case, Run, directory, library, mallow, number, program_as};

#[test]
fn plugins_that_come_and_go() {
    let plugins =
        [library("plugin", "plugin-a", &["-DNAME=a"]), library("plugin", "plugin-b", &["-UNAME", "-DNAME=b"])];
    let three = Case::target("plugins").arg("300").args(&plugins).args(["0", "deep"]).three_ways();
    assert_eq!(three.stat.counts(), three.record.counts());
    assert_eq!(three.record.losses(), (0, 0));
    // With threads, how often each is really loaded depends on time.
    let three = Case::target("plugins").arg("300").args(&plugins).args(["3", "deep"]).three_ways();
    assert_eq!(three.record.losses(), (0, 0));
}

/// Two plugins take turns at one address. Each one's blocks are put down to its own functions.
#[test]
fn plugins_at_one_address_are_told_apart() {
    let plugins =
        [library("plugin", "plugin-a", &["-DNAME=a"]), library("plugin", "plugin-b", &["-UNAME", "-DNAME=b"])];
    let record = Case::target("plugins").arg("300").args(&plugins).args(["2", "flat"]).record();
    let top = harness::Run::new(harness::mallow(), record.directory.path())
        .args(["top", "--json", "--by", "allocations", "--limit", "0"])
        .arg(&record.file)
        .go();
    assert_eq!(top.status, 0, "{}", top.err());
    let text = top.out();
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let of = |name: &str| {
        let rows = json["functions"].as_array().expect("functions");
        let row = rows.iter().find(|r| r["function"] == name).unwrap_or_else(|| panic!("no {name} in {text}"));
        number(&row["self"], "allocations")
    };
    // 300 rounds in each of three threads, half of them by either plugin. The plugin that was loaded apart has an
    // allocator of its own, which is not seen.
    assert_eq!((of("inner_a"), of("inner_b")), (450, 450));
}

#[test]
fn own_unwinder() {
    let three = Case::target("own_unwinder").three_ways();
    assert!(three.bare.out().ends_with("called 0 times\n"), "{}", three.bare.out());
    assert_eq!(three.stat.counts(), three.record.counts());
}

/// Both commands say a line of their own, with this in it.
fn says(case: Case, text: &str) {
    let three = case.may_say(text).three_ways();
    for err in [three.stat.outcome.err(), three.record.outcome.err()] {
        let own = err.lines().find(|line| line.starts_with("mallow: ") && line.contains(text));
        assert!(own.is_some(), "nothing is said: {err:?}");
    }
}

#[test]
fn own_allocator() {
    says(
        Case::target("own_allocator"),
        "own_allocator has an allocator of its own, which its calls never leave; build",
    );
}

/// The command itself is out of sight, what it starts is not.
#[test]
fn own_allocator_that_starts_another() {
    let case = Case::target("own_allocator").arg("/bin/sh").arg("-c").arg("echo started; exit 0");
    says(case, "own_allocator itself was not recorded, only what it started: ");
}

#[test]
fn program_that_allocates_nothing() {
    let path = program_as("nothing", "nothing", "cc", &[]);
    says(Case::new(&path), "nothing allocated nothing; ");
}

/// A recording of an earlier program stays where a later one of the same name records nothing.
#[test]
fn nothing_recorded_replaces_nothing() {
    let path = program_as("busy", "busy-static", "cc", &["-static"]);
    let place = directory();
    let record = |command: &[&str]| {
        Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", "it.mallow", "--"]).args(command).go()
    };
    let names = || {
        let entries = fs::read_dir(place.path()).expect("it").map(|entry| entry.expect("an entry").file_name());
        entries.map(|name| name.into_string().expect("a name")).collect::<Vec<_>>()
    };
    let program = path.to_str().expect("a path");
    let first = record(&[program, "3", "10"]);
    assert_eq!(first.status, 125, "{}", first.err());
    let own =
        |err: &str| err.lines().filter(|line| line.starts_with("mallow: ")).map(str::to_owned).collect::<Vec<_>>();
    let lines = own(&first.err());
    assert!(lines.len() == 1 && lines[0].starts_with("mallow: nothing was recorded: "), "{lines:?}");
    assert!(lines[0].contains("; link it dynamically") && lines[0].ends_with("; no file was written"), "{lines:?}");
    assert_eq!(names(), [] as [&str; 0]);

    assert_eq!(record(&["/bin/sh", "-c", "exit 0"]).status, 0);
    let before = fs::read(place.path().join("it.mallow")).expect("a recording");
    let second = record(&[program, "3", "10"]);
    assert_eq!(second.status, 125, "{}", second.err());
    assert!(second.err().contains("; it.mallow stays the recording of "), "{}", second.err());
    assert!(fs::read(place.path().join("it.mallow")).expect("it stays") == before);
    assert_eq!(names(), ["it.mallow"]);
    // A device has no file to keep, and the reason is the same.
    let device =
        Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", "/dev/null", "--", program, "3", "10"]);
    let device = device.go();
    assert_eq!(device.status, 125, "{}", device.err());
    let lines = own(&device.err());
    assert!(lines.len() == 1 && lines[0].contains("; link it dynamically"), "{lines:?}");
    assert!(lines[0].ends_with("; what went to /dev/null is no recording"), "{lines:?}");
    // A command that fails keeps its own status: this one wants two arguments.
    assert_eq!(record(&[program]).status, 99);
    assert_eq!(names(), ["it.mallow"]);
}

/// What is in the way is the interpreter's.
#[test]
fn script_of_a_static_interpreter() {
    let interpreter = program_as("nothing", "nothing-static", "cc", &["-static"]);
    let place = directory();
    let script = place.path().join("script");
    fs::write(&script, format!("#!{}\n", interpreter.display())).expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its mode");
    says(Case::new(&script), "nothing-static is statically linked");
}

#[test]
fn static_binary() {
    let path = program_as("busy", "busy-static", "cc", &["-static"]);
    let three = Case::new(&path).args(["3", "10"]).may_say("statically linked").three_ways();
    for err in [three.stat.outcome.err(), three.record.outcome.err()] {
        assert!(err.contains("mallow: ") && err.contains("statically linked"), "nothing is said: {err:?}");
    }
    // And no zeros after that, as if it had been seen to allocate nothing.
    for way in ["record", "stat"] {
        let run = Run::new(mallow(), three.record.directory.path()).args([way, "--"]).arg(&path).args(["3", "10"]).go();
        let err = run.err();
        assert!(err.contains("statically linked"), "{way}: {err}");
        assert!(
            ["allocations   0", "0  allocations", "remaining"].iter().all(|zero| !err.contains(zero)),
            "{way}: {err}"
        );
    }
}

/// A static binary started by a command that Mallow sees: whoever executes it names it, however short it lives.
#[test]
fn static_child() {
    let path = program_as("busy", "busy-static", "cc", &["-static"]);
    let shown = path.display();
    let directory = path.parent().expect("a directory").display();
    let expected = format!("mallow: started by the command, and not recorded: {shown} is statically linked: ");
    for script in [
        format!("{shown} 3 10; {shown} 3 10; exit 4"),
        format!("{shown} 3 10 && exec sh -c 'exit 4'"),
        format!("PATH={directory}:$PATH; env busy-static 3 10; exit 4"),
    ] {
        let three = Case::new("/bin/sh").args(["-c", &script]).may_say("busy-static is statically linked").three_ways();
        assert_eq!(three.bare.status, 4);
        for err in [three.stat.outcome.err(), three.record.outcome.err()] {
            assert_eq!(err.matches(&expected).count(), 1, "{script}: {err:?}");
        }
    }
}

/// `ld.so PROGRAM` is a program that Mallow sees.
#[test]
fn a_dynamic_linker_as_a_program() {
    let script = "/lib64/ld-linux-x86-64.so.2 /bin/sleep 0.3; exit 4";
    let three = Case::new("/bin/sh").args(["-c", script]).three_ways();
    assert_eq!(three.bare.status, 4);
    for err in [three.stat.outcome.err(), three.record.outcome.err()] {
        assert!(!err.contains("not recorded"), "{err}");
    }
}

/// What a whole command is judged by is all of it.
#[test]
fn a_test_of_a_static_child_is_broken() {
    let path = program_as("busy", "busy-static", "cc", &["-static"]);
    let place = directory();
    let script = format!("{} 3 10", path.display());
    for script in [script.clone() + "; true", format!("exec {script}"), format!("env -u LD_PRELOAD sleep 0; {script}")]
    {
        let test =
            Run::new(mallow(), place.path()).args(["test", "--runs", "1", "--update", "--", "sh", "-c", &script]);
        let done = test.go();
        assert_eq!(done.status, 4, "{script}: {}{}", done.out(), done.err());
        assert!(done.out().contains("started by the command, and not recorded: "), "{script}: {}", done.out());
    }
}

/// Mallow names, once, a child that lives long enough to be seen among the command's processes; it records the command.
#[test]
fn static_child_that_lives_for_a_while() {
    let path = program_as("waits", "waits-static", "cc", &["-static"]);
    let script = format!("{0} 900; {0} 900 | cat; exit 4", path.display());
    let expected =
        format!("mallow: started by the command, and not recorded: {} is statically linked: ", path.display());
    let three = Case::new("/bin/sh").args(["-c", &script]).may_say("waits-static is statically linked").three_ways();
    assert_eq!(three.bare.status, 4);
    for err in [three.stat.outcome.err(), three.record.outcome.err()] {
        assert_eq!(err.matches(&expected).count(), 1, "{err:?}");
        assert!(!err.contains("itself was not recorded"), "{err:?}");
    }
}

/// Another C library.
fn musl(case: Case) {
    let three = case.three_ways();
    for counts in [three.stat.counts(), three.record.counts()] {
        assert!(counts.allocations > 1000, "{counts:?}");
    }
}

#[test]
fn musl_program() {
    musl(Case::new(program_as("busy", "busy-musl", "musl-gcc", &[])).args(["4", "50"]));
}

#[test]
fn musl_child() {
    let path = program_as("busy", "busy-musl", "musl-gcc", &[]);
    let case = Case::new("/bin/sh").args(["-c", &format!("{} 4 50", path.display())]);
    musl(case);
}

#[test]
fn position_dependent_program() {
    let path = program_as("busy", "busy-no-pie", "cc", &["-no-pie", "-fno-pie"]);
    let three = Case::new(path).args(["2", "50"]).three_ways();
    assert_eq!(three.stat.counts(), three.record.counts());
}

#[test]
fn program_bound_at_start() {
    let path = program_as("busy", "busy-now", "cc", &["-Wl,-z,now,-z,relro", "-Wl,--hash-style=gnu"]);
    let three = Case::new(path).args(["2", "50"]).three_ways();
    assert_eq!(three.stat.counts(), three.record.counts());
}

/// No .eh_frame at all in the program: stacks come from frame pointers, or are marked as cut.
#[test]
fn program_without_unwind_tables() {
    let flags = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions"];
    let path = program_as("busy", "busy-no-tables", "cc", &flags);
    let three = Case::new(path).args(["2", "50"]).three_ways();
    assert_eq!(three.stat.counts(), three.record.counts());
}

/// A preload of the user's own stays.
#[test]
fn preloaded_library() {
    let library = library("safe_allocator", "safe_allocator", &[]);
    let three = Case::target("busy").args(["2", "50"]).env("LD_PRELOAD", library).three_ways();
    assert_eq!(three.stat.counts(), three.record.counts());
    assert!(three.stat.counts().allocations > 10_000);
}
