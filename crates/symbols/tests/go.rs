//! What programs of Go call to allocate, and the copy in which each small allocation is seen.

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use mallow_symbols::{GoCall, GoProgram, GoType};
use object::{Object, ObjectSymbol};
use support::{compile, run};

/// Where a function's code is.
fn code(path: &Path, name: &str) -> std::ops::Range<u64> {
    let bytes = fs::read(path).expect("the program");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name)).expect("the function");
    symbol.address()..symbol.address() + symbol.size()
}

/// All calls of a function that are known, once each.
fn calls(program: &GoProgram, path: &Path, function: &str) -> Vec<GoCall> {
    let mut calls: Vec<GoCall> = code(path, function).filter_map(|address| program.call(address)).collect();
    calls.retain(|call| {
        !call.callee.starts_with("runtime.morestack") && !call.callee.starts_with("runtime.gcWriteBarrier")
    });
    calls.dedup();
    calls
}

#[test]
fn calls_of_the_runtime_and_the_types_that_they_get() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = compile(folder.path(), "calls.go", &[]);
    let program = GoProgram::open(&path).expect("a program of Go's");
    let of = |name: &str, size, pointers| {
        let (parts, links_itself) = (Vec::new(), false);
        Some(GoType { name: name.to_owned(), size, pointers, parts, links_itself, map: None })
    };
    let point = || of("main.Point", 32, true);
    for (function, callee, of) in [
        ("main.object", "runtime.newobject", point()),
        ("main.slice", "runtime.makeslice", of("uint8", 1, false)),
        ("main.grow", "runtime.growslice", of("*main.Point", 8, true)),
        ("main.box", "runtime.convT", point()),
        ("main.number", "runtime.convT64", None),
        ("main.concatenate", "runtime.concatstring2", None),
        ("main.channel", "runtime.makechan", of("chan main.Point", 8, true)),
        ("main.fill", "runtime.mapassign_faststr", of("map[string]main.Point", 8, true)),
        ("main.closure", "runtime.newobject", of("struct { F uintptr; X0 int }", 16, false)),
    ] {
        let calls = calls(&program, &path, function);
        let call = calls.iter().find(|call| call.callee == callee);
        let call = call.unwrap_or_else(|| panic!("{function} does not call {callee}: {calls:?}"));
        let without_map = call.of.clone().map(|of| GoType { map: None, ..of });
        assert_eq!(without_map, of, "{function}");
        let range = code(&path, function);
        assert_eq!(program.function(range.start).as_deref(), Some(function));
    }
    let room = |function| {
        let calls = calls(&program, &path, function);
        calls.into_iter().find(|call| call.callee == "runtime.makeslice").expect("a slice").elements
    };
    assert_eq!((room("main.slice"), room("main.two"), room("main.twoOrFour")), (None, Some(2), None));
    let fill = calls(&program, &path, "main.fill").into_iter().find_map(|call| call.of?.map).expect("a map");
    assert_eq!((fill.key, fill.value), (None, None), "both are small");
    let (slots, head) = (8 * (16 + 32), 8);
    let pointer = if fill.overflows { 8 } else { 0 };
    assert_eq!(fill.slots, head + slots + pointer);
    let number = code(&path, "main.number");
    let of_line = |address| program.calls_of_line(address).expect("the lines of the code");
    let lines: Vec<_> = number.clone().map(of_line).filter(|calls| !calls.is_empty()).collect();
    let [(range, call)] = &lines.first().expect("a line that allocates")[..] else { panic!("{lines:?}") };
    assert_eq!((call.callee.as_str(), call.combined), ("runtime.convT64", false));
    assert!(number.contains(&range.start) && program.call(range.start).as_ref() == Some(call));
    assert_eq!(program.calls_of_line(0), None, "what is no code");
    // Nobody knows what a function value is.
    assert_eq!(calls(&program, &path, "main.through"), []);
    let main = code(&path, "main.main");
    assert_eq!(program.call(main.start), None, "what is no call");
    assert_eq!((program.call(0), program.function(0)), (None, None), "what is no code");
}

#[test]
fn a_type_has_its_parts_and_whether_it_links_others_of_its_kind() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = compile(folder.path(), "types.go", &[]);
    let program = GoProgram::open(&path).expect("a program of Go's");
    for (function, parts, links_itself) in [
        ("main.guarded", &["main.inner", "[2]sync.Mutex", "sync.Mutex"][..], false),
        ("main.pointing", &[], false),
        ("main.list", &[], true),
        ("main.tree", &[], true),
        ("main.graph", &["struct { to map[string]*main.graphType }"], true),
        ("main.instance", &[], true),
    ] {
        let calls = calls(&program, &path, function);
        let of = calls.iter().find_map(|call| call.of.as_ref()).unwrap_or_else(|| panic!("{function}: {calls:?}"));
        // A lock has parts of its own, which differ between versions of Go.
        let has = |part: &&str| of.parts.iter().any(|name| name == part);
        assert!(parts.iter().all(has) && parts.is_empty() == of.parts.is_empty(), "{function}: {of:?}");
        assert_eq!(of.links_itself, links_itself, "{function}: {of:?}");
    }
}

#[test]
fn places_in_the_file_are_addresses() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = compile(folder.path(), "calls.go", &[]);
    let program = GoProgram::open(&path).expect("a program of Go's");
    let bytes = fs::read(&path).expect("the program");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let at = code(&path, "main.slice").start;
    let segment = object::ObjectSegment::file_range;
    use object::ObjectSegment;
    let here = file.segments().find(|s| at >= s.address() && at - s.address() < s.size()).expect("its segment");
    assert_eq!(program.address(at - here.address() + segment(&here).0), Some(at));
    assert_eq!(program.address(bytes.len() as u64 + (1 << 40)), None);
}

#[test]
fn a_copy_of_the_program_shows_each_small_object() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = compile(folder.path(), "calls.go", &[]);
    let seen = |path: &Path| -> u64 {
        let said = String::from_utf8(run(&mut Command::new(path))).expect("a number");
        said.trim().parse().expect("a number")
    };
    let program = GoProgram::open(&path).expect("a program of Go's");
    let exact = program.exact().expect("an allocator as it is known");
    let before = fs::read(&path).expect("the program");
    let differing: Vec<(u8, u8)> = before.iter().zip(&exact).filter(|(a, b)| a != b).map(|(a, b)| (*a, *b)).collect();
    assert_eq!(exact.len(), before.len());
    assert!(!differing.is_empty() && differing.iter().all(|pair| *pair == (16, 0)), "{differing:?}");
    let copy = folder.path().join("copy");
    fs::write(&copy, exact).expect("the copy");
    fs::set_permissions(&copy, Permissions::from_mode(0o755)).expect("it is a program");
    let before = seen(&path);
    assert!((300..400).contains(&before), "three of five bytes share a block: {before}");
    assert_eq!(seen(&copy), 1000);
}

#[test]
fn what_is_no_program_of_gos_is_none() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = compile(folder.path(), "plain.c", &[]);
    assert!(GoProgram::open(&path).is_none());
    assert!(GoProgram::open(Path::new("/nowhere")).is_none());
    // Without symbols nothing is known of it.
    let stripped = folder.path().join("stripped");
    run(Command::new("strip").arg(compile(folder.path(), "calls.go", &[])).arg("-o").arg(&stripped));
    let program = GoProgram::open(&stripped).expect("it is one all the same");
    assert_eq!(program.function(code(&folder.path().join("calls"), "main.slice").start), None);
    assert!(program.exact().is_none());
}
