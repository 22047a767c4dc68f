//! `mallow go escape` on modules that are made here.

use std::fs;

use harness::{Outcome, Run, json, tool};
use serde_json::Value;

use crate::go_bench::Module;
use crate::go_pprof::go;
use crate::other_tools::ran;

const MODULE: &str = "module example.com/stream\n\ngo 1.22\n";

/// Both allocations of it have long paths to the heap; the third has none.
const STREAM: &str = "\
package stream

import (
	\"bytes\"
	\"io\"
)

func Copy(data []byte, size int) int {
	input := bytes.NewBuffer(data)
	buf := make([]byte, size)
	kept := [4]int{size}
	n, _ := io.ReadFull(input, buf)
	return n + kept[n&3]
}
";

impl Module {
    fn stream() -> Self {
        Self::new(&[("go.mod", MODULE), ("stream.go", STREAM)])
    }

    /// Writes one more file, or another text into one.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    /// What is shown, which must work.
    fn shown(&self, arguments: &[&str]) -> String {
        ran(self.run(arguments)).out()
    }

    fn git(&self, arguments: &[&str]) -> String {
        let who = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        ran(Run::new(tool("git"), self.path()).args(who).args(arguments)).out()
    }

    fn committed(self) -> Self {
        self.git(&["init", "-q"]);
        self.git(&["add", "-A"]);
        self.git(&["commit", "-qm", "first"]);
        self
    }
}

/// One line of what failed.
fn fails(outcome: &Outcome, status: i32) -> String {
    let error = outcome.err();
    assert_eq!((outcome.status, error.lines().count()), (status, 1), "{}{error}", outcome.out());
    error.strip_prefix("mallow: ").expect("who says it").trim_end().to_owned()
}

fn sites(value: &Value, key: &str) -> Vec<String> {
    let site = |site: &Value| {
        let text = |key: &str| site[key].as_str().unwrap_or_default().to_owned();
        format!("{}:{} {} {}: {}", text("file"), site["line"], text("function"), text("what"), text("reason"))
    };
    value[key].as_array().unwrap_or_else(|| panic!("{key}: {value}")).iter().map(site).collect()
}

#[test]
fn what_is_in_the_heap_is_shown_with_its_way() {
    let module = Module::stream();
    let shown = module.shown(&["escape", "-v"]);
    for expected in [
        "2 places of example.com/stream",
        "stream.go:9  Copy  &bytes.Buffer{...}  inlined from buffer.go:",
        "assigned to input at stream.go:9 → converted to an interface at 12 → passed to io.ReadFull at 12 → \
         argument of io.ReadAtLeast at 12, which leaks it to the heap → passed to r.Read at io.go:",
        "suggestion  call the concrete type's own methods rather than pass it as an interface, unless it is kept there",
        "stream.go:10  Copy  make([]byte, size)",
    ] {
        assert!(shown.contains(expected), "{expected} is not in:\n{shown}");
    }
    let report = json(&module.mallow(&["escape", "--json"]));
    assert_eq!(
        sites(&report, "sites"),
        ["stream.go:9 Copy &bytes.Buffer{...}: passed", "stream.go:10 Copy make([]byte, size): passed"]
    );
    let site = &report["sites"][0];
    assert_eq!((&site["callee"], &site["interface"]), (&"io.ReadAtLeast".into(), &true.into()));
    assert_eq!(report["passed_over"], 0);
    // Nothing was written beside the sources, and what was kept says the same.
    assert_eq!(fs::read_dir(module.path()).expect("a directory").count(), 2);
    assert_eq!(module.shown(&["escape", "-v"]), shown);
}

#[test]
fn a_revision_is_compared_and_nothing_is_touched() {
    let module = Module::stream().committed();
    // All lines move, and one place is new.
    let changed = format!("// Package stream streams.\n{STREAM}\nvar last *int\n\nfunc Keep(n int) {{ last = &n }}\n");
    module.write("stream.go", &changed);
    let before =
        (module.git(&["status", "--porcelain"]), fs::read(module.path().join(".git/index")).expect("an index"));
    let outcome = module.mallow(&["escape", "--diff", "HEAD", "--json", "--fail-on-new"]);
    assert_eq!(outcome.status, 3, "{}", outcome.err());
    let report = json(&outcome);
    assert_eq!((sites(&report, "new"), sites(&report, "gone")), (vec!["stream.go:19 Keep n: stored".into()], vec![]));
    assert_eq!((&report["same"], &report["base"]), (&2.into(), &"HEAD".into()));
    let shown = module.shown(&["escape", "--diff", "HEAD"]);
    assert!(
        shown.starts_with("New in the heap since HEAD: 1 place of example.com/stream, 0 no longer; 2 as before\n"),
        "{shown}"
    );
    assert!(shown.contains("path        stored in last at 19\n"), "{shown}");
    let after = (module.git(&["status", "--porcelain"]), fs::read(module.path().join(".git/index")).expect("an index"));
    assert_eq!(after, before);
    assert_eq!(module.git(&["worktree", "list"]).lines().count(), 1);
    let wrong = module.mallow(&["escape", "--diff=--output=x"]);
    assert!(fails(&wrong, 1).contains("--output=x is no revision of git here"), "{}", wrong.err());
}

