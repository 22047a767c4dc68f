//! What stands in the way of attaching: one line that names it and says what to do, from the commands that attach and
//! from doctor.

use std::fs;
use std::io::{BufRead, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use harness::{Outcome, Run, directory, library, mallow, not_run, program, program_as, root, tool_if_there};

use crate::attach_harness::{Target, attaching, ended, ended_command, interrupt};
use crate::watch_harness::{Alive, quiet, until};

fn output(command: &mut Command) -> (Option<i32>, String) {
    let output = ended_command(command.stderr(Stdio::piped()));
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).expect("text"))
}

/// Both name it: stat in one line. `by` is what starts mallow.
pub fn is_refused(by: &[&str], mallow: &Path, pid: u32, why: &str, remedy: &str) {
    let place = directory();
    for (arguments, expected) in [(&["stat", "--for", "0ms"][..], Some(125)), (&["doctor"], Some(3))] {
        let mut words: Vec<&str> = by.to_vec();
        words.push(mallow.to_str().expect("a path"));
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(arguments).args(["-p", &pid.to_string()]);
        let (status, text) = output(command.current_dir(place.path()).env("COLUMNS", "1000"));
        assert_eq!(status, expected, "{arguments:?}: {text}");
        // Doctor wraps its lines.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(why) && words.contains(remedy), "{arguments:?}: {text}");
        if arguments[0] == "stat" {
            assert_eq!(text.lines().count(), 1, "{text}");
        }
    }
}

pub fn refused(pid: u32, why: &str, remedy: &str) {
    is_refused(&[], &mallow(), pid, why, remedy);
}

/// A copy that each user may execute.
pub fn mallow_for_all(place: &Path) -> PathBuf {
    fs::set_permissions(place, fs::Permissions::from_mode(0o755)).expect("its mode");
    let copy = place.join("mallow");
    fs::copy(mallow(), &copy).expect("a copy");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("its mode");
    copy
}

fn sleeping() -> Target {
    let sleep = Target::start(Command::new("sleep").arg("1000"));
    until("sleep", || sleep.field("Name:").ends_with("sleep").then_some(()));
    sleep
}

#[test]
fn what_a_process_does_is_named() {
    let ended = Target::start(&mut Command::new("true"));
    until("its end", || ended.field("State:").contains('Z').then_some(()));
    refused(ended.pid(), "has ended and waits for its parent (a zombie)", "");
    let stopped = sleeping();
    // SAFETY: system calls without pointers; this thread lives until the end of the test.
    assert_eq!(unsafe { libc::kill(stopped.pid() as i32, libc::SIGSTOP) }, 0);
    until("its stop", || stopped.field("State:").contains('T').then_some(()));
    let place = directory();
    let run = Run::new(mallow(), place.path()).args(["stat", "-p", &stopped.pid().to_string()]).go();
    let remedy = format!("is stopped; let it continue: kill -CONT {}", stopped.pid());
    assert!(run.status == 125 && run.err().contains(&remedy), "{}", run.err());
    // SAFETY: as above.
    assert_eq!(unsafe { libc::ptrace(libc::PTRACE_SEIZE as _, stopped.pid() as i32, 0, 0) }, 0);
    refused(stopped.pid(), &format!("is already traced, by {}", std::process::id()), "detach that debugger or tracer");
    if fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        refused(2, "2 is a thread of the kernel", "");
    }
}

#[test]
fn what_a_program_is_is_named() {
    let musl = program_as("allocator_inside", "allocator-inside-musl", "musl-gcc", &[]);
    let musl = Target::start(&mut Command::new(musl));
    until("musl", || fs::read_to_string(format!("/proc/{}/maps", musl.pid())).unwrap().contains("musl").then_some(()));
    refused(musl.pid(), "(musl): mallow attaches to programs with glibc alone", "build the program for glibc");
    let fixed = program_as("attached", "attached-static", "cc", &["-static"]);
    let fixed = Target::ready(Command::new(fixed).arg("calls"));
    refused(fixed.pid(), "statically linked", "");
    let place = directory();
    let (source, narrow) = (place.path().join("x.c"), place.path().join("narrow"));
    let code = "void _start(void) { for (;;) __asm__ volatile(\"int $0x80\" : : \"a\"(29)); }\n";
    fs::write(&source, code).expect("a source");
    let mut built = Command::new("cc");
    built.args(["-m32", "-static", "-nostdlib", "-fno-pic", "-o"]).args([&narrow, &source]);
    if built.output().expect("a compiler").status.success() {
        let narrow = Target::start(&mut Command::new(&narrow));
        until("its wait", || narrow.field("State:").contains('S').then_some(()));
        refused(narrow.pid(), "32-bit program", "build it without -m32");
    } else {
        not_run("what_a_program_is_is_named: 32-bit", "no such compiler here");
    }
}

