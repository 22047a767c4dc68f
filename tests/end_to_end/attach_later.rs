//! Libraries that a process loads while mallow is attached to it, with an allocator inside, and without.

use std::fs;
use std::process::Command;

use harness::{directory, library, mallow, program};

use crate::attach_harness::{Target, attached, attaching, counted, ended, finished, interrupt, numbers};
use crate::watch_harness::until;

/// Its thread-local storage is of the kind that a library gets at the start of a program, unless there is room left.
fn loading(inside: &std::path::Path) -> Command {
    let mut command = Command::new(program("loads_later"));
    command.env("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=16384").arg(inside).arg("flat");
    command
}

/// Whether the library's code is not its file's: a patch is there.
fn is_patched(target: &Target, library: &std::path::Path) -> bool {
    use std::os::unix::fs::FileExt;
    let maps = fs::read_to_string(format!("/proc/{}/maps", target.pid())).expect("its mappings");
    let path = library.to_str().expect("a path");
    let Some(line) = maps.lines().find(|line| line.contains("r-xp") && line.ends_with(path)) else { return false };
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (start, end) = fields[0].split_once('-').expect("a range");
    let number = |text| u64::from_str_radix(text, 16).expect("a number");
    let (start, end, offset) = (number(start), number(end), number(fields[2]));
    let file = fs::read(library).expect("the library");
    let length = ((end - start) as usize).min(file.len() - offset as usize);
    let mut bytes = vec![0; length];
    let memory = fs::File::open(format!("/proc/{}/mem", target.pid())).expect("its memory");
    memory.read_exact_at(&mut bytes, start).expect("its code");
    bytes != file[offset as usize..offset as usize + length]
}

/// A jemalloc that comes by dlopen is patched when it comes; loaded, used and unloaded twice.
#[test]
fn an_allocator_that_is_loaded_later_is_patched_when_it_comes() {
    let pic = ["-shared", "-fPIC", "-l:libjemalloc_pic.a", "-lm", "-Wl,--exclude-libs,ALL", "-DINSIDE"];
    let built = library("library_inside", "library-inside", &pic);
    // In memory, so that the kernel aligns it to pages alone, and loads it again where it was.
    let memory = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let inside = memory.path().join("library-inside.so");
    fs::copy(built, &inside).expect("a copy");
    for mode in [&["stat", "--json", "-o", "counts.json"][..], &["record", "--no-report", "-o", "x.mallow"]] {
        let place = directory();
        let mut target = Target::ready(&mut loading(&inside));
        let (text, condition) = (target.text(), target.condition());
        let mallow = attaching(mode, target.pid(), place.path());
        let mut truth = 0;
        for _ in 0..2 {
            assert_eq!(target.ask(), "loaded");
            until("its patches", || is_patched(&target, &inside).then_some(()));
            let [allocations, frees] = numbers(&target.ask());
            assert_eq!(allocations, frees);
            truth += allocations;
            assert_eq!(target.ask(), "unloaded");
        }
        // Loaded once more, so that there is something to restore.
        assert_eq!(target.ask(), "loaded");
        until("its patches", || is_patched(&target, &inside).then_some(()));
        interrupt(&mallow);
        let said = finished(mallow);
        assert!(!is_patched(&target, &inside), "its code is as it was");
        let counted = counted(mode, place.path());
        let seen = counted["allocations"].as_u64().expect("a number");
        // The dynamic linker allocates for each library; so does jemalloc's own start.
        assert!((truth..truth + 60).contains(&seen), "{truth}: {counted:#} {said}");
        assert_eq!(counted["allocators_inside"][0]["allocator"], "jemalloc", "{counted:#}");
        assert_eq!(numbers(&target.ask()), [600, 600]);
        assert_eq!(target.ask(), "unloaded");
        assert!(target.text() == text && target.condition() == condition, "it is as it was");
    }
}

/// A plugin with a scope of its own calls the C library's functions past all that could be interposed.
#[test]
fn a_plugin_with_deep_binding_is_seen() {
    let place = directory();
    let plain = library("library_inside", "library-plain", &["-shared", "-fPIC", "-DINSIDE"]);
    let mut target = Target::ready(Command::new(program("loads_later")).arg(&plain).arg("deep"));
    let text = target.text();
    let mallow = attaching(&["stat", "--json", "-o", "counts.json"], target.pid(), place.path());
    assert_eq!(target.ask(), "loaded");
    let [truth, _] = numbers(&target.ask());
    assert_eq!(target.ask(), "unloaded");
    interrupt(&mallow);
    finished(mallow);
    let counted = harness::document(fs::read(place.path().join("counts.json")).expect("counts"));
    let seen = counted["allocations"].as_u64().expect("a number");
    assert!((truth..truth + 30).contains(&seen), "{truth}: {counted:#}");
    assert!(target.text() == text, "the code is as it was");
}

