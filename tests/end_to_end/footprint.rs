//! The kernel's account of memory in recordings: it is that of an independent script, and of programs of a known shape.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use harness::{Outcome, Run, RunDirectories, directory, mallow, number, program, workspace};
use serde_json::Value;

use crate::watch_harness::{Alive, quiet, reports, until};

const MIB: u64 = 1 << 20;

/// Records the target, and leaves its recording and the script's answer.
fn record(place: &Path, options: &[&str], what: &str) -> Outcome {
    let oracle = workspace().join("tests/readers/memory_oracle.py").canonicalize().expect("the script");
    let run = Run::new(mallow(), place).args(["record", "--no-report", "-o", "m.mallow"]).args(options).arg("--");
    run.arg(program("footprint")).arg(what).arg(oracle).limit(Duration::from_secs(120)).go()
}

/// What the independent reader finds.
fn memory(place: &Path) -> Value {
    let script = workspace().join("tests/readers/check_memory.py").canonicalize().expect("the reader");
    let run = Run::new("/usr/bin/python3", place).arg("-B").arg(script).arg("m.mallow").go();
    assert_eq!((run.status, run.err().as_str()), (0, ""));
    serde_json::from_str(&run.out()).expect("JSON")
}

fn oracle(place: &Path) -> Value {
    serde_json::from_slice(&fs::read(place.join("oracle")).expect("the script's answer")).expect("JSON")
}

fn footprints(memory: &Value) -> &[Value] {
    memory["footprints"].as_array().expect("footprints")
}

/// The footprint at the exit of the only process.
fn last(memory: &Value) -> &Value {
    let last = footprints(memory).iter().find(|footprint| footprint["is_last"] == true).expect("a last one");
    assert_eq!(
        (&last["is_at_exit"], &last["gap"], &last["faults"]),
        (&true.into(), &Value::Null, &serde_json::json!([]))
    );
    assert_eq!((number(last, "blocks"), &last["ascending"]), (number(last, "live_blocks"), &true.into()));
    assert_eq!(number(last, "block_bytes"), number(last, "live_bytes"));
    last
}

/// Within a hundredth, and a few pages that the end of a program takes or gives.
fn near(found: u64, expected: u64, what: &str) {
    assert!(found.abs_diff(expected) <= expected / 100 + 64 * 1024, "{what}: {found}, and the kernel says {expected}");
}

fn same_as_the_kernel(footprint: &Value, oracle: &Value) {
    let (totals, rollup) = (&footprint["totals"], &oracle["rollup"]);
    for (ours, theirs) in [
        ("rss", "Rss"),
        ("pss", "Pss"),
        ("anonymous", "Anonymous"),
        ("shared_clean", "Shared_Clean"),
        ("swap", "Swap"),
        ("huge", "AnonHugePages"),
    ] {
        // Files are shared with other processes, which come and go.
        let found = number(totals, ours);
        let expected = number(rollup, theirs);
        if !matches!(ours, "pss" | "shared_clean") {
            near(found, expected, ours);
        } else {
            assert!(found.abs_diff(expected) <= expected / 100 + 4 * MIB, "{ours}: {found}, {expected}");
        }
    }
    // Pages of Mallow's own memory are counted, and not listed.
    let pages = 4096 * number(footprint, "resident") + number(footprint, "own");
    near(pages, 4096 * number(oracle, "resident"), "pages");
    near(4096 * number(footprint, "swapped"), 4096 * number(oracle, "swapped"), "pages in swap");
}

/// A reservation of 1 TB of which two pages exist costs neither time nor bytes.
#[test]
fn a_huge_reservation_is_cheap() {
    let place = directory();
    let run = record(place.path(), &["--no-children"], "reserve");
    assert_eq!(run.status, 0, "{}{}", run.out(), run.err());
    let memory = memory(place.path());
    let footprint = last(&memory);
    same_as_the_kernel(footprint, &oracle(place.path()));
    assert!(number(footprint, "largest_mapping") >= 1 << 40);
    assert!((1000..1100).contains(&number(footprint, "live_blocks")), "{footprint}");
    assert!(number(footprint, "live_bytes") >= 10_000_000);
    // What the first thread keeps of freed blocks: a megabyte at most.
    assert!(
        number(footprint, "caches") == 1 && (1..1 << 20).contains(&number(footprint, "cached_bytes")),
        "{footprint}"
    );
    assert!(number(&footprint["kinds"], "mallow") > 0 && number(&footprint["kinds"], "file_text") > 0);
    assert!(fs::metadata(place.path().join("m.mallow")).expect("the recording").len() < 200_000);
}

