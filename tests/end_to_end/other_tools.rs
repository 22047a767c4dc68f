//! Other tools' files, judged by those tools: what they say of a file is what mallow says of it.

use std::fs;
use std::path::Path;

use harness::{Outcome, Run, directory, mallow, number, program, tool, workspace};
use serde_json::Value;

use crate::go_pprof::{Raw, go};

pub const SQL: &str = "create table t(a,b); \
    with recursive c(x) as (select 1 union all select x+1 from c where x<3000) \
    insert into t select x, x*7%1000||'text' from c; select count(*) from t;";

pub fn ran(run: Run) -> Outcome {
    let outcome = run.go();
    assert_eq!(outcome.status, 0, "{}{}", outcome.out(), outcome.err());
    outcome
}

/// What `mallow report --json` says of a file.
pub fn report(place: &Path, file: &str) -> Value {
    let outcome = ran(Run::new(mallow(), place).args(["report", "--json", "--limit", "0", file]));
    serde_json::from_slice(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {}", outcome.out()))
}

/// The first number behind `label` in the line that has it.
fn figure(text: &str, label: &str) -> String {
    let rest = text.lines().find_map(|l| l.split_once(label)).unwrap_or_else(|| panic!("no {label:?} in {text}")).1;
    rest.split_whitespace().next().unwrap_or_default().trim_end_matches(',').to_owned()
}

/// `251.45K` as bytes, and how much rounding may have taken.
fn rounded(text: &str) -> (f64, f64) {
    let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
    let factor = match &text[digits.len()..] {
        "B" => return (digits.parse().expect("bytes"), 0.5),
        "K" => 1e3,
        "M" => 1e6,
        unit => panic!("{unit} in {text}"),
    };
    (digits.parse::<f64>().expect("a number") * factor, 0.0051 * factor)
}

fn agrees(ours: u64, theirs: &str) {
    let (value, error) = rounded(theirs);
    assert!((ours as f64 - value).abs() <= error, "{ours} and {theirs}");
}

/// The interpreted file, plain, in zstd and in gzip, and the raw one of another run.
#[test]
fn heaptracks_files() {
    let place = directory();
    let heaptrack = |arguments: &[&str]| {
        ran(Run::new(tool("heaptrack"), place.path()).args(arguments).args(["sqlite3", ":memory:", SQL]))
    };
    let said = heaptrack(&["-o", "data"]);
    let said = said.out() + &said.err();
    let print = ran(Run::new(tool("heaptrack_print"), place.path()).args(["-F", "stacks", "data.zst"])).out();
    let json = report(place.path(), "data.zst");
    assert_eq!(number(&json, "allocations").to_string(), figure(&print, "calls to allocation functions:"));
    agrees(number(&json, "peak_bytes"), &figure(&print, "peak heap memory consumption:"));
    // heaptrack_print leaves out leaks that it knows.
    let (printed, error) = rounded(&figure(&print, "total memory leaked:"));
    let (suppressed, more) = rounded(&figure(&print, "suppressed leaks:"));
    assert!((number(&json, "live_bytes") as f64 - printed - suppressed).abs() <= error + more, "{json:#}");
    assert_eq!(number(&json, "live").to_string(), figure(&said, "leaked allocations:"));
    // heaptrack_print takes a free that follows a free for that of the first kind of block.
    let temporary = figure(&print, "temporary memory allocations:").parse::<u64>().expect("a number");
    assert!(number(&json, "temporary").abs_diff(temporary) <= 3, "{json:#}");
    assert_eq!(json["format"], "heaptrack");
    assert!(json.get("reallocs_moved").is_none() && json.get("processes").is_none(), "{json:#}");

    let data = fs::read(place.path().join("data.zst")).expect("the data");
    let mut unpacked = Run::new(tool("zstd"), place.path()).args(["-dc", "data.zst"]).go();
    assert!(!data.is_empty() && unpacked.status == 0);
    fs::write(place.path().join("plain"), std::mem::take(&mut unpacked.stdout)).expect("a file");
    ran(Run::new(tool("gzip"), place.path()).args(["-k", "plain"]));
    assert_eq!(report(place.path(), "plain"), json);
    assert_eq!(report(place.path(), "plain.gz"), json);

    let printed = report(place.path(), "stacks");
    assert_eq!(number(&printed, "allocations"), number(&json, "allocations"));
    fs::write(place.path().join("printed"), &print).expect("a file");
    let printed = report(place.path(), "printed");
    assert_eq!(number(&printed, "allocations"), number(&json, "allocations"));
    agrees(number(&json, "peak_bytes"), &figure(&print, "peak heap memory consumption:"));

    heaptrack(&["--raw", "-o", "raw"]);
    let raw = report(place.path(), "raw.raw.zst");
    for key in ["allocations", "allocated_bytes", "frees", "live", "live_bytes", "peak_bytes"] {
        assert_eq!(number(&raw, key), number(&json, key), "{key}");
    }
    assert_eq!(places(&raw, "allocations")[0].0, places(&json, "allocations")[0].0);
}

/// Functions of the places by a measure, and that measure.
fn places(json: &Value, key: &str) -> Vec<(String, u64)> {
    let list = json["largest"].as_array().into_iter().flatten().find(|list| list["by"] == key).expect("the list");
    let place = |place: &Value| (place["function"].as_str().unwrap_or("").to_owned(), number(place, key));
    list["largest"].as_array().into_iter().flatten().map(place).collect()
}

#[test]
fn dhats_files() {
    let place = directory();
    let run = Run::new(tool("valgrind"), place.path()).args([
        "--tool=dhat",
        "--dhat-out-file=dhat",
        "sqlite3",
        ":memory:",
        SQL,
    ]);
    let said = ran(run).err();
    let json = report(place.path(), "dhat");
    for (label, bytes, blocks) in [
        ("Total:", "allocated_bytes", "allocations"),
        ("At t-gmax:", "peak_bytes", "peak"),
        ("At t-end:", "live_bytes", "live"),
    ] {
        let line = said.lines().find(|l| l.contains(label)).unwrap_or_else(|| panic!("no {label} in {said}"));
        let numbers: Vec<u64> = line
            .split(label)
            .nth(1)
            .into_iter()
            .flat_map(str::split_whitespace)
            .filter_map(|w| w.replace(',', "").parse().ok())
            .collect();
        assert_eq!(numbers[..2], [number(&json, bytes), number(&json, blocks)], "{line}");
    }
    assert!(json.get("temporary").is_none());
}

#[test]
fn massifs_files() {
    let place = directory();
    ran(Run::new(tool("valgrind"), place.path()).args([
        "--tool=massif",
        "--massif-out-file=massif",
        "sqlite3",
        ":memory:",
        SQL,
    ]));
    let print = ran(Run::new(tool("ms_print"), place.path()).arg("massif")).out();
    let json = report(place.path(), "massif");
    // The table has a row for each snapshot: number, time, total, heap, extra, stacks.
    let rows: Vec<u64> = print
        .lines()
        .map(|line| line.split_whitespace().map(|w| w.replace(',', "").parse::<u64>()).collect::<Vec<_>>())
        .filter(|words| words.len() == 6 && words.iter().all(Result::is_ok))
        .filter_map(|words| words[3].clone().ok())
        .collect();
    assert_eq!(rows.iter().max(), Some(&number(&json, "peak_bytes")), "{print}");
    assert_eq!(rows.last(), Some(&number(&json, "live_bytes")), "{print}");
}

/// As gperftools' own reader and Go's add it up.
#[test]
fn heap_profiles_of_gperftools() {
    let place = directory();
    let library = library("libtcmalloc.so.4");
    let run = Run::new(tool("sqlite3"), place.path()).args([":memory:", SQL]);
    ran(run.env("LD_PRELOAD", Some(&library)).env("HEAPPROFILE", Some("heap")));
    let sqlite = tool("sqlite3");
    let json = report(place.path(), "heap.0001.heap");
    for (option, key) in [("--alloc_objects", "allocations"), ("--inuse_objects", "live")] {
        let run =
            Run::new(tool("google-pprof"), place.path()).args(["--text", option]).arg(&sqlite).arg("heap.0001.heap");
        assert_eq!(figure(&ran(run).out(), "Total:"), number(&json, key).to_string(), "{option}");
    }
    assert_eq!(number(&json, "frees"), number(&json, "allocations") - number(&json, "live"));
    let raw = Raw::of(place.path(), "heap.0001.heap");
    assert_eq!(raw.sum("alloc_objects"), number(&json, "allocations"));
    assert_eq!(raw.sum("alloc_space"), number(&json, "allocated_bytes"));
    assert_eq!(raw.sum("inuse_space"), number(&json, "live_bytes"));
    assert!(places(&json, "allocations").iter().any(|(f, _)| f.starts_with("sqlite3")), "names are looked up");
}

/// As jeprof scales samples up.
#[test]
fn heap_profiles_of_jemalloc() {
    let place = directory();
    let library = library("libjemalloc.so.2");
    let sqlite = tool("sqlite3");
    for (sample, exact) in [("lg_prof_sample:0", true), ("lg_prof_sample:10", false)] {
        let options = format!("prof:true,prof_final:true,prof_accum:true,prof_prefix:{sample},{sample}");
        let run = Run::new(&sqlite, place.path()).args([":memory:", SQL]);
        ran(run.env("LD_PRELOAD", Some(&library)).env("MALLOC_CONF", Some(&options)));
        let files = fs::read_dir(place.path()).expect("the place").flatten().map(|e| e.file_name());
        let file = files.map(|n| n.to_string_lossy().into_owned()).find(|n| n.starts_with(sample)).expect("a profile");
        let json = report(place.path(), &file);
        for (option, key) in
            [("--alloc_objects", "allocations"), ("--alloc_space", "allocated_bytes"), ("--inuse_space", "live_bytes")]
        {
            let run =
                Run::new(tool("jeprof"), place.path()).args(["--text", "--show_bytes", option]).arg(&sqlite).arg(&file);
            let theirs: u64 = figure(&ran(run).out(), "Total:").parse().expect("a number");
            // jeprof cuts off what is behind the point, site by site.
            let sites = number(&json, "sites");
            assert!(
                theirs.abs_diff(number(&json, key)) <= if exact { 0 } else { 2 * sites + 2 },
                "{option}: {theirs} {json:#}"
            );
        }
        assert_eq!(json.get("sampled_bytes").is_none(), exact);
    }
}

fn library(name: &str) -> std::path::PathBuf {
    let places = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let found = places.iter().map(|place| Path::new(place).join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("these tests need {name}: tests/prerequisites lists what to install"))
}

/// `go test -memprofile`, as `go tool pprof` adds it up, in all and by function.
#[test]
fn gos_profiles() {
    let place = directory();
    fs::write(place.path().join("go.mod"), "module example.com/words\n\ngo 1.18\n").expect("a file");
    let source = workspace().join("tests/targets/words_test.go");
    fs::copy(source, place.path().join("words_test.go")).expect("a copy");
    let go = go(place.path()).args(["test", "-memprofile", "mem.out", "-memprofilerate", "1", "."]);
    ran(go.env("PROFILE", Some(place.path().join("heap.out"))));
    let json = report(place.path(), "mem.out");
    let raw = Raw::of(place.path(), "mem.out");
    for (theirs, ours) in [
        ("alloc_objects", "allocations"),
        ("alloc_space", "allocated_bytes"),
        ("inuse_objects", "live"),
        ("inuse_space", "live_bytes"),
    ] {
        assert_eq!(raw.sum(theirs), number(&json, ours), "{theirs}");
    }
    let scratch: u64 =
        raw.samples.iter().filter(|(s, _)| s[0] == "example.com/words.scratch").map(|(_, v)| v[0] as u64).sum();
    assert!(places(&json, "allocations").contains(&("example.com/words.scratch".to_owned(), scratch)));
    assert!(scratch >= 1000);
    let top = ran(Run::new(mallow(), place.path()).args(["top", "--json", "--by", "bytes", "mem.out"]));
    let top: Value = serde_json::from_slice(&top.stdout).expect("JSON");
    assert!(top["functions"][0]["self"].get("peak_bytes").is_none(), "{top:#}");
}

/// A pipe is a file too, and each view reads it or says what it lacks.
#[test]
fn views_of_other_tools_files() {
    let place = directory();
    ran(Run::new(tool("heaptrack"), place.path()).args(["-o", "data"]).arg(program("busy")).args(["2", "20"]));
    let script = format!("zstd -dc data.zst | {} top /dev/stdin", mallow().display());
    let piped = ran(Run::new("/bin/sh", place.path()).args(["-c", &script])).out();
    let direct = ran(Run::new(mallow(), place.path()).args(["top", "data.zst"])).out();
    assert_eq!(piped, direct);
    fs::write(place.path().join("counted"), "\n    liba.so`f+0x1\n    app`main+0x2\n   42\n").expect("a file");
    ran(Run::new(mallow(), place.path()).args(["top", "counted"]));
    for arguments in [&["leaks", "counted"][..], &["top", "--by", "peak", "counted"]] {
        let refused = Run::new(mallow(), place.path()).args(arguments).go();
        let err = refused.err();
        assert!(refused.status == 1 && err.lines().count() == 1, "{err}");
        assert!(err.contains("this dtrace profile has no"), "{err}");
    }
}
