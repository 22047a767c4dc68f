//! Allocators that are libraries: what a program calls there past the functions of the C library's names is counted,
//! too.

use std::path::PathBuf;
use std::process::Command;

use harness::{Case, Counts, Run, directory, mallow, number, program_as, programs_with_crates, tool};

/// The libraries, by what the linker calls them, and who has made them.
const LIBRARIES: [(&str, &str); 3] =
    [("-ljemalloc", "jemalloc"), ("-ltcmalloc_minimal", "tcmalloc"), ("-l:libmimalloc.so.2", "mimalloc")];

/// `exact_new.cpp` with that library.
fn with(library: &str, maker: &str) -> PathBuf {
    program_as("exact_new", &format!("exact-new-with-{maker}"), "c++", &["-Wl,--no-as-needed", library])
}

/// Each form of the operators, with each library: as many calls and bytes as with the C library's own malloc.
#[test]
fn operators_are_counted_exactly() {
    for (library, maker) in LIBRARIES {
        let program = with(library, maker);
        let of = |case: &str, rounds: &str| {
            Case::new(&program).args([case, rounds]).may_say("allocated nothing; ").prints_addresses()
        };
        let none = (of("new", "0").stat().counts(), of("new", "0").record().counts());
        for case in ["new", "new_zero", "new_array", "nothrow", "sized", "aligned", "placement", "constructor_throws"] {
            let many = of(case, "700").three_ways();
            let truth = Counts::truth(&many.bare.out());
            let ways = [("stat", &many.stat.counts() - &none.0), ("record", &many.record.counts() - &none.1)];
            for (way, counts) in ways {
                assert_eq!(counts.sums(), truth.counts, "{maker} {case} {way}");
            }
            assert_eq!(many.record.losses(), (0, 0));
            let report = many.record.shown(&["report"]);
            assert!(!report.contains("Incomplete") && !report.contains("Counted"), "{maker}: {report}");
        }
    }
}

/// A request that cannot be met ends as without Mallow: by an exception, or by a null pointer.
#[test]
fn operators_without_memory_throw_as_ever() {
    for (library, maker) in LIBRARIES {
        for case in ["huge", "nothrow_huge"] {
            let case = Case::new(with(library, maker)).args([case, "20"]).may_say("allocated nothing; ");
            case.prints_addresses().three_ways();
        }
    }
}

/// A stack begins at the caller of the operator, no function of Mallow's or of the allocator's is in it.
#[test]
fn stacks_of_operators_begin_at_their_callers() {
    for (library, maker) in LIBRARIES {
        let record = Case::new(with(library, maker)).args(["new", "700"]).prints_addresses().record();
        let top = record.view_json(&["top", "--by", "allocations", "--limit", "0"]);
        let rows = top["functions"].as_array().expect("functions");
        let main = rows.iter().find(|row| row["function"] == "main").expect("main");
        assert_eq!(main["self"]["allocations"], 700, "{maker}: {top:#}");
    }
}

/// A watch does not see the operators, and says so.
#[test]
fn a_watch_names_operators_that_it_does_not_see() {
    for (library, maker) in LIBRARIES {
        let mut watch = Command::new(mallow());
        let program = with(library, maker);
        let output = watch.args(["watch", "--every", "1h", "--"]).arg(&program).args(["new", "10"]).output();
        let said = String::from_utf8_lossy(&output.expect("mallow").stderr).into_owned();
        let begin = format!("{} uses operator new of lib{maker}", program.display());
        assert!(said.contains(&begin) && said.contains("which is not sampled; mallow record sees it"), "{said}");
    }
}

/// Nothing finds the functions of an allocator inside of a stripped program: record does not see it either.
#[test]
fn a_watch_promises_nothing_of_a_stripped_program() {
    let place = directory();
    let at = place.path();
    let text = "const char *volatile text = \"<jemalloc>: Error\";\n";
    let main = "int main(void) { free(malloc(9)); return !text; }\n";
    std::fs::write(at.join("hidden.c"), format!("#include <stdlib.h>\n{text}{main}")).expect("a source");
    let built = Run::new(tool("cc"), at).args(["-s", "-o", "hidden", "hidden.c"]).go();
    assert_eq!(built.status, 0, "{}", built.err());
    let watch = Run::new(mallow(), at).args(["watch", "--"]).arg(at.join("hidden")).go();
    let said = watch.err() + &watch.out();
    assert!(said.contains("jemalloc inside") && said.contains("build it without strip"), "{said}");
    assert!(!said.contains("mallow record sees it") && !said.contains("samples that"), "{said}");
}

