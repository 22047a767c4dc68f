//! Figures of `mallow go bench` beside those that Go prints.

use std::collections::BTreeMap;

use harness::json;
use serde_json::Value;

use crate::go_bench::Module;
use crate::go_pprof::go;

/// Lines whose objects have several sizes, of which only the small ones share blocks.
const SHARING: &str = r#"package sharing

import (
	"strings"
	"testing"
)

var (
	words = []string{"ab", "cde", "fghi", "jklmnopqrs", "tuvwxyzabcdefghijkl"}
	text  string
	runes []rune
	small *int64
	slice []byte
)

func BenchmarkConcatenated(b *testing.B) {
	for i := 0; i < b.N; i++ {
		s := ""
		for _, word := range words {
			s += word + ","
		}
		text = s
	}
}

func BenchmarkBuilt(b *testing.B) {
	for i := 0; i < b.N; i++ {
		var s strings.Builder
		for _, word := range words {
			s.WriteString(word)
			s.WriteByte(',')
		}
		text = s.String()
	}
}

func BenchmarkConverted(b *testing.B) {
	for i := 0; i < b.N; i++ {
		for _, word := range words {
			runes = []rune(word)
		}
	}
}

func BenchmarkTogether(b *testing.B) {
	for i := 0; i < b.N; i++ {
		for _, word := range words {
			slice = append([]byte(nil), word...)
			small = new(int64)
		}
	}
}
"#;

/// How often Go prints the oracle's figures.
const RUNS: usize = 5;

/// What Go itself prints for B/op, by benchmark. Go's figure has what the runtime allocates for itself while the timer
/// runs: a thread that it starts has 5,200 B (`runtime.allocm`), 2.6 B/op of 2000 operations, in each tenth run on a
/// busy machine. That only adds, and happens a few times in a run, however long: of 100,000 operations it is 0.05 B/op,
/// and the minimum of several runs has the fewest.
fn printed(module: &Module, name: &str) -> f64 {
    let (count, time) = (format!("-count={RUNS}"), "-benchtime=100000x");
    let bench = format!("-bench=^{name}$");
    let done = go(module.path()).args(["test", "-run=^$", &bench, "-benchmem", time, &count]).go();
    assert_eq!(done.status, 0, "{}", done.err());
    let figure = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let unit = words.iter().position(|&word| word == "B/op").expect("bytes");
        words[unit - 1].parse::<f64>().expect("a number")
    };
    let figures: Vec<f64> = done.out().lines().filter(|line| line.starts_with(name)).map(figure).collect();
    assert_eq!(figures.len(), RUNS, "{}", done.out());
    figures.into_iter().fold(f64::INFINITY, f64::min)
}

/// Oracle: what Go itself prints for B/op.
#[test]
fn bytes_of_lines_add_up_to_what_go_prints() {
    let module = Module::new(&[("go.mod", "module example.com/sharing\n\ngo 1.22\n"), ("sharing_test.go", SHARING)]);
    let done = module.mallow(&["bench", "--json", "--benchtime", "2000x"]);
    assert_eq!(done.status, 0, "{}", done.err());
    let report = json(&done);
    let benchmarks = report["packages"][0]["benchmarks"].as_array().expect("benchmarks");
    assert_eq!(benchmarks.len(), 4);
    for one in benchmarks {
        let number = |value: &Value| value.as_f64().expect("a number");
        let lines = one["lines"].as_array().expect("lines");
        let bytes: f64 = lines.iter().map(|line| number(&line["bytes"])).sum();
        let sums = &one["sums"];
        let printed = printed(&module, one["name"].as_str().expect("a name"));
        let shared = number(&sums["shared_bytes"]);
        assert!((bytes - printed).abs() < 2.0, "{}: {bytes} B/op on lines, {printed} printed", one["name"]);
        assert!(shared >= 4.0 && sums["exact"] == true, "{sums}");
        assert!((number(&sums["block_bytes"]) - number(&sums["counted_bytes"]) - shared).abs() < 1e-6, "{sums}");
    }
}

/// Slices of one type and of two lengths, of which the short ones share blocks; beside numbers.
const LENGTHS: &str = r#"package lengths

import "testing"

type match struct {
	counts, first []int
}

var (
	kept   *match
	number *int64
	slice  []int
)

//go:noinline
func newMatch(n int) *match {
	m := match{counts: make([]int, n)}
	m.first = make([]int, 2)
	return &m
}

func BenchmarkAlone(b *testing.B) {
	for i := 0; i < b.N; i++ {
		kept = newMatch(1)
	}
}

func BenchmarkBesideNumbers(b *testing.B) {
	for i := 0; i < b.N; i++ {
		slice = make([]int, 1)
		number = new(int64)
		kept = newMatch(2)
	}
}
"#;