/// A control group of its own, which is removed at the end.
struct Freezer {
    place: PathBuf,
    file: &'static str,
    words: [&'static str; 2],
}

impl Freezer {
    /// None: there is none here.
    fn make(test: &str) -> Option<Self> {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("mallow-test-{}-{number}", std::process::id());
        let kinds = [
            ("/sys/fs/cgroup/freezer", "freezer.state", ["FROZEN", "THAWED"]),
            ("/sys/fs/cgroup/unified", "cgroup.freeze", ["1", "0"]),
            ("/sys/fs/cgroup", "cgroup.freeze", ["1", "0"]),
        ];
        for (root, file, words) in kinds {
            let place = Path::new(root).join(&name);
            if fs::create_dir(&place).is_err() {
                continue;
            }
            if place.join(file).exists() {
                return Some(Self { place, file, words });
            }
            let _ = fs::remove_dir(&place);
        }
        not_run(test, "no control group can be made here");
        None
    }

    fn freeze(&self, pid: u32) {
        fs::write(self.place.join("cgroup.procs"), pid.to_string()).expect("its process");
        fs::write(self.place.join(self.file), self.words[0]).expect("it freezes");
    }

    fn thaw(&self) {
        fs::write(self.place.join(self.file), self.words[1]).expect("it thaws");
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let _ = fs::write(self.place.join(self.file), self.words[1]);
        let parent = self.place.parent().expect("a root");
        for pid in fs::read_to_string(self.place.join("cgroup.procs")).unwrap_or_default().split_whitespace() {
            let _ = fs::write(parent.join("cgroup.procs"), pid);
        }
        let _ = fs::remove_dir(&self.place);
    }
}

#[test]
fn a_frozen_process_is_named() {
    // It thaws before the process is waited for.
    let sleep = sleeping();
    let Some(freezer) = Freezer::make("a_frozen_process_is_named") else { return };
    freezer.freeze(sleep.pid());
    refused(sleep.pid(), "is frozen with its control group", "thaw it first: docker unpause");
    freezer.thaw();
}

/// What it does while mallow waits for a thread that it could use, which never comes.
#[test]
fn what_a_process_does_meanwhile_is_named() {
    let waiting = |how: &str, timeout: &str| {
        let target = Target::ready(Command::new(program("trampoline")).arg(how));
        let mut command = Command::new(mallow());
        command.args(["stat", "--timeout", timeout, "-p", &target.pid().to_string()]);
        let mut mallow = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("mallow");
        let mut seen = std::io::BufReader::new(mallow.stderr.take().expect("a pipe"));
        // It says so once it waits.
        let mut line = String::new();
        seen.read_line(&mut line).expect("a line");
        assert!(line.contains("no thread can load the library yet"), "{line}");
        (target, mallow, seen)
    };
    let ended = |mut mallow: std::process::Child, mut seen: std::io::BufReader<std::process::ChildStderr>| {
        let mut text = String::new();
        seen.read_to_string(&mut text).expect("its text");
        assert_eq!(mallow.wait().expect("its end").code(), Some(125), "{text}");
        text
    };
    let (mut target, mallow, seen) = waiting("other", "60s");
    target.child.kill().expect("it can be killed");
    let text = ended(mallow, seen);
    assert!(text.ends_with(&format!("process {} ended while mallow attached to it\n", target.pid())), "{text}");
    let (mut target, mallow, seen) = waiting("executes", "60s");
    target.child.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
    let text = ended(mallow, seen);
    assert!(text.contains(" became another program (") && text.contains("/sleep) while mallow"), "{text}");
    assert!(text.ends_with(&format!("attach again: -p {}\n", target.pid())), "{text}");
    let (target, mallow, seen) = waiting("other", "3s");
    // SAFETY: a system call without pointers.
    assert_eq!(unsafe { libc::kill(target.pid() as i32, libc::SIGSTOP) }, 0);
    let text = ended(mallow, seen);
    let remedy = format!("process {0} is stopped; let it continue: kill -CONT {0}\n", target.pid());
    assert!(text.ends_with(&remedy), "{text}");
    let doctor = doctor(target.pid());
    assert!(doctor.status == 3 && !doctor.out().contains("attach to it."), "{}", doctor.out());
    let (target, mallow, seen) = waiting("other", "3s");
    let Some(freezer) = Freezer::make("what_a_process_does_meanwhile_is_named: frozen") else { return };
    freezer.freeze(target.pid());
    let text = ended(mallow, seen);
    assert!(text.contains(&format!("process {} is frozen with its control group", target.pid())), "{text}");
    freezer.thaw();
}

/// The library needs room that glibc keeps, and another library may have taken it.
#[test]
fn a_process_without_room_for_thread_local_storage_is_named() {
    let hog = library("tls_hog", "tls-hog", &["-shared", "-fPIC"]);
    let mut target = Target::ready(Command::new(program("loads_later")).arg(hog).arg("flat"));
    assert_eq!(target.ask(), "loaded");
    let (text, condition) = (target.text(), target.condition());
    let place = directory();
    let pid = target.pid().to_string();
    let remedy = "GLIBC_TUNABLES=glibc.rtld.optional_static_tls=4096";
    let run = Run::new(mallow(), place.path()).args(["stat", "--for", "0ms", "-p", &pid]).go();
    assert!(run.status == 125 && run.err().contains("static TLS"), "{}", run.err());
    assert!(run.err().contains(remedy) && run.err().lines().count() == 1, "{}", run.err());
    let doctor = Run::new(mallow(), place.path()).args(["doctor", "-p", &pid]).go();
    assert!(doctor.out().contains("partly  static TLS") && doctor.out().contains(remedy), "{}", doctor.out());
    assert!(target.text() == text && target.condition() == condition, "it is as it was");
    target.ask();
}

/// Of other users, of other user namespaces, and without the capability.
#[test]
fn missing_rights_are_named() {
    let Some(setpriv) = tool_if_there("setpriv").filter(|_| root()) else {
        return not_run("missing_rights_are_named", "it needs root and setpriv");
    };
    let setpriv = setpriv.to_str().expect("a path");
    let place = directory();
    let copy = mallow_for_all(place.path());
    let sleep = sleeping();
    let nobody = [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups"];
    is_refused(&nobody, &copy, sleep.pid(), "belongs to another user (0)", "run mallow as that user or as root");
    let weak = [setpriv, "--bounding-set=-sys_ptrace"];
    is_refused(&weak, &copy, sleep.pid(), "the kernel does not let mallow trace the process", "CAP_SYS_PTRACE");
    let elsewhere = ["unshare", "--user", "--map-root-user"];
    if Run::new(elsewhere[0], place.path()).args(&elsewhere[1..]).args(["true"]).go().status == 0 {
        is_refused(&elsewhere, &copy, sleep.pid(), "in another user namespace", "outside of the container");
    } else {
        not_run("missing_rights_are_named: user namespaces", "the system has none");
    }
    // A program that may be executed but not read: its process keeps others from looking into it.
    let secret = place.path().join("secret");
    fs::copy("/bin/sleep", &secret).expect("a copy");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o4711)).expect("its mode");
    let mut raised = Command::new(nobody[0]);
    let raised = Target::start(raised.args(&nobody[1..]).arg(&secret).arg("1000").current_dir("/"));
    until("its program", || raised.field("Name:").ends_with("secret").then_some(()));
    is_refused(
        &nobody,
        &copy,
        raised.pid(),
        "with rights of its own (setuid, file capabilities)",
        "run mallow as root",
    );
}

