//! Which files are read for a module, and what is said where they are missing.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use mallow_profile::{Module, ModuleId, Profile};
use mallow_symbols::{NameSource, Note, Options, Symbolizer, UNKNOWN};
use support::{Place, add, call, compile, look_up, names, nowhere, profile, run, symbol};

const C: &[&str] = &["-O2", "-g"];

fn tool(name: &str, arguments: &[&str], path: &Path) {
    run(Command::new(name).args(arguments).arg(path));
}

/// Takes the debug information out of `path`, into a file of its own.
fn split(path: &Path) -> PathBuf {
    let debug = path.with_extension("debug");
    run(Command::new("objcopy").arg("--only-keep-debug").arg(path).arg(&debug));
    tool("strip", &["--strip-all"], path);
    debug
}

fn link(path: &Path, debug: &Path) {
    tool("objcopy", &[&format!("--add-gnu-debuglink={}", debug.display())], path);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn line(path: &Path, address: u64, options: Options) -> (Option<Place>, NameSource, Vec<Note>) {
    let (places, summary) = look_up(path, &[address], options);
    (places[0].first().cloned(), summary.found, summary.notes)
}

/// A stripped program, its debug file, and the address of the function `internal`.
fn stripped(folder: &Path) -> (PathBuf, PathBuf, u64) {
    let path = compile(folder, "plain.c", C);
    let address = symbol(&path, "internal");
    let debug = split(&path);
    (path, debug, address)
}

fn expected() -> Place {
    Place("internal".into(), "plain.c".into(), 28)
}

#[test]
fn return_addresses_name_the_call() {
    let folder = tempfile::tempdir().unwrap();
    let path = compile(folder.path(), "plain.c", C);
    let after = call(&path, "exported", "malloc");
    let mut profile = profile(&path);
    let returned = add(&mut profile, after, false);
    let summary = Symbolizer::new(nowhere()).symbolize_all(&mut profile);
    let places = support::places(&profile, returned);
    let source = |function: &str, line| Place(function.into(), "plain.c".into(), line);
    assert_eq!(places, [source("push", 21), source("exported", 39)]);
    assert_eq!((summary.modules[0].named, summary.modules[0].located), (1, 1));
    // The directory is part of the name.
    let file = profile.frames[0].lines[0].file.map(|file| profile.strings.get(file));
    assert_eq!(file, Some(support::source("plain.c").to_str().unwrap()));
}

#[test]
fn a_call_that_does_not_return_may_end_its_function() {
    let folder = tempfile::tempdir().unwrap();
    let path = compile(folder.path(), "plain.c", C);
    let after = call(&path, "exported.cold", "abort");
    let mut profile = profile(&path);
    let frame = add(&mut profile, after, false);
    let exact = add(&mut profile, after, true);
    Symbolizer::new(nowhere()).symbolize_all(&mut profile);
    assert_eq!(names(&profile, frame), ["copy", "push", "exported"]);
    assert_ne!(names(&profile, frame), names(&profile, exact));
}

#[test]
fn functions_without_mangled_names_have_their_scopes() {
    let folder = tempfile::tempdir().unwrap();
    let path = compile(folder.path(), "shapes.cpp", C);
    let (places, _) = look_up(&path, &support::text(&path, 1), nowhere());
    let names: std::collections::BTreeSet<_> = places.into_iter().flatten().map(|place| place.0).collect();
    let mut bare = names.iter().filter(|name| name.starts_with("operator()") || name.starts_with("fold<"));
    assert_eq!(bare.next(), None);
    for wanted in [
        "main::{lambda}::operator()",
        "shapes::Box<long int>::fold<main(int, char**)::<lambda(long int, long int)> >",
        "shapes::(anonymous namespace)::Circle::Circle",
        "shapes::make(int)",
        "main",
    ] {
        assert!(names.contains(wanted), "{wanted}: {names:#?}");
    }
    assert!(names.iter().any(|name| name.starts_with("std::__sort<")), "{names:#?}");
}

#[test]
fn the_symbol_table_completes_line_tables() {
    let folder = tempfile::tempdir().unwrap();
    let path = compile(folder.path(), "words.rs", &["--edition=2024", "-O", "-Cdebuginfo=line-tables-only"]);
    let (places, _) = look_up(&path, &support::text(&path, 1), nowhere());
    let outermost: std::collections::BTreeSet<_> = places.iter().filter_map(|all| all.last()).map(|p| &*p.0).collect();
    assert!(outermost.contains("words::count::words") && !outermost.contains("words"), "{outermost:#?}");
}

#[test]
fn a_symbol_ends_with_its_section() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("long.s");
    fs::write(&source, ".globl long\n.type long, @function\nlong: ret\n.size long, 0x1000\n").unwrap();
    let path = folder.path().join("long");
    run(Command::new("gcc").args(["-shared", "-nostdlib", "-o"]).arg(&path).arg(&source));
    let text = support::section(&path, ".text");
    let (places, _) = look_up(&path, &[text.start, text.end - 1, text.end], nowhere());
    assert_eq!(places.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 0]);
}

