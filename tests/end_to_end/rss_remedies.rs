//! Remedies that `mallow rss` offers, carried out without Mallow: what they release is what was said, and where they
//! release nothing they are not offered.

use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Case, Recorded, not_run, number, program, program_as};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// What a program has in memory in the end, as it says, when it runs without Mallow.
fn resident(program: &Path, arguments: &[&str], setting: Option<(&str, &str)>) -> u64 {
    let mut command = Command::new(program);
    let out = command.args(arguments).envs(setting).output().expect("it runs");
    assert!(out.status.success(), "{out:?}");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.trim().parse().unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn account(program: PathBuf, arguments: &[&str]) -> (Recorded, Value) {
    let case = arguments.iter().fold(Case::new(program), |case, argument| case.arg(argument));
    let record = case.prints_addresses().record();
    let json = record.view_json(&["rss", "--at", "end"]);
    (record, json)
}

fn remedy<'a>(json: &'a Value, name: &str) -> Option<&'a Value> {
    json["remedies"].as_array().expect("remedies").iter().find(|remedy| remedy["remedy"] == name)
}

/// glibc's threshold grows with the largest block that was freed; later ones stay in the heap, among small ones.
#[test]
fn large_blocks_of_a_grown_threshold_go_back_under_a_fixed_one() {
    let (_, json) = account(program("rss_remedies"), &["large"]);
    let offered = remedy(&json, "mmap_threshold").unwrap_or_else(|| panic!("{json:#}"));
    let expected = number(offered, "expected_bytes");
    let set = offered["setting"].as_str().and_then(|setting| setting.split_once('='));
    let run = |set| resident(&program("rss_remedies"), &["large"], set);
    let (before, after) = (run(None), run(set));
    let released = before.saturating_sub(after);
    assert!(released > 30 * MIB, "{before} {after}");
    assert!(expected.abs_diff(released) <= released / 10, "{expected} expected, {released} released: {offered}");
}

/// Blocks that are large had gone back to the kernel already: what is free now lies in gaps that no large block left.
#[test]
fn gaps_of_small_blocks_are_none_of_large_ones() {
    no_block_of_its_own_helps("small", 8 * MIB);
}

/// So much is free, `MALLOC_MMAP_THRESHOLD_` is not advised, and carried out it releases next to nothing.
fn no_block_of_its_own_helps(case: &str, free: u64) {
    let (_, json) = account(program("rss_remedies"), &[case]);
    let trim = remedy(&json, "malloc_trim").unwrap_or_else(|| panic!("{json:#}"));
    assert!(number(trim, "expected_bytes") > free, "{trim}");
    assert!(remedy(&json, "mmap_threshold").is_none(), "{json:#}");
    let run = |set| resident(&program("rss_remedies"), &[case], set);
    let (before, after) = (run(None), run(Some(("MALLOC_MMAP_THRESHOLD_", "131072"))));
    assert!(before.abs_diff(after) < 2 * MIB, "{before} {after}");
}

/// A large block has a mapping of its own until one as large was freed: the only one of a program left nothing in the
/// heap.
#[test]
fn the_only_large_block_left_nothing_in_the_heap() {
    no_block_of_its_own_helps("array", 16 * MIB);
}

/// What a buffer had that grew by realloc, and a block beside it, had mappings of their own, whichever moment is
/// divided: no call gives it back.
#[test]
fn what_realloc_grew_left_nothing_in_the_heap() {
    for _ in 0..3 {
        let record = Case::new(program("rss_remedies")).arg("grown").prints_addresses().record();
        let json = record.view_json(&["rss"]);
        assert!(remedy(&json, "mmap_threshold").is_none(), "{json:#}");
        assert!(remedy(&json, "trim_threshold").is_none(), "{json:#}");
        let trim = remedy(&json, "malloc_trim").map_or(0, |trim| number(trim, "expected_bytes"));
        assert!(trim < MIB, "{json:#}");
        let blocks = &json["undivided"]["blocks"];
        assert!(blocks.is_null() || number(blocks, "heap_bytes") < MIB, "{json:#}");
    }
}

/// glibc begins with the thresholds that the setting fixes. They have not risen where no block with a mapping of its
/// own was freed.
#[test]
fn thresholds_that_have_not_risen_are_not_advised() {
    let target = program("rss_remedies");
    let (_, json) = account(target.clone(), &["fast"]);
    let trim = remedy(&json, "malloc_trim").unwrap_or_else(|| panic!("{json:#}"));
    assert!(number(trim, "expected_bytes") > 8 * MIB, "{trim}");
    assert!(remedy(&json, "trim_threshold").is_none() && remedy(&json, "mmap_threshold").is_none(), "{json:#}");
    let run = |set| resident(&target, &["fast"], set);
    let (before, after) = (run(None), run(Some(("MALLOC_TRIM_THRESHOLD_", "131072"))));
    assert!(before.abs_diff(after) < MIB, "{before} {after}");

    // They have risen; what is free at the heap's end goes back to the kernel under the setting.
    let (_, json) = account(target.clone(), &["top"]);
    let offered = remedy(&json, "trim_threshold").unwrap_or_else(|| panic!("{json:#}"));
    let run = |set| resident(&target, &["top"], set);
    let released = run(None).saturating_sub(run(Some(("MALLOC_TRIM_THRESHOLD_", "131072"))));
    let expected = number(offered, "expected_bytes");
    assert!(released > 8 * MIB && expected.abs_diff(released) <= released / 10, "{released}: {offered}");
}

