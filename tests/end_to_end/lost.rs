//! Lost blocks are told apart from those that something still points to, by a scan of each process's memory at its
//! exit.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use harness::{Outcome, Run, RunDirectories, directory, gcc, library, mallow, program, tool};
use serde_json::Value;

use crate::watch_harness::until;

/// No wait is cut short, so that a scan on a busy machine is a scan.
const WAIT: &[&str] = &["--scan-all"];

fn record(place: &Path, options: &[&str], arguments: &[&str]) -> Outcome {
    let run = Run::new(mallow(), place).args(["record", "--no-report", "-o", "l.mallow"]).args(options).arg("--");
    run.arg(program("lost")).args(arguments).limit(Duration::from_secs(120)).go()
}

fn leaks(place: &Path, options: &[&str]) -> Value {
    let run = Run::new(mallow(), place).args(["leaks", "--json", "--limit", "0"]).args(options).arg("l.mallow").go();
    serde_json::from_str(&run.out()).unwrap_or_else(|error| panic!("{error}: {}", run.err()))
}

/// Blocks by the function of the target that allocated them, of the functions that it names by what is to be found.
fn found(place: &Path, state: &str) -> BTreeMap<String, u64> {
    let report = leaks(place, &["--only", state]);
    let mut found = BTreeMap::new();
    for site in report["sites"].as_array().expect("sites") {
        let frames = site["frames"].as_array().expect("frames");
        let names = frames.iter().filter_map(|frame| frame["function"].as_str()?.split('(').next());
        let Some(name) = names.into_iter().find(|name| name.starts_with("lost_") || name.starts_with("kept_")) else {
            continue;
        };
        *found.entry(name.to_owned()).or_default() += site["live"].as_u64().expect("a number");
    }
    found
}

fn expected(rows: &[(&str, u64)]) -> BTreeMap<String, u64> {
    rows.iter().map(|&(name, blocks)| (name.to_owned(), blocks)).collect()
}

/// A static object of a library is destroyed by glibc's last exit handler. Expected: what valgrind says of the memory
/// after that.
#[test]
fn what_a_library_knew_until_its_destructor_is_lost() {
    let place = directory();
    let library = "#include <vector>\nstruct All { std::vector<char *> blocks; };\nstatic All all;\n\
                   void keep(char *block) { all.blocks.push_back(block); }\n";
    let main = "#include <cstdlib>\nvoid keep(char *);\n\
                int main() { for (int i = 0; i < 100; i++) keep((char *)malloc(1000)); }\n";
    fs::write(place.path().join("all.cpp"), library).expect("a source");
    fs::write(place.path().join("main.cpp"), main).expect("a source");
    for arguments in [
        &["-g", "-shared", "-fPIC", "-o", "liball.so", "all.cpp"][..],
        &["-g", "-o", "main", "main.cpp", "-L.", "-lall", "-Wl,-rpath,$ORIGIN"],
    ] {
        let built = Run::new(tool("g++"), place.path()).args(arguments).go();
        assert_eq!(built.status, 0, "{}", built.err());
    }
    let run = Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", "l.mallow"]).args(WAIT);
    let run = run.args(["--", "./main"]).go();
    assert_eq!(run.status, 0, "{}", run.err());
    let report = leaks(place.path(), &[]);
    assert_eq!((&report["lost_blocks"], &report["lost_bytes"]), (&100.into(), &100_000.into()), "{report:#}");
}

