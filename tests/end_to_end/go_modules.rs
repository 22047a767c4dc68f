//! `mallow go bench` in all kinds of modules: workspaces, vendor directories, C, assembly, build tags.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use harness::json;
use serde_json::Value;

use crate::go_bench::Module;

const CODE: &str = r#"package app

// #include <stdlib.h>
import "C"

import (
	"unsafe"

	"example.com/lib"
)

var Any any
var Made func() []int

type T struct{ n int }

func (t *T) Size() []byte { return make([]byte, t.n) }

// Double is assembly.
func Double(n int) int

func Method(n int) []byte {
	size := (&T{n}).Size
	Any = size
	return size()
}

func Nested(n int) []int {
	Made = func() []int {
		inner := func() []int { return make([]int, n) }
		return inner()
	}
	return Made()
}

func OfC(n int) []byte {
	block := C.malloc(C.size_t(n))
	defer C.free(block)
	return C.GoBytes(unsafe.Pointer(block), C.int(n))
}

func Library(n int) *lib.Pair[int, string] { return lib.New(n, "x") }
"#;

const TEST: &str = r#"package app

import "testing"

var Sink any

func BenchmarkAll(b *testing.B) {
	for name, f := range map[string]func(){
		"method":   func() { Sink = Method(100) },
		"nested":   func() { Sink = Nested(100) },
		"c":        func() { Sink = OfC(100) },
		"library":  func() { Sink = Library(100) },
		"assembly": func() { Sink = make([]byte, Double(50)) },
	} {
		b.Run(name, func(b *testing.B) {
			for i := 0; i < b.N; i++ {
				f()
			}
		})
	}
}
"#;

const TAGGED: &str = "//go:build extra\n\npackage app\n\nimport \"testing\"\n\nfunc BenchmarkTagged(b *testing.B) {\n\tfor i := 0; i < b.N; i++ {\n\t\tSink = make([]int, b.N)\n\t}\n}\n";

const ASSEMBLY: &str = "#include \"textflag.h\"\n\nTEXT ·Double(SB), NOSPLIT, $0-16\n\tMOVQ n+0(FP), AX\n\tADDQ AX, AX\n\tMOVQ AX, ret+8(FP)\n\tRET\n";

const LIB: &str = r#"package lib

type Pair[K comparable, V any] struct {
	Key   K
	Value V
	All   map[K]V
}

func New[K comparable, V any](key K, value V) *Pair[K, V] {
	pair := &Pair[K, V]{key, value, map[K]V{}}
	pair.All[key] = value
	return pair
}
"#;

/// `cgo` and assembly do not go together in one package, so the stub is another package's.
const STUB: &str = "package stub\n\n// Double is assembly.\nfunc Double(n int) int\n";

fn files(lib: &'static str) -> Vec<(String, String)> {
    let code = CODE
        .replace(
            "// Double is assembly.\nfunc Double(n int) int\n",
            "func Double(n int) int { return stub.Double(n) }\n",
        )
        .replace("\t\"example.com/lib\"", "\t\"example.com/app/stub\"\n\t\"example.com/lib\"");
    [
        ("app/app.go", code.as_str()),
        ("app/app_test.go", TEST),
        ("app/tagged_test.go", TAGGED),
        ("app/stub/stub.go", STUB),
        ("app/stub/stub_amd64.s", ASSEMBLY),
        (&format!("{lib}/lib.go"), LIB),
    ]
    .map(|(name, text)| (name.to_owned(), text.to_owned()))
    .into()
}

fn module(mut files: Vec<(String, String)>, more: &[(&str, &str)]) -> Module {
    files.extend(more.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())));
    Module::new(&files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect::<Vec<_>>())
}

/// Everything in a directory, with contents.
fn tree(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry")) {
        let path = entry.path();
        match path.is_dir() {
            true => all.extend(tree(&path)),
            false => drop(all.insert(path.clone(), fs::read(&path).expect("a file"))),
        }
    }
    all
}

/// The benchmarks of the module by name, measured without a trace in it.
fn measured(module: &Module, more: &[&str]) -> BTreeMap<String, Value> {
    let before = tree(module.path());
    let outcome = module.run_in("app", "go", &[&["bench", "-benchtime=50x", "--json"], more].concat()).go();
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let report = json(&outcome);
    let escaped = module.run_in("app", "go", &["escape"]).go();
    assert_eq!(escaped.status, 0, "{}", escaped.err());
    assert_eq!(tree(module.path()), before, "files of the user's have changed");
    let benchmarks = report["packages"][0]["benchmarks"].as_array().expect("benchmarks").clone();
    benchmarks.into_iter().map(|b| (b["name"].as_str().expect("a name").to_owned(), b)).collect()
}

/// Each line has a reason; there is one of this, so often by operation.
fn has(benchmark: &Value, function: &str, what: &str, reason: &str) {
    let lines = benchmark["lines"].as_array().expect("lines");
    let is = |line: &&Value| {
        let mut chain = line["chain"].as_array().expect("places").iter();
        chain.any(|place| place["function"].as_str().is_some_and(|name| name.contains(function)))
            && line["what"].as_str().is_some_and(|text| text.contains(what))
            && line["reason"].as_str().is_some_and(|text| text.contains(reason))
    };
    let line = lines.iter().find(is).unwrap_or_else(|| panic!("no {what} of {function}: {reason} in {lines:#?}"));
    assert!((line["allocations"].as_f64().expect("a number") - 1.0).abs() < 0.1, "{line}");
    let sums = |key: &str| benchmark["sums"][key].as_f64().expect("a number");
    assert!(sums("with_reason") > 0.95 * sums("counted"), "{benchmark:#}");
}

#[test]
fn a_workspace_with_generics_closures_c_and_assembly() {
    let module = module(
        files("lib"),
        &[
            ("go.work", "go 1.22\n\nuse (\n\t./app\n\t./lib\n)\n"),
            ("app/go.mod", "module example.com/app\n\ngo 1.22\n"),
            ("lib/go.mod", "module example.com/lib\n\ngo 1.22\n"),
        ],
    );
    let all = measured(&module, &["-bench", "All"]);
    let of = |name: &str| all.get(&format!("BenchmarkAll/{name}")).unwrap_or_else(|| panic!("{name} in {all:#?}"));
    has(of("method"), "app.Method", "method value", "stored in Any");
    has(of("method"), "app.Method", "&T{...}", "part of (&T{...}).Size, which is in the heap");
    has(of("method"), "app.(*T).Size", "make([]byte", "");
    has(of("nested"), "Nested", "make([]int, ", "");
    has(of("nested"), "app.Nested", "closure", "stored in Made");
    has(of("c"), "", "", "makes a copy");
    has(of("library"), "", "Pair", "");
    has(of("assembly"), "BenchmarkAll.func", "make([]byte", "");
    assert!(!all.contains_key("BenchmarkTagged"));
}

#[test]
fn a_vendor_directory_and_build_tags() {
    let module = module(
        files("app/vendor/example.com/lib"),
        &[
            ("app/go.mod", "module example.com/app\n\ngo 1.22\n\nrequire example.com/lib v1.0.0\n"),
            ("app/vendor/modules.txt", "# example.com/lib v1.0.0\n## explicit; go 1.22\nexample.com/lib\n"),
        ],
    );
    let all = measured(&module, &["-bench=Tagged|All", "-tags", "extra"]);
    has(&all["BenchmarkAll/library"], "", "Pair", "");
    has(&all["BenchmarkTagged"], "app.BenchmarkTagged", "make([]int, b.N)", "stored in Sink");
}
