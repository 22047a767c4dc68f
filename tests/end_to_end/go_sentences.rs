//! What `mallow go` says of statements, generic functions and variables that the compiler names itself: each sentence
//! is true of the program, and the bytes are Go's own.

use harness::json;
use serde_json::Value;

use crate::go_bench::Module;

const MODULE: &str = "module example.com/shapes\n\ngo 1.26\n";

/// Statements, results and loops.
const CODE: &str = r#"package shapes

import (
	"slices"
	"sync"
)

var (
	total int
	group sync.WaitGroup
)

//go:noinline
func Deferred(xs []int) {
	for _, x := range xs {
		defer func() { total += x }()
	}
}

func add(a, b int) { total += a + b }

//go:noinline
func DeferredCall(xs []int) {
	for _, x := range xs {
		defer add(x, 2)
	}
}

//go:noinline
func Started(xs []int) {
	for _, x := range xs {
		group.Add(1)
		go func() { _ = x; group.Done() }()
	}
	group.Wait()
}

//go:noinline
func Ranged(xs []int) {
	for x := range slices.Values(xs) {
		defer func() { total += x }()
	}
}

type Box struct {
	ID   *int64
	part []int
	room [4]int
}

//go:noinline
func Fill(box *Box, id int64) { box.ID = new(id + 1) }

//go:noinline
func Named(n int) (out []string, err error) {
	out = make([]string, n)
	return
}

//go:noinline
func Last(n int) int {
	var last *int
	for i := 0; i < n; i++ {
		last = new(int)
		*last = i
	}
	return *last
}

//go:noinline
func Itself() Box { var box Box; box.part = box.room[:0]; return box }
"#;

/// Generic functions with several instances on the same lines, and functions over functions.
const GENERIC: &str = r#"package shapes

import "iter"

type Node[T any] struct {
	next *Node[T]
	v    T
}

type List[T any] struct{ head *Node[T] }

//go:noinline
func (l *List[T]) Grow(v T) *Node[T] { return &Node[T]{l.head, v} }

//go:noinline
func Map[T, R any](in []T, f func(T) R) []R {
	out := make([]R, 0, len(in))
	for _, v := range in {
		out = append(out, f(v))
	}
	return out
}

//go:noinline
func Each(all iter.Seq[int]) (n int) {
	for v := range all {
		n += v
	}
	return n
}
"#;

const TEST: &str = r#"package shapes

import "testing"

var (
	xs      = []int{1, 2, 3}
	box     Box
	strings []string
	number  int
	node    any
	err     error
)

func BenchmarkDeferred(b *testing.B) { for b.Loop() { Deferred(xs) } }
func BenchmarkDeferredCall(b *testing.B) { for b.Loop() { DeferredCall(xs) } }
func BenchmarkStarted(b *testing.B) { for b.Loop() { Started(xs) } }
func BenchmarkRanged(b *testing.B) { for b.Loop() { Ranged(xs) } }
func BenchmarkFill(b *testing.B) { for b.Loop() { Fill(&box, 7) } }
func BenchmarkNamed(b *testing.B) { for b.Loop() { strings, err = Named(3) } }
func BenchmarkLast(b *testing.B) { for b.Loop() { number = Last(3) } }
func BenchmarkItself(b *testing.B) { for b.Loop() { box = Itself() } }

func BenchmarkGrow(b *testing.B) {
	var numbers List[int]
	var words List[string]
	for b.Loop() {
		numbers.head = numbers.Grow(1)
		words.head = words.Grow("a")
	}
}

func BenchmarkMap(b *testing.B) {
	for b.Loop() {
		number = len(Map(xs, func(x int) *int { return &number })) + len(Map(xs, func(int) string { return "a" }))
	}
}

func BenchmarkEach(b *testing.B) {
	var last int
	all := func(yield func(int) bool) { last++; yield(last) }
	for b.Loop() {
		number += Each(all)
	}
}
"#;

fn module() -> Module {
    Module::new(&[("go.mod", MODULE), ("code.go", CODE), ("generic.go", GENERIC), ("code_test.go", TEST)])
}

