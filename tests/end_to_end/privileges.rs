//! Programs with other rights than their caller's, and programs that give up theirs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use harness::{Case, directory, gcc, mount_namespace, not_run, open_directory, program, root};
use tempfile::TempDir;

/// A directory that anybody may enter, with a set-user-id copy of the target in it.
fn set_user_id() -> (TempDir, PathBuf) {
    let dir = open_directory();
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

/// As web servers do, which load modules for their workers: the tables of these lie in root's run directory.
#[test]
fn libraries_loaded_by_another_user_have_callers() {
    const TEST: &str = "libraries_loaded_by_another_user_have_callers";
    if skipped(TEST) {
        return;
    }
    let dir = open_directory();
    let at = dir.path();
    fs::write(
        at.join("plugin.c"),
        "#include <stdlib.h>\nvoid *volatile made;\nint work(int n) { made = malloc(n); return n; }\n",
    )
    .expect("a source");
    fs::write(
        at.join("main.c"),
        "#include <dlfcn.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
         int served(int (*work)(int)) { return work(777) + 1; }\n\
         int main(int count, char **a) { free(malloc(9));\n\
         if (count > 2 && (chroot(a[2]) || chdir(\"/\"))) return 7;\n\
         if (setgid(65534) || setuid(65534)) return 8;\n\
         void *plugin = dlopen(a[1], RTLD_NOW); int (*work)(int) = plugin ? dlsym(plugin, \"work\") : NULL;\n\
         return work == NULL || served(work) != 778; }\n",
    )
    .expect("a source");
    // No frame pointers: without a table the caller is not found.
    gcc(at, &["-O1", "-g", "-shared", "-fPIC", "-fomit-frame-pointer", "-o", "plugin.so", "plugin.c"]);
    gcc(at, &["-O1", "-g", "-fno-inline", "-fno-builtin", "-o", "main", "main.c"]);
    let program = at.join("main");
    let plugin = at.join("plugin.so");
    for (root, plugin) in [(None, plugin.to_str().expect("a path")), (Some(at), "/plugin.so")] {
        let run = harness::Run::new(harness::mallow(), at).args(["record", "--no-report", "-o", "r.mallow", "--"]);
        let run = run.arg(&program).arg(plugin);
        let run = root.into_iter().fold(run, |run, root| run.arg(root)).go();
        assert_eq!(run.status, 0, "{}", run.err());
        let shown = harness::Run::new(harness::mallow(), at).args(["report", "--all", "r.mallow"]).go().out();
        let first = shown.lines().next().unwrap_or_default();
        assert_eq!(shown.contains("Incomplete: the unwind tables of 1 module"), root.is_some(), "{first}");
        assert_eq!(shown.contains("work plugin.c:3 ← served"), root.is_none(), "{shown}");
    }
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

/// They have the library, and no right to the run directory. What the one that executes them may do is no matter:
/// `setpriv` has all capabilities of root until then.
#[test]
fn children_of_another_user_are_named() {
    const TEST: &str = "children_of_another_user_are_named";
    if skipped(TEST) {
        return;
    }
    let dir = open_directory();
    let busy = dir.path().join("busy");
    fs::copy(program("busy"), &busy).expect("a copy of the target");
    let busy = busy.to_str().expect("a plain path");
    let line = format!("{busy} 2 50");
    let commands: [&[&str]; 4] = [
        &["setpriv", "--reuid=65534", "--clear-groups", busy, "2", "50"],
        &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", busy, "2", "50"],
        &["runuser", "-u", "nobody", "--", busy, "2", "50"],
        &["su", "nobody", "-s", "/bin/sh", "-c", &line],
    ];
    for command in commands {
        let bare = harness::Run::new(command[0], dir.path()).args(&command[1..]).go();
        assert_eq!(bare.status, 0, "{command:?}: {}", bare.err());
        for (way, what) in [
            (&["stat", "-o", "s"][..], "recorded"),
            (&["record", "--no-report", "-o", "r.mallow"], "recorded"),
            (&["watch", "-o", "w"], "sampled"),
        ] {
            let run = harness::Run::new(harness::mallow(), dir.path()).args(way).arg("--").args(command).go();
            assert_eq!((run.status, run.out()), (0, bare.out()), "{way:?} {command:?}: {}", run.err());
            // su starts a shell, which starts the program.
            let name = if command[0] == "su" { "/bin/sh" } else { busy };
            let expected =
                format!("started by the command, and not {what}: {name}, with each process that it started: ");
            assert_eq!(run.err().matches(&expected).count(), 1, "{way:?} {command:?}: {}", run.err());
        }
    }
    // With a capability that outlives the exec it is seen, and not named.
    let ambient = ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"];
    let command = [&["setpriv", "--reuid=65534", "--clear-groups"], &ambient[..], &[busy, "2", "50"]].concat();
    let run =
        harness::Run::new(harness::mallow(), dir.path()).args(["stat", "--json", "-o", "s", "--"]).args(command).go();
    assert_eq!((run.status, run.err()), (0, String::new()));
    let json = harness::document(fs::read(dir.path().join("s")).expect("it"));
    let alone = Case::new(busy).args(["2", "50"]).stat().counts().allocations;
    assert!(harness::number(&json, "allocations") >= alone, "{json:#}");
}

const WITHOUT: &str = "with each process that it started: LD_PRELOAD or MALLOW_DIR was taken out of its environment";

/// Whoever executes a program without Mallow's variables says which one it was, once.
#[test]
fn programs_without_the_variables_are_named() {
    let busy = program("busy");
    let busy = busy.to_str().expect("a plain path");
    let by_python = format!("import os; os.execve('{busy}', ['busy', '2', '50'], {{'A': '1'}})");
    let spawned = format!("import os; os.waitpid(os.posix_spawn('{busy}', ['busy', '2', '50'], {{}}), 0)");
    let shell = format!("env -i {busy} 2 50; exit $?");
    let commands: [&[&str]; 5] = [
        &["sh", "-c", &shell],
        &["env", "sh", "-c", "unset MALLOW_DIR; exec \"$0\" 2 50", busy],
        &["env", "sh", "-c", "LD_PRELOAD= exec \"$0\" 2 50", busy],
        &["/usr/bin/env", "python3", "-c", &by_python],
        &["/usr/bin/env", "python3", "-c", &spawned],
    ];
    let place = directory();
    for command in commands {
        for (way, what) in [
            (&["stat", "-o", "s"][..], "recorded"),
            (&["record", "--no-report", "-o", "r.mallow"], "recorded"),
            (&["watch", "-o", "w"], "sampled"),
        ] {
            let run = harness::Run::new(harness::mallow(), place.path()).args(way).arg("--").args(command).go();
            assert_eq!(run.status, 0, "{way:?} {command:?}: {}", run.err());
            let expected = format!("started by the command, and not {what}: {busy}, {WITHOUT}");
            assert_eq!(run.err().matches(&expected).count(), 1, "{way:?} {command:?}: {}", run.err());
        }
    }
    // Where the command itself is `env -i`, that is what mallow says, and says it once.
    let run = harness::Run::new(harness::mallow(), place.path())
        .args(["stat", "-o", "s", "--", "env", "-i", busy, "2", "50"]);
    let run = run.go();
    assert!(
        run.err().contains("env takes LD_PRELOAD or MALLOW_DIR away") && run.err().lines().count() == 1,
        "{}",
        run.err()
    );
}

#[test]
fn emptied_environment() {
    let three = Case::target("privileges").arg("environ").may_say(WITHOUT).three_ways();
    assert_eq!(three.bare.status, 6);
    for outcome in [&three.stat.outcome, &three.record.outcome] {
        assert!(outcome.err().contains(WITHOUT), "{}", outcome.err());
    }
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
fn seccomp_that_is_only_probed() {
    seccomp("probe", 3);
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
fn seccomp_with_measured_regions() {
    seccomp("regions", 3);
}

#[test]
fn seccomp_strict_mode() {
    seccomp("strict", 4);
}
