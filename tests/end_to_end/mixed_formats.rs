//! Files of any format are compared with Mallow's own, and with one another: with totals that add up, or with one line
//! that says why not.

use std::fs;
use std::path::Path;

use harness::{Case, Outcome, Run, directory, mallow, workspace};
use serde_json::Value;

use crate::go_pprof::Raw;

/// Values of `--by`, in the order in which one is chosen where none is named.
const MEASURES: [&str; 5] = ["allocations", "bytes", "peak", "live", "temporary"];

/// A file, its format's name, and which of [`MEASURES`] it has.
type File = (&'static str, &'static str, [bool; 5]);

/// One of each format.
const FILES: [File; 13] = [
    ("run.mallow", "recording", [true, true, true, true, true]),
    ("words.pprof", "pprof", [true, true, false, true, false]),
    ("leak.heaptrack.zst", "heaptrack", [true, true, true, true, true]),
    ("leak.heaptrack_print", "heaptrack_print", [true, false, true, true, true]),
    ("leak.dhat", "DHAT", [true, true, true, true, false]),
    ("leak.massif", "massif", [false, false, true, true, false]),
    ("leak.jemalloc", "jemalloc", [true, true, false, true, false]),
    ("leak.gperftools", "gperftools", [true, true, false, true, false]),
    ("leak.memprof", "php-memprof", [false, false, false, true, false]),
    ("keep.go_text", "Go text", [true, true, false, true, false]),
    ("counted.dtrace", "dtrace", [true, false, false, false, false]),
    ("counted.bpftrace", "bpftrace", [false, true, false, false, false]),
    ("counted.folded", "folded", [false, false, false, true, false]),
];

