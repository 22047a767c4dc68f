//! Targets that write over, cut, remove or add files in the run directory. Mallow trusts nothing there: it ends in good
//! order, with bounded memory, whatever it finds.

use std::time::Duration;

use harness::{Run, directory, mallow, nothing_left, program};

fn scribbled(how: &str) {
    for seed in 1..=4u32 {
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
