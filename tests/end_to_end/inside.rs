//! Allocators inside of executables and libraries: their calls are counted as those of any other, against what the
//! program and the allocator itself count.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Case, Counts, Run, directory, library, mallow, program_as};

const JEMALLOC: [&str; 4] = ["-l:libjemalloc.a", "-lm", "-ldl", "-lstdc++"];

/// `NAME.c`, with jemalloc inside.
fn with_jemalloc(name: &str) -> PathBuf {
    program_as(name, &format!("{name}-with-jemalloc"), "cc", &JEMALLOC)
}

/// The numbers before these words in what a program printed, summed over its lines.
fn said(text: &str, word: &str) -> u64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.windows(2).filter(|pair| pair[1] == word).map(|pair| pair[0].parse::<u64>().expect("a number")).sum()
}

#[test]
fn calls_of_jemalloc_inside_are_those_that_it_counts() {
    let program = with_jemalloc("jemalloc_inside");
    let three = Case::new(&program).three_ways();
    let out = three.bare.out();
    for (way, counts) in [("stat", three.stat.counts()), ("record", three.record.counts())] {
        let truth = (said(&out, "allocations"), said(&out, "frees"), said(&out, "bytes"));
        assert_eq!((counts.allocations, counts.frees, counts.allocated_bytes), truth, "{way}: {counts:?}");
    }
    assert_eq!(three.record.losses(), (0, 0));
    // Which one was counted, and how it was found.
    let phrase = format!("Counted: jemalloc inside {}, found by .symtab\n", program.display());
    let report = three.record.shown(&["report"]);
    assert!(report.contains(&phrase) && !report.contains("Incomplete"), "{report}");
    let json = three.record.view_json(&["report"]);
    assert_eq!(json["allocators_inside"][0]["allocator"], "jemalloc", "{json:#}");
    assert_eq!(json["custom_allocators"], serde_json::Value::Null);
    // A stack begins at the caller of the function, no frame of the allocator or of a stub is in it.
    let top = three.record.view_json(&["top", "--by", "allocations", "--limit", "0"]);
    let of = |name: &str| {
        let rows = top["functions"].as_array().expect("functions");
        rows.iter().find(|row| row["function"] == name).map(|row| row["self"]["allocations"].as_u64())
    };
    assert_eq!(of("taken_here"), Some(Some(500)), "{top:#}");
    assert_eq!(of("churn_inside").or(of("main")), Some(Some(257)), "{top:#}");
    assert!(of("malloc").is_none() && of("je_malloc_default").is_none() && of("allocate").is_none());
}

/// Constructors of libraries run before main, and before those of a library that is preloaded, unless it is to be first.
#[test]
fn what_libraries_allocate_before_main_with_an_allocator_inside_counts() {
    let library = program_as("early_inside", "libearly_inside.so", "cc", &["-DLIBRARY", "-shared", "-fPIC"]);
    let path = library.to_str().expect("a path");
    let program = program_as("early_inside", "early-inside", "cc", &[&[path, "-rdynamic"][..], &JEMALLOC].concat());
    let three = Case::new(&program).three_ways();
    for (way, counts) in [("stat", three.stat.counts()), ("record", three.record.counts())] {
        // Beside them, libstdc++ has a reserve for exceptions, which it keeps.
        let reserve = counts.allocated_bytes - (100 * 1000 + 10 * 500);
        let of_it = u64::from(reserve > 0);
        assert_eq!((counts.allocations, counts.frees), (110 + of_it, 110), "{way}: {counts:?}");
    }
    let report = three.record.shown(&["report"]);
    assert!(report.contains("Counted: jemalloc inside") && !report.contains("not recorded"), "{report}");
}

