//! Allocators in libraries that a program loads, in programs that were started under mallow.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use harness::{Case, directory, library, mallow, program};

use crate::attach_harness::Target;

/// Thread-local storage of jemalloc's kind needs room that was reserved at the start.
const TLS: (&str, &str) = ("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=16384");

/// A library with a jemalloc that it hides.
fn with_jemalloc() -> PathBuf {
    let pic = ["-shared", "-fPIC", "-l:libjemalloc_pic.a", "-lm", "-Wl,--exclude-libs,ALL", "-DINSIDE"];
    library("library_inside", "library-inside", &pic)
}

/// Its functions are patched before any of its code runs: no call is missed, in each of three loads.
#[test]
fn an_allocator_that_a_program_loads_later_is_counted_from_its_first_call() {
    const ROUNDS: u64 = 3;
    let place = directory();
    let lines = place.path().join("lines");
    fs::write(&lines, "\n".repeat(3 * ROUNDS as usize)).expect("its input");
    let case = Case::target("loads_later").arg(with_jemalloc()).arg("flat").env(TLS.0, TLS.1).stdin(&lines);
    let three = case.three_ways();
    for (way, counts) in [("stat", three.stat.counts()), ("record", three.record.counts())] {
        // The dynamic linker allocates for each library; so does jemalloc's own start.
        assert!((600 * ROUNDS..600 * ROUNDS + 80).contains(&counts.allocations), "{way}: {counts:?}");
        assert!((600 * ROUNDS..600 * ROUNDS + 80).contains(&counts.frees), "{way}: {counts:?}");
    }
    assert_eq!(three.record.losses(), (0, 0));
    let report = three.record.shown(&["report"]);
    assert!(report.contains("Counted: jemalloc inside ") && !report.contains("Incomplete"), "{report}");
}

/// Memory for patches is used again by the next library, once one was unloaded.
#[test]
fn a_library_that_comes_and_goes_leaves_no_memory_behind() {
    let place = directory();
    let mut command = Command::new(mallow());
    command.args(["stat", "--"]).arg(program("loads_later")).arg(with_jemalloc()).arg("flat").env(TLS.0, TLS.1);
    let mut target = Target::ready(command.current_dir(place.path()).stderr(std::process::Stdio::null()));
    target.enter("loads_later");
    // jemalloc leaves memory of its own behind, which cannot be executed.
    let areas = |target: &Target| {
        let maps = fs::read_to_string(format!("/proc/{}/maps", target.pid())).expect("its mappings");
        maps.lines().filter(|line| line.contains("r-xp") && line.split_whitespace().count() == 5).count()
    };
    let mut seen = Vec::new();
    for _ in 0..10 {
        assert_eq!(target.ask(), "loaded");
        assert_eq!(target.ask(), "600 600");
        seen.push(areas(&target));
        assert_eq!(target.ask(), "unloaded");
    }
    assert!(seen[0] > 0 && seen.iter().all(|&count| count == seen[0]), "{seen:?}");
}

/// Allocators that Debian has, opened by Python, which calls their `malloc` and `free` alone.
#[test]
fn allocators_that_python_opens_are_counted() {
    const CODE: &str = "import ctypes, sys, threading
own = ctypes.CDLL(sys.argv[1])
own.malloc.restype, own.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
stop = threading.Event()
others = [threading.Thread(target=stop.wait) for _ in range(2)]
for one in others: one.start()
for i in range(int(sys.argv[2])): own.free(own.malloc(100000 + i))
stop.set()
for one in others: one.join()
";
    for (library, name) in
        [("libjemalloc.so.2", "jemalloc"), ("libmimalloc.so.2", "mimalloc"), ("libtcmalloc_minimal.so.4", "tcmalloc")]
    {
        let of = |rounds: &str| {
            let case = Case::new("/usr/bin/python3").args(["-c", CODE, library, rounds]).env(TLS.0, TLS.1);
            let stated = case.env("PYTHONHASHSEED", "0").may_say("Python allocates").stat();
            (stated.counts(), stated)
        };
        let (none, _) = of("0");
        let (many, stated) = of("4000");
        let counted = many.allocations - none.allocations;
        assert!((3990..4100).contains(&counted), "{library}: {counted}");
        let inside = &stated.json["allocators_inside"][0];
        assert!(inside["allocator"] == name && inside["functions"].as_u64() > Some(5), "{inside:#}");
    }
}
