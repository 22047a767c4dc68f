//! Counts of programs that do not know what they allocate, against an independent counter that is preloaded.

use harness::{Case, Counts, Run, directory, oracle_counts, oracle_library};

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
fn perl() {
    agree("perl", &["-e", "my %h; $h{$_ % 1000} .= $_ for 1..50000; print scalar(keys %h), qq(\\n);"]);
}

#[test]
fn sort() {
    agree("sort", &["--parallel=1", "/etc/services", "/etc/protocols"]);
}

#[test]
fn sqlite() {
    let sql = "create table t(a,b); \
               with recursive c(x) as (select 1 union all select x+1 from c where x<20000) \
               insert into t select x, x*7%1000||'text' from c; \
               create index i on t(b); select count(*), sum(a) from t where b like '1%';";
    agree("sqlite3", &[":memory:", sql]);
}

/// Both in one process, Mallow before the other: what each sees is the same, whatever the program does.
#[test]
fn both_at_once() {
    for program in ["fork_storm", "tls_destructors", "exceptions"] {
        let dir = directory();
        let mut case = Case::target(program).env("LD_PRELOAD", oracle_library()).env("ORACLE_DIR", dir.path());
        if program == "fork_storm" {
            case = case.arg("20");
        }
        for way in ["stat", "record"] {
            let (outcome, counts, processes) = match way {
                "stat" => {
                    let run = case.stat();
                    (run.outcome.clone(), run.counts(), run.json["processes"].clone())
                }
                _ => {
                    let run = case.record();
                    (run.outcome.clone(), run.counts(), run.json["processes"].clone())
                }
            };
            assert_ne!(outcome.status, 99, "{}", outcome.out());
            let pids: Vec<u64> =
                processes.as_array().expect("processes").iter().filter_map(|p| p["pid"].as_u64()).collect();
            let mut sum = Counts::default();
            // The oracle also counted mallow itself, which inherited it.
            for process in oracle_counts(dir.path()).iter().filter(|p| pids.contains(&u64::from(p.pid))) {
                sum += &process.counts;
            }
            assert_eq!(counts.sums(), sum.sums(), "{way} {program}");
            for entry in std::fs::read_dir(dir.path()).expect("the oracle's files").flatten() {
                std::fs::remove_file(entry.path()).expect("removing the oracle's file");
            }
        }
    }
}