/// Calls that pass an entry function by are in no number, and frees of their blocks would be of nothing.
#[test]
fn a_malloc_that_is_inlined_elsewhere_is_not_called_counted() {
    let flags = [&["-DINLINED"][..], &JEMALLOC].concat();
    let program = program_as("jemalloc_inside", "jemalloc-inside-inlined", "cc", &flags);
    let place = directory();
    let path = program.to_str().expect("a path");
    let run = |words: &[&str]| Run::new(mallow(), place.path()).args(words).arg(path).go();
    let record = run(&["record", "--no-report", "-o", "r.mallow", "--"]);
    let why = format!(
        "jemalloc inside {path} is not counted: its malloc is inlined in taken_inlined, so that calls pass it by"
    );
    assert!(record.status == 125 && record.err().contains(&why), "{}", record.err());
    let nothing = format!("nothing was recorded: {path} has jemalloc inside, whose malloc is inlined in taken_inlined");
    assert!(record.err().contains(&nothing), "{}", record.err());
    let doctor = run(&["doctor", "--"]);
    assert!(
        doctor.status == 3 && doctor.out().contains("whose malloc is inlined in taken_inlined"),
        "{}",
        doctor.out()
    );
}

#[test]
fn children_and_executed_programs_are_counted_too() {
    let case = Case::new(with_jemalloc("jemalloc_inside")).arg("again");
    let three = case.three_ways();
    let out = three.bare.out();
    for (way, counts) in [("stat", three.stat.counts()), ("record", three.record.counts())] {
        let truth = (said(&out, "allocations") + 1, said(&out, "bytes") + 1024);
        assert_eq!((counts.allocations, counts.allocated_bytes), truth, "{way}");
    }
}

/// Hidden in a library, beside the C library's malloc in the program.
#[test]
fn an_allocator_hidden_in_a_library_is_counted_beside_the_c_librarys() {
    let pic = ["-shared", "-fPIC", "-l:libjemalloc_pic.a", "-lm", "-Wl,--exclude-libs,ALL", "-DINSIDE"];
    let library = library("library_inside", "library-inside", &pic);
    let flags = [library.to_str().expect("a path")];
    let program = program_as("library_inside", "library-inside-program", "cc", &flags);
    let three = Case::new(&program).three_ways();
    let out = three.bare.out();
    for (way, counts) in [("stat", three.stat.counts()), ("record", three.record.counts())] {
        assert_eq!((counts.allocations, counts.frees), (said(&out, "allocations"), said(&out, "frees")), "{way}");
    }
    let report = three.record.shown(&["report"]);
    assert!(report.contains("Counted: jemalloc inside ") && report.contains("library-inside.so"), "{report}");
}

#[test]
fn each_function_of_jemalloc_inside_is_counted_exactly() {
    const ROUNDS: &str = "300";
    let program = with_jemalloc("exact");
    for case in [
        "malloc",
        "malloc_zero",
        "malloc_kept",
        "malloc_huge",
        "calloc",
        "calloc_overflow",
        "realloc",
        "realloc_moved",
        "aligned_alloc",
        "memalign",
        "posix_memalign",
        "posix_memalign_refused",
        "valloc",
        "free_null",
    ] {
        let of = |rounds: &str| Case::new(&program).args([case, rounds]).may_say("allocated nothing; ");
        let of = |rounds: &str| of(rounds).prints_addresses();
        let (many, none) = (of(ROUNDS).three_ways(), of("0"));
        let truth = Counts::truth(&many.bare.out());
        for (way, counts) in [
            ("stat", &many.stat.counts() - &none.stat().counts()),
            ("record", &many.record.counts() - &none.record().counts()),
        ] {
            assert_eq!(counts.sums(), truth.counts, "{case}, {way}");
        }
    }
}

/// An exception leaves the patched operator new: the calls after it are outermost ones again.
#[test]
fn exceptions_pass_through_a_patched_function() {
    let program = program_as("tcmalloc_inside", "tcmalloc_inside", "c++", &["-l:libtcmalloc_minimal.a"]);
    let three = Case::new(&program).three_ways();
    let out = three.bare.out();
    for (way, counts) in [("stat", three.stat.counts()), ("record", three.record.counts())] {
        // The runtime allocates each exception, and frees it.
        let (allocations, frees) = (said(&out, "allocations"), said(&out, "frees"));
        let thrown = counts.allocations - allocations;
        assert!((200..=210).contains(&thrown), "{way}: {counts:?}");
        assert!((frees + 200..=frees + 210).contains(&counts.frees), "{way}: {counts:?}");
    }
    assert!(three.record.shown(&["report"]).contains("Counted: tcmalloc inside "));
}

