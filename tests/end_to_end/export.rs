//! `mallow export`, judged by those who read its formats: go tool pprof, inferno, DHAT's viewer, the Firefox Profiler,
//! speedscope's schema, heaptrack_print, heaptrack_gui, DuckDB.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use harness::{Case, Outcome, Recorded, Run, mallow, number, tool, workspace};
use serde_json::{Value, json};

use crate::go_pprof::{Raw, pprof};
use crate::other_tools::{SQL, ran, report};

const SUMS: [&str; 12] = [
    "allocations",
    "allocated_bytes",
    "frees",
    "freed_bytes",
    "temporary",
    "temporary_bytes",
    "peak",
    "peak_bytes",
    "live",
    "live_bytes",
    "reallocs_in_place",
    "reallocs_moved",
];

fn sqlite() -> Recorded {
    Case::new("sqlite3").args([":memory:", SQL]).record()
}

/// A program whose allocations can be counted by hand, with lines.
fn leak(place: &Path) -> PathBuf {
    let source = workspace().join("examples/c/leak.c");
    fs::copy(source, place.join("leak.c")).expect("a copy");
    ran(Run::new(tool("cc"), place).args(["-std=c11", "-O2", "-g", "-o", "leak", "leak.c"]));
    ran(Run::new(mallow(), place).args(["record", "--no-report", "-o", "leak.mallow", "./leak"]));
    place.join("leak.mallow")
}

fn export(place: &Path, recording: &Path, arguments: &[&str]) -> Outcome {
    ran(Run::new(mallow(), place).arg("export").args(arguments).arg(recording))
}

/// A file of the directory that tests/prerequisites fills.
fn judges(name: &str) -> PathBuf {
    // What a virtual environment's python is depends on the name by which it is called.
    let path = workspace().canonicalize().expect("its path").join("build/judges").join(name);
    assert!(path.exists(), "there is no {}: run tests/prerequisites", path.display());
    path
}

fn judge(script: &str) -> PathBuf {
    workspace().join("tests/judges").join(script)
}