pub fn doctor(pid: u32) -> Outcome {
    let place = directory();
    Run::new(mallow(), place.path()).args(["doctor", "-p", &pid.to_string()]).go()
}

/// The entries are mallow's own: no tool is unknown. What a killed one left stands in nobody's way.
#[test]
fn the_mallow_that_is_attached_is_named() {
    let target = Target::ready(Command::new(program("attached")).args(["storm", "1"]));
    let place = directory();
    let clean = target.text();
    let file = place.path().join("reports");
    let mut command = Command::new(mallow());
    command.args(["watch", "-p", &target.pid().to_string(), "--json", "-o"]).arg(&file);
    let mut watch = Alive::start(quiet(&mut command));
    until("its patches", || (target.text() != clean).then_some(()));
    let named = |pid: &str| {
        let found = doctor(target.pid());
        let text = found.out().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(found.status, 3, "{text}");
        assert!(text.contains(&format!("fails mallow process {pid} (mallow) is attached to it already")), "{text}");
        assert!(text.contains(&format!("kill -INT {pid}")) && !text.contains("another tool"), "{text}");
    };
    named(&watch.pid());
    watch.signal("TERM");
    assert_eq!(watch.end(), 0);
    let mut stat = attaching(&["stat"], target.pid(), place.path());
    named(&stat.id().to_string());
    stat.kill().expect("it can be killed");
    stat.wait().expect("its end");
    let left = doctor(target.pid());
    assert_eq!(left.status, 0, "{}", left.out());
    assert!(left.out().contains("a mallow that was killed has left its patches"), "{}", left.out());
    let stat = attaching_again(&target, place.path());
    interrupt(&stat);
    ended(stat);
    assert!(doctor(target.pid()).status == 0 && target.text() == clean, "the code is as it was");
}

