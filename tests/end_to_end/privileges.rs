//! Programs with other rights than their caller's, and programs that give up theirs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use harness::{Case, directory, mount_namespace, not_run, program, root};
use tempfile::TempDir;

/// A directory that anybody may enter, with a set-user-id copy of the target in it.
fn set_user_id() -> (TempDir, PathBuf) {
    let dir = directory();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("opening the directory");
    let path = dir.path().join("set-user-id");
    fs::copy(program("privileges"), &path).expect("a copy of the target");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4755)).expect("its set-user-id bit");
    (dir, path)
}

fn skipped(test: &str) -> bool {
    if !root() {
        not_run(test, "it needs root");
    }
    !root()
}

/// The kernel lets nobody look into such a process. It runs as ever, and Mallow says why there is nothing to see.
#[test]
fn set_user_id_program() {
    if skipped("set_user_id_program") {
        return;
    }
    let (_dir, path) = set_user_id();
    let three = Case::new(&path).arg("show").with(["uid=65534"]).may_say("nothing was recorded").three_ways();
    assert_eq!(three.bare.out(), "secure 1 uid 65534 euid 0 gid 65534 egid 65534\n");
    assert_eq!(three.bare.status, 8);
}

/// Given to mallow itself, which then knows before it starts it.
#[test]
fn set_user_id_command_of_another_user() {
    if skipped("set_user_id_command_of_another_user") {
        return;
    }
    let (dir, path) = set_user_id();
    let work = dir.path().join("work");
    fs::create_dir(&work).expect("a directory");
    std::os::unix::fs::chown(&work, Some(65534), Some(65534)).expect("giving it away");
    let mallow = dir.path().join("mallow");
    fs::copy(harness::mallow(), &mallow).expect("a copy that anybody may run");
    for way in ["stat", "record"] {
        let run = harness::Run::new(program("with"), &work)
            .args(["uid=65534", "--"])
            .arg(&mallow)
            .args([way, "-o", "out", "--"])
            .arg(&path)
            .arg("show")
            .env("HOME", Some(&work))
            .env("XDG_CACHE_HOME", Some(&work))
            .go();
        assert_eq!(run.out(), "secure 1 uid 65534 euid 0 gid 65534 egid 65534\n", "{way}: {}", run.err());
        assert_eq!(run.status, 8, "{way}: {}", run.err());
        assert!(run.err().contains("mallow: ") && run.err().contains("(setuid)"), "{way}: {:?}", run.err());
    }
}

#[test]
fn rights_given_up() {
    if skipped("rights_given_up") {
        return;
    }
    // Its children cannot open the run directory of root any more, nor the library.
    let three = Case::new(program("privileges")).arg("drop").may_say("process").three_ways();
    assert_eq!(three.bare.status, 5);
}

#[test]
fn changed_root() {
    let Some(unshare) = mount_namespace("changed_root") else { return };
    let empty = directory();
    let target = program("privileges");
    let case = Case::new(&target).arg("chroot").arg(empty.path()).may_say("process");
    let case = if root() { case } else { case.all_by(unshare) };
    let three = case.three_ways();
    assert_eq!(three.bare.status, 5, "{}", three.bare.out());
    assert!(three.stat.counts().allocations > 15_000 && three.record.counts().allocations > 15_000);
}

#[test]
fn emptied_environment() {
    let three = Case::target("privileges").arg("environ").three_ways();
    assert_eq!(three.bare.status, 6);
    assert!(three.stat.counts().allocations > 15_000 && three.record.counts().allocations > 15_000);
}

#[test]
fn command_without_environment() {
    let case = Case::target("busy").args(["2", "20"]).with(["clearenv"]).may_say("nothing was recorded");
    case.three_ways();
}

fn seccomp(how: &str, status: i32) {
    let three = Case::target("seccomp").arg(how).three_ways();
    assert_eq!(three.bare.status, status, "{how}");
    assert!(three.stat.counts().allocations > 20_000 && three.record.counts().allocations > 20_000, "{how}");
}

#[test]
fn seccomp_that_kills() {
    seccomp("kill", 3);
}

#[test]
fn seccomp_that_refuses() {
    seccomp("refuse", 3);
}

#[test]
fn seccomp_with_threads() {
    seccomp("threads", 3);
}

#[test]
fn seccomp_strict_mode() {
    seccomp("strict", 4);
}