fn parsed(outcome: &Outcome) -> Value {
    serde_json::from_slice(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {}{}", outcome.out(), outcome.err()))
}

/// Allocations by the innermost function, whatever it is.
fn innermost(place: &Path, file: &Path, by: &str) -> BTreeMap<String, u64> {
    let run = Run::new(mallow(), place).args(["top", "--raw", "--json", "--limit", "0", "--by", by]).arg(file);
    let key = match by {
        "bytes" => "allocated_bytes",
        "live" => "live_bytes",
        "peak" => "peak_bytes",
        by => by,
    };
    let mut sums = BTreeMap::new();
    for function in parsed(&ran(run))["functions"].as_array().expect("functions") {
        let name = function["function"].as_str().expect("a name").to_owned();
        *sums.entry(name).or_insert(0) += number(&function["self"], key);
    }
    sums.retain(|_, n| *n > 0);
    sums
}

/// Frames without a name have none in most formats, but an address.
fn named(sums: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    sums.iter().filter(|(name, _)| !name.contains("+0x")).map(|(name, n)| (name.clone(), *n)).collect()
}

#[test]
fn pprof_says_what_go_reads() {
    let recorded = sqlite();
    let (place, file) = (recorded.directory.path(), recorded.file.as_path());
    let said = export(place, file, &["--format", "pprof", "-o", "heap.pb.gz"]).err();
    assert!(said.contains("pprof does not carry: times, threads, single events"), "{said}");
    let raw = Raw::of(place, "heap.pb.gz");
    for (theirs, ours) in [
        ("alloc_objects", "allocations"),
        ("alloc_space", "allocated_bytes"),
        ("inuse_objects", "live"),
        ("inuse_space", "live_bytes"),
        ("peak_objects", "peak"),
        ("peak_space", "peak_bytes"),
        ("temporary_objects", "temporary"),
        ("temporary_space", "temporary_bytes"),
        ("reallocs_in_place", "reallocs_in_place"),
        ("reallocs_moved", "reallocs_moved"),
    ] {
        assert_eq!(raw.sum(theirs), number(&recorded.json, ours), "{theirs}");
    }
    let mut flat = BTreeMap::new();
    for (stack, values) in &raw.samples {
        *flat.entry(stack.first().cloned().unwrap_or_default()).or_insert(0) += values[0] as u64;
    }
    flat.retain(|name, n| *n > 0 && !name.is_empty());
    assert_eq!(named(&innermost(place, file, "allocations")), flat);
    // What pprof shows by itself.
    let top = |arguments: &[&str]| pprof(place, arguments);
    let total = format!("of {} total", number(&recorded.json, "allocations"));
    let shown = top(&["-top", "-sample_index=alloc_objects", "heap.pb.gz"]);
    assert!(shown.contains(&total), "{shown}");
    assert!(top(&["-tags", "-sample_index=alloc_objects", "heap.pb.gz"]).contains("sqlite3"));
    // The difference of a profile to itself is nothing.
    let none = top(&["-top", "-sample_index=alloc_objects", "-diff_base", "heap.pb.gz", "heap.pb.gz"]);
    assert!(none.contains("Showing nodes accounting for 0, 0% of"), "{none}");
    // And the way back.
    let back = report(place, "heap.pb.gz");
    for key in SUMS {
        assert_eq!(number(&back, key), number(&recorded.json, key), "{key}");
    }
    assert_eq!(named(&innermost(place, &place.join("heap.pb.gz"), "bytes")), named(&innermost(place, file, "bytes")));
}

/// `pprof -list` shows the lines of the source.
#[test]
fn pprof_lists_lines() {
    let place = harness::directory();
    let file = leak(place.path());
    export(place.path(), &file, &["--format", "pprof", "-o", "leak.pb.gz"]);
    let list = |function: &str, index: &str| pprof(place.path(), &["-list", function, index, "leak.pb.gz"]);
    let scratch = list("^scratch$", "-sample_index=alloc_objects");
    let line = scratch.lines().find(|l| l.contains("free(keep(malloc(32)))")).unwrap_or_else(|| panic!("{scratch}"));
    let words: Vec<_> = line.split_whitespace().collect();
    assert_eq!(words[..3], ["1000", "1000", "35:"], "{line}");
    let config = list("^read_config$", "-sample_index=inuse_space");
    let line = config.lines().find(|l| l.contains("keep(malloc(64))")).unwrap_or_else(|| panic!("{config}"));
    assert!(line.trim_start().starts_with("192B"), "{line}");
}

#[test]
fn folded_stacks_make_a_flame_graph() {
    let recorded = sqlite();
    let (place, file) = (recorded.directory.path(), recorded.file.as_path());
    for (by, key) in [("allocations", "allocations"), ("bytes", "allocated_bytes"), ("live", "live_bytes")] {
        let text = export(place, file, &["--format", "folded", "--by", by]).out();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines.len() + usize::from(by != "allocations"), text.lines().count());
        let mut svg = Vec::new();
        let mut options = inferno::flamegraph::Options::default();
        options.count_name = "units".to_owned();
        options.title.clear();
        inferno::flamegraph::from_lines(&mut options, lines.iter().copied(), &mut svg).expect("a picture");
        let svg = String::from_utf8(svg).expect("text");
        let total: String = number(&recorded.json, key)
            .to_string()
            .as_bytes()
            .rchunks(3)
            .rev()
            .map(|three| String::from_utf8_lossy(three).into_owned())
            .collect::<Vec<_>>()
            .join(",");
        assert!(svg.contains(&format!("<title>all ({total} units, 100%)</title>")), "{by}: {total}");
        fs::write(place.join("stacks"), &text).expect("a file");
        assert_eq!(number(&report(place, "stacks"), key), number(&recorded.json, key));
    }
}