/// What jemalloc has in addition to the C library's functions.
#[test]
fn functions_of_the_allocators_own_are_counted() {
    let program = program_as("foreign", "foreign", "cc", &["-ljemalloc"]);
    let three = Case::new(program).three_ways();
    for (way, counts) in [("stat", three.stat.counts()), ("record", three.record.counts())] {
        // 2,000 of malloc, 1,000 of rallocx, what they free, and what the C library allocates and keeps.
        assert_eq!(counts.frees, 3000, "{way}");
        assert!((3000..=3003).contains(&counts.allocations), "{way}: {counts:?}");
    }
    assert_eq!(three.record.losses(), (0, 0));
}

/// An executable at a fixed address that takes malloc's address has a symbol of that name with an address of its own,
/// and defines no malloc: its calls come to Mallow as any other's, whatever allocator is behind.
#[test]
fn an_executable_that_takes_mallocs_address_defines_none() {
    for (library, maker) in LIBRARIES {
        let flags = ["-fno-pie", "-no-pie", "-Wl,--no-as-needed", library];
        let program = program_as("fixed_address", &format!("fixed-address-with-{maker}"), "cc", &flags);
        let count = |rounds: &str| {
            let record = Case::new(&program).arg(rounds).may_say("allocated nothing; ").prints_addresses().record();
            let counts = record.counts();
            (counts.sums().allocations, counts.sums().frees)
        };
        let (none, many) = (count("0"), count("700"));
        assert_eq!((many.0 - none.0, many.1 - none.1), (700, 700), "{maker}: {none:?} {many:?}");
    }
}

/// mimalloc 3 keeps the address of the first block of each page, and of each large block.
#[test]
fn what_mimalloc_alone_has_an_address_of_is_lost() {
    let program = programs_with_crates("mimalloc_inside").join("mimalloc-inside");
    for (blocks, size) in [(1, 1234), (10, 1234), (10, 100_000), (10, 1_000_000), (1, 5_000_000), (2, 100_000_000)] {
        let record = Case::new(&program).args([blocks.to_string(), size.to_string()]).record();
        let leaks = record.view_json(&["leaks", "--only", "lost"]);
        let lost = (number(&leaks, "lost_blocks"), number(&leaks, "lost_bytes"));
        assert_eq!(lost, (blocks, blocks * size), "{blocks} of {size}: {leaks:#}");
    }
}

/// A linker keeps what a program calls: of mimalloc in a Rust program `mi_malloc_aligned`, and no `mi_malloc`. A
/// program's own `mi_new` is no allocator.
#[test]
fn a_part_of_an_allocator_inside_is_named() {
    let place = directory();
    let at = place.path();
    let built = |name: &str, functions: &[&str]| {
        let definitions: String =
            functions.iter().map(|function| format!("void *{function}(void) {{ return 0; }}\n")).collect();
        let main = "#include <stdlib.h>\nint main(void) { free(malloc(9)); return 0; }\n";
        std::fs::write(at.join("part.c"), format!("{main}{definitions}")).expect("a source");
        let built = Run::new(tool("cc"), at).args(["-O0", "-fno-builtin", "-o", name, "part.c"]).go();
        assert_eq!(built.status, 0, "{}", built.err());
    };
    built("part", &["mi_free", "mi_malloc_aligned", "mi_realloc_aligned"]);
    built("own", &["mi_new", "mi_free"]);
    for (name, is_inside) in [("part", true), ("own", false)] {
        let program = at.join(name);
        let watch = Run::new(mallow(), at).args(["watch", "--"]).arg(&program).go();
        let doctor = Run::new(mallow(), at).args(["doctor", "--"]).arg(&program).go();
        let inside = format!("{name} has mimalloc inside");
        assert_eq!(watch.err().contains(&format!("{inside}, which is not sampled; mallow record sees it")), is_inside);
        let incomplete = "Incomplete: mimalloc inside";
        assert_eq!(watch.err().contains(incomplete), is_inside, "{}", watch.err());
        let guard = Run::new(mallow(), at).args(["guard", "--"]).arg(&program).go();
        let said = guard.err();
        assert_eq!(said.contains(&format!("{inside}, which is not guarded; built without it, ")), is_inside, "{said}");
        // Neither samples what it cannot guard, and who follows would be sent back.
        assert!(!said.contains("mallow watch") && !said.contains("mallow record"), "{said}");
        let words = doctor.out().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.contains(&inside), is_inside, "{words}");
    }
}
