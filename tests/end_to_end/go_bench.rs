//! `mallow go bench`: lines, amounts and reasons of programs whose allocations are known.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use harness::{Outcome, Run, directory, json, mallow, tool, workspace};
use serde_json::Value;
use tempfile::TempDir;

use crate::go_pprof::{cache, go};
use crate::watch_harness::Alive;

/// A module in a directory of its own.
pub struct Module(TempDir);

impl Module {
    /// Of these files.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let place = directory();
        for (name, text) in files {
            let path = place.path().join(name);
            fs::create_dir_all(path.parent().expect("a directory")).expect("its directory");
            fs::write(path, text).expect("a file");
        }
        Self(place)
    }

    /// A copy of an example.
    pub fn example(name: &str) -> Self {
        let files = fs::read_dir(workspace().join("examples/go").join(name)).expect("the example");
        let place = directory();
        for file in files.map(|file| file.expect("a file")) {
            fs::copy(file.path(), place.path().join(file.file_name())).expect("a copy");
        }
        Self(place)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// `mallow go …` there. The caches are those of all tests, so that the standard library is built once.
    pub fn mallow(&self, arguments: &[&str]) -> Outcome {
        self.run(arguments).go()
    }

    /// The same, before it runs.
    pub fn run(&self, arguments: &[&str]) -> Run {
        self.run_in(".", "go", arguments)
    }

    /// `mallow COMMAND …` in a directory of the module, before it runs.
    pub fn run_in(&self, directory: &str, command: &str, arguments: &[&str]) -> Run {
        let run = Run::new(mallow(), &self.path().join(directory)).arg(command).args(arguments);
        environment()
            .into_iter()
            .fold(run, |run, (name, value)| run.env(name, Some(value)))
            .limit(Duration::from_secs(600))
    }

    /// A mallow that is started there and goes on.
    pub fn alive(&self, arguments: &[&str], more: &[(&str, &str)]) -> Alive {
        let mut command = Command::new(mallow());
        command.args(arguments).current_dir(self.path()).envs(environment()).envs(more.iter().copied());
        Alive::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))
    }

    /// The benchmarks, as JSON.
    fn benchmarks(&self, more: &[&str]) -> Vec<Value> {
        let outcome = self.mallow(&[&["bench", "--json", "--benchtime", "200x"], more].concat());
        assert_eq!(outcome.status, 0, "{}", outcome.err());
        let report = json(&outcome);
        report["packages"][0]["benchmarks"].as_array().expect("benchmarks").clone()
    }
}

/// `go`, and caches.
fn environment() -> [(&'static str, OsString); 3] {
    let caches = workspace().canonicalize().expect("its path").join("build");
    let path = format!("{}:{}", tool("go").parent().expect("its directory").display(), env!("PATH"));
    [("GOCACHE", cache().into()), ("XDG_CACHE_HOME", caches.join("cache").into()), ("PATH", path.into())]
}

/// What is known of a line: place, what, allocations by operation, and what the reason says.
fn line<'a>(benchmark: &'a Value, file: &str, number: u64, what: &str) -> &'a Value {
    let lines = benchmark["lines"].as_array().expect("lines");
    let outer = |line: &'a Value| line["chain"].as_array().and_then(|chain| chain.last()).expect("a place");
    let found = lines.iter().find(|line| {
        let place = outer(line);
        place["file"].as_str().is_some_and(|f| f.ends_with(file))
            && place["line"] == number
            && line["what"].as_str().is_some_and(|text| text.contains(what))
    });
    found.unwrap_or_else(|| panic!("no {what} at {file}:{number} in {lines:#?}"))
}

fn about(value: &Value, expected: f64) -> bool {
    (value.as_f64().expect("a number") - expected).abs() < 0.02
}

