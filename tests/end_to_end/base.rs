//! Views with `--base`: what changed from one recording, or profile of another tool, to another.

use std::path::Path;

use harness::{Recorded, Run, mallow};
use serde_json::Value;

use crate::diff_regressions::{RECORDINGS, recorded};
use crate::other_tools::ran;

fn view(place: &Path, arguments: &[&str]) -> String {
    ran(Run::new(mallow(), place).args(arguments)).out()
}

fn json(place: &Path, arguments: &[&str]) -> Value {
    let text = view(place, arguments);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The changes of a view's rows, and of those that it leaves out, are the net change of `mallow diff`.
fn agrees(place: &Path, base: &str, after: &str, filters: &[&str]) {
    let arguments = |view: &[&str]| -> Value { json(place, &[view, &["--json"], filters].concat()) };
    let diff = arguments(&["diff", base, after]);
    let net = number(&diff["change"]);
    for (view, rows, sums) in [
        (&["top", "--limit", "1"][..], "functions", "self"),
        (&["tree"], "rows", "cum"),
        (&["tree", "--callers", "--limit", "1"], "rows", "cum"),
    ] {
        let report = arguments(&[view, &["--base", base, after]].concat());
        let rows = report[rows].as_array().expect("rows").iter();
        let shown: i64 = rows.map(|row| number(&row[sums]["change"])).sum();
        let why = format!("{view:?} {base} {after} {filters:?}");
        assert_eq!((number(&report["shown"]), number(&report["change"])), (shown, net), "{why}");
        assert_eq!(shown + number(&report["hidden_change"]) + number(&report["elsewhere"]), net, "{why}");
    }
    // Where nothing changed there is no function to list.
    if net != 0 {
        let list = arguments(&["list", ".", "--base", base, after]);
        for function in list["functions"].as_array().expect("functions") {
            let lines = function["lines"].as_array().expect("lines").iter();
            let lines: i64 = lines.map(|line| number(&line["self"]["change"])).sum();
            assert_eq!(lines, number(&function["self"]["change"]), "{function}");
        }
    }
    let text = view(place, &[&["top", "--base", base, after], filters].concat());
    let last = text.lines().rfind(|line| line.starts_with("Shown ")).unwrap_or_else(|| panic!("{text}"));
    let digits = |text: &str| text.chars().filter(|c| c.is_ascii_digit() || *c == '-').collect::<String>();
    assert_eq!(last.split(": net ").nth(1).map(digits), Some(net.to_string()), "{text}");
}

fn cpp(place: &Path) {
    let flags = ["-O2", "-g", "-std=c++17", "-fno-builtin-malloc"];
    recorded(place, "c++", &flags, ["cpp_before/main.cpp", "cpp_after/main.cpp"]);
}

#[test]
fn a_change_is_at_the_top_of_every_view_and_renamed_functions_are_no_noise() {
    let directory = harness::directory();
    let place = directory.path();
    cpp(place);
    let [before, after] = RECORDINGS;
    for by in ["allocations", "bytes", "peak", "live", "temporary"] {
        agrees(place, before, after, &["--by", by]);
    }
    agrees(place, before, after, &["--focus", "build_index"]);
    agrees(place, before, after, &["--size", "64.."]);
    agrees(place, before, after, &["--min", "1k", "--by", "bytes"]);
    let top = json(place, &["top", "--json", "--base", before, after]);
    let rows: Vec<_> = top["functions"].as_array().expect("functions").iter().collect();
    let name = |row: &Value| row["function"].as_str().expect("a name").to_owned();
    assert_eq!(rows.iter().map(|row| name(row)).collect::<Vec<_>>(), ["build_index(int)", "main"], "{top:#}");
    let flat = &rows[0]["self"];
    let counts = ["before", "after"].map(|side| number(&flat[side]["allocations"]));
    assert_eq!((counts, number(&flat["change"])), ([500, 5500], 5000), "{top:#}");
    // Of the line that lost its reserve, and the one that copies now, nothing else.
    let text = view(place, &["list", ".", "--base", before, after]);
    assert!(text.contains("index.push_back(i);") && text.contains("sum(values);"), "{text}");
    assert!(!text.contains("read_row(int"), "{text}");
    let text = view(place, &["tree", "--base", before, after]);
    assert!(text.lines().nth(3).is_some_and(|line| line.contains("+5,000") && line.contains("build_index")), "{text}");
    // Without pairing, a new name is another function.
    let text = view(place, &["top", "--base", before, after, "--no-rule", "pairing"]);
    assert!(text.contains("read_row") && text.contains("parse_row"), "{text}");
    let wrong = Run::new(mallow(), place).args(["top", "--no-rule", "pairing", after]).go();
    assert_eq!(wrong.status, 2, "{}", wrong.err());
    let wrong = Run::new(mallow(), place).args(["list", "--asm", ".", "--base", before, after]).go();
    assert_eq!(wrong.status, 2, "{}", wrong.err());
}

#[test]
fn a_picture_is_red_and_blue_and_its_tooltips_show_both_numbers() {
    let directory = harness::directory();
    let place = directory.path();
    cpp(place);
    let [before, after] = RECORDINGS;
    let text = view(place, &["flame", "-o", "-", "--base", before, after]);
    let document = roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let fill = |name: &str| {
        let group = document.descendants().filter(|n| n.has_tag_name("g")).find(|group| {
            let title = group.children().find(|n| n.has_tag_name("title")).and_then(|n| n.text()).unwrap_or_default();
            title.lines().nth(1).is_some_and(|line| line.starts_with(name))
        });
        let group = group.unwrap_or_else(|| panic!("{name} is no box: {text}"));
        let title = group.children().find(|n| n.has_tag_name("title")).and_then(|n| n.text()).unwrap_or_default();
        let class = group.children().find(|n| n.has_tag_name("rect")).and_then(|n| n.attribute("class"));
        (class.unwrap_or_default().to_owned(), title.to_owned())
    };
    let (class, title) = fill("build_index");
    assert!(
        class.starts_with("u8") && title.contains("before: 500 allocations; +5,000 allocations"),
        "{class} {title}"
    );
    assert!(fill("read_row").0.starts_with('n'), "{text}");
    assert!(text.contains("Before: 1,502; change +5,500"), "{text}");
    let text = view(place, &["flame", "-o", "-", "--base", after, before, "--no-rule", "pairing"]);
    assert!(text.contains("Gone, and not drawn") && text.contains("read_row 500"), "{text}");
}

#[test]
fn either_side_may_be_of_any_format() {
    let directory = harness::directory();
    let place = directory.path();
    cpp(place);
    let formats = ["pprof", "folded", "dhat", "heaptrack"];
    for side in ["before", "after"] {
        for format in formats {
            let (from, to) = (format!("{side}.mallow"), format!("{side}.{format}"));
            ran(Run::new(mallow(), place).args(["export", "--format", format, "-o", &to, &from]));
        }
    }
    for format in formats {
        agrees(place, &format!("before.{format}"), "after.mallow", &[]);
        agrees(place, "before.mallow", &format!("after.{format}"), &["--by", "allocations"]);
    }
    agrees(place, "before.pprof", "after.dhat", &["--by", "bytes"]);
    // A measure that a side lacks appears nowhere, and one that either side lacks is not compared.
    let top = json(place, &["top", "--json", "--base", "before.folded", "after.mallow"]);
    assert_eq!(top["formats"], serde_json::json!(["folded", null]));
    let flat = &top["functions"][0]["self"];
    assert!(flat["before"].get("live").is_none() && flat["after"]["live"].is_u64(), "{top:#}");
    let wrong = Run::new(mallow(), place).args(["top", "--by", "peak", "--base", "before.folded", "after.mallow"]).go();
    assert!(wrong.status == 2 && wrong.err().contains("has no bytes live at the peak"), "{}", wrong.err());
}

#[test]
fn the_newest_recording_here_is_compared_where_none_is_named() {
    let record: Recorded = harness::Case::target("busy").args(["1", "300"]).record();
    let place = record.file.parent().expect("a directory");
    let file = record.file.to_str().expect("a path of text");
    let outcome = Run::new(mallow(), place).args(["top", "--base", file]).go();
    assert!(outcome.status == 0 && outcome.err().contains("the newest recording here"), "{}", outcome.err());
    assert!(outcome.out().ends_with("Shown 0, nothing left out: net 0 allocations\n"), "{}", outcome.out());
}

#[test]
fn a_measure_that_one_side_lacks_is_a_usage_error_in_every_view() {
    let directory = harness::directory();
    let place = directory.path();
    std::fs::write(place.join("live"), "# mallow: live_bytes\nmain;f 64\n").expect("a file");
    std::fs::write(place.join("counted"), "@[\n    f+18\n    main+9\n]: 3\n").expect("a file");
    for by in [&["--by", "live"][..], &[]] {
        let expected = if by.is_empty() { "both have no measure in common" } else { "has no live bytes" };
        for view in
            [&["diff"][..], &["top", "--base"], &["tree", "--base"], &["list", ".", "--base"], &["flame", "--base"]]
        {
            let refused = Run::new(mallow(), place).args(view).args(["live", "counted"]).args(by).go();
            assert_eq!((refused.status, refused.out().as_str()), (2, ""), "{view:?}: {}", refused.err());
            let error = refused.err();
            assert!(error.contains(expected) && error.lines().count() == 1, "{view:?}: {error}");
        }
    }
}