/// A string of 17 bytes in the room of a freed node: behind its end are bytes of the node's pointer, and the last
/// byte is the pointer's lowest. Expected: what valgrind says, and LeakSanitizer.
#[test]
fn bytes_behind_a_blocks_end_are_no_part_of_a_pointer() {
    let place = directory();
    let source = "#include <stdlib.h>\n#include <string.h>\n#include <stdio.h>\n\
                  struct node { void *next; char *text; void *block; };\nstatic char *kept[5];\n\
                  static void __attribute__((noinline)) keep(void) {\n\
                      for (int i = 0; i < 5; i++) {\n\
                          struct node *node = malloc(sizeof *node);\n\
                          char *block = malloc(5000);\n\
                          memset(block, 98, 5000);\n\
                          node->next = node->text = 0;\n\
                          node->block = block + 2500;\n\
                          free(node);\n\
                          kept[i] = malloc(17);\n\
                          memset(kept[i], 115, 16);\n\
                          kept[i][16] = 0;\n\
                          if (kept[i] != (char *)node) puts(\"elsewhere\");\n\
                      }\n\
                  }\n\
                  static void __attribute__((noinline)) wipe(void) {\n\
                      volatile char frames[4096];\n\
                      memset((void *)frames, 0, sizeof frames);\n\
                  }\n\
                  int main(void) { keep(); wipe(); return 0; }\n";
    fs::write(place.path().join("behind.c"), source).expect("a source");
    gcc(place.path(), &["-g", "-O0", "-w", "-fno-builtin", "-o", "behind", "behind.c"]);
    let run = Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", "l.mallow"]).args(WAIT);
    let run = run.args(["--", "./behind"]).go();
    assert_eq!((run.status, run.out().as_str()), (0, ""), "{}", run.err());
    let report = leaks(place.path(), &[]);
    assert_eq!((&report["lost_blocks"], &report["lost_bytes"]), (&5.into(), &25_000.into()), "{report:#}");
}

/// The heap, globals, a thread's storage, the stack, an inner pointer, a page of a mapping of 1 TB: all that may hold
/// one.
#[test]
fn blocks_are_lost_where_nothing_points_to_them() {
    let place = directory();
    let run = record(place.path(), WAIT, &["lose", "keep"]);
    assert_eq!((run.status, run.out().as_str()), (7, "the end\n"), "{}", run.err());
    let lost = [("lost_alone", 5), ("lost_list", 20), ("lost_destructor", 1)];
    assert_eq!(found(place.path(), "lost"), expected(&lost));
    let kept = [
        "kept_by_kept",
        "kept_by_large",
        "kept_code",
        "kept_global",
        "kept_interior",
        "kept_large",
        "kept_mapping",
        "kept_parent",
        "kept_sealed",
        "kept_stack",
        "kept_thread_local",
    ];
    assert_eq!(found(place.path(), "reachable"), expected(&kept.map(|name| (name, 1))));
    let all = leaks(place.path(), &[]);
    assert_eq!(all["unscanned"], serde_json::json!([]));
    assert_eq!((all["lost_blocks"].as_u64(), all["lost_bytes"].as_u64()), (Some(26), Some(5 * 100 + 20 * 48 + 310)));
    assert_eq!(
        all["lost_blocks"].as_u64().zip(all["reachable_blocks"].as_u64()).map(|(a, b)| a + b),
        all["live"].as_u64()
    );
}

/// The frame of a main that has returned lies below those of exit, where it shows through. Expected: what valgrind
/// says.
#[test]
fn what_a_frame_held_that_is_gone_is_lost() {
    let place = directory();
    for (how, lost, reachable) in [("return", 64, 0), ("exit", 0, 64), ("register", 0, 1)] {
        let run = Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", "l.mallow"]).args(WAIT);
        let run = run.arg("--").arg(program("returned")).arg(how).go();
        assert_eq!(run.status, 0, "{how}: {}", run.err());
        let all = leaks(place.path(), &[]);
        let counts = ["lost_blocks", "reachable_blocks"].map(|key| all[key].as_u64());
        assert_eq!(counts, [Some(lost), Some(reachable)], "{how}: {all:#}");
    }
}

#[test]
fn a_cycle_of_shared_pointers_is_named() {
    let place = directory();
    assert_eq!(record(place.path(), WAIT, &["cycles"]).status, 7);
    let text = Run::new(mallow(), place.path()).args(["leaks", "l.mallow"]).go().out();
    let cycle = "100 cycles of open_session lost.cpp:";
    assert!(text.contains(cycle) && text.contains("↔ open_connection lost.cpp:"), "{text}");
    assert!(text.contains("kept alive only by each other (shared_ptr cycle)"), "{text}");
    let all = leaks(place.path(), &[]);
    let cycles = all["lost_cycles"].as_array().expect("cycles");
    assert_eq!(cycles.len(), 1, "{cycles:?}");
    assert_eq!((cycles[0]["count"].as_u64(), cycles[0]["blocks"].as_u64()), (Some(100), Some(300)));
}

