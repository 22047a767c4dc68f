//! C allocations of Go programs: the Go functions that called C are on another stack.

use std::collections::BTreeMap;
use std::path::Path;

use harness::{Run, directory, json, mallow, program};

use crate::go_bench::Module;
use crate::go_pprof::go;
use crate::other_tools::ran;

/// Each call of C stands on a line with a note of the Go functions that led there, as Go's own runtime has them.
const CROSSING: &str = r#"package main

/*
#include <stdlib.h>
static void *volatile kept[100000];
static int count;
static void allocate(size_t size) { kept[count++] = malloc(size); }
extern void goBack(int);
static void callBack(int depth) { goBack(depth); allocate(3); }
*/
import "C"

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
)

var (
	lock  sync.Mutex
	noted = map[string]int{}
)

//go:noinline
func note() {
	pcs := make([]uintptr, 1000)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var names []string
	for {
		frame, more := frames.Next()
		names = append([]string{frame.Function}, names...)
		if !more {
			break
		}
	}
	lock.Lock()
	noted[strings.Join(names, ";")]++
	lock.Unlock()
}

func plain() { note(); C.allocate(1) }

func inlined(n int) {
	for i := 0; i < n; i++ {
		plain()
	}
}

//go:noinline
func deep(depth int) {
	var room [5000]byte
	room[depth] = 1
	if depth > 0 {
		deep(depth - 1)
		if room[depth] != 1 {
			panic("lost")
		}
		return
	}
	note(); C.allocate(2)
}

//go:noinline
func callsBack(depth int) { note(); C.callBack(C.int(depth)) }

//export goBack
func goBack(depth C.int) { deep(int(depth)) }

type worker struct{ name string }

func (w *worker) work(n int) { inlined(n) }

func main() {
	plain()
	deep(30)
	callsBack(3)
	// The stack of the goroutine moves while C waits.
	callsBack(200)
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			(&worker{"x"}).work(50)
			deep(i)
			callsBack(20 * i)
		}()
	}
	group.Wait()
	for stack, count := range noted {
		fmt.Println(count, stack)
	}
}
"#;

/// The Go functions of a stack that the program and its runtime agree on. Between a callback and the C code that led to
/// it Go has functions of its runtime, which differ between its versions.
fn own(stack: &str) -> String {
    let is_own = |name: &&str| name.starts_with("main.") && !name.starts_with("main._Cfunc_");
    let mut runs: Vec<(&str, u32)> = Vec::new();
    for name in stack.split(';').filter(is_own) {
        match runs.last_mut() {
            Some((last, calls)) if *last == name => *calls += 1,
            _ => runs.push((name, 1)),
        }
    }
    runs.iter().map(|(name, calls)| format!("{name} {calls}")).collect::<Vec<_>>().join("; ")
}

/// How often C allocated from each stack, as Go's runtime has it, and as Mallow has it.
fn compare(module: &Module, program: &str) {
    let recorded = Run::new(mallow(), module.path())
        .args(["record", "--no-report", "-o", "c.mallow", "--"])
        .arg(module.path().join(program))
        .go();
    assert_eq!(recorded.status, 0, "{}", recorded.err());
    let mut expected = BTreeMap::new();
    for line in recorded.out().lines() {
        let (count, stack) = line.split_once(' ').expect("a count and a stack");
        assert!(stack.starts_with("runtime.goexit") || stack.starts_with("runtime.main"), "{stack}");
        *expected.entry(own(stack)).or_insert(0) += count.parse::<u64>().expect("a count");
    }
    assert!(expected.len() > 8 && expected.keys().any(|stack| stack.contains("main.deep 201")));
    let shown = ran(Run::new(mallow(), module.path()).args(["export", "--format", "folded", "-o", "-", "c.mallow"]));
    let mut found = BTreeMap::new();
    for line in shown.out().lines().filter(|line| line.contains(";allocate ")) {
        let (stack, count) = line.rsplit_once(' ').expect("a stack and a count");
        assert!(stack.starts_with("runtime.goexit;"), "not whole: {stack}");
        *found.entry(own(stack)).or_insert(0) += count.parse::<u64>().expect("a count");
    }
    assert_eq!(found, expected, "{program}");
}

fn module() -> Module {
    Module::new(&[("go.mod", "module example.com/crossing\n\ngo 1.22\n"), ("main.go", CROSSING)])
}

fn build(place: &Path, program: &str, more: &[&str]) -> Run {
    go(place).env("CGO_ENABLED", Some("1")).args(["build", "-o", program]).args(more).arg(".")
}

#[test]
fn c_allocations_of_go_have_the_go_functions_that_go_itself_names() {
    let module = module();
    for (program, flags) in [("plain", &[][..]), ("pie", &["-buildmode=pie"]), ("unoptimized", &["-gcflags=-N -l"])] {
        ran(build(module.path(), program, flags));
        compare(&module, program);
    }
}