#[test]
fn the_textbook_example_in_its_three_versions() {
    let module = Module::example("elvis");
    let reader = &module.benchmarks(&[])[0];
    assert_eq!((&reader["name"], &reader["allocs_per_op"]), (&"BenchmarkCapitalize".into(), &2.0.into()));
    assert_eq!(reader["sums"]["exact"], true, "the copy that shows small objects could not be made");
    let buffer = line(reader, "capitalize_reader.go", 12, "&bytes.Buffer{...}");
    assert!(about(&buffer["allocations"], 1.0) && about(&buffer["bytes"], 48.0), "{buffer}");
    let window = line(reader, "capitalize_reader.go", 14, "make([]byte, size)");
    assert!(about(&window["allocations"], 1.0), "{window}");
    for line in [buffer, window] {
        assert_eq!(line["source"], "compiler");
        let chain = line["steps"].to_string();
        assert!(chain.contains("argument of io.ReadAtLeast at 17, which leaks it to the heap"), "{chain}");
    }
    assert!(
        buffer["steps"][0].as_str().is_some_and(|step| step.contains("assigned to in at capitalize_reader.go:12")),
        "{buffer}"
    );
    // What the compiler can keep on the stack, it does; since 1.25 a small buffer of any size too.
    let direct = &module.benchmarks(&["--tags", "direct"])[0];
    assert!([0.0, 1.0].contains(&direct["allocs_per_op"].as_f64().expect("a number")), "{direct}");
    let fixed = &module.benchmarks(&["--tags", "fixed"])[0];
    assert_eq!(&fixed["allocs_per_op"], &0.0);
    // Pools of Go's own test code may be filled anew at any time.
    assert!(!fixed["lines"].to_string().contains("example.com/elvis.Capitalize"), "{fixed}");
}

#[test]
fn older_toolchains_have_the_same_lines_and_reasons() {
    for version in ["go1.22.12", "go1.24.9"] {
        let module = Module::example("elvis");
        let with = |run: Run| run.env("GOTOOLCHAIN", Some(version)).go();
        if with(go(module.path()).arg("version")).status != 0 {
            harness::not_run("older_toolchains_have_the_same_lines_and_reasons", "the toolchain cannot be fetched");
            continue;
        }
        let done = with(module.run(&["bench", "--json", "--benchtime", "200x"]));
        assert_eq!(done.status, 0, "{version}: {}", done.err());
        let report = json(&done);
        assert_eq!(report["go"], version);
        let benchmark = &report["packages"][0]["benchmarks"][0];
        assert_eq!(benchmark["sums"]["exact"], true, "{version}: small objects are not seen");
        let buffer = line(benchmark, "capitalize_reader.go", 12, "&bytes.Buffer{...}");
        assert!(
            buffer["reason"].as_str().is_some_and(|reason| reason.contains("io.ReadAtLeast")),
            "{version}: {buffer}"
        );
        let window = line(benchmark, "capitalize_reader.go", 14, "make([]byte, size)");
        for line in [buffer, window] {
            assert!(line["source"] == "compiler" && about(&line["allocations"], 1.0), "{version}: {line}");
        }
        let tests =
            ["test", "-run=^$", "-bench=.", "-benchtime=200x", "-memprofile=mem.out", "-memprofilerate=1", "-o=x.test"];
        let tested = with(go(module.path()).args(tests));
        assert_eq!(tested.status, 0, "{version}: {}", tested.err());
        let profile = with(module.run(&["profile", "mem.out", "--json"]));
        assert_eq!(line(&json(&profile), "capitalize_reader.go", 12, "&bytes.Buffer{...}")["source"], "compiler");
        let why = with(module.run(&["why", "capitalize_reader.go:12", "--profile", "mem.out"]));
        assert!(why.out().contains("by runtime.newobject of bytes.Buffer (40 B)"), "{version}: {}", why.out());
        let listed = with(module.run_in(".", "list", &["elvis.Capitalize$", "mem.out"]));
        assert!(
            listed.out().contains("↑ &bytes.Buffer{...} of bytes.NewBuffer, inlined here"),
            "{version}: {}",
            listed.out()
        );
    }
}

