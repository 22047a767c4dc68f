//! Several allocations of one line of Go: each row names the expression that it is of, or all that it may be.

use harness::json;
use serde_json::Value;

use crate::go_bench::Module;
use crate::go_pprof::go;
use crate::other_tools::ran;

const MODULE: &str = "module example.com/lines\n\ngo 1.24\n";

const CODE: &str = r#"package lines

import "sort"

type Session struct {
	ID   string
	Data []byte
	Tags map[string]string
}

var last *Session

//go:noinline
func Remember(id string, b []byte) {
	last = &Session{ID: id, Data: make([]byte, len(b)), Tags: map[string]string{}}
}

//go:noinline
func First(all map[string]int, n int) []string {
	ks := make([]string, 0, len(all)); for k := range all { ks = append(ks, k) }; sort.Slice(ks, func(i, j int) bool { return ks[i] < ks[j] }); return append([]string(nil), ks[:n]...)
}
"#;

const BENCHMARKS: &str = r#"package lines

import (
	"strconv"
	"testing"
)

func BenchmarkRemember(b *testing.B) {
	data := make([]byte, 3000)
	for i := 0; i < b.N; i++ {
		Remember("one", data)
	}
}

func BenchmarkFirst(b *testing.B) {
	all := map[string]int{}
	for i := 0; i < 40; i++ {
		all[strconv.Itoa(i)] = i
	}
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		First(all, 5)
	}
}
"#;

/// What any benchmark may have, seldom: the collector keeps a record of a page that it looks at, when it happens to
/// run; the timer, when it stops, waits for the runtime to read its statistics.
const BY_CHANCE: [&str; 2] = ["a record of the collector's", "a record of who waits"];

/// Rows of operations on a line, but for those [`BY_CHANCE`]: what, bytes by allocation, the whole row.
fn rows(report: &Value, benchmark: &str) -> Vec<(String, u64, Value)> {
    let all = report["packages"][0]["benchmarks"].as_array().expect("benchmarks");
    let one = all.iter().find(|one| one["name"] == benchmark).unwrap_or_else(|| panic!("no {benchmark} in {report:#}"));
    let row = |row: &Value| {
        let number = |key: &str| row[key].as_f64().expect("a number");
        // Profiles round; Go's blocks of these sizes are multiples of 16.
        let block = (number("bytes") / number("allocations") / 16.0).round() as u64 * 16;
        (row["what"].as_str().expect("a text").to_owned(), block, row.clone())
    };
    let operations = one["lines"].as_array().expect("lines").iter().filter(|row| row["part"].is_null());
    let mut rows: Vec<_> = operations.map(row).filter(|(what, ..)| !BY_CHANCE.contains(&what.as_str())).collect();
    rows.sort_by_key(|row| row.1);
    rows
}

#[test]
fn each_row_of_a_line_names_its_own_expression_or_all_that_it_may_be() {
    let module = Module::new(&[("go.mod", MODULE), ("lines.go", CODE), ("lines_test.go", BENCHMARKS)]);
    let done = module.mallow(&["bench", "--benchtime", "200x", "--json"]);
    assert_eq!(done.status, 0, "{}", done.err());
    let report = json(&done);

    // A map's header and a Session have 48 bytes, 3,000 bytes a block of 3,072: Go's sizes.
    let found = rows(&report, "BenchmarkRemember");
    let mut whats: Vec<_> = found.iter().map(|(what, block, _)| (what.as_str(), *block)).collect();
    whats.sort_unstable();
    assert_eq!(whats, [("&Session{...}", 48), ("make([]byte, len(b))", 3072), ("map[string]string{}", 48)]);
    for (what, _, row) in &found {
        assert_eq!(row["one_of"], 1, "{row:#}");
        let remedy = row["remedy"].as_str().unwrap_or_default();
        assert!(what.starts_with('&') || !remedy.contains("by value"), "{what}: {remedy}");
    }

    // The copy of five strings has 80 bytes. The other append never needs more room: nothing shows which it is.
    let found = rows(&report, "BenchmarkFirst");
    let copy = found.iter().find(|(_, block, _)| *block == 80).unwrap_or_else(|| panic!("{found:#?}"));
    assert!(copy.0.contains("append(ks, k) or append("), "{}", copy.0);
    assert!(copy.2["one_of"] == 2 && copy.2["remedy"].is_null(), "{:#}", copy.2);
    let text = module.mallow(&["bench", "--bench", "First", "--benchtime", "20x"]).out();
    assert!(text.contains("(one of 2 on this line; which is not known)"), "{text}");
}

const ONE_LINERS: &str = r#"package liners

import (
	"bytes"
	"fmt"
	"strings"
)

type Account struct {
	name string
	n    int
}

//go:noinline
func (a Account) String() string { var b bytes.Buffer; fmt.Fprintf(&b, "%s=%d", a.name, a.n); return b.String() }