/// What Go itself allocates is in no number: each report begins with that, as that of a recording does.
#[test]
fn a_watch_of_a_program_with_c_code_is_incomplete() {
    let module = module();
    ran(build(module.path(), "plain", &[]));
    let run = |arguments: &[&str]| ran(Run::new(mallow(), module.path()).args(arguments).args(["--", "./plain"])).err();
    let expected = "Go's heap is its own, not malloc's; what its C code allocates is seen; mallow go profile --live";
    for arguments in [&["record", "-o", "c.mallow"][..], &["watch"]] {
        let said = run(arguments);
        let line = said.lines().find(|line| line.starts_with("Incomplete: ")).unwrap_or_else(|| panic!("{said}"));
        assert!(line.contains(expected), "{arguments:?}: {line}");
    }
    run(&["watch", "-o", "reports"]);
    let reports = std::fs::read_to_string(module.path().join("reports")).expect("reports");
    assert!(reports.contains("\nIncomplete: ") && reports.contains(expected), "{reports}");
}

#[test]
fn c_allocations_have_the_go_functions_of_older_toolchains_too() {
    let module = module();
    for version in ["go1.22.12", "go1.24.9"] {
        let with = |run: Run| run.env("GOTOOLCHAIN", Some(version));
        if with(go(module.path()).arg("version")).go().status != 0 {
            harness::not_run("c_allocations_have_the_go_functions_of_older_toolchains_too", "no toolchain");
            continue;
        }
        ran(with(build(module.path(), version, &[])));
        compare(&module, version);
    }
}

/// A program with the instructions by which Go's runtime calls C code, and words that lead nowhere.
#[test]
fn a_goroutine_that_is_none_is_not_followed() {
    let place = directory();
    let record = ["record", "--no-report", "-o", "c.mallow", "--"];
    let done = Run::new(mallow(), place.path()).args(record).arg(program("goroutines")).go();
    assert_eq!((done.status, done.out().trim()), (0, "done"), "{}", done.err());
    let shown = ran(Run::new(mallow(), place.path()).args(["export", "--format", "folded", "-o", "-", "c.mallow"]));
    let calls = shown.out().lines().filter(|line| line.contains("crosses;allocates ")).count();
    assert!(calls > 0, "{}", shown.out());
}

/// Its Go heap and what the kernel has in memory of the arenas of 64 MiB that its blocks lie in. C's exit waits for
/// mallow.
const GO_HEAP: &str = r#"package main

/*
#include <stdlib.h>
static void *volatile kept;
static void allocate(void) { kept = malloc(1000); }
static void leave(void) { exit(0); }
*/
import "C"

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"unsafe"
)

var kept [][]byte

const arena = 64 << 20

func main() {
	debug.SetGCPercent(-1)
	arenas := map[uint64]bool{}
	for i := 0; i < 2000; i++ {
		block := make([]byte, 10000)
		for j := range block {
			block[j] = 1
		}
		kept = append(kept, block)
		arenas[uint64(uintptr(unsafe.Pointer(&block[0])))/arena] = true
	}
	C.allocate()
	file, err := os.Open("/proc/self/smaps")
	if err != nil {
		panic(err)
	}
	isHeap, kilobytes := false, 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var start, end uint64
		var size int
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x ", &start, &end); n == 2 {
			isHeap = arenas[start/arena]
		} else if strings.HasPrefix(lines.Text(), "Rss:") && isHeap {
			fmt.Sscanf(lines.Text(), "Rss: %d kB", &size)
			kilobytes += size
		}
	}
	fmt.Println(kilobytes << 10, len(kept))
	C.leave()
}
"#;

/// Go's heap is a part of its own wherever it lies. Up to Go 1.25 it begins at one address, from Go 1.26 on at a random
/// one.
#[test]
fn the_heap_of_go_is_a_part_of_its_own_at_any_address() {
    let module = Module::new(&[("go.mod", "module example.com/heap\n\ngo 1.22\n"), ("main.go", GO_HEAP)]);
    let mut found = 0;
    for (program, variable, value) in [
        ("as_it_is", "GOTOOLCHAIN", "local"),
        ("at_the_fixed_address", "GOEXPERIMENT", "norandomizedheapbase64"),
        ("older", "GOTOOLCHAIN", "go1.24.9"),
    ] {
        let with = |run: Run| run.env(variable, Some(value));
        // A toolchain that is not there, or one before 1.26, which knows no such experiment.
        if with(go(module.path()).arg("version")).go().status != 0 {
            harness::not_run("the_heap_of_go_is_a_part_of_its_own_at_any_address", program);
            continue;
        }
        ran(with(build(module.path(), program, &[])));
        let record = ["record", "--no-report", "-o", "h.mallow", "--"];
        let run = Run::new(mallow(), module.path()).args(record).arg(module.path().join(program)).go();
        let out = run.out();
        let expected =
            out.split(' ').next().and_then(|bytes| bytes.parse::<u64>().ok()).unwrap_or_else(|| panic!("{out}"));
        assert!(expected > 20_000_000, "{out}");
        let shown = ran(Run::new(mallow(), module.path()).args(["rss", "--json", "--at", "end", "h.mallow"]));
        let account = json(&shown);
        let bytes = |name: &str| {
            let parts = account["parts"].as_array().expect("parts").iter();
            parts.filter(|part| part["part"] == name).map(|part| part["bytes"].as_u64().expect("bytes")).sum::<u64>()
        };
        let (heap, others) = (bytes("go_heap"), bytes("mappings"));
        assert!(
            heap.abs_diff(expected) <= expected / 50,
            "{program}: {heap}, and the kernel has {expected}: {account:#}"
        );
        // The runtime's own tables, and the bitmaps of the heap.
        assert!(others < expected / 5, "{program}: {others} mapped by the program: {account:#}");
        found += 1;
    }
    assert!(found > 0, "no toolchain");
}