#[test]
fn stacks_of_threads_are_told_apart() {
    let place = directory();
    let run = record(place.path(), &["--no-children"], "stacks");
    assert_eq!(run.status, 0, "{}{}", run.out(), run.err());
    let memory = memory(place.path());
    let footprint = last(&memory);
    same_as_the_kernel(footprint, &oracle(place.path()));
    let stacks = number(&footprint["kinds"], "thread_stack");
    assert!((16 * MIB..18 * MIB).contains(&stacks), "{stacks}");
}

#[test]
fn locked_pages_are_counted() {
    let place = directory();
    let run = record(place.path(), &["--no-children"], "locked");
    assert_eq!(run.status, 0, "{}{}", run.out(), run.err());
    let memory = memory(place.path());
    let footprint = last(&memory);
    same_as_the_kernel(footprint, &oracle(place.path()));
    if run.out().starts_with("locked") {
        assert_eq!(number(&footprint["totals"], "locked"), 4 * MIB);
    } else {
        harness::not_run("locked_pages_are_counted", "mlock is not allowed");
    }
}

/// The child shares three quarters of the parent's block, and PSS says so.
#[test]
fn a_forked_child_shares_pages() {
    let place = directory();
    let run = record(place.path(), &[], "forked");
    assert_eq!(run.status, 0, "{}{}", run.out(), run.err());
    let memory = memory(place.path());
    let child = footprints(&memory).iter().find(|footprint| footprint["forked"] == true).expect("the child's");
    let totals = &child["totals"];
    assert!(number(totals, "rss") > 38 * MIB && number(totals, "pss") < number(totals, "rss") * 3 / 4, "{child}");
    let (shared, resident) = (4096 * number(child, "shared"), 4096 * number(child, "resident"));
    assert!((28 * MIB..32 * MIB).contains(&shared) && resident > 38 * MIB, "{shared} {resident}");
    // The parent's block is none of the child's.
    assert_eq!((number(child, "live_blocks"), number(child, "live_bytes")), (1, 100_000));
}

/// A process that is killed has the last footprint before.
#[test]
fn a_killed_process_has_its_last_footprint() {
    let place = directory();
    let run = record(place.path(), &[], "killed");
    assert_eq!(run.status, 137, "{}{}", run.out(), run.err());
    let memory = memory(place.path());
    let last = footprints(&memory).iter().find(|footprint| footprint["is_last"] == true).expect("a footprint");
    assert_eq!(last["is_at_exit"], false);
    assert!(number(&last["totals"], "rss") > 48 * MIB, "{last}");
    assert!(number(last, "live_bytes") > 47 * MIB, "{last}");
}

/// What was highest is kept beside what was last, and views show both.
#[test]
fn the_highest_rss_is_kept() {
    let place = directory();
    let run = record(place.path(), &["--no-children"], "peak");
    assert_eq!(run.status, 0, "{}{}", run.out(), run.err());
    let memory = memory(place.path());
    same_as_the_kernel(last(&memory), &oracle(place.path()));
    let highest = footprints(&memory).iter().find(|footprint| footprint["is_highest"] == true).expect("a highest one");
    assert!(number(&highest["totals"], "rss") > 64 * MIB && number(highest, "live_bytes") >= 64 * MIB, "{highest}");
    assert!(number(&last(&memory)["totals"], "rss") < 10 * MIB);
    let view = |arguments: &[&str]| {
        let run = Run::new(mallow(), place.path()).args(arguments).arg("m.mallow").go();
        assert_eq!(run.status, 0, "{}", run.err());
        run.out()
    };
    let report = view(&["report"]);
    assert!(report.contains("highest RSS") && report.contains("live"), "{report}");
    assert!(view(&["report", "--all"]).contains("live then"));
    let report: Value = serde_json::from_str(&view(&["report", "--json"])).expect("JSON");
    assert_eq!(report["highest_rss"]["rss"], highest["totals"]["rss"]);
    assert!(number(&report["highest_rss"], "peak_rss") >= number(&report["highest_rss"], "rss"));
    assert_eq!(report["highest_rss"]["live_bytes"], highest["live_bytes"]);
    assert!(view(&["timeline"]).contains("RSS: at most 6"), "{}", view(&["timeline"]));
    let timeline: Value = serde_json::from_str(&view(&["timeline", "--json"])).expect("JSON");
    assert!(number(&timeline["rss"], "highest") > 64 * MIB, "{}", timeline["rss"]);
    assert_eq!(timeline["rss"]["values"].as_array().map(Vec::len), timeline["points"].as_array().map(Vec::len));
    // A selection of blocks is no process's memory.
    let part: Value = serde_json::from_str(&view(&["report", "--json", "--size", "1Ki.."])).expect("JSON");
    assert_eq!(part["highest_rss"], Value::Null);
}

