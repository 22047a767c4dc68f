//! Counts of programs that do not know what they allocate, against an independent counter that is preloaded.

use std::fs;

use harness::{Case, Counts, Run, directory, oracle_counts, oracle_library, sql};

fn counted_by_oracle(program: &str, arguments: &[&str]) -> Counts {
    let dir = directory();
    let place = directory();
    let run = Run::new(program, place.path())
        .args(arguments)
        .env("LD_PRELOAD", Some(oracle_library()))
        .env("ORACLE_DIR", Some(dir.path()))
        .go();
    assert_ne!(run.status, 99, "{}", run.out());
    let mut sum = Counts::default();
    for process in oracle_counts(dir.path()) {
        sum += &process.counts;
    }
    sum
}

/// Both count one program, each in its own run.
fn agree(program: &str, arguments: &[&str]) {
    let oracle = counted_by_oracle(program, arguments);
    let case = Case::new(program).args(arguments);
    let stat = case.stat();
    assert_eq!(stat.counts(), oracle, "stat: {program} {arguments:?}");
    let record = case.record();
    assert_eq!(record.counts(), oracle, "record: {program} {arguments:?}");
    assert_eq!(record.losses(), (0, 0));
}

#[test]
fn what_libc_allocates_for_its_callers() {
    let target = harness::program("libc_allocates");
    agree(target.to_str().expect("a plain path"), &[]);
}

#[test]
fn ls() {
    agree("/bin/ls", &["-lR", "/usr/include/linux"]);
}

#[test]
fn shell_that_forks() {
    agree("/bin/sh", &["-c", "for i in 1 2 3 4 5; do echo $(echo $i | tr 1 2); (exit $i); done"]);
}

#[test]
fn sort() {
    agree("sort", &["--parallel=1", "/etc/passwd", "/etc/group"]);
}

#[test]
fn sqlite() {
    agree("sqlite3", &[":memory:", &sql(20_000)]);
}

/// Both in one process, Mallow before the other: what each sees is the same, whatever the program does.
fn agree_at_once(case: Case, record: bool) {
    let dir = directory();
    let case = case.env("LD_PRELOAD", oracle_library()).env("ORACLE_DIR", dir.path());
    let ways: &[&str] = if record { &["stat", "record"] } else { &["stat"] };
    for way in ways {
        let (outcome, counts, json) = if *way == "stat" {
            let run = case.stat();
            (run.outcome.clone(), run.counts(), run.json)
        } else {
            let run = case.record();
            (run.outcome.clone(), run.counts(), run.json)
        };
        assert_ne!(outcome.status, 99, "{}", outcome.out());
        let processes = json["processes"].as_array().expect("processes");
        let pids: Vec<u64> = processes.iter().filter_map(|p| p["pid"].as_u64()).collect();
        let mut sum = Counts::default();
        // The oracle also counted mallow itself, which inherited it.
        for process in oracle_counts(dir.path()).iter().filter(|p| pids.contains(&u64::from(p.pid))) {
            sum += &process.counts;
        }
        assert_eq!(counts.sums(), sum.sums(), "{way} {case:?}");
        for entry in fs::read_dir(dir.path()).expect("the oracle's files").flatten() {
            fs::remove_file(entry.path()).expect("removing the oracle's file");
        }
    }
}

#[test]
fn perl_at_once() {
    let script = "my %h; $h{$_ % 1000} .= $_ for 1..50000; system('true'); print scalar(keys %h), qq(\\n);";
    agree_at_once(Case::new("perl").args(["-e", script]), true);
}

#[test]
fn python_at_once() {
    let script = "import json, subprocess; subprocess.run(['true']); print(len(json.dumps(list(range(20000)))))";
    agree_at_once(Case::new("/usr/bin/python3").args(["-c", script]).env("PYTHONMALLOC", "malloc"), true);
}

#[test]
fn compiler_at_once() {
    let source = harness::workspace().join("tests/targets/coroutines.cpp");
    let case = Case::new("c++").args(["-std=c++20", "-O1", "-c", "-o", "/dev/null"]).arg(source);
    agree_at_once(case, true);
}

/// To learn where a new thread's stack lies, a recording asks the C library, which allocates a little for that, and the
/// oracle sees it: with threads, only counting is the same.
#[test]
fn threads_at_once() {
    agree_at_once(Case::target("tls_destructors"), false);
    agree_at_once(Case::target("fork_storm").arg("30"), false);
    agree_at_once(Case::target("exceptions"), false);
    agree_at_once(Case::target("threads").args(["detached", "500"]), false);
}
