//! Attaching to programs that nobody here wrote, with runtimes and stacks of their own.

use std::fs;
use std::process::Command;

use harness::{directory, tool};

use super::attach_harness::{Target, attached};

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
    assert!(
        seen.err().contains("stacks of Go's own") && seen.err().contains("start it under mallow"),
        "{}",
        seen.err()
    );
    let doctor = attached(&["doctor"], target.pid(), place.path());
    assert_eq!(doctor.status, 3, "{}", doctor.out());
    assert!(doctor.out().contains("is written in Go"), "{}", doctor.out());
    assert_eq!(target.ask(), "alive");
}
