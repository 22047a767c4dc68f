//! Attaching to programs that nobody here wrote, with runtimes and stacks of their own.

use std::fs;
use std::process::Command;

use harness::{Run, directory, mallow, program, tool};

use super::attach_harness::{Target, attached, attaching, ended, interrupt};

/// Attaches with each of these in turn; the program goes on, and its code is as it was.
fn attach_to(mut target: Target, modes: &[&[&str]]) {
    let place = directory();
    let text = target.text();
    for mode in modes {
        let seen = attached(&[mode, &["--for", "500ms"][..]].concat(), target.pid(), place.path());
        assert_eq!(seen.status, 0, "{}", seen.err());
        assert_eq!(target.ask(), "alive");
        assert!(mode[0] == "record" || seen.err().contains("  malloc "), "{}", seen.err());
    }
    let now = target.text();
    for (path, bytes) in &text {
        let is_there = now.iter().any(|(other, code)| other == path && code == bytes);
        assert!(is_there, "the code of {path} is not what it was");
    }
}

/// Frames of Java have no unwind information, and hide what is beyond them.
#[test]
fn java_is_attached_to_again_and_again() {
    let place = directory();
    let source = "public class Loop { public static void main(String[] arguments) throws Exception {
        System.out.println(\"ready\");
        while (true) {
            java.nio.ByteBuffer.allocateDirect(5000);
            new java.util.zip.Deflater().end();
            if (System.in.available() > 0) { System.in.read(); System.out.println(\"alive\"); }
            Thread.sleep(1);
        } } }";
    fs::write(place.path().join("Loop.java"), source).expect("a source");
    let built = Command::new(tool("javac")).arg("Loop.java").current_dir(place.path()).status();
    assert!(built.expect("javac").success());
    let modes = [&["stat"][..], &["record", "--no-report", "-o", "x.mallow"], &["stat"], &["stat"]];
    attach_to(Target::ready(Command::new(tool("java")).arg("Loop").current_dir(place.path())), &modes);
}

#[test]
fn node_is_attached_to_again_and_again() {
    let script =
        "const zlib = require('zlib'); console.log('ready'); process.stdin.on('data', () => console.log('alive'));
        setInterval(() => zlib.deflateSync(Buffer.alloc(5000)), 2);";
    let modes = [&["stat"][..], &["record", "--no-report", "-o", "x.mallow"], &["stat"]];
    attach_to(Target::ready(Command::new(tool("node")).args(["-e", script])), &modes);
}

/// The C library is there, and no thread has a stack that it could run on.
#[test]
fn a_go_program_with_cgo_is_named_as_what_it_is() {
    let place = directory();
    let source = "package main\n\n// #include <stdlib.h>\nimport \"C\"\nimport (\n\t\"bufio\"\n\t\"fmt\"\n\t\"os\"\n)\n
func main() {\n\tC.free(C.malloc(777))\n\tfmt.Println(\"ready\")\n\tfor in := bufio.NewScanner(os.Stdin); in.Scan(); {\n\t\tfmt.Println(\"alive\")\n\t}\n}\n";
    fs::write(place.path().join("main.go"), source).expect("a source");
    fs::write(place.path().join("go.mod"), "module loop\n\ngo 1.19\n").expect("a module");
    let mut build = Command::new(tool("go"));
    build.args(["build", "-o", "loop"]).current_dir(place.path()).env("CGO_ENABLED", "1").env("GOFLAGS", "-mod=mod");
    assert!(build.status().expect("go").success());
    let mut target = Target::ready(&mut Command::new(place.path().join("loop")));
    let seen = attached(&["stat", "--for", "500ms"], target.pid(), place.path());
    assert_eq!(seen.status, 125, "{}", seen.err());
    // Go's heap is not malloc's: under mallow, too, there is next to nothing to see of it.
    let expected = [
        "stacks of Go's own",
        "mallow go profile --live",
        "/debug/pprof/heap",
        "GOMEMLIMIT",
        "only what its C code allocates is seen if it is started under mallow",
    ];
    for words in expected {
        assert!(seen.err().contains(words), "no {words:?} in {}", seen.err());
    }
    let doctor = attached(&["doctor"], target.pid(), place.path());
    assert_eq!(doctor.status, 3, "{}", doctor.out());
    let answer = doctor.out();
    assert!(answer.contains("is written in Go") && answer.contains("only what its C code"), "{answer}");
    assert_eq!(target.ask(), "alive");
}

/// An upgrade replaces the program's file: the process has the old one still. Its name looks like a function's
/// arguments. Once it has ended, each function is an address of its own.
#[test]
fn a_program_whose_file_was_replaced_has_its_names_while_it_lives() {
    let place = directory();
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nvoid *volatile kept;\n\
        __attribute__((noinline)) static void hold(void) { kept = malloc(1000); }\n\
        __attribute__((noinline)) static void borrow(void) { kept = malloc(24); free(kept); }\n\
        int main(void) { puts(\"ready\"); fflush(stdout); for (;;) { hold(); borrow(); usleep(1000); } }\n";
    fs::write(place.path().join("server.c"), source).expect("a source");
    let program = place.path().join("server (v2) x");
    let mut build = Command::new(tool("cc"));
    build.args(["-O1", "-no-pie", "-Wl,--build-id", "server.c", "-o"]).arg(&program).current_dir(place.path());
    assert!(build.status().expect("cc").success());
    let mut target = Target::ready(&mut Command::new(&program));
    fs::copy("/bin/true", place.path().join("next")).expect("a copy");
    fs::rename(place.path().join("next"), &program).expect("it is replaced");
    let record = ["record", "--for", "500ms", "--no-report", "-o"];
    let seen = attached(&[&record[..], &["run.mallow"]].concat(), target.pid(), place.path());
    assert_eq!(seen.status, 0, "{}", seen.err());
    let packed = attached(&[&record[..], &["packed.mallow", "--embed-symbols"]].concat(), target.pid(), place.path());
    assert_eq!(packed.status, 0, "{}", packed.err());
    let tree = |file: &str| {
        let seen = Run::new(mallow(), place.path()).args(["tree", "--limit", "0", file]).go();
        assert_eq!(seen.status, 0, "{}", seen.err());
        seen.out()
    };
    let named = |text: &str| ["hold", "borrow", "main"].iter().all(|name| text.contains(name));
    assert!(named(&tree("run.mallow")), "{}", tree("run.mallow"));
    target.child.kill().and_then(|()| target.child.wait()).expect("it ends");
    assert!(named(&tree("packed.mallow")), "{}", tree("packed.mallow"));
    let text = tree("run.mallow");
    let mut offsets: Vec<_> = text.split("server (v2) x+0x").skip(1).map(|rest| &rest[..6]).collect();
    offsets.sort_unstable();
    offsets.dedup();
    // Addresses of the file: it is not to be loaded elsewhere than at 0x400000.
    assert!(offsets.len() >= 3 && offsets.iter().all(|offset| offset.starts_with("401")), "{offsets:?} in {text}");
    assert!(!text.contains("deleted"), "{text}");
}

/// Code without unwind information is passed where its bytes are those of CPython's trampolines, and nowhere else.
#[test]
fn trampolines_of_python_are_passed_and_no_other_code() {
    for how in ["plain", "frame"] {
        let mut target = Target::ready(Command::new(program("trampoline")).arg(how));
        let (place, text) = (directory(), target.text());
        let file = place.path().join("recording.mallow");
        let mallow = attaching(&["record", "-o", file.to_str().expect("a path")], target.pid(), place.path());
        assert_eq!(target.ask(), "100");
        interrupt(&mallow);
        let ended = ended(mallow);
        assert!(ended.status.success(), "{how}: {}", String::from_utf8_lossy(&ended.stderr));
        assert!(target.text() == text, "{how}: its code is as it was");
        assert_eq!(target.ask(), "100", "{how}: it lives");
    }
    let mut target = Target::ready(Command::new(program("trampoline")).arg("other"));
    let place = directory();
    let seen = attached(&["stat", "--for", "0s", "--timeout", "300ms"], target.pid(), place.path());
    assert!(seen.status == 125 && seen.err().contains("belongs to no module"), "{}", seen.err());
    assert_eq!(target.ask(), "100", "it lives");
}