const KINDS: &str = r#"package kinds

type Point struct{ X, Y int }

var Any any
var Points []*Point

func literal(n int) { Points = append(Points, &Point{n, 2}, &Point{X: n}, new(Point)) }

func counter(n int) func() int { return func() int { n++; return n } }

func slice[T any](n int) []T { return make([]T, n) }

func All(n int, name string) int {
	Points = Points[:0]
	literal(n)
	next := counter(n)
	Any = n + 1000
	Any = name + "x"
	ages := map[string]int{}
	for i := 0; i < n; i++ {
		ages[name+string(rune('a'+i%26))+string(rune('a'+i/26))] = i
	}
	wait := make(chan int)
	go func() { wait <- next() }()
	Any = slice[Point](n)
	Any = slice[*Point](n)
	bytes := []byte(name)
	bytes = append(bytes, name...)
	Any = bytes
	return <-wait + len(ages)
}
"#;

const KINDS_TEST: &str = r#"package kinds

import "testing"

func BenchmarkAll(b *testing.B) {
	b.Run("small/a=1", func(b *testing.B) {
		for i := 0; i < b.N; i++ {
			All(100, "a name that is longer than what the stack has for it")
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				Sink = make([]byte, len("abc")*1000)
			}
		})
	})
}

var Sink []byte

func BenchmarkNone(b *testing.B) {
	for i := 0; i < b.N; i++ {
	}
}
"#;

const MODULE: &str = "module example.com/kinds\n\ngo 1.22\n";