#[test]
fn a_debug_file_by_build_id() {
    let folder = tempfile::tempdir().unwrap();
    let (path, debug, address) = stripped(folder.path());
    let id = hex(&profile(&path).modules[0].build_id);
    let debug_directory = folder.path().join("debug");
    let place = debug_directory.join(".build-id").join(&id[..2]).join(format!("{}.debug", &id[2..]));
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::rename(&debug, &place).unwrap();
    let options = Options { debug_directories: vec![debug_directory.clone()], ..Options::default() };
    let (places, summary) = look_up(&path, &[address], options.clone());
    assert_eq!(places[0].first(), Some(&expected()));
    assert_eq!((summary.found, summary.debug_file), (NameSource::DebugInformation, Some(place.clone())));

    // The file of another build at that place is not used.
    let other = compile(folder.path(), "plain.c", &["-O1", "-g"]);
    fs::rename(split(&other), &place).unwrap();
    compile(folder.path(), "plain.c", C);
    split(&path);
    let (found, state, notes) = line(&path, address, options);
    assert_eq!((found, state), (None, NameSource::DynamicSymbols));
    assert_eq!(notes, [Note::DebugFileDiffers(place)]);
}

#[test]
fn a_debug_file_by_link() {
    let folder = tempfile::tempdir().unwrap();
    let (path, debug, address) = stripped(folder.path());
    link(&path, &debug);
    let name = debug.file_name().unwrap();
    assert_eq!(line(&path, address, nowhere()).0, Some(expected()));

    let hidden = folder.path().join(".debug").join(name);
    let directory = folder.path().join("elsewhere");
    let global = directory.join(folder.path().strip_prefix("/").unwrap()).join(name);
    let options = Options { debug_directories: vec![directory], ..Options::default() };
    let mut now = debug.clone();
    for place in [hidden, global] {
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::rename(&now, &place).unwrap();
        assert_eq!(line(&path, address, options.clone()).0, Some(expected()), "{}", place.display());
        now = place;
    }

    // One flipped bit, and it is not the file that the link was made for.
    let mut bytes = fs::read(&now).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&now, bytes).unwrap();
    let (found, state, notes) = line(&path, address, options);
    assert_eq!((found, state), (None, NameSource::DynamicSymbols));
    assert_eq!(notes, [Note::DebugFileDiffers(now), Note::DebugFileMissing(name.into())]);
}

#[test]
fn the_symbol_table_of_a_debug_file_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = compile(folder.path(), "plain.c", &["-O2"]);
    let address = symbol(&path, "internal");
    let debug = split(&path);
    link(&path, &debug);
    let (found, state, _) = line(&path, address, nowhere());
    assert_eq!((found, state), (Some(Place("internal".into(), String::new(), 0)), NameSource::SymbolTable));
}

