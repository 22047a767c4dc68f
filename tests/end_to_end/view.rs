//! `mallow view`: each document of the page is what the command line prints.

use std::path::Path;

use harness::{Case, Outcome, Recorded, Run, Viewer, directory, escaped, mallow, number};
use serde_json::Value;

/// Numbers that are the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % most as u64) as usize
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len())]
    }
}

const MEASURES: [&str; 6] = ["allocations", "bytes", "peak", "live", "temporary", "most"];
const PATTERNS: [&str; 8] = ["main", "^left$", "shared|fresh", "calls.c", "no such", "(", "a b&c=d%+#", ""];

/// Choices of a view, as names and values; None for a value of a flag that has none.
fn choices(chance: &mut Chance, view: &str) -> Vec<(String, Option<String>)> {
    let mut all: Vec<(&str, Option<String>)> = Vec::new();
    let by = match view {
        "top" | "tree" | "list" => &MEASURES[..],
        "timeline" => &["live-bytes", "live", "allocations"],
        "sizes" | "lifetimes" => &["blocks", "bytes"],
        _ => &[],
    };
    let mut maybe = |name, one_in, value: &dyn Fn(&mut Chance) -> Option<String>| {
        if chance.below(one_in) == 0 {
            all.push((name, value(chance)));
        }
    };
    if !by.is_empty() {
        maybe("by", 2, &|chance| Some(chance.of(by).to_owned()));
    }
    if !["sizes", "lifetimes"].contains(&view) {
        maybe("limit", 3, &|chance| Some(chance.of(&["0", "1", "2", "7", "1000", "-1"]).to_owned()));
    }
    match view {
        "top" => maybe("cum", 2, &|_| None),
        "tree" => {
            maybe("callers", 2, &|_| None);
            maybe("depth", 4, &|chance| Some(chance.of(&["1", "2", "60", "0"]).to_owned()));
        }
        "timeline" => {
            maybe("at", 4, &|chance| Some(chance.of(&["peak", "end", "50%", "1h"]).to_owned()));
            maybe("points", 4, &|chance| Some(chance.of(&["1", "10", "2000", "9999"]).to_owned()));
        }
        "leaks" => maybe("only", 4, &|chance| Some(chance.of(&["lost", "reachable", "all", "gone"]).to_owned())),
        "rss" => maybe("at", 3, &|chance| Some(chance.of(&["highest", "end", "50%", "peak"]).to_owned())),
        _ => {}
    }
    if ["top", "tree", "list"].contains(&view) {
        maybe("raw", 3, &|_| None);
    }
    if !["rss", "sizes", "lifetimes", "threads"].contains(&view) {
        maybe("min", 6, &|chance| Some(chance.of(&["10%", "2", "1k", "101%"]).to_owned()));
    }
    if view != "rss" {
        maybe("focus", 5, &|chance| Some(chance.of(&PATTERNS).to_owned()));
        maybe("ignore", 6, &|chance| Some(chance.of(&PATTERNS).to_owned()));
        maybe("hide", 6, &|chance| Some(chance.of(&PATTERNS).to_owned()));
        maybe("size", 6, &|chance| Some(chance.of(&["1..", "..100", "64", "1Ti..", "b"]).to_owned()));
        maybe("time", 6, &|chance| Some(chance.of(&["..50%", "50%..", "10%..20%", "1h..2h"]).to_owned()));
        maybe("lifetime", 8, &|chance| Some(chance.of(&["..1ms", "1ms..", "1h.."]).to_owned()));
        maybe("process", 8, &|chance| Some(chance.of(&["calls", "sqlite3", "no-such", "1"]).to_owned()));
    }
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn printed(place: &Path, view: &str, choices: &[(String, Option<String>)], operands: &[&str]) -> Outcome {
    let flags = choices.iter().map(|(name, value)| match value {
        Some(value) => format!("--{name}={value}"),
        None => format!("--{name}"),
    });
    Run::new(mallow(), place).args([view, "--json"]).args(flags).args(operands).go()
}

/// Asks for one view, and compares. True where there was something to show.
fn is_the_same(viewer: &Viewer, place: &Path, view: &str, choices: &[(String, Option<String>)], file: &str) -> bool {
    let function = ".";
    let mut query: Vec<String> = choices
        .iter()
        .map(|(name, value)| format!("{name}={}", value.as_deref().map_or("1".to_owned(), escaped)))
        .collect();
    let mut operands = vec![file];
    if view == "list" {
        query.push(format!("function={}", escaped(function)));
        operands.insert(0, function);
    }
    let path = format!("/api/{view}?{}", query.join("&"));
    let (answer, printed) = (viewer.get(&path), printed(place, view, choices, &operands));
    if printed.status == 0 {
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        assert!(answer.body == printed.stdout, "{path}: {}\n{}", answer.text(), printed.out());
        return true;
    }
    // The same mistake, in the same words.
    assert!((400..500).contains(&answer.status), "{path}: {}", answer.text());
    let error = answer.json()["error"].as_str().expect("an error").to_owned();
    let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = error.split(';').next().unwrap_or_default();
    assert!(printed.err().contains(first), "{path}: {error}\n{}", printed.err());
    false
}

const VIEWS: [&str; 10] =
    ["report", "top", "tree", "list", "leaks", "timeline", "sizes", "lifetimes", "threads", "rss"];

fn all_views_are_the_same(record: &Recorded, seed: u64, rounds: usize) {
    let place = record.directory.path();
    let file = record.file.file_name().and_then(|name| name.to_str()).expect("a name");
    let viewer = Viewer::start(place, &[file]);
    for view in VIEWS {
        is_the_same(&viewer, place, view, &[], file);
    }
    let mut chance = Chance(seed);
    let mut shown = 0;
    for _ in 0..rounds {
        let view = chance.of(&VIEWS);
        let choices = choices(&mut chance, view);
        shown += usize::from(is_the_same(&viewer, place, view, &choices, file));
    }
    assert!(shown > rounds / 4 && shown < rounds, "{shown} of {rounds}");
}

#[test]
fn every_document_is_what_the_command_line_prints() {
    all_views_are_the_same(&Case::target("calls").record(), 1, 150);
}

#[test]
fn every_document_of_sqlite_is_what_the_command_line_prints() {
    all_views_are_the_same(&Case::sqlite(2000).record(), 2, 60);
}

#[test]
fn a_range_of_all_time_has_what_the_whole_has() {
    let record = Case::sqlite(2000).record();
    let viewer = Viewer::start(record.directory.path(), &["--", record.file.to_str().expect("a path")]);
    let time = viewer.time();
    assert_eq!(time["state"], "ready");
    let boundaries: Vec<u64> =
        time["boundaries"].as_array().expect("boundaries").iter().filter_map(Value::as_u64).collect();
    let (first, last) = (boundaries[0], boundaries[boundaries.len() - 1]);
    let whole = viewer.get("/api/top?raw=1").json();
    let of = |choice: &str| viewer.get(&format!("/api/top?raw=1&from={first}&to={last}&what={choice}")).json();
    let own = |top: &Value, key: &str| -> Vec<(String, u64)> {
        let functions = top["functions"].as_array().expect("functions").iter();
        functions.map(|f| (f["function"].to_string(), number(&f["self"], key))).collect()
    };
    assert_eq!(own(&of("allocated"), "allocations"), own(&whole, "allocations"));
    assert_eq!(own(&of("allocated"), "allocated_bytes"), own(&whole, "allocated_bytes"));
    assert_eq!(number(&of("freed"), "allocations"), number(&whole, "frees"));
    for choice in ["left", "live"] {
        assert_eq!(number(&of(choice), "allocations"), number(&whole, "live"), "{choice}");
    }
    let flame = viewer.get(&format!("/api/flame?by=bytes&from={first}&to={last}")).json();
    assert_eq!(number(&flame, "total"), number(&whole, "allocated_bytes"));
    assert_eq!(viewer.get(&format!("/api/top?from={first}&to={}", last + 1)).status, 400);
    assert_eq!(viewer.get(&format!("/api/top?from={first}&to={last}&by=peak")).status, 422);
    assert_eq!(viewer.get(&format!("/api/top?from={first}&to={last}&size=1")).status, 400);
}

#[test]
fn boxes_of_the_flame_graph_add_up() {
    let record = Case::sqlite(2000).record();
    let viewer = Viewer::start(record.directory.path(), &[record.file.to_str().expect("a path")]);
    for query in ["", "?by=peak", "?by=bytes&callers=1", "?raw=1&by=temporary", "?focus=Btree&by=bytes"] {
        let flame = viewer.get(&format!("/api/flame{query}")).json();
        let column = |name: &str| -> Vec<u64> {
            let of = flame["boxes"][name].as_array().unwrap_or_else(|| panic!("{query}: {name}"));
            of.iter().map(|value| value.as_u64().unwrap_or(u64::MAX)).collect()
        };
        let (parent, depth, start) = (column("parent"), column("depth"), column("start"));
        let (value, own, function) = (column("value"), column("own"), column("function"));
        assert_eq!((parent[0], value[0]), (u64::MAX, number(&flame, "total")), "{query}");
        assert_eq!(number(&flame, "left_out"), 0, "{query}");
        let names = flame["functions"]["name"].as_array().expect("names").len();
        let mut inside = vec![0; value.len()];
        for at in 1..value.len() {
            let above = parent[at] as usize;
            assert!(
                above < at && depth[at] == depth[above] + 1 && (function[at] as usize) < names,
                "{query}: box {at}"
            );
            assert_eq!(start[at], start[above] + inside[above], "{query}: box {at}");
            inside[above] += value[at];
        }
        let wrong = (0..value.len()).find(|&at| inside[at] + own[at] != value[at]);
        assert_eq!(wrong, None, "{query}");
        let by = flame["by"].as_str().expect("a measure").to_owned();
        let top = viewer.get(&format!("/api/top?by={by}{}", query.find("focus").map_or("", |_| "&focus=Btree"))).json();
        let key = match &*by {
            "bytes" => "allocated_bytes",
            "peak" => "peak_bytes",
            other => other,
        };
        assert_eq!(number(&flame, "total"), number(&top, key), "{query}");
    }
}

#[test]
fn profiles_of_other_tools_have_the_views_that_their_contents_allow() {
    let place = directory();
    let place = place.path();
    std::fs::write(place.join("a.folded"), "main;parse;malloc 100\nmain;</script><b>;malloc 7\n").expect("a file");
    let viewer = Viewer::start(place, &["a.folded"]);
    let about = viewer.get("/api/about").json();
    assert_eq!(
        (&about["format"], &about["has_events"], &about["has_rss"]),
        (&"folded".into(), &false.into(), &false.into())
    );
    assert_eq!(viewer.time()["state"], "none");
    assert!(about["duration_ms"].is_null(), "{about}");
    for view in ["top", "tree", "report"] {
        assert!(is_the_same(&viewer, place, view, &[], "a.folded"), "{view}");
    }
    for view in ["leaks", "sizes", "lifetimes", "threads", "timeline", "rss"] {
        assert!(!is_the_same(&viewer, place, view, &[], "a.folded"), "{view}");
    }
    let flame = viewer.get("/api/flame").json();
    assert_eq!(number(&flame, "total"), 107);
    assert!(flame["functions"]["name"].to_string().contains("</script><b>"), "{flame}");
    assert_eq!(viewer.get("/api/top?from=0&to=1").status, 422);
}

#[test]
fn what_is_cut_short_or_empty_is_shown() {
    let record = Case::target("nothing").record();
    let place = record.directory.path();
    let viewer = Viewer::start(place, &[record.file.to_str().expect("a path")]);
    assert_eq!(
        number(&viewer.get("/api/flame").json(), "total"),
        number(&viewer.get("/api/top").json(), "allocations")
    );
    viewer.time();
    let record = Case::sqlite(2000).record();
    let whole = std::fs::read(&record.file).expect("a recording");
    std::fs::write(place.join("cut.mallow"), &whole[..whole.len() / 2]).expect("a file");
    let viewer = Viewer::start(place, &["cut.mallow"]);
    let gaps = viewer.get("/api/about").json()["notices"].to_string();
    assert!(gaps.contains("cut short"), "{gaps}");
    for view in ["report", "top", "tree", "sizes"] {
        assert!(is_the_same(&viewer, place, view, &[], "cut.mallow"), "{view}");
    }
    assert_eq!(viewer.time()["state"], "ready");
}

#[test]
fn a_file_that_was_replaced_is_noticed() {
    let record = Case::target("calls").record();
    let viewer = Viewer::start(record.directory.path(), &[record.file.to_str().expect("a path")]);
    let whole = viewer.get("/api/top").body;
    let mut other = std::fs::read(&record.file).expect("a recording");
    other.extend([0; 100]);
    std::fs::write(&record.file, other).expect("a recording");
    let answer = viewer.get("/api/top?size=1..");
    assert!(answer.status == 422 && answer.text().contains("has changed since"), "{}", answer.text());
    // What was read before is still there.
    assert_eq!(viewer.get("/api/top").body, whole);
    assert_eq!(viewer.get("/api/top?cum=1").status, 200);
}

#[test]
fn two_recordings_are_compared_as_on_the_command_line() {
    let (record, other) = (Case::sqlite(2000).record(), Case::sqlite(3000).record());
    let place = record.directory.path();
    std::fs::copy(&record.file, place.join("before.mallow")).expect("a copy");
    std::fs::copy(&other.file, place.join("after.mallow")).expect("a copy");
    let viewer = Viewer::start(place, &["before.mallow", "after.mallow"]);
    let about = viewer.get("/api/about").json();
    assert_eq!((&about["name"], &about["compared"]["name"]), (&"after.mallow".into(), &"before.mallow".into()));
    let same = |path: &str, arguments: &[&str]| {
        let (answer, printed) = (viewer.get(path), Run::new(mallow(), place).args(arguments).go());
        assert_eq!((answer.status, printed.status), (200, 0), "{path}: {}\n{}", answer.text(), printed.err());
        assert!(answer.body == printed.stdout, "{path}: {}\n{}", answer.text(), printed.out());
    };
    let files = ["before.mallow", "after.mallow"];
    same("/api/diff", &["diff", "--json", files[0], files[1]]);
    same(
        "/api/diff?by=peak&limit=3&min=10&no-rule=lines,inlining",
        &["diff", "--json", "--by=peak", "--limit=3", "--min=10", "--no-rule=lines,inlining", files[0], files[1]],
    );
    same(
        "/api/diff?focus=Btree&ignore=no-such",
        &["diff", "--json", "--focus=Btree", "--ignore=no-such", files[0], files[1]],
    );
    same("/api/diff?size=64..", &["diff", "--json", "--size=64..", files[0], files[1]]);
    let base = ["--json", "--base", files[0], files[1]];
    same("/api/top?base=1", &[&["top"][..], &base].concat());
    same(
        "/api/top?base=1&by=bytes&cum=1&limit=4&no-rule=lines",
        &[&["top", "--by=bytes", "--cum", "--limit=4", "--no-rule=lines"][..], &base].concat(),
    );
    same("/api/tree?base=1&callers=1&focus=Btree", &[&["tree", "--callers", "--focus=Btree"][..], &base].concat());
    same("/api/list?base=1&function=.", &[&["list", "."][..], &base].concat());
    same("/api/top", &["top", "--json", files[1]]);
    let flame = viewer.get("/api/flame?base=1&by=bytes").json();
    let sum = |value: &Value| value.as_array().expect("a column").iter().filter_map(Value::as_i64).sum::<i64>();
    let diff = viewer.get("/api/diff?by=bytes").json();
    assert_eq!(flame["base"]["change"], diff["change"]);
    assert_eq!(sum(&flame["boxes"]["change"]), diff["change"].as_i64().expect("a change"));
    assert_eq!(viewer.get("/api/top?base=1&from=0&to=0").status, 400);
    let alone = Viewer::start(place, &["after.mallow"]);
    for path in ["/api/diff", "/api/top?base=1"] {
        let answer = alone.get(path);
        assert!(answer.status == 400 && answer.text().contains("mallow view BEFORE AFTER"), "{}", answer.text());
    }
    assert!(alone.get("/api/flame").json()["base"].is_null());
}

#[test]
fn the_page_is_one_file_that_asks_nobody() {
    let record = Case::sqlite(2000).record();
    let place = record.directory.path();
    let run = Run::new(mallow(), place).args(["export", "--format", "html", "-o", "page.html"]).arg(&record.file).go();
    assert_eq!(run.status, 0, "{}", run.err());
    let page = std::fs::read_to_string(place.join("page.html")).expect("a page");
    assert!(page.len() <= 3_000_000, "{} bytes", page.len());
    assert!(page.contains("Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-"));
    for other in ["src=\"/", "href=\"/", "from \"./", "\nimport ", "\nexport "] {
        assert!(!page.contains(other), "{other:?}");
    }
    let model =
        page.split("id=\"mallow-model\">").nth(1).and_then(|rest| rest.split("</script>").next()).expect("a model");
    let model: Value = serde_json::from_str(model).expect("JSON");
    let printed = |view: &str| -> Value { serde_json::from_str(&record.shown(&[view, "--json"])).expect("JSON") };
    assert_eq!(model["sizes"], printed("sizes"));
    assert_eq!(model["top?by=bytes"]["allocated_bytes"], printed("top")["allocated_bytes"]);
    for key in [
        "about",
        "time",
        "report",
        "flame?by=bytes",
        "flame?by=peak&callers=1",
        "top?by=bytes&cum=1",
        "leaks",
        "threads",
    ] {
        assert!(model[key].is_object(), "{key}");
    }
    assert!(model["left_out"].to_string().contains("ranges of time"), "{}", model["left_out"]);
}

#[test]
fn names_end_no_element_of_an_exported_page() {
    let place = directory();
    std::fs::write(place.path().join("a.folded"), "main;</script><script>alert(1)//;malloc 7\n").expect("a file");
    let run = Run::new(mallow(), place.path()).args(["export", "--format", "html", "a.folded"]).go();
    assert_eq!(run.status, 0, "{}", run.err());
    let page = run.out();
    assert!(
        !page.contains("<script>alert") && page.contains("\\u003c/script>\\u003cscript>alert(1)"),
        "a name is markup"
    );
    assert_eq!(page.matches("</script>").count(), 2);
}