#[test]
fn a_saved_file_is_compared_too() {
    let module = Module::stream();
    let saved = module.shown(&["escape", "--json"]);
    module.write("base.json", &saved);
    module.write("stream.go", &STREAM.replace("[4]int{size}", "[]int{size}").replace("kept[n&3]", "len(kept)"));
    module.write("more.go", "package stream\n\nfunc New() *int { return new(int) }\n");
    let outcome = module.mallow(&["escape", "--base", "base.json", "--fail-on-new"]);
    assert_eq!(outcome.status, 3, "{}", outcome.err());
    assert!(outcome.out().contains("more.go:3  New  new(int)"), "{}", outcome.out());
    fs::remove_file(module.path().join("more.go")).expect("a file");
    assert_eq!(module.mallow(&["escape", "--base", "base.json", "--fail-on-new"]).status, 0);
    // A file of another kind is an error of one line, before anything is built.
    for (text, expected) in [
        ("", "is not what mallow go escape --json writes: EOF"),
        ("{\"version\": 1, \"sites\": [{}]}", "is not what mallow go escape --json writes: missing field"),
        ("{\"version\": 9}", "is from a newer mallow (version 9, known up to 1)"),
        (&saved[..saved.len() / 2], "is not what mallow go escape --json writes: EOF"),
        ("\u{1b}[31m", "is not what mallow go escape --json writes: expected value"),
    ] {
        module.write("base.json", text);
        let error = fails(&module.mallow(&["escape", "--base", "base.json"]), 1);
        assert!(error.contains(expected), "{error}");
    }
    assert!(fails(&module.mallow(&["escape", "--base", "none.json"]), 1).starts_with("cannot read none.json: "));
    assert!(fails(&module.mallow(&["escape", "--fail-on-new"]), 1).contains("needs --diff REV or --base FILE"));
}

#[test]
fn a_profile_ranks_the_places() {
    let module = Module::stream();
    let test = "package stream\n\nimport \"testing\"\n\nvar data = make([]byte, 64)\n\nfunc BenchmarkCopy(b *testing.B) {\n\
                \tfor i := 0; i < b.N; i++ {\n\t\tCopy(data, 64)\n\t}\n}\n";
    module.write("stream_test.go", test);
    let flags = ["-run=^$", "-bench=.", "-benchtime=1000x", "-memprofile=mem.out", "-memprofilerate=1"];
    ran(go(module.path()).arg("test").args(flags));
    let report = json(&module.mallow(&["escape", "--profile", "mem.out", "--json"]));
    let counts: Vec<_> = report["sites"].as_array().expect("sites").iter().map(|site| &site["allocations"]).collect();
    // The benchmark runs once before.
    assert_eq!(counts, [1001, 1001], "{report}");
    assert_eq!(report["sites"][0]["allocated_bytes"].as_u64(), Some(1001 * 64));
    assert!(report["profile"]["allocations"].as_u64() >= Some(2002));
    let shown = module.shown(&["escape", "--profile", "mem.out"]);
    assert!(shown.contains("1,001  64.1 kB  stream.go:10  Copy"), "{shown}");
}

#[test]
fn sarif_has_a_result_for_each_place() {
    let module = Module::stream().committed();
    module.write("sub/sub.go", "package sub\n\nfunc New() *int { return new(int) }\n");
    module.shown(&["escape", "./...", "--diff", "HEAD", "--sarif", "out.sarif"]);
    let text = fs::read_to_string(module.path().join("out.sarif")).expect("a file");
    let sarif: Value = serde_json::from_str(&text).expect("JSON");
    let results = sarif["runs"][0]["results"].as_array().expect("results");
    assert_eq!(results.len(), 1, "{sarif}");
    assert_eq!((&results[0]["ruleId"], &results[0]["level"]), (&"returned".into(), &"warning".into()));
    let place = &results[0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "sub/sub.go");
    assert_eq!((&place["region"]["startLine"], &place["region"]["startColumn"]), (&3.into(), &29.into()));
    assert_eq!(sarif["runs"][0]["tool"]["driver"]["rules"][0]["id"], "returned");
}

