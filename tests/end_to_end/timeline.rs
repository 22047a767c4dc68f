//! `mallow timeline` on real programs: it says what the report says, at every resolution.

use harness::{Case, Run, mallow, number};
use serde_json::Value;

fn values(list: &Value) -> Vec<u64> {
    list.as_array().expect("a list").iter().map(|n| n.as_u64().expect("a number")).collect()
}

fn points(json: &Value) -> Vec<u64> {
    json["points"].as_array().expect("points").iter().map(|point| number(point, "value")).collect()
}

/// Bands and others are all of each point.
fn adds_up(json: &Value) {
    let bands: Vec<_> = json["bands"].as_array().expect("bands").iter().map(|band| values(&band["values"])).collect();
    let others = values(&json["others"]);
    for (at, point) in points(json).into_iter().enumerate() {
        assert_eq!(bands.iter().map(|band| band[at]).sum::<u64>() + others[at], point, "point {at}");
    }
}

#[test]
fn the_highest_point_is_the_peak_at_any_resolution() {
    let record = Case::sqlite(30_000).record();
    let report = &record.json;
    for count in ["1", "2", "7", "30", "100", "500", "2000"] {
        for extra in [&[][..], &["--limit", "2"], &["--limit", "0"]] {
            let json = record.view_json(&[&["timeline", "--points", count], extra].concat());
            let points = points(&json);
            assert_eq!(points.iter().max(), Some(&number(report, "peak_bytes")), "{count}");
            assert_eq!(points[number(&json, "highest_point") as usize], number(report, "peak_bytes"), "{count}");
            assert_eq!(number(&json, "total"), number(report, "peak_bytes"), "{count}");
            assert_eq!(number(&json, "highest_ms"), number(report, "peak_ms"), "{count}");
            assert_eq!(number(&json, "at_end"), number(report, "live_bytes"), "{count}");
            assert!(points.len() <= count.parse().expect("a number"), "{}", points.len());
            adds_up(&json);
        }
    }
    let live = record.view_json(&["timeline", "--by", "live"]);
    assert!(number(&live, "total") >= number(report, "peak"));
    assert_eq!(number(&live, "at_end"), number(report, "live"));
    let allocations = record.view_json(&["timeline", "--by", "allocations", "--limit", "0"]);
    assert_eq!(points(&allocations).iter().sum::<u64>(), number(report, "allocations"));
    adds_up(&allocations);
}

#[test]
fn several_processes_and_threads_are_one_heap() {
    for case in [
        Case::target("threads"),
        Case::target("spawn"),
        Case::target("fork_storm"),
        Case::target("busy").args(["4", "300"]),
    ] {
        let record = case.record();
        for count in ["3", "200"] {
            let json = record.view_json(&["timeline", "--points", count]);
            assert_eq!(number(&json, "total"), number(&record.json, "peak_bytes"), "{case:?}");
            assert_eq!(points(&json).iter().max(), Some(&number(&record.json, "peak_bytes")), "{case:?}");
            assert_eq!(number(&json, "highest_ms"), number(&record.json, "peak_ms"), "{case:?}");
            adds_up(&json);
        }
        let peak = record.view_json(&["timeline", "--at", "peak"]);
        assert_eq!(number(&peak, "live_bytes"), number(&record.json, "peak_bytes"), "{case:?}");
        assert_eq!(number(&peak, "live"), number(&record.json, "peak"), "{case:?}");
    }
}

