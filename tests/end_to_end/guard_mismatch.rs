//! Blocks that are freed by an operation that does not belong to their allocation. Their programs are in the corpus.

use std::process::Command;
use std::{fs, path::Path};

use harness::{Run, directory, mallow, program_as, tool, workspace};
use serde_json::Value;

use crate::guard_harness::{Way, errors, functions, guarded, guarded_by, wrong};

/// The numbers of the programs of this kind.
fn numbers(wrong: &Path) -> Vec<String> {
    let kind = |number: &str| Command::new(wrong).args(["name", number]).output().expect("the corpus").stdout;
    let all = crate::guard_harness::count(wrong);
    (0..all).map(|number| number.to_string()).filter(|number| kind(number) == b"mismatched-free\n").collect()
}

/// What allocated, what freed, the size of operator delete, and the alignments of both.
type Operations = (&'static str, &'static str, Option<u64>, [Option<u64>; 2]);

/// In the order of the corpus. A build may call the operator delete that takes a size: it is checked where it is what
/// is wrong.
const OPERATIONS: [Operations; 21] = [
    ("malloc", "operator delete", None, [None; 2]),
    ("malloc", "operator delete[]", None, [None; 2]),
    ("calloc", "operator delete", None, [None; 2]),
    ("realloc", "operator delete", None, [None; 2]),
    ("malloc", "operator delete[]", None, [None; 2]),
    ("aligned_alloc", "operator delete", None, [None, Some(64)]),
    ("operator new", "free", None, [None; 2]),
    ("operator new[]", "free", None, [None; 2]),
    ("operator new", "free", None, [None; 2]),
    ("operator new", "free", None, [Some(64), None]),
    ("operator new[]", "realloc", None, [None; 2]),
    ("operator new[]", "operator delete", None, [None; 2]),
    ("operator new", "operator delete[]", None, [None; 2]),
    ("operator new", "free", None, [None; 2]),
    ("operator new[]", "operator delete", None, [None; 2]),
    ("operator new", "operator delete", Some(8), [None; 2]),
    ("operator new", "operator delete", Some(40), [None; 2]),
    ("operator new", "operator delete", None, [Some(64), None]),
    ("operator new", "operator delete", None, [Some(64), Some(32)]),
    ("operator new", "operator delete", None, [None, Some(64)]),
    ("operator new", "free", None, [None; 2]),
];

#[test]
fn both_operations_of_a_mismatched_free_are_named() {
    let wrong = wrong();
    let numbers = numbers(&wrong);
    assert_eq!(numbers.len(), OPERATIONS.len());
    for (number, (allocated, freed, size, alignments)) in numbers.iter().zip(OPERATIONS) {
        let (report, status, _, err) = guarded(&[], &[wrong.to_str().expect("a path"), number]);
        let found = errors(&report);
        assert_eq!((found.len(), status), (1, 3), "{number}: {report} {err}");
        let (error, operations) = (&found[0], &found[0]["operations"]);
        assert_eq!((&operations["allocated"], &operations["freed"]), (&allocated.into(), &freed.into()), "{error}");
        assert_eq!(error["block"]["family"], allocated, "{error}");
        assert!(size.is_none() || operations["freed_size"].as_u64() == size, "{number}: {error}");
        let asked = ["allocated_alignment", "freed_alignment"].map(|key| operations[key].as_u64());
        assert_eq!(asked, alignments, "{number}: {error}");
        assert_eq!(error["cwe"], Value::from(vec![762]));
        assert!(error["block"]["freed"].is_null(), "{error}");
        assert!(functions(&error["error"]).iter().any(|name| name.contains("culprit")), "{number}: {error}");
        assert!(!functions(&error["block"]["allocated"]).is_empty(), "{number}: {error}");
        let words = error["place"].as_str().expect("words");
        assert!(
            words.contains(&format!("{allocated} allocated")) && words.contains(&format!("{freed} freed")),
            "{words}"
        );
    }
}

/// Samples are guarded too, and pages that are protected.
#[test]
fn they_are_found_in_each_way_of_guarding() {
    let wrong = wrong();
    let all = numbers(&wrong);
    for number in [&all[0], &all[6], &all[11], &all[15]] {
        for (way, flags) in [(Way::Missing, &["--sample", "1"][..]), (Way::Handler, &[])] {
            let (report, status, ..) = guarded_by(way, flags, &[wrong.to_str().expect("a path"), number]);
            assert_eq!((errors(&report).len(), status), (1, 3), "{number} {way:?}: {report}");
            assert_eq!(report["errors"][0]["kind"], "mismatched-free", "{report}");
        }
    }
}