/// Nor is one of another allocator, among other options of its.
#[test]
fn a_setting_of_another_allocator_that_is_in_force_is_not_advised() {
    let with = program_as("rss_remedies", "rss_remedies-with-jemalloc", "cc", &["-Wl,--no-as-needed", "-ljemalloc"]);
    let offered = |value: &str| {
        let case = Case::new(with.clone()).arg("idle").arg("0").env("MALLOC_CONF", value).prints_addresses();
        let json = case.record().view_json(&["rss", "--at", "end"]);
        ["decay", "background_thread"].map(|name| remedy(&json, name).is_some())
    };
    assert_eq!(offered("narenas:1"), [true, true]);
    assert_eq!(offered("narenas:1,background_thread:true"), [true, false]);
    assert!(!offered("muzzy_decay_ms:0,dirty_decay_ms:0")[0]);
}

/// A setting is not advised to a process that has it, in either form.
#[test]
fn a_setting_that_is_in_force_is_not_advised() {
    for (name, value) in [
        ("MALLOC_TRIM_THRESHOLD_", "131072"),
        ("MALLOC_MMAP_THRESHOLD_", "131072"),
        ("GLIBC_TUNABLES", "glibc.malloc.trim_threshold=131072"),
    ] {
        let case = Case::new(program("rss_remedies")).arg("fast-high").env(name, value).prints_addresses();
        let json = case.record().view_json(&["rss", "--at", "end"]);
        assert!(remedy(&json, "malloc_trim").is_some(), "{json:#}");
        assert!(remedy(&json, "trim_threshold").is_none(), "{name}: {json:#}");
        assert!(remedy(&json, "mmap_threshold").is_none(), "{name}: {json:#}");
    }
}

/// A thread of jemalloc's own gives back what an idle program has freed, and no more than was said.
#[test]
fn a_background_thread_gives_back_what_an_idle_program_freed() {
    let with = program_as("rss_remedies", "rss_remedies-with-jemalloc", "cc", &["-Wl,--no-as-needed", "-ljemalloc"]);
    let (_, json) = account(with.clone(), &["idle", "0"]);
    let offered = remedy(&json, "background_thread").unwrap_or_else(|| panic!("{json:#}"));
    assert_eq!(
        (&offered["certainty"], &offered["setting"]),
        (&"at_most".into(), &"MALLOC_CONF=background_thread:true".into())
    );
    let before = resident(&with, &["idle", "1000"], None);
    let after = resident(&with, &["idle", "90000"], Some(("MALLOC_CONF", "background_thread:true")));
    let released = before.saturating_sub(after);
    assert!(released > 24 * MIB, "{before} {after}");
    assert!(released <= number(offered, "expected_bytes") + MIB, "{released}: {offered}");
    let at_once = resident(&with, &["idle", "1000"], Some(("MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0")));
    let decay = number(remedy(&json, "decay").unwrap_or_else(|| panic!("{json:#}")), "expected_bytes");
    assert!(before.saturating_sub(at_once) <= decay + MIB, "{before} {at_once}: {json:#}");
}

/// Stacks are counted, with what they have and reserve. Smaller ones are a remedy where they are locked in memory, and
/// nowhere else.
#[test]
fn smaller_stacks_help_where_they_are_locked() {
    let (record, json) = account(program("rss_remedies"), &["stacks"]);
    if record.outcome.out().contains("no right to lock memory") {
        return not_run("smaller_stacks_help_where_they_are_locked", "it needs the right to lock 60 MB in memory");
    }
    let stacks = &json["thread_stacks"];
    assert_eq!(
        (number(stacks, "stacks"), number(stacks, "locked_bytes")),
        (6, number(stacks, "resident_bytes")),
        "{stacks}"
    );
    assert!(number(stacks, "reserved_bytes") >= number(stacks, "resident_bytes"), "{stacks}");
    let offered = remedy(&json, "thread_stacks").unwrap_or_else(|| panic!("{json:#}"));
    let shown = record.view(&["rss", "--at", "end"]).out();
    assert!(shown.contains(": 6 stacks of threads are locked in memory as a whole"), "{shown}");
    assert!(shown.contains("6 stacks beside the first thread's: "), "{shown}");
    let target = program("rss_remedies").into_os_string().into_string().expect("a path");
    let limited =
        |kb: &str| resident(Path::new("/bin/sh"), &["-c", &format!("ulimit -s {kb} && exec {target} stacks")], None);
    let released = limited("8192").saturating_sub(limited("256"));
    let expected = number(offered, "expected_bytes");
    assert!(
        released > 40 * MIB && expected.abs_diff(released) <= released / 10,
        "{expected} expected, {released} released"
    );
    // Stacks of which nothing is locked have in memory what was touched, however small they are.
    let (_, json) = account(program("rss_caches"), &[]);
    assert_eq!(
        (number(&json["thread_stacks"], "stacks"), remedy(&json, "thread_stacks").is_none()),
        (2, true),
        "{json:#}"
    );
}