/// What is live by the recording, in blocks as large as the allocator makes them, is what its own statistics say.
#[test]
fn live_bytes_are_those_of_the_allocators_own_statistics() {
    let flags = ["-l:libtcmalloc_minimal.a"];
    let program = program_as("tcmalloc_statistics", "tcmalloc_statistics", "c++", &flags);
    let record = Case::new(&program).record();
    let place = record.directory.path();
    // Not what initialisers of the program allocate.
    let export = ["export", "--focus", "^main$", "--format", "csv", "--table", "events", "-o", "events.csv"];
    let exported = Run::new(harness::mallow(), place).args(export).arg(&record.file).go();
    assert_eq!(exported.status, 0, "{}", exported.err());
    let events = fs::read_to_string(place.join("events.csv")).expect("the events");
    let mut lines = events.lines();
    let columns: Vec<&str> = lines.next().expect("a heading").split(',').collect();
    let column = |name: &str| columns.iter().position(|column| *column == name).expect(name);
    let (block, size, freed) = (column("block"), column("size"), column("freed_block"));
    let mut live = HashMap::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        live.remove(fields[freed]);
        if !fields[size].is_empty() {
            live.insert(fields[block], fields[size]);
        }
    }
    assert!(live.len() > 10_000, "{}", live.len());
    fs::write(place.join("sizes"), live.into_values().collect::<Vec<_>>().join("\n")).expect("the sizes");
    let sizes = fs::File::open(place.join("sizes")).expect("the sizes");
    let sums = Command::new(&program).arg("sizes").stdin(sizes).output().expect("the program");
    let by_recording: u64 = String::from_utf8_lossy(&sums.stdout).trim().parse().expect("a number");
    assert_eq!(by_recording, said(&record.outcome.out(), "bytes"));
}

#[test]
fn a_stripped_allocator_is_named_with_the_remedy() {
    let flags = [&JEMALLOC[..], &["-Wl,--exclude-libs,ALL", "-s"]].concat();
    let program = program_as("jemalloc_inside", "jemalloc-inside-stripped", "cc", &flags);
    let text = "is not counted: it is stripped, so its functions cannot be found; build it without strip";
    let three = Case::new(&program).may_say("stripped").three_ways();
    for err in [three.stat.outcome.err(), three.record.outcome.err()] {
        assert!(err.contains("jemalloc inside ") && err.contains(text), "{err}");
    }
}

#[test]
fn programs_without_an_allocator_inside_ask_once_and_then_no_more() {
    // Counted by the files that they open: an image that need not ask opens one that is there.
    if Command::new("strace").arg("-V").output().is_err() {
        return harness::not_run("programs_without_an_allocator_inside_ask_once_and_then_no_more", "no strace here");
    }
    let place = directory();
    let log = place.path().join("log");
    let script = "for i in 1 2 3 4 5; do /bin/true; done; exit 0";
    let mut command = Command::new("strace");
    command.args(["-f", "-e", "trace=openat", "-o"]).arg(&log).arg(harness::mallow());
    let ran = command.args(["stat", "--", "/bin/sh", "-c", script]).output().expect("strace");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let log = std::fs::read_to_string(Path::new(&log)).expect("a log");
    let asked = log.lines().filter(|line| line.contains("/inside/a-") && line.contains("O_CREAT")).count();
    let spared = log.lines().filter(|line| line.contains("/inside/n-") && line.contains("O_NOFOLLOW")).count();
    // sh asks, and so does the first true.
    assert_eq!(asked, 2, "{log}");
    assert!(spared >= 6, "{log}");
}