/// DHAT's own viewer and the Firefox Profiler read it, and what valgrind writes has the same fields.
#[test]
fn dhats_viewer_reads_it() {
    let recorded = sqlite();
    let (place, file) = (recorded.directory.path(), recorded.file.as_path());
    export(place, file, &["--format", "dhat", "-o", "out.dhat"]);
    let viewer = "/usr/libexec/valgrind/dh_view.js";
    let run = Run::new(tool("node"), place).arg(judge("dh_view.mjs")).args([viewer, "out.dhat"]);
    let seen = parsed(&ran(run));
    let n = |key| number(&recorded.json, key);
    assert_eq!(seen["total"], json!([n("allocated_bytes"), n("allocations")]));
    assert_eq!(seen["peak"], json!([n("peak_bytes"), n("peak")]));
    assert_eq!(seen["end"], json!([n("live_bytes"), n("live")]));
    assert!(number(&seen, "nodes") > 100 && number(&seen, "lifetimes") > 0, "{seen}");
    let back = report(place, "out.dhat");
    for key in ["allocations", "allocated_bytes", "frees", "freed_bytes", "peak", "peak_bytes", "live", "live_bytes"] {
        assert_eq!(number(&back, key), n(key), "{key}");
    }

    ran(Run::new(tool("valgrind"), place).args([
        "--tool=dhat",
        "--dhat-out-file=their.dhat",
        "sqlite3",
        ":memory:",
        SQL,
    ]));
    let read =
        |name: &str| -> Value { serde_json::from_slice(&fs::read(place.join(name)).expect("a file")).expect("JSON") };
    let (ours, theirs) = (read("out.dhat"), read("their.dhat"));
    let keys = |value: &Value, of_accesses: &[&str]| -> Vec<String> {
        let object = value.as_object().expect("an object");
        object.keys().filter(|key| !of_accesses.contains(&key.as_str())).cloned().collect()
    };
    assert_eq!(keys(&ours, &[]), keys(&theirs, &[]));
    // Accesses, which Mallow does not see, are declared missing.
    assert_eq!(keys(&ours["pps"][0], &[]), keys(&theirs["pps"][0], &["rb", "wb", "acc"]));
    assert_eq!((&ours["bkacc"], &theirs["bkacc"]), (&json!(false), &json!(true)));
    for key in ["dhatFileVersion", "mode", "verb", "bklt"] {
        assert_eq!(ours[key], theirs[key], "{key}");
    }
}

#[test]
fn speedscopes_schema_holds() {
    let recorded = sqlite();
    let (place, file) = (recorded.directory.path(), recorded.file.as_path());
    export(place, file, &["--format", "speedscope", "-o", "out.speedscope.json"]);
    let run = Run::new(tool("node"), place).arg(judge("speedscope.mjs")).arg(judges("")).arg("out.speedscope.json");
    let seen = parsed(&ran(run));
    for (name, key, unit) in [
        ("allocated bytes", "allocated_bytes", "bytes"),
        ("allocations", "allocations", "none"),
        ("bytes live at the peak", "peak_bytes", "bytes"),
        ("live bytes", "live_bytes", "bytes"),
        ("temporary allocations", "temporary", "none"),
    ] {
        let expected = number(&recorded.json, key);
        assert_eq!((number(&seen[name], "total"), number(&seen[name], "end")), (expected, expected), "{name}");
        assert_eq!(seen[name]["unit"], unit, "{name}");
    }
    let flat: BTreeMap<String, u64> = serde_json::from_value(seen["allocations"]["innermost"].clone()).expect("sums");
    assert_eq!(flat, innermost(place, file, "allocations"));
}

#[test]
fn the_firefox_profiler_reads_it() {
    let recorded = sqlite();
    let (place, file) = (recorded.directory.path(), recorded.file.as_path());
    export(place, file, &["--format", "firefox", "-o", "out.json.gz"]);
    let run = Run::new(tool("node"), place).arg(judge("firefox.mjs")).arg(judges("")).arg("out.json.gz");
    let seen = parsed(&ran(run.env("HOME", Some(place))));
    for (name, by, unit) in [
        ("allocations", "allocations", "samples"),
        ("allocated bytes", "bytes", "bytes"),
        ("bytes live at the peak", "peak", "bytes"),
        ("live bytes", "live", "bytes"),
        ("temporary allocations", "temporary", "samples"),
    ] {
        assert_eq!(seen[name]["unit"], unit, "{name}");
        let mut flat: BTreeMap<String, u64> = BTreeMap::new();
        for function in seen[name]["functions"].as_array().expect("functions") {
            let own = function[1].as_u64().expect("a weight");
            *flat.entry(function[0].as_str().expect("a name").to_owned()).or_insert(0) += own;
        }
        flat.retain(|_, n| *n > 0);
        assert_eq!(flat, innermost(place, file, by), "{name}");
    }
}