//go:noinline
func Join(a, b string, n int) string { var sb strings.Builder; fmt.Fprint(&sb, a, n, b); return sb.String() }

//go:noinline
func Log(f func(...any), name string, id int) { v := id; f(name, &v, id) }

//go:noinline
func Pair(a, b int) (*int, *int) { x, y := a, b; return &x, &y }

//go:noinline
func Render(m map[string]int, keys []string) string {
	var b bytes.Buffer
	for _, k := range keys {
		fmt.Fprintf(&b, "%s=%d;", k, m[k])
	}
	return b.String()
}
"#;

const OF_ONE_LINERS: &str = r#"package liners

import (
	"strings"
	"testing"
)

var (
	text  string
	all   []any
	p, q  *int
	words = strings.Fields("the quick brown fox jumps")
	small = map[string]int{"the": 1, "quick": 2}
	large = map[string]int{"the": 1000, "quick": 2000, "brown": 3000, "fox": 4000, "jumps": 5000}
)

func BenchmarkString(b *testing.B) {
	a := Account{"abc", 5}
	for i := 0; i < b.N; i++ {
		text = a.String()
	}
}

func BenchmarkJoin(b *testing.B) {
	for i := 0; i < b.N; i++ {
		text = Join("abc", "def", i%200)
	}
}

func BenchmarkLog(b *testing.B) {
	for i := 0; i < b.N; i++ {
		Log(func(a ...any) { all = a }, words[i%5], i%100)
	}
}

func BenchmarkPair(b *testing.B) {
	for i := 0; i < b.N; i++ {
		p, q = Pair(i, i)
	}
}

func BenchmarkSmall(b *testing.B) {
	for i := 0; i < b.N; i++ {
		text = Render(small, words)
	}
}

func BenchmarkLarge(b *testing.B) {
	for i := 0; i < b.N; i++ {
		text = Render(large, words)
	}
}
"#;

/// A number below 256 in an interface needs no block, and its call stands in the code all the same: the rows of the
/// others do not move up to its expression, and a variable that is moved to the heap has the block of its type.
#[test]
fn a_row_is_not_of_the_expression_beside_it() {
    let go = MODULE.replace("lines", "liners");
    let module = Module::new(&[("go.mod", &go), ("liners.go", ONE_LINERS), ("liners_test.go", OF_ONE_LINERS)]);
    let done = module.mallow(&["bench", "--benchtime", "200x", "--json"]);
    assert_eq!(done.status, 0, "{}", done.err());
    let report = json(&done);
    let of = |benchmark: &str| {
        let found = rows(&report, benchmark);
        let only = |(what, _, row): &(String, u64, Value)| {
            assert_eq!(row["one_of"], 1, "{row:#}");
            let number = |key: &str| row[key].as_f64().expect("a number");
            (what.clone(), (number("bytes") / number("allocations")).round() as u64)
        };
        let mut found: Vec<(String, u64)> = found.iter().map(only).collect();
        found.sort();
        found
    };
    let has = |benchmark: &str, expected: &[(&str, u64)]| {
        let found = of(benchmark);
        for (what, bytes) in expected {
            assert!(found.contains(&((*what).to_owned(), *bytes)), "{benchmark}: {what} of {bytes}: {found:?}");
        }
        let others: Vec<_> = found.iter().filter(|row| row.0.ends_with("in an interface")).collect();
        let boxed = expected.iter().filter(|row| row.0.ends_with("in an interface")).count();
        assert_eq!(others.len(), boxed, "{benchmark}: {found:?}");
    };
    // Blocks of Go for 40 bytes have 48; a string has 16, a number 8.
    has("BenchmarkString", &[("variable b (bytes.Buffer)", 48), ("a.name in an interface", 16)]);
    has(
        "BenchmarkJoin",
        &[("variable sb (strings.Builder)", 32), ("a in an interface", 16), ("b in an interface", 16)],
    );
    has("BenchmarkLog", &[("variable v (int)", 8), ("name in an interface", 16)]);
    has("BenchmarkSmall", &[("variable b (bytes.Buffer)", 48), ("k in an interface", 16)]);
    has("BenchmarkLarge", &[("k in an interface", 16), ("m[k] in an interface", 8)]);
    has("BenchmarkPair", &[("variables x and y in one block", 16)]);
    assert_eq!(of("BenchmarkPair").len(), 1, "{:#?}", rows(&report, "BenchmarkPair"));
}