/// What a killed mallow patched in a library that came later is found and restored by the next one.
#[test]
fn the_patches_of_a_killed_mallow_in_a_later_library_are_restored() {
    let pic = ["-shared", "-fPIC", "-l:libjemalloc_pic.a", "-lm", "-Wl,--exclude-libs,ALL", "-DINSIDE"];
    let inside = library("library_inside", "library-inside", &pic);
    let place = directory();
    let mut target = Target::ready(&mut loading(&inside));
    let text = target.text();
    let mut killed = Command::new(mallow());
    killed.args(["stat", "-p", &target.pid().to_string()]).current_dir(place.path());
    let mut killed = killed.stderr(std::process::Stdio::null()).spawn().expect("mallow");
    until("its patches", || (target.text() != text).then_some(()));
    assert_eq!(target.ask(), "loaded");
    until("its patches", || is_patched(&target, &inside).then_some(()));
    killed.kill().expect("it can be killed");
    killed.wait().expect("its end");
    let next = attached(&["stat", "--for", "0ms"], target.pid(), place.path());
    assert_eq!(next.status, 0, "{}", next.err());
    assert!(!is_patched(&target, &inside), "its code is as it was");
    assert_eq!(numbers(&target.ask()), [600, 600]);
    assert_eq!(target.ask(), "unloaded");
    assert!(target.text() == text, "the code is as it was");
}

/// A debugger keeps mallow from stopping the process: mallow reports that once, and patches the library when the
/// debugger is gone.
#[test]
fn a_later_library_that_cannot_be_patched_is_reported_once() {
    let pic = ["-shared", "-fPIC", "-l:libjemalloc_pic.a", "-lm", "-Wl,--exclude-libs,ALL", "-DINSIDE"];
    let inside = library("library_inside", "library-inside", &pic);
    for mode in [&["stat"][..], &["watch", "--every", "1h"]] {
        let place = directory();
        let mut target = Target::ready(&mut loading(&inside));
        let text = target.text();
        let errors = place.path().join("errors");
        let mut command = Command::new(mallow());
        command.args(mode).args(["-p", &target.pid().to_string()]).stdout(std::process::Stdio::null());
        let mallow = command.stderr(fs::File::create(&errors).expect("a file")).spawn().expect("mallow");
        until("its patches", || (target.text() != text).then_some(()));
        // Mallow may hold the process still for another moment.
        // SAFETY: a system call without pointers; this thread lives until the end of the test.
        let seize = || unsafe { libc::ptrace(libc::PTRACE_SEIZE as _, target.pid() as i32, 0, 0) };
        until("a tracer", || (seize() == 0).then_some(()));
        assert_eq!(target.ask(), "loaded");
        let said = || fs::read_to_string(&errors).expect("what mallow said");
        let sentence = "allocators in libraries that the process loads now are not included";
        until("the report", || said().contains(sentence).then_some(()));
        assert!(said().contains("is already traced") && !is_patched(&target, &inside), "{}", said());
        // A tracee is let go where it has stopped.
        // SAFETY: as above; the process is this test's.
        unsafe {
            assert_eq!(libc::ptrace(libc::PTRACE_INTERRUPT as _, target.pid() as i32, 0, 0), 0);
            assert_eq!(libc::waitpid(target.pid() as i32, std::ptr::null_mut(), libc::__WALL), target.pid() as i32);
            assert_eq!(libc::ptrace(libc::PTRACE_DETACH as _, target.pid() as i32, 0, 0), 0);
        }
        until("its patches", || is_patched(&target, &inside).then_some(()));
        assert_eq!(numbers(&target.ask()), [600, 600]);
        assert_eq!(target.ask(), "unloaded");
        interrupt(&mallow);
        ended(mallow);
        assert_eq!(said().matches(sentence).count(), 1, "{}", said());
        assert!(target.text() == text, "its code is as it was");
    }
}
