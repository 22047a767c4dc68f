//! Swift's functions in every view: under names that people know, and without what Swift's library and compiler put in
//! between.

use std::path::Path;

use harness::{Run, directory, mallow, tool, workspace};
use serde_json::Value;

use crate::other_tools::ran;

/// What the functions of `targets/swift/shapes.c` are called, as swiftc 6.0 mangles them.
const NAMES: [(&str, &str); 7] = [
    ("allocate_object", "swift_allocObject"),
    (
        "create_new_buffer",
        "$ss22_ContiguousArrayBufferV20_consumeAndCreateNew14bufferIsUnique15minimumCapacity13growForAppendAByxGSb_SiSbtFSi_Tg5",
    ),
    ("grow", "$s3app4growySaySiGSiF"),
    ("outlined_copy", "$s3app4HeadVSgWOc"),
    ("closure", "$s3app5serve_6rounds5extraSi6NIOish4LoopC_S2itFSiAA4HeadVcfU_"),
    ("thunk", "$sIeg_ytIegr_TR"),
    ("serve", "$s3app5serve_6rounds5extraSi6NIOish4LoopC_S2itF"),
];

/// Builds the program and records it twice, the second time with 1,000 more allocations by one function.
fn recorded(place: &Path) {
    let source = workspace().join("tests/targets/swift/shapes.c").display().to_string();
    ran(Run::new(tool("cc"), place).args(["-O1", "-fno-optimize-sibling-calls", "-c", "-o", "shapes.o", &source]));
    let renamed = NAMES.map(|(from, to)| format!("--redefine-sym={from}={to}"));
    ran(Run::new(tool("objcopy"), place).args(&renamed).args(["shapes.o"]));
    ran(Run::new(tool("cc"), place).args(["-o", "shapes", "shapes.o"]));
    for (name, more) in [("before", &[][..]), ("after", &["more"])] {
        let recording = format!("{name}.mallow");
        let record = ["record", "--no-report", "-o", &recording, "./shapes"];
        ran(Run::new(mallow(), place).args(record).args(more));
    }
}

fn view(place: &Path, arguments: &[&str]) -> String {
    ran(Run::new(mallow(), place).args(arguments)).out()
}

#[test]
fn the_line_of_the_program_is_named_and_not_the_array_that_it_filled() {
    let directory = directory();
    let place = directory.path();
    recorded(place);
    let report = view(place, &["report", "--all", "after.mallow"]);
    let most: Vec<&str> = report.lines().skip_while(|line| !line.starts_with("Most allocations")).skip(1).collect();
    let via =
        "via specialized _ContiguousArrayBuffer._consumeAndCreateNew(bufferIsUnique:minimumCapacity:growForAppend:)";
    assert!(most[0].contains("1,100  grow(_:)") && most[0].contains(via), "{report}");
    assert!(most[0].contains("← serve(_:rounds:extra:) ← main"), "{report}");
    assert!(most[1].contains("100  closure #1 in serve(_:rounds:extra:)"), "{report}");
    assert!(most[1].contains("← serve(_:rounds:extra:) ← main") && !most[1].contains("thunk"), "{report}");
    let top = view(place, &["top", "--json", "--base", "before.mallow", "after.mallow"]);
    let top: Value = serde_json::from_str(&top).unwrap_or_else(|error| panic!("{error}: {top}"));
    assert_eq!(top["functions"][0]["function"], "app.grow(Swift.Int) -> [Swift.Int]", "{top:#}");
    assert_eq!(top["functions"][0]["self"]["change"], 1000, "{top:#}");
    assert_eq!(top["functions"].as_array().map(Vec::len), Some(1), "{top:#}");
    let diff = view(place, &["diff", "--stacks", "before.mallow", "after.mallow"]);
    let stacks = diff.lines().skip_while(|line| !line.starts_with("Stacks"));
    let stack: Vec<&str> = stacks.skip_while(|line| !line.starts_with("  +1,000")).collect();
    // Two functions of the library, and then the program's.
    assert!(stack.get(3).is_some_and(|line| line.trim_start().starts_with("grow(_:)")), "{diff}");
}

#[test]
fn names_are_whole_where_they_are_asked_for() {
    let directory = directory();
    let place = directory.path();
    recorded(place);
    let whole = view(place, &["tree", "--full-names", "--raw", "after.mallow"]);
    for name in [
        "generic specialization <Swift.Int> of Swift._ContiguousArrayBuffer._consumeAndCreateNew(bufferIsUnique: Swift.Bool",
        "app.serve(_: NIOish.Loop, rounds: Swift.Int, extra: Swift.Int) -> Swift.Int",
    ] {
        assert!(whole.contains(name), "{whole}");
    }
    assert!(!whole.contains("shapes+0x"), "an address where a name is known: {whole}");
    // Short names can be copied into a filter.
    let focused = view(place, &["top", "--focus", "closure #1 in serve(_:rounds:extra:)", "after.mallow"]);
    assert!(focused.contains("closure #1 in serve") && !focused.contains("grow(_:)"), "{focused}");
}
