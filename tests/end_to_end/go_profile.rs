//! `mallow go profile` and `mallow go why --profile`: heap profiles that are there already, of programs, tests and
//! servers.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;

use harness::{Outcome, json};
use serde_json::Value;

use crate::go_bench::Module;
use crate::go_pprof::go;
use crate::other_tools::ran;

/// It keeps a hundred nodes and as many names, and drops a thousand buffers.
const MAIN: &str = r#"package main

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
)

type node struct {
	next *node
	name string
}

var all *node

//go:noinline
func keep(n int) {
	name := "node number " + strconv.Itoa(n)
	all = &node{all, name}
}

//go:noinline
func drop(n int) {
	in := bytes.NewBuffer(nil)
	io.ReadAll(in)
	_ = make([]byte, n)
}

func main() {
	runtime.MemProfileRate = 1
	for i := 0; i < 100; i++ {
		keep(1000 + i)
	}
	for i := 0; i < 1000; i++ {
		drop(100)
	}
	runtime.GC()
	file, err := os.Create("heap.pb.gz")
	if err == nil {
		err = pprof.WriteHeapProfile(file)
	}
	if err != nil {
		panic(err)
	}
}
"#;

const OTHER: &str = "package main\n\nfunc main() { println(\"another\") }\n";

/// A module with the program, built, and its profile.
pub fn profiled() -> Module {
    let module = Module::new(&[
        ("go.mod", "module example.com/nodes\n\ngo 1.22\n"),
        ("main.go", MAIN),
        ("other/main.go", OTHER),
    ]);
    ran(go(module.path()).args(["build", "-o", "nodes", "."]));
    let status = Command::new(module.path().join("nodes")).current_dir(module.path()).status();
    assert!(status.is_ok_and(|status| status.success()), "the program writes its profile");
    module
}

fn ok(outcome: &Outcome) -> Value {
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    json(outcome)
}

/// The line of the program that is allocated at.
fn line(report: &Value, number: u64) -> Value {
    let lines = report["lines"].as_array().expect("lines");
    let is = |line: &&Value| {
        let outer = line["chain"].as_array().and_then(|chain| chain.last()).expect("a place");
        outer["line"] == number && outer["file"].as_str().is_some_and(|file| file.ends_with("/main.go"))
    };
    lines.iter().find(is).unwrap_or_else(|| panic!("no line {number} in {lines:#?}")).clone()
}

#[test]
fn a_profile_has_its_lines_and_their_reasons() {
    let module = profiled();
    let report = ok(&module.mallow(&["profile", "heap.pb.gz", "--json"]));
    assert_eq!(report["notes"].as_array().map(Vec::len), Some(0), "{report}");
    for (number, what, callee, allocations, reason) in [
        (22, "&node{...}", "runtime.newobject", 100.0, "stored in all"),
        (27, "&bytes.Buffer{...}", "runtime.newobject", 1000.0, "converted to an interface for io.ReadAll"),
    ] {
        let line = line(&report, number);
        let is = (&line["what"], &line["call"]["callee"], line["allocations"].as_f64(), &line["reason"]);
        assert_eq!(is, (&what.into(), &callee.into(), Some(allocations), &reason.into()));
    }
    let live = ok(&module.mallow(&["profile", "heap.pb.gz", "--live", "--json"]));
    assert_eq!(line(&live, 22)["allocations"].as_f64(), Some(100.0));
    let dropped = |line: &Value| line["what"] == "&bytes.Buffer{...}";
    assert!(!live["lines"].as_array().expect("lines").iter().any(dropped), "{live}");
    let sums = &report["sums"];
    let of = |key: &str| sums[key].as_f64().expect("a number");
    let rows: f64 =
        report["lines"].as_array().expect("lines").iter().filter_map(|line| line["allocations"].as_f64()).sum();
    assert!(of("of_runtime") > 0.0 && (of("allocations") - of("of_runtime") - rows).abs() < 0.5, "{sums}");
    // People see the same.
    let output = module.mallow(&["profile", "heap.pb.gz"]).out();
    for text in [
        "Lines of heap.pb.gz by bytes, what allocates there and why",
        "stored in all",
        "suggestion: ",
        "are the runtime's own and have no row",
    ] {
        assert!(output.contains(text), "no {text:?} in\n{output}");
    }
    let output = module.mallow(&["why", "main.go:22", "--profile", "heap.pb.gz"]).out();
    for text in [
        "main.go:22 main.keep: &node{...}",
        "  in heap.pb.gz (100 allocations, 2.40 kB, ",
        "by runtime.newobject of main.node (24 B)",
        "  22      all = &node{all, name}",
    ] {
        assert!(output.contains(text), "no {text:?} in\n{output}");
    }
    let output = module.run_in(".", "list", &["main.drop", "heap.pb.gz"]).go().out();
    let reason = "↑ &bytes.Buffer{...} of bytes.NewBuffer, inlined here: converted to an interface for io.ReadAll\n";
    assert!(output.contains(reason), "{output}");
    let report = json(&module.run_in(".", "list", &["main.keep", "heap.pb.gz", "--json"]).go());
    let lines = report["functions"][0]["lines"].as_array().expect("lines");
    assert!(lines.iter().any(|line| line["reasons"].to_string().contains("stored in all")), "{report}");
}

