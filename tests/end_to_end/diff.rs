//! `mallow diff` on recordings of programs that can be counted by hand, and on files of other tools.

use std::path::Path;

use harness::{Case, Outcome, Recorded, Run, mallow};
use serde_json::Value;

fn diff(record: &Recorded, arguments: &[&str]) -> Outcome {
    Run::new(mallow(), record.directory.path()).arg("diff").args(arguments).go()
}

fn json(record: &Recorded, arguments: &[&str]) -> Value {
    let outcome = diff(record, &[&["--json"], arguments].concat());
    assert_eq!((outcome.status, outcome.err().as_str()), (0, ""));
    serde_json::from_str(&outcome.out()).expect("JSON")
}

fn path(record: &Recorded) -> &str {
    record.file.to_str().expect("a path of text")
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// What the lists say, by their rows, and what they leave out add up to the difference of the totals.
fn adds_up(report: &Value) {
    let lists = ["only_before", "only_after", "different"];
    let rows = |name: &str| report[name]["rows"].as_array().expect("rows").clone();
    let shown: i64 = lists.iter().flat_map(|name| rows(name)).map(|row| number(&row["change"])).sum();
    assert_eq!(shown, number(&report["shown"]));
    let all = shown + number(&report["hidden"]) + number(&report["elsewhere"]);
    assert_eq!(all, number(&report["change"]));
    assert_eq!(all, number(&report["after"]["value"]) - number(&report["before"]["value"]));
}

#[test]
fn two_runs_of_one_program_differ_by_their_arguments() {
    let [before, after] = ["300", "500"].map(|rounds| Case::target("busy").args(["1", rounds]).record());
    for by in ["allocations", "bytes", "live", "peak", "temporary"] {
        let report = json(&before, &["--by", by, path(&before), path(&after)]);
        adds_up(&report);
        adds_up(&json(&before, &["--by", by, "--limit", "1", path(&before), path(&after)]));
        assert_eq!(report["by"], by);
    }
    let report = json(&before, &[path(&before), path(&after)]);
    assert!(number(&report["change"]) > 0 && report["only_before"]["rows_in_all"] == 0, "{report}");
    let same = json(&before, &[path(&before), path(&before)]);
    assert_eq!((&same["change"], &same["different"]["rows_in_all"]), (&0.into(), &0.into()));
    let text = diff(&before, &[path(&before), path(&after)]).out();
    assert!(text.lines().last().is_some_and(|line| line.starts_with("Shown +")), "{text}");
}

#[test]
fn a_script_fails_above_what_it_allows() {
    let [before, after] = ["300", "500"].map(|rounds| Case::target("busy").args(["1", rounds]).record());
    let change = number(&json(&before, &[path(&before), path(&after)])["change"]);
    for (most, status) in [(change - 1, 3), (change, 0)] {
        let most = most.to_string();
        assert_eq!(diff(&before, &["--fail-above", &most, path(&before), path(&after)]).status, status);
        assert_eq!(diff(&before, &["--fail-above", &most, path(&after), path(&before)]).status, 0);
    }
    // A share of what BEFORE has, whatever amounts are divided by.
    let before_has = number(&json(&before, &[path(&before), path(&after)])["before"]["value"]);
    let share = 100.0 * change as f64 / before_has as f64;
    for (share, status) in [(share * 0.99, 3), (share * 1.01, 0)] {
        for per in [&[][..], &["--per", "10"]] {
            let most = format!("{share:.6}%");
            let arguments = [per, &["--fail-above", &most, path(&before), path(&after)]].concat();
            assert_eq!(diff(&before, &arguments).status, status, "{arguments:?}");
        }
    }
    let per = ["--per", "10", "--fail-above"];
    let tenth = (change / 10).to_string();
    assert_eq!(
        diff(&before, &[&per[..], &[&tenth, path(&before), path(&after)]].concat()).status,
        i32::from(change % 10 > 0) * 3
    );
}

/// As SwiftNIO's malloc-aggregation.d prints them: another build, one stack twice as often, one new.
const NIO: [&str; 2] = [
    "              libsystem_malloc.dylib`malloc
              libswiftCore.dylib`swift_slowAlloc+0x19
              libswiftCore.dylib`swift_allocObject+0x27
              test`$s3NIO7Channel_pxq_q0_r1_lyypypAA15EventLoopFutureCyytGIegnnr_TRTA.33+0x9
              test`specialized applyNext #1 () in ChannelOptions.Storage.applyAllChannelOptions(to:)+0x1a9
           11000

              libsystem_malloc.dylib`malloc
              libswiftCore.dylib`swift_slowAlloc+0x19
              test`doRequests(group:number:)+0x66
           10000

              libsystem_malloc.dylib`malloc
              test`noise()+0x6
           999
",
    "              libsystem_malloc.dylib`malloc
              libswiftCore.dylib`swift_slowAlloc+0x1c
              libswiftCore.dylib`swift_allocObject+0x27
              test`$s3NIO7Channel_pxq_q0_r1_lyypypAA15EventLoopFutureCyytGIegnnr_TRTA.18+0x9
              test`specialized applyNext #2 () in ChannelOptions.Storage.applyAllChannelOptions(to:)+0x1b0
           11000

              libsystem_malloc.dylib`malloc
              libswiftCore.dylib`swift_slowAlloc+0x19
              test`doRequests(group:number:)+0x66
           10000

              libsystem_malloc.dylib`malloc
              libswiftCore.dylib`swift_slowAlloc+0x19
              test`doRequests(group:number:)+0x1c4
           10000

              libsystem_malloc.dylib`malloc
              test`noise()+0x6
           1500
",
];

fn nio(directory: &Path) {
    for (name, text) in ["before.txt", "after.txt"].iter().zip(NIO) {
        std::fs::write(directory.join(name), text).expect("a file");
    }
}

#[test]
fn aggregated_stacks_of_two_builds_differ_by_what_was_added() {
    let directory = harness::directory();
    nio(directory.path());
    let run = |arguments: &[&str]| {
        let outcome =
            Run::new(mallow(), directory.path()).arg("diff").args(arguments).args(["before.txt", "after.txt"]).go();
        assert_eq!((outcome.status, outcome.err().as_str()), (0, ""));
        outcome.out()
    };
    assert_eq!(
        run(&["--per", "1000", "--min", "1"]),
        "+10.50 allocations (+47.7 %): doRequests(group:number:) [test], 10 → 20; 95 % of the change\n\
         before.txt → after.txt, by allocations, divided by 1000\n\
         BEFORE: dtrace profile\n\
         AFTER: dtrace profile\n\
         \n\
         \x20              before  after  change           largest change\n\
         \x20 allocations   22.00  32.50  +10.50  +47.7 %  +10 doRequests(group:number:) [test]\n\
         \n\
         Changes of allocations, in 2 places\n\
         \x20 +10  10 → 20  doRequests(group:number:) [test]\n\
         \x20 and 1 more, +0.50: noise +0.50\n\
         Shown +10,000, left out +501 in 1 place: net +10,501 allocations, +10.50 divided by 1000\n"
    );
    // Without the rules that know of them, the number of the thunk and of the local function tell the builds apart.
    let strict = run(&["--json", "--no-rule", "thunks,closures,clones,pairing"]);
    assert_eq!(strict.lines().count(), 1, "written as it is made: {strict}");
    let strict: Value = serde_json::from_str(&strict).expect("JSON");
    assert_eq!(strict["only_before"]["rows"][0]["before"], 11_000);
    adds_up(&strict);
}

#[test]
fn a_measure_that_one_side_lacks_is_named() {
    let record = Case::target("busy").args(["1", "300"]).record();
    nio(record.directory.path());
    for (arguments, expected) in [
        (
            &["--by", "live", path(&record), "after.txt"][..],
            "AFTER, after.txt, is a dtrace profile and has no live bytes; both have --by allocations",
        ),
        (&["--by", "weight", path(&record), "after.txt"], "invalid value 'weight'"),
        (&["--no-rule", "names", path(&record), "after.txt"], "the rules are addresses, clones"),
        (&["--per", "0", path(&record), "after.txt"], "nothing can be divided by 0"),
        (&[path(&record)], "<AFTER>"),
    ] {
        let outcome = diff(&record, arguments);
        assert_eq!((outcome.status, outcome.out().as_str()), (2, ""), "{}", outcome.err());
        assert!(outcome.err().contains(expected) && outcome.err().lines().count() == 1, "{}", outcome.err());
    }
    // A recording and a file of another tool.
    let mixed = json(&record, &[path(&record), "after.txt"]);
    adds_up(&mixed);
    assert_eq!((&mixed["before"]["format"], &mixed["after"]["format"]), (&Value::Null, &"dtrace".into()));
    assert!(mixed["after"].get("live_bytes").is_none() && mixed["before"]["live_bytes"].is_u64());
    let lost = diff(&record, &["--focus", "nobody", "before.txt", "after.txt"]);
    assert_eq!(lost.status, 1);
    assert!(lost.err().contains("--focus nobody: no function, file or module is called so"), "{}", lost.err());
    // Of a stack that only one side has, the other is left with nothing.
    let one = json(&record, &["--focus", "doRequests", path(&record), "after.txt"]);
    assert_eq!((&one["before"]["value"], &one["after"]["value"]), (&0.into(), &20_000.into()));
}

/// The examples of the guide: one build and another. All rules together find nothing; without one there are two stacks.
#[test]
fn each_rule_can_be_switched_off() {
    let directory = harness::directory();
    let place = directory.path();
    let folded = |name: &str, frames: &[&str]| {
        let outermost_first: Vec<_> = frames.iter().rev().copied().collect();
        std::fs::write(place.join(name), format!("{} 1000\n", outermost_first.join(";"))).expect("a file");
    };
    let dhat = include_str!("../../crates/formats/tests/files/leak.dhat");
    let differ = |rules: &str| {
        let run = Run::new(mallow(), place).args(["diff", "--json", "before", "after", "--no-rule", rules]).go();
        assert_eq!(run.status, 0, "{}", run.err());
        let report: Value = serde_json::from_str(&run.out()).expect("JSON");
        adds_up(&report);
        number(&report["only_before"]["rows_in_all"]) + number(&report["only_after"]["rows_in_all"])
    };
    for (rule, before, after) in [
        ("addresses", &["run+0x19", "main"][..], &["run+0x2c", "main"][..]),
        ("clones", &["f.18", "main"], &["f.33", "main"]),
        ("clones", &["f(int) [clone .cold]", "main"], &["f(int) [clone .isra.0]", "main"]),
        ("clones", &["specialized f()", "main"], &["f()", "main"]),
        ("hashes", &["a::f::h0123456789abcdef", "main"], &["a::f::hfedcba9876543210", "main"]),
        ("closures", &["f::{closure#2}", "main"], &["f::{closure#4}", "main"]),
        ("thunks", &["f", "partial apply for closure #1 in f", "main"], &["f", "main"]),
        ("start", &["f", "main", "_start"], &["f", "main"]),
    ] {
        folded("before", before);
        folded("after", after);
        // Another rule's absence changes nothing.
        assert_eq!((differ("pairing,files"), differ(&format!("pairing,{rule}"))), (0, 2), "{rule}");
    }
    // What is dropped when a file is read.
    let every = "addresses,clones,hashes,closures,thunks,start,lines,files,inlining,pairing";
    folded("after", &["f", "main"]);
    for symbol in ["f.cold", "f.constprop.0", "f.llvm.77", "f.isra.3.cold"] {
        folded("before", &[symbol, "main"]);
        assert_eq!(differ(every), 0, "{symbol}");
    }
    for (side, text) in ["before", "after"].iter().zip(["p`f+0x19\n p`main+0x7", "p`f+0x2c\n p`main+0x9"]) {
        std::fs::write(place.join(side), format!("\n libc.so.6`malloc\n {text}\n 1000\n")).expect("a file");
    }
    assert_eq!(differ(every), 0, "offsets");
    std::fs::write(place.join("before"), dhat).expect("a file");
    for (rule, from, to) in [("lines", "leak.c:35)", "leak.c:36)"), ("files", "leak.c:35)", "other.c:35)")] {
        assert!(dhat.contains(from), "{from}");
        std::fs::write(place.join("after"), dhat.replace(from, to)).expect("a file");
        assert_eq!((differ("pairing,hashes"), differ(&format!("pairing,{rule}"))), (0, 2), "{rule}");
    }
}