/// Each image of a process has its own.
#[test]
fn an_exec_begins_anew() {
    let place = directory();
    let run = record(place.path(), &[], "exec");
    assert_eq!(run.status, 0, "{}{}", run.out(), run.err());
    let memory = memory(place.path());
    let of = |at_exit| footprints(&memory).iter().find(|footprint| footprint["is_at_exit"] == at_exit);
    let pid = number(of(false).expect("before exec"), "pid");
    assert!(number(&of(false).expect("before exec")["totals"], "rss") > 32 * MIB);
    let small = footprints(&memory).iter().find(|f| f["is_at_exit"] == true && f["pid"] == pid).expect("after exec");
    assert!(number(&small["totals"], "rss") < 10 * MIB, "{small}");
}

#[test]
fn without_rss_nothing_is_read() {
    let place = directory();
    let run = record(place.path(), &["--no-children", "--no-rss"], "small");
    assert_eq!(run.status, 0, "{}{}", run.out(), run.err());
    let memory = memory(place.path());
    assert_eq!((footprints(&memory).len(), &memory["rss"]), (0, &serde_json::json!([])));
    let report = Run::new(mallow(), place.path()).args(["report", "m.mallow"]).go();
    assert!(!report.out().contains("highest RSS"), "{}", report.out());
    // Without a scan, the process waits for the reading alone.
    let run = record(place.path(), &["--no-children", "--no-scan"], "small");
    assert_eq!(run.status, 0, "{}{}", run.out(), run.err());
    let again = self::memory(place.path());
    same_as_the_kernel(last(&again), &oracle(place.path()));
}

/// The sizes of an allocator that no formula has are those of the allocator itself.
#[test]
fn allocators_report_their_size_classes() {
    for (library, maker, some) in [
        ("-ljemalloc", "jemalloc", [16, 128, 160, 14336]),
        ("-ltcmalloc_minimal", "tcmalloc", [16, 128, 1024, 8192]),
        ("-l:libmimalloc.so.2", "mimalloc", [16, 128, 160, 1024]),
    ] {
        let name = format!("footprint-with-{maker}");
        let target = harness::program_as("footprint", &name, "cc", &["-Wl,--no-as-needed", library]);
        let place = directory();
        let run =
            Run::new(mallow(), place.path()).args(["record", "--no-report", "-o", "m.mallow", "--no-children", "--"]);
        let run = run.arg(target).args(["small", "/dev/null"]).go();
        // There is no script to run.
        assert_eq!(run.status, 0, "{}{}", run.out(), run.err());
        let memory = memory(place.path());
        let classes: Vec<u64> = serde_json::from_value(memory["size_classes"][0][1].clone()).expect("size classes");
        assert!(classes.is_sorted() && classes.len() > 20, "{maker}: {classes:?}");
        assert!(some.iter().all(|size| classes.contains(size)), "{maker}: {classes:?}");
    }
    let place = directory();
    assert_eq!(record(place.path(), &["--no-children"], "small").status, 0);
    assert_eq!(memory(place.path())["size_classes"], serde_json::json!([]), "glibc's are a formula's");
}

