//! Graphs of small profiles, box by box.

use super::{Flame, FlameOptions, GroupKind, Label, flame};
use crate::analysis::{Least, Measure};
use crate::testing::{Builder, blocks, parser};
use mallow_profile::{Profile, Stacks};

const ALL: FlameOptions =
    FlameOptions { by: Measure::Allocations, callers: false, raw: false, parts: u64::MAX, least: Least::Amount(0) };

/// Boxes, indented by their depth: name, start, width, own.
fn shown(flame: &Flame) -> Vec<String> {
    let line = |n: &super::FlameBox| {
        let f = &flame.functions[n.function];
        let name = if f.label == Label::Function { f.name.clone() } else { format!("{:?}", f.label) };
        let mark = if n.inlined { " inlined" } else { "" };
        format!("{}{name}{mark} {}+{} {}", " ".repeat(n.depth), n.start, n.value, n.own)
    };
    flame.boxes.iter().map(line).collect()
}

fn small() -> Profile {
    let mut b = Builder::default();
    let p = b.process(1, &["a"], 10);
    b.site(p, &["operator new!libstdc++.so.6", "leaf@a.c:1 | walk@a.c:9", "main"], blocks(5, 10, 0, 0));
    b.site(p, &["operator new!libstdc++.so.6", "leaf@a.c:2 | walk@a.c:10", "main"], blocks(4, 10, 0, 0));
    b.site(p, &["leaf@a.c:3", "main"], blocks(20, 10, 0, 0));
    b.site(p, &["main"], blocks(2, 10, 0, 0));
    b.site(p, &[], blocks(1, 10, 0, 0));
    b.profile
}

#[test]
fn functions_stand_on_their_callers_the_largest_first() {
    let flame = flame(&small(), ALL);
    let expected = [
        "Whole 0+32 0",
        " main 0+31 2",
        "  leaf 0+20 20",
        "  walk 20+9 0",
        "   leaf inlined 20+9 9",
        " NoStack 31+1 1",
    ];
    assert_eq!(shown(&flame), expected);
    let parents: Vec<_> = flame.boxes.iter().map(|n| n.parent).collect();
    assert_eq!(parents, [None, Some(0), Some(1), Some(1), Some(3), Some(0)]);
    assert_eq!((flame.sites, flame.left_out), (5, 0));
    assert_eq!(flame.functions.iter().filter(|f| f.name == "leaf").count(), 1);
    assert!(!flame.boxes.iter().any(|n| n.recursive));
}

#[test]
fn each_function_of_a_stack_is_a_box_in_a_raw_graph() {
    let raw = FlameOptions { raw: true, ..ALL };
    let graph = flame(&small(), raw);
    assert_eq!(shown(&graph)[4..6], ["   leaf inlined 20+9 0", "    operator new 20+9 9"]);
    let passed: Vec<_> = graph.functions.iter().filter(|f| f.looked_past).map(|f| f.name.as_str()).collect();
    assert_eq!(passed, ["operator new"]);
    let callers = flame(&small(), FlameOptions { callers: true, ..raw });
    assert!(shown(&callers).contains(&" operator new 20+9 0".to_owned()), "{:?}", shown(&callers));
}

#[test]
fn callers_hang_from_the_function_that_allocates() {
    let expected = [
        "Whole 0+32 0",
        " leaf 0+29 0",
        "  main 0+20 20",
        "  walk 20+9 0",
        "   main 20+9 9",
        " main 29+2 2",
        " NoStack 31+1 1",
    ];
    assert_eq!(shown(&flame(&small(), FlameOptions { callers: true, ..ALL })), expected);
}

#[test]
fn a_function_is_inlined_where_all_of_its_calls_are() {
    let mut b = Builder::default();
    let p = b.process(1, &["a"], 10);
    b.site(p, &["f@a.c:1 | main@a.c:1"], blocks(3, 1, 0, 0));
    b.site(p, &["f@a.c:1", "main@a.c:2"], blocks(2, 1, 0, 0));
    b.site(p, &["g@a.c:1 | main@a.c:3"], blocks(2, 1, 0, 0));
    b.site(p, &["g@a.c:2", "g@a.c:1 | main@a.c:3"], blocks(2, 1, 0, 0));
    let graph = flame(&b.profile, ALL);
    assert_eq!(shown(&graph), ["Whole 0+9 0", " main 0+9 0", "  f 0+5 5", "  g inlined 5+4 4"]);
    assert_eq!(graph.boxes.iter().map(|n| n.recursive).collect::<Vec<_>>(), [false, false, false, false]);
    b.site(p, &["g@a.c:2", "g@a.c:2", "g@a.c:1 | main@a.c:3"], blocks(2, 1, 0, 0));
    assert!(flame(&b.profile, ALL).boxes.iter().any(|n| n.recursive && n.inlined));
}

