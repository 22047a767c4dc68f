//! Pictures of small profiles, and of hostile names.

use mallow_profile::Profile;
use mallow_report::analysis::diff::Rules;
use mallow_report::analysis::{Both, Flame, FlameOptions, Least, Measure, flame, flame_changes};
use mallow_report::testing::{Builder, blocks, parser};

use super::labels::beside;
use super::{CHARACTER, PARTS, draw, fitting};
use crate::output::picture::testing::{bare, hostile, parsed};

fn graph(profile: &Profile, by: Measure, callers: bool) -> Flame {
    flame(profile, FlameOptions { by, callers, raw: by == Measure::Bytes, parts: PARTS, least: Least::Amount(0) })
}

fn drawn(flame: &Flame) -> String {
    bare(&draw(flame, None))
}

#[test]
fn a_graph_of_bytes() {
    insta::assert_snapshot!(drawn(&graph(&parser(), Measure::Bytes, false)));
}

#[test]
fn callers_of_what_leaked_in_a_recording_that_was_cut_short() {
    let mut profile = parser();
    profile.ending.cut_short = Some("the disk is full".to_owned());
    profile.ending.lost = 3;
    insta::assert_snapshot!(drawn(&graph(&profile, Measure::Live, true)));
}

#[test]
fn what_changed_is_red_or_blue() {
    let mut after = parser();
    after.sites[0].counts += blocks(900_000, 40, 500_000, 0);
    after.totals += blocks(900_000, 40, 500_000, 0);
    for gone in after.sites.drain(1..3) {
        after.totals.allocations -= gone.counts.allocations;
    }
    let both = Both::new(&parser(), &after, Measure::Allocations, Rules::ALL);
    let options =
        |callers| FlameOptions { by: Measure::Allocations, callers, raw: false, parts: PARTS, least: Least::Amount(0) };
    insta::assert_snapshot!([false, true].map(|callers| drawn(&flame_changes(&both, options(callers)))).join("\n"));
}

#[test]
fn boxes_fill_what_is_below_them_and_say_their_numbers() {
    let flame = graph(&parser(), Measure::Allocations, false);
    let text = draw(&flame, Some("Filtered by focus parse"));
    let document = parsed(&text);
    let frames = document.descendants().find(|n| n.attribute("id") == Some("boxes")).expect("boxes");
    let boxes: Vec<_> = frames.children().filter(|n| n.has_tag_name("g")).collect();
    assert_eq!(boxes.len(), flame.boxes.len());
    for (node, group) in flame.boxes.iter().zip(&boxes) {
        let rect = group.children().find(|n| n.has_tag_name("rect")).expect("a box");
        let number = |name: &str| -> f64 {
            let text = rect.attribute(name).expect("an attribute");
            text.trim_end_matches('%').parse().expect("a number")
        };
        let expected = node.value as f64 * 100.0 / flame.totals.allocations as f64;
        assert!((number("width") - expected).abs() < 0.0001 && number("x") + number("width") < 100.0001);
        let title = group.children().find(|n| n.has_tag_name("title")).and_then(|t| t.text()).unwrap_or_default();
        let amount = crate::output::text::units::of(node.value, "allocation");
        assert!(title.contains(&amount), "{title}");
        if let Some(parent) = node.parent {
            let below = boxes[parent].children().find(|n| n.has_tag_name("rect")).expect("a box");
            let y: f64 = below.attribute("y").expect("y").parse().expect("a number");
            assert_eq!(y - number("y"), 17.0, "one row above its caller");
        }
    }
}

#[test]
fn hostile_names_are_text() {
    let mut b = Builder::default();
    let p = b.process(1, &["a"], 10);
    let names = hostile();
    for (index, name) in names.iter().enumerate() {
        // `stack` gives some signs a meaning: these names come in by the string table.
        let stack = b.stack(&[&format!("f{index}!m{index}.so"), "main"]);
        let frame = b.profile.stacks.top(stack).expect("a frame").0;
        let function = b.profile.strings.intern(name);
        b.profile.frames[frame.0 as usize].lines[0].function = function;
        b.profile.frames[frame.0 as usize].lines[0].file = Some(function);
        let module = b.profile.frames[frame.0 as usize].module.expect("a module");
        b.profile.modules[module.0 as usize].path = name.clone();
        b.site(p, &[&format!("g{index}"), "main"], blocks(1, 1, 0, 0)).stack = stack;
    }
    b.profile.command = names;
    for callers in [false, true] {
        let text = draw(&graph(&b.profile, Measure::Allocations, callers), Some(&b.profile.command[0]));
        let document = parsed(&text);
        assert_eq!(document.descendants().filter(|n| n.has_tag_name("script")).count(), 1);
        assert!(!text.contains(|c: char| (c.is_control() && c != '\n') || c == '\u{202e}'));
        assert!(text.len() < 200_000, "{} bytes", text.len());
    }
}

#[test]
fn names_fit_into_their_boxes() {
    let cut = |name: &str, characters: f64| fitting(name, characters * CHARACTER);
    assert_eq!(cut("parse_row", 9.0), "parse_row");
    assert_eq!(cut("parse_row", 8.0), "parse_r…");
    assert_eq!(cut("app::Parser::parse_row", 11.0), "…:parse_row");
    assert_eq!(cut("日本語日本語", 7.0), "日本語…");
    assert_eq!((cut("parse_row", 3.0), cut("parse_row", 2.9)), ("pa…".to_owned(), String::new()));
}

#[test]
fn numbers_stand_beside_names_that_leave_room_for_them() {
    let at = |characters: f64| beside("parse_row", "203 k  45.2 %", characters * CHARACTER);
    assert_eq!(at(24.0).as_deref(), Some("\u{a0}\u{a0}203 k\u{a0}\u{a0}45.2 %"));
    assert_eq!(at(23.0).as_deref(), Some("\u{a0}\u{a0}45.2 %"));
    assert_eq!((at(16.0), at(3.0)), (None, None));
}

/// Modules whose boxes are side by side, each with a colour of its own.
#[test]
fn modules_have_distinct_colours_and_the_rest_is_grey() {
    let mut b = Builder::default();
    let p = b.process(1, &["a"], 10);
    let modules: Vec<String> =
        ["_struct", "_json", "_sre", "_io", "zlib", "a", "b", "c", "d", "e"].map(|name| format!("f!{name}.so")).into();
    for (index, module) in modules.iter().enumerate() {
        b.site(p, &[module], blocks(100 - index as u64, 1, 0, 0));
    }
    let text = draw(&graph(&b.profile, Measure::Allocations, false), None);
    let document = parsed(&text);
    let rects = document.descendants().filter(|n| n.has_tag_name("rect"));
    let classes: Vec<&str> = rects
        .filter_map(|n| n.attribute("class").and_then(|c| c.strip_prefix("swatch ")))
        .filter(|class| class.starts_with('c') || *class == "rest")
        .collect();
    assert_eq!(classes.len(), 9, "{classes:?}");
    let distinct: std::collections::BTreeSet<_> = classes.iter().collect();
    assert_eq!(distinct.len(), 9, "{classes:?}");
    assert!(text.contains(">2 other modules<"), "{text}");
}