#[test]
fn each_kind_of_allocation_has_its_line_and_its_reason() {
    let module = Module::new(&[("go.mod", MODULE), ("kinds.go", KINDS), ("kinds_test.go", KINDS_TEST)]);
    let benchmarks = module.benchmarks(&[]);
    let names: Vec<_> = benchmarks.iter().map(|b| b["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["BenchmarkAll/small/a=1", "BenchmarkAll/parallel", "BenchmarkNone"]);
    let all = &benchmarks[0];
    let points = all["lines"].as_array().expect("lines").iter().filter(|line| line["what"] == "&Point{...}");
    assert_eq!(points.count(), 2, "two literals on one line are two allocations");
    for (number, what, allocations, reason) in [
        (16, "new(Point)", 1.0, "appended"),
        (17, "variable n (int)", 1.0, "captured"),
        (17, "closure", 1.0, ""),
        (18, "n + 1000 in an interface", 1.0, "stored in"),
        (19, "name + \"x\" in an interface", 1.0, "stored in"),
        (22, "name + string", 100.0, "put into a map"),
        (24, "make(chan int)", 1.0, "channels are always"),
        (25, "closure", 1.0, "goroutine"),
        (26, "make([]kinds.Point", 1.0, ""),
        (27, "make([]*kinds.Point", 1.0, ""),
        (28, "([]byte)(name)", 1.0, ""),
        (29, "append", 1.0, "grows beyond its capacity"),
    ] {
        let line = line(all, "kinds.go", number, what);
        assert!(about(&line["allocations"], allocations), "{line}");
        assert!(line["reason"].as_str().is_some_and(|text| !text.is_empty() && text.contains(reason)), "{line}");
    }
    let growth = line(all, "kinds.go", 22, "growth of a map[string]int");
    assert_eq!((&growth["source"], &growth["type"]), (&"runtime".into(), &Value::Null));
    let sums = &all["sums"];
    let number = |key: &str| sums[key].as_f64().expect("a number");
    assert!(number("with_reason") / number("counted") > 0.99, "{sums}");
    let parallel = line(&benchmarks[1], "kinds_test.go", 14, "make([]byte");
    assert!(about(&parallel["allocations"], 1.0), "{parallel}");
    assert!(!benchmarks[2]["lines"].to_string().contains("example.com/kinds"), "{:#}", benchmarks[2]);
}

/// Two benchmarks that allocate twice by operation, and 30,000 times before: one sets its timer back then.
const SETUP: &str = "\
package setup

import \"testing\"

var kept [][]byte
var one *int

func fill() {
\tkept = nil
\tfor i := 0; i < 30_000; i++ {
\t\tkept = append(kept, make([]byte, 40))
\t}
}

func BenchmarkTimed(b *testing.B) {
\tfill()
\tfor i := 0; i < b.N; i++ {
\t\tone = new(int)
\t\tone = new(int)
\t}
}

func BenchmarkReset(b *testing.B) {
\tfill()
\tb.ResetTimer()
\tfor i := 0; i < b.N; i++ {
\t\tone = new(int)
\t\tone = new(int)
\t}
}
";

/// Two conversions on one line, the outer one named first and done last; a slice that Go 1.26 builds on the stack and
/// moves; and steps on lines of another file than the allocation's.
#[test]
fn nested_conversions_moved_slices_and_lines_of_other_files() {
    let module = Module::new(&[
        ("go.mod", "module example.com/nested\n\ngo 1.22\n"),
        (
            "nested.go",
            "package nested\n\n\
             //go:noinline\nfunc f(b []byte) []byte { b[0] = 'a'; return b[:40] }\n\n\
             func Twice(s string) string {\n\treturn string(f([]byte(s)))\n}\n\n\
             //go:noinline\nfunc Build(n int) []int {\n\tvar out []int\n\tfor i := range n {\n\t\tout = append(out, i)\n\t}\n\treturn out\n}\n\n\
             // Keep is inlined.\nfunc Keep(n int) *[9]int {\n\treturn &[9]int{n}\n}\n",
        ),
        (
            "nested_test.go",
            "package nested\n\nimport \"testing\"\n\n\
             var sink string\nvar ints []int\nvar kept *[9]int\n\
             var long = \"a text that is by far longer than the thirty-two bytes of the stack, for sure\"\n\n\
             func BenchmarkTwice(b *testing.B) {\n\tfor range b.N {\n\t\tsink = Twice(long)\n\t}\n}\n\n\
             func BenchmarkBuild(b *testing.B) {\n\tfor range b.N {\n\t\tints = Build(3)\n\t}\n}\n\n\
             func BenchmarkKeep(b *testing.B) {\n\tfor i := range b.N {\n\t\tkept = Keep(i)\n\t}\n}\n",
        ),
    ]);
    let benchmarks = module.benchmarks(&[]);
    let all = benchmarks[0]["lines"].as_array().expect("lines");
    let bytes = |what: &str| {
        let of = all.iter().find(|line| line["what"].as_str().is_some_and(|text| text.starts_with(what)));
        let of = of.unwrap_or_else(|| panic!("no {what} in {all:#?}"));
        (
            of["bytes"].as_f64().expect("bytes").round() as u64,
            of["reason"]["words"].as_str().unwrap_or_default().to_owned(),
            of.to_string(),
        )
    };
    // 78 bytes of the text, and 40 of what f returns.
    let (copied, _, line) = bytes("([]byte)(s)");
    assert_eq!(copied, 80, "{line}");
    assert!(line.contains("do not escape"), "{line}");
    let (returned, _, line) = bytes("string(f(");
    assert_eq!(returned, 48, "{line}");
    assert!(line.contains("sink"), "{line}");

    let built = benchmarks[1]["lines"].as_array().expect("lines");
    let moved = built.iter().any(|line| line["what"] == "a slice built on the stack");
    let version =
        json(&module.mallow(&["bench", "--json", "--bench", "Build", "--benchtime", "10x"]))["go"].to_string();
    let minor = version.split('.').nth(1).and_then(|minor| minor.trim_end_matches('"').parse::<u32>().ok());
    assert_eq!(moved, minor.expect("a version") >= 26, "{version}: {built:#?}");
    assert!(!moved || !format!("{built:?}").contains("beyond its capacity"), "{built:#?}");

    let shown = module.mallow(&["bench", "--bench", "Keep", "--benchtime", "10x"]).out();
    assert!(
        shown.contains("nested.go:21 nested.Keep, inlined at nested_test.go:24 of nested.BenchmarkKeep"),
        "{shown}"
    );
    let steps = &benchmarks[2]["lines"][0]["steps"];
    assert!(
        steps.as_array().is_some_and(|steps| steps.contains(&"stored in kept at nested_test.go:24".into())),
        "{steps}"
    );
}

#[test]
fn set_up_in_the_timer_is_on_its_line_and_said_to_be_set_up() {
    let module = Module::new(&[("go.mod", "module example.com/setup\n\ngo 1.22\n"), ("setup_test.go", SETUP)]);
    let benchmarks = module.benchmarks(&[]);
    let [timed, reset] = &benchmarks[..] else { panic!("{benchmarks:?}") };
    let sums = &timed["sums"];
    let number = |value: &Value| value.as_f64().expect("a number");
    assert!(number(&timed["allocs_per_op"]) >= 152.0, "{timed}");
    assert!((number(&sums["on_lines"]) - number(&timed["allocs_per_op"])).abs() < 1.52, "{sums}");
    assert!((30_000.0..30_100.0).contains(&number(&sums["setup"])), "{sums}");
    // The last of the chain: where it was inlined.
    // The collector may take a few of them to the other run: these have an entry of their own.
    let made: Vec<_> = timed["lines"]
        .as_array()
        .expect("lines")
        .iter()
        .filter(|line| line["part"] == "once" && line["what"] == "make([]byte, 40)")
        .collect();
    let [made] = &made[..] else { panic!("{timed:#}") };
    assert!((number(&made["allocations"]) - 150.0).abs() < 0.1, "{made}");
    assert_eq!(made["chain"].as_array().and_then(|chain| chain.last()).expect("a place")["line"], 16, "{made}");
    assert!(line(timed, "setup_test.go", 18, "new(int)")["part"].is_null(), "{timed}");
    assert_eq!(reset["sums"]["setup"], 0.0, "{reset}");
    // Beyond a few that the collector takes to the other run.
    let timed = |line: &&Value| !line["part"].is_null() && line["part"] != "untimed";
    let timed: Vec<_> = reset["lines"].as_array().expect("lines").iter().filter(timed).collect();
    assert!(timed.iter().all(|line| number(&line["allocations"]) < 0.01), "{timed:#?}");
    let shown = module.mallow(&["bench", "--bench", "Timed", "--benchtime", "200x"]);
    assert!(shown.out().contains("make([]byte, 40) (set-up, once)\n"), "{}", shown.out());
    assert!(shown.out().contains("; set-up while the timer runs, 30,0"), "{}", shown.out());
}

const TIMERS: &str = "package timers

import (
	\"strconv\"
	\"strings\"
	\"testing\"
)

var (
	name  string
	names []string
	sink  []byte
	all   [][]byte
)

func BenchmarkHelped(b *testing.B) {
	for _, n := range []int{3, 5} {
		b.Run(strings.Repeat(\"n\", 20*n), func(b *testing.B) {
			helped(b, n)
		})
	}
}

func helped(b *testing.B, n int) {
	b.StopTimer()
	names = nil
	for i := range 200 {
		names = append(names, strings.Repeat(\"x\", n+i))
	}
	b.StartTimer()
	for range b.N {
		sink = make([]byte, 100)
	}
}

func BenchmarkGoroutines(b *testing.B) {
	b.SetParallelism(1)
	b.RunParallel(func(pb *testing.PB) {
		var own [][]byte
		for range 500 {
			own = append(own, make([]byte, 40))
		}
		all = own
		for pb.Next() {
			sink = make([]byte, 64)
		}
	})
}

func BenchmarkFills(b *testing.B) {
	pool := [][]byte{}
	b.ResetTimer()
	for range b.N {
		for len(pool) < 500 {
			pool = append(pool, make([]byte, 40))
		}
		sink = make([]byte, 64)
	}
	all = pool
}

func BenchmarkNumbers(b *testing.B) {
	b.StopTimer()
	n := 1000000
	number := func() string { n++; return strconv.Itoa(n) }
	b.StartTimer()
	for range b.N {
		name = number()
	}
}
";

/// The timer may be in a function that the benchmark calls, and no reset leaves out what goroutines do, nor what the
/// first operations do.
#[test]
fn timers_in_helpers_and_closures_and_what_goroutines_and_loops_do_once() {
    let module = Module::new(&[("go.mod", "module example.com/timers\n\ngo 1.22\n"), ("timers_test.go", TIMERS)]);
    let benchmarks = module.benchmarks(&[]);
    let [first, second, goroutines, fills, numbers] = &benchmarks[..] else { panic!("{benchmarks:#?}") };
    for helped in [first, second] {
        // Go's own test code makes contexts.
        let own = |line: &Value| line["chain"][0]["file"].as_str().is_some_and(|file| file.ends_with("timers_test.go"));
        let timed = |line: &&Value| line["part"] != "untimed" && own(line);
        let timed: Vec<_> = helped["lines"].as_array().expect("lines").iter().filter(timed).collect();
        let [one] = &timed[..] else { panic!("{helped:#}") };
        assert!(one["what"] == "make([]byte, 100)" && one["part"].is_null(), "{one:#}");
    }
    let once = line(goroutines, "timers_test.go", 41, "make([]byte, 40)");
    assert_eq!(once["part"], "once_in_goroutine", "{once:#}");
    assert!(line(goroutines, "timers_test.go", 45, "make([]byte, 64)")["part"].is_null(), "{goroutines:#}");
    let shown = module.mallow(&["bench", "--bench", "Goroutines", "--benchtime", "2000x"]).out();
    assert!(shown.contains("make([]byte, 40) (once a goroutine)\n"), "{shown}");
    assert!(shown.contains("; what the goroutines of b.RunParallel do once, 1,0"), "{shown}");
    assert!(!shown.contains("make([]byte, 40) (set-up"), "{shown}");
    let once = line(fills, "timers_test.go", 55, "make([]byte, 40)");
    assert_eq!(once["part"], "first_operations", "{once:#}");
    assert!(line(fills, "timers_test.go", 57, "make([]byte, 64)")["part"].is_null(), "{fills:#}");
    let shown = module.mallow(&["bench", "--bench", "Fills", "--benchtime", "2000x"]).out();
    assert!(shown.contains("make([]byte, 40) (first operations)\n"), "{shown}");
    assert!(shown.contains("; what the first operations alone allocate, 5"), "{shown}");
    assert!(!shown.contains("b.ResetTimer() after it"), "{shown}");
    // The closure stands where the timer is stopped, and runs where it is not. Two strings of seven bytes share a block.
    let of_strconv = |line: &&Value| line["chain"][0]["file"].as_str().is_some_and(|file| file.ends_with("itoa.go"));
    let strings = numbers["lines"].as_array().expect("lines").iter().find(of_strconv).expect("its line");
    assert!(about(&strings["allocations"], 1.0) && about(&strings["bytes"], 8.0), "{strings:#}");
}

#[test]
fn the_guide_shows_what_it_prints() {
    let module = Module::example("elvis");
    let guide = fs::read_to_string(workspace().join("docs/guide/go.md")).expect("the document");
    let outcome = module.mallow(&["bench", "--save", "before.pb.gz"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let first = outcome.out().lines().next().unwrap_or_default().to_owned();
    if !guide.contains(&first) {
        return harness::not_run(
            "the_guide_shows_what_it_prints",
            "another version of Go is installed than the guide's",
        );
    }
    // Times, and how many operations fit in them, differ.
    let differs = |line: &&str| line.contains("ns/op") || line.contains("operations counted");
    for line in outcome.out().lines().filter(|line| !differs(line)) {
        assert!(guide.contains(line), "the guide does not have {line:?}");
    }
    assert_eq!(module.mallow(&["bench", "--tags", "direct", "--save", "after.pb.gz"]).status, 0);
    let diff = Run::new(mallow(), module.path()).args(["diff", "before.pb.gz", "after.pb.gz"]).go().out();
    for line in diff.lines().filter(|line| line.contains("before  after") || line.starts_with("  allocat")) {
        assert!(guide.contains(line), "the guide does not have {line:?}");
    }
    assert!(diff.contains("  allocations        2,000      0    -2,000  -100.0 %"), "{diff}");
}

#[test]
fn one_place_with_the_whole_way_to_the_heap() {
    let module = Module::example("elvis");
    let outcome = module.mallow(&["why", "capitalize_reader.go:12"]);
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let output = outcome.out();
    for text in [
        "bytes.NewBuffer, inlined at capitalize_reader.go:12 of elvis.Capitalize: &bytes.Buffer{...}",
        "in BenchmarkCapitalize (1 allocs/op)",
        "by runtime.newobject of bytes.Buffer (40 B)",
        "    → argument of io.ReadAtLeast at 17, which leaks it to the heap",
        "  17      if n, err := io.ReadFull(in, window[:last]); err != nil {",
        "↑ interface-converted; call parameter",
    ] {
        assert!(output.contains(text), "no {text:?} in\n{output}");
    }
    let by_name = json(&module.mallow(&["why", "Capitalize", "--json"]));
    assert_eq!(by_name["benchmarks"][0]["lines"].as_array().map(Vec::len), Some(2), "{by_name}");
    // What no benchmark reaches, the compiler knows all the same.
    let module = Module::new(&[("go.mod", MODULE), ("kinds.go", KINDS), ("kinds_test.go", KINDS_TEST)]);
    let output = module.mallow(&["why", "kinds.go:10", "--bench", "None"]).out();
    assert!(output.starts_with("No benchmark allocates at kinds.go:10. The compiler says of it:"), "{output}");
    let outcome = module.mallow(&["why", "kinds.go:4"]);
    assert_eq!((outcome.status, outcome.err().lines().count()), (1, 1), "{}", outcome.err());
    assert!(outcome.err().contains("nothing is allocated at kinds.go:4"), "{}", outcome.err());
}

#[test]
fn what_cannot_be_measured_is_one_clear_line() {
    let broken = "package kinds\n\nfunc f() { undefined() }\n";
    let module = Module::new(&[("go.mod", MODULE), ("kinds.go", broken), ("kinds_test.go", KINDS_TEST)]);
    let said = |outcome: &Outcome| {
        assert_eq!((outcome.status, outcome.err().lines().count()), (1, 1), "{}", outcome.err());
        outcome.err()
    };
    let error = said(&module.mallow(&["bench"]));
    assert!(error.contains("example.com/kinds does not compile: ./kinds.go:3:12: undefined: undefined"), "{error}");
    let module = Module::new(&[("go.mod", MODULE), ("kinds.go", KINDS), ("kinds_test.go", KINDS_TEST)]);
    let error = said(&module.mallow(&["bench", "--bench", "Nothing"]));
    assert_eq!(error, "mallow: no benchmark of . matches \"Nothing\"\n");
    let error = said(&module.run(&["bench"]).env("PATH", Some("/nowhere")).go());
    assert_eq!(error, "mallow: go is not found in PATH; install Go, or put its bin directory into PATH\n");
    let error = said(&module.mallow(&["bench", "./missing"]));
    assert!(error.contains("missing"), "{error}");
    let module = Module::new(&[("go.mod", MODULE), ("kinds.go", KINDS)]);
    let error = said(&module.mallow(&["bench"]));
    assert!(error.contains("there are no benchmarks in ."), "{error}");
    let error = said(&Module::new(&[]).mallow(&["bench"]));
    assert!(error.contains("go.mod"), "{error}");
}
