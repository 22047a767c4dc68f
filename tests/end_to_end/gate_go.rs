//! `mallow test` on benchmarks of Go.

use std::fs;

use harness::{Outcome, json};
use serde_json::Value;

use crate::go_bench::Module;
use crate::watch_harness::until;

const CODE: &str = "\
package parts

import \"strings\"

var last []string

func Parts(line string) int {
\tparts := strings.Split(line, \",\")
\tlast = parts
\treturn len(parts)
}
";

const TEST: &str = "\
package parts

import \"testing\"

func BenchmarkParts(b *testing.B) {
\tfor _, line := range []string{\"a\", \"a,b\"} {
\t\tb.Run(line, func(b *testing.B) {
\t\t\tfor i := 0; i < b.N; i++ {
\t\t\t\tParts(line)
\t\t\t}
\t\t})
\t}
}
";

const CASES: &str = "[[case]]\nkind = \"go\"\npackages = \"./...\"\n";

fn module(cases: &str) -> Module {
    let module = "module example.com/parts\n\ngo 1.22\n";
    Module::new(&[("go.mod", module), ("parts.go", CODE), ("parts_test.go", TEST), ("mallow.toml", cases)])
}

fn test(module: &Module, arguments: &[&str]) -> Outcome {
    module.run_in(".", "test", arguments).go()
}

fn verdicts(report: &Value) -> Vec<(String, String)> {
    let text = |case: &Value, key: &str| case[key].as_str().expect("text").to_owned();
    report["cases"].as_array().expect("cases").iter().map(|case| (text(case, "name"), text(case, "verdict"))).collect()
}

#[test]
fn each_benchmark_is_held_to_its_baseline_and_a_new_line_is_named_with_its_reason() {
    let module = module(CASES);
    let made = test(&module, &["--update"]);
    assert_eq!(made.status, 0, "{}{}", made.out(), made.err());
    assert!(made.out().contains("example.com/parts.BenchmarkParts/a,b.total_allocations: 1\n"), "{}", made.out());
    // What Go's runtime needs is one line, and not one for each benchmark. Where runs differ by more, as beside much other
    // work, the tolerance of that benchmark is another line.
    let lines = made.err().lines().filter(|line| line.contains("tolerates")).map(str::to_owned).collect::<Vec<_>>();
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.starts_with("mallow: tolerates 40 B/op in ") && line.contains("runtime"), "{line}");
    assert_eq!(test(&module, &[]).status, 0);
    let more = CODE.replace("\tlast = parts\n", "\tlast = append([]string{line}, parts...)\n\tkept = &parts\n")
        + "\nvar kept *[]string\n";
    module.write("parts.go", &more);
    let done = test(&module, &["a,b", "--json", "--sarif", "out.sarif"]);
    assert_eq!(done.status, 1, "{}{}", done.out(), done.err());
    let report = json(&done);
    assert_eq!(verdicts(&report), [("example.com/parts.BenchmarkParts/a,b".into(), "regressed".into())]);
    let case = &report["cases"][0];
    assert!(case["measured"]["total_allocations"].as_i64() >= Some(3), "{case}");
    let reasons = case["explanation"]["reasons"].as_array().expect("reasons");
    let moved = reasons.iter().find(|reason| reason["place"] == "parts.go:8").expect("the variable that is kept");
    assert!(moved["what"].as_str().is_some_and(|what| what.contains("parts")), "{moved}");
    assert_eq!(moved["reason"], "stored in kept");
    assert_eq!(moved["steps"], serde_json::json!(["stored in kept at 10"]));
    let explanation = &case["explanation"];
    assert_eq!(explanation["change"], explanation["explained"], "{explanation}");
    let sarif = std::fs::read_to_string(module.path().join("out.sarif")).expect("a file");
    assert!(
        sarif.contains("\"text\": \"+1 allocation per op, rounded, in example.com/parts.BenchmarkParts/a,b: "),
        "{sarif}"
    );
    assert!(sarif.contains("stored in kept"), "{sarif}");
    let shown = test(&module, &["a,b"]).out();
    assert!(shown.contains(": stored in kept\n"), "{shown}");
}