/// The lines of the package in a benchmark: line, function, what, why, bytes by operation.
fn lines(report: &Value, name: &str) -> Vec<(u64, String, String, f64)> {
    let benchmarks = report["packages"][0]["benchmarks"].as_array().expect("benchmarks");
    let benchmark = benchmarks.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name}"));
    let own = |line: &&Value| {
        let file = line["chain"][0]["file"].as_str().unwrap_or_default();
        ["code.go", "generic.go"].iter().any(|own| file.ends_with(own))
    };
    let line = |line: &Value| {
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        let number = line["chain"].as_array().and_then(|chain| chain.first()).map(|place| place["line"].clone());
        (
            number.and_then(|n| n.as_u64()).expect("a line"),
            text("what"),
            text("reason"),
            line["bytes"].as_f64().expect("bytes"),
        )
    };
    benchmark["lines"].as_array().expect("lines").iter().filter(own).map(line).collect()
}

fn at(text: &str, what: &str) -> u64 {
    text.lines().position(|line| line.contains(what)).unwrap_or_else(|| panic!("no {what}")) as u64 + 1
}

#[test]
fn each_statement_result_and_variable_has_its_own_sentence() {
    let module = module();
    let done = module.mallow(&["bench", "--json", "--benchtime", "100x"]);
    assert_eq!(done.status, 0, "{}", done.err());
    let report = json(&done);
    for (benchmark, place, what, reason) in [
        ("Deferred", "defer func() { total += x }()", "closure", "deferred in a loop"),
        ("DeferredCall", "defer add", "closure", "deferred in a loop"),
        ("Started", "go func()", "closure", "starts a goroutine"),
        ("Fill", "new(id + 1)", "new(id + 1)", "stored in box.ID"),
        ("Named", "make([]string, n)", "make([]string, n)", "returned"),
        ("Last", "last = new(int)", "new(int)", "assigned to last, which is declared outside of the loop"),
        ("Itself", "var box Box", "variable box (shapes.Box)", "its own address is stored in box.part"),
    ] {
        let all = lines(&report, &format!("Benchmark{benchmark}"));
        let found = all.iter().find(|line| line.0 == at(CODE, place) && line.1 == what);
        assert_eq!(found.map(|line| line.2.as_str()), Some(reason), "{benchmark}: {all:?}");
    }
    let ranged = lines(&report, "BenchmarkRanged");
    assert!(ranged.iter().all(|line| line.2.contains("defer")), "{ranged:?}");
    // What the compiler makes of a loop over a function has a name in words.
    let each = lines(&report, "BenchmarkEach");
    let body = each.iter().find(|line| line.1 == "the body of a loop over a function").expect("a closure");
    let expected = (at(GENERIC, "range all"), "passed to all, whose code is not known at compile time");
    assert_eq!((body.0, body.2.as_str()), expected);
    // Go puts the number and the loop's state, of 8 bytes each, into one block.
    let shared = "variable n and others of its function in one block";
    let captured = each.iter().find(|line| line.1 == shared).unwrap_or_else(|| panic!("no {shared}: {each:?}"));
    assert_eq!(captured.3.round() as u64, 16);
    assert_eq!(captured.2, "captured by the body of a loop over a function, which may keep that body");
    let text = module.mallow(&["bench", "--benchtime", "20x"]).out();
    assert!(!text.contains("autotmp"), "{text}");
}