#[test]
fn what_is_too_small_is_left_out_and_counted() {
    let graph = flame(&small(), FlameOptions { parts: 4, ..ALL });
    let expected = ["Whole 0+32 0", " main 0+31 2", "  leaf 0+20 20", "  walk 20+9 0", "   leaf inlined 20+9 9"];
    assert_eq!((shown(&graph), graph.left_out), (expected.map(str::to_owned).to_vec(), 1));
    let graph = flame(&small(), FlameOptions { parts: 3, ..ALL });
    assert_eq!((graph.boxes.len(), graph.left_out), (3, 3));
    for (least, boxes) in [(Least::Amount(20), 3), (Least::Amount(9), 5), (Least::Percent(29.0), 3)] {
        assert_eq!(flame(&small(), FlameOptions { least, ..ALL }).boxes.len(), boxes, "{least:?}");
    }
}

fn groups(flame: &Flame) -> Vec<(String, bool, u64, u64)> {
    let file = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let name = |kind: &GroupKind| match kind {
        GroupKind::File(path) | GroupKind::Module(path) => file(path),
        GroupKind::Generated => "generated".to_owned(),
    };
    flame.groups.iter().map(|g| (name(&g.kind), g.runtime, g.own, g.cum)).collect()
}

#[test]
fn groups_have_what_their_functions_and_their_callees_allocated() {
    for callers in [false, true] {
        let flame = flame(&parser(), FlameOptions { by: Measure::Bytes, callers, ..ALL });
        // program dominates with 84.6 %: it is grouped by file.
        assert_eq!(flame.by_file_in.as_deref(), Some("/usr/bin/program"));
        let expected = [
            ("main.cc".to_owned(), false, 0, 45_412_000),
            ("parser.cc".to_owned(), false, 38_400_000, 38_400_000),
            ("load.cc".to_owned(), false, 0, 38_412_000),
            ("cache.h".to_owned(), false, 12_000, 12_000),
            ("libplugin.so".to_owned(), false, 7_000_000, 7_000_000),
            ("ld-linux-x86-64.so.2".to_owned(), true, 3600, 3600),
        ];
        let mut expected = expected.to_vec();
        expected.sort_by_key(|g| std::cmp::Reverse((g.3, g.2)));
        assert_eq!(groups(&flame), expected);
        assert_eq!(flame.boxes[0].value, flame.totals.allocated_bytes);
        for (at, node) in flame.boxes.iter().enumerate() {
            let on_it = flame.boxes.iter().filter(|n| n.parent == Some(at));
            assert_eq!(on_it.map(|n| n.value).sum::<u64>() + node.own, node.value);
        }
    }
}

#[test]
fn modules_are_groups_where_none_dominates_or_its_files_are_unknown() {
    let mut b = Builder::default();
    let p = b.process(1, &["a"], 10);
    b.site(p, &["f@a.c:1!one.so", "main"], blocks(50, 1, 0, 0));
    b.site(p, &["g@b.c:1!two.so", "f@a.c:2!one.so", "main"], blocks(50, 1, 0, 0));
    let graph = flame(&b.profile, ALL);
    assert_eq!(graph.by_file_in, None);
    let own: Vec<_> = groups(&graph).into_iter().map(|(name, _, own, cum)| (name, own, cum)).collect();
    assert!(own.contains(&("one.so".to_owned(), 50, 100)) && own.contains(&("two.so".to_owned(), 50, 50)), "{own:?}");
    b.site(p, &["h!two.so", "main"], blocks(500, 1, 0, 0));
    assert_eq!(flame(&b.profile, ALL).by_file_in, None, "files of 50 of 550 are known");
}

#[test]
fn groups_of_boxes_that_were_left_out_have_their_part() {
    let flame = flame(&parser(), FlameOptions { by: Measure::Bytes, parts: 2, ..ALL });
    assert_eq!(flame.groups.iter().map(|g| g.own).sum::<u64>(), flame.totals.allocated_bytes);
}

#[test]
fn stacks_that_were_cut_say_so_at_their_outer_end() {
    let mut profile = small();
    let main = profile.stacks.top(profile.sites[3].stack).expect("a frame").0;
    let stack = profile.stacks.push(Stacks::CUT_ROOT, main);
    profile.sites.truncate(1);
    (profile.sites[0].stack, profile.sites[0].counts) = (stack, blocks(50, 1, 0, 0));
    assert_eq!(shown(&flame(&profile, ALL)), ["Whole 0+50 0", " MissingFrames 0+50 0", "  main 0+50 50"]);
    let callers = FlameOptions { callers: true, ..ALL };
    assert_eq!(shown(&flame(&profile, callers)), ["Whole 0+50 0", " main 0+50 0", "  MissingFrames 0+50 50"]);
}
