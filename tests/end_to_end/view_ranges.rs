//! Ranges of time of the page, beside `--time` of the command line.

use std::collections::BTreeMap;

use harness::{Case, Recorded, Run, Viewer, directory, mallow, number, program, sql};
use serde_json::Value;

/// What a range has of each count; the other counts are no sums over blocks.
const COUNTS: [&str; 8] =
    ["allocations", "allocated_bytes", "frees", "freed_bytes", "temporary", "temporary_bytes", "live", "live_bytes"];

type Rows = BTreeMap<String, Vec<(u64, u64)>>;

/// Self and cum of each function, and the totals.
fn rows(top: &Value) -> Rows {
    let counts = |of: &Value, other: &Value| COUNTS.map(|key| (number(of, key), number(other, key))).to_vec();
    let functions = top["functions"].as_array().expect("functions").iter();
    let mut rows: Rows = functions
        .map(|f| (format!("{} {} {}", f["function"], f["file"], f["module"]), counts(&f["self"], &f["cum"])))
        .collect();
    rows.insert("totals".to_owned(), counts(top, top));
    rows
}

/// `mallow top` of a range; no rows where nothing was selected.
fn printed(record: &Recorded, when: &str, from: u64, to: u64) -> Rows {
    let time = format!("{from}ms..{to}ms");
    let view = record.view(&["top", "--raw", "--json", "--time", &time, "--when", when]);
    match view.status {
        0 => rows(&serde_json::from_slice(&view.stdout).expect("JSON")),
        _ => {
            assert!(view.err().contains("no block matches"), "{time} {when}: {}", view.err());
            Rows::new()
        }
    }
}

fn answered(viewer: &Viewer, what: &str, from: u64, to: u64) -> Rows {
    let answer = viewer.get(&format!("/api/top?raw=1&from={from}&to={to}&what={what}"));
    assert_eq!(answer.status, 200, "{from} {to} {what}: {}", answer.text());
    let rows = rows(&answer.json());
    if rows["totals"][0] == (0, 0) { Rows::new() } else { rows }
}

fn totals(rows: &Rows) -> [u64; 2] {
    rows.get("totals").map_or([0; 2], |totals| [totals[0].0, totals[1].0])
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().expect("a list").iter().map(|n| n.as_u64().expect("a number")).collect()
}

/// Ranges of all lengths: some parts of the whole.
fn ranges(boundaries: &[u64]) -> Vec<(u64, u64)> {
    let last = boundaries.len() - 1;
    let at = |part: usize| boundaries[last * part / 12];
    let parts = [(0, 12), (0, 4), (3, 5), (4, 11), (7, 8), (11, 12)];
    let ranges =
        parts.iter().map(|&(from, to)| (at(from), at(to))).chain([(boundaries[last / 2], boundaries[last / 2 + 1])]);
    ranges.filter(|(from, to)| from < to).collect()
}

fn ranges_are_those_of_the_command_line(record: &Recorded) {
    let viewer = Viewer::start(record.directory.path(), &[record.file.to_str().expect("a path")]);
    let time = viewer.time();
    assert_eq!((&time["state"], &time["step"]), (&"ready".into(), &1.into()));
    let boundaries = numbers(&time["boundaries"]);
    for (from, to) in ranges(&boundaries) {
        for what in ["allocated", "freed"] {
            assert_eq!(answered(&viewer, what, from, to), printed(record, what, from, to), "{what} {from}..{to}");
        }
        // Within the range and live at its end, in two ways.
        let left = totals(&answered(&viewer, "left", from, to));
        let live = [0, from, to].map(|at| totals(&answered(&viewer, "live", at, at)));
        let older = totals(&answered(&viewer, "left", 0, from));
        assert_eq!((live[0], live[1]), ([0; 2], older), "{from}..{to}");
        let all = totals(&answered(&viewer, "left", 0, to));
        assert!(all == live[2] && left[0] <= all[0] && left[1] <= all[1], "{from}..{to}: {all:?} {live:?} {left:?}");
        let index = boundaries.binary_search(&to).expect("a boundary");
        assert_eq!(numbers(&time["live_at"])[index], live[2][1], "{from}..{to}");
    }
    let sum = |series: &str| numbers(&time[series]).iter().sum::<u64>();
    assert_eq!(sum("allocations"), number(&record.json, "allocations"));
    assert_eq!(sum("allocated_bytes"), number(&record.json, "allocated_bytes"));
    assert_eq!(sum("freed_bytes"), number(&record.json, "freed_bytes"));
    assert_eq!(numbers(&time["live"]).iter().max(), Some(&number(&record.json, "peak_bytes")));
    assert_eq!(numbers(&time["live_at"]).last(), Some(&number(&record.view_json(&["timeline"]), "at_end")));
}

#[test]
fn ranges_of_one_thread_are_those_of_the_command_line() {
    let record = Case::sqlite(20_000).record();
    ranges_are_those_of_the_command_line(&record);
    // What was live at a moment is what was live within the millisecond before, but for what was freed in it.
    let viewer = Viewer::start(record.directory.path(), &[record.file.to_str().expect("a path")]);
    // After the process's end the page shows what it left, the command line nothing.
    let end = number(&record.json["processes"][0], "end_ms").min(number(&record.json, "duration_ms"));
    for (_, to) in ranges(&numbers(&viewer.time()["boundaries"])).into_iter().skip(1).filter(|&(_, to)| to <= end) {
        let [before, freed] = ["live", "freed"].map(|when| totals(&printed(&record, when, to - 1, to)));
        let live = totals(&answered(&viewer, "live", to, to));
        assert_eq!(live, [before[0] - freed[0], before[1] - freed[1]], "{to}");
    }
}

#[test]
fn ranges_of_threads_and_processes_are_those_of_the_command_line() {
    let sqlite = format!("sqlite3 :memory: \"{}\"", sql(3000));
    let processes = Case::new("sh").args(["-c", &format!("{sqlite} & {sqlite}; wait")]);
    for case in [Case::target("busy").args(["4", "300"]), processes] {
        ranges_are_those_of_the_command_line(&case.record());
    }
}

/// The marks of a program that measures its regions.
#[test]
fn runs_of_regions_have_their_times() {
    let place = directory();
    let recorded = ["record", "--no-report", "-o", "r.mallow", "--runs", "2", "--warmup", "1", "--"];
    let done = Run::new(mallow(), place.path()).args(recorded).arg(program("gate")).args(["leak", "steady"]).go();
    assert_eq!(done.status, 0, "{}", done.err());
    let viewer = Viewer::start(place.path(), &["r.mallow"]);
    let spans = viewer.time()["regions"].clone();
    let spans = spans.as_array().expect("regions");
    let about = viewer.get("/api/about").json();
    let regions = about["regions"].as_array().expect("regions");
    assert!(regions.len() == 6 && spans.len() == 6, "{regions:?} {spans:?}");
    let duration = number(&about, "duration_ms");
    for span in spans {
        assert!(number(span, "begin_ms") <= number(span, "end_ms") && number(span, "end_ms") <= duration, "{span}");
        assert!(regions.iter().any(|region| region["number"] == span["number"]), "{span}");
    }
}