/// Go divides and rounds down: half an allocation is 0 of 32 bytes, and nine tenths are 0 of 57.
#[test]
fn what_go_rounds_down_is_no_exact_figure() {
    let module = module(CASES);
    let half = CODE.replace("parts := strings.Split(line, \",\")\n\tlast = parts", "parts := every(2, line)");
    let every = "\nvar calls int\nvar kept []byte\n\nfunc every(n int, line string) []string {\n\tcalls++\n\t\
                 if (n == 2) == (calls%max(n, 2) == 0) {\n\t\tkept = make([]byte, 64)\n\t}\n\treturn nil\n}\n";
    let half = half.replace("import \"strings\"\n\n", "") + every;
    module.write("parts.go", &half);
    let made = test(&module, &["--update", "--markdown", "m.md", "-v"]);
    assert_eq!(made.status, 0, "{}{}", made.out(), made.err());
    let out = made.out();
    assert!(out.contains("BenchmarkParts/a.total_allocations: 0\n"), "{out}");
    let note = "which Go rounds down: 0 may be 0.9\n";
    let markdown = fs::read_to_string(module.path().join("m.md")).expect("a file");
    for text in [&out, &markdown] {
        assert!(text.contains(note) && !text.contains("0.00") && !text.contains("remaining_allocations"), "{text}");
    }
    module.write("parts.go", &half.replace("every(2, line)", "every(10, line)"));
    let out = test(&module, &[]).out();
    assert!(!out.contains("of 0 allocations") && !out.contains("+1.00 per op") && !out.contains("new\n"), "{out}");
    let report = json(&test(&module, &["--json"]));
    for case in report["cases"].as_array().expect("cases") {
        assert_eq!(case["rounded_down"], true, "{case}");
        assert!(case["measured"].get("remaining_allocations").is_none(), "{case}");
        let checked =
            case["checks"].as_array().expect("checks").iter().find(|c| c["metric"] == "remaining_allocations");
        assert!(checked.is_none_or(|check| check["figure"].is_null() && check["verdict"] == "passed"), "{case}");
    }
}

/// A tenth of an allocation becomes nine tenths: both are 0 as Go rounds them, and 0 and 1 as the nearest whole numbers.
#[test]
fn a_fraction_of_an_allocation_is_no_whole_one() {
    const BENCHMARK: &str = "package parts\n\nimport \"testing\"\n\nvar kept []byte\n\n\
        func BenchmarkPart(b *testing.B) {\n\tfor i := 0; i < b.N; i++ {\n\t\tif i%10 == 0 {\n\t\t\t\
        kept = make([]byte, 64)\n\t\t}\n\t}\n}\n";
    // What the runtime allocates beside other programs is no part of so many.
    let module = module(&format!("{CASES}ops = 10000\n"));
    module.write("parts_test.go", BENCHMARK);
    let made = test(&module, &["--update"]);
    assert_eq!(made.status, 0, "{}{}", made.out(), made.err());
    module.write("parts_test.go", &BENCHMARK.replace("i%10 == 0", "i%10 != 0"));
    let done = test(&module, &["--markdown", "m.md"]);
    assert_eq!(done.status, 1, "{}{}", done.out(), done.err());
    let (out, markdown) = (done.out(), fs::read_to_string(module.path().join("m.md")).expect("a file"));
    assert!(out.contains("  +1 allocation per op, rounded, 0 → 1 (now 0.90), +5"), "{out}");
    assert!(out.contains("the stacks, of a run of their own, rounded to whole allocations, by +1 allocation"), "{out}");
    assert!(markdown.contains("\n- +1 allocation per op, rounded: make"), "{markdown}");
}

#[test]
fn what_cannot_be_measured_is_broken_and_says_why() {
    let module = module(&format!("{CASES}bench = \"Nothing\"\n"));
    let done = test(&module, &[]);
    assert_eq!(done.status, 4, "{}", done.err());
    assert!(done.out().contains("no benchmark of ./... matches \"Nothing\""), "{}", done.out());
    module.write("mallow.toml", CASES);
    module.write("parts.go", "package parts\n\nfunc Parts(line string) int { return missing }\n");
    let done = test(&module, &["--json"]);
    assert_eq!(done.status, 4);
    let report = json(&done);
    assert_eq!(verdicts(&report), [("example.com/parts".into(), "broken".into())]);
    let why = report["cases"][0]["why"].as_str().expect("why");
    assert!(why.contains("does not compile") && why.contains("parts.go:3:38: undefined: missing"), "{why}");
}

