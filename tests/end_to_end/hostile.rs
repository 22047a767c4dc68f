//! Targets that write over, cut, remove or add files in the run directory. Mallow trusts nothing there: it ends in good
//! order, with bounded memory, whatever it finds.

use std::time::Duration;

use harness::{Run, directory, mallow, nothing_left, program, program_as, rounds, workspace};

fn scribbled(how: &str) {
    for seed in 1..=rounds(4) {
        for way in ["stat", "record"] {
            let what = format!("mallow {way} scribble {how} {seed}");
            let place = directory();
            let extra: &[&str] = if way == "record" { &["--no-report"] } else { &[] };
            let run = Run::new(program("with"), place.path())
                .args(["as=4000000000", "--"])
                .arg(mallow())
                .args([way, "-o", "out"])
                .args(extra)
                .arg("--")
                .arg(program("scribble"))
                .args([how, &seed.to_string()])
                .limit(Duration::from_secs(60))
                .go();
            assert!(!run.err().contains("panicked"), "{what}: {}", run.err());
            assert_eq!(run.out(), "scribbling\n", "{what}: {}", run.err());
            assert!(run.status < 128 || how == "truncate", "{what}: status {}: {}", run.status, run.err());
            nothing_left(&what, &run);
            if way == "record" {
                let report = Run::new(program("with"), place.path())
                    .args(["as=4000000000", "--"])
                    .arg(mallow())
                    .args(["report", "out"])
                    .limit(Duration::from_secs(60))
                    .go();
                assert!(!report.err().contains("panicked"), "{what}: {}", report.err());
                assert!(report.status < 128, "{what}: report {}", report.status);
            }
        }
    }
}

#[test]
fn random_words_everywhere() {
    scribbled("memory");
}

#[test]
fn random_words_in_headers() {
    scribbled("header");
}

#[test]
fn impossible_counts() {
    scribbled("words");
}

#[test]
fn other_files_in_the_directory() {
    scribbled("files");
}

#[test]
fn files_cut_short() {
    scribbled("truncate");
}

#[test]
fn files_removed() {
    scribbled("remove");
}

/// Counts of threads whose sum no number holds do not begin anew below what a process can reach.
#[test]
fn counts_whose_sum_is_too_large_are_called_impossible() {
    let place = directory();
    let include = format!("-I{}", workspace().join("preload").display());
    let target = program_as("wrapped_counts", "wrapped_counts", "cc", &[&include, "-pthread"]);
    let run = Run::new(mallow(), place.path()).args(["stat", "--"]).arg(target).go();
    assert_eq!(run.status, 0, "{}", run.err());
    assert!(run.err().contains("(wrapped_counts) has counts that no process can reach in this time"), "{}", run.err());
}
