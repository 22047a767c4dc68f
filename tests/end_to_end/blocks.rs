//! `mallow sizes`, `lifetimes` and `threads`: the same as a naive count over the table of events.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use harness::{Case, Recorded, Run, mallow, number};
use serde_json::Value;

/// One row of the table of events.
struct Row {
    ms: u64,
    pid: u64,
    tid: u64,
    operation: String,
    block: Option<u64>,
    size: u64,
    freed: Option<u64>,
    freed_size: u64,
}

fn rows(record: &Recorded, filters: &[&str]) -> Vec<Row> {
    let text = record.shown(&[&["export", "--format", "csv", "--table", "events"], filters].concat());
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let at = |name: &str| names.iter().position(|n| n.trim_matches('"') == name).expect(name);
    let columns = ["ms", "pid", "tid", "block", "size", "freed_block", "freed_size"].map(at);
    let operation = at("operation");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let [ms, pid, tid, block, size, freed, freed_size] = columns.map(|at| cells[at].parse::<u64>().ok());
        let operation = cells[operation].to_owned();
        let [ms, pid, tid, size, freed_size] = [ms, pid, tid, size, freed_size].map(|n| n.unwrap_or(0));
        Row { ms, pid, tid, operation, block, size, freed, freed_size }
    };
    lines.map(row).collect()
}

/// What a histogram has, without empty buckets: from → (blocks, bytes).
fn buckets(list: &Value) -> BTreeMap<u64, (u64, u64)> {
    let all = list.as_array().expect("buckets").iter();
    let all = all.map(|b| (number(b, "from"), (number(b, "blocks"), number(b, "bytes"))));
    all.filter(|(_, (blocks, _))| *blocks > 0).collect()
}

/// Adds a value to the bucket of the largest power of two that is not above it.
fn add(buckets: &mut BTreeMap<u64, (u64, u64)>, value: u64, bytes: u64) {
    let mut from = 0;
    while value > 0 && (from == 0 || from * 2 <= value) {
        from = if from == 0 { 1 } else { from * 2 };
    }
    let sums = buckets.entry(from).or_default();
    *sums = (sums.0 + 1, sums.1 + bytes);
}

fn cases() -> [Case; 3] {
    [Case::sqlite(2000), Case::target("threads").args(["handover", "40"]), Case::target("busy").args(["4", "300"])]
}

const FILTERS: [&[&str]; 4] =
    [&[], &["--size", "16..100"], &["--lifetime", "..2ms"], &["--focus", ".", "--size", "8.."]];

#[test]
fn sizes_are_those_of_all_events() {
    for case in cases() {
        let record = case.record();
        for filters in FILTERS {
            let json = record.view_json(&[&["sizes"], filters].concat());
            let mut expected = BTreeMap::new();
            let rows = rows(&record, filters);
            let allocations: Vec<&Row> = rows.iter().filter(|row| row.block.is_some()).collect();
            allocations.iter().for_each(|row| add(&mut expected, row.size, row.size));
            assert_eq!(buckets(&json["buckets"]), expected, "{case:?} {filters:?}");
            assert_eq!(number(&json, "allocations"), allocations.len() as u64);
            assert_eq!(number(&json, "largest"), allocations.iter().map(|row| row.size).max().expect("some"));
        }
        let whole = record.view_json(&["sizes"]);
        assert_eq!(number(&whole, "allocations"), number(&record.json, "allocations"));
        assert_eq!(number(&whole, "allocated_bytes"), number(&record.json, "allocated_bytes"));
    }
}

#[test]
fn lifetimes_are_those_of_all_events() {
    for case in cases() {
        let record = case.record();
        let all = rows(&record, &[]);
        // Of each event, how many blocks were allocated before it.
        let times: HashMap<u64, u64> = all.iter().filter_map(|row| Some((row.block?, row.ms))).collect();
        for filters in FILTERS {
            let json = record.view_json(&[&["lifetimes"], filters].concat());
            let chosen: std::collections::HashSet<u64> =
                rows(&record, filters).iter().filter_map(|row| row.block).collect();
            let (mut by_ms, mut by_allocations) = (BTreeMap::new(), BTreeMap::new());
            let (mut before, mut frees) = (0, 0);
            for row in &all {
                if let Some(freed) = row.freed.filter(|freed| chosen.contains(freed)) {
                    add(&mut by_ms, row.ms.saturating_sub(times[&freed]), row.freed_size);
                    add(&mut by_allocations, before - freed - 1, row.freed_size);
                    frees += 1;
                }
                before += u64::from(row.block.is_some());
            }
            assert_eq!(buckets(&json["by_ms"]), by_ms, "{case:?} {filters:?}");
            assert_eq!(buckets(&json["by_allocations"]), by_allocations, "{case:?} {filters:?}");
            assert_eq!((number(&json, "frees"), number(&json, "live")), (frees, chosen.len() as u64 - frees));
        }
        let whole = record.view_json(&["lifetimes"]);
        assert_eq!(number(&whole, "live"), number(&record.json, "live"));
        assert_eq!(number(&whole, "live_bytes"), number(&record.json, "live_bytes"));
    }
}