#[test]
fn what_is_left_of_a_stripped_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = compile(folder.path(), "plain.c", &["-O2", "-g", "-rdynamic"]);
    let (internal, exported) = (symbol(&path, "internal"), symbol(&path, "exported"));
    tool("strip", &["--strip-debug"], &path);
    let (places, summary) = look_up(&path, &[internal, exported], nowhere());
    assert_eq!(places[0][0].0, "internal");
    assert_eq!((summary.found, summary.named, summary.located), (NameSource::SymbolTable, 2, 0));

    tool("strip", &["--strip-all"], &path);
    let (places, summary) = look_up(&path, &[internal, exported], nowhere());
    assert_eq!((places[0].len(), places[1][0].0.as_str()), (0, "exported"));
    assert_eq!((summary.found, summary.named, summary.frames), (NameSource::DynamicSymbols, 1, 2));
}

#[test]
fn a_compressed_symbol_table_in_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = compile(folder.path(), "plain.c", &["-O2"]);
    let address = symbol(&path, "internal");
    let mini = folder.path().join("mini");
    run(Command::new("objcopy").args(["-S", "--keep-symbol=internal"]).arg(&path).arg(&mini));
    tool("xz", &[], &mini);
    tool("strip", &["--strip-all"], &path);
    assert_eq!(line(&path, address, nowhere()).0, None);
    let section = format!(".gnu_debugdata={}", mini.with_extension("xz").display());
    tool("objcopy", &["--add-section", &section], &path);
    let (found, state, _) = line(&path, address, nowhere());
    assert_eq!((found.map(|place| place.0).as_deref(), state), (Some("internal"), NameSource::SymbolTable));
}

#[test]
fn names_in_a_supplementary_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = compile(folder.path(), "shared.s", &["-shared", "-nostdlib"]);
    let address = symbol(&path, "hidden");
    // Its .debug_str begins with the name, and it has a build-id.
    let source = folder.path().join("names.c");
    fs::write(&source, "").unwrap();
    let object = folder.path().join("strings.s");
    fs::write(&object, ".section .debug_str,\"MS\",@progbits,1\n.asciz \"named_elsewhere\"\n").unwrap();
    let names = folder.path().join("names.debug");
    run(Command::new("gcc")
        .args(["-shared", "-nostdlib", "-Wl,--build-id", "-o"])
        .arg(&names)
        .arg(&source)
        .arg(&object));
    let mut link = b"names.debug\0".to_vec();
    link.extend(&profile(&names).modules[0].build_id);
    fs::write(folder.path().join("link"), link).unwrap();
    let section = format!(".gnu_debugaltlink={}", folder.path().join("link").display());
    tool("objcopy", &["--add-section", &section], &path);
    // Without the symbol, nothing else has the name.
    assert_eq!(line(&path, address, nowhere()).0.map(|place| place.0).as_deref(), Some("named_elsewhere"));
    fs::remove_file(&names).unwrap();
    let (found, _, notes) = line(&path, address, nowhere());
    assert_ne!(found.map(|place| place.0).as_deref(), Some("named_elsewhere"));
    assert_eq!(notes, [Note::SupplementaryMissing("names.debug".into())]);
}

