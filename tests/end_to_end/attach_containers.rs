//! `-p` from outside of a container: a process with another mount namespace, root directory or user is attached to as
//! any other.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use harness::{Run, directory, mallow, mount_namespace, not_run, program, root, tool_if_there};

use crate::attach_harness::{Target, attached, attaching, counted, finished, interrupt, numbers};
use crate::watch_harness::{Alive, quiet, site, until, wait_for};

/// Commands that start `attached calls` where no path leads to the run directory, each with what is special about it.
fn shapes(test: &str, place: &Path) -> Vec<(&'static str, Vec<String>)> {
    let attached = program("attached").display().to_string();
    let mut shapes: Vec<(&str, Vec<String>)> = Vec::new();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
    if let Some(unshare) = mount_namespace(test) {
        let script =
            |setup: &str| words(&[unshare, &["sh", "-c", &format!("{setup} && exec {attached} calls")]].concat());
        shapes.push(("a /dev/shm of its own", script("mount -t tmpfs none /dev/shm")));
        shapes.push((
            "a read-only /dev/shm",
            script("mount --bind /dev/shm /dev/shm && mount -o remount,ro,bind /dev/shm"),
        ));
        // As a daemon's jail: neither /proc nor /dev, and the C library under another path than here.
        let jail = place.join("jail");
        let system = ["usr", "bin", "lib", "lib64"].map(|d| format!("jail/{d}")).join(" ");
        fs::create_dir_all(jail.join("tmp")).expect("a directory");
        fs::copy(program("attached"), jail.join("attached")).expect("a copy");
        let setup = format!(
            "cd {} && mkdir -p {system} && for d in usr bin lib lib64; do mount --bind /$d jail/$d; done && \
             exec chroot jail /attached calls",
            place.display()
        );
        shapes.push(("a chroot without /proc", words(&[unshare, &["sh", "-c", &setup]].concat())));
    }
    let bwrap = |options: &[&str]| words(&[&["bwrap", "--die-with-parent"], options, &[&attached, "calls"]].concat());
    if Run::new("bwrap", place).args(["--dev-bind", "/", "/", "true"]).go().status == 0 {
        let all = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all"];
        shapes.push(("a container", bwrap(&all)));
        shapes.push(("a container of another user", bwrap(&[&all[..], &["--uid", "1234", "--gid", "1234"]].concat())));
        shapes.push((
            "a read-only root without /proc and /dev/shm",
            bwrap(&["--ro-bind", "/", "/", "--tmpfs", "/dev", "--tmpfs", "/proc"]),
        ));
    } else {
        not_run(test, "bwrap may not make namespaces here: without it");
    }
    match tool_if_there("setpriv").filter(|_| root()) {
        Some(setpriv) => {
            let user = ["--reuid=65534", "--regid=65534", "--clear-groups", &attached, "calls"];
            shapes.push(("another user", words(&[&[setpriv.to_str().expect("a path")], &user[..]].concat())));
        }
        None => not_run(test, "another user needs root and setpriv"),
    }
    shapes
}

/// Counted and recorded exactly, with names; afterwards nothing of it is left.
#[test]
fn processes_in_containers_are_attached_to() {
    let place = directory();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    for (what, command) in shapes("processes_in_containers_are_attached_to", place.path()) {
        for mode in [&["stat", "--json", "-o", "counts.json"][..], &["record", "-o", "x.mallow"]] {
            let mut target = Target::ready(Command::new(&command[0]).args(&command[1..]));
            target.enter("attached");
            let (text, condition) = (target.text(), target.condition());
            let mallow = attaching(mode, target.pid(), place.path());
            let [allocations, frees, foreign] = numbers(&target.ask());
            interrupt(&mallow);
            let said = finished(mallow);
            let counted = counted(mode, place.path());
            assert_eq!(counted["allocations"], allocations, "{what}: {counted:#} {said}");
            let foreign = if mode[0] == "stat" { foreign } else { 0 };
            assert_eq!(counted["frees"], frees + foreign, "{what}: {counted:#}");
            assert!(target.text() == text, "{what}: the code is as it was");
            assert_eq!(target.condition(), condition, "{what}");
            if mode[0] == "record" {
                // The container is gone: the recording has its names.
                drop(target);
                let top = ["top", "--by", "allocations", "x.mallow"];
                let top = Run::new(harness::mallow(), place.path()).args(top).go().out();
                assert!(top.contains("calls attached.c") && !top.contains("libmallow"), "{what}: {top}");
            }
        }
    }
}