#[test]
fn a_profile_without_its_program_says_so_and_has_the_compilers_reasons() {
    let module = profiled();
    let at = |name: &str| module.path().join(name);
    fs::create_dir(at("kept")).expect("a directory");
    fs::rename(at("nodes"), at("kept/program")).expect("the program moves");
    let report = ok(&module.mallow(&["profile", "heap.pb.gz", "--json"]));
    assert!(report["notes"][0].as_str().is_some_and(|note| note.contains("/nodes, is not here")), "{report}");
    let node = line(&report, 22);
    assert_eq!((&node["reason"], &node["call"]), (&"stored in all".into(), &Value::Null), "{node}");
    let listed = module.run_in(".", "list", &["main.keep", "heap.pb.gz"]).go().out();
    assert!(listed.contains("/nodes, is not here: reasons are the compiler's"), "{listed}");
    let named = ok(&module.mallow(&["profile", "heap.pb.gz", "--binary", "kept/program", "--json"]));
    assert_eq!(line(&named, 22)["call"]["type"]["name"], "main.node");
    ran(go(module.path()).args(["build", "-o", "another", "./other"]));
    for (binary, why) in [("another", "is not the program of the profile"), ("main.go", "is no program of Go's")] {
        let outcome = module.mallow(&["profile", "heap.pb.gz", "--binary", binary]);
        assert_eq!((outcome.status, outcome.err().lines().count()), (1, 1), "{}", outcome.err());
        assert!(outcome.err().contains(why), "{}", outcome.err());
    }
    // Elsewhere the compiler knows nothing of it.
    let outcome = module.run_in("kept", "list", &["main.keep", "../heap.pb.gz"]).env("PATH", Some("/nowhere")).go();
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    assert!(outcome.out().contains("No reasons: go is not found in PATH"), "{}", outcome.out());
}

/// Serves a file to so many clients, one after the other; the address.
fn served(content: Vec<u8>, clients: usize) -> (String, thread::JoinHandle<()>) {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}/debug/pprof/heap", server.local_addr().expect("its address"));
    let serving = thread::spawn(move || {
        for _ in 0..clients {
            let (mut client, _) = server.accept().expect("a client");
            let mut asked = [0; 4096];
            let _ = client.read(&mut asked).expect("a request");
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len());
            client.write_all(head.as_bytes()).expect("the head");
            client.write_all(&content).expect("the profile");
        }
    });
    (address, serving)
}

#[test]
fn a_server_is_asked_for_its_profile() {
    let module = profiled();
    let content = fs::read(module.path().join("heap.pb.gz")).expect("the profile");
    let (address, serving) = served(content, 3);
    let report = ok(&module.mallow(&["profile", &address, "--json"]));
    assert_eq!(line(&report, 22)["reason"], "stored in all");
    let ranked = ok(&module.mallow(&["escape", "--profile", &address, "--json"]));
    let node = ranked["sites"].as_array().expect("sites").iter().find(|site| site["what"] == "&node{...}");
    assert_eq!(node.map(|site| &site["allocations"]), Some(&100.into()), "{ranked}");
    let top = module.run_in(".", "top", &[&address]).go();
    assert!(top.out().contains("main.keep"), "{}", top.out());
    serving.join().expect("the server");
    let refused = |arguments: &[&str], why: &str| {
        let outcome = module.mallow(arguments);
        assert_eq!((outcome.status, outcome.err().lines().count()), (1, 1), "{}", outcome.err());
        assert!(outcome.err().contains(why), "{}", outcome.err());
    };
    refused(&["why", "main.go:22", "--profile", &address], "Connection refused");
    let (page, serving) = served(b"<html>nothing of pprof's</html>".to_vec(), 1);
    refused(&["profile", &page], "cannot read http://127.0.0.1:");
    serving.join().expect("the server");
    refused(&["profile", "main.go"], "cannot read main.go");
    refused(
        &["why", "main.go:1", "--profile", "heap.pb.gz"],
        "nothing is allocated at main.go:1, neither in heap.pb.gz",
    );
}

#[test]
fn the_profile_of_a_test_finds_its_program() {
    let module = Module::example("elvis");
    let profile =
        ["test", "-run=^$", "-bench=.", "-benchtime=1000x", "-memprofile=mem.out", "-memprofilerate=1", "-o=x.test"];
    ran(go(module.path()).args(profile));
    let found = |what: &str| {
        let report = ok(&module.mallow(&["profile", "mem.out", "--json"]));
        let lines = report["lines"].as_array().expect("lines");
        let buffer = lines.iter().find(|line| line["what"] == "&bytes.Buffer{...}").expect("the buffer");
        assert_eq!(buffer["call"]["callee"], "runtime.newobject", "{what}: {}", report["notes"]);
        assert!(buffer["reason"].as_str().is_some_and(|reason| reason.contains("io.ReadAtLeast")), "{buffer}");
    };
    // Where Go built it is no file any more; what it left here is the same, and so is one that is built anew.
    found("the program is here");
    fs::remove_file(module.path().join("x.test")).expect("the program");
    found("the program is built anew");
}