/// An object that is its own last reference; a list that points to itself in its first word is empty, and no cycle.
#[test]
fn an_object_that_refers_to_itself_is_a_cycle() {
    let place = directory();
    assert_eq!(record(place.path(), WAIT, &["self-cycles"]).status, 7);
    let text = Run::new(mallow(), place.path()).args(["leaks", "l.mallow"]).go().out();
    let cycle = "50 cycles of watch_itself lost.cpp:";
    assert!(text.contains(cycle) && !text.contains("cycles of empty_list"), "{text}");
    assert!(text.contains("kept alive only by themselves or each other (shared_ptr cycle)"), "{text}");
    let all = leaks(place.path(), &[]);
    let cycles = all["lost_cycles"].as_array().expect("cycles");
    assert_eq!((cycles.len(), cycles[0]["count"].as_u64(), cycles[0]["blocks"].as_u64()), (1, Some(50), Some(50)));
}

/// Blocks that `leaks` with this option has of each function, by the start of the function's name; and its text.
fn recorded(name: &str, arguments: &[&str], functions: &[&str], states: &[&str]) -> (Vec<Vec<u64>>, Value, String) {
    let place = directory();
    let run = Run::new(mallow(), place.path()).args(["record", "--no-report", "--scan-all", "-o", "l.mallow", "--"]);
    let run = run.arg(program(name)).args(arguments).limit(Duration::from_secs(120)).go();
    assert_eq!(run.status, 0, "{}{}", run.out(), run.err());
    let of = |all: &Value, function: &str| {
        let sites = all["sites"].as_array().expect("sites").iter();
        let has = |site: &&Value| site.to_string().contains(&format!("\"{function}"));
        sites.filter(has).map(|site| site["live"].as_u64().expect("a number")).sum()
    };
    let found = states.iter().map(|state| {
        let all = leaks(place.path(), &["--only", state]);
        functions.iter().map(|function| of(&all, function)).collect()
    });
    let text = Run::new(mallow(), place.path()).args(["leaks", "l.mallow"]).go().out();
    (found.collect(), leaks(place.path(), &[]), text)
}

/// The frame of a coroutine has its own address in it, which no weak reference would mend.
#[test]
fn a_frame_of_a_coroutine_is_no_cycle() {
    let (found, all, text) = recorded("lost_coroutines", &[], &["lost_frame", "lost_cycle"], &["lost"]);
    assert_eq!(found, [[32, 20]], "{text}");
    let cycles = all["lost_cycles"].as_array().expect("cycles");
    assert_eq!((cycles.len(), cycles[0]["count"].as_u64()), (1, Some(20)), "{text}");
}

/// glibc says of such a block that it is free: in a thread's cache, or in a chunk that was merged with others.
#[test]
fn what_a_deeply_bound_library_freed_is_not_lost() {
    let plugin = library("deep_plugin", "deep_plugin", &["-shared", "-fPIC"]);
    let plugin = plugin.to_str().expect("a path");
    let functions = ["freed_by_plugin", "lost_between", "lost_unwritten", "kept_between"];
    let (found, all, text) = recorded("deep_free", &[plugin], &functions, &["lost", "reachable"]);
    assert_eq!(found, [[0, 50, 1, 0], [0, 0, 0, 50]], "{text}");
    assert_eq!(all["live"].as_u64().zip(all["reachable_blocks"].as_u64()).map(|(all, kept)| all - kept), Some(51));
}

/// The library remembers words of stacks, to know them again: they are none of the program's.
#[test]
fn what_the_library_remembers_of_a_stack_holds_nothing() {
    let (found, all, text) = recorded("lost_registers", &[], &["lost_node", "main"], &["reachable"]);
    assert_eq!((found, &all["lost_blocks"]), (vec![vec![0, 0]], &501.into()), "{text}");
}

/// What a program has handed to the kernel comes back with an event or a signal; what it has taken out again does not.
#[test]
fn what_the_kernel_gives_back_is_not_lost() {
    let functions = ["kept_events", "kept_signal_stack", "kept_timer", "lost_events"];
    let (found, all, text) = recorded("lost_in_kernel", &[], &functions, &["lost", "reachable"]);
    assert_eq!(found, [[0, 0, 0, 20], [50, 1, 1, 0]], "{text}");
    assert_eq!(all["lost_blocks"], 20, "{text}");
}

/// Threads that wait hold what is on their stacks; those that have ended hold nothing for long.
#[test]
fn stacks_of_threads_hold_blocks() {
    let place = directory();
    let run = record(place.path(), WAIT, &["threads"]);
    assert_eq!((run.status, run.out().as_str()), (7, "the end\n"), "{}", run.err());
    let reachable = found(place.path(), "reachable");
    assert_eq!(reachable.get("kept_thread_stack"), Some(&64), "{reachable:?}");
    assert!(!found(place.path(), "lost").contains_key("kept_thread_stack"));
}