/// Sampled, and joined anew.
#[test]
fn a_process_in_a_container_is_watched() {
    const TEST: &str = "a_process_in_a_container_is_watched";
    let Some(unshare) = mount_namespace(TEST) else { return };
    let place = directory();
    let server = program("server");
    let script = format!("mount -t tmpfs none /dev/shm && exec {} leak", server.display());
    let target = Target::start(Command::new(unshare[0]).args(&unshare[1..]).args(["sh", "-c", &script]));
    let name = || fs::read_to_string(format!("/proc/{}/comm", target.pid())).expect("its name");
    until("the server", || (name().trim_end() == "server" && target.field("SigCgt:").ends_with("4200")).then_some(()));
    let (text, descriptors) = (target.text(), target.descriptors());
    for round in 0..2 {
        let file = place.path().join(format!("reports{round}"));
        let mut command = Command::new(mallow());
        command.args(["watch", "-p", &target.pid().to_string(), "--json", "--older-than", "0"]);
        command.args(["--period", "16KiB", "--every", "1s", "-o"]).arg(&file);
        let mut watch = Alive::start(quiet(&mut command));
        wait_for(&file, "the leak", |report| site(report, "keep_request").is_some());
        watch.signal("TERM");
        assert_eq!(watch.end(), 0);
        assert!(target.text() == text, "the code is as it was");
        assert_eq!(target.descriptors(), descriptors);
    }
}

/// A daemon closes the descriptors that it does not know: then a forked child is out of sight, and no file of it lies
/// anywhere else.
#[test]
fn a_descriptor_that_the_program_closes_harms_nobody() {
    const TEST: &str = "a_descriptor_that_the_program_closes_harms_nobody";
    let Some(unshare) = mount_namespace(TEST) else { return };
    let place = directory();
    let script = format!(
        "import os, time\nprint('ready', flush=True)\ninput()\nos.closerange(3, 2000)\nfor i in range(3, 1100): os.dup2(os.open('{0}', os.O_RDONLY), i)\nif os.fork() == 0:\n    l = [bytes(700) for j in range(100)]\n    time.sleep(1000)\nprint('forked', flush=True)\ntime.sleep(1000)\n",
        place.path().display()
    );
    let setup = "mount -t tmpfs none /dev/shm && exec \"$@\"";
    let command = [unshare, &["sh", "-c", setup, "sh", "python3", "-c", &script]].concat();
    let mut python = Target::ready(Command::new(command[0]).args(&command[1..]));
    let out = directory();
    let mallow = attaching(&["stat"], python.pid(), out.path());
    assert_eq!(python.ask(), "forked");
    interrupt(&mallow);
    finished(mallow);
    assert_eq!(fs::read_dir(place.path()).expect("the directory").count(), 0, "no file of mallow's is there");
    let again = attached(&["stat", "--for", "0ms"], python.pid(), out.path());
    assert_eq!(again.status, 0, "{}", again.err());
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", python.pid())).expect("its children");
    // SAFETY: a system call without pointers.
    unsafe { libc::kill(children.trim().parse().expect("a child"), libc::SIGKILL) };
}

/// Where neither `/proc` nor a directory that can be written to is there, that is said, and nothing is changed.
#[test]
fn a_process_without_a_place_for_the_library_is_refused() {
    const TEST: &str = "a_process_without_a_place_for_the_library_is_refused";
    let place = directory();
    if Run::new("bwrap", place.path()).args(["--dev-bind", "/", "/", "true"]).go().status != 0 {
        return not_run(TEST, "bwrap may not make namespaces here");
    }
    let (program, out) = (program("attached"), directory());
    let mut command = Command::new("bwrap");
    command.args(["--die-with-parent", "--ro-bind", "/", "/", "--tmpfs", "/proc", "--remount-ro", "/proc"]);
    let mut target = Target::ready(command.arg(program).arg("calls"));
    target.enter("attached");
    let (text, condition) = (target.text(), target.condition());
    let refused = attached(&["stat"], target.pid(), out.path());
    assert_eq!(refused.status, 125, "{}", refused.err());
    assert!(refused.err().contains("mount /proc in its root directory"), "{}", refused.err());
    assert!(target.text() == text && target.condition() == condition, "it is as it was");
}