#[test]
fn heaptrack_print_reads_it() {
    let recorded = sqlite();
    let (place, file) = (recorded.directory.path(), recorded.file.as_path());
    for name in ["out.heaptrack", "out.heaptrack.zst", "out.heaptrack.gz"] {
        export(place, file, &["--format", "heaptrack", "-o", name]);
        let print =
            Run::new(tool("heaptrack_print"), place).args(["--disable-builtin-suppressions", "-F", "stacks", name]);
        let text = ran(print).out();
        let figure = |label: &str| {
            let rest =
                text.lines().find_map(|l| l.strip_prefix(label)).unwrap_or_else(|| panic!("no {label} in {text}"));
            rest.split_whitespace().next().expect("a number").to_owned()
        };
        let n = |key| number(&recorded.json, key);
        let shown =
            |bytes: u64| if bytes <= 1000 { format!("{bytes}B") } else { format!("{:.2}K", bytes as f64 / 1000.0) };
        assert_eq!(figure("calls to allocation functions:"), n("allocations").to_string());
        // heaptrack wants the free to come next: nothing else may have been freed meanwhile.
        let temporary: u64 = figure("temporary memory allocations:").parse().expect("a number");
        assert!(temporary <= n("temporary") && temporary > n("temporary") * 9 / 10, "{temporary}");
        assert_eq!(figure("peak heap memory consumption:"), shown(n("peak_bytes")));
        assert_eq!(figure("total memory leaked:"), shown(n("live_bytes")));
        // By stacks, too: those of its flame graph, and ours.
        let stacks = fs::read_to_string(place.join("stacks")).expect("stacks");
        let mut theirs: Vec<u64> = stacks.lines().filter_map(|l| l.rsplit(' ').next()?.parse().ok()).collect();
        let ours = export(place, file, &["--format", "folded"]).out();
        let mut ours: Vec<u64> = ours.lines().filter_map(|l| l.rsplit(' ').next()?.parse().ok()).collect();
        theirs.sort_unstable();
        ours.sort_unstable();
        assert_eq!(theirs, ours);
        let back = report(place, name);
        assert_eq!(number(&back, "temporary"), temporary);
        for key in SUMS[..10].iter().filter(|key| !key.starts_with("temporary")) {
            assert_eq!(number(&back, key), n(key), "{key}");
        }
    }
}

/// Sites and events, in DuckDB: the events add up to the sites, and both to the report.
#[test]
fn duckdb_reads_tables() {
    let recorded = Case::target("busy").args(["3", "100"]).record();
    let (place, file) = (recorded.directory.path(), recorded.file.as_path());
    let mut answers = Vec::new();
    for format in ["parquet", "csv"] {
        let (sites, events) = (format!("sites.{format}"), format!("events.{format}"));
        export(place, file, &["--format", format, "-o", &sites]);
        export(place, file, &["--format", format, "--table", "events", "-o", &events]);
        let seen =
            parsed(&ran(Run::new(judges("venv/bin/python"), place).arg(judge("tables.py")).args([&sites, &events])));
        let n = |key| number(&recorded.json, key);
        for key in SUMS {
            assert_eq!(number(&seen["sums"], key), n(key), "{format} {key}");
        }
        for key in ["allocations", "allocated_bytes", "frees", "freed_bytes", "reallocs_in_place", "reallocs_moved"] {
            assert_eq!(number(&seen["of_events"], key), n(key), "{format} {key}");
        }
        assert_eq!((number(&seen, "live_by_site"), number(&seen, "allocated_by_site")), (0, 0), "{format}");
        assert_eq!(number(&seen, "peak"), n("peak_bytes"), "{format}");
        let flat: BTreeMap<String, u64> = serde_json::from_value(seen["stacks"].clone()).expect("sums");
        assert_eq!(flat, innermost(place, file, "allocations"), "{format}");
        answers.push(seen);
    }
    // The columns are those of the guide, in Parquet with their types.
    let guide = fs::read_to_string(workspace().join("docs/guide/tables.md")).expect("the guide");
    for (table, title) in [("sites", "## The table of sites"), ("events", "## The table of events")] {
        let part = guide.split(title).nth(1).unwrap_or_else(|| panic!("no {title:?} in the guide"));
        let rows = part.lines().skip_while(|line| !line.starts_with("| `")).take_while(|line| line.starts_with("| `"));
        let documented: Vec<(String, String)> = rows
            .flat_map(|row| {
                let cells: Vec<&str> = row.split('|').map(str::trim).collect();
                let kind = cells[2].to_owned();
                let names: Vec<String> =
                    cells[1].split(',').map(|name| name.trim().trim_matches('`').to_owned()).collect();
                names.into_iter().map(move |name| (name, kind.clone()))
            })
            .collect();
        let columns: Vec<(String, String)> =
            serde_json::from_value(answers[0]["columns"][table].clone()).expect("columns");
        let kind = |sql: &str| match sql {
            "BIGINT" => "number",
            "BOOLEAN" => "truth",
            "VARCHAR" => "text",
            "VARCHAR[]" => "list of texts",
            other => panic!("{other}"),
        };
        let columns: Vec<_> = columns.into_iter().map(|(name, sql)| (name, kind(&sql).to_owned())).collect();
        assert_eq!(columns, documented, "{title}");
    }
}