/// Oracle: a value of type int has 8 bytes, and two fill a block.
#[test]
fn slices_of_one_type_have_the_bytes_of_their_lengths() {
    let module = Module::new(&[("go.mod", "module example.com/lengths\n\ngo 1.22\n"), ("lengths_test.go", LENGTHS)]);
    let done = module.mallow(&["bench", "--json", "--benchtime", "2000x"]);
    assert_eq!(done.status, 0, "{}", done.err());
    let report = json(&done);
    let benchmarks = report["packages"][0]["benchmarks"].as_array().expect("benchmarks");
    let bytes_of = |at: usize| {
        let lines = benchmarks[at]["lines"].as_array().expect("lines").iter();
        let rows = lines.filter_map(|line| Some((line["what"].as_str()?.to_owned(), line["bytes"].as_f64()?)));
        // Two runs differ by a collection or two.
        rows.map(|(what, bytes)| (what, bytes.round() as u64)).collect::<BTreeMap<_, _>>()
    };
    let (alone, beside) = (bytes_of(0), bytes_of(1));
    for (found, what, bytes) in [
        (&alone, "make([]int, n)", 8),
        (&alone, "make([]int, 2)", 16),
        (&beside, "make([]int, n)", 16),
        (&beside, "make([]int, 2)", 16),
        (&beside, "make([]int, 1)", 8),
        (&beside, "new(int64)", 8),
    ] {
        assert_eq!(found.get(what), Some(&bytes), "{what} of {found:?}");
    }
}

/// A cache that is full after 25,000 operations: from then on each one keeps what it evicts, by another instance of the
/// same function.
const CACHE: &str = r#"package cache

import "testing"

type Entry[V any] struct {
	next  *Entry[V]
	key   int
	value V
}

type Store[V any] struct{ last *Entry[V] }

//go:noinline
func (store *Store[V]) Put(key int, value V) { store.last = &Entry[V]{key: key, value: value} }

type Cache struct {
	recent  Store[[4]int]
	evicted Store[struct{}]
	length  int
}

//go:noinline
func (cache *Cache) Add(key int) {
	if cache.length == 25_000 {
		cache.evicted.Put(key, struct{}{})
	} else {
		cache.length++
	}
	cache.recent.Put(key, [4]int{key})
}

var kept *Cache

func BenchmarkAdd(b *testing.B) {
	kept = &Cache{}
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		kept.Add(i)
	}
}
"#;

/// Oracle: 35,000 of 60,000 operations evict.
#[test]
fn what_begins_after_thousands_of_operations_has_its_row() {
    let module = Module::new(&[("go.mod", "module example.com/cache\n\ngo 1.22\n"), ("cache_test.go", CACHE)]);
    let arguments = ["bench", "--benchtime", "60000x"];
    let done = module.mallow(&[&arguments[..], &["--json"]].concat());
    assert_eq!(done.status, 0, "{}", done.err());
    let benchmark = &json(&done)["packages"][0]["benchmarks"][0];
    let lines = benchmark["lines"].as_array().expect("lines");
    let puts = lines.iter().filter(|line| line["chain"][0]["function"].to_string().contains("Put"));
    let mut rates: Vec<_> =
        puts.filter_map(|line| Some((line["bytes"].as_f64()?, line["allocations"].as_f64()?))).collect();
    rates.sort_by(|a, b| b.0.total_cmp(&a.0));
    let [(bytes, recent), (_, evicted)] = rates[..] else { panic!("{lines:#?}") };
    let part = 35_000.0 / 60_000.0;
    assert!((recent - 1.0).abs() < 0.01 && (bytes - 48.0).abs() < 0.5 && (evicted - part).abs() < 0.01, "{rates:?}");
    let shown = module.mallow(&arguments).out();
    assert!(shown.contains("  BenchmarkAdd: 59,995 operations counted, 60,000 timed\n"), "{shown}");
    assert!(shown.contains("lines: runs of their own"), "{shown}");
}

/// Set-up of as many parts as there are operations, before the timer is reset.
const RESET: &str = r#"package reset

import "testing"

var (
	parts [][]byte
	one   *int
)

func BenchmarkReset(b *testing.B) {
	parts = make([][]byte, b.N)
	for i := range parts {
		parts[i] = make([]byte, 100)
	}
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		one = new(int)
	}
}
"#;

#[test]
fn a_saved_profile_has_operations_and_no_set_up() {
    let module = Module::new(&[("go.mod", "module example.com/reset\n\ngo 1.22\n"), ("reset_test.go", RESET)]);
    let done = module.mallow(&["bench", "--benchtime", "500x", "--save", "saved.pb.gz"]);
    assert_eq!(done.status, 0, "{}", done.err());
    let report = json(&module.run_in(".", "report", &["saved.pb.gz", "--json"]).go());
    let allocations = report["allocations"].as_u64().expect("a number");
    // Of the runtime's own there may be some.
    assert!((1000..1010).contains(&allocations), "{}", report["allocations"]);
}