/// Attaches to a process that has the patches of a killed mallow: there is no moment at which its code says that it is
/// done.
fn attaching_again(target: &Target, place: &Path) -> std::process::Child {
    let mut command = Command::new(mallow());
    command.args(["stat", "-p", &target.pid().to_string()]).current_dir(place);
    let stat = command.stderr(std::process::Stdio::null()).spawn().expect("mallow");
    let pid = stat.id().to_string();
    until("the next mallow", || doctor(target.pid()).out().contains(&format!("process {pid} (mallow)")).then_some(()));
    stat
}

/// It goes on: neither did it run for so long, nor has it ended.
#[test]
fn a_recording_without_an_allocation_is_of_a_process_that_goes_on() {
    let (place, sleep) = (directory(), sleeping());
    let pid = sleep.pid().to_string();
    let run = Run::new(mallow(), place.path()).args(["record", "--for", "300ms", "-o", "r.mallow", "-p", &pid]).go();
    let shown = run.out() + &run.err();
    assert!(run.status == 0 && shown.contains("recorded for ") && shown.contains(", attaching included"), "{shown}");
    assert!(!shown.contains("ran ") && !shown.contains("ending unknown"), "{shown}");
}

/// Calls within an allocator are none of the program's, and there is room for the code of two.
#[test]
fn an_allocator_in_three_modules_is_named() {
    let part = |number: u32| {
        let flags = [&format!("-DPART={number}"), "-shared", "-fPIC"];
        library("spread_allocator", &format!("spread-allocator-{number}"), &flags)
    };
    let parts = [1, 2].map(|number| part(number).display().to_string()).join(" ");
    let mut target = Target::ready(Command::new(program("attached")).arg("calls").env("LD_PRELOAD", parts));
    let text = target.text();
    let place = directory();
    let pid = target.pid().to_string();
    let mut command = Command::new(mallow());
    let (status, said) = output(command.args(["stat", "--for", "0ms", "-p", &pid]).current_dir(place.path()));
    assert_eq!(status, Some(125), "{said}");
    assert!(
        said.contains("its memory functions are of 3 modules") && said.contains("mallow record -- COMMAND"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    target.ask();
    assert!(target.text() == text, "the code is as it was");
}
