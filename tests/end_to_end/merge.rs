//! `mallow merge`: sums of recordings and of other tools' files.

use std::fs;
use std::path::Path;

use harness::{Case, Outcome, Recorded, Run, mallow, number, tool};
use serde_json::Value;

use crate::go_pprof::Raw;
use crate::other_tools::{SQL, ran, report};

const ADDED: [&str; 10] = [
    "allocations",
    "allocated_bytes",
    "frees",
    "freed_bytes",
    "temporary",
    "temporary_bytes",
    "live",
    "live_bytes",
    "reallocs_in_place",
    "reallocs_moved",
];

fn merge(place: &Path, arguments: &[&str]) -> Outcome {
    ran(Run::new(mallow(), place).arg("merge").args(arguments))
}

fn path(recorded: &Recorded) -> &str {
    recorded.file.to_str().expect("a plain path")
}

#[test]
fn two_recordings() {
    let one = Case::new("sqlite3").args([":memory:", SQL]).record();
    let other = Case::target("busy").args(["2", "50"]).record();
    let place = one.directory.path();
    let said = merge(place, &[path(&one), path(&other), "-o", "sum.pb.gz"]).err();
    assert!(said.contains("added up 2 files: 2 processes"), "{said}");
    assert!(said.contains("a sum does not carry: times, threads, single events"), "{said}");
    let sum = report(place, "sum.pb.gz");
    for key in ADDED {
        assert_eq!(number(&sum, key), number(&one.json, key) + number(&other.json, key), "{key}");
    }
    // The peak is the higher one, whole, and it is said whose.
    let highest = [&one, &other].into_iter().max_by_key(|r| number(&r.json, "peak_bytes")).expect("one");
    for key in ["peak", "peak_bytes"] {
        assert_eq!(number(&sum, key), number(&highest.json, key), "{key}");
    }
    assert!(said.contains(&format!("the peak is that of {}", path(highest))), "{said}");
    // Each process with the file that it is from, and with its own sums.
    for recorded in [&one, &other] {
        let processes = sum["processes"].as_array().expect("processes");
        let its = processes.iter().find(|p| p["source"] == path(recorded)).expect("its process");
        let (theirs, ours) = (&recorded.json["processes"][0], its);
        for key in ["pid", "allocations", "live_bytes"] {
            assert_eq!(number(ours, key), number(theirs, key), "{key}");
        }
        assert!(its.get("own_peak_bytes").is_none(), "nobody knows it: {its}");
    }
    // Go agrees.
    let raw = Raw::of(place, "sum.pb.gz");
    assert_eq!(raw.sum("alloc_space"), number(&sum, "allocated_bytes"));
    assert_eq!(raw.sum("inuse_objects"), number(&sum, "live"));

    // One more onto it: the same stacks are the same rows, with more.
    let said = merge(place, &["sum.pb.gz", path(&one), "-o", "sum.pb.gz"]).err();
    assert!(said.contains("is in sum.pb.gz already, and counts twice"), "{said}");
    let again = report(place, "sum.pb.gz");
    assert_eq!(number(&again, "allocations"), number(&sum, "allocations") + number(&one.json, "allocations"));
    assert_eq!(number(&again, "peak_bytes"), number(&sum, "peak_bytes"));
    for arguments in [
        &["report"][..],
        &["top"],
        &["top", "--by", "peak", "--json"],
        &["tree"],
        &["leaks"],
        &["list", "main"],
        &["flame", "-o", "-"],
        &["export", "--format", "dhat"],
        &["diff", path(&one)],
    ] {
        ran(Run::new(mallow(), place).args(arguments).arg("sum.pb.gz"));
    }
}

/// A measure that one file lacks is left out, and named.
#[test]
fn any_mixture_of_formats() {
    let one = Case::target("busy").args(["2", "50"]).record();
    let place = one.directory.path();
    fs::write(place.join("stacks"), "# mallow: allocations\nmain;f 30\nmain;g 12\n").expect("a file");
    fs::write(place.join("live"), "# mallow: live_bytes\nmain;f 30\n").expect("a file");
    fs::hard_link(place.join("stacks"), place.join("linked")).expect("a link");
    ran(Run::new(tool("heaptrack"), place).args(["-o", "data", "sqlite3", ":memory:", SQL]));
    let said = merge(place, &[path(&one), "stacks", "data.zst", "-o", "sum.pb.gz"]).err();
    assert!(said.contains("left out: allocated bytes, ") && said.contains("(missing in stacks)"), "{said}");
    assert!(!said.contains("the peak is that of"), "{said}");
    let sum = report(place, "sum.pb.gz");
    let theirs = number(&report(place, "data.zst"), "allocations");
    assert_eq!(number(&sum, "allocations"), number(&one.json, "allocations") + 42 + theirs);
    for key in ["allocated_bytes", "live", "peak_bytes", "temporary"] {
        assert!(sum.get(key).is_none(), "{key}: {sum:#}");
    }
    let sources: Vec<&Value> = sum["processes"].as_array().expect("processes").iter().map(|p| &p["source"]).collect();
    assert_eq!(sources.len(), 3, "{sources:?}");
    for (arguments, expected) in [
        (&["stacks", "live", "-o", "x"][..], "no measure is in all of these files"),
        (&["stacks", "stacks", "-o", "x"], "stacks is named twice"),
        (&["stacks", "./stacks", "-o", "x"], "stacks and ./stacks are one file"),
        (&["linked", "stacks", "-o", "x"], "linked and stacks are one file"),
        (&["stacks", "-o", "x.mallow"], "is the name of a recording"),
        (&["stacks", "nothing", "-o", "x"], "cannot read nothing"),
        (&["stacks", "-o", "/dev/full"], "cannot write /dev/full"),
        (&["stacks"], "--output"),
        (&["-o", "x"], "FILE"),
    ] {
        let refused = Run::new(mallow(), place).arg("merge").args(arguments).go();
        let err = refused.err();
        assert!(matches!(refused.status, 1 | 2) && err.lines().count() == 1, "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
    assert!(!place.join("x").exists() && !place.join("x.mallow").exists());
}

/// What is live adds up, and peaks do not; what one of the files lacks, the sum lacks.
#[test]
fn a_sum_says_whose_its_peak_is_and_what_its_files_lack() {
    let one = Case::target("busy").args(["2", "50"]).record();
    let python = Case::new("/usr/bin/python3").args(["-c", "0"]).env("PYTHONMALLOC", "").record();
    let place = one.directory.path();
    let said = merge(place, &[path(&one), path(&python), "-o", "sum.pb.gz"]).err();
    let sentence = format!("Incomplete: {}: Python allocates objects of up to 512 bytes in arenas", path(&python));
    assert!(said.contains(&sentence), "{said}");
    let text = ran(Run::new(mallow(), place).args(["report", "sum.pb.gz"])).out();
    assert!(text.replace('\n', " ").contains(&sentence[..40]), "{text}");
    let peak = text.lines().find(|line| line.starts_with("  live at peak")).expect("a row");
    assert!(peak.contains("in one of 2 files, the highest: peaks do not add up"), "{peak}");
    // A sum of it lacks it, too.
    ran(Run::new(mallow(), place).args(["merge", "sum.pb.gz", path(&one), "-o", "again.pb.gz"]));
    let again = report(place, "again.pb.gz");
    assert!(again["unrecorded"][0].as_str().is_some_and(|text| text.contains("Python allocates")), "{again}");
}
