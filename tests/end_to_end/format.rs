//! docs/FORMAT.md says what a recording holds: a reader that was written from it alone finds what `mallow` finds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use harness::{Case, Outcome, Recorded, Run, mallow, number, program, workspace};
use serde_json::Value;

/// The reader of `tests/readers`, with these arguments.
fn reader(place: &Path, arguments: &[PathBuf]) -> Outcome {
    let script = workspace().join("tests/readers/check_format.py").canonicalize().expect("the reader");
    let run = Run::new("/usr/bin/python3", place).arg("-B").arg(script).args(arguments);
    let outcome = run.go();
    assert_eq!((outcome.status, outcome.err().as_str()), (0, ""));
    outcome
}

/// What it finds in each of the files.
fn figures(place: &Path, files: &[PathBuf]) -> Vec<Value> {
    let out = reader(place, files).out();
    let figures: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(figures.len(), files.len());
    figures
}

fn view(place: &Path, arguments: &[&str], file: &Path) -> Outcome {
    Run::new(mallow(), place).args(arguments).arg(file).go()
}

fn json(place: &Path, arguments: &[&str], file: &Path) -> Value {
    let outcome = view(place, arguments, file);
    assert_eq!(outcome.status, 0, "{arguments:?}: {}", outcome.err());
    serde_json::from_str(&outcome.out()).expect("JSON")
}

/// All that the reader says is what mallow says. Mallow may say more.
fn same(what: &str, reader: &Value, mallow: &Value) {
    match (reader, mallow) {
        (Value::Object(all), Value::Object(_)) => {
            all.iter().for_each(|(key, value)| same(&format!("{what}.{key}"), value, &mallow[key]));
        }
        (Value::Array(all), Value::Array(others)) => {
            assert_eq!(all.len(), others.len(), "{what}: {reader:#}\n{mallow:#}");
            all.iter().zip(others).for_each(|(value, other)| same(what, value, other));
        }
        _ => assert_eq!(reader, mallow, "{what}"),
    }
}

/// Rows by what they are called.
fn by(rows: &Value, name: impl Fn(&Value) -> String) -> BTreeMap<String, Value> {
    let rows = rows.as_array().expect("rows");
    let named: BTreeMap<String, Value> = rows.iter().map(|row| (name(row), row.clone())).collect();
    assert_eq!(named.len(), rows.len(), "two rows of one name");
    named
}

/// The frames of a leak as the other reader has them. Those that were inlined have no address of their own.
fn frames(leak: &Value, named: bool) -> Vec<Value> {
    let keys: &[&str] = if named { &["module", "function", "file", "line"] } else { &["module", "address"] };
    let frames = leak["frames"].as_array().expect("frames").iter().filter(|f| named || f["inlined"] == false);
    frames.map(|f| keys.iter().map(|key| f[key].clone()).collect()).collect::<Vec<Value>>()
}

/// `pool`: blocks that libstdc++ keeps for itself, which mallow counts and does not list.
fn same_leaks(what: &str, reader: &Value, mallow: &Value, pool: u64, named: bool) {
    let theirs = by(reader, |leak| leak["frames"].to_string());
    let ours = by(mallow, |leak| Value::from(frames(leak, named)).to_string());
    if named {
        assert_eq!(theirs.len(), ours.len() + pool as usize, "{what}");
    }
    for (stack, leak) in ours {
        let found = theirs.get(&stack).unwrap_or_else(|| panic!("{what}: nobody else knows of {stack}"));
        // Mallow adds up calls of one line, which have several addresses.
        for key in ["live", "live_bytes"] {
            let (reported, found) = (number(&leak, key), number(found, key));
            assert!(
                reported == found || !named && reported > found,
                "{what}: {key} of {stack}: {reported} and {found}"
            );
        }
    }
    let all = |rows: &Value| rows.as_array().map_or(0, |rows| rows.iter().map(|row| number(row, "live")).sum::<u64>());
    assert_eq!(all(reader), all(mallow) + pool, "{what}");
}

/// `regions`: views show stacks without the functions that run a measured region.
fn agree(case: &Case, record: &Recorded, regions: bool) {
    let place = record.directory.path();
    let packed = place.join("packed.mallow");
    let outcome = Run::new(mallow(), place).arg("pack").arg(&record.file).arg("-o").arg(&packed).go();
    assert_eq!(outcome.status, 0, "{}", outcome.err());
    let files = [record.file.clone(), packed];
    let both = figures(place, &files);
    for (found, file) in both.iter().zip(&files) {
        let what = format!("{}: {case:?}", file.display());
        assert_eq!(found["why"], Value::Null, "{what}");
        assert_eq!(found["contradictions"], Value::Array(Vec::new()), "{what}");
        same(&what, &found["report"], &json(place, &["report", "--json"], file));
        let leaks = json(place, &["leaks", "--json", "--no-built-in"], file);
        if !regions {
            let pool = leaks["emergency_pool"]["live"].as_u64().unwrap_or(0);
            same_leaks(&what, &found["leaks"], &leaks["sites"], pool, *file != record.file);
        }
    }
    // Names are in the packed one alone; every stack counts in them.
    assert_eq!(both[0]["top"], Value::Null);
    let top = json(place, &["top", "--raw", "--cum", "--json"], &files[1]);
    let name = |row: &Value| {
        let file = if row["file"].is_null() { &row["module"] } else { &row["file"] };
        format!("{} {file}", row["function"])
    };
    let (mut theirs, ours) = (by(&both[1]["top"], name), by(&top["functions"], name));
    if regions {
        theirs.retain(|_, row| !row["file"].as_str().is_some_and(|file| file.contains("/preload/")));
    }
    assert_eq!(theirs.len(), ours.len(), "{case:?}");
    for (function, row) in theirs {
        same(&function, &row["self"], &ours[&function]["self"]);
        same(&function, &row["cum"], &ours[&function]["cum"]);
    }
    for key in ["report", "regions"] {
        assert_eq!(both[0][key], both[1][key], "{key}: {case:?}");
    }
}