#[test]
fn instances_of_generic_functions_have_their_names_types_and_bytes() {
    let module = module();
    let done = module.mallow(&["bench", "--bench", "Grow|Map", "--benchtime", "100x", "--json"]);
    assert_eq!(done.status, 0, "{}", done.err());
    let report = json(&done);
    // A node with a number has 16 bytes, one with a string 24: Go's sizes.
    let of = |name: &str| lines(&report, name).into_iter().map(|l| (l.1, l.3.round() as u64)).collect::<Vec<_>>();
    let mut grow = of("BenchmarkGrow");
    grow.sort();
    let node = |of: &str| format!("&shapes.Node[{of}]{{...}}");
    assert_eq!(grow, [(node("int"), 16), (node("string"), 24)]);
    // Three strings have 48 bytes, three pointers 24.
    let mut map = of("BenchmarkMap");
    map.sort();
    assert_eq!(map, [("make([]*…, 0, len(in))".to_owned(), 24), ("make([]string, 0, len(in))".to_owned(), 48)]);

    let shown = module.mallow(&["bench", "--bench", "Grow|Map", "--benchtime", "20x"]).out();
    for expected in ["shapes.(*List[…]).Grow: &shapes.Node[int]{...}", "shapes.Map[…]: make([]string, 0, len(in))"]
    {
        assert!(shown.contains(expected), "no {expected:?} in\n{shown}");
    }
    assert!(!shown.contains("likeliest") && !shown.contains("go.shape"), "{shown}");
    for place in ["Map", "(*List).Grow", "shapes.(*List[…]).Grow", "Grow"] {
        let why = module.mallow(&["why", place, "--bench", "Grow|Map"]);
        assert_eq!(why.status, 0, "{place}: {}", why.err());
        assert!(why.out().contains("why: returned"), "{}", why.out());
    }
}

/// Set-up of `b.N` parts, with and without a reset, and a timer that is stopped.
const SETUP: &str = r#"package shapes

import "testing"

var (
	kept [][]byte
	one  *int
)

func BenchmarkReset(b *testing.B) {
	in := make([][]byte, b.N)
	for i := range in {
		in[i] = make([]byte, 100)
	}
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		one = new(int)
	}
	kept = in
}

func BenchmarkTimed(b *testing.B) {
	in := make([][]byte, b.N)
	for i := range in {
		in[i] = make([]byte, 100)
	}
	for i := 0; i < b.N; i++ {
		one = new(int)
	}
	kept = in
}

func BenchmarkStopped(b *testing.B) {
	for i := 0; i < b.N; i++ {
		b.StopTimer()
		kept = append(kept[:0], make([]byte, 100), make([]byte, 200))
		b.StartTimer()
		one = new(int)
	}
}
"#;

#[test]
fn set_up_that_grows_with_operations_never_leads() {
    let module = Module::new(&[("go.mod", MODULE), ("code_test.go", SETUP)]);
    let done = module.mallow(&["bench", "--json", "--benchtime", "500x"]);
    assert_eq!(done.status, 0, "{}", done.err());
    let report = json(&done);
    let benchmarks = report["packages"][0]["benchmarks"].as_array().expect("benchmarks");
    for (benchmark, allocations, part, others) in
        [("Reset", 1.0, "untimed", 1.0), ("Timed", 2.0, "growing", 1.0), ("Stopped", 1.0, "untimed", 2.0)]
    {
        let name = format!("Benchmark{benchmark}");
        let measured = benchmarks.iter().find(|one| one["name"] == name.as_str()).expect("it ran");
        assert_eq!(measured["allocs_per_op"], allocations, "Go itself: {measured}");
        assert!((measured["sums"][part].as_f64().expect("a sum") - others).abs() < 0.05, "{measured}");
        let lines = measured["lines"].as_array().expect("lines");
        assert!(lines[0]["part"].is_null() && lines[0]["what"] == "new(int)", "{name} begins with {}", lines[0]);
        assert!(lines.iter().any(|line| line["part"] == part && line["what"] == "make([]byte, 100)"), "{lines:#?}");
        let timed = lines.iter().filter(|line| line["part"] != "untimed").map(|line| line["allocations"].as_f64());
        assert!((timed.flatten().sum::<f64>() - allocations).abs() < 0.1, "{lines:#?}");
    }
    let shown = module.mallow(&["bench", "--bench", "Timed", "--benchtime", "100x"]).out();
    assert!(shown.contains("make([]byte, 100) (set-up, grows with b.N)\n"), "{shown}");
    let shown = module.mallow(&["bench", "--bench", "Stopped", "--benchtime", "100x"]).out();
    assert!(shown.contains("2 allocs/op more while its timer is stopped"), "{shown}");
}

/// Goroutines, for which the runtime allocates at will, and closures that fill a shared block alone.
const BLOCKS: &str = r#"package shapes

import (
	"sync"
	"testing"
)

var (
	group sync.WaitGroup
	small *int
	wide  *[2]int
)