/// What dwz takes out of two programs is in a file that looks like an object file.
#[test]
fn names_of_inlined_functions_that_two_programs_share() {
    let folder = tempfile::tempdir().unwrap();
    let header = "struct Box { void *p; inline __attribute__((always_inline)) void fill(int n) { p = __builtin_malloc(n); } };\n\
         inline __attribute__((always_inline)) void *deep(int n) { Box b; b.fill(n * 3); return b.p; }\n\
         namespace shared { inline __attribute__((always_inline)) void *hidden(int n) { return deep(n + 1); } }\n\
         struct Much { int a, b, c, d, e, f, g, h; Much *next; char text[30]; enum { One, Two, Three } kind; };\n\
         inline int much(Much *m) { return m->kind + m->a; }\n";
    fs::write(folder.path().join("shared.hpp"), header).unwrap();
    let programs = ["one", "two"].map(|name| {
        let path = folder.path().join(name);
        let source = path.with_extension("cpp");
        let text = "#include \"shared.hpp\"\nint main(int n, char **) { Much m{}; return shared::hidden(n) == 0 || much(&m); }\n";
        fs::write(&source, text).unwrap();
        run(Command::new("g++").args(["-O2", "-g", "-o"]).arg(&path).arg(&source).current_dir(folder.path()));
        path
    });
    let address = call(&programs[0], "main", "malloc") - 1;
    let functions = |options| {
        let (places, summary) = look_up(&programs[0], &[address], options);
        let names: Vec<_> = places[0].iter().map(|place| place.0.clone()).collect();
        (names, summary.notes)
    };
    let expected = ["Box::fill", "deep", "shared::hidden", "main"];
    let short =
        |names: &[String]| names.iter().map(|name| name.split('(').next().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(short(&functions(nowhere()).0), expected);
    let shared = folder.path().join("shared.debug");
    run(Command::new("dwz").arg("-m").arg(&shared).args(&programs));
    let (names, notes) = functions(nowhere());
    assert_eq!((&short(&names)[..], &notes[..]), (&expected.map(str::to_owned)[..], &[][..]));
    fs::remove_file(&shared).unwrap();
    let (names, notes) = functions(nowhere());
    assert_ne!(short(&names), expected);
    assert_eq!(notes, [Note::SupplementaryMissing(shared)]);
}

#[test]
fn split_debug_information() {
    let folder = tempfile::tempdir().unwrap();
    // binutils' dwp knows DWARF 4 alone.
    let path = compile(folder.path(), "plain.c", &["-O2", "-g", "-gdwarf-4", "-gsplit-dwarf"]);
    let after = call(&path, "exported", "malloc");
    let functions = |path: &Path| {
        let (places, summary) = look_up(path, &[after - 1], nowhere());
        let line = places[0].last().is_some_and(|place| !place.1.is_empty());
        let all_or_nothing = summary.notes.is_empty() == line;
        assert!(all_or_nothing, "a line of a function that is not known: {places:?}");
        (places[0].iter().map(|place| place.0.clone()).collect::<Vec<_>>(), summary.notes)
    };
    let inlined = vec!["push".to_string(), "exported".to_string()];
    assert_eq!(functions(&path), (inlined.clone(), Vec::new()));
    let package = folder.path().join("plain.dwp");
    run(Command::new("dwp").arg("-e").arg(&path).arg("-o").arg(&package));
    let objects: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let objects: Vec<_> = objects.into_iter().filter(|path| path.extension().is_some_and(|e| e == "dwo")).collect();
    assert_eq!(objects.len(), 1);
    fs::remove_file(&objects[0]).unwrap();
    assert_eq!(functions(&path), (inlined, Vec::new()));
    // With neither, the symbol table names the outermost function, and what is missing is said.
    fs::remove_file(&package).unwrap();
    assert_eq!(functions(&path), (vec!["exported".to_string()], vec![Note::SplitMissing(objects[0].clone())]));
    let path = compile(folder.path(), "plain.c", &["-O2", "-g", "-gdwarf-5", "-gsplit-dwarf"]);
    assert_eq!(functions(&path), (vec!["push".to_string(), "exported".to_string()], Vec::new()));
}

#[test]
fn a_file_that_is_not_the_recorded_one_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = compile(folder.path(), "plain.c", C);
    let address = symbol(&path, "internal");
    let now = profile(&path).modules[0].build_id.clone();
    let plain = compile(&folder.path().join("."), "ifunc.c", &["-Wl,--build-id=none"]);
    let cases = [
        (&path, vec![7; 20], NameSource::BuildIdDiffers { now: now.clone() }),
        (&path, Vec::new(), NameSource::BuildIdDiffers { now: now.clone() }),
        (&path, now[..10].to_vec(), NameSource::BuildIdDiffers { now }),
        (&plain, vec![7; 20], NameSource::BuildIdDiffers { now: Vec::new() }),
    ];
    for (path, build_id, expected) in cases {
        let mut profile = profile(path);
        profile.modules[0].build_id = build_id;
        let frame = add(&mut profile, address, true);
        let summary = Symbolizer::new(nowhere()).symbolize_all(&mut profile);
        assert_eq!(summary.modules[0].found, expected);
        assert!(names(&profile, frame).is_empty());
        assert_eq!(summary.lacking().len(), 1);
    }
    // Neither has one.
    let (found, ..) = line(&plain, symbol(&plain, "choose"), nowhere());
    assert!(found.is_some());
}