/// `watch --guard` reports each as it comes.
#[test]
fn a_watch_reports_them() {
    let wrong = wrong();
    let place = directory();
    let run = Run::new(mallow(), place.path()).args(["watch", "--guard", "--period", "1", "--json", "--"]).arg(&wrong);
    let outcome = run.arg(&numbers(&wrong)[6]).go();
    let text = format!("{}{}", outcome.out(), outcome.err());
    assert!(text.contains("\"mismatched-free\"") && text.contains("operator new"), "{text}");
}

/// Operators that call malloc and free without a symbol would make two errors of nothing.
#[test]
fn operators_that_are_not_seen_make_no_errors_and_the_report_says_so() {
    let flags = ["-w", "-O1", "-g"];
    let own = program_as("guard/own_operators", "guard-own-operators", "c++", &flags);
    let inside = program_as(
        "guard/own_operators",
        "guard-static-operators",
        "c++",
        &["-w", "-O1", "-g", "-DNONE", "-static-libstdc++", "-static-libgcc", "-fvisibility=hidden"],
    );
    let shared = program_as("guard/own_operators", "guard-shared-operators", "c++", &["-w", "-O1", "-g", "-DNONE"]);
    for (program, found, why) in [
        (&own, 0, Some("others than libstdc++'s operators")),
        (&inside, 0, Some("within the program, and call malloc and free without a symbol")),
        (&shared, 2, None),
    ] {
        let (report, _, out, err) = guarded(&[], &[program.to_str().expect("a path")]);
        assert_eq!((errors(&report).len(), out.as_str()), (found, "went on\n"), "{report} {err}");
        let reasons = report["uncompared"].as_object().expect("reasons");
        assert_eq!(reasons.len(), usize::from(why.is_some()), "{report}");
        assert!(why.is_none_or(|why| reasons.keys().any(|reason| reason.contains(why))), "{report}");
        let screen = Run::new(mallow(), directory().path()).args(["guard", "--"]).arg(program).go();
        assert_eq!(screen.err().contains("Mismatched frees were not looked for: 1 process"), why.is_some());
    }
    let (report, ..) = guarded(&[], &["true"]);
    assert_eq!(report["uncompared"], serde_json::json!({}), "no line of a program without operators: {report}");
}

#[test]
fn ci_knows_their_class() {
    let place = directory();
    let (junit, sarif) = (place.path().join("j.xml"), place.path().join("s.sarif"));
    let run = Run::new(mallow(), &workspace()).args(["guard", "--junit"]).arg(&junit).arg("--sarif").arg(&sarif);
    let wrong = wrong();
    let outcome = run.arg("--").arg(&wrong).arg(&numbers(&wrong)[6]).go();
    assert_eq!(outcome.status, 3, "{}", outcome.err());
    let xml = fs::read_to_string(junit).expect("JUnit");
    assert!(xml.contains("name=\"mismatched-free in culprit_free(void*) (wrong.cpp:"), "{xml}");
    let sarif: Value = serde_json::from_str(&fs::read_to_string(sarif).expect("SARIF")).expect("JSON");
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "mismatched-free", "{sarif}");
    assert!(sarif.to_string().contains("cwe-762"), "{sarif}");
}

/// C++ programs of others: nothing is compared wrongly.
#[test]
fn right_programs_of_others_are_silent() {
    let place = directory();
    let source = place.path().join("a.cpp");
    fs::write(&source, "#include <vector>\nint f(int x) { std::vector<int> v(3); return v[x]; }\n").expect("a file");
    let source = source.to_str().expect("a path");
    let commands: [&[&str]; 2] = [&["cppcheck", "--enable=all", "-q", source], &["cmake", "--help-full"]];
    for command in commands {
        tool(command[0]);
        let (report, status, _, err) = guarded(&[], command);
        assert_eq!((errors(&report).len(), status), (0, 0), "{command:?}: {report} {err}");
        assert_eq!((&report["unsure"], &report["uncompared"]), (&0.into(), &serde_json::json!({})), "{report}");
    }
}

/// Looking for operators that are nowhere is no allocation of the program's.
#[test]
fn a_program_without_operators_allocates_what_it_does_by_itself() {
    let place = directory();
    let json = |arguments: &[&str]| -> Value {
        let run = Run::new(mallow(), place.path()).args(arguments).args(["--json", "-o", "out.json", "--"]);
        let run = run.args([tool("tar").to_str().expect("a path"), "--version"]).go();
        assert_eq!(run.status, 0, "{}", run.err());
        harness::document(fs::read(place.path().join("out.json")).expect("a report"))
    };
    let (counted, guarded) = (json(&["stat"]), json(&["guard"]));
    let all = ["guarded", "unguarded", "unfit"].map(|key| guarded[key].as_u64().expect("a number"));
    assert_eq!(Some(all.iter().sum::<u64>()), counted["allocations"].as_u64(), "{guarded:#}");
}