//go:noinline
func Start(n int) {
	for i := 0; i < 3; i++ {
		group.Go(func() { _ = n })
	}
	group.Wait()
}

func BenchmarkBlocks(b *testing.B) {
	for i := 0; i < b.N; i++ {
		Start(i)
		small = new(int)
		wide = new([2]int)
	}
}
"#;

#[test]
fn only_what_shares_a_block_has_less_than_a_block() {
    let module = Module::new(&[("go.mod", MODULE), ("code_test.go", BLOCKS)]);
    let done = module.mallow(&["bench", "--json", "--benchtime", "500x"]);
    assert_eq!(done.status, 0, "{}", done.err());
    let measured = &json(&done)["packages"][0]["benchmarks"][0];
    let lines = measured["lines"].as_array().expect("lines");
    let bytes = |what: &str, line: u64| {
        let is = |one: &&Value| one["what"] == what && one["chain"][0]["line"] == line;
        lines.iter().find(is).and_then(|line| line["bytes"].as_f64()).unwrap_or_else(|| panic!("no {what}: {lines:#?}"))
    };
    // Three closures of a function and a number: the sizes are Go's. Two numbers share a block, in each other
    // operation.
    assert!((bytes("closure", at(BLOCKS, "group.Go(")) - 48.0).abs() < 1e-6, "{lines:#?}");
    assert!((bytes("new([2]int)", at(BLOCKS, "new([2]int)")) - 16.0).abs() < 1e-6, "{lines:#?}");
    assert!((bytes("new(int)", at(BLOCKS, "new(int)")) - 8.0).abs() < 0.2, "{lines:#?}");
}

#[test]
fn runs_are_compared_with_intervals_and_p_values() {
    let module = Module::new(&[("go.mod", MODULE), ("code_test.go", SETUP)]);
    let before = module.mallow(&["bench", "--bench", "Timed", "--json", "--count", "6", "--benchtime", "100x"]);
    assert_eq!(before.status, 0, "{}", before.err());
    std::fs::write(module.path().join("before.json"), before.out()).expect("a file");
    // One allocation less in each operation.
    let less = SETUP.replacen(
        "\t\tone = new(int)\n\t}\n\tkept = in\n}\n\nfunc BenchmarkStopped",
        "\t}\n\tkept = in\n}\n\nfunc BenchmarkStopped",
        1,
    );
    assert_ne!(less, SETUP);
    std::fs::write(module.path().join("code_test.go"), less).expect("a file");
    let arguments = ["bench", "--bench", "Timed", "--count", "6", "--benchtime", "100x", "--base", "before.json"];
    let shown = module.mallow(&arguments).out();
    // Six runs with 2 against six with 1: two of 924 ways to choose are as far apart. benchstat prints the same.
    let row = shown.lines().rfind(|line| line.contains("BenchmarkTimed")).unwrap_or_default();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words.last(), Some(&"n=6)"), "{shown}");
    assert!(row.contains("-50.00 %  (p=0.002 n=6)"), "{shown}");
    assert!(shown.contains("ns/op ± "), "{shown}");
    let wrong = module.mallow(&["bench", "--base", "go.mod"]);
    assert_eq!((wrong.status, wrong.err().lines().count()), (1, 1), "{}", wrong.err());
}

/// It compiles, and `go test -vet=off` runs it.
#[test]
fn what_vet_refuses_is_measured() {
    const BENCHMARK: &str = r#"package vetted

import "testing"

var kept []byte

func BenchmarkOne(b *testing.B) {
	b.Logf("%d", "no number")
	for i := 0; i < b.N; i++ {
		kept = make([]byte, 100)
	}
}
"#;
    let files = [
        ("go.mod", "module example.com/vetted\n\ngo 1.24\n"),
        ("vetted.go", "package vetted\n"),
        ("vetted_test.go", BENCHMARK),
    ];
    let module = Module::new(&files);
    let done = module.mallow(&["bench", "--benchtime", "20x"]);
    assert_eq!(done.status, 0, "{}", done.err());
    assert!(done.out().contains("make([]byte, 100)"), "{}", done.out());
}
