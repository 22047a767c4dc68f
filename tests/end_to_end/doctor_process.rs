//! `mallow doctor -p`: what stands in the way of attaching to a process, and the allocators in it. Nothing of it
//! changes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use harness::{Outcome, Run, directory, gcc, mallow, not_run, program, program_as, root, tool, tool_if_there};
use serde_json::Value;

/// A process that is killed at the end of a test.
struct Target(Child);

impl Target {
    /// Started, and not waited for.
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
    }

    /// Started, and waited for until it prints a line that contains `mark`.
    fn ready(command: &mut Command, mark: &str) -> Self {
        let mut target = Self::start(command.stdout(Stdio::piped()));
        let mut lines = BufReader::new(target.0.stdout.take().expect("a pipe")).lines();
        while !lines.next().expect("it ended").expect("a line").contains(mark) {}
        target
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Waits until the first character of its state is `state`.
    fn reach(&self, state: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !status(self.pid()).contains(&format!("State:\t{state}")) {
            assert!(Instant::now() < deadline, "it does not become {state}: {}", status(self.pid()));
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn status(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/status")).expect("its status")
}

/// The line that says who traces it.
fn tracer(pid: u32) -> String {
    status(pid).lines().find(|line| line.starts_with("TracerPid:")).expect("a line").to_owned()
}

/// Its mappings with code: those of its heap may come and go.
fn code(pid: u32) -> Vec<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().filter(|line| line.contains("xp ")).map(str::to_owned).collect()
}

fn doctor(arguments: &[&str], pid: u32) -> Outcome {
    let place = directory();
    Run::new(mallow(), place.path()).args(["doctor", "-p", &pid.to_string()]).args(arguments).go()
}

/// What doctor finds out about a process, which lives on untraced.
struct Diagnosis {
    status: i32,
    json: Value,
}

impl Diagnosis {
    fn of(target: &Target) -> Self {
        let tracing = tracer(target.pid());
        let before = code(target.pid());
        let run = doctor(&["--json"], target.pid());
        assert_eq!(run.err(), "");
        let json = serde_json::from_slice(&run.stdout).expect("JSON");
        assert_eq!(tracer(target.pid()), tracing);
        assert_eq!(code(target.pid()), before);
        Self { status: run.status, json }
    }

    /// The checks of this name, as `status: found`.
    fn checks(&self, name: &str) -> Vec<String> {
        let word = |value: &Value| value.as_str().expect("text").to_owned();
        let all = self.json["process"].as_array().expect("checks").iter();
        let all = all.filter(|check| check["check"] == name);
        all.map(|check| format!("{}: {}", word(&check["status"]), word(&check["found"]))).collect()
    }

    /// There is one check of this name, and it contains this.
    fn has(&self, name: &str, text: &str) {
        let checks = self.checks(name);
        assert!(checks.iter().any(|check| check.contains(text)), "{name}: {text:?} is not in {:#}", self.json);
    }

    /// It fails for this reason.
    fn fails(&self, name: &str, text: &str) {
        assert_eq!((self.status, &self.json["verdict"]), (3, &"fails".into()), "{:#}", self.json);
        self.has(name, &format!("fails: {text}"));
    }

    /// Names of an allocator's functions that can be patched, and those that cannot, each with its reason.
    fn entries(&self, allocator: &str, module: &str) -> (Vec<String>, Vec<(String, String)>) {
        let all = self.json["allocators"].as_array().expect("allocators");
        let one = all.iter().find(|one| {
            one["name"] == allocator
                && one["module"].as_str().is_some_and(|path| path.rsplit('/').next() == Some(module))
        });
        let one = one.unwrap_or_else(|| panic!("{allocator} in {module} is not in {:#}", self.json));
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for entry in one["entries"].as_array().expect("entries") {
            for name in entry["names"].as_array().expect("names") {
                let name = name.as_str().expect("a name").to_owned();
                match entry["refused"].as_str() {
                    Some(why) => bad.push((name, why.to_owned())),
                    None => {
                        assert!(entry["displaced_bytes"].as_u64().is_some_and(|bytes| (5..=20).contains(&bytes)));
                        good.push(name);
                    }
                }
            }
        }
        (good, bad)
    }
}

const C_LIBRARY: [&str; 7] = ["malloc", "calloc", "realloc", "free", "posix_memalign", "aligned_alloc", "memalign"];

/// All of these can be patched.
fn all_of(names: &[&str], (good, bad): (Vec<String>, Vec<(String, String)>)) {
    for name in names {
        assert!(good.iter().any(|good| good == name), "{name} is not among {good:?}; refused: {bad:?}");
    }
}

#[test]
fn the_c_librarys_functions_can_be_patched() {
    let python = Target::ready(
        Command::new("/usr/bin/python3")
            .args(["-c", "import time; print(1, flush=True); time.sleep(1000)"])
            .stdin(Stdio::piped()),
        "1",
    );
    let found = Diagnosis::of(&python);
    assert_eq!(found.status, 0, "{:#}", found.json);
    all_of(&C_LIBRARY, found.entries("glibc", "libc.so.6"));
    found.has("program", "x86-64, dynamically linked");
    found.has("C library", "works: glibc");
    found.has("static TLS", "works: 120 bytes are needed");
    found.has("runtime", "arenas of its own");
    assert_eq!(found.json["attach"], "record, stat, watch");
}

/// The last line says what attaches, unless nothing can.
#[test]
fn the_verdict_names_the_commands_that_attach() {
    let verdict = "mallow record -p PID, mallow stat -p PID and mallow watch -p PID attach to it.\n";
    let sleep = Target::start(Command::new("sleep").arg("1000"));
    let fine = doctor(&[], sleep.pid());
    assert!(
        fine.out().contains("\nNothing stands in the way of attaching") && fine.out().ends_with(verdict),
        "{}",
        fine.out()
    );
    assert!(fine.out().lines().count() <= 24, "one screen: {}", fine.out());
    let gone = doctor(&[], 4_194_300);
    assert_eq!((gone.status, gone.err().as_str()), (3, ""));
    assert!(gone.out().contains("there is no process 4194300") && !gone.out().contains(verdict), "{}", gone.out());
    assert_eq!(doctor(&["--", "sleep"], sleep.pid()).status, 2, "a process or a command");
}

#[test]
fn a_servers_shared_allocator_is_the_one_in_use() {
    let place = directory();
    let socket = place.path().join("s");
    let mut command = Command::new(tool("redis-server"));
    command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(&socket).current_dir(place.path());
    let redis = Target::ready(&mut command, "eady to accept connections");
    let found = Diagnosis::of(&redis);
    let checks = found.checks("allocator");
    let Some(jemalloc) = checks.iter().find(|check| check.contains("jemalloc in libjemalloc.so.2")) else {
        return not_run("a_servers_shared_allocator_is_the_one_in_use", "this redis has another allocator");
    };
    assert!(jemalloc.starts_with("works: ") && !jemalloc.contains("calls of malloc go to"), "{jemalloc}");
    all_of(
        &[&C_LIBRARY[..], &["mallocx", "sdallocx", "_Znwm", "_ZdlPvm"]].concat(),
        found.entries("jemalloc", "libjemalloc.so.2"),
    );
    found.has("allocator", "the program's calls of malloc go to libjemalloc.so.2");
}

#[test]
fn an_allocator_that_stands_in_for_the_c_librarys_is_found_in_the_program() {
    let Some(archive) = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"]
        .map(|place| Path::new(place).join("libjemalloc.a"))
        .into_iter()
        .find(|archive| archive.exists())
    else {
        return not_run(
            "an_allocator_that_stands_in_for_the_c_librarys_is_found_in_the_program",
            "no libjemalloc.a here",
        );
    };
    let flags = [archive.to_str().expect("a plain path"), "-lm", "-lstdc++", "-ldl"];
    let inside = program_as("allocator_inside", "allocator-inside-jemalloc", "cc", &flags);
    let found = Diagnosis::of(&Target::ready(&mut Command::new(&inside), "ready"));
    all_of(&[&C_LIBRARY[..], &["mallocx"]].concat(), found.entries("jemalloc", "allocator-inside-jemalloc"));
    found.has("allocator", "the program's calls of malloc go to allocator-inside-jemalloc");
}

#[test]
fn allocators_with_names_of_their_own_are_found_by_each_kind_of_table() {
    let inside = program("allocator_inside");
    let found = Diagnosis::of(&Target::ready(&mut Command::new(&inside), "ready"));
    assert_eq!(found.status, 0);
    all_of(&["_rjem_malloc", "_rjem_sdallocx"], found.entries("jemalloc", "allocator_inside"));
    all_of(&["mi_heap_malloc"], found.entries("mimalloc", "allocator_inside"));
    let (good, bad) = found.entries("tcmalloc", "allocator_inside");
    assert_eq!(good, Vec::<String>::new());
    assert!(bad[0].0 == "tc_free" && bad[0].1.contains("1 bytes long, the jump takes 5"), "{bad:?}");
    assert!(bad[1].0 == "tc_new" && bad[1].1.contains("begins with a call"), "{bad:?}");
    found.has("allocator", "partly: tcmalloc in allocator_inside (symbol table): no function can be patched; not tc_");
    let place = directory();
    let (stripped, debug) = (place.path().join("inside"), place.path().join("inside.debug"));
    let objcopy = |arguments: &[&std::ffi::OsStr]| {
        assert!(Command::new("objcopy").args(arguments).status().expect("objcopy").success());
    };
    objcopy(&["--only-keep-debug".as_ref(), inside.as_ref(), debug.as_ref()]);
    let link = format!("--add-gnu-debuglink={}", debug.display());
    objcopy(&["--strip-all".as_ref(), link.as_ref(), inside.as_ref(), stripped.as_ref()]);
    let target = Target::ready(&mut Command::new(&stripped), "ready");
    all_of(&["_rjem_malloc"], Diagnosis::of(&target).entries("jemalloc", "inside"));
    fs::remove_file(&debug).expect("the debug file");
    let found = Diagnosis::of(&target);
    found.has("symbols", "has exported names alone");
    assert!(!found.json["allocators"].to_string().contains("_rjem_"), "{:#}", found.json);
}

/// Modules of Python and Node, and other plugins, bring their allocator along and keep its names to themselves.
#[test]
fn a_stripped_library_with_an_allocator_inside_is_named() {
    let place = directory();
    let at = place.path();
    fs::write(
        at.join("plugin.c"),
        "#include <stddef.h>\nvoid *mallocx(size_t, int);\nvoid dallocx(void *, int);\n\
         int serve(int n) { for (int i = 0; i < n; i++) dallocx(mallocx(100, 0), 0); return n; }\n",
    )
    .expect("a source");
    fs::write(
        at.join("main.c"),
        "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\nint serve(int);\n\
         int main(int count, char **a) { free(malloc(9)); int n = serve(100); puts(\"ready\"); fflush(stdout); \
         return count > 1 ? (int)sleep(60) : n == 100 && a ? 0 : 1; }\n",
    )
    .expect("a source");
    let hidden = ["-Wl,--exclude-libs,ALL", "-Wl,-Bsymbolic", "-s"];
    gcc(
        at,
        &[
            &["-shared", "-fPIC", "-o", "plugin.so", "plugin.c", "-l:libjemalloc_pic.a"],
            &["-lm", "-ldl", "-lstdc++"][..],
            &hidden,
        ]
        .concat(),
    );
    gcc(at, &["-fno-builtin", "-o", "main", "main.c", "./plugin.so", "-Wl,-rpath,$ORIGIN"]);
    let record = Run::new(mallow(), at).args(["record", "-o", "r.mallow", "--", "./main"]).go();
    let text = "is not counted: it is stripped, so its functions cannot be found; build it without strip";
    let said = record.err().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("jemalloc inside ") && said.contains("plugin.so") && said.contains(text), "{said}");
    let target = Target::ready(Command::new(at.join("main")).arg("waits").current_dir(at), "ready");
    let doctor =
        Run::new(mallow(), at).args(["doctor", "-p", &target.pid().to_string()]).env("COLUMNS", Some("1000")).go();
    assert!(doctor.out().contains("plugin.so has jemalloc inside, and is stripped"), "{}", doctor.out());
}

/// A debugger's breakpoint and another tool's jump, written into a process.
#[test]
fn entries_that_somebody_else_has_changed_are_refused() {
    use std::os::unix::fs::FileExt;
    let target = Target::ready(&mut Command::new(program("allocator_inside")), "ready");
    let found = Diagnosis::of(&target);
    let all = found.json["allocators"].as_array().expect("allocators");
    let entries = all.iter().flat_map(|one| one["entries"].as_array().expect("entries"));
    let address = |name: &str| {
        let entry = entries.clone().find(|entry| entry["names"].as_array().is_some_and(|n| n.contains(&name.into())));
        entry.and_then(|entry| entry["address"].as_u64()).expect("an address")
    };
    let maps = fs::read_to_string(format!("/proc/{}/maps", target.pid())).expect("its mappings");
    let base = maps.split('-').next().map(|start| u64::from_str_radix(start, 16).expect("an address")).expect("a line");
    let memory = fs::OpenOptions::new().write(true).open(format!("/proc/{}/mem", target.pid())).expect("its memory");
    memory.write_all_at(b"\xcc", base + address("_rjem_malloc")).expect("a breakpoint");
    memory.write_all_at(b"\xe9\0\0\0\x60", base + address("_rjem_sdallocx")).expect("a jump");
    memory.write_all_at(b"\x90\x90\x90\x90\x90\x90\x90\x90", base + address("mi_heap_malloc")).expect("other code");
    let found = Diagnosis::of(&target);
    let (_, bad) = found.entries("jemalloc", "allocator_inside");
    assert!(bad[0].1.contains("a breakpoint is at its entry"), "{bad:?}");
    assert!(bad[1].1.contains("another tool has patched it"), "{bad:?}");
    let (_, bad) = found.entries("mimalloc", "allocator_inside");
    assert!(bad[0].1.contains("its code differs from its file"), "{bad:?}");
}

#[test]
fn programs_that_cannot_be_attached_to_are_named() {
    let fails = |target: &Target, check: &str, found: &str| Diagnosis::of(target).fails(check, found);
    let fixed = program_as("allocator_inside", "allocator-inside-static", "cc", &["-static"]);
    let target = Target::ready(&mut Command::new(&fixed), "ready");
    fails(&target, "program", &format!("{} is statically linked", fixed.display()));
    let place = directory();
    let source = place.path().join("x.c");
    fs::write(&source, "void _start(void) { for (;;) __asm__ volatile(\"int $0x80\" : : \"a\"(29)); }\n")
        .expect("a source");
    let narrow = place.path().join("narrow");
    let built =
        Command::new("cc").args(["-m32", "-static", "-nostdlib", "-fno-pic", "-o"]).args([&narrow, &source]).output();
    if built.expect("a compiler").status.success() && Command::new(&narrow).spawn().map(Target).is_ok() {
        let target = Target::start(&mut Command::new(&narrow));
        // It waits for a signal: before that, it may be without its mappings still.
        target.reach("S");
        fails(&target, "program", &format!("{} is a 32-bit program", narrow.display()));
    } else {
        not_run("programs_that_cannot_be_attached_to_are_named: 32-bit", "no such compiler or kernel here");
    }
    let go = place.path().join("main.go");
    fs::write(
        &go,
        "package main\nimport (\"fmt\"; \"time\")\nfunc main() { fmt.Println(\"ready\"); time.Sleep(time.Hour) }\n",
    )
    .expect("a source");
    let binary = place.path().join("go");
    let mut build = Command::new(tool("go"));
    build.args(["build", "-o"]).args([&binary, &go]).env("CGO_ENABLED", "0");
    assert!(build.status().expect("go").success());
    fails(
        &Target::ready(&mut Command::new(&binary), "ready"),
        "program",
        &format!("{} is a Go program", binary.display()),
    );
    let musl = program_as("allocator_inside", "allocator-inside-musl", "musl-gcc", &[]);
    let found = Diagnosis::of(&Target::ready(&mut Command::new(&musl), "ready"));
    found.fails("C library", "");
    found.has("C library", "(musl): mallow attaches to programs with glibc alone");
    assert!(found.checks("allocator").iter().any(|check| check.contains("musl in ")), "{:#}", found.json);
}

#[test]
fn what_a_process_does_may_stand_in_the_way() {
    let ended = Target::start(&mut Command::new("true"));
    ended.reach("Z");
    Diagnosis::of(&ended).fails("process", &format!("process {} has ended and waits for its parent", ended.pid()));
    let sleep = Target::start(Command::new("sleep").arg("1000"));
    let pid = sleep.pid() as i32;
    // SAFETY: a system call without pointers.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGSTOP) }, 0);
    sleep.reach("T");
    Diagnosis::of(&sleep).has("process", "is stopped");
    sleep.reach("T");
    // SAFETY: as above; this thread lives until the end of the test.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE as _, pid, 0, 0) };
    assert_eq!(seized, 0);
    let found = Diagnosis::of(&sleep);
    let own = std::process::id();
    found.fails("permission", &format!("process {pid} is already traced, by {own} ("));
    // A thread that lives until doctor has looked at it: others of the tests come and go.
    let asked = || {
        // SAFETY: a system call without arguments.
        let thread = unsafe { libc::gettid() } as u32;
        let printed = doctor(&[], thread).out();
        assert!(printed.contains(&format!("{thread} is a thread of process {own}")), "{printed}");
    };
    std::thread::scope(|scope| scope.spawn(asked).join().expect("doctor knows threads"));
}

/// By a user without rights: its own process, root's, and one that gave up rights.
#[test]
fn rights_decide() {
    const NOBODY: u32 = 65534;
    let Some(setpriv) = tool_if_there("setpriv").filter(|_| root()) else {
        return not_run("rights_decide", "it needs root and setpriv");
    };
    let place = directory();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("its mode");
    let copy: PathBuf = place.path().join("mallow");
    fs::copy(mallow(), &copy).expect("a copy");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("its mode");
    let nobody = || {
        let mut command = Command::new(&setpriv);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).current_dir("/");
        command
    };
    let asked = |pid: u32| {
        let output = nobody().arg(&copy).args(["doctor", "-p", &pid.to_string()]).output().expect("doctor");
        (output.status.code(), String::from_utf8(output.stdout).expect("text"))
    };
    let of_root = Target::start(Command::new("sleep").arg("1000"));
    let (code, text) = asked(of_root.pid());
    assert!(code == Some(3) && text.contains("the process belongs to another user (0)"), "{text}");
    assert!(text.contains("run mallow as that user or as root"), "{text}");
    let own = Target::ready(nobody().args(["sh", "-c", "echo ready; exec sleep 1000"]), "ready");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !status(own.pid()).contains("sleep") {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(2));
    }
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let (code, text) = asked(own.pid());
    match scope.trim() {
        "" | "0" => assert!(code == Some(0) && text.contains("its user may trace it"), "{text}"),
        scope => assert!(code == Some(3) && text.contains(&format!("kernel.yama.ptrace_scope is {scope}")), "{text}"),
    }
    let given_up =
        format!("import os, time; os.setgid({NOBODY}); os.setuid({NOBODY}); print(1, flush=True); time.sleep(1000)");
    let given_up = Target::ready(Command::new("/usr/bin/python3").args(["-c", &given_up]), "1");
    let (code, text) = asked(given_up.pid());
    assert!(code == Some(3) && text.contains("with rights of its own (setuid, file capabilities)"), "{text}");
    assert_eq!(Diagnosis::of(&given_up).status, 0, "root may");
}

