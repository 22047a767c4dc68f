//! Fork, vfork, posix_spawn, exec, clone and daemons.

use std::time::{Duration, Instant};

use harness::{Case, Run, directory, mallow, nothing_left, number};

#[test]
fn fork_while_other_threads_allocate() {
    let three = Case::target("fork_storm").arg("300").three_ways();
    let processes = three.record.json["processes"].as_array().expect("processes").len();
    // The parent, 300 children, and the children of a third of them.
    assert_eq!(processes, 401);
    assert_eq!(three.record.losses(), (0, 0));
}

#[test]
fn every_way_to_start_a_program() {
    let three = Case::target("spawn").three_ways();
    assert_eq!(three.bare.status, 4);
    assert_eq!(three.stat.counts(), three.record.counts());
    // Per round: one image by vfork and exec, one by posix_spawn. Chain 10 has 11 images, chain 2 has 3; each shell
    // is one, and so are system's child and true.
    let images = three.record.json["processes"].as_array().expect("processes").len();
    assert!(images >= 2 * 20 + 11 + 3 + 4, "{images}");
}

/// One process, four images, each of them long enough there for the one before it to be done with.
#[test]
fn images_that_take_their_time() {
    let place = directory();
    let script = place.path().join("script");
    std::fs::write(&script, "sleep 0.3; [ $1 = 0 ] && exit 7; exec /bin/sh $0 $(($1 - 1))").expect("a script");
    let three = Case::new("/bin/sh").arg(&script).arg("3").three_ways();
    assert_eq!(three.bare.status, 7);
    assert_eq!(three.stat.counts().sums(), three.record.counts().sums());
    for json in [&three.stat.json, &three.record.json] {
        let root = &json["processes"][0]["pid"];
        let images = json["processes"].as_array().into_iter().flatten().filter(|p| p["pid"] == *root);
        let serials: Vec<u64> = images.map(|p| number(p, "serial")).collect();
        assert_eq!(serials, [0, 1, 2, 3], "{json:#}");
        // And what each of them waited for.
        assert_eq!(number(json, "processes_in_all"), 5, "{json:#}");
    }
    assert_eq!(number(&three.record.json, "threads_in_all"), 5, "{:#}", three.record.json);
}

/// A process is one, however often it calls exec, and a title that it wrote over its arguments is no path.
#[test]
fn a_process_that_calls_exec_is_one_and_a_title_is_no_path() {
    let place = directory();
    let script = place.path().join("script");
    let title = "tool: master process /opt/other/name -c n.conf";
    let then = format!("exec -a '{title}' '{}' malloc 3", harness::program("calls").display());
    std::fs::write(&script, then).expect("a script");
    let case = Case::new("/bin/bash").arg(&script);
    let record = case.record();
    let text = record.shown(&["report"]);
    assert!(text.contains("; 1 process in 2 images (exec), 1 thread used malloc"), "{text}");
    assert!(text.contains("tool (") && !text.contains("name -c n.conf ("), "{text}");
    let stat = Run::new(mallow(), place.path()).args(["stat", "--", "/bin/bash"]).arg(&script).go();
    assert!(stat.err().contains("exit status 0; 1 process in 2 images (exec)"), "{}", stat.err());
}

#[test]
fn children_are_left_out_on_demand() {
    let case = Case::target("spawn").option("--no-children");
    let record = case.record();
    case.same("record --no-children", &case.bare(), &record.outcome);
    assert_eq!(record.json["processes"].as_array().map(Vec::len), Some(1));
}

#[test]
fn clone_without_fork_handlers() {
    let three = Case::target("raw_clone").three_ways();
    assert_eq!(three.stat.counts().sums(), three.record.counts().sums());
    assert_eq!(three.record.losses(), (0, 0));
    // The parent, 100 children, 10 of theirs, and the last one.
    assert_eq!(three.record.json["processes"].as_array().map(Vec::len), Some(112));
}

