//! `mallow flame` on real programs: the picture is XML, loads nothing, and has the report's numbers.

use std::fs;
use std::path::Path;

use harness::{Case, Outcome, Run, mallow, number};
use roxmltree::{Document, Node};

fn flame(place: &Path, arguments: &[&str]) -> Outcome {
    Run::new(mallow(), place).arg("flame").args(arguments).go()
}

/// The exact number in a box's tooltip, which begins with it.
fn amount(group: Node) -> u64 {
    let title = group.children().find(|n| n.has_tag_name("title")).and_then(|t| t.text()).expect("a tooltip");
    let number = title.split(' ').next().expect("a number");
    number.replace(',', "").parse().unwrap_or_else(|e| panic!("{title}: {e}"))
}

fn boxes<'a>(document: &'a Document) -> Vec<Node<'a, 'a>> {
    let all = document.descendants().find(|n| n.attribute("id") == Some("boxes")).expect("boxes");
    all.children().filter(|n| n.has_tag_name("g")).collect()
}

#[test]
fn pictures_have_the_numbers_of_the_report() {
    let record = Case::sqlite(20_000).record();
    let place = record.directory.path();
    let measures = [
        ("allocations", "allocations"),
        ("bytes", "allocated_bytes"),
        ("peak", "peak_bytes"),
        ("temporary", "temporary"),
    ];
    for (by, key) in measures {
        for extra in [&[][..], &["--callers"], &["--raw"], &["--raw", "--callers"]] {
            let arguments = [&["--by", by, "-o", "a.svg", "run.mallow"], extra].concat();
            let run = flame(place, &arguments);
            assert_eq!((run.status, run.out().as_str()), (0, ""), "{}", run.err());
            assert!(run.err().starts_with("mallow: wrote a.svg, "), "{}", run.err());
            let text = fs::read_to_string(place.join("a.svg")).expect("a picture");
            let document = Document::parse(&text).expect("XML");
            let boxes = boxes(&document);
            assert_eq!(amount(boxes[0]), number(&record.json, key), "{by} {extra:?}");
            // The boxes on the root add up to the root, apart from those too small to be drawn.
            let first: u64 = boxes.iter().filter(|b| b.attribute("data-d") == Some("1")).map(|b| amount(*b)).sum();
            assert!(first <= amount(boxes[0]) && first * 10 >= amount(boxes[0]) * 9, "{by} {extra:?}: {first}");
            assert!(text.contains("sqlite3VdbeExec"), "{by} {extra:?}");
            let names = ["http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"];
            assert!(!names.iter().fold(text.clone(), |t, n| t.replace(n, "")).contains("://"));
        }
    }
}

#[test]
fn where_the_picture_goes() {
    let record = Case::sqlite(20_000).record();
    let place = record.directory.path();
    let usual = place.join("run-peak-callers.svg");
    for _ in 0..2 {
        let run = flame(place, &["--by", "peak", "--callers", "run.mallow"]);
        assert_eq!(run.status, 0, "{}", run.err());
        assert!(run.err().contains("wrote run-peak-callers.svg"), "{}", run.err());
    }
    let run = flame(place, &["--by", "peak", "--callers", "-o", "-", "run.mallow"]);
    assert_eq!((run.status, run.err().as_str()), (0, ""));
    assert_eq!(run.stdout, fs::read(&usual).expect("a picture"));

    fs::write(&usual, "drawn by hand").expect("a file");
    let before = fs::read(&record.file).expect("the recording");
    for arguments in [
        &["--by", "peak", "--callers", "run.mallow"][..],
        &["-o", "run.mallow", "run.mallow"],
        &["-o", "no/such/directory.svg", "run.mallow"],
        &["-o", ".", "run.mallow"],
    ] {
        let run = flame(place, arguments);
        let err = run.err();
        assert!(run.status == 1 && run.stdout.is_empty(), "{arguments:?}: {}", run.status);
        assert!(err.starts_with("mallow: ") && err.lines().count() == 1, "{arguments:?}: {err}");
    }
    assert_eq!(fs::read_to_string(&usual).expect("a file"), "drawn by hand");
    assert_eq!(fs::read(&record.file).expect("the recording"), before);
}

#[test]
fn nothing_to_draw_is_said() {
    let record = Case::new("true").record();
    assert_eq!(number(&record.json, "allocations"), 0, "true allocates now: find another program");
    let run = flame(record.directory.path(), &["run.mallow"]);
    assert_eq!((run.status, run.err().as_str()), (1, "mallow: there is nothing to draw: allocations are 0\n"));
    assert!(!record.directory.path().join("run-allocations.svg").exists());
}

/// Numbers come first and are in the boxes, the head is one group that stays in sight, and dark windows have dark
/// colours.
#[test]
fn pictures_are_made_for_windows() {
    let record = Case::sqlite(2000).record();
    let place = record.directory.path();
    assert_eq!(flame(place, &["-o", "a.svg", "run.mallow"]).status, 0);
    let text = fs::read_to_string(place.join("a.svg")).expect("a picture");
    let document = Document::parse(&text).expect("XML");
    let all = boxes(&document)[0];
    let allocations = number(&record.json, "allocations");
    assert_eq!(amount(all), allocations);
    let numbers = all.attribute("data-v").expect("numbers");
    assert!(numbers.ends_with("  100.0 %"), "{numbers}");
    let label = all.children().find(|n| n.has_tag_name("text")).expect("a name");
    let shown: String = label.descendants().filter_map(|n| if n.is_text() { n.text() } else { None }).collect();
    assert!(shown.starts_with("all") && shown.ends_with("100.0\u{a0}%") || shown.ends_with("100.0 %"), "{shown}");
    let head = document.descendants().find(|n| n.attribute("id") == Some("head")).expect("a head");
    let inside = |id: &str| head.descendants().any(|n| n.attribute("id") == Some(id));
    assert!(["tools", "matched", "reset", "size", "details"].iter().all(|id| inside(id)));
    let style = document.descendants().find(|n| n.has_tag_name("style")).and_then(|n| n.text()).expect("a style sheet");
    assert!(style.contains("prefers-color-scheme: dark") && style.contains("tabular-nums"));

    let run = Run::new(mallow(), place).args(["timeline", "-o", "t.svg", "run.mallow"]).go();
    assert_eq!(run.status, 0, "{}", run.err());
    let text = fs::read_to_string(place.join("t.svg")).expect("a picture");
    let document = Document::parse(&text).expect("XML");
    let plot = document.descendants().find(|n| n.attribute("id") == Some("plot")).expect("a chart");
    let stretched = plot.children().filter(|n| n.attribute("preserveAspectRatio") == Some("none"));
    assert!(stretched.count() == 2 && text.contains("prefers-color-scheme: dark"));
}
