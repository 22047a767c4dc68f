//! `mallow tree` on a program whose calls can be counted by hand, and on real ones.

use std::collections::BTreeSet;

use harness::{Case, Recorded, Run, mallow, number};
use serde_json::Value;

#[test]
fn calls_of_a_program_that_can_be_counted_by_hand() {
    let record = Case::target("calls").record();
    assert_eq!(
        record.shown(&["tree"]),
        "Calls by allocations, self: excluding callees; 17 in all\n\
         \x20 cum    cum %  self  function\n\
         \x20  17  100.0 %     2  main calls.c\n\
         \x20   6   35.3 %     6  ├ left → shared calls.c\n\
         \x20   5   29.4 %     5  ├ descend ↻ calls.c\n\
         \x20   4   23.5 %     .  └ right calls.c\n\
         \x20   3   17.6 %     3    ├ shared calls.c\n\
         \x20   1    5.9 %     1    └ fresh calls.c\n\
         \x20 ↻ calls itself, maybe through others; --raw shows each call\n"
    );
    assert_eq!(
        record.shown(&["tree", "--callers", "--by", "bytes", "--limit", "4"]),
        "Callers by allocated bytes, each below what it called; 1.60 kB in all\n\
         \x20    self  self %  function\n\
         \x20 1.00 kB  62.3 %  fresh calls.c ← right ← main\n\
         \x20   500 B  31.2 %  descend ↻ calls.c ← main\n\
         \x20    90 B   5.6 %  shared calls.c (2 more)\n\
         \x20    14 B   0.9 %  main calls.c\n\
         \x20 ↻ calls itself, maybe through others; --raw shows each call\n\
         \x20 --limit 0 shows all rows\n"
    );
    let raw = record.view_json(&["tree", "--raw"]);
    let deepest = path_to(&raw, &raw["rows"], "step").expect("a path to step");
    assert_eq!(deepest[deepest.len() - 10..].join(" "), format!("main{}", " descend step".repeat(4) + " descend"));
}

/// The longest call path to a row with that function.
fn path_to(tree: &Value, rows: &Value, function: &str) -> Option<Vec<String>> {
    let paths = rows.as_array()?.iter().filter_map(|row| {
        let name = |place: &Value| Some(tree["functions"][place.as_u64()? as usize]["function"].as_str()?.to_owned());
        let names: Vec<String> = row["functions"].as_array()?.iter().filter_map(name).collect();
        match path_to(tree, &row["children"], function) {
            Some(below) => Some([names, below].concat()),
            None => names.iter().any(|name| name == function).then_some(names),
        }
    });
    paths.max_by_key(Vec::len)
}

/// Each function is in the table once, and every row finds its own there.
fn functions_are_known(tree: &Value) {
    let table = tree["functions"].as_array().expect("functions");
    let names: BTreeSet<String> = table.iter().map(Value::to_string).collect();
    assert_eq!(names.len(), table.len());
    fn used(rows: &Value, places: &mut BTreeSet<u64>) {
        for row in rows.as_array().expect("rows") {
            let of = |key: &str| -> Vec<u64> {
                row[key].as_array().expect("places").iter().map(|at| at.as_u64().expect("a place")).collect()
            };
            let functions = of("functions");
            assert!(!functions.is_empty() && of("recursive").iter().all(|at| functions.contains(at)), "{row}");
            places.extend(functions);
            used(&row["children"], places);
        }
    }
    let mut places = BTreeSet::new();
    used(&tree["rows"], &mut places);
    assert_eq!(places, (0..table.len() as u64).collect());
}

fn add_up(rows: &Value, hidden: &Value, key: &str) -> u64 {
    let mut sum = if hidden.is_null() { 0 } else { number(&hidden["cum"], key) };
    for row in rows.as_array().expect("rows") {
        let below = add_up(&row["children"], &row["hidden"], key);
        assert_eq!(number(&row["cum"], key), number(&row["self"], key) + below, "{key} of {}", row["functions"]);
        sum += number(&row["cum"], key);
    }
    sum
}

#[test]
fn trees_of_real_programs_add_up() {
    let python = ["-S", "-c", "import json; json.loads(json.dumps([list(range(9))] * 900))"];
    for case in [
        Case::sqlite(2_000),
        Case::new("/usr/bin/python3").args(python).env("PYTHONMALLOC", "malloc"),
        Case::target("busy").args(["4", "300"]),
    ] {
        let record = case.record();
        for arguments in [
            &["--limit", "0"][..],
            &["--raw", "--depth", "5"],
            &["--callers"],
            &["--callers", "--raw", "--limit", "50"],
        ] {
            let tree = record.view_json(&[&["tree"], arguments].concat());
            functions_are_known(&tree);
            for key in ["allocations", "allocated_bytes", "frees", "live_bytes"] {
                let sum = add_up(&tree["rows"], &tree["hidden"], key);
                // Blocks of 0 bytes count as allocations, too.
                assert_eq!(sum, number(&record.json, key) - foreign(&record, key), "{key} of {arguments:?}: {case:?}");
            }
        }
    }
}

/// Frees of blocks that the program did not allocate belong to no site.
fn foreign(record: &Recorded, key: &str) -> u64 {
    let processes = record.json["processes"].as_array().expect("processes");
    if key == "frees" { processes.iter().map(|p| number(p, "foreign_frees")).sum() } else { 0 }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let record = Case::target("calls").record();
    for (arguments, status) in [(&["--depth", "0"][..], 2), (&["--by", "size"], 2), (&["--depth", "1001"], 2)] {
        let tree = Run::new(mallow(), record.directory.path()).arg("tree").args(arguments).arg(&record.file).go();
        assert_eq!((tree.status, tree.out().as_str()), (status, ""), "{}", tree.err());
        assert!(tree.err().starts_with("mallow: ") && tree.err().lines().count() == 1, "{}", tree.err());
    }
}