#[test]
fn the_heap_at_a_moment_has_the_reports_blocks() {
    let record = Case::sqlite(30_000).record();
    let report = &record.json;
    let peak_ms = format!("{}ms", number(report, "peak_ms"));
    for at in ["peak", &peak_ms] {
        let heap = record.view_json(&["timeline", "--at", at]);
        assert_eq!(number(&heap, "live"), number(report, "peak"), "{at}");
        assert_eq!(number(&heap, "live_bytes"), number(report, "peak_bytes"), "{at}");
        assert_eq!(number(&heap, "ms"), number(report, "peak_ms"), "{at}");
        let places = heap["places"].as_array().expect("places");
        assert_eq!(places.iter().map(|p| number(p, "live_bytes")).sum::<u64>(), number(report, "peak_bytes"));
        // The largest places of the peak, as `report` lists them.
        let lists = report["largest"].as_array().expect("lists");
        let list = lists.iter().find(|list| list["by"] == "peak").expect("one of the peak");
        for (mine, its) in places.iter().zip(list["largest"].as_array().expect("places").iter().take(5)) {
            assert_eq!((&mine["function"], &mine["line"]), (&its["function"], &its["line"]));
            assert_eq!(
                (number(mine, "live"), number(mine, "live_bytes")),
                (number(its, "peak"), number(its, "peak_bytes"))
            );
        }
    }
    let end = record.view_json(&["timeline", "--at", "end"]);
    assert_eq!(number(&end, "live"), number(report, "live"));
    assert_eq!(number(&end, "live_bytes"), number(report, "live_bytes"));
    assert_eq!(number(&record.view_json(&["timeline", "--at", "0"]), "live"), 0);
    let text = record.shown(&["timeline", "--at", "peak"]);
    assert!(text.starts_with("Live at ") && text.contains("sqlite3BtreeInsert"), "{text}");
}

#[test]
fn a_part_of_the_time_and_of_the_blocks() {
    let record = Case::sqlite(30_000).record();
    let peak = number(&record.json, "peak_ms");
    let zoom = format!("{}ms..{}ms", peak, peak + 1);
    let json_of = |arguments: &[&str]| record.view_json(&[&["timeline"], arguments].concat());
    let part = json_of(&["--zoom", &zoom]);
    assert_eq!((number(&part, "from_ms"), number(&part, "to_ms")), (peak, peak + 1));
    assert_eq!((number(&part, "total"), part["by_order"].as_bool()), (number(&record.json, "peak_bytes"), Some(true)));
    let before = json_of(&["--zoom", &format!("..{peak}ms")]);
    assert!(number(&before, "total") <= number(&record.json, "peak_bytes"));
    let sorter = json_of(&["--focus", "sqlite3VdbeSorter"]);
    assert!((1..number(&record.json, "peak_bytes")).contains(&number(&sorter, "total")));
    assert_eq!(sorter["filters"]["focus"], "sqlite3VdbeSorter");
    for arguments in [["--zoom", "1h.."], ["--at", "1h"], ["--points", "0"], ["--at", "noon"], ["--zoom", "2ms..1ms"]] {
        let run = record.view(&[&["timeline"], &arguments[..]].concat());
        let err = run.err();
        assert!(run.status != 0 && run.stdout.is_empty(), "{arguments:?}");
        assert!(err.starts_with("mallow: ") && err.lines().count() == 1, "{arguments:?}: {err}");
    }
}

#[test]
fn charts_are_drawn_with_what_there_is() {
    let record = Case::sqlite(30_000).record();
    let place = record.directory.path();
    let text = record.shown(&["timeline"]);
    assert!(text.contains('█') && text.contains('▼') && !text.contains('\x1b'), "{text}");
    assert!(text.contains("sqlite3BtreeInsert") && text.starts_with("Live bytes over "), "{text}");
    let plain = Run::new(mallow(), place).args(["timeline", "run.mallow"]).env("LC_ALL", Some("C")).go().out();
    let chart: Vec<&str> = plain.lines().filter(|line| line.contains(" |")).collect();
    assert!(chart.len() > 5 && chart.iter().all(|line| line.is_ascii()), "{plain}");
    assert!(chart.last().is_some_and(|line| line.contains('A')), "{plain}");

    let picture = record.shown(&["timeline", "-o", "-"]);
    let document = roxmltree::Document::parse(&picture).expect("XML");
    let first_class = |n: &roxmltree::Node| n.attribute("class").and_then(|c| c.split(' ').next()).map(str::to_owned);
    let class = |name: &str| document.descendants().filter(|n| first_class(n).as_deref() == Some(name)).count();
    assert!(class("band") > 2 && class("moment") > 10 && class("outline") == 1);
    // All is inside: nothing is fetched.
    assert!(!picture.replace("http://www.w3.org/2000/svg", "").contains("://"));
    assert!(document.descendants().filter(|n| n.has_tag_name("script")).all(|n| n.attributes().len() == 0));
    let run = record.view(&["timeline", "-o", "heap.svg"]);
    assert!(run.status == 0 && run.err().starts_with("mallow: wrote heap.svg, "), "{}", run.err());
    assert_eq!(std::fs::read_to_string(place.join("heap.svg")).expect("a picture"), picture);
}
