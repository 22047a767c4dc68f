//! Cycles of lost blocks, counted where memory that the program does not use has addresses of others.

use harness::{Run, directory, mallow, program};
use serde_json::Value;

/// Three of a hundred cycles have an address of another in memory that the program does not use. Where each has, they
/// are a list.
#[test]
fn a_stray_pointer_merges_no_cycles() {
    for (what, times, counted) in
        [("stray-cycles", "one leak, 100 times", 100), ("list-of-cycles", "one leak, once", 1)]
    {
        let place = directory();
        let record = ["record", "--no-report", "-o", "l.mallow", "--scan-all", "--"];
        let run = Run::new(mallow(), place.path()).args(record).arg(program("lost")).arg(what).go();
        assert_eq!(run.status, 7, "{}", run.err());
        let text = Run::new(mallow(), place.path()).args(["leaks", "l.mallow"]).go().out();
        assert!(text.contains(times), "{text}");
        let all = Run::new(mallow(), place.path()).args(["leaks", "l.mallow", "--json"]).go();
        let all: Value = serde_json::from_str(&all.out()).expect("JSON");
        let cycles = all["lost_cycles"].as_array().expect("cycles");
        let counts = |key: &str| cycles.iter().map(|cycle| cycle[key].as_u64()).collect::<Vec<_>>();
        assert_eq!((counts("count"), counts("blocks")), (vec![Some(counted)], vec![Some(200)]), "{what}");
    }
}

/// One pointer was dropped of each, and `delete` frees them whole: as valgrind has it, three blocks are lost, and what
/// these hold. Cycles of counted references come before all else.
#[test]
fn a_lost_container_is_no_cycle() {
    let place = directory();
    let record = ["record", "--no-report", "-o", "l.mallow", "--scan-all", "--"];
    let run = Run::new(mallow(), place.path()).args(record).arg(program("lost")).args(["containers", "cycles"]).go();
    assert_eq!(run.status, 7, "{}", run.err());
    let text = Run::new(mallow(), place.path()).args(["leaks", "l.mallow"]).go().out();
    let all = Run::new(mallow(), place.path()).args(["leaks", "l.mallow", "--json"]).go();
    let all: Value = serde_json::from_str(&all.out()).expect("JSON");
    let cycles = all["lost_cycles"].as_array().expect("cycles");
    assert_eq!(cycles.iter().map(|cycle| cycle["count"].as_u64()).collect::<Vec<_>>(), [Some(100)], "{text}");
    // Slots, nodes, keys and values; nodes and values of the tree; those of a list that is a member, and of one that is
    // a block.
    for held in ["3,001", "2,000", "1,000"].map(|held| format!("once, with {held} blocks that it holds")) {
        assert!(text.contains(&held), "{held} is not in\n{text}");
    }
    assert!(text.contains("lost: 100 cycles of open_session"), "{text}");
}