/// It holds ten times as much in the second profile, and drops a hundred times as much as that.
const HOLDS: &str = r#"package main

import (
	"os"
	"runtime"
	"runtime/pprof"
)

var (
	kept [][]byte
	last []byte
)

//go:noinline
func hold(n int) { kept = append(kept, make([]byte, n)) }

//go:noinline
func drop(n int) { last = make([]byte, n) }

func write(name string) {
	last = nil
	runtime.GC()
	file, err := os.Create(name)
	if err == nil {
		err = pprof.WriteHeapProfile(file)
	}
	if err != nil {
		panic(err)
	}
}

func main() {
	runtime.MemProfileRate = 1
	hold(100000)
	write("before.pb.gz")
	for i := 0; i < 9; i++ {
		hold(100000)
	}
	for i := 0; i < 10000; i++ {
		drop(10000)
	}
	write("after.pb.gz")
}
"#;

#[test]
fn heap_profiles_are_compared_by_what_is_live() {
    let module = Module::new(&[("go.mod", "module example.com/holds\n\ngo 1.22\n"), ("main.go", HOLDS)]);
    ran(go(module.path()).args(["build", "-o", "holds", "."]));
    let status = Command::new(module.path().join("holds")).current_dir(module.path()).status();
    assert!(status.is_ok_and(|status| status.success()), "the program writes its profiles");
    let shown = ran(module.run_in(".", "diff", &["before.pb.gz", "after.pb.gz"])).out();
    let first = shown.lines().next().unwrap_or_default();
    assert!(first.contains("main.hold") && !first.contains("main.drop"), "{shown}");
    // Go's own tool names the same function first, by the same measure.
    let top = crate::go_pprof::pprof(
        module.path(),
        &["-sample_index=inuse_space", "-diff_base=before.pb.gz", "-top", "-nodecount=1", "holds", "after.pb.gz"],
    );
    assert!(top.contains("main.hold"), "{top}");
    let by = ran(module.run_in(".", "diff", &["--by", "allocations", "before.pb.gz", "after.pb.gz"])).out();
    assert!(by.lines().next().is_some_and(|line| line.contains("main.drop")), "{by}");
}

/// A static program of Go's that waits until its input ends.
const WAITS: &str = "package main\n\nimport \"os\"\n\nfunc main() { os.Stdin.Read(make([]byte, 1)) }\n";

#[test]
fn a_static_program_of_go_is_answered_at_once_with_what_shows_its_heap() {
    let module = Module::new(&[("go.mod", "module example.com/waits\n\ngo 1.22\n"), ("main.go", WAITS)]);
    ran(go(module.path()).env("CGO_ENABLED", Some("0")).args(["build", "-o", "waits", "."]));
    let says = |outcome: &Outcome| {
        let error = outcome.err();
        for expected in ["is a Go program, statically linked", "mallow go profile --live", "GOMEMLIMIT"] {
            assert!(error.contains(expected), "no {expected:?} in {error}");
        }
        error
    };
    let watched = says(&module.run_in(".", "watch", &["./waits"]).go());
    // The summary alone is left on a busy terminal.
    let summary = watched.split_once("\nVerdict: ").expect("a summary").1;
    let verdict =
        "Nothing of it is seen: ./waits is a Go program, statically linked: Go's heap is its own, not malloc's\n";
    assert!(summary.starts_with(verdict) && !summary.contains("Too early"), "{watched}");
    assert!(summary.contains("Next: mallow go profile --live") && !summary.contains("mallow record"), "{watched}");
    let report = ran(module.run_in(".", "watch", &["--json", "-o", "reports", "./waits"]));
    let lines = std::fs::read_to_string(module.path().join("reports")).expect("reports");
    let last = harness::document(lines.lines().last().expect("a report"));
    let unseen = &last["unseen"];
    assert!(unseen["found"].to_string().contains("statically linked"), "{last:#} {}", report.err());
    assert!(unseen["remedy"].to_string().contains("mallow go profile --live"), "{last:#}");
    let divided = says(&module.run_in(".", "rss", &["--", "./waits"]).go());
    assert!(divided.starts_with("mallow: what ./waits has in memory cannot be divided: "), "{divided}");
    let mut child = Command::new(module.path().join("waits"))
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("the program runs");
    let attached = module.run_in(".", "watch", &["-p", &child.id().to_string()]).go();
    drop(child.stdin.take());
    child.wait().expect("it ends");
    says(&attached);
    assert_ne!(attached.status, 0);
}
