//! Figures of `mallow go bench` beside those that Go prints.

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

/// Oracle: what Go itself prints for B/op and allocs/op.
#[test]
fn bytes_of_lines_add_up_to_what_go_prints() {
    let module = Module::new(&[("go.mod", "module example.com/sharing\n\ngo 1.22\n"), ("sharing_test.go", SHARING)]);
    let done = module.mallow(&["bench", "--json", "--benchtime", "2000x"]);
    assert_eq!(done.status, 0, "{}", done.err());
    let report = json(&done);
    let benchmarks = report["packages"][0]["benchmarks"].as_array().expect("benchmarks");
    assert_eq!(benchmarks.len(), 4);
    let test = ["test", "-run=^$", "-bench=.", "-benchmem", "-benchtime=2000x"];
    let printed = go(module.path()).args(test).go();
    assert_eq!(printed.status, 0, "{}", printed.err());
    let printed = |name: &str| {
        let line = printed.out().lines().find(|line| line.starts_with(name)).map(str::to_owned);
        let words: Vec<String> = line.iter().flat_map(|line| line.split_whitespace()).map(str::to_owned).collect();
        let unit = words.iter().position(|word| word == "B/op").expect("bytes");
        words[unit - 1].parse::<f64>().expect("a number")
    };
    for one in benchmarks {
        let number = |value: &Value| value.as_f64().expect("a number");
        let lines = one["lines"].as_array().expect("lines");
        let bytes: f64 = lines.iter().map(|line| number(&line["bytes"])).sum();
        let sums = &one["sums"];
        let printed = printed(one["name"].as_str().expect("a name"));
        let shared = number(&sums["shared_bytes"]);
        assert!((bytes - printed).abs() < 2.0, "{}: {bytes} B/op on lines, {printed} printed", one["name"]);
        assert!(shared >= 4.0 && sums["exact"] == true, "{sums}");
        assert!((number(&sums["block_bytes"]) - number(&sums["counted_bytes"]) - shared).abs() < 1e-6, "{sums}");
    }
}