#[test]
fn packages_of_all_sorts() {
    // cgo, an assembly stub, a build tag, generics, method values, and two modules of a workspace.
    let module = Module::new(&[
        ("go.work", "go 1.22\n\nuse (\n\t./a\n\t./b\n)\n"),
        ("a/go.mod", "module example.com/a\n\ngo 1.22\n"),
        ("a/stub_amd64.s", "TEXT ·Stub(SB), 4, $0-8\n\tRET\n"),
        ("a/a.go", "package a\n\nfunc Stub(p *int)\n\nfunc Local() { n := 1; Stub(&n) }\n"),
        ("a/tagged.go", "//go:build special\n\npackage a\n\nfunc Tagged() *int { return new(int) }\n"),
        ("b/go.mod", "module example.com/b\n\ngo 1.22\n\nrequire example.com/a v0.0.0\n"),
        (
            "b/b.go",
            "package b\n\nimport \"example.com/a\"\n\ntype Pair[T any] struct{ a, b T }\n\n\
             func Make[T any](v T) *Pair[T] { return &Pair[T]{v, v} }\n\n\
             func (p *Pair[T]) Sum() T { return p.a }\n\n\
             func Use() (*Pair[int], func() string) { a.Local(); return Make(1), Make(\"x\").Sum }\n",
        ),
        (
            "c/c.go",
            "package c\n\n// int twice(int n) { return 2 * n; }\nimport \"C\"\n\nfunc Twice(n int) *int {\n\
             \tm := int(C.twice(C.int(n)))\n\treturn &m\n}\n",
        ),
        ("c/go.mod", "module example.com/c\n\ngo 1.22\n"),
    ]);
    let of = |directory: &str, more: &[&str]| {
        let output = ran(module.run_in(directory, "go", &["escape", "--json"]).args(more)).out();
        sites(&serde_json::from_str(&output).expect("JSON"), "sites")
    };
    assert_eq!(of("a", &[]), ["a.go:5 Local n: passed"]);
    assert_eq!(of("a", &["--tags", "special"]), ["a.go:5 Local n: passed", "tagged.go:5 Tagged new(int): returned"]);
    let generic = of("b", &["."]);
    // Once in the generic function, and once for each call that it is inlined into.
    assert!(generic[0].starts_with("b.go:7 Make["), "{generic:?}");
    let used: Vec<_> = generic.iter().filter_map(|site| site.strip_prefix("b.go:11 Use ")).collect();
    let expected = ["a.n: passed", "&Pair[int]{...}: returned", "&Pair[string]{...}: returned", "(~r0).Sum: returned"];
    assert_eq!(used, expected);
    module.write("go.work", "go 1.22\n\nuse ./c\n");
    assert_eq!(of("c", &[]), ["c.go:7 Twice m: returned"]);
}

#[test]
fn what_cannot_be_built_is_one_line() {
    let module = Module::stream();
    let run = |arguments: &[&str]| fails(&module.mallow(arguments), 1);
    module.write("wrong/wrong.go", "package wrong\n\nfunc F() int { return undefined }\n");
    let error = run(&["escape", "./wrong"]);
    assert!(
        error.contains("does not compile") && error.contains("wrong/wrong.go:3:23: undefined: undefined"),
        "{error}"
    );
    let error = run(&["escape", "./nowhere"]);
    assert!(error.contains("nowhere"), "{error}");
    module.write("empty/readme", "");
    let error = run(&["escape", "./empty/..."]);
    assert!(error.contains("no package"), "{error}");
    let nothing = tempfile::tempdir().expect("a directory");
    let error = fails(&module.run(&["escape"]).env("PATH", Some(nothing.path())).go(), 1);
    assert!(error.starts_with("go is not found in PATH"), "{error}");
    let error = run(&["escape", "--diff", "HEAD"]);
    assert!(error.contains("HEAD is no revision of git here"), "{error}");
    assert_eq!(
        fails(&module.mallow(&["escape", "--profile", "go.mod"]), 1).split(':').next(),
        Some("cannot read go.mod")
    );
}