/// A daemon outlives the command. The command's end ends the recording; the daemon goes on and does its work.
#[test]
fn daemons_go_on() {
    for way in ["stat", "record"] {
        let place = directory();
        let file = place.path().join("written-by-the-daemon");
        let extra: &[&str] = if way == "record" { &["--no-report"] } else { &[] };
        let run = Run::new(mallow(), place.path())
            .args([way, "-o", "out"])
            .args(extra)
            .arg("--")
            .arg(harness::program("daemon"))
            .arg(&file)
            .go();
        assert_eq!((run.status, run.out().as_str()), (0, "started\n"), "{way}: {}", run.err());
        let patience = Instant::now() + Duration::from_secs(60);
        while !file.exists() {
            assert!(Instant::now() < patience, "{way}: the daemon did not do its work");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(std::fs::read_to_string(&file).expect("its work"), "59585460\n", "{way}");
        nothing_left(way, &run);
    }
}

/// A child that has not called malloc when the command ends has no process file yet.
#[test]
fn who_waits_for_all_processes_waits_for_one_that_has_not_allocated_yet() {
    let place = directory();
    let recorded = |extra: &[&str]| {
        let run = Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", "l.mallow"]).args(extra);
        let run = run.arg("--").arg(harness::program("late_daemon")).go();
        assert_eq!(run.status, 0, "{}", run.err());
        let report = Run::new(mallow(), place.path()).args(["report", "--json", "l.mallow"]).go();
        let json: serde_json::Value = serde_json::from_str(&report.out()).expect("JSON");
        (run.err(), number(&json, "allocations"), json["processes"].as_array().map(Vec::len))
    };
    let (said, allocations, _) = recorded(&[]);
    assert!(said.contains("1 process continued after the recording ended; --wait records"), "{said}");
    assert_eq!(allocations, 1);
    let (_, allocations, processes) = recorded(&["--wait"]);
    assert!(allocations > 500, "{allocations}");
    assert_eq!(processes, Some(2));
}

/// Each process is counted separately, and their sums are the whole.
#[test]
fn processes_add_up() {
    let three = Case::new("/bin/sh").args(["-c", "ls / | sort | wc -l; exit 3"]).three_ways();
    for json in [&three.stat.json, &three.record.json] {
        let processes = json["processes"].as_array().expect("processes");
        assert!(processes.len() >= 4, "{json:#}");
        let sum: u64 = processes.iter().map(|p| number(p, "allocations")).sum();
        assert_eq!(sum, number(json, "allocations"));
    }
}

/// Blocks of a process that has ended are not live beside those of one that began later, however it ended.
#[test]
fn processes_in_turn_are_not_live_together() {
    for (how, peak) in [
        ("exit", 5_000_000),
        ("_exit", 5_000_000),
        ("kill", 5_000_000),
        ("program", 5_000_000),
        ("together", 10_000_000),
    ] {
        let record = Case::target("in_turn").arg(how).record();
        assert_eq!(record.outcome.status, 0, "{how}: {}", record.outcome.err());
        assert_eq!(number(&record.json, "peak_bytes"), peak, "{how}");
    }
}

/// A second of rest before the program began is not its own.
#[test]
fn a_rate_is_by_the_time_of_the_processes_that_are_shown() {
    let calls = harness::program("busy");
    let script = format!("sleep 1; '{}' 2 2000; exit 0", calls.display());
    let record = Case::new("/bin/sh").args(["-c", &script]).record();
    let rows = record.json["processes"].as_array().expect("processes").clone();
    let busy = rows.iter().find(|row| row["executable"].as_str().is_some_and(|path| path.ends_with("/busy")));
    let busy = busy.expect("the program");
    let lived = number(busy, "end_ms") - number(busy, "start_ms");
    let waited = number(busy, "exit_wait_ms") + number(busy, "table_wait_ms");
    let pid = number(busy, "pid").to_string();
    let text = record.shown(&["report", "--process", &pid]);
    let line = text.lines().find(|line| line.starts_with("  allocations")).expect("a row");
    let rate = number(busy, "allocations") as f64 * 1000.0 / (lived - waited) as f64;
    let shown = |prefix: &str, unit: f64| {
        let at = line.find(prefix)?;
        Some(line[..at].rsplit("  ").next()?.trim().parse::<f64>().ok()? * unit)
    };
    let actual = shown(" M/s", 1e6).or(shown(" k/s", 1e3)).or(shown(" /s", 1.0)).expect("a rate");
    assert!((actual / rate - 1.0).abs() < 0.01, "{actual} {rate}: {line}");
}