/// As Go's own linker makes it: the section is there, and no program header leads to it. The recording cannot have it
/// then.
#[test]
fn a_build_id_that_is_not_loaded_is_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = compile(folder.path(), "plain.c", C);
    let (address, id) = (symbol(&path, "internal"), profile(&path).modules[0].build_id.clone());
    let mut bytes = fs::read(&path).unwrap();
    let at = |bytes: &[u8], from: usize, size: usize| {
        bytes[from..from + size].iter().rev().fold(0usize, |sum, &byte| sum << 8 | usize::from(byte))
    };
    let (headers, size, count) = (at(&bytes, 32, 8), at(&bytes, 54, 2), at(&bytes, 56, 2));
    for header in (0..count).map(|number| headers + number * size) {
        // PT_NOTE becomes PT_NULL.
        if at(&bytes, header, 4) == 4 {
            bytes[header..header + 4].fill(0);
        }
    }
    fs::remove_file(&path).unwrap();
    fs::write(&path, &bytes).unwrap();
    for (build_id, used) in [(Vec::new(), true), (id, true), (vec![7; 20], false)] {
        let mut profile = profile(&path);
        profile.modules[0].build_id = build_id;
        let frame = add(&mut profile, address, true);
        Symbolizer::new(nowhere()).symbolize_all(&mut profile);
        assert_eq!(!names(&profile, frame).is_empty(), used);
    }
}

/// Without a build-id, only its date shows that a program was built again.
#[test]
fn a_file_without_build_id_that_was_written_since_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = compile(folder.path(), "ifunc.c", &["-Wl,--build-id=none"]);
    let written = fs::metadata(&path).unwrap().modified().unwrap();
    let ended_ms = written.duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    let address = symbol(&path, "choose");
    let mut symbolizer = Symbolizer::new(nowhere());
    // The recording ended ten seconds before the file was written, or after it, or nobody knows.
    for (started_unix_ms, used) in [(ended_ms - 20_000, false), (ended_ms - 5_000, true), (0, true)] {
        let duration_ms = if started_unix_ms == 0 { 0 } else { 10_000 };
        let mut profile = Profile { started_unix_ms, duration_ms, ..profile(&path) };
        let frame = add(&mut profile, address, true);
        let summary = symbolizer.symbolize_all(&mut profile);
        assert_eq!(names(&profile, frame).is_empty(), !used, "{started_unix_ms}");
        assert_eq!(summary.modules[0].found == NameSource::WrittenSince, !used);
    }
}

/// As on another machine: the program is not there, or is of another build, and its debug file is.
#[test]
fn a_debug_file_does_without_its_module() {
    let folder = tempfile::tempdir().unwrap();
    let (path, debug, address) = stripped(folder.path());
    let module = profile(&path).modules[0].clone();
    let id = hex(&module.build_id);
    let cache = folder.path().join("cache");
    let fetched = cache.join(&id).join("debuginfo");
    fs::create_dir_all(fetched.parent().unwrap()).unwrap();
    fs::rename(&debug, &fetched).unwrap();
    let options = || Options { debuginfod_cache: Some(cache.clone()), ..nowhere() };
    let found = |options: Options| {
        let mut profile = Profile { modules: vec![module.clone()], ..Profile::default() };
        let frame = add(&mut profile, address, true);
        let summary = Symbolizer::new(options).symbolize_all(&mut profile);
        (support::places(&profile, frame).first().cloned(), summary.modules[0].found.clone())
    };
    assert_eq!(found(options()), (Some(expected()), NameSource::DebugInformation));
    compile(folder.path(), "plain.c", &["-O1"]);
    assert_eq!(found(options()), (Some(expected()), NameSource::DebugInformation));
    assert!(matches!(found(nowhere()), (None, NameSource::BuildIdDiffers { .. })));
    fs::remove_file(&path).unwrap();
    assert_eq!(found(options()), (Some(expected()), NameSource::DebugInformation));
    assert!(matches!(found(nowhere()), (None, NameSource::FileGone(_))));
}