/// A name is data: nothing in it is computed by a spreadsheet, breaks a line, or makes another stack.
#[test]
fn hostile_names() {
    let place = harness::directory();
    let path = place.path();
    let name = "=cmd|' /C calc'!A0";
    fs::write(path.join("stacks"), format!("main;{name} 3\nmain;@SUM(1) 2\nmain;\u{1b}[2Ja,\"b 1\n")).expect("a file");
    let csv = export(path, Path::new("stacks"), &["--format", "csv"]).out();
    assert!(csv.contains(&format!(",'{name},")), "{csv}");
    assert!(!csv.contains('\u{1b}'));
    assert!(csv.contains(",'@SUM(1),") && csv.contains("a,\"\"b\""), "{csv}");
    let folded = export(path, Path::new("stacks"), &["--format", "folded"]).out();
    assert_eq!(folded.lines().count(), 3, "{folded}");
    assert!(!folded.contains('\u{1b}'));
    for format in ["pprof", "dhat", "speedscope", "firefox", "parquet"] {
        export(path, Path::new("stacks"), &["--format", format, "-o", "out"]);
        assert!(fs::metadata(path.join("out")).expect("a file").len() > 100, "{format}");
    }
}

#[test]
fn what_cannot_be_exported_is_refused_in_one_line() {
    let recorded = Case::new("sh").args(["-c", "sqlite3 :memory: 'select 1'; sqlite3 :memory: 'select 2'"]).record();
    let (place, file) = (recorded.directory.path(), recorded.file.to_str().expect("a plain path"));
    fs::write(place.join("stacks"), "# mallow: allocations\nmain;f 3\n").expect("a file");
    for (arguments, expected) in [
        (&["--format", "heaptrack", file][..], "choose one with --process"),
        (&["--format", "pprof", "--by", "peak", file], "--by is for folded stacks alone"),
        (&["--format", "dhat", "--table", "events", file], "--table is for csv and parquet alone"),
        (&["--format", "csv", "--table", "events", "stacks"], "has no single events; there is --table sites"),
        (&["--format", "heaptrack", "stacks"], "has no single events"),
        (&["--format", "folded", "--by", "peak", "stacks"], "there is --by allocations"),
        (&["--format", "csv", "-o", "other.mallow", file], "is the name of a recording"),
        (&["--format", "csv", "-o", "/no/such/directory/x", file], "cannot write /no/such/directory/x"),
        (&["--format", "csv", "-o", "/dev/full", file], "cannot write /dev/full"),
        (&["--format", "parquet", "-o", "/dev/full", file], "cannot write /dev/full"),
        (&["--format", "pprof", "-o", "/dev/full", file], "cannot write /dev/full"),
        (&["--format", "nonsense", file], "invalid value 'nonsense'"),
    ] {
        let refused = Run::new(mallow(), place).arg("export").args(arguments).go();
        let err = refused.err();
        assert!(refused.status > 0 && refused.status < 3 && err.lines().count() == 1, "{arguments:?}: {err}");
        assert!(err.contains(expected), "{arguments:?}: {err}");
    }
    assert!(!place.join("other.mallow").exists());
    // With one process it can be said.
    let one = ["--format", "heaptrack", "--process", "sh", "-o", "sh.heaptrack", file];
    ran(Run::new(mallow(), place).arg("export").args(one));
    // Whoever reads it may stop at any time.
    let script = format!("{} export --format csv {file} | head -c 10", mallow().display());
    let head = Run::new("/bin/bash", place).args(["-c", &format!("set -o pipefail; {script}")]).go();
    assert!(head.status == 0 || !head.err().contains("cannot write"), "{}", head.err());
}