/// With PARTS=slow it starts another program, and sleeps: their identifiers are in files.
const SLOW: &str = "package parts\n\nimport (\n\t\"os\"\n\t\"os/exec\"\n\t\"strconv\"\n\t\"time\"\n)\n\nvar kept []byte\n\n\
        func Parts(line string) int {\n\tif os.Getenv(\"PARTS\") == \"slow\" {\n\t\tother := exec.Command(\"sleep\", \"1000\")\n\
        \t\tother.Start()\n\t\tos.WriteFile(\"own\", []byte(strconv.Itoa(os.Getpid())), 0o600)\n\
        \t\tos.WriteFile(\"other\", []byte(strconv.Itoa(other.Process.Pid)), 0o600)\n\
        \t\ttime.Sleep(time.Hour)\n\t}\n\tkept = make([]byte, len(os.Getenv(\"PARTS\")))\n\treturn 0\n}\n";

/// Waits until a program is gone whose identifier is in a file; who adopts it may leave its remains for a while.
fn until_gone(module: &Module, file: &str, name: &str) {
    let pid = fs::read_to_string(module.path().join(file)).expect("it ran");
    let runs = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.starts_with(&format!("Name:\t{name}")) && !status.contains("State:\tZ")
    };
    until(&format!("the end of {file}"), || (!runs()).then_some(()));
}

#[test]
fn interrupted_it_leaves_nothing_running() {
    for (arguments, signal, status) in
        [(&["test"][..], "INT", 130), (&["go", "bench"], "TERM", 143), (&["go", "bench"], "INT", 130)]
    {
        let module = module(CASES);
        module.write("parts.go", SLOW);
        let mut alive = module.alive(arguments, &[("PARTS", "slow")]);
        until("the benchmark", || fs::read_to_string(module.path().join("other")).ok().filter(|pid| !pid.is_empty()));
        alive.signal(signal);
        assert_eq!(alive.end(), status, "{arguments:?}");
        until_gone(&module, "own", "parts");
        until_gone(&module, "other", "sleep");
    }
}

#[test]
fn a_case_has_its_environment_and_its_time() {
    let module = module(&format!("{CASES}environment = {{ PARTS = \"12345678901234567890\" }}\n"));
    module.write("parts.go", SLOW);
    let made = test(&module, &["--update"]);
    assert_eq!(made.status, 0, "{}{}", made.out(), made.err());
    let bytes = |size: u32| format!("example.com/parts.BenchmarkParts/a.total_allocated_bytes: {size}\n");
    assert!(made.out().contains(&bytes(24)), "{}", made.out());
    module.write("mallow.toml", &format!("{CASES}environment = {{ PARTS = \"slow\" }}\ntimeout = 5\n"));
    let done = test(&module, &["--json"]);
    assert_eq!(done.status, 4, "{}", done.err());
    let report = json(&done);
    let why = report["cases"].to_string();
    assert!(why.contains("its benchmarks took longer than 5 s; timeout in mallow.toml allows more"), "{why}");
    // What it started is gone too.
    until_gone(&module, "other", "sleep");
}

#[test]
fn a_case_that_makes_no_sense_is_one_line() {
    for (more, expected) in [
        ("command = \"true\"", "command has no meaning where kind is \"go\""),
        ("quiet = 1", "quiet has no meaning where kind is \"go\""),
        ("ops = \"scale\"", "ops is a number where kind is \"go\""),
        ("runs = 0", "at least one run"),
        ("kind = \"swift\"", "duplicate key"),
    ] {
        let done = test(&module(&format!("{CASES}{more}\n")), &[]);
        assert_eq!((done.status, done.err().lines().count()), (2, 1), "{}", done.err());
        assert!(done.err().contains(expected), "{}", done.err());
    }
    let done = test(&module("[[case]]\nkind = \"swift\"\n"), &[]);
    assert!(done.err().contains("mallow.toml:2: kind is \"command\" or \"go\""), "{}", done.err());
    let done = test(&module("[[case]]\nname = \"a\"\ncommand = \"true\"\nbench = \"x\"\n"), &[]);
    assert!(done.err().contains("packages, bench and tags are those of kind = \"go\""), "{}", done.err());
}