#[test]
fn files_that_are_no_modules() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    run(Command::new("mkfifo").arg(&fifo));
    let text = folder.path().join("text");
    fs::write(&text, "text").unwrap();
    let empty = folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    let gone = folder.path().join("gone");
    let state = |path: &Path| {
        let module = Module { path: path.to_str().unwrap().into(), build_id: Vec::new() };
        let mut profile = Profile { modules: vec![module], ..Profile::default() };
        add(&mut profile, 1, false);
        Symbolizer::new(nowhere()).symbolize_all(&mut profile).modules[0].found.clone()
    };
    for path in [&fifo, &text, &empty, folder.path(), Path::new("/dev/zero")] {
        assert!(matches!(state(path), NameSource::Unreadable(_)), "{}: {:?}", path.display(), state(path));
    }
    for path in [gone.as_path(), Path::new("")] {
        assert!(matches!(state(path), NameSource::FileGone(_)), "{}: {:?}", path.display(), state(path));
    }
}

#[test]
fn the_vdso_of_this_kernel() {
    let module = |build_id| Module { path: "[vdso]".into(), build_id };
    let mut profile = Profile { modules: vec![module(vec![1; 20])], ..Profile::default() };
    add(&mut profile, 0x100, true);
    let summary = Symbolizer::new(nowhere()).symbolize_all(&mut profile);
    let NameSource::BuildIdDiffers { now } = summary.modules[0].found.clone() else { panic!("{summary:?}") };
    profile.modules[0] = module(now);
    // Some of its code is clock_gettime.
    profile.frames.clear();
    for address in 0..0x2000 {
        add(&mut profile, address, true);
    }
    Symbolizer::new(nowhere()).symbolize_all(&mut profile);
    let all: Vec<_> = (0..0x2000).flat_map(|frame| names(&profile, mallow_profile::FrameId(frame))).collect();
    assert!(all.iter().any(|name| name == "clock_gettime"), "{all:?}");
}

#[test]
fn stubs_and_indirect_functions() {
    let folder = tempfile::tempdir().unwrap();
    for flags in [&["-O2", "-fcf-protection"][..], &["-O2", "-Wl,-z,ibtplt"], &["-O2", "-fno-plt"], &["-O2", "-no-pie"]]
    {
        let path = compile(folder.path(), "plain.c", flags);
        let text = String::from_utf8(run(Command::new("objdump").arg("-d").arg(&path))).unwrap();
        let stubs = text.lines().filter_map(|line| line.strip_suffix("@plt>:")?.split_once(" <"));
        let stubs: Vec<_> = stubs.map(|(at, name)| (u64::from_str_radix(at, 16).unwrap(), name)).collect();
        assert!(stubs.len() > 3 || flags.contains(&"-fno-plt") && !stubs.is_empty(), "{stubs:?}");
        for (address, name) in stubs {
            let (places, _) = look_up(&path, &[address, address + 5], nowhere());
            for place in places {
                assert_eq!(place[0].0, format!("{name}@plt"), "{flags:?} {address:#x}");
            }
        }
    }
    // The stubs of .plt that CET programs enter the dynamic linker through: no name in objdump.
    let path = compile(folder.path(), "plain.c", &["-O2", "-Wl,-z,ibtplt"]);
    let plt = support::section(&path, ".plt");
    let stubs: Vec<_> = (plt.start + 16..plt.end).step_by(16).collect();
    let (places, _) = look_up(&path, &stubs, nowhere());
    let mut lazy: Vec<_> = places.iter().map(|place| place[0].0.as_str()).collect();
    lazy.sort_unstable();
    assert_eq!(lazy, ["abort@plt", "malloc@plt", "memcpy@plt", "printf@plt", "strlen@plt"]);

    let path = compile(folder.path(), "ifunc.c", &["-O1"]);
    let (places, _) = look_up(&path, &[symbol(&path, "choose")], nowhere());
    assert_eq!(places[0][0].0, "chosen");
    let plt = support::section(&path, ".plt");
    let (places, _) = look_up(&path, &(plt.start..plt.end).collect::<Vec<_>>(), nowhere());
    assert!(places.iter().flatten().any(|place| place.0 == "chosen@plt"), "{places:?}");
}