/// With --scan-all. What a child adds to blocks of its parent is reachable, although nobody knows these blocks in the
/// child.
#[test]
fn a_forked_child_is_scanned_by_itself() {
    let place = directory();
    assert_eq!(record(place.path(), &["--scan-all"], &["fork"]).status, 7);
    assert_eq!(found(place.path(), "lost"), expected(&[("lost_child", 1), ("lost_destructor", 2)]));
    let reachable = found(place.path(), "reachable");
    assert_eq!(reachable.get("kept_by_parents"), Some(&1), "{reachable:?}");
}

#[test]
fn a_process_without_an_exit_is_not_scanned_and_says_why() {
    for (how, status) in [("_exit", 4), ("kill", 137)] {
        let place = directory();
        assert_eq!(record(place.path(), &[], &["lose", how]).status, status);
        let all = leaks(place.path(), &[]);
        // Nobody knows of any block whether it is lost.
        assert!(all["lost_blocks"].is_null() && all["reachable_blocks"].is_null(), "{all:#}");
        assert_eq!(all["unscanned"][0]["live"], all["live"]);
        let reason = all["unscanned"][0]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("no exit: "), "{reason}");
        let text = Run::new(mallow(), place.path()).args(["leaks", "l.mallow"]).go().out();
        assert!(text.contains("Lost or reachable is not known of "), "{text}");
        let report = Run::new(mallow(), place.path()).args(["report", "l.mallow"]).go().out();
        assert!(report.contains("\n  Not scanned for lost blocks: no exit: "), "{report}");
    }
}

fn reasons(place: &Path) -> Vec<String> {
    let all = leaks(place, &[]);
    let unscanned = all["unscanned"].as_array().unwrap_or_else(|| panic!("{all}"));
    unscanned.iter().filter_map(|one| Some(one["reason"].as_str()?.to_owned())).collect()
}

#[test]
fn a_forked_child_is_not_scanned_unless_all_are() {
    let place = directory();
    assert_eq!(record(place.path(), &[], &["fork"]).status, 7);
    let reasons = reasons(place.path());
    assert!(reasons.len() == 1 && reasons[0].starts_with("forked"), "{reasons:?}");
    assert_eq!(found(place.path(), "lost"), expected(&[("lost_destructor", 1)]));
    assert!(found(place.path(), "unscanned").contains_key("lost_child"));
}

/// The target's child met it in the wait, and saw its end.
fn met_and_ended(place: &Path) {
    let read = || fs::read_to_string(place.join("met")).ok().filter(|text| text.ends_with('\n'));
    assert_eq!(until("the end of the target", read), "met, ended\n");
}

/// A target waits at its exit while mallow is stopped, or killed, or is killed itself: nothing stays, and nothing is
/// made up.
#[test]
fn a_wait_at_exit_ends_whatever_happens() {
    let place = directory();
    let run = record(place.path(), WAIT, &["lose", "stop-mallow"]);
    assert_eq!((run.status, run.out().as_str()), (7, "the end\n"), "{}", run.err());
    met_and_ended(place.path());
    let stopped = reasons(place.path());
    assert!(stopped.iter().any(|reason| reason.contains("mallow did not answer")), "{stopped:?}");
    assert!(leaks(place.path(), &[])["lost_blocks"].is_null());

    let place = directory();
    let run = record(place.path(), WAIT, &["lose", "kill-waiting"]);
    assert_eq!((run.status, run.out().as_str()), (137, "the end\n"), "{}", run.err());
    met_and_ended(place.path());
    let killed = reasons(place.path());
    assert!(killed.iter().any(|reason| reason.contains("killed during the scan")), "{killed:?}");
    assert!(leaks(place.path(), &[])["lost_blocks"].is_null());

    let place = directory();
    let before = RunDirectories::now();
    let run = record(place.path(), WAIT, &["lose", "kill-mallow"]);
    assert_eq!(run.status, 137, "{}", run.err());
    met_and_ended(place.path());
    for left in before.new_of(run.pid) {
        fs::remove_dir_all(left).expect("a run directory");
    }
}