/// Of a mallow that was killed, the spool has the readings: the recording made of it has the footprints.
#[test]
fn a_killed_mallow_leaves_footprints() {
    let place = directory();
    let mut command = Command::new(mallow());
    let oracle = workspace().join("tests/readers/memory_oracle.py");
    command.args(["record", "--no-report", "-o", "m.mallow", "--"]).arg(program("footprint")).arg("killed").arg(oracle);
    let before = RunDirectories::now();
    let mut child =
        command.current_dir(place.path()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("mallow");
    let spool = || {
        fs::read_dir(place.path()).expect("files").flatten().find(|f| f.path().extension() == Some("spool".as_ref()))
    };
    // A reading is in the spool: the tag of its chunk.
    let is_read = || {
        let Some(spool) = spool() else { return false };
        let mark = (u64::from_le_bytes(*b"MALSPOOL") ^ 8).to_le_bytes();
        fs::read(spool.path()).is_ok_and(|text| text.windows(8).any(|eight| eight == mark))
    };
    until("a reading", || is_read().then_some(()));
    child.kill().expect("kill");
    child.wait().expect("its end");
    let left = before.new_of(child.id());
    let run = Run::new(mallow(), place.path()).args(["recover", "-o", "m.mallow"]).args(&left).go();
    assert_eq!(run.status, 0, "{}", run.err());
    let memory = memory(place.path());
    let highest = footprints(&memory).iter().find(|f| f["is_highest"] == true).expect("a footprint");
    assert_eq!((&highest["gap"], number(highest, "blocks")), (&Value::Null, number(highest, "live_blocks")));
    assert!(number(highest, "resident") > 0, "{highest}");
    for directory in left {
        fs::remove_dir_all(directory).expect("the directory that was left");
    }
}

/// Reports of a watch have RSS, its parts, and the part that grew.
#[test]
fn a_watch_reports_rss_and_what_grows() {
    let place = directory();
    let run = Run::new(mallow(), place.path()).args(["watch", "--json", "--every", "1s", "-o", "reports", "--"]);
    let run = run.arg(program("footprint")).args(["watched", "/dev/null"]).go();
    assert_eq!(run.status, 0, "{}", run.err());
    let text = fs::read_to_string(place.path().join("reports")).expect("reports");
    let reports = text.lines().map(harness::document);
    let with_memory: Vec<Value> = reports.map(|report| report["memory"].clone()).filter(Value::is_object).collect();
    // The last one: RSS is read after the samples, and the program may grow in between.
    let is_whole = |memory: &&Value| number(memory, "rss") > (32 + 48) * MIB;
    let memory = with_memory.iter().rev().find(is_whole).expect("a report of all of it");
    let parts = memory["parts"].as_array().expect("parts");
    let sum: u64 = parts.iter().map(|row| number(row, "bytes")).sum();
    assert!(sum >= number(memory, "rss") && number(memory, "gap") <= number(memory, "rss"), "{memory}");
    let part = |name: &str| parts.iter().find(|row| row["part"] == name).expect("the part").clone();
    // Of 56 MB, sampling knows within some tens of percent; what it is short of is no live block.
    assert!(number(&part("live_heap"), "bytes") > 10 * MIB, "{memory}");
    assert!(number(&part("other_anonymous"), "bytes") > 0, "{memory}");
    // 48 MB of heap, by samples, and what of it no sample stands for: which of them grew more is the samples' chance.
    let grows = memory["grows"].as_str().expect("a part that grew");
    assert!(["live_heap", "other_anonymous"].contains(&grows), "{memory}");
}

/// What the program says of itself without Mallow: unnamed mappings, RSS, and what it has mapped.
fn without_mallow() -> [u64; 3] {
    let bare = Command::new(program("own_memory")).output().expect("the program").stdout;
    let said: Value = serde_json::from_slice(&bare).expect("JSON");
    ["unnamed", "rss", "mapped"].map(|name| number(&said, name))
}

fn part_of(report: &Value, name: &str) -> u64 {
    let parts = report["parts"].as_array().expect("parts").iter();
    parts.filter(|part| part["part"] == name).map(|part| number(part, "bytes")).sum()
}

/// Tables of stacks and the like are anonymous memory as the program's, and the kernel joins them with it.
#[test]
fn what_mallow_maps_is_not_the_programs() {
    let place = directory();
    let [unnamed, rss, mapped] = without_mallow();
    let record = ["record", "--no-report", "-o", "m.mallow", "--"];
    let run = Run::new(mallow(), place.path()).args(record).arg(program("own_memory")).go();
    assert_eq!(run.status, 0, "{}", run.err());
    let shown = Run::new(mallow(), place.path()).args(["rss", "--json", "--at", "end", "m.mallow"]).go();
    let report: Value = serde_json::from_str(&shown.out()).expect("JSON");
    let mappings = part_of(&report, "mappings");
    assert!(mapped <= mappings && mappings <= unnamed + 64 * 1024, "{mappings}, {unnamed} without mallow: {report:#}");
    let others = number(&report, "rss") - part_of(&report, "mallow");
    assert!(others.abs_diff(rss) <= rss / 20, "{others} are not Mallow's, and {rss} without it: {report:#}");
    // They are whole: of rings, the library and its tables.
    assert!(part_of(&report, "mallow") > 256 * 1024, "{report:#}");
}

/// A small block that is sampled lies in a page of its own.
#[test]
fn pages_of_samples_are_mallows() {
    let place = directory();
    let file = place.path().join("reports");
    let [_, rss, _] = without_mallow();
    let mut command = Command::new(mallow());
    command
        .args(["watch", "--json", "--period", "4KiB", "--older-than", "0", "--every", "1s", "-o"])
        .arg(&file)
        .arg("--");
    let mut watching = Alive::start(quiet(command.arg(program("own_memory")).arg("waits")));
    // All of its 4.9 MB are allocated.
    let is_whole = |report: &Value| report["samples"].as_u64() > Some(900) && report["memory"].is_object();
    let last = until("a quiet program", || {
        let all = reports(&file);
        let is_same = |pair: &&[Value]| pair[0]["samples"] == pair[1]["samples"] && is_whole(&pair[1]);
        all.windows(2).find(is_same).map(|pair| pair[1].clone())
    });
    let memory = &last["memory"];
    let others = number(memory, "rss") - part_of(memory, "mallow");
    assert!(others.abs_diff(rss) <= rss / 10, "{others} are not Mallow's, and {rss} without it: {memory:#}");
    // Nearly a page for each sample.
    let slots = last["samples"].as_u64().expect("samples") * 3800;
    assert!(part_of(memory, "mallow") > slots, "{slots}: {memory:#}");
    watching.signal("TERM");
    watching.end();
}
