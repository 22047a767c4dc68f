//! The library that programs load: no program says anything of it, whoever runs it and whatever it is.

use std::fs;
use std::path::Path;
use std::process::Command;

use harness::{Outcome, Run, directory, mallow, mount_namespace, not_run, number, open_directory, program, root};

/// `prepare`, then mallow with a command that gives up root's rights and executes others.
fn given_up(test: &str, prepare: &str) -> Option<(Outcome, serde_json::Value)> {
    if !root() {
        not_run(test, "it needs root");
        return None;
    }
    let unshare = mount_namespace(test)?;
    let place = open_directory();
    let script = format!("{prepare} && exec \"$@\"");
    let run = Run::new(unshare[0], place.path())
        .args(&unshare[1..])
        .args(["sh", "-c", &script, "sh"])
        .arg(mallow())
        .args(["stat", "--json", "--per-process", "-o", "out", "--", "setpriv", "--reuid", "65534", "--clear-groups"])
        .args(["sh", "-c", "ls -d /; id -u; exit 3"])
        .env("XDG_CACHE_HOME", None::<&str>)
        .env("HOME", Some("/root"))
        .go();
    let json = fs::read(place.path().join("out")).map(harness::document).unwrap_or_default();
    Some((run, json))
}

/// The first run of root makes the library's directory, under any umask: others can read it all the same.
#[test]
fn the_library_can_be_read_by_whoever_loads_it() {
    const TEST: &str = "the_library_can_be_read_by_whoever_loads_it";
    for prepare in [
        // A cache that is new, a cache that an earlier run has closed, none that can be written to, and none.
        "mount -t tmpfs none /var/cache && umask 077",
        "mount -t tmpfs none /var/cache && mkdir -m 700 /var/cache/mallow && umask 077",
        "mount -t tmpfs -o ro none /var/cache",
        "mount -t tmpfs -o ro none /var && umask 077",
    ] {
        let Some((run, json)) = given_up(TEST, prepare) else { return };
        assert_eq!((run.status, run.out().as_str()), (3, "/\n65534\n"), "{prepare}: {}", run.err());
        assert!(!run.err().contains("ld.so"), "{prepare}: {}", run.err());
        assert!(number(&json, "allocations") > 0, "what it did as root is seen: {prepare}: {json:#}");
    }
}

/// An ELF file for i386 that ends with a status. Where there is no linker for it, None.
fn program_of_32_bits(place: &Path) -> Option<std::path::PathBuf> {
    const LINKER: &str = "/lib/ld-linux.so.2";
    let source = "        .globl _start\n_start: mov $1, %eax\n        mov $7, %ebx\n        int $0x80\n";
    fs::write(place.join("a.s"), source).expect("a file");
    let made = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).current_dir(place).status().is_ok_and(|status| status.success())
    };
    let there = Path::new(LINKER).exists()
        && made("as", &["--32", "a.s", "-o", "a.o"])
        && made("ld", &["-m", "elf_i386", "-pie", "-dynamic-linker", LINKER, "a.o", "-o", "short"])
        && Command::new(place.join("short")).status().is_ok_and(|status| status.code() == Some(7));
    there.then(|| place.join("short"))
}

/// Programs of 32 bits load nothing of Mallow's, and say nothing of it; what they start is seen.
#[test]
fn programs_of_32_bits_are_left_alone() {
    let place = directory();
    let Some(short) = program_of_32_bits(place.path()) else {
        return not_run("programs_of_32_bits_are_left_alone", "it needs 32-bit programs: libc6-i386");
    };
    let script = format!("{0}; {0}; {1} 1 100; {0}", short.display(), program("busy").display());
    for way in ["stat", "record"] {
        let run = Run::new(mallow(), place.path()).args([way, "-o", "out", "--", "sh", "-c", &script]).go();
        assert_eq!(run.status, 7, "{way}: {}", run.err());
        assert!(!run.err().contains("ld.so"), "{way}: {}", run.err());
        assert!(run.out().starts_with("1 threads: "), "{way}: {}", run.out());
    }
    let run = Run::new(mallow(), place.path()).args(["stat", "--"]).arg(&short).go();
    assert_eq!(run.status, 7, "{}", run.err());
    assert!(run.err().contains("32-bit program") && !run.err().contains("ld.so"), "{}", run.err());
}

/// Dynamic linkers that do not know glibc's word for the processor take the path as it is.
#[test]
fn the_path_is_a_file_as_it_stands() {
    let place = directory();
    let run =
        Run::new(mallow(), place.path()).args(["stat", "--json", "-o", "out", "--", "printenv", "LD_PRELOAD"]).go();
    let path = run.out().trim().split(':').next().expect("a path").to_owned();
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(bytes[4], 2, "the library of 64 bits");
}