const DTRACE: &str = "\
              libc.so.6`malloc
              leak`scratch+0x19
              leak`main+0x27
           1000

              libc.so.6`malloc
              leak`grow+0x19
              leak`main+0x27
           9
";
const BPFTRACE: &str = "Attaching 1 probe...\n\n@bytes[\n    malloc+0\n    scratch+18\n    main+9\n]: 32000\n";
const FOLDED: &str = "# mallow: live_bytes\nmain;scratch 64\nmain;grow 128\n";

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn compared(place: &Path, view: &[&str], before: &str, after: &str) -> Outcome {
    Run::new(mallow(), place).args(view).args([before, after]).go()
}

/// `left out -1,234 B` as a number.
fn digits(text: &str) -> Option<i64> {
    text.chars().filter(|c| *c == '-' || c.is_ascii_digit()).collect::<String>().parse().ok()
}

/// The change of all, after what is shown, hidden and elsewhere was found to be that. What one compares is what it
/// says.
fn change(outcome: &Outcome, what: &str) -> (i64, Value) {
    assert_eq!(outcome.status, 0, "{what}: {}", outcome.err());
    let report: Value = serde_json::from_slice(&outcome.stdout).unwrap_or_else(|e| panic!("{what}: {e}"));
    // In views with --base, `hidden` is how many rows are.
    let hidden = if report["hidden_change"].is_null() { "hidden" } else { "hidden_change" };
    let parts = ["shown", hidden, "elsewhere"].map(|part| number(&report[part]));
    assert_eq!(parts.iter().sum::<i64>(), number(&report["change"]), "{what}");
    (number(&report["change"]), report)
}

/// One line, that names this.
fn refused(outcome: &Outcome, status: i32, names: &[&str], what: &str) {
    let err = outcome.err();
    let own: Vec<_> = err.lines().filter(|line| line.contains("both have")).collect();
    assert_eq!((outcome.status, outcome.out().as_str(), own.len()), (status, "", 1), "{what}: {err}");
    assert!(names.iter().all(|name| own[0].contains(name)), "{what}: {err}");
}

/// One way round through diff, the other way round through a view with --base. `more`: with measures that are asked
/// for.
fn two_files(place: &Path, one: File, other: File, top: bool, more: bool) {
    let ((before, before_is, before_has), (after, after_is, after_has)) = (one, other);
    let what = format!("{before} {after}");
    let both: Vec<usize> = (0..MEASURES.len()).filter(|&m| before_has[m] && after_has[m]).collect();
    let diff = compared(place, &["diff", "--json"], before, after);
    let view: &[&str] = if top { &["top", "--json", "--base"] } else { &["tree", "--json", "--base"] };
    let based = compared(place, view, after, before);
    let (Some(&first), Some(&last)) = (both.first(), both.last()) else {
        refused(&diff, 2, &[before_is, after_is, "both have no measure in common"], &what);
        refused(&based, 2, &[before_is, after_is, "both have no measure in common"], &what);
        return;
    };
    let (all, report) = change(&diff, &what);
    assert_eq!(report["by"], MEASURES[first], "{what}");
    let sides = ["after", "before"].map(|side| number(&report[side]["value"]));
    assert_eq!(sides[0] - sides[1], all, "{what}");
    assert!(sides.iter().all(|&value| value > 0), "{what}: {sides:?}");
    assert_eq!(change(&based, &what).0, -all, "{view:?} {what}");
    if !more {
        return;
    }
    // In words.
    let text = compared(place, &["diff", "--exact", "--by", MEASURES[last]], before, after).out();
    let line = text.lines().last().unwrap_or_default();
    let (sums, net) = line.split_once(": net ").unwrap_or_else(|| panic!("{what}: {line}"));
    let amounts = sums.split(", ").filter_map(|part| digits(part.split(" in ").next().unwrap_or(part)));
    assert_eq!(Some(amounts.sum::<i64>()), digits(net), "{what}: {line}");
    if let Some(lacks) = (0..MEASURES.len()).find(|m| !both.contains(m)) {
        let names = [if before_has[lacks] { after } else { before }, "both have --by "];
        refused(&compared(place, &["diff", "--by", MEASURES[lacks]], before, after), 2, &names, &what);
    }
}

#[test]
fn every_format_is_compared_or_it_is_said_why_not() {
    let record = Case::target("busy").args(["1", "20"]).record();
    let place = record.directory.path();
    for (file, ..) in FILES {
        let from = workspace().join("crates/formats/tests/files").join(file);
        match file {
            "run.mallow" => assert!(record.file.ends_with(file)),
            "counted.dtrace" => fs::write(place.join(file), DTRACE).expect("a file"),
            "counted.bpftrace" => fs::write(place.join(file), BPFTRACE).expect("a file"),
            "counted.folded" => fs::write(place.join(file), FOLDED).expect("a file"),
            _ => drop(fs::copy(from, place.join(file)).expect("a file")),
        }
    }
    // Names are looked up once, and not in each run.
    let packed = Run::new(mallow(), place).args(["pack", "--no-sources", FILES[0].0]).go();
    assert_eq!(packed.status, 0, "{}", packed.err());
    // Each with Mallow's own, and with the next: all pairs take minutes on a slow machine.
    let own = FILES[0];
    for (i, &other) in FILES.iter().enumerate() {
        two_files(place, own, other, i % 2 == 0, i % 4 == 1);
    }
    for (i, pair) in FILES.windows(2).enumerate().skip(1) {
        two_files(place, pair[1], pair[0], i % 2 == 0, false);
    }
    // Pictures take the same way.
    for (before, after) in [("leak.massif", "leak.dhat"), ("counted.dtrace", "words.pprof")] {
        let picture = compared(place, &["flame", "-o", "-", "--base"], before, after);
        assert!(picture.status == 0 && picture.out().contains("Before: "), "{before} {after}: {}", picture.err());
    }
    // A file without stacks of the measure is compared by its totals, which are in no stack.
    let (_, report) = change(&compared(place, &["diff", "--json", "--by", "live"], "leak.massif", "leak.jemalloc"), "");
    assert_eq!(number(&report["before"]["value"]), 224);
}

/// Each value of a profile is what pprof says of it, whatever it is called; of a recording there is none to choose.
#[test]
fn a_chosen_value_is_that_of_pprof() {
    let place = directory();
    let file = workspace().join("crates/formats/tests/files/words.pprof");
    let top = |choice: &str| {
        Run::new(mallow(), place.path()).args(["top", "--json", "--sample-type", choice]).arg(&file).go()
    };
    for (number, name) in ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"].into_iter().enumerate() {
        let raw = Raw::of(place.path(), file.to_str().expect("a path"));
        let meaning = if name.ends_with("space") { "live" } else { "allocated" };
        let outcome = top(&format!("{}={meaning}", number + 1));
        let report: Value = serde_json::from_slice(&outcome.stdout).expect("JSON");
        let total = if meaning == "live" { "live_bytes" } else { "allocations" };
        assert_eq!(report[total].as_u64(), Some(raw.sum(name)), "{name}: {report}");
        assert!(outcome.err().contains(&format!("reading {name}/")), "{}", outcome.err());
    }
    for (choice, status, why) in [
        ("nothing", 1, "no sample type nothing, but alloc_objects/count"),
        ("1=live", 1, "without their bytes"),
        ("1=freed", 2, "freed is none of allocated, live, peak"),
    ] {
        let outcome = top(choice);
        assert_eq!((outcome.status, outcome.err().lines().count()), (status, 1), "{choice}: {}", outcome.err());
        assert!(outcome.err().contains(why), "{choice}: {}", outcome.err());
    }
    let record = Case::target("busy").args(["1", "20"]).record();
    let chosen = Run::new(mallow(), place.path()).args(["top", "--sample-type", "1"]).arg(&record.file).go();
    assert!(chosen.status == 0 && chosen.err().contains("--sample-type changes nothing"), "{}", chosen.err());
}