#[test]
fn a_filter_that_forbids_the_wait_is_no_reason_to_die() {
    let place = directory();
    let record = |options: &[&str]| {
        let run = Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", "l.mallow"]).args(options);
        run.arg(program("seccomp")).arg("no-wait").limit(Duration::from_secs(60)).go()
    };
    let bare = Run::new(program("seccomp"), place.path()).arg("no-wait").go();
    for options in [&[][..], &["--scan-all"], &["--no-scan"]] {
        let run = record(options);
        assert_eq!((run.status, run.out()), (bare.status, bare.out()), "{options:?}: {}", run.err());
    }
    record(&[]);
    let reasons = reasons(place.path());
    assert!(reasons.len() == 1 && reasons[0].contains("seccomp filter"), "{reasons:?}");
    // Nor does the gate for lost blocks pass of what was not looked at.
    let gate = ["leaks", "--only", "lost", "--fail-on-leak", "l.mallow"];
    let gate = Run::new(mallow(), place.path()).args(gate).go();
    assert!(gate.status == 4 && gate.err().contains("lost is not known"), "{}{}", gate.out(), gate.err());
}

/// A call that fails installs no filter: the process waits, and is scanned.
#[test]
fn a_probe_for_filters_is_no_reason_to_leave_the_scan_out() {
    let place = directory();
    let run = Run::new(mallow(), place.path()).args(["record", "--no-report", "--scan-all", "-o", "l.mallow"]);
    let run = run.arg(program("seccomp")).arg("probe").go();
    assert_eq!(run.status, 3, "{}", run.err());
    let all = leaks(place.path(), &[]);
    let scanned = all["lost_bytes"].as_u64().expect("a scan") + all["reachable_bytes"].as_u64().expect("a scan");
    assert!(reasons(place.path()).is_empty() && scanned >= 1000, "{all}");
}

#[test]
fn scanning_can_be_left_out() {
    let place = directory();
    assert_eq!(record(place.path(), &["--no-scan"], &["lose"]).status, 7);
    let all = leaks(place.path(), &[]);
    assert!(all["lost_blocks"].is_null(), "{all}");
    assert_eq!(all["unscanned"][0]["live"], all["live"]);
    assert_eq!(reasons(place.path()), ["recorded without a scan (--no-scan)"]);
    let text =
        |options: &[&str]| Run::new(mallow(), place.path()).args(["leaks"]).args(options).arg("l.mallow").go().out();
    assert!(text(&["--only", "lost"]).starts_with("No process was scanned: whether a block was lost is not known."));
    assert!(text(&[]).contains("not scanned: recorded without a scan (--no-scan)"), "{}", text(&[]));
}

/// As without a scan, unless only one state is asked for.
#[test]
fn reachable_blocks_are_leaks_unless_lost_ones_are_asked_for() {
    let place = directory();
    assert_eq!(record(place.path(), WAIT, &["keep"]).status, 7);
    let gate = |options: &[&str]| {
        Run::new(mallow(), place.path()).args(["leaks", "--fail-on-leak"]).args(options).arg("l.mallow").go().status
    };
    assert_eq!([gate(&[]), gate(&["--only", "reachable"]), gate(&["--only", "unscanned"])], [3, 3, 0]);
    let text = Run::new(mallow(), place.path()).args(["leaks", "--only", "reachable", "l.mallow"]).go().out();
    assert!(text.contains(": one cause, ") && !text.contains("one leak"), "{text}");
}

