//! Children of a process that mallow attached to, forked and executed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use harness::{directory, mallow, program};

use crate::attach_harness::{Target, attaching, code, finished, interrupt};
use crate::watch_harness::{Alive, control_page, quiet, until};

/// Files that process `pid` writes for this mallow: numbers of processes come again, and other mallows have their own.
pub fn files_of(pid: u32, mallow: u32) -> Vec<PathBuf> {
    let control = control_page(mallow);
    let files = fs::read_dir(control.parent().expect("a run directory")).expect("the run directory").flatten();
    let own = format!("p-{pid}-");
    files.filter(|file| file.file_name().to_string_lossy().starts_with(&own)).map(|file| file.path()).collect()
}

/// A sampled child makes its file at its first allocation, however small that is; a recorded and a counted one do so,
/// too.
#[test]
fn a_forked_child_makes_its_file_at_its_first_allocation() {
    for mode in ["watch", "record", "stat"] {
        let place = directory();
        let mut target = Target::ready(&mut Command::new(program("forks_later")));
        let (text, clean) = (target.text(), code(target.pid()));
        let mut watch = None;
        let mut other = None;
        match mode {
            "watch" => {
                let mut command = Command::new(mallow());
                command.args(["watch", "-p", &target.pid().to_string(), "-o"]).arg(place.path().join("reports"));
                watch = Some(Alive::start(quiet(&mut command)));
                until("its patches", || (target.text() != text).then_some(()));
            }
            "record" => other = Some(attaching(&["record", "-o", "x.mallow"], target.pid(), place.path())),
            _ => other = Some(attaching(&["stat"], target.pid(), place.path())),
        }
        let mallow = watch.iter().map(|watch| watch.child.id()).chain(other.iter().map(|other| other.id())).next();
        let mallow = mallow.expect("one of them");
        let forked = target.ask();
        let child: u32 = forked.strip_prefix("forked ").expect("a child").parse().expect("a pid");
        assert_eq!(files_of(child, mallow), [] as [PathBuf; 0], "{mode}: it has not allocated");
        assert_eq!(target.ask(), "allocated");
        assert_eq!(files_of(child, mallow).len(), 1, "{mode}: it has allocated");
        if let Some(mut watch) = watch {
            watch.signal("TERM");
            assert_eq!(watch.end(), 0);
        }
        if let Some(other) = other {
            interrupt(&other);
            finished(other);
        }
        assert!(code(child) == clean && target.text() == text, "{mode}: their code is as it was");
    }
}

/// One that has not come to an allocation has the patches of its parent, too.
#[test]
fn a_forked_child_that_has_not_allocated_is_left_as_it_was() {
    let place = directory();
    let mut target = Target::ready(&mut Command::new(program("forks_later")));
    let clean = code(target.pid());
    let mallow = attaching(&["stat"], target.pid(), place.path());
    let forked = target.ask();
    let child: u32 = forked.strip_prefix("forked ").expect("a child").parse().expect("a pid");
    assert!(code(child) != clean, "it has the patches");
    interrupt(&mallow);
    finished(mallow);
    assert!(code(child) == clean, "its code is as it was");
    let maps = fs::read_to_string(format!("/proc/{child}/maps")).expect("its mappings");
    assert!(!maps.contains("/control"), "it has left the run");
    assert_eq!(target.ask(), "allocated");
}

/// Programs that it executes, and what it becomes itself, are named.
#[test]
fn what_is_executed_is_named() {
    for mode in [&["stat"][..], &["record", "--no-report", "-o", "x.mallow"]] {
        let place = directory();
        let mut target = Target::ready(Command::new(program("forks_later")).args(["exec", "sleep", "1000"]));
        let mallow = attaching(mode, target.pid(), place.path());
        let forked = target.ask();
        let child = forked.strip_prefix("forked ").expect("a child").to_owned();
        let name = || fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
        let maps = || fs::read_to_string(format!("/proc/{child}/maps")).unwrap_or_default();
        // Its name comes before its mappings.
        until("the program", || (name() == "sleep\n" && maps().contains("/libc.so")).then_some(()));
        interrupt(&mallow);
        let said = finished(mallow);
        assert!(
            said.contains("programs that the process executed are not included: ") && said.contains("sleep"),
            "{said}"
        );
        // SAFETY: a system call without pointers.
        unsafe { libc::kill(child.parse().expect("a pid"), libc::SIGKILL) };
    }
    let place = directory();
    let mut target = Target::ready(Command::new(program("forks_later")).args(["become", "sleep", "1000"]));
    let mallow = attaching(&["stat"], target.pid(), place.path());
    use std::io::Write;
    target.child.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("it reads");
    until("the program", || target.field("Name:").ends_with("sleep").then_some(()));
    interrupt(&mallow);
    let said = finished(mallow);
    assert!(said.contains(&format!("process {} became ", target.pid())) && said.contains("by exec"), "{said}");
}