/// Its graphical view opens the file, and goes on: an index that it does not expect is a crash there.
#[test]
fn heaptrack_gui_reads_it() {
    let recorded = sqlite();
    let (place, file) = (recorded.directory.path(), recorded.file.as_path());
    export(place, file, &["--format", "heaptrack", "-o", "out.heaptrack"]);
    let mut gui = std::process::Command::new(tool("heaptrack_gui"))
        .arg("out.heaptrack")
        .current_dir(place)
        .env("QT_QPA_PLATFORM", "offscreen")
        .env("XDG_RUNTIME_DIR", place)
        .env("HOME", place)
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("heaptrack_gui");
    // It reads twice, in threads of its own. Then all of them wait.
    let patience = Instant::now() + Duration::from_secs(60);
    let mut idle_looks = 0;
    while idle_looks < 20 {
        assert!(Instant::now() < patience, "it does not come to rest");
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(gui.try_wait().expect("its status"), None, "it ended");
        idle_looks = if busy(gui.id()) { 0 } else { idle_looks + 1 };
    }
    gui.kill().expect("it was alive");
    gui.wait().expect("its end");
}

/// Whether a thread of the process runs right now.
fn busy(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").flatten();
    let state = |stat: String| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'));
    threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok()).any(state)
}

/// As SwiftNIO's stackdiff reads it: indented lines are frames, or a number below them where they hold nothing but
/// digits of hexadecimal numbers.
fn dtrace_stacks(text: &str) -> BTreeMap<String, u64> {
    let (mut stacks, mut frames) = (BTreeMap::new(), Vec::new());
    for line in text.lines().filter(|line| !line.is_empty()) {
        assert!(line.starts_with(' '), "{line}");
        let line = line.trim();
        if line.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'x') {
            *stacks.entry(frames.join("\n")).or_insert(0) += line.parse::<u64>().expect("a decimal number");
            frames.clear();
        } else {
            frames.push(line.to_owned());
        }
    }
    assert!(frames.is_empty());
    stacks
}

#[test]
fn dtrace_stacks_are_what_stackdiff_reads() {
    let recorded = sqlite();
    let (place, file) = (recorded.directory.path(), recorded.file.as_path());
    let said = export(place, file, &["--format", "dtrace", "-o", "stacks.txt"]).err();
    assert!(said.contains("dtrace's stacks carry allocations alone"), "{said}");
    let stacks = dtrace_stacks(&fs::read_to_string(place.join("stacks.txt")).expect("the file"));
    assert_eq!(stacks.values().sum::<u64>(), number(&recorded.json, "allocations"));
    assert!(stacks.keys().any(|stack| stack.contains("libsqlite3.so") && stack.contains('`')), "{stacks:?}");
    // Read back it is the same, down to the frames without a name.
    let ours = innermost(place, file, "allocations");
    assert_eq!(innermost(place, &place.join("stacks.txt"), "allocations"), ours);
    // A function that is called like a number is none.
    fs::write(place.join("hostile"), "main;add 1200\nmain;0xfeed 3\nmain;dad;12 7\n").expect("a file");
    export(place, Path::new("hostile"), &["--format", "dtrace", "-o", "hostile.txt"]);
    let stacks = dtrace_stacks(&fs::read_to_string(place.join("hostile.txt")).expect("the file"));
    assert_eq!(stacks.values().copied().collect::<Vec<_>>(), [3, 7, 1200], "{stacks:?}");
    // Bytes are no counts.
    fs::write(place.join("bytes"), "# mallow: allocated_bytes\nmain;f 12\n").expect("a file");
    let refused = Run::new(mallow(), place).args(["export", "--format", "dtrace", "bytes"]).go();
    assert_eq!((refused.status, refused.out().as_str()), (1, ""));
    assert!(refused.err().contains("has no allocations"), "{}", refused.err());
}

/// pprof's comments have room for it.
#[test]
fn what_a_recording_lacks_its_pprof_profile_lacks() {
    let record = Case::new("/usr/bin/python3").args(["-c", "0"]).env("PYTHONMALLOC", "").record();
    let place = record.directory.path();
    let file = record.file.to_str().expect("a plain path");
    let said = ran(Run::new(mallow(), place).args(["export", "--format", "pprof", "-o", "x.pb.gz", file])).err();
    assert_eq!(said.matches("Python allocates objects").count(), 1, "{said}");
    let text = ran(Run::new(mallow(), place).args(["report", "x.pb.gz"])).out();
    assert!(text.starts_with("Incomplete: Python allocates objects of up to 512 bytes in arenas"), "{text}");
}