const SQL: &str = "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<9000) \
    insert into t select x, x*7%1000||'text' from c; create index i on t(b); select count(*) from t;";

const PYTHON: &str = "import threading, json, os
def work():
    for i in range(20): json.loads(json.dumps(list(range(i))))
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
child = os.fork()
work()
if child == 0: os._exit(0)
os.wait()";

#[test]
fn another_reader_finds_the_same() {
    for case in [
        Case::target("exact_new"),
        Case::target("libc_allocates"),
        Case::target("habits").arg("habits"),
        Case::target("spawn"),
        Case::target("busy").args(["6", "20"]),
        Case::target("threads").args(["handover", "9"]),
        Case::new("sqlite3").args([":memory:", SQL]),
        Case::new("/usr/bin/python3").args(["-S", "-c", PYTHON]).env("PYTHONMALLOC", "malloc"),
        Case::new("/bin/sh").args(["-c", "ls / | sort | wc -l; exec sh -c 'exec ls /'"]),
    ] {
        agree(&case, &case.record(), false);
    }
}

#[test]
fn another_reader_finds_measured_regions() {
    let case = Case::new(program("gate")).args(["leak", "threads", "steady"]);
    let case = case.option("--runs").option("2").option("--warmup").option("1");
    let record = case.record();
    agree(&case, &record, true);
    let found = figures(record.directory.path(), std::slice::from_ref(&record.file));
    assert!(found[0]["regions"].as_u64() > Some(2), "{}", found[0]["regions"]);
}

/// What is missing or changed, and where, is noticed wherever it is.
#[test]
fn another_reader_notices_each_byte() {
    // Each of many processes would have footprints of its own.
    for case in [Case::target("calls"), Case::target("spawn").option("--no-rss")] {
        let record = case.record();
        reader(record.directory.path(), &["--each-byte".into(), record.file]);
    }
}

/// Of a recording that was cut anywhere, both say the same.
#[test]
fn another_reader_finds_the_same_up_to_a_cut() {
    // Its last stop in a while is longer than what fits into one block of events.
    let record = Case::target("busy").args(["2", "250"]).record();
    let place = record.directory.path();
    let whole = fs::read(&record.file).expect("the recording");
    let lengths: Vec<usize> = (0..24)
        .map(|n| n * whole.len() / 24)
        .chain([1, 15, 16, 30, whole.len() - 17, whole.len() - 16, whole.len() - 1])
        .collect();
    let files: Vec<PathBuf> = lengths.iter().map(|length| place.join(format!("cut-{length}"))).collect();
    for (length, file) in lengths.iter().zip(&files) {
        fs::write(file, &whole[..*length]).expect("a copy");
    }
    let mut counted = std::collections::BTreeSet::new();
    for (found, file) in figures(place, &files).iter().zip(&files) {
        let what = file.display().to_string();
        let report = view(place, &["report", "--json"], file);
        if found["refused"].is_string() {
            assert_eq!((report.status, report.err().lines().count()), (1, 1), "{what}: {}", report.err());
            continue;
        }
        assert!(found["why"].is_string(), "{what}");
        assert_eq!(report.status, 0, "{what}: {}", report.err());
        let report: Value = serde_json::from_str(&report.out()).expect("JSON");
        assert!(report["cut_short"].is_string(), "{what}");
        same(&what, &found["report"], &report);
        counted.insert(found["report"]["allocations"].as_u64());
    }
    assert!(counted.len() > 2, "recordings of one block alone are not cut within their events: {counted:?}");
}

/// Where pages, live blocks and what allocators keep of footprints are, which no report and no timeline reads.
fn heap_maps(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let (mut at, mut found) = (16, Vec::new());
    while at + 28 < bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().expect("a length")) as usize;
        if matches!(bytes[at], 33 | 36 | 39) {
            found.push(at + 8..at + 12 + length);
        }
        at += 12 + length;
    }
    found
}

/// A changed byte is noticed by one of the views, which read different blocks, and by the other reader at the same
/// place.
#[test]
fn both_readers_notice_a_changed_byte() {
    let record = Case::target("calls").record();
    let place = record.directory.path();
    let whole = fs::read(&record.file).expect("the recording");
    let file = place.join("changed");
    let unread = heap_maps(&whole);
    assert!(!unread.is_empty());
    for at in (0..whole.len()).step_by(whole.len() / 40).chain(whole.len() - 17..whole.len()) {
        if unread.iter().any(|range| range.contains(&at)) {
            continue;
        }
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&file, bytes).expect("a copy");
        let said: Vec<Outcome> =
            [["report", "--json"], ["timeline", "--json"]].iter().map(|v| view(place, v, &file)).collect();
        let refused = said.iter().any(|view| view.status == 1 && view.err().lines().count() == 1);
        let cut = said[0].out().contains("\"cut_short\": \"");
        assert!(refused || cut, "byte {at} changed: {}", said[0].err());
    }
}