/// `runtime.CallersFrames` is inlined: the block is one of the line that calls it.
#[test]
fn what_a_function_of_the_runtime_allocates_has_its_reason() {
    let code = "package lines\n\nimport \"runtime\"\n\nvar frames *runtime.Frames\n\nfunc Cap(pcs []uintptr) {\n\t\
                frames = runtime.CallersFrames(pcs)\n}\n";
    let benchmark = "package lines\n\nimport \"testing\"\n\nfunc BenchmarkCap(b *testing.B) {\n\t\
                     pcs := make([]uintptr, 8)\n\tfor i := 0; i < b.N; i++ {\n\t\tCap(pcs)\n\t}\n}\n";
    let module = Module::new(&[("go.mod", MODULE), ("lines.go", code), ("lines_test.go", benchmark)]);
    let report = json(&module.mallow(&["bench", "--benchtime", "1000x", "--json"]));
    let rows = rows(&report, "BenchmarkCap");
    let [(what, bytes, row)] = &rows[..] else { panic!("{report:#}") };
    assert_eq!((what.as_str(), *bytes), ("&runtime.Frames{...}", 240), "{row:#}");
    assert_eq!((&row["source"], &row["suggestion"]), (&"compiler".into(), &Value::Null), "{row:#}");
}

/// As goyacc writes it: the places of the grammar have lines, but no columns.
const GENERATED: &str = r#"package rules

//go:noinline
//line rules.go.y:3
func Rule(n int, out chan *Expr) {
//line rules.go.y:40
	last = &Expr{n: n}
//line rules.go.y:50
	last = &Expr{n: n}; out <- &Expr{n: n + 1}
//line skeleton:7
	stack = make([]int, n)
}

//line skeleton:20
func made(n int) *Expr { return &Expr{n: n} }
"#;

const GENERATED_OWN: &str = r#"package rules

// With a pointer: of two small objects without one, which lie in one block, a profile has whichever was the first in it.
type Expr struct {
	n    int
	next *Expr
}

var last *Expr
var stack []int

//go:noinline
func Start(n int) { last = made(n) }
"#;

const GENERATED_BENCHMARK: &str = r#"package rules

import "testing"

func BenchmarkRule(b *testing.B) {
	out := make(chan *Expr, 1)
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		Rule(100, out)
		<-out
		Start(i)
	}
}
"#;

#[test]
fn lines_of_a_grammar_have_their_reasons_though_the_compiler_has_no_columns_of_them() {
    let module = Module::new(&[
        ("go.mod", MODULE),
        ("rules/rules.go", GENERATED),
        ("rules/rules.go.y", &"$$ = &Expr{n}\n".repeat(60)),
        ("rules/own.go", GENERATED_OWN),
        ("rules/rules_test.go", GENERATED_BENCHMARK),
    ]);
    // The compiler names these files without their directory, wherever it runs.
    let done = module.mallow(&["bench", "--benchtime", "200x", "--json", "./rules"]);
    assert_eq!(done.status, 0, "{}", done.err());
    let report = json(&done);
    let found = |file: &str, line: u64| {
        let rows = rows(&report, "BenchmarkRule");
        let at = |row: &&(String, u64, Value)| {
            let place = &row.2["chain"][0];
            place["file"].as_str().is_some_and(|name| name.ends_with(file)) && place["line"] == line
        };
        let of_line = rows.iter().filter(at).map(|(what, _, row)| (what.clone(), row["reason"].clone(), row.clone()));
        of_line.collect::<Vec<_>>()
    };
    let own = [("rules/rules.go.y", 40, "stored in last"), ("rules/skeleton", 7, "stored in stack")];
    for (file, line, reason) in own {
        let rows = found(file, line);
        assert!(rows.len() == 1 && rows[0].1 == reason && rows[0].2["one_of"] == 1, "{file}:{line}: {rows:#?}");
    }
    let both = found("rules/rules.go.y", 50);
    assert!(!both.is_empty(), "{report:#}");
    for (_, reason, row) in &both {
        let reason = reason.as_str().unwrap_or_default();
        assert!(reason.contains("stored in last") && reason.contains("sent to a channel"), "{row:#}");
        assert_eq!(row["one_of"], 2, "{row:#}");
    }
    let [(_, reason, row)] = &found("rules/skeleton", 20)[..] else { panic!("{report:#}") };
    assert_eq!(reason, "stored in last", "{row:#}");
    // A heap profile has one file for each function, here the skeleton or the grammar.
    let flags = ["-run=^$", "-bench=.", "-benchtime=1000x", "-memprofile=mem.out", "-memprofilerate=1", "./rules"];
    ran(go(module.path()).arg("test").args(flags));
    let ranked = json(&module.mallow(&["escape", "--profile", "mem.out", "--json", "./rules"]));
    for (file, line) in [("rules/rules.go.y", 40), ("rules/skeleton", 7)] {
        let is_here = |site: &&Value| site["file"] == file && site["line"] == line;
        let sites: Vec<_> = ranked["sites"].as_array().expect("sites").iter().filter(is_here).collect();
        assert_eq!(sites.len(), 1, "{file}:{line}: {ranked:#}");
        assert_eq!(sites[0]["allocations"], 1001, "{file}:{line}: {ranked:#}");
    }
    let why = module.mallow(&["why", "rules/rules.go.y:40", "./rules"]);
    assert!(why.status == 0 && why.out().contains("$$ = &Expr{n}"), "{}{}", why.out(), why.err());
}
