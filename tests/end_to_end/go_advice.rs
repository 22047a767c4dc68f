//! Each suggestion of `mallow go`, tried: a program that has the allocation gets the suggestion, and the same program
//! with what is suggested allocates less, by Go's own count.

use std::fs;

use harness::{json, workspace};
use serde_json::Value;

use crate::go_bench::Module;

/// The suggestion that a benchmark is named after: `KeptSlice` of `BenchmarkKeptSliceMade`.
fn owner<'a>(suggestions: &'a str, benchmark: &Value) -> Option<&'a str> {
    let name = benchmark.as_str()?.strip_prefix("Benchmark")?;
    let names = suggestions.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name);
    names.filter(|suggestion| name.starts_with(suggestion)).max_by_key(|suggestion| suggestion.len())
}

#[test]
fn each_suggestion_is_given_and_works() {
    let corpus = workspace().join("crates/golang/tests/advice");
    let read = |name: &str| fs::read_to_string(corpus.join(name)).expect("a file of the corpus");
    let files = ["go.mod", "advice.go", "advice_test.go"].map(|name| (name, read(name)));
    let module = Module::new(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let done = module.mallow(&["bench", "--json", "--benchtime", "100x"]);
    assert_eq!(done.status, 0, "{}", done.err());
    let report = json(&done);
    let benchmarks = report["packages"][0]["benchmarks"].as_array().expect("benchmarks");
    let allocations = |one: &Value| one["allocs_per_op"].as_f64().expect("a number");
    let mut faults = Vec::new();
    let suggestions = read("suggestions.txt");
    for (name, text) in suggestions.lines().map(|line| line.split_once(": ").expect("a name")) {
        let of = |variant: &str| format!("Benchmark{name}{variant}");
        let before = benchmarks.iter().find(|one| one["name"] == of("Before").as_str()).expect("it ran");
        let own = |line: &&Value| ["chain", "callers"].iter().any(|at| line[at].to_string().contains("advice.go"));
        let lines: Vec<&Value> = before["lines"].as_array().expect("lines").iter().filter(own).collect();
        if !lines.iter().any(|line| line["remedy"] == text) {
            let said: Vec<String> =
                lines.iter().map(|l| format!("{}: {}: {}", l["what"], l["reason"], l["remedy"])).collect();
            faults.push(format!("{name} is suggested nowhere: {said:#?}"));
        }
        let variants = benchmarks.iter().filter(|one| owner(&suggestions, &one["name"]) == Some(name));
        for after in variants.filter(|one| one["name"] != before["name"]) {
            if allocations(after) >= allocations(before) {
                faults.push(format!("{} allocates {} times, as before", after["name"], allocations(after)));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Allocations whose reason has a suggestion that cannot be followed here.
const NOT_ADVISED: &str = r#"package fixed

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

type Record struct{ Name string }

type Session struct{ buffer []byte }

type Handler func(n int)

type Tree struct {
	left *Tree
	key  int
}

type Guarded struct {
	name  string
	inner struct{ lock sync.Mutex }
}

type Node[T any] struct {
	next  *Node[T]
	value T
}

type Renderer struct{ calls [256]func() int }

var (
	current atomic.Pointer[Record]
	base    = errors.New("base")
	failure error
	total   int
	letters []rune
	letter  string
	kept    []any
	root    *Renderer
	guarded *Guarded
	nodes   *Node[int]
	built   *strings.Builder
	copied  []int
	passed  []int
	queue   Queue
	large   = map[int]*Large{}
	held    map[int]Large
	names   map[string]int
	count   func() int
	session Session
	open    = map[int][]byte{}
	handler Handler = handle
	wrong   error
)

//go:noinline
func keepsBytes(b []byte) { total += len(b); session.buffer = b }

//go:noinline
func login(n int) { open[n] = make([]byte, 100) }

//go:noinline
func begin(n int) { session.buffer = make([]byte, n) }

//go:noinline
func handle(n int) { keepsBytes(make([]byte, 200+n%2)) }

//go:noinline
func parse(text string) { wrong = errors.New("bad number: " + text) }

type Queue struct{ waiting []int }

type Large struct{ bytes [200]byte }

//go:noinline
func clone(numbers []int) []int { return append([]int(nil), numbers...) }

//go:noinline
func pass(stack []int) {
	var args []int
	args = append(args, stack...)
	passed = args
}

//go:noinline
func (queue *Queue) put(n int) { queue.waiting = append(queue.waiting, n) }

func (q *Queue) next() { q.waiting = q.waiting[1:] }

//go:noinline
func remember(n int) { large[n%4] = &Large{} }

//go:noinline
func hold(n int) {
	held = make(map[int]Large)
	held[n] = Large{}
}

//go:noinline
func name(n int) {
	names = make(map[string]int)
	names["first"] = n
	names["second"] = n
}

//go:noinline
func counter(n int) { count = func() int { return n } }

func (tree *Tree) push(key int) { tree.left = &Tree{key: key} }

func (renderer *Renderer) one() int { return 1 }

//go:noinline
func gather(n int) int {
	var group sync.WaitGroup
	results := make([]int, n)
	for i := range n {
		group.Add(1)
		go func() { defer group.Done(); results[i] = i }()
	}
	group.Wait()
	return results[n-1]
}

//go:noinline
func publish(n int) { current.Store(&Record{Name: "x"}) }

//go:noinline
func wrap(n int) { failure = fmt.Errorf("number %d: %w", n, base) }

//go:noinline
func decode(text []byte) (record Record) { _ = json.Unmarshal(text, &record); return }

//go:noinline
func split(text string) { letters = []rune(text) }

//go:noinline
func join(r rune) { letter = string(r) }

//go:noinline
func guard(name string) *Guarded { return &Guarded{name: name} }

//go:noinline
func node[T any](next *Node[T], value T) *Node[T] { return &Node[T]{next, value} }

//go:noinline
func lines() *strings.Builder { var lines strings.Builder; lines.WriteString("a"); return &lines }

func keep(values ...any) { kept = values }

//go:noinline
func renderer() *Renderer {
	var made Renderer
	for i := range made.calls {
		made.calls[i] = made.one
	}
	return &made
}

//go:noinline
func temporary(text []byte) int { return len(string(text) + "!") }

func BenchmarkAll(b *testing.B) {
	text := []byte(`{"Name": "a name that is longer than what the stack has for it"}`)
	var tree Tree
	for i := 0; i < b.N; i++ {
		total += gather(2)
		publish(i)
		wrap(i + 1000)
		total += len(decode(text).Name)
		split("a text of more than thirty-two letters, for sure")
		join('ä' + rune(i%2))
		keep(i+1000, "x", 2.5)
		root = renderer()
		tree.push(i)
		guarded = guard("a name")
		nodes = node(nil, i)
		built = lines()
		total += temporary(text)
		copied = clone([]int{1, 2, 3})
		pass(copied)
		queue.put(i)
		queue.next()
		remember(i)
		hold(i)
		name(i)
		counter(i)
		login(i)
		begin(100 + i%2)
		handler(i)
		parse("a text that is longer than 32 bytes")
	}
}
"#;

#[test]
fn what_cannot_be_followed_is_not_suggested() {
    let module = Module::new(&[("go.mod", "module example.com/fixed\n\ngo 1.22\n"), ("fixed_test.go", NOT_ADVISED)]);
    let done = module.mallow(&["bench", "--json", "--benchtime", "200x"]);
    assert_eq!(done.status, 0, "{}", done.err());
    let report = json(&done);
    let lines = report["packages"][0]["benchmarks"][0]["lines"].as_array().expect("lines");
    let at = |text: &str| NOT_ADVISED.lines().position(|line| line.contains(text)).expect("a line") + 1;
    let on = |text: &str| -> Vec<&Value> {
        let number = at(text);
        let places = |line: &Value| ["chain", "callers"].map(|key| line[key].clone());
        let is = |place: &Value| {
            place["line"] == number && place["file"].as_str().is_some_and(|file| file.ends_with("fixed_test.go"))
        };
        let here = |line: &&Value| places(line).iter().filter_map(Value::as_array).flatten().any(is);
        let found: Vec<&Value> = lines.iter().filter(here).collect();
        assert!(!found.is_empty(), "nothing allocates at {text}");
        found
    };
    let texts = ["var group", "results := make", "current.Store", "&Tree{", "letter = string(r)", "letters = []rune"];
    let code_and_copies = ["append([]int(nil)", "append(queue.waiting", "large[n%4] = ", "count = func()"];
    let locks_and_nodes = ["&Guarded{", "&Node[T]{", "var made Renderer"];
    for text in texts.iter().chain(&locks_and_nodes).chain(&code_and_copies) {
        for line in on(text) {
            assert_eq!(line["remedy"], Value::Null, "{line}");
        }
    }
    // What stays where it is stored is nobody's to pass in, a text in an error is a string, and a map of the package is
    // made once.
    for (text, what, expected) in [
        (
            "open[n] = make",
            "make([]byte, 100)",
            "where many are made, one large slice for all of them, cut into parts: as many bytes in fewer blocks"
                .into(),
        ),
        (
            "open[n] = make",
            "growth of a map[int][]uint8",
            "make the map with the size that it will have: make(map[K]V, n)".into(),
        ),
        ("session.buffer = make", "make([]byte, n)", Value::Null),
        (
            "keepsBytes(make",
            "make([]byte, 200 + n % 2)",
            "one that is kept and used again, where nobody else keeps it: a field, a sync.Pool".into(),
        ),
        ("errors.New(\"bad number", "\"bad number: \" + text", Value::Null),
    ] {
        let line = on(text).into_iter().find(|line| line["what"] == what);
        let line = line.unwrap_or_else(|| panic!("{what} is not among {:#?}", on(text)));
        assert_eq!(line["remedy"], expected, "{line}");
    }
    let said = |text: &str| {
        let lines = on(text).into_iter().map(|line| (line["reason"].to_string(), line["remedy"].clone()));
        lines.collect::<Vec<_>>()
    };
    let first = ("\"the map makes its first 8 slots for its first key\"".to_owned(), Value::Null);
    let value = "\"a value of more than 128 bytes: the map keeps it in a block of its own\"".to_owned();
    let few = said("names[\"first\"] = n");
    assert!(few.len() == 1 && few.contains(&first), "{few:?}");
    let held = said("held[n] = ");
    assert!(held.len() == 2 && held.contains(&first) && held.contains(&(value, Value::Null)), "{held:?}");
    let copy = "\"a copy: append is given a slice without room, and makes one block for all\"".to_owned();
    for text in ["append([]int(nil)", "append(args, stack...)"] {
        assert_eq!(said(text), [(copy.clone(), Value::Null)], "{text}");
    }
    for line in on("fmt.Errorf(") {
        assert_eq!(line["remedy"], Value::Null, "{line}");
    }
    // What package reflect makes has advice of its own.
    let record = on("func decode").into_iter().find(|line| line["what"].to_string().contains("variable record"));
    assert_eq!(record.expect("the variable")["remedy"], Value::Null);
    // One array of arguments, and one number; constants are no allocations.
    let mut values: Vec<_> = on("keep(i+1000")
        .iter()
        .map(|line| (line["what"].as_str().expect("a text").to_owned(), line["one_of"].as_u64()))
        .collect();
    values.sort();
    let arguments = "the slice of ...arguments ([3]interface {})".to_owned();
    assert_eq!(values, [("i + 1000 in an interface".to_owned(), Some(1)), (arguments, Some(1))]);
    let method = on("made.calls[i] = made.one")[0];
    assert_eq!((&method["source"], &method["what"]), (&"compiler".into(), &"method value made.one".into()), "{method}");
    let steps = method["steps"].to_string();
    assert!(steps.contains("assigned to made") && !steps.contains("interface"), "{method}");
    let receiver = on("var made Renderer")[0];
    assert_eq!(receiver["reason"], "held by the method value made.one, which is in the heap", "{receiver}");
    let lines_of_builder = on("var lines strings.Builder");
    let variable = lines_of_builder.iter().find(|line| line["what"].to_string().contains("variable lines"));
    assert_eq!(variable.expect("the builder")["remedy"], Value::Null);
    let temporary = on("len(string(text)").iter().map(|line| line["reason"].to_string()).collect::<String>();
    assert!(!temporary.contains("string do not"), "{temporary}");
}

/// Variables that a function literal captures by their address: it assigns them, or they are large.
const CAPTURED: &str = r#"package captured

import "testing"

type Record struct{ a, b int }

type Large struct{ room [17]int }

var (
	run   func() int
	total int
)

//go:noinline
func counts() {
	var counted int
	run = func() int { counted++; return counted }
}

//go:noinline
func sets() {
	var record Record
	run = func() int { record.a = 1; return record.b }
}

//go:noinline
func fills(n int) {
	first, second := 0, 0
	run = func() int { first, second = second, n; return first }
}

//go:noinline
func other(n int) {
	shared := n
	run = func() int { return shared }
	func() { shared = n + 1 }()
}

//go:noinline
func holds(n int) {
	var large Large
	large.room[1] = n
	run = func() int { return large.room[n] }
}

//go:noinline
func reads(n int) {
	read := n
	run = func() int { return read }
	read = n + 1
}

//go:noinline
func points(n int) {
	pointer := &Record{}
	run = func() int { pointer.a = 1; return pointer.b }
	if n > 1 {
		pointer = nil
	}
}

func BenchmarkAll(b *testing.B) {
	for i := 0; i < b.N; i++ {
		counts()
		sets()
		fills(i)
		other(i)
		holds(i)
		reads(i)
		points(i)
	}
}
"#;

#[test]
fn what_a_function_literal_assigns_is_not_to_be_copied() {
    let module = Module::new(&[("go.mod", "module example.com/captured\n\ngo 1.22\n"), ("captured_test.go", CAPTURED)]);
    let done = module.mallow(&["bench", "--json", "--benchtime", "200x"]);
    assert_eq!(done.status, 0, "{}", done.err());
    let report = json(&done);
    let lines = report["packages"][0]["benchmarks"][0]["lines"].as_array().expect("lines");
    let of = |name: &str| {
        let words = |line: &Value| line["what"].as_str().is_some_and(|what| what.split([' ', ',']).any(|w| w == name));
        let found: Vec<&Value> = lines.iter().filter(|line| words(line)).collect();
        assert!(!found.is_empty(), "{name} is not among {lines:#?}");
        found
    };
    for name in ["counted", "record", "first", "shared", "large"] {
        for line in of(name) {
            assert_eq!(
                (&line["remedy"], line["reason"].as_str()),
                (&Value::Null, Some("captured by a closure that lives longer")),
                "{line}"
            );
        }
    }
    let advice = "if the function literal only reads it, capture a copy that is never assigned again";
    for name in ["read", "pointer"] {
        for line in of(name) {
            assert_eq!(line["remedy"], advice, "{line}");
        }
    }
}

/// Results that callers store by reference, at once or by a variable, and one that is only read.
const STORED: &str = r#"package stored

import "testing"

type Record struct{ a, b int }

type List struct{ records []*Record }

var (
	list  List
	byKey = map[int]*Record{}
	total int
)

//go:noinline
func appended(n int) *Record { return &Record{n, 1} }

//go:noinline
func mapped(n int) *Record { return &Record{n, 2} }

//go:noinline
func read(n int) *Record { return &Record{n, 3} }

func BenchmarkAll(b *testing.B) {
	for i := 0; i < b.N; i++ {
		list.records = append(list.records[:0], appended(i))
		record := mapped(i)
		byKey[1] = record
		total += read(i).a
	}
}
"#;

#[test]
fn what_callers_store_by_reference_is_not_to_be_returned_by_value() {
    let module = Module::new(&[("go.mod", "module example.com/stored\n\ngo 1.22\n"), ("stored_test.go", STORED)]);
    let done = module.mallow(&["bench", "--json", "--benchtime", "200x"]);
    assert_eq!(done.status, 0, "{}", done.err());
    let report = json(&done);
    let lines = report["packages"][0]["benchmarks"][0]["lines"].as_array().expect("lines");
    for (function, advised) in [("stored.appended", false), ("stored.mapped", false), ("stored.read", true)] {
        let of = |line: &&Value| line["chain"][0]["function"].as_str().is_some_and(|name| name.ends_with(function));
        let line = lines.iter().find(of).unwrap_or_else(|| panic!("no {function} in {lines:#?}"));
        assert_eq!(line["reason"], "returned", "{line}");
        let by_value = line["remedy"].as_str().is_some_and(|remedy| remedy.starts_with("return it by value"));
        assert_eq!(by_value, advised, "{line}");
    }
}