/// A shell that runs `lost` three times with these words, recorded to a pipe that nobody reads until the command has
/// ended: until then nothing is replayed, so nothing is scanned. What `mallow leaks` says.
fn replayed_afterwards(place: &Path, options: &[&str], words: &str) -> Value {
    let pipe = place.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    // Without waiting for a writer.
    let mut reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&pipe).expect("the pipe");
    let script = format!("\"$0\" 3 1000; for i in 1 2 3; do \"$1\" {words}; done; echo $?; exit 4");
    let mut mallow = Command::new(mallow())
        .args(["record", "--no-report", "-o", "pipe"])
        .args(options)
        .args(["--", "/bin/sh", "-c", &script])
        .args([program("busy"), program("lost")])
        .current_dir(place)
        .env("TMPDIR", place)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mallow");
    let pid = mallow.id();
    // To the end of the shell's output, and then to the shell's own end.
    let lines = BufReader::new(mallow.stdout.take().expect("its output")).lines();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let mut said = Vec::new();
    until("the shell's last line", || {
        said.extend(receiver.try_iter());
        said.iter().any(|line| line == "7").then_some(())
    });
    let children = || fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    until("the command's end", || children().is_ok_and(|children| children.is_empty()).then_some(()));
    assert_eq!(mallow.try_wait().expect("its status"), None, "the recording is not written");

    let (mut recording, mut part) = (Vec::new(), vec![0; 1 << 16]);
    let mut read = || {
        while let Ok(bytes @ 1..) = reader.read(&mut part) {
            recording.extend_from_slice(&part[..bytes]);
        }
    };
    let status = until("mallow's end", || {
        read();
        mallow.try_wait().expect("its status")
    });
    read();
    let mut err = String::new();
    mallow.stderr.take().expect("its errors").read_to_string(&mut err).expect("its errors");
    assert_eq!(status.code(), Some(4), "{err}");
    assert_eq!(said[1..], ["the end", "the end", "the end", "7"], "{said:?}");
    fs::write(place.join("l.mallow"), recording).expect("the recording");
    leaks(place, &[])
}

/// Processes that wait at their exit have a second and a tenth of the run in sum. Where the scan does not come, all go
/// on, also those that come after it. These are too large to be copied.
#[test]
fn a_spent_budget_of_waits_lets_all_processes_go_on() {
    let place = directory();
    let all = replayed_afterwards(place.path(), &[], "lose keep large");
    assert_eq!(["lost", "reachable"].map(|state| found(place.path(), state).len()), [0, 0], "{all:#}");
    // What images of the shell had when they ended by exec is no leak; all leaks are of processes that were let go.
    let reasons = all["unscanned"].as_array().expect("reasons").iter();
    let let_go = reasons
        .filter(|one| one["reason"].as_str().is_some_and(|reason| reason.contains("exits may wait was used up")));
    let live: u64 = let_go.map(|one| one["live"].as_u64().expect("a number")).sum();
    assert!(live >= 3 * (26 + 9), "{live}: {all:#}");
    let unscanned = found(place.path(), "unscanned");
    assert_eq!((unscanned["lost_alone"], unscanned["lost_list"]), (3 * 5, 3 * 20), "{unscanned:?}");
}

/// A process is copied at its exit and ends: its scan needs neither the process nor that the replay was there in time.
/// `--scan-all`: a process that was not copied would wait for its scan however long that takes.
#[test]
fn what_ended_before_the_replay_came_is_scanned() {
    let place = directory();
    let all = replayed_afterwards(place.path(), &["--scan-all"], "lose keep");
    assert_eq!(all["lost_blocks"], 3 * 26, "{all:#}");
    let [lost, reachable] = ["lost", "reachable"].map(|state| found(place.path(), state));
    assert_eq!((lost["lost_alone"], lost["lost_list"]), (3 * 5, 3 * 20), "{lost:?}");
    assert!(!reachable.contains_key("lost_alone") && reachable.len() >= 5, "{reachable:?}");
}

/// jemalloc's caches of threads keep addresses of blocks that they handed out, in memory of its own: that is no root.
#[test]
fn what_jemalloc_remembers_keeps_no_block_alive() {
    let place = directory();
    let text = r#"
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static void lost_all(void) {
    for (int i = 0; i < 300; i++) {
        char *block = malloc(200);
        memset(block, i, 200);
        __asm__ volatile("" ::"r"(block) : "memory");
    }
}
int main(void) {
    char over[4096];
    lost_all();
    memset(over, 0, sizeof over);
    __asm__ volatile("" ::"r"(over) : "memory");
    return 0;
}
"#;
    fs::write(place.path().join("lost.c"), text).expect("a source");
    for (name, library) in [("glibc", None), ("jemalloc", Some("-ljemalloc"))] {
        let mut build = Command::new("cc");
        build.args(["-g", "-O1", "-fno-builtin", "-o", name, "lost.c", "-Wl,--no-as-needed"]).args(library);
        assert!(build.current_dir(place.path()).status().expect("a compiler").success());
        let run =
            Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", "l.mallow", "--scan-all", "--"]);
        assert_eq!(run.arg(place.path().join(name)).go().status, 0);
        assert_eq!(found(place.path(), "lost"), BTreeMap::from([("lost_all".to_owned(), 300)]), "{name}");
    }
}