/// Files that were replaced while the program runs, as by an update.
#[test]
fn modules_that_were_replaced_are_named() {
    let place = directory();
    let copy = place.path().join("inside");
    fs::copy(program("allocator_inside"), &copy).expect("a copy");
    let target = Target::ready(&mut Command::new(&copy), "ready");
    fs::remove_file(&copy).expect("removed");
    fs::copy("/bin/true", &copy).expect("replaced");
    let found = Diagnosis::of(&target);
    // The kernel still has the file that runs.
    all_of(&["_rjem_malloc"], found.entries("jemalloc", "inside (deleted)"));
}

/// Below each function of a script lies code of no module, which is known by its bytes.
#[test]
fn a_python_that_names_its_functions_for_perf_is_attached_to() {
    let Some(python) = crate::scripts::naming("a_python_that_names_its_functions_for_perf_is_attached_to") else {
        return;
    };
    let place = directory();
    let script = "import time\nprint('ready', flush=True)\ndef main():\n    while True: time.sleep(0.01)\nmain()\n";
    fs::write(place.path().join("wait.py"), script).expect("a script");
    for (options, value) in [(&[][..], "1"), (&["-X", "perf"], "0"), (&[], "0")] {
        let mut command = Command::new(&python);
        command.args(options).arg("wait.py").current_dir(place.path()).env("PYTHONPERFSUPPORT", value);
        let target = Target::ready(&mut command, "ready");
        let pid = target.pid().to_string();
        let doctor = Run::new(mallow(), place.path()).args(["doctor", "-p", &pid]).go();
        assert!(doctor.status == 0 && doctor.out().contains("attach to it."), "{}", doctor.out());
        let stat = Run::new(mallow(), place.path()).args(["stat", "-p", &pid, "--for", "100ms"]).go();
        assert_eq!(stat.status, 0, "{}", stat.err());
    }
}