#[test]
fn threads_are_those_of_all_events() {
    for case in cases() {
        let record = case.record();
        for filters in FILTERS {
            let json = record.view_json(&[&["threads"], filters].concat());
            // allocations, bytes, frees, of others, by others, live, peak
            let mut threads: BTreeMap<(u64, u64), [u64; 7]> = BTreeMap::new();
            let mut pairs: BTreeMap<(u64, u64, u64), (u64, u64)> = BTreeMap::new();
            let mut owners: HashMap<u64, (u64, u64)> = HashMap::new();
            for row in rows(&record, filters) {
                let me = (row.pid, row.tid);
                if let Some(freed) = row.freed {
                    let owner = owners[&freed];
                    threads.entry(owner).or_default()[5] -= row.freed_size;
                    if row.operation.trim_matches('"') != "unseen_free" {
                        threads.entry(me).or_default()[2] += 1;
                        if owner != me {
                            threads.entry(me).or_default()[3] += 1;
                            threads.entry(owner).or_default()[4] += 1;
                            let pair = pairs.entry((row.pid, owner.1, row.tid)).or_default();
                            *pair = (pair.0 + 1, pair.1 + row.freed_size);
                        }
                    }
                }
                if let Some(block) = row.block {
                    owners.insert(block, me);
                    let thread = threads.entry(me).or_default();
                    thread[0] += 1;
                    thread[1] += row.size;
                    thread[5] += row.size;
                    thread[6] = thread[6].max(thread[5]);
                }
            }
            threads.retain(|_, thread| thread[0] > 0 || thread[2] > 0);
            let shown: BTreeMap<(u64, u64), [u64; 7]> = json["threads"]
                .as_array()
                .expect("threads")
                .iter()
                .map(|t| {
                    let n = |key| number(t, key);
                    let numbers = [n("allocations"), n("allocated_bytes"), n("frees"), n("frees_of_others")];
                    let [a, b, c, d] = numbers;
                    let by_others = n("freed_by_others");
                    ((n("pid"), t["tid"].as_u64().unwrap_or(0)), [a, b, c, d, by_others, 0, n("own_peak_bytes")])
                })
                .collect();
            threads.values_mut().for_each(|thread| thread[5] = 0);
            assert_eq!(shown, threads, "{case:?} {filters:?}");
            let shown: BTreeMap<_, _> = json["pairs"]
                .as_array()
                .expect("pairs")
                .iter()
                .map(|p| {
                    let n = |key| number(p, key);
                    ((n("pid"), n("allocated_by"), n("freed_by")), (n("blocks"), n("bytes")))
                })
                .collect();
            assert_eq!(shown, pairs, "{case:?} {filters:?}");
        }
    }
    // Half of the threads free what the other half allocated: 101 blocks each.
    let record = Case::target("threads").args(["handover", "40"]).record();
    let json = record.view_json(&["threads"]);
    let pairs = json["pairs"].as_array().expect("pairs");
    assert!(pairs.iter().filter(|pair| number(pair, "blocks") == 101).count() >= 20, "{pairs:?}");
}

/// More than are looked at each time.
#[test]
fn threads_have_names() {
    let record = Case::target("threads").args(["named", "50"]).record();
    let json = record.view_json(&["threads"]);
    let threads = json["threads"].as_array().expect("threads");
    let names: BTreeSet<&str> = threads.iter().filter_map(|thread| thread["name"].as_str()).collect();
    let expected: Vec<String> = (0..50).map(|number| format!("worker-{number}")).collect();
    assert_eq!(names, expected.iter().map(String::as_str).collect());
    let main = threads.iter().find(|thread| thread["tid"] == thread["pid"]).expect("the first thread");
    assert_eq!(main["name"], Value::Null);
    let text = record.shown(&["threads", "--limit", "0"]);
    assert!(text.lines().any(|line| line.ends_with("  worker-17")), "{text}");
}

#[test]
fn the_whole_report_has_all_three_and_texts_fit() {
    let record = Case::target("threads").args(["handover", "4"]).record();
    let report = record.shown(&["report", "--all"]);
    for title in ["Blocks by size", "Blocks by lifetime", "Threads", "Allocated by one thread, freed by another"] {
        assert_eq!(report.matches(&format!("\n{title}")).count(), 1, "{title}: {report}");
    }
    assert!(report.lines().last().is_some_and(|line| line.starts_with("Verdict: ")), "{report}");
    assert!(!record.shown(&["report"]).contains("Blocks by size"));
    for view in ["sizes", "lifetimes", "threads"] {
        let text = record.shown(&[view]);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}

#[test]
fn files_of_other_tools_have_no_single_events() {
    let record = Case::sqlite(2000).record();
    let place = record.directory.path();
    let run = record.view(&["export", "--format", "folded", "-o", "stacks.folded"]);
    assert_eq!(run.status, 0, "{}", run.err());
    for view in ["sizes", "lifetimes", "threads"] {
        let run = Run::new(mallow(), place).args([view, "stacks.folded"]).go();
        assert_eq!(run.status, 1, "{view}");
        assert!(run.err().contains("has no single events; mallow report shows what it has"), "{}", run.err());
    }
}