#[test]
fn go_names_are_shown_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let source = "package main\n\n//go:noinline\nfunc cold(n int) []int { return make([]int, n) }\n\n\
                  func main() { println(len(cold(7))) }\n";
    fs::write(folder.path().join("main.go"), source).unwrap();
    let path = folder.path().join("program");
    let mut command = Command::new("go");
    run(command
        .current_dir(folder.path())
        .args(["build", "-o", "program", "main.go"])
        .env("CGO_ENABLED", "0")
        .env("GOCACHE", folder.path()));
    let (places, _) = look_up(&path, &[symbol(&path, "main.cold") + 8], nowhere());
    assert_eq!(places[0].last().unwrap().0, "main.cold");
    assert_eq!(places[0].last().unwrap().1, "main.go");
}

#[test]
fn frames_that_have_lines_keep_them_and_strange_ids_are_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = compile(folder.path(), "plain.c", C);
    let mut profile = profile(&path);
    let address = symbol(&path, "internal");
    let frame = add(&mut profile, address, true);
    let other = add(&mut profile, address, true);
    let outside = add(&mut profile, 1, true);
    let stray = add(&mut profile, address, true);
    profile.frames[stray.0 as usize].module = Some(ModuleId(77));
    for address in [0, u64::MAX, u64::MAX - 1, 1 << 63] {
        add(&mut profile, address, false);
        add(&mut profile, address, true);
    }
    let ids = [frame, mallow_profile::FrameId(u32::MAX), frame];
    let mut symbolizer = Symbolizer::new(nowhere());
    let summary = symbolizer.symbolize(&mut profile, &mut ids.into_iter());
    assert_eq!((summary.modules[0].frames, summary.modules[0].named), (1, 1));
    assert!(profile.frames[other.0 as usize].lines.is_empty());
    let mine = profile.strings.intern("mine");
    profile.frames[frame.0 as usize].lines[0].function = mine;
    let summary = symbolizer.symbolize_all(&mut profile);
    assert_eq!(names(&profile, frame), ["mine"]);
    assert_eq!(names(&profile, other), ["internal"]);
    assert!(names(&profile, outside).is_empty() && names(&profile, stray).is_empty());
    assert_eq!((summary.modules[0].named, summary.without_module), (2, 1));
    assert!(profile.strings.iter().all(|name| name != UNKNOWN));
}

#[test]
fn local_functions_of_swift_have_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = compile(folder.path(), "plain.c", &["-O2"]);
    let address = symbol(&path, "internal");
    tool("objcopy", &["--redefine-sym", "internal=$s3app8internalyyF"], &path);
    let (places, summary) = look_up(&path, &[address], nowhere());
    assert_eq!(places, [[Place("app.internal() -> ()".into(), String::new(), 0)]]);
    assert_eq!(summary.found, NameSource::SymbolTable);
}

/// Functions whose code the linker found to be the same have one address: which of them was called is not known.
#[test]
fn functions_of_one_code_are_all_named_and_aliases_are_not() {
    let folder = tempfile::tempdir().unwrap();
    for debug in [&["-O1", "-g"][..], &["-O1"]] {
        let path = compile(folder.path(), "folded.cpp", debug);
        let mut profile = profile(&path);
        let all = ["_Z4growIlEPvPT_m", "take", "_ZN6BufferC1Em", "main"];
        let frames = all.map(|name| add(&mut profile, symbol(&path, name) + 4, true));
        Symbolizer::new(nowhere()).symbolize_all(&mut profile);
        let names = |frame: mallow_profile::FrameId| {
            let frame = &profile.frames[frame.0 as usize];
            let folded = frame.folded.map_or("", |folded| profile.strings.get(folded));
            let shown = frame.lines.last().map_or("", |line| profile.strings.get(line.function));
            let mut all: Vec<String> = folded.lines().chain([shown]).map(str::to_owned).collect();
            all.sort();
            all
        };
        let one_code =
            ["Table::resize(unsigned long)", "grow<Row>(Row*, unsigned long)", "grow<long>(long*, unsigned long)"];
        assert_eq!(names(frames[0]), one_code, "{debug:?}");
        let others: Vec<_> = frames[1..].iter().map(|&frame| names(frame).len()).collect();
        assert_eq!(others, [1, 1, 1], "{debug:?}");
    }
}
